"""BNP24: Lazzarini's thesis of the same title as PY26. A rate, its criterion, and parameters taken from the data.

``epsilon`` is positive, as is ``size``, the number of released records. ``strength``, positive, and ``discount``, from
0 to below 1, are those of the Pitman-Yor process. ``frequencies``, shape (j,), says how often each value is held, at
least 2. All raise :class:`~discreet.errors.ParameterError` when a number is out of range, or shapes do not belong
together.
"""

from __future__ import annotations

import math

import numpy as np

from discreet._core.boundary import sealed
from discreet._core.errors import integer, positive, positive_size, real, sizes
from discreet._core.lazy import special
from discreet._core.numeric import Booleans, Floats, Integers, least_real
from discreet.errors import ParameterError

__all__ = [
    "dirichlet_multinomial_thesis", "empirical_bayes_strength", "kolmogorov_smirnov_rate", "proposition_4_2",
    "theorem_4_1",
]  # fmt: skip


@sealed
def empirical_bayes_strength(n: int, distinct: int) -> float:
    r"""Return the strength that maximises the likelihood of a Dirichlet process, as the thesis chooses it.

    .. math:: \hat\theta=\arg\max_\theta\frac{\theta^{k-1}}{(\theta+1)_{n-1}}

    for ``n`` records of ``k`` distinct values: confidential, and so is the result. It is 0 where there is one distinct
    value, and infinity where all are distinct.

    It solves ``1 + theta (psi(theta+n) - psi(theta+1)) = k``: the expected number of distinct values is the one found.
    The guarantees of this library assume a strength chosen without looking at the data, so that no mechanism offers
    this. The command ``discreet privacy --data`` gives it as a confidential diagnostic.

    Source: BNP24, section 7.1.

    Examples
    --------
    >>> round(empirical_bayes_strength(39_374, 95), 4)
    11.6257
    """
    integer("distinct", distinct, least=1, most=positive_size("n", n))
    if distinct == 1:
        return 0.0
    if distinct == n:
        return math.inf
    top = float(n) ** 2
    psi = special.psi
    return least_real(lambda t: distinct - 1 - t * (psi(t + n) - psi(t + 1.0)), 1e-12, top, relative=1e-12) or top


@sealed
def dirichlet_multinomial_thesis(counts: Integers, epsilon: float, *, size: int) -> Floats:
    r"""Return the thesis' prior mass of each cell, chosen by the cell's own count.

    .. math:: \alpha_j=\max\left\{10^{-4},\ \frac m{e^\varepsilon-1}-C_j\right\}

    for confidential counts, shape (k,); so is the result.

    The masses depend on the data, so the condition ``alpha_j + C_j >= m/(e^eps - 1)`` that they meet (printed with
    ``e^eps + 1`` on one page) is not a guarantee of differential privacy: a neighbour would have been given other
    masses. No mechanism offers them. The command ``discreet privacy --data`` gives their range as a confidential
    diagnostic.

    Source: BNP24, section 7.1.

    Examples
    --------
    >>> import numpy as np
    >>> dirichlet_multinomial_thesis(np.array([3, 40]), 1.0, size=20).round(4).tolist()
    [8.6395, 0.0001]
    """
    positive(epsilon=epsilon, size=size)
    return np.maximum(1e-4, size / math.expm1(epsilon) - np.asarray(counts, dtype=np.float64))


@sealed
def kolmogorov_smirnov_rate(n: float, m: float) -> float:
    r"""Return the rate of the Dirichlet-multinomial release on a public finite domain in Kolmogorov-Smirnov distance.

    .. math:: \mathbb{E} \, \sup_t |F_m(t) - F_0(t)| = O\big(\sqrt{\log m / m}\big) + O(n^{-1/2})

    without its constants: it tells how a measured distance should fall as the numbers of confidential and of released
    records grow, at least 1 each.

    The root of the logarithm is not needed: by the inequality of Dvoretzky, Kiefer and Wolfowitz the distance of ``m``
    independent draws from their law has an expectation of at most :math:`\sqrt{\pi / (2 m)}`.

    Source: BNP24, Proposition 5.3: records on a line, at least 2 cells, each with a prior mass of at least 2.

    Examples
    --------
    >>> round(kolmogorov_smirnov_rate(10_000, 10_000), 6)
    0.040349
    """
    sizes(n=n, m=m, d=1)
    return math.sqrt(math.log(m) / m) + math.pow(n, -0.5)


@sealed
def theorem_4_1(
    frequencies: Integers,
    drawn: Integers,
    new: Integers,
    epsilon: float,
    *,
    strength: float,
    discount: float = 0.0,
    density: tuple[float, float] = (1.0, 1.0),
) -> Booleans:
    r"""Return for which releases the thesis' criterion holds: a density ratio in bounds for all its neighbours at once.

    With :math:`j` confidential values held :math:`n_i` times, of which a release has :math:`S_i` (a row of ``drawn``),
    and :math:`K` new values that it has :math:`S_{j+h}` times (a row of ``new``, 0 where it has fewer of them),
    :math:`r_i=\frac{n_i-1-\sigma}{n_i+S_i-1-\sigma}`, and the least and the largest ``density``
    :math:`C_1, C_2` of the base measure, 1 where it is uniform on a unit cube:

    .. math::
        S_i\le(e^\varepsilon-1)(n_i-1-\sigma),\quad
        \tfrac{\theta+(j+K)\sigma}{\theta+j\sigma}\,r_i\in[e^{-\varepsilon},e^\varepsilon],\quad
        \tfrac{S_{j+h}-\sigma}{(\theta+j\sigma)C_1}\max_ir_i\le e^\varepsilon,\quad
        \tfrac{S_{j+h}-\sigma}{(\theta+j\sigma)C_2}\min_ir_i\ge e^{-\varepsilon}

    The thesis takes the share of releases for which it does not hold as :math:`\delta`. The result, shape (releases,),
    and any share of it are confidential. With a discount of 0 it is the thesis' Corollary 4.1.

    **It guarantees nothing.** It compares the probability of a repeated value with the density of a new one. So it
    never tells apart a neighbour with a value that nobody else holds, though any release of this value gives it away.
    And the neighbours of which it asks most depend on the release. For the exact :math:`\delta` see
    :class:`discreet.mechanisms.PitmanYor`. The thesis prints the interval with its ends exchanged.

    Source: BNP24, Theorem 4.1 and Corollary 4.1, equation (16).

    Examples
    --------
    One value held 3 times, another twice; a release that has them 2 times and once, and one new value.

    >>> import numpy as np
    >>> held, drawn, new = np.array([3, 2]), np.array([[2, 1]]), np.array([[1]])
    >>> [theorem_4_1(held, drawn, new, epsilon, strength=1.0).tolist() for epsilon in (0.6, 0.7)]
    [[False], [True]]
    """
    positive(epsilon=epsilon, strength=strength, least_density=density[0], largest_density=density[1])
    real("discount", discount, least=0, below=1)
    n, s, t = (np.asarray(part, dtype=np.float64) for part in (frequencies, drawn, new))
    if n.ndim != 1 or not n.size or n.min() < 2 or s.ndim != 2 or s.shape[1:] != n.shape or t.shape[:1] != s.shape[:1]:
        raise ParameterError(
            "frequencies must be at least 2, drawn must have a column for each of them, and new a row for each of drawn"
        )
    base, high = n - 1 - discount, math.exp(epsilon)
    mass = strength + n.size * discount
    ratio = base / (base + s)
    growth = ((mass + (t > 0).sum(axis=1) * discount) / mass)[:, None] * ratio
    maximum = (t - discount).max(axis=1, initial=-math.inf) / (mass * density[0]) * ratio.max(axis=1)
    minimum = np.where(t > 0, t - discount, math.inf).min(axis=1, initial=math.inf)
    return np.asarray(
        (s <= math.expm1(epsilon) * base).all(axis=1)
        & ((growth >= 1 / high) & (growth <= high)).all(axis=1)
        & (maximum <= high)
        & (minimum / (mass * density[1]) * ratio.min(axis=1) >= 1 / high)
    )


@sealed
def proposition_4_2(
    frequencies: Integers, epsilon: float, *, size: int, strength: float, discount: float = 0.0
) -> float:
    r"""Return the thesis' :math:`\delta` for the release of an urn histogram, exactly.

    .. math:: 1-\Pr\Big[\bigcap_i\{S_i\le(e^\varepsilon-1)(n_i-1-\sigma)\}\Big]

    The thesis estimates it from 10,000 releases. Here it is a coefficient of a product of truncated power series; it is
    confidential, as the frequencies are.

    The criterion is one-sided: it asks nothing of values that are released too seldom. For the exact :math:`\delta` see
    :class:`discreet.mechanisms.UrnHistogram`.

    Source: BNP24, Proposition 4.2.

    Examples
    --------
    One value held twice, strength 1: a record is a new value with probability 1/3, so one drawn record repeats it with
    2/3, which is once too often for ``epsilon`` below ``log 2``.

    >>> import numpy as np
    >>> round(proposition_4_2(np.array([2]), 0.6, size=1, strength=1.0), 12)
    0.666666666667
    >>> proposition_4_2(np.array([2]), 0.7, size=1, strength=1.0)
    0.0
    """
    positive(epsilon=epsilon, strength=strength)
    real("discount", discount, least=0, below=1)
    positive_size("size", size)
    n = np.asarray(frequencies, dtype=np.int64)
    if n.ndim != 1 or not n.size or n.min() < 2:
        raise ParameterError("frequencies must be a list of numbers that are at least 2")
    mass, total = strength + len(n) * discount, strength + float(n.sum())
    s, shift = np.arange(size + 1, dtype=np.float64), size / total  # weights that keep the numbers in range, and cancel

    def series(a: float, maximum: float) -> Floats:
        gammaln = special.gammaln
        logs = gammaln(a + s) - gammaln(a) - gammaln(s + 1) + s * math.log(shift / (1 + shift)) - a * math.log1p(shift)
        return np.where(s <= maximum, np.exp(logs), 0.0)

    product = series(mass, size)
    for r in n:
        product = np.convolve(product, series(r - discount, math.expm1(epsilon) * (r - 1 - discount)))[: size + 1]
    return float(max(0.0, 1.0 - product[size] / series(total, size)[size]))
