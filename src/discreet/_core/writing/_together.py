"""Writing: under another name, locked, swept, checked; then all names at once."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from discreet._core.errors import DiscreetError, FileProblem
from discreet._core.writing._locks import all_locked, locked
from discreet._core.writing._paths import (
    beside,
    canonical,
    check_outputs,
    record_of,
    sync_folder,
    token,
    writing_problem,
)
from discreet._core.writing._pending import Move, commit, recover, require_settled

_LITTER = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{12}\.(?:part|old|record)", re.DOTALL)


@contextmanager
def together(
    *paths: Path,
    inputs: Iterable[Any] = (),
    private: bool = False,
    check: Callable[[], None] | None = None,
    held: bool = False,
) -> Iterator[list[BinaryIO]]:
    """Write files that appear all at once, when the block ends without an error; else what was there stays.

    Raises FileProblem when something cannot or must not be written, or another run is writing it.

    ``*paths``: their names, in the order in which one says what another is: a table, then its certificate.
    ``inputs``: paths that were read and must not be overwritten; anything else is passed over.
    ``private``: whether they hold something confidential: their mode is then 0600. Otherwise they have the mode of what
    they replace, and new ones what the process's mask leaves.
    ``check``: called when no other writer can interfere: it raises where what has the names must not be replaced.
    ``held``: whether the caller holds the lock of the only name.
    Yields: one file a name, open for writing. Their own names are those of temporary files.
    """
    check_outputs(paths, inputs)
    finals = [canonical(path) for path in paths]
    for final in finals:
        if held:
            require_settled(final)
        else:
            recover(final)
    write = token()
    with contextlib.nullcontext() if held else all_locked(sorted(finals)), ExitStack() as stack:
        try:
            for final in finals:
                require_settled(final)
            _sweep(finals)
            if check is not None:
                check()
            files = [stack.enter_context(_fresh(final, write, private=private)) for final in finals]
            yield files
            for final, file in zip(finals, files, strict=True):
                _complete(file, None if private else _mode(final))
            _give_names(finals, write)
        except BaseException as error:
            _discard(finals, write)
            if not isinstance(error, OSError) or isinstance(error, DiscreetError):
                raise
            raise writing_problem(paths[0], error) from None


def _give_names(finals: list[Path], write: str) -> None:
    for folder in dict.fromkeys(final.parent for final in finals):
        sync_folder(folder)
    if len(finals) > 1:
        commit([Move.of(final, write) for final in finals])
        return
    (final,) = finals
    os.replace(beside(final, write, "part"), final)
    _confirm(final)


def _confirm(final: Path) -> None:
    try:
        sync_folder(final.parent)
    except OSError:
        raise FileProblem(
            final, "it was written, but the system does not confirm that its name is on disk", "check the disk"
        ) from None


def _discard(finals: Iterable[Path], write: str) -> None:
    """Remove the temporary files of a write, but for those that a record still needs."""
    for final in finals:
        with contextlib.suppress(OSError):
            if not os.path.lexists(record_of(final)):
                beside(final, write, "part").unlink(missing_ok=True)


@contextmanager
def _fresh(final: Path, write: str, *, private: bool) -> Iterator[BinaryIO]:
    """Open the temporary file of a name; nobody but its owner reads one that will be private or replace something."""
    mode = 0o600 if private or _mode(final) is not None else 0o666
    with open(beside(final, write, "part"), "x+b", opener=lambda name, flags: os.open(name, flags, mode)) as file:
        yield file


def _complete(file: BinaryIO, mode: int | None) -> None:
    file.flush()
    if mode is not None:
        os.fchmod(file.fileno(), mode)
    os.fsync(file.fileno())


def _mode(path: Path) -> int | None:
    """Return the permissions of a file that is replaced, None where there is none."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return stat.S_IMODE(found.st_mode) & 0o777 if stat.S_ISREG(found.st_mode) else None


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Write a folder that appears whole, when the block ends without an error, or not at all.

    Raises FileProblem when something has the name, or it cannot be written.

    ``path``: its name, which nothing has.
    Yields: a temporary folder to write into.
    """
    final = canonical(path)
    part = beside(final, token(), "part")
    with locked(final):
        try:
            _sweep([final])
            part.mkdir()
            yield part
            _require_free(final)
            _sync_all(part)
            part.rename(final)
            _confirm(final)
        except BaseException as error:
            with contextlib.suppress(OSError):
                shutil.rmtree(part)
            if not isinstance(error, OSError) or isinstance(error, DiscreetError):
                raise
            raise writing_problem(path, error) from None


def own_folder(path: Path, *, private: bool) -> None:
    """Make a folder to write into where there is none; one that is private is its owner's alone.

    Raises FileProblem when it cannot be made.
    """
    try:
        path.mkdir(mode=0o700 if private else 0o777, parents=True, exist_ok=True)
    except OSError as error:
        raise writing_problem(path, error) from None


def _require_free(path: Path) -> None:
    if os.path.lexists(path):
        raise FileProblem(path, "it exists already", "name a folder that does not exist")


def _sync_all(folder: Path) -> None:
    for name in folder.iterdir():
        descriptor = os.open(name, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    sync_folder(folder)


def _sweep(finals: list[Path]) -> None:
    """Remove what dead writes left in the folders: of these names, which are locked, and of those nobody writes."""
    for final in finals:
        record_of(final).unlink(missing_ok=True)  # of a write that is settled: the first file's record is gone
    for folder in dict.fromkeys(final.parent for final in finals):
        with contextlib.suppress(OSError):
            for path in [path for path in folder.iterdir() if _LITTER.fullmatch(path.name)]:
                _sweep_one(path, finals)


def _sweep_one(path: Path, finals: list[Path]) -> None:
    found = _LITTER.fullmatch(path.name)
    final = path.with_name(found["name"]) if found else path
    with contextlib.suppress(OSError):
        if final in finals:
            _remove(path)
            return
        with locked(final):
            if not os.path.lexists(record_of(final)):
                _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
