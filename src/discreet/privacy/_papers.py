"""The papers' own bounds, under the papers' names, to compare with and to reproduce their tables.

None of them is used by a guarantee of this library: the exact profiles replace them.
"""

from __future__ import annotations

import math

from discreet._numeric import least_integer
from discreet.errors import ParameterError

__all__ = [
    "dirichlet_multinomial_a2",
    "laplace_histogram_scale",
    "largest_size_theorem_2",
    "pitman_yor_theorem_2",
    "smoothed_histogram_a1",
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
    _positive(n=n, size=size, cells=cells, mixing=mixing)
    if mixing > 1:
        raise ParameterError(f"mixing is a probability, not {mixing!r}")
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


def _positive(**numbers: float) -> None:
    for name, value in numbers.items():
        if not (math.isfinite(value) and value > 0):
            raise ParameterError(f"{name} is a positive number, not {value!r}")
