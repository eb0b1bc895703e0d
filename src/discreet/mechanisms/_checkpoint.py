"""Checkpoints of mechanisms that work in steps: what was released so far, so that no step is paid for twice.

A checkpoint holds noisy votes and the candidates they were cast for: public under the guarantee, like a release. Each
step is written under another name and renamed before anybody sees its votes, so a run that dies has either released a
step, and goes on after it, or has not. A lock keeps two runs from continuing the same checkpoint at once. What no
program can notice is an old copy of the file being continued a second time: that spends the later steps again.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import BadZipFile

import numpy as np

from discreet.domain import Records
from discreet.errors import FileProblem
from discreet.mechanisms._base import Votes

__all__ = ["Checkpoint"]

_VERSION = 1


class Checkpoint:
    """The steps released so far, in a file.

    Parameters
    ----------
    path : path
        Where; made at the first step.
    facts : mapping
        Public facts of the run as JSON values: a checkpoint of another run is refused.
    """

    def __init__(self, path: str | os.PathLike[str], facts: Mapping[str, Any]) -> None:
        self._path = Path(path)
        text = json.dumps({"version": _VERSION, **facts}, sort_keys=True)
        self._run = hashlib.sha256(text.encode()).hexdigest()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep every other run away from the checkpoint.

        Raises
        ------
        FileProblem
            When another run holds it, or the folder cannot be written.
        """
        name = self._path.with_name(f".{self._path.name}.lock")
        try:
            lock = name.open("ab")
        except OSError:
            raise FileProblem(name, "it cannot be written", "check the folder and its permissions") from None
        with lock:
            # A lock on a file that the run before has deleted meanwhile is none.
            if not _locked(lock) or not name.exists() or not os.path.samestat(os.fstat(lock.fileno()), name.stat()):
                raise FileProblem(self._path, "another run is using this checkpoint", "wait for it, or name another")
            try:
                yield
            finally:
                if os.name != "nt":  # Windows deletes no file that is open
                    name.unlink(missing_ok=True)

    def steps(self) -> list[Votes]:
        """Return the steps that were released, none where there is no file.

        Raises
        ------
        FileProblem
            When the file is no checkpoint, or one of another run.
        """
        if not self._path.exists():
            return []
        try:
            with self._path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                run, steps, columns = (str(file["run"]), int(file["steps"]), int(file["columns"]))
                released = [
                    Votes(
                        Records(columns=tuple(_column(file[f"{t}_{c}"]) for c in range(columns))),
                        file[f"{t}_votes"].astype(np.int64),
                    )
                    for t in range(steps)
                ]
            if any(len(column) != len(votes) for candidates, votes in released for column in candidates.columns):
                raise ValueError  # noqa: TRY301
        except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile, zlib.error):
            raise FileProblem(
                self._path, "it is not a checkpoint", "name the file of an earlier run, or none"
            ) from None
        if run != self._run:
            raise FileProblem(
                self._path,
                "it is the checkpoint of a run with another mechanism or domain",
                "continue it with the same parameters, or name another file; what it holds stays spent",
            )
        return released

    def write(self, steps: list[Votes]) -> None:
        """Replace the file by one with these steps.

        Raises
        ------
        FileProblem
            When it cannot be written; the file is then as it was.
        """
        arrays: dict[str, Any] = {}
        for t, step in enumerate(steps):
            arrays[f"{t}_votes"] = step.votes
            arrays |= {f"{t}_{c}": _array(column) for c, column in enumerate(step.candidates.columns)}
        width = len(steps[0].candidates.columns) if steps else 0
        temporary = self._path.with_name(f".{self._path.name}.{os.getpid()}.tmp")
        try:
            with temporary.open("wb") as file:
                np.savez_compressed(file, run=np.array(self._run), steps=len(steps), columns=width, **arrays)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self._path)
        except BaseException as problem:
            temporary.unlink(missing_ok=True)
            if not isinstance(problem, OSError):
                raise
            raise FileProblem(self._path, "it cannot be written", "check the folder and the space left") from None


def _array(column: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a column as an array without Python objects: labels as JSON text."""
    if column.dtype != object:
        return column
    return np.frombuffer(json.dumps(column.tolist()).encode(), dtype=np.uint8)


def _column(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.array(json.loads(array.tobytes()), dtype=object) if array.dtype == np.uint8 else array


def _locked(file: BinaryIO) -> bool:
    """Lock a file until it is closed; the operating system lets go of it when the process ends."""
    try:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
