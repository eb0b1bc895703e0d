"""A first line that may be a record of words: it is no header before somebody says so."""

from pathlib import Path

import polars as pl
import pytest
import statsmodels.datasets

from discreet.cli.entry import run
from discreet.confidential.values import table_schema
from discreet.errors import DataError

WORDS = ("xyzzyNAME0", "rome", "never married")


@pytest.mark.parametrize("rows", ["other,oslo,widowed\n", "rome,paris,never married\n" * 3 + "oslo,rome,NA\n"])
def test_a_line_of_words_above_rows_of_words_is_confirmed_first(
    rows: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "t.csv", tmp_path / "d.toml"
    path.write_text(",".join(WORDS[1:] + WORDS[:1]) + "\n" + rows)
    assert run(["domain", "init", str(path), "--out", str(out)]) == 2
    said = capsys.readouterr()
    assert "looks like the rows below it" in said.err
    assert "write --header" in said.err
    assert not [word for word in WORDS if word in said.out + said.err]
    assert not out.exists()
    with pytest.raises(DataError, match="header=True"):
        table_schema(path)
    assert run(["domain", "init", str(path), "--out", str(out), "--header"]) == 0
    assert WORDS[0] in out.read_text()


def test_years_are_confirmed_as_names(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("region,1990\noslo,48\n")
    with pytest.raises(DataError, match="a number, a truth value or a date. Look at that line"):
        table_schema(path)
    assert list(table_schema(path, header=True)) == ["region", "1990"]


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
    with pytest.raises(DataError, match="looks like the rows below it"):
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
    assert "since a field of it is" in told["fertility"]
