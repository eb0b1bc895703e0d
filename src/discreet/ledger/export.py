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
from pathlib import Path, PurePath
from typing import Any

from discreet._core.errors import FileProblem
from discreet._core.files import check_outputs, together
from discreet._core.page import OWN, require_own
from discreet._core.text import counted
from discreet._core.version import __version__
from discreet.domain import escaped
from discreet.ledger.events import STATES
from discreet.ledger.ledger import Ledger

# The entries of a ledger, put together from its events: what people and other programs are shown of each.


@dataclass(slots=True, kw_only=True)
class Entry:
    """One entry, as its events say: public facts alone, and of files their names and hashes.

    ``name``: of the entry.
    ``what``: what asked for it, such as release.
    ``state``: its last one.
    ``reserved``, ``committed``: when, in ISO form; None where it was not.
    ``cost``: loss and delta, as exact decimals.
    ``asked``: the epsilon and delta that were asked for.
    ``relation``, ``unit``, ``group``, ``domain``: what the guarantee is about; the domain's SHA-256.
    ``parts``: the names of the releases that were declared together, where the entry is a plan.
    ``part``: its name in the plan that paid for it; None where it pays for itself.
    ``continues``: the entry whose run it goes on with, and which paid for it; None for most.
    ``fate``: DELIVERED or LOST, once that is known.
    ``released``: mechanism, guarantee, records, size and identity; empty before it is committed.
    ``files``: name and SHA-256 of each file of the release.
    ``out``: the names of the files that were asked for.
    """

    name: str
    what: str = "release"
    state: str = "RESERVED"
    reserved: str | None = None
    committed: str | None = None
    cost: Mapping[str, str] = field(default_factory=dict)
    asked: Mapping[str, float] = field(default_factory=dict)
    relation: str | None = None
    unit: str | None = None
    group: int = 1
    domain: str | None = None
    parts: tuple[str, ...] = ()
    part: str | None = None
    continues: str | None = None
    fate: str | None = None
    released: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[tuple[str, str], ...] = ()
    out: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its files: those that were written, else those that were asked for."""
        return tuple(name for name, _ in self.files) or self.out

    @property
    def mechanism(self) -> str | None:
        """The name of the mechanism; None before the entry is committed."""
        found = self.released.get("mechanism")
        return None if found is None else str(found["name"])

    @property
    def promised(self) -> Mapping[str, float]:
        """The epsilon and delta of the guarantee; what was asked for before the entry is committed."""
        guarantee: Mapping[str, float] = self.released.get("guarantee", self.asked)
        return guarantee


_RELEASED = ("mechanism", "guarantee", "records", "size", "identity")


def entries(events: Iterable[Mapping[str, Any]]) -> list[Entry]:
    """Return the entries of a ledger, in the order of their reservations.

    ``events``: as :meth:`Ledger.log` gives them.
    """
    found: dict[str, Entry] = {}
    for event in events:
        name, state = event["entry"], event["state"]
        if name is None:
            continue
        entry = found.setdefault(name, Entry(name=name))
        if state in STATES:
            entry.state, entry.cost = state, event["cost"]
        if state in _READERS:
            _READERS[state](entry, event)
    return list(found.values())


def _reserved(entry: Entry, event: Mapping[str, Any]) -> None:
    facts = event["facts"]
    entry.reserved, entry.what, entry.asked = event["at"], facts.get("what", entry.what), facts["budget"]
    entry.relation, entry.unit = facts.get("relation"), facts.get("unit")
    entry.group, entry.domain, entry.continues = facts.get("group", 1), facts.get("domain"), facts.get("continues")
    entry.parts = tuple(one["name"] for one in facts.get("parts", ()))
    entry.part = facts.get("part", {}).get("name")
    entry.out = tuple(PurePath(one).name for one in facts.get("out", ()))


def _committed(entry: Entry, event: Mapping[str, Any]) -> None:
    facts = event["facts"]
    entry.committed = event["at"]
    entry.released = {key: facts[key] for key in _RELEASED if key in facts}
    held = facts.get("files", ())
    if "folder" in facts:
        held = [{"path": name, "sha256": one} for name, one in sorted(dict(facts["folder"]["files"]).items())]
    entry.files = tuple((PurePath(one["path"]).name, one["sha256"]) for one in held)


def _fated(entry: Entry, event: Mapping[str, Any]) -> None:
    entry.fate = event["state"]


_READERS = {"RESERVED": _reserved, "COMMITTED": _committed, "DELIVERED": _fated, "LOST": _fated}


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

    ``place``, ``dataset``: of the ledger.
    ``out``: ends in ``.json`` or ``.csv``.

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
    """Return the export of a ledger as JSON values.

    ``status``: of the ledger, as ``LedgerStatus.to_dict`` gives it.
    ``events``: as :meth:`Ledger.log` gives them.
    """
    return {
        "written_by": f"{OWN} {__version__}",
        "schema": SCHEMA,
        "to_fill_in": list(TO_FILL_IN),
        "ledger": {key: status[key] for key in _OF_LEDGER},
        "entries": [{"entry": _facts(one), "record": _record(one, status)} for one in entries(events)],
    }


_OF_LEDGER = ("dataset", "currency", "budget", "spent", "left", "counts", "covers", "created", "head")


def registry_json(document: Mapping[str, Any]) -> str:
    """Return an export as the text of a JSON file."""
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def registry_csv(document: Mapping[str, Any]) -> str:
    """Return an export as the text of a CSV file: a row per entry, the names of nested fields joined by points.

    Texts that a spreadsheet would run as formulas have an apostrophe before them.
    """
    rows = [dict(_flat({**one, "written_by": document["written_by"]})) for one in document["entries"]]
    header = list(dict.fromkeys([*_HEADER, *(key for row in rows for key in row)]))
    text = io.StringIO()
    writer = csv.DictWriter(text, header, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _cell(value) for key, value in row.items()} for row in rows)
    return text.getvalue()


_HEADER = ("entry.name", "entry.state")


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _flat(part, f"{name}.{key}" if name else key)
    elif isinstance(value, list):
        yield name, "; ".join(" ".join(map(str, part.values())) for part in value)
    else:
        yield name, value


def _cell(value: Any) -> Any:
    return escaped(value) if isinstance(value, str) else "" if value is None else value


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
    dataset = status["dataset"]
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
                "release_type_details": _others(status),
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
        said = "No data product: releases that were declared together, and satisfy together what is stated here."
        return {"name": f"{dataset}: {plan}", "description": said, "data_product_type": "Synthetic data"}
    size, records = entry.released.get("size"), entry.released.get("records")
    counts = entry.released and size is None
    made = "Counts with noise" if counts else "Synthetic records" if size is None else counted(size, "synthetic record")
    held = "" if records is None else f", which has {counted(records, 'record')}"
    return {
        "name": f"{dataset}: {entry.names[0]}" if entry.names else f"{dataset}, entry {entry.name}",
        "description": f"{made} from {dataset}{held}.",
        "data_product_type": "Summary statistics" if counts else "Synthetic data",
    }


def _variant(entry: Entry) -> dict[str, Any]:
    kind = entry.released.get("guarantee", {}).get("kind", "unconditional")
    name = "Pure DP" if entry.promised.get("delta") == 0 else "Approximate DP"
    found = {"variant_name": name if kind == "unconditional" else "Custom"}
    if entry.domain is not None:
        found["data_domain"] = f"Tables on the declared domain with SHA-256 {entry.domain}."
    if entry.relation == "replacement":
        found["unprotected_quantities"] = "The number of records."
    return found


def _loss(entry: Entry) -> dict[str, Any]:
    unit = "One record" if entry.unit is None else f"One {entry.unit}, with at most {counted(entry.group, 'record')}"
    if entry.unit is None and entry.group > 1:
        unit = f"{counted(entry.group, 'record')} together"
    found: dict[str, Any] = {"privacy_unit": unit}
    if entry.relation in _BETWEEN:
        found["privacy_unit_details"] = _BETWEEN[entry.relation]
    found["privacy_parameters"] = {key: entry.promised[key] for key in ("epsilon", "delta") if key in entry.promised}
    guarantee = entry.released.get("guarantee")
    if guarantee is not None:
        found["privacy_parameters_details"] = (
            f"{guarantee['statement']} Kind: {guarantee['kind']}. Theorem {guarantee['theorem']}."
        )
    return found


def _others(status: Mapping[str, Any]) -> str:
    whole = status["budget"]
    return (
        f"All releases of {status['dataset']} that are in the same ledger keep epsilon {whole['epsilon']} and delta "
        f"{whole['delta']} together. Nothing more is released once that is spent."
    )


def _mechanism(entry: Entry) -> str:
    if entry.parts:
        return f"Of each release, see its own entry: {', '.join(entry.parts)}."
    if entry.mechanism is None:
        return "Not released."
    parameters = json.dumps(entry.released["mechanism"].get("parameters", {}), sort_keys=True)
    return f"{entry.mechanism} of the library discreet, with the parameters {parameters}."
