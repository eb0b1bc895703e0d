"""Hierarchical histogram: noisy counts on the levels of a binary tree over the cells, made consistent.

Theory, proofs and the choice of the levels: docs/theory/hierarchical-histogram.md (theorem T9).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Literal, cast

import numpy as np

from discreet._checks import positive_size
from discreet.domain import Counts, Domain, Records
from discreet.domain._commonness import Commonness
from discreet.errors import Infeasible, ParameterError
from discreet.mechanisms._base import NEIGHBOURS, CellCounts, Estimates, Floats, Output, refuse_unknown
from discreet.mechanisms._discrete_noise import NoiseKind, approximate_noise, standard_deviation
from discreet.mechanisms._draws import Sampling, draw_cells
from discreet.mechanisms._noisy_counts import NoisyCounts, solve_scale
from discreet.mechanisms._tree import Tree, consistent, error_variances, upward
from discreet.mechanisms._tree_levels import chosen_levels, predicted_error
from discreet.privacy import Budget, Guarantee, Relation

__all__ = ["HierarchicalHistogram"]

_MOST_COLUMNS = 60  # of an array, up to 64
_MOST_LISTED = 1 << 22


@dataclass(frozen=True, kw_only=True)
class HierarchicalHistogram(NoisyCounts):
    r"""Add independent discrete noise to the counts of the nodes of a tree, and draw records from what fits them best.

    Parameters
    ----------
    domain : Domain
        Public and finite, of any size. Each level of the tree halves the blocks of one column, the one whose blocks are
        longest (metric weight times share of its codes), until every block is a cell or there are 2^22 leaves.
    records : int
        The public number of records ``n``: the root's count, which is exact.
    scale : float
        Of the noise of every node, in records: ``P(z)`` is proportional to ``e^(-|z|/scale)`` (laplace) or
        ``e^(-z^2/(2 scale^2))`` (gaussian).
    noise : {"laplace", "gaussian"}
        Which.
    levels : sequence of int, optional
        The levels that get noise and are released, below the root and increasing; the last one's nodes are the leaves,
        and within a leaf records are uniform over its cells. All levels by default; an integer stands for all down to
        it. ``calibrated`` chooses them from the domain, ``n`` and the budget.
    sampling : {"iid", "stratified"}
        Independent records, or systematic ones along the tree, which keep every node at its share to within one record.
        Post-processing: it costs no privacy.

    Raises
    ------
    ParameterError
        When the domain is not finite, or a parameter is out of range.

    Notes
    -----
    A replaced record changes the counts of at most two nodes a level. Guarantee (theorem T9, exact for groups too): the
    pair in which, on each of the ``L`` levels, one node gains ``g`` records and another loses them, with the discrete
    noise's own law; pure ``epsilon = 2 g L/scale`` (laplace). An upper bound for Laplace noise and groups above 64.
    Releases draw noise with OpenDP's exact samplers, so floating point costs nothing. The leaves' counts are the
    best linear unbiased estimate given all noisy counts and ``n``, then kept non-negative from the root downwards.

    References
    ----------
    He, Vershynin and Zhu (2023), Algorithm 3; Hay, Rastogi, Miklau and Suciu (2010); PE25, Appendix I.

    Examples
    --------
    >>> from discreet.domain import Domain, Integer
    >>> cells = Domain(columns={"cell": Integer(lower=0, upper=999)})
    >>> mechanism = HierarchicalHistogram(domain=cells, records=2000, scale=20.0, noise="laplace")
    >>> mechanism.levels
    (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
    >>> round(mechanism.guarantee(n=2000).epsilon(0.0), 6)
    1.0
    """

    name: ClassVar[str] = "hierarchical-histogram"
    cells_cost: ClassVar[bool] = True
    theorem: ClassVar[str] = "T9"
    share_is: ClassVar[Literal["bound", "prediction"]] = "prediction"
    share_is_of: ClassVar[str] = "would have to be moved across the whole domain to displace records as noise does"

    domain: Domain
    records: int
    scale: float
    noise: NoiseKind = "gaussian"
    levels: Sequence[int] | int | str | None = None
    sampling: Sampling = "iid"

    def __post_init__(self) -> None:
        _ = self._finite_cells()
        _check_columns(self.domain)
        object.__setattr__(self, "levels", _levels(self.levels, deepest=Tree.of(self.domain).depth))
        self._check()

    @property
    def _measured(self) -> tuple[int, ...]:
        return cast("tuple[int, ...]", self.levels)

    @property
    def _tree(self) -> Tree:
        return Tree.of(self.domain).down_to(max(self._measured, default=0))

    @property
    def _length(self) -> int:
        tree = self._tree
        return sum(tree.nodes(level) for level in self._measured)

    @property
    def _pairs(self) -> int:
        return len(self._measured)

    def _counts(self, x: Counts) -> CellCounts:
        return self._node_counts(x.records, x.frequencies)

    def _node_counts(self, records: Records, weights: Any) -> CellCounts:
        """Return the counts of the nodes of the measured levels, one level after the other."""
        tree = self._tree
        leaves = np.bincount(tree.leaf_of(records), weights=weights, minlength=tree.nodes(tree.depth))
        node: Floats = leaves.astype(np.float64).reshape(tree.shape(tree.depth))
        parts = []
        for level in range(tree.depth, 0, -1):
            if level in self._measured:
                parts.append(np.rint(node).astype(np.int64).ravel())
            node = tree.up(level, node)
        return np.concatenate([*parts[::-1], np.empty(0, dtype=np.int64)])

    def _upward(self, y: CellCounts) -> tuple[Tree, list[Floats], list[Floats]]:
        tree = self._tree
        ends = np.cumsum([tree.nodes(level) for level in self._measured])
        parts = np.split(np.asarray(y), ends[:-1])
        noisy = {level: part.reshape(tree.shape(level)) for level, part in zip(self._measured, parts, strict=True)}
        return tree, *upward(tree, noisy)

    def probabilities(self, y: CellCounts) -> Floats:
        """Return the leaves' probabilities that records are drawn with: public post-processing of noisy counts."""
        if not self._measured:
            return np.ones(1)
        tree, values, variances = self._upward(y)
        return consistent(tree, values, variances, total=self.records, positive=True).ravel() / self.records

    def finish(self, y: Output, *, size: int, rng: np.random.Generator) -> Iterator[Records]:
        """Draw ``size`` records from the noisy counts, in chunks."""
        tree, weights = self._tree, self.probabilities(cast(CellCounts, y))
        order = tree.in_order()
        for places in draw_cells(weights[order], size, sampling=self.sampling, rng=rng):
            yield tree.records_in(order[places], rng)

    def estimates(self, y: Output) -> Estimates:
        """Return the best linear unbiased estimates of the cells' counts, which may be negative, and their errors.

        A leaf of several cells is divided equally among them: what noise does is in the standard error, what lies
        uneven within a leaf is not.
        """
        if self._cells > _MOST_LISTED:
            raise ParameterError(f"{self._cells:,} cells are too many to list (at most {_MOST_LISTED:,}): draw records")
        cells = self.domain.unflat(np.arange(self._cells))
        if not self._measured:
            return Estimates(cells, np.full(1, float(self.records)), np.zeros(1))
        tree, values, variances = self._upward(cast(CellCounts, y))
        leaf, each = tree.leaf_of(cells), 1.0 / tree.cells_per_leaf()
        counts = consistent(tree, values, variances, total=self.records, positive=False).ravel()
        errors = standard_deviation(self.noise, self.scale) * np.sqrt(error_variances(tree, variances).ravel())
        return Estimates(cells, (counts * each)[leaf], (errors * each)[leaf])

    def predictive(self, shares: Floats, *, support: Records, n: int, rng: np.random.Generator) -> Floats:
        """Return the probabilities that the table's expected counts with one draw of noise are turned into."""
        noise = approximate_noise(self.noise, self.scale, self._length, rng=rng)
        leaves = self.probabilities(self._node_counts(support, self.records * shares) + noise)
        leaf = self._tree.leaf_of(support)
        held = leaves[leaf] / np.bincount(leaf, minlength=len(leaves))[leaf]  # all cells, or some that stand for them
        return np.append(held, max(0.0, 1.0 - held.sum()))

    def guarantee(self, relation: Relation = NEIGHBOURS, *, n: int) -> Guarantee:
        """Return theorem T9 for a table of ``n`` records."""
        promised = super().guarantee(relation, n=n)
        most = self._tree.largest_leaf()
        if most == 1:
            return promised
        within = f"leaves hold up to {most:,} cells each: where in its leaf a record lies is not from the data"
        return replace(promised, caveats=(*promised.caveats, within))

    def share_not_from_data(self, n: int, like: Commonness | None = None) -> float:
        """Return how far a record is displaced on average, as a share of the domain's diameter: a prediction.

        Summed over the levels: the records that noise, or evenness within a leaf, moves between the halves of a node,
        times the distance of the halves. That share of the records, sent across the whole domain, would do the same.
        """
        return min(1.0, predicted_error(self.domain, n, self.noise, self.scale, self._measured))

    def parameters(self) -> dict[str, Any]:
        """Return ``scale``, ``noise``, ``levels`` and ``sampling``."""
        return {
            "scale": self.scale,
            "noise": self.noise,
            "levels": list(self._measured),
            "sampling": self.sampling,
        }

    @classmethod
    def cells_wanted(cls, *, n: int, epsilon: float, columns: int) -> int:
        """Return the power of two next to ``(n epsilon / 16)^(1/columns)``, between 16 and 2^20.

        A cell then holds about as many records, on average, as the noise of its count.
        """
        exponent = math.log2(max(1.0, n * max(epsilon, 1e-6) / 16.0)) / positive_size("columns", columns)
        return 1 << round(min(20.0, max(4.0, exponent)))

    @classmethod
    def calibrated(
        cls, budget: Budget, *, domain: Domain, n: int, size: int | None = None, group: int = 1, **fixed: Any
    ) -> HierarchicalHistogram:
        """Solve for the least scale; choose the levels, and the noise, with the least predicted error."""
        sampling, levels = fixed.pop("sampling", "iid"), fixed.pop("levels", None)
        scale, noise = fixed.pop("scale", None), fixed.pop("noise", None)
        refuse_unknown(cls.name, fixed, "scale, noise, levels, sampling")
        _check_columns(domain)
        tree = Tree.of(domain)

        def solved(kind: NoiseKind, chosen: Any, given: float | None = None) -> HierarchicalHistogram:
            def make(kind: NoiseKind, value: float) -> HierarchicalHistogram:
                return cls(domain=domain, records=n, scale=value, noise=kind, levels=chosen, sampling=sampling)

            return solve_scale(make, budget, n=n, group=group, noises=(kind,), scale=given)

        def best(kind: NoiseKind) -> HierarchicalHistogram:
            if levels is not None or tree.depth == 0:
                return solved(kind, levels, scale)
            ends = [solved(kind, tuple(range(1, count + 1))).scale for count in (1, tree.depth)]
            chosen = chosen_levels(domain, n, kind, ends)
            return solved(kind, chosen, scale)

        kinds: tuple[NoiseKind, ...] = ("laplace", "gaussian") if noise is None else (noise,)
        options, refusals = [], []
        for kind in kinds:
            try:
                options.append(best(kind))
            except Infeasible as refusal:
                refusals.append(refusal)
        if not options:
            raise refusals[-1]
        return min(options, key=lambda m: m.share_not_from_data(n))


def _check_columns(domain: Domain) -> None:
    """Refuse more columns than arrays have dimensions."""
    if len(domain.columns) > _MOST_COLUMNS:
        raise ParameterError(
            f"hierarchical-histogram cuts at most {_MOST_COLUMNS} columns, not {len(domain.columns):,}: declare fewer"
        )


def _levels(given: Any, *, deepest: int) -> tuple[int, ...]:
    """Return the levels as increasing integers.

    Raises
    ------
    ParameterError
        When they are not.
    """
    wanted = ParameterError(
        f"levels are increasing integers from 1 to {deepest}, such as 2,5,6, or one of them for all down to it"
    )
    if isinstance(given, str):
        try:
            given = [int(part) for part in given.strip("[]").split(",")]
        except ValueError:
            raise wanted from None
    if given is None or (isinstance(given, int) and not isinstance(given, bool)):
        last = deepest if given is None else given
        given = range(1, last + 1) if last <= deepest else [last]
    if not isinstance(given, Sequence) or (deepest and not given):
        raise wanted
    levels = tuple(given)
    if any(isinstance(level, bool) or not isinstance(level, int) or not 1 <= level <= deepest for level in levels):
        raise wanted
    if any(b <= a for a, b in pairwise(levels)):
        raise wanted
    return levels
