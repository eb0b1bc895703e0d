"""CSV files that are written in another way: separators, encodings, decimal commas; and every ending that is known."""

import gzip
from decimal import Decimal as Exact
from pathlib import Path

import pandas as pd
import polars as pl
import pytest

import discreet
from discreet import Budget
from discreet._core.formats import DelimitedFile
from discreet.cli.entry import run
from discreet.confidential import check_table, confidential, reveal_to_custodian
from discreet.confidential.closed import reveal
from discreet.confidential.public import public_table
from discreet.confidential.values import row_values, table_schema
from discreet.domain import Category, Counts, Decimal, Domain, Integer, Numeric, OpenLabels
from discreet.errors import DataError, FileProblem, ParameterError

DOMAIN = Domain(
    columns={
        "größe": Numeric(lower=0, upper=2, cells=8, nulls="category"),
        "preis": Decimal(lower="0", upper="99.99", digits=2),
        "stück": Integer(lower=0, upper=9),
        "ort": OpenLabels(nulls="category"),
    }
)
TABLE = pl.DataFrame(
    {
        "größe": [0.5, 1.75, None, 2.0],
        "preis": [Exact("1.50"), Exact("99.99"), Exact("0.00"), Exact("7.00")],
        "stück": [1, 2, 3, 9],
        "ort": ["Köln", "a,b", 'x;"y"\nz', None],
    }
)
TEXT = 'größe;preis;stück;ort\n0,5;1,50;1;Köln\n1,75;99,99;2;a,b\n;0,00;3;"x;""y""\nz"\n2;7;9;\n'


def rows(counts: Counts) -> set[tuple[object, ...]]:
    return set(zip(*counts.records.columns, counts.frequencies.tolist(), strict=True))


HERE = rows(reveal(confidential(TABLE, DOMAIN)))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "cp1252", "utf-16", "utf-16-le"])
def test_the_same_counts_however_a_file_is_written(encoding: str, packed: bool, tmp_path: Path) -> None:
    raw = TEXT.encode(encoding)
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    path.write_bytes(gzip.compress(raw) if packed else raw)
    data = DelimitedFile(str(path), ";", encoding, decimal_comma=True)
    assert rows(reveal(confidential(data, DOMAIN))) == HERE
    assert list(table_schema(data)) == TABLE.columns
    assert reveal_to_custodian(check_table(data, DOMAIN)).fits


@pytest.mark.parametrize("separator", ["\t", ";", "|", ":", "^", "~", "#", "/"])
def test_separators(separator: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        TEXT.replace("a,b", '"a,b"').replace(";", separator).replace(f"x{separator}", "x;"), encoding="utf-8"
    )
    assert rows(reveal(confidential(DelimitedFile(str(path), separator, decimal_comma=True), DOMAIN))) == HERE


@pytest.mark.parametrize(("ending", "separator"), [(".csv", ";"), (".csv", "\t"), (".tsv", ","), (".csv.gz", ";")])
def test_a_header_tells_another_separator(ending: str, separator: str, tmp_path: Path) -> None:
    text = f'age{separator}paid\n20{separator}1\n31{separator}"5"\n'.encode()
    path = tmp_path / f"t{ending}"
    path.write_bytes(gzip.compress(text) if ending.endswith("gz") else text)
    domain = Domain(columns={"age": Integer(lower=0, upper=99), "paid": Integer(lower=0, upper=9)})
    frame = pl.DataFrame({"age": [20, 31], "paid": [1, 5]})
    assert rows(reveal(confidential(path, domain))) == rows(reveal(confidential(frame, domain)))
    assert list(table_schema(path)) == ["age", "paid"]


@pytest.mark.parametrize("kind", ["numeric", "decimal"])
@pytest.mark.parametrize("text", ["1.234", "1.234,5", "1,2,3", "1.5", "x"])
def test_a_point_is_no_decimal_where_the_comma_is(kind: str, text: str, tmp_path: Path) -> None:
    """It could stand between thousands. The error names the column and holds no value."""
    column = Numeric(lower=0, upper=9999) if kind == "numeric" else Decimal(lower="0", upper="9999", digits=3)
    path = tmp_path / "t.csv"
    path.write_text(f"x;y\n0,5;1\n{text};2\n")
    with pytest.raises(DataError, match="column 'x': values are not") as refused:
        confidential(
            DelimitedFile(str(path), ";", decimal_comma=True), Domain(columns={"x": column}), accept={"other-columns"}
        )
    assert text == "x" or text not in str(refused.value)


def test_labels_keep_their_commas(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x\n1,5\n1.5\n")
    domain = Domain(columns={"x": Category(categories=["1,5", "1.5"])})
    assert reveal(confidential(DelimitedFile(str(path), ";", decimal_comma=True), domain)).frequencies.tolist() == [
        1,
        1,
    ]


def test_what_cannot_be(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(TEXT.encode("latin-1"))
    for separator in ("", ";;", "a", "0", '"', ".", "\n", "é"):
        with pytest.raises(ParameterError, match="separator must be one character"):
            DelimitedFile(str(path), separator)
    for encoding in ("none", "rot13", "hex", ""):
        with pytest.raises(ParameterError, match="encoding must be the name of an encoding"):
            DelimitedFile(str(path), encoding=encoding)
    with pytest.raises(ParameterError, match="are for CSV files"):
        DelimitedFile("t.parquet", ";")
    for encoding, problem in (("utf-8", "line 1 holds a byte"), ("ascii", "UTF-8"), ("utf-16", "name its encoding")):
        with pytest.raises(FileProblem, match=problem):
            confidential(DelimitedFile(str(path), ";", encoding), DOMAIN)
    path.write_text(TEXT, encoding="utf-8")
    with pytest.raises(FileProblem, match="not separated by commas. Name its separator, or save it with commas"):
        path.write_text("a;b\tc\n1;2\n")
        confidential(path, DOMAIN)


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, domain, out = tmp_path / "t.csv", tmp_path / "d.toml", tmp_path / "o.csv"
    data.write_bytes(("höhe;ort\n" + "0,5;Köln\n1,5;Öhr\n" * 300).encode("latin-1"))
    read = ["--separator", ";", "--encoding", "latin-1", "--decimal-comma"]
    assert run(["domain", "init", str(data), *read]) == 0
    assert "höhe" in capsys.readouterr().out
    domain.write_text(
        '[columns."höhe"]\ntype = "numeric"\nlower = 0\nupper = 2\ncells = 4\n'
        '[columns.ort]\ntype = "category"\ncategories = ["Köln", "Öhr", "Aa;b"]\n',
        encoding="utf-8",
    )
    assert run(["domain", "check", str(data), *read, "--domain", str(domain)]) == 0
    assert run(["domain", "check", str(data), *read[:4], "--domain", str(domain)]) == 1
    given = ["--domain", str(domain), "--epsilon", "4", "--size", "60", "--accept-poor-utility"]
    assert run(["release", str(data), *read, *given, "--out", str(out), "--out-separator", ";"]) == 0
    assert out.read_text(encoding="utf-8").startswith('"höhe";"ort"\n')
    assert run(["verify", str(tmp_path / "o.certificate.json"), "--data", str(out)]) == 0
    released = discreet.read(out)
    assert released.table().columns == ["höhe", "ort"]
    assert released.table().height == 60
    assert run(["estimate", str(out), "--column", "höhe", "--functional", "mean"]) == 0
    assert run(["compare", str(data), str(out), *read, "--domain", str(domain), "--resamples", "2"]) == 0
    assert run(["report", str(out), "--out", str(tmp_path / "r.html")]) == 0
    privacy = ["privacy", "dirichlet-multinomial", "--records", "600", "--size", "5", "--epsilon", "1"]
    assert run([*privacy, "--param", "prior=0.5", "--data", str(data), *read, "--domain", str(domain)]) == 0
    capsys.readouterr()
    assert run(["release", str(data), *given, "--out", str(tmp_path / "p.csv"), "--separator", "ab"]) == 2
    assert "separator must be one character" in capsys.readouterr().err.replace("\n", " ")
    assert run(["release", str(data), *given, "--out", str(data), *read]) == 2  # the table itself is never written


def test_a_name_in_quotes_tells_what_comes_after_it(tmp_path: Path) -> None:
    """Released files that are separated in another way tell it so; a single name that holds separators does not."""
    domain = Domain(columns={'a;"b,c': Integer(lower=0, upper=9), "d": Integer(lower=0, upper=9)})
    frame = pl.DataFrame({'a;"b,c': [1, 2] * 200, "d": [3, 4] * 200})
    for separator in (";", "|", "\t", None):
        for names in (['a;"b,c', "d"], ["d"]):
            out = tmp_path / f"{'tab' if separator == chr(9) else ord(separator or ',')}-{len(names)}.csv"
            part = Domain(columns={name: domain.columns[name] for name in names})
            asked = {"size": 300, "mechanism": "perturbed-histogram", "seed": 1, "accept": {"poor-utility"}}
            where = DelimitedFile(str(out), separator)
            discreet.release(frame.select(names), part, Budget(epsilon=5.0), out=where, **asked)
            assert discreet.read(out).table().columns == names
            assert all(one.agrees for one in discreet.verify(out.with_suffix(".certificate.json"), data=out))


# -- a CSV file without a header line is recognised, and its first record is told nobody ------------------------------

CITIES = Domain(columns={"city": Category(categories=["rome"]), "age": Integer(lower=0, upper=99)})
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
    said = refused(confidential, headless, CITIES)
    assert "column 'city': is not in the table. It has 0 of 2 columns asked for" in said
    assert "Check that its first line holds the names" in said
    refused(public_table, headless, CITIES)
    refused(row_values, headless, CITIES.columns)
    headless.write_text("rome,rome,47\nother,rome,48\n")
    assert "columns 1 and 2 have the same name in its first line" in refused(confidential, headless, CITIES)
    headless.write_text("city,xyzzyNAME0\n")  # one declared name may be a value by chance
    refused(confidential, headless, CITIES)


def test_nor_that_of_a_frame_read_from_it(headless: Path) -> None:
    for frame in (pd.read_csv(headless), pl.read_csv(headless)):
        assert "It has 0 of 2 columns asked for" in refused(confidential, frame, CITIES)


def test_names_of_other_tables_still_help(tmp_path: Path) -> None:
    frame = pl.DataFrame({"city": ["rome"], "aeg": [3]})
    with pytest.raises(DataError, match="Its columns are: 'city', 'aeg'"):
        confidential(frame, CITIES)


def test_no_template_is_written_of_it(headless: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = headless.with_suffix(".toml")
    assert run(["domain", "init", str(headless), "--out", str(out)]) == 2
    assert not out.exists()
    said = capsys.readouterr()
    assert "its first line may be a record and not a header" in said.err
    assert not [value for value in FIRST if value in said.out + said.err]


@pytest.mark.parametrize(
    "first", ["a,47", "a,-1.5e3", "a, ", "a,2024-01-31", "a,true", "a,NaN", "a,31/12/1999", "a,12:30", "a,$5", "a, 7"]
)
def test_what_cannot_be_a_name(first: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{first}\nb,1\n")
    with pytest.raises(DataError, match="its first line may be a record"):
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
