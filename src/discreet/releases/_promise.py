"""What a certificate promises, in words and numbers: the sentence, the caveats, and what is said beside them."""

from __future__ import annotations

import math
from typing import Any

from discreet._core.text import rounded_up
from discreet.privacy import Budget, Guarantee, Relation
from discreet.releases._step import Step

SHOWS = (
    "This certificate can be recomputed from the public facts in it, and shows whether a released file was changed by "
    "accident. It does not show who wrote it, and cannot prove that the mechanism was run as stated. Every other "
    "release of the same table adds to what this one reveals. Their profiles compose if the number of releases and the "
    "profile of each were fixed beforehand: composition is no rule for when to stop."
)
SEEDED = "seeded: not for publication, since whoever knows or guesses the seed can undo the noise"
SEEDED_CUT = (
    "seeded: not for publication, since whoever knows or guesses the seed knows which rows of each unit were kept; the "
    "release itself drew from operating-system entropy"
)
MARKED = "seeded: not for publication"
"""How the statement of randomness begins of every release that was seeded."""

UNPROVED = "If what it assumes holds, which is not proved: whatever"
LARGE = "an epsilon above 10 by itself promises next to nothing"
_PROFILE_EPSILONS = (0.01, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)


def headline(step: Step, guarantee: Guarantee, budget: Budget | None) -> float:
    """Return the step's own epsilon, or the budget's, or the least one at which delta is 1e-9 or at its floor."""
    if step.pure is not None:
        return step.pure(guarantee.relation)[0]
    if budget is not None:
        return budget.epsilon
    floor = guarantee.delta(math.inf)
    return guarantee.epsilon(min(1.0, max(1e-9, floor * (1 + 1e-6))))


def promise(
    step: Step,
    guarantee: Guarantee,
    epsilon: float,
    *,
    unit: str | None,
    seeded: bool,
    epsilons: tuple[float, ...] = _PROFILE_EPSILONS,
) -> dict[str, Any]:
    """Return the ``guarantee`` of a certificate, with its profile at some epsilons.

    Any epsilon may be stated, since delta follows from it, except where the step has its own.
    """
    alone: dict[str, float] = {}
    if step.pure is None:
        delta = guarantee.delta(epsilon)
    else:
        delta, (epsilon, alone["epsilon_each"]) = 0.0, step.pure(guarantee.relation)
    sentence = _sentence(step, guarantee, epsilon, delta)
    return {
        "epsilon": epsilon,
        "delta": delta,
        **alone,
        **guarantee.to_dict(),
        "profile": [[e, guarantee.delta(e)] for e in epsilons],
        "caveats": caveats(guarantee, epsilon, delta, slots=unit is not None and not step.parameters.get("unit_votes")),
        **step.utility(guarantee.n),
        "statement": f"Seeded run, not for publication; with fresh randomness: {sentence}" if seeded else sentence,
    }


def _sentence(step: Step, guarantee: Guarantee, epsilon: float, delta: float) -> str:
    """Return the promise in one sentence; one that is asymptotic is not formal differential privacy, and says so."""
    if guarantee.kind == "asymptotic":
        said = rounded_up(epsilon, 6)
        if step.pure is not None and step.tables not in (None, 1):
            each = rounded_up(step.pure(guarantee.relation)[1], 6)
            said = f"{each} for each of {step.tables} tables, {said} for all of them together"
        return (
            f"Not formal differential privacy: a local, asymptotic epsilon of {said}, estimated from the confidential "
            "table itself."
        )
    return (
        f"{'Whatever' if guarantee.kind == 'unconditional' else UNPROVED} the other records, an attacker who tests "
        f"{_tested(guarantee.relation, step)}, with a false-alarm rate of a, detects it with probability at "
        f"most e^{rounded_up(epsilon, 6)} a" + (f" + {rounded_up(delta)}." if delta else ".")
    )


def _tested(relation: Relation, step: Step) -> str:
    single = relation.group == 1
    one = "one record" if single else f"one unit of up to {relation.group} records"
    if relation.name == "add-remove":
        return f"whether {one} is in the table"
    where = f" in {', '.join(step.protected)}" if step.protected else ""
    if (unit := step.parameters.get("unit")) is not None:  # of a model: however many records it has
        return f"which of two sets of values the records with one value of {unit} have{where}"
    return f"which of two {'values' if single else 'sets of records'} {one} has{where}"


def caveats(guarantee: Guarantee, epsilon: float, delta: float, *, slots: bool) -> list[str]:
    """Return the guarantee's caveats and those that depend on the budget and on slots of privacy units."""
    found = list(guarantee.caveats)
    if slots:
        found.append("rows of nulls stand for the unused slots of units; they may be dropped")
    found += delta_caveats(delta, guarantee.n)
    if epsilon > 10:
        found.append(LARGE)
    return found


def delta_caveats(delta: float, n: int) -> list[str]:
    """Say what a delta allows that is not far below one in the number of records; nothing of one that is."""
    if delta * n <= 0.1:
        return []
    return [
        f"delta times the number of records is {rounded_up(delta * n)}: exposing as many records outright, on average, "
        "would be within the guarantee"
    ]
