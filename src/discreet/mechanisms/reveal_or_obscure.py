"""With probability ``mixing`` a uniform cell, otherwise a record: docs/theory/reveal-or-obscure.md (T5)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from discreet._core.boundary import sealed
from discreet._core.errors import ParameterError, positive_size, real
from discreet._core.numeric import Floats
from discreet.mechanisms.drawn import Mixture


@sealed
@dataclass(frozen=True, kw_only=True)
class RevealOrObscure(Mixture):
    r"""Release ``size`` independent draws, each a uniform cell with probability ``mixing``, otherwise a record.

    Parameters
    ----------
    domain, size, mixing
        As for :class:`SmoothedHistogram`; the mixing ``q`` is the probability of obscuring.

    Raises
    ------
    ParameterError
        When the domain is not finite or a parameter is out of range.

    Notes
    -----
    Guarantee (theorem T5, exact for three cells or more): one draw has pure ``epsilon = log(1 + k (1-q) / (n q))``, the
    paper's Theorem 1; ``m`` draws have ``m`` times that, and the exact profile is far smaller at any positive delta.
    The kernel draws integers only: floating point costs nothing.

    References
    ----------
    ROO25, Algorithm 1, Theorem 1, equations (6) to (8), (19) and (32).

    Examples
    --------
    >>> import math
    >>> from discreet.domain import Domain, Integer
    >>> cells = Domain(columns={"cell": Integer(lower=0, upper=8)})
    >>> mixing = RevealOrObscure.least_mixing(0.1, n=1000, cells=9)
    >>> one = RevealOrObscure(domain=cells, size=1, mixing=mixing)
    >>> round(mixing, 6), round(one.guarantee(n=1000).epsilon(0.0), 9), round(one.accuracy, 6)
    (0.078829, 0.1, 0.07007)
    >>> round(RevealOrObscure.sample_complexity(0.1, accuracy=one.accuracy, cells=9), 3)
    1000.0
    """

    name: ClassVar[str] = "reveal-or-obscure"

    @property
    def accuracy(self) -> float:
        """The paper's ``alpha = q (1 - 1/k)``: a draw's law is this close to the population's in total variation.

        Attained by a population on one cell; each of several draws has it, the draws together do not.
        """
        return self.mixing * (1.0 - 1.0 / self._cells)

    @staticmethod
    def least_mixing(epsilon: float, *, n: int, cells: int) -> float:
        """Return the least ``q`` with which one draw has the pure epsilon, ``1 / (1 + (n/k) (e^eps - 1))``, in (0, 1).

        Parameters
        ----------
        epsilon : float
            Positive.
        n, cells : int
            Numbers of confidential records and of cells.

        References
        ----------
        ROO25, equations (9) and (28).
        """
        return 1.0 / (1.0 + positive_size("n", n) / positive_size("cells", cells) * _expm1(epsilon))

    @staticmethod
    def sample_complexity(epsilon: float, *, accuracy: float, cells: int) -> float:
        """Return how many records, to be rounded up, one draw needs for a pure epsilon and an accuracy.

        ``(k (1 - alpha) - 1) / (alpha (e^eps - 1))``: equation (8) of the paper.

        Parameters
        ----------
        epsilon : float
            Positive.
        accuracy : float
            ``alpha``, in ``(0, 1 - 1/k)``: the distance in total variation between a draw's law and the population's.
        cells : int
            ``k``, at least 2.

        Raises
        ------
        ParameterError
            When a number is out of range.
        """
        k, alpha = positive_size("cells", cells), real("accuracy", accuracy)
        if not 0.0 < alpha < 1.0 - 1.0 / k:
            raise ParameterError(f"accuracy must lie between 0 and 1 - 1/cells, got {alpha!r}")
        return (k * (1.0 - alpha) - 1.0) / alpha / _expm1(epsilon)

    def output_distribution(self, shares: Floats) -> Floats:
        """Return the law of a draw from records of a population, ``(1 - q) P + q / k``: equation (32).

        Parameters
        ----------
        shares : ndarray of float64, shape (k,)
            The population's probabilities ``P`` of all cells, or the shares of a table's records.
        """
        return (1.0 - self.mixing) * np.asarray(shares, dtype=np.float64) + self.mixing / self._cells


def _expm1(epsilon: float) -> float:
    return math.expm1(real("epsilon", epsilon, above=0, most=700))
