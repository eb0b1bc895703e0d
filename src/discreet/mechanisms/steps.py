"""How a kernel runs: in steps, which a checkpoint continues, and without a trace in its class or its module."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import FunctionType, MappingProxyType, ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from discreet._core.errors import FileProblem, ParameterError, Refused
from discreet._core.files import locked, require_settled, together
from discreet._core.random import SecureGenerator
from discreet.domain import Parts, Records
from discreet.mechanisms.base import PartsMechanism, Votes, declared
from discreet.privacy import Code


class SteppedMechanism(PartsMechanism):
    """A mechanism whose kernel takes ``steps`` steps, each of which may be long."""

    steps: int

    @abstractmethod
    def further(self, x: Parts, released: list[Votes], *, rng: np.random.Generator) -> Iterator[Votes]:
        """Take the steps that come after those released so far, one at a time.

        ``released``: all steps so far; the caller adds each one to it before it asks for the next.
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

    ``file``: the checkpoint, which is locked for as long as the steps are taken.
    ``stepped``, ``evolved``: called after each step, with the numbers of steps done and of all, and with the step.
    ``guard``: gives the steps on, or refuses what takes them.
    """
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
    """The checkpoint of a run: the steps released so far, in a file that is made at the first step.

    ``mechanism``: a checkpoint of another mechanism or domain is refused.
    ``paid``: how many steps it held, and the file's SHA-256 (None without a file), when the run was paid for.
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
        self.path, self._mechanism, self._paid, self._note = Path(path), mechanism, paid, note
        facts = {
            "version": _VERSION,
            "steps": mechanism.steps,
            "mechanism": mechanism.parameters(),
            "records": declared(mechanism, "records"),
            "domain": mechanism.domain.to_toml(),
        }
        self._run = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    def steps(self, *, redraw: bool = False) -> list[Votes]:
        """Return the steps that were released, none where there is no file.

        Raises FileProblem when the file is no checkpoint, one of another run, or a finished one that was not asked for;
        Refused when it was removed or exchanged since the run was paid for.

        ``redraw``: whether all steps may be there already, so that the table is not asked again.
        """
        checkpoint = _checkpoint_at(self.path)
        if self._paid not in (None, (len(checkpoint.steps), checkpoint.sha256)):
            raise Refused(
                f"the checkpoint {self.path} is not the file that was there when this run was paid for. Put that file "
                "back, or start again without a checkpoint and pay for all steps"
            )
        if checkpoint.sha256 is None:
            return []
        if checkpoint.run != self._run:
            raise FileProblem(
                self.path,
                "it is the checkpoint of a run with another mechanism or domain",
                "continue it with the same parameters, or name another file. What it holds stays spent",
            )
        steps = self._mechanism.steps
        if len(checkpoint.steps) > steps or not all(map(self._mechanism.could_release, checkpoint.steps)):
            raise FileProblem(self.path, "it holds steps that no run of this kind releases", "name another file")
        if len(checkpoint.steps) == steps and not redraw:
            raise FileProblem(
                self.path,
                "all its steps are done, so no step would read the table",
                "name another file for a new run. For other records from the votes it holds, write "
                "out=Output(checkpoint=Checkpoint(..., redraw=True))",
            )
        return checkpoint.steps

    def write(self, steps: list[Votes]) -> None:
        """Replace the file by one with these steps, while it is locked.

        Raises FileProblem when it cannot be written; the file is then as it was.
        """
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
        head = {
            "discreet_checkpoint": _VERSION,
            "run": self._run,
            "steps": layout,
            "digest": _digest(self._run, layout, body),
        }
        with together(self.path, private=True, lock=False) as (file,):
            file.write(json.dumps(head).encode() + b"\n")
            file.write(body)


def checkpoint_state(path: str | os.PathLike[str]) -> tuple[int, str | None]:
    """Return how many steps a checkpoint holds, of whichever run, and its SHA-256; 0 and None where there is no file.

    Raises FileProblem when the file is no checkpoint.
    """
    checkpoint = _checkpoint_at(Path(path))
    return len(checkpoint.steps), checkpoint.sha256


class _Checkpoint(NamedTuple):
    """What a file holds: the digest of its run, its steps, and the SHA-256 of the whole file; None without a file."""

    run: str
    steps: list[Votes]
    sha256: str | None


def _checkpoint_at(path: Path) -> _Checkpoint:
    """Return what a checkpoint holds."""
    require_settled(path)
    if not os.path.lexists(path):
        return _Checkpoint("", [], None)
    try:
        return _read(path)
    except Exception:  # noqa: BLE001  # NumPy's reader fails in many ways on a file that was changed
        raise FileProblem(
            path, "it is not a checkpoint, or was changed", "name the file of an earlier run, or none"
        ) from None


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
    if not isinstance(labels, list) or len(labels) != rows:
        raise ValueError
    if not all(label is None or isinstance(label, str) for label in labels):
        raise ValueError
    column = np.empty(rows, dtype=object)
    column[:] = labels
    return column


# What a mechanism's class and module hold: a kernel that keeps the table there would give it to what comes after.

_MADE_BY_PYTHON = {"__annotations__", "__annotations_cache__", "__builtins__", "__doc__", "__warningregistry__"}
_MOST_LOOKED_AT = 100_000
_PLAIN = (str, bytes, int, float, complex, bool, type(None))


def kept_state(kind: type) -> dict[tuple[str, str], Any]:
    """Return what the classes of a mechanism, and the modules that they are in, hold under each name.

    Containers, arrays, what functions carry along, and what the modules' own classes and their instances hold are
    compared by their content, containers of more than 100,000 entries by their length, all other objects by identity.
    The standard library's own classes, and modules that a name was imported for, are passed over.
    """
    classes = [cls for cls in kind.__mro__ if cls.__module__.partition(".")[0] not in sys.stdlib_module_names]
    modules = [sys.modules[name] for name in dict.fromkeys([cls.__module__ for cls in classes]) if name in sys.modules]
    holders: list[type | ModuleType] = [*classes, *modules]
    names, visited = {module.__name__ for module in modules}, set(map(id, holders))
    return {
        (holder.__name__, name): _marks(value, names, visited)
        for holder in holders
        for name, value in tuple(vars(holder).items())
        if name not in _MADE_BY_PYTHON
        and not (isinstance(value, ModuleType) and sys.modules.get(value.__name__) is value)
    }


def _marks(value: Any, modules: set[str], visited: set[int]) -> list[Any]:
    """Return marks that are equal as long as a value is unchanged; each object is looked at once."""
    marks: list[Any] = []
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, _PLAIN):
            marks.append(repr(item))
            continue
        marks.append(id(item))
        if id(item) in visited or isinstance(item, ModuleType):
            continue
        visited.add(id(item))
        if isinstance(item, (list, tuple, dict, set, frozenset, deque)) and len(item) > _MOST_LOOKED_AT:
            marks.append(len(item))
        elif isinstance(item, np.ndarray) and item.dtype != object:
            marks += [item.shape, hashlib.sha256(np.ascontiguousarray(item).view(np.uint8).data).hexdigest()]
        elif isinstance(item, bytearray):
            marks.append(bytes(item))
        else:
            parts = (*_parts(item), *_attributes(item, modules))
            marks.append(len(parts))
            stack += reversed(parts)
    return marks


def _parts(value: Any) -> Iterator[Any]:
    """Yield what can change within a value while it stays the same object."""
    if isinstance(value, (dict, MappingProxyType)):
        for key, part in tuple(value.items()):
            yield key
            yield part
    elif isinstance(value, (list, tuple, deque)):
        yield from tuple(value)
    elif isinstance(value, np.ndarray):
        yield from value.ravel().tolist()
    elif isinstance(value, (set, frozenset)):
        yield from sorted(value, key=id)
    elif isinstance(value, FunctionType):
        yield vars(value)
        yield value.__defaults__
        yield value.__kwdefaults__
        for cell in value.__closure__ or ():
            yield getattr(cell, "cell_contents", None)
    elif isinstance(value, (staticmethod, classmethod)):
        yield value.__func__
    elif isinstance(value, property):
        yield from (value.fget, value.fset, value.fdel)


def _attributes(value: Any, modules: set[str]) -> Iterator[Any]:
    """Yield what a class of one of the modules, an instance of one, or a namespace holds."""
    holder = value if isinstance(value, type) else type(value)
    if holder is SimpleNamespace or holder.__module__ in modules:
        for name, part in tuple(getattr(value, "__dict__", {}).items()):
            if name not in _MADE_BY_PYTHON:
                yield name
                yield part
