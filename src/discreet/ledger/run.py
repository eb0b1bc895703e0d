"""A run: one object is paid for, makes the promise and reads the table. It is used once."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from threading import Lock
from types import FunctionType, MappingProxyType, ModuleType, SimpleNamespace, TracebackType
from typing import Any, Self, TypeVar, cast

import numpy as np

from discreet._core.errors import ParameterError, RandomnessError, Refused
from discreet._core.files import Keeper
from discreet._core.random import SecureGenerator
from discreet.confidential import Confidential
from discreet.confidential.closed import Provenance
from discreet.confidential.count import public_size
from discreet.confidential.opening import open_confidential
from discreet.domain import Counts
from discreet.domain.records import Units
from discreet.ledger.payment import Payment, paid_facts, require_unseeded
from discreet.ledger.request import Request
from discreet.mechanisms import Mechanism
from discreet.mechanisms.base import PartsMechanism
from discreet.mechanisms.steps import SteppedMechanism, StepsFile, steps_taken

# What a mechanism's class and module hold: a kernel that keeps the table there would give it to what comes after.

_MADE_BY_PYTHON = {
    "__annotations__",
    "__annotations_cache__",
    "__builtins__",
    "__doc__",
    "__warningregistry__",
}
_MOST_LOOKED_AT = 100_000
_PLAIN = (str, bytes, int, float, complex, bool, type(None))


def kept_state(kind: type) -> dict[tuple[str, str], Any]:
    """Return what the classes of a mechanism, and the modules that they are in, hold under each name.

    Containers, arrays, what functions carry along, and what the modules' own classes and their instances hold are
    compared by their content, containers of more than 100,000 entries by their length, all other objects by identity.
    The standard library's own classes, and modules that a name was imported for, are passed over.
    """
    own = [one for one in kind.__mro__ if one.__module__.partition(".")[0] not in sys.stdlib_module_names]
    modules = [sys.modules[name] for name in dict.fromkeys(one.__module__ for one in own) if name in sys.modules]
    holders: list[type | ModuleType] = [*own, *modules]
    names, seen = {one.__name__ for one in modules}, set(map(id, holders))
    return {
        (holder.__name__, name): _mark(value, names, seen)
        for holder in holders
        for name, value in tuple(vars(holder).items())
        if name not in _MADE_BY_PYTHON
        and not (isinstance(value, ModuleType) and sys.modules.get(value.__name__) is value)
    }


def _mark(value: Any, modules: set[str], seen: set[int]) -> list[Any]:
    """Return marks that are equal as long as a value is unchanged; each object is looked at once."""
    marks: list[Any] = []
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, _PLAIN):
            marks.append(repr(one))
            continue
        marks.append(id(one))
        if id(one) in seen or isinstance(one, ModuleType):
            continue
        seen.add(id(one))
        if isinstance(one, (list, tuple, dict, set, frozenset, deque)) and len(one) > _MOST_LOOKED_AT:
            marks.append(len(one))
        elif isinstance(one, np.ndarray) and one.dtype != object:
            marks += [one.shape, sha256(np.ascontiguousarray(one).view(np.uint8).data).hexdigest()]
        elif isinstance(one, bytearray):
            marks.append(bytes(one))
        else:
            parts = (*_parts(one), *_attributes(one, modules))
            marks.append(len(parts))
            left += reversed(parts)
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


T = TypeVar("T")


class Run:
    """One private step on one confidential table: paid for, promised and taken by the same object, once.

    :meth:`discreet.Ledger.pay` makes a run that is paid for, and :meth:`unpaid` one that no ledger knows of. Nothing
    else does. Used as a context, it is settled however the block ends. An error before the block gives the reservation
    back. Once the block has begun, the table counts as opened, and the reservation is spent.

    A mechanism that was not paid for, or whose parameters were not, is refused before it reads the table.
    """

    _request: Request
    _payment: Payment | None
    _mechanism: Mechanism | None
    _made: Mapping[str, Any] | None
    _opened: bool
    _unused: Lock  # taken once; copies of a run share it
    _process: int

    def __init__(self) -> None:
        raise ParameterError("a run is made by Ledger.pay, or by Run.unpaid where there is no ledger")

    @classmethod
    def unpaid(cls, request: Request) -> Self:
        """Return a run that no ledger knows of; :meth:`assign` gives it a mechanism.

        Parameters
        ----------
        request : Request
            The release that is asked for.
        """
        return cls._sealed(request, None)

    @classmethod
    def _sealed(
        cls,
        request: Request,
        payment: Payment | None,
        mechanism: Mechanism | None = None,
        made: Mapping[str, Any] | None = None,
    ) -> Self:
        run = object.__new__(cls)
        run._request, run._payment, run._mechanism, run._made = request, payment, mechanism, made
        run._opened, run._unused, run._process = False, Lock(), os.getpid()
        return run

    # -- what runs ----------------------------------------------------------------------------------------------------

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
        """What a certificate says of the ledger; None where nothing was paid."""
        return None if self._payment is None else self._payment.stamp

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
        made = paid_facts(mechanism, self.request, n=n)
        if self._made is None and self._payment is not None:
            self._payment.calibrated(made)
        self._mechanism, self._made = mechanism, self._made or made
        self._require_as_paid()

    def _require_as_paid(self) -> Mapping[str, Any]:
        """Return what was paid for. Raises Refused where the mechanism, as it is now, is not that."""
        made = self._made
        if made is None or made != paid_facts(self.mechanism, self.request, n=int(made["records"])):
            raise Refused("another mechanism, domain, parameter or number of records was paid for. Pay for this one")
        return made

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
        if getattr(rng, "approximate", False):
            raise RandomnessError("noise of a forecast is drawn in floating point. Give secure() or seeded(...)")
        mechanism, facts = self.mechanism, closed.provenance or Provenance(frame_kind="polars", columns=())
        if not self._opened or self._process != os.getpid():
            raise Refused("a run is for one release, within its with block. Pay for another")
        if facts.unit != self.request.unit:
            raise Refused("the table has another unit than the request. Give both the same")
        made = self._require_as_paid()
        n, hidden = int(made["records"]), self.request.between.name != "replacement"
        if facts.domain != mechanism.domain or not (hidden or public_size(closed) == n):
            raise Refused("the table has another domain or number of records than was paid for. Pay for this table")
        if not self._unused.acquire(blocking=False):
            raise Refused("a run is for one release, within its with block. Pay for another")
        if self._payment is not None:
            require_unseeded(not isinstance(rng, SecureGenerator) or facts.seeded)
            # what is charged is the promise of this very object, as it is now
            self._payment.due(made, mechanism.guarantee(self.request.between, n=n), self.request)
        with self._unchanged():
            output = self._taken(open_confidential(closed, caller=__name__), rng)
        return self._guarded(output) if isinstance(output, Iterator) else output  # drawn while it is written

    def _taken(self, x: Any, rng: np.random.Generator) -> Any:
        """Run the kernel; refuse a table in parts, or by units, that it cannot read."""
        mechanism, watch = self.mechanism, self.request.watch
        by_unit = isinstance(mechanism, PartsMechanism) and mechanism.by_unit
        if isinstance(x, Units) != by_unit:
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
        checkpoint, payment = self.request.checkpoint, self._payment
        paid, note = (None, None) if payment is None else (payment.checkpoint, payment.step)
        return steps_taken(
            mechanism,
            x,
            rng=rng,
            file=None if checkpoint is None else StepsFile(checkpoint.path, mechanism, paid=paid, note=note),
            redraw=checkpoint is not None and checkpoint.redraw,
            stepped=watch.stepped,
            evolved=watch.evolved,
            guard=self._guarded,
        )

    # -- what must not change -----------------------------------------------------------------------------------------

    @contextmanager
    def _unchanged(self) -> Iterator[None]:
        """Refuse a kernel that changes its class or its module, which others could read."""
        before = kept_state(type(self.mechanism))
        yield
        if kept_state(type(self.mechanism)) != before:
            raise Refused(
                f"the kernel of {self.mechanism.name} changed its class or its module, which may hold what it read. "
                "Nothing is released. Keep nothing there"
            )

    def _guarded(self, output: Iterator[T]) -> Iterator[T]:
        """Yield what a kernel gives part by part; before each part, the mechanism must be as it was paid for."""
        ended = object()
        while True:
            self._require_as_paid()
            with self._unchanged():
                part = next(output, ended)
            if part is ended:
                return
            yield cast(T, part)

    # -- the end ------------------------------------------------------------------------------------------------------

    def commit(self, facts: Mapping[str, Any], placed: Mapping[str, Any] = MappingProxyType({"files": []})) -> None:
        """Say, durably, that what is released is complete on the disk, or about to be handed over.

        Parameters
        ----------
        facts : mapping
            Of the certificate.
        placed : mapping
            Which files or folder are on the way to their names, with their hashes.
        """
        if self._payment is not None:
            self._payment.commit({**facts, **placed})

    def keeper(self, facts: Callable[[], Mapping[str, Any]]) -> Any:
        """Return the hook by which a write commits before its files get their names; None where nothing was paid.

        Parameters
        ----------
        facts : callable
            Returns those of the certificate, once all is on the disk.
        """
        payment = self._payment
        return None if payment is None else Keeper(payment.entry, lambda placed: self.commit(facts(), placed))

    def cancel(self) -> None:
        """Give the reservation back, where the block was not entered, so that nothing was opened."""
        if self._payment is not None and not self._opened:
            self._payment.close(None)

    def delivered(self) -> None:
        """Say that the files have their names, or that the tables were handed over."""
        if self._payment is not None:
            self._payment.delivered()

    def __enter__(self) -> Self:
        if self._opened:
            raise ParameterError("a run is entered once. Pay for another")
        if self._payment is not None:
            self._payment.open()
        self._opened = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._unused.acquire(blocking=False)  # nothing runs after the block
        if self._payment is not None:
            self._payment.close(error)
