"""Columns as expressions of DuckDB that give the codes of their values, the very ones that encoding gives.

An expression compares with the edges that encoding uses, each written as the text that reads as the same float64. Where
it guesses a cell by arithmetic, the guess was tried on both ends of every cell, and is monotone, or its cell's own
edges are compared with the value, and a search finds what fails. What an engine's arithmetic could round otherwise is
not written at all, and handed on raw.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._core.lazy import nw, pl
from discreet.confidential.cells import MISFIT, Cells
from discreet.domain import Boolean, Category, Date, Datetime, Decimal, Integer, Numeric
from discreet.domain.column import Column
from discreet.domain.integers import LatticeColumn

_BATCH = 2**17
_SEARCHED = 4096  # edges that a search is written for
_PLAIN = 32  # edges that are searched without a guess
_DAY = 86_400_000_000
_EXACT = 15  # digits of a decimal that a float64 holds, whichever they are
_UNIT, _FREQUENCY, _NUMBER, _PLACE, _ORDER = "u", "f", "i", "place", "h"


@dataclass(frozen=True, slots=True, kw_only=True)
class DuckDBCells(Cells):
    """A relation of DuckDB."""

    relation: Any
    codes: Mapping[str, str | None]
    types: Mapping[str, pl.DataType]
    frequency: str

    @classmethod
    def of(cls, relation: Any, columns: Mapping[str, Column], frequency: str) -> DuckDBCells:
        """Write the expressions of columns."""
        types = none_of(relation, columns).schema
        codes = {name: code(column, quoted(name), types[name]) for name, column in columns.items()}
        return cls(relation=relation, columns=columns, codes=codes, types=types, frequency=frequency)

    def coded(self, name: str) -> bool:
        """Whether there is an expression for a column."""
        return self.codes[name] is not None

    def counts(self) -> pl.DataFrame:
        """Group by codes."""
        return self._named(_fetched(_grouped(self._coded(), self._places)))

    def batches(self) -> Iterator[pl.DataFrame]:
        """Stream codes."""
        for batch in streamed(self._coded()):
            yield self._named(pl.DataFrame(batch))

    def misfits(self) -> pl.DataFrame:
        """Fetch one row."""
        wrong = " OR ".join(f"({text}) = {MISFIT}" for text in self.codes.values() if text is not None)
        return _fetched(self.relation.filter(wrong).project(_listed(map(quoted, self.columns))).limit(1))

    def slots(self, unit: str, most: int, key: str) -> tuple[pl.DataFrame, int, int] | None:
        """Put the rows of each unit in the order of their hash."""
        of = _fetched(self.relation.project(quoted(unit)).limit(0)).dtypes[0]
        if not (of.is_integer() or of in (pl.String, pl.Categorical, pl.Enum, pl.Date, pl.Boolean)):
            return None
        without = self.relation.filter(f"{quoted(unit)} IS NULL").aggregate("count(*)").fetchall()[0][0]
        places = self._places
        # A text is told apart by its bytes, whatever the collation of its column.
        who = quoted(unit) if of != pl.String else f"encode(CAST({quoted(unit)} AS VARCHAR))"
        rows = _grouped(self._coded(f"{who} AS {_UNIT}"), [_UNIT, *places])
        held = rows.project(f"*, CAST(sum({_FREQUENCY}) OVER (PARTITION BY {_UNIT}) AS BIGINT) AS held")
        each = held.project(f"{_listed([_UNIT, *places])}, held, unnest(range({_FREQUENCY})) AS {_NUMBER}")
        told = [f"'{key}'", f"CAST({_UNIT} AS VARCHAR)", *map(self._told, places), f"CAST({_NUMBER} AS VARCHAR)"]
        order = f"CASE WHEN held > {most} THEN sha256(concat_ws('|', {', '.join(told)})) END AS {_ORDER}"
        hashed = each.project(f"{_listed([_UNIT, *places, _NUMBER])}, {order}")
        by = _listed([_ORDER, *places, _NUMBER])
        ranked = hashed.project(
            f"{_listed(places)}, row_number() OVER (PARTITION BY {_UNIT} ORDER BY {by}) AS {_PLACE}"
        )
        kept = ranked.filter(f"{_PLACE} <= {most}")
        firsts = f"CAST(count(*) FILTER ({_PLACE} = 1) AS BIGINT) AS firsts"
        found = _fetched(kept.aggregate(f"{_listed(places)}, {_counted()}, {firsts}", _listed(places)))
        return self._named(found), int(found["firsts"].sum()), int(without)

    @property
    def _places(self) -> list[str]:
        return [f"c{place}" for place in range(len(self.columns))]

    def _coded(self, *others: str) -> Any:
        """Return the rows of codes and raw values; texts as their bytes, which no collation makes equal."""
        parts = [f"{self._expression(name)} AS {place}" for name, place in zip(self.columns, self._places, strict=True)]
        return self.relation.project(_listed([*others, *parts]))

    def _expression(self, name: str) -> str:
        found = self.codes[name]
        if found is not None:
            return found
        text = self.types[name] in (pl.String, pl.Categorical, pl.Enum)
        return f"encode(CAST({quoted(name)} AS VARCHAR))" if text else quoted(name)

    def _told(self, place: str) -> str:
        """Return a part of what is hashed: distinct values have distinct texts, none of which holds the separator."""
        name = list(self.columns)[int(place[1:])]
        if self.codes[name] is not None:
            return f"CAST({place} AS VARCHAR)"
        if self.types[name].is_float():
            return f"coalesce(CAST({place} + 0.0 AS VARCHAR), 'null')"  # no negative zero
        kind = "VARCHAR" if self._expression(name) == quoted(name) else "BLOB"
        return f"coalesce(hex(CAST({place} AS {kind})), 'null')"

    def _named(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return rows as they came from DuckDB under the names of the columns, bytes as texts."""
        columns = [
            (found.cast(pl.String) if found.dtype == pl.Binary else found).alias(name)
            for name, found in zip(self.columns, (frame[place] for place in self._places), strict=True)
        ]
        if _FREQUENCY in frame.columns:
            columns.append(frame[_FREQUENCY].alias(self.frequency))
        return pl.DataFrame(columns)


def duckdb_relation(frame: Any) -> Any | None:
    """Return a relation of DuckDB for a table of DuckDB, or of Ibis where DuckDB holds it; None for any other."""
    kind, native = frame.implementation.name.lower(), frame.to_native()
    if kind == "duckdb":
        return native
    if kind != "ibis":
        return None
    import ibis

    backend = ibis.get_backend(native)
    if backend.name != "duckdb":
        return None
    native.limit(0).to_pyarrow()  # makes tables that are in memory known to DuckDB
    return backend.con.sql(backend.compile(native))


def none_of(relation: Any, columns: Iterable[str]) -> pl.DataFrame:
    """Return some columns of a relation without its rows; a dot in a name is no path to a field."""
    return _fetched(relation.project(_listed(map(quoted, columns))).limit(0))


def streamed(relation: Any) -> Any:
    """Return a reader of record batches."""
    return (
        relation.to_arrow_reader(_BATCH)
        if hasattr(relation, "to_arrow_reader")
        else relation.fetch_arrow_reader(_BATCH)
    )


def _grouped(relation: Any, by: Sequence[str]) -> Any:
    return relation.aggregate(f"{_listed(by)}, {_counted()}", _listed(by))


def _counted() -> str:
    return f"CAST(count(*) AS BIGINT) AS {_FREQUENCY}"


def _fetched(relation: Any) -> pl.DataFrame:
    frame: pl.DataFrame = nw.from_native(relation).collect().to_polars()
    return frame


def _listed(parts: Any) -> str:
    return ", ".join(parts)


def quoted(name: str) -> str:
    """Return a name as DuckDB reads it."""
    return '"' + name.replace('"', '""') + '"'


def sql_text(text: str) -> str:
    """Return a text as DuckDB reads it."""
    return "'" + text.replace("'", "''") + "'"


# -- columns ----------------------------------------------------------------------------------------------------------


def code(column: Column, x: str, dtype: pl.DataType) -> str | None:
    """Return the expression of the code of a value; None where none is sure to be the one that encoding gives."""
    if not column.finite or not column._accepts(dtype):
        return None
    if isinstance(column, Numeric):
        return _of_number(column, x, dtype)
    if isinstance(column, LatticeColumn):
        return _of_lattice(column, x, dtype)
    if isinstance(column, Boolean):
        return f"CASE WHEN {x} THEN 1 WHEN {x} IS NULL THEN {_null(column)} ELSE 0 END"
    return _of_category(column, x, dtype) if isinstance(column, Category) else None


def _null(column: Column) -> int:
    return int(column.null_code) if column.nullable else MISFIT


def _bounded(column: Any, v: str, bounds: tuple[str, str], inside: str, *, missing: str) -> str:
    """Return the code of a value that may be null, or outside the bounds."""
    low, high = bounds
    beyond = str(MISFIT)
    if column.out_of_bounds == "clip":
        beyond = f"CASE WHEN {v} < {low} THEN 0 ELSE {column.values - 1} END"
    return f"CASE WHEN {v} BETWEEN {low} AND {high} THEN {inside} WHEN {missing} THEN {_null(column)} ELSE {beyond} END"


def _double(value: float) -> str:
    return f"CAST('{float(value)!r}' AS DOUBLE)"


def _as_double(x: str, dtype: pl.DataType) -> str:
    return x if dtype == pl.Float64 else f"CAST({x} AS DOUBLE)"


def _as_number(x: str, dtype: pl.DataType) -> str | None:
    """Return a value as the nearest float64; None where DuckDB and Polars could round otherwise.

    Up to fifteen digits of a decimal, and the power of ten, are float64s, so that their quotient is rounded once.
    """
    if _plain(dtype):
        return _as_double(x, dtype)
    if isinstance(dtype, pl.Decimal) and dtype.precision is not None and dtype.precision <= _EXACT:
        return f"(CAST({_digits(x, dtype)} AS DOUBLE) / {_double(10.0**dtype.scale)})"
    return None


def _digits(x: str, dtype: pl.Decimal) -> str:
    """Return a decimal without its point. Without the first cast, DuckDB multiplies in 64 bits."""
    wide = f"CAST({x} AS DECIMAL(38, {dtype.scale}))"
    return f"CAST({wide} * CAST({10**dtype.scale} AS DECIMAL({dtype.scale + 1}, 0)) AS HUGEINT)"


def _is_missing(x: str, dtype: pl.DataType) -> str:
    return f"({x} IS NULL OR isnan({x}))" if dtype.is_float() else f"{x} IS NULL"


def _plain(dtype: pl.DataType) -> bool:
    """Whether a number is held in at most 64 bits, as which DuckDB and Polars have the same float64."""
    return dtype in (pl.Float64, pl.Float32) or (dtype.is_integer() and dtype != pl.Int128)


def _of_number(column: Numeric, x: str, dtype: pl.DataType) -> str | None:
    v = _as_number(x, dtype)
    if v is None:
        return None
    if column.grid is not None:
        points = np.array(column.grid)
        inner = np.nextafter((points[:-1] + points[1:]) / 2, np.inf)  # a value on the middle goes below
        inside = _searched(v, inner)
    elif column._edges is not None:
        inside = _cell(column, v)
    else:
        inside = _rounded(column, v)
    if inside is None:
        return None
    bounds = _double(column.lower), _double(column.upper)
    return _bounded(column, v, bounds, inside, missing=_is_missing(x, dtype))


def _rounded(column: Numeric, v: str) -> str:
    """Return the index of the nearest point of a step, of two the even one."""
    assert column.values is not None
    y = f"(({v} - {_double(column.lower)}) / {_double(column.step)})"  # type: ignore[arg-type]  # there is a step
    whole, rest = f"floor({y})", f"({y} - floor({y}))"
    near = f"CASE WHEN {rest} < 0.5 THEN {whole} WHEN {rest} > 0.5 THEN {whole} + 1 ELSE {whole} + {whole} % 2 END"
    return f"CAST(least({near}, {column.values - 1}) AS BIGINT)"


def _cell(column: Numeric, v: str) -> str | None:
    """Return the cell between edges."""
    edges = column._edges
    assert edges is not None
    cells, lower, upper = len(edges) - 1, column.lower, column.upper
    if cells == 1:
        return "0"
    width = (upper - lower) / cells
    guess = f"floor({v if lower == 0 else f'({v} - {_double(lower)})'} / {_double(width)})"
    ends = edges[:-1], np.append(np.nextafter(edges[1:-1], -np.inf), upper)
    # Subtraction, division and floor are monotone, so what holds at both ends of a cell holds within it.
    off = np.max([np.abs(np.minimum(np.floor((at - lower) / width), cells - 1) - np.arange(cells)) for at in ends])
    if off == 0:
        return f"least(CAST({guess} AS INTEGER), {cells - 1})"  # quicker than of floats
    if off == 1 and np.array_equal(np.arange(1, cells) * width + lower, edges[1:-1]):
        low, high = (f"{at} * {_double(width)} + {_double(lower)}" for at in (guess, f"({guess} + 1)"))
        moved = f"CASE WHEN {v} < {low} THEN {guess} - 1 WHEN {v} >= {high} THEN {guess} + 1 ELSE {guess} END"
        return f"greatest(least(CAST({moved} AS INTEGER), {cells - 1}), 0)"
    search = _searched(v, edges[1:-1])
    if search is None or cells <= _PLAIN:
        return search
    if column.spacing == "log":
        first, last = float(np.log(lower)), float(np.log(upper))
        guess = f"floor((ln({v}) - {_double(first)}) * {_double(cells / (last - first))})"
    place = f"CAST(greatest(least({guess}, {cells - 1}), 0) AS INTEGER) + 1"
    low, high = (_list(ends) for ends in (edges[:-1], np.append(edges[1:-1], np.inf)))
    return f"CASE WHEN {v} >= {low}[{place}] AND {v} < {high}[{place}] THEN {place} - 1 ELSE {search} END"


def _list(values: npt.NDArray[np.float64]) -> str:
    return f"[{_listed(map(_double, values.tolist()))}]"


def _searched(v: str, inner: npt.NDArray[Any]) -> str | None:
    """Return how many of some ascending numbers are at most a value, by bisection."""
    if len(inner) >= _SEARCHED:
        return None
    texts = [_double(edge) if inner.dtype.kind == "f" else str(edge) for edge in inner.tolist()]

    def among(first: int, last: int) -> str:
        if first == last:
            return str(first)
        middle = (first + last) // 2
        return f"CASE WHEN {v} < {texts[middle]} THEN {among(first, middle)} ELSE {among(middle + 1, last)} END"

    return among(0, len(texts))


def _of_lattice(column: LatticeColumn, x: str, dtype: pl.DataType) -> str | None:
    found = _units(column, x, dtype)
    if found is None:
        return None
    units, stray = found
    inside = _of_units(column, units)
    if inside is None:
        return None
    bounds = str(column._start), str(column._stop)
    whole = _bounded(column, units, bounds, inside, missing=_is_missing(x, dtype))
    if stray is None:
        return whole
    return f"CASE WHEN {_is_missing(x, dtype)} THEN {_null(column)} WHEN {stray} THEN {MISFIT} ELSE {whole} END"


def _of_units(column: LatticeColumn, units: str) -> str | None:
    """Return the code of a whole number between the bounds."""
    index = f"({units} - {column._start})" if column._start else units
    if isinstance(column, Decimal):  # of 128 bits, as many as a value outside the bounds may need
        index = f"CAST({index} AS BIGINT)"
    points, groups = column._points, column._groups
    if column._stride > 1:
        index = f"least(({index} + {column._stride // 2}) // {column._stride}, {points - 1})"
    if groups is None or np.array_equal(groups, np.arange(points + 1) if len(groups) == points + 1 else ()):
        return index
    cells = column.cells or 1
    equal = len(groups) == cells + 1 and groups.tolist() == [cell * points // cells for cell in range(cells + 1)]
    if equal and points * cells < 2**62:  # the last c with floor(c * points / cells) <= index
        return f"((({index} + 1) * CAST({cells} AS BIGINT) - 1) // {points})"
    return _searched(index, groups[1:-1])


def _units(column: LatticeColumn, x: str, dtype: pl.DataType) -> tuple[str, str | None] | None:
    """Return a value as a whole number of units, and whether it is none; None where DuckDB cannot tell."""
    if isinstance(column, Integer):
        return _units_of_integer(x, dtype)
    if isinstance(column, Decimal):
        return _units_of_decimal(column, x, dtype)
    return _units_of_time(column, x, dtype) if isinstance(column, (Date, Datetime)) else None


def _units_of_time(column: Date | Datetime, x: str, dtype: pl.DataType) -> tuple[str, str | None] | None:
    """Return days or microseconds since 1970: of nanoseconds, rounded down; infinite moments lie outside all bounds."""
    days = f"CAST({x} - DATE '1970-01-01' AS BIGINT)"
    if dtype == pl.Date:
        return (days if isinstance(column, Date) else f"({days} * {_DAY})"), None
    if not isinstance(dtype, pl.Datetime):
        return None
    end = 2**63 - 1  # as which the infinite moments leave DuckDB
    infinite = f"CASE WHEN {x} > CAST('2000-01-01' AS TIMESTAMP) THEN {end} ELSE -{end} END"
    moment, day = (f"epoch_ns({x})", _DAY * 1000) if dtype.time_unit == "ns" else (f"epoch_us({x})", _DAY)
    if isinstance(column, Date):
        whole, stray = _floored(moment, day), f"NOT isfinite({x}) OR {moment} % {day} <> 0"
    else:
        whole, stray = moment if day == _DAY else _floored(moment, 1000), None
    return f"CASE WHEN isfinite({x}) THEN {whole} WHEN {x} IS NOT NULL THEN {infinite} END", stray


def _floored(whole: str, by: int) -> str:
    """Return a quotient rounded down: that of DuckDB is rounded towards zero."""
    return f"(({whole}) // {by} - CASE WHEN ({whole}) % {by} < 0 THEN 1 ELSE 0 END)"


def _units_of_integer(x: str, dtype: pl.DataType) -> tuple[str, str | None] | None:
    if not _plain(dtype):
        return None
    if dtype.is_float():
        v, most = _as_double(x, dtype), _double(2.0**62)
        return f"CAST(greatest(least({v}, {most}), -{most}) AS BIGINT)", f"floor({v}) <> {v}"
    if dtype == pl.UInt64:
        return f"CAST(least({x}, {2**62}) AS BIGINT)", None
    return (x if dtype == pl.Int64 else f"CAST({x} AS BIGINT)"), None


def _units_of_decimal(column: Decimal, x: str, dtype: pl.DataType) -> tuple[str, str | None] | None:
    """Return the digits of a number, as whole numbers of 128 bits."""
    if dtype.is_integer():
        return (f"(CAST({x} AS HUGEINT) * {10**column.digits})", None) if _plain(dtype) else None
    if not isinstance(dtype, pl.Decimal) or dtype.precision is None:
        return None
    precision, scale, more = dtype.precision, dtype.scale, column.digits - dtype.scale
    if precision + scale + 1 > 38 or precision + max(more, 0) > 37:
        return None
    digits = _digits(x, dtype)
    if more >= 0:
        return f"({digits} * {10**more})", None
    return f"({digits} // {10**-more})", f"{digits} % {10**-more} <> 0"


def _of_category(column: Category, x: str, dtype: pl.DataType) -> str | None:
    if column._of is bool:
        codes = [column.categories.index(value) if value in column.categories else MISFIT for value in (True, False)]
        return f"CASE WHEN {x} THEN {codes[0]} WHEN {x} IS NULL THEN {_null(column)} ELSE {codes[1]} END"
    labels = [str(label) for label in column.categories]
    if any("\0" in label for label in labels):
        return None
    listed = _listed(map(sql_text, labels))
    text = f"CAST({x} AS VARCHAR)"
    if column._of is int:
        if not _plain(dtype):
            return None
        if dtype.is_float():
            v = _as_double(x, dtype)
            held = f"{v} = floor({v}) AND {v} >= {_double(-(2.0**63))} AND {v} < {_double(2.0**63)}"
            text = f"CASE WHEN {held} THEN CAST(CAST({v} AS BIGINT) AS VARCHAR) END"
    # The cast to an enumeration looks a text up by its bytes, whatever the collation of its column.
    found = f"CAST(enum_code(TRY_CAST({text} AS ENUM({listed}))) AS INTEGER)"
    return f"coalesce({found}, CASE WHEN {_is_missing(x, dtype)} THEN {_null(column)} ELSE {MISFIT} END)"
