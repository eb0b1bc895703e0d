"""The prior of cells' masses, how counts weigh in it, and counts on a lattice: what the laws of cells are made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np

from discreet._core.errors import choice, real
from discreet._core.lazy import special
from discreet._core.numeric import Booleans, Floats, Indices, Integers
from discreet.inference.sums import IntegerLaw, Level, LogWeights, Sums, by_function
from discreet.mechanisms import NoiseLaw, Tree

# The strength of the first splits: shares of halves are uniform; and where little is seen, so that much is left to the
# prior, as likely near 0 and 1 as Jeffreys' law has it.
WIDE, WIDE_FOR_LITTLE = 2.0, 1.0
# The least depth of the last splits of this strength: given counts, and given records, which show less of heaps.
FIRMER, FIRMER_FOR_RECORDS = 4, 5
_FURTHER = (0, 2, math.inf)  # depths below the first at which splits may become firmer: trees of equal probability
# From depth to depth: shares of halves under a smooth density differ by half as much, one step further down. No split
# is firmer than 8: one of two neighbouring values may be round, and hold several times as many as the other.
_GROWTH, _FIRMEST = 4.0, 8.0
_SOFTER = 0.5  # from depth to depth, as the splits of a Dirichlet process are
_LEAST = 1e-290
_SMOOTH = 32.0  # steps from 0, beyond which the weights within a step are alike
_FEW = 64  # numbers, below which the sums of rounded parts are listed
_FINE = 12.0  # steps of the lattice that a standard deviation has at least
Kind = TypeVar("Kind", bound=Hashable)
Strength = Callable[[int], float]


def log_prior(alpha: Any, counts: Floats, step: int = 1, rate: float = 0.0) -> Floats:
    """Return ``log (Gamma(alpha + c) / (Gamma(alpha) c!)) + rate c``, ``rate`` at most 0, summed over a step."""
    # The rate belongs into the sum: what it is multiplied with may grow manifold within a step.
    single = special.gammaln(alpha + counts) - special.gammaln(alpha) - special.gammaln(counts + 1.0) + rate * counts
    if step == 1:
        return np.asarray(single)
    slope = np.log1p((alpha - 1.0) / (counts + 1.0)) + rate
    half = np.minimum(np.abs(slope) * step / 2.0, 300.0)
    level = np.log(np.where(half > 1e-6, np.sinh(half) / np.maximum(half, 1e-6), 1.0))
    if step % 2 == 0:
        level -= slope / 2.0
    sums = np.asarray(math.log(step) + single + level)
    small = counts < _SMOOTH * step
    start = counts[small] - step // 2
    if rate < 0.0:
        sums[small] = _log_binomial_sum(alpha, start, start + step, rate, sums[small])
    else:
        sums[small] = _log_sum(alpha, start, start + step)
    return sums


def _log_sum(alpha: float, first: Floats, end: Floats) -> Floats:
    """Return what :func:`log_prior` sums up at rate 0, from ``first`` to below ``end``, as a difference of two sums."""

    def below(end: Floats) -> Floats:
        return np.asarray(special.gammaln(alpha + end) - special.gammaln(alpha + 1.0) - special.gammaln(end))

    total = below(end)
    below_start = np.where(first <= 0.0, -math.inf, below(np.maximum(first, 1.0)))
    return np.asarray(total + np.log(-np.expm1(np.minimum(below_start - total, -1e-300))))


def _log_binomial_sum(alpha: float, first: Floats, end: Floats, rate: float, otherwise: Floats) -> Floats:
    """Return what :func:`log_prior` sums up at a rate below 0, of a negative binomial law; ``otherwise`` if tiny."""
    failure, low = -math.expm1(rate), np.maximum(first, 1.0)
    below, above = special.betainc(alpha, end, failure), special.betaincc(alpha, end, failure)
    lower_tail = below - np.where(first <= 0.0, 0.0, special.betainc(alpha, low, failure))
    upper_tail = np.where(first <= 0.0, 1.0, special.betaincc(alpha, low, failure)) - above
    mean = alpha * math.exp(rate) / failure  # each tail is exact on its own side of it
    mass = np.where(end - 1.0 < mean, lower_tail, upper_tail)
    positive = mass > _LEAST
    return np.where(positive, np.log(np.where(positive, mass, 1.0)) - alpha * math.log(failure), otherwise)


def strength_at(depth: int, start: float = math.inf, wide: float = WIDE, growth: float = _GROWTH) -> float:
    """Return the strength of a split by its depth: ``wide`` to ``start``, from there on growing to 8, or halving."""
    return min(_FIRMEST, float(wide * growth ** max(0.0, depth - start)))


def above_atom(depth: int) -> float:
    """Return how strong a split is above an atom, which may hold nearly all, or nothing, of what lies around it."""
    return strength_at(depth, start=0.0, growth=_SOFTER)


class Layer(NamedTuple):
    """Cells, or neighbouring sets, each a part of a set of the next layer, with the Dirichlet law of its split."""

    parent: Integers  # of each part, the number of its set: 0, 1, ... in order
    masses: Floats  # of the parts, in that law
    strength: Any  # of the law, the sum of a set's masses: of each set, where they differ

    def sums(self, rows: Any) -> Any:
        """Return the sums over the parts of each set, row by row."""
        return np.add.reduceat(rows, np.searchsorted(self.parent, np.arange(self.parent[-1] + 1)), axis=1)


@dataclass(frozen=True)
class Prior:
    """A tree of splits that are each a Dirichlet distribution, or a Dirichlet process: one split of all cells."""

    # In a tree the count c of a set with mass a in the split above, itself split with strength b, weighs (a)_c / (b)_c:
    # the factors c! of a set as a part and as a whole cancel.

    layers: tuple[Layer, ...]  # from the cells on; the last one is split from the whole
    order: Integers  # the cells, neighbours in the tree beside one another
    base: Floats | None = None  # the base measure of a tree, not in it
    strength: Strength = strength_at  # of the splits of a tree
    atoms: Booleans | None = None  # which cells, as of ``base``, are: splits above them are softer

    @classmethod
    def process(cls, alpha: Floats) -> Prior:
        """Return the Dirichlet process with these masses of the cells."""
        cells = np.arange(len(alpha))
        return cls((Layer(np.zeros_like(cells), alpha, float(alpha.sum())),), cells)

    @classmethod
    def nested(
        cls,
        base: Floats,
        sets: Sequence[Integers] = (),
        order: Integers | None = None,
        strength: Strength = strength_at,
        atoms: Booleans | None = None,
    ) -> Prior:
        """Return the tree of sets, the last of which is all, or of halves; base and atoms are in the tree's order."""
        sets = sets or _halves(len(base))
        if order is None:
            order = np.arange(len(base))
        mass, layers, heaps = base, [], atoms
        for depth, parent in zip(reversed(range(len(sets))), sets, strict=True):
            sums = np.asarray(np.bincount(parent, weights=mass), dtype=np.float64)
            strengths: Any = strength(depth)
            if heaps is not None:
                heaps = np.bincount(parent, weights=heaps) > 0
                strengths = np.where(heaps, above_atom(depth), strengths)
            firmness = np.broadcast_to(strengths, sums.shape)[parent]
            layers.append(Layer(parent, firmness * mass / sums[parent], strengths))
            mass = sums
        place = np.argsort(order)
        return cls(tuple(layers), order, base[place], strength, None if atoms is None else atoms[place])

    @classmethod
    def learned(
        cls,
        base: Floats,
        sets: Sequence[Integers] = (),
        order: Integers | None = None,
        *,
        firmer: int,
        wide: float = WIDE,
        softer: bool = False,
        atoms: Booleans | None = None,
    ) -> list[Prior]:
        """Return trees, of halves or of given sets, of which a release tells which is near; one more if ``softer``."""
        # firmer: the least depth of the last splits of strength ``wide``; softer ones are like a Dirichlet process's.
        depth_of_tree = len(sets or _halves(len(base)))
        starts = [firmer + depth for depth in _FURTHER if depth == math.inf or firmer + depth + 1 < depth_of_tree]
        strengths = [partial(strength_at, start=start, wide=wide) for start in starts]
        if softer:
            strengths.append(partial(strength_at, start=0.0, wide=wide, growth=_SOFTER))
        return [cls.nested(base, sets, order, strength, atoms) for strength in strengths]

    @classmethod
    def along(
        cls, tree: Tree, base: Floats, *, firmer: int, starts: Indices | None = None, atoms: Booleans | None = None
    ) -> list[Prior]:
        """Return the priors of a tree of nodes, those with one child left out; ``starts``: of the sets of ``base``."""
        order = tree.in_order()
        nodes = [np.arange(len(order)), *(node for node, _ in sets_of(tree))]
        if starts is not None:
            nodes = [np.cumsum(np.diff(node[starts], prepend=0) != 0) for node in nodes]
            order = np.arange(len(starts))
        several = [nodes[0], *(node for below, node in pairwise(nodes) if node[-1] < below[-1])]
        heaps = None if atoms is None else atoms[order]
        return cls.learned(base[order], parents(several), order, firmer=firmer, atoms=heaps)

    def log_rates(self, guess: Floats, spread: float) -> list[Floats]:
        """Return a power of each part's count, layer by layer, that changes no draw; ``guess``: in the tree's order."""
        # With (a)_c / c! times e to this power times c, the parts of a set add up to about the count that is guessed;
        # the next layer takes the power of their sum off again. Guesses are rounded, so that few laws differ, and
        # raised by the spread: a power that is too steep for a count would leave nothing of its weight.
        if self.base is None:
            return [np.zeros(len(guess))]
        rates, sums = [], guess
        for layer in self.layers:
            sums = np.asarray(np.bincount(layer.parent, weights=sums), dtype=np.float64)
            rounded = 2.0 ** np.rint(np.log2(np.maximum(sums + spread, 0.5)))
            rates.append(-np.log1p(layer.strength / rounded)[layer.parent])
        return rates

    def log_weights(self, tables: Integers) -> Floats:
        """Return the logarithms of the weights of whole tables' counts, a row each, up to one number for all tables."""
        sums, weights = tables[:, self.order].astype(np.float64), np.zeros(len(tables))
        for layer in self.layers:
            weights += log_prior(layer.masses, sums).sum(axis=1)
            sums = layer.sums(sums)
            weights -= log_prior(layer.strength, sums).sum(axis=1)
        return weights

    def masses(self, counts: Floats, rng: np.random.Generator) -> Floats:
        """Draw the cells' masses given counts, a row each."""
        sums = [counts[:, self.order]]
        for layer in self.layers[:-1]:
            sums.append(layer.sums(sums[-1]))
        masses = np.ones((len(counts), 1))
        for layer, parts in zip(reversed(self.layers), reversed(sums), strict=True):
            gammas = np.maximum(rng.standard_gamma(layer.masses + parts), 1e-300)
            masses = masses[:, layer.parent] * gammas / layer.sums(gammas)[:, layer.parent]
        return masses[:, np.argsort(self.order)]


def _halves(size: int) -> list[Integers]:
    sets = [np.arange(size) // 2]
    while sets[-1][-1] > 0:
        sets.append(np.arange(int(sets[-1][-1]) + 1) // 2)
    return sets


def parents(nested: Sequence[Integers]) -> list[Integers]:
    """Return the set of the next level that each set is in, from the set of each cell, level by level."""
    return [above[np.searchsorted(sets, np.arange(sets[-1] + 1))] for sets, above in pairwise(nested)]


def sets_of(tree: Tree, measured: Sequence[int] = (), above: float = 1.0) -> list[tuple[Integers, float]]:
    """Return the node of each leaf in order, numbered in order, from the leaves up, and the weight of its own count."""
    # Weights are inverse variances, in units of that of a leaf's noise: 0 where a level is not measured.
    sets, order = [], tree.in_order()
    for level in reversed(range(tree.depth)):
        node = np.arange(tree.nodes(level)).reshape(tree.shape(level)).astype(np.float64)
        for below in range(level + 1, tree.depth + 1):
            node = tree.down(below, node)
        node = node.ravel()[order]
        sets.append((np.cumsum(np.diff(node, prepend=node[0]) != 0), (level in measured) / above))
    return sets


@dataclass(frozen=True)
class Noise:
    """Independent noise on counts with a known law, for inference: in floating point."""

    # P(z) in proportion to e^(-|z|/scale) or e^(-z^2/(2 scale^2)), or a function: log P(z), up to a constant
    law: str | Callable[[Floats], Floats]
    scale: float  # of a function's law about its standard deviation

    def __post_init__(self) -> None:
        real("scale", self.scale, above=0)
        if not callable(self.law):
            choice("noise", self.law, ("laplace", "gaussian"))

    @classmethod
    def from_law(cls, law: NoiseLaw, scale: float) -> Noise:
        """Return a law of this library; one that has no formula here by its log-probabilities."""
        return cls(law.name if law.name in ("laplace", "gaussian") else partial(law.log_pmf, scale), scale)

    @property
    def reach(self) -> float:
        """Beyond this distance from where it is likeliest, the noise has a share below 1e-17 of the posterior."""
        return self.scale * (9.0 if self.law == "gaussian" else 40.0) + 1.0

    @property
    def spread(self) -> float:
        """About its standard deviation."""
        return self.scale * math.sqrt(2.0) if self.law == "laplace" else self.scale

    def log_pmf(self, values: Floats) -> Floats:
        """Return the log-probability of noise values, up to a constant."""
        if callable(self.law):
            return np.asarray(self.law(values), dtype=np.float64)
        if self.law == "laplace":
            return np.asarray(np.abs(values) / -self.scale)
        return np.asarray((values * values) / (-2.0 * self.scale * self.scale))

    @cached_property
    def log_whole(self) -> float:
        """The logarithm of the sum of what :meth:`log_pmf` gives for all whole numbers."""
        if self.law == "laplace":
            return -math.log(math.tanh(0.5 / self.scale))
        if self.law == "gaussian" and self.scale > 5.0:  # the sum is the integral, to all digits
            return math.log(self.scale * math.sqrt(2.0 * math.pi))
        numbers = np.arange(-math.ceil(self.reach), math.ceil(self.reach) + 1.0)
        return float(np.log(np.exp(self.log_pmf(numbers)).sum()))

    def below(self, numbers: Integers) -> Floats:
        """Return the probability of noise below whole numbers."""
        reach = math.ceil(self.reach)
        cumulated = np.cumsum(np.exp(self.log_pmf(np.arange(-reach, reach + 1.0)) - self.log_whole))
        return np.append(0.0, cumulated)[np.clip(numbers + reach, 0, 2 * reach + 1)]


@dataclass(frozen=True)
class Lattice:
    """Counts as multiples of a step, which is 1 where they are exact, with the prior of each."""

    records: int
    step: int
    prior: Prior
    guess: Floats  # shape (k,): of the counts, in the prior's order; it changes no draw, only precision
    spread: float  # about the standard deviation of a count given the release

    @classmethod
    def fine(cls, records: int, spread: float, prior: Prior, guess: Floats) -> Lattice:
        """Return the lattice on which a standard deviation has enough steps."""
        return cls(records, max(1, int(spread / _FINE)), prior, guess, spread)

    @cached_property
    def _rates(self) -> list[Floats]:
        return self.prior.log_rates(self.guess, self.spread)

    @property
    def cells(self) -> list[tuple[float, float]]:
        """The mass of each cell in the law of its split, and what its law is multiplied with, per record."""
        return [*zip(self.prior.layers[0].masses.tolist(), self._rates[0].tolist(), strict=True)]

    @property
    def total(self) -> int:
        """The number of all records."""
        return round(self.records / self.step)

    def numbers(self, low: float, high: float) -> Integers:
        """Return the lattice numbers of counts from ``low`` to ``high``, at least one of them."""
        lowest = min(self.total, max(0, math.floor(low / self.step)))
        return np.arange(lowest, max(lowest, min(self.total, math.ceil(high / self.step))) + 1)

    def counts(self, numbers: Integers) -> Floats:
        """Return the counts that lattice numbers stand for."""
        return np.asarray(numbers, dtype=np.float64) * self.step

    def sums(
        self,
        kinds: Sequence[Kind],
        factor: Callable[[Kind], tuple[Integers, Floats]],
        levels: Sequence[Level] | None = None,
        *,
        tilt: float | None = None,
    ) -> Sums:
        """Return the counts of all cells, given what a release tells of each kind; by default at the prior's levels."""
        # factor: from the kind of a cell to the numbers that its count may have, and the log-likelihood of each.
        factors = {kind: factor(kind) for kind in dict.fromkeys(kinds)}
        keys = [*zip(self.cells, kinds, strict=True)]
        pairs = [*dict.fromkeys(keys)]
        numbers, logs = zip(*(factors[kind] for _, kind in pairs), strict=True)
        priors = {cell: partial(self._log_prior, *cell) for cell, _ in pairs}
        lengths = np.array([*map(len, numbers)])
        weights = np.concatenate(logs)
        weights += by_function([priors[cell] for cell, _ in pairs], np.concatenate(numbers), lengths)
        parts = zip(pairs, numbers, np.split(weights, np.cumsum(lengths)[:-1]), strict=True)
        laws = {pair: IntegerLaw.from_logarithms(int(own[0]), part) for pair, own, part in parts}
        if levels is None:
            levels = self.levels
        return Sums([laws[key] for key in keys], self.total, levels, tilt=tilt)

    def _log_prior(self, alpha: float, rate: float, numbers: Integers) -> Floats:
        return log_prior(alpha, self.counts(numbers), self.step, rate)

    @cached_property
    def levels(self) -> list[Level]:
        """The sets of the prior's tree, with the weights of their sums; equal sets share a function."""
        levels = []
        for (layer, above), (rates, upper) in zip(pairwise(self.prior.layers), pairwise(self._rates), strict=True):
            starts = np.searchsorted(layer.parent, np.arange(len(above.masses)))
            parts = [tuple(part.tolist()) for part in np.split(layer.masses, starts[1:])]
            own = rates[starts].tolist()  # the parts of a set have one rate
            keys = [*zip(above.masses.tolist(), upper.tolist(), own, parts, strict=True)]
            weights = {key: self._weight(*key, layer.strength) for key in {*keys}}
            levels.append(Level(layer.parent, [weights[key] for key in keys]))
        return levels

    def _weight(self, mass: float, above: float, own: float, parts: tuple[float, ...], strength: float) -> LogWeights:
        """Return the weight of a set's sum as a part, less what its own parts have together: a split is a law."""
        small = np.arange(_FEW)

        @cache
        def together() -> Floats:
            total, *laws = (log_prior(part, self.counts(small), self.step, own) for part in parts)
            for law in laws:
                pairs = total[:, None] + np.where(small[:, None] <= small, law[small - small[:, None]], -math.inf)
                total = np.logaddexp.reduce(pairs, axis=0)
            return total

        def weight(numbers: Integers) -> Floats:
            counts = self.counts(numbers)
            split = log_prior(strength, counts, self.step, own)
            if self.step > 1 and len(numbers) and numbers.min() < _FEW:  # sums of what was rounded are not rounded sums
                split = np.where(numbers < _FEW, together()[np.minimum(numbers, _FEW - 1)], split)
            return log_prior(mass, counts, self.step, above) - split

        return weight

    def posterior(self, sums: Sums) -> CountPosterior:
        """Return the posterior of counts that are independent but for their sum and those of sets."""
        return CountPosterior(sums.log, lambda draws, rng: self.counts(sums.draw(draws, rng)), self.step)


class CountPosterior(NamedTuple):
    """The counts of cells given a release and one prior."""

    log: float  # the logarithm of the weight of all counts, up to a number that is the same for all priors
    draw: Callable[[int, np.random.Generator], Any]  # so many independent draws of the counts, a row each
    step: int = 1  # in which counts are followed
    approximation: str = ""  # what is not exact, in words
    proposed: bool = False  # drawn under a simpler likelihood, with the log of what that weighs too little
