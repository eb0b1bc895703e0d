"""A payment: one entry of a ledger while it is worked on, from its reservation to the files that have their names."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

from discreet._core.errors import DiscreetError, ParameterError, Refused
from discreet._core.writing import Move
from discreet.domain import Domain
from discreet.ledger.events import Book, Event
from discreet.privacy import Budget, Guarantee


class Held(NamedTuple):
    """A checkpoint when its run was paid for: its path, its number of steps, and the file's SHA-256 (None without)."""

    path: str
    steps: int
    sha256: str | None


class Payment:
    """One release's entry: used as a context, it is settled however the block ends.

    An error before :meth:`open` gives the reservation back (VOID). One after it does not: what was opened is spent
    (FORFEITED). A process that is killed leaves the entry as it is, for ``discreet ledger recover``.
    """

    def __init__(self, book: Book, reserved: Event) -> None:
        self._book, self._reserved, self._last = book, reserved, reserved
        self._due, self._used = reserved.cost, False

    @property
    def entry(self) -> str:
        """The name of the entry."""
        return str(self._reserved.entry)

    @property
    def opened(self) -> bool:
        """Whether the table may be read."""
        return self._last.state == "OPENED"

    @property
    def stamp(self) -> dict[str, str]:
        """What a certificate says of the ledger: with it, that the ledger was cut or rolled back shows."""
        if not self.opened:
            raise ParameterError("this payment is not open: it was used, or its block has ended. Reserve another")
        return {"dataset": self._book.dataset, "entry": self.entry, "head": self._last.hash}

    @property
    def checkpoint(self) -> Held | None:
        """The checkpoint that the run goes on from, as it was when it was paid for; None without one."""
        facts = self._reserved.facts
        held = facts.get("held")
        return None if held is None else Held(facts["checkpoint"], held["steps"], held["sha256"])

    def open(self) -> Self:
        """Say, durably, that the table is about to be read: from now on the entry is spent.

        Raises ParameterError when the entry was settled by somebody else.
        """
        if not self.opened:
            self._to("OPENED", {})
        return self

    def due(
        self,
        guarantee: Guarantee,
        asked: Budget,
        *,
        unit: str | None,
        made: Mapping[str, Any],
        seeded: bool = False,
        as_stated: bool = False,
    ) -> None:
        """Check what is about to be released against what was reserved, and find what it costs.

        ``asked``: what the certificate states.
        ``seeded``: whether a seed is used.
        ``as_stated``: whether the statement is proved by itself, so that the profile is not needed.
        ``made``: its ``mechanism``, ``size``, number of ``records`` and ``cells``, as a plan declares them.

        Raises Refused when it is of a kind, relation, group or unit that the ledger does not add up, costs more than
        was reserved, or is not what was declared.
        """
        require_unseeded(seeded)
        require_covered(
            self._book, relation=guarantee.relation.name, unit=unit, group=guarantee.relation.group, kind=guarantee.kind
        )
        part = self._reserved.facts.get("part")
        if part is not None and any(part[key] != found for key, found in _plain(made).items()):
            raise Refused(
                f"what was calibrated is not what the plan declares for {part['name']!r}. Release it with the "
                "mechanism, domain, size and number of records of the plan"
            )
        self._require_reserved(guarantee, asked, as_stated=as_stated)
        if not self._reserved.facts.get("free"):
            currency, whole = self._book.currency, self._book.whole
            profile = guarantee.profile
            cost = currency.of_budget(asked) if as_stated else currency.of_profile(profile, asked=asked, whole=whole)
            if not cost.within(self._reserved.cost):
                raise Refused(
                    "the release costs more than was reserved, since its guarantee is another one than the payment was "
                    "reserved for. Reserve with the guarantee of what you release"
                )
            self._due = cost
        self._used = True

    def _require_reserved(self, guarantee: Guarantee, asked: Budget, *, as_stated: bool) -> None:
        """Refuse what is not what was reserved: another budget, or a second release."""
        facts = self._reserved.facts
        budget = Budget(**facts["budget"])
        met = (
            (asked.epsilon <= budget.epsilon and asked.delta <= budget.delta) if as_stated else guarantee.meets(budget)
        )
        if not met:
            raise Refused(
                f"the payment was reserved for {budget}, which the release does not meet. Reserve what it needs"
            )
        if self._used:
            raise Refused("a payment is for one release, and this one was used. Reserve another")

    def step(self, done: int, of: int) -> None:
        """Note a step of a mechanism that works in steps, once its checkpoint holds it."""
        with self._book.appending() as page:
            page.append(self.entry, "NOTED", facts={"step": done, "of": of})

    def commit(
        self, facts: Mapping[str, Any], moves: Sequence[Move] = (), folder: Mapping[str, Any] | None = None
    ) -> None:
        """Say, durably, that what is released is complete on the disk, or about to be handed over.

        ``facts``: of the certificate.
        ``moves``: files on the way to their names.
        ``folder``: a folder on its way to its name.
        """
        files = [
            {"path": os.fspath(m.final), "sha256": m.sha256, "replaces": m.replaces, "write": m.token} for m in moves
        ]
        self._to("COMMITTED", {**facts, "files": files, **({} if folder is None else {"folder": dict(folder)})})

    def delivered(self) -> None:
        """Say that the files have their names, or that the tables were handed over."""
        with self._book.appending() as page:
            page.append(self.entry, "DELIVERED", facts={})

    def _to(self, state: str, facts: Mapping[str, Any]) -> None:
        with self._book.appending() as page:
            self._last = page.append(self.entry, state, facts=facts, cost=self._due if state == "COMMITTED" else None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        after = {"RESERVED": "VOID", "OPENED": "FORFEITED"}.get(self._last.state)
        if after is None:
            return
        try:
            self._to(after, {})
        except DiscreetError:  # recovery settles it; what led here is told
            if error is None:
                raise


def require_unseeded(seeded: bool) -> None:
    """Refuse a seeded release. Raises Refused."""
    if seeded:
        raise Refused("a seeded release is not for publication, and no ledger pays for it. Leave seed out")


def require_covered(book: Book, *, relation: str, unit: str | None, group: int, kind: str | None) -> None:
    """Refuse what a ledger does not add up. Raises Refused."""
    covers = book.facts["covers"]
    for what, given, wanted in (
        ("the relation", relation, covers["relation"]),
        ("the privacy unit", unit or "a record", covers["unit"] or "a record"),
        ("the most records of a unit", group, covers["max_records"]),
    ):
        if given != wanted:
            raise Refused(
                f"the ledger of {book.dataset!r} adds up releases for which {what} is {wanted}, and here it is {given}"
                ". Change the release, or keep a separate ledger for this kind"
            )
    if kind is not None and kind not in covers["kinds"]:
        raise Refused(
            f"the ledger of {book.dataset!r} was made for guarantees that are {' or '.join(covers['kinds'])}, and this "
            f"one is {kind}. Make a ledger for that kind with discreet ledger init"
        )


def hash_of(domain: Domain) -> str:
    """Return the SHA-256 of a domain as it is written."""
    return hashlib.sha256(domain.to_toml().encode()).hexdigest()


def _plain(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return facts as they are read back from a ledger."""
    return dict(json.loads(json.dumps(value)))
