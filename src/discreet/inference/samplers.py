"""The confidential counts of cells given what was released: their posterior, in draws that are independent.

Their laws are independent but for the sum ``n``, for which :class:`Sums` draws. See
docs/theory/mechanism-aware-posterior.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np

from discreet._core.errors import ParameterError
from discreet._core.numeric import Booleans, Floats, Indices, Integers
from discreet.inference.drawn_records import NoisyUrn, held_cells, product
from discreet.inference.positive import Moved, Positive
from discreet.inference.prior import CountPosterior, Lattice, Noise, Prior
from discreet.inference.trees import Splits, TreeCounts, level_sums
from discreet.mechanisms import likelihood as likelihoods
from discreet.mechanisms import nearest_probabilities

_Part = TypeVar("_Part")
Progress = Callable[[int, int], None] | None
_MOST_REFUSED = 2000  # proposals for a draw
_FEW = 16
_IMPOSSIBLE = -1e49  # in logarithms
_TAKEN_AS_NORMAL = "{} noise on a tree is taken as normal of the same variance"


@dataclass(frozen=True)
class Observation:
    """One number of each cell, or leaf, shape (k,), that was released of a table of ``n`` records."""

    n: int
    values: Any
    splits: Splits | None = field(default=None, kw_only=True)  # of a tree, where its nodes are not all divided


@dataclass(frozen=True)
class ReleasedCounts(Observation):
    """Noisy counts, nan where none was released."""


@dataclass(frozen=True)
class ReleasedRecords(Observation):
    """Numbers of released records."""

    kept: int | None = None  # the sum of the noisy counts kept, up to ``n``, where the certificate tells it


@dataclass(frozen=True)
class CountDraws:
    """Draws of the confidential counts, under several priors of equal probability."""

    counts: Floats  # shape (draws, k): in records; each row has the sum ``n`` to within half a step
    step: int  # in which the counts are followed: 1 where the posterior is exact
    approximation: str
    numbers: tuple[int, ...]  # how many draws, from the first on, were made under each prior

    @classmethod
    def draw(cls, by_prior: Iterable[CountPosterior], draws: int, rng: np.random.Generator) -> CountDraws:
        """Return draws under each prior."""
        posteriors = [*by_prior]
        if posteriors[0].proposed:
            return cls._accepted(posteriors, draws, rng)
        numbers = tuple(rng.multinomial(draws, _prior_probabilities(posteriors)).tolist())
        counts = [posterior.draw(number, rng) for posterior, number in zip(posteriors, numbers, strict=True) if number]
        return cls(np.concatenate(counts), posteriors[0].step, posteriors[0].approximation, numbers)

    @classmethod
    def _accepted(cls, proposals: Sequence[CountPosterior], draws: int, rng: np.random.Generator) -> CountDraws:
        """Return draws that are proposed, and kept in proportion to what they weigh too little, beside the largest."""
        probabilities = _prior_probabilities(proposals)
        batches: list[tuple[int, Floats, Floats]] = []  # prior, counts, and marks: kept where above the largest weight
        largest, number, proposed, accepted = -np.inf, draws + _FEW, 0, 0
        while accepted < draws:
            _require_possible(proposed <= _MOST_REFUSED * draws)
            for prior, count in enumerate(rng.multinomial(number, probabilities).tolist()):
                if count:
                    counts, weights = proposals[prior].draw(count, rng)
                    largest = max(largest, float(weights.max()))
                    marks = weights + rng.standard_exponential(count)
                    batches.append((prior, counts[marks > largest], marks[marks > largest]))
            proposed += number
            accepted = sum(int(np.count_nonzero(marks > largest)) for *_, marks in batches)
            number = min(int((draws - accepted) * (proposed / max(1, accepted)) * 1.1) + _FEW, 16 * draws + _FEW)
        batches.sort(key=lambda batch: batch[0])
        counts = np.concatenate([counts[marks > largest] for _, counts, marks in batches])
        priors = np.concatenate([np.full(np.count_nonzero(marks > largest), prior) for prior, _, marks in batches])
        rows = np.sort(rng.permutation(accepted)[:draws])
        numbers = tuple(np.bincount(priors[rows], minlength=len(proposals)).tolist())
        return cls(counts[rows], proposals[0].step, proposals[0].approximation, numbers)


def _prior_probabilities(posteriors: Sequence[CountPosterior]) -> Floats:
    """Return the probabilities of priors: the better one foresees the release, the larger is its own."""
    logs = np.array([posterior.log for posterior in posteriors])
    _require_possible(logs.max() > _IMPOSSIBLE)
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())


def _require_possible(possible: bool) -> None:
    """Raise ParameterError where no counts explain a release, as far as can be computed."""
    if not possible:
        raise ParameterError("the posterior cannot be computed for this release. Write a strength, for another prior")


# What a likelihood says: from priors of equal probability, and a release, to their posteriors, one after another.
Sampler = Callable[[Any, Sequence[Prior], Any, np.random.Generator], Iterable[CountPosterior]]


def draw_counts(
    likelihood: likelihoods.Likelihood,
    priors: Sequence[Prior],
    release: Observation,
    draws: int,
    rng: np.random.Generator,
    progress: Progress = None,
) -> CountDraws:
    """Draw the confidential counts of cells, or leaves, given a release, under priors of equal probability."""
    posteriors = SAMPLERS[type(likelihood)](likelihood, priors, release, rng)
    return CountDraws.draw(watched(posteriors, progress, len(priors) + 1), draws, rng)


def watched(parts: Iterable[_Part], progress: Progress, steps: int) -> Iterator[_Part]:
    """Yield parts, and tell after each how many of the steps are done."""
    for done, part in enumerate(parts, 1):
        yield part
        if progress is not None:
            progress(done, steps)


def _given_law(
    likelihood: likelihoods.ExactLaw, priors: Sequence[Prior], release: ReleasedRecords, _rng: np.random.Generator
) -> Iterable[CountPosterior]:
    tables = likelihood.tables(release.n)
    likelihoods = likelihood.log_probs(release.values, tables)

    def listed(prior: Prior) -> CountPosterior:
        logs = likelihoods + prior.log_weights(tables)
        log = float(np.logaddexp.reduce(logs))
        return CountPosterior(
            log, lambda draws, rng: tables[rng.choice(len(tables), size=draws, p=np.exp(logs - log))].astype(np.float64)
        )

    return map(listed, priors)


def _given_factors(
    likelihood: likelihoods.DrawnFromCounts, priors: Sequence[Prior], release: ReleasedRecords, rng: np.random.Generator
) -> Iterable[CountPosterior]:
    if likelihood.log_held is not None:
        return (held_cells(likelihood, prior, release.n, release.values, rng) for prior in priors)
    parts = (product(likelihood, prior, release.n, release.values) for prior in priors)
    return (lattice.posterior(sums) for lattice, sums in parts)


def _given_noisy(
    likelihood: likelihoods.NoisyCellCounts, priors: Sequence[Prior], release: Observation, _rng: np.random.Generator
) -> Iterable[CountPosterior]:
    if isinstance(release, ReleasedCounts):
        _require_complete(release.values)
        return noisy(priors, release.n, release.values, Noise.from_law(likelihood.law, likelihood.scale))
    if likelihood.surplus == "moved":
        return Moved.posteriors(priors, likelihood, release.n, release.values)
    return Positive.posteriors(priors, likelihood, release.n, release.values)


def _given_thresholded(
    likelihood: likelihoods.ThresholdedCounts, priors: Sequence[Prior], release: Observation, rng: np.random.Generator
) -> Iterable[CountPosterior]:
    if isinstance(release, ReleasedRecords):
        return _given_noisy(likelihood, priors, release, rng)
    records, counts, noise = release.n, release.values, Noise.from_law(likelihood.law, likelihood.scale)
    withheld, minimum = np.isnan(counts), likelihood.threshold
    remainder = max(0.0, records - float(counts[~withheld].sum())) / max(1, int(withheld.sum()))

    def above(lattice: Lattice, y: float | None) -> tuple[Integers, Floats]:
        """Return the counts of a cell whose noisy one reached the threshold, or stayed below, and log-likelihoods."""
        if y is not None:
            numbers = lattice.numbers(max(1.0, y - noise.reach), y + noise.reach)
            numbers = numbers[(numbers > 0) | (numbers[-1] == 0)]
            return numbers, noise.log_pmf(y - lattice.counts(numbers)) - noise.log_whole
        numbers = lattice.numbers(0.0, minimum + noise.reach)
        with np.errstate(divide="ignore"):
            return numbers, np.where(numbers > 0, np.log(noise.below(minimum - lattice.step * numbers)), 0.0)

    kinds = [None if math.isnan(y) else y for y in counts.tolist()]
    guess = np.where(withheld, remainder, counts)
    lattices = [Lattice.fine(records, noise.spread, prior, guess) for prior in priors]
    return (lattice.posterior(lattice.sums(kinds, partial(above, lattice))) for lattice in lattices)


def _given_thresholded_urn(
    likelihood: likelihoods.ThresholdedUrn, priors: Sequence[Prior], release: Observation, rng: np.random.Generator
) -> Iterable[CountPosterior]:
    if not isinstance(release, ReleasedRecords):
        return _given_thresholded(likelihood, priors, release, rng)
    return (NoisyUrn(likelihood, prior, release, rng).posterior() for prior in priors)


def _given_tree(
    likelihood: likelihoods.NoisyTree, priors: Sequence[Prior], release: Observation, _rng: np.random.Generator
) -> Iterable[CountPosterior]:
    splits = release.splits or splits_given(likelihood, release)
    text = _TAKEN_AS_NORMAL.format(likelihood.law.name)
    if splits.sampling:
        text += ", a split at a time"
    elif likelihood.law.name == "gaussian":  # of others, what the best linear estimates keep has no closed form
        text = ""

    def counts_given(prior: Prior) -> CountPosterior:
        alpha, strength = (prior.layers[0].masses, None) if prior.base is None else (prior.base, prior.strength)
        merged = np.asarray(np.bincount(splits.leaf, weights=alpha), dtype=np.float64)
        atoms = None if prior.atoms is None else np.bincount(splits.leaf, weights=prior.atoms) > 0
        below = TreeCounts(merged, release.n, splits, spread=likelihood.noise, strength=strength, atoms=atoms)
        return CountPosterior(
            below.log, lambda draws, rng: divided(below.draw(draws, rng), splits.leaf, alpha, rng), below.step, text
        )

    return map(counts_given, priors)


def splits_given(
    likelihood: likelihoods.NoisyTree, release: Observation, opened: list[Booleans] | None = None
) -> Splits:
    """Return the part of the tree that released records reach, or all of it, down to the nodes that are opened."""
    tree, sampling, sums = likelihood.consistent.tree, None, level_sums(likelihood.consistent.tree, release.values)
    nodes = [np.ones(len(level), dtype=bool) for level in sums]
    if isinstance(release, ReleasedRecords):
        sampling, nodes = likelihood.sampling, [level > 0 for level in sums]
    else:
        _require_complete(release.values)
    return Splits.from_tree(tree, likelihood.consistent.variances, release.values, sampling, opened or nodes)


SAMPLERS: Mapping[type[likelihoods.Likelihood], Sampler] = {
    likelihoods.DrawnFromCounts: _given_factors,
    likelihoods.ExactLaw: _given_law,
    likelihoods.NoisyCellCounts: _given_noisy,
    likelihoods.NoisyTree: _given_tree,
    likelihoods.ThresholdedCounts: _given_thresholded,
    likelihoods.ThresholdedUrn: _given_thresholded_urn,
}


def _require_complete(counts: Floats) -> None:
    if np.isnan(counts).any():
        raise ParameterError("the table of counts lacks cells of the domain. Check that it is complete")


def noisy(priors: Sequence[Prior], records: int, counts: Floats, noise: Noise) -> Iterator[CountPosterior]:
    """Return the posteriors of the counts given one noisy count per cell."""
    guess = records * nearest_probabilities(counts / records)
    lattices = [Lattice.fine(records, noise.spread, prior, guess) for prior in priors]
    return (lattice.posterior(lattice.sums(counts.tolist(), partial(near, lattice, noise))) for lattice in lattices)


def near(lattice: Lattice, noise: Noise, y: float) -> tuple[Integers, Floats]:
    """Return the counts that a noisy one may come from, and their log-likelihood."""
    numbers = lattice.numbers(y - noise.reach, y + noise.reach)
    return numbers, noise.log_pmf(y - lattice.counts(numbers))


def divided(sums: Floats, sets: Indices, alpha: Floats, rng: np.random.Generator) -> Floats:
    """Return what cells have of the sums, (draws, sets), of sets of which nothing else was seen: by the prior."""
    if len(sums[0]) == len(alpha):
        return sums[:, sets]
    gammas = np.maximum(rng.standard_gamma(np.broadcast_to(alpha, (len(sums), len(alpha)))), 1e-300)
    order = np.argsort(sets, kind="stable")
    starts = np.searchsorted(sets[order], np.arange(sums.shape[1]))
    totals = np.add.reduceat(gammas[:, order], starts, axis=1)
    return np.asarray(sums[:, sets] * gammas / totals[:, sets])
