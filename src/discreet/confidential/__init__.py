"""The confidential side: a closed wrapper, and any dataframe or file to Counts on a declared domain."""

from discreet._core.boundary import seal
from discreet.confidential.check import TableCheck, check_table
from discreet.confidential.closed import Confidential, Provenance
from discreet.confidential.count import confidential
from discreet.confidential.custodian import reveal_to_custodian
from discreet.confidential.rows import Rows, confidential_rows

__all__ = ["Confidential", "check_table", "confidential", "confidential_rows", "reveal_to_custodian"]

seal(globals(), Provenance, Rows, TableCheck)
