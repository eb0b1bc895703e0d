r"""Wasserstein-1 distance between weighted samples of records: exact by optimal transport, or sliced.

Records are rows of numbers. An *ordered* column holds coordinates, whose distance is :math:`|a - b|`; any other column
holds codes, whose distance is 0 or 1. NaN is a null: at distance 1 from every value, 0 from a null. The distance of two
records is :math:`\sum_c w_c \, d_c` (``norm="sum"``) or :math:`\sqrt{\sum_c (w_c d_c)^2}` (``norm="euclidean"``).
Pure functions of arrays; the solver is POT's (extra ``transport``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from discreet._core.boundary import sealed
from discreet._core.errors import ParameterError, choice, integer
from discreet._core.lazy import spatial
from discreet._core.numeric import Booleans, Floats, Indices, Weights
from discreet._core.random import seeded
from discreet.mechanisms import transport_available
from discreet.utility.distances import require_weights, signed_masses

PAIRS = 2**26
"""The largest number of pairs of points that :func:`transport_distance` takes by default: half a gigabyte of costs."""

_ITERATIONS = 2**31 - 1


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Sliced:
    """A sliced distance: an average over random directions.

    ``value``: that average over the ``directions`` drawn.
    ``standard_error``: of it, from the directions alone.
    """

    value: float
    standard_error: float
    directions: int


@sealed
def transport_distance(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    x_weights: npt.ArrayLike | None = None,
    y_weights: npt.ArrayLike | None = None,
    ordered: npt.ArrayLike | None = None,
    column_weights: npt.ArrayLike | None = None,
    norm: Literal["sum", "euclidean"] = "sum",
    pairs: int = PAIRS,
) -> float:
    r"""Return the exact Wasserstein-1 distance between two weighted samples of records.

    .. math:: W_1 = \min_{\pi \in \Pi(p, q)} \sum_{i,j} \pi_{ij} \, d(x_i, y_j),

    the minimum over the couplings of the two samples. Equal records are joined first, and the mass that both samples
    have at a record stays where it is: for a metric ``d`` some optimal coupling does that, because a path
    :math:`x \to z \to y` is never shorter than :math:`x \to y`. The rest is solved by the network simplex of POT.

    Parameters
    ----------
    x, y : array_like of float, shapes (a, d) and (b, d)
        Records, one per row; NaN for nulls. A column of ordered values with nulls has to be scaled so that values are
        at most 2 apart, or ``d`` would not be a metric.
    x_weights, y_weights : array_like, shapes (a,) and (b,), optional
        Weights, at least 0 and not all 0; 1 each by default. Whole numbers are subtracted exactly.
    ordered : array_like of bool, shape (d,), optional
        Which columns hold coordinates; all by default.
    column_weights : array_like of float, shape (d,), optional
        Weights ``w_c``, at least 0; 1 each by default.
    norm : {"sum", "euclidean"}
        How the columns' distances are put together.
    pairs : int
        The largest number of pairs of remaining points; eight bytes each.

    Raises
    ------
    ParameterError
        If the samples, weights or columns are not as stated, there are too many pairs, or POT is not installed.

    References
    ----------
    Bonneel, van de Panne, Paris and Heidrich (2011), for the solver; Villani (2008), chapter 6, for the distance.

    Examples
    --------
    >>> transport_distance([[0.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]])
    0.5
    >>> transport_distance([[0.0, 3.0]], [[0.25, 7.0]], ordered=[True, False])
    1.25
    """
    points, signed, metric, top = _join(x, y, x_weights, y_weights, ordered, column_weights, norm)
    sources, sinks = signed > 0, signed < 0
    if not sources.any() or not sinks.any():
        return 0.0
    if int(sources.sum()) * int(sinks.sum()) > pairs:
        raise ParameterError(
            f"the samples have more than {pairs:,} pairs of points left. Allow more pairs (eight bytes each), "
            "or use sliced_wasserstein"
        )
    if not transport_available():
        raise ParameterError("exact transport needs POT. Install it: pip install 'discreet[transport]'")
    import ot

    p, q = signed[sources].astype(np.float64), -signed[sinks].astype(np.float64)
    costs = metric.costs(points[sources], points[sinks])
    # The margins add up to 1 here: POT need not check them, nor centre the dual it does not return.
    work, log = ot.emd2(
        p / p.sum(), q / q.sum(), costs, numItermax=_ITERATIONS, log=True, center_dual=False, check_marginals=False
    )
    if log.get("warning"):
        raise ParameterError("the optimal transport was not solved. Use sliced_wasserstein")
    return float(work * (p.sum() / top))


@sealed
def sliced_wasserstein(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    rng: np.random.Generator,
    x_weights: npt.ArrayLike | None = None,
    y_weights: npt.ArrayLike | None = None,
    ordered: npt.ArrayLike | None = None,
    column_weights: npt.ArrayLike | None = None,
    directions: int = 100,
) -> Sliced:
    r"""Return the sliced Wasserstein-1 distance between two weighted samples of records.

    .. math:: SW_1 = \mathbb{E}_u \, W_1(\langle u, \varphi(X) \rangle, \langle u, \varphi(Y) \rangle),

    with ``u`` uniform on the unit sphere. The map :math:`\varphi` puts an ordered column at :math:`w_c x`, and an
    unordered one at the corner :math:`w_c e_x / \sqrt 2` of a simplex, so that unequal values are ``w_c`` apart. A null
    of a scaled ordered column is put at :math:`w_c (1/2, \sqrt 3 / 2)` beside values at :math:`(w_c x, 0)`.

    It is not the Wasserstein distance: :math:`SW_1 \le W_1` under both norms of :func:`transport_distance` (for values
    scaled to [0, 1], where there are nulls), because :math:`\varphi` and projections lengthen no distance. It is a
    metric of its own, of the order :math:`W_1 / \sqrt d` at best.

    Parameters
    ----------
    x, y, x_weights, y_weights, ordered, column_weights
        As in :func:`transport_distance`.
    rng : numpy.random.Generator
        Draws the directions.
    directions : int
        How many directions are averaged, at least 2.

    Returns
    -------
    Sliced
        The average over the directions, and its standard error.

    Raises
    ------
    ParameterError
        If the samples, weights or columns are not as stated.

    References
    ----------
    Bonneel, Rabin, Peyré and Pfister (2015).

    Examples
    --------
    >>> from discreet._core.random import seeded
    >>> sliced_wasserstein([[0.0], [1.0]], [[1.0], [2.0]], rng=seeded(0)).value
    1.0
    """
    integer("directions", directions, least=2)
    points, signed, metric, top = _join(x, y, x_weights, y_weights, ordered, column_weights, "sum")
    different = np.flatnonzero(signed)  # mass that both have at a record cancels in F - G of every projection
    points, signed = points[different], signed[different]
    corners = [
        None if is_ordered else np.unique(column, return_inverse=True)[1]
        for column, is_ordered in zip(points.T, metric.ordered, strict=True)
    ]
    distances = np.empty(directions)
    for index in range(directions):
        line = metric.projection(points, corners, rng)
        order = np.argsort(line)
        difference = np.cumsum(signed[order])[:-1]  # F - G between neighbouring points
        distances[index] = np.sum(np.abs(difference) * np.diff(line[order])) / top
    error = float(distances.std(ddof=1) / np.sqrt(directions))
    return Sliced(value=float(distances.mean()), standard_error=error, directions=directions)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Metric:
    """The distance of two records."""

    ordered: Booleans
    weights: Floats
    norm: str

    @classmethod
    def parse(cls, columns: int, ordered: npt.ArrayLike | None, weights: npt.ArrayLike | None, norm: str) -> _Metric:
        flags = np.ones(columns, dtype=bool) if ordered is None else np.asarray(ordered)
        factors = np.ones(columns) if weights is None else np.asarray(weights, dtype=np.float64)
        if flags.shape != (columns,) or flags.dtype != bool or factors.shape != (columns,):
            raise ParameterError("ordered and column_weights must have one entry per column, the former true or false")
        if not (np.isfinite(factors).all() and factors.min() >= 0):
            raise ParameterError("column weights must be finite and at least 0")
        choice("norm", norm, ("sum", "euclidean"))
        return cls(ordered=flags, weights=factors, norm=norm)

    def costs(self, a: Floats, b: Floats) -> Floats:
        """Return the distance of every row of ``a`` from every row of ``b``."""
        missing = np.isnan(a).any(axis=0) | np.isnan(b).any(axis=0)
        plain = self.ordered & ~missing
        euclidean = self.norm == "euclidean"
        kind = "sqeuclidean" if euclidean else "cityblock"
        if plain.any():
            total = spatial.distance.cdist(a[:, plain] * self.weights[plain], b[:, plain] * self.weights[plain], kind)
        else:
            total = np.zeros((len(a), len(b)))
        for column in np.flatnonzero(~plain):
            x, y = a[:, column], b[:, column]
            distance = np.abs(x[:, None] - y) if self.ordered[column] else (x[:, None] != y).astype(np.float64)
            distance[np.isnan(x), :] = 1.0
            distance[:, np.isnan(y)] = 1.0
            distance[np.ix_(np.isnan(x), np.isnan(y))] = 0.0
            distance *= self.weights[column]
            if euclidean:
                distance *= distance
            total += distance
        return np.asarray(np.sqrt(total) if euclidean else total)

    def projection(self, points: Floats, corners: list[Indices | None], rng: np.random.Generator) -> Floats:
        """Return the embedded rows on one random direction; ``corners``: the corner of each row, None if ordered."""
        line, length = np.zeros(len(points)), 0.0
        for column, corner, weight in zip(points.T, corners, self.weights, strict=True):
            if corner is None:
                missing = np.isnan(column)
                u = rng.standard_normal(2 if missing.any() else 1)
                part = u[0] * np.where(missing, 0.5, column)
                if missing.any():
                    part[missing] += u[1] * np.sqrt(0.75)
            else:
                u = rng.standard_normal(int(corner.max(initial=-1)) + 1)
                part = u[corner] * np.sqrt(0.5)
            line += weight * part
            length += float(u @ u)
        return np.asarray(line / np.sqrt(length))


def _join(
    x: npt.ArrayLike, y: npt.ArrayLike, x_weights: npt.ArrayLike | None, y_weights: npt.ArrayLike | None, *options: Any
) -> tuple[Floats, Weights, _Metric, float]:
    """Return the distinct records, mass of ``x`` less mass of ``y`` on each, the metric, and the total mass."""
    x_points, x_weight = _require_sample("x", x, x_weights)
    y_points, y_weight = _require_sample("y", y, y_weights)
    if x_points.shape[1] != y_points.shape[1]:
        raise ParameterError("both samples must have the same columns")
    metric = _Metric.parse(x_points.shape[1], *options)
    signed, top = signed_masses(x_weight, y_weight)
    points = np.concatenate((x_points, y_points))
    for values in points.T[metric.ordered & np.isnan(points).any(axis=0)]:
        if np.nanmax(values, initial=-np.inf) - np.nanmin(values, initial=np.inf) > 2:
            raise ParameterError("an ordered column with nulls needs values at most 2 apart. Scale it to [0, 1]")
    order = np.lexsort(points.T)
    points, signed = points[order], signed[order]
    same = (points[1:] == points[:-1]) | (np.isnan(points[1:]) & np.isnan(points[:-1]))
    starts = np.flatnonzero(np.concatenate(([True], ~same.all(axis=1))))
    # The network simplex is several times slower on sorted points than on shuffled ones.
    shuffle = seeded(0).permutation(len(starts))
    return points[starts][shuffle], np.add.reduceat(signed, starts)[shuffle], metric, top


def _require_sample(name: str, values: npt.ArrayLike, weights: npt.ArrayLike | None) -> tuple[Floats, Weights]:
    points = np.asarray(values, dtype=np.float64)
    if points.ndim != 2 or not points.size or np.isinf(points).any():
        raise ParameterError(f"{name} must be at least one record, in finite numbers (or NaN), one row per record")
    return points + 0.0, require_weights(name, points[:, 0], weights)  # one zero, not two
