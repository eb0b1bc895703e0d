"""The certificate of a release: plain versioned JSON that anybody can recompute.

It shows accidental change, not authenticity, and cannot prove that the mechanism was run: it says so itself. The schema
is documented in docs/reference/certificate.md. It holds one table, or several.
"""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from discreet._core.errors import FileProblem, ParameterError
from discreet._core.random import fresh_identity
from discreet._core.reading import read_json
from discreet._core.text import alarm, counted, harmless, listing, paragraph, percent, rounded_up
from discreet._core.version import __version__
from discreet._core.writing import require_settled
from discreet.domain import Domain
from discreet.privacy import Budget, Guarantee
from discreet.releases.promise import MARKED, SEEDED, SEEDED_CUT, SHOWS, headline, in_present_form, promise
from discreet.releases.step import POOR_UTILITY, Step

# The shape of a certificate: which fields it has, and of which kinds. What they claim is verified elsewhere.

_NUMBER = (int, float)
_MAYBE = (int, type(None))
_TABLE: dict[str, Any] = {"file": (str, type(None)), "rows": (int,), "sha256": (str, type(None))}
_PARTS: dict[str, Any] = {"partitions": (int,), "partition_by": (str, type(None)), "sha256": (str,)}
_SHAPE: dict[str, Any] = {
    "mechanism": {"name": (str,), "parameters": (dict,)},
    "domain": (dict,),
    "records": (int,),
    "size": _MAYBE,
    "relation": {"name": (str,), "group": (int,)},
    "unit": (dict, type(None)),
    "guarantee": {"epsilon": _NUMBER, "delta": _NUMBER, "caveats": (list,), "statement": (str,)},
    "randomness": (str,),
    "released": {"columns": (list,), "rows": _MAYBE},
    "shows": (str,),
}


def misshapen(facts: Any) -> str | None:
    """Return the first field that is missing or of the wrong kind; None where there is none.

    Examples
    --------
    >>> misshapen({"mechanism": {"name": 3}})
    'mechanism.name'
    """
    wrong = first_wrong(facts, _SHAPE, "")
    if wrong is None and "partitions" in facts["released"]:
        wrong = first_wrong(facts["released"], _PARTS, "released.")
    if wrong is not None or "tables" not in facts["released"]:
        return wrong
    tables = facts["released"]["tables"]
    if not isinstance(tables, list) or not tables:
        return "released.tables"
    found = (first_wrong(table, _TABLE, f"released.tables[{i}].") for i, table in enumerate(tables))
    return next((wrong for wrong in found if wrong is not None), None)


def first_wrong(facts: Any, shape: Mapping[str, Any], place: str) -> str | None:
    """Return the first field of a shape that is missing or of the wrong kind, with its place in front of it."""
    if not isinstance(facts, Mapping):
        return place.rstrip(".") or "the document"
    for key, kinds in shape.items():
        where = f"{place}{key}"
        if key not in facts:
            return where
        if isinstance(kinds, Mapping):
            wrong = first_wrong(facts[key], kinds, f"{where}.")
            if wrong is not None:
                return wrong
        elif not isinstance(facts[key], kinds) or isinstance(facts[key], bool):
            return where
    return None


SCHEMA = 1
FOLDER_CERTIFICATE = "certificate.json"
"""Name of the certificate in a folder of several tables."""
PARTS_CERTIFICATE = "_certificate.json"
"""Name of the certificate in a folder that is one table in parts: readers of such folders pass it over."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Certificate:
    """What was promised for one release of one table or several, as JSON values.

    Parameters
    ----------
    facts : dict
        The document of schema version 1.
    """

    facts: dict[str, Any]

    @classmethod
    def of(
        cls,
        step: Step,
        guarantee: Guarantee,
        *,
        budget: Budget | None,
        unit: str | None,
        seeded: bool,
        seeded_cut: bool,
        public_inputs: Mapping[str, str],
    ) -> Self:
        """Write the certificate of a release; ``released`` is completed by what is released."""
        size = step.size(guarantee.n)
        epsilon = headline(step, guarantee, budget)
        released: dict[str, Any] = {
            "columns": step.columns,
            "rows": None if step.tables else size,
            "file": None,
            "sha256": None,
            "outcome": None,
            "share_from_data": None,
        }
        facts = {
            "discreet_certificate": SCHEMA,
            "library": {"name": "discreet", "version": __version__},
            "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            **({} if seeded else {"identity": fresh_identity()}),  # a seeded release is the same, byte for byte
            "mechanism": {"name": step.name, "parameters": step.parameters},
            "domain": as_json(step.domain),
            "records": guarantee.n,
            "size": size,
            "relation": {"name": guarantee.relation.name, "group": guarantee.relation.group},
            "unit": {"column": unit, "max_records": guarantee.relation.group} if unit else None,
            "public_inputs": dict(public_inputs),
            "guarantee": promise(step, guarantee, epsilon, unit=unit, seeded=seeded or seeded_cut),
            "randomness": SEEDED if seeded else SEEDED_CUT if seeded_cut else step.randomness,
            "released": released | ({"tables": []} if step.tables else {}),
            "shows": SHOWS,
        }
        return cls(facts=facts)

    def releasing(self, **told: Any) -> Certificate:
        """Return the certificate with something told in ``released``."""
        return Certificate(facts={**self.facts, "released": {**self.facts["released"], **told}})

    def paid(self, stamp: Mapping[str, str]) -> Certificate:
        """Return the certificate with where it stands in the ledger of the data set."""
        return Certificate(facts={**self.facts, "ledger": dict(stamp)})

    def holding(self, tables: Sequence[Mapping[str, Any]]) -> Certificate:
        """Return the certificate of these tables: the ``file``, ``rows`` and ``sha256`` of each."""
        return self.releasing(tables=list(tables)) if self.several else self.releasing(**tables[0])

    @property
    def several(self) -> bool:
        """Whether it is of tables in a folder, one or more, and not of one file."""
        released = self.facts.get("released")
        return isinstance(released, dict) and "tables" in released

    @property
    def in_parts(self) -> bool:
        """Whether it is of one table that is a folder of Parquet files."""
        released = self.facts.get("released")
        return isinstance(released, dict) and released.get("partitions") is not None

    @property
    def tables(self) -> list[dict[str, Any]]:
        """The ``file``, ``rows`` and ``sha256`` of each released table."""
        released = self.whole().facts["released"]
        return list(released.get("tables", [released]))

    @property
    def identity(self) -> Any:
        """The random identity of the release; None where it has none: seeded ones, and those of earlier versions."""
        return self.facts.get("identity")

    @property
    def paid_for(self) -> dict[str, Any]:
        """What a ledger keeps of the release."""
        promised = self.facts["guarantee"]
        return {
            "mechanism": self.facts["mechanism"],
            "guarantee": {key: promised[key] for key in ("epsilon", "delta", "kind", "theorem", "statement")},
            "records": self.facts["records"],
            "size": self.facts["size"],
            "identity": self.identity,
        }

    @property
    def epsilon(self) -> float:
        """The headline epsilon."""
        return float(self.whole().facts["guarantee"]["epsilon"])

    @property
    def delta(self) -> float:
        """The delta at the headline epsilon."""
        return float(self.whole().facts["guarantee"]["delta"])

    @property
    def seeded(self) -> bool:
        """Whether the release used a seed, and so is not for publication."""
        return bool(self.whole().facts["randomness"].startswith(MARKED))

    @property
    def poor(self) -> str | None:
        """Why the release is of poor use, in a sentence; None where it is not known to be.

        From the outcome, where that tells how much of the release is from the data, else from what was known before.
        """
        released, promised = self.whole().facts["released"], self.facts["guarantee"]
        from_data, before = share(released.get("share_from_data")), share(promised.get("share_not_from_data"))
        if from_data is not None:
            return f"Poor utility: {released.get('outcome')}." if from_data < 1.0 - POOR_UTILITY else None
        if before is None or before <= POOR_UTILITY:
            return None
        stated = (
            promised.get("share_in_words")
            or f"about {percent(before, 3)} of the released records are not from the data"
        )
        return f"Poor utility: {stated}."

    def to_json(self) -> str:
        """Return the document as indented JSON."""
        return json.dumps(self.facts, indent=2, allow_nan=False) + "\n"

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Read a certificate, from its file or from the folder of tables, or of parts, that holds it.

        Raises
        ------
        FileProblem
            When the file cannot be read, is not JSON, is not a certificate of a known version, or belongs to a write
            that was interrupted.
        """
        file = certificate_in(Path(path)) if Path(path).is_dir() else path
        require_settled(file)
        facts = in_present_form(read_json(file, remedy="give the certificate written beside the release"))
        if facts.get("discreet_certificate") != SCHEMA:
            raise FileProblem(
                file, f"it is not a discreet certificate of version {SCHEMA}", "check the file, or update discreet"
            )
        return cls(facts=facts)

    def whole(self) -> Certificate:
        """Return the certificate itself, once every field is there and of the right kind.

        Raises
        ------
        ParameterError
            When one is not; :func:`verify` says so as a claim that cannot be recomputed.
        """
        wrong = misshapen(self.facts)
        if wrong is not None:
            raise ParameterError(
                f"the certificate's field {wrong} is missing or of the wrong kind. Give the file that was written"
            )
        return self

    @property
    def summary(self) -> str:
        """One line: how many records, from how many, under which budget, by which mechanism."""
        rows = self.tables[0]["rows"] or 0
        released = counted(rows, "record") if self.facts["size"] is not None else f"counts of {counted(rows, 'cell')}"
        if self.several:
            released = f"{counted(len(self.tables), 'table')} of {released}"
        declared = "" if self.facts["relation"]["name"] == "replacement" else "a declared "
        return (
            f"{released} from {declared}{self.facts['records']:,}, epsilon {rounded_up(self.epsilon, 6)}, "
            f"delta {rounded_up(self.delta)}, {self.facts['mechanism']['name']}"
            + (", seeded: not for publication" if self.seeded else "")
        )

    def __repr__(self) -> str:
        return f"<Certificate: {harmless(self.summary)}>"

    def _repr_html_(self) -> str:
        first = alarm(self.poor) if self.poor else ""
        statement = paragraph(self.whole().facts["guarantee"]["statement"], strong=True)
        said = f"{statement}{paragraph(self.summary)}{listing(self._said())}"
        return f"{first}{said}{paragraph(self.facts['shows'])}"

    def __str__(self) -> str:
        return self.text if self.poor is None else f"{harmless(self.poor)}\n{self.text}"

    @property
    def text(self) -> str:
        """The promise, what else is to be known, and what a certificate shows: without what :attr:`poor` says first."""
        statement = self.whole().facts["guarantee"]["statement"]
        lines = [statement, *(f"- {line}" for line in self._said()), self.facts["shows"]]
        return "\n".join(map(harmless, lines))

    def _said(self) -> list[str]:
        """Return what an unproved promise assumes, the caveats, and what the output told where it is not said first."""
        outcome, promised = self.facts["released"].get("outcome"), self.facts["guarantee"]
        told = [] if outcome is None or (self.poor is not None and outcome in self.poor) else [outcome]
        assumed = [] if promised.get("kind") == "unconditional" else promised.get("assumptions", [])
        return [*(f"it assumes: {one}" for one in assumed), *map(str, promised["caveats"]), *told]


def certificate_in(folder: Path) -> Path:
    """Return where the certificate of a folder is."""
    parts = folder / PARTS_CERTIFICATE
    return parts if parts.is_file() else folder / FOLDER_CERTIFICATE


def share(value: Any) -> float | None:
    """Return a share that a document states, or None where it is none."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if number and 0.0 <= value <= 1.0 else None


def as_json(domain: Domain) -> Any:
    """Return a domain's declaration as JSON values: dates and times in ISO form, which ``from_dict`` reads back."""
    return json.loads(json.dumps(domain.to_dict(), default=lambda date: date.isoformat()))
