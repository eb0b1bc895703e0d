"""The papers' questions, and how many records each mechanism needs that says so."""

from __future__ import annotations

from discreet.mechanisms import REGISTRY
from discreet.papers._questions import QUESTIONS, Question

_RESTS_ON = (
    "Pure differential privacy at that epsilon, k = cells, and one released record whose law is within the accuracy in "
    "total variation, in the worst case over tables"
)


def questions() -> dict[str, Question]:
    """Return every question by its name; ``records-MECHANISM`` where a mechanism has a sample complexity."""
    asked = {
        f"records-{name}": Question(
            formula=kind.sample_complexity,
            means=f"{{}} must be held for one record of {name} to have that accuracy.",
            rests_on=_RESTS_ON,
            records=True,
        )
        for name, kind in REGISTRY.items()
        if hasattr(kind, "sample_complexity")
    }
    return {**QUESTIONS, **asked}
