"""Showing a release to people: the picture and the demonstration."""

from discreet.report._demo import demo
from discreet.report._picture import picture

__all__ = ["demo", "picture"]
