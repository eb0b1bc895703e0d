"""Planning: which mechanism, which parameters, what error, from public facts alone."""

from discreet.planner._plan import Option, Plan, plan, predicted_w1
from discreet.planner._stated import Solution, solved, stated

__all__ = ["Option", "Plan", "Solution", "plan", "predicted_w1", "solved", "stated"]
