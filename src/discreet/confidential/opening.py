"""The one function that opens confidential values, the closed list of modules that may call it, and the way out.

A test holds the list against every call in the source, so that it names neither a module too few nor one too many.
"""

from __future__ import annotations

import sys
from typing import Literal, TypeVar

from discreet._core.boundary import sealed
from discreet._core.errors import ConfidentialAccessError
from discreet.confidential.closed import Confidential, reveal
from discreet.domain import Parts

Purpose = Literal["public under a guarantee", "public number", "refusal", "for the custodian"]
"""What becomes of an opened value.

``public under a guarantee``: it goes into the private step of a mechanism or a model, and what is returned is public
under the guarantee on its certificate. ``public number``: only the number of records is returned, which the
replacement relation makes public by definition. ``refusal``: nothing is returned; a public input that equals the table
is refused in one constant sentence. ``for the custodian``: what is returned is as confidential as the table.
"""

CALLERS: dict[str, Purpose] = {
    "discreet.ledger.run": "public under a guarantee",  # Run.execute: records, counts, or tables from a model
    "discreet.confidential.count": "public number",  # public_size
    "discreet.confidential.public": "refusal",  # with_public: a public table that is the confidential one
    "discreet.confidential.opening": "for the custodian",  # reveal_to_custodian: results, never tables
    "discreet.audit.instance": "for the custodian",  # the results are closed again
    "discreet.audit.pipeline": "for the custodian",  # only whether two tables are neighbours
    "discreet.audit.release": "for the custodian",  # closed again, or parts of the table in the custodian's own files
    "discreet.pseudo_posterior.risk_frontier": "for the custodian",  # into the points of a frontier, marked and private
    "discreet.utility.columns": "for the custodian",  # closed again, some of it by compare
    "discreet.utility.comparison": "for the custodian",  # closed again
}
"""Every module that may open confidential values, and what becomes of them."""

T = TypeVar("T")


def open_confidential(value: Confidential[T], *, caller: str) -> T:
    """Return what is inside a confidential value to a module on the list, which gives its ``__name__``."""
    # Raises ConfidentialAccessError if it is not on the list, or not the one it says it is.
    actual = sys._getframe(1).f_globals.get("__name__")
    if actual != caller or caller not in CALLERS:
        raise ConfidentialAccessError("opened by this caller")
    return reveal(value)


@sealed
def reveal_to_custodian(result: Confidential[T]) -> T:
    """Open a result computed from confidential data, for those who may see the confidential table itself.

    Nothing protects what this returns: publishing it, or choosing parameters or releases by it, spends privacy that no
    certificate accounts for.

    Parameters
    ----------
    result : Confidential
        What a function of :mod:`discreet.audit` or :mod:`discreet.utility` returned.

    Returns
    -------
    object
        Readable. The text of a report begins with "CONFIDENTIAL".

    Raises
    ------
    ConfidentialAccessError
        If it is a confidential table rather than a result.
    """
    opened = open_confidential(result, caller=__name__)
    if result.provenance is not None or isinstance(opened, Parts):
        raise ConfidentialAccessError("revealed")
    return opened
