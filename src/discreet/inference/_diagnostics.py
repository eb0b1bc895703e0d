r"""How many independent draws a set of chains is worth, and whether the chains agree.

Split chains, rank-normalised. With within-chain variance :math:`W` and between-chain variance :math:`B` of ``M`` half
chains of ``N`` draws, :math:`\widehat{var}^+ = (N-1)W/N + B/N`, :math:`\hat R = \sqrt{\widehat{var}^+/W}`, and with the
combined autocorrelations :math:`\hat\rho_t` summed over Geyer's initial monotone positive pairs, the first of the next
pair once, :math:`ESS = MN / (2\sum_t \hat\rho_t - 1)`. The numbers are those of Stan and ArviZ.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Floats
from discreet._core.errors import ParameterError


def effective_sample_size(chains: npt.ArrayLike, *, ranked: bool = True) -> float:
    """Return the effective sample size of draws, for their mean; by ranks ("bulk") unless told otherwise.

    ``chains``, shape (chains, draws): draws of one number.
    ``ranked``: Replace draws by the normal scores of their ranks first, which heavy tails need.
    Returns: at most ``draws log10(draws)``; the number of draws where they are all equal.

    References
    ----------
    Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), sections 3 and 4; Geyer (1992).

    Examples
    --------
    >>> effective_sample_size([[0.0, 1.0] * 50])  # antithetic draws are worth more than independent ones
    200.0
    """
    x = _split(np.asarray(chains, dtype=np.float64))
    total = x.size
    if x.shape[1] < 4 or np.ptp(x) == 0.0:
        return float(total)
    if ranked:
        x = _normal_scores(x)
    count, length = x.shape
    centred = x - x.mean(axis=1, keepdims=True)
    size = 1 << (2 * length - 1).bit_length()
    spectrum = np.fft.rfft(centred, n=size, axis=1)
    covariances = np.fft.irfft(np.abs(spectrum) ** 2, n=size, axis=1)[:, :length] / length
    within = float((covariances[:, 0] * length / (length - 1)).mean())
    plus = within * (length - 1) / length + (float(x.mean(axis=1).var(ddof=1)) if count > 1 else 0.0)
    correlations = 1.0 - (within - covariances.mean(axis=0)) / plus
    correlations[0] = 1.0
    pairs = correlations[: (length - 1) // 2 * 2].reshape(-1, 2).sum(axis=1)
    end = int(np.append(np.flatnonzero(pairs <= 0.0), len(pairs) - 1)[0])  # of this pair, the first counts once
    first = float(correlations[2 * end])
    kept = np.minimum.accumulate(pairs[:end])
    time = 2.0 * float(kept.sum()) - 1.0 + (first if pairs[end] >= 0.0 else max(first, 0.0))
    return float(total / max(time, 1.0 / math.log10(total)))


def r_hat(chains: npt.ArrayLike) -> float:
    """Return the rank-normalised split R-hat, the larger of location and scale: 1 where the chains agree.

    ``chains``, shape (chains, draws): draws of one number.

    References
    ----------
    Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), section 4.

    Examples
    --------
    >>> r_hat([[0.0, 1.0] * 50, [10.0, 11.0] * 50]) > 1.1
    True
    """
    x = _split(np.asarray(chains, dtype=np.float64))
    if np.ptp(x) == 0.0:
        return 1.0
    return max(_r_hat(_normal_scores(x)), _r_hat(_normal_scores(np.abs(x - np.median(x)))))


def _r_hat(x: Floats) -> float:
    length = x.shape[1]
    within = float(x.var(axis=1, ddof=1).mean())
    if within == 0.0:
        return 1.0 if np.ptp(x.mean(axis=1)) == 0.0 else math.inf
    between = float(x.mean(axis=1).var(ddof=1))
    return math.sqrt((within * (length - 1) / length + between) / within)


def _split(x: Floats) -> Floats:
    """Cut each chain in halves, so that a drift shows as disagreement."""
    if x.ndim != 2 or not x.size or not np.isfinite(x).all():
        raise ParameterError("chains must be finite numbers, one row per chain")
    half = x.shape[1] // 2
    return np.concatenate((x[:, :half], x[:, x.shape[1] - half :])) if half >= 2 else x


def _normal_scores(x: Floats) -> Floats:
    from scipy.special import ndtri
    from scipy.stats import rankdata

    ranks = rankdata(x, method="average").reshape(x.shape)
    return np.asarray(ndtri((ranks - 0.375) / (x.size + 0.25)), dtype=np.float64)
