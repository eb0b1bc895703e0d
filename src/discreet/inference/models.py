"""Models: regressions in a population, draw by draw, and models of released records in NumPyro.

A draw's coefficients are those of the whole population, its records weighed by their mass: least squares, or log-odds.
"""

from __future__ import annotations

import ast
import json
import math
import re
import warnings
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from discreet._core.boundary import sealed
from discreet._core.errors import DiscreetWarning, MissingExtra, ParameterError, ReleaseTakenForSample, choice, integer
from discreet._core.lazy import pd
from discreet._core.numeric import Booleans, Floats, logistic_coefficients, solved
from discreet._core.text import counted, harmless
from discreet.domain import Column, Domain, Records
from discreet.inference.functionals import require_column
from discreet.inference.line import Draws
from discreet.inference.released import read_release
from discreet.inference.summary import effective_sample_size, r_hat

_DEPENDENT = 1e-7


class Regression(NamedTuple):
    """The coefficients of a formula, shape (draws, coefficients): NaN where a draw has none."""

    names: list[str]
    draws: Floats
    notes: tuple[str, ...]


def regression(domain: Domain, support: Records, blocks: Iterable[Draws], formula: str, kind: str | None) -> Regression:
    """Return each draw's coefficients. For parameters and errors see ``Posterior.regress``."""
    design = FormulaDesign(domain, formula)
    law = design.kind if kind is None else choice("kind", kind, ("linear", "logistic"))
    solutions: list[Floats] = []
    shared = basis = None
    for draws in blocks:
        if shared is None:
            records = support if len(support) or draws.own is None else draws.own
            shared = design.rows(records, levels=_present_labels(domain, support, draws))
            shared = _Rows(shared.x[: len(support)], shared.y[: len(support)])
        own = _Rows(shared.x[:0], shared.y[:0]) if draws.own is None else design.rows(draws.own)
        if basis is None:
            basis = _triangle(shared.joined(own), draws, design.names)
            shared = shared.within(basis)
            if law == "logistic" and not np.isin(np.append(shared.y, own.y), (0.0, 1.0)).all():
                raise ParameterError(f"a logistic outcome must be 0 or 1: {formula!r}. Leave the kind out")
        parts = own.within(basis).split(len(draws.own_weights))
        for part, masses in zip(parts, np.concatenate((draws.weights, draws.own_weights), axis=1), strict=True):
            solutions.append(_coefficients_of_draw(shared.joined(part), masses, basis, law))
    coefficients = np.array(solutions)
    return Regression(design.names, coefficients, design.notes(law, coefficients))


class _Rows(NamedTuple):
    """Records as a formula sees them: ``x``, shape (rows, coefficients), and ``y``; both 0 where there is a null."""

    x: Floats
    y: Floats

    def joined(self, rows: _Rows) -> _Rows:
        return _Rows(*map(np.concatenate, zip(self, rows, strict=True))) if len(rows.y) else self

    def within(self, basis: Floats) -> _Rows:
        from scipy.linalg import solve_triangular

        return self._replace(x=solve_triangular(basis, self.x.T, trans="T").T)

    def split(self, parts: int) -> list[_Rows]:
        return list(map(_Rows, *(np.split(array, parts) for array in self)))


FUNCTIONS = {
    "": "C I Q log log2 log10 exp exp2 exp10 poly bs cs cr cc center scale standardize",
    "np": "abs exp expm1 log log1p log2 log10 maximum minimum sign sqrt",
    "contr": "diff helmert poly sas sum treatment",
}
"""What a formula may call, by the module: functions that do nothing but compute."""

_ARITHMETIC: tuple[type[ast.AST], ...] = (
    *(ast.Expression, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Compare, ast.keyword),
    *(ast.operator, ast.unaryop, ast.cmpop, ast.Load),
)


def require_listed(expression: str, columns: Collection[str]) -> None:
    """Refuse a part of a formula beyond arithmetic and listed functions of columns: it would be run as code."""
    nodes = list(ast.walk(ast.parse(expression, mode="eval")))
    listed = {*columns, *FUNCTIONS[""].split(), *FUNCTIONS}
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            known = node.attr in FUNCTIONS.get(node.value.id, "").split()
        elif isinstance(node, ast.Name):
            known = node.id in listed
        elif isinstance(node, ast.Call):
            known = isinstance(node.func, (ast.Name, ast.Attribute))
        else:
            known = isinstance(node, _ARITHMETIC)
        if not known:
            functions = [f"{owner}.{name}".lstrip(".") for owner, names in FUNCTIONS.items() for name in names.split()]
            raise ParameterError(
                f"{ast.unparse(node)!r} is neither a column nor anything else that a formula may use. It may use "
                f"columns, arithmetic, comparisons and {', '.join(functions)}"
            )


class FormulaDesign:
    """A formula on the columns of a domain: as formulaic reads it."""

    def __init__(self, domain: Domain, formula: str) -> None:
        try:
            from formulaic import Formula
            from formulaic.errors import FormulaicError
        except ImportError:
            raise MissingExtra("a formula needs formulaic", "formula") from None
        self.domain, self.text, self._failed = domain, formula, FormulaicError
        # a dot or a parenthesis in a quoted name would be read as an attribute or a call
        self._aliases = {f"quoted_column_{i}_": n for i, n in enumerate(domain.names) if f"`{n}`" in formula}
        for alias, name in self._aliases.items():
            formula = formula.replace(f"`{name}`", alias)
        bare = [f"`{name}`" for name in domain.names if not name.isidentifier() and name not in self._aliases.values()]
        self._hint = "".join(f". Names such as {name} stand in backticks" for name in bare[:1])
        self._spec = self._read(lambda: Formula(formula))
        if not hasattr(self._spec, "lhs") or not hasattr(self._spec, "rhs"):
            raise ParameterError(f"formula {self.text!r} has no outcome. Write it as 'outcome ~ column + C(column)'")
        factors = [factor for side in (self._spec.lhs, self._spec.rhs) for term in side for factor in term.factors]
        for method, expression in ((factor.eval_method.value, str(factor.expr)) for factor in factors):
            if method == "lookup":
                self._read(partial(require_column, domain, self._named(expression)))
            elif method == "python":
                self._read(partial(require_listed, expression, (*domain.names, *self._aliases)))
        self.used = sorted(self._named(str(name)) for name in self._spec.required_variables)
        for name in self.used:
            self._read(partial(require_column, domain, name))
        self.outcome = self._named(", ".join(str(term) for term in self._spec.lhs).strip("`"))
        column = domain.columns.get(self.outcome)
        self.binary = column is not None and _are_declared(column).sum() == 2
        self.two_values = self.binary
        if column is not None and column.values == 2 and column.on_a_line:
            self.two_values = column.positions(np.arange(2)).tolist() == [0.0, 1.0]
        self.kind = "logistic" if self.binary else "linear"
        self.names: list[str] = []

    def rows(self, records: Records, *, levels: dict[str, Any] | None = None) -> _Rows:
        """Return the rows of records; the first call settles how labels become numbers, by their levels."""
        frame = self._frame(records, levels)
        with warnings.catch_warnings(action="ignore"):  # of pandas, about how it is used; of logarithms of zero
            matrices = self._read(
                lambda: self._spec.get_model_matrix(frame, context={}, na_action="drop", output="pandas")
            )
        if levels is not None:
            self._spec, self._level_names = matrices.model_spec, levels
            self.names = [self._named(str(name)) for name in matrices.rhs.columns]
        if matrices.lhs.shape[1] != 1:
            raise ParameterError(f"the outcome {self.outcome!r} must be one column of numbers, or of two values")
        rows, number = matrices.rhs.index.to_numpy(), len(records)
        x, y = np.zeros((number, len(self.names))), np.zeros(number)
        x[rows], y[rows] = matrices.rhs.to_numpy(dtype=np.float64), matrices.lhs.to_numpy(dtype=np.float64)[:, 0]
        if not (np.isfinite(x).all() and np.isfinite(y).all()):
            raise ParameterError(f"the formula {self.text!r} is not finite at every value that its columns can have")
        return _Rows(x, y)

    def notes(self, kind: str, coefficients: Floats) -> tuple[str, ...]:
        """Return what the coefficients are, where values were put in for cells, and how many draws have none."""
        law = {"linear": "the linear projection of", "logistic": "the logistic regression, log-odds of"}[kind]
        outcome = f"{self.outcome} = {self.domain.columns[self.outcome].words[1]}" if self.binary else self.outcome
        notes = [f"coefficients of {law} {outcome} in the population, whether or not the model is true"]
        if kind == "linear" and self.two_values:
            notes[0] += f". {self.outcome} has two values: for log-odds write kind='logistic'"
        cells = [name for name in self.used if self.domain.columns[name].finite
                 and self.domain.columns[name].interval(np.zeros(1, dtype=np.int64)) is not None]  # fmt: skip
        if cells:
            notes.append(f"cells enter by their middles, which the intervals do not allow for: {', '.join(cells)}")
        if open_ended := [name for name in self.used if not _are_declared(self.domain.columns[name]).all()]:
            named = ", ".join(open_ended)
            notes.append(f"records with 'other', which stands for values not declared, are left out: {named}")
        none = int(np.isnan(coefficients).any(axis=1).sum())
        if none:
            notes.append(f"{counted(none, 'draw')} of {len(coefficients):,} have no coefficients, and are left out")
        return tuple(notes)

    def _frame(self, records: Records, levels: dict[str, Any] | None) -> Any:
        if levels is None:
            levels = self._level_names
        values, aliases = {}, {name: alias for alias, name in self._aliases.items()}
        codes_of = {name: np.asarray(records.columns[self.domain.names.index(name)]) for name in self.used}
        fit = np.ones(len(records), dtype=np.bool_)
        for name, codes in codes_of.items():
            fit &= ~np.isin(codes, np.flatnonzero(~_are_declared(self.domain.columns[name])))
        for name, all_codes in codes_of.items():
            column, codes = self.domain.columns[name], all_codes[fit]
            if name == self.outcome and self.binary:
                second = np.flatnonzero(_are_declared(column))[1]
                values[name] = np.where(codes == len(column.labels or ()), np.nan, codes == second)
            elif name in levels:
                labels = np.array([*(column.labels or ()), None], dtype=object)
                values[name] = pd.Categorical(labels[codes.astype(np.int64)], categories=levels[name])
            elif column.open:
                raise ParameterError(f"column {name!r} holds open labels, which a formula cannot use. Leave it out")
            else:
                values[name] = column.positions(codes)
        return pd.DataFrame(values, index=np.flatnonzero(fit)).rename(columns=aliases)

    def _named(self, text: str) -> str:
        """Return a text of formulaic with columns by their own names."""
        return re.sub(r"quoted_column_\d+_", lambda match: self._aliases.get(match[0], match[0]), text)

    def _read(self, action: Any) -> Any:
        try:
            return action()
        except (self._failed, SyntaxError) as problem:
            reason = harmless(str(problem).partition("\n")[0].rstrip("."))
            reason = f"the formula {self.text!r} cannot be used: {reason}. Write 'outcome ~ column + C(other)'"
        except ParameterError as problem:
            reason = str(problem)
        raise ParameterError(reason + self._hint)


def _are_declared(column: Column) -> Booleans:
    """Return which labels of a column are declared: not the one that stands for other values, which is as a null."""
    return np.array([not label == column.out_of_bounds == "other" for label in column.labels or ()], dtype=np.bool_)


def _present_labels(domain: Domain, support: Records, draws: Draws) -> dict[str, Any]:
    """Return the labels of each column of labels that records can have: all of them, where draws have their own."""
    levels = {name: np.array(c.labels, dtype=object) for name, c in domain.columns.items() if c.labels is not None}
    for name, labels in levels.items():
        kept = _are_declared(domain.columns[name])
        if draws.own is None:
            kept &= np.isin(np.arange(len(labels)), support.columns[domain.names.index(name)])
        levels[name] = labels[kept]
    return levels


def _triangle(rows: _Rows, draws: Draws, names: list[str]) -> Floats:
    """Return ``R`` of the QR decomposition of the rows at mean weights: in it, sums of products stay small."""
    own = np.nan_to_num(draws.own_weights).ravel() / len(draws.own_weights)
    masses = np.append(np.nan_to_num(draws.weights).mean(axis=0), own)
    weighted = rows.x * np.sqrt(masses)[:, None]
    r = np.asarray(np.linalg.qr(weighted, mode="r"), dtype=np.float64)
    remainders = np.append(np.abs(np.diagonal(r)), np.zeros(len(names) - len(r)))
    undetermined = np.flatnonzero(remainders <= _DEPENDENT * np.linalg.norm(weighted, axis=0))
    if len(undetermined):
        raise ParameterError(
            f"the coefficient of {names[int(undetermined[0])]!r} is not determined, given those before it. Leave it out"
        )
    return r


def _coefficients_of_draw(rows: _Rows, weight: Floats, basis: Floats, kind: str) -> Floats:
    """Return the coefficients of one draw; NaN where they are not determined."""
    from scipy.linalg import solve_triangular

    try:
        if kind == "linear":
            solution = solved((rows.x.T * weight) @ rows.x, rows.x.T @ (weight * rows.y))
        else:
            solution = logistic_coefficients(rows.x, rows.y, weight)
    except np.linalg.LinAlgError:
        return np.full(len(basis), np.nan)
    return np.asarray(solve_triangular(basis, solution, check_finite=False), dtype=np.float64)


def inference_data(posterior: dict[str, Floats], facts: dict[str, Any]) -> Any:
    """Return draws of shape ``(chains, draws, ...)`` as ``InferenceData`` (ArviZ 0) or ``xarray.DataTree`` (1)."""
    try:
        with warnings.catch_warnings(action="ignore", category=FutureWarning):  # version 0 announces version 1
            import arviz
            import xarray
    except ImportError:
        raise MissingExtra("this needs ArviZ", "bayes") from None
    variables = {
        name: (("chain", "draw", *(f"{name}_{i}" for i in range(values.ndim - 2))), values)
        for name, values in posterior.items()
    }
    texts = {key: json.dumps(value) for key, value in facts.items() if not isinstance(value, (str, int, float))}
    dataset = xarray.Dataset(variables, attrs={"inference_library": "discreet", **facts, **texts})
    if int(arviz.__version__.partition(".")[0]) == 0:
        return arviz.InferenceData(posterior=dataset)
    return xarray.DataTree.from_dict({"posterior": dataset})


@sealed
class NotConverged(DiscreetWarning):
    """Markov chains gave up: their draws are worth less than was asked for, or they do not agree."""


_LARGE_SHARE = 0.05  # 2 m / n from which the width of an interval changes visibly


@sealed
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fit:
    """What NUTS drew, and whether to rely on it.

    ``data``, an InferenceData or DataTree: draws by parameter, for ArviZ.
    ``draws``: by parameter too, as arrays of shape (chains, draws, ...).
    ``effective_draws``, ``r_hat``: the least effective sample size and the largest R-hat over all scalars.
    ``divergences``: divergent transitions; any makes the draws doubtful.
    """

    data: Any
    draws: dict[str, Any]
    effective_draws: float
    r_hat: float
    divergences: int


@sealed
def fit(
    model: Callable[..., None],
    release: Any,
    facts: Any = None,
    *,
    draws: int = 1000,
    warm_up: int = 1000,
    chains: int = 4,
    seed: int = 0,
    **options: Any,
) -> Fit:
    """Draw from the posterior of a NumPyro model with the released records as its data.

    Parameters
    ----------
    model : callable
        A NumPyro model ``model(data)``. ``data`` is a dict: for each column an array, one entry per released record
        (its value, or the middle of its cell; the code of a category or boolean; days or seconds for dates and times).
    release, facts
        As for :func:`process_posterior`.
    draws, warm_up : int
        Draws kept and spent on adaptation, per chain.
    chains : int
        Number of chains, at least 2: one cannot disagree with itself.
    seed : int
        Everything here is public.
    **options
        Passed on to ``numpyro.infer.NUTS``.

    Raises
    ------
    ParameterError
        When NumPyro is missing, or there are too few chains or draws.

    Warns
    -----
    ReleaseTakenForSample
        When the certificate says that so many records were released from so few that the model's intervals, which take
        them for observations, are visibly too short.
    NotConverged
        When R-hat is above 1.01, fewer than 100 effective draws per chain, or transitions diverged; with the numbers.

    References
    ----------
    BNP24, section 6.2; docs/theory/posterior-from-a-release.md for what it leaves out.
    """
    integer("chains", chains, least=2)
    integer("draws", draws, least=10)
    try:
        with warnings.catch_warnings(action="ignore"):  # what JAX says of the machine
            import jax
            from numpyro.infer import MCMC, NUTS
    except ImportError:
        raise MissingExtra("this needs NumPyro", "bayes") from None
    z = read_release(release, facts)
    if z.n_held is not None and 2.0 * z.size / z.n_held > _LARGE_SHARE:
        remedy = "take the posterior from process_posterior, or the urn's rule in combine"
        warnings.warn(ReleaseTakenForSample(int(z.size), z.n_held, remedy), stacklevel=2)
    rows = np.repeat(np.arange(len(z.counts)), z.counts.astype(np.int64))
    data = {}
    for (name, column), codes in zip(z.domain.columns.items(), z.records.columns, strict=True):
        if column.open:
            raise ParameterError(f"column {name!r} holds open labels, which are no numbers. Leave it out of the domain")
        data[name] = (column.positions(codes) if column.labels is None else np.asarray(codes))[rows]
    with warnings.catch_warnings(action="ignore"):
        sampler = MCMC(NUTS(model, **options), num_warmup=warm_up, num_samples=draws, num_chains=chains,
                       chain_method="vectorized", progress_bar=False)  # fmt: skip
        sampler.run(jax.random.PRNGKey(seed), data)
    parameters = {name: np.asarray(part) for name, part in sampler.get_samples(group_by_chain=True).items()}
    divergences = int(np.asarray(sampler.get_extra_fields()["diverging"]).sum())
    scalars = [part.reshape(chains, draws, -1)[:, :, i] for part in parameters.values()
               for i in range(math.prod(part.shape[2:]))]  # fmt: skip
    effective, agreement = min(map(effective_sample_size, scalars)), max(map(r_hat, scalars))
    if agreement > 1.01 or effective < 100 * chains or divergences:
        warnings.warn(
            f"do not rely on these draws yet: R-hat {agreement:.3f} (at most 1.01), effective draws {effective:,.0f} "
            f"(at least {100 * chains}), divergent transitions {divergences:,} (none). Run longer or rewrite the model",
            NotConverged,
            stacklevel=2,
        )
    numbers: dict[str, Any] = {"r_hat": agreement, "effective_draws": effective, "divergences": divergences}
    return Fit(data=inference_data(parameters, {"released": z.size, **numbers}), draws=parameters, **numbers)
