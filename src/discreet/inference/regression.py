r"""Regressions in a population: the coefficients of each draw, in closed form or by Newton's method.

Of a draw that gives mass :math:`w_l` to record ``l``, with the formula's row :math:`x_l` and outcome :math:`y_l`, the
linear coefficients minimise :math:`\sum_l w_l (y_l - x_l^\top\beta)^2` and the logistic ones
:math:`\sum_l w_l(\log(1+e^{x_l^\top\beta}) - y_l x_l^\top\beta)`: what a regression of the whole population would give,
whether or not its model is true.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from discreet._core.arrays import Floats
from discreet._core.checks import choice
from discreet._core.errors import MissingExtra, ParameterError
from discreet._core.text import counted, harmless
from discreet.domain import Column, Domain, Records
from discreet.inference.functionals import require_column
from discreet.inference.line import Draws

_STEPS = 50
_CLOSE = 1e-9
_DEPENDENT = 1e-7


class Regression(NamedTuple):
    """The coefficients of a formula, shape (draws, coefficients): NaN where a draw has none."""

    names: list[str]
    draws: Floats
    notes: tuple[str, ...]


def regression(
    domain: Domain, support: Records, blocks: Iterable[Draws], formula: str, kind: str | None = None
) -> Regression:
    """Return each draw's coefficients. For parameters and errors see ``Posterior.regress``."""
    design = FormulaDesign(domain, formula)
    law = design.kind if kind is None else choice("kind", kind, ("linear", "logistic"))
    solutions: list[Floats] = []
    shared = basis = None
    for draws in blocks:
        if shared is None:
            records = support if len(support) or draws.own is None else draws.own
            shared = design.rows(records, levels=_levels(domain, support, draws))
            shared = _Rows(shared.x[: len(support)], shared.y[: len(support)])
        own = None if draws.own is None else design.rows(draws.own)
        if basis is None:
            basis = _basis(shared, own, draws, design.names)
            shared = shared.within(basis)
            outcomes = shared.y if own is None else np.append(shared.y, own.y)
            if law == "logistic" and not np.isin(outcomes, (0.0, 1.0)).all():
                raise ParameterError(
                    f"the outcome of {formula!r} must be 0 or 1 in a logistic regression. Leave the kind out"
                )
        parts = None if own is None else own.within(basis).split(len(draws.own_weights))
        for row, weights in enumerate(draws.weights):
            rows = shared
            mass = weights
            if parts is not None:
                rows, mass = shared.joined(parts[row]), np.concatenate((weights, draws.own_weights[row]))
            solutions.append(_coefficients(rows, mass, basis, law))
    coefficients = np.array(solutions)
    return Regression(design.names, coefficients, design.notes(law, coefficients))


class _Rows(NamedTuple):
    """Records as a formula sees them: ``x``, shape (rows, coefficients), and ``y``; both 0 where there is a null."""

    x: Floats
    y: Floats

    def joined(self, other: _Rows) -> _Rows:
        return _Rows(*map(np.concatenate, zip(self, other, strict=True)))

    def within(self, basis: Floats) -> _Rows:
        from scipy.linalg import solve_triangular

        return self._replace(x=solve_triangular(basis, self.x.T, trans="T").T)

    def split(self, parts: int) -> list[_Rows]:
        """Return the rows of each of so many draws."""
        cut = (np.split(array, parts) for array in self)
        return [_Rows(*part) for part in zip(*cut, strict=True)]


class FormulaDesign:
    """A formula on the columns of a domain: as formulaic reads it."""

    def __init__(self, domain: Domain, formula: str) -> None:
        try:
            from formulaic import Formula
            from formulaic.errors import FormulaicError
        except ImportError:
            raise MissingExtra("a formula needs formulaic", "formula") from None
        self.domain, self.text, self._failed = domain, formula, FormulaicError
        self._spec = self._read(lambda: Formula(formula))
        if not hasattr(self._spec, "lhs") or not hasattr(self._spec, "rhs"):
            raise ParameterError(f"the formula {formula!r} has no outcome. Write it as 'outcome ~ column + C(column)'")
        self.used = sorted(map(str, self._spec.required_variables))
        for name in self.used:
            require_column(domain, name)
        self.outcome = ", ".join(str(term) for term in self._spec.lhs).strip("`")
        column = domain.columns.get(self.outcome)
        self.binary = column is not None and len(column.labels or ()) == 2
        self.kind = "logistic" if self.binary else "linear"
        self.names: list[str] = []

    def rows(self, records: Records, *, levels: dict[str, Any] | None = None) -> _Rows:
        """Return the rows of records; the first call settles how labels become numbers, by their levels."""
        frame = self._frame(records, levels)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of pandas, about how formulaic uses it; of logarithms of zero
            matrices = self._read(
                lambda: self._spec.get_model_matrix(frame, context={}, na_action="drop", output="pandas")
            )
        if levels is not None:
            self._spec, self._level_names = matrices.model_spec, levels
            self.names = [str(name) for name in matrices.rhs.columns]
        if matrices.lhs.shape[1] != 1:
            raise ParameterError(f"the outcome {self.outcome!r} must be one column of numbers, or of two values")
        x, y, rows = np.zeros((len(frame), len(self.names))), np.zeros(len(frame)), matrices.rhs.index.to_numpy()
        x[rows], y[rows] = matrices.rhs.to_numpy(dtype=np.float64), matrices.lhs.to_numpy(dtype=np.float64)[:, 0]
        if not (np.isfinite(x).all() and np.isfinite(y).all()):
            raise ParameterError(f"the formula {self.text!r} is not finite at every value that its columns can have")
        return _Rows(x, y)

    def notes(self, kind: str, coefficients: Floats) -> tuple[str, ...]:
        """Return what the coefficients are, where values were put in for cells, and how many draws have none."""
        law = {"linear": "the linear projection of", "logistic": "the logistic regression, log-odds of"}[kind]
        outcome = f"{self.outcome} = {self.domain.columns[self.outcome].words[1]}" if self.binary else self.outcome
        notes = [f"coefficients of {law} {outcome} in the population, whether or not the model is true"]
        cells = [name for name in self.used if self.domain.columns[name].finite
                 and self.domain.columns[name].interval(np.zeros(1, dtype=np.int64)) is not None]  # fmt: skip
        if cells:
            notes.append(f"cells enter by their middles, which the intervals do not allow for: {', '.join(cells)}")
        none = int(np.isnan(coefficients).any(axis=1).sum())
        if none:
            notes.append(f"{counted(none, 'draw')} of {len(coefficients):,} have no coefficients, and are left out")
        return tuple(notes)

    def _frame(self, records: Records, levels: dict[str, Any] | None) -> Any:
        import pandas as pd

        levels = self._level_names if levels is None else levels
        values = {}
        for name in self.used:
            column, codes = self.domain.columns[name], records.columns[self.domain.names.index(name)]
            if name == self.outcome and self.binary:
                values[name] = np.where(np.asarray(codes) == 2, np.nan, np.asarray(codes, dtype=np.float64))
            elif name in levels:
                labels = np.append(_labels(column), [None])
                values[name] = pd.Categorical(labels[np.asarray(codes, dtype=np.int64)], categories=levels[name])
            elif column.open:
                raise ParameterError(f"column {name!r} holds open labels, which a formula cannot use. Leave it out")
            else:
                values[name] = column.positions(codes)
        return pd.DataFrame(values, index=range(len(records)))

    def _read(self, action: Any) -> Any:
        try:
            return action()
        except self._failed as problem:
            reason = harmless(str(problem).partition("\n")[0].rstrip("."))
        raise ParameterError(
            f"the formula {self.text!r} cannot be used: {reason}. Write 'outcome ~ column + C(column)'"
        )


def _levels(domain: Domain, support: Records, draws: Draws) -> dict[str, Any]:
    """Return the labels of each column of labels that records can have: all of them, where draws have their own."""
    levels = {}
    for (name, column), codes in zip(domain.columns.items(), support.columns, strict=True):
        if column.labels is not None:
            levels[name] = labels = _labels(column)
            if draws.own is None:
                levels[name] = labels[np.isin(np.arange(len(labels)), np.asarray(codes, dtype=np.int64))]
    return levels


def _labels(column: Column) -> Any:
    return np.array(column.labels, dtype=object)


def _basis(shared: _Rows, own: _Rows | None, draws: Draws, names: list[str]) -> Floats:
    """Return ``R`` of the QR decomposition of the rows at mean weights: in it, sums of products stay small."""
    mass, rows = np.nan_to_num(draws.weights).mean(axis=0), shared
    if own is not None:
        rows = shared.joined(own)
        mass = np.concatenate((mass, np.nan_to_num(draws.own_weights).ravel() / len(draws.own_weights)))
    weighted = rows.x * np.sqrt(mass)[:, None]
    r = np.asarray(np.linalg.qr(weighted, mode="r"), dtype=np.float64)
    left = np.zeros(len(names))
    left[: len(r)] = np.abs(np.diagonal(r))
    undetermined = np.flatnonzero(left <= _DEPENDENT * np.linalg.norm(weighted, axis=0))
    if len(undetermined):
        raise ParameterError(
            f"the coefficient of {names[int(undetermined[0])]!r} is not determined, given those before it. Leave it out"
        )
    return r


def _coefficients(rows: _Rows, weight: Floats, basis: Floats, kind: str) -> Floats:
    """Return the coefficients of one draw; NaN where they are not determined."""
    from scipy.linalg import solve_triangular

    try:
        if kind == "linear":
            solution = _solved((rows.x.T * weight) @ rows.x, rows.x.T @ (weight * rows.y))
        else:
            solution = _logistic(rows.x, rows.y, weight)
    except np.linalg.LinAlgError:
        return np.full(len(basis), np.nan)
    return np.asarray(solve_triangular(basis, solution, check_finite=False), dtype=np.float64)


def _solved(gram: Floats, right: Floats) -> Floats:
    if not np.isfinite(gram).all() or np.linalg.cond(gram) > 1.0 / _DEPENDENT**2:
        raise np.linalg.LinAlgError
    return np.asarray(np.linalg.solve(gram, right), dtype=np.float64)


def _logistic(z: Floats, y: Floats, weight: Floats) -> Floats:
    """Return the coefficients by Newton's method with halved steps; NaN where there is no finite optimum."""
    beta, loss = np.zeros(z.shape[1]), np.inf
    for _ in range(_STEPS):
        eta = z @ beta
        mean = 1.0 / (1.0 + np.exp(-np.clip(eta, -500.0, 500.0)))
        loss = _loss(eta, y, weight)
        step = _solved((z.T * (weight * mean * (1.0 - mean))) @ z, z.T @ (weight * (y - mean)))
        while _loss(z @ (beta + step), y, weight) > loss + _CLOSE * abs(loss) and np.abs(step).max() > _CLOSE:
            step = step / 2
        beta = beta + step
        if np.abs(step).max() <= _CLOSE * (1.0 + np.abs(beta).max()):
            return beta
    return np.full(z.shape[1], np.nan)


def _loss(eta: Floats, y: Floats, weight: Floats) -> float:
    return float(weight @ (np.logaddexp(0.0, eta) - y * eta))
