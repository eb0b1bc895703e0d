"""PE25: Gonzalez, Fanti and Ramdas, "Private Evolution Converges". Parameters, bounds on the error, lower bounds.

``D`` is the diameter of the space in the unit of the distance, ``d`` its dimension, ``n`` the number of confidential
records, and ``sigma`` the standard deviation of the noise on a histogram that sums to one (that on the counts, divided
by n). The norm of a distance is 1, 2 or infinity. ``epsilon`` and ``delta`` are the budget, above 0, delta below 1.
Formulas are as printed or corrected; each docstring says which. Each raises
:class:`~discreet.errors.ParameterError` when a number is out of range.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from discreet._core.boundary import sealed
from discreet._core.errors import ParameterError, dimensions, integer, positive, real, sizes
from discreet.evolution import settled_norm
from discreet.papers.pe25_error import (
    gaussian_complexity,
    laplace_complexity,
    predicted_error,
    sampling_error,
    thresholded_laplace_error,
)

__all__ = [
    "ball_packing", "box_packing", "closeness_epsilon", "gaussian_complexity", "laplace_complexity", "predicted_error",
    "private_evolution_rate", "sampling_error", "signed_measure_algorithm_5", "stability_histogram_proposition_4_1",
    "theorem_alpha", "theorem_gamma", "theorem_population", "theorem_steps", "theorem_variations",
    "thresholded_laplace_error", "usable_steps",
]  # fmt: skip


@sealed
def theorem_gamma(dimension: int) -> float:
    r"""Return by how much, at least, one step of Gaussian variations brings the nearest candidate closer.

    .. math:: \gamma = \frac{1}{8 \pi \, \big( (\sqrt d + \log 2)^2 + \log 2 \big)}:

    for any two points of a closed convex set, the nearest of the variations (1) of the first is expected to be at most
    :math:`(1 - \gamma) \rho + \alpha` from the second, in the Euclidean distance. PE25 takes the bracket from a maximal
    inequality, which has :math:`(\sqrt d + \sqrt{\log 2})^2 + \log 2` instead; it holds as printed too. What
    :func:`measured_property` finds is usually ten times as much.

    Source: PE25 theorem 4.1 and lemma E.1.

    Examples
    --------
    >>> round(theorem_gamma(2), 5)
    0.00775
    """
    return 1 / (8 * math.pi * ((math.sqrt(dimensions(dimension)) + math.log(2)) ** 2 + math.log(2)))


@sealed
def theorem_alpha(sigma: float, *, dimension: int, diameter: float = 1.0) -> float:
    r"""Return the finest scale of the variations, :math:`\alpha = D \sigma^{1/\max(d, 2)}`.

    Source: PE25 theorem 4.1.

    Examples
    --------
    >>> theorem_alpha(0.01, dimension=2)
    0.1
    """
    power = 1 / max(dimensions(dimension), 2)
    return real("diameter", diameter, above=0) * math.pow(real("sigma", sigma, above=0), power)


@sealed
def theorem_variations(sigma: float, *, dimension: int) -> int:
    r"""Return the number of candidates per record, :math:`2 \lceil \log_2(D/\alpha) \rceil + 1`, at least 1.

    With :func:`theorem_alpha`, :math:`\log_2 (D/\alpha) = \log_2(1/\sigma) / \max(d, 2)`: the diameter cancels.

    Examples
    --------
    >>> theorem_variations(0.01, dimension=2)
    9
    """
    levels = math.ceil(-math.log2(theorem_alpha(sigma, dimension=dimension)))
    return 2 * max(levels, 0) + 1


@sealed
def theorem_population(sigma: float, *, dimension: int, variations: int | None = None) -> int:
    r"""Return the number of synthetic records that balances noise against sampling.

    .. math:: n_s = \sigma^{-1} v^{1/\max(d, 2) - 1},

    rounded, at least 1, with :math:`v` candidates per record, itself included: :func:`theorem_variations` by default.
    PE25 remarks that :math:`n_s \ge 1` for every sigma below 1; it is not so near 1.

    Source: PE25 theorem 4.1.

    Examples
    --------
    >>> theorem_population(0.01, dimension=2)
    33
    """
    if variations is None:
        variations = theorem_variations(sigma, dimension=dimension)
    v, power = integer("variations", variations, least=1, most=10**9), 1 / max(dimensions(dimension), 2) - 1
    return max(1, round(math.pow(v, power) / real("sigma", sigma, above=0)))


@sealed
def theorem_steps(sigma: float, *, dimension: int, diameter: float = 1.0) -> int:
    r"""Return the number of steps that PE25 prints for a given noise.

    .. math:: T = \Big\lceil \frac1\gamma \log \frac{\gamma}{D \sigma^{1/\max(d, 2)}} \Big\rceil.

    Kept for comparison under the paper's name. **It is negative in ordinary settings**, where the bound of the theorem
    is worse than doing nothing; and it changes with the unit of length, because the ``D`` is there by mistake (leave
    the diameter at 1 for the formula without). Use :func:`usable_steps`.

    Source: PE25 theorem 4.1, first half; the second has :math:`\sigma = 4 \sqrt{\log(1/\delta)} / (n \varepsilon)`.

    Examples
    --------
    >>> theorem_steps(0.01, dimension=2, diameter=2.0)
    -419
    >>> theorem_steps(1e-9, dimension=2, diameter=2.0)
    621
    """
    gamma = theorem_gamma(dimension)
    return math.ceil(math.log(gamma / theorem_alpha(sigma, dimension=dimension, diameter=diameter)) / gamma)


@sealed
def usable_steps(n: float, epsilon: float) -> int:
    r"""Return a number of steps that works: :math:`T = \max(1, \lceil 2 \log(n \varepsilon) \rceil)`.

    Source: PE25 section 6 takes :math:`2 \log(n \varepsilon)` in its simulations (13.8 for n = 1000 and epsilon = 1,
    where figure 5 prints 12).

    Examples
    --------
    >>> usable_steps(1000, 1.0), usable_steps(2, 0.1)
    (14, 1)
    """
    return max(1, math.ceil(2 * (math.log(real("n", n, above=0)) + math.log(real("epsilon", epsilon, above=0)))))


@sealed
def ball_packing(radius: float, dimension: int, *, distance: float, norm: float = 2.0) -> tuple[float, float]:
    r"""Bound the logarithm of the packing number of a ball: how many of its points can be at least that far apart.

    .. math:: d \log \frac{R}{t} \le \log \mathcal{M} \le d \log \Big( 1 + \frac{2R}{t} \Big),

    for a ball of radius R and a distance t, in every norm whose ball it is.

    Examples
    --------
    >>> tuple(round(bound, 2) for bound in ball_packing(1.0, 10, distance=0.2))
    (16.09, 23.98)
    """
    settled_norm(norm)
    ratio = real("radius", radius, above=0) / real("distance", distance, above=0)
    pair = math.log(2) if ratio >= 0.5 else 0.0
    return max(pair, dimensions(dimension) * math.log(ratio)), dimension * math.log1p(2 * ratio)


@sealed
def box_packing(sides: Sequence[float], *, distance: float, norm: float = 2.0) -> tuple[float, float]:
    r"""Bound the logarithm of the packing number of a box: how many of its points can be at least that far apart.

    For sides :math:`s_i` and a distance t it is :math:`\prod_i (\lfloor s_i / t \rfloor + 1)` exactly in the maximum
    norm. Else that is a lower bound, as is :math:`\prod_i s_i / (t^d \, \mathrm{vol} B)`, and
    :math:`\prod_i (s_i + t) / ((t/2)^d \, \mathrm{vol} B)` an upper one, with B the unit ball of the norm.

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


@sealed
def closeness_epsilon(log_packing: float, *, tau: float | None = None, delta: float = 0.0) -> float:
    r"""Return the epsilon that any mechanism needs which puts every synthetic record near its confidential one.

    A mechanism whose release is, with probability :math:`1 - \tau`, a table whose every record is within
    :math:`\eta` of the confidential one can only be (epsilon, delta)-DP if

    .. math:: \varepsilon \ge \log \mathcal{M}(2 \eta),

    the logarithm of the packing number, for :math:`\tau < 1/4` and :math:`\delta < 1 - 3 \tau`. The proof gives more:
    :math:`\varepsilon \ge \log((\mathcal{M} - 1)(1 - \tau - \delta)/\tau)`, which this returns where tau is given. The
    packing number is that at a distance above :math:`2 \eta`, or a lower bound on it, as of :func:`box_packing` or
    :func:`ball_packing`. (At :math:`2 \eta` itself two balls of the proof may touch.)

    Source: PE25 lemma 3.1 and its proof in appendix H.

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
    log_others = log_packing + math.log(-math.expm1(-log_packing))  # log(M - 1)
    return max(0.0, log_others + math.log((1 - tau - delta) / tau))


@sealed
def stability_histogram_proposition_4_1(epsilon: float, delta: float) -> tuple[float, float]:
    r"""Return the paper's Laplace scale and threshold, in records, of a stability histogram.

    .. math:: \frac2\varepsilon,\qquad \frac{2\log(1/\delta)}\varepsilon+1

    Theorem T8 gives the discrete mechanism with the next integer as its threshold a delta of at most
    ``delta / (1 + e^(-eps/2))``.

    Source: PE25, section 4.2 (scale and threshold there are shares: divide by n); Vadhan (2017), Theorem 3.5.

    Examples
    --------
    >>> scale, threshold = stability_histogram_proposition_4_1(1.0, 1e-9)
    >>> scale, round(threshold, 2)
    (2.0, 42.45)
    """
    positive(epsilon=epsilon)
    real("delta", delta, above=0, below=1)
    return 2.0 / epsilon, 2.0 * math.log(1.0 / delta) / epsilon + 1.0


@sealed
def signed_measure_algorithm_5(epsilon: float, delta: float) -> float:
    r"""Return the standard deviation, in records, of the noise that the paper adds to the count of every cell.

    .. math:: \frac{\sqrt{\log(1/\delta)}}\varepsilon

    **Not private as stated.** A replaced record moves two counts, an L2 distance of ``sqrt(2)``, so that the Gaussian
    mechanism needs two to four times this variance: the real delta is 43 times the ``1e-4`` of the example, and
    ``Phi(s/2 - epsilon/s) - e^epsilon Phi(-s/2 - epsilon/s)`` with ``s = sqrt(2) epsilon / sqrt(log(1/delta))``.
    ``SignedMeasure.calibrated`` solves for the least scale that is private.

    Source: PE25, Algorithm 5.

    Examples
    --------
    >>> from discreet.privacy import DiscreteGaussianPair
    >>> scale = signed_measure_algorithm_5(1.0, 1e-4)
    >>> f"{scale:.4f}, really {DiscreteGaussianPair(scale=scale).delta(1.0):.2e}"
    '3.0349, really 4.27e-03'
    """
    positive(epsilon=epsilon)
    real("delta", delta, above=0, below=1)
    return math.sqrt(math.log(1.0 / delta)) / epsilon


@sealed
def private_evolution_rate(
    n: float, d: int, *, epsilon: float, delta: float, diameter: float = 1.0, published: bool = False
) -> float:
    r"""Return the rate of Private Evolution with Gaussian noise, up to powers of logarithms.

    .. math:: \mathbb{E} \, W_1(\mu_S, \mu_{S_T}) = \tilde O\bigg( d D \Big( \frac{\sqrt{\log(n \varepsilon /
        \sqrt{\log(1/\delta)}) \, \log(1/\delta)}}{n \varepsilon} \Big)^{1/\max(d, 2)} \bigg).

    for :math:`n \varepsilon > e \sqrt{\log(1/\delta)}` and an epsilon below 1, as in the theorem. PE25 prints the
    exponent :math:`1/d` (``published``). Its proof arrives at :math:`1/\max(d, 2)`, and the last line of it, which
    replaces that, does not follow for ``d = 1``.

    Source: PE25 theorem 4.1 and its proof (appendix E).

    Examples
    --------
    >>> rates = [private_evolution_rate(n, 2, epsilon=0.5, delta=1e-4) for n in (10_000, 1_000_000)]
    >>> round(rates[0] / rates[1], 2)  # a hundred times the records: less than ten times nearer, for the logarithm
    8.86
    """
    sizes(n=n, d=d)
    real("epsilon", epsilon, above=0, below=1)
    real("diameter", diameter, above=0)
    tail = math.log(1 / real("delta", delta, above=0, below=1))
    strength = n * epsilon / math.sqrt(tail)
    if strength <= math.e:
        raise ParameterError("n times epsilon is too small for the theorem")
    noise = math.sqrt(math.log(strength) * tail) / (n * epsilon)
    return d * diameter * math.pow(noise, 1 / (d if published else max(d, 2)))
