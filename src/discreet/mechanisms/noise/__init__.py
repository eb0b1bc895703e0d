"""Laws of discrete noise, one per file: exact draws, probabilities, and the privacy profile of counts that have it.

A law is added by its file and its line here; every mechanism of noisy counts, its calibration, its prediction and its
posterior then know it.
"""

from __future__ import annotations

from discreet._core.checks import choice
from discreet.mechanisms.noise._law import NoiseLaw
from discreet.mechanisms.noise.gaussian import GAUSSIAN
from discreet.mechanisms.noise.laplace import LAPLACE

__all__ = ["GAUSSIAN", "LAPLACE", "LAWS", "NoiseLaw", "law_named"]

LAWS: dict[str, NoiseLaw] = {law.name: law for law in (LAPLACE, GAUSSIAN)}
"""Laws by their public names."""


def law_named(name: object) -> NoiseLaw:
    """Return the law of a name.

    Raises
    ------
    ParameterError
        When there is none.
    """
    return LAWS[choice("noise", name, LAWS)]
