"""The certificate of a release: plain versioned JSON that anybody can recompute.

It shows accidental change, not authenticity, and cannot prove that the mechanism was run: it says so itself. The schema
is documented in docs/reference/certificate.md. It holds one table, or several.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, Self

import numpy as np

from discreet import privacy, wording
from discreet._core.boundary import sealed
from discreet._core.errors import DiscreetError, FileProblem, ParameterError
from discreet._core.files import require_settled
from discreet._core.reading import SECONDS, read_json, within
from discreet._core.text import alarm, counted, full_sentence, harmless, listing, paragraph, rounded_up
from discreet.releases.content import POOR_UTILITY, SEEDED, certified_mechanism, certified_release, utility_facts
from discreet.releases.facts import CertificateFacts, FileFacts

SCHEMA = 2
FOLDER_CERTIFICATE = "certificate.json"
"""Name of the certificate in a folder of several tables."""
PARTS_CERTIFICATE = "_certificate.json"
"""Name of the certificate in a folder that is one table in parts: readers of such folders pass it over."""


@sealed
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Certificate:
    """What was promised for one release of one table or several.

    Parameters
    ----------
    facts : CertificateFacts
        The fields of schema version 2, by their names: ``certificate.facts.guarantee.epsilon``. Certificates of
        version 1 are read as these.
    forecast : dict, optional
        Of a release that was just made: what its mechanism forecast. It is no part of the certificate.
    """

    facts: CertificateFacts
    forecast: Mapping[str, Any] | None = field(default=None, compare=False)

    def releasing(self, **values: Any) -> Certificate:
        """Return the certificate with something told in ``released``."""
        return replace(self, facts=replace(self.facts, released=replace(self.facts.released, **values)))

    @property
    def drawn(self) -> bool:
        """Whether it is of a number of draws, of one table or of linked ones."""
        return self.facts.mechanism.parameters.get("tables") is not None

    @property
    def several(self) -> bool:
        """Whether it is of tables in a folder, one or more, and not of one file."""
        return self.facts.mechanism.parameters.get("tables") is not None or "units" in self.facts.domain

    @property
    def table_names(self) -> list[str]:
        """The names of linked tables, that of the units first; others have none."""
        domain = self.facts.domain
        if "units" not in domain:
            return [""]
        return [domain["units"], *domain.get("tables", ())]

    def file_names(self) -> Iterator[str]:
        """Yield the names of files in a folder of tables, without endings: of several draws they have numbers."""
        if not self.drawn:
            yield from self.table_names
            return
        for number in count(1):
            yield from [f"{name or 'table'}-{number:02}" for name in self.table_names]

    def grouped(self, tables: Sequence[Any]) -> Any:
        """Return the tables in a folder as a release has them: linked ones by name, and a list of several draws."""
        names, draws = self.table_names, list(tables)
        if names != [""]:
            places = range(0, len(draws), len(names))
            draws = [dict(zip(names, draws[place : place + len(names)], strict=True)) for place in places]
        return draws if self.drawn else draws[0]

    @property
    def in_parts(self) -> bool:
        """Whether it is of one table that is a folder of Parquet files."""
        return self.facts.released.partitions is not None

    @property
    def tables(self) -> list[FileFacts]:
        """The ``file``, ``rows`` and ``sha256`` of each released table."""
        return self.facts.released.tables

    @property
    def identity(self) -> Any:
        """The random identity of the release; None where it has none: seeded ones, and those of earlier versions."""
        return self.facts.identity

    @property
    def paid_for(self) -> dict[str, Any]:
        """What a ledger keeps of the release."""
        promised = self.facts.guarantee
        return {
            "mechanism": self.facts.mechanism.to_dict(),
            "guarantee": {key: getattr(promised, key) for key in ("epsilon", "delta", "kind", "theorem")}
            | {"statement": self.statement},
            "records": self.facts.records,
            "size": self.facts.size,
            "identity": self.identity,
        }

    @property
    def epsilon(self) -> float:
        """The headline epsilon."""
        return float(self.facts.guarantee.epsilon)

    @property
    def delta(self) -> float:
        """The delta at the headline epsilon."""
        return float(self.facts.guarantee.delta)

    @property
    def seeded(self) -> bool:
        """Whether the release used a seed, and so is not for publication."""
        return self.facts.randomness in SEEDED

    @property
    def statement(self) -> str:
        """The promise in one sentence."""
        return wording.statement(self)

    @property
    def meaning(self) -> str:
        """What the promise limits, in numbers: from its stated points where the profile cannot be recomputed."""
        try:
            with within(SECONDS):
                profile = certified_release(self.facts)[-1].profile
                detection = privacy.Risk(detection=0.99, false_alarms=0.01).reached(profile)
        except (DiscreetError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, MemoryError):
            points = np.array([*self.facts.guarantee.profile, (self.epsilon, self.delta)]).T
            detection = float(privacy.TradeOff(epsilons=points[0], deltas=points[1]).power(np.array([0.01]))[0])
        return wording.meaning(self, detection)

    @property
    def outcome(self) -> str:
        """What the output told about its use, in sentences; empty where that was known beforehand."""
        return wording.told(self.facts.released.outcome)

    @property
    def poor(self) -> str | None:
        """Why the release is of poor use, in a sentence; None where it is not known to be.

        From the outcome, where that tells how much of the release is from the data, else from the forecast, which
        follows from the public facts.
        """
        if (from_data := share(self.facts.released.share_from_data)) is not None:
            return f"Poor utility: {self.outcome}." if from_data < 1.0 - POOR_UTILITY else None
        try:
            forecast = self.forecast or utility_facts(certified_mechanism(self.facts), self.facts.records)
        except (DiscreetError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, MemoryError):
            return None
        poor = (forecast["share_not_from_data"] or 0.0) > POOR_UTILITY
        return f"Poor utility: {forecast['share_in_words']}." if poor else None

    @property
    def unrelated(self) -> str | None:
        """That no relation between columns was kept, in a sentence; None where it is not known to be so."""
        outcome = self.facts.released.outcome
        return next((full_sentence(str(code)) for code in outcome if code.name == "no-pair-measured"), None)

    def to_dict(self) -> dict[str, Any]:
        """Return the document as JSON values; that of an earlier version as it was read."""
        return dict(self.facts.earlier or self.facts.to_dict())

    def to_json(self) -> str:
        """Return the document as indented JSON."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n"

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Return the certificate of a document, as :meth:`to_dict` gives it.

        Raises
        ------
        ParameterError
            When a field is missing, of the wrong kind, or not known to this version.
        """
        if _is_earlier(document):
            from discreet.releases import certificate_v1

            return cls(facts=certificate_v1.read(document))
        if document.get("discreet_certificate") != SCHEMA:
            raise ParameterError(f"it is not a discreet certificate of version 1 or {SCHEMA}. Update discreet")
        return cls(facts=CertificateFacts.from_dict(document))

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Read a certificate, from its file or from the folder of tables, or of parts, that holds it.

        Raises
        ------
        FileProblem
            When the file cannot be read, is not JSON, is not a certificate of a known version, or belongs to a write
            that was interrupted.
        ParameterError
            When a field is missing or of the wrong kind; :func:`verify` says so as a claim that cannot be recomputed.
        """
        file = certificate_in(Path(path)) if Path(path).is_dir() else path
        require_settled(file)
        document = read_json(file, remedy="give the certificate written beside the release")
        if document.get("discreet_certificate") != SCHEMA and not _is_earlier(document):
            problem = f"it is not a discreet certificate of version 1 or {SCHEMA}"
            raise FileProblem(file, problem, "check the file, or update discreet")
        return cls.from_dict(document)

    @property
    def summary(self) -> str:
        """One line: how many records, from how many, under which budget, by which mechanism."""
        rows = self.tables[0].rows
        released = counted(rows, "record") if self.facts.size is not None else f"counts of {counted(rows, 'cell')}"
        if self.facts.domain.get("tables"):
            released = f"{counted(rows, 'row')} of {counted(self.facts.size or 0, 'unit')}"
        if "units" in self.facts.domain:
            pairs = zip(self.tables, self.table_names, strict=False)
            released = ", ".join([f"{table.rows:,} {name}" for table, name in pairs])
        if self.drawn:
            noun = "draw" if "units" in self.facts.domain else "table"
            released = f"{counted(len(self.tables) // len(self.table_names), noun)} of {released}"
        declared = "a declared " if self.facts.relation.name == "add-remove" else ""
        seeded = ", seeded: not for publication" if self.seeded else ""
        return (
            f"{released} from {declared}{self.facts.records:,}, epsilon {rounded_up(self.epsilon, 6)}, "
            f"delta {rounded_up(self.delta)}, {self.facts.mechanism.name}{seeded}"
        )

    def __repr__(self) -> str:
        return f"<Certificate: {harmless(self.summary)}>"

    def _repr_html_(self) -> str:
        warning = "".join(map(alarm, self._alarms))
        promise = paragraph(self.meaning or self.statement, strong=True)
        remarks = paragraph(self.summary), listing(self._notes()), paragraph(self.statement), paragraph(wording.SHOWS)
        return "".join([warning, promise, *remarks])

    def __str__(self) -> str:
        return "\n".join([*map(harmless, self._alarms), self.text])

    @property
    def _alarms(self) -> list[str]:
        return [text for text in (self.poor, self.unrelated) if text]

    @property
    def text(self) -> str:
        """The promise, what else is to be known, and what a certificate shows: without what is said first."""
        promise = [self.statement]
        if self.meaning:
            promise = [self.meaning, wording.single("as-formula", statement=self.statement)]
        return "\n".join(map(harmless, [*promise, *(f"- {line}" for line in self._notes()), wording.SHOWS]))

    def _notes(self) -> list[str]:
        """Return what an unproved promise assumes, what the output lost, and caveats, without what is said first."""
        guarantee, codes = self.facts.guarantee, self.facts.released.outcome
        notes = list[str]()
        if guarantee.kind != "unconditional":
            notes += [f"it assumes: {assumption}" for assumption in guarantee.assumptions]
        outcome = wording.told([code for code in codes if code.name != "no-pair-measured"])
        if outcome and outcome not in (self.poor or ""):
            notes.append(outcome)
        return [*notes, *map(str, guarantee.caveats)]


def _is_earlier(document: Mapping[str, Any]) -> bool:
    """Return whether a document is a certificate of schema 1, or of tables by version 0.1.0."""
    return 1 in (document.get("discreet_certificate"), document.get("discreet_tables_certificate"))


def certificate_in(folder: Path) -> Path:
    """Return where the certificate of a folder is."""
    if (folder / PARTS_CERTIFICATE).is_file():
        return folder / PARTS_CERTIFICATE
    return folder / FOLDER_CERTIFICATE


def share(value: Any) -> float | None:
    """Return a share that a document states, or None where it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 <= value <= 1.0:
        return None
    return float(value)
