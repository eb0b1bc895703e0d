"""Claims of certificates that earlier versions wrote: confirmed where what was claimed still holds.

A bound that was found to be smaller confirms the larger one. Sentences are compared word by word, and the numbers in
them to one per cent: earlier versions rounded some of them to the nearest, not upwards.
"""

from __future__ import annotations

import math
import re
from itertools import starmap
from typing import Any

__all__ = ["EARLIER", "still_holds"]

EARLIER = ("0.1.0",)
"""Versions whose certificates are read with :func:`still_holds`."""

_BOUNDS = ("delta", "pure_epsilon", "profile")
_SENTENCES = ("caveats",)
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")
_ROUNDED = 0.01
_NOISE = 1e-6  # of another machine's rounding


def still_holds(claim: str, claimed: Any, found: Any) -> bool:
    """Return whether a claim of a guarantee holds, given what is computed now.

    Parameters
    ----------
    claim : str
        The key in the guarantee.
    claimed, found : object
        What the certificate says, and what is computed now; a bound of None is infinite.

    Examples
    --------
    >>> still_holds("delta", 2e-9, 1e-9), still_holds("delta", 1e-9, 2e-9)
    (True, False)
    >>> still_holds("caveats", ["2.58% are drawn"], ["2.59% are drawn"])
    True
    """
    if claim in _BOUNDS:
        return _at_least(claimed, found)
    if claim in _SENTENCES:
        return len(claimed) == len(found) and all(starmap(_same_sentence, zip(claimed, found, strict=True)))
    return False


def _at_least(claimed: Any, found: Any) -> bool:
    """Return whether one bound implies the other; of profiles, at every epsilon."""
    if isinstance(found, list):
        pairs = zip(claimed, found, strict=True)
        return len(claimed) == len(found) and all(a[0] == b[0] and _at_least(a[1], b[1]) for a, b in pairs)
    above, below = (math.inf if value is None else float(value) for value in (claimed, found))
    return above >= below * (1.0 - _NOISE)


def _same_sentence(claimed: str, found: str) -> bool:
    if _NUMBER.sub("#", claimed) != _NUMBER.sub("#", found):
        return False
    numbers = zip(_NUMBER.findall(claimed), _NUMBER.findall(found), strict=True)
    return all(math.isclose(_value(a), _value(b), rel_tol=_ROUNDED) for a, b in numbers)


def _value(text: str) -> float:
    return float(text.replace(",", ""))
