"""A CSV file without a header line is recognised, and its first record is told nobody."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import polars as pl
import pytest
import statsmodels.datasets

from discreet.cli.entry import run
from discreet.confidential import confidential
from discreet.confidential.public import public_table
from discreet.confidential.values import row_values, table_schema
from discreet.domain import Category, Domain, Integer
from discreet.errors import DataError

DOMAIN = Domain(columns={"city": Category(categories=["rome"]), "age": Integer(lower=0, upper=99)})
FIRST = ("xyzzyNAME0", "rome", "47", "562052.028")


@pytest.fixture
def headless(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    path.write_text(",".join(FIRST) + "\nother,rome,48,1.5\n")
    return path


def refused(action: object, *args: object) -> str:
    with pytest.raises(DataError) as found:
        action(*args)  # type: ignore[operator]
    said = str(found.value)
    assert not [value for value in FIRST if value in said]
    return said


def test_no_reader_quotes_it(headless: Path) -> None:
    said = refused(confidential, headless, DOMAIN)
    assert "column 'city': is not in the table. The domain declares 0 of its 4 columns" in said
    assert "Check that its first line holds the names" in said
    refused(public_table, headless, DOMAIN)
    refused(row_values, headless, DOMAIN.columns)
    headless.write_text("rome,rome,47\nother,rome,48\n")
    assert "columns 1 and 2 have the same name in its first line" in refused(confidential, headless, DOMAIN)
    headless.write_text("city,xyzzyNAME0\n")  # one declared name may be a value by chance
    refused(confidential, headless, DOMAIN)


def test_nor_that_of_a_frame_read_from_it(headless: Path) -> None:
    for frame in (pd.read_csv(headless), pl.read_csv(headless)):
        assert "The domain declares 0 of its 4 columns" in refused(confidential, frame, DOMAIN)


def test_names_of_other_tables_still_help(tmp_path: Path) -> None:
    frame = pl.DataFrame({"city": ["rome"], "aeg": [3]})
    with pytest.raises(DataError, match="Its columns are: 'city', 'aeg'"):
        confidential(frame, DOMAIN)


def test_no_template_is_written_of_it(headless: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = headless.with_suffix(".toml")
    assert run(["domain", "init", str(headless), "--out", str(out)]) == 2
    assert not out.exists()
    said = capsys.readouterr()
    assert "its first line is a record and not a header" in said.err
    assert not [value for value in FIRST if value in said.out + said.err]


@pytest.mark.parametrize(
    "first", ["a,47", "a,-1.5e3", "a,", "a,2024-01-31", "a,true", "a,NaN", "a,31/12/1999", "a,12:30", "a,$5", "a, 7"]
)
def test_what_cannot_be_a_name(first: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{first}\nb,1\n")
    with pytest.raises(DataError, match="its first line is a record"):
        table_schema(path)


@pytest.mark.parametrize("first", ["a,b", "x1,2nd", "no,yes", "income_2020,age", "Größe,身長", "t-1,%"])
def test_what_can(first: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{first}\nb,1\n")
    assert list(table_schema(path)) == first.split(",")
    out = tmp_path / "d.toml"
    assert run(["domain", "init", str(path), "--out", str(out)]) == 0
    said = capsys.readouterr()
    assert "Nothing else in it was read from the rows" in said.out
    assert "Check that it is a header and not a record" in said.err


WORDS = ("xyzzyNAME0", "rome", "never married")


@pytest.mark.parametrize("rows", ["other,oslo,widowed\n", "rome,paris,never married\n" * 3 + "oslo,rome,NA\n"])
def test_a_line_of_words_above_rows_of_words_is_confirmed_first(
    rows: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "t.csv", tmp_path / "d.toml"
    path.write_text(",".join(WORDS[1:] + WORDS[:1]) + "\n" + rows)
    assert run(["domain", "init", str(path), "--out", str(out)]) == 2
    said = capsys.readouterr()
    assert "may be a record of words" in said.err
    assert "write --header" in said.err
    assert not [word for word in WORDS if word in said.out + said.err]
    assert not out.exists()
    with pytest.raises(DataError, match="header=True"):
        table_schema(path)
    assert run(["domain", "init", str(path), "--out", str(out), "--header"]) == 0
    assert WORDS[0] in out.read_text()


def test_what_no_confirmation_helps(headless: Path) -> None:
    with pytest.raises(DataError, match="its first line is a record"):
        table_schema(headless, header=True)


@pytest.mark.parametrize(
    "text",
    [
        "city,colour\n",  # no rows: whoever wrote it wrote names
        "city,MDC,age\nrome,MDC,40\noslo,other,\n",  # a name may be a value of its column where another is of numbers
        "city,day\nrome,2020-01-01\n",
        "home_city,colour\nrome,blue\n",
        "homeCity,colour\nrome,blue\n",
    ],
)
def test_what_is_not_in_doubt(text: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    assert list(table_schema(path)) == text.split("\n", maxsplit=1)[0].split(",")


@pytest.mark.parametrize(
    "text",
    [
        "city,colour\nrome,blue\n",
        "first_class,rome\nsecond_class,oslo\nthird_class,oslo\n",  # rows have identifiers too
        "first_class,rome\nsteerage,oslo\nsteerage,rome\n",  # the second one is a value of its column
        "rome,iPhone\noslo,iPhone\n",
    ],
)
def test_what_is(text: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(DataError, match="may be a record"):
        table_schema(path)


def test_public_tables_are_not_in_doubt_and_without_their_header_no_template_is_made(tmp_path: Path) -> None:
    """Of 30 tables of statsmodels the old rule refuses one that has years for names; the new one refuses no other."""
    files = sorted(Path(statsmodels.datasets.__file__).parent.glob("*/*.csv"))
    told = {}
    for file in files:
        table = pl.read_csv(file, infer_schema=False, n_rows=5000)
        if table.width == 1:  # of another separator
            continue
        table.write_csv(tmp_path / "t.csv", include_header=False)
        with pytest.raises(DataError):
            table_schema(tmp_path / "t.csv")
        table.write_csv(tmp_path / "t.csv")
        try:
            assert list(table_schema(tmp_path / "t.csv")) == table.columns
        except DataError as problem:
            told[file.stem] = str(problem)
    assert len(files) > 20
    assert list(told) == ["fertility"]
    assert "since a field is" in told["fertility"]
