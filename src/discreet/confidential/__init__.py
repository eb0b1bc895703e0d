"""The confidential side: a closed wrapper, and any dataframe or file to Counts on a declared domain."""

from discreet._core.boundary import seal
from discreet.confidential._check import TableCheck, check_table
from discreet.confidential._count import confidential
from discreet.confidential._custodian import reveal_to_custodian
from discreet.confidential._rows import Rows, confidential_rows
from discreet.confidential._wrapper import Confidential, Provenance

__all__ = ["Confidential", "check_table", "confidential", "confidential_rows", "reveal_to_custodian"]

seal(globals(), Provenance, Rows, TableCheck)
