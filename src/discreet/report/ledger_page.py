"""What a ledger says, as texts that are rounded to the safe side: for its own page, and for the report of a release."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from discreet._core.page import Chart, FilePath, Points, rendered, require_page, spending_chart, write_own
from discreet._core.text import about, as_written, counted, rounded_down, rounded_up
from discreet.ledger import Entry, Ledger, entries, power

MOST_ENTRIES = 500
"""Rows of a table of entries."""

_FALSE_ALARMS = (0.01, 0.05)


def spending_texts(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is spent and left of a budget, and what that means, for a status of ``LedgerStatus.to_dict``."""

    def pair(name: str, write: Callable[[float], str]) -> dict[str, str]:
        return {key: write(status[name][key]) for key in ("epsilon", "delta")}

    def detected(alarms: float, name: str) -> str:
        return f"{rounded_up(min(100.0, 100.0 * power(alarms, **status[name])))} %"

    left, sums = pair("left", lambda value: rounded_down(value, 6)), status["currency"] == "sums"
    further = "All further releases together may be worth epsilon {epsilon} at delta {delta}."
    if sums:
        further = "A further release may ask for epsilon {epsilon} and delta {delta}."
    return {
        "budget": pair("budget", as_written),
        "spent": pair("spent", lambda value: rounded_up(value, 6)),
        "left": left,
        "attack": [
            {
                "alarms": f"{about(100 * alarms)} %",
                "now": detected(alarms, "spent"),
                "whole": detected(alarms, "budget"),
            }
            for alarms in _FALSE_ALARMS
        ],
        "loss": "epsilon" if sums else "rho",
        "further": further.format(**left),
    }


def entry_rows(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Return the newest entries as texts, the newest first; costs are rounded up."""
    rows = []
    for number, entry in list(enumerate(entries, start=1))[: -MOST_ENTRIES - 1 : -1]:
        costs = {"loss": "0", "delta": "0"}
        if entry.state != "VOID":
            costs = {key: rounded_up(float(Fraction(entry.cost[key])), 6) for key in costs}
        rows.append(
            {
                "number": number,
                "name": entry.name,
                "when": (entry.committed or entry.reserved or "").replace("T", " ").removesuffix("+00:00"),
                "what": _what(entry),
                "mechanism": entry.mechanism or "-",
                "state": entry.state,
                "lost": entry.fate == "LOST",
                **costs,
                "files": entry.names or ("-",),
            }
        )
    return rows


def _what(entry: Entry) -> str:
    """Say what an entry is, and what paid for it where it did not do so itself."""
    if entry.parts:
        return f"{entry.what} of {', '.join(entry.parts)}"
    if entry.part is not None:
        return f"{entry.what} {entry.part} of a plan, which paid"
    return entry.what if entry.continues is None else f"{entry.what}, goes on with {entry.continues}, which paid"


def place_in_ledger(path: FilePath, dataset: str | None, *, certificate: Path, stamp: Any) -> dict[str, Any]:
    """Return where a release stands in the ledger of its data set, by default the one that the certificate names.

    ``entry`` is None where the certificate names none; ``others`` were released or may have been.
    """
    own = getattr(stamp, "entry", None)
    with Ledger(path, dataset or getattr(stamp, "dataset", None)) as ledger:
        problems = ledger.verify([certificate])
        status, held = ledger.status().to_dict(), entries(ledger.log())
    others = [entry for entry in held if entry.state != "VOID" and entry.name != own]
    rows = entry_rows(others)
    return {
        "dataset": status["dataset"],
        "entry": own,
        "spending": spending_texts(status),
        "others": rows,
        "left_out": len(others) - len(rows),
        "problems": problems,
    }


# A ledger as one HTML page: what is spent and left, what that means, and every entry.

_MOST_STEPS = 400  # of the picture
_STATES = {
    "COMMITTED": "released: the files and their hashes are known",
    "OPENED": "the table was opened, and nothing is released yet: spent",
    "RESERVED": "its cost is set aside, and the table is not opened yet",
    "FORFEITED": "the table was opened and nothing was released: spent for ever",
    "VOID": "given up before the table was opened: costs nothing",
}


def write_ledger_report(
    place: FilePath, out: FilePath, *, dataset: str | None = None, certificates: Sequence[FilePath] = ()
) -> list[str]:
    """Write what a ledger says as one HTML file that needs no network: as public as the certificates are.

    Returns what is wrong with the ledger. Only with ``certificates`` is it seen that it was rolled back.
    """
    path = require_page(out, inputs := (place, *certificates))
    with Ledger(place, dataset) as ledger:
        problems = ledger.verify(certificates)
        status, checked = ledger.status().to_dict(), len(certificates)
        # as the page's commands name it: no folder, and no address of a database
        name = "ADDRESS" if "://" in str(place) else shlex.quote(Path(place).name)
        text = page(status, ledger.log(), problems, checked=checked, place=name)
    write_own(path, text, inputs=inputs)
    return problems


def page(
    status: Mapping[str, Any],
    events: Sequence[Mapping[str, Any]],
    problems: Sequence[str],
    *,
    checked: int = 0,
    place: str = "FILE",
) -> str:
    """Return the page as text, for a status from ``LedgerStatus.to_dict`` and events from :meth:`Ledger.log`."""
    held = entries(events)
    limit = {key: Fraction(value) for key, value in events[0]["facts"]["limit"].items()}
    covers, spending = status["covers"], spending_texts(status)
    return rendered(
        "discreet.report",
        "ledger.html",
        {
            "title": f"Ledger of {status['dataset']}",
            "status": status,
            "spending": spending,
            "bars": list(_bars(events[-1]["spent"], limit, spending["loss"])),
            "states": [(state, status["counts"].get(state, 0), words) for state, words in _STATES.items()],
            "waiting": sum(status["counts"].get(state, 0) for state in ("RESERVED", "OPENED")),
            "entries": entry_rows(held),
            "in_all": len(held),
            "chart": _chart(held, limit) if held else None,
            "with_delta": limit["delta"] > 0,
            "unit": "one record" if covers["unit"] is None else f"one {covers['unit']}",
            "most": counted(covers["max_records"], "record"),
            "problems": problems,
            "checked": checked,
            "place": place,
        },
    )


def _bars(spent: Mapping[str, str], limit: Mapping[str, Fraction], loss: str) -> Iterator[tuple[str, str, float]]:
    """Yield what share of each sum's limit is spent: its name, the share as a text, rounded up, and as a length."""
    for name, key in ((loss, "loss"), ("delta", "delta")):
        if limit[key] > 0:
            share = float(min(Fraction(100), 100 * Fraction(spent[key]) / limit[key]))
            yield name, f"{rounded_up(share)} %", round(share, 2)


def _chart(held: Sequence[Entry], limit: Mapping[str, Fraction]) -> Chart:
    """Draw the running totals; of many entries, some."""
    counting = [entry for entry in held if entry.state != "VOID"]
    lines = [
        (kind, _shares([Fraction(entry.cost[key]) for entry in counting], limit[key]))
        for kind, key in (("this", "loss"), ("together", "delta"))
        if limit[key] > 0
    ]
    return spending_chart(lines, max(1, len(counting)))


def _shares(costs: Sequence[Fraction], whole: Fraction) -> Points:
    every, total, points = max(1, -(-len(costs) // _MOST_STEPS)), Fraction(0), []
    for place, cost in enumerate(costs, start=1):
        total += cost
        if place % every == 0 or place == len(costs):
            points.append((float(place), float(total / whole)))
    return points
