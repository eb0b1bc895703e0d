"""The papers' own bounds, under the papers' names, to compare with and to reproduce their tables.

None of them is used by a guarantee of this library: the exact profiles replace them.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from discreet._checks import real
from discreet._numeric import least_integer
from discreet.errors import ParameterError

__all__ = [
    "dirichlet_multinomial_a2",
    "dirichlet_multinomial_thesis",
    "empirical_bayes_strength",
    "laplace_histogram_scale",
    "laplace_projection_5",
    "largest_size_theorem_2",
    "pitman_yor_theorem_2",
    "signed_measure_algorithm_5",
    "smoothed_histogram_a1",
    "stability_histogram_proposition_4_1",
]


def pitman_yor_theorem_2(epsilon: float, *, n: int, size: int, strength: float) -> float:
    r"""Return the paper's delta of a Dirichlet-process release.

    .. math:: \max\left\{\frac{m}{\theta+n+m-1},\ \frac{2m}{(\theta+n)(e^\varepsilon-1)}\right\}

    Parameters
    ----------
    epsilon : float
        Positive.
    n, size : int
        Number of confidential and of released records.
    strength : float
        ``theta``, positive.

    Returns
    -------
    float
        May exceed 1.

    Raises
    ------
    ParameterError
        When a number is out of range.

    Notes
    -----
    The library uses theorem T1 instead: the first term alone is exact at every epsilon, so the second, up to
    ``2/(e^eps - 1)`` times larger, is never needed.

    References
    ----------
    PY26, Theorem 2.

    Examples
    --------
    >>> f"{pitman_yor_theorem_2(0.5, n=11_918_162, size=119, strength=1.0):.4g}"
    '3.078e-05'
    """
    _positive(epsilon=epsilon, n=n, size=size, strength=strength)
    return max(size / (strength + n + size - 1.0), 2.0 * size / ((strength + n) * math.expm1(epsilon)))


def largest_size_theorem_2(epsilon: float, delta: float, *, n: int, strength: float) -> int:
    """Return the largest size that Theorem 2 of the paper allows; 0 when it allows none.

    Parameters
    ----------
    epsilon, delta : float
        The budget, both positive.
    n : int
        Number of confidential records.
    strength : float
        ``theta``, positive.

    Notes
    -----
    ``PitmanYor.calibrated`` uses theorem T1, which allows the same at large epsilon and more at small.

    References
    ----------
    PY26, Theorem 2 and section 4.3.

    Examples
    --------
    >>> [largest_size_theorem_2(e, 1e-5, n=11_918_162, strength=1.0) for e in (2.0, 0.5)]
    [119, 38]
    """
    _positive(epsilon=epsilon, delta=delta, n=n, strength=strength)
    beyond = least_integer(lambda m: pitman_yor_theorem_2(epsilon, n=n, size=m, strength=strength) >= delta, 1, 10**10)
    return 10**10 if beyond is None else beyond - 1


def smoothed_histogram_a1(*, n: int, size: int, cells: int, mixing: float) -> float:
    r"""Return the paper's pure epsilon of a smoothed histogram, :math:`m\log\bigl((1-q)k/(nq)+1\bigr)`.

    Parameters
    ----------
    n, size, cells : int
        Number of confidential and of released records, and of cells ``k``.
    mixing : float
        ``q``, in ``(0, 1]``.

    Notes
    -----
    Right, and attained, as a pure epsilon. The library's theorem T5 gives the whole profile: at ``n = 11,918,162``,
    ``m = 12,000,000``, ``k = 300`` and ``q = 0.01`` delta is 8.85e-15 at epsilon 0.5, where this bound is 29,867.

    References
    ----------
    PY26, equation (A.1); ROO25, Theorem 1; Wasserman and Zhou (2010).

    Examples
    --------
    >>> round(smoothed_histogram_a1(n=11_918_162, size=12_000_000, cells=300, mixing=0.01))
    29867
    """
    _positive(n=n, size=size, cells=cells)
    real("mixing", mixing, above=0, most=1)
    return size * math.log1p((1.0 - mixing) * cells / (n * mixing))


def dirichlet_multinomial_a2(epsilon: float, *, size: int) -> float:
    r"""Return the paper's least prior mass of a cell, :math:`\alpha\ge m/(e^\varepsilon-1)`.

    Parameters
    ----------
    epsilon : float
        Positive.
    size : int
        Number of released records.

    Notes
    -----
    Right, and necessary, for delta = 0. The library's theorem T4 gives the whole profile, and ``calibrated`` far
    smaller priors for any positive delta. BNP24 prints ``e^eps + 1`` on one page; it is ``e^eps - 1``.

    References
    ----------
    PY26, equation (A.2); Machanavajjhala et al. (2008).

    Examples
    --------
    >>> round(dirichlet_multinomial_a2(1.0, size=100), 4)
    58.1977
    """
    _positive(epsilon=epsilon, size=size)
    return size / math.expm1(epsilon)


def laplace_histogram_scale(epsilon: float) -> float:
    r"""Return the paper's scale of the Laplace noise on each count, :math:`2/\varepsilon`.

    Parameters
    ----------
    epsilon : float
        Positive.

    Notes
    -----
    The library's discrete noise of this scale has the same pure epsilon, and theorem T6 its whole profile.

    References
    ----------
    PY26, Appendix A.2 (2); Wasserman and Zhou (2010).

    Examples
    --------
    >>> laplace_histogram_scale(0.5)
    4.0
    """
    _positive(epsilon=epsilon)
    return 2.0 / epsilon


def laplace_projection_5(epsilon: float, *, accuracy: float, cells: int) -> float:
    r"""Return the paper's number of records for a Laplace projection sampler, :math:`n'=2k/(\alpha\varepsilon)`.

    Parameters
    ----------
    epsilon : float
        Pure, positive.
    accuracy : float
        ``alpha``: how far in total variation a released record's law may be from that of the confidential records.
    cells : int
        ``k``.

    Notes
    -----
    Enough, and up to twice what is needed: :meth:`LaplaceProjectionSampler.sample_complexity
    <discreet.mechanisms.LaplaceProjectionSampler.sample_complexity>`.

    References
    ----------
    ROO25, equation (5); Raskhodnikova et al. (2021).

    Examples
    --------
    >>> round(laplace_projection_5(0.1, accuracy=0.18, cells=9), 6)
    1000.0
    """
    _positive(epsilon=epsilon, accuracy=accuracy, cells=cells)
    return 2.0 * cells / (accuracy * epsilon)


def stability_histogram_proposition_4_1(epsilon: float, delta: float) -> tuple[float, float]:
    r"""Return the paper's Laplace scale and threshold, in records, of a stability histogram.

    .. math:: \frac2\varepsilon,\qquad \frac{2\log(1/\delta)}\varepsilon+1

    Parameters
    ----------
    epsilon : float
        Positive.
    delta : float
        Between 0 and 1.

    Notes
    -----
    Theorem T8 gives the discrete mechanism with the next integer as its threshold a delta of at most
    ``delta / (1 + e^(-eps/2))``.

    References
    ----------
    PE25, section 4.2 (scale and threshold there are shares: divide by n); Vadhan (2017), Theorem 3.5.

    Examples
    --------
    >>> scale, threshold = stability_histogram_proposition_4_1(1.0, 1e-9)
    >>> scale, round(threshold, 2)
    (2.0, 42.45)
    """
    _positive(epsilon=epsilon, delta=delta)
    return 2.0 / epsilon, 2.0 * math.log(1.0 / delta) / epsilon + 1.0


def signed_measure_algorithm_5(epsilon: float, delta: float) -> float:
    r"""Return the standard deviation, in records, of the noise that the paper adds to the count of every cell.

    .. math:: \frac{\sqrt{\log(1/\delta)}}\varepsilon

    Parameters
    ----------
    epsilon : float
        Positive.
    delta : float
        Between 0 and 1.

    Notes
    -----
    **Not private as stated.** A replaced record moves two counts, an L2 distance of ``sqrt(2)``, so that the Gaussian
    mechanism needs two to four times this variance. The delta that it really has at ``epsilon`` is
    ``Phi(s/2 - epsilon/s) - e^epsilon Phi(-s/2 - epsilon/s)`` with ``s = sqrt(2) epsilon / sqrt(log(1/delta))``: 43
    times the ``1e-4`` of the example. ``SignedMeasure.calibrated`` solves for the least scale that is private.

    References
    ----------
    PE25, Algorithm 5.

    Examples
    --------
    >>> from discreet.privacy import DiscreteGaussianPair
    >>> scale = signed_measure_algorithm_5(1.0, 1e-4)
    >>> f"{scale:.4f}, really {DiscreteGaussianPair(scale=scale).delta(1.0):.2e}"
    '3.0349, really 4.27e-03'
    """
    _positive(epsilon=epsilon, delta=delta)
    return math.sqrt(math.log(1.0 / delta)) / epsilon


def empirical_bayes_strength(n: int, distinct: int) -> float:
    r"""Return the strength that maximises the likelihood of a Dirichlet process, as the thesis chooses it.

    .. math:: \hat\theta=\arg\max_\theta\frac{\theta^{k-1}}{(\theta+1)_{n-1}}

    Parameters
    ----------
    n : int
        Number of records.
    distinct : int
        Number of distinct values ``k``: confidential, and so is the result.

    Returns
    -------
    float
        0 where there is one distinct value, infinity where all are distinct.

    Raises
    ------
    ParameterError
        When a number is out of range.

    Notes
    -----
    It solves ``1 + theta (psi(theta+n) - psi(theta+1)) = k``: the expected number of distinct values is the one found.
    The guarantees of this library assume a strength chosen without looking at the data, so that no mechanism offers
    this; :func:`discreet.audit.paper_choices` gives it as a confidential diagnostic.

    References
    ----------
    BNP24, section 7.1.

    Examples
    --------
    >>> round(empirical_bayes_strength(39_374, 95), 4)
    11.6257
    """
    from scipy.special import psi

    _positive(n=n, distinct=distinct)
    if distinct > n:
        raise ParameterError("there are at most as many distinct values as records")
    if distinct in (1, n):
        return 0.0 if distinct == 1 else math.inf
    low, high = 1e-12, 1e18
    while high / low > 1.0 + 1e-12:
        middle = math.sqrt(low * high)
        if middle * (psi(middle + n) - psi(middle + 1.0)) < distinct - 1:
            low = middle
        else:
            high = middle
    return high


def dirichlet_multinomial_thesis(
    counts: npt.NDArray[np.int64], epsilon: float, *, size: int
) -> npt.NDArray[np.float64]:
    r"""Return the thesis' prior mass of each cell, chosen by the cell's own count.

    .. math:: \alpha_j=\max\left\{10^{-4},\ \frac m{e^\varepsilon-1}-C_j\right\}

    Parameters
    ----------
    counts : ndarray of int64, shape (k,)
        Confidential, and so is the result.
    epsilon : float
        Positive.
    size : int
        Number of released records.

    Notes
    -----
    The masses depend on the data, so the condition ``alpha_j + C_j >= m/(e^eps - 1)`` that they meet (printed with
    ``e^eps + 1`` on one page) is not a guarantee of differential privacy: a neighbour would have been given other
    masses. No mechanism offers them; :func:`discreet.audit.paper_choices` gives them as a confidential diagnostic.

    References
    ----------
    BNP24, section 7.1.

    Examples
    --------
    >>> import numpy as np
    >>> dirichlet_multinomial_thesis(np.array([3, 40]), 1.0, size=20).round(4).tolist()
    [8.6395, 0.0001]
    """
    _positive(epsilon=epsilon, size=size)
    return np.maximum(1e-4, size / math.expm1(epsilon) - np.asarray(counts, dtype=np.float64))


def _positive(**numbers: float) -> None:
    for name, value in numbers.items():
        real(name, value, above=0)
