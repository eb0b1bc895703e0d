r"""Rates at which a release approaches the truth in Wasserstein-1 distance, as the theory states them. Public.

Each function returns the expression inside the :math:`O(\cdot)` of a theorem, without its constant: it tells how a
measured distance should fall as the sizes grow, not how large it is. Nothing here reads data.

``n`` is the number of confidential records, ``m`` of released ones, ``d`` the dimension of the records.
"""

from __future__ import annotations

import math

from discreet._checks import integer, real
from discreet.errors import ParameterError

__all__ = [
    "dirichlet_multinomial_rate",
    "dirichlet_process_rate",
    "empirical_rate",
    "private_evolution_rate",
    "vanishing_delta_rate",
]


def empirical_rate(n: float, d: int, *, moment: float = math.inf) -> float:
    r"""Return the rate of the empirical distribution of ``n`` independent records.

    .. math::

        \mathbb{E} \, W_1(e_n, p_0) = O\Big( n^{-(q-1)/q} +
        \begin{cases} n^{-1/2} & d = 1 \\ n^{-1/2} \log(1 + n) & d = 2 \\ n^{-1/d} & d > 2 \end{cases} \Big)

    for a law with a finite moment of order ``q`` (the first term is absent for bounded records).

    Parameters
    ----------
    n : float
        Number of records, at least 1.
    d : int
        Dimension, at least 1.
    moment : float
        ``q``, above 1; infinite for bounded records. Not 2 where d is 1 or 2, and not d / (d - 1) above: the theorem
        leaves these out.

    Returns
    -------
    float
        The rate, without its constant.

    Raises
    ------
    ParameterError
        If a parameter is outside the theorem.

    References
    ----------
    Fournier and Guillin (2015), theorem 1 with p = 1; PY26 theorem A.1.

    Examples
    --------
    >>> empirical_rate(10_000, 1)
    0.01
    >>> round(empirical_rate(1_000_000, 3), 12)
    0.01
    """
    _check(n=n, d=d)
    real("moment", moment, above=1, infinite=True)
    left_out = 2.0 if d <= 2 else d / (d - 1)
    if moment == left_out:
        raise ParameterError(f"the theorem leaves out moment {moment:g} in dimension {d}; take a smaller one")
    tail = 0.0 if math.isinf(moment) else math.pow(n, -(moment - 1) / moment)
    spread = math.pow(n, -1 / max(d, 2))
    return spread * (math.log1p(n) if d == 2 else 1.0) + tail


def dirichlet_multinomial_rate(n: float, m: float, d: int) -> float:
    r"""Return the rate of the Dirichlet-multinomial release on a public finite domain.

    .. math:: \mathbb{E} \, W_1(e_m, p_0) = O(n^{-1/2}) + O(r_d(m)),

    with :math:`r_d` the :func:`empirical_rate` in dimension ``d``. On a fixed finite set of cells the posterior mean
    converges at the parametric rate whatever the dimension, so the first term has no ``d``.

    Parameters
    ----------
    n, m : float
        Numbers of confidential and of released records, at least 1.
    d : int
        Dimension, at least 1.

    Returns
    -------
    float
        The rate, without its constants.

    Raises
    ------
    ParameterError
        If a parameter is out of range.

    References
    ----------
    PY26 theorem 3: at least 2 categories, each with a prior mass of at least 2.

    Examples
    --------
    >>> dirichlet_multinomial_rate(10_000, 100, 1)
    0.11
    """
    _check(n=n, d=d, m=m)
    return math.pow(n, -0.5) + empirical_rate(m, d)


def dirichlet_process_rate(n: float, m: float, d: int) -> float:
    r"""Return the rate of the Dirichlet process release of bounded records.

    .. math:: \mathbb{E} \, W_1(e_m, p_0) = O(r_d(m)) + O(r_d(n)),

    with :math:`r_d` the :func:`empirical_rate` in dimension ``d``. With ``m`` proportional to ``n``, as for a fixed
    delta, it is :math:`O(r_d(n))`, the minimax rate (Corollary 3): nothing is lost but a constant.

    Parameters
    ----------
    n, m : float
        Numbers of confidential and of released records, at least 1.
    d : int
        Dimension, at least 1.

    Returns
    -------
    float
        The rate, without its constants.

    Raises
    ------
    ParameterError
        If a parameter is out of range.

    References
    ----------
    PY26 theorem 4 and corollary 3.

    Examples
    --------
    >>> dirichlet_process_rate(10_000, 100, 1)
    0.11
    """
    _check(n=n, d=d, m=m)
    return empirical_rate(m, d) + empirical_rate(n, d)


def vanishing_delta_rate(n: float, d: int, *, published: bool = False) -> float:
    r"""Return the rate of the Dirichlet process release with :math:`m = n / \log n`, for which delta vanishes.

    .. math::

        \mathbb{E} \, W_1(e_m, p_0) = \begin{cases} O(n^{-1/2} (\log n)^{1/2}) & d = 1 \\
        O(n^{-1/2} (\log n)^{3/2}) & d = 2 \\ O(n^{-1/d} (\log n)^{1/d}) & d > 2 \end{cases}

    PY26 prints :math:`n^{-1/2} \log n` for ``d = 1``, which is loose by a root of the logarithm: theorem 4 gives
    :math:`m^{-1/2} = n^{-1/2} (\log n)^{1/2}` directly. The other two cases follow from theorem 4 as printed.

    Parameters
    ----------
    n : float
        Number of confidential records, above 1.
    d : int
        Dimension, at least 1.
    published : bool
        Give the formula as printed.

    Returns
    -------
    float
        The rate, without its constant.

    Raises
    ------
    ParameterError
        If a parameter is out of range.

    References
    ----------
    PY26 corollary 4.

    Examples
    --------
    >>> import math
    >>> vanishing_delta_rate(math.e**4, 1) * math.e**2
    2.0
    >>> vanishing_delta_rate(math.e**4, 1, published=True) * math.e**2
    4.0
    """
    _check(n=n, d=d)
    real("n", n, above=1)
    power = {1: 1.0 if published else 0.5, 2: 1.5}.get(d, 1 / d)
    return math.pow(n, -1 / max(d, 2)) * math.pow(math.log(n), power)


def private_evolution_rate(
    n: float, d: int, *, epsilon: float, delta: float, diameter: float = 1.0, published: bool = False
) -> float:
    r"""Return the rate of Private Evolution with Gaussian noise, up to powers of logarithms.

    .. math:: \mathbb{E} \, W_1(\mu_S, \mu_{S_T}) = \tilde O\bigg( d D \Big( \frac{\sqrt{\log(n \varepsilon /
        \sqrt{\log(1/\delta)}) \, \log(1/\delta)}}{n \varepsilon} \Big)^{1/\max(d, 2)} \bigg).

    PE25 prints the exponent :math:`1/d`. The proof arrives at :math:`1/\max(d, 2)` and replaces it by :math:`1/d` in
    its last line, which for ``d = 1`` does not follow: the released set of :math:`n_s \approx 1/\sigma` points alone
    is :math:`\sigma^{1/2}` away from what it is drawn from.

    Parameters
    ----------
    n : float
        Number of confidential records, with :math:`n \varepsilon > e \sqrt{\log(1/\delta)}`.
    d : int
        Dimension, at least 1.
    epsilon, delta : float
        The budget, each above 0 and below 1, as in the theorem.
    diameter : float
        ``D``, of the sample space, in the unit of the distance.
    published : bool
        Give the formula as printed.

    Returns
    -------
    float
        The rate, without its constant and logarithms.

    Raises
    ------
    ParameterError
        If a parameter is out of range.

    References
    ----------
    PE25 theorem 4.1 and its proof (appendix E).

    Examples
    --------
    >>> rates = [private_evolution_rate(n, 2, epsilon=0.5, delta=1e-4) for n in (10_000, 1_000_000)]
    >>> round(rates[0] / rates[1], 2)  # a hundred times the records: less than ten times nearer, for the logarithm
    8.86
    """
    _check(n=n, d=d)
    real("epsilon", epsilon, above=0, below=1)
    real("diameter", diameter, above=0)
    tail = math.log(1 / real("delta", delta, above=0, below=1))
    strength = n * epsilon / math.sqrt(tail)
    if strength <= math.e:
        raise ParameterError("n times epsilon is too small for the theorem")
    noise = math.sqrt(math.log(strength) * tail) / (n * epsilon)
    return d * diameter * math.pow(noise, 1 / (d if published else max(d, 2)))


def _check(*, n: float, d: int, m: float = 1) -> None:
    for name, value in (("n", n), ("m", m)):
        real(name, value, least=1)
    integer("d", d, least=1)
