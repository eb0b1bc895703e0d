"""What an owner may overlook is said to the custodian, without a value, and not of what is ordinary."""

import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from discreet import Unit
from discreet.confidential import check_table, reveal_to_custodian
from discreet.domain import Boolean, Category, Date, Domain, Integer, Numeric, OpenLabels

ROWS = 600
RNG = np.random.default_rng(3)
GROUPS = RNG.integers(0, 20, ROWS)
START = np.datetime64("2020-01-01") + RNG.integers(0, 300, ROWS)
TABLE = pl.DataFrame(
    {
        "number": np.arange(ROWS) + 10**6,
        "person": np.repeat(np.arange(ROWS // 4), 4),
        "who": ["Ann L" + "".join("aeiou"[i % 590 // 5**k % 5] for k in range(5)) for i in range(ROWS)],
        "note": [f"they came at {i % 590} and left soon" for i in range(ROWS)],
        "mail": [f"a{i % 590}@secret.com" for i in range(ROWS)],
        "phone": [f"+49 30 {i % 590:07}" for i in range(ROWS)],
        "street": [f"{i % 590} High Street" for i in range(ROWS)],
        "same": ["x"] * ROWS,
        "sub": GROUPS,
        "grade": GROUPS // 5,
        "letter": [f"g{group // 5}" for group in GROUPS],
        "start": START,
        "end": START + RNG.integers(0, 9, ROWS),
        "income": np.where(RNG.random(ROWS) < 0.04, -7, RNG.integers(0, 5000, ROWS)),
        "weight": RNG.normal(70, 9, ROWS),
        "age": RNG.integers(0, 90, ROWS),
        "ok": RNG.random(ROWS) < 0.5,
    }
)
YEARS: dict[str, Any] = {"lower": dt.date(2019, 1, 1), "upper": dt.date(2022, 1, 1)}
COLUMNS: dict[str, Any] = {
    "number": Integer(lower=0, upper=10**7),
    **{name: OpenLabels() for name in ("who", "note", "mail", "phone", "street")},
    "same": Category(categories=["x", "y"]),
    "sub": Integer(lower=0, upper=40),
    "grade": Integer(lower=0, upper=9),
    "letter": Category(categories=["g0", "g1", "g2", "g3"]),
    "start": Date(**YEARS),
    "end": Date(**YEARS),
    "income": Integer(lower=-9, upper=5000),
    "weight": Numeric(lower=0, upper=200, cells=400),
    "age": Integer(lower=0, upper=99),
    "ok": Boolean(),
}
EXPECTED = {
    "number": "every row has its own value",
    "who": "it looks like names of persons",
    "note": "it looks like free text",
    "mail": "it looks like addresses of e-mail",
    "phone": "it looks like telephone numbers",
    "street": "it looks like addresses",
    "same": "it has one value only",
    "grade": "it follows from 'sub' in these rows",
    "letter": "It codes what 'grade' codes",
    "end": 'order = ["start", "end"]',
    "income": 'null_values = ["..."]',
    "person": "150 values in 600 rows: is each a person?",
}


def hints(data: Any, columns: dict[str, Any], **facts: Any) -> dict[str, str]:
    check = reveal_to_custodian(check_table(data, Domain(columns=columns), accept={"other-columns"}, **facts))
    assert not check.findings
    return dict(check.hints)


@pytest.mark.parametrize("form", ["frame", "csv", "parquet"])
def test_what_may_be_overlooked(form: str, tmp_path: Path) -> None:
    data: Any = TABLE
    if form != "frame":
        data = tmp_path / f"t.{form}"
        getattr(TABLE, f"write_{form}")(data)
    found = hints(data, COLUMNS)
    assert found.keys() == EXPECTED.keys()
    for name, text in EXPECTED.items():
        assert text in found[name]
    assert "secret" not in str(found)


def test_a_line_that_is_written_ends_the_hint() -> None:
    ordered = {name: COLUMNS[name] for name in ("start", "end", "sub", "grade")}
    assert hints(TABLE, ordered).keys() == {"end", "grade", "person"}
    ordered = {name: replace(column, nulls="category") for name, column in ordered.items()}
    domain = Domain(columns=ordered, order=["start", "end"], determines=["sub", "grade"])
    check = reveal_to_custodian(
        check_table(TABLE, domain, accept={"other-columns"}, unit=Unit("person", max_records=4))
    )
    assert check.hints == {}
    codes = Integer(lower=0, upper=5000, out_of_bounds="null", nulls="category")
    check = reveal_to_custodian(check_table(TABLE, Domain(columns={"income": codes}), accept={"other-columns"}))
    assert "income" not in check.hints


def test_nothing_is_said_of_few_rows_or_no_rows() -> None:
    assert hints(TABLE.head(19), COLUMNS) == {}


@pytest.mark.parametrize(("lower", "code", "said"), [(0, -9, True), (-9, -9, False), (0, -6_543, False), (0, 3, False)])
def test_codes_below_the_bounds_are_told_of_where_a_release_would_clip_them(lower: int, code: int, said: bool) -> None:
    domain = Domain(columns={"children": Integer(lower=lower, upper=5, out_of_bounds="clip")})
    table = pl.DataFrame({"children": [0, 1, 2, code] * 50})
    check = reveal_to_custodian(check_table(table, domain))
    assert ("often mean missing" in check.hints.get("children", "")) is said
    as_null = Domain(columns={"children": Integer(lower=0, upper=5, out_of_bounds="null", nulls="category")})
    assert reveal_to_custodian(check_table(table, as_null)).hints == {}  # the remedy, followed
