"""The risk-utility frontier: what each weighting costs in privacy and keeps in statistics. Confidential throughout."""

from __future__ import annotations

import hashlib
import html
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

from discreet._core.boundary import sealed
from discreet._core.errors import FileProblem, ParameterError, Refused, choice, integer
from discreet._core.files import own_folder, together
from discreet._core.lazy import pl
from discreet._core.numeric import Arrays, Floats
from discreet._core.page import NOTICE, OWN, write_own
from discreet._core.random import seeded
from discreet._core.text import about, aligned
from discreet.confidential import open_confidential, row_values
from discreet.domain import Domain, Records
from discreet.pseudo_posterior.likelihood import Columns
from discreet.pseudo_posterior.models import codes_of, numbers_of
from discreet.pseudo_posterior.pseudo import PseudoPosterior
from discreet.pseudo_posterior.synthesiser import Synthesiser
from discreet.pseudo_posterior.weights import LinearWeights, Risks, Unweighted, Weighting
from discreet.utility import Disclosure, DistinctRows, disclosure_cells, disclosures, mean_attacks, tables


def held_rows(table: Any, domain: Domain) -> pl.DataFrame:
    """Return the declared columns of a confidential table, a row per record, in an order of their values."""
    frame, frequencies = open_confidential(row_values(table, domain.columns), caller=__name__)
    return frame[np.repeat(np.arange(frame.height), frequencies)].sort(domain.names, nulls_last=True)


def held_columns(frame: pl.DataFrame, domain: Domain) -> Arrays:
    """Return what a model reads of a table."""
    return {name: numbers_of(column, column.encode(frame[name], name=name)) for name, column in domain.columns.items()}


Attack = Callable[[Sequence[Columns], Generator], tuple[Disclosure, ...]]
"""Returns the mean over synthetic tables of what an intruder reaches in each by itself."""


def attack_of(
    synthesiser: Synthesiser,
    columns: Columns,
    domain: Domain | None,
    *,
    column: str,
    known: str | Sequence[str] | None,
    holdout: Any,
    rng: Generator,
) -> Attack:
    """Return the attack of an intruder who knows some columns of a record. Raises ParameterError for wrong columns."""
    if domain is None:
        if not (known is None and holdout is None):
            raise ParameterError("known columns and a holdout are of use with a domain only. Write domain=...")
        return lambda *_: ()
    names = {*synthesiser.sensitive, *synthesiser.given}
    released = Domain(columns={name: column for name, column in domain.columns.items() if name in names})
    data = _model_rows(columns, released, rng)
    control: DistinctRows | None = None
    if holdout is not None:
        control = _rows(held_rows(holdout, released), released, "in the holdout: ")
    attack = partial(disclosures, data, control=control, sensitive=column, known=known)
    attack(data.cut(1, rng), rng=rng)  # a wrong name is refused before anything is fitted
    return lambda tables, rng: mean_attacks([attack(_model_rows(table, released, rng), rng=rng) for table in tables])


def _rows(frame: pl.DataFrame, domain: Domain, where: str = "") -> DistinctRows:
    (rows,) = tables([(frame, where)], domain, lambda table: (table, np.ones(table.height, dtype=np.int64)))
    return rows


def _model_rows(columns: Columns, domain: Domain, rng: Generator) -> DistinctRows:
    codes = []
    for name, column in domain.columns.items():
        values = np.asarray(columns[name])
        codes.append(codes_of(column, values, name, rng=rng))
        if column.nullable and column.labels is None:
            codes[-1][np.isnan(values)] = column.null_code
    return _rows(domain.decode(Records(columns=tuple(codes)), rng=rng), domain)


Statistic = Callable[[Floats], float]

LEAST_EFFECTIVE = 400
"""Independent draws that a maximum over draws is to rest on."""


def barycentre(samples: Sequence[npt.ArrayLike], *, size: int = 1000) -> Floats:
    r"""Return the Wasserstein-2 barycentre of distributions on the line: the average of their quantiles (PP22, 5.2)."""
    if not len(samples) or min(map(np.size, samples)) == 0 or size < 1:
        raise ParameterError("a barycentre needs at least one sample, none of them empty, and a size of at least 1")
    levels = (np.arange(size) + 0.5) / size
    quantiles = [np.quantile(np.asarray(x, dtype=np.float64), levels, method="inverted_cdf") for x in samples]
    return np.asarray(np.mean(quantiles, axis=0))


def resampled(values: npt.ArrayLike, statistic: Statistic, *, rng: Generator, resamples: int = 500) -> Floats:
    """Return the resampling distribution of a statistic of one column: of samples drawn with replacement."""
    x = np.asarray(values, dtype=np.float64)
    return np.array([float(statistic(x[rng.integers(len(x), size=len(x))])) for _ in range(resamples)])


@sealed
def across_tables(
    tables: Sequence[npt.ArrayLike], statistic: Statistic, *, rng: Generator, resamples: int = 500, size: int = 500
) -> Floats:
    """Return the barycentre of a statistic's resampling distributions in several tables, as in PP22's Figures 5 to 7.

    Parameters
    ----------
    tables : sequence of array_like of float
        The same column of each table.
    statistic, rng, resamples
        As for :func:`resampled`.
    size : int
        As for :func:`barycentre`.
    """
    return barycentre([resampled(t, statistic, rng=rng, resamples=resamples) for t in tables], size=size)


@sealed
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class FrontierPoint:
    """One weighting, its local bound, and what its tables keep. Confidential.

    ``label``: name of the weighting. ``failed``: why there is no fit, in words.
    ``lipschitz``, ``epsilon``: PP22's local bound, a maximum over draws, and the local epsilon of one table.
    ``quantile``: the 95 % quantile over draws of that bound, with its 95 % limits by effective draws. It does not
    grow with the number of draws, as the maximum does.
    ``mean_weight``: average weight of a record. ``r_hat``, ``effective``, ``divergent``: of the chains.
    ``statistics``, ``data``: quantiles (of levels 2.5, 25, 50, 75 and 97.5 %) of each statistic's resampling
    distribution across tables, and in the confidential table.
    ``disclosure``: what attacks on single records reach in its tables, the mean over tables by themselves, where a
    domain was given. See :func:`~discreet.utility.compare`.
    """

    label: str
    lipschitz: float = 0.0
    quantile: tuple[float, ...] = ()
    epsilon: float = 0.0
    mean_weight: float = 0.0
    r_hat: float = 1.0
    effective: float = 0.0
    divergent: float = 0.0
    statistics: dict[str, tuple[float, ...]] = field(default_factory=dict)
    data: dict[str, tuple[float, ...]]
    failed: str | None = None
    disclosure: tuple[Disclosure, ...] = ()

    def error(self, statistic: str) -> float:
        """Return how far the median of a statistic is from that of the confidential table."""
        return abs(self.statistics[statistic][2] - self.data[statistic][2])


@sealed
def frontier(
    mechanism: PseudoPosterior,
    columns: Columns,
    weightings: Mapping[str, Weighting],
    statistics: Mapping[str, Statistic],
    *,
    column: str,
    folder: str | os.PathLike[str],
    seed: int,
    resamples: int = 200,
    progress: Callable[[int], None] | None = None,
    domain: Domain | None = None,
    known: str | Sequence[str] | None = None,
    holdout: Any = None,
) -> list[FrontierPoint]:
    """Fit every weighting, and measure its bound and its tables.

    The unweighted posterior is fitted once per call. The points are kept in a file as they come: a call that is
    interrupted leaves those that are done. A point depends on its label, its weighting and the seed, not on others.

    Parameters
    ----------
    mechanism : PseudoPosterior
        Model, chains and number of tables; its weighting is not used. Where chains did not converge, or are worth
        fewer than 400 draws, the point says so and has no numbers.
    columns : mapping of str to ndarray
        Confidential.
    weightings : mapping of str to Weighting
        What to compare, by name.
    statistics : mapping of str to callable
        Functions of one column's values, by name; picklable where there are several workers.
    column : str
        The sensitive column that they are computed on.
    folder : path
        **Confidential**: where the points are kept, in a file ``points.json`` that is marked so. It has to be empty, or
        not to exist.
    seed : int
        Source of everything: nothing here is for publication.
    resamples : int
        Resamples a table.
    progress : callable, optional
        Called with the number of points that are done, a public number.
    domain : Domain, optional
        Public: the declaration of the columns. With it the tables are attacked: how often is the value of ``column``
        found for a record of which others are known? The points then have ``disclosure``.
    known : str or sequence of str, optional
        The columns that an intruder knows of a record; all but ``column`` by default.
    holdout : dataframe, str or path, optional
        Confidential records of the same population that are not in the table: the control of the attacks. Without it
        nobody can say what of their rates is learned from the population.

    Returns
    -------
    list of FrontierPoint
        In the order of ``weightings``. Confidential.

    Raises
    ------
    FileProblem
        When the folder holds other files.
    ParameterError
        When the column is not sensitive, there are fewer than 400 draws, or known columns or a holdout are given
        without a domain.
    Refused
        When the unweighted posterior's chains did not converge, or are worth fewer than 400 draws.
    """
    synthesiser = mechanism.synthesiser
    choice("column", column, synthesiser.sensitive)
    integer("draws times chains", mechanism.draws * mechanism.chains, least=LEAST_EFFECTIVE)
    least = max(mechanism.convergence.effective, LEAST_EFFECTIVE / mechanism.chains)
    mechanism = replace(mechanism, convergence=replace(mechanism.convergence, effective=least))
    attack = attack_of(synthesiser, columns, domain, column=column, known=known, holdout=holdout, rng=seeded(seed))
    where = Path(folder)
    own_folder(where, private=True)
    if any(not path.name.startswith(".") for path in where.iterdir()):
        remedy = "name an empty folder, or one that does not exist"
        raise FileProblem(where, "it holds other files already, which may be those of an earlier frontier", remedy)
    rng, sampler = seeded(seed), mechanism.sampler(columns)
    unweighted = mechanism.unweighted_draws(sampler, rng=rng)
    data = {
        name: _quantiles(resampled(columns[column], statistic, rng=rng, resamples=5 * resamples))
        for name, statistic in statistics.items()
    }
    risks = Risks.from_draws(sampler, unweighted)

    def fitted(label: str, weighting: Weighting) -> FrontierPoint:
        point = partial(FrontierPoint, label=label, data=data)
        rng = seeded(seed + int.from_bytes(hashlib.sha256(label.encode()).digest()[:6], "big"))
        try:
            fit = mechanism.refit(sampler, unweighted, risks, weighting, rng=rng)
        except Refused as reason:
            return point(failed=str(reason))
        if not math.isfinite(fit.lipschitz):
            return point(failed="no bound is finite: a record that counts has likelihood 0")
        facts: dict[str, Any] = {name: getattr(fit.draws, name) for name in ("r_hat", "effective", "divergent")}
        if not math.isfinite(fit.draws.r_hat):
            return point(failed="the chains do not move. Take more warm-up draws")
        tables = mechanism.synthesise(fit, columns, rng=rng)
        values = [table[column] for table in tables]
        summaries = {
            name: _quantiles(across_tables(values, statistic, rng=rng, resamples=resamples))
            for name, statistic in statistics.items()
        }
        facts |= {"lipschitz": fit.lipschitz, "quantile": fit.bounds.quantile(mechanism.chains), "epsilon": fit.epsilon}
        weight = float(fit.weights.mean())
        return point(statistics=summaries, disclosure=attack(tables, rng), mean_weight=weight, **facts)

    settings = {"confidential": True, "notice": NOTICE, "synthesiser": repr(synthesiser), "column": column,
                "seed": seed, "resamples": resamples}  # fmt: skip
    points: list[FrontierPoint] = []
    for label, weighting in weightings.items():
        points.append(fitted(label, weighting))
        settings["points"] = [{"weighting": repr(weightings[point.label]), **asdict(point)} for point in points]
        with together(where / "points.json", private=True) as (file,):
            file.write((json.dumps(settings, indent=2, allow_nan=False) + "\n").encode())
        if progress is not None:
            progress(len(points))
    return points


def _quantiles(values: Floats) -> tuple[float, ...]:
    return tuple(float(q) for q in np.quantile(values, (0.025, 0.25, 0.5, 0.75, 0.975)))


LADDER: Mapping[str, Weighting] = {
    "unweighted": Unweighted(),
    **{f"linear, c = {c}": LinearWeights(c=c) for c in (1.0, 0.8, 0.6, 0.4, 0.2)},
}
"""From no weights to small ones: PP22's linear map, of which the smaller c is, the less a record counts."""

PAGE = "frontier.html"
_MOST_SHARES = 8


@sealed
def frontier_page(points: Sequence[FrontierPoint], out: str | os.PathLike[str]) -> Path:
    """Write a frontier as one HTML page without any other file: choose a statistic and an epsilon. Confidential.

    Parameters
    ----------
    points : sequence of FrontierPoint
        What :func:`frontier` returned.
    out : path
        The file.
    """
    shown = [point for point in points if point.failed is None]
    facts = ("label", "epsilon", "lipschitz", "quantile", "effective", "statistics", "data")
    if not shown:
        raise ParameterError("there is no point to show, since every weighting failed")
    document = [
        {
            **{name: getattr(point, name) for name in facts},
            "weight": point.mean_weight,
            "error": {name: point.error(name) for name in point.statistics},
            "attacks": {attack.attack: disclosure_cells(attack)[2:] for attack in point.disclosure},
        }
        for point in shown
    ]
    # A closing script tag within a label must not end the script.
    data, tried = json.dumps(document, allow_nan=False).replace("<", "\\u003c"), shown[0].disclosure
    template = Path(__file__).with_name("page").joinpath(PAGE).read_text("utf-8")
    if not tried:
        template = re.sub("(?s)<!-- attacks -->.*<!-- /attacks -->\n", "", template)
    parts = {"OWN": OWN, "NOTICE": NOTICE, "DATA": data, "OPTIONS": _options(shown[0].statistics)}
    parts |= {
        "COLUMN": html.escape(tried[0].of) if tried else "",
        "CONTROL": ""
        if any(a.control for a in tried)
        else " No holdout was given, so there is nothing to compare with.",
        "ATTACKS": _options(attack.attack for attack in tried),
        "HOW": "".join(f"<li>{html.escape(attack.attack)}: {html.escape(attack.how)}</li>" for attack in tried),
    }
    path = Path(out)
    write_own(path, re.sub("@([A-Z]+)@", lambda hole: parts[hole[1]], template), private=True)
    return path


def _options(names: Iterable[str]) -> str:
    return "".join(f"<option>{html.escape(name)}</option>" for name in names)


def ladder(
    data: Any,
    domain: Domain,
    mechanism: PseudoPosterior,
    *,
    folder: str | os.PathLike[str],
    known: Sequence[str] | None,
    holdout: Any,
    **options: Any,
) -> list[FrontierPoint]:
    """Fit each weighting of the ladder to a confidential table, and write points and page into a folder."""
    column = mechanism.synthesiser.sensitive[0]
    statistics: dict[str, Statistic] = {
        f"share of {word}": lambda values, code=code: float(np.mean(values == code))  # type: ignore[misc]
        for code, word in enumerate(domain.columns[column].words[:_MOST_SHARES])
    }
    if not statistics:
        statistics = {"mean": np.mean, "median": np.median, "90 % quantile": partial(np.quantile, q=0.9)}
    if known is not None or holdout is not None or mechanism.synthesiser.given:
        options |= {"domain": domain, "known": known, "holdout": holdout}
    columns = held_columns(held_rows(data, domain), domain)
    points = frontier(mechanism, columns, LADDER, statistics, column=column, folder=folder, **options)
    if all(point.failed for point in points):
        raise Refused(f"no weighting could be fitted: {points[0].failed}")
    frontier_page(points, Path(folder) / PAGE)
    return points


def ladder_text(points: Sequence[FrontierPoint]) -> str:
    """Write a frontier as tables of text: privacy and statistics, then what the attacks reach."""
    fitted = [point for point in points if point.failed is None]
    names = list(fitted[0].statistics)
    bound = ("bound of 95 % of draws", "95 % interval", "largest", "effective draws")
    head = ("weighting", "epsilon of a table", *bound, *(f"error of {name}" for name in names))
    body = []
    for point in fitted:
        quantile, low, high = map(about, point.quantile)
        chains = about(point.lipschitz), f"{round(point.effective):,}"
        errors = (about(point.error(name)) for name in names)
        body.append((point.label, about(point.epsilon), quantile, f"{low} to {high}", *chains, *errors))
    lines = [NOTICE, *aligned([head, *body])]
    lines += [f"  {point.label}: {point.failed}" for point in points if point.failed is not None]
    tried = fitted[0].disclosure
    if tried:
        head = ("attack", "weighting", "table", "95 % interval", "control", "95 % interval", "excess", "95 % interval")
        body = [
            (attack.attack, point.label, *disclosure_cells(point.disclosure[i])[2:])
            for i, attack in enumerate(tried)
            for point in fitted
        ]
        lines += ["", f"Attacks on single records of each table, after {tried[0].of}: means over the tables"]
        lines += [*aligned([head, *body]), *(f"  {attack.attack}: {attack.how}" for attack in tried)]
        lines += ["  These attacks were tried. None of them bounds what another may reach."]
    return "\n".join(lines)
