"""Planning: which mechanism, which parameters, what error, from public facts alone."""

from discreet._boundary import seal
from discreet.planner._cells import chosen_cells, with_cells
from discreet.planner._plan import Option, Plan, plan, with_sampling
from discreet.planner._predicted import Reference, common, predicted_w1
from discreet.planner._stated import Solution, on_domain, parameter_names, solved, stated
from discreet.planner._steps import said_before
from discreet.planner._table import wrapped

__all__ = [
    "Option",
    "Plan",
    "Reference",
    "Solution",
    "chosen_cells",
    "common",
    "on_domain",
    "parameter_names",
    "plan",
    "predicted_w1",
    "said_before",
    "solved",
    "stated",
    "with_cells",
    "with_sampling",
    "wrapped",
]

seal(globals())
