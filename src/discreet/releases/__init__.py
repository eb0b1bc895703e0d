"""Releases: the crossing from confidential to public, certificates and their verification, writing records out."""

from discreet._boundary import seal
from discreet.releases._certificate import Certificate
from discreet.releases._publish import Release, publish
from discreet.releases._utility import POOR_UTILITY, poor_utility
from discreet.releases._verify import Check, guarantee_of, verify

__all__ = [
    "POOR_UTILITY",
    "Certificate",
    "Check",
    "Release",
    "guarantee_of",
    "poor_utility",
    "publish",
    "verify",
]

seal(globals())
