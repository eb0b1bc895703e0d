"""The confidential counts given records drawn from positive parts of noisy counts (mechanism-aware-posterior.md)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from discreet._core.numeric import Floats, Integers
from discreet.inference.prior import CountPosterior, Lattice, Noise, Prior
from discreet.inference.sums import Level, LogWeights, Sums, both, nothing
from discreet.mechanisms import likelihood as likelihoods

_HOPELESS = 30.0  # in logarithms, below the likeliest prior
_LEFT, _MOST_NODES = 14.0, 12  # in logarithms below the largest; on each side
_ROUNDING, _WHOLE = math.sqrt(1.0 / 6.0), 0.3  # standard deviations of what rounding changes: of shares, of counts


class Positive:
    """Records drawn from the positive parts of noisy counts, brought to the sum n: ``(y_j - shift)^+ / Y``."""

    # Either the shift is 0 and the sum Y unknown, or Y = n and the shift unknown; what is unknown is integrated.
    # Independent records have the sum as an exponential factor; each stratified number is its share to within one,
    # independently.

    def __init__(self, prior: Prior, likelihood: likelihoods.NoisyCellCounts, records: int, drawn: Integers) -> None:
        self._likelihood, self._records = likelihood, records
        self._drawn, self._size = np.asarray(drawn, dtype=np.int64), int(drawn.sum())
        self._noise = Noise.from_law(likelihood.law, likelihood.scale)
        self._each = records / self._size
        self._stratified = likelihood.sampling == "stratified"
        self._least = likelihood.threshold
        spread = math.hypot(self._noise.spread, self._each / math.sqrt(6.0))
        self._lattice = Lattice.fine(records, spread, self._tree_of(prior), self._each * self._drawn.astype(np.float64))
        self._tilt: float | None = None  # of the sums that were made last
        self._hopeless = False

    def _tree_of(self, prior: Prior) -> Prior:
        return prior

    def posterior(self) -> CountPosterior:
        """Return the posterior, whatever the unknown number is; its weight is 0 where the prior is hopeless."""
        text = ""
        if self._stratified:
            text = "the rounding of neighbouring cells' shares to whole records is taken as independent"
        elif self._likelihood.surplus == "shifted":
            text = "the reading is taken as one shift of all noisy counts, cut off at 0"
        return CountPosterior(-math.inf if self._hopeless else self._nodes[2], self._draw, self._lattice.step, text)

    @classmethod
    def posteriors(cls, priors: Sequence[Prior], *release: Any) -> Iterator[CountPosterior]:
        """Return the posteriors under several priors; one that weighs too little where the last peaks is hopeless."""
        # The unknown number is looked for under the last one.
        parts = [cls(prior, *release) for prior in priors]
        if len(parts) > 1:
            peaks = [part._log(parts[-1]._best) for part in parts]
            for part, peak in zip(parts, peaks, strict=True):
                part._hopeless = peak <= max(peaks) - _HOPELESS
        return (part.posterior() for part in parts)

    def _draw(self, draws: int, rng: np.random.Generator) -> Floats:
        """Return draws of the counts: from each node of the unknown number as many as it has weight."""
        nodes, weights, _ = self._nodes
        numbers = rng.multinomial(draws, weights)
        pairs = [(float(node), int(count)) for node, count in zip(nodes, numbers, strict=True) if count]
        counts = np.concatenate([self._sums(node).draw(count, rng) for node, count in pairs])
        return self._lattice.counts(counts[rng.permutation(draws)])

    def _log(self, value: float) -> float:
        sums = self._sums(value)
        # rising towards what explains the sum
        if sums.log > -math.inf:
            return sums.log
        return -1e50 * (1.0 + sums.away)

    @cached_property
    def _scale(self) -> tuple[float, float, float]:
        """Between what the unknown number lies, and about its standard deviation."""
        k, spread = len(self._drawn), self._noise.spread
        if self._likelihood.surplus != "rescaled":
            width = math.hypot(spread, self._each) / math.sqrt(k)
            return -9.0 * width, 9.0 * spread, width
        least: float | None = self._least  # of the sum of the positive parts, whose logarithm is unknown
        if least is None:
            least = max(1.0, self._records - 9.0 * spread * math.sqrt(k))
        width = math.hypot(spread * math.sqrt(k) / self._records, 1.0 / math.sqrt(self._size))
        return math.log(least), math.log(self._records + 2.0 * spread * k), width

    @cached_property
    def _best(self) -> float:
        """The likeliest value of the unknown number."""
        from scipy.optimize import minimize_scalar

        *bounds, width = self._scale
        options = {"xatol": 0.2 * width}
        return float(minimize_scalar(lambda v: -self._log(v), bounds=bounds, method="bounded", options=options).x)

    @cached_property
    def _nodes(self) -> tuple[Floats, Floats, float]:
        """Return values of the unknown number, their probabilities, and the logarithm of the weight of all."""
        (low, high, width), best = self._scale, self._best
        logs = {0: self._log(best)}
        curvature = max(0.05, sum(logs[0] - self._log(best + step * width) for step in (-1.0, 1.0)))
        width /= math.sqrt(curvature)
        for side in (-1, 1):  # outwards as far as there is any weight
            while logs[at := max(logs, key=lambda i: side * i)] > logs[0] - _LEFT and abs(at) < _MOST_NODES:
                value = best + (at + side) * width
                logs[at + side] = -math.inf
                if low <= value <= high:
                    logs[at + side] = self._log(value)
        largest = max(logs.values())
        weights = np.exp(np.array([logs[i] for i in sorted(logs)]) - largest)
        mass = float(weights.sum())
        return best + width * np.array(sorted(logs)), weights / mass, largest + math.log(mass * width)

    def _sums(self, value: float) -> Sums:
        total, shift = float(self._records), value
        if self._likelihood.surplus == "rescaled":
            total, shift = math.exp(value), 0.0
        ratio = total / self._size
        sums = self._lattice.sums(
            self._drawn.tolist(), lambda count: self._told(count, ratio, shift, self._noise), tilt=self._tilt
        )
        self._tilt = sums.tilt
        return sums

    def _told(self, count: int, ratio: float, shift: float, noise: Noise) -> tuple[Integers, Floats]:
        """Return the counts that so many released records may come from, and their log-likelihood."""
        lattice, step = self._lattice, self._lattice.step
        rounding, reach = math.sqrt(count + 1.0), 20.0
        if self._stratified:
            rounding, reach = _ROUNDING, 6.0
        spread = ratio * rounding
        spacing = step if spread >= 2.0 * step else max(1, int(spread / 3.0))
        least = max(shift, -math.inf if self._least is None else self._least)
        low = max(least, shift + ratio * count - 9.0 * spread)
        high = max(least, shift + ratio * count) + reach * spread
        if count == 0 and self._least is None:
            low = shift - noise.reach
        y = spacing * np.arange(math.floor(low / spacing), math.ceil(high / spacing) + 1)
        log_read = self._log_read(count, np.maximum(y - shift, 0.0) / ratio, ratio)
        if self._least is not None:
            log_read = np.where(y >= self._least, log_read, -math.inf)
        peak = float(log_read.max()) if count else 0.0
        chances = np.exp(log_read - peak)
        numbers = lattice.numbers(y[0] - noise.reach, y[-1] + noise.reach)
        if spacing == step:
            first, last = y[0] // step, y[-1] // step
            kernel = noise.log_pmf(step * np.arange(first - numbers[-1], last - numbers[0] + 1.0))
            weights = np.convolve(chances, np.exp(kernel)[::-1], mode="full")
            weights = weights[len(y) - 1 : len(y) - 1 + len(numbers)]
        else:
            weights = np.exp(noise.log_pmf(y - float(step) * numbers[:, None])) @ chances
        weights = weights * (spacing * math.exp(-noise.log_whole))
        if self._least is not None:
            below = noise.below(self._least - step * numbers) if count == 0 else 0.0
            weights = np.where(numbers > 0, weights + below, float(count == 0))
        with np.errstate(divide="ignore"):
            return numbers, np.log(weights) + peak

    def _log_read(self, count: int, expected: Floats, ratio: float) -> Floats:
        """Return the log-likelihood of released records of a cell, where so many are expected."""
        if self._stratified:
            return np.asarray((expected - count) ** 2 / (-2.0 * (_ROUNDING**2 + (_WHOLE / ratio) ** 2)))
        if count == 0:
            return -expected
        with np.errstate(divide="ignore"):
            return np.asarray(count * np.log(expected / count) + count - expected)


class Moved(Positive):
    """Records of a reading that sets the negative parts of noisy counts off against their positive neighbours."""

    # A block is a cell with released records and the cells without that are nearest to it: its sum is told, with the
    # noise of all its counts; of a run, its cells on one side, that their sum is no larger than this noise hides. In
    # the prior, half of a block belongs to the cell with records.

    def _tree_of(self, prior: Prior) -> Prior:
        self._block = _nearest_held(self._drawn)
        self._run = _runs(self._drawn, self._block)
        if prior.base is None:
            return prior
        sets = _sets(self._run, self._block)  # its tree is cut where these sets end
        sums, alone = np.bincount(self._block, weights=prior.base), np.bincount(self._block) == 1
        half = np.where(alone, sums, 0.5 * sums)  # of each block, for its cell with released records
        remainders = np.where(alone, 1.0, sums - prior.base[self._drawn > 0])
        base = prior.base * ((sums - half) / remainders)[self._block]
        base[self._drawn > 0] = half
        return Prior.nested(base, sets, strength=prior.strength)

    def posterior(self) -> CountPosterior:
        """Return the posterior of the cells' counts."""
        text = "the reading is taken to tell the sum of a cell with records and the nearest cells without, and no more"
        return self._lattice.posterior(self._cells())._replace(approximation=text)

    @classmethod
    def posteriors(cls, priors: Sequence[Prior], *release: Any) -> Iterator[CountPosterior]:
        return (cls(prior, *release).posterior() for prior in priors)

    def _cells(self) -> Sums:
        sizes, counts = np.bincount(self._block).tolist(), self._drawn[self._drawn > 0].tolist()
        blocks, lengths = [*zip(counts, sizes, strict=True)], np.bincount(self._run)[self._run].tolist()
        tables = {block: self._told(block[0], self._each, 0.0, self._wide(block[1])) for block in {*blocks}}
        hidden = {size: self._hidden(size) for size in {*sizes}}
        cells = zip(self._block.tolist(), (self._drawn == 0).tolist(), lengths, strict=True)
        kinds = [(*blocks[block], empty, run) for block, empty, run in cells]
        starts = np.searchsorted(self._run, np.arange(int(self._run[-1]) + 1)).tolist()
        of_runs = [hidden[size] if empty and run > 1 else nothing for _, size, empty, run in (kinds[i] for i in starts)]
        of_blocks = [_looked_up(*tables[block]) if block[1] > 1 else nothing for block in blocks]
        levels = self._tree(of_runs, of_blocks)
        return self._lattice.sums(kinds, lambda kind: self._of_a_cell(tables[kind[:2]], *kind[1:]), levels)

    def _wide(self, size: int) -> Noise:
        """Return the noise of the sum of so many noisy counts."""
        if size == 1:
            return self._noise
        return Noise("gaussian", self._noise.spread * math.sqrt(size))

    @cached_property
    def _unseen(self) -> float:
        """What a run without records may hold: twice what one stands for, or what one in twenty times has none."""
        return 2.0 * max(0, math.ceil(self._each) - 1) if self._stratified else 3.0 * self._each

    def _hidden(self, size: int) -> LogWeights:
        """Return how likely it is that a run of cells, of a block of this size, holds so many without showing it."""
        noise = self._wide(size)
        return lambda numbers: noise.log_pmf(np.maximum(self._lattice.counts(numbers) - self._unseen, 0.0))

    def _of_a_cell(self, table: tuple[Integers, Floats], size: int, empty: bool, run: int) -> tuple[Integers, Floats]:
        """Return a cell's counts and their weights: those without records are no more than the block's noise hides."""
        lattice, (numbers, logs) = self._lattice, table
        if size > 1:
            most = lattice.numbers(0.0, self._unseen + self._wide(size).reach)
            if not empty:
                most = np.arange(max(0, int(numbers[0]) - 2 * int(most[-1])), int(numbers[-1]) + 1)
            numbers, logs = most, np.zeros(len(most))
            if empty and run == 1:
                logs = self._hidden(size)(most)
        return numbers, logs

    def _tree(self, runs: list[LogWeights], blocks: list[LogWeights]) -> list[Level]:
        """Return the sets whose sums have weights: those of the prior, and those that are told of."""
        weighted = {len(functions): functions for functions in (runs, blocks) if 1 < len(functions) < len(self._drawn)}
        levels, starts = list(self._lattice.levels), np.arange(len(self._drawn))
        for i, level in enumerate(levels):
            if (further := weighted.get(len(level.log_weights))) is not None:
                levels[i] = level._replace(log_weights=list(map(both, level.log_weights, further)))
        for part in () if levels else (self._run, self._block):  # the levels where the prior has none
            number = int(part[-1]) + 1
            if number in weighted and number < len(starts):
                levels.append(Level(part[starts], weighted[number]))
                starts = np.searchsorted(part, np.arange(number))
        return levels


def _nearest_held(counts: Integers) -> Integers:
    """Return, for each cell, which of those with released records is nearest, numbered from the left."""
    positive = np.flatnonzero(counts)
    ends = positive[:-1] + 1 + (np.diff(positive) - 1) // 2
    return np.searchsorted(ends, np.arange(len(counts)), side="right")


def _runs(counts: Integers, block: Integers) -> Integers:
    """Return the run of each cell: cells without released records of one block and side of the one that has some."""
    full = counts > 0
    return np.cumsum(full | np.append(False, full[:-1]) | np.append(False, np.diff(block) > 0)) - int(full[0])


def _sets(*parts: Integers) -> list[Integers]:
    """Return the sets of a tree, the smallest first: runs of cells are halved again and again, blocks, then all."""
    sets, starts = [], np.arange(len(parts[0]))  # cell of each set
    for part in [*parts, np.zeros_like(parts[0])]:
        while int(part[-1]) + 1 < len(starts):
            members = part[starts]
            even = (np.arange(len(members)) - np.searchsorted(members, members)) % 2 == 0
            sets.append(np.cumsum(even) - 1)
            starts = starts[even]
    return sets


def _looked_up(numbers: Integers, logs: Floats) -> LogWeights:
    """Return logarithms of weights by number; beyond the ends they fall as steeply as they do there."""
    finite = np.flatnonzero(np.isfinite(logs))
    numbers, logs = numbers[finite], logs[finite]
    ends = (float(logs[min(1, len(logs) - 1)] - logs[0]), float(logs[max(0, len(logs) - 2)] - logs[-1]))
    rise, fall = (max(1.0, slope) for slope in ends)

    def weight(values: Integers) -> Floats:
        below, above = np.maximum(numbers[0] - values, 0), np.maximum(values - numbers[-1], 0)
        return np.asarray(logs[np.clip(values - numbers[0], 0, len(logs) - 1)] - rise * below - fall * above)

    return weight
