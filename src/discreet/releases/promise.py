"""What a certificate promises, in numbers and codes."""

from __future__ import annotations

import math

from discreet.mechanisms import Mechanism
from discreet.privacy import Budget, Code, Guarantee
from discreet.releases.facts import GuaranteeFacts

SEEDED = ("seeded", "seeded-cut")
"""What a certificate says of randomness where a seed was used."""

_PROFILE_EPSILONS = (0.01, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)


def headline(guarantee: Guarantee, budget: Budget | None) -> float:
    """Return the epsilon that is stated, or the budget's, or the least one at which delta is 1e-9 or at its floor."""
    if guarantee.stated is not None:
        return guarantee.stated[0]
    if budget is not None:
        return budget.epsilon
    floor = guarantee.delta(math.inf)
    return guarantee.epsilon(min(1.0, max(1e-9, floor * (1 + 1e-6))))


def promise(
    mechanism: Mechanism,
    guarantee: Guarantee,
    epsilon: float,
    *,
    unit: str | None,
    epsilons: tuple[float, ...] = _PROFILE_EPSILONS,
) -> GuaranteeFacts:
    """Return the ``guarantee`` of a certificate, with its profile at some epsilons.

    Any epsilon may be stated, since delta follows from it, except where the guarantee has its own.
    """
    delta, each = guarantee.delta(epsilon), None
    if guarantee.stated is not None:
        delta, (epsilon, each) = 0.0, guarantee.stated
    slots = unit is not None and not mechanism.parameters().get("unit_votes")
    caveats = [*guarantee.caveats, *((Code("unused-slots"),) * slots), *delta_caveats(delta, guarantee.n)]
    caveats += [Code("epsilon-large", {"limit": 10})] * (epsilon > 10)
    return GuaranteeFacts(
        epsilon=epsilon,
        delta=delta,
        epsilon_each=each,
        profile=[[e, guarantee.delta(e)] for e in epsilons],
        **{**guarantee.to_dict(), "assumptions": list(guarantee.assumptions), "caveats": caveats},
    )


def delta_caveats(delta: float, n: int) -> list[Code]:
    """Say what a delta allows that is not far below one in the number of records; nothing of one that is."""
    return [Code("delta-large", {"records": delta * n})] if delta * n > 0.1 else []
