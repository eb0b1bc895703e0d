"""Public facts: columns, cells, base measures, the ground metric, and the plain values Records and Counts."""

from discreet._core.boundary import seal
from discreet.domain.column import Column
from discreet.domain.domain import Domain
from discreet.domain.integers import Decimal, Integer
from discreet.domain.labels import Boolean, Category, OpenLabels
from discreet.domain.numeric import Numeric
from discreet.domain.records import Commonness as Commonness
from discreet.domain.records import Counts, Records
from discreet.domain.records import Parts as Parts
from discreet.domain.temporal import Date, Datetime, Duration

__all__ = [
    "Boolean",
    "Category",
    "Counts",
    "Date",
    "Datetime",
    "Decimal",
    "Domain",
    "Duration",
    "Integer",
    "Numeric",
    "OpenLabels",
    "Records",
]

seal(globals(), Column, Commonness, Parts)
