"""Planning: which mechanism, which parameters, what error, from public facts alone."""

from discreet._core.boundary import seal
from discreet.planner.options import Option
from discreet.planner.plans import Plan, plan

__all__ = ["plan"]

seal(globals(), Option, Plan)
