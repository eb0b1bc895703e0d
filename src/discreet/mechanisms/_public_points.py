"""Public points that stand for the cells around them: what a mechanism runs on, and what a certificate records."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np

from discreet._core.arrays import Floats
from discreet._core.errors import ParameterError
from discreet._core.lazy import pl
from discreet._core.text import as_written, counted
from discreet.domain import Domain, OpenLabels, Records
from discreet.domain._metric import ground_embedding

_MOST_NUMBERS = 1000
_FORMS = (
    "points must be a Polars table, encoded records or rows of codes. A certificate may give their count and "
    "sha256 instead"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicPoints:
    """Distinct public records of a domain, in an order that counts: a tie goes to the first.

    ``count``: how many.
    ``sha256``: Hash of their JSON text, a list of rows of codes: int cells, float values, ``null`` for a continuous
    null.
    ``rows``: the codes themselves. None where a certificate records number and hash only: a guarantee can be verified
    from that, and a release cannot be run.
    """

    count: int
    sha256: str
    rows: tuple[tuple[Any, ...], ...] | None
    _given: Records | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, given: Any, domain: Domain) -> PublicPoints:
        """Take public points in any form; of points at distance zero from one another, the first stays.

        ``given``: public. A mapping is what :meth:`to_json` gives for many points.
        ``domain``: public.

        Raises ParameterError when there is no point, or a code does not fit the domain, or DataError when a table does
        not fit the domain.
        """
        if isinstance(given, PublicPoints):
            return given
        if isinstance(given, Mapping):
            return cls._described(given)
        for name, column in domain.columns.items():
            if isinstance(column, OpenLabels):
                raise ParameterError(f"column {name!r}: points need a metric. Declare the labels as categories")
        records = _encoded(given, domain)
        _, first = np.unique(ground_embedding(domain, records), axis=0, return_index=True)
        kept = tuple(_row(row) for row in records.take(np.sort(first)).rows())
        return cls(
            count=len(kept), sha256=hashlib.sha256(json.dumps(kept).encode()).hexdigest(), rows=kept, _given=records
        )

    @classmethod
    def _described(cls, given: Mapping[str, Any]) -> PublicPoints:
        count, sha256 = given.get("count"), given.get("sha256")
        if set(given) != {"count", "sha256"} or isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ParameterError(_FORMS)
        if not isinstance(sha256, str) or not re.fullmatch("[0-9a-f]{64}", sha256):
            raise ParameterError(_FORMS)
        return cls(count=count, sha256=sha256, rows=None)

    def to_json(self) -> Any:
        """Return the rows where they hold at most 1,000 numbers, else their count and hash."""
        if self.rows is not None and self.count * len(self.rows[0]) <= _MOST_NUMBERS:
            return [list(row) for row in self.rows]
        return {"count": self.count, "sha256": self.sha256}

    def given(self, domain: Domain) -> Records:
        """Return the points as they were given, those at distance zero from others included."""
        return self.records(domain) if self._given is None else self._given

    def records(self, domain: Domain) -> Records:
        """Return the points as records. Raises ParameterError when only their number and hash are known."""
        if self.rows is None:
            raise ParameterError(
                f"{counted(self.count, 'public point')} must be given in full: the number and the hash alone are "
                "not enough"
            )
        columns = zip(domain.columns.values(), zip(*self.rows, strict=True), strict=True)
        kinds = ((codes, np.int64 if column.finite else np.float64) for column, codes in columns)
        return Records(columns=tuple(np.array(codes, dtype=kind) for codes, kind in kinds))


def _row(codes: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return codes as JSON values: a continuous null is None."""
    return tuple(None if code != code else code for code in codes)  # noqa: PLR0124 - NaN is not itself


def _encoded(given: Any, domain: Domain) -> Records:
    if isinstance(given, Records):
        rows: Any = given.rows()
    elif isinstance(given, Sequence) and not isinstance(given, str):
        rows = given
    else:
        if not isinstance(given, pl.DataFrame):
            raise ParameterError(_FORMS)
        rows = domain.encode(given).rows()
    if not len(rows) or any(not isinstance(row, Sequence) or len(row) != len(domain.columns) for row in rows):
        raise ParameterError(
            f"points must be at least one row of {counted(len(domain.columns), 'code')}, one per column"
        )
    columns = zip(domain.columns.items(), zip(*rows, strict=True), strict=True)
    return Records(columns=tuple(_codes(name, column, codes) for (name, column), codes in columns))


def _codes(name: str, column: Any, codes: tuple[Any, ...]) -> Any:
    """Return one column of codes. Raises ParameterError when one does not fit."""
    if column.finite:
        if all(isinstance(code, (int, np.integer)) and 0 <= code < column.size for code in codes):
            return np.array(codes, dtype=np.int64)
        raise ParameterError(f"points: the codes of column {name!r} must be integers from 0 to {column.size - 1}")
    if all(code is None or isinstance(code, Real) for code in codes):
        values: Floats = np.array(codes, dtype=np.float64)
        missing = np.isnan(values)
        if np.all(missing | ((values >= column.lower) & (values <= column.upper))) and (
            column.nullable or not missing.any()
        ):
            return values
    raise ParameterError(
        f"points: values of column {name!r} lie between {as_written(column.lower)} and {as_written(column.upper)}"
    )
