"""The confidential side: a closed wrapper, and any dataframe or file to Counts on a declared domain."""

from discreet.confidential._count import confidential, public_size
from discreet.confidential._wrapper import Confidential, Provenance

__all__ = ["Confidential", "Provenance", "confidential", "public_size"]
