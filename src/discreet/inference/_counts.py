"""The confidential counts of cells given what was released: their posterior, in draws that are independent.

The prior of the counts of ``n`` records is Dirichlet-multinomial: numbers of independent laws whose sum is ``n``. What
a release tells is a factor per cell, or per set of cells, so the posterior is of the same form, and :class:`Sums` draws
from it. What the records of a release were drawn from has one number that all cells share, such as the sum of the
positive noisy counts; it is integrated over a few nodes.

Theory: docs/theory/mechanism-aware-posterior.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from discreet._core.arrays import Floats, Indices, Integers
from discreet._core.errors import ParameterError
from discreet.inference._noise import Noise
from discreet.inference._prior import Prior, log_prior
from discreet.inference._splits import Splits
from discreet.inference._sums import Law, Level, Sums
from discreet.inference._tree_records import TreeRecords
from discreet.mechanisms import Mechanism
from discreet.mechanisms._evidence import (
    ContinuedUrn,
    DrawnFromCounts,
    NoisyCellCounts,
    NoisyTree,
    ThresholdedCounts,
)
from discreet.mechanisms._tree import Tree

CellEvidence = DrawnFromCounts | NoisyCellCounts

_FINE = 12.0  # steps of the lattice that a standard deviation has at least
_DROP = 45.0  # in logarithms, below the largest
_LEFT, _MOST_NODES = 14.0, 12  # in logarithms below the largest; on each side
_ROUNDING, _WHOLE = math.sqrt(1.0 / 6.0), 0.3  # standard deviations of what rounding changes: of shares, of counts


@dataclass(frozen=True)
class Counted:
    """Draws of the confidential counts.

    ``counts``, shape (draws, k): in records; each row has the sum ``n`` to within half a step.
    ``step``: in which the counts are followed: 1 where the posterior is exact.
    ``approximation``: what else is taken for something simpler, in words.
    """

    counts: Floats
    step: int
    approximation: str = ""


def known_evidence(mechanism: Mechanism) -> CellEvidence:
    """Return what a release by a mechanism says about the counts of the domain's cells.

    Raises ParameterError for mechanisms of which no posterior is known here, before anything is computed.
    """
    evidence = mechanism.evidence()
    if "tables" in mechanism.known():
        raise ParameterError(
            f"no posterior is known of {mechanism.name} given one table. Release several of it: discreet.read(...)."
            "estimate gives intervals from them"
        )
    if evidence is None or isinstance(evidence, ContinuedUrn) or not getattr(evidence, "own_cells", True):
        points = " around public points" if evidence is not None else ""
        raise ParameterError(f"there is no mechanism-aware posterior for {mechanism.name}{points}")
    return evidence


@dataclass(frozen=True)
class _Lattice:
    """Counts as multiples of a step, with the prior of a Dirichlet process on each.

    ``records``: the number of confidential records.
    ``step``: 1 where counts are exact.
    """

    records: int
    step: int

    @classmethod
    def fine(cls, records: int, spread: float) -> _Lattice:
        """Return the lattice on which a standard deviation has enough steps."""
        return cls(records, max(1, int(spread / _FINE)))

    @property
    def total(self) -> int:
        return round(self.records / self.step)

    def numbers(self, low: float, high: float) -> Integers:
        """Return the lattice numbers of counts from ``low`` to ``high``, at least one of them."""
        first = min(self.total, max(0, math.floor(low / self.step)))
        return np.arange(first, max(first, min(self.total, math.ceil(high / self.step))) + 1)

    def counts(self, numbers: Integers) -> Floats:
        """Return the counts that lattice numbers stand for."""
        return np.asarray(numbers, dtype=np.float64) * self.step

    def law(self, alpha: float, numbers: Integers, logarithms: Floats) -> Law:
        """Return the law of a cell's count: prior and likelihood."""
        return Law.of(int(numbers[0]), log_prior(alpha, self.counts(numbers), self.step) + logarithms)

    def weights(self, shares: Floats) -> list[Callable[[Integers], Floats]]:
        """Return the logarithms of the prior weights of the counts of sets, one function for equal shares."""
        made = {a: self._weight(a) for a in set(shares.tolist())}
        return [made[a] for a in shares.tolist()]

    def _weight(self, share: float) -> Callable[[Integers], Floats]:
        whole = np.log([self.step - self.step // 2, self.step])  # of whole numbers that round to 0, and to another one
        return lambda numbers: log_prior(share, self.counts(numbers), self.step) - whole[np.minimum(numbers, 1)]

    def levels(self, prior: Prior) -> list[Level]:
        return [Level(level.of, self.weights(level.shares)) for level in prior.levels]

    def draw(self, sums: Sums, draws: int, rng: np.random.Generator) -> Floats:
        return self.counts(sums.draw(draws, rng))


# -- released counts ----------------------------------------------------------------------------------------------


def noisy(prior: Prior, records: int, counts: Floats, noise: Noise, draws: int, rng: np.random.Generator) -> Counted:
    """Draw the counts given one noisy count per cell."""
    lattice = _Lattice.fine(records, noise.spread)
    laws = _each(lambda a, y: _near(lattice, a, y, noise), prior.alpha, counts)
    return Counted(lattice.draw(Sums(laws, lattice.total, lattice.levels(prior)), draws, rng), lattice.step)


def given_counts(
    evidence: CellEvidence, prior: Prior | Floats, records: int, counts: Floats, draws: int, rng: np.random.Generator
) -> Counted:
    """Draw the confidential counts given released ones.

    Raises ParameterError when what was released does not determine the posterior.

    ``evidence``: of the mechanism, as its certificate states it.
    ``prior``: of the cells, of the leaves for a tree; or the masses of a Dirichlet process there.
    ``records``: number of confidential records.
    ``counts``, shape (k,): released; ``nan`` where none was.
    """
    prior = Prior.of(prior)
    assert isinstance(evidence, NoisyCellCounts)  # no other mechanism releases counts
    noise = Noise.of(evidence.law, evidence.scale)
    if isinstance(evidence, ThresholdedCounts):
        lattice = _Lattice.fine(records, noise.spread)
        laws = _each(lambda a, y: _above(lattice, a, y, noise, evidence.threshold), prior.alpha, counts)
        return Counted(lattice.draw(Sums(laws, lattice.total, lattice.levels(prior)), draws, rng), lattice.step)
    if np.isnan(counts).any():
        raise ParameterError("the table of counts lacks cells of the domain. Check that it is complete")
    if isinstance(evidence, NoisyTree):
        return _tree_counts(evidence, prior, records, counts, draws, rng)
    return noisy(prior, records, counts, noise, draws, rng)


def _each(law: Callable[[float, float], Law], alpha: Floats, counts: Floats) -> list[Law]:
    """Return the laws of cells; cells with equal numbers share one."""
    made: dict[tuple[float, str], Law] = {}
    pairs = [(a, y, (a, repr(y))) for a, y in zip(alpha.tolist(), counts.tolist(), strict=True)]  # nan is not itself
    for a, y, key in pairs:
        if key not in made:
            made[key] = law(a, y)
    return [made[key] for _, _, key in pairs]


def _near(lattice: _Lattice, alpha: float, y: float, noise: Noise) -> Law:
    numbers = lattice.numbers(y - noise.reach, y + noise.reach)
    return lattice.law(alpha, numbers, noise.log_pmf(y - lattice.counts(numbers)))


def _above(lattice: _Lattice, alpha: float, y: float, noise: Noise, least: int) -> Law:
    """Return the law of a count that reached the threshold, or stayed below (``nan``)."""
    if not math.isnan(y):
        numbers = lattice.numbers(max(1.0, y - noise.reach), y + noise.reach)
        numbers = numbers[numbers > 0] if numbers[-1] > 0 else numbers
        return lattice.law(alpha, numbers, noise.log_pmf(y - lattice.counts(numbers)) - noise.log_whole)
    numbers = lattice.numbers(0.0, least + noise.reach)
    with np.errstate(divide="ignore"):
        short = np.log(noise.below(least - lattice.step * numbers))
    return lattice.law(alpha, numbers, np.where(numbers > 0, short, 0.0))


def _tree_counts(
    evidence: NoisyTree, prior: Prior, records: int, counts: Floats, draws: int, rng: np.random.Generator
) -> Counted:
    """Draw the counts of the leaves given the best estimates that the noisy counts of all nodes give."""
    noise = Noise("gaussian", evidence.law.standard_deviation(evidence.scale))
    lattice = _Lattice.fine(records, noise.scale)
    tree = evidence.consistent.tree
    order = tree.in_order()
    laws = _each(lambda a, y: _near(lattice, a, y, noise), _in(prior, order), counts[order])
    shares = {len(level.shares): level.shares for level in prior.levels}
    levels: list[Level] = []
    first = np.arange(len(order))  # leaf of each set of the level below, leaves in order
    for node, measured in _sets(tree, order, set(evidence.consistent.measured[:-1])):
        number = int(node[-1]) + 1
        weights = lattice.weights(shares[number]) if number in shares else []
        if measured:
            told = [_of_a_node(y, noise, lattice) for y in np.bincount(node, weights=counts[order])]
            weights = [_both(one, other) for one, other in zip(weights, told, strict=True)] if weights else told
        if weights:
            levels.append(Level(node[first], weights))
            first = np.searchsorted(node, np.arange(number))
    found = lattice.draw(Sums(laws, lattice.total, levels), draws, rng)
    leaves = np.empty_like(found)
    leaves[:, order] = found
    other = evidence.law.name != "gaussian"  # what the best linear estimates keep of it is not known in closed form
    text = f"{evidence.law.name} noise on a tree is taken as normal of the same variance" if other else ""
    return Counted(leaves, lattice.step, text)


def along(tree: Tree, base: Floats) -> Prior:
    """Return the prior of a tree of sets."""
    order = tree.in_order()
    sets, first = [], np.arange(len(order))
    for node, _ in _sets(tree, order, set()):
        if int(node[-1]) + 1 < len(first):
            sets.append(node[first])
            first = np.searchsorted(node, np.arange(int(node[-1]) + 1))
    return Prior.nested(base[order], sets, order)


def _sets(tree: Tree, order: Integers, measured: set[int]) -> list[tuple[Integers, bool]]:
    """Return the node of each leaf in order, numbered in order, level by level from the leaves up to the root."""
    found = []
    for level in reversed(range(tree.depth)):
        node = _nodes(tree, level)[order]
        found.append((np.cumsum(np.diff(node, prepend=node[0]) != 0), level in measured))
    return found


def _in(prior: Prior, order: Integers) -> Floats:
    """Return the prior's masses of leaves in order: a tree has them so."""
    return prior.alpha if prior.order is not None else prior.alpha[order]


def _both(one: Callable[[Integers], Floats], other: Callable[[Integers], Floats]) -> Callable[[Integers], Floats]:
    return lambda numbers: one(numbers) + other(numbers)


def _nodes(tree: Tree, level: int) -> Integers:
    """Return the node of a level that each leaf is in."""
    node = np.arange(tree.nodes(level)).reshape(tree.shape(level)).astype(np.float64)
    for below in range(level + 1, tree.depth + 1):
        node = tree.down(below, node)
    return node.ravel().astype(np.int64)


def _of_a_node(y: float, noise: Noise, lattice: _Lattice) -> Callable[[Integers], Floats]:
    return lambda numbers: noise.log_pmf(y - lattice.counts(numbers))


# -- released records ---------------------------------------------------------------------------------------------


def given_records(
    evidence: CellEvidence, prior: Prior | Floats, records: int, drawn: Integers, draws: int, rng: np.random.Generator
) -> Counted:
    """Draw the confidential counts given released records.

    ``evidence``, ``prior``, ``records``: as for :func:`given_counts`.
    ``drawn``, shape (k,): released records of each cell, or leaf.
    """
    prior = Prior.of(prior)
    if isinstance(evidence, DrawnFromCounts):
        return _drawn(evidence, prior, records, drawn, draws, rng)
    if isinstance(evidence, NoisyTree):
        return _tree_records(evidence, prior, records, drawn, draws, rng)
    return _Positive(evidence, prior, records, drawn).draw(draws, rng)


def _tree_records(
    evidence: NoisyTree, prior: Prior, records: int, drawn: Integers, draws: int, rng: np.random.Generator
) -> Counted:
    reading = evidence.consistent
    nothing = np.zeros(sum(reading.tree.nodes(level) for level in reading.measured), dtype=np.int64)
    splits = Splits.of(reading.tree, reading.upward(nothing)[1], drawn)
    spread, stratified = evidence.law.standard_deviation(evidence.scale), evidence.sampling == "stratified"
    alpha, halved = (prior.alpha, False) if prior.base is None else (prior.base, True)
    merged = np.asarray(np.bincount(splits.leaf, weights=alpha), dtype=np.float64)
    below = TreeRecords(merged, records, splits, spread=spread, stratified=stratified, halved=halved)
    found = below.draw(draws, rng)
    counts = _divided(found, splits.leaf, alpha, rng)
    text = f"{evidence.law.name} noise on a tree is taken as normal of the same variance, a split at a time"
    return Counted(counts, 1, text)


def _divided(sums: Floats, of: Indices, alpha: Floats, rng: np.random.Generator) -> Floats:
    """Return the counts of cells in sets whose sums are drawn, where nothing was seen of the cells: by the prior."""
    if len(sums[0]) == len(alpha):
        return sums[:, of]
    gammas = np.maximum(rng.standard_gamma(np.broadcast_to(alpha, (len(sums), len(alpha)))), 1e-300)
    order = np.argsort(of, kind="stable")
    starts = np.searchsorted(of[order], np.arange(sums.shape[1]))
    whole = np.add.reduceat(gammas[:, order], starts, axis=1)
    return np.asarray(sums[:, of] * gammas / whole[:, of])


def _drawn(
    evidence: DrawnFromCounts, prior: Prior, records: int, drawn: Integers, draws: int, rng: np.random.Generator
) -> Counted:
    """Draw the counts where records were drawn from them without noise."""
    cells = np.arange(len(prior.alpha))

    def log_weight(counts: Integers, which: Integers = cells) -> Floats:
        return evidence.log_weight(records, which, counts, drawn[which])

    tilt = _tilt(log_weight, records, len(cells), int(drawn.sum()))
    low, high = _window(lambda c: log_weight(c) + tilt * c, records, len(cells))
    lattice = _Lattice.fine(records, float((high - low).min()) / 15.0)
    laws = []
    for cell in cells:
        numbers = lattice.numbers(low[cell], high[cell])
        counts = np.minimum(numbers * lattice.step, records)
        laws.append(
            lattice.law(prior.alpha[cell], numbers, log_weight(counts, np.full(len(counts), cell)) + tilt * counts)
        )
    return Counted(lattice.draw(Sums(laws, lattice.total, lattice.levels(prior)), draws, rng), lattice.step)


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


class _Positive:
    """Records that were drawn from the positive parts of noisy counts, divided by their sum or shifted to sum to n.

    ``(y_j - shift)^+ / Y``: either the shift is 0 and the sum ``Y`` unknown, or ``Y = n`` and the shift unknown. What
    is unknown is integrated. Independent records: their likelihood with the sum as an exponential factor, which is
    exact for an unknown sum. Stratified ones: each number is its share to within one, neighbours independently.
    """

    def __init__(self, evidence: NoisyCellCounts, prior: Prior, records: int, drawn: Integers) -> None:
        self._evidence, self._records = evidence, records
        self._drawn, self._size = np.asarray(drawn, dtype=np.int64), int(drawn.sum())
        self._noise = Noise.of(evidence.law, evidence.scale)
        self._each = records / self._size
        self._stratified = evidence.sampling == "stratified"
        self._least = evidence.threshold if isinstance(evidence, ThresholdedCounts) else None
        self._kinds, self._of = np.unique(np.stack((self._drawn, prior.alpha), axis=1), axis=0, return_inverse=True)
        self._of = self._of.ravel()
        self._lattice = _Lattice.fine(records, math.hypot(self._noise.spread, self._each / math.sqrt(6.0)))
        self._levels = self._lattice.levels(prior)

    @property
    def _approximation(self) -> str:
        if self._stratified:
            return "the rounding of neighbouring cells' shares to whole records is taken as independent"
        return "" if self._evidence.rescaled else "the reading is taken as one shift of all noisy counts, cut off at 0"

    def draw(self, draws: int, rng: np.random.Generator) -> Counted:
        """Return draws of the counts: from each node of the unknown number as many as it has weight."""
        nodes, weights = self._nodes()
        held = rng.multinomial(draws, weights)
        pairs = [(float(node), int(count)) for node, count in zip(nodes, held, strict=True) if count]
        counts = np.concatenate([self._lattice.draw(self._sums(node), count, rng) for node, count in pairs])
        return Counted(counts[rng.permutation(draws)], self._lattice.step, self._approximation)

    def _nodes(self) -> tuple[Floats, Floats]:
        """Return values of the unknown number and their probabilities."""
        from scipy.optimize import minimize_scalar

        k, spread = len(self._drawn), self._noise.spread
        if self._evidence.rescaled:  # the logarithm of the sum of the positive parts
            least = 1.0 if self._least is None else float(self._least)
            low = math.log(max(least, self._records - 9.0 * spread * math.sqrt(k) if self._least is None else 0.0))
            high = math.log(self._records + 2.0 * spread * k)
            width = math.hypot(spread * math.sqrt(k) / self._records, 1.0 / math.sqrt(self._size))
        else:
            width = math.hypot(spread, self._each) / math.sqrt(k)
            low, high = -9.0 * width, 9.0 * spread
        kept: dict[float, float] = {}

        def cost(value: float) -> float:
            kept[value] = min(-self._sums(value).log, 1e100)  # finite where no counts have the sum
            return kept[value]

        best = float(minimize_scalar(cost, bounds=(low, high), method="bounded", options={"xatol": 0.2 * width}).x)
        curvature = max(0.05, sum(cost(best + step * width) - kept[best] for step in (-1.0, 1.0)))
        width /= math.sqrt(curvature)
        logs = {0: -kept[best]}
        for side in (-1, 1):  # outwards as far as there is any weight
            while logs[at := max(logs, key=lambda i: side * i)] > logs[0] - _LEFT and abs(at) < _MOST_NODES:
                value = best + (at + side) * width
                logs[at + side] = -cost(value) if low <= value <= high else -math.inf
        weights = np.exp(np.array([logs[i] for i in sorted(logs)]) - max(logs.values()))
        return best + width * np.array(sorted(logs)), weights / weights.sum()

    def _sums(self, value: float) -> Sums:
        total = math.exp(value) if self._evidence.rescaled else float(self._records)
        shift = 0.0 if self._evidence.rescaled else value
        laws = [self._law(int(z), alpha, total / self._size, shift) for z, alpha in self._kinds]
        return Sums([laws[i] for i in self._of], self._lattice.total, self._levels)

    def _law(self, drawn: int, alpha: float, each: float, shift: float) -> Law:
        """Return the law of the count of a cell with so many released records, of which each stands for ``each``."""
        noise, lattice, step = self._noise, self._lattice, self._lattice.step
        spread = each * (_ROUNDING if self._stratified else math.sqrt(drawn + 1.0))
        spacing = step if spread >= 2.0 * step else max(1, int(spread / 3.0))
        least = max(shift, -math.inf if self._least is None else self._least)
        low = max(least, shift + each * drawn - 9.0 * spread)
        high = max(least, shift + each * drawn) + (6.0 if self._stratified else 20.0) * spread
        if drawn == 0 and self._least is None:
            low = shift - noise.reach
        y = spacing * np.arange(math.floor(low / spacing), math.ceil(high / spacing) + 1)
        log_read = self._log_read(drawn, np.maximum(y - shift, 0.0) / each, each)
        if self._least is not None:
            log_read = np.where(y >= self._least, log_read, -math.inf)
        peak = float(log_read.max()) if drawn else 0.0
        read = np.exp(log_read - peak)
        numbers = lattice.numbers(y[0] - noise.reach, y[-1] + noise.reach)
        if spacing == step:
            first, last = y[0] // step, y[-1] // step
            kernel = noise.log_pmf(step * np.arange(first - numbers[-1], last - numbers[0] + 1.0))
            weights = np.convolve(read, np.exp(kernel)[::-1], mode="full")
            weights = weights[len(y) - 1 : len(y) - 1 + len(numbers)]
        else:
            weights = np.exp(noise.log_pmf(y - float(step) * numbers[:, None])) @ read
        weights = weights * (spacing * math.exp(-noise.log_whole))
        if self._least is not None:
            below = noise.below(self._least - step * numbers) if drawn == 0 else 0.0
            weights = np.where(numbers > 0, weights + below, float(drawn == 0))
        with np.errstate(divide="ignore"):
            return lattice.law(alpha, numbers, np.log(weights) + peak)

    def _log_read(self, drawn: int, expected: Floats, each: float) -> Floats:
        """Return the log-likelihood of released records of a cell, where so many are expected."""
        if self._stratified:
            return np.asarray((expected - drawn) ** 2 / (-2.0 * (_ROUNDING**2 + (_WHOLE / each) ** 2)))
        with np.errstate(divide="ignore"):
            log = drawn * np.log(expected / drawn) + drawn if drawn else np.zeros(len(expected))
        return np.asarray(log - expected)
