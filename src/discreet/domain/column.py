"""What every declared column has in common: a code for each value, a base measure, and how nulls are met.

A column turns values into *codes* and back. A finite column has cells ``0 .. size-1``; with ``nulls="category"`` the
last one is the null. A continuous column's codes are the float64 values themselves (a null is NaN), an open set of
labels' are the labels (a null is None). Encoding reads confidential values, so nothing it raises repeats one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from discreet._core.boundary import quietly, sealed
from discreet._core.checks import choice, integer, shown
from discreet._core.errors import DataError, DomainError, MissingPublicFact
from discreet._core.lazy import pl

if TYPE_CHECKING:
    from discreet.domain.base_measure import ExactWeights

Codes = npt.NDArray[Any]
"""Encoded values of one column: int64 cell codes, float64 values, or object strings."""

WIDEN = 'widen lower and upper (from public knowledge), or declare out_of_bounds = "clip"'
"""What to do about values outside the declared bounds."""

_NO_NULLS = 'declare nulls = "category", or fill in the nulls beforehand'


class Misfit(NamedTuple):
    """What is wrong with some values of a column, what to do about it, and which ones they are: confidential."""

    problem: str
    remedy: str
    where: npt.NDArray[np.bool_]


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Column(ABC):
    """A column's public facts; the base class of every kind of column.

    Parameters
    ----------
    nulls : {"error", "category"}
        What a null is: an error, or one more cell of the column (the last one).
    base : mapping, optional
        The base measure H of the column; uniform by default. ``{"weights": [...]}`` gives one positive weight per cell,
        the null's last; see :class:`~discreet.domain.Numeric` for densities on a continuous column.
    """

    kind: ClassVar[str]
    position_unit: ClassVar[str] = ""
    """What positions and distances are counted in; empty where it is the column's own unit."""
    nulls: str = "error"
    base: Any = field(default=None, hash=False)
    _weights: ExactWeights | None = field(init=False, repr=False, compare=False, default=None)

    # -- size ---------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def values(self) -> int | None:
        """Number of cells that hold values, the null's not counted; None when continuous or open."""

    @property
    def size(self) -> int | None:
        """Number of cells, the null's included; None when continuous or open."""
        values = self.values
        return None if values is None else values + self.nullable

    @property
    def finite(self) -> bool:
        """Whether the column has finitely many cells."""
        return self.values is not None

    @property
    def nullable(self) -> bool:
        """Whether a null is a declared category."""
        return self.nulls == "category"

    @property
    def null_code(self) -> Any:
        """The code of a null: the last cell, NaN (continuous) or None (open labels).

        Raises
        ------
        DomainError
            If the column does not declare ``nulls="category"``.
        """
        if not self.nullable:
            self._refuse('nulls are not declared. Write: nulls = "category"')
        if self.finite:
            return self.values
        return np.nan if self._code_type is np.float64 else None

    @property
    def open(self) -> bool:
        """Whether the values are labels that are not declared."""
        return False

    @property
    def labels(self) -> tuple[Any, ...] | None:
        """The declared values of a column that lists them, in the order of its cells; None where it does not."""
        return None

    @property
    def words(self) -> tuple[str, ...]:
        """The declared labels as texts; none where the column does not list its values."""
        return tuple(map(str, self.labels or ()))

    @property
    def extremes(self) -> tuple[int, int] | None:
        """The smallest and the largest value in whole units; None without a unit, or where values are clipped."""
        return None

    @property
    def logarithmic(self) -> bool:
        """Whether the cells are spaced evenly in the logarithm."""
        return False

    # -- values to codes and back -------------------------------------------------------------------------------

    def encode(self, values: pl.Series | Sequence[Any] | npt.NDArray[Any], *, name: str | None = None) -> Codes:
        """Turn values into codes.

        Parameters
        ----------
        values : polars.Series, ndarray or sequence of shape (count,)
            Confidential values.
        name : str, optional
            The column's name, for the error message.

        Returns
        -------
        ndarray of shape (count,)
            Codes.

        Raises
        ------
        DataError
            If a value does not fit the declaration. The message holds no value.
        """
        wrong_type = DataError(name, "its values have no common type", f"cast the column to the declared {self.kind}")
        series = values if isinstance(values, pl.Series) else quietly(partial(pl.Series, values), wrong_type)
        untyped = series.dtype == pl.Null
        if not untyped and not self._accepts(series.dtype):
            found = _type_name(series.dtype)
            raise DataError(
                name, f"holds {found} values, not the declared {self.kind}", "cast it, or declare the type it has"
            )
        if not untyped and not any_missing(series):
            return quietly(partial(self._codes, series, name), self._unreadable(name))
        missing = self._nulls_in(series, name)
        codes = np.full(len(missing), self.null_code if self.nullable else 0, dtype=self._code_type)
        if not untyped:
            present = series.filter(~missing)
            codes[(~missing).to_numpy()] = quietly(partial(self._codes, present, name), self._unreadable(name))
        return codes

    def _nulls_in(self, values: pl.Series, name: str | None) -> pl.Series:
        """Return which values are null or NaN. Raises DataError where nulls are not declared."""
        missing = missing_in(values)
        if missing.any() and not self.nullable:
            raise DataError(name, "holds a null or NaN", _NO_NULLS)
        return missing

    def misfits(self, values: pl.Series) -> list[Misfit]:
        """Return what :meth:`encode` would refuse, and in which values; :meth:`encode` alone decides.

        The confidential values have a type that the column takes. There is one misfit for each thing that can be
        wrong, whether or not any value is.
        """
        missing = missing_in(values)
        present = ~missing.to_numpy()
        found = []
        if not self.nullable:
            found.append(Misfit("holds a null", _NO_NULLS, values.is_null().to_numpy()))
            found.append(Misfit("holds a NaN", _NO_NULLS, (missing & values.is_not_null()).to_numpy()))
        for misfit in () if values.dtype == pl.Null else self._misfits(values.filter(present)):
            where = np.zeros(len(values), dtype=np.bool_)
            where[present] = misfit.where
            found.append(misfit._replace(where=where))
        return found

    def decode(self, codes: Codes, *, rng: np.random.Generator) -> pl.Series:
        """Turn codes into values of the declared type, drawing within a cell where a cell holds more than one.

        Parameters
        ----------
        codes : ndarray of shape (count,)
            Codes.
        rng : numpy.random.Generator
            Source of the draws within cells.

        Returns
        -------
        polars.Series of length count
            Values; ``encode(decode(codes)) == codes``.
        """
        codes = np.asarray(codes)
        if not self.nullable:
            return self._series(codes, rng)
        missing = np.asarray(np.isnan(codes) if self._code_type is np.float64 else codes == self.null_code)
        if not missing.any():
            return self._series(codes, rng)
        filled = np.where(missing, "" if self._code_type is object else 0, codes).astype(self._code_type)
        series = self._series(filled, rng)
        return pl.select(pl.when(pl.lit(pl.Series(missing))).then(None).otherwise(pl.lit(series))).to_series()

    def parse(self, texts: pl.Series) -> pl.Series:
        """Read the texts of a CSV column as values that :meth:`encode` takes; what cannot be read becomes null."""
        return texts

    # -- base measure -------------------------------------------------------------------------------------------

    def draw(self, count: int, rng: np.random.Generator, *, first: int = 1) -> Codes:
        """Draw codes from the base measure; on a finite column exactly, in integers.

        Parameters
        ----------
        count : int
            How many.
        rng : numpy.random.Generator
            Source of the draws.
        first : int
            Number of the first new label, for open labels only: labels drawn in chunks must not repeat.

        Returns
        -------
        ndarray of shape (count,)
            Codes.
        """
        if self.size is None:
            raise NotImplementedError
        if self._weights is not None:
            return self._weights.draw(count, rng)
        return rng.integers(self.size, size=count, dtype=np.int64)

    def least(self) -> tuple[Fraction, Fraction | None]:
        """Return the smallest and second smallest masses of the column's cells (None: there is one cell only)."""
        if self.size is None:
            self._refuse("a column without finitely many cells has no smallest mass. Declare cells")
        if self._weights is not None:
            return self._weights.least()
        return Fraction(1, self.size), None if self.size == 1 else Fraction(1, self.size)

    def log_base(self, codes: Codes) -> npt.NDArray[np.float64]:
        """Return the base measure's log mass of each cell, in nats.

        Parameters
        ----------
        codes : ndarray of shape (count,)
            Codes.

        Returns
        -------
        ndarray of float64, shape (count,)
            ``log H(cell)``; log densities with respect to Lebesgue measure on a continuous column; 0 for open labels.
        """
        if self.size is None:
            raise NotImplementedError
        if self._weights is not None:
            return self._weights.log_mass(codes)
        return np.full(len(codes), -np.log(self.size))

    # -- geometry -----------------------------------------------------------------------------------------------

    @property
    def scale(self) -> float:
        """Length of the declared range in the unit of :meth:`positions`; 1 for unordered columns."""
        return 1.0

    def positions(self, codes: Codes) -> npt.NDArray[np.float64]:
        """Return one coordinate a code, NaN for a null.

        Parameters
        ----------
        codes : ndarray of shape (count,)
            Codes.

        Returns
        -------
        ndarray of float64, shape (count,)
            The middle of the cell. Days for dates, seconds for datetimes (since 1970-01-01) and durations, the rank
            for ordered categories.

        Raises
        ------
        DomainError
            If the column has no order.
        """
        self._refuse("an unordered column has no positions")

    def ends(self, codes: Codes) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return the coordinates of the first and the last value of each cell, NaN for a null; of one value, twice."""
        middle = self.positions(codes)
        return middle, middle

    def interval(self, codes: Codes) -> tuple[pl.Series, pl.Series] | None:
        """Return where each cell begins and ends, as values, null for a null; None where a cell is one value."""
        return None

    def coordinates(self, values: pl.Series) -> npt.NDArray[np.float64]:
        """Return values without nulls as numbers in the unit of :meth:`positions`, clipped where that is declared."""
        numbers = self._numbers(values)
        if self._clipped_to is not None:
            numbers = np.clip(numbers, *self._numbers(pl.Series(self._clipped_to)))
        return numbers

    def _numbers(self, values: pl.Series) -> npt.NDArray[np.float64]:
        """Return values without nulls as numbers in the unit of :meth:`positions`."""
        return values.cast(pl.Float64).to_numpy()

    @property
    def _clipped_to(self) -> tuple[Any, Any] | None:
        """The bounds that values beyond are moved to, where that is declared."""
        return None

    def distance(self, a: Codes, b: Codes) -> npt.NDArray[np.float64]:
        """Return the ground distance of codes, in [0, 1]: ``|x - y| / scale``, or 0/1 without an order.

        Parameters
        ----------
        a, b : ndarray of shape (count,)
            Codes, compared row by row. A null is at distance 1 from every value and 0 from a null.

        Returns
        -------
        ndarray of float64, shape (count,)
            Distances.
        """
        if not self.on_a_line:
            return np.asarray(np.asarray(a) != np.asarray(b), dtype=np.float64)
        x, y = self.positions(a), self.positions(b)
        gap = np.abs(x - y) / (self.scale or 1.0)
        missing_x, missing_y = np.isnan(x), np.isnan(y)
        return np.asarray(np.where(missing_x | missing_y, (missing_x != missing_y).astype(np.float64), gap))

    # -- conditions ---------------------------------------------------------------------------------------------

    def _below(self, name: str, value: Any) -> int:
        """Return how many cells lie below a value, called by a name; refuse one that lies within a cell."""
        self._refuse("an unordered column has no ranges. List the labels")

    @abstractmethod
    def _alone(self, value: Any) -> int:
        """Return the cell that holds a value and no other one."""

    def _splits(self, name: str, value: Any, cell: int) -> NoReturn:
        """Refuse a condition that holds for a part of a cell only."""
        ends = self.interval(np.array([cell]))
        where = "a cell" if ends is None else f"the cell from {ends[0][0]} to {ends[1][0]}"
        self._refuse(
            f"{name} {shown(value)} lies within {where}, and conditions are about whole cells. Write under from or "
            "below where a cell begins, or declare other cells"
        )

    # -- as plain data ------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration as plain data, defaults left out, ``type`` first."""
        out: dict[str, Any] = {"type": self.kind}
        last = ("nulls", "base")
        own = [item for item in fields(self) if item.name not in last]
        for item in own + [item for item in fields(self) if item.name in last]:
            value = getattr(self, item.name)
            if item.init and (item.default is MISSING or value != item.default):
                out[item.name] = self._plain(item.name, value)
        return out

    def _plain(self, name: str, value: Any) -> Any:
        if name == "base":
            return {key: list(part) if isinstance(part, tuple) else part for key, part in value.items()}
        return list(value) if isinstance(value, tuple) else value

    # -- for subclasses -----------------------------------------------------------------------------------------

    @property
    def _code_type(self) -> type[Any]:
        return np.int64

    @property
    def on_a_line(self) -> bool:
        """Whether values have an order, and so positions."""
        return False

    def _without_nulls(self, codes: Codes) -> tuple[npt.NDArray[np.bool_], npt.NDArray[Any]]:
        """Return which codes of cells are the null's, and all codes with the first cell in their place."""
        missing = np.asarray(codes) == self.values
        return missing, np.where(missing, 0, codes)

    @abstractmethod
    def _accepts(self, dtype: pl.DataType) -> bool:
        """Whether values of this type may be encoded."""

    @abstractmethod
    def _codes(self, series: pl.Series, name: str | None) -> Codes:
        """Encode values, none of them null."""

    def _misfits(self, series: pl.Series) -> Iterator[Misfit]:
        """Yield what :meth:`_codes` would refuse."""
        yield from ()

    @abstractmethod
    def _series(self, codes: Codes, rng: np.random.Generator) -> pl.Series:
        """Decode codes, none of them null."""

    def _unreadable(self, name: str | None) -> DataError:
        return DataError(name, f"cannot be read as the declared {self.kind}", "check its type and the declaration")

    def _settle(self, **facts: Any) -> None:
        """Set normalised fields during construction."""
        for name, value in facts.items():
            object.__setattr__(self, name, value)

    def _settle_common(self) -> None:
        """Check what all columns share; called last, when the size is known."""
        self._choice("nulls", ("error", "category"))
        if self.base is None:
            return
        if not isinstance(self.base, Mapping) or set(self.base) != {"weights"} or self.size is None:
            self._refuse("base of a finite column must be {weights = [one positive weight per cell]}")
        from discreet.domain.base_measure import ExactWeights

        weights = ExactWeights.of(self.base["weights"], size=self.size, refuse=self._refuse)
        self._settle(base={"weights": weights.integers}, _weights=weights)

    def _refuse(self, problem: str) -> NoReturn:
        raise self._error(problem)

    def _error(self, problem: str) -> DomainError:
        return DomainError(f"{self.kind}: {problem}")

    def _need(self, name: str, fact: str, example: str) -> None:
        if getattr(self, name) is None:
            raise MissingPublicFact(f"({self.kind})", fact, example)

    def _choice(self, name: str, options: Sequence[str]) -> None:
        self._settle(**{name: choice(name, getattr(self, name), options, error=self._error)})

    def _integer(self, name: str, **bounds: Any) -> int:
        return integer(name, getattr(self, name), error=self._error, **bounds)


def missing_in(values: pl.Series) -> pl.Series:
    """Return which values are null or NaN."""
    missing = values.is_null()
    return missing | values.is_nan().fill_null(value=False) if values.dtype.is_float() else missing


def any_missing(values: pl.Series) -> bool:
    """Return whether a value is null or NaN, more quickly than which ones are."""
    if values.null_count() or not values.dtype.is_float() or not len(values):
        return bool(values.null_count())
    return bool(np.isnan(values.to_numpy().max()))  # the largest of numbers among which is a NaN is NaN


def outside(below: npt.NDArray[np.bool_], above: npt.NDArray[np.bool_]) -> Iterator[Misfit]:
    """Yield the values below and above the bounds of a column."""
    yield Misfit("a value lies below the declared lower bound", WIDEN, below)
    yield Misfit("a value lies above the declared upper bound", WIDEN, above)


def _type_name(dtype: pl.DataType) -> str:
    """Name a type without its parameters, which may be values (the categories of an Enum)."""
    name = dtype.base_type().__name__
    if name != "Datetime":
        return name
    return f"{name} (with a time zone)" if getattr(dtype, "time_zone", None) else f"{name} (without a time zone)"
