"""Paths of outputs: what may be written where, and the locks of what is written."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from discreet._core.errors import FileProblem

# Names: what an output may be called, and the names beside it that a write uses.

OWN = "written by discreet"
"""What every page and picture says of itself, so that no other file is replaced by one."""


def token() -> str:
    """Return twelve random hexadecimal digits: the name of one write."""
    return secrets.token_hex(6)


def beside(path: Path, of: str, kind: str) -> Path:
    """Return the name that the write ``of`` uses for a file of some kind, in the folder of ``path``."""
    return path.with_name(f".{path.name}.{of}.{kind}")


def canonical(path: Path) -> Path:
    """Return a name in its folder as it is without links; the name itself may be one."""
    try:
        return path.parent.resolve() / path.name
    except (OSError, RuntimeError, ValueError):
        return path.absolute()


def lock_of(path: Path) -> Path:
    """Return the name of the file that is locked while ``path`` is written."""
    return path.with_name(f".{path.name}.lock")


def record_of(path: Path) -> Path:
    """Return the name of the record that ``path`` belongs to a write under way."""
    return path.with_name(f".{path.name}.pending")


def check_outputs(outputs: Sequence[Path], inputs: Iterable[Any]) -> None:
    """Refuse outputs that are no files, that are one another, or that are inputs, links included.

    Raises FileProblem when something would be overwritten that must not be.
    """
    read = [Path(source) for source in inputs if isinstance(source, (str, os.PathLike))]
    for place, path in enumerate(outputs):
        _check_name(path)
        if any(same_file(path, other) for other in outputs[:place]):
            raise FileProblem(path, "it is the name of two outputs", "give each its own")
        for name in (path, lock_of(path), record_of(path)):
            if any(same_file(name, source) for source in read):
                raise FileProblem(path, "the output is also an input", "give it another name")


def _check_name(path: Path) -> None:
    if "\0" in str(path) or not path.name:
        raise FileProblem(repr(str(path)), "it is not the name of a file", "give another name")
    if not path.parent.is_dir():
        raise FileProblem(path, f"the folder {str(path.parent)!r} does not exist", "create it first")
    with contextlib.suppress(FileNotFoundError):
        kind = path.stat().st_mode
        if stat.S_ISDIR(kind):
            raise FileProblem(path, "it is a folder", "give a file name")
        if not stat.S_ISREG(kind):
            raise FileProblem(path, "it is not an ordinary file", "give another name")


def require_own(path: Path) -> None:
    """Refuse to replace a page or picture that does not say within that it is one of this package's.

    Raises FileProblem when a file has the name and does not.
    """
    if not os.path.lexists(path):
        return
    try:
        own = OWN.encode() in path.read_bytes()
    except OSError:
        own = False
    if not own:
        raise FileProblem(path, "it exists and was not written by discreet", "give another name, or move it away")


def check_writable(path: Path) -> None:
    """Refuse an output whose folder takes no new file. Raises FileProblem when it does not."""
    probe = beside(path, token(), "part")
    try:
        os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        probe.unlink(missing_ok=True)
    except OSError as error:
        raise writing_problem(path, error) from None


def same_file(a: Path, b: Path) -> bool:
    """Return whether two paths lead to one file, through links too."""
    try:
        return a.samefile(b)
    except (OSError, ValueError):
        pass
    try:
        return a.resolve() == b.resolve()
    except (OSError, ValueError, RuntimeError):  # a loop of links
        return False


def file_sha256(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal. Raises FileProblem when it cannot be read."""
    try:
        with open(path, "rb") as data:
            return hashlib.file_digest(data, "sha256").hexdigest()
    except OSError as error:
        raise FileProblem(path, _reason(error, "it cannot be read"), "check the path and its permissions") from None


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk, where the file system can tell."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:  # a folder that may be written and not read
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def writing_problem(path: Path, error: BaseException) -> FileProblem:
    """Return the error of a write that failed and left everything as it was; its text repeats no value."""
    return FileProblem(
        path, _reason(error, "it cannot be written"), "free space or choose another place. Nothing was changed"
    )


def _reason(error: BaseException, otherwise: str) -> str:
    number = getattr(error, "errno", None)
    if isinstance(number, int):
        return f"{otherwise} ({os.strerror(number).lower()})"
    text = str(error).lower()
    for words in ("no space left on device", "file too large", "permission denied", "disk quota exceeded"):
        if words in text:
            return f"{otherwise} ({words})"
    return otherwise


# A lock against a second writer; the operating system lets go of it when a process ends.

_TRIES = 100


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep every other writer away from a name.

    Raises FileProblem when another run holds it, or the folder takes no lock.
    """
    name = lock_of(path)
    descriptor = _taken(name, path)
    try:
        yield
    finally:
        try:
            with contextlib.suppress(OSError):
                name.unlink()
        finally:
            os.close(descriptor)


@contextmanager
def all_locked(paths: Iterable[Path]) -> Iterator[None]:
    """Keep every other writer away from several names."""
    with ExitStack() as stack:
        for path in paths:
            stack.enter_context(locked(path))
        yield


def _taken(name: Path, path: Path) -> int:
    for _ in range(_TRIES):
        descriptor = _attempt(name, path)
        if descriptor is not None:
            return descriptor
    raise _busy(path)


def _attempt(name: Path, path: Path) -> int | None:
    """Return the locked file, or None where the writer before has deleted it meanwhile: a lock on that is none."""
    import fcntl

    flags = os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(name, flags, 0o666)
    except OSError:
        raise FileProblem(path, "its folder cannot be written", "check the folder and its permissions") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size:
            raise FileProblem(name, "it is not an empty file, so it cannot be a lock", "move it away")  # noqa: TRY301
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), os.lstat(name)):
                return descriptor
    except BaseException as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise _busy(path) from None
        if isinstance(error, OSError) and not isinstance(error, FileProblem):
            raise FileProblem(path, "it cannot be locked", "choose a folder whose file system has locks") from None
        raise
    os.close(descriptor)
    return None


def _busy(path: Path) -> FileProblem:
    return FileProblem(path, "another run is using it", "wait for that run, or give another name")
