"""The way out for results that only the custodian may see: comparisons, instance-level deltas, the papers' choices."""

from __future__ import annotations

from typing import TypeVar

from discreet._core.boundary import sealed
from discreet._core.errors import ConfidentialAccessError
from discreet.confidential.closed import Confidential
from discreet.confidential.opening import open_confidential
from discreet.confidential.rows import Rows
from discreet.domain import Counts

T = TypeVar("T")


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
    if result.provenance is not None or isinstance(opened, (Counts, Rows)):
        raise ConfidentialAccessError("revealed")
    return opened
