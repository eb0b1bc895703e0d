"""A ledger for an oversight body: one record per entry, with the fields of the registry of deployments.

The fields are those of the Differential Privacy Deployments Registry of OpenDP, which NIST has proposed to host:
``schemas/deployments-schema.yaml`` of https://github.com/opendp/deployments-registry-data, as of 15 July 2026. What no
ledger knows (who published it, for what use, where) is listed and left to fill in. Everything is public: neither paths,
nor who ran what where, are in it.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path, PurePath
from typing import Any

from discreet._core.errors import FileProblem
from discreet._core.files import check_outputs, together
from discreet._core.page import OWN, require_own
from discreet._core.text import counted
from discreet.domain import escaped
from discreet.ledger.events import STATES
from discreet.ledger.ledger import Ledger

# The entries of a ledger, put together from its events: what people and other programs are shown of each.


@dataclass(slots=True, kw_only=True)
class Entry:
    """One entry, as its events say: public facts alone, and of files their names and hashes."""

    name: str
    what: str = "release"
    state: str = "RESERVED"
    reserved: str | None = None  # when, in ISO form
    committed: str | None = None
    cost: Mapping[str, str] = field(default_factory=dict)  # as exact decimals
    asked: Mapping[str, float] = field(default_factory=dict)  # epsilon and delta
    relation: str | None = None
    unit: str | None = None
    group: int = 1
    domain: str | None = None  # its SHA-256
    parts: tuple[str, ...] = ()  # the names of the releases of a plan
    part: str | None = None  # its name in the plan that paid for it
    continues: str | None = None  # the entry whose run it goes on with, and which paid for it
    fate: str | None = None  # DELIVERED or LOST, once that is known
    released: Mapping[str, Any] = field(default_factory=dict)  # empty before it is committed
    files: tuple[tuple[str, str], ...] = ()  # names and SHA-256
    out: tuple[str, ...] = ()  # the names of the files that were asked for

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its files: those that were written, else those that were asked for."""
        return tuple(name for name, _ in self.files) or self.out

    @property
    def mechanism(self) -> str | None:
        """The name of the mechanism; None before the entry is committed."""
        mechanism = self.released.get("mechanism")
        return None if mechanism is None else str(mechanism["name"])

    @property
    def promised(self) -> Mapping[str, float]:
        """The epsilon and delta of the guarantee; what was asked for before the entry is committed."""
        guarantee: Mapping[str, float] = self.released.get("guarantee", self.asked)
        return guarantee


_RELEASED = ("mechanism", "guarantee", "records", "size", "identity")


def entries(events: Iterable[Mapping[str, Any]]) -> list[Entry]:
    """Return the entries of the events of :meth:`Ledger.log`, in the order of their reservations."""
    by_name: dict[str, Entry] = {}
    for event in events:
        if (name := event["entry"]) is not None:
            _update(by_name.setdefault(name, Entry(name=name)), event["state"], event)
    return list(by_name.values())


def _update(entry: Entry, state: str, event: Mapping[str, Any]) -> None:
    """Take in what an event says of an entry."""
    facts = event["facts"]
    if state in STATES:
        entry.state, entry.cost = state, event["cost"]
    if state == "RESERVED":
        entry.reserved, entry.what, entry.asked = event["at"], facts.get("what", entry.what), facts["budget"]
        entry.relation, entry.unit = facts.get("relation"), facts.get("unit")
        entry.group, entry.domain, entry.continues = facts.get("group", 1), facts.get("domain"), facts.get("continues")
        entry.parts = tuple(part["name"] for part in facts.get("parts", ()))
        entry.part = facts.get("part", {}).get("name")
        entry.out = tuple(PurePath(path).name for path in facts.get("out", ()))
    elif state == "COMMITTED":
        entry.committed = event["at"]
        entry.released = {key: facts[key] for key in _RELEASED if key in facts}
        entry.files = tuple((PurePath(file["path"]).name, file["sha256"]) for file in facts.get("files", ()))
        if "folder" in facts:
            hashes = sorted(dict(facts["folder"]["files"]).items())
            entry.files = tuple((PurePath(path).name, sha256) for path, sha256 in hashes)
    elif state in ("DELIVERED", "LOST"):
        entry.fate = state


Path_ = str | os.PathLike[str]

SCHEMA = "https://github.com/opendp/deployments-registry-data, schemas/deployments-schema.yaml, 2026-07-15"
"""Whose fields a record has."""

TO_FILL_IN = (
    "deployment.basic.data_curators",
    "deployment.basic.intended_use",
    "deployment.basic.data_product_region",
    "deployment.basic.publication_date",
    "deployment.deployment_model.data_source_type",
    "deployment.implementation.preprocessing_and_hyperparameter_tuning",
    "deployment.implementation.justification",
    "deployment.administrative.registry_authors",
)
"""Fields that are asked for by the registry, or usual in it, and that no ledger can know."""

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


def write_registry(place: Path_, out: Path_, *, dataset: str | None = None) -> int:
    """Write the export of a ledger to a JSON or CSV file; return how many entries it has.

    Raises FileProblem when the file cannot be written, or exists and was not written by this package.
    """
    path = Path(out)
    texts = {".json": registry_json, ".csv": registry_csv}
    if path.suffix.lower() not in texts:
        raise FileProblem(out, "the format is not known by this ending", "end the name in .json or .csv")
    check_outputs([path], [place])
    require_own(path)
    with Ledger(place, dataset) as ledger:
        document = registry(ledger.status().to_dict(), ledger.log())
    with together(path, inputs=[place], check=lambda: require_own(path)) as (file,):
        file.write(texts[path.suffix.lower()](document).encode())
    return len(document["entries"])


def registry(status: Mapping[str, Any], events: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the export of a ledger as JSON values, from its ``LedgerStatus.to_dict`` and its log."""
    keys = ("dataset", "currency", "budget", "spent", "left", "counts", "covers", "created", "head")
    return {
        "written_by": f"{OWN} {version('discreet')}",
        "schema": SCHEMA,
        "to_fill_in": list(TO_FILL_IN),
        "ledger": {key: status[key] for key in keys},
        "entries": [{"entry": _facts(entry), "record": _record(entry, status)} for entry in entries(events)],
    }


def registry_json(document: Mapping[str, Any]) -> str:
    """Return an export as the text of a JSON file."""
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def registry_csv(document: Mapping[str, Any]) -> str:
    """Return an export as the text of a CSV file: a row per entry, the names of nested fields joined by points.

    Texts that a spreadsheet would run as formulas have an apostrophe before them.
    """
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
            yield from _flat(part, f"{name}.{key}" if name else key)
    elif isinstance(value, list):
        yield name, "; ".join(" ".join(map(str, part.values())) for part in value)
    else:
        yield name, value


def _facts(entry: Entry) -> dict[str, Any]:
    """Return what the ledger says of an entry, and the registry has no field for."""
    return {
        "name": entry.name,
        "state": entry.state,
        "what": entry.what,
        "reserved": entry.reserved,
        "committed": entry.committed,
        "fate": entry.fate,
        "cost": dict(entry.cost),
        "asked": {key: entry.asked[key] for key in ("epsilon", "delta") if key in entry.asked},
        "domain_sha256": entry.domain,
        "release_identity": entry.released.get("identity"),
        "files": [{"name": name, "sha256": sha256} for name, sha256 in entry.files],
    }


def _record(entry: Entry, status: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry as a record of the registry; what is not known is not in it."""
    dataset, total = status["dataset"], status["budget"]
    return {
        "url_slug": re.sub(r"[^a-z0-9]+", "-", f"{dataset} {entry.name}".lower()).strip("-"),
        "status": "Draft",
        "tier": 2,
        "deployment": {
            "basic": _basic(entry, dataset),
            "dp_variant": _variant(entry),
            "privacy_loss": _loss(entry),
            "deployment_model": {
                "model_name": "Central",
                "release_type": "One release",
                "release_type_details": f"All releases of {dataset} that are in the same ledger keep epsilon "
                f"{total['epsilon']} and delta {total['delta']} together. Nothing more is released once that is spent.",
                "access_type": "Non-interactive",
            },
            "accounting": {"composition": _COMPOSITION[status["currency"]]},
            "implementation": {"mechanisms": _mechanism(entry)},
            "administrative": {"notes": _notes(entry, dataset)},
        },
    }


_STATES = {
    "RESERVED": "its budget is set aside, and nothing was released yet",
    "OPENED": "the table was opened, and nothing was released yet",
    "COMMITTED": "it was released",
    "VOID": "it was given up before the table was opened, and costs nothing",
    "FORFEITED": "the table was opened and nothing was released. Its budget is spent",
}


def _notes(entry: Entry, dataset: str) -> str:
    note = (
        f"Entry {entry.name} of the ledger of {dataset}: {'it is paid for' if entry.parts else _STATES[entry.state]}."
    )
    if entry.part is not None:
        note += f" It is the release {entry.part} of a plan, which paid for it: it adds nothing to the plan's loss."
    return note if entry.continues is None else f"{note} It goes on with entry {entry.continues}, which paid for it."


def _basic(entry: Entry, dataset: str) -> dict[str, Any]:
    if entry.parts:
        plan = f"plan of {', '.join(entry.parts)}"
        description = "No data product: releases that were declared together, and satisfy together what is stated here."
        return {"name": f"{dataset}: {plan}", "description": description, "data_product_type": "Synthetic data"}
    size, records = entry.released.get("size"), entry.released.get("records")
    counts = entry.released and size is None
    product = "Synthetic records" if size is None else counted(size, "synthetic record")
    number = "" if records is None else f", which has {counted(records, 'record')}"
    return {
        "name": f"{dataset}: {entry.names[0]}" if entry.names else f"{dataset}, entry {entry.name}",
        "description": f"{'Counts with noise' if counts else product} from {dataset}{number}.",
        "data_product_type": "Summary statistics" if counts else "Synthetic data",
    }


def _variant(entry: Entry) -> dict[str, Any]:
    kind = entry.released.get("guarantee", {}).get("kind", "unconditional")
    name = "Pure DP" if entry.promised.get("delta") == 0 else "Approximate DP"
    fields = {"variant_name": name if kind == "unconditional" else "Custom"}
    if entry.domain is not None:
        fields["data_domain"] = f"Tables on the declared domain with SHA-256 {entry.domain}."
    if entry.relation == "replacement":
        fields["unprotected_quantities"] = "The number of records."
    return fields


def _loss(entry: Entry) -> dict[str, Any]:
    unit = "One record" if entry.unit is None else f"One {entry.unit}, with at most {counted(entry.group, 'record')}"
    if entry.unit is None and entry.group > 1:
        unit = f"{counted(entry.group, 'record')} together"
    fields: dict[str, Any] = {"privacy_unit": unit}
    if entry.relation in _BETWEEN:
        fields["privacy_unit_details"] = _BETWEEN[entry.relation]
    fields["privacy_parameters"] = {key: entry.promised[key] for key in ("epsilon", "delta") if key in entry.promised}
    guarantee = entry.released.get("guarantee")
    if guarantee is not None:
        fields["privacy_parameters_details"] = (
            f"{guarantee['statement']} Kind: {guarantee['kind']}. Theorem {guarantee['theorem']}."
        )
    return fields


def _mechanism(entry: Entry) -> str:
    if entry.parts:
        return f"Of each release, see its own entry: {', '.join(entry.parts)}."
    if entry.mechanism is None:
        return "Not released."
    parameters = json.dumps(entry.released["mechanism"].get("parameters", {}), sort_keys=True)
    return f"{entry.mechanism} of the library discreet, with the parameters {parameters}."
