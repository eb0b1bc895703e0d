"""Planning: which mechanism, which parameters, what error, from public facts alone."""

from typing import TYPE_CHECKING

from discreet._core.lazy import door

if TYPE_CHECKING:
    from discreet.planner.cells import chosen_cells, said_before
    from discreet.planner.choice import PublicFacts, chosen_mechanism, require_complete, require_current, with_sampling
    from discreet.planner.options import UNIT, Option, wrapped
    from discreet.planner.plans import Plan, plan
    from discreet.planner.study import Together, plan_together, read_study, written

__all__ = ["plan"]

__getattr__, __dir__ = door(__name__)
