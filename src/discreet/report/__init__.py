"""Showing a release to people: the report, the picture and the demonstration."""

from typing import TYPE_CHECKING

from discreet._core.lazy import door

if TYPE_CHECKING:
    from discreet.report.catalogue import as_text, describe, write_description
    from discreet.report.demonstration import demo
    from discreet.report.html import Report, write_report
    from discreet.report.ledger_page import write_ledger_report
    from discreet.report.released import declared, picture

__all__ = ["picture", "write_report"]

__getattr__, __dir__ = door(__name__)
