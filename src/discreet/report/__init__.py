"""Showing a release to people: the report, the picture and the demonstration."""

from discreet._core.boundary import seal
from discreet.report._html import Report, write_report

__all__ = ["write_report"]

seal(globals(), Report)
