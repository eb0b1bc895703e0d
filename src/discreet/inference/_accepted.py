"""Draws of the counts that are proposed under a simpler likelihood and kept with a probability: exact, without chains.

Theory: docs/theory/mechanism-aware-posterior.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from discreet._core.arrays import Floats
from discreet.inference._lattice import Counted, Weighed, shares, unknown

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

    Raises ParameterError where hardly any proposal would be kept.
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
