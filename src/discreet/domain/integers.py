"""Columns whose values are equally spaced exact points: integers, decimals, dates, datetimes, durations.

The points are ``start + i * stride`` for i in 0 .. P-1, in an integer unit (1, the last decimal digit, days, or
microseconds). Each is a cell, or ``cells`` groups of neighbouring points are. All arithmetic is in integers.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal as Exact
from decimal import InvalidOperation
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from discreet._core.boundary import sealed
from discreet._core.errors import DataError, integer, plain, unfit
from discreet._core.lazy import pl
from discreet._core.numeric import Floats, Integers
from discreet._core.reading import MOST_CELLS
from discreet.domain.column import Column
from discreet.domain.texts import INTEGERS, NUMBERS, WIDEN, Codes, Misfit, PublicFact, holds, outside, settle

_MOST_POINTS = 2**62
_MOST_LISTED = 2**22


@dataclass(frozen=True, slots=True, kw_only=True)
class LatticeColumn(Column):
    """Equally spaced points, each a cell, or grouped into cells, of which those without a point are left out."""

    on_a_line: ClassVar[bool] = True
    _choices: ClassVar[dict[str, tuple[str, ...]]] = {**Column._choices, "out_of_bounds": ("error", "null", "clip")}
    lower: Any = None
    upper: Any = None
    cells: int | None = None
    out_of_bounds: str = "error"
    atoms: Sequence[Any] = ()
    coin: bool = False  # as for numbers, between the least and the greatest point of a cell
    _start: int = field(init=False, repr=False, compare=False, default=0)
    _stop: int = field(init=False, repr=False, compare=False, default=0)
    _stride: int = field(init=False, repr=False, compare=False, default=1)
    _groups: Integers | None = field(init=False, repr=False, compare=False, default=None)
    _listed: npt.NDArray[np.int32] | None = field(init=False, repr=False, compare=False, default=None)

    def _set_points(self, start: int, stop: int, stride: int = 1, *, spacing: str = "linear") -> None:
        """Set the points from ``start`` to at most ``stop`` (both in the column's unit), and their grouping."""
        if not start < stop:
            self._refuse_bounds(start, stop)
        if stride < 1 or stride > stop - start:
            self._refuse("step must be positive and at most upper - lower")
        points = (stop - start) // stride + 1
        if max(-start, stop) > 2**62:
            self._refuse("the bounds must be within 2**62 steps of 0. Subtract a public number from the column first")
        if points > _MOST_POINTS:
            self._refuse("the bounds are too far apart for 64-bit integers")
        settle(self, _start=start, _stop=stop, _stride=stride)
        atoms = np.array(sorted({self._alone(atom, "an atom") for atom in self.atoms}), dtype=np.int64)
        if len(atoms):
            settle(self, atoms=tuple(self._from_units(start + atoms * stride).to_list()))
        if self.cells is None:
            return
        cells = integer("cells", self.cells, least=1, most=MOST_CELLS, error=self._error)
        if spacing == "linear":
            edges = np.array([cell * points // cells for cell in range(cells + 1)], dtype=np.int64)
        else:
            exponents = np.linspace(0.0, 1.0, cells + 1)
            inner = np.ceil(start * np.exp(exponents * np.log(stop / start)) - 1e-9)
            edges = np.clip((inner - start).astype(np.int64), 0, points)
            edges[0], edges[-1] = 0, points
        groups = np.unique(np.concatenate((edges, atoms, atoms + 1)))
        if self.coin:
            lengths = np.diff(groups)
            groups = np.unique(np.append(groups, groups[:-1] + (lengths + 1) // 2))
            self._set_halves(self.coin, lengths > 1)
        settle(self, cells=cells, _groups=groups)
        if points <= _MOST_LISTED:
            settle(self, _listed=np.repeat(np.arange(len(groups) - 1, dtype=np.int32), np.diff(groups)))

    @property
    def values(self) -> int:
        """Number of cells that hold values."""
        return self._points if self._groups is None else len(self._groups) - 1

    @property
    def extremes(self) -> tuple[int, int] | None:
        """The first and the last point in the integer unit; None where values beyond are not refused."""
        return (self._start, self._stop) if self.out_of_bounds == "error" else None

    @property
    def _points(self) -> int:
        return (self._stop - self._start) // self._stride + 1

    @property
    @abstractmethod
    def _unit(self) -> float:
        """Length of the integer unit in the unit of positions."""

    @property
    def scale(self) -> float:
        """``upper - lower``: a number, days for dates, seconds for datetimes and durations."""
        return (self._stop - self._start) * self._unit

    def _middles(self, cells: Any) -> Floats:
        index = cells.astype(np.float64)
        if self._groups is not None:
            index = (self._groups[cells] + self._groups[cells + 1] - 1) / 2
        return np.asarray((self._start + index * self._stride) * self._unit)

    def _first_and_last(self, cells: Any) -> tuple[Floats, Floats] | None:
        if self._groups is None:
            return None
        low, high = self._groups[cells], self._groups[cells + 1] - 1
        return (self._start + low * self._stride) * self._unit, (self._start + high * self._stride) * self._unit

    def interval(self, codes: Codes) -> tuple[pl.Series, pl.Series] | None:
        """Return the first and the last point of each cell; None where a cell is a point."""
        if self._groups is None:
            return None
        missing, cells = self._without_nulls(codes)

        def points(index: Integers) -> pl.Series:
            values = pl.lit(self._from_units(self._start + index * self._stride))
            return pl.select(pl.when(pl.lit(pl.Series(~missing))).then(values)).to_series()

        return points(self._groups[cells]), points(self._groups[cells + 1] - 1)

    @abstractmethod
    def _units(self, name: str, value: Any) -> int:
        """Return a declared value, called by a name in errors, in the integer unit."""

    def _below(self, name: str, value: Any) -> int:
        units = self._units(name, value)
        index = min(max(-((self._start - units) // self._stride), 0), self._points)
        if self._groups is None:
            return index
        cell = int(np.searchsorted(self._groups, index))
        if self._groups[cell] != index:
            self._splits(name, value, cell - 1)
        return cell

    def _alone(self, value: Any, name: str = "a value") -> int:
        index, remainder = divmod(self._units(name, value) - self._start, self._stride)
        if remainder or not 0 <= index < self._points:
            raise unfit(name, "one that the column can have", value, error=self._error)
        if self._groups is None:
            return index
        cell = int(np.searchsorted(self._groups, index, side="right")) - 1
        if self._groups[cell + 1] - self._groups[cell] > 1:
            self._splits("a value", value, cell)
        return cell

    @abstractmethod
    def _to_units(self, series: pl.Series) -> tuple[Integers, Sequence[Misfit]]:
        """Return values in the integer unit, the nearest where they are not exact in it, and those that are not."""

    @abstractmethod
    def _from_units(self, units: Integers) -> pl.Series:
        """Return values of the declared type."""

    def _numbers(self, values: pl.Series) -> Floats:
        return self._to_units(values)[0] / round(1.0 / self._unit)

    def _codes(self, series: pl.Series, name: str | None) -> Codes:
        units, inexact = self._to_units(series)
        for misfit in inexact:
            if misfit.where.any() and self.out_of_bounds != "clip":
                raise DataError(name, misfit.problem, misfit.remedy)
        if len(units) and not (units.min() >= self._start and units.max() <= self._stop):
            if self.out_of_bounds != "clip":
                raise DataError(name, "a value lies outside the declared bounds", WIDEN)
            units = np.clip(units, self._start, self._stop)
        index = units - self._start
        if self._stride > 1:
            index = np.minimum((index + self._stride // 2) // self._stride, self._points - 1)
        if self._groups is None:
            return index
        if self._listed is not None:
            return self._listed[index].astype(np.int64)
        return np.searchsorted(self._groups[1:-1], index, side="right").astype(np.int64, copy=False)

    def _misfits(self, series: pl.Series) -> Iterator[Misfit]:
        units, inexact = self._to_units(series)
        exact = np.ones(len(series), dtype=np.bool_)
        for misfit in inexact:
            yield misfit._replace(where=misfit.where & exact)
            exact &= ~misfit.where
        yield from outside(exact & (units < self._start), exact & (units > self._stop))

    def _series(self, codes: Codes, rng: np.random.Generator) -> pl.Series:
        index = np.asarray(codes, dtype=np.int64)
        if self._groups is not None:
            index = rng.integers(self._groups[index], self._groups[index + 1])
        return self._from_units(self._start + index * self._stride)


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Integer(LatticeColumn):
    """A whole number between public bounds, both included.

    Parameters
    ----------
    lower, upper : int
        Public bounds, ``lower < upper``.
    cells : int, optional
        Number of groups of neighbouring integers; each integer is a cell by default. A cell is decoded to one of its
        integers, uniformly and exactly. Cells without an integer are left out.
    spacing : {"linear", "log"}
        How cells are spaced; "log" needs ``lower > 0``.
    dtype : str
        Integer type of the released values.
    out_of_bounds : {"error", "clip"}
        What a value outside the bounds is.
    atoms, coin, decimal_mark, thousands, prefix, suffix, censored, nulls, base, null_values, strip
        See :class:`Numeric` and :class:`Column`.

    Raises MissingPublicFact if a bound is not declared, DomainError if the facts contradict each other.

    Examples
    --------
    >>> age = Integer(lower=0, upper=99, cells=10)
    >>> age.encode([0, 9, 10, 99]).tolist()
    [0, 0, 1, 9]
    """

    kind: ClassVar[str] = "integer"
    text_form: ClassVar[tuple[str, str]] = ("whole numbers written 1234", 'thousands = ",", or type = "numeric"')
    _unit: ClassVar[float] = 1.0
    spacing: str = "linear"
    dtype: str = "int64"
    decimal_mark: str = "."
    thousands: str = ""
    prefix: str = ""
    suffix: str = ""
    censored: Sequence[str] = ()

    public_facts: ClassVar[tuple[PublicFact, ...]] = NUMBERS
    _choices: ClassVar[dict[str, tuple[str, ...]]] = LatticeColumn._choices | {
        "dtype": INTEGERS,
        "spacing": ("linear", "log"),
    }

    def _check(self) -> None:
        lower, upper = self._units("lower", self.lower), self._units("upper", self.upper)
        settle(self, lower=lower, upper=upper)
        if max(-lower, upper) <= 2**62 and not holds(self.dtype, lower, upper):
            self._refuse(f"dtype {self.dtype} cannot hold the bounds")
        if self.spacing == "log" and (lower <= 0 or self.cells is None):
            self._refuse('spacing = "log" needs cells, and lower > 0')
        self._set_points(lower, upper, spacing=self.spacing)

    def _units(self, name: str, value: Any) -> int:
        return integer(name, value, error=self._error)

    def parse(self, texts: pl.Series) -> pl.Series:
        """Read decimal digits, ``2.0`` too; where values are clipped, any number as the nearest integer."""
        numbers = texts.cast(pl.Int64, strict=False)
        if numbers.null_count() > texts.null_count():
            numbers = texts.str.extract(r"^([+-]?\d+)(?:\.0*)?$").cast(pl.Int64, strict=False)
        if self.out_of_bounds != "clip" or numbers.null_count() == texts.null_count():
            return numbers
        nearest = texts.cast(pl.Float64, strict=False).clip(-(2.0**62), 2.0**62).round()
        return numbers.fill_null(nearest.cast(pl.Int64, strict=False))

    def _accepts(self, dtype: pl.DataType) -> bool:
        return dtype.is_integer() or dtype.is_float()

    def _to_units(self, series: pl.Series) -> tuple[Integers, Sequence[Misfit]]:
        inexact = []
        if series.dtype.is_float():  # pandas holds integers with nulls as floats
            numbers = series.cast(pl.Float64)
            split = (numbers.floor() != numbers).to_numpy()
            inexact.append(Misfit("holds numbers that are not whole", 'round them, or declare type = "numeric"', split))
            series = numbers.round().clip(-(2.0**62), 2.0**62)  # out of int64's range is out of bounds too
        elif str(series.dtype) in ("UInt64", "Int128", "UInt128"):
            series = series.clip(-(2**62) * series.dtype.is_signed_integer(), 2**62)
        return series.cast(pl.Int64).to_numpy(), inexact

    def _from_units(self, units: Integers) -> pl.Series:
        return pl.Series(units.astype(self.dtype))

    _numbers = Column._numbers


# Exact decimal numbers with a fixed number of digits after the point.

_MOST_DIGITS = 18


@sealed
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
    atoms, coin, decimal_mark, thousands, prefix, suffix, censored, nulls, base, null_values, strip
        See :class:`Numeric` and :class:`Column`.

    Raises MissingPublicFact if a bound or the digits are not declared, DomainError if the facts contradict each other.

    Examples
    --------
    >>> price = Decimal(lower="0", upper="9.99", digits=2)
    >>> price.encode([Exact("1.25")]).tolist()
    [125]
    """

    kind: ClassVar[str] = "decimal"
    text_form: ClassVar[tuple[str, str]] = ("decimal numbers written 1234.50", 'decimal_mark = ","')
    public_facts: ClassVar[tuple[PublicFact, ...]] = (
        NUMBERS[0]._replace(example='"0.00"'),
        NUMBERS[1]._replace(example='"999.99"'),
        PublicFact("digits", "the number of digits after the point", "2", "digits after the point"),
    )
    digits: int = None  # type: ignore[assignment]  # None stands for "not declared"
    decimal_mark: str = "."
    thousands: str = ""
    prefix: str = ""
    suffix: str = ""
    censored: Sequence[str] = ()

    def _check(self) -> None:
        settle(self, digits=integer("digits", self.digits, least=0, most=_MOST_DIGITS, error=self._error))
        settle(self, lower=self._exact("lower", self.lower), upper=self._exact("upper", self.upper))
        self._set_points(self._units("lower", self.lower), self._units("upper", self.upper))

    def _units(self, name: str, value: Any) -> int:
        return int(self._exact(name, value).scaleb(self.digits))

    def _exact(self, name: str, value: Any) -> Exact:
        try:
            value = plain(value)
            if isinstance(value, Fraction):
                value = Exact(value.numerator) / Exact(value.denominator)
            number = Exact(repr(value) if isinstance(value, float) else value)
            rounded = number.quantize(Exact(1).scaleb(-self.digits))
        except (InvalidOperation, TypeError, ValueError):
            raise unfit(name, "a finite decimal number of a sensible length", value, error=self._error) from None
        if isinstance(value, bool) or rounded != number:
            form = f"a decimal number with at most {self.digits} digits after the point"
            raise unfit(name, form, value, error=self._error)
        return rounded

    @property
    def _unit(self) -> float:
        return float(10.0**-self.digits)

    def parse(self, texts: pl.Series) -> pl.Series:
        """Read decimal notation, with any number of digits up to 18 after the point."""
        fits = texts.str.contains(r"^[+-]?\d{1,19}(\.\d{0,18})?$")
        kind = pl.Decimal(38, _MOST_DIGITS)
        numbers = pl.select(pl.when(fits).then(texts)).to_series().cast(kind, strict=False)
        if self.out_of_bounds != "clip" or numbers.null_count() == texts.null_count():
            return numbers
        return numbers.fill_null(texts.cast(pl.Float64, strict=False).clip(-1e19, 1e19).cast(kind, strict=False))

    def _accepts(self, dtype: pl.DataType) -> bool:
        return dtype.is_decimal() or dtype.is_integer()

    def _to_units(self, series: pl.Series) -> tuple[Integers, Sequence[Misfit]]:
        exact = series.cast(pl.Decimal(38, self.digits), strict=False)  # rounded, null where it is too large to hold
        remedy = "recode it with fewer digits"
        inexact = [Misfit("a value lies outside the declared bounds", remedy, exact.is_null().to_numpy())]
        if isinstance(series.dtype, pl.Decimal) and series.dtype.scale > self.digits:
            longer = (exact != series).fill_null(value=False).to_numpy()
            problem = "holds numbers with more digits after the point than declared"
            inexact.append(Misfit(problem, "round them, or raise digits", longer))
        units = exact.to_physical().clip(-(2**62), 2**62).cast(pl.Int64)
        if exact.null_count():
            units = units.fill_null(series.cast(pl.Float64).sign().cast(pl.Int64) * 2**62)
        return units.to_numpy(), inexact

    def _from_units(self, units: Integers) -> pl.Series:
        kind = pl.Decimal(38, self.digits)
        shifted: pl.Series = pl.Series(units).cast(kind) / 10**self.digits
        return shifted.cast(kind)

    _numbers = Column._numbers
