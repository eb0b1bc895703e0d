"""Which levels of a tree to add noise to: a prediction of the error from public facts alone, and a search."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Floats
from discreet._core.errors import DomainError
from discreet.domain import Domain
from discreet.domain._column import Column
from discreet.mechanisms._tree import Tree
from discreet.mechanisms.noise import NoiseLaw

_WIDEST = 4  # of the steps between levels
_OCCUPIED = 0.125  # share of the nodes that hold records: tables are more concentrated than their bounds


def predicted_error(domain: Domain, n: int, law: NoiseLaw, scale: float, levels: Sequence[int]) -> float:
    """Predict how far a record is displaced on average, as a share of the domain's diameter.

    ``domain``: public.
    ``n``: number of records.
    ``law``, ``scale``: the noise of every node.
    ``levels``: That get noise.

    Notes
    -----
    Splitting a node into halves whose counts are known with variance ``v`` each, given what is below, moves
    ``E|N(0, v/2)|`` records by the distance of the halves, and never more than half of the node's. That half is counted
    for the levels below the last measured one, whose halves are taken for even. Categories without an order are all at
    distance 1: an even block of ``b`` of them misplaces ``1 - 1/b`` at most, of which its own halving is ``1/b``.
    """
    tree = Tree.of(domain)
    measured = np.zeros((1, tree.depth), dtype=bool)
    measured[0, [level - 1 for level in levels]] = True
    spread = np.array([law.standard_deviation(scale)])
    return float(_errors(tree, domain, n, measured, spread, 1.0)[0])


def chosen_levels(domain: Domain, n: int, law: NoiseLaw, scales: Sequence[float]) -> tuple[int, ...]:
    """Return the levels with the least predicted error, what lies within leaves included.

    ``domain``: public.
    ``n``: number of records.
    ``law``: of the noise.
    ``scales``: the scales that the budget asks for with one level and with all of them; between, a power of the number.

    Notes
    -----
    The best of: every level, every second, third or fourth one, upwards from any deepest one. Freer choices predict a
    little less error by leaving the upper levels out, and measure worse: those show where nothing is.
    """
    tree = Tree.of(domain)
    depth = tree.depth
    power = math.log(scales[1] / scales[0]) / math.log(depth) if depth > 1 else 0.0
    spread = np.array([0.0] + [law.standard_deviation(scales[0] * s**power) for s in range(1, depth + 1)])
    level = np.arange(1, depth + 1)
    options = np.array(
        [(level <= last) & ((last - level) % step == 0) for step in range(1, _WIDEST + 1) for last in level]
    )
    found = _errors(tree, domain, n, options, spread[options.sum(axis=1)], _OCCUPIED)
    return tuple(level[options[found.argmin()]].tolist())


def _errors(
    tree: Tree, domain: Domain, n: int, measured: npt.NDArray[np.bool_], spread: Floats, occupied: float
) -> Floats:
    """Return the predicted error for each row of measured levels, with noise of standard deviations ``spread``."""
    weights = [(domain.metric_weights or {}).get(name, 1.0) for name in domain.columns]
    diameter = sum(weights) or 1.0
    ordered = [_ordered(column) for column in domain.columns.values()]
    spread = np.maximum(spread, 1e-300)
    precision = np.zeros(len(measured))  # of a node's count, from its children
    uncut = 0.0
    for c, cuts in enumerate(tree.cuts[-1]):
        whole = max(0.0, 1.0 - 2.0**cuts / tree.sizes[c])
        uncut += weights[c] / diameter * whole * (0.5 * 2.0**-cuts if ordered[c] else 1.0)
    levels = [np.full(len(measured), uncut)]  # what the tree does not cut, were it cut further
    for level in range(measured.shape[1], 0, -1):
        precision = precision + measured[:, level - 1]
        splits = occupied * (tree.nodes(level) - tree.nodes(level - 1))
        c = tree.column_cut(level)
        cuts, weight = tree.cuts[level][c], weights[c] / diameter
        apart = 2.0**-cuts if ordered[c] else 1.0
        most = 0.5 * apart if ordered[c] else min(0.5, 2.0 ** (cuts - 1) / tree.sizes[c])
        with np.errstate(divide="ignore"):
            moved = splits * spread * np.sqrt(1.0 / (math.pi * precision))  # E|N(0, v/2)| = sqrt(v/pi)
        levels.append(weight * np.minimum(apart * moved / n, most))
        precision = 0.5 * precision
    if len(weights) == 1 and ordered[0]:
        return np.asarray(math.sqrt(4.0 / 3.0) * np.sqrt(np.square(levels).sum(axis=0)))
    return np.asarray(np.sum(levels, axis=0))


def _ordered(column: Column) -> bool:
    """Return whether the column's codes have positions; without, any two are at distance 1."""
    try:
        column.positions(np.zeros(1, dtype=np.int64))
    except DomainError:
        return False
    return True
