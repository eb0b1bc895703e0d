"""How a kernel runs in steps, which a checkpoint continues."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from discreet._core.errors import FileProblem, ParameterError, Refused
from discreet._core.files import locked, require_settled, together
from discreet._core.random import SecureGenerator
from discreet.domain import Parts, Records
from discreet.mechanisms.base import SteppedMechanism, Votes, declared


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
    """Take all steps of a mechanism, those in its checkpoint excepted; each is in the file before anybody sees it."""
    # file: the checkpoint, locked meanwhile. stepped, evolved: called after each step, with the numbers of steps done
    # and of all, and with the step. guard: gives the steps on, or refuses what takes them.
    if file is not None and not isinstance(rng, SecureGenerator):
        raise ParameterError("a run that continues a checkpoint cannot be seeded. Leave out the checkpoint or the seed")
    with nullcontext() if file is None else locked(file.path):
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


# A checkpoint holds what was released so far, public like a release, so that no step is paid for twice. Each step is
# written under another name and renamed before anybody sees it. What no program can notice is an old copy that is
# continued a second time. The file is one line of JSON, with the lengths and a SHA-256 of all that follows, then the
# numbers of each step (little-endian, labels as JSON). Somebody may compute the SHA-256 anew: what is read is checked.

_VERSION = 2
_LONGEST_LINE = 1 << 24
_MOST_BYTES = 1 << 33
_MOST_VOTES = 1 << 53
"""Votes of a larger size are no votes: they would not be numbers that floating point tells apart."""

_KINDS = {"i": "<i8", "f": "<f8"}


class StepsFile:
    """The checkpoint of a run: the steps released so far, in a file that is made at the first step."""

    # paid: how many steps it held, and its SHA-256 (None without a file), when the run was paid for. note: called with
    # the number of steps done, and of all, before each step is in the file.

    def __init__(
        self,
        path: str | os.PathLike[str],
        mechanism: SteppedMechanism,
        *,
        paid: tuple[int, str | None] | None = None,
        note: Callable[[int, int], None] | None = None,
    ) -> None:
        self.path, self._mechanism, self._paid, self._note = Path(path), mechanism, paid, note
        facts = {"version": _VERSION, "steps": mechanism.steps, "mechanism": mechanism.parameters()}
        facts |= {"records": declared(mechanism, "records"), "domain": mechanism.domain.to_toml()}
        self._run = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    def steps(self, *, redraw: bool = False) -> list[Votes]:
        """Return the steps that were released, none where there is no file; FileProblem or Refused if it differs."""
        # redraw: whether all steps may be there already, so that the table is not asked again.
        checkpoint = _checkpoint_at(self.path)
        if self._paid not in (None, (len(checkpoint.steps), checkpoint.sha256)):
            raise Refused(
                f"the checkpoint {self.path} is not the file that was there when this run was paid for. Put that file "
                "back, or start again without a checkpoint and pay for all steps"
            )
        if checkpoint.sha256 is None:
            return []
        if checkpoint.run != self._run:
            remedy = "continue it with the same parameters, or name another file. What it holds stays spent"
            raise FileProblem(self.path, "it is the checkpoint of a run with another mechanism or domain", remedy)
        steps = self._mechanism.steps
        if len(checkpoint.steps) > steps or not all(map(self._mechanism.could_release, checkpoint.steps)):
            raise FileProblem(self.path, "it holds steps that no run of this kind releases", "name another file")
        if len(checkpoint.steps) == steps and not redraw:
            problem = "all its steps are done, so no step would read the table"
            remedy = "name another file for a new run. For other records from the votes it holds, write "
            raise FileProblem(self.path, problem, remedy + "out=Output(checkpoint=Checkpoint(..., redraw=True))")
        return checkpoint.steps

    def write(self, steps: list[Votes]) -> None:
        """Replace the file by one with these steps, while it is locked; FileProblem leaves it as it was."""
        if self._note is not None:
            self._note(len(steps), self._mechanism.steps)
        layout, parts = [], []
        for step in steps:
            columns = []
            for codes in step.candidates.columns:
                if codes.dtype == object:
                    columns.append(("labels", json.dumps(codes.tolist()).encode()))
                else:
                    columns.append((codes.dtype.kind, codes.astype(_KINDS[codes.dtype.kind]).tobytes()))
            layout.append({"rows": len(step.votes), "columns": [[kind, len(data)] for kind, data in columns]})
            parts += [step.votes.astype("<i8").tobytes(), *(data for _, data in columns)]
        body = b"".join(parts)
        head = {"discreet_checkpoint": _VERSION, "run": self._run, "steps": layout}
        head["digest"] = _digest(self._run, layout, body)
        with together(self.path, private=True, lock=False) as (file,):
            file.write(json.dumps(head).encode() + b"\n")
            file.write(body)


def checkpoint_state(path: str | os.PathLike[str]) -> tuple[int, str | None]:
    """Return how many steps a checkpoint, of whichever run, holds, and its SHA-256; 0 and None without a file."""
    checkpoint = _checkpoint_at(Path(path))
    return len(checkpoint.steps), checkpoint.sha256


class _Checkpoint(NamedTuple):
    """What a file holds: the digest of its run, its steps, and the SHA-256 of the whole file; None without a file."""

    run: str
    steps: list[Votes]
    sha256: str | None


def _checkpoint_at(path: Path) -> _Checkpoint:
    require_settled(path)
    if not os.path.lexists(path):
        return _Checkpoint("", [], None)
    try:
        return _read(path)
    except Exception:  # noqa: BLE001  # NumPy's reader fails in many ways on a file that was changed
        remedy = "name the file of an earlier run, or none"
        raise FileProblem(path, "it is not a checkpoint, or was changed", remedy) from None


def _read(path: Path) -> _Checkpoint:
    with path.open("rb") as file:
        line = file.readline(_LONGEST_LINE)
        head = json.loads(line)
        layout = head["steps"]
        lengths = [length for step in layout for length in (step["rows"], *(length for _, length in step["columns"]))]
        if not all(type(length) is int and 0 <= length <= _MOST_BYTES for length in lengths):
            raise ValueError
        size = sum(8 * step["rows"] + sum(length for _, length in step["columns"]) for step in layout)
        if size > _MOST_BYTES or os.fstat(file.fileno()).st_size != len(line) + size:
            raise ValueError
        body = file.read(size)
    if head["discreet_checkpoint"] != _VERSION or head["digest"] != _digest(head["run"], layout, body):
        raise ValueError
    # a blank that became a tab would be the same JSON
    if not isinstance(head["run"], str) or line != json.dumps(head).encode() + b"\n":
        raise ValueError
    steps, start, numbers = [], 0, memoryview(body)
    for step in layout:
        parts = []
        for kind, length in [("i", 8 * step["rows"]), *step["columns"]]:
            parts.append(_codes(kind, numbers[start : start + length], step["rows"]))
            start += length
        steps.append(Votes(Records(columns=tuple(parts[1:])), parts[0]))
        if (parts[0] < -_MOST_VOTES).any() or (parts[0] > _MOST_VOTES).any():
            raise ValueError
    return _Checkpoint(head["run"], steps, hashlib.sha256(line + body).hexdigest())


def _digest(run: str, layout: list[Any], body: bytes) -> str:
    digest = hashlib.sha256(json.dumps([run, layout], sort_keys=True).encode())
    digest.update(body)
    return digest.hexdigest()


def _codes(kind: str, data: memoryview, rows: int) -> np.ndarray[Any, Any]:
    """Return the codes of a column, or votes."""
    if kind != "labels":
        codes = np.frombuffer(data, dtype=_KINDS[kind])
        return codes.reshape(rows).astype(codes.dtype.newbyteorder("="))
    labels = json.loads(bytes(data))
    if not isinstance(labels, list) or len(labels) != rows or {*map(type, labels)} - {str, type(None)}:
        raise ValueError
    column = np.empty(rows, dtype=object)
    column[:] = labels
    return column
