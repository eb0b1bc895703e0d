"""A release as its analyst has it: a table or file, and a certificate or a domain."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet import releases
from discreet._core.boundary import quietly
from discreet._core.errors import DataError, ParameterError
from discreet._core.lazy import pl
from discreet._core.numeric import Booleans, Floats
from discreet.domain import Column, Domain, Records
from discreet.mechanisms import MODELS, Mechanism
from discreet.mechanisms import likelihood as likelihoods

_COUNT, _ROW = "\0count", "\0row"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Released:
    """The distinct records of a release, and the public facts that came with it."""

    domain: Domain
    records: Records
    counts: Floats  # shape (k,): how often each record was released, or its weight
    urn: likelihoods.ContinuedUrn | None  # the urn that the release continues
    n_held: int | None  # number of confidential records; None where there is no certificate
    units: Any = None  # of a table of units: how many rows of each record each has, sparse, shape (units, k)

    @property
    def size(self) -> float:
        """Number of released records, ``m``."""
        return float(self.counts.sum())

    @property
    def drawn(self) -> float:
        """How many independent draws the table is made of: units, or records."""
        return self.size if self.units is None else float(self.units.shape[0])

    def resampled(self, number: int, *, rng: np.random.Generator) -> Floats:
        """Return the shares of records in bootstrap samples, a row each: of records, or of units with all rows."""
        if self.units is None:
            return rng.multinomial(int(self.size), self.counts / self.size, size=number) / self.size
        count = self.units.shape[0]
        weights = rng.multinomial(count, np.full(count, 1.0 / count), size=number) @ self.units
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def share(self, members: Booleans, of: Booleans) -> tuple[float, float]:
        """Return the share of records, each a member or not, among those ``of`` which it is, and its variance."""
        total = max(1.0, float(self.counts @ of))
        share = float(self.counts @ members) / total
        squares = self.counts * (members - share * of) ** 2
        if self.units is not None:
            squares = (self.units @ (members - share * of)) ** 2
        return share, float(squares.sum()) / total**2

    def cell_variances(self, place: int, cells: int) -> Floats:
        """Return about the variances of the shares of all cells of a column."""
        codes = self.records.columns[place].astype(np.int64)
        if self.units is None:
            return np.bincount(codes, self.counts, cells) / self.size**2
        from scipy.sparse import csr_array

        in_cells = self.units @ csr_array((np.ones(len(codes)), (np.arange(len(codes)), codes)), (len(codes), cells))
        return np.asarray(in_cells.power(2).sum(axis=0)) / self.size**2


def read_release(
    release: Any, facts: Any = None, *, weights: str | None = None, unit: str | None = None, units: int | None = None
) -> Released:
    """Read a release, of which only the distinct rows come into memory; with ``weights``, a row counts as so many."""
    # unit: the column that names it. units: how many there are, where some may have no row.
    urn = n_held = None
    if isinstance(facts, Domain):
        domain = facts
    else:
        certificate = releases.read_certificate(release, facts)
        if weights is None:
            releases.require_own(certificate, _file_or_table(release))
        domain, n_held = Domain.from_dict(certificate.facts.domain), certificate.facts.records
        if domain.tables:
            raise ParameterError("rows of a unit depend on each other. Take discreet.read(...).estimate, or regress")
        urn = analysed_mechanism(certificate).likelihood().urn
    table = _distinct(release, [*domain.names, *filter(None, [unit])], weights)
    # Values of one cell are one record, and records have one order, whatever that of the rows.
    codes = {name: _encoded(table[name], name, column) for name, column in domain.columns.items()}
    series = [pl.Series(name, part, dtype=pl.String if part.dtype == object else None) for name, part in codes.items()]
    cells = pl.DataFrame([*series, table[_COUNT]])
    merged = cells.group_by(domain.names).agg(pl.col(_COUNT).sum()).sort(domain.names)
    records = Records(columns=tuple(merged[name].to_numpy().astype(part.dtype) for name, part in codes.items()))
    counts = merged[_COUNT].to_numpy().astype(np.float64)
    of_units = None
    if unit is not None:
        from scipy.sparse import csr_array

        rows = cells.join(merged.with_row_index(_ROW), on=domain.names, maintain_order="left")
        owners = np.unique(table[unit].to_numpy(), return_inverse=True)[1]
        entries = rows[_COUNT].to_numpy().astype(np.float64), (owners, rows[_ROW].to_numpy())
        of_units = csr_array(entries, shape=(units or int(owners.max()) + 1, len(counts)))
    return Released(domain=domain, records=records, counts=counts, urn=urn, n_held=n_held, units=of_units)


def analysed_mechanism(certificate: releases.Certificate) -> Mechanism:
    """Return the mechanism of a certificate. Raises ParameterError for a model, which has no posterior."""
    name = certificate.facts.mechanism.name
    if name in MODELS:
        raise ParameterError(
            f"{name} releases tables drawn from a model, and no single posterior is known of them. Estimate from each "
            "table by itself, and combine the estimates with discreet.inference.combine"
        )
    return releases.certified_mechanism(certificate.facts)


def _file_or_table(release: Any) -> Any:
    if isinstance(release, releases.Release):
        return release._source
    return release


def released_table(release: Any) -> pl.LazyFrame:
    """Return the released rows, which are read when they are collected."""
    source = _file_or_table(release)
    if isinstance(source, (str, os.PathLike)):
        return releases.scanned(source)
    return releases.as_polars(source).lazy()


def _distinct(release: Any, keys: list[str], weights: str | None) -> pl.DataFrame:
    """Return the distinct rows and how often each occurs (or their weight), counted where the table is."""
    lazy = released_table(release)
    names, count = keys, pl.len()
    if weights is not None:
        names, count = [*names, weights], pl.col(weights).cast(pl.Float64).sum()
    present = quietly(lambda: lazy.collect_schema().names(), releases.unreadable())
    for name in names:
        if name not in present:
            hint = "check the certificate"
            if "standard_error" in present:
                hint = "this is a table of counts, not of records"
            raise DataError(name, "is not in the release", hint)
    table = quietly(lambda: lazy.group_by(keys).agg(count.alias(_COUNT)).collect(), releases.unreadable())
    values = table[_COUNT]
    if not table.height or values.null_count() or not values.is_finite().all() or float(values.min()) <= 0:  # type: ignore[arg-type]
        raise DataError(weights, "the release has no rows, or weights that are not positive", "check the file")
    return table


def _encoded(values: pl.Series, name: str, column: Column) -> Any:
    if column.open:  # released labels may be of the reserved namespace, which encoding refuses
        return np.array(values.cast(pl.String).to_list(), dtype=object)
    return column.encode(values, name=name)
