"""Warnings of an analysis: it goes on, but its numbers should not be read as they stand."""

from __future__ import annotations

from discreet._core.text import counted


class DiscreetWarning(UserWarning):
    """Root of the warnings of this library."""


class NotConverged(DiscreetWarning):
    """Markov chains gave up: their draws are worth less than was asked for, or they do not agree."""


class ReleaseTakenForSample(DiscreetWarning):
    """Released records are analysed as if they were new observations of the population.

    Parameters
    ----------
    released, held : int
        Number of released and of confidential records.
    remedy : str
        What to do instead.

    Attributes
    ----------
    factor : float
        About how many times as wide an interval should be, ``sqrt(1 + 2 m / n)``.
    """

    def __init__(self, released: int, held: int, remedy: str) -> None:
        self.released, self.held = released, held
        self.factor: float = (1.0 + 2.0 * released / held) ** 0.5
        super().__init__(
            f"the release of {counted(released, 'record')} is analysed as if it were a sample of the population, but "
            f"it was drawn from {counted(held, 'confidential record')}: an interval computed from it should be about "
            f"{self.factor:.3g} times as wide. {remedy}"
        )
