"""What does not fit is found, all of it, and is exactly what a release is refused for."""

import datetime as dt
import json
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal as Exact
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from forms import TEXT, Hostile, in_form
from hypothesis import given
from hypothesis import strategies as st

from discreet import Unit
from discreet.cli.entry import run
from discreet.confidential import check as check_module
from discreet.confidential import check_table, confidential, reveal_to_custodian
from discreet.confidential.check import TableCheck
from discreet.domain import Boolean, Category, Date, Datetime, Decimal, Domain, Duration, Integer, Numeric, OpenLabels
from discreet.domain.column import Column
from discreet.domain.texts import Misfit
from discreet.errors import DataError, DomainError, FileProblem, ParameterError

NAN, INF = float("nan"), float("inf")
DOMAIN = Domain(
    columns={
        "age": Integer(lower=0, upper=120),
        "sex": Category(categories=["f", "m"]),
        "paid": Numeric(lower=0, upper=10),
        "town": OpenLabels(nulls="category"),
    }
)


def checked(data: Any, domain: Domain = DOMAIN, **options: Any) -> TableCheck:
    return reveal_to_custodian(check_table(data, domain, **options))


def facts(check: TableCheck) -> list[tuple[Any, ...]]:
    return [
        ("+".join(one.columns), one.problem, one.rows, [(example.value, example.rows) for example in one.examples])
        for one in check.findings
    ]


def dirty() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "age": [31.0, 999.0, 2.5, -1.0, None, NAN, 999.0],
            "sex": ["f", "M", "m", "M", "?", None, "f"],
            "paid": [0.0, INF, 11.0, -1.0, 5.0, 5.0, -INF],
            "town": ["a", "new_category_7", None, "b", "b", "b", "b"],
        }
    )


ALL = [
    ("age", "holds a null", 1, []),
    ("age", "holds a NaN", 1, []),
    ("age", "holds numbers that are not whole", 1, [(2.5, 1)]),
    ("age", "a value lies below the declared lower bound", 1, [(-1.0, 1)]),
    ("age", "a value lies above the declared upper bound", 2, [(999.0, 2)]),
    ("sex", "holds a null", 1, []),
    ("sex", "holds a category that is not declared", 3, [("M", 2), ("?", 1)]),
    ("paid", "a value is infinite", 2, [("-inf", 1), ("inf", 1)]),
    ("paid", "a value lies below the declared lower bound", 1, [(-1.0, 1)]),
    ("paid", "a value lies above the declared upper bound", 1, [(11.0, 1)]),
    ("town", "a label starts with the reserved prefix of new labels", 1, [("new_category_7", 1)]),
]


@pytest.mark.parametrize("form", ["polars", "lazy", "pyarrow", "parquet"])
def test_everything_is_found_at_once(form: str, tmp_path: Path) -> None:
    found = checked(in_form(dirty(), form, tmp_path))
    assert facts(found) == ALL
    assert found.rows == 7
    assert found.refused
    assert not found.fits


def test_texts_of_a_file_are_read_as_a_release_reads_them(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("age,sex,paid,town\n31,f,1,'=a\nold,M,2,\n 130 ,,x,b\nold,f,inf,new_category_1\n")
    assert facts(checked(path)) == [
        ("age", "values are not whole numbers written 1234", 2, [("old", 2)]),
        ("age", "a value lies above the declared upper bound", 1, [(" 130 ", 1)]),
        ("sex", "holds a null", 1, []),
        ("sex", "holds a category that is not declared", 1, [("M", 1)]),
        ("paid", "values are not numbers written 1234.5", 1, [("x", 1)]),
        ("paid", "a value is infinite", 1, [("inf", 1)]),
        ("town", "a label starts with the reserved prefix of new labels", 1, [("new_category_1", 1)]),
    ]


def test_columns_are_found_missing_undeclared_and_of_the_wrong_type() -> None:
    frame = dirty().drop("sex").with_columns(paid=pl.lit("much"), town=pl.lit([1]), more=1, most=2)
    found = checked(frame, examples=1)
    told = [(where, problem, rows, examples) for where, problem, rows, examples in facts(found) if where != "age"]
    assert told == [
        ("sex", "is not in the table", None, []),
        ("paid", "values are not numbers written 1234.5", 7, [("much", 7)]),
        ("town", "holds List values, not the declared open_labels", 7, []),
        ("more", "is in the table but not in the domain", None, []),
        ("most", "is in the table but not in the domain", None, []),
    ]
    assert not any(one.columns[0].startswith("mo") for one in checked(frame, accept={"other-columns"}).findings)


def test_a_table_without_rows_or_columns() -> None:
    empty = checked(dirty().clear())
    assert (empty.rows, [one.problem for one in empty.findings]) == (0, ["has no rows"])
    none = checked(pl.DataFrame({"x": [1]}))
    assert none.rows is None
    assert [one.columns for one in none.findings] == [("age",), ("sex",), ("paid",), ("town",), ("x",)]


# -- the reasons agree with the encoding ------------------------------------------------------------------------------


def dates(*texts: str | None) -> pl.Series:
    return pl.Series([text and dt.date.fromisoformat(text) for text in texts])


def times(*texts: str | None) -> pl.Series:
    return pl.Series([text and dt.datetime.fromisoformat(text) for text in texts])


TINY, HUGE = -(2**63), 2**63 - 1
UNSIGNED = pl.Series([1, 2**64 - 1], dtype=pl.UInt64)
COLUMNS: dict[str, tuple[Column, list[Any]]] = {
    "boolean": (Boolean(), [[True, None, False]]),
    "labels": (Category(categories=["a", "b"]), [["a", "A", "", None, "b ", "b"]]),
    "labels, nullable": (Category(categories=["a"], nulls="category"), [["a", None, "x"]]),
    "labels of a category": (Category(categories=["a"]), [pl.Series(["a", "x", None], dtype=pl.Categorical)]),
    "codes": (
        Category(categories=[3, 1, 2**62]),
        [[1, 2, 3, None, 0, TINY, HUGE], [1.0, 1.5, NAN, INF, 1e300, 3.0, 0.0], UNSIGNED],
    ),
    "truth values": (Category(categories=[True]), [[True, False, None]]),
    "open labels": (OpenLabels(prefix="new"), [["a", "new", "newer", "anew", "", None]]),
    "continuous": (
        Numeric(lower=-1, upper=1),
        [[-1.0, 1.0, np.nextafter(1.0, 2), NAN, INF, -INF, None, -0.0], [2, 1, 0, -(2**62)]],
    ),
    "clipped": (Numeric(lower=0, upper=1, cells=2, out_of_bounds="clip"), [[-5.0, INF, NAN, 0.5, None]]),
    "exact decimals for a number": (Numeric(lower=0, upper=1), [[Exact("0.5"), Exact("1.5"), None]]),
    "integer": (
        Integer(lower=-3, upper=7),
        [
            [-4, -3, 7, 8, None, HUGE, TINY],
            [0.0, 0.5, NAN, INF, -INF, 1e300, 8.0, -4.0],
            UNSIGNED,
            pl.Series([0, 2**100], dtype=pl.Int128),
            pl.Series([0.5, 1.0, INF], dtype=pl.Float32),
        ],
    ),
    "integer, clipped": (Integer(lower=0, upper=7, out_of_bounds="clip", cells=2), [[9.0, 0.5, None]]),
    "decimal": (
        Decimal(lower="0", upper="9.99", digits=2),
        [
            [*map(Exact, ("1.25", "1.255", "-0.01", "10.00", "9.99")), None],
            [0, 9, 10, -1, None],
            pl.Series([10**37, 1], dtype=pl.Int128),
        ],
    ),
    "date": (
        Date(lower="2020-01-01", upper="2020-12-31"),
        [dates("2019-12-31", "2020-01-01", None, "2021-01-01"),
         times("2020-01-01", "2020-01-01T01:00", "2021-01-01", None)],
    ),
    "datetime": (
        Datetime(lower="2020-01-01", upper="2020-12-31", step="1h"),
        [times("2020-01-01", "2019-12-31T23:59", "2021-01-01", None), dates("2020-01-01", "2019-01-01")],
    ),
    "duration": (
        Duration(lower="0s", upper="1h", step="1m"),
        [[dt.timedelta(0), dt.timedelta(hours=2), dt.timedelta(seconds=-1), None]],
    ),
}  # fmt: skip


def refused(column: Column, values: pl.Series) -> bool:
    try:
        column.encode(values)
    except DataError:
        return True
    return False


@pytest.mark.parametrize("name", COLUMNS)
def test_a_value_has_one_reason_exactly_where_the_encoding_refuses_it(name: str) -> None:
    column, tables = COLUMNS[name]
    for values in map(pl.Series, tables):
        strict = replace(column, out_of_bounds="error")
        wanted = [refused(strict, values[place : place + 1]) for place in range(len(values))]
        reasons = sum(misfit.where.astype(int) for misfit in column.misfits(values))
        assert (np.zeros(len(values)) + reasons).tolist() == [float(one) for one in wanted], values
        assert refused(column, values) == (any(wanted) and column.out_of_bounds == "error")


def test_what_has_no_reason_is_still_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind of column whose reasons lag behind its encoding hides nothing."""

    def none(self: Integer, series: pl.Series) -> Iterator[Misfit]:
        yield from ()

    def fails(self: Integer, series: pl.Series) -> Iterator[Misfit]:
        raise RuntimeError(TEXT)

    domain = Domain(columns={"x": Integer(lower=0, upper=9)})
    for planted in (none, fails):
        monkeypatch.setattr(Integer, "_misfits", planted)
        found = checked(pl.DataFrame({"x": [1, 99, None]}), domain)
        assert "a value lies outside the declared bounds" in [one.problem for one in found.findings] or found.refused
        assert found.refused
        assert TEXT not in str(found)


# -- what is refused here is what a release refuses -------------------------------------------------------------------

SMALL = Domain(
    columns={
        "a": Integer(lower=0, upper=3, nulls="category"),
        "b": Category(categories=["f", "m"]),
        "c": Numeric(lower=0, upper=1, cells=2, nulls="category", out_of_bounds="clip"),
    },
    impossible=[{"a": 0, "b": "m"}],
)
NULLABLE = Domain(
    columns={"a": Integer(lower=0, upper=3, nulls="category"), "b": Category(categories=["f", "m"], nulls="category")}
)
LIKELY = st.sampled_from([0, 1, 2, 3])
NUMBERS = st.one_of(LIKELY, LIKELY, LIKELY, st.sampled_from([None, 4, -1, 0.5, NAN, INF, 2.0]))
LABELS = st.one_of(st.sampled_from(["f", "m"]), st.sampled_from(["f", "m", "m", "F", "", None]))
PARTS = st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([None, -1.0, NAN, INF]))


@st.composite
def tables(draw: st.DrawFn) -> dict[str, list[Any]]:
    rows = draw(st.integers(0, 6))
    columns = {"a": NUMBERS, "b": LABELS, "c": PARTS, "u": st.sampled_from([1, 1, 2, None])}
    columns["d"] = columns["a"]
    names = draw(st.sampled_from(["abcu", "abcu", "abcu", "abcu", "abcud", "bcu", "uba"]))
    return {name: draw(st.lists(columns[name], min_size=rows, max_size=rows)) for name in names}


@given(
    table=tables(),
    form=st.sampled_from(["polars", "lazy", "pandas", "pyarrow", "csv", "parquet"]),
    unit=st.booleans(),
    ignore=st.sampled_from([True, True, False]),
    texts=st.sampled_from([False, False, False, True]),
)
def test_refused_here_is_refused_there(
    tmp_path_factory: pytest.TempPathFactory,
    table: dict[str, list[Any]],
    form: str,
    unit: bool,
    ignore: bool,
    texts: bool,
) -> None:
    frame = pl.DataFrame(table, strict=False)
    if texts:
        frame = frame.with_columns(pl.col("b").cast(pl.Categorical))
    if form == "pandas":
        data: Any = pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in table.items()})
    else:
        data = in_form(frame, form, tmp_path_factory.mktemp("t"))
    domain = NULLABLE if unit else SMALL
    options: dict[str, Any] = {"accept": {"other-columns"} if ignore else ()}
    options |= {"unit": Unit("u", max_records=2)} if unit else {}
    try:
        counts: Any = confidential(data, domain, **options)
    except DataError as problem:
        counts = problem
    found = checked(data, domain, **options)
    assert found.refused == isinstance(counts, DataError), (str(found), counts)
    assert found.fits or found.findings
    if not found.refused and unit:
        assert counts.relation_group * found.units.units == 2 * found.units.units


# -- details ----------------------------------------------------------------------------------------------------------


def test_a_pandas_column_of_several_types_is_one_finding_and_the_others_are_looked_at() -> None:
    values = [1, "n/a", 2, None, "n/a", 500, pd.NA, dt.date(2020, 1, 1)]
    frame = pd.DataFrame({"x": pd.Series(values, dtype=object), "y": [1.0] * 8})
    domain = Domain(columns={"x": Integer(lower=0, upper=9), "y": Numeric(lower=0, upper=0.5)})
    with pytest.raises(DataError, match="'x': its values have no common type"):
        confidential(frame, domain)
    found = checked(frame, domain)
    assert facts(found) == [
        ("x", "its values have no common type", None, []),
        ("y", "a value lies above the declared upper bound", 8, [(1.0, 8)]),
    ]
    assert found.refused
    assert "cast" in found.findings[0].remedy


def test_impossible_combinations_are_found_and_not_refused() -> None:
    domain = Domain(
        columns={
            "age": Integer(lower=0, upper=99, cells=20),
            "married": Category(categories=["no", "yes"]),
            "city": Category(categories=["Lyon", "Paris"]),
            "region": Category(categories=["ARA", "IDF"], nulls="category"),
        },
        impossible=[{"age": {"below": 15}, "married": "yes"}],
        implies=[{"columns": ["city"], "determine": "region", "table": {"Lyon": "ARA", "Paris": "IDF"}}],
    )
    frame = pl.DataFrame(
        {
            "age": [3, 3, 14, 15, 40],
            "married": ["yes", "yes", "yes", "yes", "no"],
            "city": ["Lyon", "Lyon", "Paris", "Paris", "Paris"],
            "region": ["ARA", "IDF", None, "IDF", "IDF"],
        }
    )
    found = checked(frame, domain)
    problem = "contradicts a rule of the domain"
    assert facts(found) == [
        ("age+married", problem, 3, [({"age": 3, "married": "yes"}, 2), ({"age": 14, "married": "yes"}, 1)]),
        ("city+region", problem, 2, [({"city": "Lyon", "region": "IDF"}, 1), ({"city": "Paris", "region": None}, 1)]),
    ]
    assert not found.refused
    assert not found.fits
    assert "is not refused" in str(found)
    confidential(frame, domain)
    broken = checked(frame.with_columns(age=pl.Series([3, 999, 14, 15, 40])), domain)
    rows = {"+".join(one.columns): one.rows for one in broken.findings}
    assert rows == {"age": 1, "age+married": 2, "city+region": 2}
    assert broken.refused


def test_units_are_counted_and_not_chosen() -> None:
    frame = pl.DataFrame({"a": [0, 1, 2, 3, 3, 3, 1], "b": ["f"] * 7, "who": list("xxxyyzz")})
    found = checked(frame, NULLABLE, unit=Unit("who", max_records=2))
    assert found.fits
    assert (found.units.units, found.units.most, found.units.over, found.units.cut) == (3, 3, 1, 1)
    assert "1 row of 1 unit would be cut" in str(found)
    with pytest.raises(ParameterError, match="max_records"):
        check_table(frame, NULLABLE, unit="who")  # type: ignore[arg-type]
    # units that are released with their rows need no null cell
    assert checked(frame.with_columns(c=0.5), SMALL, unit=Unit("who", max_records=2)).fits
    gaps = frame.with_columns(who=pl.Series(["x", None, "x", "y", "y", "z", None]))
    assert facts(checked(gaps, NULLABLE, unit=Unit("who", max_records=9))) == [
        ("who", "holds a null, so a row has no privacy unit", 2, [])
    ]


def test_units_are_merged_from_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.confidential.source._MOST_PARTS", 3)
    monkeypatch.setattr("discreet.confidential.frames.BATCH", 4)
    frame = pl.DataFrame({"a": [0] * 40, "b": ["f"] * 40, "who": [i % 7 for i in range(40)]})
    found = checked(frame, NULLABLE, unit=Unit("who", max_records=5))
    assert (found.units.units, found.units.most, found.units.over, found.units.cut) == (7, 6, 5, 5)


def test_what_is_held_of_many_values_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_module, "_TRACKED", 10)
    monkeypatch.setattr("discreet.confidential.frames.BATCH", 64)
    values = [f"{TEXT} {place}" * 10 for place in range(500)]
    seen: list[int] = []
    add = check_module._Scan.add

    def watched(self: Any, *arguments: Any, **options: Any) -> None:
        add(self, *arguments, **options)
        seen.extend(len(line.examples) for line in self.lines.values())

    monkeypatch.setattr(check_module._Scan, "add", watched)
    domain = Domain(columns={"x": Category(categories=["a"])})
    found = checked(pl.DataFrame({"x": values}), domain, examples=3)
    assert max(seen) == 10
    assert found.findings[0].rows == 500
    assert len(found.findings[0].examples) == 3
    assert all(len(example.value) < 70 for example in found.findings[0].examples)


def test_the_result_is_closed_and_errors_hold_no_value(tmp_path: Path) -> None:
    closed = check_table(pl.DataFrame({"x": [TEXT]}), Domain(columns={"x": Integer(lower=0, upper=9)}))
    assert TEXT not in repr(closed)
    assert TEXT in str(reveal_to_custodian(closed))
    with pytest.raises(FileProblem):
        check_table(tmp_path / "none.parquet", DOMAIN)
    with pytest.raises(DomainError):
        check_table(dirty(), "domain.toml")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="examples"):
        check_table(dirty(), DOMAIN, examples=-1)


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("column", ["a", "who"])
def test_values_that_fail_in_whatever_is_done_with_them(
    column: str, lazy: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    hostile = pl.Series(column, [Hostile(), Hostile()], dtype=pl.Object)
    good = pl.DataFrame({"a": [0, 9], "b": ["f", "?"], "who": [1, 2]})
    frame = pl.DataFrame([hostile if name == column else good[name] for name in good.columns])
    found = checked(frame.lazy() if lazy else frame, NULLABLE, unit=Unit("who", max_records=2))
    assert {"+".join(one.columns) for one in found.findings} == {column, "a", "b"}
    assert found.refused
    assert TEXT not in str(found) + "".join(capfd.readouterr())


def test_a_null_is_found_among_units_that_are_objects() -> None:
    units = pl.Series("who", [Hostile(), None, Hostile()], dtype=pl.Object)
    frame = pl.DataFrame([pl.Series("a", [0, 5, 9]), pl.Series("b", ["f", "f", "f"]), units])
    found = checked(frame, NULLABLE, unit=Unit("who", max_records=2))
    rows = {one.problem: one.rows for one in found.findings if one.columns == ("who",)}
    assert rows == {"holds a null, so a row has no privacy unit": 1, "cannot be used to name privacy units": 2}


# -- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    data, domain = tmp_path / "t.parquet", tmp_path / "d.toml"
    dirty().with_columns(sex=pl.Series(["f", f"\x1b[2J\n{TEXT}", "m", "m", "m", "m", "m"])).write_parquet(data)
    domain.write_text(DOMAIN.to_toml())
    return data, domain


def test_the_command_shows_what_it_found_and_no_escapes(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    data, domain = files
    asked = ["domain", "check", str(data), "--domain", str(domain)]
    assert run(asked) == 1
    said = capsys.readouterr().out
    assert said.startswith("CONFIDENTIAL")
    assert "\x1b" not in said
    assert f'"\\u001b[2J\\n{TEXT}" (1)' in said
    assert run([*asked, "--examples", "0"]) == 1
    said = capsys.readouterr().out
    assert "holds a category that is not declared" in said
    assert TEXT not in said
    assert "999" not in said
    assert run([*asked, "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["confidential"] is True
    assert document["refused"] is True
    assert {"value": 999.0, "rows": 2} in [e for one in document["findings"] for e in one["examples"]]


def test_the_command_says_that_everything_fits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, domain = tmp_path / "t.csv", tmp_path / "d.toml"
    data.write_text("a,b,who\n1,f,x\n,m,x\n")
    domain.write_text(NULLABLE.to_toml())
    asked = ["domain", "check", str(data), "--domain", str(domain)]
    assert run([*asked, "--unit", "who", "--max-records", "1"]) == 0
    assert "1 row of 1 unit would be cut" in capsys.readouterr().out
    assert run(asked) == 1
    assert "leave such columns aside with --ignore-other-columns" in capsys.readouterr().out
    assert run([*asked, "--ignore-other-columns"]) == 0
    assert run(["domain", "check", str(domain), "--domain", str(domain)]) == 2
    assert "the confidential table itself" in capsys.readouterr().err
    assert run([*asked, "--unit", "who"]) == 2
    assert "Write --max-records ..., an integer" in capsys.readouterr().err


def test_a_line_per_column_says_all_of_it_and_what_to_do() -> None:
    lines = str(checked(dirty().drop("town").with_columns(sex=pl.lit([1]), Town=1, more=1), examples=1)).splitlines()
    told = dict(line.split(": ", 1) for line in lines[3:-2])
    assert list(told) == ["age", "sex", "paid", "town", "Town, more"]
    assert told["age"].startswith('holds a null (1 row). Declare nulls = "category", or fill in')
    assert "Holds numbers that are not whole (1 row): 2.5 (1). " in told["age"]
    assert told["sex"].endswith("(7 rows). Leave the column out, or cast it: no type takes such values")
    assert told["town"].endswith("A column has this name but for blanks or capital letters. Give both the same name")
    assert '(2 rows): "-inf" (1), 1 other value. ' in told["paid"]


@pytest.mark.parametrize("column", [Boolean(), Date(lower="2020-01-01", upper="2021-01-01"), OpenLabels()])
def test_the_type_that_a_refusal_names_takes_the_values(column: Column) -> None:
    values = {
        "time": pl.Series([dt.time(1)]),
        "duration": pl.Series([dt.timedelta(1)]),
        "integer": pl.Series([5]),
        "decimal": pl.Series([Exact("1.5")]),
        "none": pl.Series([[1]]),
    }
    for kind, series in values.items():
        with pytest.raises(DataError, match="not the declared|not true or false") as found:
            column.encode(series, name="x")
        if "not the declared" in str(found.value):
            assert (f'Declare type = "{kind}", or cast it' in str(found.value)) is (kind != "none")
            assert ("Leave the column out" in str(found.value)) is (kind == "none")
    assert Domain.template({"x": "none", "y": "integer"}).count("[columns.") == 1


def test_texts_that_are_written_otherwise_say_what_to_declare_and_what_becomes_of_them(tmp_path: Path) -> None:
    held = pl.DataFrame({"at": [f"2024-03-{day:02}T08:00:00+01:00" for day in range(1, 29)]})
    held.write_csv(tmp_path / "t.csv")
    asked: dict[str, Any] = {"lower": "2024-03-01T00:00:00", "upper": "2024-03-31T00:00:00", "step": "1h"}
    domain = Domain(columns={"at": Datetime(**asked, out_of_bounds="clip")})
    said = str(reveal_to_custodian(check_table(tmp_path / "t.csv", domain)))
    assert 'or with an offset time_zone = "Europe/Paris"' in said
    assert "Otherwise a release takes the nearest, else null or the lower bound" in said
    zoned = Domain(columns={"at": Datetime(**asked, time_zone="Europe/Paris", out_of_bounds="clip")})
    assert reveal_to_custodian(check_table(tmp_path / "t.csv", zoned)).fits
