"""The parameters that PE25's theorem prescribes, as printed or corrected; each docstring says which.

``D`` is the diameter of the space, ``d`` its dimension, and ``sigma`` the standard deviation of the noise on a
histogram that sums to one (that on the counts, divided by n).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from discreet._core.checks import dimensions, integer, real
from discreet.evolution.api import settled_norm


def theorem_gamma(dimension: int) -> float:
    r"""Return by how much, at least, one step of Gaussian variations brings the nearest candidate closer.

    .. math:: \gamma = \frac{1}{8 \pi \, \big( (\sqrt d + \log 2)^2 + \log 2 \big)}:

    for any two points of a closed convex set, the nearest of the variations (1) of the first is expected to be at most
    :math:`(1 - \gamma) \rho + \alpha` from the second, in the Euclidean distance. The bracket is an upper bound on the
    larger of two independent chi-squared variables with d degrees of freedom, in expectation. PE25 takes it from a
    general maximal inequality, which has :math:`(\sqrt d + \sqrt{\log 2})^2 + \log 2` instead; as printed it holds too,
    because that expectation is at most :math:`d + \sqrt d` (half the difference of the two has a standard deviation of
    :math:`\sqrt d`).

    Parameters
    ----------
    dimension : int
        ``d``.

    Returns
    -------
    float
        A lower bound; what :func:`measured_property` finds is usually ten times as much.

    Raises
    ------
    ParameterError
        When the dimension is no whole number from 1 on.

    References
    ----------
    PE25 theorem 4.1 and lemma E.1.

    Examples
    --------
    >>> round(theorem_gamma(2), 5)
    0.00775
    """
    return 1 / (8 * math.pi * ((math.sqrt(dimensions(dimension)) + math.log(2)) ** 2 + math.log(2)))


def theorem_alpha(sigma: float, *, dimension: int, diameter: float = 1.0) -> float:
    r"""Return the finest scale of the variations, :math:`\alpha = D \sigma^{1/\max(d, 2)}`.

    Parameters
    ----------
    sigma, dimension, diameter
        Noise on the histogram, ``d`` and ``D``.

    References
    ----------
    PE25 theorem 4.1.

    Examples
    --------
    >>> theorem_alpha(0.01, dimension=2)
    0.1
    """
    return real("diameter", diameter, above=0) * math.pow(
        real("sigma", sigma, above=0), 1 / max(dimensions(dimension), 2)
    )


def theorem_variations(sigma: float, *, dimension: int) -> int:
    r"""Return the number of candidates per record, :math:`2 \lceil \log_2(D/\alpha) \rceil + 1`, at least 1.

    With :func:`theorem_alpha`, :math:`\log_2 (D/\alpha) = \log_2(1/\sigma) / \max(d, 2)`: the diameter cancels.

    Parameters
    ----------
    sigma, dimension
        Noise on the histogram, and ``d``.

    Examples
    --------
    >>> theorem_variations(0.01, dimension=2)
    9
    """
    levels = math.ceil(-math.log2(theorem_alpha(sigma, dimension=dimension)))
    return 2 * max(levels, 0) + 1


def theorem_population(sigma: float, *, dimension: int, variations: int | None = None) -> int:
    r"""Return the number of synthetic records that balances noise against sampling.

    .. math:: n_s = \sigma^{-1} v^{1/\max(d, 2) - 1},

    rounded, at least 1. PE25 remarks that :math:`n_s \ge 1` for every sigma below 1; it is not so near 1.

    Parameters
    ----------
    sigma, dimension
        Noise on the histogram, and ``d``.
    variations : int, optional
        ``v``, candidates per record, itself included; :func:`theorem_variations` by default.

    References
    ----------
    PE25 theorem 4.1.

    Examples
    --------
    >>> theorem_population(0.01, dimension=2)
    33
    """
    v = theorem_variations(sigma, dimension=dimension) if variations is None else variations
    power = 1 / max(dimensions(dimension), 2) - 1
    return max(1, round(math.pow(integer("variations", v, least=1, most=10**9), power) / real("sigma", sigma, above=0)))


def theorem_steps(sigma: float, *, dimension: int, diameter: float = 1.0) -> int:
    r"""Return the number of steps that PE25 prints for a given noise.

    .. math:: T = \Big\lceil \frac1\gamma \log \frac{\gamma}{D \sigma^{1/\max(d, 2)}} \Big\rceil.

    Kept for comparison under the paper's name. **It is negative in ordinary settings**, which then says that the bound
    of the theorem is worse than doing nothing; and it changes with the unit of length, because the ``D`` is there by
    mistake: :math:`e^{-\gamma T} D \le D \sigma^{1/\max(d, 2)} / \gamma` has none (leave the diameter at 1 for that).
    Use :func:`usable_steps`.

    Parameters
    ----------
    sigma, dimension
        Noise on the histogram, and ``d``.
    diameter : float
        ``D``, as printed.

    References
    ----------
    PE25 theorem 4.1, first half.

    Examples
    --------
    >>> theorem_steps(0.01, dimension=2, diameter=2.0)
    -419
    >>> theorem_steps(1e-9, dimension=2, diameter=2.0)
    621
    """
    gamma = theorem_gamma(dimension)
    return math.ceil(math.log(gamma / theorem_alpha(sigma, dimension=dimension, diameter=diameter)) / gamma)


def theorem_steps_of_budget(n: float, epsilon: float, delta: float, *, dimension: int) -> int:
    r"""Return the number of steps that PE25 prints for a given budget.

    .. math:: T = \Big\lceil \frac1\gamma \log \Big( \gamma \Big( \frac{n \varepsilon}{4 \sqrt{\log(1/\delta)}}
        \Big)^{1/\max(d, 2)} \Big) \Big\rceil.

    Kept for comparison; like :func:`theorem_steps` it is negative unless n is very large. Use :func:`usable_steps`.

    Parameters
    ----------
    n : float
        Number of confidential records.
    epsilon, delta : float
        The budget, each above 0, delta below 1.
    dimension : int
        ``d``.

    References
    ----------
    PE25 theorem 4.1, second half. The end of its proof leaves the inner gamma out.

    Examples
    --------
    >>> theorem_steps_of_budget(1000, 1.0, 1e-4, dimension=2)
    -342
    """
    tail = math.log(1 / real("delta", delta, above=0, below=1))
    strength = real("n", n, above=0) * real("epsilon", epsilon, above=0) / (4 * math.sqrt(tail))
    return theorem_steps(1 / strength, dimension=dimension)


def usable_steps(n: float, epsilon: float) -> int:
    r"""Return a number of steps that works: :math:`T = \max(1, \lceil 2 \log(n \varepsilon) \rceil)`.

    Parameters
    ----------
    n : float
        Number of confidential records.
    epsilon : float
        The budget.

    References
    ----------
    PE25 section 6 takes :math:`2 \log(n \varepsilon)` in its simulations (13.8 for n = 1000 and epsilon = 1, where
    figure 5 prints 12).

    Examples
    --------
    >>> usable_steps(1000, 1.0), usable_steps(2, 0.1)
    (14, 1)
    """
    return max(1, math.ceil(2 * math.log(real("n", n, above=0) * real("epsilon", epsilon, above=0))))


# What PE25 rules out: how much privacy it costs to put every synthetic record near its confidential one.


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
