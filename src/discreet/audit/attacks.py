"""Attacks on a release: for each pair of units, which of the two is in the table, and how sure that is. Confidential.

A unit is a record, or all records of a person. The score of a unit is the sum of those of its records, or their mean.
An attack may know everything but the coins: the release, both units of every pair, and all other records of the table.
Nothing that it does can make a right claim look false, so that it need only be good, not proved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Booleans, Floats, Integers, row_numbers
from discreet._core.errors import DataError
from discreet._core.random import seeded
from discreet.audit.coded import CodedUnits
from discreet.audit.guesses import Null

_MOST_TABLES = 100  # two-way tables that are looked at
_MOST_NEIGHBOURS = 20_000  # released records, and others, that distances are taken to
_RIDGE = 1.0

FREQUENCIES, NEIGHBOURS, CLASSIFIER = "frequencies", "nearest neighbours", "classifier"
ATTACKS = (FREQUENCIES, NEIGHBOURS, CLASSIFIER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What an attack sees: pairs to guess, others with unknown coins, records known in or out, and the release."""

    first: CodedUnits
    second: CodedUnits
    unknown: CodedUnits
    inside: CodedUnits
    outside: CodedUnits
    released: CodedUnits


def differences(scene: Scene) -> tuple[list[str], Floats]:
    """Return the attack of each score, and by how much it speaks for the first of each pair, shape (pairs, scores)."""
    scores = list(_by_frequencies(scene))
    names = [FREQUENCIES] * len(scores)
    if scene.released.counts is None:  # ratios by themselves, and beside those to records known not to be in
        ratios = _log_ratios(scene, scene.released)
        if len(scene.outside.points):
            outside = _log_ratios(scene, scene.outside)[0]
            ratios = [score for ratio in ratios for score in (ratio, ratio - outside)]
        scores += ratios
        names += [NEIGHBOURS] * len(ratios)
    return names, np.nan_to_num(np.column_stack(scores), nan=0.0, posinf=1e6, neginf=-1e6)


# -- frequencies ------------------------------------------------------------------------------------------------------


def _by_frequencies(scene: Scene) -> Iterator[Floats]:
    """Yield scores by the surplus over the expected count: its difference is, to first order, a likelihood ratio."""
    for resolution, codes in scene.released.codes.items():
        count = codes.shape[1]
        families: list[list[tuple[int, ...]]] = [[tuple(range(count))]]
        if count > 2:
            pairs = list(combinations(range(count), 2))
            families.append([*pairs[:: -(-len(pairs) // _MOST_TABLES)]])
        if count > 1:
            families.append([(column,) for column in range(count)])
        for tables in families:
            even, growing = np.zeros(len(scene.first)), np.zeros(len(scene.first))
            for columns in tables:
                table_even, table_growing = _surplus(scene, resolution, columns)
                even += table_even
                growing += table_growing
            yield even
            yield growing


def _surplus(scene: Scene, resolution: str, columns: tuple[int, ...]) -> tuple[Floats, Floats]:
    """Return the scores by one table of frequencies: with an even standard deviation, and one that grows."""
    parts = (scene.first, scene.second, scene.unknown, scene.inside, scene.released)
    cells = row_numbers(np.concatenate([part.codes[resolution][:, columns] for part in parts]))
    first, second, unknown, inside, released = np.split(cells, np.cumsum([len(part.points) for part in parts])[:-1])
    size = int(cells.max()) + 1
    coins = np.bincount(np.concatenate((first, second, unknown)), minlength=size)
    expected = np.bincount(inside, minlength=size) + 0.5 * coins
    counts = scene.released.counts
    rate = expected.sum() / len(released) if counts is None else 1.0
    surplus = np.bincount(released, weights=counts, minlength=size) * rate - expected
    std = 1.0 + 0.25 * coins
    scores = (surplus / std, surplus / (std + rate * expected))
    even, growing = (scene.first.sums(score[first]) - scene.second.sums(score[second]) for score in scores)
    return even, growing


# -- nearest neighbours -----------------------------------------------------------------------------------------------


def _log_ratios(scene: Scene, records: CodedUnits) -> list[Floats]:
    """Return log-ratios of the distances of second and first units to the nearest and to the fifth of some records."""
    from scipy.spatial import cKDTree

    points = records.points[:: -(-len(records.points) // _MOST_NEIGHBOURS)]
    tree, ranks = cKDTree(points), [1, min(5, len(points))]
    logs = [np.log(tree.query(units.points, k=ranks)[0] + 1e-9).T for units in (scene.first, scene.second)]
    return [scene.second.means(b) - scene.first.means(a) for a, b in zip(*logs, strict=True)]


# -- classifier -------------------------------------------------------------------------------------------------------


def learned_weights(scores: Floats, first_is_in: Booleans) -> Floats:
    """Return the weights of scores, (pairs, scores), by which the first of a pair is told from the second."""
    scale = np.sqrt((scores**2).mean(axis=0))
    scale[scale == 0.0] = 1.0
    x, signs = scores / scale, np.where(first_is_in, 1.0, -1.0)
    weights: npt.NDArray[np.float64] = np.zeros(x.shape[1])
    for _ in range(20):
        chance = 1.0 / (1.0 + np.exp(np.clip(signs * (x @ weights), -30.0, 30.0)))
        gradient = x.T @ (signs * chance) - _RIDGE * weights
        curvature = (x * (chance * (1.0 - chance))[:, None]).T @ x + _RIDGE * np.eye(len(weights))
        weights = weights + np.linalg.solve(curvature, gradient)
    return np.asarray(weights / scale)


# Pairs of privacy units, a fair coin in each: attacks are tuned on some and scored on others. Confidential.

_SHARES = (1.0, 0.5, 0.25, 0.1)  # of the pairs that are guessed about
_FEWEST = 60  # pairs to guess about, below which several may share a cell
_MOST = 3_000  # of them, of which a third is for tuning


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackResult:
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
class UnitPairs:
    """Pairs of a unit of the table and one of its control, and the coins that put one of the two first."""

    table: CodedUnits
    control: CodedUnits
    first_is_in: Booleans

    def __len__(self) -> int:
        return len(self.first_is_in)

    def take(self, index: Integers) -> UnitPairs:
        """Return some of the pairs."""
        table, control = self.table.take(index), self.control.take(index)
        return UnitPairs(table=table, control=control, first_is_in=self.first_is_in[index])

    @property
    def sides(self) -> tuple[CodedUnits, CodedUnits]:
        """The first and the second units: which of them is in the table cannot be seen."""
        units, pairs = joined(self.table, self.control), np.arange(len(self))
        return units.take(pairs + len(self) * ~self.first_is_in), units.take(pairs + len(self) * self.first_is_in)


def joined(*parts: CodedUnits) -> CodedUnits:
    """Return the units of several tables, one after the other."""
    codes = {name: np.concatenate([part.codes[name] for part in parts]) for name in parts[0].codes}
    sizes = [part.sizes for part in parts if part.sizes is not None]
    return CodedUnits(
        codes=codes,
        points=np.concatenate([part.points for part in parts]),
        sizes=np.concatenate(sizes) if sizes else None,
    )


def attack_results(
    table: CodedUnits, control: CodedUnits, released: CodedUnits, null: Null, *, level: float, rng: np.random.Generator
) -> tuple[AttackResult, ...]:
    """Pair coded units at random, tune attacks on some of the pairs, and score them on others.

    Numbers of guesses that could not reject at ``level``, that of each attack, are not tried.
    """
    pairs, unpaired = random_pairs(table, control, rng)
    scored, tuning, revealed = divided_pairs(pairs)
    inside, outside = joined(unpaired, revealed.table), revealed.control
    names, tuned = _scores(tuning, scored, inside, outside, released)
    inside, outside = joined(unpaired, tuning.table, revealed.table), joined(tuning.control, revealed.control)
    _, final = _scores(scored, scored.take(np.arange(0)), inside, outside, released)
    tails = {share: null.tail(max(1, round(share * len(scored))), len(scored)) for share in _SHARES}
    shares = [share for share in _SHARES if tails[share][-1] <= level] or [1.0]
    results = []
    for name in ATTACKS:
        if name not in names and name != CLASSIFIER:
            continue
        choices = _attack_scores(name, names, tuned, final, tuning.first_is_in)
        qualities = []  # the best first: the p-value to expect, then by how much guesses beat a coin
        for (place, (trial, _)), share in product(enumerate(choices), shares):
            guesses = max(1, round(share * len(tuning)))
            right = guessed_right(trial, tuning.first_is_in, guesses, rng)
            expected = float(tails[share][(len(tails[share]) - 1) * right // guesses])
            qualities.append((expected, (0.5 * guesses - right) / np.sqrt(guesses), share, place))
        *_, share, place = min(qualities)
        guesses = len(tails[share]) - 1
        right = guessed_right(choices[place][1], scored.first_is_in, guesses, rng)
        results.append(AttackResult(name=name, pairs=len(scored), guesses=guesses, right=right, tail=tails[share]))
    return tuple(results)


def random_pairs(table: CodedUnits, control: CodedUnits, rng: np.random.Generator) -> tuple[UnitPairs, CodedUnits]:
    """Return random pairs of units of a table and its control that differ, and all other units of the table."""
    table, control = table.ordered(), control.ordered()
    count = min(len(table), len(control))
    inside, outside = rng.permutation(len(table)), rng.permutation(len(control))[:count]
    pairs = UnitPairs(
        table=table.take(inside[:count]), control=control.take(outside), first_is_in=rng.random(count) < 0.5
    )
    unequal = _are_unequal(pairs)
    if unequal.sum() < 4:
        raise DataError(None, "fewer than four pairs of its records and the control's differ", "give a larger control")
    unpaired = table.take(np.concatenate((inside[count:], inside[:count][~unequal])))
    return pairs.take(np.flatnonzero(unequal)), unpaired


def _are_unequal(pairs: UnitPairs) -> Booleans:
    """Return in which pairs the two units do not hold the same records, each as often."""
    units = joined(pairs.table, pairs.control)
    numbers = row_numbers(units.codes["values"])
    marks = seeded(0).integers(1 << 63, size=int(numbers.max()) + 1, dtype=np.uint64)
    # The sum of random marks, modulo 2^64: of two units that are not equal it is the same with probability 2^-63.
    sums = np.add.reduceat(marks[numbers], units.starts[:-1])
    return np.asarray(sums[: len(pairs)] != sums[len(pairs) :])


def divided_pairs(pairs: UnitPairs) -> tuple[UnitPairs, UnitPairs, UnitPairs]:
    """Return pairs to score, pairs to tune attacks on, and pairs whose coins are told to the attacks.

    Few of the first two share a cell; which are taken depends on the records of the pairs alone, not on the coins.
    """
    resolution = "cells" if "cells" in pairs.table.codes else "ranges"
    units = joined(*pairs.sides)
    numbers, starts = row_numbers(units.codes[resolution]), units.starts

    def cells(pair: int) -> set[int]:
        bounds = ((starts[unit], starts[unit + 1]) for unit in (pair, pair + len(pairs)))
        return {cell for start, end in bounds for cell in numbers[start:end].tolist()}

    maximum = min(_MOST, 3 * len(pairs) // 4)
    shared = 1
    while len(selected := _spread_pairs(map(cells, range(len(pairs))), shared, maximum)) < min(_FEWEST, maximum):
        shared *= 2
    tuning = np.arange(len(selected)) % 3 == 2
    revealed = np.setdiff1d(np.arange(len(pairs)), selected)
    return pairs.take(selected[~tuning]), pairs.take(selected[tuning]), pairs.take(revealed)


def _spread_pairs(cells: Iterable[set[int]], shared: int, maximum: int) -> Integers:
    """Return the first pairs of which no more than so many have a record in the same cell."""
    counts: Counter[int] = Counter()
    pairs: list[int] = []
    for pair, of_pair in enumerate(cells):
        if all(counts[cell] < shared for cell in of_pair):
            pairs.append(pair)
            counts.update(of_pair)
        if len(pairs) == maximum:
            break
    return np.array(pairs, dtype=np.int64)


def _scores(
    pairs: UnitPairs, unknown: UnitPairs, inside: CodedUnits, outside: CodedUnits, released: CodedUnits
) -> tuple[list[str], Floats]:
    first, second = pairs.sides
    return differences(
        Scene(
            first=first,
            second=second,
            unknown=joined(*unknown.sides),
            inside=inside,
            outside=outside,
            released=released,
        )
    )


def _attack_scores(
    name: str, names: list[str], tuned: Floats, final: Floats, coins: Booleans
) -> list[tuple[Floats, Floats]]:
    """Return the scores that an attack chooses among: of the pairs it is tuned on, and of those it is scored on."""
    if name != CLASSIFIER:
        return [(tuned[:, i], final[:, i]) for i in range(len(names)) if names[i] == name]
    trial, half = np.zeros(len(coins)), np.arange(len(coins)) % 2 == 0
    for fold in (half, ~half):
        trial[fold] = tuned[fold] @ learned_weights(tuned[~fold], coins[~fold])
    return [(trial, final @ learned_weights(tuned, coins))]


def guessed_right(score: Floats, coins: Booleans, guesses: int, rng: np.random.Generator) -> int:
    """Return how many guesses are right about the pairs with the largest scores, ties being broken by a coin."""
    order = np.lexsort((rng.random(len(score)), -np.abs(score)))[:guesses]
    guess = np.where(score[order] == 0.0, rng.random(guesses) < 0.5, score[order] > 0.0)
    return int((guess == coins[order]).sum())
