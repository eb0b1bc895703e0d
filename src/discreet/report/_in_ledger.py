"""What a ledger says, as texts that are rounded to the safe side: for its own page, and for the report of a release."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from discreet._core.text import about, as_written, rounded_down, rounded_up
from discreet.ledger import Ledger
from discreet.ledger._entries import Entry, entries
from discreet.ledger._status import power

MOST_ENTRIES = 500
"""Rows of a table of entries."""

_FALSE_ALARMS = (0.01, 0.05)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """What is spent and left of a ledger's budget, and what that means: texts.

    ``budget``, ``spent``, ``left``: epsilon and delta, as written, rounded up, and rounded down.
    ``attack``: one row per false-alarm rate.
    ``loss``: what the ledger adds up beside delta.
    ``further``: what is left for, in a sentence.
    """

    budget: Mapping[str, str]
    spent: Mapping[str, str]
    left: Mapping[str, str]
    attack: Sequence[Mapping[str, str]]
    loss: str
    further: str

    @classmethod
    def of(cls, status: Mapping[str, Any]) -> Spending:
        """Read it from a status, as ``LedgerStatus.to_dict`` gives it."""
        left, sums = _pair(status["left"], lambda value: rounded_down(value, 6)), status["currency"] == "sums"
        further = "A further release may ask for epsilon {epsilon} and delta {delta}."
        worth = "All further releases together may be worth epsilon {epsilon} at delta {delta}."
        return cls(
            budget=_pair(status["budget"], as_written),
            spent=_pair(status["spent"], lambda value: rounded_up(value, 6)),
            left=left,
            attack=[_rate(alarms, status) for alarms in _FALSE_ALARMS],
            loss="epsilon" if sums else "rho",
            further=(further if sums else worth).format(**left),
        )


def _pair(values: Mapping[str, float], write: Any) -> dict[str, str]:
    return {key: write(values[key]) for key in ("epsilon", "delta")}


def _rate(alarms: float, status: Mapping[str, Any]) -> dict[str, str]:
    """Return what the best attacker reaches at one rate of false alarms, now and at the end."""

    def detected(pair: Mapping[str, float]) -> str:
        return f"{rounded_up(min(100.0, 100.0 * power(alarms, **pair)))} %"

    return {
        "alarms": f"{about(100 * alarms)} %",
        "now": detected(status["spent"]),
        "whole": detected(status["budget"]),
    }


def entry_rows(held: Sequence[Entry]) -> list[dict[str, Any]]:
    """Return the newest entries as texts, the newest first; costs are rounded up."""
    return [_row(entry, number) for number, entry in list(enumerate(held, start=1))[: -MOST_ENTRIES - 1 : -1]]


def _row(entry: Entry, number: int) -> dict[str, Any]:
    return {
        "number": number,
        "name": entry.name,
        "when": (entry.committed or entry.reserved or "").replace("T", " ").removesuffix("+00:00"),
        "what": _what(entry),
        "mechanism": entry.mechanism or "-",
        "state": entry.state,
        "lost": entry.fate == "LOST",
        "loss": "0" if entry.state == "VOID" else rounded_up(float(Fraction(entry.cost["loss"])), 6),
        "delta": "0" if entry.state == "VOID" else rounded_up(float(Fraction(entry.cost["delta"])), 6),
        "files": entry.names or ("-",),
    }


def _what(entry: Entry) -> str:
    """Say what an entry is, and what paid for it where it did not do so itself."""
    if entry.parts:
        return f"{entry.what} of {', '.join(entry.parts)}"
    if entry.part is not None:
        return f"{entry.what} {entry.part} of a plan, which paid"
    return entry.what if entry.continues is None else f"{entry.what}, goes on with {entry.continues}, which paid"


@dataclass(frozen=True, slots=True, kw_only=True)
class InLedger:
    """Where a release stands in the ledger of its data set.

    ``dataset``: its name there.
    ``entry``: of the release; None where the certificate names none.
    ``spending``: of the ledger.
    ``others``: rows of the other entries that were released or may have been.
    ``left_out``: how many more there are.
    ``problems``: what is wrong with the ledger, or with the certificate in it.
    """

    dataset: str
    entry: str | None
    spending: Spending
    others: Sequence[Mapping[str, Any]]
    left_out: int
    problems: Sequence[str]

    @classmethod
    def read(
        cls, place: str | os.PathLike[str], dataset: str | None, *, certificate: Path, facts: Mapping[str, Any]
    ) -> InLedger:
        """Look a release up.

        ``place``, ``dataset``: of the ledger; the data set of the certificate by default.
        ``certificate``, ``facts``: of the release.

        Raises FileProblem, ParameterError when there is no such ledger.
        """
        stamp = facts.get("ledger")
        named: Mapping[str, Any] = stamp if isinstance(stamp, Mapping) else {}
        with Ledger(place, dataset or named.get("dataset")) as ledger:
            problems = ledger.verify([certificate])
            status, held = ledger.status().to_dict(), entries(ledger.log())
        others = [entry for entry in held if entry.state != "VOID" and entry.name != named.get("entry")]
        rows = entry_rows(others)
        return cls(
            dataset=status["dataset"],
            entry=named.get("entry"),
            spending=Spending.of(status),
            others=rows,
            left_out=len(others) - len(rows),
            problems=problems,
        )
