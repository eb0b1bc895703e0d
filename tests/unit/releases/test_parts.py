"""A release in parts: a folder that appears whole, the same whoever made it, and of which every part is checked."""

import hashlib
import json
import os
import pickle
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from jsonschema import Draft202012Validator
from polars.testing import assert_frame_equal

import discreet
from discreet import Budget, Ledger, Output
from discreet._core.random import seeded
from discreet.cli.entry import run
from discreet.domain import (
    Boolean,
    Category,
    Date,
    Datetime,
    Decimal,
    Domain,
    Duration,
    Integer,
    Numeric,
    OpenLabels,
    Records,
)
from discreet.errors import DiscreetError, FileProblem
from discreet.inference import ReleaseTakenForSample
from discreet.mechanisms.reading import BLOCK, CellShares, Portion, draw_cells
from discreet.releases import Release, verify
from discreet.releases.release import taken_for_sample
from discreet.releases.writing import MANIFEST, write_part
from discreet.testing import assert_law
from discreet.testing.contract import sample_size_for_distance

SCHEMA = Path(discreet.__file__).parent / "releases" / "certificate.schema.json"
HELD = 3000
FORFEITS = {"data-dependent-refusal"}
ODD = ["plain", "a/b=c", "50 %", "é", "x\\y", ".."]
DOMAIN = Domain(
    columns={
        "age": Integer(lower=0, upper=99, cells=10),
        "group": Category(categories=ODD, nulls="category"),
        "share": Numeric(lower=0.0, upper=1.0, cells=3),
        "member": Boolean(),
        "born": Date(lower="2000-01-01", upper="2000-01-05"),
    }
)


ASKED: dict[str, Any] = {"budget": Budget(epsilon=4.0), "size": 5000, "mechanism": "perturbed-histogram", "seed": 1}
ASKED["accept"] = {"poor-utility"}


def held(count: int = HELD) -> pl.DataFrame:
    rng = np.random.default_rng(1)
    days = pl.Series(rng.integers(0, 5, count)).cast(pl.Int32)
    return pl.DataFrame(
        {
            "age": rng.integers(0, 100, count),
            "group": pl.Series([*ODD[:3], None])[rng.integers(0, 4, count)],
            "share": rng.random(count),
            "member": rng.random(count) < 0.3,
            "born": pl.Series(days + 10957).cast(pl.Date),
        }
    )


def released(
    out: Path, *, partitions: int = 4, partition_by: str | None = None, workers: Any = 1, **asked: Any
) -> Release:
    where = Output(out, partitions=partitions, partition_by=partition_by, workers=workers)
    return discreet.release(held(), DOMAIN, out=where, **{**ASKED, **asked})


def digests(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*.parquet")
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release in four parts, which is not to be changed."""
    folder = tmp_path_factory.mktemp("whole") / "out"
    released(folder)
    return folder


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "out"))


# -- who makes the parts does not matter ------------------------------------------------------------------------------


class Unreliable:
    """An engine that loses attempts, repeats tasks at the same time, and returns them in any order."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def __call__(self, make: Callable[[int], Any], numbers: Sequence[int]) -> Iterable[Any]:
        tasks = [*numbers, *numbers, *numbers[::2]]
        random.Random(self.seed).shuffle(tasks)
        sent = pickle.dumps(make)

        def attempt(task: int) -> Any:
            parts = pickle.loads(sent)(task)  # each worker has its own copy
            if (self.seed + task) % 3 == 0:  # what it wrote is lost, with the worker
                (make.writer.folder / parts[-1].file).unlink(missing_ok=True)  # type: ignore[attr-defined]
            return parts

        with ThreadPoolExecutor(3) as pool:
            made = [*pool.map(attempt, tasks)]
        return [*made, *map(make, numbers)]


@pytest.mark.parametrize("seed", range(3))
def test_failed_repeated_and_shuffled_tasks_give_the_same_folder(seed: int, whole: Path, tmp_path: Path) -> None:
    released(tmp_path / "out", workers=Unreliable(seed))
    assert digests(tmp_path / "out") == digests(whole)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(path.name for path in whole.iterdir())


def test_other_processes_make_the_same_parts(whole: Path, tmp_path: Path) -> None:
    released(tmp_path / "out", workers=2)
    assert digests(tmp_path / "out") == digests(whole)


def test_repeated_tasks_fill_the_same_folders_by_value(tmp_path: Path) -> None:
    released(tmp_path / "one", partition_by="group")
    released(tmp_path / "other", partition_by="group", workers=Unreliable(1))
    assert digests(tmp_path / "one") == digests(tmp_path / "other")
    assert len(digests(tmp_path / "one")) == 28


def written() -> str:
    """Return the hash of a file of several row groups, and of files by value."""
    rows = (BLOCK, BLOCK, 999)
    frames = [pl.DataFrame({"a": np.arange(count) % 7, "b": np.arange(count) / 7}) for count in rows]
    said, schema = {"x": "1", "y": "2"}, dict(frames[0].schema)
    with tempfile.TemporaryDirectory() as name:
        files = {value: Path(name, f"{value}.parquet") for value in range(8)}
        whole = {None: Path(name, "whole.parquet")}
        write_part(iter(frames), schema, whole, by=None, named=Path("part.parquet"), metadata=said)
        write_part(iter(frames), schema, files, by="a", named=Path("parts"), metadata=said)
        assert [pl.read_parquet(file).columns for file in files.values()] == [["b"]] * 8
        return hashlib.sha256(repr(sorted(digests(Path(name)).items())).encode()).hexdigest()


def test_the_number_of_threads_does_not_matter() -> None:
    """Polars cuts row groups where the frames end, and where enough records of a value have come."""
    threads = 1 if pl.thread_pool_size() > 1 else 4
    program = "import sys; sys.path.insert(0, sys.argv[1]); import test_parts; print(test_parts.written())"
    told = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, str(Path(__file__).parent)],
        env={**os.environ, "POLARS_MAX_THREADS": str(threads)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.strip() == written()


def test_the_number_of_parts_changes_no_counts_of_a_stratified_release(whole: Path, tmp_path: Path) -> None:
    """What is drawn within a cell differs, and the order."""
    cells = ["group", "member", "born"]
    one = released(tmp_path / "one", partitions=1)
    with pytest.warns(ReleaseTakenForSample):
        counted = one.table().select(cells).sort(cells)
    with pytest.warns(ReleaseTakenForSample):
        assert_frame_equal(discreet.read(whole).table().select(cells).sort(cells), counted)
    file = discreet.release(held(), DOMAIN, **ASKED)
    with pytest.warns(ReleaseTakenForSample):
        assert_frame_equal(file.table().select(cells).sort(cells), counted)


def test_a_part_is_like_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """1e-6 to fail a part that is a sample; 1e-6 to pass one at total variation 0.1, as of records in order."""
    size = 8 * sample_size_for_distance(5, 0.1)

    def following(shares: CellShares, size: int, *, rng: np.random.Generator, portion: Portion) -> Iterator[Records]:
        chunks = draw_cells(shares.weights, size, sampling=shares.sampling, rng=seeded(1))
        items = np.sort(np.concatenate(list(chunks)))
        own = len(range(portion.number, size, portion.parts))
        yield shares.records_in(items[portion.number * own :][:own], rng=rng)

    with monkeypatch.context() as patched:
        patched.setattr(CellShares, "draw", following)
        released(tmp_path / "sorted", size=size, partitions=8)
    released(tmp_path / "out", size=size, partitions=8)

    def days(path: Path) -> list[int]:
        counted = pl.concat([pl.scan_parquet(path).select("born"), pl.LazyFrame({"born": DAYS})]).collect()
        return [one - 1 for one in counted["born"].value_counts().sort("born")["count"]]

    for number in range(8):
        shares = np.array(days(tmp_path / "out" / "part-*.parquet")) / size
        part = days(tmp_path / "out" / f"part-{number:05}.parquet")
        assert abs(sum(part) - size / 8) < 1
        assert_law(part, shares, distance=0.1)
    ages = pl.concat([pl.read_parquet(file) for file in (tmp_path / "out").glob("*.parquet")])["age"] // 20
    for number in (0, 7):
        found = pl.read_parquet(tmp_path / "sorted" / f"part-{number:05}.parquet")["age"] // 20
        with pytest.raises(AssertionError, match="total variation"):
            assert_law([(found == i).sum() for i in range(5)], [(ages == i).mean() for i in range(5)], distance=0.1)


DAYS = pl.Series([10957 + i for i in range(5)]).cast(pl.Int32).cast(pl.Date)


@pytest.mark.parametrize(
    "name", ["smoothed-histogram", "dirichlet-multinomial", "stabilised-pitman-yor", "exponential-histogram"]
)
def test_records_that_come_one_after_the_other_fill_part_after_part(name: str, tmp_path: Path) -> None:
    ages = Domain(columns={"age": Integer(lower=0, upper=99, cells=10)})
    how: dict[str, Any] = {"budget": Budget(epsilon=8.0, delta=1e-3), "size": 50, "mechanism": name, "seed": 2}
    how["accept"] = {"poor-utility", "weak-promise"}
    table = held().select("age")
    file = discreet.release(table, ages, **how)
    parts = discreet.release(table, ages, out=Output(tmp_path / "out", partitions=7), **how)
    with pytest.warns(ReleaseTakenForSample) if taken_for_sample(file.certificate) else nullcontext():
        assert_frame_equal(parts.table(), file.records)
    assert all(check.agrees for check in verify(tmp_path / "out"))
    rows = [part["rows"] for part in json.loads((tmp_path / "out" / MANIFEST).read_text())["parts"]]
    assert rows[:2] == [8, 7]
    assert sum(rows) == file.records.height


def test_more_parts_than_records(tmp_path: Path) -> None:
    made = released(tmp_path / "out", size=3, partitions=6)
    assert made.table().height == 3
    assert [*made.table().schema] == [*DOMAIN.names]
    assert all(check.agrees for check in verify(tmp_path / "out"))


# -- what a reader checks ---------------------------------------------------------------------------------------------


def test_the_hash_of_a_release_is_that_of_its_list(whole: Path) -> None:
    facts = json.loads((whole / "_certificate.json").read_text())
    listed = json.loads((whole / MANIFEST).read_text())
    assert facts["released"]["tables"][0]["file"] == MANIFEST
    assert facts["released"]["tables"][0]["sha256"] == hashlib.sha256((whole / MANIFEST).read_bytes()).hexdigest()
    assert facts["released"]["partitions"] == len(listed["parts"]) == 4
    assert facts["released"]["tables"][0]["rows"] == sum(part["rows"] for part in listed["parts"]) == 5000
    assert {part["file"]: part["sha256"] for part in listed["parts"]} == digests(whole)
    assert not [*Draft202012Validator(json.loads(SCHEMA.read_text())).iter_errors(facts)]


def part(folder: Path, number: int) -> Path:
    return folder / f"part-{number:05}.parquet"


def swapped(folder: Path) -> None:
    part(folder, 0).rename(folder / "aside")
    part(folder, 1).rename(part(folder, 0))
    (folder / "aside").rename(part(folder, 1))


def changed(folder: Path) -> None:
    frame = pl.read_parquet(part(folder, 3))
    frame.with_columns(age=pl.col("age") + 1).write_parquet(part(folder, 3))


def another_list(folder: Path) -> None:
    listed = json.loads((folder / MANIFEST).read_text())
    listed["parts"][0]["rows"] += 1
    (folder / MANIFEST).write_text(json.dumps(listed))


def below_a_hidden_folder(folder: Path) -> None:
    (folder / "_more").mkdir()
    shutil.copy(part(folder, 1), folder / "_more" / "again.parquet")


def linked_folder(folder: Path) -> None:
    """Arrow and DuckDB read what is behind it."""
    other = folder.parent / "other"
    other.mkdir()
    MORE.write_parquet(other / "more.parquet")
    (folder / "aside").symlink_to(other)


def relisted(folder: Path, change: Callable[[list[dict[str, Any]]], Any]) -> None:
    """Change the list of parts, and make the certificate agree with it."""
    listed = json.loads((folder / MANIFEST).read_text())
    change(listed["parts"])
    (folder / MANIFEST).write_text(json.dumps(listed))
    facts = json.loads((folder / "_certificate.json").read_text())
    facts["released"]["tables"][0]["sha256"] = hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest()
    (folder / "_certificate.json").write_text(json.dumps(facts))


def listed_twice(folder: Path) -> None:
    relisted(folder, lambda parts: parts.append({**parts[0], "file": parts[0]["file"].upper()}))


MORE = pl.DataFrame({"age": [1]})
FOREIGN, OTHER_FILE = "it is not part of the release", "it is not the file that was written"
SPOILT: dict[str, tuple[Callable[[Path], Any], str]] = {
    "missing": (lambda folder: part(folder, 2).unlink(), "part-00002.parquet: it is missing"),
    "extra": (lambda folder: MORE.write_parquet(folder / "more.parquet"), f"more.parquet: {FOREIGN}"),
    "doubled": (
        lambda folder: shutil.copy(part(folder, 1), part(folder, 9)),
        f"part-00009.parquet: {FOREIGN}, but has the content of part-00001.parquet",
    ),
    "copied over": (
        lambda folder: shutil.copy(part(folder, 1), part(folder, 3)),
        f"part-00003.parquet: {OTHER_FILE}, but has the content of part-00001.parquet",
    ),
    "swapped": (swapped, f"part-00000.parquet: {OTHER_FILE}, but has the content of part-00001.parquet"),
    "changed": (changed, f"part-00003.parquet: {OTHER_FILE}"),
    "another list": (another_list, f"{MANIFEST} is not the file that its certificate was written for"),
    "no list": (lambda folder: (folder / MANIFEST).unlink(), f"{MANIFEST} is missing"),
    # DuckDB reads it as *.parquet, Spark passes it over
    "hidden": (lambda folder: MORE.write_parquet(folder / "_more.parquet"), f"_more.parquet: {FOREIGN}"),
    "below a hidden folder": (
        below_a_hidden_folder,
        f"_more/again.parquet: {FOREIGN}, but has the content of part-00001.parquet",
    ),
    "linked folder": (linked_folder, f"aside: {FOREIGN}"),
    "link to nothing": (
        lambda folder: (folder / "more.parquet").symlink_to(folder / "nothing"),
        f"more.parquet: {FOREIGN}",
    ),
    "listed twice": (listed_twice, f"{MANIFEST} lists a part twice"),
    "other rows": (
        lambda folder: relisted(folder, lambda parts: parts[1].update(rows=7)),
        "part-00001.parquet: it has another number of rows than its list says",
    ),
}


@pytest.mark.parametrize(("spoil", "told"), SPOILT.values(), ids=SPOILT.keys())
def test_a_folder_that_was_spoilt_is_refused(
    spoil: Callable[[Path], Any], told: str, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil(copy)
    with pytest.raises(FileProblem) as refused:
        discreet.read(copy)
    assert told in str(refused.value)
    name = re.split("[: ]", told)[0]
    assert name in {check.what for check in verify(copy) if not check.agrees}
    assert run(["verify", str(copy)]) == 1
    assert name in capsys.readouterr().out


def test_parts_of_two_releases_are_told_apart(tmp_path: Path) -> None:
    """Their lists and hashes made to agree: each part holds the identity of its release."""
    for name in ("one", "two"):
        released(tmp_path / name, seed=None)
    shutil.copy(part(tmp_path / "two", 0), part(tmp_path / "one", 0))
    found = digests(tmp_path / "one")
    relisted(tmp_path / "one", lambda parts: [one.update(sha256=found[one["file"]]) for one in parts])
    with pytest.raises(FileProblem, match=r"part-00000.parquet: it is from another release"):
        discreet.read(tmp_path / "one")


@pytest.mark.parametrize(
    "name", ["../part-00000.parquet", "/etc/passwd", "a/b/c.parquet", "_x.parquet", "", "a//b", "a\\..\\x", "C:x"]
)
def test_a_list_leads_nowhere_else(name: str, copy: Path) -> None:
    relisted(copy, lambda parts: parts[0].update(file=name))
    with pytest.raises(FileProblem, match="a field of its parts is missing or of the wrong kind"):
        discreet.read(copy)


def test_what_a_slow_attempt_leaves_is_passed_over(copy: Path) -> None:
    (copy / ".part-00001.parquet.0123456789ab.part").write_bytes(b"half")
    assert all(check.agrees for check in verify(copy))
    assert discreet.read(copy).certificate.in_parts


def test_a_part_by_itself_is_refused(whole: Path) -> None:
    with pytest.raises(FileProblem, match="release in parts"):
        discreet.read(part(whole, 0))
    with pytest.raises(FileProblem, match="Give the folder"):
        verify(whole / "_certificate.json", data=part(whole, 0))
    with pytest.raises(FileProblem, match="this release was written to"):
        discreet.read(whole).write("x.parquet")


@pytest.mark.parametrize("name", ["marginals", "smoothed-histogram", "stabilised-pitman-yor"])
def test_every_mechanism_fills_folders(name: str, tmp_path: Path) -> None:
    """Also one whose records come one after the other, or are from a model: they are those of one file."""
    domain = Domain(columns={"age": Integer(lower=0, upper=99, cells=10), "member": Boolean()})
    how: dict[str, Any] = {"budget": Budget(epsilon=8.0, delta=1e-3), "size": 60, "mechanism": name, "seed": 1}
    how["accept"] = {"poor-utility", "weak-promise"}
    table = held().select("age", "member")
    made = discreet.release(table, domain, out=Output(tmp_path / "out", partitions=3, partition_by="member"), **how)
    assert {path.name for path in (tmp_path / "out").iterdir() if path.is_dir()} == {"member=true", "member=false"}
    assert all(check.agrees for check in verify(tmp_path / "out" / "_certificate.json", data=tmp_path / "out"))
    file = discreet.release(table, domain, **how)
    with pytest.warns(ReleaseTakenForSample) if taken_for_sample(file.certificate) else nullcontext():
        read = made.table()
    if name != "marginals":
        assert_frame_equal(read, file.records, check_row_order=False)
    assert read.height == file.records.height


# -- by the values of a column ----------------------------------------------------------------------------------------


def test_every_declared_value_has_its_folder(tmp_path: Path) -> None:
    """Also one that no record has: which exist is public, and says nothing of the table."""
    made = released(tmp_path / "out", partition_by="group", partitions=2)
    names = {path.name for path in (tmp_path / "out").iterdir() if path.is_dir()}
    assert names == {
        "group=plain", "group=a%2Fb%3Dc", "group=50 %25", "group=é", "group=x%5Cy", "group=..",
        "group=__HIVE_DEFAULT_PARTITION__",
    }  # fmt: skip
    assert all(len([*(tmp_path / "out" / name).iterdir()]) == 2 for name in names)
    assert made.certificate.to_dict()["released"]["partitions"] == 14
    assert made.certificate.to_dict()["released"]["partition_by"] == "group"
    plain = discreet.release(held(), DOMAIN, **ASKED)
    with pytest.warns(ReleaseTakenForSample):
        read = discreet.read(tmp_path / "out").table()
    assert read.schema == plain.records.schema
    cells = ["group", "member", "born"]
    assert_frame_equal(read.select(cells).sort(cells), plain.records.select(cells).sort(cells))
    hive = pl.read_parquet(tmp_path / "out" / "*" / "*.parquet", hive_partitioning=True).select(DOMAIN.names)
    assert_frame_equal(hive.select(cells).sort(cells), plain.records.select(cells).sort(cells))


KINDS = {
    "seen": Datetime(lower="2024-01-01", upper="2024-01-03", step="1d", nulls="category"),
    "lasted": Duration(lower="0s", upper="1h", step="30m"),
    "price": Decimal(lower="0", upper="0.03", digits=2),
    "score": Numeric(lower=0, upper=5, grid=[0, 3.258, 4.615]),
    "level": Category(categories=[1, 2, 3], dtype="int16"),
    "count": Integer(lower=-1, upper=1, dtype="int8"),
    "flag": Boolean(),
    "born": DOMAIN.columns["born"],
}


@pytest.mark.parametrize("name", KINDS)
def test_values_of_every_kind_are_names_of_folders(name: str, tmp_path: Path) -> None:
    domain = Domain(columns={"member": Boolean(), name: KINDS[name]})
    table = domain.decode(domain.unflat(np.arange(int(domain.size or 0)).repeat(20)), rng=seeded(0))
    how: dict[str, Any] = {"budget": Budget(epsilon=5.0), "size": 60, "mechanism": "perturbed-histogram", "seed": 1}
    discreet.release(table, domain, out=Output(tmp_path / "out", partitions=1, partition_by=name), **how)
    one = discreet.release(table, domain, **how)
    assert_frame_equal(discreet.read(tmp_path / "out").table(), one.records, check_row_order=False)
    assert all(check.agrees for check in verify(tmp_path / "out"))


def test_a_part_in_another_values_folder_is_refused(tmp_path: Path) -> None:
    released(tmp_path / "out", partition_by="member", partitions=1)
    (tmp_path / "out" / "member=false").rename(tmp_path / "aside")
    (tmp_path / "out" / "member=true").rename(tmp_path / "out" / "member=false")
    (tmp_path / "aside").rename(tmp_path / "out" / "member=true")
    with pytest.raises(
        FileProblem, match=r"member=false/part-00000.parquet: .* has the content of member=true/part-00000.parquet"
    ):
        discreet.read(tmp_path / "out")


# -- a folder appears whole, or not at all ----------------------------------------------------------------------------


def test_a_worker_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fails(make: Callable[[int], Any], _: Sequence[int]) -> Iterable[Any]:
        yield make(0)
        raise OSError("lost executor 3")

    def forgets(make: Callable[[int], Any], _: Sequence[int]) -> Iterable[Any]:
        yield make(0)

    with pytest.raises(FileProblem, match="a worker did not finish") as told:
        released(tmp_path / "out", workers=fails)
    assert str(told.value.__cause__) == "lost executor 3"
    with pytest.raises(FileProblem, match=r"part-00001.parquet was not written where this process reads"):
        released(tmp_path / "out", workers=forgets)
    assert [*tmp_path.iterdir()] == []


DIES = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import test_parts as t
def dies(make, numbers):
    yield make(0)
    (make.writer.folder / ".part-00001.parquet.0123456789ab.part").write_bytes(b"half")
    os._exit(9)
t.released(Path(sys.argv[2]), workers=dies)
"""


def test_a_run_that_dies_leaves_no_folder(whole: Path, tmp_path: Path) -> None:
    told = [sys.executable, "-W", "ignore", "-c", DIES, str(Path(__file__).parent), str(tmp_path / "out")]
    assert subprocess.run(told, capture_output=True, check=False).returncode == 9
    assert not (tmp_path / "out").exists()
    assert [path.name.startswith(".out.") for path in tmp_path.iterdir() if path.suffix == ".part"] == [True]
    released(tmp_path / "out")  # sweeps what the dead run left
    assert digests(tmp_path / "out") == digests(whole)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


KILLED = """
import multiprocessing, os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import test_parts as t
def killed(done):
    print(len(multiprocessing.active_children()), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
if __name__ == "__main__":
    ledger = t.Ledger(sys.argv[3])
    watch = t.discreet.Watch(progress=killed)
    t.released(Path(sys.argv[2]), workers=2, size=100_000, seed=None, ledger=ledger, watch=watch,
               accept={"data-dependent-refusal"})
"""


@pytest.mark.parametrize("recovered", [True, False])
def test_workers_die_with_their_driver_and_what_they_left_is_swept(tmp_path: Path, recovered: bool) -> None:
    """Workers hold the standard output that they were started with: it is at its end when the last one is gone."""
    (tmp_path / "killed.py").write_text(KILLED)
    names = [str(Path(__file__).parent), str(tmp_path / "f" / "out"), str(tmp_path / "l.db")]
    (tmp_path / "f").mkdir()
    with Ledger.create(names[2], dataset="x", epsilon=10.0, delta=1e-3) as ledger:
        command = [sys.executable, "-W", "ignore", str(tmp_path / "killed.py"), *names]
        driver = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
        try:
            assert driver.communicate(timeout=60)[0] == b"2\n"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(driver.pid, signal.SIGKILL)
        assert driver.returncode == -signal.SIGKILL
        assert [path.suffix for path in (tmp_path / "f").iterdir() if path.is_dir()] == [".part"]
        if recovered:
            assert len(ledger.recover()) == 1
        else:
            asked = {"size": 100_000, "seed": None, "accept": {"data-dependent-refusal"}}
            released(tmp_path / "f" / "out", ledger=ledger, **asked)  # goes on from the output that was paid for
        left = [path.name for path in (tmp_path / "f").iterdir() if path.suffix not in (".lock", ".output")]
        assert left == ["out"] * (not recovered)


def test_a_ledger_pays_for_a_folder(tmp_path: Path) -> None:
    with Ledger.create(tmp_path / "l.db", dataset="x", epsilon=10.0, delta=1e-3) as ledger:
        released(tmp_path / "out", seed=None, ledger=ledger, partition_by="member", accept=FORFEITS)
        assert float(ledger.status().spent["epsilon"]) == 4.0
        assert ledger.verify([tmp_path / "out" / "_certificate.json"]) == []
    assert all(check.agrees for check in verify(tmp_path / "out"))


def test_a_slower_attempt_after_the_end_changes_nothing(tmp_path: Path) -> None:
    kept: list[Any] = []

    def keeps(make: Callable[[int], Any], numbers: Sequence[int]) -> Iterable[Any]:
        kept.append(make)
        return map(make, numbers)

    released(tmp_path / "out", workers=keeps)
    before = digests(tmp_path / "out")
    with pytest.raises(FileProblem, match="cannot be written"):
        kept[0](1)
    assert digests(tmp_path / "out") == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


# -- what is refused, before anything is opened -----------------------------------------------------------------------

OPEN = Domain(columns={"a": Integer(lower=0, upper=9), "word": OpenLabels()})
MANY = Domain(columns={"a": Integer(lower=0, upper=9), "b": Integer(lower=0, upper=5000)})
HIDDEN = Domain(columns={"a": Integer(lower=0, upper=9), "_b": Boolean()})
ALIKE = Domain(columns={"a": Integer(lower=0, upper=9), "b": Category(categories=["x", "X"])})
COMPOSED = Domain(columns={"a": Integer(lower=0, upper=9), "b": Category(categories=["caf\u00e9", "cafe\u0301"])})
LABELLED = {"mechanism": "stability-histogram", "budget": Budget(epsilon=4.0, delta=1e-6)}
ALONE = Domain(columns={"a": Integer(lower=0, upper=9)})


@pytest.mark.parametrize(
    ("domain", "output", "asked", "told"),
    [
        (DOMAIN, {"partitions": 0}, {}, "partitions must be"),
        (DOMAIN, {"partitions": 10_001}, {}, "at most 10,000"),
        (DOMAIN, {"partitions": None, "partition_by": "member"}, {}, r"Write out=Output\(\.\.\., partitions=\.\.\.\)"),
        (DOMAIN, {"partitions": None, "workers": 2}, {}, r"Write out=Output\(\.\.\., partitions=\.\.\.\)"),
        (DOMAIN, {"workers": 0}, {}, "workers must be"),
        (DOMAIN, {"path": None}, {}, r"Write out=\.\.\."),
        (DOMAIN, {}, {"counts": True, "size": None}, "cannot be released in parts"),
        (DOMAIN, {}, {"tables": 2, "mechanism": "marginals"}, "cannot be released in parts"),
        (DOMAIN, {"certificate": "c.json"}, {}, "holds its certificate"),
        (DOMAIN, {"partition_by": "nobody"}, {}, "declared column"),
        (DOMAIN, {"partition_by": "age"}, {}, "several values"),
        (DOMAIN, {"partition_by": "age"}, {"mechanism": None}, "several values"),
        (DOMAIN, {"partition_by": "born", "partitions": 2001}, {}, "10,005|more than 10,000 files"),
        (OPEN, {"partition_by": "word"}, LABELLED, "more than 1,000 values"),
        (MANY, {"partition_by": "b"}, {}, "more than 1,000 values"),
        (HIDDEN, {"partition_by": "_b"}, {}, "programs ignore folders"),
        (ALIKE, {"partition_by": "b"}, {}, "told apart"),
        (COMPOSED, {"partition_by": "b"}, {}, "told apart"),
        (ALONE, {"partition_by": "a"}, {}, "only column"),
    ],
)
def test_what_has_no_parts_is_refused_before_anything_is_read(
    domain: Domain, output: dict[str, Any], asked: dict[str, Any], told: str, tmp_path: Path
) -> None:
    """The table is a file that is not there: had it been asked for, that would be the error."""
    how = {"budget": Budget(epsilon=4.0), "size": 50, "mechanism": "perturbed-histogram", **asked}
    with pytest.raises(DiscreetError, match=told):
        where = Output(**{"path": tmp_path / "out", "partitions": 2, **output})
        discreet.release(tmp_path / "nothing.parquet", domain, out=where, **how)
    assert [*tmp_path.iterdir()] == []


def test_a_name_that_exists_is_refused(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match="exists already"):
        released(whole)
    held().write_parquet(tmp_path / "t.parquet")
    with pytest.raises(FileProblem, match="lies in the folder that is read"):
        discreet.release(tmp_path, DOMAIN, Budget(epsilon=1.0), size=5, out=Output(tmp_path / "out", partitions=2))


# -- the command ------------------------------------------------------------------------------------------------------


def test_the_command_writes_and_verifies_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = held().select("age", "member")
    table.write_parquet(tmp_path / "t.parquet")
    domain = Domain(columns={name: DOMAIN.columns[name] for name in table.columns})
    (tmp_path / "d.toml").write_text(domain.to_toml())
    out = tmp_path / "out"
    files = [str(tmp_path / "t.parquet"), "--domain", str(tmp_path / "d.toml")]
    given = ["--mechanism", "perturbed-histogram", "--size", "500", "--partitions", "3", "--partition-by", "member"]
    assert run(["release", *files, "--epsilon", "4", *given, "--out", f"{out}/"]) == 0
    said = capsys.readouterr().out
    assert f"wrote 500 records in 6 parts to {out} and the certificate to {out / '_certificate.json'}" in said
    assert run(["verify", str(out), "--recover"]) == 0
    assert "claims agree." in capsys.readouterr().out
    assert run(["estimate", str(out), "--column", "age", "--functional", "mean", "--draws", "20"]) == 0
    assert run(["report", str(out), "--out", str(tmp_path / "r.html")]) == 0
    assert run(["compare", files[0], str(out), *files[1:], "--resamples", "5"]) == 0
