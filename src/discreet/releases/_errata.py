"""Errata: claims of certificates that earlier versions wrote and that were found to be wrong.

A certificate is never changed, and what is wrong in it stays wrong: ``verify`` says that it disagrees, and the erratum
says since when that is known, why, and what holds instead. An erratum is never removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["ERRATA", "Erratum", "erratum_of", "written_by"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Erratum:
    """What was found to be wrong in certificates.

    Parameters
    ----------
    date : str
        When it was published, ISO 8601.
    versions : tuple of str
        Versions of the library that wrote such certificates.
    mechanisms : tuple of str
        Names as they stand in the certificates.
    claims : tuple of str
        Places in the document, as :class:`~discreet.releases.Check` names them: ``"guarantee.delta"``.
    text : str
        What is wrong, and what holds instead: whole sentences.
    """

    date: str
    versions: tuple[str, ...]
    mechanisms: tuple[str, ...]
    claims: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return f"Erratum of {self.date} to certificates of discreet {', '.join(self.versions)}: {self.text}"


ERRATA: tuple[Erratum, ...] = ()
"""All errata, the earliest first."""


def erratum_of(claim: str, facts: Mapping[str, Any]) -> str | None:
    """Return the errata to a claim of a certificate, or None where there is none.

    Parameters
    ----------
    claim : str
        Its place in the document.
    facts : mapping
        The document: whatever was read, which need not have the right form.
    """
    version, mechanism = written_by(facts), _inside(facts, "mechanism", "name")
    found = [
        str(erratum)
        for erratum in ERRATA
        if claim in erratum.claims and version in erratum.versions and mechanism in erratum.mechanisms
    ]
    return "\n".join(found) or None


def written_by(facts: Mapping[str, Any]) -> Any:
    """Return the version of the library that wrote a certificate, as it says."""
    return _inside(facts, "library", "version")


def _inside(facts: Mapping[str, Any], outer: str, inner: str) -> Any:
    held = facts.get(outer)
    return held.get(inner) if isinstance(held, dict) else None
