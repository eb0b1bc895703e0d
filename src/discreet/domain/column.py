"""What every declared column has in common: a code for each value, a base measure, and how nulls are met.

A column turns values into *codes* and back. A finite column has cells ``0 .. size-1``; with ``nulls="category"`` the
last one is the null. A continuous column's codes are the float64 values themselves (a null is NaN), an open set of
labels' are the labels (a null is None). Encoding reads confidential values, so nothing it raises repeats one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, field, fields, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np
import numpy.typing as npt

from discreet._core.boundary import quietly, sealed
from discreet._core.errors import DataError, DomainError, MissingPublicFact, choice, flag, plain, shown
from discreet._core.lazy import pl
from discreet._core.numeric import Booleans, Floats, Integers
from discreet.domain.texts import (
    OTHER,
    Codes,
    Misfit,
    PublicFact,
    as_texts,
    check_notation,
    missing_in,
    read_texts,
    settle,
    text_problem,
    toml_value,
    type_problem,
    unescaped_series,
)

if TYPE_CHECKING:
    from discreet.domain.base_measure import ExactWeights

_NUMBERS = ("decimal_mark", "thousands", "prefix", "suffix", "censored")
_NOTATION = ("null_values", "strip", "format", "true", "false", *_NUMBERS)

_NO_NULLS = 'declare nulls = "category", or fill in the nulls beforehand'


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
    null_values, strip : sequence of str, bool
        Texts that are nulls, the first of which CSV has for one; and whether blanks around labels are cut off.
    """

    if TYPE_CHECKING:  # each class has it in the place that the bytes of declarations give it
        out_of_bounds: str
    kind: ClassVar[str]
    text_form: ClassVar[tuple[str, str]]
    """How values are written as texts, and a line for those written otherwise; empty where there is none."""
    position_unit: ClassVar[str] = ""
    """What positions and distances are counted in; empty where it is the column's own unit."""
    _value_at: ClassVar[Any] = None
    """Returns the value at a position, to the nearest, or its text; None where values are numbers."""
    open: ClassVar[bool] = False
    """Whether the values are labels that are not declared."""
    public_facts: ClassVar[tuple[PublicFact, ...]] = ()
    """What has to be declared, and is never derived from data."""
    _choices: ClassVar[dict[str, tuple[str, ...]]] = {  # the usual one last
        "nulls": ("error", "category"),
        "out_of_bounds": ("error", "null", OTHER),
    }
    nulls: str = "error"
    base: Any = field(default=None, hash=False)
    null_values: Sequence[str] = ()
    strip: bool = False
    notation: Mapping[str, Any] = field(init=False, repr=False, compare=False, default_factory=dict)
    """The declared notation: how values are written as texts."""
    textual: bool = field(init=False, repr=False, compare=False, default=False)
    """Whether the values are texts."""
    _weights: ExactWeights | None = field(init=False, repr=False, compare=False, default=None)
    halves: Integers | None = field(init=False, repr=False, compare=False, default=None)
    """Where a coin splits cells: which half each code is, 0 or 1, or -1 where it is none."""

    def __post_init__(self) -> None:
        for fact in self.public_facts:
            if getattr(self, fact.key) is None:
                raise MissingPublicFact(f"({self.kind})", fact.words, f"{fact.key} = {fact.example}")
        for name, options in self._choices.items():
            settle(self, **{name: choice(name, getattr(self, name), options, error=self._error)})
        for name in ("null_values", "censored", "atoms"):
            if isinstance(texts := getattr(self, name, None), (list, tuple)):
                settle(self, **{name: tuple(map(plain, texts))})
            elif name == "atoms" and texts is not None:
                self._refuse("atoms must be a list of values, such as atoms = [0]")
        defaults = {item.name: item.default for item in fields(self) if item.name in _NOTATION}
        notation = {key: getattr(self, key) for key, default in defaults.items() if getattr(self, key) != default}
        settle(self, notation=notation)
        self._check()
        if self.notation:
            check_notation(self)
        if self.out_of_bounds == "null" and not self.nullable:
            self._refuse('out_of_bounds = "null" needs nulls = "category". Write both')
        if self.base is not None:
            self._check_base()

    def _check(self) -> None:  # noqa: B027
        """Check what is declared, and set what follows from it."""

    def _check_base(self) -> None:
        if not isinstance(self.base, Mapping) or set(self.base) != {"weights"} or self.size is None:
            self._refuse("base of a finite column must be {weights = [one positive weight per cell]}")
        from discreet.domain.base_measure import ExactWeights

        weights = ExactWeights.parse(self.base["weights"], size=self.size, refuse=self._refuse)
        settle(self, base={"weights": weights.integers}, _weights=weights)

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

        Raises DomainError if the column does not declare ``nulls="category"``.
        """
        if not self.nullable:
            self._refuse('nulls are not declared. Write: nulls = "category"')
        if self.open:
            return None
        return self.values if self.finite else np.nan

    @property
    def misfit_code(self) -> Any:
        """The code of a value that does not fit and has no nearest one, where ``out_of_bounds`` is no error."""
        if self.out_of_bounds == OTHER:
            return OTHER if self.open else self.words.index(OTHER)
        if self.nullable:
            return self.null_code
        return 0 if self.finite else (self._clipped_to or (np.nan,))[0]

    @property
    def total_form(self) -> str:
        """What to write so that no value is refused."""
        usual = self._choices["out_of_bounds"][-1]
        with suppress(DomainError):
            return f'out_of_bounds = "{replace(self, out_of_bounds=usual).out_of_bounds}"'
        return 'out_of_bounds = "null" and nulls = "category"'

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
        """The smallest and the largest value in whole units; None without a unit, or where others are not refused."""
        return None

    @property
    def logarithmic(self) -> bool:
        """Whether the cells are spaced evenly in the logarithm."""
        return False

    def _set_halves(self, coin: Any, wide: Booleans) -> None:
        """Split the wide ones among cells that are listed in order; a null, the last code, is not split."""
        flag("coin", coin, error=self._error)
        halves = np.repeat(np.where(wide, 0, -1), 1 + wide)
        halves[np.cumsum(1 + wide)[wide] - 1] = 1
        settle(self, halves=np.append(halves, -1))

    def encode(self, values: pl.Series | Sequence[Any] | npt.NDArray[Any], *, name: str | None = None) -> Codes:
        """Turn confidential values of shape (count,) into codes.

        Raises DataError for another type, and for a value that does not fit where ``out_of_bounds`` says so. ``name``
        is the column's, for the error message, which holds no value.
        """
        if not isinstance(values, pl.Series):
            mixed = DataError(name, "its values have no common type", f"cast the column to the declared {self.kind}")
            values = quietly(partial(pl.Series, values), mixed)
        values = self.read(values, name=name)
        untyped = values.dtype == pl.Null
        if not (untyped or self._accepts(values.dtype)):
            raise DataError(name, *type_problem(self, values.dtype))
        missing_any = bool(values.null_count())
        if values.dtype.is_float() and len(values) and not missing_any:
            missing_any = bool(np.isnan(values.to_numpy().max()))  # the largest of numbers among which is a NaN is NaN
        if not (untyped or missing_any):
            return self._total_codes(values, name)
        missing = self._nulls_in(values, name).to_numpy()
        codes = np.empty(len(missing), dtype=self.code_type)
        if not untyped:
            codes[~missing] = self._total_codes(values.filter(~missing), name)
        if missing.any():
            codes[missing] = self.null_code if self.nullable else self.misfit_code
        return codes

    def _total_codes(self, values: pl.Series, name: str | None) -> Codes:
        """Encode values, none of them null."""
        encoded = partial(quietly, otherwise=self._unreadable(name))
        try:
            return np.asarray(encoded(partial(self._codes, values, name)))
        except DataError:
            if self.out_of_bounds == "error":
                raise
        fits = ~np.logical_or.reduce([misfit.where for misfit in self._misfits(values)])
        codes = np.full(len(values), self.misfit_code, dtype=self.code_type)
        codes[fits] = encoded(partial(self._codes, values.filter(fits), name))
        return codes

    def _nulls_in(self, values: pl.Series, name: str | None) -> pl.Series:
        """Return which values are null or NaN. Raises DataError where these do not fit and that is an error."""
        missing = missing_in(values)
        if missing.any() and not self.nullable and self.out_of_bounds == "error":
            raise DataError(name, "holds a null or NaN", _NO_NULLS)
        return missing

    def misfits(self, values: pl.Series) -> list[Misfit]:
        """Return what does not fit, and in which values; :meth:`encode` alone decides what it refuses.

        The confidential values have a type that the column takes. There is one misfit for each thing that can be
        wrong, whether or not any value is.
        """
        values, unread = self._reading(values)
        missing = missing_in(values) & ~unread
        present = ~(missing | unread).to_numpy()
        misfits = [Misfit(*text_problem(self), unread.to_numpy())]
        if not self.nullable:
            misfits.append(Misfit("holds a null", _NO_NULLS, (values.is_null() & ~unread).to_numpy()))
            misfits.append(Misfit("holds a NaN", _NO_NULLS, (missing & values.is_not_null()).to_numpy()))
        for misfit in () if values.dtype == pl.Null else self._misfits(values.filter(present)):
            where = np.zeros(len(values), dtype=np.bool_)
            where[present] = misfit.where
            misfits.append(misfit._replace(where=where))
        return misfits

    def decode(self, codes: Codes, *, rng: np.random.Generator) -> pl.Series:
        """Turn codes of shape (count,) into values of the declared type, drawn where a cell holds more than one.

        ``encode(decode(codes)) == codes``.
        """
        codes = np.asarray(codes)
        if not self.nullable or self.open:  # labels that are None are null as they are
            return self._series(codes, rng)
        missing = codes == self.null_code if self.finite else np.isnan(codes)
        if not missing.any():
            return self._series(codes, rng)
        series = self._series(np.where(missing, self.code_type(0), codes), rng)
        return pl.select(pl.when(pl.lit(pl.Series(~missing))).then(pl.lit(series))).to_series()

    def parse(self, texts: pl.Series) -> pl.Series:
        """Read texts without blanks around them as typed values; what cannot be read becomes null.

        Labels are read without the apostrophe that stands before what a spreadsheet would run as a formula.
        """
        return unescaped_series(texts)

    def read(self, values: pl.Series, *, name: str | None = None) -> pl.Series:
        """Return values with their texts read as declared; those of labels are texts. Raises as :meth:`encode`."""
        typed, unread = quietly(partial(self._reading, values), self._unreadable(name))
        if unread.any() and self.out_of_bounds == "error":
            raise DataError(name, *text_problem(self))
        return typed.alias(values.name)

    def _reading(self, values: pl.Series) -> tuple[pl.Series, pl.Series]:
        """Return values with their texts read, and which of them cannot be read."""
        if self.notation:
            return read_texts(self, values)
        texts = values
        if values.dtype == pl.String and not self.textual:
            texts = values.str.strip_chars()
            values = self.parse(texts)
        return values, values.is_null() & texts.is_not_null()

    def write(self, values: pl.Series) -> pl.Series:
        """Return released values as texts in the declared notation; as they are where none is declared."""
        if not self.notation:
            return values
        return as_texts(self, values)

    def draw(self, count: int, rng: np.random.Generator, *, first: int = 1) -> Codes:
        """Draw ``count`` codes from the base measure; on a finite column exactly, in integers.

        ``first`` is the number of the first new label, for open labels only: labels drawn in chunks must not repeat.
        """
        if self._weights is not None:
            return self._weights.draw(count, rng)
        assert self.size is not None
        return rng.integers(self.size, size=count, dtype=np.int64)

    def least(self) -> tuple[Fraction, Fraction | None]:
        """Return the smallest and second smallest masses of the column's cells (None: there is one cell only)."""
        if self.size is None:
            self._refuse("a column without finitely many cells has no smallest mass. Declare cells")
        if self._weights is not None:
            return self._weights.least()
        return Fraction(1, self.size), None if self.size == 1 else Fraction(1, self.size)

    def log_base(self, codes: Codes) -> Floats:
        """Return ``log H(cell)`` of each code, in nats.

        On a continuous column it is the log density with respect to Lebesgue measure, for open labels 0.
        """
        if self._weights is not None:
            return self._weights.log_mass(codes)
        assert self.size is not None
        return np.full(len(codes), -np.log(self.size))

    @property
    def scale(self) -> float:
        """Length of the declared range in the unit of :meth:`positions`; 1 for unordered columns."""
        return 1.0

    def positions(self, codes: Codes) -> Floats:
        """Return the coordinate of each code, the middle of its cell, NaN for a null.

        Days for dates, seconds for datetimes (since 1970-01-01) and durations, the rank for ordered categories. Raises
        DomainError if the column has no order.
        """
        if not self.on_a_line:
            self._refuse("an unordered column has no positions")
        if not self.finite:
            return np.asarray(codes, dtype=np.float64)
        missing, cells = self._without_nulls(codes)
        return np.where(missing, np.nan, self._middles(cells))

    def _middles(self, cells: Any) -> Floats:
        """Return the middles of cells that hold values."""
        return np.asarray(cells)

    def ends(self, codes: Codes) -> tuple[Floats, Floats]:
        """Return the coordinates of the first and the last value of each cell, NaN for a null; of one value, twice."""
        missing, cells = self._without_nulls(codes)
        if (ends := self._first_and_last(cells)) is None:
            return (self.positions(codes),) * 2
        return np.where(missing, np.nan, ends[0]), np.where(missing, np.nan, ends[1])

    def _first_and_last(self, cells: Any) -> tuple[Floats, Floats] | None:
        """Return the ends of cells that hold values, None where each holds one."""
        return None

    def interval(self, codes: Codes) -> tuple[pl.Series, pl.Series] | None:
        """Return where each cell begins and ends, as values, null for a null; None where a cell is one value."""
        return None

    def coordinates(self, values: pl.Series) -> Floats:
        """Return values in the unit of :meth:`positions`, clipped where that is declared, and then nulls too."""
        if self._clipped_to is None:
            return self._numbers(values)
        low, high = self._numbers(pl.Series(self._clipped_to))
        numbers, present = np.full(len(values), low), ~missing_in(values).to_numpy()
        numbers[present] = np.clip(self._numbers(values.filter(present)), low, high)
        return numbers

    @property
    def _clipped_to(self) -> tuple[Any, Any] | None:
        """The bounds that values beyond are moved to, where that is declared."""
        bounded: Any = self
        return (bounded.lower, bounded.upper) if self.out_of_bounds == "clip" else None

    def _numbers(self, values: pl.Series) -> Floats:
        """Return values without nulls as numbers in the unit of :meth:`positions`."""
        return values.cast(pl.Float64).to_numpy()

    def distance(self, a: Codes, b: Codes) -> Floats:
        """Return the ground distance of codes, in [0, 1], row by row: ``|x - y| / scale``, or 0/1 without an order.

        A null is at distance 1 from every value and 0 from a null.
        """
        if not self.on_a_line:
            return np.asarray(np.asarray(a) != np.asarray(b), dtype=np.float64)
        x, y = self.positions(a), self.positions(b)
        missing_x, missing_y = np.isnan(x), np.isnan(y)
        nulls = (missing_x != missing_y).astype(np.float64)
        return np.where(missing_x | missing_y, nulls, np.abs(x - y) / (self.scale or 1.0))

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
        remedy = "Write under from or below where a cell begins, or declare other cells"
        self._refuse(f"{name} {shown(value)} lies within {where}, and conditions are about whole cells. {remedy}")

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration as plain data, defaults left out, ``type`` first."""
        facts: dict[str, Any] = {"type": self.kind}
        shared = fields(Column)  # come last
        for item in [item for item in fields(self) if item not in shared] + [*shared]:
            value = getattr(self, item.name)
            if item.init and (item.default is MISSING or value != item.default):
                facts[item.name] = toml_value(value)
        return facts

    @property
    def code_type(self) -> type[Any]:
        """The type of codes: integers of cells, floats of continuous values, and labels of open ones."""
        return np.int64 if self.finite else np.float64

    @property
    def on_a_line(self) -> bool:
        """Whether values have an order, and so positions."""
        return False

    def _without_nulls(self, codes: Codes) -> tuple[Booleans, npt.NDArray[Any]]:
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
        """Yield what does not fit."""
        yield from ()

    @abstractmethod
    def _series(self, codes: Codes, rng: np.random.Generator) -> pl.Series:
        """Decode codes, none of them null."""

    def _unreadable(self, name: str | None) -> DataError:
        return DataError(name, f"cannot be read as the declared {self.kind}", "check its type and the declaration")

    def _refuse_bounds(self, lower: float, upper: float) -> NoReturn:
        remedy = "Leave a column of one value out" if lower == upper else "Exchange the two"
        if lower == upper and self.kind == "integer":
            remedy += ', or declare type = "category" and categories = [...]'
        self._refuse(f"lower must be below upper. {remedy}")

    def _refuse(self, problem: str) -> NoReturn:
        raise self._error(problem)

    def _error(self, problem: str) -> DomainError:
        return DomainError(f"{self.kind}: {problem}")
