"""Whatever dies, every release is paid for once: real kills of the real command, writers at once, full disks."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from discreet import Ledger
from discreet._core.files import together
from discreet.errors import FileProblem
from discreet.ledger import Request
from discreet.privacy import Budget

KILLER = Path(__file__).with_name("killed_payers.py")


def killed(what: str, where: Path, stride: int, case: str = "new", status: int = 0) -> str:
    """Run the killer in an interpreter of its own: libraries with threads, which other tests load, warn of forks."""
    command = [sys.executable, str(KILLER), what, str(where / "l.db"), str(where / "w"), str(stride), case]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == status, done.stderr
    return done.stderr if status else done.stdout


@pytest.mark.parametrize("case", ["new", "replaced", "parts"])
@pytest.mark.parametrize(
    ("what", "stride", "least"),
    [
        ("kills", 6, 11),
        pytest.param("kills", 1, 61, marks=pytest.mark.exhaustive),
        pytest.param("recovery", 3, 21, marks=pytest.mark.exhaustive),
    ],
)
def test_a_release_or_a_recovery_that_is_killed_is_accounted_for(tmp_path, what, stride, least, case) -> None:
    assert int(killed(what, tmp_path, stride, case)) >= least


@pytest.mark.parametrize(("stride", "least"), [(3, 3), pytest.param(1, 9, marks=pytest.mark.exhaustive)])
def test_what_no_ledger_pays_for_is_drawn_once_too(tmp_path, stride, least) -> None:
    assert int(killed("unpaid", tmp_path, stride)) >= least


def test_the_killer_finds_a_ledger_that_is_told_too_late(tmp_path) -> None:
    assert "a table was opened and nothing is spent" in killed("planted", tmp_path, 3, status=1)


def test_sixteen_writers_at_once_never_overspend(tmp_path) -> None:
    assert int(killed("at once", tmp_path, 1)) == 12


@pytest.mark.parametrize("room", range(0, 45_000, 9_000))
def test_a_full_disk_loses_nothing(tmp_path, room) -> None:
    """A process that may write no file beyond so many bytes: nothing is overspent, and what was opened is spent."""
    place = tmp_path / "l.db"
    Ledger.create(place, dataset="d", epsilon=1.0)
    size = place.stat().st_size
    code = f"""
import json, resource, signal, sys
from discreet import Ledger
from discreet._core.files import together
from discreet.errors import FileProblem
from discreet.ledger import Request
from discreet.privacy import Budget
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({room}, {room}))
opened = 0
try:
    for _ in range(50):
        with Ledger({str(place)!r}).pay(Request(budget=Budget(epsilon=0.01))) as paid:
            opened += 1
            paid.commit({{}})
            paid.deliver()
except Exception as error:
    print(json.dumps([opened, type(error).__name__, str(error)]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    opened, kind, said = json.loads(done.stdout)
    assert kind == "FileProblem", said
    assert "the ledger cannot be read or written" in said
    assert size > 0
    with Ledger(place) as ledger:
        ledger.recover()
        assert ledger.verify() == []
        counts = ledger.status().counts
        assert counts["COMMITTED"] + counts["FORFEITED"] >= opened
        assert not counts["RESERVED"] + counts["OPENED"]


def test_a_ledger_that_cannot_be_written_opens_nothing(tmp_path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root writes everywhere")
    place = tmp_path / "l.db"
    Ledger.create(place, dataset="d", epsilon=1.0)
    place.chmod(0o400)
    with pytest.raises(OSError, match="cannot be read or written"):
        Ledger(place).pay(Request(budget=Budget(epsilon=0.1)))


def test_what_an_error_could_not_remove_blocks_a_name_until_it_is_recovered(tmp_path) -> None:
    out = tmp_path / "t.csv"
    with Ledger.create(tmp_path / "l", dataset="d", epsilon=1.0) as ledger:
        with pytest.raises(ZeroDivisionError), ledger.pay(Request(budget=Budget(epsilon=0.1), out=(out,))) as run:
            entry = run.stamp["entry"]
            raise ZeroDivisionError
        left = tmp_path / f".t.csv.0123456789ab-{entry}.ready"
        left.write_bytes(b"x")
        with pytest.raises(FileProblem, match="discreet ledger recover"), together(out):
            pass
        assert ledger.recover() == []
        assert not left.exists()
        assert ledger.status().spent["epsilon"] == 0.1
