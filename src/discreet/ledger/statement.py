"""What people are shown of a ledger: the custodian where it stands, and the public what was set aside for each entry.

The public view is made of reservations alone: whether an entry was committed depends on the table. Its records are
those of OpenDP's Deployments Registry, whose form is ``registry.json``.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Self

from discreet._core.boundary import sealed
from discreet._core.errors import FileProblem
from discreet._core.files import check_outputs, together
from discreet._core.text import as_written, counted, harmless, listing, paragraph, rounded_down, rounded_up, table
from discreet.domain import escaped
from discreet.ledger.events import Book, LedgerEvent
from discreet.ledger.filters import Cost
from discreet.privacy import Budget, Guarantee

if TYPE_CHECKING:
    from discreet.ledger.ledger import Ledger

_FALSE_ALARMS = 0.05


@sealed
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LedgerStatus:
    """Where a ledger stands.

    Parameters
    ----------
    dataset, currency : str
        What it is of, and by which theorem it adds up.
    budget, spent, left : dict
        ``epsilon`` and ``delta``: of the whole, of the entries that count, and of what may still be asked for.
    counts : dict
        How many entries are in each state.
    covers : dict
        ``relation``, ``unit``, ``max_records`` and ``kinds``: what the ledger adds up.
    head : str
        The hash of its last event.
    created : str
        When it was made.
    """

    dataset: str
    currency: str
    budget: Mapping[str, float]
    spent: Mapping[str, float]
    left: Mapping[str, float]
    counts: Mapping[str, int]
    covers: Mapping[str, Any]
    head: str
    created: str

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON values, and the best attacker's power at a false-alarm rate of 5 %."""
        powers = {"power_now": power(_FALSE_ALARMS, **self.spent), "power_at_most": power(_FALSE_ALARMS, **self.budget)}
        facts = asdict(self)
        last = {key: facts.pop(key) for key in ("head", "created")}
        return {**facts, "attacker": {"false_alarms": _FALSE_ALARMS, **powers}, **last}

    def __str__(self) -> str:
        covers, unit = self.covers, "a record"
        if covers["unit"] is not None:
            unit = f"column {covers['unit']!r}, {counted(covers['max_records'], 'record')} each"
        lines = [
            f"data set: {self.dataset}",
            f"accounting: {self.currency}. Relation: {covers['relation']}. Privacy unit: {unit}. Kind: "
            f"{' or '.join(covers['kinds'])}",
            *(f"{name}: epsilon {epsilon}, delta {delta}" for name, epsilon, delta in self._shown),
            *self._states,
            f"{self._attacker}.",
            "Releases that were made without the ledger are not in it.",
        ]
        return "\n".join(map(harmless, lines))

    def __repr__(self) -> str:
        return f"<LedgerStatus of {harmless(self.dataset)!r}: epsilon {self.left['epsilon']} left>"

    def _repr_html_(self) -> str:
        numbers = table((self.dataset, "epsilon", "delta"), self._shown)
        return numbers + paragraph(self._attacker) + listing(self._states)

    @property
    def _shown(self) -> list[tuple[str, str, str]]:
        return [(name, pair["epsilon"], pair["delta"]) for name, pair in loss_texts(asdict(self)).items()]

    @property
    def _attacker(self) -> str:
        now, total = (rounded_up(100.0 * power(_FALSE_ALARMS, **pair)) for pair in (self.spent, self.budget))
        return (
            "What is promised is the whole budget: the best attacker who sees all releases in the ledger, and raises a "
            f"false alarm about one record in 20, detects at most {total} % of true ones. Without any release it is 5 "
            f"%. If the amount spent so far had been the whole budget, it would be {now} %"
        )

    @property
    def _states(self) -> list[str]:
        return [f"{state}: {counted(number, 'entry', 'entries')}" for state, number in self.counts.items() if number]


def status_of(book: Book, last: LedgerEvent) -> LedgerStatus:
    """Return where a ledger stands after its last event."""
    facts: dict[str, Any] = {"dataset": book.dataset, "head": last.hash, "created": book.created}
    sums = [convert(last.spent, book.budget) for convert in (book.currency.worth, book.currency.left)]
    spent, left = (dict(zip(("epsilon", "delta"), pair, strict=True)) for pair in sums)
    losses: dict[str, Any] = {"budget": asdict(book.budget), "spent": spent, "left": left, "counts": dict(last.counts)}
    return LedgerStatus(**losses, currency=book.currency.name, covers=dict(book.covers), **facts)


def loss_texts(status: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return the budget as it is written, what is spent rounded up, and what is left rounded down."""
    up, down = partial(rounded_up, digits=6), partial(rounded_down, digits=6)
    ways: dict[str, Callable[[float], str]] = {"budget": as_written, "spent": up, "left": down}
    return {name: {key: write(status[name][key]) for key in ("epsilon", "delta")} for name, write in ways.items()}


def power(false_alarms: float, *, epsilon: float, delta: float) -> float:
    """Return the greatest power of a test between two neighbours under an (epsilon, delta) promise."""
    if not math.isfinite(epsilon):
        return 1.0
    alone = math.exp(min(epsilon, 700.0)) * false_alarms + delta
    return min(1.0, alone, 1.0 - max(0.0, math.exp(-epsilon) * (1.0 - delta - false_alarms)))


def left_after(
    ledger: Ledger, releases: Sequence[tuple[Guarantee, Budget]]
) -> tuple[LedgerStatus, list[tuple[float, float] | None]]:
    """Return a ledger's status, and what each release alone would leave, rounded down; None for one not allowed."""
    book = ledger._book
    with book.reading() as page:
        last = page.last
    status, spent = status_of(book, last), last.spent
    remainders: list[tuple[float, float] | None] = []
    for guarantee, budget in releases:
        unit = status.covers["unit"]  # a plan has none: what the ledger's is, is up to the release
        book.require_covered(guarantee.relation, unit=unit, kind=guarantee.kind)
        remainders.append(None)
        if (spent + book.currency.of_budget(budget)).within(book.limit):
            cost = book.currency.of_profile(guarantee.profile, budget=budget, total=book.budget)
            remainders[-1] = book.currency.left(spent + cost, book.budget)
    return status, remainders


# What the public may see of a ledger.

_SHOWN = ("budget", "what", "relation", "unit", "group", "domain", "continues")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry as its reservation says, which is made before its table is opened; of files their names."""

    name: str
    reserved: str = ""  # when, in ISO form
    cost: Cost  # what was set aside: it costs at most that
    state: str = "paid"  # or void. That an entry was committed, or forfeited, is not public
    budget: Mapping[str, float] = field(default_factory=dict)  # epsilon and delta
    what: str = "release"
    relation: str | None = None
    unit: str | None = None
    group: int = 1
    domain: str | None = None  # its SHA-256
    parts: tuple[str, ...] = ()  # the names of the releases of a plan
    part: str | None = None  # its name in the plan that paid for it
    continues: str | None = None  # the entry whose run it goes on with, and which paid for it
    request: Mapping[str, Any] = field(default_factory=dict)  # what is known before the table is counted
    files: tuple[str, ...] = ()

    @classmethod
    def from_reservation(cls, event: LedgerEvent, *, void: bool) -> Self:
        """Return the entry of a RESERVED event; ``void`` where it was given up before its table was opened."""
        if void:
            return replace(cls.from_reservation(event, void=False), state="void", cost=Cost())
        facts = event.facts
        request, part = facts.get("request", {}), facts.get("part", {})
        return cls(
            name=str(event.entry),
            reserved=event.at,
            cost=event.cost,
            parts=tuple(release["name"] for release in facts.get("parts", ())),
            part=part.get("name"),
            request={**request, "mechanism": {"name": request.get("mechanism")}, **part, **facts.get("made", {})},
            files=tuple(PurePath(path).name for path in facts.get("out", ())),
            **{key: facts[key] for key in _SHOWN if key in facts},
        )

    @property
    def mechanism(self) -> str | None:
        """The name of the mechanism; None where it was to be chosen once the table is counted."""
        mechanism: Mapping[str, Any] = self.request.get("mechanism", {})
        return mechanism.get("name")


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A ledger as the public may see it: a function of public facts, whatever the tables were."""

    status: Mapping[str, Any]  # of LedgerStatus.to_dict. At most that is spent, and at least that is left
    entries: Sequence[Entry]  # in the order of their reservations
    spent: Cost  # the sum of what was set aside, within the limit
    limit: Cost

    @classmethod
    def from_ledger(cls, ledger: Ledger) -> Self:
        """Return what is public of a ledger, as it is now."""
        book = ledger._book
        with book.reading() as page:
            void = {name for (name,) in page.rows("entry", "AND state = 'VOID'")}
            entries = [Entry.from_reservation(event, void=event.entry in void) for event in page.reservations()]
            last = page.last
        paid = sum((entry.cost for entry in entries), Cost())
        spent = Cost(min(paid.loss, book.limit.loss), min(paid.delta, book.limit.delta))
        counts = {"paid": len(entries) - len(void), "void": len(void)}
        status = status_of(book, replace(last, spent=spent, counts=counts)).to_dict()
        del status["head"]
        return cls(status=status, entries=entries, spent=spent, limit=book.limit)


# The record of an entry, for the registry of deployments.

_COMPOSITION = {
    "sums": "Sequential composition of adaptively chosen releases: sums of epsilon and of delta (Rogers, Roth, Ullman "
    "and Vadhan 2016, Theorem 3.6).",
    "zcdp": "Approximate zero-concentrated differential privacy of adaptively chosen releases: sums of rho and of "
    "delta (Whitehouse, Ramdas, Rogers and Wu 2023, Theorem 1).",
}
_BETWEEN = {
    "replacement": "Two tables are adjacent where one has other values in the records of one unit. The number of "
    "records is public.",
    "add-remove": "Two tables are adjacent where one has the records of one unit more than the other.",
}
_STATES = {
    "paid": "its budget is set aside, whatever becomes of it",
    "void": "it was given up before the table was opened, and costs nothing",
}


def write_registry(ledger: Ledger, out: str | os.PathLike[str]) -> dict[str, Any]:
    """Write the export of a ledger to a JSON or CSV file, and return it as JSON values. Raises FileProblem."""
    from discreet._core.page import require_own

    path = Path(out)
    if (ending := path.suffix.lower()) not in (".json", ".csv"):
        raise FileProblem(out, "the format is not known by this ending", "end the name in .json or .csv")
    check_outputs([path], [ledger.place])
    require_own(path)
    document = registry(Statement.from_ledger(ledger))
    text = registry_csv(document) if ending == ".csv" else json.dumps(document, indent=2, allow_nan=False) + "\n"
    with together(path, inputs=[ledger.place], check=lambda: require_own(path)) as (file,):
        file.write(text.encode())
    return document


def registry(statement: Statement) -> dict[str, Any]:
    """Return the export of a ledger as JSON values: the form that is beside this module, filled."""
    from discreet._core.page import OWN, filled

    form = json.loads(Path(__file__).with_name("registry.json").read_text(encoding="utf-8"))
    status = statement.status
    values = {**status, **status["budget"], "composition": _COMPOSITION[status["currency"]]}
    entries = [_entry_values(entry, status["dataset"]) for entry in statement.entries]
    return dict(filled(form, {**values, "writer": f"{OWN} {version('discreet')}", "entries": entries}))


def registry_csv(document: Mapping[str, Any]) -> str:
    """Return an export as CSV: a row per entry, nested names joined by points, formulas of spreadsheets escaped."""
    rows = [dict(_flat({**entry, "written_by": document["written_by"]})) for entry in document["entries"]]
    header = list(dict.fromkeys(["entry.name", "entry.state", *(key for row in rows for key in row)]))
    text = io.StringIO()
    writer = csv.DictWriter(text, header, restval="", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({key: escaped(value) if isinstance(value, str) else value for key, value in row.items()})
    return text.getvalue()


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _flat(part, f"{name}.{key}".removeprefix("."))
    elif isinstance(value, list):
        yield name, "; ".join(value)
    else:
        yield name, value


def _entry_values(entry: Entry, dataset: str) -> dict[str, Any]:
    """Return what fills the form of an entry, None where nothing is known, and what the registry has no field for."""
    records, kind, privacy_unit = counted(entry.group, "record"), entry.request.get("kind"), "One record"
    if entry.unit is not None:
        privacy_unit = f"One {entry.unit}, with at most {records}"
    elif entry.group > 1:
        privacy_unit = f"{records} together"
    variant = "Approximate DP"
    if kind not in (None, "unconditional"):
        variant = "Custom"
    elif entry.budget.get("delta") == 0:
        variant = "Pure DP"
    notes = f"Entry {entry.name} of the ledger of {dataset}: {_STATES[entry.state]}."
    if entry.part is not None:
        notes += f" It is the release {entry.part} of a plan, which paid for it: it adds nothing to the plan's loss."
    if entry.continues is not None:
        notes += f" It goes on with entry {entry.continues}, which paid for it."
    return {
        "facts": {
            **{key: getattr(entry, key) for key in ("name", "state", "what", "reserved")},
            "cost_at_most": entry.cost.to_dict(),
            "asked": dict(entry.budget),
            "domain_sha256": entry.domain,
            "files": list(entry.files),
        },
        "slug": re.sub(r"[^a-z0-9]+", "-", f"{dataset} {entry.name}".lower()).strip("-"),
        **_product_values(entry, dataset),
        "variant": variant,
        "privacy_unit": privacy_unit,
        "parameters": dict(entry.budget),
        "data_domain": entry.domain and f"Tables on the declared domain with SHA-256 {entry.domain}.",
        "unprotected": "The number of records." if entry.relation == "replacement" else None,
        "adjacent": _BETWEEN.get(entry.relation or ""),
        "notes": notes,
    }


def _product_values(entry: Entry, dataset: str) -> dict[str, str]:
    """Return what an entry releases, and by which mechanism."""
    if entry.parts:
        names = ", ".join(entry.parts)
        description = "No data product: releases that were declared together, and satisfy together what is stated here."
        mechanisms = f"Of each release, see its own entry: {names}."
        values = {"title": f"{dataset}: plan of {names}", "description": description, "mechanisms": mechanisms}
        return {**values, "product_type": "Synthetic data"}
    request, kind, product, number = entry.request, "Synthetic data", "Synthetic records", ""
    title = f"{dataset}: {entry.files[0]}" if entry.files else f"{dataset}, entry {entry.name}"
    if (size := request.get("size")) is not None:
        product = counted(size, "synthetic record")
    elif request.get("counts"):
        kind, product = "Summary statistics", "Counts with noise"
    if (n := request.get("records")) is not None:
        number = f", which has {counted(n, 'record')}"
    mechanisms = "Not named in the request."
    if entry.mechanism is not None:
        mechanisms = f"{entry.mechanism} of the library discreet."
        if (parameters := request["mechanism"].get("parameters")) is not None:
            mechanisms += f" Parameters: {json.dumps(parameters, sort_keys=True)}."
    values = {"title": title, "description": f"{product} from {dataset}{number}.", "mechanisms": mechanisms}
    return {**values, "product_type": kind}
