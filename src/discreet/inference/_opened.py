r"""The confidential counts given records of an urn that holds noisy counts, and opens new values for all other records.

The released records have a Dirichlet-multinomial law, whose masses are the noisy counts that were kept and a part of
what they leave of the total, :math:`\theta + (n - \sum D)^+`, in every cell. This part is shared by all cells. Were it
another number, a cell would have a factor of its own: counts are proposed at a few values of it, and kept in proportion
to the rest.

Theory: docs/theory/mechanism-aware-posterior.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from discreet._core.arrays import Floats, Integers
from discreet._core.numeric import log_rising
from discreet.inference._lattice import IMPOSSIBLE, Lattice
from discreet.inference._noise import Noise
from discreet.inference._prior import Prior
from discreet.inference._sums import Level, Sums
from discreet.mechanisms._evidence import ThresholdedUrn

_DROP, _LEFT, _HOPELESS = 45.0, 14.0, 30.0  # in logarithms, below the largest
_SPACING, _MOST_NODES = 0.7, 24  # in standard deviations; on each side
_FEWEST = 0.05  # records of new values


class Opened:
    """The counts of cells under one prior, at all values of what new values have of the urn."""

    def __init__(self, evidence: ThresholdedUrn, prior: Prior, records: int, drawn: Integers) -> None:
        self._records, self._drawn, self._size = records, drawn, int(drawn.sum())
        self._noise, self._least = Noise.of(evidence.law, evidence.scale), evidence.threshold
        self._strength, self._base = evidence.strength, evidence.base()
        total = records + evidence.strength
        self._each, self._fall = total / self._size, math.log1p(self._size / total)
        guess = drawn * (records / self._size)
        self._lattice = Lattice.fine(records, math.hypot(self._noise.spread, self._each), prior, guess)
        self._tilt: float | None = None
        self._nodes: list[tuple[float, Sums]] = []

    @classmethod
    def under(
        cls, evidence: ThresholdedUrn, priors: Sequence[Prior], records: int, drawn: Integers
    ) -> Sequence[Opened]:
        """Return the posteriors under several priors: they share the values, found under the last one."""
        made = [cls(evidence, prior, records, drawn) for prior in priors]
        nodes, best = made[-1]._placed()
        logs = [one._log(best) for one in made]
        for one, log in zip(made, logs, strict=True):
            if log > max(logs) - _HOPELESS:
                one._nodes = [(node, one._sums(node)) for node in nodes]
        return made

    @property
    def log(self) -> float:
        return float(np.logaddexp.reduce(self._logs)) if self._nodes else -math.inf

    @property
    def _logs(self) -> Floats:
        return np.array([sums.log - self._fall * opened for opened, sums in self._nodes])

    @property
    def step(self) -> int:
        return self._lattice.step

    @property
    def approximation(self) -> str:
        return ""

    def propose(self, number: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        logs = self._logs
        shares = np.exp(logs - np.logaddexp.reduce(logs))
        counts, weights = [], []
        for (opened, sums), held in zip(self._nodes, rng.multinomial(number, shares / shares.sum()), strict=True):
            if held:
                numbers = sums.draw(int(held), rng)
                counts.append(self._lattice.counts(numbers))
                weights.append(self._beside(self._noisy(numbers, opened, rng)))
        return np.concatenate(counts), np.concatenate(weights)

    def _beside(self, noisy: Floats) -> Floats:
        """Return the log-likelihood of noisy counts over that with which they were proposed."""
        whole = noisy.sum(axis=1)
        opened = self._strength + np.maximum(0.0, self._records - whole)
        own = self._log_read(noisy, opened[:, None]) - log_rising(opened + whole, np.full(len(whole), float(self._size)))
        each = [self._log_read(noisy, node) - self._fall * (whole + node) for node, _ in self._nodes]
        return np.asarray(own - np.logaddexp.reduce(each, axis=0))

    def _log_read(self, noisy: Floats, opened: float | Floats) -> Floats:
        return np.asarray(_log_rising(noisy + opened * self._base, self._drawn).sum(axis=1))

    def _log(self, opened: float) -> float:
        sums = self._sums(opened)
        return sums.log - self._fall * opened if sums.log > -math.inf else -1e50 * (1.0 + sums.away)

    def _placed(self) -> tuple[list[float], float]:
        """Return values of what new values have of the urn, as far out as there is any weight, and the likeliest."""
        from scipy.optimize import minimize_scalar

        bounds = math.log(max(self._strength, _FEWEST)), math.log(self._records + self._strength)
        options = {"xatol": 0.05}
        found = minimize_scalar(lambda v: -self._log(math.exp(v)), bounds=bounds, method="bounded", options=options)
        best, width = float(found.x), 1.0 / math.sqrt(1.0 + 0.1 * self._size)
        top = self._log(math.exp(best))
        curvature = sum(top - self._log(math.exp(best + side * width)) for side in (-1.0, 1.0))
        step = _SPACING * min(1.0, width / math.sqrt(max(0.01, curvature)))
        logs = {0: top}
        for side in (-1, 1):
            while logs[at := max(logs, key=lambda i: side * i)] > top - _LEFT and abs(at) < _MOST_NODES:
                value = best + (at + side) * step
                if not bounds[0] <= value <= bounds[1]:
                    break
                logs[at + side] = self._log(math.exp(value))
        return [math.exp(best + at * step) for at in sorted(logs) if logs[at] > IMPOSSIBLE], math.exp(best)

    @cached_property
    def _levels(self) -> list[Level]:
        return self._lattice.levels

    @cached_property
    def _kinds(self) -> list[tuple[int, float]]:
        """Of each cell: its released records, and its share of new values."""
        return [*zip(self._drawn.tolist(), self._base.tolist(), strict=True)]

    def _sums(self, opened: float) -> Sums:
        told = {kind: self._told(kind[0], opened * kind[1]) for kind in {*self._kinds}}
        logs = {kind: each.logs for kind, each in told.items()}
        kinds = [*zip(self._lattice.cells, self._kinds, strict=True)]
        laws = {kind: self._lattice.law(kind[0], told[kind[1]].numbers, logs[kind[1]]) for kind in {*kinds}}
        sums = Sums([laws[kind] for kind in kinds], self._lattice.total, self._levels, tilt=self._tilt)
        self._tilt = sums.tilt
        return sums

    def _told(self, drawn: int, opened: float) -> _Told:
        """Return what so many released records tell of a cell, where new values have this much of the urn."""
        lattice, step = self._lattice, self._lattice.step
        spread = self._each * math.sqrt((drawn + 1.0) * (1.0 + 1.0 / self._each))
        high = max(float(self._least), self._each * drawn) + 20.0 * spread
        low = max(float(self._least), self._each * drawn - 9.0 * spread)
        y = np.arange(math.ceil(low / step), math.ceil(high / step) + 1)
        read = _log_rising(step * y + opened, np.full(len(y), drawn)) - self._fall * step * y
        nothing = float(_log_rising(np.array([opened]), np.array([drawn]))[0])
        peak = max(float(read.max()), nothing)
        kept = read > peak - _DROP
        ends = [self._least + self._noise.reach, 0.0] if nothing > peak - _DROP else []
        if kept.any():
            y, read = y[kept], read[kept]
            ends += [step * float(y[0]) - self._noise.reach, step * float(y[-1]) + self._noise.reach]
        numbers = lattice.numbers(min(ends), max(ends))
        return _Told(self._noise, self._least, step, numbers, y, read - peak, nothing - peak, peak)

    def _noisy(self, numbers: Integers, opened: float, rng: np.random.Generator) -> Floats:
        """Return draws of the noisy counts given the counts, 0 where none was kept."""
        noisy = np.empty(numbers.shape)
        cells: dict[tuple[int, float], list[int]] = {}
        for cell, kind in enumerate(self._kinds):
            cells.setdefault(kind, []).append(cell)
        for (drawn, share), own in cells.items():
            noisy[:, own] = self._told(drawn, opened * share).noisy(numbers[:, own], rng)
        return noisy


@dataclass(frozen=True)
class _Told:
    """What the released records of a cell tell.

    ``noise``, ``least``: of its count, and the least noisy count that was kept.
    ``step``: of the lattice.
    ``numbers``: lattice numbers of the count, one after the other.
    ``kept``, ``read``: those of noisy counts that were kept, one after the other, and the log-likelihood of each.
    ``nothing``: the log-likelihood where none was kept.
    ``peak``: what was taken off these logarithms.
    """

    noise: Noise
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
        return np.asarray(chance * math.exp(self.nothing))

    @property
    def logs(self) -> Floats:
        apart = np.arange(self.kept[0] - self.numbers[-1], self.kept[-1] - self.numbers[0] + 1)
        kernel = np.exp(self.noise.log_pmf(self.step * apart.astype(np.float64)) - self.noise.log_whole) * self.step
        weights = np.convolve(kernel, np.exp(self.read)[::-1], mode="valid")[::-1]
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(weights * (self.numbers > 0) + self._below(self.numbers)) + self.peak)

    def noisy(self, numbers: Integers, rng: np.random.Generator) -> Floats:
        """Return a noisy count for each count."""
        held, place = np.unique(numbers, return_inverse=True)
        apart = self.step * (self.kept - held[:, None]).astype(np.float64)
        noise = np.exp(self.noise.log_pmf(apart) - self.noise.log_whole + self.read) * self.step
        weights = np.concatenate((self._below(held)[:, None], noise * (held > 0)[:, None]), axis=1)
        cumulated = np.cumsum(weights, axis=1)
        line = (np.arange(len(held))[:, None] + cumulated / cumulated[:, -1:]).ravel()
        at = np.searchsorted(line, place.ravel() + rng.random(numbers.size), side="right")
        values = np.append(0, self.step * self.kept)
        at = np.minimum(at - len(values) * place.ravel(), len(values) - 1)
        return np.asarray(values[at].reshape(numbers.shape), dtype=np.float64)


def _log_rising(a: Floats, drawn: Integers) -> Floats:
    """Return ``log (a)_z``, 0 where nothing was drawn."""
    return np.asarray(np.where(drawn > 0, log_rising(np.maximum(a, 1e-300), drawn.astype(np.float64)), 0.0))
