"""A page to choose a budget by: plans of one request at several budgets, from public facts and a ledger's sums."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from discreet import wording
from discreet._core.errors import ParameterError
from discreet._core.page import FilePath, rendered, require_page, write_own
from discreet._core.text import about, as_written, counted, counted_up, full_sentence, item_text, rounded_up
from discreet.domain import Column, Domain
from discreet.ledger import Ledger, ledger_for, left_after
from discreet.planner.cells import chosen_cells
from discreet.planner.options import numbers_of
from discreet.planner.predicted import PairErrors, Progress, Rehearsal
from discreet.privacy import AnyBudget, Budget, Risk, TradeOff, against_guessing
from discreet.releases import budget_of, delta_caveats

if TYPE_CHECKING:
    from discreet.planner.plans import Plan

FALSE_ALARMS = (1, 2, 5, 10, 20)
"""Of 100 false suspicions, how many an attacker may confirm."""

_EACH_WAY, _PER_DECADE, _LARGEST, _LARGEST_LIMIT = 8, 6, 100.0, 0.99
_SHOWN_PAIRS = 10
_OPTION = "--"

Plans = Sequence[tuple["Plan", PairErrors | None]]


def write_budget_page(plan: Plan, out: FilePath, ledger: Any, dataset: str | None, progress: Any) -> Path:
    """Write the page. The arguments are those of :meth:`Plan.write_page`."""
    comparison = plan.comparison
    place = ledger.place if isinstance(ledger, Ledger) else ledger
    inputs = (*comparison.files.values(), place)
    path = require_page(out, inputs)
    opened = ledger_for(ledger, comparison.files.get("domain"), dataset=dataset)
    arguments: dict[str, str] = {}  # those that name a ledger: no folder, and no address of a database
    if place is not None:
        arguments = {"ledger": "ADDRESS" if "://" in str(place) else Path(place).name}
        if dataset is not None:
            arguments["dataset"] = dataset
    comparable = comparison.reference.table is not None and len(comparison.domain.columns) > 1
    rehearsal = Rehearsal(comparison) if comparable else None
    plans, current = plans_around(plan, rehearsal, progress)
    text = page(plans, current, ledger=opened, arguments=arguments, rehearsal=rehearsal)
    write_own(path, text, inputs=inputs)
    return path


def budgets_around(budget: AnyBudget) -> list[AnyBudget]:
    """Return budgets from about a twentieth to about twenty times this one (above guessing), six per decade."""
    (name, own), least, largest = ("epsilon", getattr(budget, "epsilon", 0.0)), 0.0, _LARGEST
    if not isinstance(budget, Budget):
        (name, own), least, largest = budget.limit, budget.guessing, _LARGEST_LIMIT
    elif not own:
        raise ParameterError("a page of budgets needs an epsilon above 0. Give epsilon=...")
    steps = [k / _PER_DECADE for k in range(-_EACH_WAY, _EACH_WAY + 1) if k]
    rounded = {round(least + float(about((own - least) * 10.0**step, 2)), 12) for step in steps}
    limits = sorted({own, *(x for x in rounded if least < x <= largest)})
    return [replace(cast("Any", budget), **{name: x}) for x in limits]


def options_of(budget: AnyBudget) -> dict[str, str]:
    """Return a budget as options of the command, by their names."""
    numbers = {name: as_written(value) for name, value in numbers_of(budget).items()}
    if "false_alarms" in numbers:
        return {"risk": f"{numbers['detection']} at {numbers['false_alarms']}"}
    return numbers


def plans_around(plan: Plan, rehearsal: Rehearsal | None, progress: Progress = None) -> tuple[Plans, int]:
    """Return a plan for each of several budgets, least first, and the place of the one that is there already."""
    own, plans = plan.comparison.budget, []
    budgets = budgets_around(own)
    for place, budget in enumerate(budgets):

        def report(done: int, mechanisms: int, start: int = place) -> None:
            if progress is not None:
                steps = mechanisms + (rehearsal is not None)
                progress(start * steps + done, len(budgets) * steps)

        option_plan, pairs = plan, None
        if budget != own:
            option_plan = plan.with_budget(budget, progress=report)
        if rehearsal is not None:
            for option in option_plan.feasible[:1]:
                pairs = rehearsal.pair_errors(option)
            report(len(option_plan.options) + 1, len(option_plan.options))
        plans.append((option_plan, pairs))
    return plans, budgets.index(own)


def page(
    plans: Plans, current: int, *, ledger: Ledger | None = None, arguments: Any = (), rehearsal: Rehearsal | None = None
) -> str:
    """Return the page as text; ``arguments``: those of the ledger, as a release has them."""
    comparison = plans[current][0].comparison
    budgets = budget_texts(plans, ledger=ledger, arguments=arguments, rehearsal=rehearsal)
    groups = groupby(budgets, key=lambda texts: texts["mechanism"])
    errors, given = comparison.errors_without_privacy.items(), _percent(comparison.budget)
    slider, *_ = numbers_of(comparison.budget)
    named, unit = ("limit", " %") if given else ("epsilon", "")
    data = {
        "own": current,
        "usual": FALSE_ALARMS.index(5),
        "wrong": FALSE_ALARMS,
        "columns": [[name, measured_in(column)] for name, column in comparison.domain.columns.items()],
        "budgets": budgets,
        "named": named,
        "unit": unit,
    }
    facts = {
        "title": "Choose a budget",
        "comparison": comparison,
        "rehearsal": rehearsal,
        "ledger": ledger,
        "left_now": ledger and _left_now(ledger),
        "samples": [error_texts(comparison.domain, *error)[0] for error in errors],
        "chosen": wording.chosen_at(named, [(name, [x["amount"] + unit for x in group]) for name, group in groups]),
        "slider": wording.SLIDERS[slider].format(*given),
        "like": wording.LIKE[comparison.reference.table is not None],
        "data": data,
        **{function.__name__: function for function in (wording.unit, about, as_written, counted)},
    }
    return rendered("discreet.planner", "budgets.html", facts, script="budgets.js", style="budgets.css")


def budget_texts(
    plans: Plans, *, ledger: Ledger | None = None, arguments: Any = (), rehearsal: Rehearsal | None = None
) -> list[dict[str, Any]]:
    """Return what the page shows of each budget: numbers as they are written, sentences, and lengths up to 100."""
    budgets: list[dict[str, Any]] = []
    for (plan, pairs), remainder in zip(plans, _left([plan for plan, _ in plans], ledger), strict=True):
        texts = _texts(plan, dict(arguments))
        texts |= {"risks": list(_risks(plan, budgets)), "left": remainder, "pairs": None, "pairsUnknown": []}
        if pairs is None or rehearsal is None:
            texts["pairsUnknown"] = _unknown_pairs(plan)
        else:
            texts["pairs"] = _pair_texts(pairs, rehearsal)
        budgets.append(texts)
    # the bars: of the errors of a column, and of the pairs that are shown
    rows = [row for texts in budgets if texts["pairs"] for row in texts["pairs"]["rows"]]
    for bars in (*zip(*(texts["errors"] for texts in budgets), strict=True), rows):
        longest = max((bar[-1] or 0.0 for bar in bars), default=0.0) or 1.0
        for bar in bars:
            bar.append(round(100.0 * (bar[-1] or 0.0) / longest, 2))
    for row in rows:
        del row[-2]
    return budgets


def _texts(plan: Plan, arguments: Mapping[str, str]) -> dict[str, Any]:
    """Return the texts about what a plan chooses, or that it chooses nothing, but for risks, pairs and the ledger."""
    comparison = plan.comparison
    n, size, budget = comparison.n, comparison.size, comparison.budget
    notes = list(map(str, delta_caveats(getattr(budget, "delta", 0.0), n)))
    amount, cost = (as_written(budget.epsilon),) * 2 if isinstance(budget, Budget) else (_percent(budget)[0], "-")
    texts: dict[str, Any] = {
        "amount": amount,
        "label": f"epsilon {amount}" if isinstance(budget, Budget) else f"limit {amount} %",
        "epsilon": cost,
        "mechanism": "none",
        "why": "No mechanism meets this budget.",
        "verdict": list(map(full_sentence, plan.verdict)),
        **dict.fromkeys(("size", "delta", "fromData", "w1", "times"), "-"),
        "cells": [],
        "errors": [["-", "", None] for _ in comparison.domain.names],
        "promised": ["Nothing can be released at this budget."],
    }
    for option in plan.feasible[:1]:
        if option.forecast is None or option.guarantee is None:
            continue
        epsilon, share = option.epsilon or 0.0, option.forecast.released_share
        delta = option.guarantee.delta(epsilon)
        notes = [*option.caveats, *notes]
        cells = chosen_cells(comparison.domain, plan.best.domain)
        texts |= {
            "mechanism": option.name,
            "why": f"Chosen: {plan.why}.",
            "size": f"{size:,}",
            "epsilon": amount if isinstance(budget, Budget) else rounded_up(epsilon),
            "delta": rounded_up(delta),
            "fromData": wording.marked_share(option.forecast),
            "cells": list(map(full_sentence, [*comparison.notes, *cells])),
            "promised": wording.promised(option.guarantee, epsilon, delta),
        }
        if share < 1.0:
            texts["size"] = f"about {counted_up(size * share)} of {counted(size, 'draw')}"
        if option.errors is not None and option.w1 is not None:
            texts["w1"] = about(option.w1, 4)
            texts["errors"] = [error_texts(comparison.domain, *error) for error in option.errors.items()]
        if option.times_sampling is not None:
            texts["times"] = about(option.times_sampling, 2)
    command, python = _calls(plan, texts["mechanism"], arguments)
    warnings = wording.not_promised(n, wording.LIKE[comparison.reference.table is not None])
    return texts | {"not": [*map(full_sentence, notes), *warnings], "command": command, "python": python}


def error_texts(domain: Domain, name: str, value: float) -> list[Any]:
    """Return a column's error as it is shown, its share of the column's range, if any, and the number that is shown."""
    column = domain.columns[name]
    if column.labels is not None or column.open:
        text = about(100.0 * value)
        return [f"{text} %", "", float(text)]
    share = value / (column.scale or math.inf)
    return [about(value), f"{about(100.0 * share)} % of its range", float(about(value))]


def measured_in(column: Column) -> str:
    """Say what a column's error is measured in; nothing where it is the column's own unit."""
    if not column.on_a_line:
        return "% of records with another value"
    if column.labels is not None:
        return "% of the way from the first category to the last"
    return column.position_unit


def _risks(plan: Plan, smaller: Sequence[dict[str, Any]]) -> Iterator[list[str]]:
    """Yield the best attacker's power, as shown and in words, by false alarms; the words say where less has more."""
    group = plan.comparison.request.covered.group
    for option in plan.feasible[:1]:
        guarantee, epsilon = option.guarantee, option.epsilon or 0.0
        if guarantee is None:
            return
        trade_off = TradeOff.from_profile(guarantee.profile, upto=epsilon, among=epsilon)
        powers = trade_off.power(np.array(FALSE_ALARMS) / 100.0).tolist()
        budget = plan.comparison.budget
        if isinstance(budget, Risk) and (own := 100.0 * budget.false_alarms) in FALSE_ALARMS:
            at = FALSE_ALARMS.index(own)
            powers[at] = min(powers[at], budget.reached(guarantee.profile))
        for i, (alarms, power) in enumerate(zip(FALSE_ALARMS, powers, strict=True)):
            text = rounded_up(min(100.0, 100.0 * power))
            words = f"{wording.attack(alarms, text, group)} {against_guessing(alarms / 100.0, power)}"
            risks = [(float(budget["risks"][i][0]), budget) for budget in smaller if budget["risks"]]
            risk, worst = max(risks, key=lambda pair: pair[0], default=(0.0, {}))
            if risk > float(text):
                words += f" At {worst['label']}, where {worst['mechanism']} is chosen, it would be "
                words += f"{worst['risks'][i][0]}."
            yield [text, words]


def _of_records(share: float) -> str:
    return f"{about(100.0 * share, 2)} %"


def _pair_texts(pairs: PairErrors, rehearsal: Rehearsal) -> dict[str, Any]:
    """Return the errors of pairs of columns as they are shown: rows of two columns, three texts, and the error."""
    runs, errors, samples = rehearsal.runs, pairs.errors.tolist(), rehearsal.without_privacy.tolist()
    measured = [runs] * len(errors) if pairs.measured is None else pairs.measured.tolist()
    often = {count: f"in {count} of {runs}" for count in range(runs)} | {0: "no", runs: "yes"}
    worst = np.argsort(-pairs.errors, kind="stable")[:_SHOWN_PAIRS].tolist()
    rows = [
        [*rehearsal.pairs[i], _of_records(errors[i]), _of_records(samples[i]), often[measured[i]], errors[i]]
        for i in worst
    ]
    number, texts = sum(measured) / runs, [_of_records(float(pairs.errors.mean())), rows[0][2]]
    return {
        "texts": texts,
        "values": [float(text.removesuffix(" %")) for text in texts],
        "measured": ("" if number == round(number) else "about ") + f"{round(number):,} of {len(errors):,}",
        "rows": rows,
    }


def _unknown_pairs(plan: Plan) -> list[str]:
    """Return why no error of a pair is predicted, and what is known beforehand."""
    comparison = plan.comparison
    if len(comparison.domain.columns) < 2:
        return []
    reason, forecasts = "no columns", []
    for option in plan.feasible[:1]:
        if option.errors is not None:
            reason = "some columns"
        if option.forecast is not None:
            forecasts = wording.pairs(option.forecast, comparison.n)
    if comparison.reference.table is None:
        reason = "no table"
    return [*wording.PAIRS_UNKNOWN[reason], *forecasts]


def _left(plans: Sequence[Plan], ledger: Ledger | None) -> list[str | None]:
    """Return what each release would leave in a ledger, as text; None without one."""
    if ledger is None:
        return [None] * len(plans)
    guarantees = [next((option.guarantee for option in plan.feasible), None) for plan in plans]
    budgets = [plan.comparison.request.budget for plan in plans]
    both = [(guarantee, budget) for guarantee, budget in zip(guarantees, budgets, strict=True) if guarantee is not None]
    paid = [(guarantee, budget or budget_of(guarantee, ledger)) for guarantee, budget in both]
    status, remainders = left_after(ledger, paid)
    delta = status.budget["delta"] > 0.0
    texts = iter(["not allowed" if pair is None else wording.amounts(*pair, with_delta=delta) for pair in remainders])
    return ["-" if guarantee is None else next(texts) for guarantee in guarantees]


def _left_now(ledger: Ledger) -> str:
    status = ledger.status()
    total, amounts, delta = status.budget, status.left, status.budget["delta"] > 0.0
    budget = f"epsilon {as_written(total['epsilon'])}"
    if delta:
        budget += f", delta {as_written(total['delta'])}"
    further = "" if status.currency == "sums" else " Further releases may cost that much together."
    left = wording.amounts(amounts["epsilon"], amounts["delta"], with_delta=delta)
    return f"Of {budget}, {left} is left now.{further}"


def _calls(plan: Plan, mechanism: str, arguments: Mapping[str, str]) -> tuple[str, str]:
    """Return the release as a command line and as Python; ``arguments``: those of the ledger."""
    request, budget, size = plan.comparison.request, plan.comparison.budget, plan.comparison.size
    domain = Path(plan.comparison.files.get("domain", "DOMAIN.toml")).name  # no folder of this machine
    kinds = (int, float, str, list, tuple)
    parameters = {name: value for name, value in request.parameters.items() if isinstance(value, kinds)}
    common = {"mechanism": mechanism, **parameters, **arguments, "out": "synthetic.parquet"}
    options = {"domain": domain, **options_of(budget), "size": size}
    if not isinstance(budget, Budget):  # the limit is met by the mechanism for this number of records
        options["records"] = plan.comparison.n
    if (unit := plan.comparison.unit) is not None:
        options |= {"unit": unit.column, "max_records": unit.max_records}
    command = ["discreet release DATA"]
    for name, value in (options | common).items():
        option, text = f"{_OPTION}{name.replace('_', '-')} ", shlex.quote(item_text(value))
        if name in request.parameters and name != "sampling":
            option = f"{_OPTION}param {name}="
        command.append(option + text)
    command += [f"{_OPTION}outcome {shlex.quote(name)}" for name in plan.comparison.domain.outcome]
    # a JSON text is a literal of Python too
    texts = {name: json.dumps(value) for name, value in common.items() if isinstance(value, (str, list, tuple))}
    values = {name: texts.get(name, item_text(value)) for name, value in common.items()}
    dataset = values.pop("dataset", None)
    if outcome := plan.comparison.domain.outcome:
        values["outcome"] = json.dumps(outcome)
    if "records" in options:
        values["relation"] = f"discreet.Replacement(records={options['records']})"
    if unit is not None:
        values["unit"] = f"discreet.Unit({json.dumps(unit.column)}, max_records={unit.max_records})"
    if dataset is not None:
        values["ledger"] = f"discreet.Ledger({values['ledger']}, {dataset})"
    keywords = ", ".join(f"{name}={value}" for name, value in {"size": size, **values}.items())
    numbers = ", ".join(f"{name}={item_text(value)}" for name, value in numbers_of(budget).items())
    spent = f"discreet.{type(budget).__name__}({numbers})"
    return " ".join(command), f'import discreet\n\ndiscreet.release("DATA", {json.dumps(domain)}, {spent}, {keywords})'


def _percent(budget: Any) -> list[str]:
    """Return the shares that limit an attacker in percent; none of epsilon and delta."""
    if isinstance(budget, Budget):
        return []
    return [as_written(round(100.0 * share, 8)) for share in numbers_of(budget).values()]
