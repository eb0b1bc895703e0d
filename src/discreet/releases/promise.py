"""What a certificate promises, in words and numbers: the sentence, the caveats, and what is said beside them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from itertools import starmap
from typing import Any

from discreet._core.text import rounded_up
from discreet.mechanisms import Mechanism
from discreet.privacy import Budget, Code, Guarantee
from discreet.releases.content import utility_facts
from discreet.releases.facts import GuaranteeFacts

SHOWS = (
    "This certificate can be recomputed from the public facts in it, and shows whether a released file was changed by "
    "accident. It does not show who wrote it, and cannot prove that the mechanism was run as stated. Every other "
    "release of the same table adds to what this one reveals. Their profiles compose if the number of releases and the "
    "profile of each were fixed beforehand: composition is no rule for when to stop."
)
SEEDED = "seeded: not for publication, since whoever knows or guesses the seed can undo the noise"
SEEDED_CUT = (
    "seeded: not for publication, since whoever knows or guesses the seed knows which rows of each unit were kept; the "
    "release itself drew from operating-system entropy"
)
MARKED = "seeded: not for publication"
"""How the statement of randomness begins of every release that was seeded."""

UNPROVED = "If what it assumes holds, which is not proved: whatever"
LARGE = Code("epsilon-large", {"limit": 10})
_PROFILE_EPSILONS = (0.01, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)


def headline(guarantee: Guarantee, budget: Budget | None) -> float:
    """Return the epsilon that is stated, or the budget's, or the least one at which delta is 1e-9 or at its floor."""
    if guarantee.stated is not None:
        return guarantee.stated[0]
    if budget is not None:
        return budget.epsilon
    floor = guarantee.delta(math.inf)
    return guarantee.epsilon(min(1.0, max(1e-9, floor * (1 + 1e-6))))


def promise(
    mechanism: Mechanism,
    guarantee: Guarantee,
    epsilon: float,
    *,
    unit: str | None,
    seeded: bool,
    epsilons: tuple[float, ...] = _PROFILE_EPSILONS,
) -> GuaranteeFacts:
    """Return the ``guarantee`` of a certificate, with its profile at some epsilons.

    Any epsilon may be stated, since delta follows from it, except where the guarantee has its own.
    """
    delta, each, parameters = guarantee.delta(epsilon), None, mechanism.parameters()
    if guarantee.stated is not None:
        delta, (epsilon, each) = 0.0, guarantee.stated
    tested = _tested(guarantee, parameters.get("unit"))  # of a model: a unit has however many records
    sentence = _sentence(guarantee, epsilon, delta, tested=tested, tables=mechanism.forms.tables)
    slots = unit and not parameters.get("unit_votes")
    stated = {
        **guarantee.to_dict(),
        **utility_facts(mechanism, guarantee.n),
        "caveats": list(map(str, caveats(guarantee, epsilon, delta, slots=bool(slots)))),
    }
    return GuaranteeFacts(
        epsilon=epsilon,
        delta=delta,
        epsilon_each=each,
        profile=[[e, guarantee.delta(e)] for e in epsilons],
        statement=f"Seeded run, not for publication; with fresh randomness: {sentence}" if seeded else sentence,
        **stated,
    )


def _sentence(guarantee: Guarantee, epsilon: float, delta: float, *, tested: str, tables: int | None) -> str:
    """Return the promise in one sentence; one that is asymptotic is not formal differential privacy, and says so."""
    if guarantee.kind == "asymptotic":
        said = rounded_up(epsilon, 6)
        if guarantee.stated is not None and tables not in (None, 1):
            each = rounded_up(guarantee.stated[1], 6)
            said = f"{each} for each of {tables} tables, {said} for all of them together"
        return (
            f"Not formal differential privacy: a local, asymptotic epsilon of {said}, estimated from the confidential "
            "table itself."
        )
    return (
        f"{'Whatever' if guarantee.kind == 'unconditional' else UNPROVED} the other records, an attacker who tests "
        f"{tested}, with a false-alarm rate of a, detects it with probability at "
        f"most e^{rounded_up(epsilon, 6)} a" + (f" + {rounded_up(delta)}." if delta else ".")
    )


def _tested(guarantee: Guarantee, unit: str | None) -> str:
    relation, single = guarantee.relation, guarantee.relation.group == 1
    one = "one record" if single else f"one unit of up to {relation.group} records"
    if relation.name == "add-remove":
        return f"whether {one} is in the table"
    where = f" in {', '.join(guarantee.protected)}" if guarantee.protected else ""
    if unit is not None:
        return f"which of two sets of values the records with one value of {unit} have{where}"
    return f"which of two {'values' if single else 'sets of records'} {one} has{where}"


def caveats(guarantee: Guarantee, epsilon: float, delta: float, *, slots: bool) -> list[Code]:
    """Return the guarantee's caveats and those that depend on the budget and on slots of privacy units."""
    found = list(guarantee.caveats)
    if slots:
        found.append(Code("unused-slots"))
    found += delta_caveats(delta, guarantee.n)
    if epsilon > 10:
        found.append(LARGE)
    return found


def delta_caveats(delta: float, n: int) -> list[Code]:
    """Say what a delta allows that is not far below one in the number of records; nothing of one that is."""
    if delta * n <= 0.1:
        return []
    return [Code("delta-large", {"records": delta * n})]


# Certificates that earlier versions wrote: read in today's form, and confirmed where what they claim still holds.
#
# A bound that was found to be smaller confirms the larger one. Sentences are compared word by word, once they are
# brought into today's words, and the numbers in them to one per cent: earlier versions rounded some of them to the
# nearest, not upwards.

EARLIER = ("0.1.0",)
"""Versions whose certificates are read with :func:`still_holds`."""

SHOWN = tuple(
    f"This certificate can be recomputed from the public facts in it, and shows whether {what} was changed by "
    "accident. It does not show who wrote it, and cannot prove that the mechanism was run as stated."
    for what in ("the released file", "a released table")
)
"""What they said that a certificate shows."""

RANDOMNESS = ("seeded: not for publication, since whoever knows or guesses the seed can repeat the draws",)
"""What they said of randomness, in other words than today's."""

TABLE_EPSILONS = (0.1, 1.0, 10.0, 100.0)
"""Where the profile of several tables was stated, below their epsilon."""

_ADDED = ("share_at_most", "share_in_words")
_BOUNDS = ("delta", "pure_epsilon", "profile")
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")
_ROUNDED = 0.01
_NOISE = 1e-6  # of another machine's rounding
_WORDED = (
    (re.escape(UNPROVED), "Whatever"),
    ("which of two values (one record) has", r"whether \1 was one thing or another"),
    (r"which of two sets of records (one unit of up to \d+ records) has", r"whether \1 was one thing or another"),
    (r"whether (one record|one unit of up to \d+ records) is in the table", r"whether \1 was in the table or not"),
)
"""Today's words, and those of earlier versions."""


def in_present_form(facts: dict[str, Any]) -> dict[str, Any]:
    """Return a certificate of tables that version 0.1.0 wrote in the one form of today, its claims unchanged.

    Whatever else was read is returned as it is.
    """
    if facts.get("discreet_tables_certificate") != 1:
        return facts
    mechanism, domain = ((held if isinstance(held, dict) else {}) for held in map(facts.get, ("mechanism", "domain")))
    columns = domain.get("columns")
    parameters = {key: value for key, value in mechanism.items() if key != "name"}
    if mechanism.get("name") == "censored-posterior":
        parameters.setdefault("size", None)
    guarantee = facts.get("guarantee")
    if isinstance(guarantee, dict):  # its epsilon was that of pure privacy
        guarantee = {"delta": 0.0, "share_not_from_data": None, **guarantee}
    kept: dict[str, Any] = {
        key: facts[key] for key in ("library", "created", "domain", "records", "relation") if key in facts
    }
    return {
        "discreet_certificate": 1,
        **kept,
        "mechanism": {"name": mechanism.get("name"), "parameters": parameters},
        "size": facts.get("records") if parameters.get("size") is None else parameters["size"],
        "unit": None,
        "guarantee": guarantee,
        "randomness": facts.get("randomness"),
        "released": {
            "columns": list(columns) if isinstance(columns, dict) else None,
            "rows": None,
            "tables": facts.get("tables"),
        },
        "shows": facts.get("shows"),
    }


def added_since(claimed: Mapping[str, Any]) -> set[str]:
    """Return the claims of a guarantee that earlier versions lack, as far as this one lacks them."""
    return set(_ADDED) - set(claimed)


def still_holds(claim: str, claimed: Any, found: Mapping[str, Any]) -> bool:
    """Return whether a claim of a guarantee holds, given what is computed now.

    ``claim``: the key in the guarantee.
    ``claimed``: what the certificate says; a bound of None is infinite.
    ``found``: the guarantee as it is computed now.

    Examples
    --------
    >>> still_holds("delta", 2e-9, {"delta": 1e-9}), still_holds("delta", 1e-9, {"delta": 2e-9})
    (True, False)
    >>> still_holds("caveats", ["2.58% are drawn"], {"caveats": ["2.59% are drawn"]})
    True
    """
    now: Any = found.get(claim)
    if claim in _BOUNDS:
        return _at_least(claimed, now)
    if claim == "caveats":
        if "epsilon_each" in found and str(LARGE) not in claimed:  # which was not said of several tables
            now = [caveat for caveat in now if caveat != str(LARGE)]
        return len(claimed) == len(now) and all(starmap(_same_sentence, zip(claimed, now, strict=True)))
    return claim == "statement" and claimed in _statements(found)


def _statements(found: Mapping[str, Any]) -> list[str]:
    """Return what an earlier version may have written for a statement: of one table, of several."""
    said = str(found["statement"])
    for today, before in _WORDED:
        said = re.sub(today, before, said)
    if "epsilon_each" not in found or found["kind"] != "unconditional":
        return [said]
    each, epsilon = found["epsilon_each"], found["epsilon"]
    seeded, mark, _ = said.rpartition("with fresh randomness: ")
    tables = round(epsilon / each)
    all_of_them = f" for each of {tables} tables, {rounded_up(epsilon, 6)} for all of them together" * (tables > 1)
    return [
        f"{seeded}{mark}Differential privacy under its stated assumptions: epsilon {rounded_up(each, 6)}{all_of_them}."
    ]


def _at_least(claimed: Any, found: Any) -> bool:
    """Return whether one bound implies the other; of profiles, at every epsilon."""
    if isinstance(found, list):
        pairs = zip(claimed, found, strict=True)
        return len(claimed) == len(found) and all(a[0] == b[0] and _at_least(a[1], b[1]) for a, b in pairs)
    above, below = (math.inf if value is None else float(value) for value in (claimed, found))
    return above >= below * (1.0 - _NOISE)


def _same_sentence(claimed: str, found: str) -> bool:
    if _NUMBER.sub("#", claimed) != _NUMBER.sub("#", found):
        return False
    numbers = zip(_NUMBER.findall(claimed), _NUMBER.findall(found), strict=True)
    return all(math.isclose(_value(a), _value(b), rel_tol=_ROUNDED) for a, b in numbers)


def _value(text: str) -> float:
    return float(text.replace(",", ""))
