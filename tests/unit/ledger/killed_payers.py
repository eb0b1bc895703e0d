"""Run the real command against a ledger, kill it at every step or let sixteen of it run at once; run by the tests.

Children are forked from an interpreter without threads and kill themselves with SIGKILL before a call of the system, a
statement of the database or a step of the release. Prints how many were killed. A state that a ledger must not have
ends it with an assertion.
"""

import contextlib
import hashlib
import json
import os
import shutil
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import opendp.measurements  # noqa: F401  # loaded once, not in every child
import polars as pl  # noqa: F401

from discreet._core.files import require_settled
from discreet.cli.entry import run
from discreet.confidential import count
from discreet.errors import FileProblem
from discreet.ledger import Ledger
from discreet.ledger import store as store_module
from discreet.ledger.store import store_at
from discreet.releases.certificate import PARTS_CERTIFICATE
from discreet.releases.writing import MANIFEST

STEPS = ("open", "replace", "rename", "unlink", "fsync", "link", "mkdir")
EPSILON = 0.25
DOMAIN = """
[columns.x]
type = "integer"
lower = 0
upper = 9
out_of_bounds = "clip"
"""


def killed_at(number: int, act: Callable[[], object], *, marked: Path) -> bool:
    """Run ``act`` in a child that kills itself before its step of this number; return whether it came so far.

    ``marked``: a file that the child makes when it opens the confidential table.
    """
    child = os.fork()
    if not child:
        left = [number]

        def step() -> None:
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)

        def counted(call: Callable[..., object]) -> Callable[..., object]:
            def caller(*arguments: object, **named: object) -> object:
                step()
                return call(*arguments, **named)

            return caller

        for name in STEPS:
            setattr(os, name, counted(getattr(os, name)))
        count_statements(step)
        notice_opening(marked)
        quiet()
        act()
        os._exit(0)
    return os.waitpid(child, 0)[1] == signal.SIGKILL


def count_statements(step: Callable[[], None]) -> None:
    """Let every statement of a ledger's database be a step."""
    for kind in (store_module.FileStore, store_module.ServerStore):

        @contextlib.contextmanager
        def connected(self: Any, *arguments: Any, inner: Callable[..., Any] = kind._connected) -> Iterator[Any]:
            step()
            with inner(self, *arguments) as statement:

                def stepped(text: str, /, **values: Any) -> Any:
                    step()
                    return statement(text, **values)

                yield stepped
                step()
            step()

        kind._connected = connected  # type: ignore[method-assign]


def notice_opening(marked: Path) -> None:
    """Leave a mark when rows of the confidential table are about to be read."""
    inner, opened = count.declared_batches, os.open

    def noticed(data: Any, *arguments: Any, **named: Any) -> Any:
        os.close(opened(marked, os.O_CREAT | os.O_WRONLY))
        return inner(data, *arguments, **named)

    for module in list(sys.modules.values()):
        if getattr(module, "declared_batches", None) is inner:
            module.declared_batches = noticed  # type: ignore[attr-defined]


def quiet() -> None:
    """Print nothing."""
    sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def command(place: str, where: Path, out: str, epsilon: float = EPSILON) -> list[str]:
    """Return the command of a release that the ledger pays for; in parts where the name has no ending."""
    return [
        "release", str(where / "t.csv"), "--domain", str(where / "d.toml"), "--epsilon", str(epsilon),
        "--delta", "1e-9", "--size", "30", "--mechanism", "perturbed-histogram", "--out", str(where / out),
        "--ledger", place, "--dataset", where.name, "--accept-poor-utility",
        *([] if "." in out else ["--partitions", "2"]),
    ]  # fmt: skip


def status_of(arguments: list[str], *, marked: Path | None = None) -> int:
    """Run a command in a child that nobody kills; return its status. It leaves a mark where it opens the table."""
    child = os.fork()
    if not child:
        if marked is not None:
            notice_opening(marked)
        quiet()
        os._exit(run(arguments))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def begin(place: str, where: Path, *, epsilon: float) -> None:
    """Make a table, its domain and its ledger, which has a data set of the folder's name."""
    shutil.rmtree(where, ignore_errors=True)
    where.mkdir(parents=True)
    (where / "t.csv").write_text("x\n" + "".join(f"{i % 7}\n" for i in range(200)))
    (where / "d.toml").write_text(DOMAIN)
    Ledger.create(place, dataset=where.name, epsilon=epsilon, delta=1e-6).close()


@dataclass(frozen=True)
class Case:
    """A release that is killed: ``out`` is a file, or a folder of parts, and there is one before it or not."""

    out: str
    replaces: bool = False

    def files(self, where: Path) -> tuple[Path, Path]:
        """Return what its certificate states the hash of, and its certificate."""
        if "." in self.out:
            return where / self.out, (where / self.out).with_suffix(".certificate.json")
        return where / self.out / MANIFEST, where / self.out / PARTS_CERTIFICATE

    def begin(self, place: str, where: Path) -> bytes | None:
        """Make everything that it needs; return the table that is there before it."""
        begin(fresh(place, where), where, epsilon=1.0)
        if not self.replaces:
            return None
        assert status_of(command(place, where, self.out)) == 0
        return self.files(where)[0].read_bytes()

    def waits(self, where: Path) -> bool:
        """Return whether the output of a run that died waits to be written."""
        return (where / f".{self.out}.output").exists()


CASES = {"new": Case("r.csv"), "replaced": Case("r.csv", replaces=True), "parts": Case("r")}


def agree(table: Path, certificate: Path) -> bool:
    """Return whether a certificate states the hash of a table, and the parts, where it is a list of some, their own."""
    stated = json.loads(certificate.read_text())["released"]["tables"][0]["sha256"]
    listed = json.loads(table.read_text())["parts"] if table.name == MANIFEST else []
    parts = [hashlib.sha256((table.parent / one["file"]).read_bytes()).hexdigest() == one["sha256"] for one in listed]
    return stated == hashlib.sha256(table.read_bytes()).hexdigest() and all(parts)


def check_readers(case: Case, place: str, where: Path, old: bytes | None) -> None:
    """Check what a reader finds before anybody recovers: what was there, or what was committed, or a refusal."""
    table, certificate = case.files(where)
    if old is not None:
        assert table.exists(), "the table that was there is gone"
        assert certificate.exists(), "the certificate that was there is gone"
    if not (settled(table) and settled(certificate)) or not table.exists():
        assert old is None or table.read_bytes() == old, "what is not complete has the name"
        return
    assert agree(table, certificate), "a mixed pair that nobody refuses"
    with Ledger(place, where.name) as ledger:
        committed = ledger.status().counts["COMMITTED"] - case.replaces
        assert ledger.verify([certificate]) == []
    assert table.read_bytes() == old or committed, "a release without an entry"


def go_on(case: Case, place: str, where: Path) -> int:
    """Run the same command where an output waits; check that it costs nothing and opens nothing; return its status."""
    with Ledger(place, where.name) as ledger:
        before = ledger.status().spent
    status = status_of(command(place, where, case.out), marked=where / "again")
    with Ledger(place, where.name) as ledger:
        spent = ledger.status().spent
    assert spent["epsilon"] == before["epsilon"], "a release was paid for twice"
    assert spent["delta"] <= before["delta"], "a release was paid for twice"
    assert not (where / "again").exists(), "the table was opened again"
    return status


def check(case: Case, place: str, where: Path, *, opened: bool, old: bytes | None, again: bool = False) -> None:
    """Check that a dead release is accounted for, once its ledger was recovered: the next one, ``again``, as well."""
    table, certificate = case.files(where)
    with Ledger(place, where.name) as ledger:
        after = ledger.recover()
    if case.waits(where):
        assert [one["why"] is None for one in after] == [False], "nobody says that an output waits"
        assert go_on(case, place, where) == 0, "a run that died does not go on"
        assert not case.waits(where)
    with Ledger(place, where.name) as ledger:
        after = ledger.recover() if after and after[0]["why"] else after
        assert all(one["why"] is None for one in after), "a dead process is taken for one that lives"
        # LOST with another release: it was delivered, and then replaced
        assert again or all(one["now"] != "LOST" for one in after), "what was committed is gone"
        assert ledger.recover() == []
        counts, spent = ledger.status().counts, ledger.status().spent["epsilon"]
        assert not counts["RESERVED"] + counts["OPENED"], "a reservation is stuck"
        assert spent >= EPSILON * (case.replaces + opened + again), "a table was opened and nothing is spent"
        assert spent == EPSILON * (counts["COMMITTED"] + counts["FORFEITED"]) <= 1.0, "overspent"
        assert not list(where.glob(".*.ready")), "a content that nobody gives its name"
        committed = counts["COMMITTED"] - case.replaces
        assert table.exists() == certificate.exists() == bool(committed or old is not None)
        if table.exists():
            assert settled(table)
            assert settled(certificate)
            assert agree(table, certificate), "a table beside another one's certificate"
            assert (table.read_bytes() == old) == (not committed), "a release that the ledger does not know"
        assert ledger.verify([certificate] * certificate.exists()) == []


def settled(path: Path) -> bool:
    """Return whether readers do not refuse a file."""
    try:
        require_settled(path)
    except FileProblem:
        return False
    return True


def every_step(case: Case, place: str, where: Path, *, stride: int, in_turns: bool = True) -> Iterator[None]:
    """Kill a release at every step; what is left is recovered, before the next command or after it."""
    number, died = 0, True
    marked = where / "opened"
    while died:
        old = case.begin(place, where)
        died = killed_at(number, lambda: run(command(place, where, case.out)), marked=marked)
        check_readers(case, place, where, old)
        if case.waits(where) and number // stride % 3 and go_on(case, place, where):
            named = case.files(where)[0].exists() and case.files(where)[0].read_bytes() != old
            assert named or list(where.glob(".*.ready")), "a run that died does not go on"
        if number // stride % 2 == 0 or not died or not in_turns:
            check(case, place, where, opened=marked.exists(), old=old)
            expected = 2 if (where / "r").exists() else 0  # a folder is never replaced
            assert status_of(command(place, where, case.out)) == expected, "the next release does not work"
        else:  # it works where nothing waits for the ledger, and waits where something does
            waited = case.waits(where)
            next_one = status_of(command(place, where, case.out))
            assert next_one in ((0, 2) if case.files(where)[1].exists() or list(where.glob(".*.ready")) else (0,))
            check(case, place, where, opened=marked.exists(), old=old, again=not (next_one or waited))
        number += stride
        if died:
            yield


def every_step_unpaid(place: str, where: Path, *, stride: int) -> Iterator[None]:
    """Kill a release that no ledger pays for at every step; what was drawn is written by the next one, as it was."""
    number, died, case = 0, True, CASES["new"]
    unpaid = [
        part for part in command(place, where, case.out) if part not in ("--ledger", place, "--dataset", where.name)
    ]
    while died:
        case.begin(place, where)
        died = killed_at(number, lambda: run(unpaid), marked=where / "opened")
        waited = case.waits(where)
        assert status_of(unpaid, marked=where / "again") == 0
        assert (where / "again").exists() != waited, "a table was read twice for one output, or an output was made up"
        assert agree(*case.files(where))
        assert not case.waits(where)
        number += stride
        if died and waited:
            yield


def every_step_of_recovery(case: Case, place: str, where: Path, *, stride: int) -> Iterator[None]:
    """Kill those who recover what a release left between its entry and its files' names."""
    marked = where / "opened"
    for first in range(*waiting(case, place, where), stride):
        number, died = 0, True
        while died:
            old = case.begin(place, where)
            killed_at(first, lambda: run(command(place, where, case.out)), marked=marked)
            died = killed_at(number, lambda: run(["ledger", "recover", place, "--dataset", where.name]), marked=marked)
            check_readers(case, place, where, old)
            check(case, place, where, opened=marked.exists(), old=old)
            number += stride
            if died:
                yield


def waiting(case: Case, place: str, where: Path) -> tuple[int, int]:
    """Return the first step at which contents of a release wait for their names, and that after the last one."""
    found: list[int] = []
    number, died = 0, True
    while died:
        case.begin(place, where)
        died = killed_at(number, lambda: run(command(place, where, case.out)), marked=where / "opened")
        if list(where.glob(".*.ready")):
            found.append(number)
        number += 1
    return found[0], found[-1] + 1


def fresh(place: str, where: Path) -> str:
    """Forget the data set of a folder: the file that it is in, or its rows on a server."""
    if "://" not in place:
        for name in (place, f"{place}-journal"):
            Path(name).unlink(missing_ok=True)
        return place
    with contextlib.suppress(FileProblem):
        store = store_at(place)
        with store.appending(where.name) as statement:
            statement("ALTER TABLE discreet_event DISABLE TRIGGER ALL")
            statement("DELETE FROM discreet_event WHERE dataset = :name", name=where.name)
            statement("DELETE FROM discreet_dataset WHERE name = :name", name=where.name)
            statement("ALTER TABLE discreet_event ENABLE TRIGGER ALL")
    return place


def at_once(place: str, where: Path, *, writers: int) -> int:
    """Let writers release at once from a ledger that has enough for four; return how many it refused."""
    begin(fresh(place, where), where, epsilon=1.0)
    children = []
    for writer in range(writers):
        child = os.fork()
        if not child:
            quiet()
            os._exit(run(command(place, where, f"r{writer}.csv")))
        children.append(child)
    statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert set(statuses) == {0, 3}, statuses
    assert statuses.count(0) == 4, "as many as there is budget for"
    made = [where / f"r{writer}.certificate.json" for writer, status in enumerate(statuses) if status == 0]
    with Ledger(place, where.name) as ledger:
        assert ledger.status().spent["epsilon"] == 1.0
        assert ledger.status().counts["COMMITTED"] == 4
        assert ledger.verify(made) == []
    assert len(list(where.glob("r*.csv"))) == 4
    return statuses.count(3)


def main(what: str, place: str, where: Path, stride: int, case: str = "new") -> None:
    """Write the number that the tests look at."""
    os.fsync = lambda _: None  # a killed process loses nothing of what it wrote: only a machine does
    if what == "at once":
        sys.stdout.write(str(at_once(place, where, writers=16)))
    elif what == "unpaid":
        sys.stdout.write(str(sum(1 for _ in every_step_unpaid(place, where, stride=stride))))
    elif what == "recovery":
        sys.stdout.write(str(sum(1 for _ in every_step_of_recovery(CASES[case], place, where, stride=stride))))
    else:
        if what == "planted":  # a ledger that says that a table was opened only when it was read
            from discreet.ledger.run import Run

            Run.stamp = property(  # type: ignore[assignment]
                lambda self: {"dataset": where.name, "entry": self._reservation.entry, "head": "0"}
            )
            appending = Run._append

            def append(self: Run, state: str, facts: Any, cost: Any = None) -> None:
                if state == "COMMITTED":
                    appending(self, "OPENED", {})
                if state != "OPENED":
                    appending(self, state, facts, cost)

            Run._append = append  # type: ignore[method-assign]
        sys.stdout.write(
            str(sum(1 for _ in every_step(CASES[case], place, where, stride=stride, in_turns=what != "planted")))
        )


if __name__ == "__main__":
    sqlite3.enable_callback_tracebacks(False)
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]), *sys.argv[5:])
