"""Planning: which mechanism, which parameters, what error, from public facts alone."""

from typing import TYPE_CHECKING

from discreet._core.lazy import door

if TYPE_CHECKING:
    from discreet.planner.budget_page import options_of
    from discreet.planner.cells import (
        PublicFacts,
        chosen_cells,
        chosen_mechanism,
        require_complete,
        require_current,
        said_before,
        with_sampling,
        with_units,
    )
    from discreet.planner.options import UNIT, Option, PlanRequest
    from discreet.planner.plans import Plan, plan, planned
    from discreet.planner.predicted import Reference, predicted_w1, width_error
    from discreet.planner.study import Together, plan_together, read_study

__all__ = ["plan"]

__getattr__, __dir__ = door(__name__)
