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
from discreet.privacy import Code, Guarantee
from discreet.releases.content import SEEDED
from discreet.releases.facts import CertificateFacts
from discreet.wording import NOT_FORMAL, RANDOMNESS, UNPROVED
from discreet.wording import SEEDED as SEEDED_RUN

_TABLE_EPSILONS = (0.1, 1.0, 10.0, 100.0)  # where it stated the profile of tables, below their epsilon
_NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")
_ROUNDED, NOISE = 0.01, 1e-6
_SEEDED = "seeded: not for publication, since whoever knows or guesses the seed can repeat the draws"


def read(document: Mapping[str, Any]) -> CertificateFacts:
    """Return the facts of an earlier certificate, whose sentences are codes of themselves. Raises ParameterError."""
    facts = {**document} if "discreet_certificate" in document else _of_tables(document)
    guarantee, released = _mapping(facts.get("guarantee")), _mapping(facts.get("released"))
    sentences_of = {key: guarantee[key] for key in ("assumptions", "caveats") if isinstance(guarantee.get(key), list)}
    table = {key: released.get(key) for key in ("file", "rows", "sha256")}
    outcome = [] if released.get("outcome") is None else [{"code": released["outcome"]}]
    randomness = {text: code for code, text in RANDOMNESS.items()} | {_SEEDED: "seeded"}
    changed = {
        "public_inputs": {},
        **facts,
        "discreet_certificate": 2,
        "guarantee": {**guarantee, **{key: [{"code": text} for text in texts] for key, texts in sentences_of.items()}},
        "randomness": randomness.get(str(facts.get("randomness")), facts.get("randomness")),
        "released": {"share_from_data": None, "tables": [table], **released, "outcome": outcome},
    }
    return replace(CertificateFacts.from_dict(_today(CertificateFacts, changed)), earlier=document)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _today(part: Any, document: Any) -> Any:
    """Return a document without the fields that are not of today, here and inside."""
    if isinstance(document, list):
        return [_today(part, entry) for entry in document]
    if part in (None, Code) or not isinstance(document, Mapping):
        return document
    return {name: _today(rule["part"], document[name]) for name, rule in part.rules().items() if name in document}


def _of_tables(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a certificate of tables that version 0.1.0 wrote in the form that schema 1 had later."""
    mechanism, domain, guarantee = (_mapping(document.get(key)) for key in ("mechanism", "domain", "guarantee"))
    parameters = {key: value for key, value in mechanism.items() if key != "name"}
    if mechanism.get("name") == "censored-posterior":
        parameters.setdefault("size", None)
    return {
        **document,
        "mechanism": {"name": mechanism.get("name"), "parameters": parameters},
        "size": document.get("records") if parameters.get("size") is None else parameters["size"],
        "unit": None,
        "guarantee": {"delta": 0.0, **guarantee},
        "released": {"columns": list(_mapping(domain.get("columns"))), "tables": document.get("tables")},
    }


def claims_of(facts: CertificateFacts) -> Mapping[str, Any]:
    """Return the guarantee of an earlier certificate as it was read."""
    return _mapping(_mapping(facts.earlier).get("guarantee"))


def is_oldest(facts: CertificateFacts) -> bool:
    """Return whether version 0.1.0 wrote it, which had larger bounds and said less of what is not proved."""
    return facts.earlier is not None and facts.library.version == "0.1.0"


def profile_of(facts: CertificateFacts, guarantee: Guarantee) -> dict[str, Any]:
    """Return the profile as a certificate of tables by version 0.1.0 states it; nothing of others."""
    if not is_oldest(facts) or facts.guarantee.epsilon_each is None:
        return {}
    return {"profile": [[e, guarantee.delta(e)] for e in _TABLE_EPSILONS if e < facts.guarantee.epsilon]}


def sentences(facts: CertificateFacts, today: CertificateFacts, statement: str) -> Iterator[tuple[str, Any, Any, bool]]:
    """Yield the claims that a certificate makes in words: its place, its text, that of today, and whether it holds."""
    text, promised, oldest = claims_of(facts).get("statement"), today.guarantee, is_oldest(facts)
    stated = _numbers_in(rounded_up(promised.epsilon, 6))
    if promised.delta > 0.0:
        stated += _numbers_in(rounded_up(promised.delta))
    if today.relation.group > 1:
        stated.append(float(today.relation.group))
    allowed = [*stated, *_numbers_in(statement), float(len(today.released.tables)), promised.epsilon_each or 0.0]
    marks = [SEEDED_RUN] if today.randomness in SEEDED else []
    if promised.kind == "asymptotic":
        marks.append(NOT_FORMAL)
    elif promised.kind == "empirical" and not oldest:
        marks.append(UNPROVED)
    marked = isinstance(text, str) and all(mark in text for mark in marks)
    holds = marked and _same(_numbers_in(str(text)), stated, allowed, NOISE)
    yield "guarantee.statement", text, statement, holds
    unsaid = "epsilon-large" if oldest and promised.epsilon_each is not None else ""
    for key in ("assumptions", "caveats"):
        claimed = list(map(str, getattr(facts.guarantee, key)))
        texts = [str(code) for code in getattr(promised, key) if code.name != unsaid or str(code) in claimed]
        numbers = _numbers_in(" ".join(texts))
        holds = _same(_numbers_in(" ".join(claimed)), numbers, allowed + numbers, _ROUNDED)
        yield f"guarantee.{key}", claimed, texts, holds and len(claimed) == len(texts)


def _numbers_in(text: str) -> list[float]:
    return [float(number.replace(",", "")) for number in _NUMBER.findall(text)]


def _same(numbers: list[float], needed: list[float], allowed: list[float], part: float) -> bool:
    """Return whether all numbers are among those that are allowed, and all that are needed among them."""
    pairs = [*((number, allowed) for number in numbers), *((number, numbers) for number in needed)]
    return all(any(math.isclose(number, value, rel_tol=part) for value in values) for number, values in pairs)
