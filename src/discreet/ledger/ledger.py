"""The ledger of a data set: what was promised in all, what is spent, and who may spend what is left."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from discreet import mechanisms
from discreet._core.boundary import sealed
from discreet._core.errors import FileProblem, ParameterError, Refused, choice
from discreet._core.files import canonical
from discreet._core.random import fresh_identity
from discreet._core.reading import bounded_text, file_sha256, parsed_toml
from discreet._core.text import as_written, harmless, rounded_down
from discreet.domain import Domain
from discreet.ledger.events import Book, Page, begin, lease, settle_entries
from discreet.ledger.filters import CURRENCIES, Cost
from discreet.ledger.request import DATA_DEPENDENT, FilePath, Request, hash_of, require_total
from discreet.ledger.run import Run, require_planned, require_unseeded
from discreet.ledger.store import shown, store_at
from discreet.mechanisms import Mechanism
from discreet.privacy import Budget, Relation, Unit

if TYPE_CHECKING:
    from discreet.ledger.statement import LedgerStatus

_KINDS = ("unconditional", "asymptotic", "empirical")
VARIABLE = "DISCREET_LEDGER"


@sealed
class Ledger:
    """The ledger of a confidential data set: all of its releases together keep one budget.

    A release reserves what it costs before the table is opened, and has spent it from then on, whatever becomes of it.
    Rows are only appended, each with the hash of the one before, and every certificate holds the hash that the ledger
    had when its table was opened: that a ledger was edited, cut or rolled back shows where the certificates are given.

    Parameters
    ----------
    place : path or str
        A file of SQLite on a local disk, or the address of a PostgreSQL database, ``postgresql://...``.
    dataset : str, optional
        The name that the custodian gave the data set; the only one in the ledger by default.

    Raises
    ------
    FileProblem
        When there is no ledger, it lies on a network file system, or its file has two names.
    ParameterError
        When it has no such data set, or several and none is named.

    Notes
    -----
    What the budget promises: the releases in the ledger, chosen one after the other and each by looking at all before,
    satisfy it together, where every release of the data set is made with the ledger. The currency says by which
    theorem: ``sums`` adds up pairs of epsilon and delta (Rogers, Roth, Ullman and Vadhan, 2016, Theorem 3.6), ``zcdp``
    adds up approximate zero-concentrated costs (Whitehouse, Ramdas, Rogers and Wu, 2023, Theorem 1). A ledger holds
    names, budgets, parameters and hashes of what was released. It is for the custodian, since one record may decide
    whether an entry was committed. ``discreet ledger export`` and ``report`` write what may be published.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import polars as pl
    >>> from discreet import Budget, Ledger, release
    >>> from discreet.domain import Domain, Integer
    >>> place = pathlib.Path(tempfile.mkdtemp()) / "ages.ledger"
    >>> _ = Ledger.create(place, dataset="ages", epsilon=1.0, delta=1e-6)
    >>> ages = pl.DataFrame({"age": [34, 35, 36, 37] * 5000})
    >>> domain = Domain(columns={"age": Integer(lower=0, upper=99, out_of_bounds="clip")})
    >>> with Ledger(place) as ledger:
    ...     made = release(ages, domain, Budget(epsilon=0.4, delta=1e-9), size=100, ledger=ledger)
    ...     print(ledger.status().left["epsilon"])
    0.6
    """

    def __init__(self, place: str | os.PathLike[str], dataset: str | None = None) -> None:
        self.place = place
        self._store = store_at(place)
        with self._store.reading() as run:
            names = [name for (name,) in run("SELECT name FROM discreet_dataset ORDER BY name")]
        if dataset is None and len(names) != 1:
            raise ParameterError(f"the ledger {shown(place)} has {len(names)} data sets. Name one: dataset=...")
        self.dataset = names[0] if dataset is None else dataset
        if self.dataset not in names:
            raise ParameterError(
                f"the ledger {shown(place)} is not of a data set {harmless(self.dataset)!r}. It has: "
                f"{harmless(', '.join(names))}"
            )
        self._book = Book(self._store, self.dataset)

    @classmethod
    def create(
        cls,
        place: str | os.PathLike[str],
        *,
        dataset: str,
        epsilon: float,
        delta: float = 0.0,
        currency: str = "sums",
        relation: str = "replacement",
        unit: Unit | None = None,
        kinds: Collection[str] = ("unconditional",),
    ) -> Ledger:
        """Make the ledger of a data set.

        Parameters
        ----------
        place : path or str
            Where; an existing ledger takes a further data set.
        dataset : str
            The name of the data set: whatever the custodian calls it. It stands in the certificates.
        epsilon, delta : float
            The budget of all releases together.
        currency : {"sums", "zcdp"}
            By which theorem releases are added up. ``zcdp`` needs ``delta > 0``, and allows more releases with noise
            on counts.
        relation : {"replacement", "add-remove"}
            Between which tables all guarantees hold.
        unit : Unit, optional
            The person, or other privacy unit, behind the rows.
        kinds : collection of str
            The kinds of guarantee that may be added up.

        Returns
        -------
        Ledger
            The new one.

        Raises
        ------
        ParameterError, BudgetError
            When an argument is out of range, or the ledger has such a data set already.
        FileProblem
            When the file cannot be made, or lies on a network file system.
        """
        budget = Budget(epsilon=epsilon, delta=delta)
        adds_up = CURRENCIES[choice("currency", currency, tuple(CURRENCIES))]
        if not isinstance(dataset, str) or not dataset.strip() or not dataset.isprintable():
            raise ParameterError("dataset must be a name of printable characters")
        unknown = [kind for kind in kinds if kind not in _KINDS]
        if isinstance(kinds, str) or unknown or not kinds:
            raise ParameterError(f"kinds must be among {', '.join(_KINDS)}")
        request = Request(unit=unit)
        covers = {
            "relation": choice("relation", relation, ("replacement", "add-remove")),
            "unit": request.column,
            "max_records": request.group,
            "kinds": [kind for kind in _KINDS if kind in kinds],
        }
        facts = {"currency": adds_up.name, "budget": asdict(budget), "limit": adds_up.limit(budget).to_dict()}
        begin(store_at(place, new=True), dataset, facts | {"covers": covers})
        return cls(place, dataset)

    def status(self) -> LedgerStatus:
        """Return what is spent, what is left, and how many entries are in each state: for the custodian."""
        from discreet.ledger.statement import status_of

        with self._book.reading() as page:
            return status_of(self._book, page.last)

    def log(self) -> list[dict[str, Any]]:
        """Return all events, the oldest first, as JSON values, each with its hash: for the custodian."""
        with self._book.reading() as page:
            return [{**event.to_dict(), "hash": event.hash} for event in page.select()]

    def verify(self, certificates: Iterable[str | os.PathLike[str]] = ()) -> list[str]:
        """Recompute the whole ledger; return what is wrong, a sentence each.

        Parameters
        ----------
        certificates : iterable of path
            Certificates of releases of this data set. That the ledger was rolled back to before one of them, or another
            copy of it was used, is seen only so.
        """
        from discreet.ledger.verification import problems_of

        return problems_of(self._book, [Path(path) for path in certificates])

    def pay(self, request: Request, mechanism: Mechanism | None = None) -> Run:
        """Set aside what a release will cost, before its table is opened.

        Parameters
        ----------
        request : Request
            The release that is asked for.
        mechanism : Mechanism, optional
            The mechanism, where it is known before the table is counted. The cost is then that of its exact profile,
            otherwise that of the budget. A run that goes on after the steps of one that died pays for none twice.

        Returns
        -------
        Run
            A context that is used once, for this release alone.

        Raises
        ------
        Refused
            When too little is left, the ledger does not add up such releases, or the mechanism does not meet the
            budget. Nothing was spent.
        DomainError
            When a single value that does not fit could forfeit the release, and that is not accepted.
        """
        require_unseeded(request.seeded)
        if request.domain is not None and DATA_DEPENDENT not in request.accept:
            require_total(request.domain.row_domain.columns)
        if (budget := request.budget) is None:
            raise ParameterError(
                "a ledger pays for a budget. Write Budget(epsilon=...), or relation=Replacement(records=...)"
            )
        book, facts = self._book, _facts_of(request, budget)
        if mechanism is None:
            book.require_covered(request.covered, unit=request.column, kind=request.kind)
            cost = book.currency.of_budget(budget)
        elif (n := request.relation.records) is None:
            raise ParameterError("the cost depends on the number of records. Write relation=Replacement(records=...)")
        else:
            request.require_steps(type(mechanism))
            guarantee = mechanism.guarantee(request.between, n=n)
            book.require_covered(request.covered, unit=request.column, kind=guarantee.kind)
            cost, facts["made"] = book.cost_of(guarantee, budget), request.purpose(mechanism, n=n)
            facts["request"]["kind"] = guarantee.kind
        with book.appending() as page:
            paid_before = request.checkpoint is not None and _earlier_payment(page, facts)
            if paid_before := paid_before or (request.part is not None and _planned_part(page, request, facts)):
                cost, facts = Cost(), facts | paid_before | {"free": True}
            self._require_left(page, cost)
            reservation = page.append(fresh_identity()[:12], "RESERVED", facts=facts, cost=cost)
        return Run._paid(request, book, reservation, mechanism)

    def part(self, name: str) -> PlannedRelease:
        """Return the payment of one release of a plan that was declared here, for ``ledger=...`` of a release.

        Parameters
        ----------
        name : str
            The name of the release in the plan.
        """
        return PlannedRelease(self, name)

    def declare(self, plan: Any, *, accept: Collection[str] = ()) -> str:
        """Pay at once for several releases that were planned together.

        Parameters
        ----------
        plan : Together
            What :func:`discreet.planner.plan_together` returned, or its document read again. The cost is that of the
            tight composed profile: valid since the releases are fixed before the first of them is seen.
        accept : collection of str
            ``{"data-dependent-refusal"}``, as for a release.

        Returns
        -------
        str
            The name of the entry. Each release is then made with ``ledger=ledger.part(name)``, and costs no more.

        Raises
        ------
        Refused
            When too little is left, the ledger does not add up such releases, or has a plan with such a name.
        """
        book, document, parts = self._book, plan.to_dict(), []
        for release in document["releases"]:
            domain = Domain.from_dict(release["domain"])
            group = max(release["max_records"], domain.max_records)
            if DATA_DEPENDENT not in accept:
                require_total(domain.row_domain.columns)
            relation = Relation(name=document["relation"], group=group)
            book.require_covered(relation, unit=book.covers["unit"], kind="unconditional")
            part = {key: release[key] for key in ("name", "mechanism", "records", "size")}
            part |= {"domain": release["domain_sha256"], "cells": hash_of(domain), "toml": domain.to_toml()}
            spent = release.get("attack") or {key: release[key] for key in ("epsilon", "delta")}
            parts.append({**part, "group": group, "budget": spent})
        cost = book.currency.of_profile(plan.profile, budget=plan.spent, total=book.budget)
        facts = {"what": "plan", "budget": asdict(plan.spent), "parts": parts, "out": [], "lease": lease()}
        with book.appending() as page:
            if names := {part["name"] for part in parts} & {part["name"] for part in _planned_parts(page)}:
                raise Refused(f"the ledger has a planned release {min(names)!r} already. Give it another name")
            self._require_left(page, cost)
            entry = fresh_identity()[:12]
            page.append(entry, "RESERVED", facts=facts, cost=cost)
            for state in ("OPENED", "COMMITTED", "DELIVERED"):  # paid from now on, whatever is released
                page.append(entry, state, facts={"files": []})
        return entry

    def note(self, what: str, facts: Mapping[str, Any] | None = None) -> None:
        """Keep in mind that the table was opened for the custodian's eyes, which costs nothing and is never public."""
        with self._book.appending() as page:
            page.append(None, "NOTED", facts={"what": what, **(facts or {})})

    def recover(self, entries: Collection[str] = ()) -> list[dict[str, Any]]:
        """Settle the entries of processes that are gone. Nothing is run again.

        A reservation is given back. What was opened is forfeited, and stays spent, unless its output waits to be
        written. What was committed gets its names where the files are as they were, and is reported as lost elsewhere.

        Parameters
        ----------
        entries : collection of str
            Entries of other machines, of which you know that nobody works on them.

        Returns
        -------
        list of dict
            One per entry: ``entry``, ``was``, ``now``, and ``why`` where something is left to do.
        """
        return settle_entries(self._book, frozenset(entries))

    def close(self) -> None:
        """Do nothing: each call opens the store and closes it. For code that closes what it opens."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Ledger {shown(self.place)} of {harmless(self.dataset)!r}>"

    def _require_left(self, page: Page, cost: Cost) -> None:
        book, spent = self._book, page.last.spent
        if (spent + cost).within(book.limit):
            return
        (epsilon, delta), total = book.currency.left(spent, book.budget), book.budget
        raise Refused(
            f"the ledger of {harmless(self.dataset)!r} does not allow this release, which costs "
            f"{book.currency.words(cost)}. It has epsilon {rounded_down(epsilon, 6)} and delta "
            f"{rounded_down(delta, 6)} left, of epsilon {as_written(total.epsilon)} and delta "
            f"{as_written(total.delta)}. Ask for less. Nothing was opened or spent"
        )


@sealed
@dataclass(frozen=True, slots=True)
class PlannedRelease:
    """One release of a plan that a ledger has paid for: :meth:`Ledger.part` makes it."""

    ledger: Ledger
    name: str

    def pay(self, request: Request, mechanism: Mechanism | None = None) -> Run:
        """Return the run of this release: see :meth:`Ledger.pay`."""
        return self.ledger.pay(replace(request, part=self.name), mechanism)


def _facts_of(request: Request, budget: Budget) -> dict[str, Any]:
    """Return what an entry says of a request, and of the checkpoint as it is now."""
    facts: dict[str, Any] = {
        "what": "release",
        "budget": asdict(budget),
        "relation": request.between.name,
        "unit": request.column,
        "group": request.covered.group,
        "domain": None if request.domain is None else hash_of(request.domain),
        "request": {key: getattr(request, key) for key in ("mechanism", "size", "counts", "kind")},
        "out": [os.fspath(canonical(Path(path))) for path in request.out],
        "checkpoint": None,
        "lease": lease(),
    }
    if request.checkpoint is not None:
        steps, sha256 = mechanisms.checkpoint_state(request.checkpoint.path)
        path = os.fspath(canonical(Path(request.checkpoint.path)))
        facts |= {"checkpoint": path, "held": {"steps": steps, "sha256": sha256}}
    return facts


def _planned_parts(page: Page) -> list[dict[str, Any]]:
    return [part for event in page.reservations() for part in event.facts.get("parts", ())]


def _planned_part(page: Page, request: Request, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a plan paid for. Raises Refused when that was released, or is not as it was declared."""
    name = request.part
    part = next((part for part in _planned_parts(page) if part["name"] == name), None)
    if part is None:
        raise Refused(f"no plan in the ledger has a release {name!r}. Declare one: discreet ledger declare")
    given = facts if request.attack is None else {**facts, "budget": request.attack.to_dict()}
    if any(part[key] != given[key] for key in ("budget", "domain", "group")):
        declared = sorted(part["budget"].items(), key=lambda number: number[0] != "epsilon")  # which comes first
        numbers = [f"{key.replace('_', ' ')} {as_written(value)}" for key, value in declared]
        raise Refused(
            f"the release {name!r} was declared with {', '.join(numbers)}, a domain and max_records. Use exactly those"
        )
    options = {"size": request.size, "records": request.relation.records}
    require_planned(part, facts.get("made", {key: value for key, value in options.items() if value is not None}))
    for event in page.reservations():
        if event.facts.get("part", {}).get("name") == name and page.state_of(event) != "VOID":
            raise Refused(f"the release {name!r} has been used already, and a plan pays for each release once")
    return {"part": part}


def _earlier_payment(page: Page, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return which entry paid for a run that goes on from its checkpoint; nothing where this is a new run."""
    if not facts["held"]["steps"]:
        return {}
    terms = ("checkpoint", "budget", "relation", "unit", "group", "domain")
    for event in reversed(page.reservations()):
        same = all(event.facts.get(key) == facts[key] for key in terms)
        if same and page.state_of(event) in ("OPENED", "COMMITTED", "FORFEITED"):
            if max(step.facts.get("step", 0) for step in page.run_of(event)) > facts["held"]["steps"]:
                return {}  # an older copy of the checkpoint, which would draw later steps again
            origin = page.entry(event.facts.get("continues", event.entry))[0]
            part = {"part": origin.facts["part"]} if "part" in origin.facts else {}
            return {"continues": origin.entry, **part}
    return {}


def reopened(ledger: Ledger | None, request: Request, stamp: Any, file: Path) -> Run:
    """Return the run of an entry that died after its kernel, to write what waits in a file. Raises FileProblem."""
    run = Run.unpaid(request)
    if ledger is not None:
        sha256 = file_sha256(file)
        with ledger._book.reading() as page:
            events = page.entry(getattr(stamp, "entry", None))
            costs = [event.cost for event in events if event.facts.get("sha256") == sha256]
            if not costs or page.state_of(events[0]) != "OPENED":
                remedy = "run discreet ledger recover, then move it away"
                raise FileProblem(file, "the ledger waits for no such output", remedy)
            run = Run._paid(request, ledger._book, events[0])
            run._state, run._cost = page.state(events[0].entry), costs[0]
    run._unused.acquire()
    run._file = file
    return run


# Which ledger pays: the one that is given, else the domain file's, else the environment's.


def ledger_for(ledger: Ledger | FilePath | None, domain: Any, *, dataset: str | None = None) -> Ledger | None:
    """Return the ledger that pays, if any. Raises ParameterError of a wrong ``[ledger]``, or a data set without one."""
    if isinstance(ledger, Ledger):
        return ledger
    if ledger is not None:
        return Ledger(ledger, dataset)
    section = None
    if isinstance(domain, (str, os.PathLike)):
        text = bounded_text(domain, missing="check the path", remedy="check that it is a readable TOML file")
        section = parsed_toml(text).get("ledger")
    if section is not None:
        texts = isinstance(section, Mapping) and all(isinstance(value, str) and value for value in section.values())
        if not texts or "file" not in section or set(section) - {"file", "dataset"}:
            raise ParameterError('[ledger] in the domain must have file = "...", may have dataset = "...", and no more')
        place = section["file"]
        if "://" not in place:
            place = str(Path(domain).parent / Path(place).expanduser())
        return Ledger(place, dataset or section.get("dataset"))
    if os.environ.get(VARIABLE):
        return Ledger(os.environ[VARIABLE], dataset)
    if dataset is not None:
        raise ParameterError("a data set is named and no ledger. Write ledger=..., where it is kept")
    return None
