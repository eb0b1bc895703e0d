"""The confidential counts of cells given what was released: their posterior, in draws that are independent.

The prior of the counts of ``n`` records is Dirichlet-multinomial: numbers of independent laws whose sum is ``n``. What
a release tells is a factor per cell, or per set of cells, so the posterior is of the same form, and :class:`Sums` draws
from it. What the records of a release were drawn from has one number that all cells share, such as the sum of the
positive noisy counts; it is integrated over a few nodes.

Theory: docs/theory/mechanism-aware-posterior.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from discreet._core.arrays import Floats, Indices, Integers
from discreet._core.errors import ParameterError
from discreet.inference.drawn_records import HeldCells, NoisyUrn, product
from discreet.inference.lattice import CountDraws, Lattice, OnLattice, Weighed, shares, unknown
from discreet.inference.positive import Moved, Positive
from discreet.inference.prior import Noise, Prior
from discreet.inference.sums import Law, Level, Sums, both
from discreet.inference.trees import Splits, TreeRecords
from discreet.mechanisms import (
    DrawnFromCounts,
    ExactLaw,
    Likelihood,
    NoisyCellCounts,
    NoisyTree,
    ThresholdedCounts,
    ThresholdedUrn,
    Tree,
)

# Draws of the counts that are proposed under a simpler likelihood and kept with a probability: exact, without chains.
#
# Theory: docs/theory/mechanism-aware-posterior.md.

_MOST_REFUSED = 2000  # proposals for a draw
_FEW = 16


class Proposals(Weighed, Protocol):
    """The counts of cells under one prior and a likelihood that is simpler than the release's."""

    def propose(self, number: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Return independent draws of the counts, a row each, and the logarithms of what they weigh too little.

        That is the likelihood over the one they were drawn with, up to a number that is the same for all priors.
        """
        ...


def accepted(proposals: Sequence[Proposals], draws: int, rng: np.random.Generator) -> CountDraws:
    """Return draws under priors of equal probability.

    Each proposal is kept in proportion to what it weighs too little. The largest of these weights is that of all
    proposals so far: where a later one is larger, all are judged anew by it.
    """
    probabilities = shares(proposals)
    batches: list[tuple[int, Floats, Floats]] = []  # prior, counts, and marks: kept where above the largest weight
    largest, number, proposed, kept = -np.inf, draws + _FEW, 0, 0
    while kept < draws:
        if proposed > _MOST_REFUSED * draws:
            raise unknown()
        for prior, count in enumerate(rng.multinomial(number, probabilities).tolist()):
            if count:
                counts, weights = proposals[prior].propose(count, rng)
                largest = max(largest, float(weights.max()))
                marks = weights + rng.standard_exponential(count)
                batches.append((prior, counts[marks > largest], marks[marks > largest]))
        proposed += number
        kept = sum(int(np.count_nonzero(marks > largest)) for *_, marks in batches)
        number = min(int((draws - kept) * (proposed / max(1, kept)) * 1.1) + _FEW, 16 * draws + _FEW)
    batches.sort(key=lambda batch: batch[0])
    counts = np.concatenate([counts[marks > largest] for _, counts, marks in batches])
    priors = np.concatenate([np.full(np.count_nonzero(marks > largest), prior) for prior, _, marks in batches])
    chosen = np.sort(rng.permutation(kept)[:draws])
    numbers = tuple(np.bincount(priors[chosen], minlength=len(proposals)).tolist())
    return CountDraws(counts[chosen], proposals[0].step, proposals[0].approximation, numbers)


# What a release tells of each cell, or leaf.


@dataclass(frozen=True)
class Observation:
    """One number of each cell, shape (k,), that was released of a table of ``n`` records."""

    n: int
    values: Any


@dataclass(frozen=True)
class ReleasedCounts(Observation):
    """Noisy counts, nan where none was released."""


@dataclass(frozen=True)
class ReleasedRecords(Observation):
    """Numbers of released records.

    ``kept``: the sum of the noisy counts that were kept, up to the number of records, where the certificate tells it.
    """

    kept: int | None = None


Sampler = Callable[[Any, Sequence[Prior], Any, int, np.random.Generator], CountDraws]


def draw_counts(
    likelihood: Likelihood, priors: Sequence[Prior], release: Observation, draws: int, rng: np.random.Generator
) -> CountDraws:
    """Draw the confidential counts of cells, or leaves, given a release, under priors of equal probability."""
    return SAMPLERS[type(likelihood)](likelihood, priors, release, draws, rng)


# -- all tables -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Listed:
    """All tables, a row each, and the logarithms of their posterior weights under one prior."""

    tables: Integers
    log_weights: Floats
    step: int = 1
    approximation: str = ""

    @property
    def log(self) -> float:
        """The logarithm of the sum of the weights."""
        return float(np.logaddexp.reduce(self.log_weights))

    def draw(self, draws: int, rng: np.random.Generator) -> Floats:
        """Return independent draws of the tables, a row each."""
        chosen = rng.choice(len(self.tables), size=draws, p=np.exp(self.log_weights - self.log))
        return np.asarray(self.tables[chosen], dtype=np.float64)


def _given_law(
    likelihood: ExactLaw, priors: Sequence[Prior], release: ReleasedRecords, draws: int, rng: np.random.Generator
) -> CountDraws:
    tables = likelihood.tables(release.n)
    logs = likelihood.log_probs(release.values, tables)
    return CountDraws.draw([Listed(tables, logs + prior.log_weights(tables)) for prior in priors], draws, rng)


# -- records without noise ------------------------------------------------------------------------------------------


def _given_factors(
    likelihood: DrawnFromCounts, priors: Sequence[Prior], release: ReleasedRecords, draws: int, rng: np.random.Generator
) -> CountDraws:
    if likelihood.log_held is None:
        posteriors = [product(likelihood, prior, release.n, release.values) for prior in priors]
        return CountDraws.draw(posteriors, draws, rng)
    return accepted([HeldCells(likelihood, prior, release.n, release.values, rng) for prior in priors], draws, rng)


# -- noisy counts ---------------------------------------------------------------------------------------------------


def noisy(
    priors: Sequence[Prior], records: int, counts: Floats, noise: Noise, draws: int, rng: np.random.Generator
) -> CountDraws:
    """Draw the counts given one noisy count per cell."""

    def posterior(prior: Prior) -> OnLattice:
        lattice = Lattice.fine(records, noise.spread, prior, _lowered(counts, records))
        laws = _each(lambda y: _near(lattice, y, noise), lattice, counts)
        return OnLattice(lattice, Sums(laws, lattice.total, lattice.levels))

    return CountDraws.draw([posterior(prior) for prior in priors], draws, rng)


def _given_noisy(
    likelihood: NoisyCellCounts, priors: Sequence[Prior], release: Observation, draws: int, rng: np.random.Generator
) -> CountDraws:
    if isinstance(release, ReleasedCounts):
        _require_complete(release.values)
        noise = Noise.of(likelihood.law, likelihood.scale)
        return noisy(priors, release.n, release.values, noise, draws, rng)
    kind = Moved if likelihood.surplus == "moved" else Positive
    return CountDraws.draw(kind.under(priors, likelihood, release.n, release.values), draws, rng)


def _given_thresholded(
    likelihood: ThresholdedCounts, priors: Sequence[Prior], release: Observation, draws: int, rng: np.random.Generator
) -> CountDraws:
    if isinstance(release, ReleasedRecords):
        return _given_noisy(likelihood, priors, release, draws, rng)
    return CountDraws.draw([_kept(likelihood, prior, release) for prior in priors], draws, rng)


def _given_thresholded_urn(
    likelihood: ThresholdedUrn, priors: Sequence[Prior], release: Observation, draws: int, rng: np.random.Generator
) -> CountDraws:
    if not isinstance(release, ReleasedRecords):
        return _given_thresholded(likelihood, priors, release, draws, rng)
    assert release.kept is not None  # the certificate of such a release tells it
    proposals = [NoisyUrn(likelihood, prior, release.n, release.values, release.kept, rng) for prior in priors]
    return accepted(proposals, draws, rng)


def _given_tree(
    likelihood: NoisyTree, priors: Sequence[Prior], release: Observation, draws: int, rng: np.random.Generator
) -> CountDraws:
    if isinstance(release, ReleasedRecords):
        return CountDraws.draw(
            [_Leaves.from_records(likelihood, prior, release.n, release.values) for prior in priors], draws, rng
        )
    _require_complete(release.values)
    return CountDraws.draw([_tree_counts(likelihood, prior, release.n, release.values) for prior in priors], draws, rng)


SAMPLERS: Mapping[type[Likelihood], Sampler] = {
    DrawnFromCounts: _given_factors,
    ExactLaw: _given_law,
    NoisyCellCounts: _given_noisy,
    NoisyTree: _given_tree,
    ThresholdedCounts: _given_thresholded,
    ThresholdedUrn: _given_thresholded_urn,
}


def _require_complete(counts: Floats) -> None:
    if np.isnan(counts).any():
        raise ParameterError("the table of counts lacks cells of the domain. Check that it is complete")


def _lowered(counts: Floats, records: int) -> Floats:
    """Return counts less what brings the sum of those that remain positive to a number."""
    falling = np.sort(counts)[::-1]
    shifts = (np.cumsum(falling) - records) / np.arange(1, len(counts) + 1)
    positive = np.flatnonzero(np.append(True, falling[1:] > shifts[1:]))
    return np.asarray(np.maximum(counts - shifts[positive[-1]], 0.0))


def _each(factor: Callable[[float], tuple[Integers, Floats]], lattice: Lattice, counts: Floats) -> list[Law]:
    """Return the laws of cells; cells with equal numbers share one."""
    factors = {repr(y): factor(y) for y in dict(zip(map(repr, counts.tolist()), counts.tolist(), strict=True)).values()}
    keys = [*zip(lattice.cells, map(repr, counts.tolist()), strict=True)]  # as texts: nan is not itself
    laws = lattice.laws({(cell, key): (cell, *factors[key]) for cell, key in keys})
    return [laws[key] for key in keys]


def _near(lattice: Lattice, y: float, noise: Noise) -> tuple[Integers, Floats]:
    """Return the counts that a noisy one may come from, and their log-likelihood."""
    numbers = lattice.numbers(y - noise.reach, y + noise.reach)
    return numbers, _log_noise(noise, lattice, y, numbers)


def _log_noise(noise: Noise, lattice: Lattice, y: float, numbers: Integers) -> Floats:
    return noise.log_pmf(y - lattice.counts(numbers))


def _kept(likelihood: ThresholdedCounts, prior: Prior, release: Observation) -> OnLattice:
    records, counts, noise = release.n, release.values, Noise.of(likelihood.law, likelihood.scale)
    withheld = np.isnan(counts)
    rest = max(0.0, records - float(counts[~withheld].sum())) / max(1, int(withheld.sum()))
    lattice = Lattice.fine(records, noise.spread, prior, np.where(withheld, rest, counts))
    laws = _each(lambda y: _above(lattice, y, noise, likelihood.threshold), lattice, counts)
    return OnLattice(lattice, Sums(laws, lattice.total, lattice.levels))


def _above(lattice: Lattice, y: float, noise: Noise, least: int) -> tuple[Integers, Floats]:
    """Return the same where the noisy count reached the threshold, or stayed below (``nan``)."""
    if not math.isnan(y):
        numbers = lattice.numbers(max(1.0, y - noise.reach), y + noise.reach)
        numbers = numbers[numbers > 0] if numbers[-1] > 0 else numbers
        return numbers, _log_noise(noise, lattice, y, numbers) - noise.log_whole
    numbers = lattice.numbers(0.0, least + noise.reach)
    with np.errstate(divide="ignore"):
        short = np.log(noise.below(least - lattice.step * numbers))
    return numbers, np.where(numbers > 0, short, 0.0)


def _tree_counts(likelihood: NoisyTree, prior: Prior, records: int, counts: Floats) -> OnLattice:
    """Return the posterior of the leaves given the best estimates that the noisy counts of all nodes give."""
    noise = Noise("gaussian", likelihood.law.standard_deviation(likelihood.scale))
    tree = likelihood.consistent.tree
    order = tree.in_order()
    plain = prior if prior.order is not None else replace(prior, alpha=prior.alpha[order])
    lattice = Lattice.fine(records, noise.scale, plain, _lowered(counts[order], records))
    laws = _each(lambda y: _near(lattice, y, noise), lattice, counts[order])
    priors = {len(level.log_weights): level.log_weights for level in lattice.levels}
    levels: list[Level] = []
    first = np.arange(len(order))  # leaf of each set of the level below, leaves in order
    for node, measured in sets_of(tree, order, set(likelihood.consistent.measured[:-1])):
        number = int(node[-1]) + 1
        weights = list(priors.get(number, []))
        if measured:
            sums = np.bincount(node, weights=counts[order])
            terms: list[Callable[[Integers], Floats]] = [partial(_log_noise, noise, lattice, y) for y in sums]
            weights = [both(*pair) for pair in zip(weights, terms, strict=True)] if weights else terms
        if weights:
            levels.append(Level(node[first], weights))
            first = np.searchsorted(node, np.arange(number))
    other = likelihood.law.name != "gaussian"  # what the best linear estimates keep of it is not known in closed form
    text = f"{likelihood.law.name} noise on a tree is taken as normal of the same variance" if other else ""
    return OnLattice(lattice, Sums(laws, lattice.total, levels), text, order)


def along(tree: Tree, base: Floats, *, firmer: int) -> list[Prior]:
    """Return the priors of a tree of sets."""
    order = tree.in_order()
    sets, first = [], np.arange(len(order))
    for node, _ in sets_of(tree, order, set()):
        if int(node[-1]) + 1 < len(first):
            sets.append(node[first])
            first = np.searchsorted(node, np.arange(int(node[-1]) + 1))
    return Prior.learned(base[order], sets, order, firmer=firmer)


def sets_of(tree: Tree, order: Integers, measured: set[int]) -> list[tuple[Integers, bool]]:
    """Return the node of each leaf in order, numbered in order, level by level from the leaves up to the root."""
    sets = []
    for level in reversed(range(tree.depth)):
        node = np.arange(tree.nodes(level)).reshape(tree.shape(level)).astype(np.float64)
        for below in range(level + 1, tree.depth + 1):
            node = tree.down(below, node)
        node = node.ravel()[order]
        sets.append((np.cumsum(np.diff(node, prepend=node[0]) != 0), level in measured))
    return sets


@dataclass(frozen=True)
class _Leaves:
    """The leaves of a tree, of which released records reach some."""

    below: TreeRecords
    leaf: Indices
    alpha: Floats
    approximation: str
    step: int = 1

    @classmethod
    def from_records(cls, likelihood: NoisyTree, prior: Prior, records: int, drawn: Integers) -> _Leaves:
        reading = likelihood.consistent
        nothing = np.zeros(sum(reading.tree.nodes(level) for level in reading.measured), dtype=np.int64)
        splits = Splits.of(reading.tree, reading.upward(nothing)[1], drawn)
        spread, stratified = likelihood.law.standard_deviation(likelihood.scale), likelihood.sampling == "stratified"
        alpha, start = (prior.alpha, None) if prior.base is None else (prior.base, prior.start)
        merged = np.asarray(np.bincount(splits.leaf, weights=alpha), dtype=np.float64)
        below = TreeRecords(merged, records, splits, spread=spread, stratified=stratified, start=start)
        text = f"{likelihood.law.name} noise on a tree is taken as normal of the same variance, a split at a time"
        return cls(below, splits.leaf, alpha, text)

    @property
    def log(self) -> float:
        return self.below.log

    def draw(self, draws: int, rng: np.random.Generator) -> Floats:
        return _divided(self.below.draw(draws, rng), self.leaf, self.alpha, rng)


def _divided(sums: Floats, of: Indices, alpha: Floats, rng: np.random.Generator) -> Floats:
    """Return the counts of cells in sets whose sums are drawn, where nothing was seen of the cells: by the prior."""
    if len(sums[0]) == len(alpha):
        return sums[:, of]
    gammas = np.maximum(rng.standard_gamma(np.broadcast_to(alpha, (len(sums), len(alpha)))), 1e-300)
    order = np.argsort(of, kind="stable")
    starts = np.searchsorted(of[order], np.arange(sums.shape[1]))
    whole = np.add.reduceat(gammas[:, order], starts, axis=1)
    return np.asarray(sums[:, of] * gammas / whole[:, of])
