"""Releases: certificates and their verification, writing records out."""

from typing import TYPE_CHECKING

from discreet._core.lazy import door

if TYPE_CHECKING:
    from discreet.releases.certificate import FOLDER_CERTIFICATE, PARTS_CERTIFICATE, Certificate, certificate_in
    from discreet.releases.content import (
        POOR_UTILITY,
        MechanismFamily,
        as_json,
        certified_mechanism,
        certified_release,
        contents_of,
        delta_caveats,
        headline,
        no_rows,
        poor_utility,
        utility_facts,
    )
    from discreet.releases.publication import Offer, budget_of, carry_out, go_on, offer_of, require_promise, weak_attack
    from discreet.releases.release import Release, read, read_certificate, taken_for_sample
    from discreet.releases.table import as_polars, file_text, released_counts, require_own, scanned, typed, unreadable
    from discreet.releases.verification import SAME_ROWS, Check, guarantee_of, promised_now, verify
    from discreet.releases.writing import MANIFEST, certificate_path, place, read_output, require_parts

__all__ = ["Certificate", "verify"]

__getattr__, __dir__ = door(__name__)
