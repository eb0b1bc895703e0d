"""Public facts: columns, cells, base measures, the ground metric, and the plain values Records and Counts."""

from discreet.domain._records import Counts, Records

__all__ = ["Counts", "Records"]
