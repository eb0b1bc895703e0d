"""Kill writers at every step of a write, in children forked from an interpreter without threads; run by the tests.

Prints how many were killed. It ends with an assertion where a reader accepts what is neither wholly old nor wholly new,
where what was there is gone, or where the next command does not set it right.
"""

import fcntl
import hashlib
import itertools
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from discreet import Budget
from discreet._core import files
from discreet._core.files import new_folder, recover, repeatable, require_settled, together
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
    """Return what who compares a table with its certificate reads: its text, None where there is neither or one alone.

    Of two that disagree it is refused.
    """
    table, certificate = (path.read_bytes() if path.exists() else None for path in pair)
    if table is None:
        return None
    return table if certificate == hashlib.sha256(table).hexdigest().encode() else b"refused"


@contextmanager
def dying(names: int, error: BaseException, *, removing: bool = False) -> Iterator[None]:
    """Let a write die once it has given so many names; unless it can go on ``removing``, nothing is removed either."""
    left, replace, unlink = iter(range(names)), os.replace, os.unlink

    def replaced(old: Path, new: Path) -> None:
        if not str(new).endswith((".ready", ".output")) and next(left, None) is None:
            raise error
        replace(old, new)

    def unlinked(path: Path, **named: object) -> None:
        if str(path).endswith(".ready") and not removing:
            raise error
        unlink(path, **named)

    os.replace, os.unlink = replaced, unlinked  # type: ignore[assignment]
    try:
        yield
    finally:
        os.replace, os.unlink = replace, unlink


def refused(path: Path) -> bool:
    """Return whether readers refuse a file."""
    try:
        require_settled(path)
    except FileProblem:
        return True
    return False


def check(pair: Pair, old: bytes | None, act: Callable[[], None]) -> None:
    """Check what a dead writer left, and that the next command sets it right, itself killed or not."""
    apart, found = pair[0].parent != pair[1].parent, held(pair)
    certain = pair[0].parent.glob(".x.csv.*.ready")
    complete = any(True for _ in certain) or found == b"new"
    if not any(map(refused, pair)):
        assert found in (old, b"new"), "a mixed pair that nobody refuses"
    elif not apart:
        assert complete, "an old pair is refused, and no new one is complete"
        assert pair[1].read_bytes() == hashlib.sha256(b"new").hexdigest().encode(), "an old pair is refused"
    assert found in (old, b"new") or complete, "what was there is gone, and nothing new is complete"
    act()
    assert not any(map(refused, pair))
    assert held(pair) == (b"new" if complete else old), "what was complete is lost, or what was not is accepted"
    assert pair[0].exists() == pair[1].exists(), "one of the two alone"
    before = {path: path.stat() for path in pair if path.exists()}
    recover(*pair)
    assert {path: path.stat() for path in pair if path.exists()} == before, "a second recovery does something"
    put(pair, b"next")
    assert held(pair) == b"next"
    for folder in {path.parent for path in pair}:
        assert {path.name for path in folder.iterdir() if path.is_file()} <= {path.name for path in pair}, "litter"


def fresh(where: Path, *, apart: bool, old: bytes | None = None) -> Pair:
    """Return the names of a pair in an empty folder, or in two, with what was there before."""
    shutil.rmtree(where, ignore_errors=True)
    (where / "apart").mkdir(parents=True)
    pair = where / "x.csv", (where / "apart" if apart else where) / "x.certificate.json"
    if old is not None:
        put(pair, old)
    return pair


def kills(prepared: Callable[[], Pair], act: Callable[[Pair], None], stride: int = 1) -> Iterator[Pair]:
    """Kill an act before each of its steps, each time on a new pair, which is yielded; the last time it lives."""
    for number in itertools.count(step=stride):
        pair = prepared()
        died = killed_at(number, lambda pair=pair: act(pair))
        yield pair
        if not died:
            return


def every_step(where: Path) -> Iterator[None]:
    """Kill writers at every step of a write of a new pair, and of one that is replaced, in one folder and in two."""
    for apart, old in itertools.product((False, True), (None, b"old")):
        prepared = partial(fresh, where, apart=apart, old=old)
        for pair in kills(prepared, lambda pair: put(pair, b"new")):
            named = pair if apart else pair[1:]  # of one folder the table is found beside the certificate
            check(pair, old, partial(recover, *named))
            yield


def every_step_of_a_recovery(where: Path, stride: int) -> Iterator[None]:
    """Kill writers, then those who finish or undo what they left, then let another writer sweep the folder."""
    for old in (None, b"old"):
        first, died = 0, True
        while died:
            second, again = 0, True
            while again:
                pair = fresh(where, apart=False, old=old)
                died = killed_at(first, lambda pair=pair: put(pair, b"new"))
                again = killed_at(second, lambda pair=pair: recover(pair[1]))
                other = pair[0].with_name("other")
                with together(other) as (file,):
                    file.write(b"sweeps")
                other.unlink()
                check(pair, old, lambda pair=pair: recover(pair[1]))
                second += 1
                if again:
                    yield
            first += 2 * stride


def every_step_of_a_folder(where: Path) -> Iterator[None]:
    """Kill writers of a folder of parts, of which the first is made twice: there is all of it, or nothing."""
    out = where / "out"

    def act() -> None:
        with new_folder(out, folders=["a=1"]) as place:
            for name in ("part-0", "part-0", "a=1/part-1"):
                with repeatable(place / name) as (draft,):
                    draft.write_bytes(name.encode())
            step()

    for _ in kills(partial(fresh, where, apart=False), lambda _: act()):
        if out.exists():
            whole = {"part-0": b"part-0", "a=1/part-1": b"a=1/part-1"}
            found = {str(one.relative_to(out)): one.read_bytes() for one in out.rglob("*") if one.is_file()}
            assert found == whole, "half a folder"
            shutil.rmtree(out)
        act()
        assert sorted(path.name for path in where.iterdir()) == ["apart", "out"], "litter"
        yield


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


def renamed_one_after_the_other(made: Sequence[Path], finals: Sequence[Path], **_: bool) -> None:
    """Rename as one does who thinks of no failure: the planted defect."""
    for one, final in zip(made, finals, strict=True):
        if os.path.lexists(one):
            os.replace(one, final)


def every_step_of_a_release(where: Path, stride: int) -> Iterator[None]:
    """Kill the main job at every step, over a release that is there. Nothing here may start Polars's threads."""
    import opendp.measurements  # noqa: F401  # loaded once, not in every child
    import polars as pl  # noqa: F401

    from discreet import release
    from discreet.domain import Domain, Integer

    domain = Domain(columns={"x": Integer(lower=0, upper=9)})
    pair = fresh(where, apart=False)
    (where / "data.csv").write_text("x\n" + "".join(f"{i % 7}\n" for i in range(2000)))

    def act() -> None:
        release(where / "data.csv", domain, Budget(epsilon=1), size=50, mechanism="perturbed-histogram", out=pair[0])

    def agrees() -> None:
        hashes = [hashlib.sha256(path.read_bytes()).hexdigest() for path in pair]
        assert f'"sha256": "{hashes[0]}"'.encode() in pair[1].read_bytes()

    assert not killed_at(10**6, act)
    for _ in kills(lambda: pair, lambda _: act(), stride):
        if not any(map(refused, pair)):
            agrees()
        recover(pair[1])
        agrees()
        yield


def main(what: str, where: Path, stride: int) -> None:
    """Write the numbers that the tests look at."""
    os.fsync = lambda _: None  # a killed process loses nothing of what it wrote: only a machine does
    if what == "planted":
        files._move = renamed_one_after_the_other
    if what == "at once":
        sys.stdout.write(str(at_once(where, rounds=40, writers=3)))
        return
    killed = [every_step(where), every_step_of_a_recovery(where, stride), every_step_of_a_folder(where)]
    if what == "releases":
        killed = [every_step_of_a_release(where, stride)]
    sys.stdout.write(" ".join(str(sum(1 for _ in one)) for one in killed))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
