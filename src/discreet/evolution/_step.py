"""One step of an evolution, as it is shown on the way: what it released, and how near that is to a public table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from discreet._core.arrays import Floats, Integers
from discreet._core.checks import integer, positive_size
from discreet._core.errors import ParameterError
from discreet._core.lazy import pl
from discreet._core.random import seeded
from discreet._core.text import counted
from discreet.domain import Records
from discreet.evolution._api import API
from discreet.evolution._frames import to_records

_PAIRS = 2**22


class Closeness(NamedTuple):
    """How near candidates are to a public table, where the API says that records lie.

    ``frechet``: the Fréchet distance of two normal laws with their means and covariances, squared, as it is for images.
    ``precision``: the share of the candidates' probability that lies among the table's records.
    ``recall``: the share of the table's records that lie among the candidates.
    """

    frechet: float
    precision: float
    recall: float


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
        them (Kynkäänniemi, Karras, Laine, Lehtinen and Aila, 2019). For a comparison with the confidential table use
        :func:`discreet.utility.compare` on :meth:`records`: its result is confidential and comes closed.

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
        even, norm = np.full(len(theirs), 1.0 / len(theirs)), self._api.norm
        return Closeness(
            frechet=_frechet(mine, shares, theirs, even),
            precision=float(shares @ _among(mine, theirs, neighbours, norm)),
            recall=float(even @ _among(theirs, mine, neighbours, norm)),
        )


def _frechet(x: Floats, x_shares: Floats, y: Floats, y_shares: Floats) -> float:
    r"""Return :math:`|\mu-\nu|^2 + \mathrm{tr}(A + B - 2 (A^{1/2} B A^{1/2})^{1/2})` of two weighted samples."""
    means, spreads = zip(*(_moments(*sample) for sample in ((x, x_shares), (y, y_shares))), strict=True)
    values, vectors = np.linalg.eigh(spreads[0])
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    both = np.linalg.eigvalsh(root @ spreads[1] @ root)
    apart = float(((means[0] - means[1]) ** 2).sum())
    found = apart + float(np.trace(spreads[0]) + np.trace(spreads[1]) - 2.0 * np.sqrt(np.maximum(both, 0.0)).sum())
    return max(0.0, found)


def _moments(points: Floats, shares: Floats) -> tuple[Floats, Floats]:
    mean = shares @ points
    around = points - mean
    return mean, (around * shares[:, None]).T @ around


def _among(points: Floats, others: Floats, neighbours: int, norm: float) -> Floats:
    """Return 1 for each point that lies among others, else 0."""
    from scipy.spatial.distance import cdist

    metric = {1.0: "cityblock", 2.0: "euclidean"}.get(norm, "chebyshev")
    rows = max(1, _PAIRS // len(others))
    blocks = [others[first : first + rows] for first in range(0, len(others), rows)]
    reach = np.concatenate([np.partition(cdist(b, others, metric), neighbours, axis=1)[:, neighbours] for b in blocks])
    found = [
        (cdist(points[first : first + rows], others, metric) <= reach).any(axis=1)
        for first in range(0, len(points), rows)
    ]
    return np.concatenate(found).astype(np.float64)
