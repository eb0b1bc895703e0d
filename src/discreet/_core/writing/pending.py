"""Renames under way: the record beside them, and how the next command finishes or undoes it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discreet._core.errors import FileProblem
from discreet._core.writing.paths import all_locked, beside, canonical, file_sha256, record_of, sync_folder

# The record of a set of files under way to their names: whoever finds it can finish the set, or undo it.
#
# The files of a set are in order: the first is a table, the next its certificate. Their new contents are complete and
# on the disk before anything here begins.
#
# 1. A record goes beside each file, that beside the first one last: from then on the set is *under way*.
# 2. What has the names is moved aside, the first file first.
# 3. The new files get the names, the first file last: a table never stands beside another one's certificate, nor alone.
# 4. The first file's record is removed: from then on the set is complete. The rest is sweeping up.
#
# A record counts while the first file's record of the same write exists. After a failure everything needed is read from
# the disk: where all new contents are at hand, steps 2 to 4 are done again, each where it was not done; else what was
# moved aside is moved back.

_VERSION = 1
_LARGEST = 1 << 16
_TOKEN = re.compile(r"[0-9a-f]{12}")
_STAMP = re.compile(r"\d{1,20}--?\d{1,20}")
_HASH = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Move:
    """One file of a set."""

    final: Path
    sha256: str
    replaces: str | None
    token: str

    @property
    def new(self) -> Path:
        """Where the new content is until it has the name."""
        return beside(self.final, self.token, "part")

    @property
    def old(self) -> Path:
        """Where what had the name is kept until the set is complete."""
        return beside(self.final, self.token, "old")

    @property
    def arrived(self) -> bool:
        """Whether the new content has the name."""
        return _holds(self.final, self.sha256)

    @property
    def at_hand(self) -> bool:
        """Whether the new content is somewhere."""
        return _holds(self.new, self.sha256) if os.path.lexists(self.new) else self.arrived

    @classmethod
    def of(cls, final: Path, write: str, sha256: str | None = None) -> Move:
        """Return the move of a file that was written beside its name; its hash where that is known already."""
        return cls(final, sha256 or file_sha256(beside(final, write, "part")), stamp(final), write)


def stamp(path: Path) -> str | None:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    return f"{found.st_size}-{found.st_mtime_ns}"


def _holds(path: Path, sha256: str) -> bool:
    return path.is_file() and not path.is_symlink() and file_sha256(path) == sha256


# -- writing a set ----------------------------------------------------------------------------------------------------


def commit(moves: list[Move]) -> None:
    """Give several finished files their names: all of them, or none.

    Raises OSError when that fails: everything is then as it was. Raises FileProblem when it can be neither finished nor
    undone: the records say so to whoever reads.
    """
    try:
        _record(moves)
        _finish(moves)
    except BaseException as error:
        if _under_way(moves) or os.path.lexists(moves[0].new):
            _undo_after(error, moves)
        raise


def _undo_after(error: BaseException, moves: list[Move]) -> None:
    try:
        _undo(moves)
    except OSError:
        raise _unsettled(moves[0].final) from error


def _record(moves: list[Move]) -> None:
    for move in reversed(moves):
        folder = move.final.parent
        files = [{"path": os.path.relpath(m.final, folder), "sha256": m.sha256, "replaces": m.replaces} for m in moves]
        text = json.dumps({"discreet_pending": _VERSION, "write": move.token, "files": files}, indent=2)
        draft = beside(move.final, move.token, "record")
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as out:
            out.write(text.encode())
            out.flush()
            os.fsync(out.fileno())
        os.replace(draft, record_of(move.final))
        sync_folder(folder)


def _finish(moves: list[Move]) -> None:
    """Do what is left to do of steps 2 to 4."""
    for move in moves:
        if os.path.lexists(move.new) and os.path.lexists(move.final):
            if os.path.lexists(move.old) or move.replaces != stamp(move.final):
                raise _changed(move.final)
            os.replace(move.final, move.old)
            sync_folder(move.final.parent)
    for move in reversed(moves):
        if os.path.lexists(move.new):
            os.replace(move.new, move.final)
            sync_folder(move.final.parent)
    record_of(moves[0].final).unlink()
    _sweep_up(moves)


def _undo(moves: list[Move]) -> None:
    """Bring back what was moved aside, the first file last, and forget the new contents."""
    for move in moves:
        if os.path.lexists(move.old) or move.replaces is None:
            if move.arrived:
                move.final.unlink()
            elif os.path.lexists(move.old) and os.path.lexists(move.final):
                raise _changed(move.final)
        move.new.unlink(missing_ok=True)
    _sync(moves)
    for move in reversed(moves):
        if os.path.lexists(move.old):
            os.replace(move.old, move.final)
    _sync(moves)
    record_of(moves[0].final).unlink(missing_ok=True)
    _sweep_up(moves)


def _sweep_up(moves: list[Move]) -> None:
    """Remove what a settled set left beside its names; what cannot be removed harms nobody."""
    with contextlib.suppress(OSError):
        _sync(moves[:1])
    for move in moves:
        for name in (record_of(move.final), beside(move.final, move.token, "record"), move.old):
            with contextlib.suppress(OSError):
                name.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        _sync(moves)


def _sync(moves: Iterable[Move]) -> None:
    for folder in {move.final.parent for move in moves}:
        sync_folder(folder)


# -- finding a set under way ------------------------------------------------------------------------------------------


def require_settled(path: str | os.PathLike[str]) -> None:
    """Refuse to read a file that belongs to a set under way.

    Raises FileProblem when it does.
    """
    given = Path(path)
    names = {canonical(given)}
    with contextlib.suppress(OSError, RuntimeError, ValueError):
        names.add(canonical(given.resolve()))
    if any(map(_pending, names)):
        raise _unsettled(given)


def recover(path: Path) -> None:
    """Finish the set under way that a file belongs to, or undo it where that is impossible.

    Raises FileProblem when another run is writing it, or neither is possible.
    """
    found = _pending(canonical(path))
    if not found:
        return
    with all_locked(sorted(move.final for move in found)):
        settle(canonical(path))


def settle(path: Path) -> None:
    """Do what :func:`recover` does, while the files are locked."""
    moves = _pending(path)
    for move in moves:  # nothing is touched in a folder that does not say so itself
        if _token(move.final) != move.token:
            raise _unreadable(record_of(move.final))
    try:
        if moves and all(move.at_hand for move in moves):
            _finish(moves)
        elif moves:
            _undo(moves)
    except FileProblem:
        raise
    except OSError:
        _undo_after(_unsettled(path), moves)


def _pending(path: Path) -> list[Move]:
    """Return the set under way that a file belongs to, or nothing."""
    moves = _read(path)
    return moves if moves and _under_way(moves) else []


def _under_way(moves: list[Move]) -> bool:
    return _token(moves[0].final) == moves[0].token


def _token(path: Path) -> str | None:
    moves = _read(path)
    return moves[0].token if moves else None


def _read(path: Path) -> list[Move]:
    """Return what the record beside a file says, nothing where there is none."""
    record = record_of(path)
    try:
        with open(os.open(record, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            text = file.read(_LARGEST + 1)
    except FileNotFoundError:
        return []
    except (OSError, ValueError):
        raise _unreadable(record) from None
    try:
        facts = json.loads(text)
        moves = [_move(entry, facts["write"], record.parent) for entry in facts["files"]]
        known = facts["discreet_pending"] == _VERSION and len(text) <= _LARGEST
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _unreadable(record) from None
    if not known or path not in [move.final for move in moves]:
        raise _unreadable(record)
    return moves


def _move(entry: dict[str, Any], write: str, folder: Path) -> Move:
    path, sha256, replaces = entry["path"], entry["sha256"], entry["replaces"]
    if not _TOKEN.fullmatch(write) or not _HASH.fullmatch(sha256) or "\0" in path:
        raise ValueError
    if replaces is not None and not _STAMP.fullmatch(replaces):
        raise ValueError
    return Move(Path(os.path.normpath(folder / path)), sha256, replaces, write)


def _unsettled(path: Path) -> FileProblem:
    return FileProblem(
        path,
        "writing it and the files that go with it was interrupted, or is still under way",
        "wait for that run. If it died, run discreet verify --recover on the certificate, which finishes or undoes it",
    )


def _unreadable(record: Path) -> FileProblem:
    return FileProblem(
        record, "it is not the record of a write", "move it away if you know that no write was interrupted"
    )


def _changed(path: Path) -> FileProblem:
    return FileProblem(
        path,
        "it was changed after its writing was interrupted",
        "move it away, then run discreet verify --recover on the certificate",
    )


# Sets that are promised: complete on the disk, told to somebody who keeps books, and still without their names.
#
# A set is promised between the moment when a ledger learns that it is complete and the moment when its files have their
# names. Whoever finds it after a failure must not sweep it away, and only the ledger knows whether it counts. So a
# marker goes beside each name before the ledger is told: while it is there, nothing of that write is swept, and nobody
# else writes to that name. :func:`keep_promise` gives the files their names, or finds that they are lost.


@dataclass(frozen=True, slots=True)
class Keeper:
    """Who keeps books about a set."""

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
    """Give a promised folder its name, where it is whole; return whether it has it."""
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
