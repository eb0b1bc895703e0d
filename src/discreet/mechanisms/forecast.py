"""Forecasts of a release, from public facts and invented tables: numbers and codes, no sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from discreet.domain import Domain


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """The numbers and codes that are known of a release of ``n`` records before anything is drawn.

    Parameters
    ----------
    lost : float
        Share of the released records that carries nothing of the table. It does not fall when the domain gets a further
        column and the mechanism is calibrated anew.
    lost_is : {"expectation", "bound", "prediction"}
        Whether ``lost`` is the expectation for every table; a bound on it for every table; or the expectation for
        tables like a public or an invented one, or under a stated model.
    lost_to : str
        Code of what the records of that share have in common: see ``discreet.wording.LOST_TO``. A mechanism outside the
        library gives its own words, after "of the released records".
    worst : float
        Where ``lost`` is a prediction: a bound on it for every table.
    remedies : tuple of str
        Codes of what would lower ``lost``, were the mechanism calibrated with it: see ``discreet.wording.REMEDIES``.
    released_share : float
        Expected share of the records asked for that are released: below 1 where the kernel drops some.
    pair_scores : tuple of int, int and float, or None
        Number of pairs of columns, number of those that may be measured, and standard deviation of the noise in a
        pair's score, which is a number of records; None where all columns are worked on together.
    stratified : bool
        Whether records are drawn systematically, with less sampling error than independent ones.
    draws : int
        How many draws of ``predictive`` a prediction takes at most.
    slow : bool
        Whether ``predictive`` takes minutes.
    """

    lost: float
    lost_is: Literal["expectation", "bound", "prediction"]
    lost_to: str
    worst: float = 1.0
    remedies: tuple[str, ...] = ()
    released_share: float = 1.0
    pair_scores: tuple[int, int, float] | None = None
    stratified: bool = False
    draws: int = 32
    slow: bool = False

    @property
    def lost_at_most(self) -> float:
        """A bound on the share that is lost, for every table of as many records; 1 where none is known."""
        return self.worst if self.lost_is == "prediction" else self.lost


def helpful(domain: Domain, *remedies: str, **useless: bool) -> tuple[str, ...]:
    """Return those of some remedies that are not useless, as ``cells`` and ``columns`` are where a domain has few."""
    sizes = [column.size for column in domain.columns.values()]
    useless |= {"cells": not any(size is not None and size > 2 for size in sizes), "columns": len(sizes) == 1}
    return tuple(remedy for remedy in remedies if not useless.get(remedy, False))
