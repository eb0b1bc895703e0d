"""The confidential side: a closed wrapper, and any dataframe or file to Counts on a declared domain."""

from typing import TYPE_CHECKING

from discreet._core.lazy import door

if TYPE_CHECKING:
    from discreet.confidential.check import check_table
    from discreet.confidential.closed import Confidential, Provenance
    from discreet.confidential.count import Rows, confidential, confidential_rows, public_size, require_unit
    from discreet.confidential.database import addressed
    from discreet.confidential.opening import open_confidential, reveal_to_custodian
    from discreet.confidential.public import public_domain, public_table, refuse_same, with_public
    from discreet.confidential.source import Source, scan_batches, texts_of, unit_of
    from discreet.confidential.tables import open_declared, open_source, tables_of
    from discreet.confidential.units import NO_UNIT
    from discreet.confidential.values import column_values, linked_rows, raw_rows, row_values, table_schema

__all__ = ["Confidential", "check_table", "confidential", "confidential_rows", "reveal_to_custodian"]

__getattr__, __dir__ = door(__name__)
