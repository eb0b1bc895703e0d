"""Whole numbers that are independent but for their sum: exact draws of all of them, without chains.

The laws of single numbers are convolved pair by pair up to the law of the sum of all. Given the sum, the way back
splits it in two again and again, each time by the exact law. All draws are independent of one another.

Theory: docs/theory/mechanism-aware-posterior.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from discreet._core.arrays import Floats, Indices, Integers

_TRIMMED = 1e-15  # of the largest weight: what lies further out is left out
_TRIES, _SAME = 60, 1e-12  # tilts, and how near two of them are the same
_ROUNDS = 5  # of proposals, before what is left is drawn by listing
_DIRECT = 1 << 20  # multiplications, beyond which convolutions use Fourier transforms


@dataclass(frozen=True, slots=True)
class Law:
    """Weights of the numbers ``low, low + 1, ...``; the largest is 1.

    ``scale``: logarithm of what the weights are to be multiplied with.
    """

    low: int
    weights: Floats
    scale: float = 0.0

    @classmethod
    def of(cls, low: int, logarithms: Floats) -> Law:
        """Return the law with these logarithms of weights."""
        largest = float(logarithms.max())
        return cls(low, np.exp(logarithms - largest), largest)

    def trimmed(self) -> Law:
        """Return the law without the ends that weigh nothing, scaled."""
        largest = float(self.weights.max())
        held = np.flatnonzero(self.weights > _TRIMMED * largest)
        first, last = int(held[0]), int(held[-1]) + 1
        return Law(self.low + first, self.weights[first:last] / largest, self.scale + math.log(largest))

    def tilted(self, tilt: float) -> Law:
        """Return the law with weights multiplied by ``e^(tilt number)``."""
        numbers: Floats = (self.low + np.arange(len(self.weights))).astype(np.float64)
        return self._times(tilt * numbers)

    def weighted(self, log_weights: Callable[[Integers], Floats]) -> Law:
        """Return the law with weights multiplied by others."""
        return self._times(log_weights(self.low + np.arange(len(self.weights))))

    def _times(self, logarithms: Floats) -> Law:
        with np.errstate(divide="ignore"):
            law = Law.of(self.low, np.log(self.weights) + logarithms)
        return Law(law.low, law.weights, law.scale + self.scale).trimmed()

    def plus(self, other: Law) -> Law:
        """Return the law of the sum of two independent numbers."""
        a, b = self.weights, other.weights
        if len(a) * len(b) <= _DIRECT:
            weights = np.convolve(a, b)
        else:
            length = len(a) + len(b) - 1
            size = 1 << (length - 1).bit_length()
            weights = np.maximum(np.fft.irfft(np.fft.rfft(a, size) * np.fft.rfft(b, size), size)[:length], 0.0)
        return Law(self.low + other.low, weights, self.scale + other.scale).trimmed()

    @property
    def mean(self) -> float:
        return float((self.low + np.arange(len(self.weights))) @ self.weights / self.weights.sum())

    def apart(self, number: int) -> tuple[float, float]:
        """Return how far a number is above the mean, and the variance."""
        numbers, mean = self.low + np.arange(len(self.weights)), self.mean
        return number - mean, float((numbers - mean) ** 2 @ self.weights / self.weights.sum())

    def log(self, number: int) -> float:
        """Return the logarithm of a number's weight."""
        at = number - self.low
        inside = 0 <= at < len(self.weights) and self.weights[at] > 0.0
        return self.scale + math.log(self.weights[at]) if inside else -math.inf


class Level(NamedTuple):
    """Sets of neighbouring numbers, or of sets, whose sums have weights of their own.

    ``of``: for each number or set of the level below, the set that it is in; sets have the numbers 0, 1, ... in order.
    ``log_weights``: for each set, the logarithms of the weights of sums.
    """

    of: Integers
    log_weights: Sequence[Callable[[Integers], Floats]]


class Sums:
    """Numbers of given laws whose sum is known.

    ``laws``: one a number.
    ``total``: the sum.
    ``levels``: of sets whose sums have weights too, from the smallest sets on.
    ``tilt``: by which the laws are tilted at first; that of a like case saves time.
    ``away``: how far the sum is from the mean of the laws' sum.
    """

    def __init__(
        self, laws: Sequence[Law], total: int, levels: Sequence[Level] = (), *, tilt: float | None = None
    ) -> None:
        self._total, self._whole = total, Law(total, np.zeros(1))
        least, most = sum(law.low for law in laws), sum(law.low + len(law.weights) - 1 for law in laws)
        self.away = abs(total - sum(law.mean for law in laws))
        self.tilt = 0.0
        if not least <= total <= most:
            return
        self.tilt = _tilt(laws, total) if tilt is None else tilt
        near, far = -math.inf, math.inf
        for _ in range(_TRIES):
            self._join(laws, levels)
            apart, variance = self._whole.apart(total)
            if abs(apart) <= 3.0 * math.sqrt(variance) or far - near < _SAME:
                break
            near, far = (self.tilt, far) if apart > 0.0 else (near, self.tilt)  # the weights of sets moved the sum
            spread = math.sqrt(max(variance, 1.0))
            further = self.tilt + max(-10.0, min(10.0, apart / spread)) / spread
            self.tilt = further if near < further < far else 0.5 * (near + far)

    def _join(self, laws: Sequence[Law], levels: Sequence[Level]) -> None:
        """Join the laws to that of the sum of all."""
        self._steps: list[tuple[Indices, list[Law]]] = []  # the first of each pair, and all laws before they are joined
        # Equal laws are one object. Where any two may be joined first, equal ones are: their sums are equal again.
        first: dict[int, int] = {}
        kinds = [first.setdefault(id(law), i) for i, law in enumerate(laws)]
        self._order = np.arange(len(laws)) if levels else np.argsort(kinds, kind="stable")
        tilted = {id(law): law.tilted(self.tilt) for law in laws}
        nodes = [tilted[id(laws[i])] for i in self._order.tolist()]
        for of, log_weights in levels:
            nodes = _weighted(self._joined(nodes, of), log_weights)
        (self._whole,) = self._joined(nodes, np.zeros(len(nodes), dtype=np.intp))

    def _joined(self, nodes: list[Law], of: Integers) -> list[Law]:
        """Return the laws of the sums of sets, which are joined pair by pair."""
        while True:
            place = np.arange(len(of)) - np.searchsorted(of, of)  # within its set
            first = np.flatnonzero((place[:-1] % 2 == 0) & (of[:-1] == of[1:]))
            if not len(first):
                return nodes
            self._steps.append((first, nodes))
            kept = np.delete(np.arange(len(of)), first + 1)
            sums: dict[tuple[int, int], Law] = {}
            joined = {}
            for i in first.tolist():
                key = id(nodes[i]), id(nodes[i + 1])
                if key not in sums:
                    sums[key] = nodes[i].plus(nodes[i + 1])
                joined[i] = sums[key]
            nodes = [joined.get(i, nodes[i]) for i in kept.tolist()]
            of = of[kept]

    @property
    def log(self) -> float:
        """The logarithm of the weight of all ways to reach the sum."""
        return self._whole.log(self._total) - self.tilt * self._total

    def draw(self, draws: int, rng: np.random.Generator) -> Integers:
        """Return independent draws of the numbers, a row each."""
        sums = np.full((1, draws), self._total, dtype=np.int64)
        for first, laws in reversed(self._steps):
            kept = np.delete(np.arange(len(laws)), first + 1)
            below = np.empty((len(laws), draws), dtype=np.int64)
            below[kept] = sums
            one = _split([laws[i] for i in first], [laws[i + 1] for i in first], below[first], rng)
            below[first], below[first + 1] = one, below[first] - one
            sums = below
        numbers = np.empty_like(sums)
        numbers[self._order] = sums
        return numbers.T


def _weighted(laws: Sequence[Law], log_weights: Sequence[Callable[[Integers], Floats]]) -> list[Law]:
    """Return laws times weights; equal laws with equal weights are one object again."""
    made: dict[tuple[int, int], Law] = {}
    pairs = [(law, log, (id(law), id(log))) for law, log in zip(laws, log_weights, strict=True)]
    for law, log, key in pairs:
        if key not in made:
            made[key] = law.weighted(log)
    return [made[key] for *_, key in pairs]


def _tilt(laws: Sequence[Law], total: int) -> float:
    """Return by what the laws are tilted for the sum to be near its mean: this changes no draw, only precision."""
    starts = _ends(laws)[:-1]
    low = np.array([law.low for law in laws])
    with np.errstate(divide="ignore"):
        logs = np.log(np.concatenate([law.weights for law in laws]))
    lengths = np.diff(np.append(starts, len(logs)))
    numbers = np.arange(len(logs)) - np.repeat(starts, lengths)

    def beyond(tilt: float) -> tuple[float, float]:
        powers = logs + tilt * numbers
        tilted = np.exp(powers - np.repeat(np.maximum.reduceat(powers, starts), lengths))
        mass = np.add.reduceat(tilted, starts)
        mean = np.add.reduceat(tilted * numbers, starts) / mass
        square = np.add.reduceat(tilted * numbers.astype(np.float64) ** 2, starts) / mass
        return float((low + mean).sum()) - total, math.sqrt(max(float((square - mean**2).sum()), 1e-300))

    apart, spread = beyond(0.0)
    if abs(apart) <= 3.0 * spread:
        return 0.0
    step = -math.copysign(1.0 / max(spread, 1.0), apart)
    near, far = 0.0, step
    while beyond(far)[0] * apart > 0.0 and abs(far) < 1e3:  # outwards until the mean of the sum is on the other side
        near, far = far, 4.0 * far
    for _ in range(40):
        middle = 0.5 * (near + far)
        other, spread = beyond(middle)
        if abs(other) <= 0.5 * spread:
            break
        near, far = (middle, far) if other * apart > 0.0 else (near, middle)
    return middle


def _split(ones: Sequence[Law], others: Sequence[Law], sums: Integers, rng: np.random.Generator) -> Integers:
    """Return the first of two numbers with a given sum, pair by pair (rows) and draw by draw.

    Numbers are proposed by the narrower law and kept in proportion to the weight of what is left for the other.
    """
    swapped = np.array([len(a.weights) > len(b.weights) for a, b in zip(ones, others, strict=True)])
    narrow = [b if swap else a for a, b, swap in zip(ones, others, swapped, strict=True)]
    wide = [a if swap else b for a, b, swap in zip(ones, others, swapped, strict=True)]
    line = np.concatenate([row + np.cumsum(law.weights) / law.weights.sum() for row, law in enumerate(narrow)])
    starts, ends = _ends(narrow), _ends(wide)
    weights = np.concatenate([law.weights for law in wide])
    low = np.array([law.low for law in narrow])
    lengths, wide_low = np.diff(ends), np.array([law.low for law in wide])
    found = np.empty(sums.shape, dtype=np.int64)
    row, column = (part.ravel() for part in np.indices(sums.shape))
    for _ in range(_ROUNDS):
        if not len(row):
            break
        at = np.searchsorted(line, row + rng.random(len(row)), side="right")
        at = np.minimum(at, starts[row + 1] - 1)
        number = low[row] + at - starts[row]
        place = sums[row, column] - number - wide_low[row]
        inside = (place >= 0) & (place < lengths[row])
        weight = np.where(inside, weights[ends[row] + np.clip(place, 0, lengths[row] - 1)], 0.0)
        kept = rng.random(len(row)) < weight
        found[row[kept], column[kept]] = number[kept]
        row, column = row[~kept], column[~kept]
    for pair in np.unique(row):
        mine = column[row == pair]
        found[pair, mine] = _listed(narrow[pair], wide[pair], sums[pair, mine], rng)
    return np.where(swapped[:, None], sums - found, found)


def _listed(narrow: Law, wide: Law, sums: Integers, rng: np.random.Generator) -> Integers:
    """Return the first of two numbers with a given sum, by listing all of them."""
    padded = np.concatenate(([0.0], wide.weights, [0.0]))
    place = sums[:, None] - (narrow.low + wide.low - 1 + np.arange(len(narrow.weights)))
    weights = narrow.weights * padded[np.minimum(np.maximum(place, 0), len(padded) - 1)]
    cumulated = np.cumsum(weights, axis=1)
    below = cumulated <= (cumulated[:, -1] * rng.random(len(sums)))[:, None]
    return np.asarray(narrow.low + np.count_nonzero(below, axis=1), dtype=np.int64)


def _ends(laws: Sequence[Law]) -> Indices:
    return np.concatenate(([0], np.cumsum([len(law.weights) for law in laws])))
