"""Showing a release to people: the report, the picture and the demonstration."""

from discreet._core.boundary import seal
from discreet.report.charts import picture
from discreet.report.html import Report, write_report

__all__ = ["picture", "write_report"]

seal(globals(), Report)
