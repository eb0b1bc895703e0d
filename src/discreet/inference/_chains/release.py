"""What each mechanism's release says about the confidential counts: from a certificate to a model of the chains."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from discreet._arrays import Floats, Indices, Integers
from discreet.errors import ParameterError
from discreet.inference._chains.model import Model, apportion
from discreet.inference._chains.noise import Noise
from discreet.inference._chains.noisy import Noisy, NoisyCounts
from discreet.inference._chains.records import LogRelease, ReleasedRecords
from discreet.inference._chains.splits import Splits
from discreet.inference._chains.tree import TreeRecords
from discreet.inference._chains.weighted import LogWeight, WeightedCounts
from discreet.mechanisms import (
    DirichletMultinomial,
    GaussianSmoothedHistogram,
    HierarchicalHistogram,
    LaplaceProjectionSampler,
    Mechanism,
    PerturbedHistogram,
    RevealOrObscure,
    SignedMeasure,
    SmoothedHistogram,
    StabilityHistogram,
)
from discreet.mechanisms._discrete_noise import standard_deviation
from discreet.mechanisms._projections import w1_projection
from discreet.mechanisms._tree import consistent, upward

__all__ = ["model_of_counts", "model_of_records", "noisy_model", "require_known", "tree_levels"]

_MOST_LEAVES = 16  # of a tree whose noisy counts are latent: every step makes all counts consistent again
_FLAT = (PerturbedHistogram, GaussianSmoothedHistogram, LaplaceProjectionSampler, SignedMeasure)
_WITH_POSTERIOR = (
    *_FLAT,
    HierarchicalHistogram,
    StabilityHistogram,
    SmoothedHistogram,
    RevealOrObscure,
    DirichletMultinomial,
)
_KNOWN = (
    "perturbed-histogram, gaussian-smoothed-histogram, laplace-projection-sampler, signed-measure without points, "
    "hierarchical-histogram, stability-histogram, smoothed-histogram, reveal-or-obscure and dirichlet-multinomial"
)


def require_known(mechanism: Mechanism) -> None:
    """Refuse mechanisms of which no posterior is known here, before anything is computed.

    Raises
    ------
    ParameterError
        Naming those of which one is.
    """
    if not (isinstance(mechanism, _WITH_POSTERIOR) and _own_cells(mechanism)):
        raise _unknown(mechanism)


def _unknown(mechanism: Mechanism) -> ParameterError:
    return ParameterError(f"there is no mechanism-aware posterior for {mechanism.name}, only for {_KNOWN}")


def model_of_records(mechanism: Mechanism, alpha: Floats, records: int, drawn: Integers) -> Model:
    """Return the model of released records.

    Parameters
    ----------
    mechanism : Mechanism
        As its certificate states it.
    alpha : ndarray of float64, shape (k,)
        Prior masses of the cells, of the leaves for a hierarchical histogram.
    records : int
        Number of confidential records.
    drawn : ndarray of int64, shape (k,)
        Released records of each; or rows, one a chain, for several releases of one size.

    Raises
    ------
    ParameterError
        When the mechanism's law is not known here.
    """
    if isinstance(mechanism, (SmoothedHistogram, RevealOrObscure)):
        return _urn_like(alpha, records, drawn, _mixture_weight(mechanism, records, drawn))
    if isinstance(mechanism, DirichletMultinomial):
        return _urn_like(alpha, records, drawn, _urn_weight(mechanism, drawn))
    if isinstance(mechanism, _FLAT):
        if isinstance(mechanism, SignedMeasure) and not mechanism.on_a_line:
            raise ParameterError(
                f"the posterior given records of {mechanism.name} takes a projection for each step of its chains: too "
                "slow beyond one ordered column; release its counts instead, or use hierarchical-histogram"
            )
        log = _log_drawn(_probabilities(mechanism), drawn, mechanism.sampling)
        noise = Noise(mechanism.noise, mechanism.scale)
        return ReleasedRecords(alpha, records, [np.arange(len(alpha))], noise, drawn, log)
    if isinstance(mechanism, HierarchicalHistogram):
        return _tree_records(mechanism, alpha, records, drawn)
    if isinstance(mechanism, StabilityHistogram):
        log = _log_drawn(_kept_shares(mechanism), drawn, mechanism.sampling)
        noise, least = Noise("laplace", mechanism.scale), mechanism.threshold
        cells = [np.arange(len(alpha))]
        return ReleasedRecords(alpha, records, cells, noise, drawn, log, reads_counts=True, least=least)
    raise _unknown(mechanism)


def model_of_counts(mechanism: Mechanism, alpha: Floats, records: int, counts: Floats) -> Model:
    """Return the model of released counts; parameters as for :func:`model_of_records`, ``nan`` where none was released.

    Raises
    ------
    ParameterError
        When what was released does not determine the posterior.
    """
    if isinstance(mechanism, StabilityHistogram):
        return _thresholded(mechanism, alpha, records, counts)
    if np.isnan(counts).any():
        raise ParameterError("the table of counts lacks cells of the domain: check that it is complete")
    if isinstance(mechanism, _FLAT):
        return noisy_model(alpha, records, counts, Noise(mechanism.noise, mechanism.scale))
    if isinstance(mechanism, HierarchicalHistogram):
        levels = tree_levels(mechanism)
        rows = np.atleast_2d(counts)
        sums = [np.stack([np.bincount(level, weights=row) for row in rows]) for level in levels]
        spread = standard_deviation(mechanism.noise, mechanism.scale)
        model = NoisyCounts(alpha, records, levels, Noise("gaussian", spread), sums)
        if mechanism.noise != "gaussian":  # what the best linear estimates keep of it is not known in closed form
            model.approximation = "laplace noise on a tree is taken as normal of the same variance"
        return model
    raise ParameterError(f"there is no posterior for the counts of {mechanism.name}, only for {_KNOWN}")


def _own_cells(mechanism: Mechanism) -> bool:
    """Return whether the noisy counts are of the domain's cells, and not of those around public points."""
    return getattr(mechanism, "points", None) is None


def noisy_model(alpha: Floats, records: int, counts: Floats, noise: Noise) -> Model:
    """Return the model of one noisy count a cell."""
    return NoisyCounts(alpha, records, [np.arange(len(alpha))], noise, [np.asarray(counts, dtype=np.float64)])


def tree_levels(mechanism: HierarchicalHistogram) -> list[Indices]:
    """Return, for each level that has noise, the node that each leaf lies in; nodes as in the noisy counts."""
    tree, levels = mechanism._tree, []
    for level in mechanism._measured:
        node = np.arange(tree.nodes(level)).reshape(tree.shape(level)).astype(np.float64)
        for below in range(level + 1, tree.depth + 1):
            node = tree.down(below, node)
        levels.append(node.ravel().astype(np.intp))
    return levels


# -- records of the counts, without noise ------------------------------------------------------------------------


def _urn_like(alpha: Floats, records: int, drawn: Integers, log_weight: LogWeight) -> WeightedCounts:
    def guess(chains: int, rng: np.random.Generator) -> Integers:
        gammas = rng.standard_gamma(np.broadcast_to(alpha + 0.25 * drawn, (chains, len(alpha))))
        return apportion(gammas, records)

    return WeightedCounts(alpha, records, log_weight, guess)


def _mixture_weight(mechanism: SmoothedHistogram | RevealOrObscure, records: int, drawn: Integers) -> LogWeight:
    mixing = mechanism.share_not_from_data(records)
    if mixing >= 1.0:  # only uniform cells were released: they say nothing
        return lambda chain, *_: np.zeros(len(chain))
    rows = np.atleast_2d(drawn)
    uniform = records * mixing / (rows.shape[1] * (1.0 - mixing))
    return lambda chain, cells, c: np.asarray(rows[chain % len(rows), cells] * np.log(c + uniform))


def _urn_weight(mechanism: DirichletMultinomial, drawn: Integers) -> LogWeight:
    from scipy.special import gammaln

    prior, rows = mechanism.prior * mechanism._cells * _base(mechanism), np.atleast_2d(drawn)

    def weight(chain: Indices, cells: Indices, c: Integers) -> Floats:
        mass = prior[cells] + c
        return np.asarray(gammaln(mass + rows[chain % len(rows), cells]) - gammaln(mass))

    return weight


# -- records of noisy counts ------------------------------------------------------------------------------------


Shares = Callable[[Integers, Noisy], Floats]


def _log_drawn(shares: Shares, drawn: Integers, sampling: str, order: Indices | None = None) -> LogRelease:
    """Return the log-likelihood of records drawn from probabilities, independently or systematically.

    Systematic draws with offset ``U`` give the sums ``N_j`` of the first cells' counts exactly where
    ``m F_j - N_j <= U < m F_j - N_j + 1`` for all ``j``: the likelihood is the length of that interval within [0, 1].
    """
    rows = np.atleast_2d(drawn)
    size = int(rows[0].sum())
    order = np.arange(rows.shape[1]) if order is None else order
    before = np.cumsum(rows[:, order], axis=1)[:, :-1]

    def of(table: Integers, chains: int) -> Integers:
        return np.tile(table, (chains // len(table), 1))

    def independent(counts: Integers, noisy: Noisy) -> Floats:
        p, z = shares(counts, noisy), of(rows, len(counts))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.where(z > 0, z * np.log(p), 0.0).sum(axis=1))

    def systematic(counts: Integers, noisy: Noisy) -> Floats:
        ahead = size * np.cumsum(shares(counts, noisy)[:, order], axis=1)[:, :-1]
        ahead -= of(before, len(counts))
        first = np.maximum(ahead.max(axis=1, initial=-math.inf), 0.0)
        last = np.minimum(ahead.min(axis=1, initial=math.inf) + 1.0, 1.0)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.maximum(last - first, 0.0)))

    return independent if sampling == "iid" else systematic


def _probabilities(
    mechanism: PerturbedHistogram | GaussianSmoothedHistogram | LaplaceProjectionSampler | SignedMeasure,
) -> Shares:
    """Return the mechanism's own post-processing, for rows of noisy counts."""
    if isinstance(mechanism, PerturbedHistogram) and mechanism.projection == "clip":
        base = _base(mechanism)

        def clipped(_: Integers, noisy: Noisy) -> Floats:
            return _normalised(np.maximum(noisy[0], 0).astype(np.float64), base)

        return clipped

    if isinstance(mechanism, SignedMeasure) or (
        isinstance(mechanism, PerturbedHistogram) and mechanism.projection == "w1"
    ):
        total, positions = mechanism.records, mechanism.positions()
        return lambda _, noisy: w1_projection(noisy[0], total, positions)

    return lambda _, noisy: mechanism.probabilities(noisy[0])


def _kept_shares(mechanism: StabilityHistogram) -> Shares:
    base, least = _base(mechanism), mechanism.threshold

    def kept(counts: Integers, noisy: Noisy) -> Floats:
        return _normalised(np.where((counts > 0) & (noisy[0] >= least), noisy[0], 0).astype(np.float64), base)

    return kept


def _base(mechanism: Mechanism) -> Floats:
    """Return the base measure, which records are drawn from where no noisy count remains."""
    domain = mechanism.domain
    return np.asarray(np.exp(domain.log_base(domain.unflat(np.arange(mechanism._cells)))))


def _normalised(weights: Floats, base: Floats) -> Floats:
    total = weights.sum(axis=1, keepdims=True)
    return np.where(total > 0, weights / np.where(total > 0, total, 1.0), base)


def _tree_records(mechanism: HierarchicalHistogram, alpha: Floats, records: int, drawn: Integers) -> Model:
    """Return the exact model of few leaves, and beyond the one that takes the errors as normal."""
    tree = mechanism._tree
    if len(alpha) > _MOST_LEAVES:
        noisy = {level: np.zeros(tree.shape(level), dtype=np.int64) for level in mechanism._measured}
        splits = Splits.of(tree, upward(tree, noisy)[1], drawn)
        spread, stratified = standard_deviation(mechanism.noise, mechanism.scale), mechanism.sampling == "stratified"
        model = TreeRecords(alpha, records, splits, spread=spread, stratified=stratified)
        model.approximation = f"{mechanism.noise} noise on a tree is taken as normal of the same variance"
        return model
    levels, order = tree_levels(mechanism), np.asarray(tree.in_order(), dtype=np.intp)

    def shares(_: Integers, noisy: Noisy) -> Floats:
        return np.stack([mechanism.probabilities(row) for row in np.concatenate(noisy, axis=1)])

    def estimate(noisy: Noisy) -> Floats:
        rows = np.concatenate(noisy, axis=1)
        return np.stack([consistent(*mechanism._upward(y), total=records, positive=False).ravel() for y in rows])

    log = _log_drawn(shares, drawn, mechanism.sampling, order)
    noise = Noise(mechanism.noise, mechanism.scale)
    return ReleasedRecords(alpha, records, levels, noise, drawn, log, estimate=estimate)


# -- counts above a threshold -----------------------------------------------------------------------------------


def _thresholded(mechanism: StabilityHistogram, alpha: Floats, records: int, counts: Floats) -> WeightedCounts:
    """Return the model of the counts that reached the threshold; the others were held and stayed below, or not held."""
    noise, least = Noise("laplace", mechanism.scale), mechanism.threshold
    kept, noisy = np.atleast_2d(~np.isnan(counts)), np.atleast_2d(np.nan_to_num(counts))
    ratio = math.exp(-1.0 / mechanism.scale)

    def weight(chain: Indices, cells: Indices, c: Integers) -> Floats:
        below = least - c
        tail = np.exp(-np.abs(below) / mechanism.scale)
        short = np.where(below > 0, np.log1p(-tail / (1.0 + ratio)), (below - 1) / mechanism.scale - math.log1p(ratio))
        row = chain % len(kept)
        seen = np.where(c > 0, noise.log_pmf(noisy[row, cells] - c), -np.inf)
        return np.where(kept[row, cells], seen, np.where(c > 0, short, 0.0))

    def guess(chains: int, rng: np.random.Generator) -> Integers:
        near = np.maximum(noisy - noise.draw((chains, len(alpha)), rng) - 1.0, 0.0) * kept
        total = kept.sum(axis=1, keepdims=True)
        missing = np.maximum(records - near.sum(axis=1, keepdims=True) - total, 0.0)
        weights = near + np.where(total == len(alpha), 1.0, ~kept) * missing / len(alpha)
        return np.asarray(kept + apportion(weights, records - total))

    return WeightedCounts(alpha, records, weight, guess)
