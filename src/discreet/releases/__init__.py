"""Releases: the crossing from confidential to public, certificates and their verification, writing records out."""

from discreet.releases._certificate import Certificate, Check, verify
from discreet.releases._publish import POOR_UTILITY, Release, publish

__all__ = ["POOR_UTILITY", "Certificate", "Check", "Release", "publish", "verify"]
