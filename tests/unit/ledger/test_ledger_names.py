"""A ledger has one name: it is locked itself, mount points are refused, and what earlier versions left is kept."""

import fcntl
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from discreet import Ledger
from discreet.errors import FileProblem, ParameterError
from discreet.ledger import Request, store
from discreet.privacy import Budget

BUSY = "another run has kept the ledger busy"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    Ledger.create(tmp_path / "a.ledger", dataset="d", epsilon=1.0)
    return tmp_path / "a.ledger"


def spend(place: Path) -> None:
    with Ledger(place) as ledger, ledger.pay(Request(budget=Budget(epsilon=0.25))):
        pass


@contextmanager
def child(code: str, *given: object) -> Iterator[subprocess.Popen[str]]:
    """Run a program that says when it is ready, and goes on when it is told to."""
    command = [sys.executable, "-c", code, *map(str, given)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process


# -- two names of one file --------------------------------------------------------------------------------------------

SPENDER = """
import sys
from discreet import Ledger
from discreet.ledger import Request
from discreet.privacy import Budget
from discreet.errors import Refused
from discreet.ledger import store
store._FLOCK = sys.argv[2] == "True"
ledger, opened = Ledger(sys.argv[1]), 0
print("ready", flush=True)
input()
for _ in range(12):
    try:
        with ledger.pay(Request(budget=Budget(epsilon=0.25))):
            opened += 1
    except Refused:
        pass
print(opened)
"""

HOLDER = """
import sys
from discreet.ledger.store import store_at
with store_at(sys.argv[1]).appending("d"):
    print("ready", flush=True)
    input()
"""


@pytest.mark.parametrize("flock", sorted({store._FLOCK, False}))
def test_two_names_that_nobody_saw_are_one_budget(place: Path, flock: bool) -> None:
    """Each run opens the file while it has one name, as containers do that are given the file alone."""
    other = place.with_name("b.ledger")
    with child(SPENDER, place, flock) as first:
        place.rename(other)
        with child(SPENDER, other, flock) as second:
            place.hardlink_to(other)
            for one in (first, second):
                assert one.stdin is not None
                one.stdin.write("\n")
                one.stdin.flush()
            opened = [int(one.communicate(timeout=100)[0]) for one in (first, second)]
    other.unlink()
    assert sum(opened) == 4
    with Ledger(place) as ledger:
        assert ledger.status().spent["epsilon"] == 1.0
        assert ledger.verify() == []


def test_who_appends_under_one_name_keeps_the_other_name_waiting(place: Path, monkeypatch) -> None:
    other = place.with_name("b.ledger")
    ledger = Ledger(place)
    place.rename(other)
    with child(HOLDER, other) as holder:
        place.hardlink_to(other)
        monkeypatch.setattr(store, "_WAIT", 0.2)
        with pytest.raises(FileProblem, match=BUSY):
            ledger.pay(Request(budget=Budget(epsilon=0.25)))
        holder.communicate("\n", timeout=100)
    assert ledger.pay(Request(budget=Budget(epsilon=0.25)))


@pytest.mark.skipif(not store._FLOCK, reason="SQLite's own locks are all there are")
def test_the_file_itself_is_locked(place: Path, monkeypatch) -> None:
    ledger = Ledger(place)
    monkeypatch.setattr(store, "_WAIT", 0.2)
    descriptor = os.open(place, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    for use in (ledger.status, lambda: Ledger(place), lambda: ledger.pay(Request(budget=Budget(epsilon=0.25)))):
        with pytest.raises(FileProblem, match=BUSY):
            use()
    os.close(descriptor)
    assert ledger.pay(Request(budget=Budget(epsilon=0.25)))


def test_flock_is_left_alone_where_it_would_lock_sqlite_out(place: Path, monkeypatch) -> None:
    monkeypatch.setattr(store, "_FLOCK", False)
    monkeypatch.setattr(store, "_WAIT", 0.2)
    with place.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        spend(place)


def test_a_name_is_no_reason(tmp_path: Path) -> None:
    """What stands in the path of a ledger is not taken for what the system says."""
    (tmp_path / "locked, append, malformed").mkdir()
    place = tmp_path / "locked, append, malformed" / "a.ledger"
    ledger = Ledger.create(place, dataset="d", epsilon=1.0)
    place.unlink()
    with pytest.raises(FileProblem, match=r"cannot be read or written \(no such file or directory\)"):
        ledger.status()


def test_a_thread_that_gave_up_leaves_the_locks_of_another(place: Path, monkeypatch) -> None:
    """A descriptor that is closed takes all locks of its process with it, and with them those of SQLite."""
    ledger, found = Ledger(place), []
    monkeypatch.setattr(store, "_WAIT", 0.2)

    def give_up() -> None:
        with pytest.raises(FileProblem, match=BUSY):
            ledger.status()
        found.append("gave up")

    with store.store_at(place).appending("d"):
        waiting = threading.Thread(target=give_up)
        waiting.start()
        waiting.join()
        code = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"
        done = subprocess.run([sys.executable, "-c", code, place], capture_output=True, text=True, check=False)
    assert found == ["gave up"]
    assert "database is locked" in done.stderr


def test_no_child_keeps_the_lock(place: Path) -> None:
    code = """
import os, sys, threading
from discreet.ledger.store import store_at
store, begun = store_at(sys.argv[1]), threading.Event()
def hold():
    with store.appending("d"):
        begun.set()
        threading.Event().wait(0.5)
thread = threading.Thread(target=hold)
thread.start()
begun.wait()
if not os.fork():
    held = [os.readlink(f"/proc/self/fd/{one}") for one in range(100) if os.path.lexists(f"/proc/self/fd/{one}")]
    with store.appending("d"):
        os._exit(sys.argv[1] in held)
status = os.waitstatus_to_exitcode(os.wait()[1])
thread.join()
sys.exit(status)
"""
    if not Path("/proc/self/fd").is_dir():
        pytest.skip("the system does not list open files")
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code, place], check=False, timeout=100)
    assert done.returncode == 0


# -- mount points -----------------------------------------------------------------------------------------------------


def escaped(path: Path) -> bytes:
    """Return a path as the system lists it."""
    text = os.fsencode(path)
    for sign in b"\\ \t\n":
        text = text.replace(bytes([sign]), b"\\%03o" % sign)
    return text


@pytest.mark.parametrize("name", ["plain", "a b", "back\\slash", "gr\u00f6\u00dfe", "line\nend", "return\rsep\u2028x"])
def test_a_file_that_is_a_mount_point_is_refused(tmp_path: Path, monkeypatch, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    place, listed = folder / "l.ledger", tmp_path / "mountinfo"
    Ledger.create(place, dataset="d", epsilon=1.0)
    (tmp_path / "link").symlink_to(place)
    monkeypatch.setattr(store, "_MOUNTS", listed)
    line = b"63 43 254:0 /host/l.ledger %s rw,relatime master:1 - ext4 /dev/vda rw\n"
    listed.write_bytes(b"43 1 254:0 / / rw - ext4 /dev/vda rw\n" + line % escaped(folder))
    Ledger(place)
    listed.write_bytes(listed.read_bytes() + line % escaped(place))
    for given in (place, tmp_path / "link", folder / ".." / name / "l.ledger"):
        with pytest.raises(FileProblem, match=r"it is a mount point.* Mount the folder that holds the ledger"):
            Ledger(given)
    with pytest.raises(FileProblem, match="it is a mount point"):
        Ledger.create(place, dataset="e", epsilon=1.0)


@pytest.mark.parametrize(("kind", "refused"), [("ext4", False), ("nfs4", True), ("fuse.sshfs", True), ("cifs", True)])
def test_network_file_systems_are_refused(place: Path, tmp_path: Path, monkeypatch, kind: str, refused: bool) -> None:
    (tmp_path / "gr\u00f6 \u00dfe").mkdir()
    far, listed = place.rename(tmp_path / "gr\u00f6 \u00dfe" / "l.ledger"), tmp_path / "mountinfo"
    (tmp_path / "link").symlink_to(far)
    line = b"23 22 0:44 / %s rw shared:1 - %s server:/x rw\n" % (escaped(far.parent), kind.encode())
    listed.write_bytes(b"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n" + line)
    monkeypatch.setattr(store, "_MOUNTS", listed)
    for use in (Ledger, partial(Ledger.create, dataset="e", epsilon=1.0)):
        for name in (far, tmp_path / "link"):
            with pytest.raises(FileProblem, match="network file system") if refused else suppress(ParameterError):
                use(name)
    Ledger.create(tmp_path / "near", dataset="d", epsilon=1.0)


def test_a_system_that_lists_no_mounts_keeps_ledgers(place: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(store, "_MOUNTS", tmp_path / "none")
    spend(place)


MOUNTS = """
set -e
cd "$1"
mkdir host file folder other
mv a.ledger host/w.ledger
touch file/w.ledger file/o.ledger
mount --bind host/w.ledger file/w.ledger
mount --bind host folder
mount -t tmpfs none other
cp host/w.ledger other/o.ledger
mount --bind other/o.ledger file/o.ledger
exec "$2" -c "$3"
"""


def test_real_mounts(place: Path) -> None:
    """A file that is mounted is refused; in a folder that is mounted it is one ledger under two names."""
    code = """
from pathlib import Path
from discreet import Ledger
from discreet.ledger import Request
from discreet.privacy import Budget
from discreet.errors import FileProblem
from discreet.ledger import store
def refused(place):
    try:
        Ledger(place)
    except FileProblem as problem:
        print(problem)
refused("file/w.ledger")
for place in ("folder/w.ledger", "host/w.ledger"):
    with Ledger(place) as ledger, ledger.pay(Request(budget=Budget(epsilon=0.25))):
        pass
print(Ledger("folder/w.ledger").status().spent["epsilon"])
store._MOUNTS = Path("none")
refused("file/o.ledger")
"""
    if not shutil.which("unshare") or not shutil.which("mount"):
        pytest.skip("unshare and mount are not installed")
    alone = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    if subprocess.run([*alone, 'mount --bind "$0" "$0"', place], capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount files")
    done = subprocess.run(
        [*alone, MOUNTS, "sh", place.parent, sys.executable, code], capture_output=True, text=True, check=False
    )
    first, spent, last = done.stdout.splitlines()
    assert first.startswith("file/w.ledger: it is a mount point"), done.stderr
    assert first.endswith("Mount the folder that holds the ledger, not the file")
    assert spent == "0.5"
    assert last.startswith("file/o.ledger: it is a mount point")


# -- ledgers of earlier versions --------------------------------------------------------------------------------------


def test_a_new_ledger_keeps_no_log(place: Path) -> None:
    spend(place)
    assert place.read_bytes()[18:20] == b"\x01\x01"
    assert place.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in place.parent.iterdir()] == [place.name]


def test_the_log_that_an_earlier_version_left_is_kept(place: Path, tmp_path: Path) -> None:
    """What was committed and stands in the log alone, since its run died, is spent."""
    later = shutil.copy(place, tmp_path / "later")
    spend(later)
    spend(later)
    with closing(sqlite3.connect(later)) as database:
        rows = database.execute("SELECT * FROM discreet_event WHERE number > 0").fetchall()
    left = tmp_path / "left" / place.name
    left.parent.mkdir()
    with closing(sqlite3.connect(place, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.executemany("INSERT INTO discreet_event VALUES (?, ?, ?, ?, ?, ?)", rows)
        for name in (place.name, f"{place.name}-wal"):
            shutil.copy(place.with_name(name), left.with_name(name))
    assert left.read_bytes()[18:20] == b"\x02\x02"
    with closing(sqlite3.connect(f"{left.absolute().as_uri()}?immutable=1", uri=True)) as database:
        assert database.execute("SELECT count(*) FROM discreet_event").fetchone() == (1,)
    with Ledger(left) as ledger:
        assert ledger.status().spent["epsilon"] == 0.5
        assert ledger.verify() == []
    assert left.read_bytes()[18:20] == b"\x01\x01"
    assert [one.name for one in left.parent.iterdir()] == [left.name]


def test_a_run_of_an_earlier_version_is_waited_for(place: Path, monkeypatch) -> None:
    database = sqlite3.connect(place, isolation_level=None, check_same_thread=False)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("BEGIN IMMEDIATE")
    monkeypatch.setattr(store, "_WAIT", 0.2)
    with pytest.raises(FileProblem, match=BUSY):
        Ledger(place)
    monkeypatch.setattr(store, "_WAIT", 60.0)
    ending = threading.Timer(0.3, database.close)
    ending.start()
    spend(place)
    ending.join()
    assert place.read_bytes()[18:20] == b"\x01\x01"


@pytest.mark.parametrize("kind", ["journal", "wal"])
def test_what_another_ledger_left_beside_a_name_is_not_written_into_a_new_one(tmp_path: Path, kind: str) -> None:
    left = tmp_path / f"l.ledger-{kind}"
    left.write_bytes(b"x")
    with pytest.raises(FileProblem, match=rf"{left.name}: it is of a ledger that is gone\. Move it"):
        Ledger.create(tmp_path / "l.ledger", dataset="d", epsilon=1.0)
    assert [one.name for one in tmp_path.iterdir()] == [left.name]
    left.unlink()
    Ledger.create(tmp_path / "l.ledger", dataset="d", epsilon=1.0)
