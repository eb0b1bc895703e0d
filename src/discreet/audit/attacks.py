"""Attacks on a release: for each pair of units, which of the two is in the table, and how sure that is. Confidential.

A unit is a record, or all records of a person. The score of a unit is the sum of those of its records, or their mean.
An attack may know everything but the coins: the release, both units of every pair, and all other records of the table.
Nothing that it does can make a right claim look false, so that it need only be good, not proved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Booleans, Floats, Integers, row_numbers
from discreet._core.errors import DataError
from discreet._core.random import seeded
from discreet.audit.coded import Coded
from discreet.audit.guesses import Null

_MOST_TABLES = 100  # two-way tables that are looked at
_MOST_NEIGHBOURS = 20_000  # released records, and others, that distances are taken to
_RIDGE = 1.0

FREQUENCIES, NEIGHBOURS, CLASSIFIER = "frequencies", "nearest neighbours", "classifier"
ATTACKS = (FREQUENCIES, NEIGHBOURS, CLASSIFIER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What an attack sees: pairs to guess, others with unknown coins, records known in or out, and the release."""

    first: Coded
    second: Coded
    unknown: Coded
    held: Coded
    others: Coded
    released: Coded


def differences(scene: Scene) -> tuple[list[str], Floats]:
    """Return the attack of each score, and by how much it speaks for the first of each pair, shape (pairs, scores)."""
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
    """Return the weights of scores, (pairs, scores), by which the first of a pair is told from the second."""
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


# Pairs of privacy units, a fair coin in each: attacks are tuned on some and scored on others. Confidential.

_SHARES = (1.0, 0.5, 0.25, 0.1)  # of the pairs that are guessed about
_FEWEST = 60  # pairs to guess about, below which several may share a cell
_MOST = 3_000  # of them, of which a third is for tuning


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """One attack, and how its guesses came out. Confidential.

    ``tail``, shape (guesses + 1,): the bound on the probability of at least so many right ones, where the claim holds.
    """

    name: str
    pairs: int
    guesses: int
    right: int
    tail: Floats = field(repr=False)

    @property
    def p_value(self) -> float:
        """At most ``a`` with probability at most ``a`` where the claim holds."""
        return float(self.tail[self.right])

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        numbers = {"pairs": self.pairs, "guesses": self.guesses, "right": self.right}
        return {"name": self.name, **numbers, "p_value": self.p_value}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Pairs of a unit of the table and one of its control, and the coins that put one of the two first."""

    table: Coded
    control: Coded
    first_is_in: Booleans

    def __len__(self) -> int:
        return len(self.first_is_in)

    def take(self, index: Integers) -> Pairs:
        """Return some of the pairs."""
        table, control = self.table.take(index), self.control.take(index)
        return Pairs(table=table, control=control, first_is_in=self.first_is_in[index])

    @property
    def sides(self) -> tuple[Coded, Coded]:
        """The first and the second units: which of them is in the table cannot be seen."""
        place = np.arange(len(self)) + len(self) * ~self.first_is_in
        both, other = joined(self.table, self.control), np.arange(len(self)) + len(self) * self.first_is_in
        return both.take(place), both.take(other)


def joined(*parts: Coded) -> Coded:
    """Return the units of several tables, one after the other."""
    codes = {name: np.concatenate([part.codes[name] for part in parts]) for name in parts[0].codes}
    sizes = [part.sizes for part in parts if part.sizes is not None]
    return Coded(
        codes=codes,
        points=np.concatenate([part.points for part in parts]),
        sizes=np.concatenate(sizes) if sizes else None,
    )


def attacked(
    table: Coded, control: Coded, released: Coded, null: Null, *, level: float, rng: np.random.Generator
) -> tuple[Attack, ...]:
    """Pair coded units at random, tune attacks on some of the pairs, and score them on others.

    Numbers of guesses that could not reject at ``level``, that of each attack, are not tried.
    """
    pairs, rest = paired(table, control, rng)
    scored, tuning, known = divided(pairs)
    names, tuned = _scores(tuning, scored, known, rest, released)
    _, final = _scores(scored, scored.take(np.arange(0)), pairs_of(tuning, known), rest, released)
    tails = {share: null.tail(max(1, round(share * len(scored))), len(scored)) for share in _SHARES}
    shares = [share for share in _SHARES if tails[share][-1] <= level] or [1.0]
    found = []
    for name in (one for one in ATTACKS if one in names or one == CLASSIFIER):
        choices = _choices(name, names, tuned, final, tuning.first_is_in)
        _, share, chosen = min(
            (_quality(trial, tuning.first_is_in, share, tails[share], rng), share, place)
            for place, (trial, _) in enumerate(choices)
            for share in shares
        )
        guesses = len(tails[share]) - 1
        right = guessed_right(choices[chosen][1], scored.first_is_in, guesses, rng)
        found.append(Attack(name=name, pairs=len(scored), guesses=guesses, right=right, tail=tails[share]))
    return tuple(found)


def paired(table: Coded, control: Coded, rng: np.random.Generator) -> tuple[Pairs, Coded]:
    """Return random pairs of units of a table and its control that differ, and all other units of the table."""
    table, control = table.ordered(), control.ordered()
    count = min(len(table), len(control))
    inside, outside = rng.permutation(len(table)), rng.permutation(len(control))[:count]
    made = Pairs(table=table.take(inside[:count]), control=control.take(outside), first_is_in=rng.random(count) < 0.5)
    differ = _differ(made)
    if differ.sum() < 4:
        raise DataError(None, "fewer than four pairs of its records and the control's differ", "give a larger control")
    rest = table.take(np.concatenate((inside[count:], inside[:count][~differ])))
    return made.take(np.flatnonzero(differ)), rest


def _differ(pairs: Pairs) -> Booleans:
    """Return in which pairs the two units do not hold the same records, each as often."""
    both = joined(pairs.table, pairs.control)
    numbers = row_numbers(both.codes["values"])
    marks = seeded(0).integers(1 << 63, size=int(numbers.max()) + 1, dtype=np.uint64)
    # The sum of random marks, modulo 2^64: of two units that are not equal it is the same with probability 2^-63.
    sums = np.add.reduceat(marks[numbers], _starts(both)[:-1])
    found: Booleans = sums[: len(pairs)] != sums[len(pairs) :]
    return found


def _starts(units: Coded) -> Integers:
    """Return where the rows of each unit begin, and where they all end."""
    sizes = np.ones(len(units), dtype=np.int64) if units.sizes is None else units.sizes
    return np.concatenate(([0], np.cumsum(sizes)))


def divided(pairs: Pairs) -> tuple[Pairs, Pairs, Pairs]:
    """Return pairs to score, pairs to tune attacks on, and pairs whose coins are told to the attacks.

    Few of the first two share a cell; which are taken depends on the records of the pairs alone, not on the coins.
    """
    resolution = "cells" if "cells" in pairs.table.codes else "ranges"
    both = joined(*pairs.sides)
    numbers, starts = row_numbers(both.codes[resolution]), _starts(both)

    def cells(pair: int) -> set[int]:
        units = (pair, pair + len(pairs))
        return {cell for unit in units for cell in numbers[starts[unit] : starts[unit + 1]].tolist()}

    most = min(_MOST, 3 * len(pairs) // 4)
    allowed = 1
    while len(spread := _spread(map(cells, range(len(pairs))), allowed, most)) < min(_FEWEST, most):
        allowed *= 2
    tuning = np.arange(len(spread)) % 3 == 2
    known = np.setdiff1d(np.arange(len(pairs)), spread)
    return pairs.take(spread[~tuning]), pairs.take(spread[tuning]), pairs.take(known)


def _spread(cells: Iterable[set[int]], allowed: int, most: int) -> Integers:
    """Return the first pairs of which no more than so many have a record in the same cell."""
    used: dict[int, int] = {}
    taken: list[int] = []
    for pair, own in enumerate(cells):
        if all(used.get(cell, 0) < allowed for cell in own):
            taken.append(pair)
            used.update({cell: used.get(cell, 0) + 1 for cell in own})
        if len(taken) == most:
            break
    return np.array(taken, dtype=np.int64)


def pairs_of(*parts: Pairs) -> Pairs:
    """Return several sets of pairs as one."""
    coins = np.concatenate([part.first_is_in for part in parts])
    return Pairs(
        table=joined(*(part.table for part in parts)),
        control=joined(*(part.control for part in parts)),
        first_is_in=coins,
    )


def _scores(asked: Pairs, unknown: Pairs, known: Pairs, rest: Coded, released: Coded) -> tuple[list[str], Floats]:
    first, second = asked.sides
    return differences(
        Scene(
            first=first,
            second=second,
            unknown=joined(*unknown.sides),
            held=joined(rest, known.table),
            others=known.control,
            released=released,
        )
    )


def _choices(name: str, names: list[str], tuned: Floats, final: Floats, coins: Booleans) -> list[tuple[Floats, Floats]]:
    """Return the scores that an attack chooses among: of the pairs it is tuned on, and of those it is scored on."""
    if name != CLASSIFIER:
        return [(tuned[:, i], final[:, i]) for i, own in enumerate(names) if own == name]
    trial, half = np.zeros(len(coins)), np.arange(len(coins)) % 2 == 0
    for fold in (half, ~half):
        trial[fold] = tuned[fold] @ learned(tuned[~fold], coins[~fold])
    return [(trial, final @ learned(tuned, coins))]


def _quality(
    score: Floats, coins: Booleans, share: float, tail: Floats, rng: np.random.Generator
) -> tuple[float, float]:
    """Return how good guesses by a score are, the best first: the p-value to expect, then how far they beat a coin."""
    guesses = max(1, round(share * len(coins)))
    right = guessed_right(score, coins, guesses, rng)
    return float(tail[(len(tail) - 1) * right // guesses]), (0.5 * guesses - right) / np.sqrt(guesses)


def guessed_right(score: Floats, coins: Booleans, guesses: int, rng: np.random.Generator) -> int:
    """Return how many guesses are right about the pairs with the largest scores, ties being broken by a coin."""
    order = np.lexsort((rng.random(len(score)), -np.abs(score)))[:guesses]
    guess = np.where(score[order] == 0.0, rng.random(guesses) < 0.5, score[order] > 0.0)
    return int((guess == coins[order]).sum())
