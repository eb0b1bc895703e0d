"""Every way a table can be wrong: named, with a remedy, and without one confidential value, chained ones included."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from forms import CANARY, TEXT, Hostile, in_form, refused

from discreet import Unit
from discreet._core.boundary import enclosed
from discreet.confidential import (
    check_table,
    confidential,
    confidential_rows,
    count,
    frames,
    reveal_to_custodian,
    source,
    units,
)
from discreet.confidential.closed import reveal
from discreet.confidential.values import column_values, row_values, table_schema
from discreet.domain import Boolean, Category, Date, Datetime, Decimal, Domain, Duration, Integer, Numeric, OpenLabels
from discreet.errors import DataError, DiscreetError, DomainError, FileProblem, ParameterError

DOMAIN = Domain(
    columns={
        "x": Numeric(lower=0, upper=10, cells=5),
        "i": Integer(lower=0, upper=10),
        "s": Category(categories=["f", "m"]),
        "o": OpenLabels(prefix="new_"),
    }
)


def good(rows: int = 3) -> pl.DataFrame:
    return pl.DataFrame({"x": [0.5] * rows, "i": [1] * rows, "s": ["f"] * rows, "o": ["a"] * rows})


def test_the_good_table_is_good() -> None:
    confidential(good(), DOMAIN)


WRONG: dict[str, tuple[Callable[[], pl.DataFrame], str, str]] = {
    "out of bounds": (lambda: good().with_columns(x=pl.lit(float(CANARY))), "'x'", "outside the declared bounds"),
    "integer out of bounds": (lambda: good().with_columns(i=pl.lit(CANARY)), "'i'", "outside the declared bounds"),
    "infinite": (lambda: good().with_columns(x=pl.lit(float("inf"))), "'x'", "infinite"),
    "NaN": (lambda: good().with_columns(x=pl.lit(float("nan"))), "'x'", "null or NaN"),
    "null": (lambda: good().with_columns(i=pl.lit(None, dtype=pl.Int64)), "'i'", "null or NaN"),
    "all null": (lambda: good().with_columns(s=pl.lit(None)), "'s'", "null"),
    "wrong type": (lambda: good().with_columns(x=pl.lit(TEXT)), "'x'", "values are not numbers written"),
    "number for a category": (lambda: good().with_columns(s=pl.lit(CANARY)), "'s'", "not the declared category"),
    "fraction": (lambda: good().with_columns(i=pl.lit(CANARY + 0.5)), "'i'", "not whole"),
    "undeclared category": (lambda: good().with_columns(s=pl.lit(TEXT)), "'s'", "not declared"),
    "reserved label": (lambda: good().with_columns(o=pl.lit(f"new_{TEXT}")), "'o'", "reserved prefix"),
    "missing column": (lambda: good().drop("i"), "'i'", "is not in the table"),
    "extra column": (lambda: good().with_columns(z=pl.lit(TEXT)), "'z'", "accept={'other-columns'}"),
    "no rows": (lambda: good().clear(), "the table", "has no rows"),
    "nested": (lambda: good().with_columns(x=pl.lit([CANARY])), "'x'", "holds List values"),
}


@pytest.mark.parametrize("form", ["polars", "lazy", "pandas", "pyarrow", "parquet", "csv"])
@pytest.mark.parametrize("case", WRONG)
def test_wrong_tables(case: str, form: str, tmp_path: Path) -> None:
    make, where, problem = WRONG[case]
    if form == "csv":
        if case == "nested":
            pytest.skip("CSV has no lists")
        texts = {"number for a category": "not declared", "fraction": "not whole numbers"}
        problem = texts.get(case, problem)
    elif form == "pandas" and case in {"null", "all null", "nested"}:
        problem = {"nested": "", "null": "null", "all null": ""}[case]
    message = refused(in_form(make(), form, tmp_path), DOMAIN)
    assert where in message
    assert problem in message


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (Boolean(), [TEXT]),
        (Date(lower="2000-01-01", upper="2001-01-01"), [TEXT]),
        (Datetime(lower="2000-01-01", upper="2001-01-01", step="1h"), [TEXT]),
        (Duration(lower="0s", upper="1h", step="1s"), [TEXT]),
        (Decimal(lower="0", upper="1", digits=2), [TEXT]),
        (Decimal(lower="0", upper="1", digits=2), [CANARY]),
        (Category(categories=[1, 2]), [CANARY]),
        (Category(categories=[1, 2]), [float(CANARY) + 0.5]),
        (Category(categories=[True]), [CANARY]),
        (Integer(lower=0, upper=1, nulls="category"), [None, CANARY]),
        (Numeric(lower=0, upper=1, grid=[0, 1]), [CANARY]),
        (Numeric(lower=0, upper=1, step=0.1), [CANARY]),
        (Numeric(lower=0, upper=1), [CANARY]),
    ],
)
@pytest.mark.parametrize("form", ["polars", "pandas", "csv"])
def test_canaries_in_every_kind_of_column(column: Any, values: list[Any], form: str, tmp_path: Path) -> None:
    table = in_form(pl.DataFrame({"c": values, "d": 1}), form, tmp_path)
    assert "'c'" in refused(table, Domain(columns={"c": column}), accept={"other-columns"})


@pytest.mark.parametrize(
    "values",
    [[1, TEXT], [object(), TEXT], [{"a": TEXT}, 3], [b"\xff", TEXT], [TEXT, None, 3.5], [pd.Timestamp("2020"), TEXT]],
)
def test_mixed_pandas_objects(values: list[Any]) -> None:
    frame = pd.DataFrame({"x": pd.Series(values, dtype=object)})
    assert "'x'" in refused(frame, Domain(columns={"x": Numeric(lower=0, upper=1)}))


def test_names_that_pandas_counts_and_its_index() -> None:
    frame = pd.DataFrame({0: [1, 2], "k": [1, 1]})
    counted = reveal(confidential(frame, Domain(columns={"0": Integer(lower=0, upper=3)}), accept={"other-columns"}))
    assert counted.frequencies.tolist() == [1, 1]
    assert list(frame.columns) == [0, "k"]
    domain = Domain(columns={"k": Integer(lower=0, upper=3)})
    said = refused(frame.set_index("k"), domain, accept={"other-columns"})
    assert "is the index" in said
    assert "reset_index()" in said
    confidential(frame.set_index("k").reset_index(), domain, accept={"other-columns"})


def test_duplicate_columns(tmp_path: Path) -> None:
    domain = Domain(columns={"a": Integer(lower=0, upper=3)})
    twice = pd.DataFrame([[1, 2]], columns=["a", "a"])
    assert "column 'a': occurs twice" in refused(twice, domain)
    assert "column 'a': occurs twice" in refused(pa.table([[1], [2]], names=["a", "a"]), domain)
    (tmp_path / "t.csv").write_text("a,a\n1,2\n", encoding="utf-8")
    said = refused(tmp_path / "t.csv", domain)
    assert "columns 1 and 2 have the same name in its first line" in said
    assert "'a'" not in said  # of a file without a header line it would be a value
    with pytest.raises(DataError, match="occurs twice"):
        table_schema(twice)


def test_reserved_column_names() -> None:
    domain = Domain(columns={"discreet: frequency": Integer(lower=0, upper=3)})
    assert "reserved" in refused(pl.DataFrame({"discreet: frequency": [1]}), domain)


@pytest.mark.parametrize("data", [3, None, [1, 2], {"x": [1]}, np.arange(3), pl.Series([1]), pl.DataFrame, "no path"])
def test_what_is_no_table(data: Any) -> None:
    refused(data, DOMAIN, DiscreetError)


def test_what_is_no_domain() -> None:
    domain: Any = {"x": Numeric(lower=0, upper=1)}
    refused(good(), domain, DomainError)


# -- files ------------------------------------------------------------------------------------------------------------


def test_missing_and_unreadable_files(tmp_path: Path) -> None:
    assert "no such file" in refused(tmp_path / "none.parquet", DOMAIN, FileProblem)
    assert "a folder without Parquet files" in refused(tmp_path, DOMAIN, FileProblem)
    (tmp_path / "t.txt").write_text("x\n1\n", encoding="utf-8")
    assert "not known by this ending" in refused(tmp_path / "t.txt", DOMAIN, FileProblem)
    for suffix in ("csv", "parquet"):
        (tmp_path / f"empty.{suffix}").write_bytes(b"")
        assert "is empty" in refused(tmp_path / f"empty.{suffix}", DOMAIN, FileProblem)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"x\n", "has no rows"),
        (b"\xff\xfe\x00x\n1\n", "not a readable CSV"),
        (b"x\n1,2,3\n", "line 2 has 3 fields"),
        (b"x\n\xff\xfe\n", "line 2 holds a byte"),
        (b'x\n"1\n', "line 2 has a quote"),
        (f"x\n{TEXT}\n".encode(), "values are not numbers written"),
        (f"x\n0.5\n0x{CANARY}\n".encode(), "values are not numbers written"),
        (b"x\n0.5\n\n0.25\n", "line 3 is empty"),
        (b"x\n0.5\nNaN\n", "null or NaN"),
        (b"x\n0.5\ninf\n", "outside the declared bounds"),
        (f"x\n0.5\n{CANARY}e999\n".encode(), "outside the declared bounds"),
    ],
)
def test_wrong_csv(content: bytes, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    domain = Domain(columns={"x": Numeric(lower=0, upper=1, cells=5)})
    assert problem in refused(path, domain, DiscreetError)


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("\ufeffx\n0.5\n".encode())
    confidential(path, Domain(columns={"x": Numeric(lower=0, upper=1, cells=5)}))


NULLABLE = Domain(columns={"i": Integer(lower=0, upper=10, nulls="category")})


# -- privacy units ----------------------------------------------------------------------------------------------------


def test_units_need_null_cells_and_slots() -> None:
    frame = good().with_columns(p=pl.lit(1))
    assert 'nulls = "category"' in refused(frame, DOMAIN, DomainError, unit=Unit("p", max_records=2))
    for slots in (None, 0, -1, 1.5, True):
        with pytest.raises(ParameterError, match="max_records"):
            Unit("p", max_records=slots)  # type: ignore[arg-type]
    for no_unit in ("p", ("p", 2), 2):
        assert "Write unit=Unit(..., max_records=...)" in refused(
            frame, NULLABLE, kind=ParameterError, unit=no_unit, accept={"other-columns"}
        )
    assert "'q': is not in the table" in refused(
        frame, NULLABLE, unit=Unit("q", max_records=2), accept={"other-columns"}
    )
    assert "accept={'other-columns'}" in refused(frame, NULLABLE, unit=Unit("p", max_records=2))


@pytest.mark.parametrize("units", [[TEXT, None, "a"], [1.0, float("nan"), float(CANARY)], [None, None, None]])
def test_rows_without_a_unit(units: list[Any]) -> None:
    frame = pl.DataFrame({"i": [1, 2, 3], "p": units})
    assert "no privacy unit" in refused(frame, NULLABLE, unit=Unit("p", max_records=2))


# -- no error of another library leaves the reading of a confidential table -------------------------------------------

XY = Domain(columns={"x": Integer(lower=0, upper=9, nulls="category"), "y": OpenLabels(nulls="category")})
TABLE = pl.DataFrame({"x": [1, 2, 2, 3], "y": ["a", "b", "b", None], "person": [1, 1, 1, 2]})


class Panic(BaseException):
    """Like a Rust panic, which is no Exception."""


def clean(error: BaseException) -> None:
    assert isinstance(error, DataError)
    assert TEXT not in str(error)
    assert error.__context__ is None
    assert error.__cause__ is None


READERS: dict[str, Callable[[Any, str], Any]] = {
    "counted": lambda table, _: confidential(table, XY, accept={"other-columns"}),
    "cut": lambda table, _: confidential(table, XY, unit=Unit("person", max_records=2), accept={"other-columns"}),
    "in parts": lambda table, _: confidential_rows(table, XY, accept={"other-columns"}),
    "one column": lambda table, name: column_values(table, name, XY.columns[name]),
    "several columns": lambda table, _: row_values(table, XY.columns),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("column", ["x", "y", "person"])
@pytest.mark.parametrize("lazy", [False, True])
def test_values_that_fail_in_whatever_is_done_with_them(
    reader: str, column: str, lazy: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    """A Rust panic writes to the terminal by itself: the column is refused by its type before it can come to one."""
    if column == "person" and reader != "cut":
        pytest.skip("not read")
    values = pl.Series(column, [Hostile() for _ in range(4)], dtype=pl.Object)
    frame = pl.DataFrame([values if name == column else TABLE[name] for name in TABLE.columns])
    with pytest.raises(DataError) as found:
        READERS[reader](frame.lazy() if lazy else frame, column if column != "person" else "x")
    clean(found.value)
    assert TEXT not in "".join(capfd.readouterr())


NESTED: dict[str, list[Any]] = {
    "lists": [[TEXT]] * 4,
    "structs": [{"a": TEXT}] * 4,
    "bytes": [TEXT.encode()] * 4,
    "lists of lists": [[[1]], [[2]], None, [None]],
}


@pytest.mark.parametrize("kind", NESTED)
@pytest.mark.parametrize("reader", READERS)
def test_types_that_no_column_declares(reader: str, kind: str) -> None:
    frame = TABLE.with_columns(x=pl.Series(NESTED[kind]))
    with pytest.raises(DataError, match="'x'") as found:
        READERS[reader](frame, "x")
    clean(found.value)


STEPS = {
    "batches": (frames, "read_rows"),
    "grouping": (source, "grouped"),
    "encoding": (count, "encoded"),
    "units": (units, "_units_of"),
    "the cut": (units.Slots, "_first"),
    "null records": (units, "null_record"),
    "numbers of records": (source.Tally, "add_records"),
    "condensing": (source.Tally, "_condense"),
    "merging": (source, "merge"),
    "Polars frames": (pl.DataFrame, "group_by"),
    "Polars filters": (pl.DataFrame, "filter"),
    "Polars columns": (pl.Series, "is_null"),
    "Polars types": (pl.Series, "cast"),
}


@pytest.mark.parametrize("error", [Panic(TEXT), RuntimeError(TEXT), pl.exceptions.ComputeError(TEXT)])
@pytest.mark.parametrize("step", STEPS)
def test_a_failure_in_any_step(step: str, error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name = STEPS[step]
    met = 0

    def fail(*_: object, **__: object) -> Any:
        nonlocal met
        met += 1
        raise error

    monkeypatch.setattr(owner, name, fail)
    for reader in READERS.values():
        before = met
        try:
            reader(TABLE, "x")
        except BaseException as found:  # noqa: BLE001
            clean(found)
        else:
            assert met == before
    assert met, "the step was never taken"


def test_rows_read_again_are_enclosed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    TABLE.write_parquet(tmp_path / "t.parquet")
    monkeypatch.setattr("discreet.confidential.count._KEPT", -1)
    rows = reveal(confidential_rows(tmp_path / "t.parquet", XY, accept={"other-columns"}))

    def fail(*_: object, **__: object) -> Any:
        raise Panic(TEXT)

    monkeypatch.setattr("discreet.confidential.count.encoded", fail)
    with pytest.raises(DataError) as found:
        list(rows.parts())
    clean(found.value)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, SystemExit])
def test_what_is_no_failure_of_a_library_goes_through(error: type[BaseException]) -> None:
    def stop() -> None:
        raise error

    with pytest.raises(error):
        enclosed(stop)()


def test_a_wrong_call_is_told_as_what_it_is() -> None:
    wrong: Any = confidential
    with pytest.raises((TypeError, ParameterError), match="no_such_option"):
        wrong(TABLE, XY, no_such_option=1)


def test_pandas_columns_of_nulls_alone_fit_every_declaration() -> None:
    frame = pd.DataFrame({"x": pd.Series([None, None], dtype=object), "c": ["a", None]})
    domain = Domain(
        columns={"x": Numeric(lower=0, upper=1, nulls="category"), "c": Category(categories=["a"], nulls="category")}
    )
    assert reveal(confidential(frame, domain)).n == 2


def test_remedies_of_sparse_and_complex_columns_followed() -> None:
    domain = Domain(columns={"a": Integer(lower=0, upper=9)})
    table = pd.DataFrame({"a": pd.arrays.SparseArray([1, 0, 2])})
    with pytest.raises(DataError, match=r"column 'a': is a sparse column. Give it dense: column.sparse.to_dense\(\)"):
        confidential(table, domain)
    assert reveal(confidential(table.assign(a=table["a"].sparse.to_dense()), domain)).n == 3
    table = pd.DataFrame({"a": [1 + 0j, 2, 3]})
    with pytest.raises(DataError, match=r"holds complex numbers. Give numpy.real and numpy.imag of it"):
        confidential(table, domain)
    found = reveal_to_custodian(check_table(table, domain)).findings
    assert [finding.problem for finding in found] == ["holds complex numbers"]
    parts = pd.DataFrame({"a": np.real(table["a"]), "b": np.imag(table["a"])})
    assert reveal(confidential(parts, Domain(columns={**domain.columns, "b": Integer(lower=0, upper=1)}))).n == 3
