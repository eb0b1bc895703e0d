"""What each of several budgets would promise, cost and be worth: plans of one request, from public facts alone."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from discreet import wording
from discreet._core.errors import ParameterError
from discreet._core.text import about, as_written, counted, counted_up, rounded_down, rounded_up, sentence
from discreet.domain import Domain
from discreet.domain.column import Column
from discreet.ledger import Ledger
from discreet.ledger.outlook import left_after
from discreet.planner.options import Comparison, Option
from discreet.planner.plans import Plan, planned
from discreet.planner.rehearsal import PairErrors, Rehearsal
from discreet.privacy import Budget
from discreet.privacy.guarantee import TradeOff, against_guessing
from discreet.releases.content import delta_caveats

WRONG = (1, 2, 5, 10, 20)
"""Of 100, how many false alarms an attacker may raise."""

USUAL = WRONG.index(5)

SHOWN_PAIRS = 10
"""How many pairs of columns are shown of each budget."""

_EACH_WAY, _PER_DECADE, _LARGEST = 8, 6, 100.0
_OPTION = "--"
_UNITS = {"date": "days", "datetime": "seconds", "duration": "seconds"}


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
    return sorted({epsilon, *(one for one in near if 0.0 < one <= _LARGEST)})


def plans_around(
    made: Plan, rehearsal: Rehearsal | None, progress: Callable[[int, int], None] | None = None
) -> tuple[list[tuple[Plan, PairErrors | None]], int]:
    """Return a plan for each of several budgets, least first, and the place of the one that was made."""
    epsilons, own = budgets_around(made.comparison.budget.epsilon), made.comparison.budget.epsilon
    more, plans = int(rehearsal is not None), []
    for place, epsilon in enumerate(epsilons):

        def told(done: int, of: int, before: int = place) -> None:
            if progress is not None:
                progress(before * (of + more) + done, len(epsilons) * (of + more))

        budget = Budget(epsilon=epsilon, delta=made.comparison.budget.delta)
        again = replace(made.comparison, request=replace(made.comparison.request, budget=budget))
        plan = made if epsilon == own else planned(again, largest_sizes=False, progress=told)
        pairs = rehearsal.of(plan.feasible[0]) if rehearsal is not None and plan.feasible else None
        if rehearsal is not None:
            told(len(plan.options) + 1, len(plan.options))
        plans.append((plan, pairs))
    return plans, epsilons.index(own)


@dataclass(frozen=True, slots=True, kw_only=True)
class Risk:
    """What the best attacker reaches who raises a number of false alarms among 100."""

    power: float
    text: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """One column's predicted error: the number that is shown, its text, and its share of the column's range, if any."""

    value: float
    text: str
    share: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The predicted error of one pair of columns."""

    columns: tuple[int, int]
    share: float
    sample: str
    measured: str

    @property
    def text(self) -> str:
        """The share as it is shown."""
        return of_records(self.share)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """The predicted errors of pairs of columns."""

    mean: float
    largest: float
    measured: str
    rows: Sequence[Pair]


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One budget of a page."""

    plan: Plan
    risks: Sequence[Risk]
    errors: Mapping[str, Error]
    pairs: Pairs | None
    left: str | None
    ledger: Mapping[str, str]

    @property
    def option(self) -> Option | None:
        """What the plan chooses."""
        return self.plan.feasible[0] if self.plan.feasible else None

    @property
    def epsilon(self) -> str:
        """As it is written."""
        return as_written(self.plan.comparison.budget.epsilon)

    @property
    def mechanism(self) -> str:
        """The name of what the plan chooses."""
        return "none" if self.option is None else self.option.name

    @property
    def w1(self) -> str:
        """The predicted distance, as the plan writes it."""
        return "-" if self.option is None or self.option.w1 is None else about(self.option.w1, 4)

    @property
    def times(self) -> str:
        """The same in units of a sample's, as the plan writes it."""
        times = None if self.option is None else self.option.times_sampling
        return "-" if times is None else about(times, 2)

    @property
    def not_from_data(self) -> str:
        """The share that is not from the data, as the plan writes it."""
        if self.option is None or self.option.forecast is None:
            return "-"
        return wording.marked_share(self.option.forecast)

    @property
    def size(self) -> str:
        """How many records are released."""
        size = self.plan.comparison.size
        if self.option is None or self.option.forecast is None:
            return "-"
        share = self.option.forecast.released_share
        return f"{size:,}" if share >= 1.0 else f"about {counted_up(size * share)} of {counted(size, 'draw')}"

    @property
    def delta(self) -> str:
        """The delta of the mechanism at this epsilon, rounded up."""
        return "-" if self.option is None or self.option.delta is None else rounded_up(self.option.delta)

    @property
    def why(self) -> str:
        """Why this mechanism."""
        return f"Chosen: {self.plan.why}." if self.plan.feasible else "No mechanism meets this budget."

    @property
    def verdict(self) -> list[str]:
        """Why a release would be refused; empty where it would not."""
        return [f"{sentence(one).rstrip('.')}." for one in self.plan.verdict]

    @property
    def promised(self) -> list[str]:
        """What holds for every table of the domain."""
        asked, option = self.plan.comparison, self.option
        if option is None or option.mechanism is None or option._guarantee is None:
            return ["Nothing can be released at this budget."]
        guarantee, factor = option._guarantee, rounded_up(math.exp(asked.budget.epsilon))
        unit = unit_of(asked.request.group)
        plus = "" if not option.delta else f", plus a probability of at most {self.delta}"
        reached = "Some tables reach it" if guarantee.exact else "It is an upper bound, so the truth may be better"
        return [
            f"Whatever anybody computes from the release, no result is more than {factor} times as likely as it would "
            f"be if the data of {unit} were anything else{plus}.",
            f"So no attacker does better than the limit above, whatever they know. {reached}.",
            f"The guarantee is proved for every table of the declared domain ({guarantee.theorem}). It holds for rare "
            "and extreme records too."
            if guarantee.kind == "unconditional"
            else f"The guarantee is {guarantee.kind}: {'; '.join(map(str, guarantee.assumptions))}.",
        ]

    @property
    def not_promised(self) -> list[str]:
        """What is not, and what to know."""
        asked, option = self.plan.comparison, self.option
        caveats = () if option is None else option.caveats
        like = like_what(asked)
        own = [
            f"{sentence(one).rstrip('.')}." for one in (*caveats, *map(str, delta_caveats(asked.budget.delta, asked.n)))
        ]
        return [
            *own,
            "The release does teach something about people in general. What is common in the table shows in it, "
            "whether or not the data of any one person were used.",
            f"The predicted errors are not promised. They are for {like}, and your table may be different.",
            "Other releases of the same table are not covered. Together they reveal more than each one alone.",
            f"The number of records, {asked.n:,}, is public.",
        ]

    @property
    def pairs_unknown(self) -> list[str]:
        """Why no error of a pair is predicted, and what is known beforehand; empty where there is one."""
        asked, forecast = self.plan.comparison, None if self.option is None else self.option.forecast
        if self.pairs is not None or len(asked.domain.columns) < 2:
            return []
        known = [] if forecast is None else wording.pairs(forecast, asked.n)
        if asked.reference.table is None:
            why = [
                "The error of pairs is not predicted, because the declared domain does not say how columns depend on "
                "each other.",
                "A public table that looks like yours tells it. Plan again with that table as the reference.",
            ]
        elif self.errors:
            why = ["The error of pairs is not predicted, because only records of some kind are released."]
        else:
            why = ["The error of pairs is not predicted at this budget, and neither is that of columns."]
        return [*why, *known]

    @property
    def command(self) -> str:
        """The command line of this release."""
        return _command(self.plan, self._asked)

    @property
    def python(self) -> str:
        """The same in Python."""
        return _python(self.plan, self._asked)

    @property
    def _asked(self) -> dict[str, Any]:
        """The options of this release."""
        asked = self.plan.comparison
        unit = asked.request.unit
        return {
            "epsilon": asked.budget.epsilon,
            "delta": asked.budget.delta,
            "size": asked.size,
            **({} if unit is None else {"unit": unit.column, "max_records": unit.max_records}),
            "mechanism": self.mechanism,
            **{k: v for k, v in asked.request.parameters.items() if isinstance(v, (int, float, str))},
            **self.ledger,
            "out": "synthetic.parquet",
        }


def choices(
    plans: Sequence[tuple[Plan, PairErrors | None]],
    ledger: Ledger | None,
    named: Mapping[str, str],
    rehearsal: Rehearsal | None = None,
) -> list[Choice]:
    """Return what each plan's choice promises, is worth, and leaves."""
    left = _left([plan for plan, _ in plans], ledger)
    found: list[Choice] = []
    for (plan, pairs), words in zip(plans, left, strict=True):
        risks = [_beside(risk, found, place) for place, risk in enumerate(_risks(plan))]
        shown = None if pairs is None or rehearsal is None else _pairs(pairs, rehearsal)
        found.append(Choice(plan=plan, risks=risks, errors=_errors(plan), pairs=shown, left=words, ledger=named))
    return found


def _pairs(found: PairErrors, rehearsal: Rehearsal) -> Pairs:
    """Return the errors of pairs as they are shown."""
    measured, runs = found.measured, found.rehearsals
    of = len(found.errors)
    rows = [
        Pair(
            columns=rehearsal.pairs[i],
            share=float(found.errors[i]),
            sample=of_records(float(rehearsal.without_privacy[i])),
            measured=_how_often(runs if measured is None else int(measured[i]), runs),
        )
        for i in found.worst[:SHOWN_PAIRS].tolist()
    ]
    number = of if measured is None else int(measured.sum()) / runs
    many = f"{round(number):,} of {of:,}"
    return Pairs(
        mean=found.mean,
        largest=rows[0].share,
        measured=many if number == round(number) else f"about {many}",
        rows=rows,
    )


def _how_often(measured: int, runs: int) -> str:
    if measured in {0, runs}:
        return "yes" if measured else "no"
    return f"in {measured} of {runs}"


def of_records(share: float) -> str:
    """Return a share of records as it is shown."""
    return f"{about(100.0 * share, 2)} %"


def _beside(risk: Risk, before: Sequence[Choice], place: int) -> Risk:
    """Say so where an attacker is right less often than at a smaller budget: another mechanism is chosen there."""
    larger = [one for one in before if one.risks and float(one.risks[place].text) > float(risk.text)]
    if not larger:
        return risk
    worst = max(larger, key=lambda one: one.risks[place].power)
    words = f"At epsilon {worst.epsilon}, where {worst.mechanism} is chosen, it would be {worst.risks[place].text}."
    return replace(risk, words=f"{risk.words} {words}")


def _risks(plan: Plan) -> list[Risk]:
    """Return the power of the best attacker of what the plan chooses: from the whole profile, not one point of it."""
    guarantee = plan.feasible[0]._guarantee if plan.feasible else None
    if guarantee is None:
        return []
    epsilon, things = (
        plan.comparison.budget.epsilon,
        "records" if plan.comparison.request.group == 1 else "privacy units",
    )
    curve = TradeOff.from_profile(guarantee.profile, upto=epsilon, among=epsilon)
    found = []
    for wrong, power in zip(WRONG, curve.power(np.array(WRONG) / 100.0).tolist(), strict=True):
        text = rounded_up(min(100.0, 100.0 * power))
        words = (
            f"An attacker suspects something about 200 {things}. The suspicion is true for 100 of them and false for "
            f"the other 100. A test that wrongly confirms {wrong} of the false suspicions rightly confirms at most "
            f"{text} of the true ones, on average. {against_guessing(wrong / 100.0, power)}"
        )
        found.append(Risk(power=100.0 * power, text=text, words=words))
    return found


def unit_of(group: int) -> str:
    """Return what is protected, in words."""
    return "one record" if group == 1 else f"one privacy unit, of up to {counted(group, 'record')},"


def like_what(asked: Comparison) -> str:
    """Return which table predictions are about, in words."""
    known = asked.reference.table is not None
    return (
        "a table like the public reference"
        if known
        else "an invented table, whose values lie in the inner half of what is declared"
    )


def _errors(plan: Plan) -> dict[str, Error]:
    errors = plan.feasible[0].errors if plan.feasible else None
    return {} if errors is None else {name: error(plan.comparison.domain, name, e) for name, e in errors.items()}


def error(domain: Domain, name: str, value: float) -> Error:
    """Return an error of a column as it is shown."""
    column = domain.columns[name]
    if column.labels is not None or column.open:
        text = about(100.0 * value)
        return Error(value=float(text), text=f"{text} %", share="")
    share = value / column.scale if column.scale else 0.0
    return Error(value=float(about(value)), text=about(value), share=f"{about(100.0 * share)} % of its range")


def measured_in(column: Column) -> str:
    """Say what a column's error is measured in; nothing where it is the column's own unit."""
    if not column.on_a_line:
        return "% of records with another value"
    if column.labels is not None:
        return "% of the way from the first category to the last"
    return _UNITS.get(column.kind, "")


def runs(found: Sequence[Choice]) -> str:
    """Say which mechanism the planner chooses at which budgets."""
    parts = []
    for name, group in groupby(found, key=lambda one: one.mechanism):
        those = [one.epsilon for one in group]
        name_ = "no mechanism" if name == "none" else name
        span = f"from epsilon {those[0]} to {those[-1]}" if len(those) > 1 else f"at epsilon {those[0]}"
        parts.append(f"{name_} {span}")
    if len(parts) == 1:
        return f"The planner chooses {found[0].mechanism} at every epsilon on this page."
    return f"The planner chooses {', '.join(parts[:-1])} and {parts[-1]}."


def _left(plans: Sequence[Plan], ledger: Ledger | None) -> list[str | None]:
    if ledger is None:
        return [None] * len(plans)
    asked = [(plan.feasible[0]._guarantee, plan.comparison.budget) if plan.feasible else None for plan in plans]
    some = [(guarantee, budget) for guarantee, budget in filter(None, asked) if guarantee is not None]
    status, found = left_after(ledger, some)
    rest = iter(found)
    words: list[str | None] = []
    for one in asked:
        if one is None:
            words.append("-")
            continue
        pair = next(rest)
        words.append("not allowed" if pair is None else _pair(*pair, delta=status.budget["delta"] > 0.0))
    return words


def _pair(epsilon: float, delta_left: float, *, delta: bool) -> str:
    return f"epsilon {rounded_down(epsilon, 6)}" + (f", delta {rounded_down(delta_left, 6)}" if delta else "")


def in_ledger(ledger: Ledger) -> str:
    """Say what a ledger has left now."""
    status = ledger.status()
    whole, left, with_delta = status.budget, status.left, status.budget["delta"] > 0.0
    budget = f"epsilon {as_written(whole['epsilon'])}" + (f", delta {as_written(whole['delta'])}" if with_delta else "")
    meant = "" if status.currency == "sums" else " Further releases may cost that much together."
    return f"Of {budget}, {_pair(left['epsilon'], left['delta'], delta=with_delta)} is left now.{meant}"


def _domain(plan: Plan) -> str:
    return Path(plan.comparison.files.get("domain", "DOMAIN.toml")).name  # no folder of this machine


def _command(plan: Plan, asked: Mapping[str, Any]) -> str:
    parts = ["discreet release DATA"]
    for name, value in {"domain": _domain(plan), **asked}.items():
        text = shlex.quote(_text(value))
        own = name in plan.comparison.request.parameters and name != "sampling"
        parts.append(f"{_OPTION}param {name}={text}" if own else f"{_OPTION}{name.replace('_', '-')} {text}")
    return " ".join(parts)


def _python(plan: Plan, asked: Mapping[str, Any]) -> str:
    asked = dict(asked)
    epsilon, delta, dataset = asked.pop("epsilon"), asked.pop("delta"), asked.pop("dataset", None)
    unit, most = asked.pop("unit", None), asked.pop("max_records", None)
    values = {name: _quoted(value) if isinstance(value, str) else _text(value) for name, value in asked.items()}
    if unit is not None:
        values["unit"] = f"discreet.Unit({_quoted(unit)}, max_records={most})"
    if dataset is not None:
        values["ledger"] = f"discreet.Ledger({values['ledger']}, {_quoted(dataset)})"
    budget = f"discreet.Budget(epsilon={_text(epsilon)}, delta={_text(delta)})"
    written = ", ".join(f"{name}={value}" for name, value in values.items())
    return f'import discreet\n\ndiscreet.release("DATA", {_quoted(_domain(plan))}, {budget}, {written})'


def _quoted(text: str) -> str:
    return json.dumps(text)  # which is a literal of Python too


def _text(value: Any) -> str:
    return as_written(value) if isinstance(value, float) else str(value)
