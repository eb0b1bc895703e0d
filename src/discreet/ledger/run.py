"""A run: one object is paid for, makes the promise and reads the table. It is used once."""

from __future__ import annotations

import hashlib
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from threading import Lock
from types import FunctionType, MappingProxyType, ModuleType, SimpleNamespace
from typing import Any, Self, TypeVar, cast

import numpy as np

from discreet import mechanisms
from discreet._core.boundary import sealed
from discreet._core.errors import DiscreetError, ParameterError, RandomnessError, Refused
from discreet._core.files import OnCommit
from discreet._core.random import ApproximateGenerator, SecureGenerator
from discreet._core.reading import file_sha256
from discreet.confidential import Confidential, Provenance, open_confidential, public_size
from discreet.domain import Counts, Units
from discreet.ledger.events import STATES, Book, LedgerEvent, Page, going_on
from discreet.ledger.filters import Cost
from discreet.ledger.request import Request
from discreet.mechanisms import Mechanism, PartsMechanism, SteppedMechanism
from discreet.privacy import Budget, Guarantee

T = TypeVar("T")


@sealed
class Run:
    """One private step on one confidential table: paid for, promised and taken by the same object, once.

    :meth:`discreet.Ledger.pay` makes a run that is paid for, and :meth:`unpaid` one that no ledger knows of. Nothing
    else does. Used as a context, it is settled however the block ends. Once the block has begun, the table counts as
    opened, and the reservation is spent (FORFEITED, unless the release is committed). A run that was not entered costs
    nothing: :meth:`cancel` gives the reservation back (VOID), as ``discreet ledger recover`` does once its process is
    gone.

    A mechanism that was not paid for, or whose parameters were not, is refused before it reads the table.
    """

    _request: Request
    _mechanism: Mechanism | None
    _purpose: Mapping[str, Any] | None
    _book: Book | None  # None where no ledger pays; then nothing is reserved
    _reservation: LedgerEvent | None
    _state: LedgerEvent | None  # the last event that says the state of the entry
    _cost: Cost | None  # of what ran
    _opened: bool
    _file: Path | None  # what holds the kernel's output, from which the next run goes on where this one dies
    _unused: Lock  # taken once; copies of a run share it
    _process: int

    def __init__(self) -> None:
        raise ParameterError("a run is made by Ledger.pay, or by Run.unpaid where there is no ledger")

    @classmethod
    def unpaid(cls, request: Request) -> Self:
        """Return a run of a request that no ledger knows of; :meth:`assign` gives it a mechanism."""
        run = object.__new__(cls)
        run._request, run._opened, run._unused, run._process = request, False, Lock(), os.getpid()
        run._mechanism = run._purpose = run._book = run._reservation = run._state = run._cost = run._file = None
        return run

    @classmethod
    def _paid(cls, request: Request, book: Book, reservation: LedgerEvent, mechanism: Mechanism | None = None) -> Self:
        run = cls.unpaid(request)
        run._mechanism, run._purpose = mechanism, reservation.facts.get("made")
        run._book, run._reservation, run._state = book, reservation, reservation
        return run

    @property
    def request(self) -> Request:
        """What was asked for."""
        return self._request

    @property
    def mechanism(self) -> Mechanism:
        """What reads the table. Raises ParameterError where it is not known yet."""
        if self._mechanism is None:
            raise ParameterError("this run has no mechanism yet. Call its method assign")
        return self._mechanism

    @property
    def stamp(self) -> dict[str, str] | None:
        """What a certificate says of the ledger: with it, that the ledger was cut or rolled back shows.

        None where no ledger pays.
        """
        if self._book is None or self._state is None:
            return None
        if self._state.state != "OPENED":
            raise ParameterError("this run is not open. Enter its with block, or pay for another where it was used")
        return {"dataset": self._book.dataset, "entry": str(self._state.entry), "head": self._state.hash}

    def assign(self, mechanism: Mechanism, *, n: int) -> None:
        """Give the run its mechanism, once the number of records is known.

        Parameters
        ----------
        mechanism : Mechanism
            The mechanism, calibrated to the request.
        n : int
            The number of records that the guarantee is for, public.

        Raises
        ------
        Refused
            When another mechanism was paid for.
        """
        self.request.require_steps(type(mechanism))
        if self._purpose is None:
            purpose = self.request.purpose(mechanism, n=n)
            self._append("NOTED", {"made": purpose})
            self._purpose = purpose
        self._mechanism = mechanism
        self._require_purpose()

    def _require_purpose(self) -> Mapping[str, Any]:
        """Return what was paid for. Raises Refused where the mechanism, as it is now, is not that."""
        purpose = self._purpose
        if purpose is None or purpose != self.request.purpose(self.mechanism, n=purpose["records"]):
            raise Refused("another mechanism, domain, parameter or number of records was paid for. Pay for this one")
        return purpose

    def execute(self, closed: Confidential[Any], *, rng: np.random.Generator) -> Any:
        """Take the private step, once: the only place where a release gives a confidential table to a kernel.

        Parameters
        ----------
        closed : Confidential
            The table.
        rng : numpy.random.Generator
            Secure where a ledger pays.

        Returns
        -------
        object
            What the kernel gave: public under the guarantee.

        Raises
        ------
        Refused
            When the run was used, the mechanism is not as it was paid for, or a kernel changed its class or module.
        RandomnessError
            When the generator is that of a forecast.
        """
        if isinstance(rng, ApproximateGenerator):
            raise RandomnessError("a generator for forecasts draws noise in floating point. Give secure()")
        mechanism, facts = self.mechanism, closed.provenance or Provenance(frame_kind="polars", columns=())
        if not self._opened or self._process != os.getpid():
            raise Refused("a run is for one release, within its with block. Pay for another")
        if facts.unit != self.request.unit:
            raise Refused("the table has another unit than the request. Give both the same")
        n, n_is_public = self._require_purpose()["records"], self.request.between.name == "replacement"
        if facts.domain != mechanism.domain or (n_is_public and public_size(closed) != n):
            raise Refused("the table has another domain or number of records than was paid for. Pay for this table")
        if not self._unused.acquire(blocking=False):
            raise Refused("a run is for one release, within its with block. Pay for another")
        if self._book is not None and self._reservation is not None:
            require_unseeded(not isinstance(rng, SecureGenerator) or facts.seeded)
            # what is charged is the promise of this very object, as it is now
            self._cost = self._charge(self._book, self._reservation, mechanism.guarantee(self.request.between, n=n))
        with self._require_no_trace():
            output = self._output(open_confidential(closed, caller=__name__), rng)
        if isinstance(output, Iterator):  # drawn while it is written
            return self._parts(output)
        return output

    def _output(self, x: Any, rng: np.random.Generator) -> Any:
        """Run the kernel; refuse a table in parts, or by units, that it cannot read."""
        mechanism, watch = self.mechanism, self.request.watch
        if isinstance(x, Units) != (isinstance(mechanism, PartsMechanism) and mechanism.by_unit):
            raise ParameterError(
                "the table must be read by units for votes of units, and for nothing else. Write "
                "confidential(..., unit=Unit(..., max_records=...), by_unit=True) together with unit_votes=..."
            )
        if not (isinstance(x, Counts) or isinstance(mechanism, PartsMechanism)):
            raise ParameterError(
                f"{mechanism.name} does not read a table in parts. Give it the counts of confidential()"
            )
        if not isinstance(mechanism, SteppedMechanism):
            return mechanism.kernel(x, rng=rng)

        def note(step: int, steps: int) -> None:  # before the checkpoint holds it or anybody sees it
            self._append("NOTED", {"step": step, "of": steps})

        file, redraw, paid = None, False, None
        if (checkpoint := self.request.checkpoint) is not None:
            if self._reservation is not None:
                outputs = self._reservation.facts["held"]
                paid = (outputs["steps"], outputs["sha256"])
            file, redraw = mechanisms.StepsFile(checkpoint.path, mechanism, paid=paid, note=note), checkpoint.redraw
        calls: dict[str, Any] = {"stepped": watch.stepped, "evolved": watch.evolved, "guard": self._parts}
        return mechanisms.steps_taken(mechanism, x, rng=rng, file=file, redraw=redraw, **calls)

    def _charge(self, book: Book, reservation: LedgerEvent, guarantee: Guarantee) -> Cost:
        """Return the cost of a guarantee. Raises Refused where the ledger or a plan does not pay for it."""
        request = self.request
        book.require_covered(request.covered, unit=request.column, kind=guarantee.kind)
        if (part := reservation.facts.get("part")) is not None:
            require_planned(part, self._require_purpose())
        cost = book.cost_of(guarantee, cast("Budget", request.budget))  # pay refuses a request without one
        if reservation.facts.get("free"):
            return reservation.cost
        if not cost.within(reservation.cost):
            raise Refused(
                "the release costs more than was reserved, since its guarantee is not the one that was paid for. "
                "Pay for the mechanism that runs"
            )
        return cost

    def _append(self, state: str, facts: Mapping[str, Any], cost: Cost | None = None) -> None:
        """Say something of the entry, durably; nothing where no ledger pays."""
        if self._book is None or self._reservation is None:
            return
        with self._book.appending() as page:
            if (step := facts.get("step")) is not None:
                _require_step(page, self._reservation, step)
            event = page.append(self._reservation.entry, state, facts=facts, cost=cost)
        if state in STATES:
            self._state = event

    @contextmanager
    def _require_no_trace(self) -> Iterator[None]:
        """Refuse a kernel that changes its class or its module, which others could read."""
        state = kept_state(type(self.mechanism))
        yield
        if kept_state(type(self.mechanism)) != state:
            raise Refused(
                f"the kernel of {self.mechanism.name} changed its class or its module, which may hold what it read. "
                "Nothing is released. Keep nothing there"
            )

    def _parts(self, output: Iterator[T]) -> Iterator[T]:
        """Yield what a kernel gives part by part; before each part, the mechanism must be as it was paid for."""
        ended = object()
        while True:
            self._require_purpose()
            with self._require_no_trace():
                part = next(output, ended)
            if part is ended:
                return
            yield cast(T, part)

    def note_output(self, file: Path, draft: Path) -> None:
        """Say, durably, which file is about to hold the kernel's output: as long as it is there, the entry is open."""
        self._append("NOTED", {"output": os.fspath(file), "sha256": file_sha256(draft)}, self._cost)
        self._file = file

    def commit(self, facts: Mapping[str, Any], placed: Mapping[str, Any] = MappingProxyType({"files": []})) -> None:
        """Say, durably, that what is released is complete on the disk, or about to be handed over.

        ``facts`` are those of the certificate; ``placed`` names the files, or the folder, that wait for their names,
        with their hashes.
        """
        self._append("COMMITTED", {**facts, **placed}, self._cost)

    def on_commit(self, complete: Callable[[Mapping[str, Any]], None]) -> Any:
        """Return the hook by which a write commits before its files get their names; None where no ledger pays.

        ``complete`` calls :meth:`commit`, once all is on the disk.
        """
        return None if self._reservation is None else OnCommit(str(self._reservation.entry), complete)

    def cancel(self) -> None:
        """Give the reservation back, where the block was not entered, so that nothing was opened."""
        if self._state is not None and self._state.state == "RESERVED":
            self._append("VOID", {})

    def deliver(self) -> None:
        """Say that the files have their names, or that the tables were handed over."""
        self._append("DELIVERED", {})

    def __enter__(self) -> Self:
        """Say, durably, that the table is about to be read: from now on the entry is spent."""
        if self._opened:
            raise ParameterError("a run is entered once. Pay for another")
        if self._state is None or self._state.state != "OPENED":  # of a run that died it was opened
            self._append("OPENED", {})
        self._opened = True
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._unused.acquire(blocking=False)  # nothing runs after the block
        text = ""  # what it cost, or how to go on
        if self._file is not None and os.path.lexists(self._file):
            text = going_on(self._file)
        elif self._state is not None and self._state.state == "OPENED":
            try:
                self._append("FORFEITED", {})
            except DiscreetError:  # recovery settles it; what led here is told
                if error is None:
                    raise
            if self._book is not None and self._reservation is not None:
                cost = self._book.currency.words(self._reservation.cost)
                if (part := self._reservation.facts.get("part")) is not None:
                    cost = f"the planned release {part['name']!r}"
                text = f"This try cost {cost}: the table had been opened"
        if error is not None and text:
            vars(error)["cost"] = text
            if not isinstance(error, DiscreetError):
                error.add_note(f"{text}.")


def require_unseeded(seeded: bool) -> None:
    """Refuse a seeded release. Raises Refused."""
    if seeded:
        raise Refused("a seeded release is not for publication, and no ledger pays for it. Leave seed out")


def require_planned(part: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
    """Refuse what is not as a plan declared it, of the facts that are known. Raises Refused."""
    if any(part[key] != facts.get(key, part[key]) for key in ("mechanism", "size", "records", "cells")):
        raise Refused(
            f"the plan declares another mechanism, domain, size or number of records for {part['name']!r}. "
            "Release it with those of the plan"
        )


def _require_step(page: Page, reservation: LedgerEvent, step: int) -> None:
    """Refuse a step that another entry of a run noted, or whose run took steps of another mechanism. Raises Refused."""
    events, remedy = page.run_of(reservation), "Start again with a new checkpoint, and pay for all steps"
    took = {event.entry for event in events if "step" in event.facts} | {events[0].entry, reservation.entry}
    purposes = [event.facts["made"] for event in events if "made" in event.facts and event.entry in took]
    if any(purpose[key] != purposes[0][key] for purpose in purposes for key in ("mechanism", "records", "cells")):
        raise Refused(f"this run goes on from a run with another mechanism, domain or number of records. {remedy}")
    if any(event.facts.get("step", 0) >= step for event in events):
        raise Refused(f"step {step} was taken before, by another entry that goes on from the same checkpoint. {remedy}")


# What a mechanism's class and module hold: a kernel that keeps the table there would give it to what comes after.

_MADE_BY_PYTHON = {
    *("__annotations__", "__annotations_cache__", "__builtins__", "__doc__", "__slotnames__", "__warningregistry__")
}
_MOST_LOOKED_AT = 100_000
_PLAIN = (str, bytes, int, float, complex, bool, type(None))


def kept_state(kind: type) -> dict[tuple[str, str], Any]:
    """Return marks of what the classes of a mechanism, and the modules that they are in, hold under each name."""
    # Content is compared of containers (of large ones the length), arrays, functions and the modules' own classes and
    # instances; identity of all else. Passed over: the standard library's classes, and modules under their own names.
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
            parts = tuple(_parts(item, modules))
            marks.append(len(parts))
            stack += reversed(parts)
    return marks


def _parts(value: Any, modules: set[str]) -> Iterator[Any]:
    """Yield what can change within a value while it stays the same object; attributes, in some modules."""
    holder = value if isinstance(value, type) else type(value)
    if isinstance(value, (dict, MappingProxyType)):
        yield from chain(*tuple(value.items()))
    elif isinstance(value, (list, tuple, deque)):
        yield from tuple(value)
    elif isinstance(value, np.ndarray):
        yield from value.ravel().tolist()
    elif isinstance(value, (set, frozenset)):
        yield from sorted(value, key=id)
    elif isinstance(value, FunctionType):
        yield from (vars(value), value.__defaults__, value.__kwdefaults__)
        yield from [getattr(cell, "cell_contents", None) for cell in value.__closure__ or ()]
    elif isinstance(value, (staticmethod, classmethod, property)):
        yield from [getattr(value, name, None) for name in ("__func__", "fget", "fset", "fdel")]
    if holder is SimpleNamespace or holder.__module__ in modules:
        attributes = tuple(getattr(value, "__dict__", {}).items())
        yield from chain(*[pair for pair in attributes if pair[0] not in _MADE_BY_PYTHON])
