"""The public view of a ledger as texts, rounded to the safe side: for its page, and for the report of a release."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from discreet._core.page import FilePath, Points, rendered, require_page, spending_chart, write_own
from discreet._core.text import about, counted, rounded_up
from discreet.ledger import Entry, Ledger, Statement, loss_texts, power

MOST_ENTRIES = 500
"""Rows of a table of entries."""

_FALSE_ALARMS = (0.01, 0.05)


def spending_texts(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is spent and left of a budget, and what that means, for a status of ``LedgerStatus.to_dict``."""

    def detected(alarms: float, name: str) -> str:
        return f"{rounded_up(min(100.0, 100.0 * power(alarms, **status[name])))} %"

    amounts = loss_texts(status)
    loss, further = "rho", "All further releases together may be worth epsilon {epsilon} at delta {delta}."
    if status["currency"] == "sums":
        loss, further = "epsilon", "A further release may ask for epsilon {epsilon} and delta {delta}."
    return {
        **amounts,
        "attack": [
            {"alarms": f"{about(100 * rate)} %", "now": detected(rate, "spent"), "whole": detected(rate, "budget")}
            for rate in _FALSE_ALARMS
        ],
        "loss": loss,
        "further": further.format(**amounts["left"]),
    }


def entry_rows(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Return the newest entries as texts, the newest first; costs are rounded up."""
    rows = []
    for number, entry in list(enumerate(entries, start=1))[: -MOST_ENTRIES - 1 : -1]:
        words = entry.what
        if entry.parts:
            words += f" of {', '.join(entry.parts)}"
        elif entry.part is not None:
            words += f" {entry.part} of a plan, which paid"
        elif entry.continues is not None:
            words += f", goes on with {entry.continues}, which paid"
        when = entry.reserved.replace("T", " ").removesuffix("+00:00")
        row = {"number": number, "name": entry.name, "when": when, "what": words, "state": entry.state}
        row |= {name: rounded_up(float(getattr(entry.cost, name)), 6) for name in ("loss", "delta")}
        rows.append(row | {"mechanism": entry.mechanism or "-", "files": entry.files or ("-",)})
    return rows


def place_in_ledger(path: FilePath, dataset: str | None, *, certificate: Path, stamp: Any) -> dict[str, Any]:
    """Return where a release stands in the ledger of its data set, by default the one that the certificate names."""
    name = getattr(stamp, "entry", None)
    with Ledger(path, dataset or getattr(stamp, "dataset", None)) as ledger:
        problems, statement = ledger.verify([certificate]), Statement.from_ledger(ledger)
    others = [entry for entry in statement.entries if entry.state == "paid" and entry.name != name]
    rows = entry_rows(others)
    spending = {"dataset": statement.status["dataset"], "entry": name, "spending": spending_texts(statement.status)}
    return spending | {"others": rows, "left_out": len(others) - len(rows), "broken": bool(problems)}


_MOST_STEPS = 400  # of the picture


def write_ledger_report(ledger: Ledger, out: FilePath, *, certificates: Sequence[FilePath] = ()) -> list[str]:
    """Write what is public of a ledger as one HTML page, and return what is wrong with it, for the custodian alone."""
    path = require_page(out, inputs := (ledger.place, *certificates))
    problems, statement = ledger.verify(certificates), Statement.from_ledger(ledger)
    # as the page's commands name it: no folder, and no address of a database
    name = "ADDRESS" if "://" in str(ledger.place) else shlex.quote(Path(ledger.place).name)
    text = page(statement, broken=bool(problems), checked=len(certificates), place=name)
    write_own(path, text, inputs=inputs)
    return problems


def page(statement: Statement, *, broken: bool = False, checked: int = 0, place: str = "FILE") -> str:
    """Return the page as text; what is wrong with a broken ledger is not on it."""
    status, chart, bars, lines = statement.status, None, [], []
    spending, covers = spending_texts(status), status["covers"]
    costs = [entry.cost for entry in statement.entries if entry.state == "paid"]
    for kind, name, key in (("this", spending["loss"], "loss"), ("together", "delta", "delta")):
        if (limit := getattr(statement.limit, key)) > 0:
            share = float(100 * getattr(statement.spent, key) / limit)
            bars.append((name, f"{rounded_up(share)} %", round(share, 2)))
            lines.append((kind, _shares([getattr(cost, key) for cost in costs], limit)))
    if statement.entries:
        chart = spending_chart(lines, len(costs))
    facts: dict[str, Any] = {"title": f"Ledger of {status['dataset']}", "status": status, "spending": spending}
    facts |= {"bars": bars, "chart": chart, "entries": entry_rows(statement.entries), "in_all": len(statement.entries)}
    facts |= {"with_delta": statement.limit.delta > 0, "unit": f"one {covers['unit'] or 'record'}"}
    facts |= {"most": counted(covers["max_records"], "record"), "broken": broken, "checked": checked, "place": place}
    return rendered("discreet.report", "ledger.html", facts)


def _shares(costs: Sequence[Fraction], limit: Fraction) -> Points:
    """Return which share of a limit is spent at most after each cost; of many, some."""
    every, total, points = max(1, -(-len(costs) // _MOST_STEPS)), Fraction(0), []
    for place, cost in enumerate(costs, start=1):
        total += cost
        if place % every == 0 or place == len(costs):
            points.append((float(place), min(1.0, float(total / limit))))
    return points
