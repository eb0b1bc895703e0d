"""From what a release's evidence says about the confidential counts to a model of the chains."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from discreet._core.arrays import Floats, Indices, Integers
from discreet._core.errors import ParameterError
from discreet.inference._chains.model import Model, apportion
from discreet.inference._chains.noise import Noise
from discreet.inference._chains.noisy import Noisy, NoisyCounts
from discreet.inference._chains.records import LogRelease, ReleasedRecords
from discreet.inference._chains.splits import Splits
from discreet.inference._chains.tree import TreeRecords
from discreet.inference._chains.weighted import WeightedCounts
from discreet.mechanisms import Mechanism
from discreet.mechanisms._evidence import (
    ContinuedUrn,
    DrawnFromCounts,
    NoisyCellCounts,
    NoisyTree,
    ThresholdedCounts,
)
from discreet.mechanisms._tree import Tree, consistent

__all__ = ["known_evidence", "model_of_counts", "model_of_records", "noisy_model", "tree_levels"]

CellEvidence = DrawnFromCounts | NoisyCellCounts

_MOST_LEAVES = 16  # of a tree whose noisy counts are latent: every step makes all counts consistent again


def known_evidence(mechanism: Mechanism) -> CellEvidence:
    """Return what a release by a mechanism says about the counts of the domain's cells.

    Raises ParameterError for mechanisms of which no posterior is known here, before anything is computed.
    """
    evidence = mechanism.evidence()
    if evidence is None or isinstance(evidence, ContinuedUrn) or not getattr(evidence, "own_cells", True):
        points = " around public points" if evidence is not None else ""
        raise ParameterError(f"there is no mechanism-aware posterior for {mechanism.name}{points}")
    return evidence


def model_of_records(evidence: CellEvidence, alpha: Floats, records: int, drawn: Integers) -> Model:
    """Return the model of released records.

    Raises ParameterError when the chains would take too long.

    ``evidence``: of the mechanism, as its certificate states it.
    ``alpha``, shape (k,): Prior masses of the cells, of the leaves for a tree.
    ``records``: number of confidential records.
    ``drawn``, shape (k,): released records of each; or rows, one per chain, for several releases of one size.
    """
    if isinstance(evidence, DrawnFromCounts):
        return _drawn(evidence, alpha, records, drawn)
    if isinstance(evidence, NoisyTree):
        return _tree_records(evidence, alpha, records, drawn)
    if not evidence.at_once:
        raise ParameterError(
            "the posterior given these records computes a projection for each step of its chains, which is too slow "
            "beyond one ordered column. Release counts instead, or use hierarchical-histogram"
        )
    noise, levels = _noise(evidence), [np.arange(len(alpha))]
    if not isinstance(evidence, ThresholdedCounts):
        log = _log_drawn(lambda _, noisy: evidence.probabilities(noisy[0]), drawn, evidence.sampling)
        return ReleasedRecords(alpha, records, levels, noise, drawn, log)
    least = evidence.threshold

    def kept(counts: Integers, noisy: Noisy) -> Floats:
        return evidence.probabilities(np.where((counts > 0) & (noisy[0] >= least), noisy[0], 0))

    log = _log_drawn(kept, drawn, evidence.sampling)
    return ReleasedRecords(alpha, records, levels, noise, drawn, log, reads_counts=True, least=least)


def model_of_counts(evidence: CellEvidence, alpha: Floats, records: int, counts: Floats) -> Model:
    """Return the model of released counts; parameters as for :func:`model_of_records`, ``nan`` where none was released.

    Raises ParameterError when what was released does not determine the posterior.
    """
    assert isinstance(evidence, NoisyCellCounts)  # no other mechanism releases counts
    if isinstance(evidence, ThresholdedCounts):
        return _thresholded(evidence, alpha, records, counts)
    if np.isnan(counts).any():
        raise ParameterError("the table of counts lacks cells of the domain. Check that it is complete")
    if not isinstance(evidence, NoisyTree):
        return noisy_model(alpha, records, counts, _noise(evidence))
    levels = tree_levels(evidence.consistent.tree, evidence.consistent.measured)
    rows = np.atleast_2d(counts)
    sums = [np.stack([np.bincount(level, weights=row) for row in rows]) for level in levels]
    spread = evidence.law.standard_deviation(evidence.scale)
    model = NoisyCounts(alpha, records, levels, Noise("gaussian", spread), sums)
    if evidence.law.name != "gaussian":  # what the best linear estimates keep of it is not known in closed form
        model.approximation = f"{evidence.law.name} noise on a tree is taken as normal of the same variance"
    return model


def _noise(evidence: NoisyCellCounts) -> Noise:
    return Noise.of(evidence.law, evidence.scale)


def noisy_model(alpha: Floats, records: int, counts: Floats, noise: Noise) -> Model:
    """Return the model of one noisy count per cell."""
    return NoisyCounts(alpha, records, [np.arange(len(alpha))], noise, [np.asarray(counts, dtype=np.float64)])


def tree_levels(tree: Tree, measured: tuple[int, ...]) -> list[Indices]:
    """Return, for each level that has noise, the node that each leaf lies in; nodes as in the noisy counts."""
    levels = []
    for level in measured:
        node = np.arange(tree.nodes(level)).reshape(tree.shape(level)).astype(np.float64)
        for below in range(level + 1, tree.depth + 1):
            node = tree.down(below, node)
        levels.append(node.ravel().astype(np.intp))
    return levels


# -- records of the counts, without noise ------------------------------------------------------------------------


def _drawn(evidence: DrawnFromCounts, alpha: Floats, records: int, drawn: Integers) -> WeightedCounts:
    rows = np.atleast_2d(drawn)

    def log_weight(chain: Indices, cells: Indices, c: Integers) -> Floats:
        return evidence.log_weight(records, cells, c, rows[chain % len(rows), cells])

    def guess(chains: int, rng: np.random.Generator) -> Integers:
        gammas = rng.standard_gamma(np.broadcast_to(alpha + 0.25 * drawn, (chains, len(alpha))))
        return apportion(gammas, records)

    return WeightedCounts(alpha, records, log_weight, guess)


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


def _tree_records(evidence: NoisyTree, alpha: Floats, records: int, drawn: Integers) -> Model:
    """Return the exact model of few leaves, and beyond the one that takes the errors as normal."""
    reading = evidence.consistent
    tree, measured = reading.tree, reading.measured
    if len(alpha) > _MOST_LEAVES:
        nothing = np.zeros(sum(tree.nodes(level) for level in measured), dtype=np.int64)
        splits = Splits.of(tree, reading.upward(nothing)[1], drawn)
        spread, stratified = evidence.law.standard_deviation(evidence.scale), evidence.sampling == "stratified"
        model = TreeRecords(alpha, records, splits, spread=spread, stratified=stratified)
        model.approximation = f"{evidence.law.name} noise on a tree is taken as normal of the same variance"
        return model
    levels, order = tree_levels(tree, measured), np.asarray(tree.in_order(), dtype=np.intp)

    def shares(_: Integers, noisy: Noisy) -> Floats:
        return np.stack([evidence.probabilities(row) for row in np.concatenate(noisy, axis=1)])

    def estimate(noisy: Noisy) -> Floats:
        rows = np.concatenate(noisy, axis=1)
        return np.stack([consistent(tree, *reading.upward(y), total=records, positive=False).ravel() for y in rows])

    log = _log_drawn(shares, drawn, evidence.sampling, order)
    return ReleasedRecords(alpha, records, levels, _noise(evidence), drawn, log, estimate=estimate)


# -- counts above a threshold -----------------------------------------------------------------------------------


def _thresholded(evidence: ThresholdedCounts, alpha: Floats, records: int, counts: Floats) -> WeightedCounts:
    """Return the model of the counts that reached the threshold; the others were held and stayed below, or not held."""
    noise, least = _noise(evidence), evidence.threshold
    kept, noisy = np.atleast_2d(~np.isnan(counts)), np.atleast_2d(np.nan_to_num(counts))
    ratio = math.exp(-1.0 / evidence.scale)

    def weight(chain: Indices, cells: Indices, c: Integers) -> Floats:
        below = least - c
        tail = np.exp(-np.abs(below) / evidence.scale)
        short = np.where(below > 0, np.log1p(-tail / (1.0 + ratio)), (below - 1) / evidence.scale - math.log1p(ratio))
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
