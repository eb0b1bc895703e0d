"""What holds of a class of mechanisms, whatever their parameters."""

from __future__ import annotations

from dataclasses import dataclass

from discreet.privacy.guarantee import RelationName


@dataclass(frozen=True, kw_only=True)
class Traits:
    """What planning, calibration and the publisher know of a class of mechanisms.

    A class that differs from its base in one trait writes ``traits = replace(Base.traits, random_size=True)``.

    Parameters
    ----------
    free : tuple of str
        Parameters that ``calibrated`` can solve for, the preferred one first.
    theorem : str
        Id of the theorem of its guarantee, where a class shares the guarantee's code with others but not the theorem.
    relations : tuple of str
        Between which tables it has a theorem.
    keeps_declared : bool
        Whether what it releases always agrees with the domain's ``impossible``, ``implies`` and ``totals``. Others are
        refused on a domain that declares any.
    needs_cells : bool
        Whether the domain has to be finite.
    cells_cost : bool
        Whether the guarantee depends on the number of cells.
    cells_each : int or None
        Cells that each continuous column gets where none are declared, if its error does not depend on their product.
    least_columns : int
        Number of columns from which on a plan considers it.
    tried_out : bool
        Whether calibration tries many settings out, so that a plan for a wide table leaves it to be asked for by name.
    random_size : bool
        Whether the kernel may release fewer records than asked for.
    leaves_out : bool
        Whether rare records are left out, of which no public number tells how many there are.
    verbatim : bool
        Whether released records are confidential records themselves, where the domain is continuous or open.
    distinct : bool
        Whether no confidential record is drawn twice.
    one_step_instead : str
        Of a mechanism in steps: registry name of one of a single step for such tables, to compare predictions with.
    """

    free: tuple[str, ...]
    theorem: str = ""
    relations: tuple[RelationName, ...] = ("replacement",)
    keeps_declared: bool = False
    needs_cells: bool = True
    cells_cost: bool = True
    cells_each: int | None = None
    least_columns: int = 1
    tried_out: bool = False
    random_size: bool = False
    leaves_out: bool = False
    verbatim: bool = False
    distinct: bool = False
    one_step_instead: str = ""
