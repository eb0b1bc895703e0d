"""Warnings: the work goes on, but its numbers should not be read as they stand."""

from __future__ import annotations

from discreet._core.text import about, counted


class DiscreetWarning(UserWarning):
    """Root of the warnings of this library."""


class ReleaseTakenForSample(DiscreetWarning):
    """Released records are, or may be, analysed as if they were new observations of the population.

    Parameters
    ----------
    released, held : int
        Number of released and of confidential records.
    remedy : str
        What to do instead.
    factor : float, optional
        About how many times as wide an interval should be, ``sqrt(1 + 2 m / n)`` by default: that of an urn.
    """

    def __init__(self, released: int, held: int, remedy: str, *, factor: float | None = None) -> None:
        self.released, self.held = released, held
        self.factor: float = (1.0 + 2.0 * released / held) ** 0.5 if factor is None else factor
        super().__init__(
            f"the release of {counted(released, 'record')} is no sample of the population, since it was drawn from "
            f"{counted(held, 'confidential record')}: an interval computed from it as from a sample should be about "
            f"{about(self.factor)} times as wide. {remedy}"
        )
