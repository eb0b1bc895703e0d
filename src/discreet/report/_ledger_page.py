"""A ledger as one HTML page: what is spent and left, what that means, and every entry."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from discreet._core.errors import FileProblem
from discreet._core.page import rendered
from discreet._core.text import counted, rounded_up
from discreet._core.writing import check_outputs, check_writable, require_own, together
from discreet.ledger import Ledger
from discreet.ledger._entries import Entry, entries
from discreet.report._charts import Chart, Points, spending_chart
from discreet.report._in_ledger import Spending, entry_rows

_MOST_STEPS = 400  # of the picture
_STATES = {
    "COMMITTED": "released: the files and their hashes are known",
    "OPENED": "the table was opened, and nothing is released yet: spent",
    "RESERVED": "its cost is set aside, and the table is not opened yet",
    "FORFEITED": "the table was opened and nothing was released: spent for ever",
    "VOID": "given up before the table was opened: costs nothing",
}

Path_ = str | os.PathLike[str]


def write_ledger_report(
    place: Path_, out: Path_, *, dataset: str | None = None, certificates: Sequence[Path_] = ()
) -> list[str]:
    """Write what a ledger says as one HTML file that needs no network: as public as the certificates are.

    ``place``, ``dataset``: of the ledger.
    ``out``: the page to write; ends in ``.html``.
    ``certificates``: of releases of the data set. Only with them is it seen that the ledger was rolled back.
    Returns: what is wrong with the ledger, a sentence each; the page says so too.

    Raises ParameterError when Jinja2 is not installed or there is no such data set, or FileProblem when a file cannot
    be read or written, or the output is one of the inputs or exists and was not written by this package.
    """
    path, inputs = Path(out), (place, *certificates)
    if path.suffix.lower() != ".html":
        raise FileProblem(out, "the format is not known by this ending", "end the name in .html")
    check_outputs([path], inputs)
    check_writable(path)
    require_own(path)
    with Ledger(place, dataset) as ledger:
        problems = ledger.verify(certificates)
        text = page(ledger.status().to_dict(), ledger.log(), problems, checked=len(certificates), place=_named(place))
    with together(path, inputs=inputs, check=lambda: require_own(path)) as (file,):
        file.write(text.encode())
    return problems


def _named(place: Path_) -> str:
    """Return a ledger as the page's commands name it: no folder, and no address of a database."""
    return "ADDRESS" if "://" in str(place) else shlex.quote(Path(place).name)


def page(
    status: Mapping[str, Any],
    events: Sequence[Mapping[str, Any]],
    problems: Sequence[str],
    *,
    checked: int = 0,
    place: str = "FILE",
) -> str:
    """Return the page as text.

    ``status``: of the ledger, as ``LedgerStatus.to_dict`` gives it.
    ``events``: as :meth:`Ledger.log` gives them.
    ``problems``: what is wrong with it.
    ``checked``: with how many certificates it was compared.
    ``place``: where it is, for the commands that the page names.
    """
    held = entries(events)
    limit = {key: Fraction(value) for key, value in events[0]["facts"]["limit"].items()}
    covers, spending = status["covers"], Spending.of(status)
    return rendered(
        "discreet.report",
        "ledger.html",
        {
            "title": f"Ledger of {status['dataset']}",
            "status": status,
            "spending": spending,
            "bars": list(_bars(events[-1]["spent"], limit, spending.loss)),
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
