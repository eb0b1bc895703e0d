"""Files of SPSS, Stata, SAS and Excel: they hold what the same table holds, and what is wrong has one sentence.

``sample.sas7bdat.gz`` is ``test_data/basic/sample.sas7bdat`` of pyreadstat 1.3.7 (Apache License 2.0).
"""

# ruff: noqa: DTZ001 - these programs have no time zones
import contextlib
import datetime as dt
import gzip
import importlib.util
import io
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from discreet import Ledger
from discreet.cli.entry import run
from discreet.confidential import check_table, confidential, foreign, reveal_to_custodian
from discreet.confidential.closed import reveal
from discreet.confidential.tables import open_source
from discreet.confidential.values import raw_rows, table_schema
from discreet.domain import Boolean, Category, Date, Datetime, Domain, Duration, Integer, Numeric, Time
from discreet.errors import FileProblem, MissingExtra

pyreadstat: Any = pytest.importorskip("pyreadstat")
xlsxwriter: Any = pytest.importorskip("xlsxwriter")
pytest.importorskip("python_calamine")

LONG = "é" * 300
TABLE = pl.DataFrame(
    {
        "age": [31.0, 45.0, None, 7.0, 99.0],
        "income": [1234.5, -0.25, 1e6, None, 3.0],
        "sex": [1, 2, 1, None, 2],
        "town": ["Zürich", "x,y", None, LONG, "00501"],
        "born": [dt.date(1583, 1, 1), None, dt.date(2024, 2, 29), dt.date(1969, 12, 31), dt.date(1970, 1, 1)],
        "seen": [dt.datetime(1950, 1, 2, 3, 4, 5), None, *[dt.datetime(2024, 2, 29, 23, 59, 59)] * 3],
        "hour": [dt.time(1, 2, 3), None, dt.time(0), dt.time(23, 59, 59), dt.time(12)],
    }
)
DOMAIN = Domain(
    columns={
        "age": Integer(lower=0, upper=120, nulls="category"),
        "income": Numeric(lower=-1.0, upper=2e6, cells=40, nulls="category"),
        "sex": Category(categories=[1, 2], nulls="category"),
        "town": Category(categories=["Zürich", "x,y", LONG, "00501"], nulls="category"),
        "born": Date(lower="1500-01-01", upper="2030-01-01", nulls="category"),
        "seen": Datetime(lower="1900-01-01T00:00:00", upper="2030-01-01T00:00:00", step="1s", nulls="category"),
        "hour": Time(lower="00:00:00", upper="23:59:59", step="1s", nulls="category"),
    }
)
NAMED = {
    "sav": lambda path: pyreadstat.write_sav(TABLE, path),
    "zsav": lambda path: pyreadstat.write_sav(TABLE, path, compress=True),
    "dta": lambda path: pyreadstat.write_dta(TABLE, path),
    "xpt": lambda path: pyreadstat.write_xport(TABLE.with_columns(pl.col("town").replace(LONG, "q")), path),
    "xlsx": lambda path: workbook(path, data=[TABLE.columns, *TABLE.rows()]),
}
FORMATS = {dt.date: "yyyy-mm-dd", dt.datetime: "yyyy-mm-dd hh:mm:ss", dt.time: "hh:mm:ss", dt.timedelta: "[h]:mm:ss"}


@pytest.fixture(autouse=True)
def in_this_process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The form of a file is read here, but where it is damaged: a process for each takes half a second."""

    def read(command: list[str], **_: Any) -> Any:
        told = io.StringIO()
        with monkeypatch.context() as patch, contextlib.redirect_stdout(told):
            patch.setattr(sys, "argv", command[3:])
            try:
                foreign.tell_problem()
            except Exception as problem:
                raise subprocess.CalledProcessError(1, command) from problem
        return SimpleNamespace(stdout=told.getvalue())

    if request.function not in (test_a_refusal_of_form_leaves_no_trace, test_sas):
        monkeypatch.setattr(foreign.subprocess, "run", read)


def workbook(path: Path, *, hidden: tuple[str, ...] = (), merged: str | None = None, **sheets: list[Any]) -> None:
    with xlsxwriter.Workbook(str(path)) as book:
        formats = {kind: book.add_format({"num_format": form}) for kind, form in FORMATS.items()}
        for name, rows in sheets.items():
            sheet = book.add_worksheet(name)
            for row, values in enumerate(rows):
                for column, value in enumerate(values):
                    if isinstance(value, str):
                        sheet.write_string(row, column, value)
                    elif value is not None:
                        sheet.write(row, column, value, formats.get(type(value)))
            if merged is not None:
                sheet.merge_range(merged, "Title")
            if name in hidden:
                sheet.hide()


def codes(data: Any, domain: Domain = DOMAIN) -> list[list[Any]]:
    found = reveal(confidential(data, domain, accept={"other-columns"}))
    return [column.tolist() for column in found.records.columns] + [found.frequencies.tolist()]


@pytest.mark.parametrize(("ending", "batch"), [*((ending, 2) for ending in NAMED), ("sav", 100), ("xlsx", 100)])
def test_a_file_is_what_its_table_is(ending: str, batch: int, tmp_path: Path, monkeypatch: Any) -> None:
    """By every command's way in, and in parts of any size."""
    monkeypatch.setattr(foreign, "BATCH", batch)
    path, table, domain = tmp_path / f"t.{ending}", TABLE, DOMAIN
    NAMED[ending](path)
    if ending == "xpt":
        town = Category(categories=["Zürich", "x,y", "q", "00501"], nulls="category")
        table, domain = (
            TABLE.with_columns(pl.col("town").replace(LONG, "q")),
            Domain(columns=DOMAIN.columns | {"town": town}),
        )
    if ending == "xlsx":  # which knows no day before 1900
        table = table.with_columns(pl.when(pl.col("born") > dt.date(1900, 1, 1)).then("born").alias("born"))
        path.unlink()
        workbook(path, data=[table.columns, *table.rows()])
    assert codes(path, domain) == codes(table, domain)
    checked = reveal_to_custodian(check_table(path, domain))
    assert (checked.fits, checked.rows) == (True, 5)
    assert reveal(raw_rows(path)).height == 5
    assert list(table_schema(path)) == TABLE.columns


def test_kinds_come_from_types_and_formats(tmp_path: Path) -> None:
    path = tmp_path / "t.sav"
    pyreadstat.write_sav(TABLE, path, variable_format={"sex": "F8.0"})
    assert list(table_schema(path).values()) == [
        "numeric", "numeric", "integer", "string", "date", "datetime", "time",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("ending", "form", "number", "value"),
    [
        ("sav", "EDATE10", 13_802_313_600.0, dt.date(2020, 2, 29)),
        ("sav", "MOYR8", 13_802_313_600.0, dt.date(2020, 2, 29)),
        ("sav", "DATETIME23.2", 13_802_313_600.25, dt.datetime(2020, 2, 29, 0, 0, 0, 250_000)),
        ("sav", "TIME8", 90_000.0, None),  # 25 hours are no time of day
        ("sav", "DTIME11", 90_000.0, dt.timedelta(hours=25)),
        ("dta", "%tdDD/NN/CCYY", 21_974.0, dt.date(2020, 2, 29)),
        ("dta", "%tcDD_Mon_CCYY", 1_898_553_600_250.0, dt.datetime(2020, 2, 29, 0, 0, 0, 250_000)),
        ("dta", "%tcHH:MM", 3_600_000.0, dt.time(1)),
        ("dta", "%9.0g", 21_974.0, 21_974.0),
        ("dta", "%tm", 721.0, 721.0),
        ("xpt", "DDMMYYS10", 21_974.0, dt.date(2020, 2, 29)),
        ("xpt", "MONYY7", 21_974.0, dt.date(2020, 2, 29)),
        ("xpt", "DATETIME22.3", 1_898_553_600.25, dt.datetime(2020, 2, 29, 0, 0, 0, 250_000)),
        ("xpt", "HHMM", -1.0, None),
        ("xpt", "DATE9", 1e15, "beyond"),
    ],
)
def test_formats_of_times(ending: str, form: str, number: float, value: Any, tmp_path: Path) -> None:
    """Also such formats as pyreadstat leaves numbers."""
    writers = {"sav": pyreadstat.write_sav, "dta": pyreadstat.write_dta, "xpt": pyreadstat.write_xport}
    path = tmp_path / f"t.{ending}"
    writers[ending](pl.DataFrame({"x": [number, None]}), path, variable_format={"x": form})
    values = reveal(raw_rows(path))["x"]
    if value == "beyond":  # of every bound, and no null
        assert Date(lower="1900-01-01", upper="2000-01-01", out_of_bounds="clip").encode(values[:1]).tolist() == [36524]
        assert values.dtype == pl.Date
    else:
        assert values.to_list() == [value, None]


@pytest.mark.parametrize(("program", "unit"), [("SPSS", 86400.0), ("Stata", 1.0), ("SAS", 1.0)])
def test_every_day_is_that_day(program: str, unit: float) -> None:
    origin = dt.date(1582, 10, 14) if program == "SPSS" else dt.date(1960, 1, 1)
    days = pl.Series(range(200_000))
    found = foreign._as_kind(days * unit, "date", program).to_physical()
    assert (found - days).unique().to_list() == [(origin - dt.date(1970, 1, 1)).days]


def test_sas(tmp_path: Path) -> None:
    path = tmp_path / "sample.sas7bdat"
    path.write_bytes(gzip.decompress(Path(__file__).with_name("sample.sas7bdat.gz").read_bytes()))
    rows = reveal(raw_rows(path))
    assert rows["mychar"].to_list() == list("abcde")
    assert rows["mynum"].to_list() == [1.1, 1.2, -1000.3, -1.4, 1000.3]
    assert rows["mydate"].to_list() == [
        dt.date(2018, 5, 6),
        dt.date(1880, 5, 6),
        dt.date(1960, 1, 1),
        dt.date(1583, 1, 1),
        None,
    ]
    assert rows["dtime"][1] == dt.datetime(1880, 5, 6, 10, 10, 10)
    assert rows["mytime"].to_list() == [dt.time(10, 10, 10), dt.time(23, 10, 10), dt.time(0), dt.time(16, 10, 10), None]


# -- missing values, and labels ---------------------------------------------------------------------------------------


def test_what_a_program_calls_missing_is_null(tmp_path: Path) -> None:
    table = pl.DataFrame({"age": [31.0, -9.0, 98.0], "town": ["a", "X", ""]})
    missing = {"age": [-9, {"lo": 97, "hi": 99}], "town": ["X"]}
    pyreadstat.write_sav(table, tmp_path / "t.sav", missing_ranges=missing)
    assert reveal(raw_rows(tmp_path / "t.sav")).rows() == [(31.0, "a"), (None, None), (None, None)]
    pandas = pytest.importorskip("pandas")
    stata = pandas.DataFrame({"age": pandas.Series([31, "a", "z"], dtype=object)})
    labels = {"age": {31: "x", 32: "y", "a": "declined"}}
    path = tmp_path / "t.dta"
    pyreadstat.write_dta(stata, path, missing_user_values={"age": ["a", "z"]}, variable_value_labels=labels)
    assert reveal(raw_rows(path))["age"].to_list() == [31, None, None]
    assert open_source(path).labels == {"age": {"31": "x", "32": "y"}}


LABELLED = pl.DataFrame({"sex": [1.0, 2.0, 9.0, 3.0], "area": ["n", "s", "n", "w"], "age": [7.0, 8.0, 99.0, 9.0]})
LABELS = {
    "sex": {1: "male", 2: 'fe"male', 9: "declined"},
    "area": {"n": "north", "s": "south"},
    "age": {99: "no answer"},
}
MISSING = {"sex": [9], "age": [99]}


@pytest.fixture
def survey(tmp_path: Path) -> Path:
    path = tmp_path / "survey.sav"
    pyreadstat.write_sav(
        LABELLED, path, variable_value_labels=LABELS, missing_ranges=MISSING, column_labels={"sex": "SECRET"}
    )
    return path


def declared(text: str) -> Domain:
    return Domain.from_toml(
        text.replace('lower = "<fill in>"', "lower = 0").replace('upper = "<fill in>"', "upper = 99")
    )


def test_labels_are_declared_where_the_owner_says_so(survey: Path, capsys: Any) -> None:
    """The template, filled in, reads the codes as their labels; without the word nothing of a label is used."""
    assert run(["domain", "init", str(survey), "--public-labels"]) == 0
    domain = declared(capsys.readouterr().out)
    assert domain.columns["sex"].labels == ("male", 'fe"male', "other")
    assert domain.columns["area"].labels == ("north", "south", "other")
    assert domain.columns["age"].kind == "numeric"
    labelled = {name: domain.columns[name] for name in ("sex", "area")}
    found = reveal(confidential(survey, Domain(columns=labelled), accept={"other-columns"}))
    rows = sorted(zip(*(column.tolist() for column in found.records.columns), strict=True))
    assert rows == [(0, 0), (1, 1), (2, 0), (2, 2)]  # 9 is missing, and 3 and "w" have no label
    assert run(["domain", "init", str(survey)]) == 0
    told = capsys.readouterr().out
    assert not any(word in told for word in ("male", "north", "SECRET", "declined", "no answer"))


def test_codes_stay_codes_where_the_declaration_has_codes(survey: Path) -> None:
    areas = Category(categories=["n", "s", "w"])
    assert codes(survey, Domain(columns={"area": areas})) == [[0, 1, 2], [2, 1, 1]]
    sexes = Category(categories=[1, 2, 3], nulls="category")
    assert codes(survey, Domain(columns={"sex": sexes})) == [[0, 1, 2, 3], [1, 1, 1, 1]]
    texts = Category(categories=["1", "2", "3"], nulls="category")
    assert codes(survey, Domain(columns={"sex": texts})) == [[0, 1, 2, 3], [1, 1, 1, 1]]
    sexes = Category(categories=["male", "3"])
    checked = reveal_to_custodian(check_table(survey, Domain(columns={"sex": sexes}), accept={"other-columns"}))
    assert [(finding.problem, finding.rows) for finding in checked.findings] == [
        ("holds a null", 1),
        ("holds a category that is not declared", 1),
    ]


def test_stata_labels(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "t.dta"
    pyreadstat.write_dta(
        LABELLED.select(pl.col("sex").cast(pl.Int32)), path, variable_value_labels={"sex": LABELS["sex"]}
    )
    assert run(["domain", "init", str(path), "--public-labels"]) == 0
    assert declared(capsys.readouterr().out).columns["sex"].labels == ("male", 'fe"male', "declined", "other")


def test_a_file_without_labels(tmp_path: Path, capsys: Any) -> None:
    pyreadstat.write_sav(pl.DataFrame({"a": [1.0]}), tmp_path / "t.sav")
    assert run(["domain", "init", str(tmp_path / "t.sav"), "--public-labels"]) != 0
    assert "Leave --public-labels out" in capsys.readouterr().err


# -- workbooks --------------------------------------------------------------------------------------------------------

CELLS = Domain(
    columns={
        "n": Integer(lower=0, upper=99, nulls="category"),
        "s": Category(categories=["00501", "5", "TRUE", "true", "a\n'b"], nulls="category"),
        "b": Boolean(nulls="category"),
        "l": Duration(lower="0s", upper="2d", step="1h", nulls="category"),
    }
)
DAY = dt.timedelta(days=1, hours=6)
ROWS: list[Any] = [
    ["n", "s", "b", "l"],
    [5, "00501", True, DAY],
    [7.0, 5, False, dt.timedelta(0)],
    ["8", True, 1, None],
]
PLAIN: list[Any] = [*ROWS, [None, "a\n'b", None, None]]
HARMLESS = {
    "plain": PLAIN,
    "rows above": [[], [None], *PLAIN],
    "empty rows": [*PLAIN[:2], [], [None, None], *PLAIN[2:], []],
    "an index": [[[None, *row], [place, *row]][place > 0] for place, row in enumerate(PLAIN)],
    "columns beside": [[None, None, *row] for row in PLAIN],
}


@pytest.mark.parametrize("case", HARMLESS)
def test_a_workbook_that_is_harmless(case: str, tmp_path: Path) -> None:
    workbook(tmp_path / "t.xlsx", data=HARMLESS[case], empty=[], old=[["x"], [1]], hidden=("old",))
    table = pl.DataFrame({"n": [5, 7, 8, None], "s": ["00501", "5", "true", "a\n'b"], "b": [True, False, True, None],
                          "l": [DAY, dt.timedelta(0), None, None]})  # fmt: skip
    assert codes(tmp_path / "t.xlsx", CELLS) == codes(table, CELLS)


WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "sheets": ({"a": [["x"], [1]], "b b": [["x"], [2]]}, "has 2 sheets: 'a', 'b b'", "name one by the option sheet"),
    "no sheet": ({"a": []}, "has no table on a visible sheet", "give a file with a table"),
    "a title": ({"a": [["Report"], ["x", "y"], [1, 2]]}, "row 1 has one cell", "rows above"),
    "merged": ({"a": [[], ["x", "y"], [1, 2]], "merged": "A1:B1"}, "row 1 has merged cells", "unmerge"),
    "merged below": ({"a": [["x", "y"], [1, 2], [3]], "merged": "B2:B3"}, "row 2 has merged cells", "unmerge"),
    "nameless": ({"a": [["x", None, "y"], [1, 2, 3]]}, "column 2 has no name in row 1", "name it there"),
    "twice": ({"a": [["x", "x"], [1, 2]]}, "the same name twice", "its own name"),
    "a gap": ({"a": [["x"], [1], [None], [2]]}, "row 3 is empty", "delete the row"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_workbook_that_is_not(case: str, tmp_path: Path) -> None:
    sheets, problem, remedy = WRONG[case]
    workbook(tmp_path / "t.xlsx", **sheets)
    with pytest.raises(FileProblem) as refused:
        open_source(tmp_path / "t.xlsx")
    assert problem in refused.value.problem
    assert remedy in refused.value.remedy


def test_errors_of_formulas_are_nulls(tmp_path: Path) -> None:
    with xlsxwriter.Workbook(str(tmp_path / "t.xlsx")) as book:
        sheet = book.add_worksheet()
        sheet.write_row(0, 0, ["n", "m"])
        sheet.write_formula(1, 0, "=1/0", None, "#DIV/0!")
        sheet.write_formula(1, 1, "=1+1", None, 2)
    assert reveal(raw_rows(tmp_path / "t.xlsx")).rows() == [(None, "2")]


# -- the form is known before anything is paid ------------------------------------------------------------------------

RELEASE = ["release", "--domain", "d.toml", "--epsilon", "1", "--delta", "1e-6", "--size", "20", "--ledger", "l.db"]


def survey_bytes() -> bytes:
    path = Path("whole.sav")
    pyreadstat.write_sav(pl.DataFrame({"age": [31.0, 45.0], "town": ["éa", "b"]}), path)
    return path.read_bytes()


def damaged(place: int) -> bytes:
    data = bytearray(survey_bytes())
    data[place] = 255
    return bytes(data)


def stray() -> bytes:
    """Return a workbook with a cell so far from its table that a reader asks for 400 GB."""
    with xlsxwriter.Workbook("stray.xlsx") as book:
        sheet = book.add_worksheet()
        sheet.write("A1", "age")
        sheet.write("XFD1048576", 31)
    return Path("stray.xlsx").read_bytes()


FORM: dict[str, tuple[str, Any, str]] = {
    "cut": ("t.sav", lambda: survey_bytes()[:-40], "not a readable SPSS file"),
    "ends the process": ("t.sav", lambda: damaged(180), "t.sav: "),
    "another kind": ("t.sav", lambda: b"PAR1\x15\x04", "a Parquet file"),
    "CSV in another name": ("t.sav", lambda: b"age\n31\n", "its content is not of SPSS"),
    "a text": ("t.dta", lambda: b"age\n31\n", "not a readable Stata file"),
    "SPSS in another name": ("t.csv", survey_bytes, "an SPSS file"),
    "SPSS as Excel": ("t.xlsx", survey_bytes, "an SPSS file"),
    "a password": ("t.xlsx", lambda: b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "encrypted, or an old Excel file"),
    "an archive": ("t.xlsx", lambda: b"PK\3\4" + bytes(99), "not a readable Excel file"),
    "a stray cell": ("t.xlsx", stray, "no cell far from its table"),
    "nothing": ("t.xpt", lambda: b"", "is empty"),
}


@pytest.mark.parametrize("case", FORM)
def test_a_refusal_of_form_leaves_no_trace(case: str, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    name, content, problem = FORM[case]
    Path(name).write_bytes(content())
    Path("d.toml").write_text(Domain(columns={"age": Integer(lower=0, upper=99, out_of_bounds="clip")}).to_toml())
    Ledger.create("l.db", dataset="x", epsilon=2, delta=1e-5)
    before = Path("l.db").read_bytes()
    assert run([*RELEASE, name, "--out", "o.csv", "--ignore-other-columns"]) != 0
    told = capsys.readouterr().err
    assert problem in told
    assert "45" not in told
    assert told.count("\n") == 2  # what is wrong, and what to do
    assert not Path("o.csv").exists()
    assert Path("l.db").read_bytes() == before


def test_a_release_of_each_and_remedies_followed(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    table = pl.DataFrame({"age": [31.0, 45.0] * 40})
    Path("d.toml").write_text(Domain(columns={"age": Integer(lower=0, upper=99, out_of_bounds="clip")}).to_toml())
    Ledger.create("l.db", dataset="x", epsilon=9, delta=1e-3)
    pyreadstat.write_sav(table, "t.sav")
    pyreadstat.write_dta(table, "t.dta")
    pyreadstat.write_xport(table, "t.xpt")
    workbook(Path("t.xlsx"), a=[["age"], *table.rows()], b=[["age"], [1]])
    for name in ("t.sav", "t.dta", "t.xpt"):
        assert run([*RELEASE, name, "--out", f"{name}.csv"]) == 0
        assert run(["compare", name, f"{name}.csv", "--domain", "d.toml"]) == 0
    assert run([*RELEASE, "t.xlsx", "--out", "o.csv"]) != 0
    assert "by the option sheet" in capsys.readouterr().err
    assert run([*RELEASE, "t.xlsx", "--sheet", "a", "--out", "o.xlsx"]) != 0
    told = capsys.readouterr().err
    assert "a file of Excel is read, and not written" in told
    assert "end the name in .parquet" in told.lower()
    assert run([*RELEASE, "t.xlsx", "--sheet", "a", "--out", "o.parquet"]) == 0
    assert pl.read_parquet("o.parquet").height == 20
    assert run(["domain", "check", "t.xlsx", "--sheet", "a", "--domain", "d.toml"]) == 0
    assert run(["domain", "init", "t.xlsx", "--sheet", "c", "--header"]) != 0
    assert "name one of its sheets: 'a', 'b'" in capsys.readouterr().err.lower()
    assert run(["domain", "init", "t.sav", "--sheet", "c"]) != 0
    assert "Leave it out" in capsys.readouterr().err


def test_an_encoding_that_the_file_does_not_say(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    data = survey_bytes().replace("éa".encode(), "éa ".encode("latin-1"))
    Path("t.sav").write_bytes(data)
    with pytest.raises(FileProblem, match="Name its encoding"):
        open_source("t.sav")
    from discreet._core.formats import DelimitedFile

    assert reveal(raw_rows(DelimitedFile("t.sav", encoding="latin-1")))["town"].to_list() == ["éa", "b"]


@pytest.mark.parametrize(("name", "library"), [("t.sav", "pyreadstat"), ("t.xlsx", "python-calamine")])
def test_a_library_that_is_missing(name: str, library: str, tmp_path: Path, monkeypatch: Any) -> None:
    NAMED[name[2:]](tmp_path / name)
    find = importlib.util.find_spec
    monkeypatch.setattr(foreign, "find_spec", lambda module: find(module) if "xlsx" in module else None)
    with pytest.raises(MissingExtra, match=rf"needs {library}. Install it: pip install 'discreet\[foreign\]'"):
        open_source(tmp_path / name)


def test_parts_of_such_a_table_are_parquet(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    """The remedy followed; a file under the ending of its program would be none of it."""
    monkeypatch.chdir(tmp_path)
    NAMED["sav"]("t.sav")
    split = ["audit", "split", "t.sav", "--record", "r.json", "--out-data"]
    assert run([*split, "a.sav", "--out-control", "b.sav"]) != 0
    assert "must be .parquet files.\nGive them that ending" in capsys.readouterr().err
    assert run([*split, "a.parquet", "--out-control", "b.parquet"]) == 0
    assert pl.read_parquet("a.parquet").height + pl.read_parquet("b.parquet").height == 5


def test_numbers_and_times_of_a_workbook_are_in_no_notation(tmp_path: Path) -> None:
    """A number with a decimal point is none with thousands; a day of Excel fits a column of days in any format."""
    when = dt.datetime(2020, 7, 2, 3, 4)
    rows = [["x", "d", "t", "m", "z", "l"], [1.234, dt.date(2020, 2, 3), dt.time(7, 5), when, None, 1.5],
            ["1.234", "03.02.2020", "7.05", "02.07.2020 03:04", when, "1.5"],
            [12.5, "no", dt.date(2020, 1, 1), None, "02.07.2020 03:04", 2]]  # fmt: skip
    workbook(tmp_path / "t.xlsx", data=rows)
    number: dict[str, Any] = {"lower": 0.0, "upper": 2000.0, "decimal_mark": ",", "thousands": ".", "prefix": "€"}
    total: dict[str, Any] = {"nulls": "category", "out_of_bounds": "null"}
    moment: dict[str, Any] = {"lower": "2020-01-01T00:00:00", "upper": "2021-01-01T00:00:00", "step": "1m"}
    columns = {
        "x": Numeric(**number),
        "d": Date(lower="2020-01-01", upper="2020-12-31", format="%d.%m.%Y", **total),
        "t": Time(step="1m", format="%H.%M", **total),
        "m": Datetime(**moment, format="%d.%m.%Y %H:%M", **total),
        "z": Datetime(**moment, format="%d.%m.%Y %H:%M", time_zone="Europe/Paris", **total),
        "l": Category(categories=["1.5", "2"]),
    }
    path = tmp_path / "t.xlsx"
    read = {name: codes(path, Domain(columns={name: column})) for name, column in columns.items()}
    assert read["x"] == [[1.234, 12.5, 1234.0], [1, 1, 1]]
    assert read["d"] == [[33, 366], [2, 1]]
    assert read["t"] == [[7 * 60 + 5, 24 * 60], [2, 1]]
    assert read["m"][1] == [2, 1]
    assert read["z"][1] == [2, 1]
    assert read["l"] == [[0, 1], [2, 1]]
    assert reveal(raw_rows(path))["x"].to_list() == ["1.234", "1.234", "12.5"]
