"""One step of an evolution, as it is shown on the way: what it released, and how near that is to a public table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from discreet._core.arrays import Floats, Integers
from discreet._core.checks import integer, positive_size
from discreet._core.errors import ParameterError
from discreet._core.lazy import pl
from discreet._core.random import seeded
from discreet._core.text import counted
from discreet.domain import Records
from discreet.evolution._api import API
from discreet.evolution._closeness import Closeness, closeness
from discreet.evolution._frames import to_records


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EvolvedStep:
    """What one step of Private Evolution released: public under the guarantee of the release.

    ``number``: the step, from 1 on.
    ``of``: number of steps.
    ``candidates``: a frame of the distinct candidates.
    ``votes``: the noisy votes of each.
    ``shares``: the probabilities that records would be drawn with if this step were the last.
    """

    number: int
    of: int
    candidates: pl.DataFrame
    votes: Integers
    shares: Floats
    _encoded: Records = field(repr=False)
    _api: API = field(repr=False)

    def __str__(self) -> str:
        half = int(np.searchsorted(np.cumsum(np.sort(self.shares)[::-1]), 0.5)) + 1
        return (
            f"step {self.number} of {self.of}: {counted(len(self.votes), 'candidate')}, "
            f"{counted(int(self.votes.sum()), 'noisy vote')}, half of the probability on {half:,}"
        )

    def records(self, count: int, *, seed: int = 0) -> pl.DataFrame:
        """Return a frame of records drawn from the candidates: what a release would look like after this step."""
        places = seeded(seed).choice(len(self.shares), size=positive_size("count", count), p=self.shares)
        return self.candidates[places]

    def closeness(self, reference: Any, *, neighbours: int = 3) -> Closeness:
        """Return how near the candidates are to a **public** table.

        A point lies among others if it is no farther from one of them than that one's ``neighbours``-th neighbour among
        them (Kynkäänniemi, Karras, Laine, Lehtinen and Aila, 2019). For the same beside the confidential table give
        :func:`discreet.utility.compare` the :meth:`records` and the ``api``: its result is confidential and comes
        closed.

        Raises ParameterError when the table does not fit the domain, or has no more rows than ``neighbours``.
        """
        integer("neighbours", neighbours, least=1, most=10**4)
        theirs = self._api.embed(to_records(reference, self._api.domain, source="the public table"))
        held = np.flatnonzero(self.shares > 0)
        mine, shares = self._api.embed(self._encoded.take(held)), self.shares[held] / self.shares[held].sum()
        if min(len(mine), len(theirs)) <= neighbours:
            raise ParameterError(
                f"the public table and the candidates must have more rows than neighbours={neighbours}"
            )
        even = np.full(len(theirs), 1.0 / len(theirs))
        return closeness(mine, shares, theirs, even, neighbours=neighbours, norm=self._api.norm)
