r"""The distribution nearest to noisy masses in bounded-Lipschitz distance, with a certificate that none is nearer.

Public post-processing: noisy masses on public points in, probabilities out (PE25, Algorithm 2, line 8). The theorem and
its proof are T14, in docs/theory/bounded-lipschitz-projection.md. In short: mass is sent from positive cells to
negative ones, what the total lacks is created where it saves most, and what it exceeds one by is destroyed in cells
that keep some. One dimension is solved as a regression, more as a transport on few arcs; a 1-Lipschitz potential on the
points proves the result.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from discreet._core.arrays import Floats
from discreet._core.errors import ParameterError
from discreet.mechanisms.line_transport import fill_line
from discreet.mechanisms.sparse_transport import Metric, cheapest, fill, gathered, lowest_potential

_DIRECT = 50_000
"""Points in two or more dimensions up to which the transport is solved between all of them."""

_ROUNDING = 1e-12
"""Share of the diameter below which the check of a potential sees no difference."""


class Projection(NamedTuple):
    """Probabilities, and a proof of how near to the nearest they are.

    ``probabilities``, shape (V,): at least 0; they sum to one.
    ``distance``: Bounded-Lipschitz distance from the masses, in units of the metric: the cost of an explicit plan, so
    an upper bound, up to rounding.
    ``lower_bound``: No distribution on the points is nearer: what the potential proves, less what rounding may add to
    it.
    ``potential``, shape (V,): the proof: 1-Lipschitz on the points and at most the diameter in absolute value, by
    construction a minimum of such functions.
    """

    probabilities: Floats
    distance: float
    lower_bound: float
    potential: Floats

    @property
    def gap(self) -> float:
        """How much nearer a distribution could be at most: ``distance - lower_bound``, in units of the metric."""
        return self.distance - self.lower_bound


def bounded_lipschitz_projection(
    masses: Floats, points: Floats, *, diameter: float, norm: float = 2.0, tolerance: float = 1e-6
) -> Projection:
    r"""Return the distribution on the points that is nearest to signed masses, with a certificate.

    .. math:: \min_{\mu \in \Delta} \sup \Bigl\{\sum_i f_i (v_i - \mu_i) :
        |f_i| \le D, \ |f_i - f_j| \le \|x_i - x_j\|_p \Bigr\}
        = \max_f \Bigl\{ \sum_i f_i v_i - \max_i f_i \Bigr\}.

    Raises ParameterError if masses or points are not finite or not of these shapes, the diameter is too small, the norm
    is none of these, or POT (extra ``transport``) is needed and not installed: for two or more dimensions.

    ``masses``, shape (V,): Signed masses ``v``: noisy counts divided by the public number of records. Their total need
    not be one.
    ``points``, shape (V, d): where they are, public; a point may occur more than once.
    ``diameter``: public diameter ``D`` of the space, at least the largest distance of two points.
    ``norm``, {1.0, 2.0, inf}: the p-norm whose distance is meant.
    ``tolerance``: the search ends when the gap is at most this share of the diameter.
    Returns: in one dimension, and for up to 50,000 points in more, the gap is within the tolerance, rounding apart. For
    more points, neighbours are first put together until 50,000 are left: then the gap says how good the result is.

    References
    ----------
    Theorem T14. González, Fanti and Ramdas (2025), Algorithm 2; He, Vershynin and Zhu (2023), Algorithm 2.

    Examples
    --------
    >>> found = bounded_lipschitz_projection(np.array([0.7, -0.2, 0.5]), np.array([[0.0], [0.25], [1.0]]), diameter=1.0)
    >>> found.probabilities.round(12).tolist(), round(found.distance, 12), found.gap < 1e-12
    ([0.5, 0.0, 0.5], 0.05, True)
    """
    masses, points, metric = _checked(masses, points, diameter, norm)
    if not tolerance >= 0.0:
        raise ParameterError("tolerance must be at least 0, as a share of the diameter")
    created = max(0.0, 1.0 - float(masses.sum()))
    if masses[masses > 0.0].sum() <= 1.0:  # what is created fills all deficits: nothing is sent
        kept, cost, price = np.maximum(masses, 0.0), 0.0, np.zeros(len(masses))
    elif points.shape[1] == 1:
        kept, cost, price = _on_a_line(masses, points, created, tolerance * metric.diameter)
    elif len(masses) <= _DIRECT:
        kept, cost, price = _between_all(masses, points, created, metric, tolerance)
    else:
        kept, cost, price = _between_groups(masses, points, created, metric, tolerance)
    probabilities = kept / kept.sum() if kept.any() else np.full(len(masses), 1.0 / len(masses))
    height = metric.diameter - (2.0 * metric.diameter - price.max() if created > 0.0 else 0.0)
    potential = np.clip(height - price, -metric.diameter, metric.diameter)
    distance = metric.diameter * abs(1.0 - float(masses.sum())) + cost
    return Projection(probabilities, distance, _proved(potential, masses, metric, points.shape[1]), potential)


def bounded_lipschitz_distance(
    masses_a: Floats, masses_b: Floats, points: Floats, *, diameter: float, norm: float = 2.0
) -> float:
    r"""Return the bounded-Lipschitz distance of two signed measures on the same points.

    .. math:: \sup \Bigl\{\sum_i f_i (a_i - b_i) : |f_i| \le D, \ |f_i - f_j| \le \|x_i - x_j\|_p \Bigr\},

    the Wasserstein-1 distance where both have the same total. Raises ParameterError as
    :func:`bounded_lipschitz_projection`, and for more than 50,000 points in two or more dimensions.

    ``masses_a``, ``masses_b``, shape (V,): Signed masses.
    ``points``, ``diameter``, ``norm``: as in :func:`bounded_lipschitz_projection`.
    Returns: the cost of an optimal plan.

    Examples
    --------
    >>> points = np.array([[0.0], [0.25], [1.0]])
    >>> bounded_lipschitz_distance(np.array([1.0, 0.0, 0.5]), np.array([0.0, 1.0, 0.0]), points, diameter=1.0)
    0.75
    """
    if np.shape(masses_a) != np.shape(masses_b):
        raise ParameterError("masses_a and masses_b must have the same shape, since they are on the same points")
    difference = np.asarray(masses_a, np.float64) - np.asarray(masses_b, np.float64)
    signed, points, metric = _checked(difference, points, diameter, norm)
    total = float(signed.sum())
    if total < 0.0:
        signed = -signed
    if points.shape[1] == 1:
        cost = _on_a_line(signed, points, 0.0, 0.0)[1]
    elif len(signed) <= _DIRECT:
        cost = fill(signed, points, created=0.0, metric=metric, tolerance=_ROUNDING * metric.diameter).cost
    else:
        raise ParameterError(f"the distance is computed for up to {_DIRECT:,} points in two or more dimensions")
    return metric.diameter * abs(total) + cost


def certified_gap(
    masses: Floats, points: Floats, projection: Projection, *, diameter: float, norm: float = 2.0
) -> float:
    """Check a projection without trusting it, and return the gap that is proved.

    The potential is compared over all pairs of points (pairs of blocks of points, where their distance leaves no room
    for a violation); whatever it is found to violate is taken off what it proves. The distance from the probabilities
    is computed anew, as a problem of its own; for more than 50,000 points in two or more dimensions the stated one is
    taken. Raises ParameterError as :func:`bounded_lipschitz_projection`.

    ``masses``, ``points``, ``diameter``, ``norm``: as given to :func:`bounded_lipschitz_projection`.
    ``projection``: what is to be checked.
    Returns: at least the distance from the probabilities less that from the nearest distribution; infinite where the
    probabilities are no distribution.

    Examples
    --------
    >>> masses, points = np.array([0.7, -0.2, 0.5]), np.array([[0.0], [0.25], [1.0]])
    >>> found = bounded_lipschitz_projection(masses, points, diameter=1.0)
    >>> certified_gap(masses, points, found, diameter=1.0) < 1e-11
    True
    >>> certified_gap(masses, points, found._replace(potential=2.0 * found.potential), diameter=1.0) > 0.01
    True
    """
    masses, points, metric = _checked(masses, points, diameter, norm)
    found, potential = projection.probabilities, projection.potential
    if not (found.shape == potential.shape == masses.shape and found.min() >= 0.0 and abs(found.sum() - 1.0) <= 1e-9):
        return float("inf")
    if points.shape[1] > 1 and len(masses) > _DIRECT:
        distance = projection.distance
    else:
        distance = bounded_lipschitz_distance(masses, found, points, diameter=diameter, norm=norm)
    least = _ROUNDING * metric.diameter
    worse = cheapest(points, potential - least, points, -potential, keep=1, metric=metric)
    steep = np.max(potential[worse.row] - potential[worse.column] - worse.cost, initial=least)
    high = max(0.0, float(np.abs(potential).max()) - metric.diameter)
    # Some feasible potential is at most this far from it, everywhere.
    away = float(steep) + high
    proved = float(potential @ masses) - float(potential.max()) - away * (1.0 + float(np.abs(masses).sum()))
    return distance - max(0.0, proved)


def _checked(masses: Floats, points: Floats, diameter: float, norm: float) -> tuple[Floats, Floats, Metric]:
    masses, points = np.asarray(masses, np.float64), np.asarray(points, np.float64)
    if masses.ndim != 1 or not len(masses) or not np.isfinite(masses).all():
        raise ParameterError("masses must be finite numbers, one per point, for at least one point")
    if points.ndim != 2 or points.shape[0] != len(masses) or not points.shape[1] or not np.isfinite(points).all():
        raise ParameterError("points must be finite coordinates, one row per mass")
    if norm not in (1.0, 2.0, float("inf")):
        raise ParameterError("norm must be 1, 2 or infinity")
    if not 0.0 < diameter < float("inf"):
        raise ParameterError("diameter must be a positive number")
    if np.ptp(points, axis=0).max() > diameter * (1.0 + 1e-9):
        raise ParameterError("diameter is smaller than the distance of two points. Give the diameter of the space")
    return masses, points, Metric(float(norm), float(diameter))


def _on_a_line(masses: Floats, points: Floats, created: float, tolerance: float) -> tuple[Floats, float, Floats]:
    """Return what is kept, the cost of sending the rest, and the price of a unit at every point."""
    order = np.argsort(points[:, 0])
    found = fill_line(masses[order], points[order, 0], created=created, tolerance=tolerance)
    kept, price = np.empty(len(masses)), np.empty(len(masses))
    kept[order], price[order] = found.kept, -found.potential
    return kept, found.cost, price


def _between_all(
    masses: Floats, points: Floats, created: float, metric: Metric, tolerance: float
) -> tuple[Floats, float, Floats]:
    found = fill(masses, points, created=created, metric=metric, tolerance=tolerance * metric.diameter)
    kept = np.zeros(len(masses))
    kept[masses > 0.0] = found.kept
    return kept, found.cost, lowest_potential(points, points[masses < 0.0], found.prices, metric)


def _between_groups(
    masses: Floats, points: Floats, created: float, metric: Metric, tolerance: float
) -> tuple[Floats, float, Floats]:
    """Solve between groups of neighbours, and share what a group keeps among its positive masses.

    A plan within the groups, by way of their centres, is added to the cost; prices at the centres are extended to all
    points, which keeps them a proof.
    """
    groups = gathered(points, -(-len(masses) // _DIRECT), metric)
    sums: Floats = np.bincount(groups.label, masses).astype(np.float64)
    kept, cost, price = _between_all(sums, groups.centres, created, metric, tolerance)
    positive = np.maximum(masses, 0.0)
    held = np.bincount(groups.label, positive, len(sums))
    share = np.divide(kept, held, out=np.zeros_like(kept), where=held > 0.0)
    spread = positive * share[groups.label]
    within = float(np.abs(masses - spread) @ groups.away)
    price = lowest_potential(points, groups.centres, price, metric)
    return spread, cost + within, price


def _proved(potential: Floats, masses: Floats, metric: Metric, dimensions: int) -> float:
    """Return what a potential proves, less what the rounding of distances and sums may add to it; at least 0."""
    rounding = (dimensions + 40) * np.finfo(np.float64).eps * metric.diameter * (1.0 + float(np.abs(masses).sum()))
    return max(0.0, float(potential @ masses) - float(potential.max()) - float(rounding))
