"""Statistics across several synthetic tables: resampling distributions and their Wasserstein barycentre."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Floats
from discreet._core.errors import ParameterError


def barycentre(samples: Sequence[npt.ArrayLike], *, size: int = 1000) -> Floats:
    r"""Return the Wasserstein-2 barycentre of distributions on the line: the average of their quantiles.

    :math:`\bar F^{-1}(u)=\frac1m\sum_jF_j^{-1}(u)` (PP22, section 5.2; Srivastava, Cevher, Dinh and Dunson, 2015).
    Raises ParameterError when there is no sample, or an empty one.

    ``samples``: one sample per distribution.
    ``size``: how many quantiles, at levels ``(i + 1/2) / size``.
    Returns, shape (size,): the barycentre's quantiles, increasing.

    Examples
    --------
    >>> barycentre([[0.0, 1.0], [10.0, 13.0]], size=2).tolist()
    [5.0, 7.0]
    """
    parts = [np.asarray(sample, dtype=np.float64).ravel() for sample in samples]
    if not parts or min(map(len, parts)) == 0 or size < 1:
        raise ParameterError("a barycentre needs at least one sample, none of them empty, and a size of at least 1")
    levels = (np.arange(size) + 0.5) / size
    return np.asarray(np.mean([np.quantile(part, levels, method="inverted_cdf") for part in parts], axis=0))


def resampled(
    values: npt.ArrayLike, statistic: Callable[[Floats], float], *, rng: np.random.Generator, resamples: int = 500
) -> Floats:
    """Return a statistic of samples drawn with replacement: its resampling distribution.

    ``values``, shape (n,): one column of one table.
    ``statistic``: Takes as many values and returns a number.
    ``rng``: source of the samples.
    ``resamples``: how many.
    """
    x = np.asarray(values, dtype=np.float64)
    return np.array([float(statistic(x[rng.integers(len(x), size=len(x))])) for _ in range(resamples)])


def across_tables(
    tables: Sequence[npt.ArrayLike],
    statistic: Callable[[Floats], float],
    *,
    rng: np.random.Generator,
    resamples: int = 500,
    size: int = 500,
) -> Floats:
    """Return the barycentre of a statistic's resampling distributions in several tables, as in PP22's Figures 5 to 7.

    Parameters
    ----------
    tables : sequence of array_like of float
        The same column of each table.
    statistic, rng, resamples
        As for :func:`resampled`.
    size : int
        As for :func:`barycentre`.
    """
    return barycentre([resampled(t, statistic, rng=rng, resamples=resamples) for t in tables], size=size)
