"""Kill writers at every step of a write, in children forked from an interpreter without threads; run by the tests.

Prints how many were killed. A state that is neither wholly old nor wholly new, and not refused by readers, ends it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from discreet import Budget
from discreet._core.writing import file_sets, recover, require_settled, together
from discreet._core.writing.pending import Move
from discreet.errors import FileProblem

STEPS = ("open", "replace", "rename", "unlink", "fsync", "fchmod", "close", "mkdir")
Pair = tuple[Path, Path]


def put(pair: Pair, text: bytes) -> None:
    """Write a table and its certificate, which is the table's hash."""
    with together(*pair) as (table, certificate):
        step()
        table.write(text)
        step()
        certificate.write(hashlib.sha256(text).hexdigest().encode())


def step() -> None:
    """Stand for a step between the calls of the system."""


def killed_at(number: int, act: Callable[[], None]) -> bool:
    """Run ``act`` in a child that kills itself before its step of this number; return whether it came so far."""
    child = os.fork()
    if not child:
        left = [number]

        def counted(call: Callable[..., object]) -> Callable[..., object]:
            def caller(*arguments: object, **named: object) -> object:
                left[0] -= 1
                if left[0] < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return call(*arguments, **named)

            return caller

        for name in STEPS:
            setattr(os, name, counted(getattr(os, name)))
        fcntl.flock = counted(fcntl.flock)  # type: ignore[assignment]
        globals()["step"] = counted(step)
        act()
        os._exit(0)
    return os.waitpid(child, 0)[1] == signal.SIGKILL


def held(pair: Pair) -> bytes | None:
    """Return the pair's text, None where there is neither; never is one there without the other, or another one's."""
    table, certificate = (path.read_bytes() if path.exists() else None for path in pair)
    if table is not None:
        assert certificate == hashlib.sha256(table).hexdigest().encode(), "a table without its certificate"
    elif certificate is not None:
        try:
            for path in pair:
                require_settled(path)
        except FileProblem:
            return b"refused"
        raise AssertionError("a certificate alone, and nobody refuses it")
    return table


def refused(path: Path) -> bool:
    """Return whether readers refuse a file."""
    try:
        require_settled(path)
    except FileProblem:
        return True
    return False


def check(pair: Pair, states: set[bytes | None]) -> None:
    """Check what a dead writer left, that the next command sets it right, and that a write leaves nothing else."""
    assert refused(pair[0]) == refused(pair[1]), "one of the two is refused"
    if not refused(pair[0]):
        assert held(pair) in states, "a mixed pair that nobody refuses"
    held(pair)
    for path in pair:
        recover(path)
    assert not refused(pair[0])
    assert held(pair) in states
    put(pair, b"next")
    assert held(pair) == b"next"
    for folder in {path.parent for path in pair}:
        assert {path.name for path in folder.iterdir() if path.is_file()} <= {path.name for path in pair}, "litter"


def fresh(where: Path, *, apart: bool) -> Pair:
    """Return the names of a pair in an empty folder, or in two."""
    shutil.rmtree(where, ignore_errors=True)
    (where / "apart").mkdir(parents=True)
    return where / "x.csv", (where / "apart" if apart else where) / "x.certificate.json"


def every_step(where: Path) -> Iterator[None]:
    """Kill writers at every step of a write of a new pair, and of one that is replaced, in one folder and in two."""
    for apart in (False, True):
        for old in (None, b"old"):
            number, died = 0, True
            while died:
                pair = fresh(where, apart=apart)
                if old is not None:
                    put(pair, old)
                died = killed_at(number, lambda pair=pair: put(pair, b"new"))
                check(pair, {old, b"new"})
                number += 1
                if died:
                    yield


def every_step_of_a_recovery(where: Path, *, spoilt: bool) -> Iterator[None]:
    """Kill writers, then kill those who finish what they left; or undo it, where part of the new content is spoilt."""
    first, died = 0, True
    while died:
        second, again = 0, True
        while again:
            pair = fresh(where, apart=False)
            put(pair, b"old")
            died = killed_at(first, lambda pair=pair: put(pair, b"new"))
            if not refused(pair[0]):
                break
            if spoilt:
                for part in where.glob(".x.certificate.json.*.part"):
                    part.write_bytes(b"spoilt")
            again = killed_at(second, lambda pair=pair: recover(pair[1]))
            check(pair, {b"old", b"new"})
            second += 1
            if again:
                yield
        first += 9


def at_once(where: Path, *, rounds: int, writers: int) -> int:
    """Let several writers write one pair at the same time; return how many were refused."""
    pair, refusals = fresh(where, apart=True), 0
    for number in range(rounds):
        texts = [f"{number} of {writer}".encode() * 1000 for writer in range(writers)]
        children = [os.fork() or writes(pair, text) for text in texts]
        statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        assert 0 in statuses, "none of them wrote"
        assert set(statuses) <= {0, 3}, "one of them failed"
        assert held(pair) in texts
        refusals += statuses.count(3)
    assert {path.name for path in where.iterdir()} == {"x.csv", "apart"}
    assert [path.name for path in pair[1].parent.iterdir()] == [pair[1].name]
    return refusals


def writes(pair: Pair, text: bytes) -> int:
    """Write a pair in a child, and leave it: with status 3 where another one was writing."""
    try:
        put(pair, text)
    except FileProblem as problem:
        os._exit(3 if "another run is using it" in str(problem) else 4)
    os._exit(0)


def renamed_one_after_the_other(moves: list[Move]) -> None:
    """Give files their names as one does who thinks of no failure: the planted defect."""
    for move in moves:
        os.replace(move.new, move.final)


def every_step_of_a_release(where: Path) -> Iterator[None]:
    """Kill the main job at every third step, over a release that is there. Nothing here may start Polars's threads."""
    import opendp.measurements  # noqa: F401  # loaded once, not in every child
    import polars as pl  # noqa: F401

    from discreet import release
    from discreet.domain import Domain, Integer

    domain = Domain(columns={"x": Integer(lower=0, upper=9)})
    pair = fresh(where, apart=False)
    (where / "data.csv").write_text("x\n" + "".join(f"{i % 7}\n" for i in range(2000)))

    def act() -> None:
        release(
            where / "data.csv",
            domain,
            Budget(epsilon=1, delta=1e-6),
            size=50,
            mechanism="perturbed-histogram",
            out=pair[0],
        )

    def agrees() -> None:
        hashes = [hashlib.sha256(path.read_bytes()).hexdigest() for path in pair]
        assert f'"sha256": "{hashes[0]}"'.encode() in pair[1].read_bytes()

    assert not killed_at(10**6, act)
    number, died = 0, True
    while died:
        died = killed_at(number, act)
        if not refused(pair[0]):
            agrees()
        recover(pair[1])
        agrees()
        number += 3
        if died:
            yield


def main(what: str, where: Path) -> None:
    """Write the numbers that the tests look at."""
    os.fsync = lambda _: None  # a killed process loses nothing of what it wrote: only a machine does
    if what == "planted":
        file_sets.commit = renamed_one_after_the_other
    if what == "releases":
        sys.stdout.write(str(sum(1 for _ in every_step_of_a_release(where))))
        return
    if what == "at once":
        sys.stdout.write(str(at_once(where, rounds=40, writers=3)))
        return
    again = [every_step_of_a_recovery(where, spoilt=spoilt) for spoilt in (False, True)]
    sys.stdout.write(" ".join(str(sum(1 for _ in kills)) for kills in (every_step(where), *again)))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
