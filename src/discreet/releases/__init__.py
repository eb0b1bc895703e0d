"""Releases: certificates and their verification, writing records out."""

from discreet._core.boundary import seal
from discreet.releases.certificate import Certificate
from discreet.releases.release import Release
from discreet.releases.verification import Check, verify

__all__ = ["Certificate", "verify"]

seal(globals(), Check, Release)
