"""The form of a CSV file: what is harmless is read right by every command, and what is not has its line and cause."""

import csv
import gzip
import io
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import discreet
from discreet import Budget, Ledger
from discreet._core.formats import format_of
from discreet.confidential import check_table, confidential, reveal_to_custodian, tables
from discreet.confidential.closed import reveal
from discreet.confidential.tables import open_source
from discreet.confidential.values import raw_rows, table_schema
from discreet.domain import Category, Domain, Integer
from discreet.errors import FileProblem

DOMAIN = Domain(
    columns={
        "age": Integer(lower=0, upper=99, nulls="category"),
        "town": Category(categories=["Zürich", "x,y", 'a "b"\nc'], nulls="category"),
    }
)
ROWS = [("31", "Zürich"), ("45", "x,y"), ("7", 'a "b"\nc'), ("", "")]


def written(rows: list[tuple[str, ...]], *, end: str = "\n", separator: str = ",", quoting: int = 0) -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=separator, lineterminator=end, quoting=quoting).writerows(rows)  # type: ignore[arg-type]
    return text.getvalue()


PLAIN = written([("age", "town"), *ROWS])
HARMLESS = {
    "plain": PLAIN.encode(),
    "CRLF": written([("age", "town"), *ROWS], end="\r\n").encode(),
    "a mark": PLAIN.encode("utf-8-sig"),
    "UTF-16": PLAIN.encode("utf-16"),
    "UTF-16, big": b"\xfe\xff" + PLAIN.encode("utf-16-be"),
    "UTF-32": PLAIN.encode("utf-32"),
    "sep=": b"sep=,\r\n" + PLAIN.encode(),
    "a mark, sep=;": ("sep=;\n" + written([("age", "town"), *ROWS], separator=";")).encode("utf-8-sig"),
    "empty lines": PLAIN.replace("\n45", "\n\n\n45").encode() + b"\n\n",
    "empty lines, CRLF": written([("age", "town"), (), *ROWS, ()], end="\r\n").encode(),
    "lines of blanks": PLAIN.replace("\n45", "\n  \n45").encode() + b"\t\n",
    "empty lines first": b"\n\r\n" + PLAIN.encode(),
    "an index": written([("", "age", "town"), *((str(i), *row) for i, row in enumerate(ROWS))]).encode(),
    "an index, quoted": written([("", "age", "town"), *((str(i), *row) for i, row in enumerate(ROWS))], quoting=1)
    .replace('"",""', ",")
    .encode(),
    "separators at the end": written([("age", "town", "", ""), *((*row, "", "") for row in ROWS)]).encode(),
    "separators and CRLF": written([("age", "town", ""), *((*row, "") for row in ROWS)], end="\r\n").encode(),
    "no line feed at the end": PLAIN.encode().rstrip(b"\n"),
}


@pytest.mark.parametrize("case", HARMLESS)
@pytest.mark.parametrize("packed", [False, True])
def test_what_is_harmless_is_read_right_by_all(case: str, packed: bool, tmp_path: Path) -> None:
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    path.write_bytes(gzip.compress(HARMLESS[case]) if packed else HARMLESS[case])
    table = pl.DataFrame({"age": [31, 45, 7, None], "town": ["Zürich", "x,y", 'a "b"\nc', None]})
    wanted = reveal(confidential(table, DOMAIN))
    found = reveal(confidential(path, DOMAIN))
    for codes, others in zip(found.records.columns, wanted.records.columns, strict=True):
        assert codes.tolist() == others.tolist()
    assert found.n == len(ROWS)
    assert list(table_schema(path)) == ["age", "town"]
    checked = reveal_to_custodian(check_table(path, DOMAIN))
    assert (checked.fits, checked.rows) == (True, len(ROWS))
    assert reveal(raw_rows(path)).height == len(ROWS)


CSV = "save its table as CSV"
WRONG: list[tuple[bytes, str, str]] = [
    (b"a,b\n1,2\n3\n", "line 3 has 1 field and the header 2", "complete it"),
    (b"a,b\r\n1,2\r\n\r\n3,4,5\r\n6,7\r\n", "line 4 has 3 fields and the header 2", "in quotes"),
    (b'a,b\n"x\ny",2\n3\n4,5\n', "line 4 has 1 field", "complete it"),
    (b"a,b\n1,2\n4", "line 3 has 1 field", "complete it"),
    (b"a\n1\n\n2\n", "line 3 is empty", "without it"),
    (b"a\r\n1\r\n\r\n2\r\n", "line 3 is empty", "without it"),
    (b"Report\na,b\n1,2\n3,4\n", "line 1 has 1 field and those below it 2", "without lines above"),
    (b"a,b\nr1,1,2\nr2,3,4\n", "line 1 has 2 fields and those below it 3", "a name for each"),
    (b"a,b,\n1,2,\n3,4,5\n", "column 3 has no name", "name it there"),
    (b"a,,b\n1,2,3\n", "column 2 has no name", "name it there"),
    (b"a,b\r1,2\r3,4\r", "carriage return", "line feeds"),
    (b'a,b\n1,2\n3,5" x\n4,5\n', "line 3 has a quote", "double each quote"),
    (b'a,b\n1,5" x\n3,4\n5,6" y\n', "line 2 has a quote", "double each quote"),
    (b'a,b\n1,2\n3,"x"y\n', "line 3 has a quote", "double each quote"),
    (b'a,b\n1,2\n3,"x\n4,5\n', "line 3 has a quote", "double each quote"),
    ("a,b\n1,2\n3,ü\n".encode("latin-1"), "line 3 holds a byte that is not UTF-8, in field 2", "often latin-1"),
    (b"\n\n", "no line with the names", "put one first"),
    (b"a;b\tc\n1;2\n", "not separated by commas", "name its separator"),
    (b"PK\x03\x04xx", "an Excel file", CSV),
    (b"PAR1\x15\x04", "a Parquet file", ".parquet"),
    (b"SQLite format 3\0", "an SQLite database", "sqlite:///?table=NAME"),
    (gzip.compress(b"a,b\n", mtime=0), "packed by gzip", ".csv.gz"),
    (b"<!DOCTYPE html>", "a web page", CSV),
]


@pytest.mark.parametrize(("raw", "problem", "remedy"), WRONG, ids=[repr(raw[:20]) for raw, _, _ in WRONG])
def test_what_is_not_is_told_with_its_cause(raw: bytes, problem: str, remedy: str, tmp_path: Path) -> None:
    """Whoever opens it, in the same words, and without a content."""
    path = tmp_path / "t.csv"
    path.write_bytes(raw)
    for action in (table_schema, lambda path: check_table(path, DOMAIN), lambda path: confidential(path, DOMAIN)):
        with pytest.raises(FileProblem) as refused:
            action(path)
        said = str(refused.value).replace(str(path), "").lower()
        assert problem.lower() in said
        assert remedy.lower() in said


@pytest.mark.parametrize(
    ("name", "raw", "problem"),
    [
        ("t.csv.gz", b"a,b\n1,2\n", "not packed by gzip"),
        ("t.xls", b"PK\x03\x04", "an Excel file"),
        ("t.db", b"SQLite format 3\0", "an SQLite database"),
        ("t.sav", b"<stata_dta>", "a Stata file"),
        ("t.json", b'{"a": 1}', "JSON"),
        ("t.txt", b"a,b\n", "not known by this ending"),
        ("t.parquet", b"ARROW1\0\0", "an Arrow file"),
    ],
)
def test_endings(name: str, raw: bytes, problem: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(raw)
    with pytest.raises(FileProblem, match=problem):
        open_source(tmp_path / name)


def test_lines_and_rows_are_those_of_another_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's csv, on random records, in blocks of a few bytes. A count of commas without the quotes fails here."""
    monkeypatch.setattr(tables, "_BLOCK", 5)
    rng, path = np.random.default_rng(0), tmp_path / "t.csv"
    for trial in range(300):
        texts = ["".join(rng.choice(list('a"\n,;é '), rng.integers(0, 4))) or "x" for _ in range(27)]
        rows = list(zip(texts[::3], texts[1::3], texts[2::3], strict=True))
        end = ("\n", "\r\n")[trial % 2]
        lines = [written([row], end=end) for row in [("u", "v", "w"), *rows]]
        blank = [place for place in range(len(lines)) if rng.random() < 0.2]
        text = "".join(end * (place in blank) + line for place, line in enumerate(lines))
        path.write_bytes(text.encode())
        tables.csv_form.cache_clear()
        source = open_source(path)
        assert pl.concat(list(source.batches(["u", "v", "w"]))).sort(pl.all()).rows() == sorted(rows)
        odd = int(rng.integers(1, len(lines)))
        lines[odd] = written([("x",) * (2 + 2 * (trial % 3 % 2))], end=end)
        text = "".join(end * (place in blank) + line for place, line in enumerate(lines))
        path.write_bytes(text.encode())
        reader, number = csv.reader(io.StringIO(text, newline="")), 0
        for row in reader:
            if len(row) not in (0, 3):
                break
            number = reader.line_num
        with pytest.raises(FileProblem, match=f"line {reader.line_num} has"):
            open_source(path)
        assert number < reader.line_num


def test_nothing_is_reserved_for_a_file_of_another_form(tmp_path: Path) -> None:
    """The form is read before the ledger is asked, so that a refusal leaves no trace there."""
    path = tmp_path / "t.csv"
    ledger = Ledger.create(tmp_path / "l.sqlite", dataset="d", epsilon=3.0, delta=1e-5)
    before = ledger.log()
    for end in (b"44\n", b"44,\xff\n", b'44,"Z\n'):
        path.write_bytes(b"age,town\n" + b"3,\n" * 200 + end)
        with pytest.raises(FileProblem, match="line 202"):
            discreet.release(path, DOMAIN, Budget(epsilon=1, delta=1e-6), size=10, ledger=ledger)
    assert ledger.log() == before


def test_the_domain_may_have_a_mark(tmp_path: Path) -> None:
    for encoding in ("utf-8-sig", "utf-16"):
        (tmp_path / "d.toml").write_text(DOMAIN.to_toml(), encoding=encoding)
        assert Domain.read(tmp_path / "d.toml") == DOMAIN


def test_a_release_of_one_column_is_read_with_its_nulls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """There an empty line is a null; without its certificate nobody could tell."""
    domain, out = Domain(columns={"age": DOMAIN.columns["age"]}), tmp_path / "o.csv"
    table = pl.DataFrame({"age": [1, None] * 500})
    discreet.release(table, domain, Budget(epsilon=5, delta=1e-6), size=400, mechanism="perturbed-histogram", out=out)
    assert reveal(raw_rows(out)).height == 400
    assert format_of(out) is not None
    with pytest.raises(FileProblem, match="is empty"):
        open_source(out.rename(tmp_path / "other.csv"))
