"""Ranges of the numbers that the papers' formulas take."""

from __future__ import annotations

from typing import Any

from discreet._core.checks import integer, real


def dimensions(dimension: Any) -> int:
    """Return a number of dimensions."""
    return integer("dimension", dimension, least=1, most=10**6)


def positive(**numbers: float) -> None:
    """Refuse numbers that are not finite and above 0."""
    for name, value in numbers.items():
        real(name, value, above=0)


def sizes(*, n: float, d: int, m: float = 1) -> None:
    """Refuse numbers of records, and a dimension, that are below 1."""
    real("n", n, least=1)
    real("m", m, least=1)
    integer("d", d, least=1)
