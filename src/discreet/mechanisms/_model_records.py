"""Records that are drawn from the model of measured tables, given their strata."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet._core.arrays import Integers
from discreet.domain import Domain, Records
from discreet.mechanisms._expansion import Made
from discreet.mechanisms._kept_labels import labelled
from discreet.mechanisms._latent_classes import Block, LatentClasses


@dataclass(frozen=True, eq=False)
class FromStrata(Made):
    """Items that are strata of a model: a class, or a group of one column's cells and a class, group by group.

    ``first``: blocks that are drawn by stratum.
    ``blocks``: those that are drawn by class.
    ``stratified``: whether every cell gets its share of each class's records in a chunk to within one.
    ``labels``: of open columns, the domain and that of the labels that were kept.
    """

    model: LatentClasses
    first: tuple[Block, ...]
    blocks: tuple[Block, ...]
    stratified: bool
    labels: tuple[Domain, Domain] | None = None

    def __call__(self, items: Integers, *, first: int, rng: np.random.Generator) -> Records:
        """Return a record of each stratum. New labels have the numbers of positions."""
        chunk = self.chunk(items, rng)
        if self.labels is None:
            return chunk
        return next(labelled(iter([chunk]), *self.labels, rng, first_new=first + 1))

    def chunk(self, strata: Integers, rng: np.random.Generator) -> Records:
        """Return a record of each stratum, open labels as cells."""
        drawn = self.model.records(strata, stratified=self.stratified, rng=rng, blocks=self.first)
        classes = strata % len(self.model.shares)
        drawn |= self.model.records(classes, stratified=self.stratified, rng=rng, blocks=self.blocks)
        return Records(columns=tuple(drawn[i] for i in range(len(drawn))))
