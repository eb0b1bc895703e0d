"""Before a release: which ledger pays, and what would be left in it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from discreet._core.errors import ParameterError
from discreet._core.reading import bounded_text, parsed_toml
from discreet.ledger.ledger import Ledger
from discreet.ledger.payment import require_covered
from discreet.ledger.status import LedgerStatus, status_of
from discreet.privacy import Budget, Guarantee

# Which ledger pays: the one that is given, else the domain file's, else the environment's.

VARIABLE = "DISCREET_LEDGER"
_KEYS = {"file", "dataset"}


def ledger_for(
    given: Ledger | str | os.PathLike[str] | None, domain: Any, *, dataset: str | None = None
) -> Ledger | None:
    """Return the ledger that pays for a release; None where nobody keeps one.

    Raises ParameterError when ``[ledger]`` is wrong, or a data set is named and no ledger.
    """
    if isinstance(given, Ledger):
        return given
    if given is not None:
        return Ledger(given, dataset)
    named = _declared(domain) if isinstance(domain, (str, os.PathLike)) else None
    if named is not None:
        place, name = named
        return Ledger(place, dataset or name)
    if os.environ.get(VARIABLE):
        return Ledger(os.environ[VARIABLE], dataset)
    if dataset is not None:
        raise ParameterError("a data set is named and no ledger. Write ledger=..., where it is kept")
    return None


def _declared(path: str | os.PathLike[str]) -> tuple[str, str | None] | None:
    facts = parsed_toml(bounded_text(path, missing="check the path", remedy="check that it is a readable TOML file"))
    found = facts.get("ledger")
    if found is None:
        return None
    if not isinstance(found, Mapping) or not _texts(found) or "file" not in found or set(found) - _KEYS:
        raise ParameterError('[ledger] in the domain must have file = "...", may have dataset = "...", and no more')
    place = str(found["file"])
    return place if "://" in place else str(Path(path).parent / Path(place).expanduser()), found.get("dataset")


def _texts(found: Mapping[str, Any]) -> bool:
    return all(isinstance(value, str) and value for value in found.values())


# What would be left in a ledger after a release that is only thought of: from its own sums and public facts.

Left = tuple[float, float] | None
"""Epsilon and delta, rounded down; None where the release would not be allowed."""


def left_after(ledger: Ledger, releases: Sequence[tuple[Guarantee, Budget]]) -> tuple[LedgerStatus, list[Left]]:
    """Return where a ledger stands, and for each of some releases what would be left after that one alone.

    Raises Refused when the ledger does not add up such releases.
    """
    book = ledger._book
    with book.reading() as page:
        status, spent = status_of(book, page.first, page.last), page.last.spent
    found: list[Left] = []
    for guarantee, asked in releases:
        unit = status.covers["unit"]  # a plan has none: what the ledger's is, is up to the release
        require_covered(book, guarantee.relation, unit=unit, kind=guarantee.kind)
        if not book.currency.allows(spent, book.currency.of_budget(asked), book.limit):
            found.append(None)
            continue
        cost = book.currency.of_profile(guarantee.profile, asked=asked, whole=book.whole)
        found.append(book.currency.left(spent + cost, book.whole))
    return status, found
