"""What would be left in a ledger after a release that is only thought of: from its own sums and public facts."""

from __future__ import annotations

from collections.abc import Sequence

from discreet.ledger._ledger import Ledger
from discreet.ledger._payment import require_covered
from discreet.ledger._status import LedgerStatus, status_of
from discreet.privacy import Budget, Guarantee

Left = tuple[float, float] | None
"""Epsilon and delta, rounded down; None where the release would not be allowed."""


def left_after(ledger: Ledger, releases: Sequence[tuple[Guarantee, Budget]]) -> tuple[LedgerStatus, list[Left]]:
    """Return where a ledger stands, and for each of some releases what would be left after that one alone.

    ``ledger``: of the table.
    ``releases``: what each would promise, and what it would ask for. A release sets its whole budget aside before its
    table is opened, and pays for its profile: both have to be left.

    Raises Refused when the ledger does not add up such releases.
    """
    book = ledger._book
    with book.reading() as page:
        status, spent = status_of(book, page.first, page.last), page.last.spent
    found: list[Left] = []
    for guarantee, asked in releases:
        relation = guarantee.relation
        unit = status.covers["unit"]  # a plan has none: what the ledger's is, is up to the release
        require_covered(book, relation=relation.name, unit=unit, group=relation.group, kind=guarantee.kind)
        if not book.currency.allows(spent, book.currency.of_budget(asked), book.limit):
            found.append(None)
            continue
        cost = book.currency.of_profile(guarantee.profile, asked=asked, whole=book.whole)
        found.append(book.currency.left(spent + cost, book.whole))
    return status, found
