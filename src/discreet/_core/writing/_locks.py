"""A lock against a second writer; the operating system lets go of it when a process ends."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from discreet._core.errors import FileProblem
from discreet._core.writing._paths import lock_of

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
