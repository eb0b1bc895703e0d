"""Planning: which mechanism, which parameters, what error, from public facts alone."""

from discreet._core.boundary import seal
from discreet.planner._option import Option
from discreet.planner._plan import Plan, plan
from discreet.planner._stated import Solution

__all__ = ["plan"]

seal(globals(), Option, Plan, Solution)
