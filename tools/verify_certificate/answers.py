"""What is said of a claim, and what the theorems say."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

AGREES, LESS, WRONG, CANNOT = "agrees", "claims less than is true", "contradicts", "cannot check"


class StoppedError(Exception):
    """Why something cannot be checked here, or what contradicts its theorem: a status and a reason."""


class Check(NamedTuple):
    """What was looked at, and what came of it."""

    what: str
    status: str
    detail: str


class Promise(NamedTuple):
    """What the theorems say of a mechanism."""

    delta: Callable[[Fraction], Any]
    pure: Any = math.inf  # the least epsilon with delta 0
    exact: bool = False  # whether the theorem proves that some neighbours attain it
    kinds: tuple[str, ...] = ("unconditional",)
    alone: Any = None  # the chance that a label of one record appears
    rough: float = 0.0  # by how much of itself a longer sum might be less
