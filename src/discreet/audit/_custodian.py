"""The one way out for what was computed from confidential data here, and the words that go with it."""

from __future__ import annotations

from typing import TypeVar

from discreet.confidential import Confidential
from discreet.confidential._open import open_confidential
from discreet.domain import Counts
from discreet.errors import ConfidentialAccessError

__all__ = ["BANNER", "reveal_to_custodian"]

BANNER = "CONFIDENTIAL: computed from the data; do not publish"
"""How the text of every result begins."""

T = TypeVar("T")


def reveal_to_custodian(result: Confidential[T]) -> T:
    """Open a result of this package, for the eyes of whoever may see the confidential table itself.

    Nothing protects what this returns: publishing it, or choosing parameters by it, spends privacy that no certificate
    accounts for.

    Parameters
    ----------
    result : Confidential
        What a function of :mod:`discreet.audit` returned.

    Returns
    -------
    object
        Readable; its text begins with "CONFIDENTIAL: computed from the data; do not publish".

    Raises
    ------
    ConfidentialAccessError
        If it is a confidential table rather than a result.
    """
    opened = open_confidential(result, caller=__name__)
    if isinstance(opened, Counts):
        raise ConfidentialAccessError("revealed")
    return opened
