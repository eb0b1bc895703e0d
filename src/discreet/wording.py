"""All sentences about promises, outputs, forecasts and remedies, from codes and numbers: see ``wording.toml``."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from string import Formatter
from typing import TYPE_CHECKING, Any

from discreet._core.text import about, as_written, counted, counted_up, percent, rounded_down, rounded_up, sentence

if TYPE_CHECKING:
    from discreet.mechanisms import Forecast
    from discreet.privacy import Budget, Code, Guarantee

_TEXTS: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_name("wording.toml").read_text(encoding="utf-8"))
_groups = ("remedies", "lost_to", "attacks", "closeness", "randomness", "kinds", "sliders", "single")
_texts: list[dict[str, str]] = [_TEXTS[name] for name in _groups]
REMEDIES, LOST_TO, ATTACKS, CLOSENESS, RANDOMNESS, KINDS, SLIDERS, _SINGLE = _texts
LIKE: dict[bool, str] = dict(zip((True, False), _TEXTS["like"].values(), strict=True))
PAIRS_UNKNOWN: dict[str, list[str]] = _TEXTS["pairs_unknown"]
SETS_OF_CELLS: str = _SINGLE["sets-of-cells"]


def single(name: str, **facts: Any) -> str:
    """Return a sentence of pages and plans with its numbers, which are texts already."""
    return _SINGLE[name].format(**facts)


def marked_share(forecast: Forecast) -> str:
    """Return the share that is lost in per cent: ``<=`` before a bound, ``~`` before a prediction."""
    return {"expectation": "", "bound": "<= ", "prediction": "~ "}[forecast.lost_is] + percent(forecast.lost)


def lost(forecast: Forecast, *, unknown: bool = False) -> str:
    """Return the share that is not from the data in a sentence that says what it is, or that only the data tell."""
    if math.isnan(forecast.lost):
        return LOST_TO[forecast.lost_to]
    share, common = f"{rounded_up(100.0 * forecast.lost)} %", LOST_TO.get(forecast.lost_to, forecast.lost_to)
    worst = "This is an expectation: it may turn out higher"
    if forecast.worst <= 0.999:
        worst = f"It is at most {rounded_up(100.0 * forecast.worst)} %"
    if forecast.column:
        change = f"{common} expected to change about {share} of the values in the worst column, {forecast.column!r}"
        return f"{change}. {worst}"
    if unknown:
        return f"how many of the released records {common} depends on the data. In the worst case it is all of them"
    if forecast.lost_is == "expectation":
        return f"{share} of the released records {common}, on average"
    if forecast.lost_is == "bound":
        return f"at most {share} of the released records {common}, on average"
    return f"about {share} of the released records {common}, as predicted. {worst}"


def pairs(forecast: Forecast, n: int) -> list[str]:
    """Return what is known beforehand of how columns are kept together in a release of ``n`` records."""
    if forecast.pair_scores is None:
        return ["All columns are worked on together, so that no pair of columns is left out."]
    count, candidates, noise = forecast.pair_scores
    cost = outcomes(forecast)
    count, other = count - forecast.outcomes[0], "other " if cost else ""
    if not candidates and cost:
        return cost
    if not candidates:
        return ["No pair of columns is measured, because the workload names none."] if count else []
    columns = counted(count, f"{other}pair of columns", f"{other}pairs of columns")
    scope = f"Any of the {columns} may be measured."
    if candidates < count:
        scope = f"{candidates:,} of the {columns} may be measured, those of the workload."
    elif count == 1:
        scope = f"The {other}pair of columns may be measured."
    return [
        *cost,
        scope,
        *map(visible_relation, filter(None, [forecast.visible_dependence])),
        single("scores", noise=counted(round(noise), "record"), share=about(100.0 * noise / n, 2)),
    ]


def outcomes(forecast: Forecast) -> list[str]:
    """Return what the tables of declared outcomes cost the others."""
    tables, share, three_way = forecast.outcomes
    if not tables:
        return []
    condition = "with a declared outcome or dependency"
    pairs_are = counted(tables, f"pair {condition} is", f"pairs {condition} are")
    deeper = single("three-way", tables=counted(three_way, "table")) if three_way else ""
    times = about((1.0 - share) ** -0.5, 2)
    return [single("outcomes", pairs_are=pairs_are, share=percent(share, 0), deeper=deeper, times=times)]


def visible_relation(share: float) -> str:
    """Return how strong a relation of two columns must be to be measured."""
    return single("no-relation" if share >= 1.0 else "relation", share=percent(share, 0))


def weak_promise(budget: Budget, n: int | None, limit: float, wanted: str = "") -> str:
    """Return why a budget is refused that promises next to nothing, and what to do; nothing of one that promises."""
    # wanted: in words what an attacker may reach, where that was asked for in place of a budget.
    accepted = "or accept a weak promise (accept={'weak-promise'})"
    instead = wanted and f"Take another mechanism, allow less than {wanted}"
    if budget.epsilon > limit:
        odds = about(math.exp(min(700.0, budget.epsilon)), 2)
        instead = instead or f"Take an epsilon of at most {about(limit)}"
        return f"{single('weak-epsilon', epsilon=as_written(budget.epsilon), odds=odds)}. {instead}, {accepted}"
    if n is not None and budget.delta * n > 1.0:
        exposed, instead = counted(math.ceil(budget.delta * n), "record"), instead or f"Take a delta far below 1/{n:,}"
        delta = as_written(budget.delta)
        return f"{single('weak-delta', delta=delta, exposed=exposed, n=f'{n:,}')}. {instead}, {accepted}"
    return ""


def poor_utility(forecast: Forecast, limit: float, *, wide: Sequence[str], tried: Sequence[str]) -> str:
    """Return why a release that is lost beyond a limit is refused, what would help, and names for wide tables."""
    helps = ". ".join([*tried, _either([])]) if tried else _either(forecast.remedies)
    refused = sentence(f"{lost(forecast)}. More than {percent(limit, 0)} is refused. ") + helps
    return f"{refused}. For tables of many columns there is {' or '.join(wide)}" if wide else refused


def no_records(expected: float, size: int) -> str:
    """Return why a release of which not one record is expected is refused, and what would help."""
    return f"{about(expected, 2)} of {counted(size, 'draw')} would be released, on average. {_either(['delta'])}"


def _either(remedies: Iterable[str]) -> str:
    helps = [REMEDIES.get(remedy, remedy) for remedy in remedies]
    return sentence(", ".join([*helps, "or accept poor utility (accept={'poor-utility'})"]))


def _chosen(what: Sequence[str]) -> str:
    """Return that *what* were chosen without looking at the data."""
    words = [_CHOSEN.get(name, f"the {name.replace('-', ' ')}") for name in what]
    words[0] = f"the {words[0].removeprefix('the ')}"
    names = " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
    return f"{names} were chosen without looking at the data"


_CHOSEN = {"their-cells": "their cells", "api": "the API", "strength": "strength", "discount": "discount"}


def _met(**limits: float) -> str:
    """Return which limits of convergence the Markov chains met: *r_hat*, *effective*, *divergent*."""
    forms = {
        "r_hat": "R-hat at most {}",
        "effective": "at least {} effective draws per chain",
        "divergent": "a share of divergent transitions of at most {}",
    }
    words = [form.format(as_written(limits[name])) for name, form in forms.items() if name in limits]
    return f"the Markov chains met the limits of convergence: {', '.join(words)}"


def _steps(
    steps: int, candidates: int, population: int, api: str, noise: str, scale: float, variant: str, **votes: Any
) -> str:
    """Return what steps will do; *votes*: how many a record or a unit has, by which label, above which threshold."""
    place = "on every candidate's votes"
    if noise == "laplace":
        place = f"released from {counted(votes['threshold'], 'vote')} on"
    whose = "" if votes["nearest"] == 1 else f"{counted(votes['nearest'], 'vote')} of each record, "
    if votes["label"] is not None:
        whose = f"a population for each value of {votes['label']!r}, {whose}"
    if votes["units"]:
        whose = f"up to {counted(votes['units'], 'vote')} of each unit, "
    made = f"{counted(steps, 'step')} of {counted(candidates, 'candidate')}, {whose}made by the API {api!r} of"
    noisy = f"with {noise} noise of scale {rounded_down(scale, 4)} {place}"
    return f"{made} {counted(population, 'record')}, {noisy}, {variant} variant"


_LOST = 0.1  # share of the records from which on a lost pair is named


def _pair_losses(tables: Sequence[str], losses: Sequence[float], errors: Sequence[float]) -> str:
    """Return of which measured *tables* most is lost: estimated *losses*, the largest first, and standard *errors*."""
    number = max(1, sum(loss > _LOST for loss in losses[:3]))
    shares = [[f"{about(100.0 * share, 2)} %" for share in column[:number]] for column in (losses, errors)]
    lost = zip(tables, *shares, strict=False)
    rows = ", ".join(f"{loss} of the records of {table} (standard error {error})" for table, loss, error in lost)
    return f"of the measured pairs, about {rows} lie in other combinations of values than in the confidential table"


def losses_of(codes: Iterable[Code]) -> list[tuple[str, float, float]]:
    """Return the measured pairs, their losses and standard errors; none where an outcome does not state them so."""
    try:
        (numbers,) = [code.numbers for code in codes if code.name == "pair-losses"]
        rows = zip(numbers["tables"], numbers["losses"], numbers["errors"], strict=True)
        return [(str(table), float(loss), float(error)) for table, loss, error in rows]
    except (LookupError, TypeError, ValueError):
        return []


def lost_pairs(codes: Sequence[Code], *together: Iterable[str], unmeasured: bool = True) -> list[str]:
    """Return what an outcome tells of relations between columns of one set that were lost in part, or may be."""
    names = {f"{a}*{b}" for columns in map(tuple, together) for a in columns for b in columns}
    rows = [row for row in losses_of(codes) if row[0] in names and row[1] > _LOST]
    notes = [_pair_losses(*map(list, zip(*rows, strict=True)))] if rows else []
    return notes + [str(code) for code in codes if unmeasured and code.name == "unmeasured-pairs"]


SENTENCES: dict[str, str | Callable[..., str]] = {
    **_TEXTS["sentences"],
    "chosen-without-data": _chosen,
    "pair-losses": _pair_losses,
    "chains-met": _met,
}
ANNOUNCED: dict[str, str | Callable[..., str]] = {
    "api-alone": "no step: records are drawn from the API {api!r} alone",
    "steps": _steps,
}
"""Codes that are said before a release, and in no certificate."""


class _Words(Formatter):
    """Templates whose fields name the way to write a number: ``{share:percent}``, ``{cells:count cell}``."""

    def format_field(self, value: Any, spec: str) -> str:
        way, _, detail = spec.partition(" ")
        return str(_WAYS[way](value, detail))


_WAYS: dict[str, Callable[[Any, str], str]] = {
    "": lambda value, _: str(value),
    "count": counted,
    "down": lambda value, _: rounded_down(100.0 * value),
    "expected": lambda value, _: counted_up(value),
    "if": lambda value, words: words if value else "",
    "is": lambda value, _: "is" if len(value) == 1 else "are",
    "list": lambda value, _: ", ".join(value),
    "number": lambda value, _: f"{value:,}",
    "percent": lambda value, _: percent(value),
    "up": lambda value, digits: rounded_up(value, int(digits)),
    "were": lambda value, _: "was" if value == 1 else "were",
    "written": lambda value, _: as_written(value),
}


def said(code: str, numbers: Mapping[str, Any]) -> str:
    """Return the sentence of a code; one that is not known, or lacks a number, says itself."""
    try:
        form = SENTENCES.get(code) or ANNOUNCED[code]
        return _Words().vformat(form, (), numbers) if isinstance(form, str) else form(**numbers)
    except (LookupError, TypeError, ValueError, ArithmeticError):
        return " ".join([code, *(f"({key} {value})" for key, value in numbers.items())])


SHOWS: str = _SINGLE["shows"]
UNPROVED = "If what it assumes holds, which is not proved: whatever"
NOT_FORMAL = "Not formal differential privacy: a local, asymptotic epsilon of"
SEEDED = "Seeded run, not for publication; with fresh randomness: "


def subject(certificate: Any) -> tuple[str, str, str]:
    """Return what a promise is about, what an attacker would tell apart of it, and what the others are."""
    facts, group = certificate.facts, certificate.facts.relation.group
    if "units" in facts.domain:
        remaining, *rows = certificate.table_names
        return f"one of the {remaining} with all its {' and '.join(rows)}", "sets of rows", remaining
    if (unit := facts.mechanism.parameters.get("unit")) is not None and facts.relation.name != "add-remove":
        return f"the records with one value of {unit}", "sets of values", "records"
    if group > 1:
        return f"one unit of up to {group} records", "sets of records", "records"
    if facts.unit is not None and facts.unit.max_records > 1:  # all rows of a unit are one record
        return f"one unit of up to {facts.unit.max_records} rows", "sets of rows", "units"
    return "one record", "values", "records"


def meaning(certificate: Any, detection: float) -> str:
    """Return what a promise limits, in numbers: what it was asked to, else the ``detection`` at 1 % false alarms."""
    facts, (about_whom, *_) = certificate.facts, subject(certificate)
    if facts.guarantee.kind == "asymptotic":
        return ""
    attack = facts.guarantee.attack
    reached = confirmed(detection, about_whom)
    if attack:
        numbers = [*attack.to_dict().values(), attack.guessing]
        shares = [rounded_up(100.0 * number * (1.0 - 1e-12), 6) for number in numbers]
        reached = str(_TEXTS["reached"][attack.limit[0]]).format(*shares, about=about_whom)
    if facts.guarantee.kind != "unconditional":
        reached = f"{UNPROVED.partition(':')[0]}, {reached[0].lower()}{reached[1:]}"
    return SEEDED + reached if certificate.seeded else reached


def confirmed(detection: float, whom: str) -> str:
    """Return how many true suspicions the best attacker confirms at 1 % false alarms."""
    text = str(_TEXTS["reached"]["detection"])
    return f"{text.format(rounded_up(min(100.0, 100.0 * detection), 3), '1', about=whom)} {_SINGLE['our-choice']}"


def statement(certificate: Any) -> str:
    """Return a certificate's promise in a sentence; an asymptotic one is not formal differential privacy, it says."""
    facts, tables, parameters = certificate.facts, len(certificate.tables), certificate.facts.mechanism.parameters
    kind, delta = facts.guarantee.kind, certificate.delta
    mark, bound = SEEDED if certificate.seeded else "", rounded_up(certificate.epsilon, 6)
    if kind == "asymptotic":
        if (epsilon := facts.guarantee.epsilon_each) is not None and tables > 1:
            bound = f"{rounded_up(epsilon, 6)} for each of {tables} tables, {bound} for all of them together"
        return f"{mark}{NOT_FORMAL} {bound}, estimated from the confidential table itself."
    target, values, remaining = subject(certificate)
    tested = f"whether {target} is in the table"
    if facts.relation.name != "add-remove":
        protected = parameters["synthesised"] if parameters.get("published_exactly") else ()
        has = "have" if target.startswith("the records") else "has"
        tested = f"which of two {values} {target} {has}" + (f" in {', '.join(protected)}" if protected else "")
    plus = f" + {rounded_up(delta)}" if delta != 0.0 else ""
    return (
        f"{mark}{'Whatever' if kind == 'unconditional' else UNPROVED} the other {remaining}, an attacker who tests "
        f"{tested} detects it with probability at most e^{bound} a{plus}, where a is the probability of a false alarm."
    )


def told(codes: Iterable[Code]) -> str:
    """Return what an output told, as sentences without the last full stop."""
    texts = list(map(str, codes))
    return ". ".join([*texts[:1], *map(sentence, texts[1:])])


def tightness(guarantee: Guarantee) -> str:
    """Return whether the numbers are attained."""
    return single("estimates" if guarantee.kind == "asymptotic" else "exact" if guarantee.exact else "bounds")


def exception(delta: float, n: int) -> str:
    """Return what a delta means for this number of records."""
    if delta == 0.0:
        return single("no-delta")
    exposed, records = delta * n, counted(n, "record")
    if exposed > 0.1:
        return single("large-delta", delta=rounded_up(delta), records=records, exposed=rounded_up(exposed))
    parts = [f"{int(float(rounded_down(1.0 / max(value, 1e-30), 2))):,}" for value in (delta, exposed)]
    chance = f", about 1 in {parts[0]}" if delta > 1e-18 else ""
    times = f"{parts[1]} times" if exposed > 1e-15 else "more than a million million times"
    return single("small-delta", delta=f"{rounded_up(delta)}{chance}", records=records, n=f"{n:,}", times=times)


def unit(group: int) -> str:
    """Return what is protected, the largest number of records of a unit being *group*."""
    return "one record" if group == 1 else f"one privacy unit of up to {counted(group, 'record')}"


def attack(false_alarms: int, power: str, group: int) -> str:
    """Return what the best attacker reaches: how many of 100 true suspicions, as text, beside those of 100 false."""
    things = "records" if group == 1 else "privacy units"
    return single("attack", things=things, false_alarms=false_alarms, power=power)


def budget(epsilon: float, delta: float, whose: str, *, present: bool = False) -> list[str]:
    """Return what an epsilon and a delta mean, and of whom; ``present``: whether *whose* data are in the table."""
    otherwise = "were not there, or came in" if present else "were anything else"
    times = rounded_up(math.exp(min(700.0, epsilon)))
    sentences = [single("epsilon-means", epsilon=rounded_up(epsilon, 6), times=times, whose=whose, otherwise=otherwise)]
    if delta != 0.0:
        sentences.append(single("delta-means", delta=rounded_up(delta)))
    if whose == unit(1):
        sentences.append(single("per-record"))
    return sentences


def promised(guarantee: Guarantee, epsilon: float, delta: float) -> list[str]:
    """Return what holds for every table of the domain."""
    plus = f", plus a probability of at most {rounded_up(delta)}" if delta != 0.0 else ""
    whose = unit(guarantee.relation.group)
    proved = single("proved", theorem=guarantee.theorem)
    if guarantee.kind != "unconditional":
        proved = f"The guarantee is {guarantee.kind}: {'; '.join(map(str, guarantee.assumptions))}."
    likelier = single("likelier", times=rounded_up(math.exp(epsilon)), whose=whose, plus=plus)
    return [likelier, single("reached-limit" if guarantee.exact else "bounding-limit"), proved]


def not_promised(n: int, table: str) -> list[str]:
    """Return what a release never promises, *table* being the one that predictions are about."""
    return [text.format(n=n, table=table) for text in _TEXTS["not_promised"]["texts"]]


def chosen_at(named: str, choices: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Return which mechanism the planner chooses at which budgets, an epsilon or a limit, in their order."""
    if len(choices) == 1:
        return f"The planner chooses {choices[0][0]} at every {named} on this page."
    spans = []
    for mechanism, those in choices:
        span = f"at {named} {those[0]}" if len(those) == 1 else f"from {named} {those[0]} to {those[-1]}"
        name = "no mechanism" if mechanism == "none" else mechanism
        spans.append(f"{name} {span}")
    return f"The planner chooses {', '.join(spans[:-1])} and {spans[-1]}."


def amounts(epsilon: float, delta: float, *, with_delta: bool) -> str:
    """Return how much is left in a ledger, rounded down."""
    text = f"epsilon {rounded_down(epsilon, 6)}"
    return f"{text}, delta {rounded_down(delta, 6)}" if with_delta else text
