"""Noisy counts on a tree over the cells, made consistent: docs/theory/hierarchical-histogram.md (T9)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, cast

import numpy as np

from discreet._core.boundary import sealed
from discreet._core.errors import Infeasible, ParameterError, plain
from discreet._core.numeric import Integers
from discreet.domain import Commonness, Counts, Domain, Records
from discreet.mechanisms.base import NEIGHBOURS, CellCounts, numbered_cells
from discreet.mechanisms.calibration import Search, least_scale
from discreet.mechanisms.forecast import Forecast, Traits, helpful
from discreet.mechanisms.likelihood import NoisyTree
from discreet.mechanisms.noise import LAWS, law_named
from discreet.mechanisms.noisy_counts import NoisyCounts
from discreet.mechanisms.reading import CellReading, CellShares, ColumnShares, Contents, Estimates, Reading
from discreet.mechanisms.tree import Consistent, Tree, chosen_levels, node_counts, predicted_error
from discreet.privacy import Code, Guarantee, Relation

_MOST_COLUMNS = 60  # of an array, up to 64
_MOST_LISTED = 1 << 22
_MOST_SPREAD = 1 << 16


@sealed
@dataclass(frozen=True, kw_only=True)
class HierarchicalHistogram(NoisyCounts):
    r"""Add independent discrete noise to the counts of the nodes of a tree, and draw records from what fits them best.

    Parameters
    ----------
    domain : Domain
        Public and finite, of any size. Each level of the tree halves the blocks of one column, the one whose blocks are
        longest (metric weight times share of its codes), until every block is a cell or there are 2^22 leaves.
    records, scale, noise, sampling
        As for :class:`PerturbedHistogram`: ``records`` is the root's count, which is exact; every node has noise of
        that scale; systematic records go along the tree and keep every node at its share to within one record.
    levels : sequence of int, optional
        The levels that get noise and are released, below the root and increasing; the last one's nodes are the leaves,
        and within a leaf records are uniform over its cells. All levels by default; an integer stands for all down to
        it. ``calibrated`` chooses them from the domain, ``n`` and the budget.

    Raises
    ------
    ParameterError
        When the domain is not finite, or a parameter is out of range.

    Notes
    -----
    A replaced record changes the counts of at most two nodes per level. Guarantee (theorem T9, exact for groups too):
    the pair in which, on each of the ``L`` levels, one node gains ``g`` records and another loses them, with the
    discrete noise's own law; pure ``epsilon = 2 g L/scale`` (laplace). An upper bound for Laplace noise and groups
    above 64. Releases draw noise with OpenDP's exact samplers, so floating point costs nothing. The leaves' counts are
    the best linear unbiased estimate given all noisy counts and ``n``, then kept non-negative from the root downwards.

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
    traits: ClassVar[Traits] = replace(NoisyCounts.traits, cells_cost=True, theorem="T9")

    noise: str = "gaussian"
    levels: Sequence[int] | int | str | None = None

    def __post_init__(self) -> None:
        numbered_cells(self.domain, self.name, most=math.inf)
        _check_columns(self.domain)
        object.__setattr__(self, "levels", _levels(self.levels, deepest=Tree.from_domain(self.domain).depth))
        super().__post_init__()

    @cached_property
    def projector(self) -> Consistent:  # type: ignore[override]  # of leaves, not of cells
        """The consistent counts of the tree's leaves."""
        measured = cast("tuple[int, ...]", self.levels)
        return Consistent(Tree.from_domain(self.domain).down_to(max(measured, default=0)), measured, self.records)

    @property
    def _length(self) -> int:
        return sum(self.projector.tree.nodes(level) for level in self.projector.measured)

    @property
    def _pairs(self) -> int:
        return len(self.projector.measured)

    def _counts(self, x: Counts) -> CellCounts:
        """Return the counts of the nodes of the measured levels, one level after the other."""
        tree = self.projector.tree
        leaves = np.bincount(tree.leaf_of(x.records), weights=x.frequencies, minlength=tree.nodes(tree.depth))
        return node_counts(tree, self.projector.measured, leaves.astype(np.float64))

    def reading(self, y: CellCounts, *, n: int) -> Reading:
        """Return records drawn from the leaves, and consistent counts of the cells."""
        return _TreeReading(self, y)

    def likelihood(self) -> NoisyTree:
        """Return the law of the nodes' noise, and the tree."""
        law, scale, sampling = self.law, self.scale, self.sampling
        return NoisyTree(law=law, scale=scale, surplus="moved", sampling=sampling, consistent=self.projector)

    def guarantee(self, relation: Relation = NEIGHBOURS, *, n: int) -> Guarantee:
        """Return theorem T9 for a table of ``n`` records."""
        promised = super().guarantee(relation, n=n)
        if (most := self.projector.tree.largest_leaf()) > 1:
            promised = replace(promised, caveats=(*promised.caveats, Code("place-in-leaf", {"cells": most})))
        return promised

    def contents(self, n: int, *, counts: bool = False) -> Contents:
        """Return any number of records, or the count of every cell, unless these are too many to be listed."""
        if counts and self.domain.coin_columns:
            raise ParameterError("counts of coins are not counts of values. Ask for records, or leave coin out")
        if counts and (cells := numbered_cells(self.domain, self.name)) > _MOST_LISTED:
            raise ParameterError(f"at most {_MOST_LISTED:,} cells can be listed, got {cells:,}. Draw records")
        return super().contents(n, counts=counts)

    def forecast(self, n: int, like: Commonness | None = None) -> Forecast:
        """Return how far a record is displaced on average, as a share of the domain's diameter: a prediction.

        Summed over the levels: the records that noise, or evenness within a leaf, moves between the halves of a node,
        times the distance of the halves. That share of the records, sent across the whole domain, would do the same.
        """
        lost = min(1.0, predicted_error(self.domain, n, self.law, self.scale, self.projector.measured))
        remedies = helpful(self.domain, "cells", "columns", "epsilon", "delta")
        stratified = self.sampling == "stratified"
        return Forecast(
            lost=lost, lost_is="prediction", lost_to="displacement", remedies=remedies, stratified=stratified
        )

    @classmethod
    def _solution(cls, search: Search) -> Any:
        """Solve for the least scale; choose the levels, and the noise, with the least predicted error."""
        domain, noise = search.domain, search.parameters.get("noise")
        _check_columns(domain)
        tree = Tree.from_domain(domain)

        def best(law: str) -> Any:
            noisy = search.with_parameters(noise=law)
            if search.parameters.get("levels") is None and tree.depth > 0:
                levels = [tuple(range(1, count + 1)) for count in (1, tree.depth)]
                scales = [least_scale(noisy.with_parameters(scale=None, levels=each)).scale for each in levels]
                noisy = noisy.with_parameters(levels=chosen_levels(domain, search.n, law_named(law), scales))
            return least_scale(noisy)

        options, refusals = [], []
        for law in LAWS if noise is None else (noise,):
            try:
                options.append(best(law))
            except Infeasible as refusal:
                refusals.append(refusal)
        if not options:
            raise refusals[-1]
        return min(options, key=lambda mechanism: mechanism.forecast(search.n).lost)


@dataclass(frozen=True, eq=False)
class _TreeReading(CellReading):
    """Noisy counts of nodes, and records drawn from the leaves that fit them best."""

    mechanism: HierarchicalHistogram
    y: CellCounts

    def cell_shares(self, *, rng: np.random.Generator) -> CellShares:
        tree = self.mechanism.projector.tree
        leaves = tree.in_order()
        return _LeafShares(self.mechanism.probabilities(self.y)[leaves], self.mechanism.sampling, tree, leaves)

    def column_shares(self, *, rng: np.random.Generator) -> list[ColumnShares]:
        """Return each column's shares, uniform within the leaves; of many codes, eight stand for a leaf's."""
        tree, shares = self.mechanism.projector.tree, self.mechanism.probabilities(self.y)
        leaves, columns = np.flatnonzero(shares), list[ColumnShares]()
        for edges, block in zip(tree.edges(tree.depth), np.unravel_index(leaves, tree.shape(tree.depth)), strict=True):
            widths = np.diff(edges)
            mass = np.bincount(block, weights=shares[leaves], minlength=len(widths)).astype(np.float64)
            if edges[-1] <= _MOST_SPREAD:
                columns.append((np.arange(edges[-1]), np.repeat(mass / widths, widths)))
            else:
                codes = edges[:-1, None] + (widths[:, None] * np.arange(1, 16, 2)) // 16
                columns.append((codes.ravel(), np.repeat(mass / 8.0, 8)))
        return columns

    def estimates(self) -> Estimates:
        """Return the best linear unbiased estimates of the cells, each leaf divided equally, and their errors."""
        mechanism = self.mechanism
        rows = mechanism.contents(mechanism.records, counts=True).rows
        cells, projector = mechanism.domain.unflat(np.arange(rows[0])), mechanism.projector
        if not projector.measured:
            return Estimates(cells, np.full(1, float(mechanism.records)), np.zeros(1))
        counts, variances = projector.counts(self.y)
        leaf, share = projector.tree.leaf_of(cells), 1.0 / projector.tree.cells_per_leaf()
        errors = mechanism.law.standard_deviation(mechanism.scale) * np.sqrt(variances)
        return Estimates(cells, (counts * share)[leaf], (errors * share)[leaf])


@dataclass(frozen=True, eq=False)
class _LeafShares(CellShares):
    """Items that are the leaves of a tree, by their numbers there, from left to right."""

    tree: Tree
    leaves: Integers

    def records_in(self, items: Integers, *, rng: np.random.Generator) -> Records:
        """Return a record in each leaf, uniform over its cells."""
        return self.tree.records_in(self.leaves[items], rng)


def _check_columns(domain: Domain) -> None:
    """Refuse more columns than arrays have dimensions."""
    if len(domain.columns) > _MOST_COLUMNS:
        raise ParameterError(
            f"hierarchical-histogram cuts at most {_MOST_COLUMNS} columns, not {len(domain.columns):,}. Declare fewer"
        )


def _levels(levels: Any, *, deepest: int) -> tuple[int, ...]:
    """Return the levels as increasing integers. Raises ParameterError when they are not."""
    if levels is None:
        return tuple(range(1, deepest + 1))
    if isinstance(levels, str):
        levels = [int(part) if part.strip().isdecimal() else part for part in levels.strip("[]").split(",")]
    levels = plain(levels)
    if isinstance(levels, int) and not isinstance(levels, bool):
        levels = range(1, min(levels, deepest + 1) + 1)
    numbers = tuple(map(plain, levels)) if isinstance(levels, Sequence) else (None,)
    whole = [level for level in numbers if isinstance(level, int) and not isinstance(level, bool)]
    rising = all(a < b for a, b in pairwise([0, *whole, deepest + 1]))
    if len(whole) < len(numbers) or not rising or (deepest and not whole):
        raise ParameterError(
            f"levels must be increasing integers from 1 to {deepest}, such as 2,5,6, or a single one for all levels "
            "down to it"
        )
    return numbers
