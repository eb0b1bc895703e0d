"""Checks of every mechanism that run it: its kernel, its share, predictions, estimates, what its output gives away."""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import math
import os
import pickle  # noqa: TID251  # to compare, not to keep
import random  # noqa: TID251  # to refuse what draws from it
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any
from unittest import mock

import numpy as np

from discreet._core.errors import DiscreetError, ParameterError
from discreet._core.numeric import Floats, Integers
from discreet._core.random import secure, seeded
from discreet._core.text import counted
from discreet.confidential import Confidential, confidential
from discreet.domain import Counts, Domain, Numeric, Records
from discreet.ledger import Request, Run, Watch, kept_state
from discreet.mechanisms import Mechanism, Reading, compositions, twin_of
from discreet.privacy import Budget
from discreet.releases import Release, carry_out, offer_of
from discreet.testing.enumeration import table_of
from discreet.testing.facts import BUDGET, RATE, RECORDS, SIZE, small_domain, small_mechanism

_TABLE, _OTHER_TABLE = (12, 8, 4, 0), (0, 1, 0, 23)
_SEEDS = 8
_SMALL, _LARGE = 8, (0, 1, 7, 1_000, 100_000)
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC
_OUTWARD = ("os.remove", "os.rename", "os.mkdir", "os.system", "os.exec", "os.posix_spawn", "subprocess.", "socket.")
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
    watched: Any = mock.patch(f"{__name__}._reached", [])
    _install()
    with watched as events, contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
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

    def refused(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            caller = sys._getframe(1).f_globals["__name__"]
            assert caller == secure.__module__, f"the kernel of {kind.__name__} has randomness other than its generator"
            return function(*arguments, **options)

        return call

    with contextlib.ExitStack() as stack:
        for module, names in ((np.random, (*_GENERATORS, *_GLOBAL_CHANCE)), (random, _GLOBAL_CHANCE)):
            for name in set(names) & set(dir(module)):
                stack.enter_context(mock.patch.object(module, name, refused(getattr(module, name))))
        yield


_reached: list[str] | None = None
"""What writes, starts a process or connects, while a kernel is watched."""


@functools.cache
def _install() -> None:
    """Hear of audit events from now on: a hook cannot be taken out again."""

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        writes = event == "open" and isinstance(arguments[2], int) and bool(arguments[2] & _WRITES)
        if _reached is not None and (writes or event.startswith(_OUTWARD)):
            _reached.append(f"{event} {arguments[0]}")

    sys.addaudithook(hear)


KERNEL_CHECKS = (check_generator, check_state, check_files, check_twin, check_tables)


_SHARE_RUNS = 300
_LINE, _POOR_RECORDS, _POOR_SIZE = 8, 20, 10
_ESTIMATE_RUNS = 1500
_MEAN, _SQUARE = 0.15, 0.4


def check_share(kind: type[Mechanism]) -> None:
    """Assert that the forecast share that is not from the data is at least what 300 releases at a poor budget show."""
    # All records lie at one end of a line of 8 cells: the released records' mean distance from it, as a share of the
    # line, is a lower bound on the share. A right mechanism fails with probability at most the rate; one that displaces
    # its records by 2t more than it states, t = sqrt(log(1/rate) / 600) (Hoeffding; 0.15), passes as rarely.
    displaced = [float(places.sum()) / max(1, len(places)) / (_LINE - 1) for places in _cells(kind)]
    stated, shown = _poor(kind).forecast(_POOR_RECORDS).lost, float(np.mean(displaced))
    assert 0.0 <= stated <= 1.0, f"{kind.__name__} states {stated!r} as the share that is not from the data"
    assert shown <= stated + math.sqrt(-math.log(RATE) / (2 * _SHARE_RUNS)), (
        f"{kind.__name__} states that {stated:.1%} of its records are not from the data; in {_SHARE_RUNS} releases of "
        f"a table in one cell they were displaced by {shown:.1%} of the domain on average"
    )


def _poor(kind: type[Mechanism]) -> Mechanism:
    """Return the mechanism of a poor budget, on a line of 8 cells."""
    budget = Budget(epsilon=0.1, delta=1e-3)
    return kind.calibrated(budget, domain=small_domain(_LINE), n=_POOR_RECORDS, size=_POOR_SIZE)


def _readings(kind: type[Mechanism], rng: np.random.Generator) -> Iterator[Reading]:
    """Yield the readings of releases of a table in one cell."""
    mechanism, table = _poor(kind), table_of(np.array([_POOR_RECORDS] + [0] * (_LINE - 1)))
    twin = twin_of(mechanism, _POOR_SIZE)
    for _ in range(_SHARE_RUNS):
        yield twin.reading(mechanism.kernel(table, rng=rng), n=_POOR_RECORDS)


def _cells(kind: type[Mechanism]) -> list[Integers]:
    rng = seeded(0)
    draws = (reading.draw(_POOR_SIZE, rng=rng) for reading in _readings(kind, rng))
    return [small_domain(_LINE).flat(Records.concatenate(draw)) for draw in draws]


def check_forecast(kind: type[Mechanism]) -> None:
    """Assert that what is forecast of the records' number and law is what releases of that table have."""
    # A mechanism whose forecast displaces records as its releases do fails with probability at most the rate. With
    # N = 300 and t = sqrt(log(4/rate) / (2N)) (Hoeffding, on either mean; 0.16 at 1e-6), forecasts are rejected as
    # surely that are off by 4t; those off by 2t half of the time. So are shares that are released.
    mechanism, allowed = _poor(kind), 2.0 * math.sqrt(math.log(4.0 / RATE) / (2 * _SHARE_RUNS))
    forecast, releases = mechanism.forecast(_POOR_RECORDS), _cells(kind)
    share = float(np.mean([len(places) for places in releases])) / _POOR_SIZE
    assert abs(share - forecast.released_share) <= allowed, (
        f"{kind.__name__} states that {forecast.released_share:.1%} of the records asked for are released; in "
        f"{_SHARE_RUNS} releases {share:.1%} were"
    )
    predicted = 0.5 * forecast.lost if forecast.rest else _displacement(kind)
    displaced = [float(places.mean()) / (_LINE - 1) for places in releases if len(places)]
    assert predicted is None or not displaced or abs(predicted - np.mean(displaced)) <= allowed, (
        f"{kind.__name__} is forecast to displace the records of a table in one cell by {predicted:.1%} of the domain "
        f"on average; {_SHARE_RUNS} releases displaced them by {np.mean(displaced):.1%}"
    )


def _displacement(kind: type[Mechanism]) -> float | None:
    """Return how far the columns' shares of readings displace records on average; None where there are none."""
    rng, moved = seeded(1), []
    for reading in _readings(kind, rng):
        if (columns := reading.column_shares(rng=rng)) is None:
            return None
        ((codes, shares),) = columns
        total = float(shares.sum())
        assert (shares >= 0.0).all(), f"{kind.__name__} has a reading whose column_shares are negative"
        assert total <= 1.0 + 1e-9, f"{kind.__name__} has a reading whose column_shares sum to more than one"
        moved.append(float(codes @ shares) / (_LINE - 1) + 0.5 * (1.0 - total))
    return float(np.mean(moved))


def check_estimates(kind: type[Mechanism]) -> None:
    """Assert that estimated counts of two of four cells, few and many, are unbiased, and as exact as they state."""
    for counts in ((250, 0, 150, 0), (100_000, 0, 1_500, 0)):
        _check_estimates(kind, np.array(counts))


def _check_estimates(kind: type[Mechanism], counts: Integers) -> None:
    # Of every cell's errors in units of their standard error, z, over N = 1500 releases, the mean has to be within 0.15
    # of 0, and the mean square within 0.4 of 1. For noise with tails no heavier than Laplace's, a right mechanism fails
    # with probability at most 1e-6 in all: 2 * 5.2e-8 per cell for the mean (Chernoff, E e^(l z) <= 1 / (1 - l^2/2))
    # and 7.2e-8 for the mean square (from above by Chernoff for z^2 truncated, from below by e^(-N t^2 / (2 E z^4)),
    # E z^4 = 6). With the same noise, a bias of 0.3 standard errors, or errors of 0.65 or 1.5 times those stated, are
    # rejected as surely. Where rare records are left out, the cells that hold records are judged.
    n = int(counts.sum())
    size = min(n, 400)
    mechanism = kind.calibrated(Budget(epsilon=0.5, delta=0.01), domain=small_domain(len(counts)), n=n, size=size)
    rng, x, twin = seeded(0), table_of(counts), twin_of(mechanism, size)
    errors = []
    for _ in range(_ESTIMATE_RUNS):
        estimates = twin.reading(mechanism.kernel(x, rng=rng), n=n).estimates()
        agrees = (estimates is not None) == kind.traits.counts
        assert agrees, f"{kind.__name__}.traits.counts is not what its readings have"
        if estimates is None:
            return
        z = np.full(len(counts), np.nan)  # where there is no count
        cells = mechanism.domain.flat(estimates.records)
        assert len(np.unique(cells)) == len(cells), f"{mechanism.name}.estimates gives a cell twice"
        assert (estimates.standard_errors > 0.0).all(), f"{mechanism.name}.estimates gives a standard error of 0"
        z[cells] = (estimates.counts - counts[cells]) / estimates.standard_errors
        errors.append(z)
    cells = np.flatnonzero(counts) if kind.traits.leaves_out else np.arange(len(counts))
    z = np.array(errors)[:, cells]
    assert not np.isnan(z).any(), f"{kind.__name__}.estimates leaves out a cell that is held, or one of a finite domain"
    for count, mean, square in zip(counts[cells], z.mean(axis=0), (z * z).mean(axis=0), strict=True):
        assert abs(mean) <= _MEAN, (
            f"{kind.__name__}.estimates is biased: {counted(count, 'record')} of a cell are estimated {mean:+.2f} "
            f"standard errors off, on average over {_ESTIMATE_RUNS} releases"
        )
        assert abs(square - 1.0) <= _SQUARE, (
            f"{kind.__name__}.estimates states other standard errors than it has: the errors of a cell of "
            f"{counted(count, 'record')} were {math.sqrt(square):.2f} times as large, over {_ESTIMATE_RUNS} releases"
        )


def check_published_alike(kind: type[Mechanism]) -> None:
    """Assert that all that leaves a release but the drawn values is the same for tables of the same size."""
    # Requests, of which some are refused, are made as discreet.release makes them. What is compared is the certificate
    # (less the time, what the output told, and the number of rows where that is random), columns, types, facts about
    # the run, progress, warnings and log; or the kind and text of the error and of all chained to it.
    for domain, tables in _universes(kind):
        mechanism = small_mechanism(kind, domain=domain)
        closed_tables = [_close(x, domain) for x in tables]
        for name, request in _REQUESTS.items():
            views = [_public_view(mechanism, table, request, seed) for seed, table in enumerate(closed_tables)]
            for view in views[1:]:
                differing = next((key for key in {**views[0], **view} if views[0].get(key) != view.get(key)), None)
                assert differing is None, (
                    f"{kind.__name__}, {name}: two tables of {RECORDS} records are told apart by what is "
                    f"public: {differing}: {views[0].get(differing)!r} and {view.get(differing)!r}"
                )


def _universes(kind: type[Mechanism]) -> Iterator[tuple[Domain, Sequence[Counts]]]:
    """Yield four cells, and an interval if no cells are needed, each with tables of 24 records."""
    frequencies = ((24, 0, 0, 0), (0, 0, 0, 24), (6, 6, 6, 6), (0, 23, 0, 1))
    yield small_domain(), [table_of(np.array(counts)) for counts in frequencies]
    if not kind.traits.needs_cells:
        values: Sequence[Floats] = (np.zeros(24), np.full(24, 1 / 3), np.arange(24) / 23)
        columns = [np.unique(value, return_counts=True) for value in values]
        tables = [Counts(records=Records(columns=(value,)), frequencies=count) for value, count in columns]
        yield Domain(columns={"x": Numeric(lower=0.0, upper=1.0)}), tables


_ANY = Request(size=SIZE, accept=frozenset({"empirical", "poor-utility"}))

_REQUESTS = {
    "records": _ANY,
    "counts": replace(_ANY, counts=True),
    "within the budget": replace(_ANY, budget=BUDGET),
    "beyond the budget": replace(_ANY, budget=Budget(epsilon=1e-3)),
    "poor utility not accepted": replace(_ANY, accept=frozenset()),
    "another size": replace(_ANY, size=SIZE + 1),
}


def _close(x: Counts, domain: Domain) -> Confidential[Counts]:
    records = x.records.take(np.repeat(np.arange(x.distinct), x.frequencies))
    return confidential(domain.decode(records, rng=seeded(0)), domain)


def _release(mechanism: Mechanism, table: Confidential[Counts], request: Request, seed: int) -> Release:
    offer = offer_of(mechanism, request, RECORDS)
    with Run.unpaid(request) as run:
        return carry_out(run, table, offer, rng=seeded(seed), progress=request.watch.progress)


def _public_view(mechanism: Mechanism, table: Confidential[Counts], request: Request, seed: int) -> dict[str, Any]:
    """Return all that is public about one call."""
    texts, root = io.StringIO(), logging.getLogger()
    log, level = logging.StreamHandler(texts), root.level
    log.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    root.addHandler(log)
    root.setLevel(logging.DEBUG)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            outcome = _outcome(mechanism, table, request, seed)
    finally:
        root.removeHandler(log)
        root.setLevel(level)
    return {**outcome, "warnings": [str(item.message) for item in caught], "log": texts.getvalue()}


def _outcome(mechanism: Mechanism, table: Confidential[Counts], request: Request, seed: int) -> dict[str, Any]:
    """Return the error of a call, or all of its release but the drawn values."""
    progress: list[int] = []
    try:
        release = _release(mechanism, table, replace(request, watch=Watch(progress=progress.append)), seed)
    except Exception as error:  # noqa: BLE001  # whatever it is, it must be the same for all tables
        chain: list[tuple[str, str]] = []  # the kinds and texts that its traceback would show
        link: BaseException | None = error
        while link is not None:
            chain.append((type(link).__name__, str(link)))
            link = link.__cause__ if link.__suppress_context__ else link.__context__
        return {"raised": chain}
    document, rows = release.certificate.to_dict(), [release.records.height]
    random_facts = {"outcome", "share_from_data", "pairs_measured", "merged_cells"}
    if mechanism.traits.random_size or (request.counts and mechanism.traits.leaves_out):
        random_facts.add("tables")
        rows.clear()
    if mechanism.traits.random_size:
        progress.clear()
    del document["created"]
    document["released"] = {key: value for key, value in document["released"].items() if key not in random_facts}
    columns = {name: str(dtype) for name, dtype in release.records.schema.items()}
    return {"certificate": document, "columns": columns, "rows": rows, "info": release.info, "progress": progress}


def check_declared(kind: type[Mechanism]) -> None:
    """Assert that nothing is released that the domain declares impossible: a mechanism keeps to that, or is refused."""
    # All records of the table are of cells that are declared impossible, so that the first record catches a follower.
    domain = replace(small_domain(), impossible=[{"cell": {"below": 2}}])
    table = _close(table_of(np.array((24, 0, 0, 0))), domain)
    problem: DiscreetError | None = None
    try:
        _release(small_mechanism(kind, domain=domain), table, _ANY, 0)
    except DiscreetError as error:
        problem = error
    refused = isinstance(problem, ParameterError) and "does not keep what the domain declares" in str(problem)
    keeps = kind.traits.keeps_declared
    assert refused or keeps, f"{kind.__name__} releases a domain although it does not keep what the domain declares"
    assert refused or problem is None, f"{kind.__name__} does not release a domain with impossible records: {problem}"
    assert not (refused and keeps), f"{kind.__name__} says that it keeps what is declared and is refused"


CHECKS = (check_share, check_forecast, check_estimates, check_published_alike, check_declared)
