"""BNP24: Lazzarini's thesis of the same title as PY26. A rate, and parameters that it takes from the data."""

from __future__ import annotations

import math

import numpy as np

from discreet._core.arrays import Floats, Integers
from discreet._core.boundary import seal
from discreet._core.checks import integer, positive_size
from discreet.papers._ranges import positive, sizes

__all__ = ["dirichlet_multinomial_thesis", "empirical_bayes_strength", "kolmogorov_smirnov_rate"]


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
    this. The command ``discreet privacy --data`` gives it as a confidential diagnostic.

    References
    ----------
    BNP24, section 7.1.

    Examples
    --------
    >>> round(empirical_bayes_strength(39_374, 95), 4)
    11.6257
    """
    from scipy.special import psi

    integer("distinct", distinct, least=1, most=positive_size("n", n))
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


def dirichlet_multinomial_thesis(counts: Integers, epsilon: float, *, size: int) -> Floats:
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
    masses. No mechanism offers them. The command ``discreet privacy --data`` gives their range as a confidential
    diagnostic.

    References
    ----------
    BNP24, section 7.1.

    Examples
    --------
    >>> import numpy as np
    >>> dirichlet_multinomial_thesis(np.array([3, 40]), 1.0, size=20).round(4).tolist()
    [8.6395, 0.0001]
    """
    positive(epsilon=epsilon, size=size)
    return np.maximum(1e-4, size / math.expm1(epsilon) - np.asarray(counts, dtype=np.float64))


def kolmogorov_smirnov_rate(n: float, m: float) -> float:
    r"""Return the rate of the Dirichlet-multinomial release on a public finite domain in Kolmogorov-Smirnov distance.

    .. math:: \mathbb{E} \, \sup_t |F_m(t) - F_0(t)| = O\big(\sqrt{\log m / m}\big) + O(n^{-1/2})

    without its constants: it tells how a measured distance should fall as the sizes grow.

    Parameters
    ----------
    n, m : float
        Numbers of confidential and of released records, at least 1.

    Raises
    ------
    ParameterError
        When a number is out of range.

    Notes
    -----
    The root of the logarithm is not needed: by the inequality of Dvoretzky, Kiefer and Wolfowitz the distance of ``m``
    independent draws from their law has an expectation of at most :math:`\sqrt{\pi / (2 m)}`.

    References
    ----------
    BNP24, Proposition 5.3: records on a line, at least 2 cells, each with a prior mass of at least 2.

    Examples
    --------
    >>> round(kolmogorov_smirnov_rate(10_000, 10_000), 6)
    0.040349
    """
    sizes(n=n, m=m, d=1)
    return math.sqrt(math.log(m) / m) + math.pow(n, -0.5)


seal(globals())
