"""A page to choose a budget by: several budgets side by side, what each promises, and how near its release would be."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from discreet._core.errors import FileProblem
from discreet._core.files import check_outputs, check_writable, together
from discreet._core.page import rendered, require_own
from discreet._core.text import about, as_written, counted
from discreet.ledger import Ledger
from discreet.ledger.outlook import ledger_for
from discreet.planner.budgets import (
    SHOWN_PAIRS,
    USUAL,
    WRONG,
    Choice,
    Pairs,
    choices,
    error,
    in_ledger,
    like_what,
    measured_in,
    of_records,
    plans_around,
    runs,
    unit_of,
)
from discreet.planner.cells import chosen_cells
from discreet.planner.plans import Plan
from discreet.planner.rehearsal import Rehearsal


def write_budget_page(
    made: Plan,
    out: str | os.PathLike[str],
    *,
    ledger: Ledger | str | os.PathLike[str] | None,
    dataset: str | None,
    progress: Callable[[int, int], None] | None,
) -> Path:
    """Write the page. The arguments are those of :meth:`Plan.write_page`."""
    path, files = Path(out), made.comparison.files
    if path.suffix.lower() != ".html":
        raise FileProblem(out, "the format is not known by this ending", "end the name in .html")
    place = ledger.place if isinstance(ledger, Ledger) else ledger
    inputs = (*files.values(), place)
    check_outputs([path], inputs)
    check_writable(path)
    require_own(path)
    keeper = ledger_for(ledger, files.get("domain"), dataset=dataset)
    # A ledger that was given open is its owner's to close.
    with nullcontext(keeper) if keeper is None or keeper is ledger else keeper:
        known = made.comparison.reference.table is not None and len(made.comparison.domain.columns) > 1
        rehearsal = Rehearsal(made.comparison) if known else None
        plans, own = plans_around(made, rehearsal, progress)
        text = page(choices(plans, keeper, _named(place, dataset), rehearsal), own, keeper, rehearsal)
    with together(path, inputs=inputs, check=lambda: require_own(path)) as (file,):
        file.write(text.encode())
    return path


def _named(place: Any, dataset: str | None) -> dict[str, str]:
    """Return the arguments that name a ledger which was given: no folder, and no address of a database."""
    if place is None:
        return {}
    name = "ADDRESS" if "://" in str(place) else Path(place).name
    return {"ledger": name} | ({} if dataset is None else {"dataset": dataset})


def page(found: Sequence[Choice], own: int, ledger: Ledger | None, rehearsal: Rehearsal | None) -> str:
    """Return the page as text."""
    asked = found[own].plan.comparison
    domain = asked.domain
    most = max((one.pairs.largest for one in found if one.pairs is not None), default=0.0)
    facts = [_facts(one, lengths, most) for one, lengths in zip(found, _lengths(found), strict=True)]
    columns = [
        {
            "name": name,
            "unit": measured_in(column),
            "sample": error(domain, name, asked.errors_without_privacy[name]).text,
        }
        for name, column in domain.columns.items()
    ]
    return rendered(
        "discreet.planner",
        "budgets.html",
        {
            "title": "Choose a budget",
            "records": f"{asked.n:,}",
            "width": counted(len(columns), "column"),
            "size": f"{asked.size:,}",
            "delta": as_written(asked.budget.delta),
            "unit": unit_of(asked.request.group).rstrip(","),
            "like": like_what(asked),
            "columns": columns,
            "sample": about(asked.without_privacy, 4),
            "single": len(columns) == 1,
            "pairs": None if rehearsal is None else _about_pairs(rehearsal, asked.size),
            "facts": facts,
            "wrong": WRONG,
            "usual": USUAL,
            "found": found,
            "own": own,
            "lengths": _lengths(found),
            "runs": runs(found),
            "ledger": None if ledger is None else {"dataset": ledger.dataset, "now": in_ledger(ledger)},
            "data": {
                "own": own,
                "usual": USUAL,
                "wrong": WRONG,
                "columns": [[each["name"], each["unit"]] for each in columns],
                "budgets": facts,
            },
        },
        script="budgets.js",
        style="budgets.css",
    )


def _about_pairs(rehearsal: Rehearsal, size: int) -> dict[str, Any]:
    """Return what is the same of pairs at every budget."""
    return {
        "many": f"{len(rehearsal.pairs):,}",
        "shown": min(SHOWN_PAIRS, len(rehearsal.pairs)),
        "sample": of_records(float(rehearsal.without_privacy.mean())),
        "runs": counted(rehearsal.runs, "rehearsal"),
        "drawn": "" if rehearsal.drawn == size else f", with {counted(rehearsal.drawn, 'record')} released",
    }


def cells(one: Choice) -> list[str]:
    """Return one sentence for each column whose cells the plan chose."""
    mechanism = None if one.option is None else one.option.mechanism
    found = [] if mechanism is None else chosen_cells(one.plan.comparison.domain, mechanism.domain)
    return [f"{sentence[:1].upper()}{sentence[1:].rstrip('.')}." for sentence in found]


def _lengths(found: Sequence[Choice]) -> list[list[float]]:
    """Return how long each column's bar is at each budget: the longest of a column is 100."""
    names = found[0].plan.comparison.domain.names
    most = {name: max((one.errors[name].value for one in found if name in one.errors), default=0.0) for name in names}
    return [
        [
            round(100.0 * one.errors[name].value / most[name], 2) if name in one.errors and most[name] else 0.0
            for name in names
        ]
        for one in found
    ]


def _facts(one: Choice, lengths: Sequence[float], most: float) -> dict[str, Any]:
    """Return what the script shows of a budget."""
    names = one.plan.comparison.domain.names
    return {
        "epsilon": one.epsilon,
        "mechanism": one.mechanism,
        "why": one.why,
        "cells": cells(one),
        "verdict": one.verdict,
        "size": one.size,
        "delta": one.delta,
        "fromData": one.not_from_data,
        "w1": one.w1,
        "times": one.times,
        "risks": [[risk.text, risk.words] for risk in one.risks],
        "errors": [
            [one.errors[name].text, one.errors[name].share, one.errors[name].value, length]
            if name in one.errors
            else ["-", "", None, 0.0]
            for name, length in zip(names, lengths, strict=True)
        ],
        "pairs": None if one.pairs is None else _pair_facts(one.pairs, most),
        "pairsUnknown": one.pairs_unknown,
        "promised": one.promised,
        "not": one.not_promised,
        "left": one.left,
        "command": one.command,
        "python": one.python,
    }


def _pair_facts(pairs: Pairs, most: float) -> dict[str, Any]:
    """Return what the script shows of the pairs of a budget."""
    rows = [
        [*each.columns, each.text, each.sample, each.measured, round(100.0 * each.share / most, 2) if most else 0.0]
        for each in pairs.rows
    ]
    texts = of_records(pairs.mean), of_records(pairs.largest)
    values = [float(text.removesuffix(" %")) for text in texts]
    return {"texts": texts, "values": values, "measured": pairs.measured, "rows": rows}
