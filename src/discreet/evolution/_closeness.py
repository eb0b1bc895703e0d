"""How near two weighted sets of points are to one another: Fréchet distance, precision and recall."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from discreet._core.arrays import Floats

_PAIRS = 2**22


class Closeness(NamedTuple):
    """How near points are to those of a table, where an API says that records lie.

    ``frechet``: the Fréchet distance of two normal laws with their means and covariances, squared, as it is for images.
    ``precision``: the share of the points, by their probability, that lie among the table's.
    ``recall``: the share of the table's points that lie among them.
    """

    frechet: float
    precision: float
    recall: float


def closeness(
    points: Floats, shares: Floats, table: Floats, table_shares: Floats, *, neighbours: int, norm: float
) -> Closeness:
    """Return how near points are to those of a table; there must be more of both than ``neighbours``.

    ``points``, ``table``, shape (rows, d): distinct.
    ``shares``, ``table_shares``, shape (rows,): their probabilities.
    ``neighbours``, ``norm``: a point lies among others if it is no farther from one than that one's neighbour of this
    rank among them.
    """
    return Closeness(
        frechet=_frechet(points, shares, table, table_shares),
        precision=float(shares @ _among(points, table, neighbours, norm)),
        recall=float(table_shares @ _among(table, points, neighbours, norm)),
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
