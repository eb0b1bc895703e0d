"""Laplace noise, then the nearest in L1: docs/theory/laplace-projection-sampler.md (T6)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

from discreet._core.boundary import sealed
from discreet._core.errors import positive_size, real
from discreet.mechanisms.noise import LAPLACE
from discreet.mechanisms.noisy_counts import NoisyCounts, projection_error


@sealed
@dataclass(frozen=True, kw_only=True)
class LaplaceProjectionSampler(NoisyCounts):
    r"""Add discrete Laplace noise to every count, project onto the simplex in L1, and draw any number of records.

    Parameters
    ----------
    domain, records, scale, sampling
        As for :class:`PerturbedHistogram` with Laplace noise; the scale is ``2 / epsilon`` for pure epsilon.

    Raises
    ------
    ParameterError
        When the domain is not finite or too large, or a parameter is out of range.

    Notes
    -----
    Guarantee (theorem T6, exact for groups too): that of discrete Laplace noise on two cells, pure ``2 / scale``. The
    projection and the draws are post-processing. Of the many L1 projections this takes the one that leaves the largest
    cells their shares.

    References
    ----------
    Raskhodnikova, Sivakumar, Smith and Swanberg (2021); ROO25, section II and equation (5).

    Examples
    --------
    >>> from discreet.domain import Domain, Integer
    >>> cells = Domain(columns={"cell": Integer(lower=0, upper=8)})
    >>> mechanism = LaplaceProjectionSampler(domain=cells, records=1000, scale=20.0)
    >>> round(mechanism.guarantee(n=1000).epsilon(0.0), 6), round(mechanism.accuracy, 4)
    (0.1, 0.1324)
    """

    name: ClassVar[str] = "laplace-projection-sampler"

    noise: str = field(default="laplace", init=False)

    @property
    def accuracy(self) -> float:
        """A bound on the total variation between one released record's law and that of the confidential records.

        ``(k E|Z| + sqrt(k) s) / (2n)`` with the noise's mean absolute value and standard deviation, for independent
        confidential records; at small epsilon ``(k + sqrt(2k)) / (n epsilon)``.
        """
        return projection_error(LAPLACE, self.scale, cells=self.cells.count, total=self.records)

    @staticmethod
    def sample_complexity(epsilon: float, *, accuracy: float, cells: int) -> float:
        """Return how many confidential records, to be rounded up, give an accuracy at a pure epsilon.

        ``(k E|Z| + sqrt(k) s) / (2 alpha)``. The paper's is ``2k / (alpha epsilon)``, larger for every ``k >= 2``:
        :func:`~discreet.papers.roo25.laplace_projection_5`.

        Parameters
        ----------
        epsilon : float
            At least 1e-150.
        accuracy : float
            ``alpha``, in ``(0, 1)``: see :attr:`accuracy`.
        cells : int
            ``k``.

        Raises
        ------
        ParameterError
            When a number is out of range.

        Examples
        --------
        >>> round(LaplaceProjectionSampler.sample_complexity(0.1, accuracy=0.18, cells=9), 1)
        735.5
        """
        alpha, epsilon = real("accuracy", accuracy, above=0, below=1), real("epsilon", epsilon, least=1e-150)
        k, scale = positive_size("cells", cells), 2.0 / epsilon
        return 0.5 * (k * LAPLACE.mean_absolute(scale) + math.sqrt(k) * LAPLACE.standard_deviation(scale)) / alpha
