"""What is checked of a kernel by running it: its randomness, what it leaves behind, and that it takes every table."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import pickle  # noqa: TID251  # to compare, not to keep
import random  # noqa: TID251  # to refuse what draws from it
import sys
from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any
from unittest import mock

import numpy as np

from discreet._core.random import secure, seeded
from discreet.domain import Records
from discreet.ledger import kept_state
from discreet.mechanisms import Mechanism, Reading, compositions, twin_of
from discreet.testing.enumeration import table_of
from discreet.testing.facts import BUDGET, SIZE, small_domain, small_mechanism

_TABLE, _OTHER_TABLE = (12, 8, 4, 0), (0, 1, 0, 23)
_SEEDS = 8
_SMALL, _LARGE = 8, (0, 1, 7, 1_000, 100_000)
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC
_EVENTS = ("os.remove", "os.rename", "os.mkdir", "os.system", "os.exec", "os.posix_spawn", "subprocess.", "socket.")
_GLOBAL_CHANCE = ("random", "normal", "integers", "randint", "uniform", "laplace", "choice", "shuffle", "permutation")
_GENERATORS = ("default_rng", "RandomState", "PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")


def check_generator(kind: type[Mechanism]) -> None:
    """Assert that a kernel has no other source of chance than the generator it is given."""
    # Equal seeds give equal outputs, and of 8 seeds two give different ones. Given a secure generator, the kernel makes
    # no NumPy generator and draws nothing from the global ones. Noise that the library's laws draw themselves is
    # theirs.
    mechanism, x = small_mechanism(kind), table_of(np.array(_TABLE))
    outputs = [_bytes(mechanism.kernel(x, rng=seeded(seed))) for seed in range(_SEEDS)]
    assert outputs[0] == _bytes(mechanism.kernel(x, rng=seeded(0))), (
        f"the kernel of {kind.__name__} gives two outputs with one seed: it has a generator of its own"
    )
    assert len(set(outputs)) > 1, (
        f"the kernel of {kind.__name__} gives one output with {_SEEDS} seeds: it does not use its generator"
    )
    with _no_other_chance(kind):
        _bytes(mechanism.kernel(x, rng=secure()))


def check_state(kind: type[Mechanism]) -> None:
    """Assert that a kernel keeps nothing of the table on its object, its class or its module."""
    # An object may keep what it computes of its public fields, in cached properties: these are the same whatever the
    # table. A release refuses a kernel that changes its class or module, and never reads the object again.
    mechanism, other = small_mechanism(kind), small_mechanism(kind)
    old = kept_state(kind)
    _bytes(mechanism.kernel(table_of(np.array(_TABLE)), rng=seeded(0)))
    new = kept_state(kind)
    changes = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
    assert not changes, f"the kernel of {kind.__name__} changed {changes[0][1]!r} of {changes[0][0]}"
    _bytes(other.kernel(table_of(np.array(_OTHER_TABLE)), rng=seeded(0)))
    for name in {**vars(mechanism), **vars(other)}:
        cached = isinstance(getattr(kind, name, None), functools.cached_property)
        assert cached or name in kind.__dataclass_fields__, f"a kernel of {kind.__name__} keeps {name!r} on its object"
        values = [getattr(one, name) for one in (mechanism, other)]
        assert _bytes(values[0]) == _bytes(values[1]), (
            f"the kernel of {kind.__name__} leaves a different {name!r} on its object for a different table"
        )


def check_files(kind: type[Mechanism]) -> None:
    """Assert that a kernel writes no file, starts no process, opens no connection and prints nothing."""
    mechanism, x = small_mechanism(kind), table_of(np.array(_TABLE))
    _bytes(mechanism.kernel(x, rng=seeded(0)))  # so that what it imports is loaded
    printed = io.StringIO()
    with _watched() as events, contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        _bytes(mechanism.kernel(x, rng=seeded(0)))
    assert not events, f"the kernel of {kind.__name__} reaches out of its process: {events[0]}"
    assert not printed.getvalue(), f"the kernel of {kind.__name__} prints"


def check_twin(kind: type[Mechanism]) -> None:
    """Assert that a mechanism rebuilt from its parameters reads an output, byte by byte, as the one that made it."""
    mechanism = small_mechanism(kind)
    output: Any = mechanism.kernel(table_of(np.array(_TABLE)), rng=seeded(0))
    if isinstance(output, Iterator):
        output = list(output)
    views = [_view(one.reading(output, n=sum(_TABLE))) for one in (mechanism, twin_of(mechanism, SIZE))]
    for name, view in views[0].items():
        assert view == views[1][name], (
            f"{kind.__name__}: {name} of a reading by the mechanism that made the output differs from that by one "
            "rebuilt from its parameters. A reading may depend on parameters and output alone"
        )


def check_tables(kind: type[Mechanism]) -> None:
    """Assert that a kernel raises for no table of 8 records on 3 cells, nor some sparse ones: an error would tell."""
    small = kind.calibrated(BUDGET, domain=small_domain(3), n=_SMALL, size=SIZE)
    large = kind.calibrated(BUDGET, domain=small_domain(len(_LARGE)), n=sum(_LARGE), size=SIZE)
    tables = [(small, counts) for counts in compositions(_SMALL, 3)]
    tables += [(large, np.array(counts)) for counts in list(permutations(_LARGE))[::12]]
    for mechanism, counts in tables:
        try:
            _bytes(mechanism.kernel(table_of(counts), rng=seeded(0)))
        except Exception as error:
            raise AssertionError(
                f"the kernel of {kind.__name__} raises {type(error).__name__} for the table {counts.tolist()}"
            ) from error


def _bytes(value: Any) -> bytes:
    """Return what a value consists of, generators read to their end."""
    return pickle.dumps(list(value) if isinstance(value, Iterator) else value)


def _view(reading: Reading) -> dict[str, bytes]:
    """Return all that a reading gives, by its member."""
    members: dict[str, Callable[[], Any]] = {
        "draw": lambda: Records.concatenate(reading.draw(SIZE, rng=seeded(1))).columns,
        "column_shares": lambda: reading.column_shares(rng=seeded(1)),
        "estimates": reading.estimates,
        "outcome": lambda: [code.to_dict() for code in getattr(reading.outcome(), "codes", ())],
    }
    return {name: _bytes(member()) for name, member in members.items()}


@contextlib.contextmanager
def _no_other_chance(kind: type[Mechanism]) -> Iterator[None]:
    """Refuse what makes generators and what draws from the global ones, but to the library's own maker of them."""
    with contextlib.ExitStack() as stack:
        for module, names in ((np.random, (*_GENERATORS, *_GLOBAL_CHANCE)), (random, _GLOBAL_CHANCE)):
            for name in set(names) & set(dir(module)):
                stack.enter_context(mock.patch.object(module, name, _refused(kind, getattr(module, name))))
        yield


def _refused(kind: type[Mechanism], function: Callable[..., Any]) -> Callable[..., Any]:
    def refused(*arguments: Any, **options: Any) -> Any:
        caller = sys._getframe(1).f_globals["__name__"]
        assert caller == secure.__module__, f"the kernel of {kind.__name__} has randomness other than its generator"
        return function(*arguments, **options)

    return refused


_listeners: list[list[str]] = []


@functools.cache
def _install() -> None:
    """Hear of audit events from now on: a hook cannot be taken out again."""

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        writes = event == "open" and isinstance(arguments[2], int) and bool(arguments[2] & _WRITES)
        if _listeners and (writes or event.startswith(_EVENTS)):
            _listeners[-1].append(f"{event} {arguments[0]}")

    sys.addaudithook(hear)


@contextlib.contextmanager
def _watched() -> Iterator[list[str]]:
    """Collect what writes, starts a process or connects."""
    _install()
    events: list[str] = []
    _listeners.append(events)
    try:
        yield events
    finally:
        _listeners.pop()


CHECKS = (check_generator, check_state, check_files, check_twin, check_tables)
