"""Public facts: columns, cells, base measures, the ground metric, and the plain values Records and Counts."""

from discreet._core.boundary import seal
from discreet.domain._column import Column
from discreet.domain._commonness import Commonness
from discreet.domain._decimal import Decimal
from discreet.domain._discrete import Boolean, Category, OpenLabels
from discreet.domain._domain import Domain
from discreet.domain._lattice import Integer
from discreet.domain._numeric import Numeric
from discreet.domain._records import Counts, Parts, Records
from discreet.domain._temporal import Date, Datetime, Duration

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
