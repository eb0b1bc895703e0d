"""The confidential counts given records that were drawn from them without noise.

Each cell then has a factor of its own. Where there is one more that all cells share, counts are proposed without it, or
with the nearest that cells have by themselves, and kept in proportion to the rest: exact draws.

Theory: docs/theory/mechanism-aware-posterior.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from discreet._core.arrays import Floats, Integers
from discreet._core.numeric import log_rising
from discreet.inference.lattice import Lattice, OnLattice
from discreet.inference.prior import Noise, Prior, log_prior
from discreet.inference.sums import Sums
from discreet.mechanisms import DrawnFromCounts, ThresholdedUrn

_DROP = 45.0  # in logarithms, below the largest
_PILOT, _ROUNDS = 64, 4  # draws that tell about how many cells are held


def product(
    likelihood: DrawnFromCounts, prior: Prior, records: int, drawn: Integers, *, held: float = 0.0
) -> OnLattice:
    """Return the posterior where each cell has a factor of its own.

    ``held``: the logarithm of one more factor of each cell that holds a record.
    """
    cells = np.arange(len(prior.alpha))

    def log_weight(counts: Integers, which: Integers = cells) -> Floats:
        return likelihood.log_weight(records, which, counts, drawn[which])

    tilt = _tilt(log_weight, records, len(cells), int(drawn.sum()))
    low, high = _window(lambda c: log_weight(c) + tilt * c, records, len(cells))
    guess = drawn.astype(np.float64) * (records / max(1, int(drawn.sum())))
    lattice = Lattice.fine(records, float((high - low).min()) / 15.0, prior, guess)
    factors, offset = {}, tilt * lattice.step * lattice.total
    for cell, prior_of_cell in enumerate(lattice.cells):
        numbers = lattice.numbers(low[cell], high[cell])
        counts = np.minimum(numbers * lattice.step, records)
        bonus = np.full(len(numbers), held)
        if numbers[0] == 0 and held:  # its mean, where counts are rounded to 0
            bonus[0] = math.log1p(_rounded_away(lattice, *prior_of_cell) * math.expm1(held))
        logs = log_weight(counts, np.full(len(counts), cell)) + tilt * counts + (bonus - offset)
        factors[cell], offset = (prior_of_cell, numbers, logs), 0.0
    return OnLattice(lattice, Sums([*lattice.laws(factors).values()], lattice.total, lattice.levels))


def _rounded_away(lattice: Lattice, alpha: float, rate: float) -> float:
    """Return the probability that a count which is rounded to 0 is not 0."""
    return -math.expm1(-max(0.0, float(log_prior(alpha, np.zeros(1), lattice.step, rate)[0])))


class HeldCells:
    """Proposals for records that were drawn given the counts, with a factor that the number of held cells has.

    Its logarithm is concave. Counts are proposed with the tangent at about the number of cells that are held, which is
    nowhere below.
    """

    approximation = ""

    def __init__(
        self, likelihood: DrawnFromCounts, prior: Prior, records: int, drawn: Integers, rng: np.random.Generator
    ) -> None:
        assert likelihood.log_held is not None
        self._factor, self._released = likelihood.log_held, int(drawn.sum())
        self._near = max(1, int(np.count_nonzero(drawn)))
        for _ in range(_ROUNDS):
            self._slope = float(np.diff(self._log_factor(self._near, self._near + 1))[0])
            self._plain = product(likelihood, prior, records, drawn, held=self._slope)
            near = max(1, round(float(self._held(self._plain.draw(_PILOT, rng), rng).mean())))
            if abs(near - self._near) <= 1:
                break
            self._near = near

    def _log_factor(self, *held: int) -> Floats:
        return self._factor(np.array(held), self._released)

    @property
    def log(self) -> float:
        return self._plain.log + float(self._log_factor(self._near)[0]) - self._slope * self._near

    @property
    def step(self) -> int:
        return self._plain.step

    def _held(self, counts: Floats, rng: np.random.Generator) -> Integers:
        """Return how many cells hold a record: those that are rounded to 0 may."""
        held = np.count_nonzero(counts, axis=1)
        if self.step > 1:
            lattice = self._plain.lattice
            away = np.array([_rounded_away(lattice, *cell) for cell in lattice.cells])
            odds = away * math.exp(self._slope)
            chances = odds / (odds + (1.0 - away))
            held += np.count_nonzero((counts == 0.0) & (rng.random(counts.shape) < chances), axis=1)
        return np.asarray(held)

    def propose(self, number: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        counts = self._plain.draw(number, rng)
        held = self._held(counts, rng)
        log = self._factor(held, self._released)
        return counts, log - (self._log_factor(self._near) + self._slope * (held - self._near))


def _mode(log_weight: Callable[[Integers], Floats], records: int, cells: int) -> Integers:
    """Return where concave functions of a count are largest, by halving."""
    low, high = np.zeros(cells, dtype=np.int64), np.full(cells, records, dtype=np.int64)
    while (high > low).any():
        middle = (low + high) // 2
        rising = log_weight(np.minimum(middle + 1, records)) > log_weight(middle)
        low, high = np.where(rising, np.minimum(middle + 1, high), low), np.where(rising, high, middle)
    return low


def _window(log_weight: Callable[[Integers], Floats], records: int, cells: int) -> tuple[Integers, Integers]:
    """Return from where to where concave functions of a count are within a distance of their largest values."""
    mode = _mode(log_weight, records, cells)
    lowest = log_weight(mode) - _DROP
    ends = []
    for limit in (np.zeros(cells, dtype=np.int64), np.full(cells, records, dtype=np.int64)):
        inside, outside = mode.copy(), np.where(log_weight(limit) >= lowest, mode, limit)
        inside = np.where(outside == mode, limit, inside)
        outside = np.where(inside == limit, limit, outside)
        while (np.abs(outside - inside) > 1).any():
            middle = (inside + outside) // 2
            likely = log_weight(middle) >= lowest
            inside, outside = np.where(likely, middle, inside), np.where(likely, outside, middle)
        ends.append(inside)
    return ends[0], ends[1]


def _tilt(log_weight: Callable[[Integers], Floats], records: int, cells: int, size: int) -> float:
    """Return the slope that makes the likeliest counts of all cells, each by itself, have about the right sum."""

    def excess(tilt: float) -> int:
        return int(_mode(lambda c: log_weight(c) + tilt * c, records, cells).sum()) - records

    low, high = -max(1.0, float(size)) / records, 0.0
    while excess(low) > 0:
        low *= 2.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if excess(middle) > 0 else (middle, high)
    return low


# The confidential counts given records of an urn that holds noisy counts, and opens new values for all other records.
#
# The released records have a Dirichlet-multinomial law, whose masses are the noisy counts that were kept and a part of
# what they leave of the total, :math:`\theta + (n - \sum D)^+`, in every cell. The certificate tells the sum, so that a
# cell has a factor of its own. Counts and noisy ones are proposed without regard to the sum of the latter, tilted so
# that it is near, and kept where it is the one that is told.
#
# Theory: docs/theory/mechanism-aware-posterior.md.

_PILOT_SUMS, _SUM_ROUNDS = 200, 8  # draws that tell how far the sum of the noisy counts is from what it has to be
_FINE = 32.0  # parts of its standard deviation to which that sum is met, where it is large


class NoisyUrn:
    """Proposals of the counts of cells under one prior, with the noisy counts.

    ``kept``: the sum of the noisy counts that were kept, up to the number of records.
    """

    def __init__(
        self,
        likelihood: ThresholdedUrn,
        prior: Prior,
        records: int,
        drawn: Integers,
        kept: int,
        rng: np.random.Generator,
    ) -> None:
        self._records, self._drawn, self._size, self._kept = records, drawn, int(drawn.sum()), kept
        self._noise, self._least = Noise.of(likelihood.law, likelihood.scale), likelihood.threshold
        self._strength, self._base = likelihood.strength, likelihood.base()
        total = records + likelihood.strength
        self._opened, self._each = likelihood.strength + records - kept, total / self._size
        guess = drawn.astype(np.float64) * (records / self._size)
        # However few records are released, the lattice tells noise apart: the sum of the noisy counts is told.
        spread = min(math.hypot(self._noise.spread, self._each), 2.0 * self._noise.spread)
        self._lattice = Lattice.fine(records, spread, prior, guess)
        self._tilt: float | None = None
        self._within = 0
        self._fall = math.log1p(self._size / total)  # of the law, per record of the noisy counts
        # Besides, noise is tilted, so that noisy counts move and counts do not; less steeply than its own tails are.
        self._lean, self._steepest = 0.0, 0.5 / likelihood.scale
        self._sums = self._laws()
        if kept < records:
            self._settle(rng)

    def _settle(self, rng: np.random.Generator) -> None:
        """Tilt the noisy counts until their sum is near what it has to be."""
        for _ in range(_SUM_ROUNDS):
            if self._sums.log == -math.inf:
                return
            sums = self._noisy(self._sums.draw(_PILOT_SUMS, rng), rng).sum(axis=1)
            excess, spread = float(sums.mean()) - self._kept, max(1.0, float(sums.std()))
            self._within = max(int(spread / _FINE), self.step // 2)
            if abs(excess) < 0.3 * spread:
                return
            lean = self._lean + max(-2.0, min(2.0, excess / spread)) / spread
            self._lean = max(-self._steepest, min(self._steepest, lean))
            self._sums = self._laws()

    @property
    def log(self) -> float:
        return self._sums.log + self._fall * self._kept + self._lean * (self._kept - self._lattice.total * self.step)

    @property
    def step(self) -> int:
        return self._lattice.step

    @property
    def approximation(self) -> str:
        text = "the sum of the noisy counts is met to within a small part of its standard deviation"
        return text if self._within else ""

    def propose(self, number: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        numbers = self._sums.draw(number, rng)
        total = self._noisy(numbers, rng).sum(axis=1)
        if self._kept < self._records:
            tilt = self._fall + self._lean
            weights = np.where(np.abs(total - self._kept) <= self._within, tilt * (total - self._kept), -np.inf)
        else:  # all that is told of the sum is that it is not less
            law = log_rising(self._strength + total, np.full(number, float(self._size)))
            weights = np.where(total >= self._kept, self._fall * (total - self._kept) - law, -np.inf)
        return self._lattice.counts(numbers), np.asarray(weights)

    @cached_property
    def _kinds(self) -> list[tuple[int, float]]:
        """Of each cell: its released records, and its share of new values."""
        return [*zip(self._drawn.tolist(), self._base.tolist(), strict=True)]

    def _laws(self) -> Sums:
        factors = {kind: self._factor(*kind) for kind in {*self._kinds}}
        logs = {kind: factor.logs for kind, factor in factors.items()}
        kinds = [*zip(self._lattice.cells, self._kinds, strict=True)]
        laws = self._lattice.laws({kind: (kind[0], factors[kind[1]].numbers, logs[kind[1]]) for kind in kinds})
        sums = Sums([laws[kind] for kind in kinds], self._lattice.total, self._lattice.levels, tilt=self._tilt)
        self._tilt = sums.tilt
        return sums

    def _factor(self, drawn: int, share: float) -> _CellFactor:
        """Return what so many released records tell of a cell that has this share of new values."""
        opened, lattice, step = self._opened * share, self._lattice, self._lattice.step
        spread = self._each * math.sqrt((drawn + 1.0) * (1.0 + 1.0 / self._each))
        high = max(float(self._least), self._each * drawn) + 20.0 * spread
        low = max(float(self._least), self._each * drawn - 9.0 * spread)
        y = np.arange(math.ceil(low / step), math.ceil(high / step) + 1)
        read = _log_rising(step * y.astype(np.float64) + opened, np.full(len(y), drawn)) - self._fall * step * y
        nothing = float(_log_rising(np.array([opened]), np.array([drawn]))[0])
        peak = max(float(read.max()), nothing)
        kept = read > peak - _DROP
        ends = [self._least + self._noise.reach, 0.0] if nothing > peak - _DROP else []
        if kept.any():
            y, read = y[kept], read[kept]
            ends += [step * float(y[0]) - self._noise.reach, step * float(y[-1]) + self._noise.reach]
        numbers = lattice.numbers(min(ends), max(ends))
        return _CellFactor(self._noise, self._lean, self._least, step, numbers, y, read - peak, nothing - peak, peak)

    def _noisy(self, numbers: Integers, rng: np.random.Generator) -> Floats:
        """Return draws of the noisy counts given the counts, 0 where none was kept."""
        noisy = np.empty(numbers.shape)
        cells: dict[tuple[int, float], list[int]] = {}
        for cell, kind in enumerate(self._kinds):
            cells.setdefault(kind, []).append(cell)
        for (drawn, share), columns in cells.items():
            noisy[:, columns] = self._factor(drawn, share).noisy(numbers[:, columns], rng)
        return noisy


@dataclass(frozen=True)
class _CellFactor:
    """What the released records of a cell tell: lattice numbers of its count, and the log-likelihoods of noisy counts.

    ``noise``, ``lean``, ``least``: of its count, how it is tilted, and the least noisy count that was kept.
    ``nothing``: the log-likelihood where none was kept. ``peak``: what was taken off these logarithms.
    """

    noise: Noise
    lean: float
    least: int
    step: int
    numbers: Integers
    kept: Integers
    read: Floats
    nothing: float
    peak: float

    def _below(self, numbers: Integers) -> Floats:
        """Return the weight of each count where its noisy count was not kept."""
        chance = np.where(numbers > 0, self.noise.below(self.least - self.step * numbers), 1.0)
        with np.errstate(divide="ignore"):  # of a count that is not kept, noise takes all
            return np.asarray(np.exp(np.log(chance) + self.lean * self.step * numbers + self.nothing))

    @cached_property
    def _near(self) -> tuple[Integers, Floats]:
        """Return how far noise moves a count, in steps, and the weight of each move."""
        most = math.ceil(self.noise.reach / self.step)
        moves = np.arange(-most, most + 1)
        noise = self.step * moves.astype(np.float64)
        logs = self.noise.log_pmf(noise) - self.noise.log_whole - self.lean * noise
        return moves, np.asarray(np.exp(logs) * self.step)

    @property
    def logs(self) -> Floats:
        moves, chances = self._near
        first, last = int(self.numbers[0] + moves[0]), int(self.numbers[-1] + moves[-1])
        factors = np.zeros(last - first + 1)
        start, stop = max(first, int(self.kept[0])), min(last, int(self.kept[-1])) + 1
        logs = self.read[start - self.kept[0] : stop - self.kept[0]]
        factors[max(0, start - first) : max(0, stop - first)] = np.exp(logs)
        weights = np.convolve(factors, chances[::-1], mode="valid")
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(weights * (self.numbers > 0) + self._below(self.numbers)) + self.peak)

    def noisy(self, numbers: Integers, rng: np.random.Generator) -> Floats:
        """Return a noisy count for each count."""
        held, place = np.unique(numbers, return_inverse=True)
        moves, chances = self._near
        moved = held[:, None] + moves
        at = moved - self.kept[0]
        inside = (at >= 0) & (at < len(self.kept)) & (held > 0)[:, None]
        kept = np.where(inside, chances * np.exp(self.read[np.clip(at, 0, len(self.kept) - 1)]), 0.0)
        weights = np.concatenate((self._below(held)[:, None], kept), axis=1)
        cumulated = np.cumsum(weights, axis=1)
        line = (np.arange(len(held))[:, None] + cumulated / cumulated[:, -1:]).ravel()
        at = np.searchsorted(line, place.ravel() + rng.random(numbers.size), side="right")
        values = np.concatenate((np.zeros((len(held), 1)), self.step * moved.astype(np.float64)), axis=1)
        at = np.minimum(at - values.shape[1] * place.ravel(), values.shape[1] - 1)
        return np.asarray(values[place.ravel(), at].reshape(numbers.shape))


def _log_rising(a: Floats, drawn: Integers) -> Floats:
    """Return ``log (a)_z``, 0 where nothing was drawn."""
    return np.asarray(np.where(drawn > 0, log_rising(np.maximum(a, 1e-300), drawn.astype(np.float64)), 0.0))
