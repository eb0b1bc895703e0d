"""Distributions nearest to noisy masses, with proof: docs/theory/bounded-lipschitz-projection.md (T14)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from discreet._core.errors import ParameterError
from discreet._core.lazy import spatial
from discreet._core.numeric import Floats, Integers, isotonic

_DIRECT = 50_000  # points in two or more dimensions up to which the transport is solved between all of them
_ALL_PAIRS = 40_000  # pairs of a supply and a deficit up to which all of them are arcs
_FIRST, _MORE = 8, 8  # arcs of each point to begin with, of each kind, and arcs added to each in a round
_COARSER = 8  # points that one point of the coarser picture stands for
_BLOCK = 32  # points of a block in the search for arcs
_ROUNDING = 1e-12  # share of the diameter below which a reduced cost is rounding
_NOTHING = 1e-14  # share of all masses below which what the total lacks is rounding
_METRICS = {1.0: "cityblock", 2.0: "euclidean", math.inf: "chebyshev"}  # by norm


class CertifiedProjection(NamedTuple):
    """Probabilities, and a proof of how near to the nearest they are."""

    probabilities: Floats
    distance: float  # the cost of an explicit plan
    lower_bound: float  # of every distribution on the points: what the potential proves, less what rounding adds to it
    potential: Floats  # 1-Lipschitz, at most the diameter in absolute value

    @property
    def gap(self) -> float:
        """How much nearer a distribution could be at most."""
        return self.distance - self.lower_bound


@dataclass(frozen=True, slots=True)
class Metric:
    """Distance of two points, the p-norm of their difference (``norm`` 1, 2 or infinity)."""

    norm: float
    diameter: float  # the largest distance
    tolerance: float  # of what is sent at least cost

    def distances(self, a: Floats, b: Floats) -> Floats:
        """Return the distance of every row of ``a`` from every row of ``b``."""
        return np.asarray(spatial.distance.cdist(a, b, _METRICS[self.norm]))

    def lengths(self, differences: Floats) -> Floats:
        """Return the norm of every row."""
        return np.asarray(np.linalg.norm(differences, ord=self.norm, axis=1))


class Arcs(NamedTuple):
    """Pairs of a row and a column (of a supply and a deficit), and their distances."""

    row: Integers
    column: Integers
    cost: Floats


@cache
def transport_available() -> bool:
    """Say whether POT, the solver, is installed in a version that takes sparse costs: 0.9.7 or later."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        parts = version("POT").split(".")
    except PackageNotFoundError:
        return False
    return [int(part) for part in parts[:3] if part.isdecimal()] >= [0, 9, 7]


def bounded_lipschitz_projection(
    masses: Floats, points: Floats, *, diameter: float, norm: float = 2.0, tolerance: float = 1e-6
) -> CertifiedProjection:
    """Return the distribution on public points that is nearest to signed masses of any total, with a certificate."""
    # diameter: at least the largest distance of two points. tolerance: of the gap, as a share of the diameter.
    masses, points = np.asarray(masses, np.float64), np.asarray(points, np.float64)
    if points.ndim != 2 or points.shape[0] != len(masses) or not points.shape[1] or not np.isfinite(points).all():
        raise ParameterError("points must be finite coordinates, one row per mass")
    if not 0.0 < diameter < float("inf"):
        raise ParameterError("diameter must be a positive number")
    if np.ptp(points, axis=0).max() > diameter * (1.0 + 1e-9):
        raise ParameterError("diameter is smaller than the distance of two points. Give the diameter of the space")
    metric = Metric(float(norm), float(diameter), tolerance * float(diameter))
    total, size = float(masses.sum()), float(np.abs(masses).sum())
    created = max(0.0, 1.0 - total)
    if masses[masses > 0.0].sum() <= 1.0:  # what is created fills all deficits: nothing is sent
        remains, cost, price = np.maximum(masses, 0.0), 0.0, np.zeros(len(masses))
    elif points.shape[1] == 1 and created <= _NOTHING * size:
        remains, price, order = np.empty(len(masses)), np.empty(len(masses)), np.argsort(points[:, 0])
        remains[order], cost, price[order] = fill_line(masses[order], points[order, 0])
    elif len(masses) <= _DIRECT:
        remains, cost, price = _between_all(masses, points, created, metric)
    else:
        remains, cost, price = _between_groups(masses, points, created, metric)
    probabilities = remains / remains.sum() if remains.any() else np.full(len(masses), 1.0 / len(masses))
    height = diameter
    if created > 0.0:
        height -= 2.0 * diameter - price.max()
    potential = np.clip(height - price, -diameter, diameter)
    # of distances and sums
    rounding = (points.shape[1] + 40) * np.finfo(np.float64).eps * diameter * (1.0 + size)
    proved = max(0.0, float(potential @ masses) - float(potential.max()) - float(rounding))
    return CertifiedProjection(probabilities, diameter * abs(1.0 - total) + cost, proved, potential)


def fill_line(masses: Floats, positions: Floats) -> tuple[Floats, float, Floats]:
    """Fill the negative masses, at increasing positions, from the positive ones alone: as :func:`_between_all`."""
    gaps, walk = np.diff(positions), np.cumsum(masses)
    total, signed = float(walk[-1]), walk[:-1]
    fitted = np.clip(isotonic(signed, gaps), 0.0, total)
    remains = np.maximum(np.diff(fitted, prepend=0.0, append=total), 0.0)
    # Minus the price is the largest potential that the fit allows, at most 0: it falls by the gap where mass moves to
    # the right, rises by it where mass moves to the left, and is made 1-Lipschitz in the coordinates themselves.
    steps = (np.where(side, -gaps, gaps) for side in (signed > fitted, signed < fitted))
    onward, back = (np.concatenate(([0.0], np.cumsum(step))) for step in steps)
    forwards = onward + np.minimum.accumulate(-onward)
    potential, place = np.minimum(forwards, np.minimum.accumulate(back[::-1])[::-1] - back), positions - positions[0]
    right = place + np.minimum.accumulate(potential - place)
    price = -np.minimum(right, np.minimum.accumulate((right + place)[::-1])[::-1] - place)
    return remains, float(gaps @ np.abs(signed - fitted)), np.asarray(price)


def _between_all(masses: Floats, points: Floats, created: float, metric: Metric) -> tuple[Floats, float, Floats]:
    """Return what remains, the cost of sending the rest, and the price of a unit at every point."""
    remains = np.zeros(len(masses))
    remains[masses > 0.0], cost, prices = fill(masses, points, created=created, metric=metric)
    return remains, cost, lowest_potential(points, points[masses < 0.0], prices, metric)


def _between_groups(masses: Floats, points: Floats, created: float, metric: Metric) -> tuple[Floats, float, Floats]:
    """Solve between groups of neighbours, and share what a group keeps among its positive masses."""
    # A plan by way of the groups' centres is added to the cost; prices there, extended to all points, stay a proof.
    label, centres, distances = gathered(points, -(-len(masses) // _DIRECT), metric)
    sums: Floats = np.bincount(label, masses).astype(np.float64)
    remains, cost, price = _between_all(sums, centres, created, metric)
    positive = np.maximum(masses, 0.0)
    supply = np.bincount(label, positive, len(sums))
    share = np.divide(remains, supply, out=np.zeros_like(remains), where=supply > 0.0)
    spread = positive * share[label]
    cost += float(np.abs(masses - spread) @ distances)
    return spread, cost, lowest_potential(points, centres, price, metric)


def gathered(points: Floats, size: int, metric: Metric) -> tuple[Integers, Floats, Floats]:
    """Put points in groups of at most ``size`` neighbours: each one's group, the groups' centres, its distance."""
    blocks = _halved(points, size)
    centres, _ = _balls(points, blocks, metric)
    label = np.empty(len(points), np.int64)
    label[np.concatenate(blocks)] = np.repeat(np.arange(len(blocks)), [len(block) for block in blocks])
    return label, centres, metric.lengths(points - centres[label])


def fill(masses: Floats, points: Floats, *, created: float, metric: Metric) -> tuple[Floats, float, Floats]:
    """Fill the negative masses from the positive ones, and from a created mass put anywhere, at least cost."""
    # Returned are what is left of each supply, what sending the rest costs, and the price of a unit at each deficit.
    # What rounding leaves unfilled is paid for at twice the diameter.
    plus, minus = masses > 0.0, masses < 0.0
    supplies, deficits = masses[plus], -masses[minus]
    if deficits.sum() <= created:
        return supplies, 0.0, np.zeros(len(deficits))
    sources, sinks = points[plus], points[minus]
    arcs = _first_arcs(masses, points, created=created, metric=metric)
    best, prices = -np.inf, np.zeros(len(deficits))
    while True:
        remains, cost, new_prices, rents = _solved(arcs, supplies, deficits, created, metric)
        new = cheapest(sources, -rents - _ROUNDING * metric.diameter, sinks, new_prices, keep=_MORE, metric=metric)
        np.maximum.at(rents, new.row, new_prices[new.column] - new.cost)
        value = float(deficits @ new_prices - supplies @ rents - created * new_prices.max())
        if value > best:
            best, prices = value, new_prices
        wider = _joined(len(deficits), arcs, new)
        if cost - best <= metric.tolerance or len(wider.cost) == len(arcs.cost):
            return remains, cost, prices
        arcs = wider


def lowest_potential(points: Floats, sinks: Floats, prices: Floats, metric: Metric) -> Floats:
    r"""Return :math:`h(x) = \max\{0, \max_j p_j - d(x, y_j)\}`: 1-Lipschitz, and at least ``p_j`` at each ``y_j``."""
    arcs = cheapest(points, np.zeros(len(points)), sinks, prices, keep=1, metric=metric)
    lowest = np.zeros(len(points))
    np.maximum.at(lowest, arcs.row, prices[arcs.column] - arcs.cost)
    return lowest


def cheapest(rows: Floats, limits: Floats, columns: Floats, prices: Floats, *, keep: int, metric: Metric) -> Arcs:
    """Return for each row the columns, ``keep`` at most, with the least ``d(row, column) - price`` below its limit."""
    # Exact: pairs of blocks are left out only where none can be in them.
    parts = [Arcs(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]
    if not len(rows) or not len(columns):
        return parts[0]
    row_blocks, column_blocks = _halved(rows, _BLOCK), _halved(columns, _BLOCK)
    centres, radii = _balls(columns, column_blocks, metric)
    highest = np.array([prices[block].max() for block in column_blocks])
    row_centres, row_radii = _balls(rows, row_blocks, metric)
    for block, centre, radius in zip(row_blocks, row_centres, row_radii, strict=True):
        least = metric.distances(centre[None], centres)[0] - radii - radius - highest
        reachable = np.flatnonzero(least < limits[block].max() + _ROUNDING * metric.diameter)
        if not len(reachable):
            continue
        candidates = np.concatenate([column_blocks[b] for b in reachable])
        distances = metric.distances(rows[block], columns[candidates])
        reduced = distances - prices[candidates]
        if keep == 1:
            place = np.argmin(reduced, axis=1)[:, None]
        else:
            place = np.argpartition(reduced, min(keep, len(candidates)) - 1, axis=1)[:, :keep]
        i, k = np.nonzero(np.take_along_axis(reduced, place, axis=1) < limits[block, None])
        j = place[i, k]
        parts.append(Arcs(block[i], candidates[j], distances[i, j]))
    return Arcs(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def _halved(points: Floats, size: int) -> list[Integers]:
    """Cut points in halves, across the longest side of their box, down to blocks of at most ``size``."""
    blocks: list[Integers] = []
    todo = [np.arange(len(points))]
    while todo:
        block = todo.pop()
        if len(block) <= size:
            blocks.append(block)
            continue
        inside = points[block]
        side = int(np.argmax(np.ptp(inside, axis=0)))
        half = len(block) // 2
        order = np.argpartition(inside[:, side], half)
        todo += [block[order[:half]], block[order[half:]]]
    return blocks


def _balls(points: Floats, blocks: list[Integers], metric: Metric) -> tuple[Floats, Floats]:
    """Return the centre of each block's box, and the largest distance of its points from there."""
    lengths = [len(block) for block in blocks]
    starts = np.cumsum([0, *lengths[:-1]])
    inside = points[np.concatenate(blocks)]
    centres = 0.5 * (np.minimum.reduceat(inside, starts) + np.maximum.reduceat(inside, starts))
    return centres, np.maximum.reduceat(metric.lengths(inside - np.repeat(centres, lengths, axis=0)), starts)


def _first_arcs(masses: Floats, points: Floats, *, created: float, metric: Metric) -> Arcs:
    """Return all pairs where they are few; else the nearest ones, and the likeliest at prices of a coarser picture."""
    plus, minus = masses > 0.0, masses < 0.0
    sources, sinks = points[plus], points[minus]
    if len(sources) * len(sinks) <= _ALL_PAIRS:
        row, column = np.indices((len(sources), len(sinks))).reshape(2, -1)
        return Arcs(row, column, metric.distances(sources, sinks).ravel())
    label, centres, distances = gathered(points, _COARSER, metric)
    sums: Floats = np.bincount(label, masses).astype(np.float64)
    *_, prices = fill(sums, centres, created=created, metric=metric)
    price = lowest_potential(centres, centres[sums < 0.0], prices, metric)[label]
    slack = 8.0 * float(distances.mean())
    pairs = [
        cheapest(sources, slack - price[plus], sinks, price[minus], keep=_FIRST, metric=metric),
        _turned(cheapest(sinks, slack + price[minus], sources, -price[plus], keep=_FIRST, metric=metric)),
        _nearest(sources, sinks, metric),
        _turned(_nearest(sinks, sources, metric)),
    ]
    return _joined(len(sinks), *pairs)


def _nearest(rows: Floats, columns: Floats, metric: Metric) -> Arcs:
    """Return each row's nearest columns."""
    keep = min(_FIRST, len(columns))
    cost, place = spatial.cKDTree(columns).query(rows, range(1, keep + 1), p=metric.norm)
    return Arcs(np.repeat(np.arange(len(rows)), keep), place.ravel(), cost.ravel())


def _turned(arcs: Arcs) -> Arcs:
    return Arcs(arcs.column, arcs.row, arcs.cost)


def _joined(columns: int, *arcs: Arcs) -> Arcs:
    """Return the arcs of all, each once."""
    row, column, cost = (np.concatenate(part) for part in zip(*arcs, strict=True))
    _, places = np.unique(row * columns + column, return_index=True)
    return Arcs(row[places], column[places], cost[places])


def _solved(
    arcs: Arcs, supplies: Floats, deficits: Floats, created: float, metric: Metric
) -> tuple[Floats, float, Floats, Floats]:
    """Return what remains, the cost, the prices and the rents of the least costly filling on these arcs."""
    # Three nodes keep every problem feasible: a sink takes what stays with its supply, a source has the created mass,
    # and another fills any deficit by a detour at twice the diameter.
    if not transport_available():
        raise ParameterError("beyond one dimension, POT 0.9.7 is needed. Install it: pip install 'discreet[transport]'")
    import ot
    import scipy.sparse

    n, k, dearest = len(supplies), len(deficits), 2.0 * metric.diameter
    every, stay, hub, detour = np.arange(k), k, n, n + 1
    row = np.concatenate((arcs.row, np.arange(n), np.full(k, hub), np.full(k, detour), [hub, detour]))
    column = np.concatenate((arcs.column, np.full(n, stay), every, every, [stay, stay]))
    cost = np.concatenate((arcs.cost, np.zeros(n + k), np.full(k, dearest), [0.0, 0.0]))
    out = np.concatenate((supplies, [created, deficits.sum()]))
    total = out.sum()
    into = np.append(deficits, total - deficits.sum())
    costs = scipy.sparse.coo_matrix((cost, (row, column)), shape=(n + 2, k + 1))
    plan, log = ot.emd(
        out / total, into / total, costs, numItermax=2**31 - 1, log=True, center_dual=False, check_marginals=False
    )
    if log.get("warning"):
        raise ParameterError("the transport was not solved. Take fewer points, or masses of a smaller spread")
    sent = scipy.sparse.coo_matrix(plan)
    inside = (sent.row < n) & (sent.col < k)
    i, j, mass = sent.row[inside], sent.col[inside], sent.data[inside] * total
    free = (sent.row == hub) & (sent.col < k)
    inflow = np.bincount(j, mass, k) + np.bincount(sent.col[free], sent.data[free] * total, k)
    remains = supplies - np.bincount(i, mass, n)
    amiss = np.abs(deficits - inflow).sum() + np.maximum(-remains, 0.0).sum()
    lengths = scipy.sparse.csr_matrix((arcs.cost, (arcs.row, arcs.column)), shape=(n, k))
    paid = float(mass @ np.asarray(lengths[i, j]).ravel() + dearest * amiss)
    prices = np.clip(log["v"][:k] - log["v"][stay], 0.0, dearest)
    return np.maximum(remains, 0.0), paid, prices, np.maximum(0.0, -log["u"][:n] - log["v"][stay])
