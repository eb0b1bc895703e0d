r"""What PE25 rules out: how much privacy it costs to put every synthetic record near its confidential one."""

from __future__ import annotations

import math
from collections.abc import Sequence

from discreet._core.checks import real
from discreet.evolution._api import settled_norm
from discreet.papers._ranges import dimensions


def ball_packing(radius: float, dimension: int, *, distance: float, norm: float = 2.0) -> tuple[float, float]:
    r"""Bound the packing number of a ball: how many of its points can be at least that far apart.

    .. math:: d \log \frac{R}{t} \le \log \mathcal{M} \le d \log \Big( 1 + \frac{2R}{t} \Big),

    by volumes: balls of radius t around a largest packing cover the ball, and those of radius t/2 are disjoint. The
    same in every norm whose ball it is.

    Parameters
    ----------
    radius : float
        ``R``.
    dimension : int
        ``d``.
    distance : float
        ``t``.
    norm : {1, 2, inf}
        Norm of the ball and of the distance; any gives the same numbers.

    Returns
    -------
    tuple of float
        Lower and upper bounds on the natural logarithm.

    Examples
    --------
    >>> tuple(round(bound, 2) for bound in ball_packing(1.0, 10, distance=0.2))
    (16.09, 23.98)
    """
    settled_norm(norm)
    ratio = real("radius", radius, above=0) / real("distance", distance, above=0)
    pair = math.log(2) if ratio >= 0.5 else 0.0
    return max(pair, dimensions(dimension) * math.log(ratio)), dimension * math.log1p(2 * ratio)


def box_packing(sides: Sequence[float], *, distance: float, norm: float = 2.0) -> tuple[float, float]:
    r"""Bound the packing number of a box: how many of its points can be at least that far apart.

    In the maximum norm it is :math:`\prod_i (\lfloor s_i / t \rfloor + 1)` exactly. Else that is a lower bound, as is
    :math:`\prod_i s_i / (t^d \, \mathrm{vol} B)`, and :math:`\prod_i (s_i + t) / ((t/2)^d \, \mathrm{vol} B)` an upper
    one, with B the unit ball of the norm.

    Parameters
    ----------
    sides : sequence of float
        ``s_i``.
    distance : float
        ``t``.
    norm : {1, 2, inf}
        Norm of the distance.

    Returns
    -------
    tuple of float
        Lower and upper bounds on the natural logarithm.

    Examples
    --------
    >>> import math
    >>> [round(math.exp(bound), 6) for bound in box_packing([1.0, 1.0], distance=0.25, norm=math.inf)]
    [25.0, 25.0]
    """
    t, p = real("distance", distance, above=0), settled_norm(norm)
    lengths = [real("sides", side, above=0) for side in sides]
    d = dimensions(len(lengths))
    grid = sum(math.log(math.floor(side / t) + 1) for side in lengths)
    if math.isinf(p):
        return grid, grid
    ball = d * math.log(2 * t * math.gamma(1 + 1 / p)) - math.lgamma(1 + d / p)
    lower = sum(math.log(side) for side in lengths) - ball
    upper = sum(math.log(side + t) for side in lengths) - ball + d * math.log(2)
    return max(grid, lower), upper


def closeness_epsilon(log_packing: float, *, tau: float | None = None, delta: float = 0.0) -> float:
    r"""Return the epsilon that any mechanism needs which puts every synthetic record near its confidential one.

    A mechanism whose release is, with probability :math:`1 - \tau`, a table whose every record is within
    :math:`\eta` of the confidential one can only be (epsilon, delta)-DP if

    .. math:: \varepsilon \ge \log \mathcal{M}(2 \eta),

    the logarithm of the packing number, for :math:`\tau < 1/4` and :math:`\delta < 1 - 3 \tau`. The proof gives more:
    :math:`\varepsilon \ge \log((\mathcal{M} - 1)(1 - \tau - \delta)/\tau)`, which this returns where tau is given.
    This is why the convergence proof that preceded PE25's has to let every record occur many times.

    Parameters
    ----------
    log_packing : float
        Logarithm of the packing number at a distance above :math:`2 \eta`, or a lower bound on it:
        :func:`box_packing`, :func:`ball_packing`. (At :math:`2 \eta` itself two balls of the proof may touch.)
    tau : float, optional
        Probability of failure, above 0 and below 1/4.
    delta : float
        Of the mechanism, at least 0 and below ``1 - 3 tau``.

    Returns
    -------
    float
        A lower bound.

    References
    ----------
    PE25 lemma 3.1 and its proof in appendix H.

    Examples
    --------
    >>> apart, _ = ball_packing(1.0, 10, distance=0.2)
    >>> round(closeness_epsilon(apart), 2), round(closeness_epsilon(apart, tau=0.01), 2)
    (16.09, 20.69)
    """
    real("log_packing", log_packing, least=0, remedy="It is the logarithm of a number of points.")
    if tau is None:
        return log_packing
    real("delta", delta, least=0, below=1 - 3 * real("tau", tau, above=0, below=0.25))
    if log_packing == 0:
        return 0.0
    others = log_packing + math.log(-math.expm1(-log_packing))  # log(M - 1)
    return max(0.0, others + math.log((1 - tau - delta) / tau))
