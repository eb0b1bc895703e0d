"""Errata: claims of earlier versions that turned out to be wrong. They stand in ``errata.toml``."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from discreet.releases.facts import CertificateFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Erratum:
    """What was found to be wrong in certificates of some versions and mechanisms, and what holds instead."""

    date: str  # ISO 8601
    versions: list[str]
    mechanisms: list[str]
    claims: list[str]  # places in the document, as Check names them
    text: str

    def __str__(self) -> str:
        return f"Erratum of {self.date} to certificates of discreet {', '.join(self.versions)}: {self.text}"


_FILE = Path(__file__).with_name("errata.toml")
ERRATA = tuple(Erratum(**entry) for entry in tomllib.loads(_FILE.read_text(encoding="utf-8"))["erratum"])
"""All errata, the earliest first."""


def erratum_of(claim: str, facts: CertificateFacts) -> str | None:
    """Return the errata to a claim of a certificate, by its place there, or None where there is none."""
    version, mechanism = facts.library.version, facts.mechanism.name
    texts = [
        str(erratum)
        for erratum in ERRATA
        if claim in erratum.claims and version in erratum.versions and mechanism in erratum.mechanisms
    ]
    return "\n".join(texts) or None
