"""The confidential side: a closed wrapper, and any dataframe or file to Counts on a declared domain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from discreet._core.boundary import seal, sealed
from discreet.confidential.closed import Confidential, Provenance
from discreet.confidential.count import confidential
from discreet.confidential.rows import Rows, confidential_rows

if TYPE_CHECKING:
    from discreet.confidential.check import check_table
    from discreet.confidential.custodian import reveal_to_custodian

__all__ = ["Confidential", "check_table", "confidential", "confidential_rows", "reveal_to_custodian"]


def __getattr__(name: str) -> Any:
    """Load the check of a table when it is first used."""
    if name == "reveal_to_custodian":
        from discreet.confidential import custodian

        return sealed(custodian.reveal_to_custodian)
    if name != "check_table":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from discreet.confidential import check

    sealed(check.TableCheck)
    return sealed(check.check_table)


def __dir__() -> list[str]:
    return __all__


seal(globals(), Provenance, Rows)
