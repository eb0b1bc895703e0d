"""Tables of DuckDB: a stream of their rows, and the rows of each privacy unit, cut where they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from discreet._core.lazy import nw, pl

_BATCH = 2**17
_UNIT, _FREQUENCY, _NUMBER, _PLACE, _ORDER = "u", "f", "i", "place", "h"
_UNITS = (pl.String, pl.Categorical, pl.Enum, pl.Date, pl.Boolean)  # types of a column of units, beside integers


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


def record_batches(relation: Any, columns: Iterable[str]) -> Any:
    """Return a reader of record batches of some columns; a dot in a name is no path to a field."""
    rows = relation.project(_listed(f"{_value(relation, name)} AS {quoted(name)}" for name in columns))
    return rows.to_arrow_reader(_BATCH) if hasattr(rows, "to_arrow_reader") else rows.fetch_arrow_reader(_BATCH)


def slots(
    relation: Any, columns: Iterable[str], *, unit: str, most: int, key: str, frequency: str
) -> tuple[pl.DataFrame, int, int] | None:
    """Cut every unit as :meth:`Cells.slots` does; None where the type of its column names no units for sure."""
    names = list(columns)
    schema = _fetched(relation.project(_listed(map(quoted, [*names, unit]))).limit(0)).schema
    if not (schema[unit].is_integer() or schema[unit] in _UNITS):
        return None
    places = {f"c{place}": name for place, name in enumerate(names)}
    parts = [f"{_bytes(relation, name, schema[name])} AS {place}" for place, name in places.items()]
    rows = relation.project(_listed([f"{_bytes(relation, unit, schema[unit])} AS {_UNIT}", *parts]))
    totals = rows.aggregate(f"{_listed([_UNIT, *places])}, {_COUNT}", _listed([_UNIT, *places]))
    # DuckDB makes a join of a window without an order, and reads a view that draws at random twice
    whole = f"PARTITION BY {_UNIT} ORDER BY {_UNIT}"
    totals = totals.project(f"*, CAST(sum({_FREQUENCY}) OVER ({whole}) AS BIGINT) AS held")
    numbered = totals.project(f"{_listed([_UNIT, *places])}, held, unnest(range({_FREQUENCY})) AS {_NUMBER}")
    hashed = numbered.project(f"{_listed([_UNIT, *places, _NUMBER])}, {_order(places, schema, most=most, key=key)}")
    order = _listed([_ORDER, *places, _NUMBER])
    ranked = hashed.project(
        f"{_listed([_UNIT, *places])}, row_number() OVER (PARTITION BY {_UNIT} ORDER BY {order}) AS {_PLACE}"
    )
    slots = ranked.filter(f"{_PLACE} <= {most}")
    kinds = {"firsts": f"{_PLACE} = 1", "unnamed": f"{_UNIT} IS NULL"}
    counts = [f"CAST(count(*) FILTER ({kind}) AS BIGINT) AS {name}" for name, kind in kinds.items()]
    frame = _fetched(slots.aggregate(_listed([*places, _COUNT, *counts]), _listed(places)))
    texts = [pl.col(place).cast(pl.String) for place in places if frame[place].dtype == pl.Binary]
    named = frame.with_columns(texts).drop(kinds).rename({**places, _FREQUENCY: frequency})
    return named, int(frame["firsts"].sum()), int(frame["unnamed"].sum())


def _order(places: Mapping[str, str], schema: pl.Schema, *, most: int, key: str) -> str:
    """Return the hash of a row: distinct values have distinct texts, none of which holds the separator."""
    texts = [
        f"CAST({place} AS VARCHAR)" if schema[name].is_numeric() else f"hex(CAST({place} AS {_hashed(schema[name])}))"
        for place, name in places.items()
    ]
    values = [f"coalesce({text}, 'null')" for text in texts]
    parts = [sql_text(key), f"CAST({_UNIT} AS VARCHAR)", *values, f"CAST({_NUMBER} AS VARCHAR)"]
    return f"CASE WHEN held > {most} THEN sha256(concat_ws('|', {_listed(parts)})) END AS {_ORDER}"


def _hashed(dtype: pl.DataType) -> str:
    return "BLOB" if dtype in (pl.String, pl.Categorical, pl.Enum) else "VARCHAR"


def _value(relation: Any, name: str) -> str:
    """Return a value as it leaves DuckDB: infinite moments must lie outside of all bounds there, or are refused."""
    types = dict(zip(relation.columns, map(str, relation.types), strict=True))
    if types[name] in ("TIMESTAMP_S", "TIMESTAMP_MS"):  # Arrow's readers would multiply what stands for infinity
        return f"CAST({quoted(name)} AS TIMESTAMP)"
    if types[name] == "TIMESTAMP_NS":  # what stands for infinity is a moment of the year 2262
        x = quoted(name)
        return f"CASE WHEN isfinite({x}) OR {x} IS NULL THEN {x} ELSE error('infinite') END"
    return quoted(name)


def _bytes(relation: Any, name: str, dtype: pl.DataType) -> str:
    """Return a value to group by: a text as its bytes, which no collation makes equal, and no negative zero."""
    if _hashed(dtype) == "BLOB":
        return f"encode(CAST({quoted(name)} AS VARCHAR))"
    return f"{quoted(name)} + 0.0" if dtype.is_float() else _value(relation, name)


_COUNT = f"CAST(count(*) AS BIGINT) AS {_FREQUENCY}"


def _fetched(relation: Any) -> pl.DataFrame:
    frame: pl.DataFrame = nw.from_native(relation).collect().to_polars()
    return frame


def _listed(parts: Iterable[str]) -> str:
    return ", ".join(parts)


def quoted(name: str) -> str:
    """Return a name as DuckDB reads it."""
    return '"' + name.replace('"', '""') + '"'


def sql_text(text: str) -> str:
    """Return a text as DuckDB reads it."""
    return "'" + text.replace("'", "''") + "'"
