"""Disclosure risk of tables from a model: what attacks on single records reach, beside a control. Confidential."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._core.lazy import pl
from discreet.confidential.opening import open_confidential
from discreet.confidential.values import row_values
from discreet.domain import Domain, Records
from discreet.pseudo_posterior.likelihood import Columns
from discreet.pseudo_posterior.mechanism import codes_of, numbers_of
from discreet.pseudo_posterior.synthesiser import Synthesiser
from discreet.utility.disclosure import Disclosure, disclosures, mean_attacks
from discreet.utility.rows import DistinctRows, tables


def held_rows(table: Any, domain: Domain) -> pl.DataFrame:
    """Return the declared columns of a confidential table, a row per record, in an order of their values."""
    frame, frequencies = open_confidential(row_values(table, domain.columns), caller=__name__)
    return frame[np.repeat(np.arange(frame.height), frequencies)].sort(domain.names, nulls_last=True)


def held_columns(frame: pl.DataFrame, domain: Domain) -> dict[str, npt.NDArray[Any]]:
    """Return what a model reads of a table."""
    return {name: numbers_of(column, column.encode(frame[name], name=name)) for name, column in domain.columns.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attacked:
    """A table and its control, and what is attacked in tables that are drawn from fits to it.

    ``column``: the sensitive column that the attacks are after. ``known``: what an intruder knows; None for all others.
    """

    domain: Domain
    column: str
    known: tuple[str, ...] | None
    data: DistinctRows
    control: DistinctRows | None

    @classmethod
    def of(
        cls,
        synthesiser: Synthesiser,
        columns: Columns,
        domain: Domain,
        *,
        column: str,
        known: str | Sequence[str] | None,
        holdout: Any,
        rng: np.random.Generator,
    ) -> Attacked:
        """Read the tables, and refuse columns that cannot be attacked.

        Raises ParameterError when a column is not declared, or nothing would be known of a record.
        """
        released = {*synthesiser.sensitive, *synthesiser.given}
        shown = Domain(columns={name: held for name, held in domain.columns.items() if name in released})
        data = _rows(_frame(columns, shown, rng), shown)
        control = None if holdout is None else _rows(held_rows(holdout, shown), shown, "in the holdout: ")
        names = (known,) if isinstance(known, str) else known
        made = cls(
            domain=shown,
            column=column,
            known=None if names is None else tuple(names),
            data=data,
            control=control,
        )
        made._rates(data.cut(1, rng), rng)  # what is named wrongly is told before anything is fitted
        return made

    def rates(self, drawn: Sequence[Mapping[str, npt.NDArray[Any]]], *, rng: np.random.Generator) -> Any:
        """Return what attacks on synthetic tables reach, each table by itself: the means."""
        return mean_attacks([self._rates(_rows(_frame(table, self.domain, rng), self.domain), rng) for table in drawn])

    def facts(self) -> dict[str, Any]:
        """Return what points depend on, the control as a hash: confidential, like the file that holds it."""
        control = None
        if self.control is not None:
            labels = [column.points[column.place] for column in self.control.columns]
            control = hashlib.sha256(np.stack(labels).tobytes()).hexdigest()
        known = None if self.known is None else list(self.known)
        return {"domain": self.domain.to_toml(), "known": known, "control": control}

    def _rates(self, release: DistinctRows, rng: np.random.Generator) -> tuple[Disclosure, ...]:
        return disclosures(self.data, release, self.control, sensitive=self.column, known=self.known, rng=rng)


def _rows(frame: pl.DataFrame, domain: Domain, what: str = "") -> DistinctRows:
    (rows,) = tables([(frame, what)], domain, lambda table: (table, np.ones(table.height, dtype=np.int64)))
    return rows


def _frame(columns: Mapping[str, npt.NDArray[Any]], domain: Domain, rng: np.random.Generator) -> pl.DataFrame:
    """Return a model's columns as values of the domain."""
    codes = []
    for name, column in domain.columns.items():
        values = np.asarray(columns[name])
        own = codes_of(column, values, name, rng=rng)
        if column.nullable and column.labels is None:
            own[np.isnan(values)] = column.null_code
        codes.append(own)
    return domain.decode(Records(columns=tuple(codes)), rng=rng)
