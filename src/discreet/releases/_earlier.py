"""Certificates that earlier versions wrote: read in today's form, and confirmed where what they claim still holds.

A bound that was found to be smaller confirms the larger one. Sentences are compared word by word, once they are brought
into today's words, and the numbers in them to one per cent: earlier versions rounded some of them to the nearest, not
upwards.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from itertools import starmap
from typing import Any

from discreet._core.text import rounded_up
from discreet.releases._promise import LARGE, UNPROVED

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
        if "epsilon_each" in found and LARGE not in claimed:  # which was not said of several tables
            now = [caveat for caveat in now if caveat != LARGE]
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
