"""One table gives the same counts from whatever holds it, and what is damaged ends in an error that quotes nothing."""

import gzip
import subprocess
import sys
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal as Exact
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.feather
import pytest
from forms import TEXT, refused

import discreet
from discreet import Budget, Unit
from discreet._core.formats import batch_scan
from discreet.confidential import confidential, confidential_rows
from discreet.confidential.closed import reveal
from discreet.confidential.public import public_table
from discreet.confidential.source import Tally
from discreet.confidential.values import table_schema
from discreet.domain import Boolean, Category, Counts, Date, Datetime, Decimal, Domain, Integer, Numeric, OpenLabels
from discreet.domain.texts import escaped_frame
from discreet.errors import DataError, DiscreetError, FileProblem

NASTY = pl.DataFrame(
    {
        "x": [-0.0, 0.0, 0.5, float("nan"), None, 2.5, 1.0, 5e-324],
        "i": [1, 2, None, 9_007_199_254_740_993, 0, -1, 2, 2],
        "s": ["é", "e\u0301", "a\tb", '"q",;', None, "'=1", "=1", " a "],
        "b": [True, False, None, True, True, False, None, True],
        "d": [date(1600, 2, 29), date(2024, 12, 31), None, *[date(1970, 1, 1)] * 5],
        "t": [datetime.fromisoformat("1969-12-31T23:59:59"), None, *[datetime.fromisoformat("2024-02-29T01:00")] * 6],
        "m": [Exact("0.10"), Exact("99.99"), None, *[Exact("0.00")] * 5],
        "o": ["東京", "", "a\nb", None, "null", "NaN", "1", "\u202eevil"],
    },
    schema_overrides={"m": pl.Decimal(10, 2)},
)
DOMAIN = Domain(
    columns={
        "x": Numeric(lower=-1, upper=4, nulls="category"),
        "i": Integer(lower=-1, upper=2**60, nulls="category"),
        "s": Category(categories=[one for one in NASTY["s"] if one is not None], nulls="category"),
        "b": Boolean(nulls="category"),
        "d": Date(lower="1500-01-01", upper="2030-01-01", nulls="category"),
        "t": Datetime(lower="1900-01-01", upper="2030-01-01", step="1s", nulls="category"),
        "m": Decimal(lower="0", upper="99.99", digits=2, nulls="category"),
        "o": OpenLabels(nulls="category"),
    }
)


def stored(frame: pl.DataFrame, path: Path) -> Path:
    """Write a table with other writers than this library's."""
    name = path.name.lower()
    if name.endswith((".parquet", ".pq")):
        frame.write_parquet(path)
    elif name.endswith((".feather", ".arrow", ".ipc")):
        write = pa.ipc.new_stream if "stream" in name else pa.ipc.new_file
        table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
        with write(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=3)
    else:
        data = (
            escaped_frame(frame)
            .write_csv(separator="\t" if ".tsv" in name else ",", quote_style="non_numeric")
            .encode()
        )
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


FILES = ("t.parquet", "t.PQ", "t.feather", "t.arrow", "stream.arrow", "t.ipc", "t.csv", "t.csv.gz", "t.tsv", "T.TSV.GZ")


def in_folder(frame: pl.DataFrame, folder: Path) -> Path:
    """Write the rows to a few files of a folder, beside what writers of such folders leave."""
    (folder / "more").mkdir(parents=True)
    frame.head(3).write_parquet(folder / "part-0.parquet")
    frame.tail(-3).write_parquet(folder / "more" / "part-1.pq")
    (folder / "_SUCCESS").touch()
    (folder / ".part-0.parquet.crc").write_bytes(b"crc")
    return folder


class Stream:
    """An object of no library that is known, which gives Arrow's C stream."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested: object = None) -> object:
        return self._table.__arrow_c_stream__(requested)


OBJECTS: dict[str, Callable[[pa.Table], Any]] = {
    "PyArrow table": lambda table: table,
    "record batch": lambda table: table.to_batches()[0],
    "record batch reader": lambda table: table.to_reader(max_chunksize=3),
    "data set": pyarrow.dataset.dataset,
    "C stream": Stream,
}


def counts(data: Any, domain: Domain = DOMAIN, **options: Any) -> Counts:
    return reveal(confidential(data, domain, **options))


def as_rows(found: Counts) -> dict[tuple[Any, ...], int]:
    columns = [codes.tolist() for codes in found.records.columns]
    rows = [tuple("NaN" if code != code else code for code in row) for row in zip(*columns, strict=True)]
    return dict(zip(rows, found.frequencies.tolist(), strict=True))


def test_a_stream_that_can_be_taken_once_is_taken_once() -> None:
    """By a mechanism that reads some tables in parts, too."""

    class Once(Stream):
        def __arrow_c_stream__(self, requested: object = None) -> object:
            table, self._table = self._table, None
            return table.__arrow_c_stream__(requested)

    names = "abcd"
    domain = Domain(columns={name: Integer(lower=0, upper=1) for name in names})
    table = pa.table({name: [0, 1] * 500 for name in names})
    made = discreet.release(
        Once(table), domain, Budget(epsilon=8.0, delta=1e-6), size=100, mechanism="marginals", seed=1
    )
    assert made.certificate.to_dict()["records"] == 1000


@pytest.mark.parametrize("name", [*FILES, "folder"])
def test_the_same_counts_from_every_file(name: str, tmp_path: Path) -> None:
    frame = NASTY.with_columns(pl.when(pl.col("o") == "").then(None).otherwise("o").alias("o"))  # no empty text in CSV
    data = in_folder(frame, tmp_path / name) if name == "folder" else stored(frame, tmp_path / name)
    closed = confidential(data, DOMAIN)
    assert as_rows(reveal(closed)) == as_rows(counts(frame))
    parts = list(reveal(confidential_rows(data, DOMAIN)).parts())
    assert sum(part.n for part in parts) == frame.height
    public = DOMAIN.encode(public_table(data, DOMAIN))
    assert len(public) == frame.height
    back = closed.provenance.returned
    assert (back is None) == (closed.provenance.frame_kind == "csv")  # which stays as it is
    if back is not None:
        assert isinstance(back(frame, DOMAIN), pl.DataFrame)
        assert table_schema(data) == table_schema(frame)


@pytest.mark.parametrize("name", OBJECTS)
def test_the_same_counts_from_every_arrow_object(name: str) -> None:
    closed = confidential(OBJECTS[name](NASTY.to_arrow()), DOMAIN)
    assert as_rows(reveal(closed)) == as_rows(counts(NASTY))
    assert isinstance(closed.provenance.returned(NASTY, DOMAIN), pa.Table)
    assert table_schema(OBJECTS[name](NASTY.to_arrow())) == table_schema(NASTY)


@pytest.mark.parametrize("kept", [-1, 2**27])
def test_a_stream_that_can_be_read_once_is_not_read_twice(kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.confidential.count._KEPT", kept)
    reader = NASTY.to_arrow().to_reader()
    assert table_schema(reader)  # which reads no row
    domain = Domain(columns={name: column for name, column in DOMAIN.columns.items() if not column.open})
    rows = reveal(confidential_rows(reader, domain, accept={"other-columns"}))
    if kept < 0:
        with pytest.raises(DataError, match="changed while it was read"):
            list(rows.parts())
    else:
        tally = Tally(domain)
        for part in rows.parts():
            tally.add_records(part.records, part.frequencies)
        assert as_rows(tally.counts()) == as_rows(reveal(confidential(NASTY, domain, accept={"other-columns"})))
    with pytest.raises(DataError, match="has no rows"):
        confidential(reader, DOMAIN)
    again = reveal(confidential_rows(Stream(NASTY.to_arrow()), DOMAIN))
    assert sum(part.n for part in again.parts()) == NASTY.height


@pytest.mark.parametrize("data", [pl.Series([1]), pa.chunked_array([[1]]), pa.array([1])])
def test_a_column_is_no_table(data: Any) -> None:
    with pytest.raises(DataError, match="is not a supported table"):
        confidential(data, DOMAIN)


# -- folders ----------------------------------------------------------------------------------------------------------

PARTS = Domain(
    columns={
        "sex": Category(categories=["f", "a b/c", "=", "'="], nulls="category"),
        "year": Integer(lower=2000, upper=2030),
        "x": Integer(lower=0, upper=9),
    }
)


def partitioned(frame: pl.DataFrame, folder: Path) -> Path:
    schema = pa.schema([("sex", pa.string()), ("year", pa.int64())])
    names = pyarrow.dataset.partitioning(schema, flavor="hive")
    pyarrow.dataset.write_dataset(frame.to_arrow(), folder, format="parquet", partitioning=names)
    return folder


def test_hive_partitions_are_columns(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {"sex": ["f", "a b/c", "=", None, "'="], "year": [2001, 2002, 2001, 2030, 2001], "x": range(5)}
    )
    folder = partitioned(frame, tmp_path / "t=1")  # what is above the folder is no part of the table
    assert as_rows(counts(folder, PARTS)) == as_rows(counts(frame, PARTS))
    assert table_schema(folder) == {"x": "integer", "sex": "unknown", "year": "unknown"}
    units = Domain(columns={"x": Integer(lower=0, upper=9, nulls="category")})
    options = {"unit": Unit("sex", max_records=2), "accept": {"other-columns"}}
    with pytest.raises(DataError, match="no privacy unit"):
        confidential(folder, units, **options)
    whole = partitioned(frame.drop_nulls(), tmp_path / "whole")
    assert as_rows(counts(whole, units, **options)) == as_rows(counts(frame.drop_nulls(), units, **options))


def test_a_partition_that_does_not_fit_is_not_quoted(tmp_path: Path) -> None:
    folder = partitioned(pl.DataFrame({"sex": ["f"], "year": [424_242_171], "x": [1]}), tmp_path / "t")
    assert "column 'year'" in refused(folder, PARTS)
    folder = partitioned(pl.DataFrame({"sex": [TEXT], "year": [2001], "x": [1]}), tmp_path / "u")
    assert "column 'sex'" in refused(folder, PARTS)
    (folder / f"sex={TEXT}" / "year=2001" / "part-0.parquet").write_bytes(b"PAR1" + b"\xff" * 90 + b"PAR1")
    assert "not readable Parquet" in refused(folder, PARTS, FileProblem)


def partition(folder: Path) -> None:
    (folder / f"sex={TEXT}").mkdir()
    pl.DataFrame({"x": [1]}).write_parquet(folder / f"sex={TEXT}" / "p.parquet")


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lambda folder: (folder / f"{TEXT}.csv").write_text("x\n1\n"), "holds a file that is not .parquet"),
        (lambda folder: pl.DataFrame({"x": [0.5]}).write_parquet(folder / "o.parquet"), "different columns or types"),
        (partition, "not partitions by the same columns"),
        (lambda folder: (folder / "_delta_log").mkdir(), "log of changes"),
        (lambda folder: (folder / "more").symlink_to(folder), "a link to a folder"),
    ],
)
def test_a_folder_that_is_no_one_table(spoil: Callable[[Path], Any], problem: str, tmp_path: Path) -> None:
    pl.DataFrame({"x": [1, 2]}).write_parquet(tmp_path / "p.parquet")
    assert counts(tmp_path, X).n == 2
    spoil(tmp_path)
    assert problem in refused(tmp_path, X, FileProblem)


def test_a_column_in_the_files_and_in_their_names(tmp_path: Path) -> None:
    (tmp_path / "x=1").mkdir()
    pl.DataFrame({"x": [2]}).write_parquet(tmp_path / "x=1" / "p.parquet")
    assert "in the names of its folders" in refused(tmp_path, X, FileProblem)


# -- the index of a pandas table --------------------------------------------------------------------------------------

INDEXED = pd.DataFrame({"x": [1, 2, 2]}, index=[TEXT, "b", "c"])
X = Domain(columns={"x": Integer(lower=0, upper=9)})


@pytest.mark.parametrize("index", [None, "person", "x.y"])
@pytest.mark.parametrize("form", ["t.parquet", "t.feather", "t.arrow", "table", "folder", "data set"])
def test_a_stored_index_is_no_column(form: str, index: str | None, tmp_path: Path) -> None:
    frame = INDEXED.rename_axis(index)
    table = pa.Table.from_pandas(frame)
    path: Any = tmp_path / form
    if form == "t.parquet":
        frame.to_parquet(path)
    elif form == "t.feather":
        pyarrow.feather.write_feather(table, path)
    elif form == "t.arrow":
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    elif form == "folder":
        path.mkdir()
        frame.to_parquet(path / "p.parquet")
    else:
        path = table if form == "table" else pyarrow.dataset.dataset(table)
    assert table_schema(path) == {"x": "integer"}
    assert as_rows(counts(path, X)) == as_rows(counts(INDEXED, X))
    wanted = Domain(columns={**X.columns, table.schema.names[-1]: OpenLabels()})
    said = refused(path, wanted)
    assert "is the index of the table" in said
    assert "reset_index()" in said


def test_an_index_of_numbers_is_not_stored_as_a_column(tmp_path: Path) -> None:
    pd.DataFrame({"x": [1, 2]}).to_parquet(tmp_path / "t.parquet")  # its metadata hold a range
    assert counts(tmp_path / "t.parquet", X).n == 2
    pl.DataFrame({"x": [1], "__index_level_0__": [TEXT]}).write_parquet(tmp_path / "t.parquet")  # they are lost
    assert counts(tmp_path / "t.parquet", X).n == 1


@pytest.mark.parametrize("said", [TEXT, "[]", '{"index_columns": 3}', "{}", "[" * 100_000, '{"index_columns": [[]]}'])
def test_metadata_that_pandas_did_not_write(said: str, tmp_path: Path) -> None:
    table = pa.table({"x": [1]}).replace_schema_metadata({"pandas": said})
    pl.from_arrow(table).write_parquet(tmp_path / "t.parquet", metadata={"pandas": said})  # type: ignore[union-attr]
    with pa.ipc.new_file(tmp_path / "t.arrow", table.schema) as writer:
        writer.write_table(table)
    for data in (tmp_path / "t.parquet", tmp_path / "t.arrow", table):
        try:
            assert counts(data, X).n == 1
        except DiscreetError as error:
            assert TEXT not in str(error)  # noqa: PT017


# -- damaged files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["t.csv.gz", "t.tsv.gz", "t.feather", "t.arrow", "t.pq"])
def test_truncated_and_foreign_files(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    path = stored(pl.DataFrame({"x": rng.integers(0, 9, 3000)}), tmp_path / name)
    whole = path.read_bytes()
    spoilt = whole[:50] + b"\xff" * 550 + whole[600:]
    cut = whole[:3], whole[: len(whole) // 2], whole[:-4]
    for data in (*cut, spoilt, TEXT.encode(), gzip.compress(b""), b"\xff" * 500):
        path.write_bytes(data)
        said = refused(path, X, DiscreetError)
        if name == "t.pq" and data in (*cut, TEXT.encode()):
            assert "not a readable Parquet" in said
            with pytest.raises(FileProblem):
                table_schema(path)


def test_a_header_that_gzip_makes_long(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"x" * 2**27))
    assert "not a readable CSV" in refused(path, X, FileProblem)


def test_the_wrong_separator(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("x,y;z\n1,2\n")
    assert "not separated by tabs" in refused(tmp_path / "t.tsv", X, FileProblem)
    (tmp_path / "t.csv").write_text("x\ty;z\n1\t2\n")
    assert "not separated by commas" in refused(tmp_path / "t.csv", X, FileProblem)


READ_DAMAGED = """
import random, sys
from pathlib import Path
from discreet._core.formats import format_of, scanned, texts

whole, spoilt = Path(sys.argv[1]).read_bytes(), Path(sys.argv[1] + ".spoilt")
form = format_of("t.arrow")
for seed in range(400):
    rng, data = random.Random(seed), bytearray(whole)
    for _ in range(rng.choice((1, 1, 2))):
        near_end = len(data) - 1 - rng.randrange(600)
        data[rng.choice((rng.randrange(64), near_end, rng.randrange(len(data))))] = rng.choice((0, 127, 147, 255))
    spoilt.write_bytes(data)
    try:
        texts(spoilt, form)
        scan = scanned(spoilt, form)
        scan.group_by(scan.collect_schema().names()).len().collect()
    except MemoryError:
        raise
    except BaseException:
        pass
"""


@pytest.mark.parametrize("packed", [None, "zstd"])
def test_no_change_of_bytes_ends_the_process(tmp_path: Path, packed: str | None) -> None:
    """In a process of its own: what would end it cannot be caught."""
    path = tmp_path / "t.arrow"
    table = pa.table({"x": [0.5, None, 2.5] * 40, "s": ["a", "b" * 30, None] * 40, "i": list(range(120))})
    with pa.ipc.new_file(path, table.schema, options=pa.ipc.IpcWriteOptions(compression=packed)) as writer:
        writer.write_table(table)
    done = subprocess.run([sys.executable, "-c", READ_DAMAGED, path], capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-500:]


@pytest.mark.parametrize("form", ["file", "stream"])
def test_a_column_of_a_type_that_polars_lacks(form: str, tmp_path: Path) -> None:
    odd = pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array([TEXT, TEXT])])
    table = pa.table({"x": [1, 2], "odd": odd})
    with pa.ipc.new_file(tmp_path / "t.arrow", table.schema) as writer:
        writer.write_table(table)

    def data() -> Any:
        return tmp_path / "t.arrow" if form == "file" else table.to_reader()

    assert counts(data(), X, accept={"other-columns"}).n == 2
    assert table_schema(data()) == {"x": "integer", "odd": "unknown"}
    refused(data(), Domain(columns={**X.columns, "odd": OpenLabels()}), DiscreetError)


def test_labels_of_other_numbers_in_every_batch(tmp_path: Path) -> None:
    codes = [(["a", "b"], [0, 1, None]), (["b", "a"], [0, 0, 1])]
    batches = [
        pa.record_batch({"s": pa.DictionaryArray.from_arrays(pa.array(places, pa.int8()), labels)})
        for labels, places in codes
    ]
    with pa.ipc.new_stream(tmp_path / "t.arrow", batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    domain = Domain(columns={"s": Category(categories=["a", "b"], nulls="category")})
    for data in (tmp_path / "t.arrow", pa.RecordBatchReader.from_batches(batches[0].schema, batches)):
        assert counts(data, domain).frequencies.tolist() == [2, 3, 1]


def test_a_scan_of_batches_gives_what_is_asked_for() -> None:
    table = pa.table({"x": list(range(10)), "s": list("abcdefghij")})
    scan = batch_scan(table.schema, lambda columns: iter(table.select(list(columns)).to_batches(max_chunksize=3)))
    frame = pl.DataFrame({"x": range(10), "s": list("abcdefghij")})
    assert scan.collect().equals(frame)
    assert scan.select("s", "x").head(4).collect().equals(frame.select("s", "x").head(4))
    assert scan.filter(pl.col("x") > 4).select("s").collect().equals(frame.filter(pl.col("x") > 4).select("s"))
    assert scan.filter(pl.col("x") > 4).head(2).collect().equals(frame.filter(pl.col("x") > 4).head(2))
    assert scan.select(pl.len()).collect().item() == 10
