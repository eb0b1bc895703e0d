r"""Filling the deficits of a signed measure from its supplies at the least cost, on few arcs, with prices as proof.

A linear programme over all pairs of a supply and a deficit does not fit into memory much beyond ten thousand points,
but almost no pair is ever used. This starts from the pairs, *arcs*, that a coarser picture of the measure makes likely,
solves the transport on them with the network simplex of POT (extra ``transport``), and adds arcs that would pay at the
prices found, until there are none or the gap is small enough. The search for such arcs goes over blocks of neighbouring
points and skips pairs of blocks that are too far apart to hold one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from discreet._core.arrays import Floats, Integers
from discreet._core.errors import ParameterError

Indices = Integers

_ALL_PAIRS = 40_000
"""Pairs of a supply and a deficit up to which all of them are arcs."""

_FIRST, _MORE = 8, 8
"""Arcs of each point to begin with, of each kind, and arcs added to each in a round."""

_COARSER = 8
"""Points that one point of the coarser picture stands for."""

_BLOCK = 32
"""Points of a block in the search for arcs."""

_ROUNDING = 1e-12
"""Share of the diameter below which a reduced cost is rounding."""

_ITERATIONS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Metric:
    """Distance of two points, the p-norm of their difference; and the diameter.

    ``norm``: 1, 2 or infinity.
    ``diameter``: at least the largest distance.
    """

    norm: float
    diameter: float

    def distances(self, a: Floats, b: Floats) -> Floats:
        """Return the distance of every row of ``a`` from every row of ``b``."""
        from scipy.spatial.distance import cdist

        return np.asarray(cdist(a, b, {1.0: "cityblock", 2.0: "euclidean"}.get(self.norm, "chebyshev")))

    def lengths(self, differences: Floats) -> Floats:
        """Return the norm of every row."""
        return np.asarray(np.linalg.norm(differences, ord=self.norm, axis=1))


class Arcs(NamedTuple):
    """Pairs of a row and a column (of a supply and a deficit), and their distances."""

    row: Indices
    column: Indices
    cost: Floats


class Filling(NamedTuple):
    """What is sent, and at what prices.

    ``kept``, shape (supplies,): what is left of each supply, at least 0.
    ``cost``: of sending the rest; what rounding leaves unfilled is paid for at twice the diameter.
    ``prices``, shape (deficits,): of a unit at each deficit: at least 0.
    """

    kept: Floats
    cost: float
    prices: Floats


class Groups(NamedTuple):
    """Points put together with their neighbours.

    ``label``, shape (V,): the group of each point.
    ``centres``, shape (G, d): of the groups.
    ``away``, shape (V,): distance of each point from its group's centre.
    """

    label: Indices
    centres: Floats
    away: Floats


def gathered(points: Floats, size: int, metric: Metric) -> Groups:
    """Put points together in groups of at most ``size`` neighbours."""
    blocks = _blocks(points, size)
    centres, _ = _balls(points, blocks, metric)
    label = np.empty(len(points), np.int64)
    label[np.concatenate(blocks)] = np.repeat(np.arange(len(blocks)), [len(block) for block in blocks])
    return Groups(label, centres, metric.lengths(points - centres[label]))


@cache
def transport_available() -> bool:
    """Say whether POT, the solver, is installed in a version that takes sparse costs: 0.9.7 or later."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        parts = version("POT").split(".")
    except PackageNotFoundError:
        return False
    return [int(part) for part in parts[:3] if part.isdecimal()] >= [0, 9, 7]


def fill(masses: Floats, points: Floats, *, created: float, metric: Metric, tolerance: float) -> Filling:
    r"""Fill the negative masses from the positive ones, and from a created mass that may appear anywhere.

    .. math:: \min \sum_{ij} d(x_i, y_j) \pi_{ij}, \quad \sum_j \pi_{ij} \le s_i, \quad
        \sum_i \pi_{ij} + w_j = t_j, \quad \sum_j w_j \le c, \quad \pi, w \ge 0.

    Raises ParameterError if POT is not installed, or gives up.

    ``masses``, shape (V,): Supplies ``s``, where positive, and deficits ``t``, where negative. With the created mass
    there is enough.
    ``points``, shape (V, d): where they are.
    ``created``: the created mass ``c``, at least 0.
    ``metric``: Cost of a unit sent.
    ``tolerance``: the search for arcs ends when cost and prices are at most this far apart.
    Returns: Supplies and deficits in the order of the points.
    """
    plus, minus = masses > 0.0, masses < 0.0
    supplies, deficits = masses[plus], -masses[minus]
    if deficits.sum() <= created:
        return Filling(supplies, 0.0, np.zeros(len(deficits)))
    sources, sinks = points[plus], points[minus]
    arcs = _first_arcs(masses, points, created=created, metric=metric, tolerance=tolerance)
    best, prices = -np.inf, np.zeros(len(deficits))
    while True:
        kept, cost, found, rents = _solved(arcs, supplies, deficits, created, metric)
        new = cheapest(sources, -rents - _ROUNDING * metric.diameter, sinks, found, keep=_MORE, metric=metric)
        np.maximum.at(rents, new.row, found[new.column] - new.cost)
        value = float(deficits @ found - supplies @ rents - created * found.max())
        if value > best:
            best, prices = value, found
        wider = _joined(len(deficits), arcs, new)
        if cost - best <= tolerance or len(wider.cost) == len(arcs.cost):
            return Filling(kept, cost, prices)
        arcs = wider


def lowest_potential(points: Floats, sinks: Floats, prices: Floats, metric: Metric) -> Floats:
    r"""Return :math:`h(x) = \max\{0, \max_j p_j - d(x, y_j)\}`: 1-Lipschitz, and at least ``p_j`` at each ``y_j``."""
    found = cheapest(points, np.zeros(len(points)), sinks, prices, keep=1, metric=metric)
    lowest = np.zeros(len(points))
    np.maximum.at(lowest, found.row, prices[found.column] - found.cost)
    return lowest


def cheapest(rows: Floats, limits: Floats, columns: Floats, prices: Floats, *, keep: int, metric: Metric) -> Arcs:
    """Return for each row the columns with the least ``d(row, column) - price``, as far as that is below its limit.

    ``rows``, ``columns``, shapes (R, d) and (C, d): points.
    ``limits``, ``prices``, shapes (R,) and (C,): of the rows and of the columns.
    ``keep``: the most columns returned for a row.
    ``metric``: distance ``d``.
    Returns: Exact: pairs of blocks are left out only where the distance of their boxes allows no pair.
    """
    found = [Arcs(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]
    if not len(rows) or not len(columns):
        return found[0]
    row_blocks, column_blocks = _blocks(rows, _BLOCK), _blocks(columns, _BLOCK)
    centres, radii = _balls(columns, column_blocks, metric)
    highest = np.array([prices[block].max() for block in column_blocks])
    row_centres, row_radii = _balls(rows, row_blocks, metric)
    for block, centre, radius in zip(row_blocks, row_centres, row_radii, strict=True):
        least = metric.distances(centre[None], centres)[0] - radii - radius - highest
        near = np.flatnonzero(least < limits[block].max() + _ROUNDING * metric.diameter)
        if not len(near):
            continue
        candidates = np.concatenate([column_blocks[b] for b in near])
        distances = metric.distances(rows[block], columns[candidates])
        reduced = distances - prices[candidates]
        place = _least(reduced, keep)
        i, k = np.nonzero(np.take_along_axis(reduced, place, axis=1) < limits[block, None])
        j = place[i, k]
        found.append(Arcs(block[i], candidates[j], distances[i, j]))
    return Arcs(*(np.concatenate(part) for part in zip(*found, strict=True)))


def _least(values: Floats, keep: int) -> Indices:
    """Return the places of the ``keep`` least values of each row."""
    if values.shape[1] <= keep:
        return np.broadcast_to(np.arange(values.shape[1]), values.shape)
    if keep == 1:
        return np.asarray(np.argmin(values, axis=1)[:, None])
    return np.asarray(np.argpartition(values, keep - 1, axis=1)[:, :keep])


def _blocks(points: Floats, size: int) -> list[Indices]:
    """Cut points in halves, across the longest side of their box, down to blocks of at most ``size``."""
    cut: list[Indices] = []
    left = [np.arange(len(points))]
    while left:
        block = left.pop()
        if len(block) <= size:
            cut.append(block)
            continue
        inside = points[block]
        side = int(np.argmax(np.ptp(inside, axis=0)))
        half = len(block) // 2
        order = np.argpartition(inside[:, side], half)
        left += [block[order[:half]], block[order[half:]]]
    return cut


def _balls(points: Floats, blocks: list[Indices], metric: Metric) -> tuple[Floats, Floats]:
    """Return the centre of each block's box, and the largest distance of its points from there."""
    lengths = [len(block) for block in blocks]
    starts = np.cumsum([0, *lengths[:-1]])
    order = np.concatenate(blocks)
    inside = points[order]
    centres = 0.5 * (np.minimum.reduceat(inside, starts) + np.maximum.reduceat(inside, starts))
    away = metric.lengths(inside - np.repeat(centres, lengths, axis=0))
    return centres, np.maximum.reduceat(away, starts)


def _first_arcs(masses: Floats, points: Floats, *, created: float, metric: Metric, tolerance: float) -> Arcs:
    """Return all pairs where they are few; else the nearest ones, and the likeliest at prices of a coarser picture."""
    plus, minus = masses > 0.0, masses < 0.0
    sources, sinks = points[plus], points[minus]
    if len(sources) * len(sinks) <= _ALL_PAIRS:
        pairs = np.indices((len(sources), len(sinks))).reshape(2, -1)
        return Arcs(pairs[0], pairs[1], metric.distances(sources, sinks).ravel())
    groups = gathered(points, _COARSER, metric)
    sums: Floats = np.bincount(groups.label, masses).astype(np.float64)
    filling = fill(sums, groups.centres, created=created, metric=metric, tolerance=tolerance)
    price = lowest_potential(groups.centres, groups.centres[sums < 0.0], filling.prices, metric)[groups.label]
    slack = 8.0 * float(groups.away.mean())
    likely = cheapest(sources, slack - price[plus], sinks, price[minus], keep=_FIRST, metric=metric)
    turned = cheapest(sinks, slack + price[minus], sources, -price[plus], keep=_FIRST, metric=metric)
    back = Arcs(turned.column, turned.row, turned.cost)
    return _joined(len(sinks), likely, back, *_nearest(sources, sinks, metric))


def _nearest(sources: Floats, sinks: Floats, metric: Metric) -> tuple[Arcs, Arcs]:
    """Return each source's nearest sinks and each sink's nearest sources."""
    from scipy.spatial import cKDTree

    arcs = []
    for a, b in ((sources, sinks), (sinks, sources)):
        keep = min(_FIRST, len(b))
        cost, place = cKDTree(b).query(a, range(1, keep + 1), p=metric.norm)
        arcs.append(Arcs(np.repeat(np.arange(len(a)), keep), place.ravel(), cost.ravel()))
    return arcs[0], Arcs(arcs[1].column, arcs[1].row, arcs[1].cost)


def _joined(columns: int, *arcs: Arcs) -> Arcs:
    """Return the arcs of all, each once."""
    row, column, cost = (np.concatenate(part) for part in zip(*arcs, strict=True))
    _, first = np.unique(row * columns + column, return_index=True)
    return Arcs(row[first], column[first], cost[first])


def _solved(
    arcs: Arcs, supplies: Floats, deficits: Floats, created: float, metric: Metric
) -> tuple[Floats, float, Floats, Floats]:
    """Return what is kept, the cost, the prices and the rents of the least costly filling on these arcs.

    Three nodes are added, and arcs that keep every problem feasible: a sink takes what stays with its supply; a source
    has the created mass; another fills any deficit by a detour at twice the diameter, that is, by creating mass there
    and destroying it elsewhere.
    """
    if not transport_available():
        raise ParameterError(
            "a projection in two or more dimensions needs POT 0.9.7. Install it: pip install 'discreet[transport]'"
        )
    import ot
    import scipy.sparse

    n, k, far = len(supplies), len(deficits), 2.0 * metric.diameter
    every, stay, hub, detour = np.arange(k), k, n, n + 1
    row = np.concatenate((arcs.row, np.arange(n), np.full(k, hub), np.full(k, detour), [hub, detour]))
    column = np.concatenate((arcs.column, np.full(n, stay), every, every, [stay, stay]))
    cost = np.concatenate((arcs.cost, np.zeros(n + k), np.full(k, far), [0.0, 0.0]))
    out = np.concatenate((supplies, [created, deficits.sum()]))
    total = out.sum()
    into = np.append(deficits, total - deficits.sum())
    plan, log = ot.emd(
        out / total,
        into / total,
        scipy.sparse.coo_matrix((cost, (row, column)), shape=(n + 2, k + 1)),
        numItermax=_ITERATIONS,
        log=True,
        center_dual=False,
        check_marginals=False,
    )
    if log.get("warning"):
        raise ParameterError("the transport was not solved. Take fewer points, or masses of a smaller spread")
    sent = scipy.sparse.coo_matrix(plan)
    moved = (sent.row < n) & (sent.col < k)
    i, j, mass = sent.row[moved], sent.col[moved], sent.data[moved] * total
    free = (sent.row == hub) & (sent.col < k)
    got = np.bincount(j, mass, k) + np.bincount(sent.col[free], sent.data[free] * total, k)
    kept = supplies - np.bincount(i, mass, n)
    amiss = np.abs(deficits - got).sum() + np.maximum(-kept, 0.0).sum()
    lengths = scipy.sparse.csr_matrix((arcs.cost, (arcs.row, arcs.column)), shape=(n, k))
    paid = float(mass @ np.asarray(lengths[i, j]).ravel() + far * amiss)
    prices = np.clip(log["v"][:k] - log["v"][stay], 0.0, far)
    rents = np.maximum(0.0, -log["u"][:n] - log["v"][stay])
    return np.maximum(kept, 0.0), paid, prices, rents
