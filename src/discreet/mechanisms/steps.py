"""Mechanisms that take several private steps: callbacks after each, and a file to continue from."""

from __future__ import annotations

import hashlib
import json
import os
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from discreet._core.errors import FileProblem, ParameterError, Refused
from discreet._core.files import locked, require_settled, together
from discreet._core.random import SecureGenerator
from discreet.domain import Parts, Records
from discreet.mechanisms.base import PartsMechanism, Votes, declared
from discreet.privacy import Code


class SteppedMechanism(PartsMechanism):
    """A mechanism whose kernel takes steps, each of which may be long.

    Attributes
    ----------
    steps : int
        How many.
    """

    steps: int

    @abstractmethod
    def further(self, x: Parts, released: list[Votes], *, rng: np.random.Generator) -> Iterator[Votes]:
        """Take the steps that come after those released so far, one at a time.

        Parameters
        ----------
        x : Parts
            Confidential.
        released : list of Votes
            All steps so far, public; the caller adds each one to it before it asks for the next.
        rng : numpy.random.Generator
            Source of the noise.
        """

    def kernel(self, x: Parts, *, rng: np.random.Generator) -> list[Votes]:
        """Take all steps."""
        return steps_taken(self, x, rng=rng)

    @abstractmethod
    def could_release(self, step: Votes) -> bool:
        """Return whether a step is one that some run could release, by its candidates and votes alone."""

    @abstractmethod
    def shown(self, number: int, step: Votes) -> Any:
        """Return what a step released, as it is shown while the run goes on: public post-processing."""

    @abstractmethod
    def announcement(self) -> Code:
        """Return what the steps will do, before the first one."""


def steps_taken(
    mechanism: SteppedMechanism,
    x: Parts,
    *,
    rng: np.random.Generator,
    file: StepsFile | None = None,
    redraw: bool = False,
    stepped: Callable[[int, int], None] | None = None,
    evolved: Callable[[Any], None] | None = None,
    guard: Callable[[Iterator[Votes]], Iterator[Votes]] = iter,
) -> list[Votes]:
    """Take all steps of a mechanism, those in its checkpoint excepted; each is in the file before anybody sees it.

    Raises FileProblem when the checkpoint cannot be used, or is finished and ``redraw`` is false; ParameterError where
    a run with a checkpoint is seeded.

    ``x``: confidential.
    ``file``: the checkpoint, which is locked for as long as the steps are taken.
    ``redraw``: whether all steps may be in the checkpoint, so that the table is not asked again.
    ``stepped``: called after each step with the number of steps done, and of all.
    ``evolved``: called after each step with what it released.
    ``guard``: gives the steps on, or refuses what takes them.
    """
    if file is not None and not isinstance(rng, SecureGenerator):
        raise ParameterError("a run that continues a checkpoint cannot be seeded. Leave out the checkpoint or the seed")
    with nullcontext() if file is None else file.held():
        released = [] if file is None else file.steps(redraw=redraw)
        for step in guard(mechanism.further(x, released, rng=rng)):
            released.append(step)
            if file is not None:
                file.write(released)
            if evolved is not None:
                evolved(mechanism.shown(len(released), step))
            if stepped is not None:
                stepped(len(released), mechanism.steps)
    return released


# Checkpoints of mechanisms that work in steps: what was released so far, so that no step is paid for twice.
#
# A checkpoint holds noisy votes and the candidates they were cast for: public under the guarantee, like a release. Each
# step is written under another name and renamed before anybody sees its votes, so a run that dies has either released a
# step, and goes on after it, or has not. A lock keeps two runs from continuing the same checkpoint at once. What no
# program can notice is an old copy of the file being continued a second time: that spends the later steps again.
#
# The file is one line of JSON, then the numbers of each step as they are in memory (little-endian, labels as JSON). The
# line says how long everything is and holds a SHA-256 of the public facts and of all that follows. It shows a change by
# accident, not one by somebody who computes it anew; so what is read is checked besides.

_VERSION = 2
_LONGEST_LINE = 1 << 24
_MOST_BYTES = 1 << 33
_MOST_VOTES = 1 << 53
"""Votes of a larger size are no votes: they would not be numbers that floating point tells apart."""

_KINDS = {"i": "<i8", "f": "<f8"}


class StepsFile:
    """The checkpoint of a run: the steps released so far, in a file.

    ``path``: where; made at the first step.
    ``mechanism``: a checkpoint of another mechanism or domain is refused.
    ``paid``: how many steps it held, and the file's SHA-256 (None without a file), when the run was paid for. None
    where nothing was paid.
    ``note``: called with the number of steps done, and of all, before each step is in the file.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        mechanism: SteppedMechanism,
        *,
        paid: tuple[int, str | None] | None = None,
        note: Callable[[int, int], None] | None = None,
    ) -> None:
        self._path, self._mechanism, self._paid, self._note = Path(path), mechanism, paid, note
        facts = {
            "version": _VERSION,
            "steps": mechanism.steps,
            "mechanism": mechanism.parameters(),
            "records": declared(mechanism, "records"),
            "domain": mechanism.domain.to_toml(),
        }
        text = json.dumps(facts, sort_keys=True)
        self._run = hashlib.sha256(text.encode()).hexdigest()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep every other run away from the checkpoint.

        Raises FileProblem when another run holds it, or the folder cannot be written.
        """
        with locked(self._path):
            yield

    def steps(self, *, redraw: bool = False) -> list[Votes]:
        """Return the steps that were released, none where there is no file.

        Raises FileProblem when the file is no checkpoint, one of another run, or a finished one that was not asked for;
        Refused when it was removed or exchanged since the run was paid for.

        ``redraw``: whether all steps may be there already, so that the table is not asked again.
        """
        if self._paid not in (None, checkpoint_state(self._path)):
            raise Refused(
                f"the checkpoint {self._path} is not the file that was there when this run was paid for. Put that file "
                "back, or start again without a checkpoint and pay for all steps"
            )
        found = _found(self._path)
        if found is None:
            return []
        run, released, _ = found
        if run != self._run:
            raise FileProblem(
                self._path,
                "it is the checkpoint of a run with another mechanism or domain",
                "continue it with the same parameters, or name another file. What it holds stays spent",
            )
        steps = self._mechanism.steps
        if len(released) > steps or not all(map(self._mechanism.could_release, released)):
            raise FileProblem(self._path, "it holds steps that no run of this kind releases", "name another file")
        if len(released) == steps and not redraw:
            raise FileProblem(
                self._path,
                "all its steps are done, so no step would read the table",
                "name another file for a new run. For other records from the votes it holds, write "
                "out=Output(checkpoint=Checkpoint(..., redraw=True))",
            )
        return released

    def write(self, steps: list[Votes]) -> None:
        """Replace the file by one with these steps, while it is held.

        Raises FileProblem when it cannot be written; the file is then as it was.
        """
        if self._note is not None:
            self._note(len(steps), self._mechanism.steps)
        described, parts = [], []
        for step in steps:
            columns = [_packed(column) for column in step.candidates.columns]
            described.append({"rows": len(step.votes), "columns": [[kind, len(data)] for kind, data in columns]})
            parts += [step.votes.astype("<i8").tobytes(), *(data for _, data in columns)]
        body = b"".join(parts)
        head = {
            "discreet_checkpoint": _VERSION,
            "run": self._run,
            "steps": described,
            "digest": _digest(self._run, described, body),
        }
        with together(self._path, private=True, lock=False) as (file,):
            file.write(json.dumps(head).encode() + b"\n")
            file.write(body)


def checkpoint_state(path: str | os.PathLike[str]) -> tuple[int, str | None]:
    """Return how many steps a checkpoint holds, of whichever run, and its SHA-256; 0 and None where there is no file.

    Raises FileProblem when the file is no checkpoint.
    """
    found = _found(Path(path))
    return (0, None) if found is None else (len(found.steps), found.sha256)


class _Found(NamedTuple):
    """What a file holds: the digest of its run, its steps, and the SHA-256 of the whole file."""

    run: str
    steps: list[Votes]
    sha256: str


def _found(path: Path) -> _Found | None:
    """Return what a checkpoint holds; None where there is no file."""
    require_settled(path)
    if not os.path.lexists(path):
        return None
    try:
        return _read(path)
    except Exception:  # noqa: BLE001  # NumPy's reader fails in many ways on a file that was changed
        raise FileProblem(
            path, "it is not a checkpoint, or was changed", "name the file of an earlier run, or none"
        ) from None


def _read(path: Path) -> _Found:
    with path.open("rb") as file:
        line = file.readline(_LONGEST_LINE)
        head = json.loads(line)
        if head["discreet_checkpoint"] != _VERSION or not isinstance(head["run"], str):
            raise ValueError
        if line != json.dumps(head).encode() + b"\n":  # a blank that became a tab would be the same JSON
            raise ValueError
        layout = [(_whole(step["rows"]), [_entry(entry) for entry in step["columns"]]) for step in head["steps"]]
        size = sum(8 * rows + sum(length for _, length in columns) for rows, columns in layout)
        if size > _MOST_BYTES or os.fstat(file.fileno()).st_size != len(line) + size:
            raise ValueError
        body = file.read(size)
    if head["digest"] != _digest(head["run"], head["steps"], body):
        raise ValueError
    return _Found(head["run"], _unpacked(layout, memoryview(body)), hashlib.sha256(line + body).hexdigest())


def _digest(run: str, described: list[Any], body: bytes) -> str:
    digest = hashlib.sha256(json.dumps([run, described], sort_keys=True).encode())
    digest.update(body)
    return digest.hexdigest()


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MOST_BYTES:
        raise ValueError
    return value


def _entry(entry: Any) -> tuple[str, int]:
    kind, length = str(entry[0]), _whole(entry[1])
    if kind not in ("i", "f", "labels"):
        raise ValueError
    return kind, length


def _packed(column: np.ndarray[Any, Any]) -> tuple[str, bytes]:
    """Return a column's kind and bytes: numbers as they are, labels as JSON."""
    if column.dtype == object:
        return "labels", json.dumps(column.tolist()).encode()
    return column.dtype.kind, column.astype(_KINDS[column.dtype.kind]).tobytes()


def _unpacked(layout: list[tuple[int, list[tuple[str, int]]]], body: memoryview) -> list[Votes]:
    released, start = [], 0

    def taken(length: int) -> memoryview:
        nonlocal start
        start += length
        return body[start - length : start]

    for rows, columns in layout:
        votes = np.frombuffer(taken(8 * rows), dtype="<i8").astype(np.int64)
        codes = tuple(_column(kind, taken(length), rows) for kind, length in columns)
        if (votes < -_MOST_VOTES).any() or (votes > _MOST_VOTES).any():
            raise ValueError
        released.append(Votes(Records(columns=codes), votes))
    return released


def _column(kind: str, data: memoryview, rows: int) -> np.ndarray[Any, Any]:
    if kind == "labels":
        labels = json.loads(bytes(data))
        if not isinstance(labels, list) or len(labels) != rows:
            raise ValueError
        if not all(label is None or isinstance(label, str) for label in labels):
            raise ValueError
        column = np.empty(rows, dtype=object)
        column[:] = labels
        return column
    if len(data) != 8 * rows:
        raise ValueError
    return np.frombuffer(data, dtype=_KINDS[kind]).astype(np.int64 if kind == "i" else np.float64)
