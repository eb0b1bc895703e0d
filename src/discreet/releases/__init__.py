"""Releases: the crossing from confidential to public, certificates and their verification, writing records out."""

from discreet._core.boundary import seal
from discreet.releases._certificate import Certificate
from discreet.releases._publish import publish
from discreet.releases._release import Release
from discreet.releases._verify import Check, verify

__all__ = ["Certificate", "publish", "verify"]

seal(globals(), Check, Release)
