"""What noise is added to: the cells of a finite domain, or those around public points."""

from __future__ import annotations

import hashlib
import json
import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet._core.arrays import Floats
from discreet._core.errors import DomainError, ParameterError
from discreet._core.lazy import pl
from discreet._core.text import as_written, counted
from discreet.domain import Domain, Records
from discreet.domain.metric import ground_diameter, ground_embedding
from discreet.mechanisms.base import CellCounts, numbered_cells
from discreet.mechanisms.reading import BLOCK, Made

if TYPE_CHECKING:
    from discreet.evolution.neighbours import NearestCandidates


# Public points that stand for the cells around them: what a mechanism runs on, and what a certificate records.

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
            if column.open:
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


class Cells(Made):
    """Disjoint sets of records, numbered, with a representative each. Public.

    ``domain``: public.
    ``count``: how many.
    """

    domain: Domain
    count: int

    @abstractmethod
    def cell_of(self, records: Records) -> CellCounts:
        """Return which cell each record lies in."""

    @abstractmethod
    def records_in(self, items: CellCounts, *, first: int = 0, rng: np.random.Generator | None = None) -> Records:
        """Return the records that stand for cells."""

    @abstractmethod
    def shares_on(self, support: Records, probabilities: Floats) -> Floats:
        """Return the cells' probabilities on records of a public support."""

    @abstractmethod
    def base(self) -> Floats:
        """Return the cells' shares of the base measure, shape (count,)."""

    @abstractmethod
    def line(self) -> Floats | None:
        """Return increasing positions where the cells are those of one ordered column without a null, else None."""

    def points(self) -> Floats:
        """Return the representatives, embedded in the ground metric: shape (count, d), to be compared in L1."""
        return ground_embedding(self.domain, self.records_in(np.arange(self.count)))

    @cached_property
    def coordinates(self) -> int:
        """Number of coordinates of the embedding: one per ordered column, one per category of the others."""
        nothing = Records(columns=tuple(np.zeros(0, dtype=np.int64) for _ in self.domain.columns))
        return int(ground_embedding(self.domain, nothing).shape[1])

    @property
    def diameter(self) -> float:
        """Largest ground distance."""
        return ground_diameter(self.domain)

    def counts(self, records: Records, frequencies: CellCounts) -> CellCounts:
        """Return how many records lie in each cell."""
        counts = np.zeros(self.count, dtype=np.int64)
        np.add.at(counts, self.cell_of(records), frequencies)
        return counts


@dataclass(frozen=True)
class OwnCells(Cells):
    """The cells of a finite domain, in flat order."""

    domain: Domain
    count: int

    @classmethod
    def of(cls, domain: Domain, name: str) -> OwnCells:
        """Return the cells of a domain for a mechanism of that name, which needs them to be finitely many.

        Raises ParameterError when the domain is not finite, or too large for its cells to be numbered.
        """
        return cls(domain, numbered_cells(domain, name))

    def cell_of(self, records: Records) -> CellCounts:
        """Return the records' flat indices."""
        return self.domain.flat(records)

    def records_in(self, items: CellCounts, *, first: int = 0, rng: np.random.Generator | None = None) -> Records:
        """Return the records of flat indices."""
        return self.domain.unflat(items)

    def shares_on(self, support: Records, probabilities: Floats) -> Floats:
        """Return the probabilities of the support's own cells."""
        return np.asarray(probabilities[self.domain.flat(support)])

    def base(self) -> Floats:
        """Return the domain's base measure."""
        return np.exp(self.domain.log_base(self.records_in(np.arange(self.count))))

    def line(self) -> Floats | None:
        """Return the column's positions."""
        (column, *others) = self.domain.columns.values()
        try:
            return None if others or column.nullable else column.positions(np.arange(self.count))
        except DomainError:
            return None


@dataclass(frozen=True)
class CellsAround(Cells):
    """The records nearest to each of some public points: a tie goes to the first."""

    domain: Domain
    given: PublicPoints

    @property
    def count(self) -> int:  # type: ignore[override]
        """How many points."""
        return self.given.count

    def cell_of(self, records: Records) -> CellCounts:
        """Return the nearest points."""
        search = nearest_of(self.points())
        found = [search.nearest(ground_embedding(self.domain, part)) for part in _blocks(records)]
        return np.concatenate([*found, np.empty(0, dtype=np.int64)])

    def records_in(self, items: CellCounts, *, first: int = 0, rng: np.random.Generator | None = None) -> Records:
        """Return the points themselves."""
        return self.given.records(self.domain).take(items)

    def shares_on(self, support: Records, probabilities: Floats) -> Floats:
        """Return the probabilities, each on the record of the support that is nearest to its point."""
        at = nearest_of(ground_embedding(self.domain, support)).nearest(self.points())
        return np.asarray(np.bincount(at, weights=probabilities, minlength=len(support)), dtype=np.float64)

    def base(self) -> Floats:
        """Return equal shares: which share of the base measure is nearest to a point is not known."""
        return np.full(self.count, 1.0 / self.count)

    def line(self) -> Floats | None:
        """Return None: points have no order."""
        return None


def _blocks(records: Records) -> Iterator[Records]:
    for start in range(0, len(records), BLOCK):
        yield records.take(slice(start, start + BLOCK))


def nearest_of(candidates: Floats, *, norm: float = 1.0) -> NearestCandidates:
    """Return the exact search for the nearest of some points; it loads SciPy."""
    from discreet.evolution.neighbours import NearestCandidates

    return NearestCandidates(candidates, norm=norm)
