"""The confidential counts of cells given what was released: their posterior, in draws that are independent.

The prior of the counts of ``n`` records is Dirichlet-multinomial: numbers of independent laws whose sum is ``n``. What
a release tells is a factor per cell, or per set of cells, so the posterior is of the same form, and :class:`Sums` draws
from it. What the records of a release were drawn from has one number that all cells share, such as the sum of the
positive noisy counts; it is integrated over a few nodes.

Theory: docs/theory/mechanism-aware-posterior.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from discreet._core.arrays import Floats, Indices, Integers
from discreet._core.errors import ParameterError
from discreet.inference.drawn_records import Held, Least, Opened, product
from discreet.inference.lattice import Counted, Lattice, OnLattice, Weighed, shares, unknown
from discreet.inference.near_tables import BySquares, Nearest
from discreet.inference.positive import Moved, Positive
from discreet.inference.prior import Noise, Prior, log_prior
from discreet.inference.sums import Law, Level, Sums, both, nothing
from discreet.inference.trees import Splits, TreeRecords
from discreet.mechanisms.likelihood import (
    CellLikelihood,
    DistinctRecords,
    DrawnByLeast,
    DrawnFromCounts,
    NearestBySquares,
    NearestCounts,
    NoisyCellCounts,
    NoisyTree,
    ThresholdedCounts,
    ThresholdedUrn,
)
from discreet.mechanisms.tree import Tree

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


def accepted(proposals: Sequence[Proposals], draws: int, rng: np.random.Generator) -> Counted:
    """Return draws under priors of equal probability.

    Each proposal is kept in proportion to what it weighs too little. The largest of these weights is that of all
    proposals so far: where a later one is larger, all are judged anew by it.
    """
    among = shares(proposals)
    held: list[list[Floats]] = [[] for _ in proposals]
    marks: list[list[Floats]] = [[] for _ in proposals]  # a proposal is kept where its mark is above the largest weight
    largest, number, made, kept = -np.inf, draws + _FEW, 0, 0
    while kept < draws:
        if made > _MOST_REFUSED * draws:
            raise unknown()
        for at, count in enumerate(rng.multinomial(number, among).tolist()):
            if count:
                counts, weights = proposals[at].propose(count, rng)
                largest = max(largest, float(weights.max()))
                mark = weights + rng.standard_exponential(count)
                held[at].append(counts[mark > largest])
                marks[at].append(mark[mark > largest])
        made += number
        kept = sum(int(np.count_nonzero(mark > largest)) for some in marks for mark in some)
        number = min(int((draws - kept) * (made / max(1, kept)) * 1.1) + _FEW, 16 * draws + _FEW)
    found = []
    for some, given in zip(held, marks, strict=True):
        found += [counts[mark > largest] for counts, mark in zip(some, given, strict=True)]
    of = np.concatenate([
        np.full(np.count_nonzero(mark > largest), at) for at, some in enumerate(marks) for mark in some
    ])  # fmt: skip
    chosen = np.sort(rng.permutation(kept)[:draws])
    numbers = tuple(np.bincount(of[chosen].astype(np.intp), minlength=len(proposals)).tolist())
    return Counted(np.concatenate(found)[chosen], proposals[0].step, proposals[0].approximation, numbers)


# The confidential counts given distinct records, of which some were replaced by uniform cells: exact draws.
#
# Which released records are the table's own is not known. With the probability ``q`` of a replacement, ``k`` cells and
# ``Z_j`` released records of a cell, the numbers ``K_j`` of own ones have, under a prior of the population ``p``,
#
# .. math:: P(K \mid Z) \propto E\Bigl[\prod_j p_j^{K_j}\Bigr] \prod_j \binom{Z_j}{K_j}
# \Bigl(\frac{(1-q)k}q\Bigr)^{K_j},
#
# a product over cells and over the number of all own records. They are records of the table; the others of it are
# further draws of the population.
#
# Theory: docs/theory/mechanism-aware-posterior.md.


def given_distinct(
    mixing: float, prior: Prior, records: int, drawn: Integers, draws: int, rng: np.random.Generator
) -> Floats:
    """Draw the counts of ``records`` confidential records, a row each, from those drawn of each cell, shape (k,).

    ``mixing``: probability that a released record is a uniform cell.
    """
    own = np.zeros((draws, len(drawn)), dtype=np.int64) if mixing >= 1.0 else _own(mixing, prior, drawn, draws, rng)
    others = rng.multinomial(records - own.sum(axis=1), prior.masses(own.astype(np.float64), rng))
    return np.asarray(own + others, dtype=np.float64)


def _own(mixing: float, prior: Prior, drawn: Integers, draws: int, rng: np.random.Generator) -> Integers:
    """Draw how many released records of each cell are the table's own."""
    from scipy.special import gammaln

    size, strength = int(drawn.sum()), float((prior.levels[-1].masses if prior.levels else prior.alpha).sum())
    odds = math.log((1.0 - mixing) * len(drawn) / mixing)
    each = math.log(strength + (1.0 - mixing) * size)  # taken off every record: it changes no draw, only precision

    def law(alpha: float, z: int) -> Law:
        k = np.arange(z + 1.0)
        return Law.of(0, log_prior(alpha, k) + gammaln(z + 1.0) - gammaln(z - k + 1.0) + (odds - each) * k)

    kinds = {pair: law(*pair) for pair in zip(prior.alpha.tolist(), drawn.tolist(), strict=True)}
    laws = [kinds[pair] for pair in zip(prior.alpha.tolist(), drawn.tolist(), strict=True)]
    replaced = np.arange(size + 1.0)
    rest = Law.of(0, gammaln(strength) - gammaln(strength + size - replaced) - each * replaced)
    levels = [
        Level(np.append(level.of, len(level.masses)), [*(_weight(a, level.strength) for a in level.masses), nothing])
        for level in prior.levels
    ]
    return Sums([*laws, rest], size, levels).draw(draws, rng)[:, :-1]


def _weight(mass: float, strength: float) -> Callable[[Integers], Floats]:
    def weight(numbers: Integers) -> Floats:
        counts = numbers.astype(np.float64)
        return log_prior(mass, counts) - log_prior(strength, counts)

    return weight


Given = Prior | Sequence[Prior] | Floats


# -- released counts ----------------------------------------------------------------------------------------------


def noisy(
    prior: Prior | Sequence[Prior], records: int, counts: Floats, noise: Noise, draws: int, rng: np.random.Generator
) -> Counted:
    """Draw the counts given one noisy count per cell."""

    def given(one: Prior) -> OnLattice:
        lattice = Lattice.fine(records, noise.spread, one, _lowered(counts, records))
        laws = _each(lambda y: _near(lattice, y, noise), lattice, counts)
        return OnLattice(lattice, Sums(laws, lattice.total, lattice.levels))

    return Counted.of([given(one) for one in Prior.all_of(prior)], draws, rng)


def given_counts(
    likelihood: CellLikelihood, prior: Given, records: int, counts: Floats, draws: int, rng: np.random.Generator
) -> Counted:
    """Draw the confidential counts given released ones, shape (k,); ``nan`` where none was.

    ``prior``: of the cells, of the leaves for a tree: one, several of equal probability, or the masses of a Dirichlet
    process.
    """
    priors = Prior.all_of(prior)
    assert isinstance(likelihood, NoisyCellCounts)  # no other mechanism releases counts
    noise = Noise.of(likelihood.law, likelihood.scale)
    if isinstance(likelihood, ThresholdedCounts):
        kept = [_kept(likelihood, one, records, counts, noise) for one in priors]
        return Counted.of(kept, draws, rng)
    if np.isnan(counts).any():
        raise ParameterError("the table of counts lacks cells of the domain. Check that it is complete")
    if isinstance(likelihood, NoisyTree):
        return Counted.of([_tree_counts(likelihood, one, records, counts) for one in priors], draws, rng)
    return noisy(priors, records, counts, noise, draws, rng)


def _lowered(counts: Floats, records: int) -> Floats:
    """Return counts less what brings the sum of those that remain positive to a number."""
    falling = np.sort(counts)[::-1]
    shifts = (np.cumsum(falling) - records) / np.arange(1, len(counts) + 1)
    held = np.flatnonzero(falling > shifts)
    lowered: Floats = np.maximum(counts - shifts[held[-1] if len(held) else 0], 0.0)
    return lowered


def _each(told: Callable[[float], tuple[Integers, Floats]], lattice: Lattice, counts: Floats) -> list[Law]:
    """Return the laws of cells; cells with equal numbers share one."""
    by_text = {repr(y): y for y in counts.tolist()}  # nan is not itself
    made = {key: told(y) for key, y in by_text.items()}
    keys = [*zip(lattice.cells, map(repr, counts.tolist()), strict=True)]
    laws = lattice.laws({(cell, key): (cell, *made[key]) for cell, key in keys})
    return [laws[key] for key in keys]


def _near(lattice: Lattice, y: float, noise: Noise) -> tuple[Integers, Floats]:
    """Return the counts that a noisy one may come from, and their log-likelihood."""
    numbers = lattice.numbers(y - noise.reach, y + noise.reach)
    return numbers, noise.log_pmf(y - lattice.counts(numbers))


def _kept(likelihood: ThresholdedCounts, prior: Prior, records: int, counts: Floats, noise: Noise) -> OnLattice:
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
        return numbers, noise.log_pmf(y - lattice.counts(numbers)) - noise.log_whole
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
            told = [_of_a_node(y, noise, lattice) for y in np.bincount(node, weights=counts[order])]
            weights = [both(one, other) for one, other in zip(weights, told, strict=True)] if weights else told
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
    found = []
    for level in reversed(range(tree.depth)):
        node = _nodes(tree, level)[order]
        found.append((np.cumsum(np.diff(node, prepend=node[0]) != 0), level in measured))
    return found


def _nodes(tree: Tree, level: int) -> Integers:
    """Return the node of a level that each leaf is in."""
    node = np.arange(tree.nodes(level)).reshape(tree.shape(level)).astype(np.float64)
    for below in range(level + 1, tree.depth + 1):
        node = tree.down(below, node)
    return node.ravel().astype(np.int64)


def _of_a_node(y: float, noise: Noise, lattice: Lattice) -> Callable[[Integers], Floats]:
    return lambda numbers: noise.log_pmf(y - lattice.counts(numbers))


# -- released records ---------------------------------------------------------------------------------------------


def given_records(
    likelihood: CellLikelihood,
    prior: Given,
    records: int,
    drawn: Integers,
    draws: int,
    rng: np.random.Generator,
    *,
    kept: int | None = None,
) -> Counted:
    """Draw the confidential counts given released records, of each cell, or leaf.

    ``kept``: the sum of the noisy counts that were kept, up to the number of records, where the certificate tells it.
    """
    priors = Prior.all_of(prior)
    if isinstance(likelihood, DistinctRecords):
        (one,) = priors
        return Counted(given_distinct(likelihood.mixing, one, records, drawn, draws, rng), 1, "", (draws,))
    if proposals := _proposals(likelihood, priors, records, drawn, draws, rng, kept):
        return accepted(proposals, draws, rng)
    if isinstance(likelihood, DrawnFromCounts):
        return Counted.of([product(likelihood, one, records, drawn) for one in priors], draws, rng)
    if isinstance(likelihood, NoisyTree):
        return Counted.of([_Leaves.of(likelihood, one, records, drawn) for one in priors], draws, rng)
    assert isinstance(likelihood, NoisyCellCounts)
    kind = Moved if likelihood.surplus == "moved" else Positive
    return Counted.of(kind.under(priors, likelihood, records, drawn), draws, rng)


def _proposals(
    likelihood: CellLikelihood,
    priors: Sequence[Prior],
    records: int,
    drawn: Integers,
    draws: int,
    rng: np.random.Generator,
    kept: int | None,
) -> Sequence[Proposals]:
    """Return what counts are proposed by, where all cells share a factor; none where they do not."""
    made: Sequence[Proposals] = ()
    if isinstance(likelihood, DrawnFromCounts) and likelihood.log_held is not None:
        made = [Held(likelihood, one, records, drawn, rng) for one in priors]
    elif isinstance(likelihood, DrawnByLeast):
        made = [Least(likelihood, one, records, drawn) for one in priors]
    elif isinstance(likelihood, NearestCounts):
        made = Nearest.under(likelihood, priors, records, drawn)
    elif isinstance(likelihood, NearestBySquares):
        made = [BySquares(likelihood, one, records, drawn, draws) for one in priors]
    elif isinstance(likelihood, ThresholdedUrn):
        assert kept is not None  # the certificate of such a release tells it
        made = [Opened(likelihood, one, records, drawn, kept, rng) for one in priors]
    return made


@dataclass(frozen=True)
class _Leaves:
    """The leaves of a tree, of which released records reach some."""

    below: TreeRecords
    leaf: Indices
    alpha: Floats
    approximation: str
    step: int = 1

    @classmethod
    def of(cls, likelihood: NoisyTree, prior: Prior, records: int, drawn: Integers) -> _Leaves:
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
