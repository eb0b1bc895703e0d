"""No error of another library leaves the reading of a confidential table, and no value is printed as one fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest
from forms import TEXT, Hostile

from discreet import Unit
from discreet._core.boundary import enclosed
from discreet.confidential import confidential, confidential_rows, count, frames, units
from discreet.confidential import values as values_module
from discreet.confidential.closed import reveal
from discreet.confidential.values import column_values, row_values
from discreet.domain import Category, Domain, Integer, Numeric, OpenLabels
from discreet.errors import DataError, ParameterError

DOMAIN = Domain(columns={"x": Integer(lower=0, upper=9, nulls="category"), "y": OpenLabels(nulls="category")})
TABLE = pl.DataFrame({"x": [1, 2, 2, 3], "y": ["a", "b", "b", None], "person": [1, 1, 1, 2]})


class Panic(BaseException):
    """Like a Rust panic, which is no Exception."""


def clean(error: BaseException) -> None:
    assert isinstance(error, DataError)
    assert TEXT not in str(error)
    assert error.__context__ is None
    assert error.__cause__ is None


READERS: dict[str, Callable[[Any, str], Any]] = {
    "counted": lambda table, _: confidential(table, DOMAIN, accept={"other-columns"}),
    "cut": lambda table, _: confidential(table, DOMAIN, unit=Unit("person", max_records=2), accept={"other-columns"}),
    "in parts": lambda table, _: confidential_rows(table, DOMAIN, accept={"other-columns"}),
    "one column": lambda table, name: column_values(table, name, DOMAIN.columns[name]),
    "several columns": lambda table, _: row_values(table, DOMAIN.columns),
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
    "batches": (frames, "_sliced"),
    "grouping": (count, "_group"),
    "encoding": (count, "encoded"),
    "units": (units, "_units_of"),
    "the cut": (units.Slots, "_first"),
    "null records": (units, "null_record"),
    "numbers of records": (count.Tally, "add_records"),
    "condensing": (count.Tally, "_condense"),
    "merging": (values_module, "_merged"),
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
    rows = reveal(confidential_rows(tmp_path / "t.parquet", DOMAIN, accept={"other-columns"}))

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
        wrong(TABLE, DOMAIN, no_such_option=1)


def test_pandas_columns_of_nulls_alone_fit_every_declaration() -> None:
    frame = pd.DataFrame({"x": pd.Series([None, None], dtype=object), "c": ["a", None]})
    domain = Domain(
        columns={"x": Numeric(lower=0, upper=1, nulls="category"), "c": Category(categories=["a"], nulls="category")}
    )
    assert reveal(confidential(frame, domain)).n == 2
