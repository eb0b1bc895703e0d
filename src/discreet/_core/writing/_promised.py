"""Sets that are promised: complete on the disk, told to somebody who keeps books, and still without their names.

A set is promised between the moment when a ledger learns that it is complete and the moment when its files have their
names. Whoever finds it after a failure must not sweep it away, and only the ledger knows whether it counts. So a marker
goes beside each name before the ledger is told: while it is there, nothing of that write is swept, and nobody else
writes to that name. :func:`keep_promise` gives the files their names, or finds that they are lost.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from discreet._core.errors import FileProblem
from discreet._core.writing._locks import all_locked
from discreet._core.writing._paths import beside, file_sha256, record_of, sync_folder
from discreet._core.writing._pending import Move, commit, settle, stamp


@dataclass(frozen=True, slots=True)
class Keeper:
    """Who keeps books about a set.

    ``entry``: under which name.
    ``complete``: told of the set when it is complete on the disk.
    """

    entry: str
    complete: Callable[..., None]


def promise(finals: Iterable[Path], write: str, entry: str) -> None:
    """Mark the files of a write as promised to an entry, durably."""
    for final in finals:
        descriptor = os.open(beside(final, write, "promised"), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(descriptor, entry.encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        sync_folder(final.parent)


def forget(finals: Iterable[Path], write: str) -> None:
    """Remove the marks; where that fails they harm nobody but by waiting for the ledger."""
    for final in finals:
        with contextlib.suppress(OSError):
            beside(final, write, "promised").unlink(missing_ok=True)


def is_promised(path: Path, write: str) -> bool:
    """Return whether a write of a name is promised."""
    return os.path.lexists(beside(path, write, "promised"))


def require_unpromised(path: Path) -> None:
    """Refuse to write to a name that a promised set waits for. Raises FileProblem when one does."""
    if _promises(path):
        raise FileProblem(
            path,
            "another run is writing this name, or died before its release was settled in the ledger",
            "wait for that run. If it died, run discreet ledger recover",
        )


def keep_promise(moves: Sequence[Move]) -> bool:
    """Give the files of a promised set their names, where they are still at hand; return whether they have them.

    Raises FileProblem when another run is writing them, or something else has taken a name meanwhile.
    """
    write, finals = moves[0].token, [move.final for move in moves]
    with all_locked(sorted(finals)):
        settle(finals[0])
        kept = all(move.arrived for move in moves)
        if not kept and all(move.at_hand for move in moves):
            for move in moves:
                if not move.arrived and move.replaces != stamp(move.final):
                    raise _taken(move.final)
            for move in moves:  # what was killed while it recorded the set has left drafts
                beside(move.final, write, "record").unlink(missing_ok=True)
            commit(list(moves))
            kept = True
        if not kept:
            _sweep(moves)
        forget(finals, write)
    return kept


def keep_folder(final: Path, write: str, files: Mapping[str, str]) -> bool:
    """Give a promised folder its name, where it is whole; return whether it has it.

    ``files``: the SHA-256 of each file in it, by name.
    """
    with all_locked([final]):
        part = beside(final, write, "part")
        kept = _holds_all(final, files)
        if not kept and _holds_all(part, files):
            if os.path.lexists(final):
                raise _taken(final)
            part.rename(final)
            sync_folder(final.parent)
            kept = True
        forget([final], write)
    return kept


def break_promises(paths: Iterable[Path], entry: str) -> None:
    """Forget the writes of some names that are promised to an entry which was never told that they are complete.

    Raises FileProblem when another run is writing them.
    """
    for path in paths:
        for mark in _promises(path):
            with all_locked([path]):
                if mark.read_bytes() in (entry.encode(), b""):
                    _remove(mark.with_suffix(".part"))
                    mark.unlink(missing_ok=True)


def _taken(path: Path) -> FileProblem:
    return FileProblem(
        path, "something else has taken its name since", "move it away, then run discreet ledger recover again"
    )


def _promises(path: Path) -> list[Path]:
    """Return the marks of the promised writes of a name."""
    with contextlib.suppress(OSError):
        start, end = f".{path.name}.", ".promised"
        return [one for one in path.parent.iterdir() if one.name.startswith(start) and one.name.endswith(end)]
    return []


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _holds_all(folder: Path, files: Mapping[str, str]) -> bool:
    return all((folder / name).is_file() and file_sha256(folder / name) == files[name] for name in files)


def _sweep(moves: Sequence[Move]) -> None:
    for move in moves:
        if not os.path.lexists(record_of(move.final)):
            with contextlib.suppress(OSError):
                move.new.unlink(missing_ok=True)
