"""Public facts: columns, cells, base measures, the ground metric, and the plain values Records and Counts."""

from typing import TYPE_CHECKING

from discreet._core.lazy import door

if TYPE_CHECKING:
    from discreet.domain.code_books import CodeBook
    from discreet.domain.column import Column
    from discreet.domain.constraints import CellReader, PublishedTotals
    from discreet.domain.declaration import BLANK, DECLARED, RULES, plain_condition, usual_fates, write_toml
    from discreet.domain.domain import Domain, require_domain
    from discreet.domain.integers import Decimal, Integer
    from discreet.domain.labels import Boolean, Category, OpenLabels
    from discreet.domain.numeric import Numeric
    from discreet.domain.records import (
        Commonness,
        Counts,
        Parts,
        Records,
        Units,
        cell_span,
        coin_codes,
        coin_ends,
        first_and_last,
        first_codes,
        ground_diameter,
        ground_embedding,
        inner_half,
        invented_records,
        nearest_codes,
        refuse_open_labels,
    )
    from discreet.domain.temporal import Date, Datetime, Duration, Time
    from discreet.domain.texts import (
        KINDS,
        Misfit,
        column_type,
        escaped,
        escaped_frame,
        escaped_series,
        missing_in,
        moment_text,
        span_text,
        type_name,
        unescaped,
        unescaped_frame,
    )
    from discreet.domain.unit_tables import UnitTable

__all__ = [
    "Boolean", "Category", "Counts", "Date", "Datetime", "Decimal", "Domain", "Duration", "Integer", "Numeric",
    "OpenLabels", "Records", "Time", "UnitTable",
]  # fmt: skip

__getattr__, __dir__ = door(__name__)
