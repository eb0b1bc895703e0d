"""Rules that combine the estimates of several released tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from discreet._core.boundary import sealed
from discreet._core.errors import ParameterError, choice, positive_size, real
from discreet._core.lazy import special


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Combined:
    """An estimate and its interval.

    ``estimate``, ``variance``: mean of the estimates, and its estimated variance.
    ``degrees``: degrees of freedom of the t distribution used; infinite for the normal one.
    ``lower``, ``upper``, ``level``: confidence interval, and its probability.
    ``between``, ``within``: variance between the estimates (NaN for one), and mean of their variances.
    ``adjusted``: whether the variance of the rule was too small, or not positive, and that of a sample was used.
    """

    estimate: float
    variance: float
    degrees: float
    lower: float
    upper: float
    level: float
    between: float
    within: float
    adjusted: bool = False


@sealed
def combine(
    estimates: Sequence[float] | npt.NDArray[np.float64],
    variances: Sequence[float] | npt.NDArray[np.float64],
    *,
    kind: Literal["urn", "fully", "partially"],
    size: int | None = None,
    n: int | None = None,
    level: float = 0.95,
) -> Combined:
    r"""Combine estimates from ``M`` released tables.

    With :math:`\bar q` and ``b`` the mean and variance (over ``M - 1``) of the estimates, and :math:`\bar u` the mean
    of their variances, each computed **as if its table were a sample of its own size**:

    * ``"urn"``: posterior-predictive urn releases (Pitman-Yor, Dirichlet-multinomial) of ``size = m`` records each from
      the same ``n`` confidential ones, also a single one, with a prior that weighs little:
      :math:`T=\bar u\,\bigl(\frac mn+\frac1M(1+\frac mn)\bigr)`, normal.
    * ``"fully"``: fully synthetic tables, each from its own posterior draw: :math:`T=(1+\frac1M)b-\bar u` with
      :math:`(M-1)\bigl(1-\bar u/((1+\frac1M)b)\bigr)^2` degrees of freedom. It is at least :math:`\frac mn\bar u`,
      the variance of a sample of ``n`` records, which is taken as normal. Where sizes are unknown, :math:`\bar u` is
      taken if ``T`` is not positive.
    * ``"partially"``: confidential records in which some values were replaced: :math:`T=\bar u+\frac bM` with
      :math:`(M-1)\bigl(1+\bar u/(b/M)\bigr)^2` degrees of freedom.

    Parameters
    ----------
    estimates, variances : sequence of float, shape (M,)
        One per table.
    kind : {"urn", "fully", "partially"}
        How the tables were made.
    size, n : int, optional
        Records of one released table, and confidential ones; needed for "urn".
    level : float
        Probability of the interval.

    Raises
    ------
    ParameterError
        When there are too few tables, or a variance is negative.

    References
    ----------
    Raghunathan, Reiter and Rubin (2003), section 2; Reiter (2002), equation (7), for the adjustment; Reiter (2003),
    section 3; docs/theory/posterior-from-a-release.md for the urn.

    Examples
    --------
    >>> combined = combine([1.0, 2.0, 3.0], [0.3, 0.3, 0.3], kind="partially")
    >>> combined.estimate, round(combined.variance, 6), round(combined.degrees, 6)
    (2.0, 0.633333, 7.22)
    """
    q, u = np.asarray(estimates, dtype=np.float64), np.asarray(variances, dtype=np.float64)
    if q.ndim != 1 or q.shape != u.shape or not len(q) or not (np.isfinite(q).all() and np.isfinite(u).all()):
        raise ParameterError("give one finite estimate and one finite variance per table")
    if u.min() < 0.0:
        raise ParameterError("variances must be at least 0")
    real("level", level, above=0, below=1)
    choice("kind", kind, ("urn", "fully", "partially"))
    count, variance_within = len(q), float(u.mean())
    variance_between = float(q.var(ddof=1)) if count > 1 else math.nan
    adjusted, degrees, share = False, math.inf, None
    if size is not None and n is not None and kind != "partially":
        share = positive_size("size", size) / positive_size("n", n)
    if kind == "urn":
        if share is None:
            raise ParameterError("the urn's rule needs the numbers of released and held records. Give size and n")
        variance = variance_within * (share + (1.0 + share) / count)
    elif count < 2:
        raise ParameterError("this rule needs several tables. For one urn release take kind='urn'")
    elif kind == "fully":
        spread = (1.0 + 1.0 / count) * variance_between
        variance = spread - variance_within
        adjusted = variance <= (share or 0.0) * variance_within
        if adjusted:
            variance = variance_within * (share or 1.0)
        else:
            degrees = (count - 1) * (1.0 - variance_within / spread) ** 2
    else:
        variance = variance_within + variance_between / count
        if variance_between > 0.0:
            degrees = (count - 1) * (1.0 + variance_within / (variance_between / count)) ** 2
    upper, centre = (1.0 + level) / 2.0, float(q.mean())
    quantile = special.ndtri(upper) if math.isinf(degrees) else special.stdtrit(max(degrees, 1e-3), upper)
    reach = float(quantile) * math.sqrt(variance)
    numbers = {"variance": variance, "between": variance_between, "within": variance_within}
    interval = {"lower": centre - reach, "upper": centre + reach, "level": level}
    return Combined(estimate=centre, **numbers, degrees=degrees, **interval, adjusted=adjusted)
