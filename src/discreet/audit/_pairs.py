"""Pairs of privacy units, a fair coin in each: attacks are tuned on some and scored on others. Confidential."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from discreet._core.arrays import Booleans, Floats, Integers, row_numbers
from discreet._core.errors import DataError
from discreet._core.random import seeded
from discreet.audit._attacks import ATTACKS, CLASSIFIER, Scene, differences, learned
from discreet.audit._coded import Coded
from discreet.audit._guesses import Null

_SHARES = (1.0, 0.5, 0.25, 0.1)  # of the pairs that are guessed about
_FEWEST = 60  # pairs to guess about, below which several may share a cell
_MOST = 3_000  # of them, of which a third is for tuning


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """One attack, and how its guesses came out. Confidential.

    ``name``: which.
    ``pairs``: pairs of units, one of each in the table.
    ``guesses``: of them that it guessed about.
    ``right``: how many guesses were right.
    ``tail``, shape (guesses + 1,): the bound on the probability of at least so many, where the claim holds.
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
    """Pairs of a unit of the table and one of its control, and the coins that put one of the two first.

    ``table``, ``control``: unit by unit the two of a pair; most often each is a single record.
    ``first_is_in``: the coins.
    """

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
    """Pair units at random, tune attacks on some of the pairs, and score them on others.

    ``table``, ``control``, ``released``: from :func:`~discreet.audit._coded.coded`.
    ``null``: the claim.
    ``level``: of each attack; numbers of guesses that could not reject at it are not tried.
    ``rng``: of the pairs and the coins.

    Raises DataError when there are fewer than four pairs of units that differ.
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
    """Pair units of a table and of its control at random; pairs of equal units are left out.

    Returns: the pairs, and all other units of the table.
    """
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

    Few of the first two share a cell: what a release says of a cell is about all of them at once. Which are taken
    depends on the records of the pairs alone, not on the coins.
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
