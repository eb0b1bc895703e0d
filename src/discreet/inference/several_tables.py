"""Estimates from several synthetic tables of one release, each of its own posterior draw."""

from __future__ import annotations

import itertools
import math
import os
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from discreet import wording
from discreet._core.arrays import Booleans, Floats, row_numbers
from discreet._core.boundary import sealed
from discreet._core.checks import choice, positive_size, real
from discreet._core.errors import ParameterError
from discreet._core.random import seeded
from discreet._core.text import counted
from discreet.domain import Domain, Records
from discreet.inference.bounds import UnseenCells
from discreet.inference.dependence import OpenDependence, hidden_cells
from discreet.inference.functionals import (
    Evaluated,
    Functional,
    Group,
    groups_of,
    known_functionals,
    ordered,
    restricted,
)
from discreet.inference.line import Draws, piece_ends
from discreet.inference.models import FormulaDesign, regression
from discreet.inference.population import Posterior
from discreet.inference.released import Released, analysed_mechanism, read_release
from discreet.inference.summary import Estimate, Summary, bounded, marked
from discreet.privacy import Code
from discreet.releases import Certificate, Release, read, read_certificate


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Combined:
    """An estimate and its interval.

    ``estimate``, ``variance``: mean of the estimates, and its estimated variance.
    ``degrees``: degrees of freedom of the t distribution used; infinite for the normal one.
    ``lower``, ``upper``, ``level``: confidence interval, and its probability.
    ``between``, ``within``: variance between the estimates (NaN for one), and mean of their variances.
    ``adjusted``: whether the variance of the rule was too small, or not positive, and that of a sample was used.
    """

    estimate: float
    variance: float
    degrees: float
    lower: float
    upper: float
    level: float
    between: float
    within: float
    adjusted: bool = False


@sealed
def combine(
    estimates: Sequence[float] | npt.NDArray[np.float64],
    variances: Sequence[float] | npt.NDArray[np.float64],
    *,
    kind: Literal["urn", "fully", "partially"],
    size: int | None = None,
    n: int | None = None,
    level: float = 0.95,
) -> Combined:
    r"""Combine estimates from ``M`` released tables.

    With :math:`\bar q` and ``b`` the mean and variance (over ``M - 1``) of the estimates, and :math:`\bar u` the mean
    of their variances, each computed **as if its table were a sample of its own size**:

    * ``"urn"``: posterior-predictive urn releases (Pitman-Yor, Dirichlet-multinomial) of ``size = m`` records each from
      the same ``n`` confidential ones, also a single one, with a prior that weighs little:
      :math:`T=\bar u\,\bigl(\frac mn+\frac1M(1+\frac mn)\bigr)`, normal.
    * ``"fully"``: fully synthetic tables, each from its own posterior draw: :math:`T=(1+\frac1M)b-\bar u` with
      :math:`(M-1)\bigl(1-\bar u/((1+\frac1M)b)\bigr)^2` degrees of freedom. It is at least :math:`\frac mn\bar u`,
      the variance of a sample of ``n`` records, which is taken as normal. Where sizes are unknown, :math:`\bar u` is
      taken if ``T`` is not positive.
    * ``"partially"``: confidential records in which some values were replaced: :math:`T=\bar u+\frac bM` with
      :math:`(M-1)\bigl(1+\bar u/(b/M)\bigr)^2` degrees of freedom.

    Parameters
    ----------
    estimates, variances : sequence of float, shape (M,)
        One per table.
    kind : {"urn", "fully", "partially"}
        How the tables were made.
    size, n : int, optional
        Records of one released table, and confidential ones; needed for "urn".
    level : float
        Probability of the interval.

    Raises
    ------
    ParameterError
        When there are too few tables, or a variance is negative.

    References
    ----------
    Raghunathan, Reiter and Rubin (2003), section 2; Reiter (2002), equation (7), for the adjustment; Reiter (2003),
    section 3; docs/theory/posterior-from-a-release.md for the urn.

    Examples
    --------
    >>> combined = combine([1.0, 2.0, 3.0], [0.3, 0.3, 0.3], kind="partially")
    >>> combined.estimate, round(combined.variance, 6), round(combined.degrees, 6)
    (2.0, 0.633333, 7.22)
    """
    from scipy.special import ndtri, stdtrit

    q, u = np.asarray(estimates, dtype=np.float64), np.asarray(variances, dtype=np.float64)
    if q.ndim != 1 or q.shape != u.shape or not len(q) or not (np.isfinite(q).all() and np.isfinite(u).all()):
        raise ParameterError("give one finite estimate and one finite variance per table")
    if u.min() < 0.0:
        raise ParameterError("variances must be at least 0")
    real("level", level, above=0, below=1)
    choice("kind", kind, ("urn", "fully", "partially"))
    count, variance_within = len(q), float(u.mean())
    variance_between = float(q.var(ddof=1)) if count > 1 else math.nan
    adjusted, degrees, share = False, math.inf, None
    if size is not None and n is not None and kind != "partially":
        share = positive_size("size", size) / positive_size("n", n)
    if kind == "urn":
        if share is None:
            raise ParameterError("the urn's rule needs the numbers of released and held records. Give size and n")
        variance = variance_within * (share + (1.0 + share) / count)
    elif count < 2:
        raise ParameterError("this rule needs several tables. For one urn release take kind='urn'")
    elif kind == "fully":
        spread = (1.0 + 1.0 / count) * variance_between
        variance = spread - variance_within
        adjusted = variance <= (share or 0.0) * variance_within
        if adjusted:
            variance = variance_within * (share or 1.0)
        else:
            degrees = (count - 1) * (1.0 - variance_within / spread) ** 2
    else:
        variance = variance_within + variance_between / count
        if variance_between > 0.0:
            degrees = (count - 1) * (1.0 + variance_within / (variance_between / count)) ** 2
    upper, centre = (1.0 + level) / 2.0, float(q.mean())
    quantile = ndtri(upper) if math.isinf(degrees) else stdtrit(max(degrees, 1e-3), upper)
    reach = float(quantile) * math.sqrt(variance)
    numbers = {"variance": variance, "between": variance_between, "within": variance_within}
    interval = {"lower": centre - reach, "upper": centre + reach, "level": level}
    return Combined(estimate=centre, **numbers, degrees=degrees, **interval, adjusted=adjusted)


_RESAMPLES = 100  # of each table; what counts is their mean variance over all tables
_REFITS = 25  # of each table for regressions, which take longer
_BLOCK = 1 << 22  # numbers in memory


def estimate_tables(
    release: Any,
    functionals: Sequence[Evaluated],
    *,
    column: str | None = None,
    by: str | None = None,
    certificate: Any = None,
    level: float = 0.95,
) -> Summary:
    """Estimate numbers of the population from several synthetic tables: for parameters see ``Release.estimate``."""
    # Each table is analysed as if it were a sample, and the rule for fully synthetic tables combines the estimates.
    # Variances within a table: formulas for means and shares of a column without nulls, else a bootstrap.
    several = _Several.from_release(release, certificate, level)
    parsed = known_functionals(functionals, several.domain, column)
    used = list(several.domain.names)
    if by is not None:
        groups_of(several.domain, by)  # a misprint is told before tables are read
    if column is not None:
        used = list(dict.fromkeys([column, by or column]))
    domain, tables = several.read(used)
    groups: list[Group] = []
    notes: list[str] = []
    if by is not None:
        groups = groups_of(domain, by)
    if by is not None or column == (several.domain.difference or {}).get("of", 0):
        notes = several.unmeasured(used)
    name = column or used[0]
    place = domain.names.index(name)
    hidden = several.hidden(domain, tables)
    rng, closed = seeded(0), not groups and len(used) == 1 and not domain.columns[used[0]].nullable

    def evaluated(table: Released, weights: Floats) -> Floats:
        """Return numbers, group after group, with the least and the greatest that cells allow: a row per weights."""
        unseen = UnseenCells(np.isin(table.records.columns[place], np.flatnonzero(hidden[name])))
        posterior = Posterior.of_arrays(domain, table.records, weights, bounds=True, unseen=unseen)
        parts = [posterior._of_block(group, posterior.block(0))[0] for group in groups] or [posterior]
        return np.concatenate([part._evaluate(parsed, column) for part in parts], axis=1)

    numbers = np.stack([_estimated(table, parsed * closed, evaluated, rng) for table in tables])  # table, number, 3, 2
    labels: list[tuple[Functional, dict[str, Any]]] = []
    for group in groups:
        masses = [restricted(group, t.records, Draws((t.counts / t.counts.sum())[None]))[1][0] for t in tables]
        labels += [(functional, {"group": group.label, "share": float(np.mean(masses))}) for functional in parsed]
    labels = labels or [(functional, {}) for functional in parsed]
    limits = [
        functional.level and several.quantile(tables, place, functional.level, group)
        for group in (groups or (None,))
        for functional in parsed
    ]
    shifts = np.zeros((len(labels), 2))
    codes: tuple[Code, ...] = ()
    if column is None and len(used) > 1:
        used = _columns_read(parsed, tables[0])
    if len(used) > 1:
        dependence = OpenDependence.from_tables(several.certificate, tables, hidden, used)
        codes = dependence.codes()
        shifts = dependence.shifts(lambda t: evaluated(t, t.counts[None] / t.size)[0, :, 0], emptied=by is None)
    about, ends = domain.columns[name], (-math.inf, math.inf)
    if ordered(about) and about.values is not None:
        values = piece_ends(about, np.arange(about.values))
        ends = float(values[0].min()), float(values[1].max())
    options: dict[str, Any] = {"kind": about.kind, "by": by or "", "notes": notes, "ends": ends}
    return several.summary(numbers, labels, shifts, limits, codes=codes, **options)


def _estimated(
    table: Released,
    closed: Sequence[Functional],
    evaluated: Callable[[Released, Floats], Floats],
    rng: np.random.Generator,
) -> Floats:
    """Return each number of a table, and its variance in samples of that size: by a formula if ``closed``."""
    shares, size = table.counts / table.counts.sum(), int(table.size)
    estimates = evaluated(table, shares[None])[0]
    variances = np.full(estimates.shape, np.nan)
    for place, functional in enumerate(closed):
        if functional.is_share:
            variances[place] = np.maximum(0.0, estimates[place] * (1.0 - estimates[place])) / size
        elif functional.name == "mean" and functional.function is None:
            posterior = Posterior.of_arrays(table.domain, table.records, shares[None])
            variances[place] = posterior.evaluate("variance")[0] / size
    if np.isnan(variances).any():
        rows = max(1, _BLOCK // len(shares))
        blocks = [min(rows, _RESAMPLES - start) for start in range(0, _RESAMPLES, rows)]
        samples = [evaluated(table, rng.multinomial(size, shares, size=block) / size) for block in blocks]
        variances = np.where(np.isnan(variances), _variances_over(np.concatenate(samples)), variances)
    return np.stack([estimates, variances], axis=2)


def _columns_read(functionals: Sequence[Functional], table: Released) -> list[str]:
    """Return the columns that functions of records look at: all, where they do not take them by name."""
    posterior = Posterior.of_arrays(table.domain, table.records, (table.counts / table.size)[None])
    values, weights = posterior._values(posterior.block(0), None)
    names: dict[str, None] = {}

    class Columns(dict[str, Any]):
        """Columns that remember which of them were looked at."""

        def __getitem__(self, name: str) -> Any:
            names[name] = None
            return super().__getitem__(name)

    for functional in functionals:
        if functional.function is not None:
            functional.function(Columns(values), weights)
    return [name for name in table.domain.names if name in names] or list(table.domain.names)


def regress_tables(
    release: Any,
    formula: str,
    *,
    kind: Literal["linear", "logistic"] | None = None,
    certificate: Any = None,
    level: float = 0.95,
) -> Summary:
    """Return the coefficients of a regression in the population, from bootstraps: see ``Posterior.regress``."""
    several = _Several.from_release(release, certificate, level)
    used = FormulaDesign(several.domain, formula).used
    domain, tables = several.read(used)
    records = Records.concatenate(table.records for table in tables)
    rows = row_numbers(np.stack([np.asarray(codes, dtype=np.int64) for codes in records.columns], axis=1))
    distinct = np.unique(rows, return_index=True)[1]
    parts = np.split(rows, np.cumsum([len(table.counts) for table in tables])[:-1])
    rng = seeded(0)

    def blocks() -> Iterator[Draws]:
        for table, part in zip(tables, parts, strict=True):
            shares, size = table.counts / table.counts.sum(), int(table.size)
            weights = np.zeros((1 + _REFITS, len(distinct)))
            weights[:, part] = np.concatenate((shares[None], rng.multinomial(size, shares, size=_REFITS) / size))
            yield Draws(weights)

    coefficients = regression(domain, records.take(distinct), blocks(), formula, kind)
    draws = coefficients.draws.reshape(len(tables), 1 + _REFITS, -1)
    if np.isnan(draws[:, 0]).any() or (np.isnan(draws).mean(axis=1) > 0.5).any():
        raise ParameterError("not all tables determine all coefficients. Leave rare categories or columns out")
    numbers = np.stack([draws[:, 0], _variances_over(np.swapaxes(draws[:, 1:], 0, 1))], axis=2)
    numbers = np.repeat(numbers[:, :, None], 3, axis=2)
    labels: list[tuple[Functional, dict[str, Any]]] = [(Functional(name), {}) for name in coefficients.names]

    def coefficients_of(table: Released) -> Floats:
        try:
            solution = regression(domain, table.records, [Draws(table.counts[None] / table.size)], formula, kind)
        except ParameterError:  # without hidden cells, or with other dependence, a coefficient is not determined
            return np.full(len(labels), np.nan)
        solved = dict(zip(solution.names, solution.draws[0].tolist(), strict=True))
        return np.array([solved.get(name, np.nan) for name in coefficients.names])

    hidden = several.hidden(domain, tables)
    dependence = OpenDependence.from_tables(several.certificate, tables, hidden, domain.names)
    shifts, notes = dependence.shifts(coefficients_of, emptied=True), [*coefficients.notes, *several.unmeasured(used)]
    return several.summary(numbers, labels, shifts, codes=dependence.codes(), notes=notes)


def _variances_over(samples: Floats) -> Floats:
    """Return variances over the samples that have a number; NaN where fewer than two have it."""
    with warnings.catch_warnings(action="ignore"):  # of those that too few have
        return np.asarray(np.nanvar(samples, axis=0, ddof=1))


@dataclass(frozen=True)
class _Several:
    """A release of several tables, as it is analysed."""

    release: Any
    certificate: Certificate
    domain: Domain
    level: float

    @classmethod
    def from_release(cls, release: Any, certificate: Any, level: float) -> _Several:
        if isinstance(release, (str, os.PathLike)):
            release = read(release, certificate)  # of files that are not the release's, nothing is read
        certificate = read_certificate(release, certificate)
        if analysed_mechanism(certificate).contents(certificate.facts.records).tables is None:
            raise ParameterError("this is for releases of several tables. For one take discreet.inference.posterior")
        return cls(release, certificate, Domain.from_dict(certificate.facts.domain), level)

    def read(self, used: Sequence[str]) -> tuple[Domain, list[Released]]:
        """Return some columns of all tables, those of files once they are what the certificate was written for."""
        tables, source = self.certificate.tables, self.release
        if isinstance(source, Release):
            source = source.path if source.records is None else source.records
        if isinstance(source, (str, os.PathLike)):
            source = [Path(source) / Path(str(table.file)).name for table in tables]
        if not isinstance(source, (list, tuple)) or len(source) != len(tables):
            raise ParameterError(f"give the list of all {counted(len(tables), 'table')} of the release")
        domain = Domain(columns={name: column for name, column in self.domain.columns.items() if name in used})
        return domain, [read_release(table, domain) for table in source]

    def _combined(self, estimates: Floats, variances: Floats) -> Combined:
        records, size = self.certificate.facts.records, self.certificate.tables[0].rows
        return combine(estimates, variances, kind="fully", size=size, n=records, level=self.level)

    def hidden(self, domain: Domain, tables: Sequence[Released]) -> dict[str, Booleans]:
        """Return which cells of each column may be empty, for all that noise tells."""
        records = self.certificate.facts.records
        return {name: hidden_cells(tables, place, records) for place, name in enumerate(domain.names)}

    def quantile(
        self, tables: Sequence[Released], place: int, level: float, group: Group | None
    ) -> tuple[float, float]:
        """Return the ends of a quantile's interval: where those of the shares up to each cell reach its level."""
        codes = [table.records.columns[place] for table in tables]
        support, places = np.unique(np.concatenate(codes), return_inverse=True)
        low, high, _ = piece_ends(list(tables[0].domain.columns.values())[place], support)
        order = np.argsort(low)[: np.count_nonzero(~np.isnan(low))]
        masses = []
        for table, part in zip(tables, np.split(places, np.cumsum(list(map(len, codes)))[:-1]), strict=True):
            inside = group is None or table.records.columns[group.place] == group.code
            masses.append(np.bincount(part, table.counts * inside, len(support))[order])
        reached = np.cumsum(masses, axis=1)
        sizes = np.maximum(1.0, reached[:, -1])
        shares = reached / sizes[:, None]

        def first(side: str) -> int:
            """Return the first cell up to which the end of the interval of the share reaches the level."""
            variances = shares * (1.0 - shares) / sizes[:, None]
            cells = range(len(order) - 1)
            return bisect_left(cells, level, key=lambda i: getattr(self._combined(shares[:, i], variances[:, i]), side))

        return float(low[order[first("upper")]]), float(high[order[first("lower")]])

    def unmeasured(self, used: Sequence[str]) -> list[str]:
        """Say what of some columns together was not measured."""
        released = self.certificate.facts.released
        if (difference := self.domain.difference) is not None and difference["of"] in used:
            used = list(dict.fromkeys([*used, difference["from"]]))
        if released.pairs_measured is None:  # of a certificate that does not say so
            return ["what columns do together holds where their tables of two columns were measured"]
        measured = {frozenset(pair) for pair in released.pairs_measured}
        unmeasured = not measured.issuperset(map(frozenset, itertools.combinations(used, 2)))
        notes = wording.lost_pairs(released.outcome, used, unmeasured=unmeasured)
        if difference is not None and difference["of"] in used:
            notes.append(
                "{of} is {from} and a difference that was measured with it on merged cells".format_map(difference)
            )
        rests = "rests on conditional independence, which was not measured"
        return notes + [f"what more than two of these columns do together {rests}"] * (len(used) > 2)

    def summary(
        self,
        numbers: Floats,
        labels: Sequence[tuple[Functional, dict[str, Any]]],
        shifts: Floats,
        limits: Sequence[Any] = (),
        *,
        codes: tuple[Code, ...] = (),
        kind: str = "",
        by: str = "",
        notes: Sequence[str] = (),
        ends: tuple[float, float] = (-math.inf, math.inf),
    ) -> Summary:
        """Combine estimates and variances, shape (tables, numbers, 3, 2), of which the last two are bounds."""
        # shifts, shape (numbers, 2): how far intervals are to reach further down and up. limits: ends of quantiles.
        # ends: of the column's values.
        records, size, count = self.certificate.facts.records, self.certificate.tables[0].rows, len(numbers)
        rows, adjusted, absent = [], {}, {}
        for place, (functional, group) in enumerate(labels):
            values, (down, up) = numbers[:, place], shifts[place].tolist()
            if by and not np.isfinite(values).all():
                absent[group["group"]] = True
                continue
            combined, lowest, highest = (self._combined(*values[:, end].T) for end in range(3))
            reach = min(combined.lower, lowest.lower), max(combined.upper, highest.upper)
            lower, upper = (limits and limits[place]) or reach
            least, most = functional.limits(*ends)
            if combined.adjusted:
                adjusted[functional.name] = True
            estimate = Estimate(
                name=functional.name,
                mean=combined.estimate,
                sd=math.sqrt(combined.variance),
                lower=max(least, lower + down),
                upper=min(most, upper + up),
                effective_draws=float(count),
                unit=functional.unit,
                bounds=down < up or not np.allclose(values[:, 1, 0], values[:, 2, 0], rtol=1e-12, atol=1e-12),
                codes=codes,
                **group,
            )
            rows.append(estimate)
        messages = [
            f"{counted(count, 'table')} of {counted(size, 'record')}, each analysed by itself, and combined by "
            "the rule for fully synthetic tables (Raghunathan, Reiter and Rubin, 2003); intervals are for the "
            "population",
            *notes,
            *bounded(rows),
            *marked(rows),
        ]
        if adjusted:
            messages.append(
                f"the rule's variance was below that of a sample of {counted(records, 'record')}, which was taken, for "
                + ", ".join(adjusted)
            )
        if absent:
            messages.append(f"groups of {by} that not every table has, left out: {', '.join(absent)}")
        return Summary(rows=tuple(rows), level=self.level, kind=kind, notes=tuple(messages), by=by)
