"""What planning and the publisher know of a class of mechanisms, and beforehand of a release: numbers and codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from discreet.domain import Domain
from discreet.privacy.guarantee import RelationName


@dataclass(frozen=True, kw_only=True)
class Traits:
    """What holds of a class, whatever its parameters: it may be ``traits = replace(Base.traits, random_size=True)``."""

    #: Parameters that ``calibrated`` can solve for, the preferred one first.
    free: tuple[str, ...]
    #: Id of the theorem of its guarantee, where other classes share the guarantee's code but not the theorem.
    theorem: str = ""
    #: Between which tables it has a theorem.
    relations: tuple[RelationName, ...] = ("replacement",)
    #: Whether what it releases always agrees with the domain's ``impossible``, ``implies`` and ``totals``. Others are
    #: refused on a domain that declares any.
    keeps_declared: bool = False
    #: Whether the domain has to be finite.
    needs_cells: bool = True
    #: Whether the guarantee depends on the number of cells.
    cells_cost: bool = True
    #: Cells that each continuous column gets where none are declared, if its error does not depend on their product.
    cells_each: int | None = None
    #: Number of columns from which on a plan considers it.
    least_columns: int = 1
    #: Whether calibration tries many settings out, so that a plan for a wide table leaves it to be asked for by name.
    tried_out: bool = False
    #: Whether the kernel may release fewer records than asked for.
    random_size: bool = False
    #: Whether rare records are left out, of which no public number tells how many there are.
    leaves_out: bool = False
    #: Whether released records are confidential records themselves, where the domain is continuous or open.
    verbatim: bool = False
    #: Whether no confidential record is drawn twice.
    distinct: bool = False
    #: Of a mechanism in steps: registry name of one of a single step for such tables, to compare predictions with.
    one_step_instead: str = ""


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """The numbers and codes that are known of a release of ``n`` records before anything is drawn."""

    #: Share of the released records that carries nothing of the table. It does not fall when the domain gets a further
    #: column and the mechanism is calibrated anew.
    lost: float
    #: Whether that is the expectation for every table; a bound on it for every table; or the expectation for tables
    #: like a public or an invented one, or under a stated model.
    lost_is: Literal["expectation", "bound", "prediction"]
    #: What the records of that share have in common: a key of ``discreet.wording.LOST_TO``. A mechanism outside the
    #: library gives its own words, after "of the released records".
    lost_to: str
    #: Where ``lost`` is a prediction: a bound on it for every table.
    worst: float = 1.0
    #: What would lower ``lost``, were the mechanism calibrated with it: keys of ``discreet.wording.REMEDIES``.
    remedies: tuple[str, ...] = ()
    #: Expected share of the records asked for that are released: below 1 where the kernel drops some.
    released_share: float = 1.0
    #: Number of pairs of columns, of those that may be measured, and standard deviation of the noise in a pair's score,
    #: which is a number of records; None where all columns are worked on together.
    pair_scores: tuple[int, int, float] | None = None
    #: Whether records are drawn systematically, with less sampling error than independent ones.
    stratified: bool = False
    #: How many draws of ``predictive`` a prediction takes at most.
    draws: int = 32
    #: Whether ``predictive`` takes minutes.
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
