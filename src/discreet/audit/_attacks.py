"""Attacks on a release: for each pair of units, which of the two is in the table, and how sure that is. Confidential.

A unit is a record, or all records of a person. The score of a unit is the sum of those of its records, or their mean.
An attack may know everything but the coins: the release, both units of every pair, and all other records of the table.
Nothing that it does can make a right claim look false, so that it need only be good, not proved.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Booleans, Floats, row_numbers
from discreet.audit._coded import Coded

_MOST_TABLES = 100  # two-way tables that are looked at
_MOST_NEIGHBOURS = 20_000  # released records, and others, that distances are taken to
_RIDGE = 1.0

FREQUENCIES, NEIGHBOURS, CLASSIFIER = "frequencies", "nearest neighbours", "classifier"
ATTACKS = (FREQUENCIES, NEIGHBOURS, CLASSIFIER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What an attack sees.

    ``first``, ``second``: the units of the pairs to guess, in an order that says nothing.
    ``unknown``: other pairs whose coins are not known either: twice as many units.
    ``held``: records known to be in the table.
    ``others``: records known not to be in it.
    ``released``: the release.
    """

    first: Coded
    second: Coded
    unknown: Coded
    held: Coded
    others: Coded
    released: Coded


def differences(scene: Scene) -> tuple[list[str], Floats]:
    """Return by how much each score speaks for the first of each pair rather than for the second.

    Returns: the attack that each score belongs to, and an array of shape (pairs, scores).
    """
    found = [(FREQUENCIES, score) for score in _by_frequencies(scene)]
    if scene.released.counts is None:
        found += [(NEIGHBOURS, score) for score in _by_neighbours(scene)]
    scores = np.column_stack([score for _, score in found])
    return [name for name, _ in found], np.nan_to_num(scores, nan=0.0, posinf=1e6, neginf=-1e6)


# -- frequencies ------------------------------------------------------------------------------------------------------


def _by_frequencies(scene: Scene) -> Iterator[Floats]:
    """Yield scores by what the law of a release of frequencies gives: surplus over the expected count, by its spread.

    To first order, the likelihood ratio of the two orders of a pair is the difference of these.
    """
    for resolution, codes in scene.released.codes.items():
        for tables in _families(codes.shape[1]):
            constant, growing = np.zeros(len(scene.first)), np.zeros(len(scene.first))
            for columns in tables:
                one, other = _surplus(scene, resolution, columns)
                constant += one
                growing += other
            yield constant
            yield growing


def _families(columns: int) -> Iterator[list[tuple[int, ...]]]:
    """Yield families of tables: the whole records, pairs of columns, single columns."""
    yield [tuple(range(columns))]
    if columns > 2:
        pairs: list[tuple[int, ...]] = list(combinations(range(columns), 2))
        yield pairs[:: -(-len(pairs) // _MOST_TABLES)]
    if columns > 1:
        yield [(column,) for column in range(columns)]


def _surplus(scene: Scene, resolution: str, columns: tuple[int, ...]) -> tuple[Floats, Floats]:
    """Return the scores by one table of frequencies: with a spread that is the same everywhere, and one that grows."""
    parts = (scene.first, scene.second, scene.unknown, scene.held, scene.released)
    cells = row_numbers(np.concatenate([part.codes[resolution][:, columns] for part in parts]))
    first, second, unknown, held, released = np.split(cells, np.cumsum([len(part.points) for part in parts])[:-1])
    size = int(cells.max()) + 1
    coins = np.bincount(np.concatenate((first, second, unknown)), minlength=size)
    expected = np.bincount(held, minlength=size) + 0.5 * coins
    counts = scene.released.counts
    rate = expected.sum() / len(released) if counts is None else 1.0
    surplus = np.bincount(released, weights=counts, minlength=size) * rate - expected
    spread = 1.0 + 0.25 * coins
    even, growing = surplus / spread, surplus / (spread + rate * expected)
    one, other = (_summed(scene.first, by[first]) - _summed(scene.second, by[second]) for by in (even, growing))
    return one, other


def _summed(units: Coded, values: Floats) -> Floats:
    """Return the sum of a value of each record, unit by unit."""
    if units.sizes is None:
        return values
    found: Floats = np.bincount(units.owners, weights=values, minlength=len(units)).astype(np.float64)
    return found


def _mean(units: Coded, values: Floats) -> Floats:
    return values if units.sizes is None else _summed(units, values) / units.sizes


# -- nearest neighbours -----------------------------------------------------------------------------------------------


def _by_neighbours(scene: Scene) -> Iterator[Floats]:
    """Yield scores by the distance to released records, by itself and beside that to records known not to be in."""
    released = _distances(scene, scene.released)
    others = _distances(scene, scene.others) if len(scene.others.points) else None
    for place in range(released[0].shape[1]):
        first, second = _log_distances(scene, released, place)
        yield second - first
        if others is not None:
            near, far = _log_distances(scene, others, 0)
            yield second - first - (far - near)


def _log_distances(scene: Scene, found: tuple[Floats, Floats], place: int) -> tuple[Floats, Floats]:
    """Return the mean logarithm of the distances of both units of each pair."""
    first, second = (np.log(side[:, place] + 1e-9) for side in found)
    return _mean(scene.first, first), _mean(scene.second, second)


def _distances(scene: Scene, among: Coded) -> tuple[Floats, Floats]:
    """Return the distances of both records of each pair to the nearest and the fifth of other records."""
    from scipy.spatial import cKDTree

    points = among.points[:: -(-len(among.points) // _MOST_NEIGHBOURS)]
    tree, wanted = cKDTree(points), [1, min(5, len(points))]
    return tree.query(scene.first.points, k=wanted)[0], tree.query(scene.second.points, k=wanted)[0]


# -- classifier -------------------------------------------------------------------------------------------------------


def learned(scores: Floats, right: Booleans) -> Floats:
    """Return the weights of scores by which the first of a pair is told from the second: ridge logistic regression.

    ``scores``, shape (pairs, scores): from :func:`differences`, of pairs whose coins are known.
    ``right``: whether the first is in the table.
    """
    scale = np.sqrt((scores**2).mean(axis=0))
    scale[scale == 0.0] = 1.0
    x, signs = scores / scale, np.where(right, 1.0, -1.0)
    weights: npt.NDArray[np.float64] = np.zeros(x.shape[1])
    for _ in range(20):
        chance = 1.0 / (1.0 + np.exp(np.clip(signs * (x @ weights), -30.0, 30.0)))
        gradient = x.T @ (signs * chance) - _RIDGE * weights
        curvature = (x * (chance * (1.0 - chance))[:, None]).T @ x + _RIDGE * np.eye(len(weights))
        weights = weights + np.linalg.solve(curvature, gradient)
    found: Floats = weights / scale
    return found
