"""Writing: under another name, locked, swept, checked; then all names at once."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from discreet._core.errors import DiscreetError, FileProblem
from discreet._core.writing.paths import (
    OWN,
    all_locked,
    beside,
    canonical,
    check_outputs,
    file_sha256,
    locked,
    record_of,
    require_own,
    sync_folder,
    token,
    writing_problem,
)
from discreet._core.writing.pending import (
    Keeper,
    Move,
    commit,
    forget,
    is_promised,
    promise,
    recover,
    require_settled,
    require_unpromised,
)

_LITTER = re.compile(r"\.(?P<name>.+)\.(?P<write>[0-9a-f]{12})\.(?:part|old|record)", re.DOTALL)


@contextmanager
def together(
    *paths: Path,
    inputs: Iterable[Any] = (),
    private: bool = False,
    check: Callable[[], None] | None = None,
    held: bool = False,
    keeper: Keeper | None = None,
    hashes: Mapping[Path, str] | None = None,
) -> Iterator[list[BinaryIO]]:
    """Write files that appear all at once, when the block ends without an error; else what was there stays.

    Raises FileProblem when something cannot or must not be written, or another run is writing it.
    """
    check_outputs(paths, inputs)
    finals = [canonical(path) for path in paths]
    for final in finals:
        if held:
            require_settled(final)
        else:
            require_unpromised(final)
            recover(final)
    write, kept = token(), False
    with contextlib.nullcontext() if held else all_locked(sorted(finals)), ExitStack() as stack:
        try:
            _prepare(finals)
            if check is not None:
                check()
            files = [stack.enter_context(_fresh(final, write, private=private)) for final in finals]
            yield files
            for final, file in zip(finals, files, strict=True):
                _complete(file, None if private else _mode(final))
            moves = _all_on_disk(finals, write, [(hashes or {}).get(path) for path in paths])
            if keeper is not None:
                promise(finals, write, keeper.entry)
                keeper.complete(moves)
                kept = True
            _give_names(moves)
            forget(finals, write)
        except BaseException as error:
            if not kept:
                _discard(finals, write)
            if not isinstance(error, OSError) or isinstance(error, DiscreetError):
                raise
            raise writing_problem(paths[0], error) from None


def _prepare(finals: list[Path]) -> None:
    """Refuse names that an unfinished write still needs; sweep away what dead ones left."""
    for final in finals:
        require_unpromised(final)
        require_settled(final)
    _sweep(finals)


def _all_on_disk(finals: list[Path], write: str, hashes: list[str | None]) -> list[Move]:
    for folder in {final.parent for final in finals}:
        sync_folder(folder)
    return [Move.of(final, write, sha256) for final, sha256 in zip(finals, hashes, strict=True)]


def _give_names(moves: list[Move]) -> None:
    if len(moves) > 1:
        commit(moves)
        return
    (move,) = moves
    os.replace(move.new, move.final)
    _confirm(move.final)


def _confirm(final: Path) -> None:
    try:
        sync_folder(final.parent)
    except OSError:
        raise FileProblem(
            final, "it was written, but the system does not confirm that its name is on disk", "check the disk"
        ) from None


def _discard(finals: list[Path], write: str) -> None:
    """Remove the temporary files of a write, but for those that a record still needs."""
    for final in finals:
        with contextlib.suppress(OSError):
            if not os.path.lexists(record_of(final)):
                beside(final, write, "part").unlink(missing_ok=True)
    forget(finals, write)


@contextmanager
def _fresh(final: Path, write: str, *, private: bool) -> Iterator[BinaryIO]:
    """Open the temporary file of a name; nobody but its owner reads one that will be private or replace something."""
    mode = 0o600 if private or _mode(final) is not None else 0o666
    with open(beside(final, write, "part"), "x+b", opener=partial(os.open, mode=mode)) as file:
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
def new_folder(path: Path, *, keeper: Keeper | None = None, folders: Iterable[str] = ()) -> Iterator[Path]:
    """Write a folder that appears whole, when the block ends without an error, or not at all.

    Raises FileProblem when something has the name, or it cannot be written.
    """
    final = canonical(path)
    write, kept = token(), False
    part = beside(final, write, "part")
    with locked(final):
        try:
            require_unpromised(final)
            _sweep([final])
            for one in (part, *map(part.joinpath, folders)):
                one.mkdir()
            yield part
            _require_free(final)
            _remove_drafts(part)
            _sync_all(part)
            if keeper is not None:
                promise([final], write, keeper.entry)
                files = [one for one in _complete_names(part) if one.is_file()]
                keeper.complete(final, write, {str(one.relative_to(part)): file_sha256(one) for one in files})
                kept = True
            part.rename(final)
            _confirm(final)
            if kept:
                forget([final], write)
        except BaseException as error:
            if not kept:
                forget([final], write)
                with contextlib.suppress(OSError):
                    shutil.rmtree(part)
            if not isinstance(error, OSError) or isinstance(error, DiscreetError):
                raise
            raise writing_problem(path, error) from None


@contextmanager
def repeatable(path: Path) -> Iterator[BinaryIO]:
    """Write a file of which every attempt writes the same bytes, into a folder that has no name yet.

    Attempts need no lock, also from several machines: each writes under a name of its own, and the last one wins. What
    dead ones leave is removed by :func:`new_folder`.

    Raises FileProblem when it cannot be written.
    """
    draft = beside(path, token(), "part")
    try:
        with open(draft, "x+b") as file:
            yield file
            _complete(file, None)
        os.replace(draft, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
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


def spill_folder() -> tuple[str, Callable[[], None]]:
    """Make a folder that is its owner's alone, for what a library cannot hold in memory; return what removes it too.

    Raises FileProblem when it cannot be made.
    """
    try:
        path = tempfile.mkdtemp(prefix="discreet-")
    except OSError as error:
        raise writing_problem(Path(tempfile.gettempdir()), error) from None
    return path, partial(shutil.rmtree, path, ignore_errors=True)


def _require_free(path: Path) -> None:
    if os.path.lexists(path):
        raise FileProblem(path, "it exists already", "name a folder that does not exist")


def _remove_drafts(folder: Path) -> None:
    """Remove what dead attempts left."""
    for name in folder.rglob(".*.part"):
        if _LITTER.fullmatch(name.name):
            name.unlink(missing_ok=True)


def _complete_names(folder: Path) -> list[Path]:
    """Return everything in a folder but drafts, which a slow attempt may still be writing, or removing."""
    return sorted(name for name in folder.rglob("*") if not _LITTER.fullmatch(name.name))


def _sync_all(folder: Path) -> None:
    for name in _complete_names(folder):
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
    for folder in {final.parent for final in finals}:
        with contextlib.suppress(OSError):
            for path in [path for path in folder.iterdir() if _LITTER.fullmatch(path.name)]:
                _sweep_one(path, finals)


def _sweep_one(path: Path, finals: list[Path]) -> None:
    found = _LITTER.fullmatch(path.name)
    final = path.with_name(found["name"]) if found else path
    if found and is_promised(final, found["write"]):
        return
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


# Figures, which say within that they are this package's.

_METADATA: dict[str, dict[str, str | None]] = {
    "png": {"Software": OWN},
    "svg": {"Creator": OWN, "Date": None},
    "pdf": {"Creator": OWN},
}


def save_figure(figure: Any, out: str | os.PathLike[str], *, confidential: bool, **settings: Any) -> Path:
    """Write a Matplotlib figure as PNG, SVG or PDF, as its name ends.

    Raises FileProblem when the ending is another one, or it cannot be written.
    """
    path = Path(out)
    kind = path.suffix.lower().removeprefix(".")
    if kind not in _METADATA:
        raise FileProblem(out, "the format is not known by this ending", "end the name in .png, .svg or .pdf")
    with together(path, private=confidential, check=lambda: require_own(path)) as (file,):
        figure.savefig(file, format=kind, metadata=_METADATA[kind], **settings)
    return path
