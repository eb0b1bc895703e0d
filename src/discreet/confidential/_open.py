"""The one function that opens confidential values, and the closed list of modules that may call it.

Of the callers, ``discreet.releases._publish`` and ``discreet.pseudo_posterior._publish`` alone return something public,
under a mechanism's guarantee. The others (``discreet.utility`` and ``discreet.audit``) return confidential values. A
test reads the source and checks that no other module calls this function.
"""

from __future__ import annotations

import sys
from typing import TypeVar

from discreet.confidential._wrapper import Confidential, reveal
from discreet.errors import ConfidentialAccessError

__all__ = ["CALLERS", "open_confidential"]

CALLERS = (
    "discreet.releases._publish",
    "discreet.pseudo_posterior._publish",
    "discreet.confidential",
    "discreet.utility",
    "discreet.audit",
)
"""Modules, and packages with all their modules, that may open confidential values."""

T = TypeVar("T")


def open_confidential(value: Confidential[T], *, caller: str) -> T:
    """Return what is inside a confidential value.

    Parameters
    ----------
    value : Confidential
        The closed value.
    caller : str
        The calling module's ``__name__``.

    Returns
    -------
    object
        The inner value.

    Raises
    ------
    ConfidentialAccessError
        If the calling module is not on the list, or not the one it says it is.
    """
    actual = sys._getframe(1).f_globals.get("__name__")
    if actual != caller or not any(caller == name or caller.startswith(f"{name}.") for name in CALLERS):
        raise ConfidentialAccessError("opened by this caller")
    return reveal(value)
