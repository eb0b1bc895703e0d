"""Estimates from several synthetic tables of one release, each of its own posterior draw."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Floats, row_numbers
from discreet._core.checks import choice, positive_size, real
from discreet._core.errors import ParameterError
from discreet._core.random import seeded
from discreet._core.text import counted
from discreet.domain import Domain, Records
from discreet.inference.functionals import (
    Evaluated,
    Functional,
    Group,
    groups_of,
    known_functionals,
    labels_of,
    restricted,
)
from discreet.inference.line import Draws, Line
from discreet.inference.population import Posterior
from discreet.inference.regression import columns_of, regression
from discreet.inference.released import Released, analysed_mechanism, read_release
from discreet.inference.summary import Estimate, Summary
from discreet.releases import Certificate
from discreet.releases.reading import read, read_certificate
from discreet.releases.release import Release

# Rules that combine estimates from released tables into one estimate with an interval.


@dataclass(frozen=True, slots=True, kw_only=True)
class Combined:
    """An estimate and its interval.

    Parameters
    ----------
    estimate : float
        Mean of the estimates.
    variance : float
        Its estimated variance.
    degrees : float
        Degrees of freedom of the t distribution used; infinite for the normal one.
    lower, upper : float
        Confidence interval.
    level : float
        Its probability.
    between, within : float
        Variance between the estimates (NaN for one), and mean of their variances.
    adjusted : bool
        Whether the variance of the rule was too small, or not positive, and that of a sample was used.
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
        One a table.
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
    >>> made = combine([1.0, 2.0, 3.0], [0.3, 0.3, 0.3], kind="partially")
    >>> made.estimate, round(made.variance, 6), round(made.degrees, 6)
    (2.0, 0.633333, 7.22)
    """
    q, u = np.asarray(estimates, dtype=np.float64), np.asarray(variances, dtype=np.float64)
    if q.ndim != 1 or q.shape != u.shape or not len(q) or not (np.isfinite(q).all() and np.isfinite(u).all()):
        raise ParameterError("give one finite estimate and one finite variance per table")
    if u.min() < 0.0:
        raise ParameterError("variances must be at least 0")
    real("level", level, above=0, below=1)
    choice("kind", kind, ("urn", "fully", "partially"))
    count, within = len(q), float(u.mean())
    between = float(q.var(ddof=1)) if count > 1 else math.nan
    adjusted, degrees = False, math.inf
    if kind == "urn":
        if size is None or n is None:
            raise ParameterError(
                "the urn's rule needs the numbers of released and confidential records. Give them as size and n"
            )
        share = positive_size("size", size) / positive_size("n", n)
        variance = within * (share + (1.0 + share) / count)
    elif count < 2:
        raise ParameterError("this rule needs several tables. For one urn release take kind='urn'")
    elif kind == "fully":
        spread = (1.0 + 1.0 / count) * between
        variance = spread - within
        sizes = None if size is None or n is None else positive_size("size", size) / positive_size("n", n)
        if variance > (0.0 if sizes is None else sizes * within):
            degrees = (count - 1) * (1.0 - within / spread) ** 2
        else:
            adjusted = True
            variance = within * (sizes or 1.0)
    else:
        variance = within + between / count
        degrees = (count - 1) * (1.0 + within / (between / count)) ** 2 if between > 0.0 else math.inf
    reach = _quantile(level, degrees) * math.sqrt(variance)
    centre = float(q.mean())
    return Combined(
        estimate=centre,
        variance=variance,
        degrees=degrees,
        lower=centre - reach,
        upper=centre + reach,
        level=level,
        between=between,
        within=within,
        adjusted=adjusted,
    )


def _quantile(level: float, degrees: float) -> float:
    """Return the upper quantile of the t (or normal) distribution for a two-sided interval."""
    from scipy.special import ndtri, stdtrit

    upper = (1.0 + level) / 2.0
    return float(ndtri(upper) if math.isinf(degrees) else stdtrit(max(degrees, 1e-3), upper))


_RESAMPLES = 100  # of each table; what counts is their mean variance over all tables
_REFITS = 25  # the same of regressions, which take longer
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
    """Estimate numbers of the population from several synthetic tables, with confidence intervals.

    Each table is analysed by itself, as if it were a sample of the population, and the estimates are combined by
    :func:`combine` with ``kind="fully"``. The variance within a table is a formula for means and shares of a column
    without nulls, and that of 100 bootstrap samples for all else. For parameters see ``Release.estimate``.

    Notes
    -----
    What depends on more than the measured tables of one and two columns rests on conditional independence, which was
    not measured, and no interval covers that. The certificate says which tables of two columns were measured, and a
    note of the summary what of it is missing.
    """
    several = _Several.of(release, certificate, level)
    known = known_functionals(functionals, several.domain, column)
    if by is not None:
        groups_of(several.domain, by)  # a misprint is told before tables are read
    used = several.domain.names if column is None else [column]
    if by is not None and column is not None:
        used = list(dict.fromkeys([column, by]))
    seen, tables = several.read(used)

    def evaluated(table: Released, weights: Floats) -> Floats:
        posterior = Posterior.of_arrays(table.domain, table.records, weights)
        parts = [posterior]
        if by is not None:
            parts = [posterior._of_block(group, posterior.block(0))[0] for group in groups_of(table.domain, by)]
        return np.concatenate([part._evaluate(functionals, column)[0][:, :, 0] for part in parts], axis=1)

    rng = seeded(0)
    found = np.array([_estimated(table, known, evaluated, rng) for table in tables])  # table, number, 2
    labels = labels_of(functionals, known)
    kind = "" if column is None and len(seen.columns) > 1 else seen.columns[column or seen.names[0]].kind
    if by is None:
        return several.summary(found, [(label, {}) for label in labels], kind=kind)
    groups = groups_of(seen, by)
    shares = np.array([_shares(table, groups) for table in tables])
    about = [(label, {"group": group.label, "share": float(share)})
             for group, share in zip(groups, shares.mean(axis=0), strict=True) for label in labels]  # fmt: skip
    return several.summary(found, about, kind=kind, by=by, notes=several.unmeasured(used))


def regress_tables(
    release: Any,
    formula: str,
    *,
    kind: Literal["linear", "logistic"] | None = None,
    certificate: Any = None,
    level: float = 0.95,
) -> Summary:
    """Return the coefficients of a regression in the population from several synthetic tables, with intervals.

    Each table has its coefficients, with the variance of 25 bootstrap samples of it, and they are combined as by
    :func:`estimate_tables`. For parameters and errors see ``Posterior.regress``. A note names the pairs of columns that
    were not measured: a coefficient that depends on one of them rests on conditional independence, and no interval
    covers that.
    """
    several = _Several.of(release, certificate, level)
    used = columns_of(several.domain, formula)
    seen, tables = several.read(used)
    every = [
        np.stack([np.asarray(codes, dtype=np.int64) for codes in table.records.columns], axis=1) for table in tables
    ]
    numbers = row_numbers(np.concatenate(every))
    first = np.unique(numbers, return_index=True)[1]
    support = Records(columns=tuple(np.concatenate(every)[first].T))
    parts = np.split(numbers, np.cumsum([len(rows) for rows in every])[:-1])
    rng = seeded(0)

    def blocks() -> Iterator[Draws]:
        for table, own in zip(tables, parts, strict=True):
            shares, size = table.counts / table.counts.sum(), int(table.size)
            weights = np.zeros((1 + _REFITS, len(first)))
            weights[:, own] = np.concatenate((shares[None], rng.multinomial(size, shares, size=_REFITS) / size))
            yield Draws(weights)

    made = regression(seen, support, blocks(), formula, kind)
    draws = made.draws.reshape(len(tables), 1 + _REFITS, -1)
    if np.isnan(draws[:, 0]).any() or (np.isnan(draws).mean(axis=1) > 0.5).any():
        raise ParameterError("not all tables determine all coefficients. Leave rare categories or columns out")
    found = np.stack([draws[:, 0], _variances(np.swapaxes(draws[:, 1:], 0, 1))], axis=2)
    about: list[tuple[Functional, dict[str, Any]]] = [(Functional(name, Line.mean), {}) for name in made.names]
    return several.summary(found, about, notes=[*made.notes, *several.unmeasured(used)])


@dataclass(frozen=True)
class _Several:
    """A release of several tables, as it is analysed."""

    release: Any
    certificate: Certificate
    domain: Domain
    level: float

    @classmethod
    def of(cls, release: Any, certificate: Any, level: float) -> _Several:
        if isinstance(release, (str, os.PathLike)):
            release = read(release, certificate)  # of files that are not the release's, nothing is read
        known = read_certificate(release, certificate)
        if analysed_mechanism(known).contents(known.facts.records).tables is None:
            raise ParameterError(
                "this is for releases of several tables. For one table take discreet.inference.posterior"
            )
        return cls(release, known, Domain.from_dict(known.facts.domain), level)

    def read(self, used: Sequence[str]) -> tuple[Domain, list[Released]]:
        """Return some columns of all tables, and their domain."""
        seen = Domain(columns={name: column for name, column in self.domain.columns.items() if name in used})
        return seen, [read_release(table, seen) for table in _tables(self.release, self.certificate)]

    def unmeasured(self, used: Sequence[str]) -> list[str]:
        """Say what of some columns together was not measured."""
        released = self.certificate.facts.released
        merged = released.merged_cells or {}
        if released.pairs_measured is None:  # of a certificate that does not say so
            return ["what columns do together holds where their tables of two columns were measured"]
        measured, said = {frozenset(pair) for pair in released.pairs_measured}, []
        without = [f"{a} and {b}" for a, b in itertools.combinations(used, 2) if frozenset((a, b)) not in measured]
        rests = "rests on conditional independence, which was not measured: no interval covers that"
        if without:
            said.append(f"what these columns do together {rests}: {', '.join(without)}")
        elif len(used) > 2:
            said.append(f"all pairs of these columns were measured; what more than two of them do together {rests}")
        cells = [f"{name} on {merged[name]} of {self.domain.columns[name].size}" for name in used if name in merged]
        if cells and len(used) > 1:
            said.append(f"columns were measured together on merged cells, within which it {rests}: {', '.join(cells)}")
        return said

    def summary(
        self,
        found: Floats,
        about: Sequence[tuple[Functional, dict[str, Any]]],
        *,
        kind: str = "",
        by: str = "",
        notes: Sequence[str] = (),
    ) -> Summary:
        """Combine estimates and variances, shape (tables, numbers, 2)."""
        held = self.certificate.facts.records
        size = self.certificate.tables[0].rows
        rows, floored, absent = [], [], []
        for (named, more), each in zip(about, np.swapaxes(found, 0, 1), strict=True):
            if by and not np.isfinite(each).all():
                absent.append(more["group"])
                continue
            one = combine(*each.T, kind="fully", size=size, n=held, level=self.level)
            least, most = (0.0, 1.0) if _is_share(named) else (-math.inf, math.inf)
            floored += [named.name] if one.adjusted else []
            rows.append(
                Estimate(
                    name=named.name,
                    mean=one.estimate,
                    sd=math.sqrt(one.variance),
                    lower=max(least, one.lower),
                    upper=min(most, one.upper),
                    effective_draws=float(len(found)),
                    unit=named.unit,
                    **more,
                )
            )
        told = [
            f"{counted(len(found), 'table')} of {counted(size, 'record')}, each analysed by itself, and combined by "
            "the rule for fully synthetic tables (Raghunathan, Reiter and Rubin, 2003); intervals are for the "
            "population",
            *notes,
        ]
        if floored:
            told.append(
                f"the rule's variance was below that of a sample of {counted(held, 'record')}, which was taken, for "
                + ", ".join(dict.fromkeys(floored))
            )
        if absent:
            told.append(f"groups of {by} that not every table has, left out: {', '.join(dict.fromkeys(absent))}")
        return Summary(rows=tuple(rows), level=self.level, kind=kind, notes=tuple(told), by=by)


def _shares(table: Released, groups: Sequence[Group]) -> list[float]:
    """Return the share of each group in a table."""
    own = Draws((table.counts / table.counts.sum())[None])
    return [float(restricted(group, table.records, own)[1][0]) for group in groups]


def _tables(release: Any, certificate: Certificate) -> Iterator[Any]:
    """Yield the tables, those in files once they are what the certificate was written for."""
    source = release
    if isinstance(release, Release):
        source = release.path if release.records is None else release.records
    if not isinstance(source, (str, os.PathLike)):
        if not isinstance(source, (list, tuple)) or len(source) != len(certificate.tables):
            raise ParameterError(f"give the list of all {counted(len(certificate.tables), 'table')} of the release")
        yield from source
        return
    for table in certificate.tables:
        yield Path(source) / Path(str(table.file)).name


def _estimated(
    table: Released,
    known: Sequence[Functional | None],
    evaluated: Callable[[Released, Floats], Floats],
    rng: np.random.Generator,
) -> Floats:
    """Return each number of a table, and the variance that it has in samples of its size."""
    shares, size = table.counts / table.counts.sum(), int(table.size)
    own = evaluated(table, shares[None])[0]
    closed = _closed(table, shares, known, own)
    if np.isnan(closed).any():
        rows = max(1, _BLOCK // len(shares))
        blocks = [min(rows, _RESAMPLES - start) for start in range(0, _RESAMPLES, rows)]
        drawn = [evaluated(table, rng.multinomial(size, shares, size=block) / size) for block in blocks]
        closed = np.where(np.isnan(closed), _variances(np.concatenate(drawn)), closed)
    return np.stack([own, closed], axis=1)


def _variances(samples: Floats) -> Floats:
    """Return variances over the samples that have a number; NaN where fewer than two have it."""
    count = (~np.isnan(samples)).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        apart = samples - np.nansum(samples, axis=0) / count
        return np.asarray(np.where(count > 1, np.nansum(apart**2, axis=0) / (count - 1), np.nan))


def _closed(table: Released, shares: Floats, known: Sequence[Functional | None], own: Floats) -> Floats:
    """Return the variances of means and shares of the only column; NaN of all else."""
    found = np.full(len(own), np.nan)
    if len(table.domain.columns) > 1 or next(iter(table.domain.columns.values())).nullable:
        return found
    for place, named in enumerate(known):
        if _is_share(named):
            found[place] = own[place] * (1.0 - own[place]) / table.size
        elif named is not None and named.name == "mean":
            variance = Posterior.of_arrays(table.domain, table.records, shares[None]).evaluate("variance")
            found[place] = variance[0] / table.size
    return np.asarray(np.maximum(found, 0.0))


def _is_share(named: Functional | None) -> bool:
    return named is not None and named.name.startswith("P(")
