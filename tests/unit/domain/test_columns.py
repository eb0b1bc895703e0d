"""What holds for every kind of column: codes and values match both ways, types are kept, nulls are met as declared."""

import datetime as dt
import pickle
from decimal import Decimal as Exact
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pytest

from discreet._core.random import seeded
from discreet.domain import Boolean, Category, Date, Datetime, Decimal, Domain, Duration, Integer, Numeric, OpenLabels
from discreet.domain.column import Column
from discreet.errors import DataError, DomainError

FINITE: dict[str, tuple[dict[str, Any], type[Column], pl.DataType]] = {
    "linear": ({"lower": -2.5, "upper": 7, "cells": 37}, Numeric, pl.Float64()),
    "log": ({"lower": 1, "upper": 3e6, "cells": 1000, "spacing": "log"}, Numeric, pl.Float64()),
    "log below one": ({"lower": 1e-9, "upper": 2, "cells": 313, "spacing": "log"}, Numeric, pl.Float64()),
    "midpoint": ({"lower": 0, "upper": 1, "cells": 9, "within": "midpoint"}, Numeric, pl.Float64()),
    "float32": ({"lower": 0, "upper": 1, "cells": 777, "dtype": "float32"}, Numeric, pl.Float32()),
    "float32 log": (
        {"lower": 0.1, "upper": 1e5, "cells": 777, "spacing": "log", "dtype": "float32"},
        Numeric,
        pl.Float32(),
    ),
    "grid": ({"lower": -1, "upper": 100, "grid": [0, 0.1, 5, 100]}, Numeric, pl.Float64()),
    "integer grid": ({"lower": 0, "upper": 9, "grid": [0, 3, 9], "dtype": "uint8"}, Numeric, pl.UInt8()),
    "step": ({"lower": -1, "upper": 1, "step": 0.05}, Numeric, pl.Float64()),
    "step with a rest": ({"lower": 0, "upper": 1, "step": 0.3}, Numeric, pl.Float64()),
    "step and cells": ({"lower": 0, "upper": 10, "cells": 7, "step": 0.1}, Numeric, pl.Float64()),
    "step longer than cells": ({"lower": 0, "upper": 10, "cells": 40, "step": 1}, Numeric, pl.Float64()),
    "whole step": ({"lower": 5, "upper": 500, "step": 5, "dtype": "int16"}, Numeric, pl.Int16()),
    "whole step and cells": (
        {"lower": 1, "upper": 1001, "cells": 10, "step": 1, "dtype": "int32"},
        Numeric,
        pl.Int32(),
    ),
    "integer": ({"lower": -3, "upper": 20}, Integer, pl.Int64()),
    "integer cells": ({"lower": 0, "upper": 100, "cells": 7, "dtype": "uint8"}, Integer, pl.UInt8()),
    "integer log": ({"lower": 1, "upper": 10**6, "cells": 100, "spacing": "log"}, Integer, pl.Int64()),
    "boolean": ({}, Boolean, pl.Boolean()),
    "date": ({"lower": "1999-12-30", "upper": "2001-01-02"}, Date, pl.Date()),
    "date cells": ({"lower": dt.date(1900, 1, 1), "upper": dt.date(2030, 1, 1), "cells": 13}, Date, pl.Date()),
    "datetime": ({"lower": "2024-01-01", "upper": "2024-01-05T12:30", "step": "1h"}, Datetime, pl.Datetime("us")),
    "datetime cells": (
        {"lower": "1960-01-01", "upper": "2024-01-05", "step": dt.timedelta(seconds=1), "cells": 11},
        Datetime,
        pl.Datetime("us"),
    ),
    "datetime zone": (
        {"lower": "2024-03-30", "upper": "2024-04-02", "step": "30m", "time_zone": "Europe/Paris"},
        Datetime,
        pl.Datetime("us", "Europe/Paris"),
    ),
    "duration": ({"lower": "-1h", "upper": "1d12h", "step": "90s"}, Duration, pl.Duration("us")),
    "decimal": ({"lower": "-1.25", "upper": "9.99", "digits": 2}, Decimal, pl.Decimal(38, 2)),
    "decimal cells": (
        {"lower": Exact("0.001"), "upper": Exact(10**12), "digits": 3, "cells": 17},
        Decimal,
        pl.Decimal(38, 3),
    ),
    "strings": ({"categories": ["b", "a", "ü", ""]}, Category, pl.String()),
    "enum": ({"categories": ["b", "a"], "dtype": "category", "ordered": True}, Category, pl.Enum(["b", "a"])),
    "integers": ({"categories": [3, -1, 7], "dtype": "int8"}, Category, pl.Int8()),
    "bools": ({"categories": [True, False]}, Category, pl.Boolean()),
}


def build(name: str, **more: Any) -> Column:
    facts, kind, _ = FINITE[name]
    return kind(**facts, **more)


@pytest.mark.parametrize("nulls", ["error", "category"])
@pytest.mark.parametrize("name", FINITE)
def test_every_cell_survives_decoding_and_encoding(name: str, nulls: str) -> None:
    column = build(name, nulls=nulls)
    assert column.size is not None
    codes = np.repeat(np.arange(column.size), 5)
    values = column.decode(codes, rng=np.random.default_rng(1))
    assert values.dtype == FINITE[name][2]
    np.testing.assert_array_equal(column.encode(values), codes)
    assert values.null_count() == (5 if nulls == "category" else 0)


@pytest.mark.parametrize("name", FINITE)
def test_a_column_is_its_plain_data(name: str) -> None:
    column = build(name, nulls="category")
    domain = Domain(columns={name: column})
    again = Domain.from_toml(domain.to_toml())
    assert again.columns[name] == column
    assert again == domain
    assert hash(again) == hash(domain)
    assert pickle.loads(pickle.dumps(domain)) == domain


@pytest.mark.parametrize("name", FINITE)
def test_uniform_base_draws_are_integers_below_the_size(name: str) -> None:
    column = build(name, nulls="category")
    assert column.size is not None
    expected = np.random.default_rng(3).integers(column.size, size=50, dtype=np.int64)
    np.testing.assert_array_equal(column.draw(50, np.random.default_rng(3)), expected)
    assert column.least() == (Fraction(1, column.size), Fraction(1, column.size))
    np.testing.assert_allclose(column.log_base(np.arange(column.size)), -np.log(column.size), rtol=1e-15)


@pytest.mark.parametrize("name", FINITE)
def test_distance_is_a_metric_bounded_by_one(name: str) -> None:
    column = build(name, nulls="category")
    assert column.size is not None
    rng = np.random.default_rng(4)
    a, b, c = (rng.integers(column.size, size=400) for _ in range(3))
    ab = column.distance(a, b)
    np.testing.assert_array_equal(ab, column.distance(b, a))
    np.testing.assert_array_equal(ab == 0, a == b)
    assert np.all(ab <= column.distance(a, c) + column.distance(c, b) + 1e-12)
    assert ab.max() <= 1
    null = np.full(400, column.null_code)
    np.testing.assert_array_equal(column.distance(a, null), (a != column.null_code).astype(float))


@pytest.mark.parametrize("name", FINITE)
def test_positions_increase_with_the_code_and_miss_for_a_null(name: str) -> None:
    column = build(name, nulls="category")
    assert column.values is not None
    if isinstance(column, Boolean) or (isinstance(column, Category) and not column.ordered):
        with pytest.raises(DomainError, match="no positions"):
            column.positions(np.arange(2))
        return
    positions = column.positions(np.arange(column.values + 1))
    assert np.all(np.diff(positions[:-1]) > 0)
    assert np.isnan(positions[-1])
    assert positions[-2] - positions[0] <= column.scale


@pytest.mark.parametrize("name", [*FINITE, "continuous", "labels"])
def test_an_undeclared_null_is_an_error(name: str) -> None:
    column: Column = {"continuous": Numeric(lower=0, upper=1), "labels": OpenLabels()}.get(name) or build(name)
    with pytest.raises(DataError, match='nulls = "category"'):
        column.encode(pl.Series([None]), name="c")
    with pytest.raises(DomainError, match="nulls are not declared"):
        _ = column.null_code


@pytest.mark.parametrize("name", [name for name in FINITE if "upper" in FINITE[name][0]])
def test_out_of_bounds_is_an_error_or_clipped(name: str) -> None:
    facts, kind, dtype = FINITE[name]
    wide = dict(facts)
    for key in ("cells", "spacing", "grid", "dtype", "within"):
        wide.pop(key, None)
    units = {Date: dt.timedelta(days=1), Datetime: dt.timedelta(hours=1), Duration: dt.timedelta(hours=1)}
    column = build(name)
    shift: Any = units.get(kind, Exact(1) if kind is Decimal else 1)
    wide["lower"], wide["upper"] = column.lower - shift, column.upper + shift  # type: ignore[attr-defined]
    outer = kind(**wide)
    ends = (
        pl.Series([wide["lower"], wide["upper"]])
        if kind is Numeric
        else outer.decode(np.array([0, (outer.size or 0) - 1]), rng=np.random.default_rng(0))
    )
    for end in (ends[:1], ends[1:]):
        with pytest.raises(DataError, match="outside the declared bounds"):
            column.encode(end)
    assert column.size is not None
    clipped = build(name, out_of_bounds="clip")
    np.testing.assert_array_equal(clipped.encode(ends), [0, column.size - 1])


@pytest.mark.parametrize(("nulls", "unread"), [("error", 0), ("category", 11)])
def test_a_clipped_column_of_numbers_and_texts_takes_every_value(nulls: str, unread: int) -> None:
    """What is neither a number nor a censored text is no cell of theirs: that of a null, or the first."""
    column = Integer(lower=0, upper=9, censored=[">9"], out_of_bounds="clip", nulls=nulls)
    domain = Domain(columns={"a": column})
    records = domain.encode(pl.DataFrame({"a": ["1", ">9", "abc", "77", None, "-3"]}))
    assert records.columns[0].tolist() == [1, 10, unread, 9, unread, 0]
    assert domain.decode(records, rng=seeded(0))["a"].to_list()[:2] == ["1", ">9"]
