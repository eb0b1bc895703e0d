"""Before a release: which ledger pays, and what would be left in it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from discreet._core.errors import ParameterError
from discreet._core.reading import bounded_text, parsed_toml
from discreet.ledger.ledger import Ledger
from discreet.ledger.payment import require_covered
from discreet.privacy import Budget, Guarantee

if TYPE_CHECKING:
    from discreet.ledger.status import LedgerStatus

# Which ledger pays: the one that is given, else the domain file's, else the environment's.

VARIABLE = "DISCREET_LEDGER"
_KEYS = {"file", "dataset"}


def ledger_for(
    ledger: Ledger | str | os.PathLike[str] | None, domain: Any, *, dataset: str | None = None
) -> Ledger | None:
    """Return the ledger that pays for a release; None where nobody keeps one.

    Raises ParameterError when ``[ledger]`` is wrong, or a data set is named and no ledger.
    """
    if isinstance(ledger, Ledger):
        return ledger
    if ledger is not None:
        return Ledger(ledger, dataset)
    if isinstance(domain, (str, os.PathLike)) and (section := _section(domain)) is not None:
        place = section["file"]
        if "://" not in place:
            place = str(Path(domain).parent / Path(place).expanduser())
        return Ledger(place, dataset or section.get("dataset"))
    if os.environ.get(VARIABLE):
        return Ledger(os.environ[VARIABLE], dataset)
    if dataset is not None:
        raise ParameterError("a data set is named and no ledger. Write ledger=..., where it is kept")
    return None


def _section(path: str | os.PathLike[str]) -> Mapping[str, str] | None:
    """Return ``[ledger]`` of a domain's file; None where it has none. Raises ParameterError when it is wrong."""
    facts = parsed_toml(bounded_text(path, missing="check the path", remedy="check that it is a readable TOML file"))
    section = facts.get("ledger")
    if section is None:
        return None
    texts = isinstance(section, Mapping) and all(isinstance(value, str) and value for value in section.values())
    if not texts or "file" not in section or set(section) - _KEYS:
        raise ParameterError('[ledger] in the domain must have file = "...", may have dataset = "...", and no more')
    return cast("Mapping[str, str]", section)


# What would be left in a ledger after a release that is only thought of: from its own sums and public facts.

Left = tuple[float, float] | None
"""Epsilon and delta, rounded down; None where the release would not be allowed."""


def left_after(ledger: Ledger, releases: Sequence[tuple[Guarantee, Budget]]) -> tuple[LedgerStatus, list[Left]]:
    """Return the status of a ledger, and what each release alone would leave in it.

    Raises Refused when the ledger does not add up such releases.
    """
    from discreet.ledger.status import status_of

    book = ledger._book
    with book.reading() as page:
        status, spent = status_of(book, page), page.last.spent
    remainders: list[Left] = []
    for guarantee, budget in releases:
        unit = status.covers["unit"]  # a plan has none: what the ledger's is, is up to the release
        require_covered(book, guarantee.relation, unit=unit, kind=guarantee.kind)
        if not book.currency.allows(spent, book.currency.of_budget(budget), book.limit):
            remainders.append(None)
            continue
        cost = book.currency.of_profile(guarantee.profile, budget=budget, total=book.budget)
        remainders.append(book.currency.left(spent + cost, book.budget))
    return status, remainders
