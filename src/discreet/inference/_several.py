"""Estimates from several synthetic tables of one release, each of its own posterior draw."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from discreet._core.arrays import Floats
from discreet._core.errors import ParameterError
from discreet._core.random import seeded
from discreet._core.text import counted
from discreet.domain import Domain
from discreet.inference._combine import combine
from discreet.inference._functional import Functional
from discreet.inference._posterior import Evaluated, Posterior, known_functionals
from discreet.inference._released import Released, read_release
from discreet.inference._summary import Estimate, Summary
from discreet.releases import Certificate
from discreet.releases._mechanism_step import certified_mechanism
from discreet.releases._read import read, read_certificate
from discreet.releases._release import Release

_RESAMPLES = 100  # of each table; what counts is their mean variance over all tables
_BLOCK = 1 << 22  # numbers in memory


def estimate_tables(
    release: Any,
    functionals: Sequence[Evaluated],
    *,
    column: str | None = None,
    certificate: Any = None,
    level: float = 0.95,
) -> Summary:
    """Estimate numbers of the population from several synthetic tables, with confidence intervals.

    Each table is analysed by itself, as if it were a sample of the population, and the estimates are combined by
    :func:`combine` with ``kind="fully"``. The variance within a table is a formula for means and shares of a column
    without nulls, and that of 100 bootstrap samples for all else.

    Parameters
    ----------
    release : Release, path or list of dataframe
        The release of several tables, their folder, or the tables.
    functionals : sequence of str or callable
        As for :meth:`Posterior.evaluate`: names such as "mean", "q25", "P(>0.75)" of one column, or functions
        ``f(values, weights)`` that return one number per row of ``weights``.
    column : str, optional
        The column; the only one by default. Without it, functions get a dict of columns.
    certificate : Certificate or path, optional
        The one found with the release by default.
    level : float
        Probability of the intervals, between 0 and 1.

    Returns
    -------
    Summary
        A row a functional. The "effective draws" are the tables.

    Raises
    ------
    ParameterError
        When the release is not of several tables from a posterior, or a column or functional is unknown.
    DataError, FileProblem
        When a table or the certificate cannot be read.

    Notes
    -----
    What depends on more than the measured tables of one and two columns rests on conditional independence, which was
    not measured, and no interval covers that. The certificate's outcome says which tables of two columns were measured.
    """
    if isinstance(release, (str, os.PathLike)):
        release = read(release, certificate)  # of files that are not the release's, nothing is read
    known = read_certificate(release, certificate)
    domain = Domain.from_dict(known.facts["domain"])
    names = known_functionals(functionals, domain, column)
    if certified_mechanism(known.facts).several is None:
        raise ParameterError("this is for releases of several tables. For one table take discreet.inference.posterior")
    seen = domain if column is None else Domain(columns={column: domain.columns[column]})
    tables = [read_release(table, seen) for table in _tables(release, known)]
    rng = seeded(0)
    found = np.array([_estimated(table, functionals, names, rng) for table in tables])  # table, functional, 2
    held, size = int(known.facts["records"]), int(tables[0].size)
    rows, floored = [], []
    for place, (asked, named) in enumerate(zip(functionals, names, strict=True)):
        one = combine(*found[:, place].T, kind="fully", size=size, n=held, level=level)
        name = named.name if named is not None else getattr(asked, "__name__", "function")
        least, most = (0.0, 1.0) if _is_share(named) else (-math.inf, math.inf)
        floored += [name] if one.adjusted else []
        rows.append(
            Estimate(
                name=name,
                mean=one.estimate,
                sd=math.sqrt(one.variance),
                lower=max(least, one.lower),
                upper=min(most, one.upper),
                effective_draws=float(len(tables)),
                unit="number" if named is None else named.unit,
            )
        )
    notes = [
        f"{counted(len(tables), 'table')} of {counted(size, 'record')}, each analysed by itself, and combined by the "
        "rule for fully synthetic tables (Raghunathan, Reiter and Rubin, 2003); intervals are for the population"
    ]
    if floored:
        notes.append(
            f"the rule's variance was below that of a sample of {counted(held, 'record')}, which was taken, for "
            + ", ".join(floored)
        )
    kind = "" if len(seen.columns) > 1 else next(iter(seen.columns.values())).kind
    return Summary(rows=tuple(rows), level=level, kind=kind, notes=tuple(notes))


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
        yield Path(source) / Path(str(table["file"])).name


def _estimated(
    table: Released, asked: Sequence[Evaluated], names: Sequence[Functional | None], rng: np.random.Generator
) -> Floats:
    """Return each functional of a table, and the variance that it has in samples of its size."""
    shares, size = table.counts / table.counts.sum(), int(table.size)
    own = _evaluated(table, shares[None], asked)[0]
    closed = _closed(table, shares, asked, names, own)
    if np.isnan(closed).any():
        rows = max(1, _BLOCK // len(shares))
        blocks = [min(rows, _RESAMPLES - start) for start in range(0, _RESAMPLES, rows)]
        drawn = [_evaluated(table, rng.multinomial(size, shares, size=block) / size, asked) for block in blocks]
        closed = np.where(np.isnan(closed), np.concatenate(drawn).var(axis=0, ddof=1), closed)
    return np.stack([own, closed], axis=1)


def _evaluated(table: Released, weights: Floats, asked: Sequence[Evaluated]) -> Floats:
    column = table.domain.names[0] if len(table.domain.names) == 1 else None
    posterior = Posterior.of_arrays(table.domain, table.records, weights)
    return np.stack([posterior.evaluate(one, column=column) for one in asked], axis=1)


def _closed(
    table: Released, shares: Floats, asked: Sequence[Evaluated], names: Sequence[Functional | None], own: Floats
) -> Floats:
    """Return the variances of means and shares; NaN of all else."""
    found = np.full(len(asked), np.nan)
    if len(table.domain.columns) > 1 or next(iter(table.domain.columns.values())).nullable:
        return found
    for place, named in enumerate(names):
        if _is_share(named):
            found[place] = own[place] * (1.0 - own[place]) / table.size
        elif named is not None and named.name == "mean":
            found[place] = _evaluated(table, shares[None], ["variance"])[0, 0] / table.size
    return np.asarray(np.maximum(found, 0.0))


def _is_share(named: Functional | None) -> bool:
    return named is not None and named.name.startswith("P(")
