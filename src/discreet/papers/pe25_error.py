"""Bounds on the error of Private Evolution with every constant stated; proofs in ``docs/theory/private-evolution.md``.

PE25's own bounds leave absolute constants open (lemmas E.4, E.5), and set one to 1 on the way (corollary E.1). These
are upper bounds, for the worst data set. All but :func:`thresholded_laplace_error` read public numbers alone.

``D`` is the diameter of the space, ``d`` its dimension, ``sigma`` the standard deviation of the noise on a histogram
that sums to one, and the norm that of the distance: 1, 2 or infinity.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from discreet._core.boundary import sealed
from discreet._core.errors import ParameterError, dimensions, integer, real
from discreet.evolution import settled_norm


@sealed
def gaussian_complexity(
    points: int, *, dimension: int, diameter: float = 1.0, norm: float = 2.0, published: bool = False
) -> float:
    r"""Bound the Gaussian complexity of the bounded Lipschitz functions: how far noise moves a histogram.

    .. math:: G_V = \sup_{z_1, \dots, z_V} \mathbb{E} \sup_f \frac1V \Big| \sum_i x_i f(z_i) \Big|, \qquad
        x_i \sim \mathcal{N}(0, 1),

    over functions bounded by ``D`` with Lipschitz constant 1. Noise of standard deviation sigma on a histogram of V
    points moves it by at most :math:`V \sigma G_V` in bounded Lipschitz distance, in expectation (PE25 lemma E.3).

    The bound, with :math:`\kappa = d^{1/p}` the norm of the vector of ones and m the last level of halving that has
    fewer than V cubes, is

    .. math:: G_V \le \sqrt{\tfrac2\pi} \, D \min\Big(1, \; V^{-1/2} + \kappa \sum_{j=1}^{m} 2^{-(j+1)}
        \sqrt{2^{jd}/V} + \kappa 2^{-(m+1)} \Big).

    PE25's corollary E.1 (``published``; Euclidean norm) has a proof that sets the absolute constant of lemma E.4 to 1,
    and leaves :math:`1/\sqrt n` out of that lemma's statement; it is larger wherever both were compared.

    Source: PE25 definition D.2, lemma E.3, corollary E.1. The bound is ours, in the manner of the partitions of He,
    Vershynin and Zhu (2023).

    Examples
    --------
    >>> round(gaussian_complexity(10_000, dimension=2), 4)
    0.0506
    >>> round(gaussian_complexity(10_000, dimension=2, published=True), 4)
    1.2196
    """
    integer("points", points, least=1, most=10**18)
    real("diameter", diameter, above=0)
    if published:
        return diameter * _corollary(points, dimensions(dimension))
    levels = _dyadic(points, dimension, norm, lambda share: min(1.0, math.sqrt(share)))
    return math.sqrt(2 / math.pi) * diameter * min(1.0, 1 / math.sqrt(points) + levels)


@sealed
def laplace_complexity(points: int, *, dimension: int, diameter: float = 1.0, norm: float = 2.0) -> float:
    r"""Bound the Laplacian complexity: as :func:`gaussian_complexity`, with noise of the Laplace law of scale 1.

    .. math:: L_V \le D \min\Big(1, \; \sqrt{2/V} + \kappa \sum_{j \ge 1} 2^{-(j+1)} \min(1, \sqrt{2^{1 + jd}/V}) \Big).

    Source: PE25 definition D.2, for the quantity.

    Examples
    --------
    >>> round(laplace_complexity(10_000, dimension=2), 4)
    0.0852
    """
    integer("points", points, least=1, most=10**18)
    levels = _dyadic(points, dimension, norm, lambda share: min(1.0, math.sqrt(2 * share)))
    return real("diameter", diameter, above=0) * min(1.0, math.sqrt(2 / points) + levels)


@sealed
def sampling_error(population: int, *, dimension: int, diameter: float = 1.0, norm: float = 2.0) -> float:
    r"""Bound the expected Wasserstein-1 distance between a distribution and that many independent draws from it.

    .. math:: \mathbb{E} \, W_1(\mu, \mu_N) \le D \min\Big(1, \; \kappa \sum_{j \ge 1} 2^{-(j+1)}
        \min(2, \sqrt{2^{jd}/N}) \Big).

    Source: PE25 lemma E.5 states the same rates (but for a logarithm when d = 2) with an absolute constant that it
    leaves open.

    Examples
    --------
    >>> round(sampling_error(10_000, dimension=2), 4)
    0.0605
    """
    integer("population", population, least=1, most=10**18)
    levels = _dyadic(population, dimension, norm, lambda share: min(2.0, math.sqrt(share)))
    return real("diameter", diameter, above=0) * min(1.0, levels)


@sealed
def predicted_error(
    steps: int,
    *,
    gamma: float,
    alpha: float,
    variations: int,
    population: int,
    sigma: float,
    dimension: int,
    diameter: float = 1.0,
    norm: float = 2.0,
    start: float | None = None,
) -> float:
    r"""Bound the expected Wasserstein-1 distance after some steps of Private Evolution with the D_BL projection.

    .. math::

        \Gamma_T \le (1 - \gamma)^T \Gamma_0 + \frac{1 - (1 - \gamma)^T}{\gamma} \,
        \big( \alpha + 2 V \sigma \hat G_V + \hat W_1(n_s) \big), \qquad V = n_s v,

    with :math:`\hat G_V` from :func:`gaussian_complexity` and :math:`\hat W_1` from :func:`sampling_error`: after ``T``
    steps, 0 for the random records as they are, of :math:`n_s` synthetic records (``population``) and ``v`` candidates
    per record, itself included (``variations``). The noise sigma usually grows with the number of steps.
    :math:`\Gamma_0` (``start``) is the distance of the random records, the diameter by default; **where it is measured
    on confidential data, the result is confidential.** It holds for every API with the (gamma, v, alpha) property,
    gamma in (0, 1) and alpha at least 0, in any of the norms; for :class:`Box` and :class:`Ball` in the Euclidean norm
    gamma is :func:`theorem_gamma`. It is a worst case over data sets, and for small tables larger than the diameter,
    where it says nothing: the diameter is then returned. It does not cover thresholding instead of the projection.

    Source: PE25 equation (2) in the proof of theorem 4.1, and theorem G.1.

    Examples
    --------
    >>> setting = {"gamma": 0.2, "alpha": 0.001, "variations": 9, "population": 10**6, "sigma": 1e-9, "dimension": 1}
    >>> [round(predicted_error(steps, **setting), 3) for steps in (0, 10, 40)]
    [1.0, 0.117, 0.011]
    """
    integer("steps", steps, least=0, most=10**6)
    real("gamma", gamma, above=0, below=1)
    real("alpha", alpha, least=0)
    real("sigma", sigma, least=0)
    candidates = integer("variations", variations, least=1, most=10**9) * population
    added = alpha + sampling_error(population, dimension=dimension, diameter=diameter, norm=norm)
    noise = gaussian_complexity(candidates, dimension=dimension, diameter=diameter, norm=norm)
    added += 2 * candidates * sigma * noise
    contraction = (1 - gamma) ** steps
    distance = diameter if start is None else start
    return min(diameter, contraction * distance + (1 - contraction) / gamma * added)


@sealed
def thresholded_laplace_error(
    votes: npt.NDArray[np.integer],
    *,
    epsilon: float,
    delta: float,
    dimension: int,
    diameter: float = 1.0,
    norm: float = 2.0,
    beta: float | None = None,
) -> float:
    r"""Bound how far Laplace noise and a threshold move a histogram of votes; as confidential as these.

    Noise of scale :math:`b = 2/(n \varepsilon)` is added to the k positive shares, those below
    :math:`H = b \log(1/\delta) + 1/n` are dropped, and the rest is divided by its sum. Then

    .. math::

        \mathbb{E} \, W_1(\hat\mu, \mu') \le b k L_k + 2 D \sum_{i=1}^k \mathbb{E} \big[ |\hat\mu_i + L_i|; \;
        \hat\mu_i + L_i < H \big] + D b \sqrt{2k},

    with the expectations in closed form and :math:`L_k` from :func:`laplace_complexity`. PE25 bounds them by counting
    the shares up to :math:`H + b \log(k/\beta)`, at most ``H`` each, which this returns where beta is given, above 0
    and below 1; a share that the noise made more negative than ``-H`` is overlooked there, which is of the order
    :math:`k \delta / (n \varepsilon)`. The bound is small where few candidates have many votes each; above the
    diameter, hence void, where votes are spread. ``epsilon`` and ``delta`` are those of one step.

    Source: PE25 proposition 4.1.

    Examples
    --------
    >>> import numpy as np
    >>> setting = {"epsilon": 1.0, "delta": 1e-4, "dimension": 2}
    >>> round(thresholded_laplace_error(np.array([5000, 5000, 0, 0]), **setting), 4)
    0.0008
    >>> thresholded_laplace_error(np.ones(10_000, dtype=int), **setting) > 1
    True
    """
    real("delta", delta, above=0, below=1)
    if beta is not None:
        real("beta", beta, above=0, below=1)
    counts = np.asarray(votes)
    if counts.ndim != 1 or not np.issubdtype(counts.dtype, np.integer) or counts.min(initial=0) < 0 or not counts.any():
        raise ParameterError("votes must be whole numbers of at least 0, and not all 0")
    n, positive_counts = int(counts.sum()), counts[counts > 0]
    share, k = positive_counts / n, len(positive_counts)
    scale = 2 / (n * real("epsilon", epsilon, above=0))
    threshold = scale * math.log(1 / delta) + 1 / n
    noise = scale * k * laplace_complexity(k, dimension=dimension, diameter=diameter, norm=norm)
    if beta is not None:
        small = np.count_nonzero(share <= threshold + scale * math.log(k / beta))
        lost = float(threshold * (small + k * beta))
    else:
        lost = float(np.sum(_expected_loss(share, scale, threshold)))
    return noise + 2 * diameter * lost + diameter * scale * math.sqrt(2 * k)


def _expected_loss(share: npt.NDArray[np.float64], scale: float, threshold: float) -> npt.NDArray[np.float64]:
    """Return the expected size of what is dropped of a share to which Laplace noise was added."""
    size = share + scale * np.exp(-share / scale)
    tail = np.exp(-np.abs(threshold - share) / scale) / 2
    retained = np.where(threshold >= share, tail * (threshold + scale), share - tail * (threshold - scale))
    return np.asarray(np.maximum(size - retained, 0.0))


def _dyadic(points: int, dimension: int, norm: float, spread: Callable[[float], float]) -> float:
    """Return the sum over all levels in units of the diameter; ``spread`` of cells per point, constant from 4 on."""
    d = dimensions(dimension)
    last = max(1, math.ceil((math.log2(points) + 2) / d))
    total = sum(math.pow(2.0, -(i + 1)) * spread(math.pow(2.0, i * d) / points) for i in range(1, last))
    return math.pow(d, 1 / settled_norm(norm)) * (total + math.pow(2.0, -last) * spread(4.0))


def _corollary(n: int, d: int) -> float:
    """Return PE25's corollary E.1 for a diameter of 1."""
    if d == 1:
        return 9 * math.sqrt(math.log(2 * math.sqrt(n)) / n)
    if d == 2:
        return 10 * math.pow(math.log(2 * math.sqrt(n)), 1.5) / math.sqrt(n)
    root = math.pow(n, 1 / d) * math.pow(d / 2 - 1, 2 / d)
    return 10 * math.sqrt(max(0.0, math.log(2 * root))) / root
