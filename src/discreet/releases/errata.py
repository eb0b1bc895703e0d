"""Errata: claims of certificates that earlier versions wrote and that were found to be wrong.

A certificate is never changed, and what is wrong in it stays wrong: ``verify`` says that it disagrees, and the erratum
says since when that is known, why, and what holds instead. An erratum is never removed.
"""

from __future__ import annotations

from dataclasses import dataclass

from discreet.releases.facts import CertificateFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Erratum:
    """What was found to be wrong in certificates.

    ``date``: When it was published, ISO 8601.
    ``versions``: Versions of the library that wrote such certificates.
    ``mechanisms``: names as they stand in the certificates.
    ``claims``: Places in the document, as :class:`~discreet.releases.certificate.Check` names them:
    ``"guarantee.delta"``.
    ``text``: what is wrong, and what holds instead: whole sentences.
    """

    date: str
    versions: tuple[str, ...]
    mechanisms: tuple[str, ...]
    claims: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return f"Erratum of {self.date} to certificates of discreet {', '.join(self.versions)}: {self.text}"


_EVERYTHING_BUT_URNS = (
    "perturbed-histogram",
    "laplace-projection-sampler",
    "gaussian-smoothed-histogram",
    "hierarchical-histogram",
    "signed-measure",
    "private-evolution",
    "stability-histogram",
    "stabilised-pitman-yor",
    "exponential-histogram",
    "pitman-yor",
)

ERRATA: tuple[Erratum, ...] = (
    Erratum(
        date="2026-11-22",
        versions=("0.1.0",),
        mechanisms=_EVERYTHING_BUT_URNS,
        claims=("guarantee.share_not_from_data",),
        text="share_not_from_data was called an upper estimate and was for this mechanism neither an expectation nor a "
        "bound; for labels that nobody declared it left out the records with rare ones. It is no part of the privacy "
        "guarantee, which is not concerned.",
    ),
    Erratum(
        date="2026-11-22",
        versions=("0.1.0",),
        mechanisms=("exponential-histogram",),
        claims=("guarantee.caveats",),
        text="The share of records in another cell was called a largest one and is an expected one.",
    ),
    Erratum(
        date="2026-11-22",
        versions=("0.1.0",),
        mechanisms=("dirichlet-multinomial",),
        claims=("guarantee.theorem",),
        text="For groups the theorem was cited as 'T4, chained'. It is T4 for groups, and the promise holds as stated.",
    ),
    Erratum(
        date="2026-11-22",
        versions=("0.1.0",),
        mechanisms=("censored-posterior",),
        claims=("guarantee.kind", "guarantee.assumptions", "guarantee.statement", "guarantee.caveats"),
        text="A table drawn by a Markov chain was called unconditional; the theorem speaks of exact draws, to which a "
        "chain only comes near, and the kind is empirical. That the model's likelihood and weights look at one record "
        "at a time was neither enforced nor stated. A draw on a grid was made in floating point.",
    ),
    Erratum(
        date="2026-11-22",
        versions=("0.1.0",),
        mechanisms=("pseudo-posterior",),
        claims=("guarantee.assumptions",),
        text="That the model's likelihood looks at one record at a time was neither enforced nor stated.",
    ),
    Erratum(
        date="2026-11-25",
        versions=("0.1.0", "0.2.0.dev0"),
        mechanisms=(
            "dirichlet-multinomial",
            "smoothed-histogram",
            "reveal-or-obscure",
            "subsampled-randomised-response",
            "pitman-yor",
            "urn-histogram",
            "stabilised-pitman-yor",
        ),
        claims=("mechanism.parameters",),
        text="The parameter was written as it was asked for. The kernel drew with that number rounded to its grid, as "
        "shown here, and the guarantee is that of the rounded number.",
    ),
)
"""All errata, the earliest first."""


def erratum_of(claim: str, facts: CertificateFacts) -> str | None:
    """Return the errata to a claim of a certificate, by its place there, or None where there is none."""
    found = [
        str(erratum)
        for erratum in ERRATA
        if claim in erratum.claims and facts.version in erratum.versions and facts.mechanism.name in erratum.mechanisms
    ]
    return "\n".join(found) or None
