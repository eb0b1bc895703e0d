"""Showing a release to people: the report, the picture and the demonstration."""

from discreet._core.boundary import seal
from discreet.report.html import Report, write_report
from discreet.report.released import picture

__all__ = ["picture", "write_report"]

seal(globals(), Report)
