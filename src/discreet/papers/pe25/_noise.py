r"""PE25's noise and threshold on a histogram, and its rate."""

from __future__ import annotations

import math

from discreet._core.checks import real
from discreet._core.errors import ParameterError
from discreet.papers._ranges import positive, sizes


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
    positive(epsilon=epsilon)
    real("delta", delta, above=0, below=1)
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
    positive(epsilon=epsilon)
    real("delta", delta, above=0, below=1)
    return math.sqrt(math.log(1.0 / delta)) / epsilon


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

    References
    ----------
    PE25 theorem 4.1 and its proof (appendix E).

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
