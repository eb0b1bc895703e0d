"""What names, headers and the disk show is found before anything is reserved; a later failure says what it cost."""

import multiprocessing
import operator
import os
import pickle
import resource
import signal
import sqlite3
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from ledgers import AGES, BUDGET, DOMAIN, ledger_at

from discreet import Ledger, release
from discreet.cli.entry import run
from discreet.confidential import check_table, tables
from discreet.confidential.count import Rows
from discreet.domain import Category, Domain
from discreet.errors import DataError, DiscreetError, FileProblem, Refused
from discreet.mechanisms import PerturbedHistogram

TOWNS = Domain(columns={"age": DOMAIN.columns["age"], "town": Category(categories=["a", "b"])})
TABLE = AGES.with_columns(town=pl.lit("a"))


def states(ledger: Ledger) -> list[str]:
    return [event["state"] for event in ledger.log()[1:]]


def released(data: Any, ledger: Ledger, domain: Domain = TOWNS, **more: Any) -> Any:
    asked = {"size": 50, "mechanism": "perturbed-histogram", "accept": {"data-dependent-refusal"}, "ledger": ledger}
    return release(data, domain, BUDGET, **asked | more)


def folder_of(place: Path, *frames: pl.DataFrame) -> Path:
    place.mkdir()
    for number, frame in enumerate(frames):
        frame.write_parquet(place / f"part-{number}.parquet")
    return place


def spoilt(place: Path, name: str, content: bytes) -> Path:
    (folder_of(place, TABLE) / name).write_bytes(content)
    return place


def sqlite_of(place: Path) -> str:
    with sqlite3.connect(place) as database:
        database.execute("CREATE TABLE t(age INTEGER)")
    return f"sqlite:///{place}?table=t"


def lost(place: Path) -> pl.LazyFrame:
    frame = pl.scan_parquet(sorted(folder_of(place, TABLE, TABLE).iterdir()))
    (place / "part-1.parquet").unlink()
    return frame


BEFORE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a stray file": (lambda place: spoilt(place, "x.csv", b"x"), r"not .parquet or .pq.*domain check names"),
    "an empty file in a folder": (lambda place: spoilt(place, "x.parquet", b""), "not readable Parquet"),
    "a broken file in a folder": (lambda place: spoilt(place, "x.parquet", b"PAR1" * 9), "not readable Parquet"),
    "no file": (lambda place: place, "there is no such file"),
    "a pattern": (lambda place: folder_of(place, TABLE) / "*.parquet", "a pattern of names is not expanded"),
    "a mixed folder": (
        lambda place: folder_of(place, TABLE, TABLE.with_columns(pl.col("age").cast(pl.Int32))),
        "'age': Int64 or Int32",
    ),
    "a column that one file lacks": (lambda place: folder_of(place, TABLE, AGES), "'town': String or none"),
    "a missing column": (lambda place: folder_of(place, AGES), "'town': is not in the table"),
    "an undeclared column": (lambda place: folder_of(place, TABLE.with_columns(x=1)), "'x': is in the table but not"),
    "another type": (
        lambda place: folder_of(place, TABLE.with_columns(age=pl.lit(value=True))),
        "'age': holds Boolean",
    ),
    "a frame with another type": (lambda _: TABLE.with_columns(town=pl.col("age")), "'town': holds Int64"),
    "a lazy frame with another type": (lambda _: TABLE.lazy().with_columns(town=pl.col("age")), "'town': holds Int64"),
    "a lazy frame that lost a file": (lost, "a file of it is lost"),
    "SQLite without a column": (sqlite_of, "'town': is not in the table"),
    "SQLite without a table": (lambda place: sqlite_of(place).replace("=t", "=u"), "the table cannot be read"),
    "a database without a table": (lambda place: sqlite_of(place) and place, r"sqlite:///.*\?table=NAME"),
    "no table": (lambda _: None, "must be a dataframe"),
}


@pytest.mark.parametrize("case", BEFORE)
def test_what_names_and_headers_show_is_found_before_anything_is_reserved(tmp_path: Path, case: str) -> None:
    data, problem = BEFORE[case]
    ledger = ledger_at(tmp_path)
    with pytest.raises(DiscreetError, match=problem) as found:
        released(data(tmp_path / "t"), ledger)
    assert states(ledger) == []
    assert "This try" not in str(found.value)


def test_the_remedies_are_true(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger, domain = ledger_at(tmp_path), tmp_path / "domain.toml"
    domain.write_text(TOWNS.to_toml())
    place = spoilt(tmp_path / "t", "x.csv", b"x")
    assert run(["domain", "check", str(place), "--domain", str(domain)]) == 2
    assert "it holds a file that is not .parquet or .pq: x.csv.\nGive" in capsys.readouterr().err
    (place / "x.csv").unlink()
    released(place, ledger)  # the folder in place of a pattern
    pattern = tmp_path / "*.csv"
    TABLE.write_csv(tmp_path / "a.csv")
    released(pl.scan_csv(pattern), ledger)
    with sqlite3.connect(tmp_path / "t.db") as database:
        database.execute("CREATE TABLE NAME(age INTEGER, town TEXT)")
        database.executemany("INSERT INTO NAME VALUES (?, ?)", TABLE.rows())
    with pytest.raises(FileProblem) as found:
        released(tmp_path / "t.db", ledger)
    released(found.value.remedy.rpartition(": ")[2], ledger)
    assert states(ledger).count("DELIVERED") == 3


@pytest.mark.parametrize("content", [b"", b"PAR1" * 9, None])
def test_the_file_that_failed_is_named_to_the_custodian_alone(tmp_path: Path, content: bytes | None) -> None:
    """None: its pages are broken, which reading tells. Values in the names of folders are not told."""
    place = folder_of(tmp_path / "t", TABLE.drop("town"))
    (place / "part-0.parquet").unlink()
    for town in "ab":
        folder_of(place / f"town={town}", AGES, AGES)
    bad = place / "town=b" / "part-1.parquet"
    whole = bytearray(bad.read_bytes())
    whole[60:400] = b"\xff" * 340
    bad.write_bytes(bytes(whole) if content is None else content)
    with pytest.raises(FileProblem) as found:
        released(place, ledger_at(tmp_path))
    assert "part-1" not in str(found.value)
    with pytest.raises(FileProblem, match=r"not readable Parquet: town=\.\.\./part-1\.parquet\. Give"):
        check_table(place, TOWNS)


def test_another_order_of_columns_is_no_error(tmp_path: Path) -> None:
    place = folder_of(tmp_path / "t", TABLE, TABLE.select("town", "age"))
    assert released(place, ledger_at(tmp_path)).certificate.facts.records == 2 * TABLE.height


def test_no_room_on_the_disk_is_found_before_anything_is_reserved(tmp_path: Path) -> None:
    ledger, limit = ledger_at(tmp_path), resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    (tmp_path / "out").mkdir()
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**18, limit[1]))
        with pytest.raises(FileProblem, match="file too large"):
            released(TABLE, ledger, size=10**7, out=tmp_path / "out" / "o.csv")
        released(TABLE, ledger, size=100, out=tmp_path / "out" / "o.csv")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, old)
    assert states(ledger).count("RESERVED") == 1
    assert len(list((tmp_path / "out").iterdir())) == 2


# -- forked processes -------------------------------------------------------------------------------------------------


def refusal(place: str) -> str:
    try:
        released(TABLE, Ledger(place))
    except DiscreetError as error:
        return f"{type(error).__name__}: {error}"
    return "released"


def test_a_forked_process_is_refused_at_once_and_the_remedy_works(tmp_path: Path) -> None:
    ledger = ledger_at(tmp_path)
    AGES.group_by("age").len()  # Polars has its threads
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with multiprocessing.get_context("fork").Pool(1) as pool:
            told = pool.apply_async(refusal, (str(ledger.place),)).get(timeout=60)
    assert told.startswith("Refused: this process was forked while polars had threads")
    assert states(ledger) == []
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply_async(refusal, (str(ledger.place),)).get(timeout=60) == "released"


# -- what a failure costs ---------------------------------------------------------------------------------------------

COST = "This try cost epsilon 1 and delta 1e-06: the table had been opened"


def failing(error: BaseException) -> Any:
    def kernel(*_: Any, **__: Any) -> Any:
        raise error

    return kernel


KERNELS = {
    "its table does not fit": failing(DataError(None, "x", "y")),
    "its file": failing(FileProblem("x", "y", "z")),
    "it is refused": failing(Refused("x")),
    "a fault": operator.itemgetter("CANARY"),
}


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_failure_says_what_it_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernel: str) -> None:
    monkeypatch.setattr(PerturbedHistogram, "kernel", KERNELS[kernel])
    ledger = ledger_at(tmp_path)
    with pytest.raises(DiscreetError) as found:
        released(TABLE, ledger)
    assert str(found.value).endswith(COST)
    assert str(pickle.loads(pickle.dumps(found.value))).endswith(COST)
    assert "CANARY" not in str(found.value)
    assert states(ledger)[-1] == "FORFEITED"


def test_without_a_ledger_a_failure_speaks_of_no_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PerturbedHistogram, "kernel", failing(Refused("x")))
    with pytest.raises(Refused, match="^x$"):
        released(TABLE, None)


def test_an_interrupt_says_what_it_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(PerturbedHistogram, "kernel", failing(KeyboardInterrupt()))
    ledger, domain = ledger_at(tmp_path), tmp_path / "domain.toml"
    domain.write_text(TOWNS.to_toml())
    TABLE.write_csv(tmp_path / "t.csv")
    command = f"release {tmp_path}/t.csv --domain {domain} --epsilon 1 --size 50 --mechanism perturbed-histogram"
    command += " --accept data-dependent-refusal"
    assert run([*command.split(), "--out", f"{tmp_path}/o.csv", "--ledger", str(ledger.place)]) == 2
    told = capsys.readouterr().err
    assert "interrupted.\nNo file was left half-written.\nThis try cost epsilon 1: the table had been opened" in told
    monkeypatch.setattr(PerturbedHistogram, "kernel", failing(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt) as found:
        released(TABLE, ledger)
    assert found.value.__notes__ == [f"{COST}."]


# -- files that change ------------------------------------------------------------------------------------------------


def replaced(path: Path) -> None:
    status = path.stat()
    TABLE.with_columns(age=99 - pl.col("age")).write_parquet(path)  # of as many rows
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))


SOURCES: dict[str, Callable[[Path], Any]] = {
    "folder": str,
    "file": lambda place: str(place / "part-1.parquet"),
    "lazy": lambda place: pl.scan_parquet(place / "*.parquet"),
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("change", [replaced, Path.unlink])
def test_a_file_that_changes_between_two_passes_is_noticed(
    tmp_path: Path, source: str, change: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("discreet.confidential.count._KEPT", -1)  # so that codes are read again
    place = folder_of(tmp_path / "t", TABLE, TABLE)
    data = SOURCES[source](place)
    rows = Rows(tables.open_source(data), TOWNS)
    assert sum(part.n for part in rows.parts()) in (TABLE.height, 2 * TABLE.height)
    change(place / "part-1.parquet")
    with pytest.raises(DataError, match="changed while it was read"):
        list(rows.parts())


@pytest.mark.parametrize("source", SOURCES)
def test_a_file_that_is_lost_before_the_first_pass_is_noticed(tmp_path: Path, source: str) -> None:
    place = folder_of(tmp_path / "t", TABLE, TABLE)
    opened = tables.open_source(SOURCES[source](place))
    (place / "part-1.parquet").unlink()
    with pytest.raises(DataError, match="changed while it was read"):
        released(opened, ledger_at(tmp_path))
