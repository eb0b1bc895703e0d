"""Numbers and codes for planning and publishing: traits of a class of mechanisms, and forecasts of releases."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from discreet._core.boundary import sealed
from discreet.domain import Domain
from discreet.privacy import RelationName


@sealed
@dataclass(frozen=True, kw_only=True)
class Traits:
    """Facts of a class, whatever its parameters. A subclass may write ``replace(Base.traits, random_size=True)``.

    Parameters
    ----------
    free : tuple of str
        Parameters that ``calibrated`` can solve for, the preferred one first.
    theorem : str
        Id of the theorem of its guarantee, where other classes share the guarantee's code but not the theorem.
    relations : tuple of str
        Between which tables it has a theorem.
    keeps_declared : bool
        Whether what it releases always agrees with the domain's ``impossible``, ``implies`` and ``totals``. Others are
        refused on a domain that declares any.
    needs_cells, cells_cost : bool
        Whether the domain has to be finite; whether the guarantee depends on the number of cells.
    cells_each : int or None
        Cells that each continuous column gets where none are declared, if its error does not depend on their product.
    least_columns, most_columns : int
        Numbers of columns from which on, and up to which, a plan considers it.
    tried_out : bool
        Whether calibration tries many settings out, so that a plan for a wide table leaves it to be asked for by name.
    counts : bool
        Whether it can release a table of counts in place of records.
    random_size : bool
        Whether the kernel may release fewer records than asked for.
    leaves_out : bool
        Whether rare records are left out. No public number tells how many these are.
    verbatim, distinct : bool
        Whether released records are confidential records themselves, where the domain is continuous or open; whether
        none of these is drawn twice.
    one_step_instead : str
        For a mechanism in steps: registry name of a mechanism of one step, to compare predictions with.
    randomness : str
        Where the randomness of a release comes from: a key of ``discreet.wording.RANDOMNESS``.
    """

    free: tuple[str, ...]
    theorem: str = ""
    relations: tuple[RelationName, ...] = ("replacement",)
    keeps_declared: bool = False
    needs_cells: bool = True
    cells_cost: bool = True
    cells_each: int | None = None
    least_columns: int = 1
    most_columns: float = math.inf
    tried_out: bool = False
    counts: bool = False
    random_size: bool = False
    leaves_out: bool = False
    verbatim: bool = False
    distinct: bool = False
    one_step_instead: str = ""
    randomness: str = "operating-system"


@sealed
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
        What the records of that share have in common: a key of ``discreet.wording.LOST_TO``. A mechanism outside the
        library gives its own words, after "of the released records".
    column : str
        The column whose values ``lost`` is a share of; empty where it is a share of the records.
    worst : float
        Where ``lost`` is a prediction: a bound on it for every table.
    remedies : tuple of str
        What would lower ``lost``, calibrated anew: keys of ``discreet.wording.REMEDIES``, or an outsider's own words.
    released_share : float
        Expected share of the records asked for that are released: below 1 where the kernel drops some.
    pair_scores : tuple of int, int and float, or None
        Number of pairs of columns, number of those that get a score, and standard deviation of the noise in a pair's
        score, which is a number of records; None where all columns are worked on together.
    outcomes : tuple of int, float and int
        Number of pairs of columns with a declared outcome, which are measured without a score, their share of the
        units that are left after the first tables of one column, and number of tables of an outcome and two others.
    visible_dependence : float or None
        How strong a relation of two columns must be to be measured in half of the releases: share of the records that
        are elsewhere than if the columns were independent.
    stratified : bool
        Whether records are drawn systematically, with less sampling error than independent ones.
    rest : {"", "base", "uniform"}
        Where every record is one of the table's but for the share ``lost``: whether those are of the base measure or
        uniform over the cells. Then no kernel is run for a prediction.
    urn : float
        Where each makes its equals likelier: how many records the urn holds that they are drawn from.
    stand_in : Mechanism or None
        A quicker mechanism that displaces records as far, which a prediction runs instead.
    draws : int
        How many times a prediction runs the kernel at most.
    slow : bool
        Whether that takes minutes.
    """

    lost: float
    lost_is: Literal["expectation", "bound", "prediction"]
    lost_to: str
    column: str = ""
    worst: float = 1.0
    remedies: tuple[str, ...] = ()
    released_share: float = 1.0
    pair_scores: tuple[int, int, float] | None = None
    outcomes: tuple[int, float, int] = (0, 0.0, 0)
    visible_dependence: float | None = None
    stratified: bool = False
    rest: Literal["", "base", "uniform"] = ""
    urn: float = math.inf
    stand_in: Any = None
    draws: int = 32
    slow: bool = False

    @property
    def lost_at_most(self) -> float:
        """A bound on the share that is lost, for every table of as many records; 1 where none is known."""
        return self.worst if self.lost_is == "prediction" else self.lost


def helpful(domain: Domain, *remedies: str, **useless: bool) -> tuple[str, ...]:
    """Return those of some remedies that are not useless, as ``cells`` and ``columns`` are where a domain has few."""
    fine = [column for column in domain.columns.values() if (column.size or 0) > 2]
    useless |= {"cells": not fine, "columns": len(domain.columns) == 1}
    return tuple([remedy for remedy in remedies if not useless.get(remedy, False)])
