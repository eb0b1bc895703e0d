"""Disclosure risk of tables from a model: what attacks on single records reach, beside a control. Confidential."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._core.lazy import pl
from discreet.confidential import open_confidential, row_values
from discreet.domain import Domain, Records
from discreet.pseudo_posterior.from_domain import codes_of, numbers_of
from discreet.pseudo_posterior.likelihood import Columns
from discreet.pseudo_posterior.synthesiser import Synthesiser
from discreet.utility import Disclosure, DistinctRows, disclosures, mean_attacks, tables


def held_rows(table: Any, domain: Domain) -> pl.DataFrame:
    """Return the declared columns of a confidential table, a row per record, in an order of their values."""
    frame, frequencies = open_confidential(row_values(table, domain.columns), caller=__name__)
    return frame[np.repeat(np.arange(frame.height), frequencies)].sort(domain.names, nulls_last=True)


def held_columns(frame: pl.DataFrame, domain: Domain) -> dict[str, npt.NDArray[Any]]:
    """Return what a model reads of a table."""
    return {name: numbers_of(column, column.encode(frame[name], name=name)) for name, column in domain.columns.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Intruder:
    """Who knows columns of a record, all others by default, and looks for a sensitive one in tables from fits."""

    domain: Domain
    column: str
    known: str | Sequence[str] | None
    data: DistinctRows
    control: DistinctRows | None

    @classmethod
    def from_tables(
        cls,
        synthesiser: Synthesiser,
        columns: Columns,
        domain: Domain,
        *,
        column: str,
        known: str | Sequence[str] | None,
        holdout: Any,
        rng: np.random.Generator,
    ) -> Intruder:
        """Read the tables; refuse a column that is not declared, or by which nothing would be known of a record."""
        names = {*synthesiser.sensitive, *synthesiser.given}
        released = Domain(columns={name: column for name, column in domain.columns.items() if name in names})
        data = _model_rows(columns, released, rng)
        control: DistinctRows | None = None
        if holdout is not None:
            control = _rows(held_rows(holdout, released), released, "in the holdout: ")
        intruder = cls(domain=released, column=column, known=known, data=data, control=control)
        intruder.disclosure(data.cut(1, rng), rng)  # a wrong name is refused before anything is fitted
        return intruder

    def rates(self, synthetic: Sequence[Columns], *, rng: np.random.Generator) -> tuple[Disclosure, ...]:
        """Return what attacks on synthetic tables reach, each table by itself: the means."""
        return mean_attacks([self.disclosure(_model_rows(table, self.domain, rng), rng) for table in synthetic])

    def disclosure(self, release: DistinctRows, rng: np.random.Generator) -> tuple[Disclosure, ...]:
        """Return what attacks on one table reach."""
        return disclosures(self.data, release, self.control, sensitive=self.column, known=self.known, rng=rng)


def _rows(frame: pl.DataFrame, domain: Domain, where: str = "") -> DistinctRows:
    (rows,) = tables([(frame, where)], domain, lambda table: (table, np.ones(table.height, dtype=np.int64)))
    return rows


def _model_rows(columns: Columns, domain: Domain, rng: np.random.Generator) -> DistinctRows:
    """Return a model's columns as rows of the domain."""
    codes = []
    for name, column in domain.columns.items():
        values = np.asarray(columns[name])
        codes.append(codes_of(column, values, name, rng=rng))
        if column.nullable and column.labels is None:
            codes[-1][np.isnan(values)] = column.null_code
    return _rows(domain.decode(Records(columns=tuple(codes)), rng=rng), domain)
