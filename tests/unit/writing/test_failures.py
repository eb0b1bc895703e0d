"""Writers that die, fail or meet: never a table without its certificate, nor beside another one's."""

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from killed_writers import dying, held, put

from discreet._core.files import new_folder, recover, require_settled, together
from discreet.errors import FileProblem

KILLER = Path(__file__).with_name("killed_writers.py")
CALLS = ("open", "replace", "rename", "unlink", "fsync", "fchmod", "mkdir")


def killed(what: str, where: Path, stride: int = 1, status: int = 0) -> str:
    """Run the killer in an interpreter of its own: libraries with threads, which other tests load, warn of forks."""
    command = [sys.executable, str(KILLER), what, str(where), str(stride)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == status, done.stderr
    return done.stderr if status else done.stdout


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "apart").mkdir()
    made = tmp_path / "x.csv", tmp_path / "apart" / "x.certificate.json"
    put(made, b"old")
    return made


FEWER_OR_ALL = pytest.mark.parametrize("stride", [4, pytest.param(1, marks=pytest.mark.exhaustive)])


@FEWER_OR_ALL
def test_killed_at_every_step_a_pair_or_a_folder_is_old_or_new_or_refused(tmp_path: Path, stride: int) -> None:
    """Writers at every step; those who recover at every step of what every so many steps leave."""
    writes, recoveries, folders = map(int, killed("kills", tmp_path / "w", stride).split())
    assert writes > 100
    assert recoveries > 100 / stride
    assert folders > 25


@FEWER_OR_ALL
def test_the_main_job_killed_leaves_a_table_with_its_certificate_or_is_refused(tmp_path: Path, stride: int) -> None:
    assert int(killed("releases", tmp_path / "w", stride)) > 20 / stride


def test_the_killer_finds_two_plain_renames(tmp_path: Path) -> None:
    assert "AssertionError" in killed("planted", tmp_path / "w", status=1)


def test_writers_at_once_leave_one_whole_pair(tmp_path: Path) -> None:
    killed("at once", tmp_path / "w")


def failing(monkeypatch: pytest.MonkeyPatch, number: int, error: BaseException, *, for_good: bool) -> list[int]:
    """Let the system's call of this number fail, and those after it where it is for good; return what is left."""
    left = [number]

    def failed(call):
        def caller(*arguments: object, **named: object) -> object:
            left[0] -= 1
            if left[0] == -1 or (for_good and left[0] < 0):
                raise error
            return call(*arguments, **named)

        return caller

    for name in CALLS:
        monkeypatch.setattr(os, name, failed(getattr(os, name)))
    return left


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "no space"), KeyboardInterrupt()], ids=["full", "interrupted"])
def test_a_call_that_fails_leaves_the_old_pair_or_the_new_one(pair, monkeypatch, error) -> None:
    failed = 0
    for number in range(1000):
        put(pair, b"old")
        said = None
        with monkeypatch.context() as patched:
            left = failing(patched, number, error, for_good=False)
            try:
                put(pair, b"new")
            except BaseException as caught:  # noqa: BLE001
                said = caught
        if left[0] >= 0:
            break
        for path in pair:
            require_settled(path)
        if isinstance(said, FileProblem) and "is not on the disk" not in str(said):
            failed += 1
            assert held(pair) == b"old"
        assert held(pair) in (b"old", b"new")
    assert number > 20
    assert failed > 10 or isinstance(error, KeyboardInterrupt)
    put(pair, b"next")
    assert {path.name for folder in (pair[0].parent, pair[1].parent) for path in folder.iterdir()} == {
        "x.csv", "apart", "x.certificate.json",
    }  # fmt: skip


def test_where_nothing_works_any_more_readers_refuse_and_the_next_run_settles_it(pair, monkeypatch) -> None:
    refused = 0
    for number in range(1000):
        put(pair, b"old")
        with monkeypatch.context() as patched:
            left = failing(patched, number, OSError(errno.EIO, "broken"), for_good=True)
            try:
                put(pair, b"new")
            except FileProblem as problem:
                interrupted = "was interrupted" in str(problem)
        if left[0] >= 0:
            break
        try:
            for path in pair:
                require_settled(path)
            assert held(pair) in (b"old", b"new")
        except FileProblem:
            assert interrupted
            refused += 1
            recover(*pair)
        assert held(pair) in (b"old", b"new")
    assert refused > 5


def interrupted(names: int, act: Callable[[], None]) -> None:
    """Let a write die when it has given so many names: whatever comes next fails."""
    with dying(names, OSError(errno.EIO, "broken")), pytest.raises(FileProblem, match="interrupted"):
        act()


def later(path: Path) -> None:
    """Wait until the file system's clock is beyond the last change of a file."""
    probe = path.with_name("probe")
    while True:
        probe.write_bytes(b"")
        if probe.stat().st_ctime_ns > path.stat().st_ctime_ns:
            break
    probe.unlink()


@pytest.mark.parametrize("names", [0, 1])
def test_a_file_put_in_the_way_of_a_recovery_is_not_touched(pair, names: int) -> None:
    interrupted(names, lambda: put(pair, b"newer"))
    for path in pair[:1] if names else ():
        with pytest.raises(FileProblem, match="interrupted"):
            require_settled(path)
    (ready,) = pair[0].parent.glob(".*.ready")
    later(ready)
    pair[0].write_bytes(b"mine")
    with pytest.raises(FileProblem, match="taken its name"):
        recover(*pair)
    with pytest.raises(FileProblem, match="taken its name"):
        put(pair, b"next")
    assert pair[0].read_bytes() == b"mine"
    pair[0].rename(pair[0].with_name("mine"))
    recover(*pair)
    assert held(pair) == b"newer"


@pytest.mark.parametrize("count", [2, 3])
def test_old_files_are_read_until_the_first_is_replaced_and_then_refused_until_they_are_new(tmp_path, count) -> None:
    paths = [tmp_path / name for name in "abc"[:count]]

    def write(text: bytes) -> None:
        with together(*paths) as files:
            for file in files:
                file.write(text)

    for names in range(count):
        write(b"old")
        interrupted(names, lambda: write(b"new"))
        for place, path in enumerate(paths):
            old = place < count - names
            assert path.read_bytes() == (b"old" if old else b"new")
            if names and old:
                with pytest.raises(FileProblem, match="interrupted"):
                    require_settled(path)
            else:
                require_settled(path)
        recover(*paths)
        assert [path.read_bytes() for path in paths] == [b"new"] * count


def test_what_waits_for_other_names_is_refused(pair) -> None:
    interrupted(1, lambda: put(pair, b"new"))
    for others in (pair[:1], (pair[0], pair[0].with_name("another.json")), (pair[0].with_name("y"), pair[0])):
        with pytest.raises(FileProblem, match="interrupted"):
            recover(*others)
        with pytest.raises(FileProblem, match="interrupted"), together(*others):
            pass
    assert pair[0].read_bytes() == b"old"
    recover(*pair)
    assert held(pair) == b"new"


def test_what_an_earlier_version_left_is_refused(pair) -> None:
    """It had moved files aside, which only a version of its kind brings back."""
    for name in (".x.csv.pending", ".x.csv.0123456789ab.part", ".x.csv.0123456789ab.old"):
        pair[0].with_name(name).touch()
    for act in (require_settled, recover, lambda path: put((path, pair[1]), b"new")):
        with pytest.raises(FileProblem, match="that version"):
            act(pair[0])
    with together(pair[0].with_name("other")) as (file,):
        file.write(b"sweeps")
    assert len(list(pair[0].parent.glob(".x.csv.*"))) == 3


def test_what_dead_writers_left_is_swept_whoever_writes_next(pair) -> None:
    folder = pair[0].parent
    for name in (".x.csv.0123456789ab.part", ".z.csv.0123456789ab.part", ".x.csv.lock"):
        (folder / name).touch()
    (folder / ".t.0123456789ab.part").mkdir()
    (folder / ".t.0123456789ab.part" / "table-01.parquet").write_bytes(b"x")
    kept = [".y.csv.part", "y.0123456789ab.part", ".data", ".y.csv.0123456789AB.part", ".y.csv.abcdef012345.ready"]
    for name in kept:
        (folder / name).touch()
    put(pair, b"new")
    assert sorted(path.name for path in folder.iterdir()) == sorted(["x.csv", "apart", *kept])


def test_a_write_under_way_is_not_swept_and_not_disturbed(pair) -> None:
    other = pair[0].with_name("y.csv")
    with together(other) as (file,):
        file.write(b"y")
        put(pair, b"new")
        with pytest.raises(FileProblem, match="another run"), together(other):
            pass
    assert other.read_bytes() == b"y"


# -- what may be written, and how --------------------------------------------------------------------------------------


@pytest.fixture
def mask() -> Iterator[None]:
    before = os.umask(0o027)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_permissions(tmp_path: Path, mask: None) -> None:
    public, private = tmp_path / "public", tmp_path / "private"
    for _ in range(2):
        with together(public) as (file,):
            file.write(b"x")
        with together(private, private=True) as (file,):
            assert mode(Path(file.name)) == 0o600
            file.write(b"x")
        assert (mode(public), mode(private)) == (0o640, 0o600)
    for kept in (0o600, 0o444, 0o664):
        public.chmod(kept)
        with together(public) as (file,):
            assert mode(Path(file.name)) == 0o600
            file.write(b"x")
        assert mode(public) == kept
    private.chmod(0o644)
    with together(private, private=True) as (file,):
        file.write(b"x")
    assert mode(private) == 0o600


def test_outputs_are_neither_inputs_nor_one_another(tmp_path: Path) -> None:
    data = tmp_path / "data.csv"
    data.write_text("x")
    hard, soft, folder, fifo = tmp_path / "hard", tmp_path / "soft", tmp_path / "folder", tmp_path / "fifo"
    os.link(data, hard)
    soft.symlink_to(data)
    folder.mkdir()
    os.mkfifo(fifo)
    (tmp_path / "linked").symlink_to(tmp_path)
    lock = tmp_path / ".y.lock"
    lock.write_text("an input")

    def write(*paths: Path, inputs: tuple[object, ...] = ()) -> None:
        with together(*paths, inputs=inputs) as files:
            for file in files:
                file.write(b"y")

    for name in (data, hard, soft, tmp_path / "linked" / "data.csv", folder / ".." / "data.csv"):
        with pytest.raises(FileProblem, match="also an input"):
            write(tmp_path / "new", name, inputs=(3, None, str(data)))
    for paths in ((data, soft), (tmp_path / "new", tmp_path / "linked" / "new")):
        with pytest.raises(FileProblem, match="two outputs"):
            write(*paths)
    with pytest.raises(FileProblem, match="also an input"):
        write(tmp_path / "y", inputs=(lock,))
    with pytest.raises(FileProblem, match="not an empty file"):
        write(tmp_path / "y")
    for wrong in (folder, fifo, tmp_path / "none" / "x", Path("\0"), Path("/")):
        with pytest.raises(FileProblem):
            write(wrong)
    assert data.read_text() == "x"
    assert lock.read_text() == "an input"
    write(soft)  # a link is replaced, not what it points to
    assert data.read_text() == "x"


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(FileProblem, match="cannot be written"), new_folder(out) as part:
        (part / "one").write_text("1")
        raise OSError(errno.ENOSPC, "full")
    with new_folder(out) as part:
        (part / "one").write_text("1")
        assert not out.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    with pytest.raises(FileProblem, match="exists already"), new_folder(out) as part:
        (part / "two").write_text("2")
    assert [path.name for path in out.iterdir()] == ["one"]
