"""The confidential side: a closed wrapper, and any dataframe or file to Counts on a declared domain."""

from discreet._boundary import seal
from discreet.confidential._count import confidential, public_size
from discreet.confidential._custodian import reveal_to_custodian
from discreet.confidential._frames import table_schema, to_frame_kind
from discreet.confidential._public import public_domain, public_table, refuse_same, with_public
from discreet.confidential._rows import Rows, confidential_rows
from discreet.confidential._wrapper import Confidential, Provenance

__all__ = [
    "Confidential",
    "Provenance",
    "Rows",
    "confidential",
    "confidential_rows",
    "public_domain",
    "public_size",
    "public_table",
    "refuse_same",
    "reveal_to_custodian",
    "table_schema",
    "to_frame_kind",
    "with_public",
]

seal(globals())
