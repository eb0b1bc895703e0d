"""Whole numbers that are independent but for their sum: exact draws, by convolutions pair by pair and splits back."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from discreet._core.numeric import Floats, Indices, Integers

_TRIMMED = 1e-15  # of the largest weight: what lies further out is left out
_TRIES, _SAME = 60, 1e-12  # tilts, and how near two of them are the same
_ROUNDS = 5  # of proposals, before what is left is drawn by listing
_LISTED = 1 << 20  # weights at a time
_DIRECT = 1 << 20  # multiplications, beyond which convolutions use Fourier transforms


@dataclass(frozen=True, slots=True)
class IntegerLaw:
    """Weights of the numbers ``low, low + 1, ...``, the largest of them 1; ``scale``: the logarithm of their factor."""

    low: int
    weights: Floats
    scale: float = 0.0

    @classmethod
    def from_logarithms(cls, low: int, logarithms: Floats) -> IntegerLaw:
        """Return the law with these logarithms of weights."""
        largest = float(logarithms.max())
        return cls(low, np.exp(logarithms - largest), largest)

    def plus(self, other: IntegerLaw) -> IntegerLaw:
        """Return the law of the sum of two independent numbers, its ends not trimmed."""
        a, b = self.weights, other.weights
        if len(a) * len(b) <= _DIRECT:
            weights = np.convolve(a, b)
        else:
            length = len(a) + len(b) - 1
            size = 1 << (length - 1).bit_length()
            weights = np.maximum(np.fft.irfft(np.fft.rfft(a, size) * np.fft.rfft(b, size), size)[:length], 0.0)
        return IntegerLaw(self.low + other.low, weights, self.scale + other.scale)

    @property
    def mean(self) -> float:
        return float((self.low + np.arange(len(self.weights))) @ self.weights / self.weights.sum())

    def apart(self, number: int) -> tuple[float, float]:
        """Return how far a number is above the mean, and the variance."""
        numbers, mean = self.low + np.arange(len(self.weights)), self.mean
        return number - mean, float((numbers - mean) ** 2 @ self.weights / self.weights.sum())

    def log(self, number: int) -> float:
        """Return the logarithm of a number's weight."""
        place = number - self.low
        if 0 <= place < len(self.weights) and self.weights[place] > 0.0:
            return self.scale + math.log(self.weights[place])
        return -math.inf


LogWeights = Callable[[Integers], Floats]


def nothing(numbers: Integers) -> Floats:
    """Return the logarithms of weights that are all 1."""
    return np.zeros(len(numbers))


def both(a: LogWeights, b: LogWeights) -> LogWeights:
    """Return the logarithms of the products of two weights."""
    return lambda numbers: a(numbers) + b(numbers)


class Level(NamedTuple):
    """Sets of neighbouring numbers, or of sets, whose sums have weights of their own, given as logarithms."""

    sets: Integers  # the set of each number, or set of the level below; sets are numbered 0, 1, ... in order
    log_weights: Sequence[LogWeights]


class Sums:
    """Numbers of given laws whose sum is known, and sets of them whose sums have weights too, the smallest first."""

    # tilt: by which the laws are tilted at first, that of a like case saves time; away: from the mean of the laws' sum.

    def __init__(
        self, laws: Sequence[IntegerLaw], total: int, levels: Sequence[Level] = (), *, tilt: float | None = None
    ) -> None:
        self._total, self._whole = total, IntegerLaw(total, np.zeros(1))
        least, most = sum(law.low for law in laws), sum(law.low + len(law.weights) - 1 for law in laws)
        distinct = {id(law): law.mean for law in laws}
        self.away = abs(total - sum(distinct[id(law)] for law in laws))
        self.tilt = 0.0
        if not least <= total <= most:
            return
        self.tilt = _tilt(laws, total) if tilt is None else tilt
        low, high = -math.inf, math.inf
        for _ in range(_TRIES):
            self._join(laws, levels)
            distance, variance = self._whole.apart(total)
            if abs(distance) <= 3.0 * math.sqrt(variance) or high - low < _SAME:
                break
            if distance > 0.0:  # the weights of sets moved the sum
                low = self.tilt
            else:
                high = self.tilt
            spread = math.sqrt(max(variance, 1.0))
            further = self.tilt + max(-10.0, min(10.0, distance / spread)) / spread
            self.tilt = further if low < further < high else 0.5 * (low + high)

    def _join(self, laws: Sequence[IntegerLaw], levels: Sequence[Level]) -> None:
        """Join the laws to that of the sum of all."""
        # the first of each pair, and all laws before they are joined
        self._steps: list[tuple[Indices, list[IntegerLaw]]] = []
        # Equal laws are one object. Where any two may be joined first, equal ones are: their sums are equal again.
        places: dict[int, int] = {}
        kinds = [places.setdefault(id(law), i) for i, law in enumerate(laws)]
        self._order = np.arange(len(laws)) if levels else np.argsort(kinds, kind="stable")
        distinct = {id(law): law for law in laws}
        products = _times([*distinct.values()], lambda numbers, _: self.tilt * numbers.astype(np.float64))
        tilted = dict(zip(distinct, products, strict=True))
        nodes = [tilted[id(laws[i])] for i in self._order.tolist()]
        for sets, log_weights in levels:
            nodes = _weighted(self._joined(nodes, sets), log_weights)
        (self._whole,) = self._joined(nodes, np.zeros(len(nodes), dtype=np.intp))

    def _joined(self, nodes: list[IntegerLaw], sets: Integers) -> list[IntegerLaw]:
        """Return the laws of the sums of sets, which are joined pair by pair."""
        while True:
            place = np.arange(len(sets)) - np.searchsorted(sets, sets)  # within its set
            heads = np.flatnonzero((place[:-1] % 2 == 0) & (sets[:-1] == sets[1:]))
            if not len(heads):
                return nodes
            self._steps.append((heads, nodes))
            remaining = np.delete(np.arange(len(sets)), heads + 1)
            keys = {i: (id(nodes[i]), id(nodes[i + 1])) for i in heads.tolist()}
            sums = {key: nodes[i].plus(nodes[i + 1]) for i, key in keys.items()}
            laws = [*sums.values()]
            ends, weights = _ends(laws), np.concatenate([law.weights for law in laws])
            largest = np.maximum.reduceat(weights, ends[:-1])
            scaled = weights / np.repeat(largest, np.diff(ends))
            joined = dict(zip(sums, _without_ends(laws, scaled, ends, np.log(largest)), strict=True))
            nodes = [joined[keys[i]] if i in keys else nodes[i] for i in remaining.tolist()]
            sets = sets[remaining]

    @property
    def log(self) -> float:
        """The logarithm of the weight of all ways to reach the sum."""
        return self._whole.log(self._total) - self.tilt * self._total

    def draw(self, draws: int, rng: Generator) -> Integers:
        """Return independent draws of the numbers, a row each."""
        sums = np.full((1, draws), self._total, dtype=np.int64)
        for heads, laws in reversed(self._steps):
            remaining = np.delete(np.arange(len(laws)), heads + 1)
            below = np.empty((len(laws), draws), dtype=np.int64)
            below[remaining] = sums
            part = _split([laws[i] for i in heads], [laws[i + 1] for i in heads], below[heads], rng)
            below[heads], below[heads + 1] = part, below[heads] - part
            sums = below
        numbers = np.empty_like(sums)
        numbers[self._order] = sums
        return numbers.T


def _weighted(laws: Sequence[IntegerLaw], log_weights: Sequence[LogWeights]) -> list[IntegerLaw]:
    """Return laws times weights; equal laws with equal weights are one object again."""
    pairs = {(id(law), id(log)): (law, log) for law, log in zip(laws, log_weights, strict=True)}
    factors, logs = zip(*pairs.values(), strict=True)
    products = dict(zip(pairs, _times(factors, partial(by_function, logs)), strict=True))
    return [products[id(law), id(log)] for law, log in zip(laws, log_weights, strict=True)]


def _times(laws: Sequence[IntegerLaw], logarithms: Callable[[Integers, Integers], Floats]) -> list[IntegerLaw]:
    """Return laws with weights times others, whose logarithms are a function of all laws' numbers, and lengths."""
    ends = _ends(laws)
    starts, lengths = ends[:-1], np.diff(ends)
    numbers = np.arange(ends[-1]) + np.repeat(np.array([law.low for law in laws]) - starts, lengths)
    with np.errstate(divide="ignore"):
        logs = np.log(np.concatenate([law.weights for law in laws])) + logarithms(numbers, lengths)
    largest = np.maximum.reduceat(logs, starts)
    return _without_ends(laws, np.exp(logs - np.repeat(largest, lengths)), ends, largest)


def _without_ends(laws: Sequence[IntegerLaw], weights: Floats, ends: Indices, scales: Floats) -> list[IntegerLaw]:
    """Return laws with other weights, one after the other, each without the ends that weigh nothing."""
    places = np.flatnonzero(weights > _TRIMMED)
    begins, stops = places[np.searchsorted(places, ends[:-1])], places[np.searchsorted(places, ends[1:]) - 1] + 1
    parts = zip(laws, ends[:-1].tolist(), begins.tolist(), stops.tolist(), scales.tolist(), strict=True)
    return [IntegerLaw(law.low + i - start, weights[i:j], law.scale + scale) for law, start, i, j, scale in parts]


def by_function(functions: Sequence[LogWeights], numbers: Integers, lengths: Integers) -> Floats:
    """Return the function of each number, a function for so many: computed once for equal ones, if many are."""
    distinct = {id(function): function for function in functions}
    places = {key: place for place, key in enumerate(distinct)}
    owners = np.repeat([places[id(function)] for function in functions], lengths)
    order, values = np.argsort(owners, kind="stable"), np.empty(len(numbers))
    parts, ends = [], np.cumsum(np.bincount(owners))[:-1]
    for function, part in zip(distinct.values(), np.split(numbers[order], ends), strict=True):
        low, high = int(part.min()), int(part.max())
        if high - low >= len(part):
            parts.append(function(part))
        else:
            parts.append(function(np.arange(low, high + 1))[part - low])
    values[order] = np.concatenate(parts)
    return values


def _tilt(laws: Sequence[IntegerLaw], total: int) -> float:
    """Return by what the laws are tilted for the sum to be near its mean: this changes no draw, only precision."""
    ends, low = _ends(laws), np.array([law.low for law in laws])
    starts, lengths = ends[:-1], np.diff(ends)
    with np.errstate(divide="ignore"):
        logs = np.log(np.concatenate([law.weights for law in laws]))
    numbers = np.arange(len(logs)) - np.repeat(starts, lengths)

    def beyond(tilt: float) -> tuple[float, float]:
        powers = logs + tilt * numbers
        tilted = np.exp(powers - np.repeat(np.maximum.reduceat(powers, starts), lengths))
        mass = np.add.reduceat(tilted, starts)
        mean = np.add.reduceat(tilted * numbers, starts) / mass
        square = np.add.reduceat(tilted * numbers.astype(np.float64) ** 2, starts) / mass
        return float((low + mean).sum()) - total, math.sqrt(max(float((square - mean**2).sum()), 1e-300))

    distance, spread = beyond(0.0)
    if abs(distance) <= 3.0 * spread:
        return 0.0
    inner, outer = 0.0, -math.copysign(1.0 / max(spread, 1.0), distance)
    while beyond(outer)[0] * distance > 0.0 and abs(outer) < 1e3:  # until the mean of the sum is on the other side
        inner, outer = outer, 4.0 * outer
    for _ in range(40):
        middle = 0.5 * (inner + outer)
        excess, spread = beyond(middle)
        if abs(excess) <= 0.5 * spread:
            break
        inner, outer = (middle, outer) if excess * distance > 0.0 else (inner, middle)
    return middle


def _split(ones: Sequence[IntegerLaw], others: Sequence[IntegerLaw], sums: Integers, rng: Generator) -> Integers:
    """Return the first of two numbers with a given sum, pair by pair (rows) and draw by draw."""
    # Numbers are proposed by the narrower law and kept in proportion to the weight of what is left for the other.
    swapped = np.array([len(a.weights) > len(b.weights) for a, b in zip(ones, others, strict=True)])
    pairs = [sorted(pair, key=lambda law: len(law.weights)) for pair in zip(ones, others, strict=True)]
    narrow, wide = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    line = np.concatenate([row + np.cumsum(law.weights) / law.weights.sum() for row, law in enumerate(narrow)])
    starts, ends = _ends(narrow), _ends(wide)
    weights = np.concatenate([law.weights for law in wide])
    low = np.array([law.low for law in narrow])
    lengths, wide_low = np.diff(ends), np.array([law.low for law in wide])
    results = np.empty(sums.shape, dtype=np.int64)
    row, column = (part.ravel() for part in np.indices(sums.shape))
    for _ in range(_ROUNDS):
        if not len(row):
            break
        tickets = np.minimum(np.searchsorted(line, row + rng.random(len(row)), side="right"), starts[row + 1] - 1)
        number = low[row] + tickets - starts[row]
        place = sums[row, column] - number - wide_low[row]
        inside = (place >= 0) & (place < lengths[row])
        weight = np.where(inside, weights[ends[row] + np.clip(place, 0, lengths[row] - 1)], 0.0)
        accepted = rng.random(len(row)) < weight
        results[row[accepted], column[accepted]] = number[accepted]
        row, column = row[~accepted], column[~accepted]
    if len(row):
        order = np.argsort(row, kind="stable")
        row, column = row[order], column[order]
        chances = np.concatenate([law.weights for law in narrow])
        remainders = sums[row, column] - low[row] - wide_low[row]
        place = _listed((chances, starts), (weights, ends), row, remainders, rng.random(len(row)))
        results[row, column] = low[row] + place
    return np.where(swapped[:, None], sums - results, results)


def _listed(
    ones: tuple[Floats, Indices], others: tuple[Floats, Indices], pair: Indices, sums: Integers, shares: Floats
) -> Integers:
    """Return the places of first numbers in their laws, by listing all that they may have."""
    # ones, others: weights of the pairs' laws, one after the other, and where each begins, and the last ends; sums:
    # less the least numbers of both; shares: of the weight that lies before a number.
    (weights, starts), (wide, ends) = ones, others
    _, index, case = np.unique(pair * (int(sums.max()) + 1) + sums, return_index=True, return_inverse=True)
    pair, sums = pair[index], sums[index]
    lowest = np.maximum(sums - (ends[pair + 1] - ends[pair] - 1), 0)
    lengths = np.minimum(starts[pair + 1] - starts[pair], sums + 1) - lowest
    results, cases = np.empty(len(shares), dtype=np.int64), np.argsort(case, kind="stable")
    ordered, totals = case[cases], np.cumsum(lengths)
    start = 0
    while start < len(pair):  # as many at a time as fit
        stop = max(start + 1, int(np.searchsorted(totals, (totals[start - 1] if start else 0) + _LISTED, side="right")))
        part, length = slice(start, stop), lengths[start:stop]
        begins, place = np.cumsum(length) - length, np.arange(int(length.sum()))
        chances = weights[place + np.repeat(starts[pair[part]] + lowest[part] - begins, length)]
        chances *= wide[np.repeat(ends[pair[part]] + sums[part] - lowest[part] + begins, length) - place]
        chances /= np.repeat(np.maximum(np.maximum.reduceat(chances, begins), 1e-300), length)
        cumulated = np.cumsum(chances)
        base = cumulated[begins] - chances[begins]
        mass = cumulated[begins + length - 1] - base
        rows = cases[np.searchsorted(ordered, start) : np.searchsorted(ordered, stop)]
        cells = case[rows] - start
        reached = np.searchsorted(cumulated, base[cells] + mass[cells] * shares[rows], side="right")
        results[rows] = lowest[case[rows]] + np.clip(reached - begins[cells], 0, length[cells] - 1)
        start = stop
    return results


def _ends(laws: Sequence[IntegerLaw]) -> Indices:
    return np.concatenate(([0], np.cumsum([len(law.weights) for law in laws])))
