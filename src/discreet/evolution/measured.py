"""The property that convergence needs of an API, measured: how much nearer the nearest variation comes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from discreet._core.boundary import sealed
from discreet._core.errors import ParameterError, integer, positive_size, real
from discreet._core.lazy import pl, spatial, special
from discreet._core.numeric import Floats, Integers
from discreet._core.random import seeded
from discreet._core.text import about, as_written, counted, percent_as_written, rounded_down, rounded_up
from discreet.domain import Records
from discreet.evolution.api import API, METRICS, to_records

_BANDS = 16
_FEWEST = 20


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Contraction:
    """How much nearer the nearest variation is, for records at distances in one band."""

    beyond: float  #: least distance between a record and its target, in the unit of the embedding
    up_to: float  #: largest distance
    pairs: int  #: independent pairs that were met there
    gamma: float  #: mean of ``1 - (distance of the nearest variation) / (distance of the record)``
    lower: float  #: lower confidence bound on its expectation, jointly with all the other bands


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredProperty:
    """What was measured of an API; ``print`` it for plain words."""

    gamma: float  #: the smallest lower confidence bound of the bands beyond ``alpha``; 0 where nothing can be said
    v: int  #: candidates per record, itself included
    alpha: float  #: the distance beyond which ``gamma`` holds
    confidence: float  #: probability, over the measurement, that every bound holds
    bands: tuple[Contraction, ...]  #: from far to near
    diameter: float  #: that the API states
    farthest: float  #: the largest distance that was met: the API's diameter is wrong where this exceeds it

    def __str__(self) -> str:
        lines = [f"{counted(self.v, 'candidate')} per record."]
        if self.farthest > self.diameter * (1 + 1e-9):
            lines.append(
                f"The stated diameter {as_written(self.diameter)} is too small: a distance of "
                f"{about(self.farthest, 4)} was met."
            )
        lines += [
            f"From {about(band.up_to)} down to {about(band.beyond)} away: the nearest variation is about "
            f"{about(100.0 * band.gamma)}% nearer on average, at least {rounded_down(100.0 * band.lower)}% "
            f"({counted(band.pairs, 'pair')})."
            for band in self.bands
        ]
        if self.gamma > 0:
            lines.append(
                f"Beyond a distance of {rounded_up(self.alpha)} a step brings the nearest candidate at least "
                f"{rounded_down(100.0 * self.gamma)}% nearer in expectation (confidence "
                f"{percent_as_written(self.confidence)}, on average over pairs met on the way)."
            )
        else:
            lines.append("No distance was found beyond which a step is sure to help. Measure more pairs, or vary more.")
        return "\n".join(lines)


@sealed
def measured_property(
    api: API,
    records: Records,
    *,
    rng: np.random.Generator,
    pairs: int = 500,
    steps: int = 30,
    alpha: float | None = None,
    confidence: float = 0.99,
) -> MeasuredProperty:
    r"""Measure by how much, and down to which distance, an API's variations approach given records.

    An API has the :math:`(\gamma, v, \alpha)` property for a table if each record is among its own at most v
    variations, and for every record ``z`` and every record ``y`` of the table farther than :math:`\alpha`

    .. math:: \mathbb{E} \min_{z' \in \mathrm{variation}(z)} \rho(z', y) \le (1 - \gamma) \, \rho(z, y).

    Pairs are met as the evolution meets them: each of ``pairs`` random records is given a target drawn from
    ``records``, and moves for ``steps`` steps to its variation nearest to the target, without noise. Its relative gain
    is noted the first time it starts a step in a band of distances (each half as far as the one before, 16 at most), so
    that the gains of a band are independent numbers in [0, 1]. Their mean has the Chernoff-Hoeffding lower bound: the
    smallest p with :math:`N \, \mathrm{kl}(\bar g, p) \le \log(16 / (1 - \mathrm{confidence}))`. All bands hold
    together.

    The bound is on the expectation over the pairs met, not on the worst pair, of which no measurement can speak; the
    recursion of the convergence theorem averages over pairs as well.

    Parameters
    ----------
    api : API
        What is measured.
    records : Records
        Targets, encoded. Public: an earlier release, a published sample, or what the API gives at random. **With a
        confidential table the result is confidential.**
    rng : numpy.random.Generator
        Source of the draws.
    pairs : int
        Random records to start from, 20 at least.
    steps : int
        Steps each of them takes.
    alpha : float, optional
        The distance of interest. By default the band's edge with the least :math:`\alpha / \gamma`, which is what the
        API adds to the error of the convergence theorem.
    confidence : float
        Above 0 and below 1.

    Returns
    -------
    MeasuredProperty
        Bands with fewer than 20 pairs are left out.

    Raises
    ------
    ParameterError
        When a parameter is out of range, or the variations do not have the record itself first.

    References
    ----------
    PE25 definition G.1 and theorem G.1; Hoeffding (1963), theorem 1, for the bound.

    Examples
    --------
    >>> from discreet._core.random import seeded
    >>> from discreet.domain import Domain, Numeric
    >>> from discreet.evolution import Box
    >>> from discreet.papers.pe25 import theorem_gamma
    >>> box = Box(domain=Domain(columns={"x": Numeric(lower=0, upper=1)}), alpha=0.01)
    >>> found = measured_property(box, box.random(100, rng=seeded(0)), rng=seeded(1), alpha=0.01)
    >>> found.gamma > theorem_gamma(1)
    True
    """
    integer("pairs", pairs, least=20, most=10**7)
    integer("steps", steps, least=1, most=10**4)
    real("confidence", confidence, above=0, below=1)
    if not len(records):
        raise ParameterError("there must be at least one record to approach")
    minimum = 0.0 if alpha is None else real("alpha", alpha, above=0)
    targets = api.embed(records.take(rng.integers(len(records), size=pairs)))
    distances, gains, farthest = _walks(api, targets, steps, rng)
    bands = []
    for level in range(_BANDS):  # each walk's first step in a band tells of it
        up_to = api.diameter / 2**level
        beyond = max(up_to / 2, minimum)
        inside = (distances > beyond) & ((distances <= up_to) | (level == 0))
        rows = inside.any(axis=1)
        first_gains = gains[rows, inside[rows].argmax(axis=1)]
        count = len(first_gains)
        if count >= _FEWEST:
            gamma = float(first_gains.mean())
            lower = _lower_mean(gamma, count, (1 - confidence) / _BANDS)
            bands.append(Contraction(beyond=beyond, up_to=up_to, pairs=count, gamma=gamma, lower=lower))
    gammas = [0.0, *accumulate((band.lower for band in bands), min)]
    count = len(bands)
    if alpha is None:  # the bands down to the one with the least alpha / gamma
        alphas = [api.diameter, *(band.beyond for band in bands)]
        positive = [count for count, gamma in enumerate(gammas) if gamma > 0]
        count = min(positive, key=lambda count: alphas[count] / gammas[count], default=0)
        minimum = alphas[count]
    space = {"alpha": minimum, "confidence": confidence, "diameter": api.diameter, "farthest": farthest}
    return MeasuredProperty(gamma=gammas[count], v=api.variations_each(), bands=tuple(bands), **space)


def _walks(api: API, targets: Floats, steps: int, rng: np.random.Generator) -> tuple[Floats, Floats, float]:
    """Walk records to their targets; return distances before and relative gains of steps, and the farthest distance."""
    records, v = api.random(len(targets), rng=rng), api.variations_each()
    starts, gains, farthest = np.zeros((len(targets), steps)), np.zeros((len(targets), steps)), 0.0
    for step in range(steps):
        candidates = api.variation(records, rng=rng, step=step, steps=steps)
        firsts = zip(candidates.take(slice(None, None, v)).columns, records.columns, strict=True)
        agree = all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in firsts)
        if len(candidates) != v * len(records) or not agree:
            raise ParameterError(
                f"a variation of the API {api.name} must have {counted(v, 'row')} per record, the record itself first"
            )
        differences = api.embed(candidates).reshape(len(records), v, -1) - targets[:, None, :]
        distances = np.linalg.norm(differences, ord=api.norm, axis=2)
        starts[:, step] = distances[:, 0]
        moving = distances[:, 0] > 0
        gains[moving, step] = 1 - distances[moving].min(axis=1) / distances[moving, 0]
        farthest = max(farthest, float(distances.max()))
        records = candidates.take(np.arange(len(records)) * v + distances.argmin(axis=1))
    return starts, gains, farthest


def _lower_mean(mean: float, count: int, risk: float) -> float:
    """Return the Chernoff-Hoeffding lower confidence bound on the mean of independent numbers in [0, 1]."""
    allowed = math.log(1 / risk) / count
    low, high = 0.0, mean
    for _ in range(60):
        middle = (low + high) / 2
        laws = special.rel_entr([mean, 1 - mean], [middle, 1 - middle])
        divergence = float(laws.sum())  # of two Bernoulli laws, nats
        if divergence > allowed:
            low = middle
        else:
            high = middle
    return low


_PAIRS = 2**22


class Closeness(NamedTuple):
    """How near points are to those of a table, where an API says that records lie."""

    frechet: float  # squared, as it is for images: of two normal laws with their means and covariances
    precision: float  # the share of the points, by their probability, that lie among the table's
    recall: float  # the share of the table's points that lie among them


def closeness(
    points: Floats, shares: Floats, table: Floats, table_shares: Floats, *, neighbours: int, norm: float
) -> Closeness:
    """Return how near distinct points are to those of a table; there must be more of both than ``neighbours``."""
    # Frechet: |m - m'|^2 + tr(A + B - 2 (A^(1/2) B A^(1/2))^(1/2)), from the means and the covariances.
    (mean, covariance), (table_mean, table_covariance) = _moments(points, shares), _moments(table, table_shares)
    values, vectors = np.linalg.eigh(covariance)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    product = np.linalg.eigvalsh(root @ table_covariance @ root)
    trace = np.trace(covariance) + np.trace(table_covariance) - 2.0 * np.sqrt(np.maximum(product, 0.0)).sum()
    return Closeness(
        frechet=max(0.0, float(((mean - table_mean) ** 2).sum()) + float(trace)),
        precision=float(shares @ _among(points, table, neighbours, norm)),
        recall=float(table_shares @ _among(table, points, neighbours, norm)),
    )


def _moments(points: Floats, shares: Floats) -> tuple[Floats, Floats]:
    mean = shares @ points
    deviations = points - mean
    return mean, (deviations * shares[:, None]).T @ deviations


def _among(points: Floats, others: Floats, neighbours: int, norm: float) -> Floats:
    """Return 1 for each point that is as near to some other as that one's neighbour of this rank, else 0."""
    rows = max(1, _PAIRS // len(others))

    def distances(sample: Floats) -> Iterator[Floats]:
        parts = (sample[i : i + rows] for i in range(0, len(sample), rows))
        return (spatial.distance.cdist(part, others, METRICS[norm]) for part in parts)

    reach = np.concatenate([np.partition(block, neighbours, axis=1)[:, neighbours] for block in distances(others)])
    return np.concatenate([(block <= reach).any(axis=1) for block in distances(points)]).astype(np.float64)


@sealed
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EvolvedStep:
    """What one step of Private Evolution released: public under the guarantee of the release."""

    number: int  #: the step, from 1 on
    of: int  #: number of steps
    candidates: pl.DataFrame  #: a frame of the distinct candidates
    votes: Integers  #: the noisy votes of each
    shares: Floats  #: the probabilities that records would be drawn with if this step were the last
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
        return self.candidates[seeded(seed).choice(len(self.shares), size=positive_size("count", count), p=self.shares)]

    def closeness(self, reference: Any, *, neighbours: int = 3) -> Closeness:
        """Return how near the candidates are to a **public** table.

        A point lies among others if it is no farther from one of them than that one's ``neighbours``-th neighbour among
        them (Kynkäänniemi, Karras, Laine, Lehtinen and Aila, 2019). For the same beside the confidential table give
        :func:`discreet.utility.compare` the :meth:`records` and the ``api``: its result is confidential and comes
        closed.

        Raises ParameterError when the table does not fit the domain, or has no more rows than ``neighbours``.
        """
        integer("neighbours", neighbours, least=1, most=10**4)
        table = self._api.embed(to_records(reference, self._api.domain, source="the public table"))
        places = np.flatnonzero(self.shares > 0)
        points, shares = self._api.embed(self._encoded.take(places)), self.shares[places] / self.shares[places].sum()
        if min(len(points), len(table)) <= neighbours:
            raise ParameterError(f"the public table and the candidates need more rows than neighbours={neighbours}")
        table_shares = np.full(len(table), 1.0 / len(table))
        return closeness(points, shares, table, table_shares, neighbours=neighbours, norm=self._api.norm)
