r"""PY26: Menicucci, Beraha and others, "Bayesian Nonparametric Privacy-Preserving Synthetic Data Generation: I".

Bounds of its releases, and rates of approach in Wasserstein-1 distance. A rate is the expression inside the
:math:`O(\cdot)` of a theorem, without its constant: it tells how a measured distance should fall as the sizes grow, not
how large it is. ``n`` is the number of confidential records, ``m`` or ``size`` of released ones, ``d`` the dimension of
the records, at least 1 each; ``epsilon``, ``delta`` and ``strength``, :math:`\theta`, are positive. All raise
:class:`~discreet.errors.ParameterError` when a number is out of range.
"""

from __future__ import annotations

import math

from discreet._core.boundary import sealed
from discreet._core.errors import ParameterError, positive, real, sizes
from discreet._core.numeric import least_integer
from discreet._core.text import as_written

__all__ = [
    "dirichlet_multinomial_a2", "dirichlet_multinomial_rate", "dirichlet_process_rate", "empirical_rate",
    "laplace_histogram_scale", "largest_size_theorem_2", "pitman_yor_theorem_2", "smoothed_histogram_a1",
    "vanishing_delta_rate",
]  # fmt: skip


@sealed
def pitman_yor_theorem_2(epsilon: float, *, n: int, size: int, strength: float) -> float:
    r"""Return the paper's delta of a Dirichlet-process release.

    .. math:: \max\left\{\frac{m}{\theta+n+m-1},\ \frac{2m}{(\theta+n)(e^\varepsilon-1)}\right\}

    It may exceed 1.

    The library uses theorem T1 instead: the first term alone is exact at every epsilon, so the second, up to
    ``2/(e^eps - 1)`` times larger, is never needed.

    Source: PY26, Theorem 2.

    Examples
    --------
    >>> f"{pitman_yor_theorem_2(0.5, n=11_918_162, size=119, strength=1.0):.4g}"
    '3.078e-05'
    """
    positive(epsilon=epsilon, n=n, size=size, strength=strength)
    step = math.expm1(min(epsilon, 700.0))  # beyond, the first term is the larger one, whatever the sizes
    return max(size / (strength + n + size - 1.0), 2.0 * size / ((strength + n) * step))


@sealed
def largest_size_theorem_2(epsilon: float, delta: float, *, n: int, strength: float) -> int:
    """Return the largest size that Theorem 2 of the paper allows; 0 when it allows none.

    ``PitmanYor.calibrated`` uses theorem T1, which allows the same at large epsilon and more at small.

    Source: PY26, Theorem 2 and section 4.3.

    Examples
    --------
    >>> [largest_size_theorem_2(e, 1e-5, n=11_918_162, strength=1.0) for e in (2.0, 0.5)]
    [119, 38]
    """
    positive(epsilon=epsilon, delta=delta, n=n, strength=strength)
    excess = least_integer(lambda m: pitman_yor_theorem_2(epsilon, n=n, size=m, strength=strength) >= delta, 1, 10**10)
    return 10**10 if excess is None else excess - 1


@sealed
def smoothed_histogram_a1(*, n: int, size: int, cells: int, mixing: float) -> float:
    r"""Return the paper's pure epsilon of a smoothed histogram, :math:`m\log\bigl((1-q)k/(nq)+1\bigr)`.

    ``k`` is the number of cells, and ``q``, the mixing, is in (0, 1].

    Right, and attained, as a pure epsilon. The library's theorem T5 gives the whole profile: at ``n = 11,918,162``,
    ``m = 12,000,000``, ``k = 300`` and ``q = 0.01`` delta is 8.85e-15 at epsilon 0.5, where this bound is 29,867.

    Source: PY26, equation (A.1); ROO25, Theorem 1; Wasserman and Zhou (2010).

    Examples
    --------
    >>> round(smoothed_histogram_a1(n=11_918_162, size=12_000_000, cells=300, mixing=0.01))
    29867
    """
    positive(n=n, size=size, cells=cells)
    real("mixing", mixing, above=0, most=1)
    return size * math.log1p((1.0 - mixing) * cells / (n * mixing))


@sealed
def dirichlet_multinomial_a2(epsilon: float, *, size: int) -> float:
    r"""Return the paper's least prior mass of a cell, :math:`\alpha\ge m/(e^\varepsilon-1)`.

    Right, and necessary, for delta = 0. The library's theorem T4 gives the whole profile, and ``calibrated`` far
    smaller priors for any positive delta. BNP24 prints ``e^eps + 1`` on one page; it is ``e^eps - 1``.

    Source: PY26, equation (A.2); Machanavajjhala et al. (2008).

    Examples
    --------
    >>> round(dirichlet_multinomial_a2(1.0, size=100), 4)
    58.1977
    """
    positive(epsilon=epsilon, size=size)
    return size * math.exp(-epsilon) / -math.expm1(-epsilon)


@sealed
def laplace_histogram_scale(epsilon: float) -> float:
    r"""Return the paper's scale of the Laplace noise on each count, :math:`2/\varepsilon`.

    The library's discrete noise of this scale has the same pure epsilon, and theorem T6 its whole profile.

    Source: PY26, Appendix A.2 (2); Wasserman and Zhou (2010).

    Examples
    --------
    >>> laplace_histogram_scale(0.5)
    4.0
    """
    positive(epsilon=epsilon)
    return 2.0 / epsilon


@sealed
def empirical_rate(n: float, d: int, *, moment: float = math.inf) -> float:
    r"""Return the rate of the empirical distribution of ``n`` independent records.

    .. math::

        \mathbb{E} \, W_1(e_n, p_0) = O\Big( n^{-(q-1)/q} +
        \begin{cases} n^{-1/2} & d = 1 \\ n^{-1/2} \log(1 + n) & d = 2 \\ n^{-1/d} & d > 2 \end{cases} \Big)

    for a law with a finite moment of order ``q``, above 1: infinite for bounded records, whose first term is absent.
    The theorem leaves out 2 where d is 1 or 2, and d / (d - 1) above.

    Source: Fournier and Guillin (2015), theorem 1 with p = 1; PY26 theorem A.1.

    Examples
    --------
    >>> empirical_rate(10_000, 1)
    0.01
    >>> round(empirical_rate(1_000_000, 3), 12)
    0.01
    """
    sizes(n=n, d=d)
    real("moment", moment, above=1, infinite=True)
    if moment == max(d, 2) / (max(d, 2) - 1):
        raise ParameterError(f"the theorem leaves out moment {as_written(moment)} in dimension {d}. Take a smaller one")
    tail = 0.0 if math.isinf(moment) else math.pow(n, -(moment - 1) / moment)
    rate = math.pow(n, -1 / max(d, 2))
    if d == 2:
        rate *= math.log1p(n)
    return rate + tail


@sealed
def dirichlet_multinomial_rate(n: float, m: float, d: int) -> float:
    r"""Return the rate of the Dirichlet-multinomial release on a public finite domain.

    .. math:: \mathbb{E} \, W_1(e_m, p_0) = O(n^{-1/2}) + O(r_d(m)),

    with :math:`r_d` the :func:`empirical_rate`. On a fixed finite set of cells the posterior mean
    converges at the parametric rate whatever the dimension, so the first term has no ``d``.

    Source: PY26 theorem 3: at least 2 categories, each with a prior mass of at least 2.

    Examples
    --------
    >>> dirichlet_multinomial_rate(10_000, 100, 1)
    0.11
    """
    sizes(n=n, d=d, m=m)
    return math.pow(n, -0.5) + empirical_rate(m, d)


@sealed
def dirichlet_process_rate(n: float, m: float, d: int) -> float:
    r"""Return the rate of the Dirichlet process release of bounded records.

    .. math:: \mathbb{E} \, W_1(e_m, p_0) = O(r_d(m)) + O(r_d(n)),

    with :math:`r_d` the :func:`empirical_rate`. With ``m`` proportional to ``n``, as for a fixed
    delta, it is :math:`O(r_d(n))`, the minimax rate (Corollary 3): nothing is lost but a constant.

    Source: PY26 theorem 4 and corollary 3.

    Examples
    --------
    >>> dirichlet_process_rate(10_000, 100, 1)
    0.11
    """
    sizes(n=n, d=d, m=m)
    return empirical_rate(m, d) + empirical_rate(n, d)


@sealed
def vanishing_delta_rate(n: float, d: int, *, published: bool = False) -> float:
    r"""Return the rate of the Dirichlet process release with :math:`m = n / \log n`, for which delta vanishes.

    .. math::

        \mathbb{E} \, W_1(e_m, p_0) = \begin{cases} O(n^{-1/2} (\log n)^{1/2}) & d = 1 \\
        O(n^{-1/2} (\log n)^{3/2}) & d = 2 \\ O(n^{-1/d} (\log n)^{1/d}) & d > 2 \end{cases}

    PY26 prints :math:`n^{-1/2} \log n` for ``d = 1`` (``published``), which is loose by a root of the logarithm:
    theorem 4 gives :math:`m^{-1/2} = n^{-1/2} (\log n)^{1/2}` directly. The other two cases follow from theorem 4 as
    printed. n is above 1.

    Source: PY26 corollary 4.

    Examples
    --------
    >>> import math
    >>> vanishing_delta_rate(math.e**4, 1) * math.e**2
    2.0
    >>> vanishing_delta_rate(math.e**4, 1, published=True) * math.e**2
    4.0
    """
    sizes(n=n, d=d)
    real("n", n, above=1)
    power = 1.5 if d == 2 else 1 / d
    if d == 1 and not published:
        power = 0.5
    return math.pow(n, -1 / max(d, 2)) * math.pow(math.log(n), power)
