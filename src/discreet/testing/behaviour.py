r"""What is checked of every mechanism by running it: its share, predictions, estimates, what its output gives away.

The first three are simulations. Each says how often a right mechanism fails, and which wrong ones it rejects as surely;
the number of runs is derived from that. All take their mechanism as a class, made by its own ``calibrated``.
"""

from __future__ import annotations

import logging
import math
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from discreet._core.arrays import Floats, Integers
from discreet._core.errors import DiscreetError, ParameterError
from discreet._core.random import seeded
from discreet._core.text import counted
from discreet.confidential import Confidential, confidential
from discreet.domain import Counts, Domain, Numeric, Records
from discreet.ledger import Request, Run
from discreet.ledger.request import Watch
from discreet.ledger.run import kept_state
from discreet.mechanisms import Mechanism
from discreet.mechanisms.base import twin_of
from discreet.mechanisms.reading import Estimates
from discreet.privacy import Budget
from discreet.releases.publication import carry_out, offer_of
from discreet.releases.release import Release
from discreet.testing.enumeration import table_of
from discreet.testing.facts import small_domain
from discreet.testing.statistics import RATE

_SHARE_RUNS = 300
_LINE, _POOR_RECORDS, _POOR_SIZE = 8, 20, 10
_ESTIMATE_RUNS = 1500
_MEAN, _SQUARE = 0.15, 0.4


# -- the stated share -------------------------------------------------------------------------------------------------


def check_share(kind: type[Mechanism], *, rate: float = RATE, seed: int = 0) -> None:
    r"""Assert that the stated share that is not from the data is at least what a simulated release shows of it.

    All records of a small table lie at one end of a line of 8 cells, and the budget is poor. Whatever is not from the
    data then moves released records away: their mean distance from that end, as a share of the line, is a lower bound
    on the share of the records that are not from the data, and on the mean displacement. Raises AssertionError when it
    is less.

    ``kind``: Made by its ``calibrated``.
    ``rate``: a mechanism whose share is right fails with probability at most this. With ``N = 300`` releases and ``t =
    sqrt(log(1/rate) / (2N))`` (Hoeffding; 0.15 at 1e-6), one that displaces its records by ``2t`` more than it states
    passes as rarely.
    ``seed``: of the releases.

    Examples
    --------
    >>> from discreet.mechanisms import SmoothedHistogram
    >>> check_share(SmoothedHistogram)
    """
    displaced = [float(places.mean()) / (_LINE - 1) if len(places) else 0.0 for places in _cells(kind, seed)]
    stated, seen = _poor(kind).forecast(_POOR_RECORDS).lost, float(np.mean(displaced))
    allowed = math.sqrt(-math.log(rate) / (2 * _SHARE_RUNS))
    assert 0.0 <= stated <= 1.0, f"{kind.__name__} states {stated!r} as the share that is not from the data"
    assert seen <= stated + allowed, (
        f"{kind.__name__} states that {stated:.1%} of its records are not from the data; in {_SHARE_RUNS} releases of "
        f"a table in one cell they were displaced by {seen:.1%} of the domain on average"
    )


def _poor(kind: type[Mechanism]) -> Mechanism:
    """Return the mechanism of a poor budget, on a line of 8 cells."""
    budget = Budget(epsilon=0.1, delta=1e-3)
    return kind.calibrated(budget, domain=small_domain(_LINE), n=_POOR_RECORDS, size=_POOR_SIZE)


def _one_cell() -> Counts:
    return table_of(np.array([_POOR_RECORDS] + [0] * (_LINE - 1)))


def _cells(kind: type[Mechanism], seed: int) -> list[Integers]:
    """Return the cells of the records of each release of a table in one cell."""
    mechanism, rng, found = _poor(kind), seeded(seed), []
    twin = twin_of(mechanism, _POOR_SIZE)
    for _ in range(_SHARE_RUNS):
        reading = twin.reading(mechanism.kernel(_one_cell(), rng=rng), n=_POOR_RECORDS)
        found.append(mechanism.domain.flat(Records.concatenate(reading.draw(_POOR_SIZE, rng=rng))))
    return found


def check_forecast(kind: type[Mechanism], *, rate: float = RATE, seed: int = 0) -> None:
    r"""Assert that what is forecast of the records' number and law is what releases of a table have.

    Table, budget and number of runs are those of :func:`check_share`.

    Parameters
    ----------
    kind : type of Mechanism
        Made by its ``calibrated``.
    rate : float
        A mechanism whose forecast displaces records as its releases do fails with probability at most this. With
        ``N = 300`` and ``t = sqrt(log(4/rate) / (2N))`` (Hoeffding, on either mean; 0.16 at 1e-6), forecasts are
        rejected as surely that are off by ``4t``; those off by ``2t`` half of the time. So are shares that are
        released.
    seed : int
        Of the releases and of the runs of the kernel.

    Raises
    ------
    AssertionError
        When they are not.

    Examples
    --------
    >>> from discreet.mechanisms import SmoothedHistogram
    >>> check_forecast(SmoothedHistogram)
    """
    mechanism, allowed = _poor(kind), 2.0 * math.sqrt(math.log(4.0 / rate) / (2 * _SHARE_RUNS))
    forecast, releases = mechanism.forecast(_POOR_RECORDS), _cells(kind, seed)
    kept = float(np.mean([len(places) for places in releases])) / _POOR_SIZE
    assert abs(kept - forecast.released_share) <= allowed, (
        f"{kind.__name__} states that {forecast.released_share:.1%} of the records asked for are released; in "
        f"{_SHARE_RUNS} releases {kept:.1%} were"
    )
    predicted = 0.5 * forecast.lost if forecast.rest else _read(kind, seed + 1)
    seen = [float(places.mean()) / (_LINE - 1) for places in releases if len(places)]
    assert predicted is None or not seen or abs(predicted - np.mean(seen)) <= allowed, (
        f"{kind.__name__} is forecast to displace the records of a table in one cell by {predicted:.1%} of the domain "
        f"on average; {_SHARE_RUNS} releases displaced them by {np.mean(seen):.1%}"
    )


def _read(kind: type[Mechanism], seed: int) -> float | None:
    """Return how far the columns' shares of readings displace records on average; None where there are none."""
    mechanism, rng, moved = _poor(kind), seeded(seed), []
    for _ in range(_SHARE_RUNS):
        columns = mechanism.reading(mechanism.kernel(_one_cell(), rng=rng), n=_POOR_RECORDS).column_shares(rng=rng)
        if columns is None:
            return None
        ((codes, shares),) = columns
        total = float(shares.sum())
        assert (shares >= 0.0).all(), f"{kind.__name__} has a reading whose column_shares are negative"
        assert total <= 1.0 + 1e-9, f"{kind.__name__} has a reading whose column_shares sum to more than one"
        moved.append(float(codes @ shares) / (_LINE - 1) + 0.5 * (1.0 - total))
    return float(np.mean(moved))


# -- estimates --------------------------------------------------------------------------------------------------------


def check_estimates(kind: type[Mechanism], *, seed: int = 0) -> None:
    r"""Assert that a mechanism's estimated counts are unbiased, and have the standard errors that are stated.

    A table of 250 and 150 records in two of four cells is released ``N = 1500`` times. Of every cell's errors in units
    of their standard error, ``z``, the mean has to be within 0.15 of 0, and the mean square within 0.4 of 1. For noise
    with tails no heavier than Laplace's, a right mechanism fails with probability at most 1e-6 in all: ``2 * 5.2e-8``
    a cell for the mean (Chernoff, :math:`E e^{\lambda z} \le 1/(1 - \lambda^2/2)`) and ``7.2e-8`` for the mean square
    (from above by Chernoff for :math:`z^2` truncated, from below by :math:`e^{-N t^2 / (2 E z^4)}`, ``E z^4 = 6``).
    With the same noise, a bias of 0.3 standard errors, or errors of 0.65 or 1.5 times those stated, are rejected as
    surely.

    Where rare records are left out (``traits.leaves_out``), the cells that are released are judged. Raises
    AssertionError when they are not.

    ``kind``: Made by its ``calibrated``. One that gives no counts has to refuse to.
    ``seed``: of the releases.

    Examples
    --------
    >>> from discreet.mechanisms import SmoothedHistogram
    >>> check_estimates(SmoothedHistogram)  # it gives none
    """
    held = np.array([250, 0, 150, 0])
    domain, n = small_domain(len(held)), int(held.sum())
    mechanism = kind.calibrated(Budget(epsilon=0.5, delta=0.01), domain=domain, n=n, size=n)
    rng, x, twin = seeded(seed), table_of(held), twin_of(mechanism, n)
    found = []
    for _ in range(_ESTIMATE_RUNS if kind.traits.counts else 1):
        estimates = twin.reading(mechanism.kernel(x, rng=rng), n=n).estimates()
        assert (estimates is not None) == kind.traits.counts, (
            f"{kind.__name__}.traits.counts is not what its readings have"
        )
        if estimates is None:
            return
        found.append(_errors(estimates, mechanism, held))
    judged = np.flatnonzero(held) if kind.traits.leaves_out else np.arange(len(held))
    z = np.array(found)[:, judged]
    assert not np.isnan(z).any(), f"{kind.__name__}.estimates leaves out a cell that is held, or one of a finite domain"
    for cell, mean, square in zip(judged.tolist(), z.mean(axis=0), (z * z).mean(axis=0), strict=True):
        assert abs(mean) <= _MEAN, (
            f"{kind.__name__}.estimates is biased: {counted(held[cell], 'record')} of a cell are estimated {mean:+.2f} "
            f"standard errors off, on average over {_ESTIMATE_RUNS} releases"
        )
        assert abs(square - 1.0) <= _SQUARE, (
            f"{kind.__name__}.estimates states other standard errors than it has: the errors of a cell of "
            f"{counted(held[cell], 'record')} were {math.sqrt(square):.2f} times as large, over "
            f"{_ESTIMATE_RUNS} releases"
        )


def _errors(estimates: Estimates, mechanism: Mechanism, held: Integers) -> Floats:
    """Return the errors of the cells' counts in standard errors; NaN where there is no count."""
    z = np.full(len(held), np.nan)
    cells = mechanism.domain.flat(estimates.records)
    assert len(np.unique(cells)) == len(cells), f"{mechanism.name}.estimates gives a cell twice"
    assert (estimates.standard_errors > 0.0).all(), f"{mechanism.name}.estimates gives a standard error of 0"
    z[cells] = (estimates.counts - held[cells]) / estimates.standard_errors
    return z


# -- non-interference -------------------------------------------------------------------------------------------------


def check_published_alike(kind: type[Mechanism]) -> None:
    """Assert that everything public about a release is the same for tables of the same size, whatever they hold.

    Each of several requests, some of which are refused, is made of every table, as :func:`~discreet.release` makes it.
    What is compared is all that leaves it but the drawn values: the certificate
    (less the time, what the output told, and the number of rows where that is random), columns, types, number of rows,
    public facts about the run, what progress was told, warnings and log records; or else the kind and text of the error
    and of everything chained to it. Raises AssertionError when two tables can be told apart, naming the request.

    ``kind``: Made by its ``calibrated``, on four cells and, if it needs none, on an interval. The tables hold 24
    records in one cell, in another, in all, and in one but for one record; of an interval, one value, another, or all
    different.

    Examples
    --------
    >>> from discreet.mechanisms import SmoothedHistogram
    >>> check_published_alike(SmoothedHistogram)
    """
    for domain, tables in _universes(kind):
        mechanism = kind.calibrated(_BUDGET, domain=domain, n=_RECORDS, size=_SIZE)
        closed = [_closed(x, domain) for x in tables]
        for what, request in _REQUESTS.items():
            first, *others = [_seen(mechanism, table, request, seed) for seed, table in enumerate(closed)]
            for other in others:
                assert other == first, (
                    f"{kind.__name__}, {what}: two tables of {_RECORDS} records are told apart by what is "
                    f"public: {_difference(first, other)}"
                )


_RECORDS, _SIZE = 24, 4
_BUDGET = Budget(epsilon=0.3, delta=0.01)


def _universes(kind: type[Mechanism]) -> Iterator[tuple[Domain, Sequence[Counts]]]:
    held = ((24, 0, 0, 0), (0, 0, 0, 24), (6, 6, 6, 6), (0, 23, 0, 1))
    yield small_domain(), [table_of(np.array(counts)) for counts in held]
    if not kind.traits.needs_cells:
        values: Sequence[Floats] = (np.zeros(24), np.full(24, 1 / 3), np.arange(24) / 23)
        columns = [np.unique(value, return_counts=True) for value in values]
        yield (
            Domain(columns={"x": Numeric(lower=0.0, upper=1.0)}),
            [Counts(records=Records(columns=(value,)), frequencies=count) for value, count in columns],
        )


_ACCEPTED = frozenset({"empirical", "poor-utility"})
_ANY = Request(size=_SIZE, accept=_ACCEPTED)

_REQUESTS = {
    "records": _ANY,
    "counts": replace(_ANY, counts=True),
    "within the budget": replace(_ANY, budget=_BUDGET),
    "beyond the budget": replace(_ANY, budget=Budget(epsilon=1e-3)),
    "poor utility not accepted": replace(_ANY, accept=frozenset()),
    "another size": replace(_ANY, size=_SIZE + 1),
}


def _released(mechanism: Mechanism, table: Confidential[Counts], request: Request, seed: int) -> Release:
    """Release a table with a mechanism."""
    offer = offer_of(mechanism, request, _RECORDS)
    with Run.unpaid(request) as run:
        return carry_out(run, table, offer, rng=seeded(seed), progress=request.watch.progress)


def _closed(x: Counts, domain: Domain) -> Confidential[Counts]:
    records = x.records.take(np.repeat(np.arange(x.distinct), x.frequencies))
    return confidential(domain.decode(records, rng=seeded(0)), domain)


# -- what the kernel leaves behind -------------------------------------------------------------------------------------


def check_state(kind: type[Mechanism]) -> None:
    """Assert that a kernel keeps nothing of the table on its class or in its module, where others could read it.

    What it keeps on its own object is never read: a release reads the output with a mechanism that is built anew. A
    release makes the same comparison and refuses. Raises AssertionError when a class or module is not as it was.

    ``kind``: Made by its ``calibrated``.

    Examples
    --------
    >>> from discreet.mechanisms import SmoothedHistogram
    >>> check_state(SmoothedHistogram)
    """
    made = kind.calibrated(_BUDGET, domain=small_domain(), n=_RECORDS, size=_SIZE)
    before = kept_state(kind)
    output = made.kernel(table_of(np.array((12, 8, 4, 0))), rng=seeded(0))
    if isinstance(output, Iterator):
        deque(output, maxlen=0)
    after = kept_state(kind)
    changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    assert not changed, f"the kernel of {kind.__name__} changed {changed[0][1]!r} of {changed[0][0]}"


# -- what the domain declares -----------------------------------------------------------------------------------------


def check_declared(kind: type[Mechanism]) -> None:
    """Assert that nothing is released that the domain declares impossible: a mechanism keeps to that, or is refused.

    All records of the table are of cells that are declared impossible, so that whoever follows the table is caught at
    the first record. Raises AssertionError when one is released, or a mechanism that does not keep to it is not
    refused.

    ``kind``: Made by its ``calibrated``.

    Examples
    --------
    >>> from discreet.mechanisms import SmoothedHistogram
    >>> check_declared(SmoothedHistogram)
    """
    domain = replace(small_domain(), impossible=[{"cell": {"below": 2}}])
    table = _closed(table_of(np.array((24, 0, 0, 0))), domain)
    problem: DiscreetError | None = None
    try:
        made = kind.calibrated(_BUDGET, domain=domain, n=_RECORDS, size=_SIZE)
        _released(made, table, _ANY, 0)
    except DiscreetError as found:
        problem = found
    refused = isinstance(problem, ParameterError) and "does not keep what the domain declares" in str(problem)
    keeps = kind.traits.keeps_declared
    assert refused or keeps, f"{kind.__name__} releases a domain although it does not keep what it declares"
    assert refused or problem is None, f"{kind.__name__} does not release a domain with impossible records: {problem}"
    assert not (refused and keeps), f"{kind.__name__} says that it keeps what is declared and is refused"


class _Kept(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one record's level and text."""
        self.said.append(f"{record.levelname}: {record.getMessage()}")


def _seen(mechanism: Mechanism, table: Confidential[Counts], request: Request, seed: int) -> dict[str, Any]:
    """Return all that is public about one call."""
    kept, root = _Kept(), logging.getLogger()
    level = root.level
    root.addHandler(kept)
    root.setLevel(logging.DEBUG)
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            result = _result(mechanism, table, request, seed)
    finally:
        root.removeHandler(kept)
        root.setLevel(level)
    return {**result, "warnings": [str(item.message) for item in warned], "log": kept.said}


def _result(mechanism: Mechanism, table: Confidential[Counts], request: Request, seed: int) -> dict[str, Any]:
    progress: list[int] = []
    try:
        released = _released(mechanism, table, replace(request, watch=Watch(progress=progress.append)), seed)
    except Exception as error:  # noqa: BLE001  # whatever it is, it must be the same for all tables
        return {"raised": list(_chain(error))}
    random_rows = mechanism.traits.random_size or (request.counts and mechanism.traits.leaves_out)
    return _public(released, random_rows=random_rows) | {"progress": [] if mechanism.traits.random_size else progress}


def _public(released: Release, *, random_rows: bool) -> dict[str, Any]:
    document = {key: value for key, value in released.certificate.to_dict().items() if key != "created"}
    drawn = {"outcome", "share_from_data", "pairs_measured", "merged_cells"} | ({"tables"} if random_rows else set())
    document["released"] = {key: value for key, value in document["released"].items() if key not in drawn}
    frame = released.records
    return {
        "certificate": document,
        "columns": {name: str(kind) for name, kind in frame.schema.items()},
        "rows": None if random_rows else frame.height,
        "info": released.info,
    }


def _chain(error: BaseException) -> Iterator[tuple[str, str]]:
    """Yield the kinds and texts of an error and of those that its traceback would show."""
    at: BaseException | None = error
    while at is not None:
        yield type(at).__name__, str(at)
        at = at.__cause__ if at.__suppress_context__ else at.__context__


def _difference(one: dict[str, Any], other: dict[str, Any]) -> str:
    name = next(name for name in {**one, **other} if one.get(name) != other.get(name))
    return f"{name}: {one.get(name)!r} and {other.get(name)!r}"
