"""A page to choose a budget by: plans of one request at several budgets, from public facts and a ledger's sums."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from discreet import wording
from discreet._core.errors import ParameterError
from discreet._core.page import rendered, require_page, write_own
from discreet._core.text import about, as_written, counted, counted_up, full_sentence, rounded_up
from discreet.domain import Column, Domain
from discreet.ledger import Ledger, ledger_for, left_after
from discreet.planner.cells import chosen_cells
from discreet.planner.plans import Plan, planned
from discreet.planner.rehearsal import PairErrors, Rehearsal
from discreet.privacy import Budget, Guarantee, TradeOff, against_guessing
from discreet.releases import delta_caveats

FALSE_ALARMS = (1, 2, 5, 10, 20)
"""Of 100 false suspicions, how many an attacker may confirm."""

_EACH_WAY, _PER_DECADE, _LARGEST = 8, 6, 100.0
_SHOWN_PAIRS = 10
_OPTION = "--"
_UNITS = {"date": "days", "datetime": "seconds", "duration": "seconds"}

Plans = Sequence[tuple[Plan, PairErrors | None]]


def write_budget_page(
    plan: Plan,
    out: str | os.PathLike[str],
    *,
    ledger: Ledger | str | os.PathLike[str] | None,
    dataset: str | None,
    progress: Callable[[int, int], None] | None,
) -> Path:
    """Write the page. The arguments are those of :meth:`Plan.write_page`."""
    files, place = plan.comparison.files, ledger.place if isinstance(ledger, Ledger) else ledger
    inputs = (*files.values(), place)
    path = require_page(out, inputs)
    opened = ledger_for(ledger, files.get("domain"), dataset=dataset)
    arguments: dict[str, str] = {}  # those that name a ledger: no folder, and no address of a database
    if place is not None:
        arguments = {"ledger": "ADDRESS" if "://" in str(place) else Path(place).name}
        arguments |= {} if dataset is None else {"dataset": dataset}
    # A ledger that was given open is its owner's to close.
    with nullcontext(opened) if opened is None or opened is ledger else opened:
        comparable = plan.comparison.reference.table is not None and len(plan.comparison.domain.columns) > 1
        rehearsal = Rehearsal(plan.comparison) if comparable else None
        plans, own = plans_around(plan, rehearsal, progress)
        text = page(plans, own, ledger=opened, arguments=arguments, rehearsal=rehearsal)
    write_own(path, text, inputs=inputs)
    return path


def budgets_around(epsilon: float) -> list[float]:
    """Return epsilons from about a twentieth to about twenty times one, six per decade, written with two digits.

    Examples
    --------
    >>> budgets_around(1.0)[6:11]
    [0.46, 0.68, 1.0, 1.5, 2.2]
    """
    if not epsilon > 0.0:
        raise ParameterError("a page of budgets needs an epsilon above 0. Give epsilon=...")
    steps = range(-_EACH_WAY, _EACH_WAY + 1)
    near = {float(about(epsilon * 10.0 ** (k / _PER_DECADE), 2)) for k in steps if k}
    return sorted({epsilon, *(value for value in near if 0.0 < value <= _LARGEST)})


def plans_around(
    plan: Plan, rehearsal: Rehearsal | None, progress: Callable[[int, int], None] | None = None
) -> tuple[list[tuple[Plan, PairErrors | None]], int]:
    """Return a plan for each of several budgets, least first, and the place of the one that is there already."""
    comparison = plan.comparison
    epsilons, own = budgets_around(comparison.budget.epsilon), comparison.budget.epsilon
    more, plans = int(rehearsal is not None), []
    for place, epsilon in enumerate(epsilons):

        def report(done: int, mechanisms: int, before: int = place) -> None:
            if progress is not None:
                progress(before * (mechanisms + more) + done, len(epsilons) * (mechanisms + more))

        budget = Budget(epsilon=epsilon, delta=comparison.budget.delta)
        same = replace(comparison, request=replace(comparison.request, budget=budget))
        again = plan if epsilon == own else planned(same, largest_sizes=False, progress=report)
        pairs = rehearsal.of(again.feasible[0]) if rehearsal is not None and again.feasible else None
        if rehearsal is not None:
            report(len(again.options) + 1, len(again.options))
        plans.append((again, pairs))
    return plans, epsilons.index(own)


def page(
    plans: Plans,
    own: int,
    *,
    ledger: Ledger | None = None,
    arguments: Mapping[str, str] | None = None,
    rehearsal: Rehearsal | None = None,
) -> str:
    """Return the page as text; ``arguments``: those of the ledger, as a release has them."""
    comparison = plans[own][0].comparison
    sample = comparison.errors_without_privacy
    pairs: dict[str, Any] | None = None
    if rehearsal is not None:
        pairs = {
            "many": f"{len(rehearsal.pairs):,}",
            "shown": min(_SHOWN_PAIRS, len(rehearsal.pairs)),
            "sample": _of_records(float(rehearsal.without_privacy.mean())),
            "runs": counted(rehearsal.runs, "rehearsal"),
            "drawn": f", with {counted(rehearsal.drawn, 'record')} released" * (rehearsal.drawn != comparison.size),
        }
    budgets = budget_texts(plans, ledger=ledger, arguments=arguments or {}, rehearsal=rehearsal)
    columns = comparison.domain.columns.items()
    return rendered(
        "discreet.planner",
        "budgets.html",
        {
            "title": "Choose a budget",
            "records": f"{comparison.n:,}",
            "width": counted(len(columns), "column"),
            "size": f"{comparison.size:,}",
            "delta": as_written(comparison.budget.delta),
            "group": comparison.request.group,
            "unit": wording.unit(comparison.request.group).rstrip(","),
            "like": wording.LIKE[comparison.reference.table is not None],
            "samples": [error_texts(comparison.domain, name, error)[0] for name, error in sample.items()],
            "sample": about(comparison.without_privacy, 4),
            "single": len(columns) == 1,
            "pairs": pairs,
            "chosen": wording.chosen_at(
                [(name, [each["epsilon"] for each in group])
                 for name, group in groupby(budgets, key=lambda budget: budget["mechanism"])]
            ),
            "ledger": None if ledger is None else {"dataset": ledger.dataset, "now": _now(ledger)},
            "data": {
                "own": own,
                "usual": FALSE_ALARMS.index(5),
                "wrong": FALSE_ALARMS,
                "columns": [[name, measured_in(column)] for name, column in columns],
                "budgets": budgets,
            },
        },
        script="budgets.js",
        style="budgets.css",
    )  # fmt: skip


def budget_texts(
    plans: Plans,
    *,
    ledger: Ledger | None = None,
    arguments: Mapping[str, str] | None = None,
    rehearsal: Rehearsal | None = None,
) -> list[dict[str, Any]]:
    """Return what the page shows of each budget: numbers as they are written, sentences, and lengths up to 100."""
    budgets = [_texts(plan, arguments or {}) for plan, _ in plans]
    left = _left([plan for plan, _ in plans], ledger)
    for place, (plan, pairs) in enumerate(plans):
        budgets[place] |= {
            "risks": list(_risks(plan, budgets[:place])),
            "left": left[place],
            "pairs": None if pairs is None or rehearsal is None else _pair_texts(pairs, rehearsal),
            "pairsUnknown": _unknown_pairs(plan) if pairs is None else [],
        }
    for errors in zip(*(budget["errors"] for budget in budgets), strict=True):
        longest = max(error[2] or 0.0 for error in errors)
        for error in errors:
            error.append(_length(error[2] or 0.0, longest))
    shown = [budget["pairs"] for budget in budgets if budget["pairs"]]
    largest = max((pairs["rows"][0][-1] for pairs in shown), default=0.0)
    for pairs in shown:
        pairs["rows"] = [[*row, _length(share, largest)] for *row, share in pairs["rows"]]
    return budgets


def _length(value: float, longest: float) -> float:
    return round(100.0 * value / longest, 2) if longest else 0.0


def _texts(plan: Plan, arguments: Mapping[str, str]) -> dict[str, Any]:
    """Return the texts about what a plan chooses, or that it chooses nothing, but for risks, pairs and the ledger."""
    comparison, option = plan.comparison, next(iter(plan.feasible), None)
    n, size, epsilon = comparison.n, comparison.size, comparison.budget.epsilon
    like = wording.LIKE[comparison.reference.table is not None]
    notes = [*map(str, delta_caveats(comparison.budget.delta, n))]
    texts: dict[str, Any] = {
        "epsilon": as_written(epsilon),
        "mechanism": "none",
        "why": "No mechanism meets this budget.",
        "verdict": list(map(full_sentence, plan.verdict)),
        **dict.fromkeys(("size", "delta", "fromData", "w1", "times"), "-"),
        "cells": [],
        "errors": [["-", "", None] for _ in comparison.domain.names],
        "promised": ["Nothing can be released at this budget."],
    }
    if option is not None and option.forecast is not None and option._guarantee is not None:
        share, delta = option.forecast.released_share, option._guarantee.delta(epsilon)
        notes = [*option.caveats, *notes]
        texts |= {
            "mechanism": option.name,
            "why": f"Chosen: {plan.why}.",
            "size": f"{size:,}",
            "delta": rounded_up(delta),
            "fromData": wording.marked_share(option.forecast),
            "cells": list(map(full_sentence, chosen_cells(comparison.domain, plan.best.domain))),
            "promised": wording.promised(option._guarantee, epsilon, delta),
        }
        if share < 1.0:
            texts["size"] = f"about {counted_up(size * share)} of {counted(size, 'draw')}"
        if option.errors is not None and option.w1 is not None:
            texts["w1"] = about(option.w1, 4)
            texts["errors"] = [error_texts(comparison.domain, *error) for error in option.errors.items()]
        if option.times_sampling is not None:
            texts["times"] = about(option.times_sampling, 2)
    command, python = _calls(plan, texts["mechanism"], arguments)
    return texts | {
        "not": [*map(full_sentence, notes), *wording.not_promised(n, like)],
        "command": command,
        "python": python,
    }


def error_texts(domain: Domain, name: str, value: float) -> list[Any]:
    """Return a column's error as it is shown, its share of the column's range, if any, and the number that is shown."""
    column = domain.columns[name]
    if column.labels is not None or column.open:
        text = about(100.0 * value)
        return [f"{text} %", "", float(text)]
    share = value / column.scale if column.scale else 0.0
    return [about(value), f"{about(100.0 * share)} % of its range", float(about(value))]


def measured_in(column: Column) -> str:
    """Say what a column's error is measured in; nothing where it is the column's own unit."""
    if not column.on_a_line:
        return "% of records with another value"
    if column.labels is not None:
        return "% of the way from the first category to the last"
    return _UNITS.get(column.kind, "")


def _risks(plan: Plan, before: Sequence[dict[str, Any]]) -> Iterator[list[str]]:
    """Yield the power of the best attacker, from the whole profile, as it is shown and in words, by false alarms.

    Where an attacker is right less often than at a smaller budget, of which the page shows what is in ``before``,
    another mechanism is chosen there: the words say so.
    """
    guarantee, epsilon = _guarantee(plan), plan.comparison.budget.epsilon
    if guarantee is None:
        return
    powers = TradeOff.from_profile(guarantee.profile, upto=epsilon, among=epsilon).power(np.array(FALSE_ALARMS) / 100.0)
    for i, (alarms, power) in enumerate(zip(FALSE_ALARMS, powers.tolist(), strict=True)):
        text = rounded_up(min(100.0, 100.0 * power))
        words = (
            f"{wording.attack(alarms, text, plan.comparison.request.group)} {against_guessing(alarms / 100.0, power)}"
        )
        worse = [budget for budget in before if budget["risks"] and float(budget["risks"][i][0]) > float(text)]
        if worse:
            worst = max(worse, key=lambda budget: float(budget["risks"][i][0]))
            words += f" At epsilon {worst['epsilon']}, where {worst['mechanism']} is chosen, it would be "
            words += f"{worst['risks'][i][0]}."
        yield [text, words]


def _of_records(share: float) -> str:
    return f"{about(100.0 * share, 2)} %"


def _pair_texts(pairs: PairErrors, rehearsal: Rehearsal) -> dict[str, Any]:
    """Return the errors of pairs of columns as they are shown: rows of two columns, three texts, and the error."""
    runs, often = pairs.rehearsals, {0: "no", pairs.rehearsals: "yes"}
    measured = np.full(len(pairs.errors), runs) if pairs.measured is None else pairs.measured
    errors = pairs.errors.tolist()
    rows = [
        [
            *rehearsal.pairs[i],
            _of_records(errors[i]),
            _of_records(float(rehearsal.without_privacy[i])),
            often.get(int(measured[i]), f"in {measured[i]} of {runs}"),
            errors[i],
        ]
        for i in pairs.worst[:_SHOWN_PAIRS].tolist()
    ]
    number, texts = int(measured.sum()) / runs, [_of_records(pairs.mean), rows[0][2]]
    return {
        "texts": texts,
        "values": [float(text.removesuffix(" %")) for text in texts],
        "measured": "about " * (number != round(number)) + f"{round(number):,} of {len(errors):,}",
        "rows": rows,
    }


def _unknown_pairs(plan: Plan) -> list[str]:
    """Return why no error of a pair is predicted, and what is known beforehand."""
    comparison, option = plan.comparison, next(iter(plan.feasible), None)
    if len(comparison.domain.columns) < 2:
        return []
    reason = "no table" if comparison.reference.table is None else "some columns"
    if reason == "some columns" and (option is None or option.errors is None):
        reason = "no columns"
    known = [] if option is None or option.forecast is None else wording.pairs(option.forecast, comparison.n)
    return [*wording.PAIRS_UNKNOWN[reason], *known]


def _guarantee(plan: Plan) -> Guarantee | None:
    return plan.feasible[0]._guarantee if plan.feasible else None


def _left(plans: Sequence[Plan], ledger: Ledger | None) -> list[str | None]:
    """Return what each release would leave in a ledger, as text; None without one."""
    if ledger is None:
        return [None] * len(plans)
    asked = [(found, plan.comparison.budget) for plan in plans if (found := _guarantee(plan)) is not None]
    status, left = left_after(ledger, asked)
    delta = status.budget["delta"] > 0.0
    texts = iter(["not allowed" if pair is None else wording.amounts(*pair, with_delta=delta) for pair in left])
    return ["-" if _guarantee(plan) is None else next(texts) for plan in plans]


def _now(ledger: Ledger) -> str:
    """Say what a ledger has left now."""
    status = ledger.status()
    whole, left, delta = status.budget, status.left, status.budget["delta"] > 0.0
    budget = f"epsilon {as_written(whole['epsilon'])}" + f", delta {as_written(whole['delta'])}" * delta
    further = " Further releases may cost that much together." * (status.currency != "sums")
    return f"Of {budget}, {wording.amounts(left['epsilon'], left['delta'], with_delta=delta)} is left now.{further}"


def _calls(plan: Plan, mechanism: str, arguments: Mapping[str, str]) -> tuple[str, str]:
    """Return the release as a command line and as Python; ``arguments``: those of the ledger."""
    request, budget = plan.comparison.request, plan.comparison.budget
    domain = Path(plan.comparison.files.get("domain", "DOMAIN.toml")).name  # no folder of this machine
    own = {name: value for name, value in request.parameters.items() if isinstance(value, (int, float, str))}
    common = {"mechanism": mechanism, **own, **arguments, "out": "synthetic.parquet"}
    options: dict[str, Any] = {"domain": domain, "epsilon": budget.epsilon, "delta": budget.delta}
    options["size"] = plan.comparison.size
    if request.unit is not None:
        options |= {"unit": request.unit.column, "max_records": request.unit.max_records}
    command = ["discreet release DATA"]
    for name, value in (options | common).items():
        text = shlex.quote(_text(value))
        if name in request.parameters and name != "sampling":
            command.append(f"{_OPTION}param {name}={text}")
        else:
            command.append(f"{_OPTION}{name.replace('_', '-')} {text}")
    # a JSON text is a literal of Python too
    values = {name: json.dumps(value) if isinstance(value, str) else _text(value) for name, value in common.items()}
    unit, dataset = request.unit, values.pop("dataset", None)
    if unit is not None:
        values["unit"] = f"discreet.Unit({json.dumps(unit.column)}, max_records={unit.max_records})"
    if dataset is not None:
        values["ledger"] = f"discreet.Ledger({values['ledger']}, {dataset})"
    given = ", ".join(f"{name}={value}" for name, value in {"size": plan.comparison.size, **values}.items())
    spent = f"discreet.Budget(epsilon={_text(budget.epsilon)}, delta={_text(budget.delta)})"
    return " ".join(command), f'import discreet\n\ndiscreet.release("DATA", {json.dumps(domain)}, {spent}, {given})'


def _text(value: Any) -> str:
    return as_written(value) if isinstance(value, float) else str(value)
