"""The confidential counts given records that were drawn from them without noise.

Each cell then has a factor of its own. Where there is one more that all cells share, counts are proposed without it, or
with the nearest that cells have by themselves, and kept in proportion to the rest: exact draws.

Theory: docs/theory/mechanism-aware-posterior.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from discreet._core.arrays import Floats, Integers
from discreet.inference._lattice import IMPOSSIBLE, Lattice, OnLattice, unknown
from discreet.inference._prior import Prior, log_prior
from discreet.inference._sums import Sums
from discreet.mechanisms._evidence import DrawnByLeast, DrawnFromCounts, DrawnFromHeld

_DROP = 45.0  # in logarithms, below the largest
_PILOT, _ROUNDS = 64, 4  # draws that tell about how many cells are held
_GROUPS = 64  # of smallest counts, at most
_TRIES = 1000  # of a group's draws


def product(
    evidence: DrawnFromCounts, prior: Prior, records: int, drawn: Integers, *, least: int = 0, held: float = 0.0
) -> OnLattice:
    """Return the posterior where each cell has a factor of its own.

    ``least``: that all counts have.
    ``held``: the logarithm of one more factor of each cell that holds a record.
    """
    cells = np.arange(len(prior.alpha))

    def log_weight(counts: Integers, which: Integers = cells) -> Floats:
        return evidence.log_weight(records, which, counts, drawn[which])

    tilt = _tilt(log_weight, records, len(cells), int(drawn.sum()))
    low, high = _window(lambda c: log_weight(c) + tilt * c, records, len(cells))
    guess = drawn.astype(np.float64) * (records / max(1, int(drawn.sum())))
    lattice = Lattice.fine(records, float((high - low).min()) / 15.0, prior, guess)
    first, told = -(-least // lattice.step), {}
    for cell, own in enumerate(lattice.cells):
        numbers = lattice.numbers(low[cell], max(high[cell], least))
        numbers = numbers[numbers >= first]
        if not len(numbers):  # more than there are
            return OnLattice(lattice, Sums([], -1))
        counts = np.minimum(numbers * lattice.step, records)
        logs = log_weight(counts, np.full(len(counts), cell)) + tilt * counts
        logs += _of_held(lattice, own, numbers, held) - (0.0 if cell else tilt * lattice.step * lattice.total)
        told[cell] = own, numbers, logs
    return OnLattice(lattice, Sums([*lattice.laws(told).values()], lattice.total, lattice.levels))


def _of_held(lattice: Lattice, cell: tuple[float, float], numbers: Integers, held: float) -> Floats:
    """Return the logarithm of the factor of a cell that holds a record; where counts are rounded to 0, its mean."""
    factors = np.full(len(numbers), held)
    if numbers[0] == 0 and held:
        factors[0] = math.log1p(_rounded_away(lattice, *cell) * math.expm1(held))
    return factors


def _rounded_away(lattice: Lattice, alpha: float, rate: float) -> float:
    """Return the probability that a count which is rounded to 0 is not 0."""
    return -math.expm1(-max(0.0, float(log_prior(alpha, np.zeros(1), lattice.step, rate)[0])))


class Held:
    """Records that were drawn given the counts, with a factor that the number of held cells has.

    Its logarithm is concave. Counts are proposed with the tangent at about the number of cells that are held, which is
    nowhere below.
    """

    def __init__(
        self, evidence: DrawnFromHeld, prior: Prior, records: int, drawn: Integers, rng: np.random.Generator
    ) -> None:
        self._evidence, self._released = evidence, int(drawn.sum())
        self._near = max(1, int(np.count_nonzero(drawn)))
        for _ in range(_ROUNDS):
            self._slope = float(np.diff(self._log_held(np.array([self._near, self._near + 1])))[0])
            self._plain = product(evidence, prior, records, drawn, held=self._slope)
            near = max(1, round(float(self._held(self._plain.draw(_PILOT, rng), rng).mean())))
            if abs(near - self._near) <= 1:
                break
            self._near = near

    def _log_held(self, held: Integers) -> Floats:
        return self._evidence.log_held(held, self._released)

    @property
    def log(self) -> float:
        at = float(self._log_held(np.array([self._near]))[0])
        return self._plain.log + at - self._slope * self._near

    @property
    def step(self) -> int:
        return self._plain.step

    @property
    def approximation(self) -> str:
        return ""

    def _held(self, counts: Floats, rng: np.random.Generator) -> Integers:
        """Return how many cells hold a record: those that are rounded to 0 may."""
        held = np.count_nonzero(counts, axis=1)
        if self.step > 1:
            lattice = self._plain.lattice
            odds = [_rounded_away(lattice, *cell) * math.exp(self._slope) for cell in lattice.cells]
            none = [1.0 - _rounded_away(lattice, *cell) for cell in lattice.cells]
            chances = np.array(odds) / (np.array(odds) + none)
            held += np.count_nonzero((counts == 0.0) & (rng.random(counts.shape) < chances), axis=1)
        return np.asarray(held)

    def propose(self, number: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        counts = self._plain.draw(number, rng)
        held = self._held(counts, rng)
        tangent = self._log_held(np.array([self._near])) + self._slope * (held - self._near)
        return counts, self._log_held(held) - tangent


@dataclass(frozen=True)
class _Group:
    """Tables whose smallest count is ``first`` or more, and less than ``after``.

    ``law``: by which they are proposed.
    ``counts``: those of which the smallest is ``first`` or more, whatever it is.
    ``log``: logarithm of the weight of the group.
    """

    law: float
    first: int
    after: int
    counts: OnLattice
    log: float

    def draw(self, number: int, rng: np.random.Generator) -> Floats:
        found: list[Floats] = []
        left = number
        for _ in range(_TRIES):
            made = self.counts.draw(2 * left + _PILOT, rng)
            found.append(made[made.min(axis=1) < self.after][:left])
            left -= len(found[-1])
            if not left:
                return np.concatenate(found)
        raise unknown()


class Least:
    """Records that were drawn given the counts by a law that the smallest count chooses.

    Smallest counts of which the laws are alike are taken together: they have the weight of all tables whose counts are
    at least the first of them, less that of those whose counts are at least the first of the next ones.
    """

    def __init__(self, evidence: DrawnByLeast, prior: Prior, records: int, drawn: Integers) -> None:
        self._evidence, self._records, self._drawn = evidence, records, drawn
        self._mixing = evidence.mixing(records)
        self._groups: list[_Group] = []
        firsts = self._firsts()
        for first, after in zip(firsts, [*firsts[1:], records + 1], strict=True):
            law = float(self._mixing[(first + min(after, len(self._mixing)) - 1) // 2])
            own = product(evidence.given(law), prior, records, drawn, least=first)
            beyond = -math.inf
            if after * len(drawn) <= records:
                beyond = product(evidence.given(law), prior, records, drawn, least=after).log
            if own.log > max(beyond, IMPOSSIBLE):
                weight = own.log + math.log(-math.expm1(beyond - own.log))
                self._groups.append(_Group(law, first, after, own, weight))

    def _firsts(self) -> list[int]:
        """Return the first of each group of smallest counts: none below it has a law that is much alike."""
        laws, size = self._mixing, float(self._drawn.sum())
        wide = float(laws[0] - laws[-1]) / max(2.0, min(_GROUPS, 2.0 * math.sqrt(size) * float(laws[0])))
        firsts = [0]
        for at in range(1, len(laws)):
            if abs(laws[firsts[-1]] - laws[at]) > wide or (laws[at] == laws[-1] < laws[at - 1]):
                firsts.append(at)
        return firsts

    @property
    def log(self) -> float:
        return float(np.logaddexp.reduce([group.log for group in self._groups])) if self._groups else -math.inf

    @property
    def step(self) -> int:
        return max(group.counts.step for group in self._groups)

    @property
    def approximation(self) -> str:
        return ""

    def propose(self, number: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        shares = np.exp(np.array([group.log for group in self._groups]) - self.log)
        made = [
            (group, group.draw(count, rng))
            for group, count in zip(self._groups, rng.multinomial(number, shares / shares.sum()).tolist(), strict=True)
            if count
        ]
        weights = [self._given(counts) - self._likelihood(group.law, counts) for group, counts in made]
        return np.concatenate([counts for _, counts in made]), np.concatenate(weights)

    def _given(self, counts: Floats) -> Floats:
        """Return the log-likelihood of tables, each by the law that its smallest count chooses."""
        levels, which = np.unique(np.minimum(counts.min(axis=1), len(self._mixing) - 1), return_inverse=True)
        found = np.empty(len(counts))
        for at, level in enumerate(levels.astype(np.int64).tolist()):
            found[which == at] = self._likelihood(float(self._mixing[level]), counts[which == at])
        return found

    def _likelihood(self, law: float, counts: Floats) -> Floats:
        cells = np.arange(len(self._drawn))
        whole = counts.astype(np.int64)
        return np.asarray(self._evidence.given(law).log_weight(self._records, cells, whole, self._drawn).sum(axis=1))


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
    least = log_weight(mode) - _DROP
    ends = []
    for far in (np.zeros(cells, dtype=np.int64), np.full(cells, records, dtype=np.int64)):
        inside, outside = mode.copy(), np.where(log_weight(far) >= least, mode, far)
        inside = np.where(outside == mode, far, inside)
        outside = np.where(inside == far, far, outside)
        while (np.abs(outside - inside) > 1).any():
            middle = (inside + outside) // 2
            held = log_weight(middle) >= least
            inside, outside = np.where(held, middle, inside), np.where(held, outside, middle)
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
