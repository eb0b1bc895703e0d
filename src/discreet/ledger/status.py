"""What is spent and what is left, in numbers and in plain words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from discreet._core.boundary import sealed
from discreet._core.text import as_written, counted, harmless, listing, paragraph, rounded_down, rounded_up, table
from discreet.ledger.events import Book, Event
from discreet.ledger.filters import Cost

_FALSE_ALARMS = 0.05


@sealed
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LedgerStatus:
    """Where a ledger stands.

    Parameters
    ----------
    dataset, currency : str
        What it is of, and by which theorem it adds up.
    budget, spent, left : dict
        ``epsilon`` and ``delta``: of the whole, of the entries that count, and of what may still be asked for.
    counts : dict
        How many entries are in each state.
    covers : dict
        ``relation``, ``unit``, ``max_records`` and ``kinds``: what the ledger adds up.
    head : str
        The hash of its last event.
    created : str
        When it was made.
    """

    dataset: str
    currency: str
    budget: Mapping[str, float]
    spent: Mapping[str, float]
    left: Mapping[str, float]
    counts: Mapping[str, int]
    covers: Mapping[str, Any]
    head: str
    created: str

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON values, and the best attacker's power at a false-alarm rate of 5 %."""
        return {
            "dataset": self.dataset,
            "currency": self.currency,
            "budget": dict(self.budget),
            "spent": dict(self.spent),
            "left": dict(self.left),
            "counts": dict(self.counts),
            "covers": dict(self.covers),
            "attacker": {
                "false_alarms": _FALSE_ALARMS,
                "power_now": power(_FALSE_ALARMS, **self.spent),
                "power_at_most": power(_FALSE_ALARMS, **self.budget),
            },
            "head": self.head,
            "created": self.created,
        }

    def __str__(self) -> str:
        return "\n".join(map(harmless, self._said()))

    def __repr__(self) -> str:
        return f"<LedgerStatus of {harmless(self.dataset)!r}: epsilon {self.left['epsilon']} left>"

    def _repr_html_(self) -> str:
        return (
            table((self.dataset, "epsilon", "delta"), self._shown) + paragraph(self._attacker) + listing(self._states)
        )

    @property
    def _shown(self) -> list[tuple[str, str, str]]:
        """Return the budget as it is written, what is spent rounded up, and what is left rounded down."""
        pairs = (
            ("budget", self.budget, as_written),
            ("spent", self.spent, lambda value: rounded_up(value, 6)),
            ("left", self.left, lambda value: rounded_down(value, 6)),
        )
        return [(name, write(pair["epsilon"]), write(pair["delta"])) for name, pair, write in pairs]

    @property
    def _attacker(self) -> str:
        now, whole = (rounded_up(100.0 * power(_FALSE_ALARMS, **pair)) for pair in (self.spent, self.budget))
        return (
            "What is promised is the whole budget: the best attacker who sees all releases in the ledger, and raises a "
            f"false alarm about one record in 20, detects at most {whole} % of true ones. Without any release it is 5 "
            f"%. If the amount spent so far had been the whole budget, it would be {now} %"
        )

    @property
    def _states(self) -> list[str]:
        return [f"{state}: {counted(number, 'entry', 'entries')}" for state, number in self.counts.items() if number]

    def _said(self) -> list[str]:
        covers = self.covers
        most = counted(covers["max_records"], "record")
        unit = "a record" if covers["unit"] is None else f"column {covers['unit']!r}, {most} each"
        return [
            f"data set: {self.dataset}",
            f"accounting: {self.currency}. Relation: {covers['relation']}. Privacy unit: {unit}. Kind: "
            f"{' or '.join(covers['kinds'])}",
            *(f"{name}: epsilon {epsilon}, delta {delta}" for name, epsilon, delta in self._shown),
            *self._states,
            f"{self._attacker}.",
            "Releases that were made without the ledger are not in it.",
        ]


def status_of(book: Book, first: Event, last: Event) -> LedgerStatus:
    """Return where a ledger stands after its last event."""
    spent, left = (_pair(of(last.spent, book.whole)) for of in (book.currency.worth, book.currency.left))
    return LedgerStatus(
        dataset=book.dataset,
        currency=book.currency.name,
        budget=dict(first.facts["budget"]),
        spent=spent,
        left=left,
        counts=dict(last.counts),
        covers=dict(first.facts["covers"]),
        head=last.hash,
        created=first.at,
    )


def in_words(book: Book, cost: Cost) -> str:
    """Return a cost in the words of its currency."""
    loss = "epsilon" if book.currency.name == "sums" else "rho"
    return f"{loss} {rounded_up(float(cost.loss))} and delta {rounded_up(float(cost.delta))}"


def power(false_alarms: float, *, epsilon: float, delta: float) -> float:
    """Return the greatest power of a test between two neighbours under an (epsilon, delta) promise."""
    if not math.isfinite(epsilon):
        return 1.0
    alone = math.exp(min(epsilon, 700.0)) * false_alarms + delta
    missed = math.exp(-epsilon) * (1.0 - delta - false_alarms)
    return min(1.0, alone, 1.0 - max(0.0, missed))


def _pair(values: tuple[float, float]) -> dict[str, float]:
    return {"epsilon": values[0], "delta": values[1]}
