"""What would be enough where a budget is too little: a larger one, or fewer columns. Each is tried, by public facts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from discreet._core.numeric import least_integer
from discreet._core.text import as_written
from discreet.domain import Domain
from discreet.mechanisms import named
from discreet.planner.options import Option, PlanRequest

_EPSILONS = (0.1, 0.2, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0)  # that are tried where one is too little
_DELTA = 1e-9  # likewise, in place of 0
_MOST_LEFT_OUT = 8  # columns
_MOST_TRIED = 256  # columns of a table of which some are tried to be left out


def tried_remedies(
    comparison: PlanRequest, options: Sequence[Option], options_of: Callable[[PlanRequest], Sequence[Option]]
) -> list[str]:
    """Return sentences, each with a change that a plan of its own finds to be enough; none where none was found.

    Mechanisms whose calibration tries many settings out are left aside, and so are tables with a reference or with
    declared relations, which name columns. ``options_of``: makes the plan of a request.
    """
    columns, budget = comparison.domain.columns, comparison.budget
    if comparison.reference.table is not None or comparison.declares_more or len(columns) > _MOST_TRIED:
        return []
    quick = [option.name for option in options if not named(option.name).traits.tried_out]

    def enough(**changes: Any) -> bool:
        request = replace(comparison.request, **changes)
        trial = options_of(replace(comparison, request=request, mechanisms=quick))
        return any(option.mechanism is not None and not option.poor for option in trial)

    if budget.delta == 0.0 and enough(budget=replace(budget, delta=_DELTA)):
        return [f"With delta {as_written(_DELTA)}, epsilon {as_written(budget.epsilon)} is enough"]
    found, epsilons = [], [epsilon for epsilon in _EPSILONS if epsilon > budget.epsilon]
    place = least_integer(lambda i: enough(budget=replace(budget, epsilon=epsilons[i])), 0, len(epsilons) - 1)
    if place is not None:
        found.append(f"With all columns, epsilon {as_written(epsilons[place])} is enough")
    costly = sorted(columns, key=lambda name: columns[name].size or math.inf, reverse=True)

    def without(count: int) -> Domain:
        return Domain(columns={name: column for name, column in columns.items() if name not in costly[:count]})

    most = min(_MOST_LEFT_OUT, len(columns) - 1)
    if (count := least_integer(lambda i: enough(domain=without(i)), 1, most)) is not None:
        names = " and ".join(filter(None, [", ".join(map(repr, costly[: count - 1])), repr(costly[count - 1])]))
        found.append(f"With {names} left out, epsilon {as_written(budget.epsilon)} is enough")
    return found
