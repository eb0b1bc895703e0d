"""What is said before a mechanism that works in steps runs: its steps, and whether fewer or another would do better."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from discreet._core.errors import DiscreetError
from discreet._core.text import about
from discreet.mechanisms import Mechanism, named
from discreet.mechanisms._steps import SteppedMechanism
from discreet.planner._cells import with_cells
from discreet.planner._predicted import Reference, predicted_w1
from discreet.privacy import Budget


def said_before(
    mechanism: Mechanism, budget: Budget, *, n: int, size: int | None, group: int = 1, reference: Any = None
) -> list[str]:
    """Say what a mechanism's steps will do, and compare them with no step at all and with a histogram.

    ``mechanism``: calibrated.
    ``budget``: what may be spent.
    ``n``, ``size``, ``group``: numbers of records held, released, and held by a privacy unit.
    ``reference``: a **public** table that the confidential one is expected to look like.
    Returns: Sentences from public facts alone; none for mechanisms that take one step.
    """
    if not isinstance(mechanism, SteppedMechanism):
        return []
    drawn, like = size or n, Reference.of(reference, mechanism.domain)
    lines = [mechanism.announcement()]
    if not mechanism.steps:
        return lines
    if not mechanism.predictable:
        return [*lines, "what no step, or a histogram, would do is not predicted, since that would take minutes"]
    own = predicted_w1(mechanism, n=n, size=drawn, reference=like)
    none = predicted_w1(cast(Mechanism, replace(cast(Any, mechanism), steps=0)), n=n, size=drawn, reference=like)
    if none <= own:
        lines.append(
            f"WARNING: no step at all is predicted to do as well (W1 {about(none, 4)} against {about(own, 4)}), "
            f"for a table like "
            f"{_table(reference)}, and costs no privacy. Ask for steps=0, or a larger epsilon"
        )
    try:
        kind = named(mechanism.one_step_instead)
        domain = with_cells(mechanism.domain, kind, n=n, budget=budget, size=drawn, group=group)
        other = predicted_w1(
            kind.calibrated(budget, domain=domain, n=n, size=drawn, group=group), n=n, size=drawn, reference=like
        )
    except DiscreetError:  # it has no answer on this domain or for this budget
        return lines
    if other < own:
        lines.append(
            f"WARNING: evolution is the wrong tool here: {kind.name} is predicted to have W1 {about(other, 4)} against "
            f"{about(own, 4)}, for a table like {_table(reference)}"
        )
    return lines


def _table(reference: Any) -> str:
    return "the inner half of the domain" if reference is None else "the reference"
