"""Base measures: exact integer weights on cells, truncated densities on an interval.

A draw from a finite base measure is exact: an integer uniform below the total weight, and a search in the integer
cumulative weights. No probability is ever rounded, so the masses that the theorems speak of are the masses drawn from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from importlib import import_module
from math import gcd, inf, lcm
from numbers import Integral
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from discreet._core.errors import as_float, real
from discreet._core.numeric import Floats, Integers

_TOTAL = 2**31


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExactWeights:
    """Positive integer weights ``w_0 .. w_{K-1}`` without a common factor; cell k has mass ``w_k / sum(w)``."""

    integers: tuple[int, ...]
    cumulative: Integers  # their running sums; the last is at most 2**31

    @classmethod
    def parse(cls, weights: Any, *, size: int, refuse: Callable[[str], NoReturn]) -> ExactWeights:
        """Take positive numbers as exact integer weights."""
        # Integers and fractions (a float is a binary fraction) are brought to a common denominator. Where the total
        # would exceed 2**31, floats are rounded to integers of about that total, each at least 1; integers are refused.
        if isinstance(weights, str) or not isinstance(weights, (Sequence, np.ndarray)) or len(weights) != size:
            refuse(f"base weights must be a list of {size} numbers, one per cell (the null's last)")
        if not all(0 < as_float(weight) < inf for weight in weights):
            refuse("base weights must be positive finite numbers. Leave a cell that cannot occur out of the domain")
        parts = [Fraction(int(w)) if isinstance(w, Integral) else Fraction(as_float(w)) for w in weights]
        denominator = lcm(*(part.denominator for part in parts))
        integers = _reduced([int(part * denominator) for part in parts])
        total = sum(integers)
        if total > _TOTAL:
            if denominator == 1:
                refuse("integer base weights must have a total of at most 2**31. Divide them")
            integers = _reduced([max(1, weight * (_TOTAL - size) // total) for weight in integers])
        return cls(integers=tuple(integers), cumulative=np.cumsum(np.array(integers, dtype=np.int64)))

    def draw(self, count: int, rng: np.random.Generator) -> Integers:
        """Draw cells, exactly."""
        tickets = rng.integers(self.total, size=count, dtype=np.int64)
        return np.searchsorted(self.cumulative, tickets, side="right").astype(np.int64, copy=False)

    @property
    def total(self) -> int:
        """Sum of the weights."""
        return int(self.cumulative[-1])

    def least(self) -> tuple[Fraction, Fraction | None]:
        """Return the smallest and the second smallest masses, equal ones counted twice."""
        ordered, total = sorted(self.integers), self.total
        return Fraction(ordered[0], total), Fraction(ordered[1], total) if len(ordered) > 1 else None

    def log_mass(self, codes: npt.NDArray[Any]) -> Floats:
        """Return ``log(w_k / sum(w))`` of each code."""
        weights = np.array(self.integers, dtype=np.float64)
        return np.asarray((np.log(weights) - np.log(float(self.total)))[codes])


def _reduced(integers: list[int]) -> list[int]:
    common = gcd(*integers)
    return [weight // common for weight in integers]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Density:
    """A distribution of scipy.stats, truncated to ``[lower, upper]`` by its inverse distribution function."""

    distribution: Any  # before truncation
    lower: float
    upper: float
    upper_tail: bool  # whether the tail function is the accurate one between the bounds
    edges: tuple[float, float]  # the distribution (or tail) function at lower and upper

    @staticmethod
    def plain(base: Any, *, refuse: Callable[[str], NoReturn]) -> dict[str, Any]:
        """Write a frozen distribution, or its plain form, as ``{"distribution": name, parameter: number}``."""
        parameters: dict[str, Any] = {}
        if isinstance(base, Mapping):
            parameters = dict(base)
        elif hasattr(base, "dist") and hasattr(base, "kwds"):
            names = [part.strip() for part in (base.dist.shapes or "").split(",") if part.strip()] + ["loc", "scale"]
            parameters = {"distribution": base.dist.name, **dict(zip(names, base.args, strict=False)), **base.kwds}
        else:
            refuse(
                'base must be a frozen scipy.stats distribution, or {distribution = "lognorm", s = 1.2, scale = 3e4}'
            )
        name = parameters.pop("distribution", None)
        if not isinstance(name, str):
            refuse(
                'base of a continuous column must name its distribution, such as {distribution = "lognorm", s = 1.2}'
            )
        numbers = {str(key): real(f"base parameter {key}", value, error=refuse) for key, value in parameters.items()}
        return {"distribution": str(name), **numbers}

    @staticmethod
    def parse(spec: Mapping[str, Any], *, lower: float, upper: float, refuse: Callable[[str], NoReturn]) -> Density:
        """Build the truncated distribution; imports scipy.stats."""
        parameters = dict(spec)
        name = parameters.pop("distribution")
        try:
            return _truncated(name, tuple(sorted(parameters.items())), lower, upper)
        except (TypeError, ValueError) as problem:
            refuse(f"base distribution {name!r}: {problem}")

    def draw(self, count: int, rng: np.random.Generator) -> Floats:
        """Draw values by inversion."""
        share = self.edges[0] + (self.edges[1] - self.edges[0]) * rng.random(count)
        inverse = self.distribution.isf if self.upper_tail else self.distribution.ppf
        values = inverse(share)
        return np.clip(np.asarray(values, dtype=np.float64), self.lower, self.upper)

    def log_density(self, values: npt.NDArray[Any]) -> Floats:
        """Return the log density of the truncated distribution; minus infinity outside the bounds and at a null."""
        inside = (values >= self.lower) & (values <= self.upper)
        safe = np.where(inside, values, self.lower)
        with np.errstate(divide="ignore"):
            log = np.asarray(self.distribution.logpdf(safe)) - np.log(abs(self.edges[1] - self.edges[0]))
        return np.where(inside, log, -np.inf)


@lru_cache(maxsize=64)
def _truncated(name: str, parameters: tuple[tuple[str, float], ...], lower: float, upper: float) -> Density:
    stats = import_module("scipy.stats")
    family = getattr(stats, name, None)
    if not isinstance(family, stats.rv_continuous):
        raise ValueError("scipy.stats has no continuous distribution of that name")  # noqa: TRY004 - a wrong name
    frozen = family(**dict(parameters))
    low, high = float(frozen.cdf(lower)), float(frozen.cdf(upper))
    upper_tail = low > 0.5
    if upper_tail:
        low, high = float(frozen.sf(lower)), float(frozen.sf(upper))
    if not abs(high - low) > 0:
        raise ValueError("its parameters are wrong, or it has no mass between the declared bounds")
    return Density(distribution=frozen, lower=lower, upper=upper, upper_tail=upper_tail, edges=(low, high))
