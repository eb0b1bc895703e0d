"""Exact decimal numbers with a fixed number of digits after the point."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal as Exact
from decimal import InvalidOperation
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from discreet._core.checks import plain, unfit
from discreet._core.lazy import pl
from discreet.domain._column import Misfit
from discreet.domain._lattice import LatticeColumn

_MOST_DIGITS = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Decimal(LatticeColumn):
    """An exact decimal number between public bounds, both included.

    Parameters
    ----------
    lower, upper : decimal.Decimal, int or str
        Public bounds; text is best in TOML, where ``0.10`` would be a binary fraction.
    digits : int
        Digits after the point, 0 to 18.
    cells : int, optional
        Number of groups of neighbouring numbers; each number is a cell by default.
    out_of_bounds : {"error", "clip"}
        What a number outside the bounds is.
    nulls, base
        See :class:`Column`.

    Raises
    ------
    MissingPublicFact
        If a bound or the number of digits is not declared.
    DomainError
        If the facts contradict each other.

    Examples
    --------
    >>> price = Decimal(lower="0", upper="9.99", digits=2)
    >>> price.encode([Exact("1.25")]).tolist()
    [125]
    """

    kind: ClassVar[str] = "decimal"
    digits: int = None  # type: ignore[assignment]  # None stands for "not declared"

    def __post_init__(self) -> None:
        self._need("lower", "its lower bound", 'lower = "0.00"')
        self._need("upper", "its upper bound", 'upper = "999.99"')
        self._need("digits", "the number of digits after the point", "digits = 2")
        digits = self._integer("digits", least=0, most=_MOST_DIGITS)
        self._settle(digits=digits)
        self._settle(lower=self._exact("lower", self.lower), upper=self._exact("upper", self.upper))
        self._settle_lattice(self._units("lower", self.lower), self._units("upper", self.upper))

    def _units(self, name: str, value: Any) -> int:
        return int(self._exact(name, value).scaleb(self.digits))

    def _exact(self, name: str, value: Any) -> Exact:
        try:
            value = plain(value)
            if isinstance(value, Fraction):
                value = Exact(value.numerator) / Exact(value.denominator)
            found = Exact(repr(value) if isinstance(value, float) else value)
            rounded = found.quantize(Exact(1).scaleb(-self.digits))
        except (InvalidOperation, TypeError, ValueError):
            raise unfit(name, "a finite decimal number of a sensible length", value, error=self._error) from None
        if isinstance(value, bool) or rounded != found:
            wanted = f"a decimal number with at most {self.digits} digits after the point"
            raise unfit(name, wanted, value, error=self._error)
        return rounded

    def _plain(self, name: str, value: Any) -> Any:
        return str(value) if isinstance(value, Exact) else LatticeColumn._plain(self, name, value)

    @property
    def _unit(self) -> float:
        return float(10.0**-self.digits)

    def parse(self, texts: pl.Series) -> pl.Series:
        """Read decimal notation, with any number of digits up to 18 after the point."""
        clean = texts.str.strip_chars()
        plain = clean.str.contains(r"^[+-]?\d{1,19}(\.\d{0,18})?$")
        kept = pl.select(pl.when(plain).then(clean)).to_series()
        return kept.cast(pl.Decimal(38, _MOST_DIGITS), strict=False)

    def _accepts(self, dtype: pl.DataType) -> bool:
        return dtype.is_decimal() or dtype.is_integer()

    def _strays(self, series: pl.Series) -> Iterator[Misfit]:
        exact = self._exactly(series)
        remedy = "recode it with fewer digits"
        yield Misfit("a value lies outside the declared bounds", remedy, exact.is_null().to_numpy())
        if isinstance(series.dtype, pl.Decimal) and series.dtype.scale > self.digits:
            longer = (exact != series).fill_null(value=False).to_numpy()
            problem = "holds numbers with more digits after the point than declared"
            yield Misfit(problem, "round them, or raise digits", longer)

    def _exactly(self, series: pl.Series) -> pl.Series:
        """Return numbers with the declared digits, rounded, null where they are too large to hold."""
        return series.cast(pl.Decimal(38, self.digits), strict=False)

    def _to_units(self, series: pl.Series) -> npt.NDArray[np.int64]:
        return self._exactly(series).to_physical().clip(-(2**62), 2**62).cast(pl.Int64).to_numpy()

    def _from_units(self, units: npt.NDArray[np.int64]) -> pl.Series:
        kind = pl.Decimal(38, self.digits)
        shifted: pl.Series = pl.Series(units).cast(kind) / 10**self.digits
        return shifted.cast(kind)
