"""Releases: a crossing from confidential to public, certificates and their verification, writing records out."""

from discreet._boundary import seal
from discreet.releases._certificate import Certificate, Check, guarantee_of, verify
from discreet.releases._publish import Release, publish
from discreet.releases._utility import POOR_UTILITY, poor_utility

__all__ = ["POOR_UTILITY", "Certificate", "Check", "Release", "guarantee_of", "poor_utility", "publish", "verify"]

seal(globals())
