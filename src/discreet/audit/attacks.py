"""Attacks on a release: for each pair of units, which of the two is in the table, and how sure that is. Confidential.

Of each pair a fair coin put one into the table. An attack may know everything but the coins: nothing that it does can
make a right claim look false. How many guesses can be right if the claim is: docs/theory/audit-of-a-release.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from discreet._core.errors import DataError
from discreet._core.lazy import pl, spatial, special
from discreet._core.numeric import Booleans, Floats, Integers, logistic_coefficients, row_numbers
from discreet._core.random import seeded
from discreet.domain import Domain, Records
from discreet.privacy import Profile

_BINS = 16  # ranges, of as many records each, into which columns of numbers are cut
_MOST_LABELS = 64
_MOST_TABLES = 100  # two-way tables that are looked at
_MOST_NEIGHBOURS = 20_000  # released records, and others, that distances are taken to
_RIDGE = 1.0
_FEWEST = 60  # pairs to guess about, below which several may share a cell
_MOST = 3_000  # of them, of which a third is for tuning

POWER = 0.95
"""Of the epsilon that a test says it would have detected."""

_SHARES = (1.0, 0.5, 0.25, 0.1)  # of the pairs that are guessed about
_EPSILONS = 64  # at which the profile is asked; any of them gives a bound, and the least is taken
_NEGLIGIBLE = 1e-12
_FURTHEST = 40.0
_TINY = 1e-200  # below, a tail is not compared with its first term but with a geometric series
_ROUNDING = 1e-9  # relative, upwards

FREQUENCIES, NEIGHBOURS, CLASSIFIER = "frequencies", "nearest neighbours", "classifier"
ATTACKS = (FREQUENCIES, NEIGHBOURS, CLASSIFIER)


@dataclass(frozen=True, slots=True, kw_only=True)
class CodedUnits:
    """Records of one or several tables, unit by unit: codes by resolution, points, sizes, counts of released cells."""

    codes: dict[str, Integers]
    points: Floats
    sizes: Integers
    counts: Floats | None = None

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def owners(self) -> Integers:
        """The unit of each row."""
        return np.repeat(np.arange(len(self)), self.sizes)

    def sums(self, values: Floats) -> Floats:
        """Return the sum of a value of each record, unit by unit."""
        return np.bincount(self.owners, weights=values, minlength=len(self)).astype(np.float64)

    def means(self, values: Floats) -> Floats:
        """Return the mean of a value of each record, unit by unit."""
        return self.sums(values) / self.sizes

    def take(self, index: Integers) -> CodedUnits:
        """Return some of the units, all rows of each."""
        sizes = self.sizes[index]
        starts = np.cumsum(self.sizes) - self.sizes
        offsets = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return self._rows(np.repeat(starts[index], sizes) + offsets, sizes)

    def ordered(self) -> CodedUnits:
        """Return the same table in an order that its file does not decide: rows by their values, within their units."""
        keys = [*self.codes["values"].T, self.owners]
        if len(self) == len(self.points):  # each record is a unit, which has no name
            keys.pop()
        return self._rows(np.lexsort(keys), self.sizes)

    def by_unit(self, labels: npt.NDArray[Any]) -> CodedUnits:
        """Return the rows unit by unit."""
        _, unit, sizes = np.unique(labels, return_inverse=True, return_counts=True)
        return self._rows(np.argsort(unit, kind="stable"), sizes)

    def _rows(self, index: Integers, sizes: Integers) -> CodedUnits:
        codes = {name: codes[index] for name, codes in self.codes.items()}
        return CodedUnits(codes=codes, points=self.points[index], sizes=sizes)


def joined(*parts: CodedUnits) -> CodedUnits:
    """Return the units of several tables, one after the other."""
    return CodedUnits(
        codes={name: np.concatenate([part.codes[name] for part in parts]) for name in parts[0].codes},
        points=np.concatenate([part.points for part in parts]),
        sizes=np.concatenate([part.sizes for part in parts]),
    )


def coded_tables(tables: Sequence[pl.DataFrame], domain: Domain | None) -> list[CodedUnits]:
    """Code tables of the same columns; cells that a domain declares are a resolution of their own."""
    points: list[Floats] = []
    columns: dict[str, list[Integers]] = {"values": [], "ranges": []}
    if domain is not None and domain.finite:  # as a release encodes them: records that contradict a rule are moved
        records = Records.concatenate([domain.encode(table) for table in tables])
        columns["cells"] = [codes.astype(np.int64) for codes in records.columns]
    for name in tables[0].columns:
        parts = [table[name] for table in tables]
        numbers = _numbers(parts)
        if numbers is None:
            labels = pl.concat([part.cast(pl.String) for part in parts]).rank("dense").fill_null(0).to_numpy()
            codes = ranges = np.unique(labels, return_inverse=True)[1].reshape(-1)
            common = np.argsort(-np.bincount(codes), kind="stable")[:_MOST_LABELS]
            points.extend((codes == label) * np.sqrt(0.5) for label in common)
        else:
            codes = np.unique(numbers, return_inverse=True)[1].reshape(-1)
            edges = np.unique(np.quantile(numbers, np.linspace(0.0, 1.0, _BINS + 1)[1:-1]))
            ranges = np.searchsorted(edges, numbers, side="right")
            points.append(codes / max(1, int(codes.max())))
        columns["values"].append(codes)
        columns["ranges"].append(ranges)
    resolutions = {name: np.column_stack(codes) for name, codes in columns.items()}
    rows = np.column_stack(points)
    units = CodedUnits(codes=resolutions, points=rows, sizes=np.ones(len(rows), dtype=np.int64))
    ends = np.cumsum([table.height for table in tables])
    return [units.take(np.arange(end - table.height, end)) for table, end in zip(tables, ends, strict=True)]


def coded_counts(counts: Floats, domain: Domain) -> CodedUnits:
    """Code released counts, nan where a cell has none: a row for each other cell, at the resolution of cells alone."""
    cells = np.flatnonzero(~np.isnan(counts))
    codes = np.column_stack([np.asarray(column, dtype=np.int64) for column in domain.unflat(cells).columns])
    sizes = np.ones(len(cells), dtype=np.int64)
    return CodedUnits(codes={"cells": codes}, points=np.empty((len(cells), 0)), sizes=sizes, counts=counts[cells])


def _numbers(columns: Sequence[pl.Series]) -> Floats | None:
    """Return the values of a column of numbers or dates, nulls before all others; None where it holds labels."""
    parts = []
    moments: Any = next((column.dtype for column in columns if column.dtype in (pl.Date, pl.Datetime)), None)
    for column in columns:
        nulls, values = column.null_count(), column
        if moments is not None and values.dtype == pl.String:  # of a CSV file beside a Parquet one
            values = values.str.strptime(moments, strict=False)
        if values.dtype.is_temporal():
            values = values.to_physical()
        elif not values.dtype.is_numeric() and values.dtype != pl.String:
            return None
        values = values.cast(pl.Float64, strict=False)
        if values.null_count() > nulls:
            return None
        parts.append(values.to_numpy())
    numbers = np.concatenate(parts)
    finite = np.isfinite(numbers)
    return np.where(finite, numbers, numbers.min(where=finite, initial=0.0) - 1.0)


@dataclass(frozen=True, slots=True)
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


def _by_frequencies(scene: Scene) -> Iterator[Floats]:
    """Yield scores by the surplus over the expected count: its difference is, to first order, a likelihood ratio."""
    for resolution, codes in scene.released.codes.items():
        count = codes.shape[1]
        for ways in sorted({1, min(2, count), count}, reverse=True):
            tables = list(combinations(range(count), ways))
            step = -(-len(tables) // _MOST_TABLES) if ways == 2 else 1
            scores = np.zeros((2, len(scene.first)))
            for columns in tables[::step]:
                scores += _surplus(scene, resolution, columns)
            yield from scores


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


def _log_ratios(scene: Scene, records: CodedUnits) -> list[Floats]:
    """Return log-ratios of the distances of second and first units to the nearest and to the fifth of some records."""
    points = records.points[:: -(-len(records.points) // _MOST_NEIGHBOURS)]
    tree, ranks = spatial.cKDTree(points), [1, min(5, len(points))]
    logs = [np.log(tree.query(units.points, k=ranks)[0] + 1e-9).T for units in (scene.first, scene.second)]
    return [scene.second.means(b) - scene.first.means(a) for a, b in zip(*logs, strict=True)]


def learned_weights(scores: Floats, first_is_in: Booleans) -> Floats:
    """Return the weights of scores, (pairs, scores), by which the first of a pair is told from the second."""
    scale = np.sqrt((scores**2).mean(axis=0))
    scale[scale == 0.0] = 1.0
    evenly = np.ones(len(scores))
    return np.asarray(logistic_coefficients(scores / scale, first_is_in.astype(np.float64), evenly, _RIDGE) / scale)


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


def random_pairs(table: CodedUnits, control: CodedUnits, rng: np.random.Generator) -> tuple[UnitPairs, CodedUnits]:
    """Return random pairs of units of a table and its control that differ, and all other units of the table."""
    table, control = table.ordered(), control.ordered()
    count = min(len(table), len(control))
    inside, outside = rng.permutation(len(table)), rng.permutation(len(control))[:count]
    coins = rng.random(count) < 0.5
    pairs = UnitPairs(table=table.take(inside[:count]), control=control.take(outside), first_is_in=coins)
    # Of the random marks of a unit's records the sum is taken, modulo 2^64: of two units that do not hold the same
    # records, each as often, it is the same with probability 2^-63.
    units = joined(pairs.table, pairs.control)
    numbers = row_numbers(units.codes["values"])
    marks = seeded(0).integers(1 << 63, size=int(numbers.max()) + 1, dtype=np.uint64)
    sums = np.add.reduceat(marks[numbers], np.searchsorted(units.owners, np.arange(len(units))))
    unequal = np.asarray(sums[:count] != sums[count:])
    if unequal.sum() < 4:
        raise DataError(None, "fewer than four pairs of its records and the control's differ", "give a larger control")
    return pairs.take(np.flatnonzero(unequal)), table.take(np.concatenate((inside[count:], inside[:count][~unequal])))


def divided_pairs(pairs: UnitPairs) -> tuple[UnitPairs, UnitPairs, UnitPairs]:
    """Return pairs to score, pairs to tune attacks on, few of which share a cell, and pairs whose coins are told."""
    # Which are taken depends on the records of the pairs alone, not on the coins.
    units = joined(*pairs.sides)
    numbers = row_numbers(units.codes["cells" if "cells" in units.codes else "ranges"])
    cells: list[set[int]] = [set() for _ in range(len(pairs))]
    for owner, number in zip(units.owners.tolist(), numbers.tolist(), strict=True):
        cells[owner % len(pairs)].add(number)
    maximum = min(_MOST, 3 * len(pairs) // 4)
    selected: list[int] = []
    shared = 1  # pairs that may have a record in the same cell
    while len(selected) < min(_FEWEST, maximum):
        selected, counts = [], Counter[int]()
        for pair, of_pair in enumerate(cells):
            if len(selected) < maximum and all(counts[cell] < shared for cell in of_pair):
                selected.append(pair)
                counts.update(of_pair)
        shared *= 2
    index = np.array(selected, dtype=np.int64)
    tuning = np.arange(len(index)) % 3 == 2
    return pairs.take(index[~tuning]), pairs.take(index[tuning]), pairs.take(np.setdiff1d(np.arange(len(pairs)), index))


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedProfile(Profile):
    """The profile of a bare claim of (epsilon, delta): the largest that satisfies it."""

    furthest: ClassVar[float] = 100.0

    epsilon_stated: float
    delta_stated: float

    @property
    def pure(self) -> float:
        """The epsilon where delta is 0, infinity otherwise."""
        return self.epsilon_stated if self.delta_stated == 0.0 else np.inf

    def _delta(self, epsilon: float) -> float:
        if epsilon >= self.epsilon_stated:
            return self.delta_stated
        excess = -np.expm1(epsilon - self.epsilon_stated) / (1.0 + np.exp(-self.epsilon_stated))
        return float(min(1.0, (self.delta_stated + (1.0 - self.delta_stated) * excess) * (1.0 + _ROUNDING)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Null:
    """A claim, as points of its profile between tables of which one record is exchanged."""

    epsilons: Floats
    deltas: Floats

    @classmethod
    def from_profile(cls, profile: Profile) -> Null:
        """Return the bounds that follow from a profile."""
        last = min(profile.pure, _FURTHEST)
        if np.isinf(profile.pure):
            last = min(profile.epsilon(_NEGLIGIBLE), _FURTHEST)
        epsilons = np.linspace(0.0, last, _EPSILONS)
        if isinstance(profile, StatedProfile):
            epsilons = np.append(epsilons, profile.epsilon_stated)
        epsilons = np.unique(epsilons)
        return cls(epsilons=epsilons, deltas=np.array([profile.delta(float(epsilon)) for epsilon in epsilons]))

    def tail(self, guesses: int, pairs: int) -> Floats:
        """Bound the probability that at least v guesses, of a number fixed beforehand, are right, for each v from 0."""
        v = np.arange(1, guesses + 1, dtype=np.float64)
        arrangements = special.gammaln(guesses + 1.0) - special.gammaln(v + 1.0) - special.gammaln(guesses - v + 1.0)
        best = np.ones(guesses + 1)
        for epsilon, delta in zip(self.epsilons.tolist(), self.deltas.tolist(), strict=True):
            right = 1.0 / (1.0 + np.exp(-epsilon))
            above, below = special.bdtrc(v - 1.0, guesses, right), special.bdtr(v - 1.0, guesses, right)
            log_exactly = arrangements - v * np.log1p(np.exp(-epsilon)) - (guesses - v) * np.log1p(np.exp(epsilon))
            next_to_it = (guesses - v) / (v + 1.0) * np.exp(epsilon)
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                ratio = np.where(above > _TINY, np.exp(np.log(above) - log_exactly), 1.0 / (1.0 - next_to_it))
                bound = (above + pairs * delta * ratio * below / v) * (1.0 + _ROUNDING) + 1e-300
            best[1:] = np.minimum(best[1:], np.where(np.isfinite(bound) & (bound > 0.0), bound, 1.0))
        return best

    def tails(self, pairs: int) -> dict[float, Floats]:
        """Return the tail of each share of the pairs, times the number of shares: the release may choose among them."""
        fixed = {share: self.tail(max(1, round(share * pairs)), pairs) for share in _SHARES}
        return {share: np.minimum(1.0, len(_SHARES) * tail) for share, tail in fixed.items()}


def detectable(rejecting: Integers, guesses: int) -> float | None:
    """Return the least epsilon, in steps of 0.01, whose best guesses are rejected with power; None beyond 40."""
    if len(rejecting) == 0:
        return None
    least = int(rejecting.max())
    while least - 1 in rejecting:  # the upper end of the set: nothing is said of rejections below a gap
        least -= 1
    epsilons = np.arange(0.01, _FURTHEST, 0.01)
    powers = special.bdtrc(least - 1.0, guesses, 1.0 / (1.0 + np.exp(-epsilons)))
    return next((round(float(epsilon), 2) for epsilon in epsilons[powers >= POWER]), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackResult:
    """One attack, and how its guesses came out. Confidential."""

    name: str
    pairs: int
    guesses: int
    right: int
    # shape (guesses + 1,): bounds the probability of at least so many right ones, times the number of shares
    tail: Floats = field(repr=False)

    @property
    def p_value(self) -> float:
        """At most ``a`` with probability at most ``a`` where the claim holds."""
        return float(self.tail[self.right])

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {name: getattr(self, name) for name in ("name", "pairs", "guesses", "right", "p_value")}


def attack_results(
    table: CodedUnits, control: CodedUnits, released: CodedUnits, null: Null, *, level: float, rng: np.random.Generator
) -> tuple[AttackResult, ...]:
    """Pair coded units at random, tune attacks on some of the pairs, and score them on others."""
    # Numbers of guesses that could not reject at the level, that of each attack, are not tried.
    pairs, unpaired = random_pairs(table, control, rng)
    scored, tuning, revealed = divided_pairs(pairs)

    def scores(guessed: UnitPairs, unknown: UnitPairs, inside: CodedUnits, outside: CodedUnits) -> Any:
        return differences(Scene(*guessed.sides, joined(*unknown.sides), inside, outside, released))

    names, tuned = scores(tuning, scored, joined(unpaired, revealed.table), revealed.control)
    inside, outside = joined(unpaired, tuning.table, revealed.table), joined(tuning.control, revealed.control)
    _, final = scores(scored, scored.take(np.arange(0)), inside, outside)
    tails = null.tails(len(scored))
    shares = [share for share, tail in tails.items() if tail[-1] <= level] or [1.0]
    by_attack: dict[str, list[tuple[Floats, Floats]]] = {}
    for name, tried, scores_of_all in zip(names, tuned.T, final.T, strict=True):
        by_attack.setdefault(name, []).append((tried, scores_of_all))
    coins, trial = tuning.first_is_in, np.zeros(len(tuning))
    half = np.arange(len(coins)) % 2 == 0
    for fold in (half, ~half):
        trial[fold] = tuned[fold] @ learned_weights(tuned[~fold], coins[~fold])
    by_attack[CLASSIFIER] = [(trial, final @ learned_weights(tuned, coins))]
    results = []
    for name, choices in by_attack.items():
        qualities = []  # the best first: the p-value to expect, then by how much guesses beat a coin
        for (place, (score, _)), share in product(enumerate(choices), shares):
            guesses = max(1, round(share * len(tuning)))
            right = guessed_right(score, tuning.first_is_in, guesses, rng)
            expected = float(tails[share][(len(tails[share]) - 1) * right // guesses])
            qualities.append((expected, (0.5 * guesses - right) / np.sqrt(guesses), share, place))
        *_, share, place = min(qualities)
        guesses = len(tails[share]) - 1
        right = guessed_right(choices[place][1], scored.first_is_in, guesses, rng)
        results.append(AttackResult(name=name, pairs=len(scored), guesses=guesses, right=right, tail=tails[share]))
    return tuple(results)


def guessed_right(score: Floats, coins: Booleans, guesses: int, rng: np.random.Generator) -> int:
    """Return how many guesses are right about the pairs with the largest scores, ties being broken by a coin."""
    order = np.lexsort((rng.random(len(score)), -np.abs(score)))[:guesses]
    guess = np.where(score[order] == 0.0, rng.random(guesses) < 0.5, score[order] > 0.0)
    return int((guess == coins[order]).sum())
