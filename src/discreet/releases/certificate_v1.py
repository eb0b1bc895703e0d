"""Certificates of schema 1, and those of tables by version 0.1.0: read as today's facts, and what they say in words.

Numbers are compared as those of today. Words may change from version to version, so that of the sentences it is asked
only whether the numbers in them are those that are found now, and whether they say what is not proved.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from discreet._core.text import rounded_up
from discreet.privacy import Code
from discreet.releases.facts import CertificateFacts, Facts
from discreet.releases.promise import SEEDED, statement
from discreet.wording import NOT_FORMAL, RANDOMNESS, UNPROVED
from discreet.wording import SEEDED as SEEDED_RUN

EARLIER = "0.1.0"
"""The version that rounded some numbers to the nearest, had larger bounds and said less of what is not proved."""

_TABLE_EPSILONS = (0.1, 1.0, 10.0, 100.0)  # where it stated the profile of tables, below their epsilon
_NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")
_ROUNDED, _NOISE = 0.01, 1e-6


def is_earlier(document: Mapping[str, Any]) -> bool:
    """Return whether a document is a certificate of schema 1, or of tables by version 0.1.0."""
    return 1 in (document.get("discreet_certificate"), document.get("discreet_tables_certificate"))


def read(document: Mapping[str, Any]) -> CertificateFacts:
    """Return the facts of an earlier certificate, whose sentences are codes of themselves.

    Raises ParameterError when a field is missing or of the wrong kind.
    """
    facts: dict[str, Any] = dict(document) if "discreet_certificate" in document else _of_tables(document)
    guarantee, released = (facts.get(key) for key in ("guarantee", "released"))
    if isinstance(guarantee, Mapping):
        facts["guarantee"] = {key: _codes(value, key in ("assumptions", "caveats")) for key, value in guarantee.items()}
    if isinstance(released, Mapping):
        one = {key: released.get(key) for key in ("file", "rows", "sha256")}
        told = {"outcome": _codes([released.get("outcome")], True), "share_from_data": None, "tables": [one]}
        facts["released"] = {**told, **{key: value for key, value in released.items() if key != "outcome"}}
    facts = {
        "public_inputs": {},
        **facts,
        "discreet_certificate": 2,
        "randomness": _randomness(facts.get("randomness")),
    }
    return replace(CertificateFacts.from_dict(_known(CertificateFacts, facts)), earlier=document)


def _codes(value: Any, sentences: bool) -> Any:
    return [{"code": text} for text in value if text is not None] if sentences and isinstance(value, list) else value


def _randomness(said: Any) -> Any:
    """Return the code of where randomness came from; what was never written stays as it is."""
    known = {text: code for code, text in RANDOMNESS.items()}
    seeded = isinstance(said, str) and said.startswith("seeded: not for publication")
    return known.get(said, "seeded" if seeded else said) if isinstance(said, str) else said


def _known(part: type[Facts], document: Any) -> Any:
    """Return a document without the fields that are not of today, here and inside."""
    if isinstance(document, list):
        return [_known(part, one) for one in document]
    if not isinstance(document, Mapping):
        return document
    inner = {name: rule["part"] for name, rule in part.rules().items() if name in document}
    return {
        name: document[name] if within in (None, Code) else _known(within, document[name])
        for name, within in inner.items()
    }


def _of_tables(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a certificate of tables that version 0.1.0 wrote in the form that schema 1 had later."""
    mechanism, domain = (
        (held if isinstance(held, Mapping) else {}) for held in map(document.get, ("mechanism", "domain"))
    )
    parameters = {key: value for key, value in mechanism.items() if key != "name"}
    if mechanism.get("name") == "censored-posterior":
        parameters.setdefault("size", None)
    guarantee, columns = document.get("guarantee"), domain.get("columns")
    return {
        **document,
        "mechanism": {"name": mechanism.get("name"), "parameters": parameters},
        "size": document.get("records") if parameters.get("size") is None else parameters["size"],
        "unit": None,
        "guarantee": {"delta": 0.0, **guarantee} if isinstance(guarantee, Mapping) else guarantee,
        "released": {
            "columns": list(columns) if isinstance(columns, Mapping) else None,
            "tables": document.get("tables"),
        },
    }


# What such a certificate claims, beside what is found now.


def epsilons_of(facts: CertificateFacts) -> dict[str, Any]:
    """Return at which epsilons a certificate of tables by version 0.1.0 states its profile; nothing of others."""
    if facts.library.version != EARLIER or facts.guarantee.epsilon_each is None:
        return {}
    return {"epsilons": tuple(e for e in _TABLE_EPSILONS if e < facts.guarantee.epsilon)}


def still_holds(claim: str, claimed: Any, found: Any) -> bool:
    """Return whether a claim of version 0.1.0 holds: a bound that is smaller now confirms the larger one.

    Examples
    --------
    >>> still_holds("delta", 2e-9, 1e-9), still_holds("delta", 1e-9, 2e-9), still_holds("kind", "empirical", "proved")
    (True, False, False)
    """
    if claim == "profile":
        pairs = list(zip(claimed, found, strict=False))
        return len(claimed) == len(found) == len(pairs) and all(
            a[0] == b[0] and still_holds("delta", a[1], b[1]) for a, b in pairs
        )
    above, below = (math.inf if value is None else value for value in (claimed, found))
    return claim in ("delta", "pure_epsilon") and above >= below * (1.0 - _NOISE)


def sentences(facts: CertificateFacts, found: CertificateFacts) -> Iterator[tuple[str, Any, Any, bool]]:
    """Yield the claims that a certificate makes in words: its place, what it says, what is said now, and if it holds.

    ``found``: as it should be.
    """
    said = (facts.earlier or {})["guarantee"].get("statement")
    now, oldest = found.guarantee, facts.library.version == EARLIER
    stated = [float(rounded_up(now.epsilon, 6)), *([float(rounded_up(now.delta))] if now.delta else [])]
    stated += [float(found.relation.group)] * (found.relation.group > 1)
    allowed = [*stated, *_numbers(statement(found)), float(len(found.released.tables)), now.epsilon_each or 0.0]
    mark = {"asymptotic": NOT_FORMAL, "empirical": "" if oldest else UNPROVED}.get(now.kind, "")
    marked = isinstance(said, str) and mark in said and (found.randomness not in SEEDED or said.startswith(SEEDED_RUN))
    holds = marked and _among(_numbers(said), allowed, 1e-6) and _among(stated, _numbers(said), 1e-6)
    yield "guarantee.statement", said, statement(found), holds
    unsaid = "epsilon-large" if oldest and now.epsilon_each is not None else None
    for key in ("assumptions", "caveats"):
        claimed = list(map(str, getattr(facts.guarantee, key)))
        texts = [str(code) for code in getattr(now, key) if code.name != unsaid or str(code) in claimed]
        numbers, wanted = _numbers(" ".join(claimed)), _numbers(" ".join(texts))
        holds = _among(numbers, [*allowed, *wanted], _ROUNDED) and _among(wanted, numbers, _ROUNDED)
        yield f"guarantee.{key}", claimed, texts, holds and len(claimed) == len(texts)


def _numbers(text: str) -> list[float]:
    return [float(number.replace(",", "")) for number in _NUMBER.findall(text)]


def _among(numbers: list[float], allowed: list[float], part: float) -> bool:
    return all(any(math.isclose(one, other, rel_tol=part) for other in allowed) for one in numbers)
