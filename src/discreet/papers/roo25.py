"""ROO25: Tasnim, Gilani, Sankar and Kosut, "Reveal-or-Obscure"."""

from __future__ import annotations

from discreet._core.boundary import sealed
from discreet._core.errors import positive

__all__ = ["laplace_projection_5"]


@sealed
def laplace_projection_5(epsilon: float, *, accuracy: float, cells: int) -> float:
    r"""Return the paper's number of records for a Laplace projection sampler, :math:`n'=2k/(\alpha\varepsilon)`.

    The pure epsilon is positive; :math:`\alpha`, the accuracy, says how far in total variation a released record's law
    may be from that of the confidential records; :math:`k` is the number of cells.

    Enough, and up to twice what is needed: :meth:`LaplaceProjectionSampler.sample_complexity
    <discreet.mechanisms.LaplaceProjectionSampler.sample_complexity>`.

    Source: ROO25, equation (5); Raskhodnikova et al. (2021).

    Examples
    --------
    >>> round(laplace_projection_5(0.1, accuracy=0.18, cells=9), 6)
    1000.0
    """
    positive(epsilon=epsilon, accuracy=accuracy, cells=cells)
    return 2.0 * cells / accuracy / epsilon
