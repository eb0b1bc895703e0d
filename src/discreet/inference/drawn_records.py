"""The confidential counts given records that were drawn from them without noise: factors of single cells.

What cells share besides is proposed without, and kept in proportion: docs/theory/mechanism-aware-posterior.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.random import Generator

from discreet._core.numeric import Booleans, Floats, Integers, log_rising
from discreet.inference.prior import CountPosterior, Lattice, Noise, Prior, log_prior
from discreet.inference.sums import Sums
from discreet.mechanisms import likelihood as likelihoods

if TYPE_CHECKING:
    from discreet.inference.samplers import ReleasedRecords

_DROP = 45.0  # in logarithms, below the largest
_PILOT, _ROUNDS = 64, 4  # draws that tell about how many cells are held


def product(
    likelihood: likelihoods.DrawnFromCounts, prior: Prior, records: int, drawn: Integers, *, held: float = 0.0
) -> tuple[Lattice, Sums]:
    """Return the counts where each cell has a factor of its own, and one more, of logarithm ``held``, if it is held."""
    cells = np.arange(len(drawn))

    def log_weight(counts: Integers, which: Integers = cells) -> Floats:
        return likelihood.log_weight(records, which, counts, drawn[which])

    tilt = _tilt_to_sum(log_weight, records, len(cells), int(drawn.sum()))
    low, high = _window(lambda c: log_weight(c) + tilt * c, records, len(cells))
    guess = drawn.astype(np.float64) * (records / max(1, int(drawn.sum())))
    lattice = Lattice.fine(records, float((high - low).min()) / 15.0, prior, guess)
    away = rounded_away(lattice)

    def factor(cell: int) -> tuple[Integers, Floats]:
        numbers = lattice.numbers(low[cell], high[cell])
        counts = np.minimum(numbers * lattice.step, records)
        bonus = np.full(len(numbers), held)
        if numbers[0] == 0:  # its mean, where counts are rounded to 0
            bonus[0] = math.log1p(away[cell] * math.expm1(held))
        logs = log_weight(counts, np.full(len(counts), cell)) + tilt * counts + bonus
        if cell == 0:
            logs -= tilt * lattice.step * lattice.total
        return numbers, logs

    return lattice, lattice.sums(cells.tolist(), factor)


def rounded_away(lattice: Lattice) -> Floats:
    """Return the probability that the count of each cell is not 0 where it is rounded to 0."""
    cells = lattice.cells
    logs = {cell: float(log_prior(cell[0], np.zeros(1), lattice.step, cell[1])[0]) for cell in {*cells}}
    return np.asarray(-np.expm1(-np.maximum(0.0, [logs[cell] for cell in cells])))


def held_cells(
    law: likelihoods.DrawnFromCounts, prior: Prior, records: int, drawn: Integers, rng: Generator
) -> CountPosterior:
    """Return proposals given drawn records, with a factor, of concave logarithm, of the number of cells held."""
    # Counts are proposed with the tangent at about the number of cells that are held, which is nowhere below.
    log_held, released = law.log_held, int(drawn.sum())
    assert log_held is not None
    number = max(1, int(np.count_nonzero(drawn)))

    def propose(draws: int, rng: Generator) -> tuple[Floats, Integers]:
        counts = lattice.counts(sums.draw(draws, rng))
        occupied = np.asarray(np.count_nonzero(counts, axis=1))
        if lattice.step > 1:  # those that are rounded to 0 may hold a record
            away = rounded_away(lattice)
            odds = away * math.exp(slope)
            hidden = rng.random(counts.shape) < odds / (odds + 1.0 - away)
            occupied += np.count_nonzero((counts == 0.0) & hidden, axis=1)
        return counts, occupied

    for _ in range(_ROUNDS):
        value, following = log_held(np.array([number, number + 1]), released).tolist()
        slope = following - value
        lattice, sums = product(law, prior, records, drawn, held=slope)
        nearer = max(1, round(float(propose(_PILOT, rng)[1].mean())))
        if abs(nearer - number) <= 1:
            break
        number = nearer

    def draw(draws: int, rng: Generator) -> tuple[Floats, Floats]:
        counts, occupied = propose(draws, rng)
        return counts, log_held(occupied, released) - (value + slope * (occupied - number))

    return CountPosterior(sums.log + value - slope * number, draw, lattice.step, proposed=True)


def _first(matches: Callable[[Integers], Booleans], last: Integers) -> Integers:
    """Return, by halving, the first integers that match: all up to the last, which does, do so from there on."""
    low, high = np.zeros_like(last), last
    while (high > low).any():
        middle = (low + high) // 2
        match = matches(middle)
        low, high = np.where(match, low, np.minimum(middle + 1, high)), np.where(match, middle, high)
    return low


def _modes(log_weight: Callable[[Integers], Floats], records: int, cells: int) -> Integers:
    """Return where concave functions of a count are largest."""
    last = np.full(cells, records, dtype=np.int64)
    return _first(lambda c: log_weight(np.minimum(c + 1, records)) <= log_weight(c), last)


def _window(log_weight: Callable[[Integers], Floats], records: int, cells: int) -> tuple[Integers, Integers]:
    """Return from where to where concave functions of a count are within a distance of their largest values."""
    mode = _modes(log_weight, records, cells)
    lowest = log_weight(mode) - _DROP
    low = _first(lambda c: log_weight(c) >= lowest, mode)
    return low, records - _first(lambda c: log_weight(records - c) >= lowest, records - mode)


def _tilt_to_sum(log_weight: Callable[[Integers], Floats], records: int, cells: int, size: int) -> float:
    """Return the slope that makes the likeliest counts of all cells, each by itself, have about the right sum."""

    def excess(tilt: float) -> int:
        return int(_modes(lambda c: log_weight(c) + tilt * c, records, cells).sum()) - records

    low, high = -max(1.0, float(size)) / records, 0.0
    while excess(low) > 0:
        low *= 2.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        if excess(middle) > 0:
            high = middle
        else:
            low = middle
    return low


# The confidential counts given records of an urn that holds noisy counts, and opens new values for all other records.
# Counts and noisy ones are proposed without regard to the sum that the certificate tells, tilted so that it is near.

_PILOT_SUMS, _SUM_ROUNDS = 200, 8  # draws that tell how far the sum of the noisy counts is from what it has to be
_FINE = 32.0  # parts of its standard deviation to which that sum is met, where it is large


class NoisyUrn:
    """Proposals of the counts of cells under one prior, with the noisy counts, of which the release tells the sum."""

    def __init__(
        self, likelihood: likelihoods.ThresholdedUrn, prior: Prior, release: ReleasedRecords, rng: Generator
    ) -> None:
        assert release.kept is not None  # the certificate of such a release tells it
        records, drawn, kept = release.n, release.values, release.kept
        self._records, self._size, self._kept = records, int(drawn.sum()), kept
        self._noise, self._minimum = Noise.from_law(likelihood.law, likelihood.scale), likelihood.threshold
        self._strength = likelihood.strength
        self._kinds = [*zip(drawn.tolist(), likelihood.base().tolist(), strict=True)]  # records, share of new values
        total = records + likelihood.strength
        self._opened, self._each = likelihood.strength + records - kept, total / self._size
        # However few records are released, the lattice tells noise apart: the sum of the noisy counts is told.
        spread = min(math.hypot(self._noise.spread, self._each), 2.0 * self._noise.spread)
        self._lattice = Lattice.fine(records, spread, prior, drawn.astype(np.float64) * (records / self._size))
        self.step = self._lattice.step
        self._fall = math.log1p(self._size / total)  # of the law, per record of the noisy counts
        # Besides, noise is tilted, so that noisy counts move and counts do not; less steeply than its own tails are.
        self._within, steepest = 0, 0.5 / likelihood.scale
        self._set_lean(0.0, None)
        rounds = _SUM_ROUNDS if kept < records else 0
        for _ in range(rounds):  # until the sum of the noisy counts is near what it has to be
            if self._sums.log == -math.inf:
                break
            sums = self._noisy(self._sums.draw(_PILOT_SUMS, rng), rng).sum(axis=1)
            excess, spread = float(sums.mean()) - kept, max(1.0, float(sums.std()))
            self._within = max(int(spread / _FINE), self.step // 2)
            if abs(excess) < 0.3 * spread:
                break
            lean = self._lean + max(-2.0, min(2.0, excess / spread)) / spread
            self._set_lean(max(-steepest, min(steepest, lean)), self._sums.tilt)

    def _set_lean(self, lean: float, tilt: float | None) -> None:
        """Tilt the noise: recompute how far it moves a count, in steps, the weight of each move, and all laws."""
        self._lean, reach = lean, math.ceil(self._noise.reach / self.step)
        self._moves = np.arange(-reach, reach + 1)
        noise = self.step * self._moves.astype(np.float64)
        self._chances = np.exp(self._noise.log_pmf(noise) - self._noise.log_whole - lean * noise) * self.step
        self._factors = {kind: self._factor(*kind) for kind in dict.fromkeys(self._kinds)}
        self._sums = self._lattice.sums(self._kinds, lambda kind: self._logs(self._factors[kind]), tilt=tilt)

    def posterior(self) -> CountPosterior:
        lean = self._lean * (self._kept - self._lattice.total * self.step)
        text = "the sum of the noisy counts is met to within a small part of its standard deviation"
        log = self._sums.log + self._fall * self._kept + lean
        return CountPosterior(log, self._draw, self.step, text if self._within > 0 else "", proposed=True)

    def _draw(self, draws: int, rng: Generator) -> tuple[Floats, Floats]:
        numbers = self._sums.draw(draws, rng)
        total = self._noisy(numbers, rng).sum(axis=1)
        if self._kept < self._records:
            tilt = self._fall + self._lean
            weights = np.where(np.abs(total - self._kept) <= self._within, tilt * (total - self._kept), -np.inf)
        else:  # all that is told of the sum is that it is not less
            law = log_rising(self._strength + total, np.full(draws, float(self._size)))
            weights = np.where(total >= self._kept, self._fall * (total - self._kept) - law, -np.inf)
        return self._lattice.counts(numbers), np.asarray(weights)

    def _factor(self, drawn: int, share: float) -> _CellFactor:
        """Return what so many released records tell of a cell that has this share of new values."""
        opened, step, minimum = self._opened * share, self.step, self._minimum
        spread = self._each * math.sqrt((drawn + 1.0) * (1.0 + 1.0 / self._each))
        high = max(float(minimum), self._each * drawn) + 20.0 * spread
        low = max(float(minimum), self._each * drawn - 9.0 * spread)
        y = np.arange(math.ceil(low / step), math.ceil(high / step) + 1)
        logs, nothing = np.asarray(-self._fall * step * y, dtype=np.float64), 0.0
        if drawn:
            logs += log_rising(step * y.astype(np.float64) + opened, np.full(len(y), float(drawn)))
            nothing = float(log_rising(np.array([max(opened, 1e-300)]), np.array([float(drawn)]))[0])
        peak = max(float(logs.max()), nothing)
        probable = logs > peak - _DROP
        ends = [minimum + self._noise.reach, 0.0] if nothing > peak - _DROP else []
        if probable.any():
            y, logs = y[probable], logs[probable]
            ends += [step * float(y[0]) - self._noise.reach, step * float(y[-1]) + self._noise.reach]
        return _CellFactor(self._lattice.numbers(min(ends), max(ends)), y, logs - peak, nothing - peak, peak)

    def _unkept(self, factor: _CellFactor, numbers: Integers) -> Floats:
        """Return the weight of each count where its noisy count was not kept."""
        chance = np.where(numbers > 0, self._noise.below(self._minimum - self.step * numbers), 1.0)
        with np.errstate(divide="ignore"):  # of a count that is not kept, noise takes all
            return np.asarray(np.exp(np.log(chance) + self._lean * self.step * numbers + factor.nothing))

    def _logs(self, factor: _CellFactor) -> tuple[Integers, Floats]:
        """Return the numbers that a cell's count may have, and their log-likelihood."""
        numbers, y = factor.numbers, factor.y
        lowest, last = int(numbers[0] + self._moves[0]), int(numbers[-1] + self._moves[-1])
        factors = np.zeros(last - lowest + 1)
        start, stop = max(lowest, int(y[0])), min(last, int(y[-1])) + 1
        factors[max(0, start - lowest) : max(0, stop - lowest)] = np.exp(factor.logs[start - y[0] : stop - y[0]])
        weights = np.convolve(factors, self._chances[::-1], mode="valid")
        with np.errstate(divide="ignore"):
            return numbers, np.log(weights * (numbers > 0) + self._unkept(factor, numbers)) + factor.peak

    def _noisy(self, numbers: Integers, rng: Generator) -> Floats:
        """Return draws of the noisy counts given the counts, 0 where none was kept."""
        noisy = np.empty(numbers.shape)
        cells: dict[tuple[int, float], list[int]] = {}
        for cell, kind in enumerate(self._kinds):
            cells.setdefault(kind, []).append(cell)
        for kind, columns in cells.items():
            factor = self._factors[kind]
            distinct, place = np.unique(numbers[:, columns], return_inverse=True)
            moved = distinct[:, None] + self._moves
            index = moved - factor.y[0]
            inside = (index >= 0) & (index < len(factor.y)) & (distinct > 0)[:, None]
            likelihoods = np.exp(factor.logs[np.clip(index, 0, len(factor.y) - 1)])
            moves = np.where(inside, self._chances * likelihoods, 0.0)
            weights = np.column_stack((self._unkept(factor, distinct), moves))
            values = np.column_stack((np.zeros(len(distinct)), self.step * moved.astype(np.float64)))
            cumulated = np.cumsum(weights, axis=1)
            line = (np.arange(len(distinct))[:, None] + cumulated / cumulated[:, -1:]).ravel()
            rows, width = place.ravel(), values.shape[1]
            index = np.searchsorted(line, rows + rng.random(len(rows)), side="right") - width * rows
            noisy[:, columns] = values[rows, np.minimum(index, width - 1)].reshape(len(numbers), -1)
        return noisy


class _CellFactor(NamedTuple):
    """What the released records of a cell tell."""

    numbers: Integers  # of the lattice, that its count may have
    y: Integers  # that the noisy count may have
    logs: Floats  # the log-likelihood of those
    nothing: float  # the log-likelihood where none was kept
    peak: float  # what was taken off these logarithms
