"""Columns without arithmetic: booleans, categories, and open sets of labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from discreet._core.boundary import sealed
from discreet._core.errors import DataError, choice, flag, plain, unfit
from discreet._core.lazy import pl
from discreet._core.numeric import Floats
from discreet._core.random import seeded
from discreet.domain.column import Column
from discreet.domain.texts import INTEGERS, OTHER, WIDEN, Codes, Misfit, PublicFact, encodable, holds, is_text, settle

_UNDECLARED = ("holds a category that is not declared", "declare it (from public knowledge), or recode beforehand")
_RESERVED = ("a label starts with the reserved prefix of new labels", "choose another prefix (from public knowledge)")
_TRUTHS = {"true": True, "1": True, "false": False, "0": False}
_TYPES = {str: ("string", "category"), bool: ("boolean",), int: INTEGERS}
_DEFAULT_TYPES = {str: "string", bool: "boolean", int: "int64"}


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Boolean(Column):
    """A truth value: cell 0 is false, cell 1 is true.

    Parameters
    ----------
    true, false : str, optional
        The texts that stand for them; by default ``true`` and ``false``, or ``1`` and ``0``.
    out_of_bounds : {"error", "null"}
        What a text that is neither true nor false is: an error, or a null.
    nulls, base, null_values, strip
        See :class:`Column`.

    Examples
    --------
    >>> Boolean(nulls="category").encode([True, None, False]).tolist()
    [1, 2, 0]
    """

    kind: ClassVar[str] = "boolean"
    text_form: ClassVar[tuple[str, str]] = ("true or false, or 1 or 0", 'true = "Y" and false = "N"')
    _choices: ClassVar[dict[str, tuple[str, ...]]] = {**Column._choices, "out_of_bounds": ("error", "null")}
    values: ClassVar[int] = 2
    true: str | None = None
    false: str | None = None
    out_of_bounds: str = "error"
    labels: ClassVar[tuple[bool, bool]] = (False, True)
    words: ClassVar[tuple[str, str]] = ("false", "true")

    def _alone(self, value: Any) -> int:
        return int(flag("a value", value, error=self._error))

    def parse(self, texts: pl.Series) -> pl.Series:
        """Read the declared texts, or else ``true`` and ``false``, in any case, and ``1`` and ``0``."""
        if self.true is not None:
            return texts.replace_strict({self.true: True, self.false: False}, default=None, return_dtype=pl.Boolean)
        clean = texts.str.to_lowercase().str.strip_suffix(".0")
        return clean.replace_strict(_TRUTHS, default=None, return_dtype=pl.Boolean)

    def _reading(self, values: pl.Series) -> tuple[pl.Series, pl.Series]:
        if values.dtype.is_float():
            values = values.fill_nan(None)
        if values.dtype.is_numeric():
            values = values.cast(pl.String).str.strip_suffix(".0")
        return Column._reading(self, values)  # numbers are texts such as 1

    def _accepts(self, dtype: pl.DataType) -> bool:
        return dtype == pl.Boolean

    def _codes(self, series: pl.Series, name: str | None) -> Codes:
        return series.cast(pl.Int64).to_numpy()

    def _series(self, codes: Codes, rng: np.random.Generator) -> pl.Series:
        return pl.Series(np.asarray(codes, dtype=bool))


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Category(Column):
    """One of a public list of categories.

    Parameters
    ----------
    categories : sequence of str, int or bool
        The public list, of one type, each once. A confidential value outside it is never a new category.
    ordered : bool
        Whether their order means something: the ground distance is then ``|i - j| / (K - 1)``, else 0 or 1.
    dtype : str, optional
        Type of the released values: "string" or "category" for strings, "boolean" for bools, an integer type for
        integers ("int64" by default).
    out_of_bounds : {"error", "null", "other"}
        What a value outside the list is: an error, a null, or the category ``other``, which is added to a list of texts
        without it. Where the categories are ordered, it has to be in the list already.
    nulls, base, null_values, strip
        See :class:`Column`.

    Raises MissingPublicFact if they are not declared, DomainError if they are not distinct values of one type.

    Examples
    --------
    >>> size = Category(categories=["small", "large"], ordered=True)
    >>> size.encode(["large", "small"]).tolist()
    [1, 0]
    """

    kind: ClassVar[str] = "category"
    text_form: ClassVar[tuple[str, str]] = ("labels as they are declared", 'categories = ["01", "02"]')
    public_facts: ClassVar[tuple[PublicFact, ...]] = (
        PublicFact("categories", "its list of categories", '["first", "second"]', "every category that can occur"),
    )
    _stray: ClassVar[tuple[str, str]] = _UNDECLARED
    categories: Sequence[Any] = None  # type: ignore[assignment]  # None stands for "not declared"
    ordered: bool = False
    dtype: str = None  # type: ignore[assignment]  # None stands for the categories' own type
    out_of_bounds: str = "error"

    def _check(self) -> None:
        raw: Any = self.categories
        unlisted = isinstance(raw, (str, AbstractSet, Mapping))  # the place of a category in its list is its cell
        if unlisted or not hasattr(raw, "__len__") or not len(raw):
            self._refuse("categories must be a list of at least one string, integer or bool")
        categories = tuple(plain(item) for item in raw)
        kinds = {type(item) for item in categories}
        if len(kinds) != 1 or not kinds <= set(_DEFAULT_TYPES):
            self._refuse("categories must be all strings, all integers or all bools. Put numbers among texts in quotes")
        if len(set(categories)) != len(categories):
            self._refuse("categories must be distinct")
        if self.out_of_bounds == OTHER and OTHER not in categories:
            if self.ordered or kinds != {str}:
                self._refuse('no text "other" is among them. Write out_of_bounds = "null"')
            categories += (OTHER,)
        ordered = flag("ordered", self.ordered, error=self._error)
        settle(self, categories=categories, textual=kinds == {str}, ordered=ordered)
        if self._type is str and not all(map(encodable, categories)):
            self._refuse("a category is not valid Unicode text")
        dtype = choice("dtype", self.dtype or _DEFAULT_TYPES[self._type], _TYPES[self._type], error=self._error)
        if self._type is int and not all(holds(kind, min(categories), max(categories)) for kind in ("int64", dtype)):
            self._refuse(f"dtype {dtype}, or 64 bits, cannot hold the categories")
        settle(self, dtype=dtype)

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration as plain data, defaults left out."""
        declared = Column.to_dict(self)
        if declared["dtype"] == _DEFAULT_TYPES[self._type]:
            del declared["dtype"]
        return declared

    @property
    def _type(self) -> type[Any]:
        return type(self.categories[0])

    @property
    def values(self) -> int:
        """Number of categories."""
        return len(self.categories)

    @property
    def labels(self) -> tuple[Any, ...]:
        """The categories."""
        return tuple(self.categories)

    @property
    def extremes(self) -> tuple[int, int] | None:
        """The smallest and the largest category, where they are integers and others are refused."""
        if self._type is not int or self.out_of_bounds != "error":
            return None
        return min(self.categories), max(self.categories)

    @property
    def scale(self) -> float:
        """``K - 1`` when ordered (K the number of categories), else 1."""
        return float(len(self.categories) - 1) if self.ordered else 1.0

    @property
    def on_a_line(self) -> bool:
        """Whether their order means something."""
        return self.ordered

    def _below(self, name: str, value: Any) -> int:
        if not self.ordered:
            return Column._below(self, name, value)
        return self._alone(value)

    def _alone(self, value: Any) -> int:
        value = plain(value)
        if type(value) is not self._type or value not in self.categories:
            raise unfit("a label", "one of its categories", value, error=self._error)
        return self.categories.index(value)

    def parse(self, texts: pl.Series) -> pl.Series:
        """Read strings without the apostrophe before a formula, integers without zeros before them, and bools."""
        if self.textual:
            return Column.parse(self, texts)
        if self._type is bool:
            return Boolean().parse(texts)
        return texts.str.extract(r"^([+-]?(?:0|[1-9]\d*))(?:\.0*)?$").cast(pl.Int64, strict=False)

    def _accepts(self, dtype: pl.DataType) -> bool:
        if self._type is str:
            return is_text(dtype)
        if self._type is bool:
            return dtype == pl.Boolean
        return dtype.is_integer() or dtype.is_float()

    def _codes(self, series: pl.Series, name: str | None) -> Codes:
        codes = self._looked_up(series)
        if codes.null_count():
            problem, remedy = self._stray
            raise DataError(
                name,
                f"{problem}. Messages never show a value of a table",
                f"to see it, run discreet domain check (in Python: check_table). Then {remedy}",
            )
        return codes.to_numpy()

    def _misfits(self, series: pl.Series) -> Iterator[Misfit]:
        yield Misfit(*self._stray, self._looked_up(series).is_null().to_numpy())

    def _looked_up(self, series: pl.Series) -> pl.Series:
        """Return the codes of categories, null for what is none of them."""
        if self._type is str:
            labels = series.cast(pl.String).cast(pl.Enum(self.categories), strict=False)
            return labels.to_physical().cast(pl.Int64)
        numbers = series.cast(pl.Int64, strict=False)
        categories = np.array(self.categories, dtype=np.int64)
        order, codes = np.argsort(categories), numbers.fill_null(0).to_numpy()
        place = np.minimum(np.searchsorted(categories[order], codes), len(categories) - 1)
        declared = pl.Series(categories[order][place] == codes) & numbers.is_not_null()
        if series.dtype.is_float():
            declared &= (numbers == series).fill_null(value=False)
        return pl.select(pl.when(pl.lit(declared)).then(pl.lit(pl.Series(order[place])))).to_series().cast(pl.Int64)

    def _series(self, codes: Codes, rng: np.random.Generator) -> pl.Series:
        if self._type is not str:
            return pl.Series(np.array(self.categories, dtype=np.dtype(self.dtype.replace("boolean", "bool")))[codes])
        labels = pl.Series(self.categories, dtype=pl.String).gather(np.asarray(codes, dtype=np.int64))
        if self.dtype == "category":
            return labels.cast(pl.Enum(self.categories))
        return labels


@dataclass(frozen=True, slots=True, kw_only=True)
class CensoredNumbers(Category):
    """Numbers beside texts such as ``>45``: the cells of both are labels without an order, and values are texts."""

    _stray: ClassVar[tuple[str, str]] = ("holds what is no declared number and no text under censored", WIDEN)
    _choices: ClassVar[dict[str, tuple[str, ...]]] = {**Category._choices, "out_of_bounds": ("error", "null", "clip")}
    numbers: Any

    @classmethod
    def from_numbers(cls, numbers: Any) -> CensoredNumbers:
        """Return a column of numbers that declares such texts as it is encoded."""
        codes = np.arange(numbers.values)
        ends = numbers.interval(codes) or (numbers.decode(codes, rng=seeded(0)),)
        pairs = zip(*(numbers.write(end).cast(pl.String) for end in ends), strict=True)
        labels = [*(" to ".join(dict.fromkeys(pair)) for pair in pairs), *numbers.censored]
        facts = {name: getattr(numbers, name) for name in ("nulls", "null_values", "out_of_bounds")}
        return cls(categories=labels, numbers=numbers, strip=True, **facts)

    @property
    def kind(self) -> str:  # type: ignore[override]
        """That of the numbers."""
        return str(self.numbers.kind)

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration of the numbers."""
        return dict(self.numbers.to_dict())

    def interval(self, codes: Codes) -> tuple[pl.Series, pl.Series] | None:
        """Return the ends of cells as texts, of a text twice; None where cells are single numbers."""
        ends = self.numbers.interval(np.minimum(codes, self.numbers.values - 1))
        return ends and (self._beside(codes, ends[0]), self._beside(codes, ends[1]))

    def _beside(self, codes: Codes, numbers: pl.Series) -> pl.Series:
        """Return numbers as texts; in their place, the texts that codes mean, and nulls."""
        texts = pl.Series([*self.categories, None]).gather(np.asarray(codes, dtype=np.int64))
        plain, is_number = self.numbers.write(numbers).cast(pl.String), pl.lit(pl.Series(codes < self.numbers.values))
        return pl.select(pl.when(is_number).then(plain).otherwise(texts)).to_series()

    def _looked_up(self, series: pl.Series) -> pl.Series:
        places = {text: self.numbers.values + place for place, text in enumerate(self.numbers.censored)}
        codes = series.cast(pl.String).replace_strict(places, default=None, return_dtype=pl.Int64)
        where, values = np.flatnonzero(codes.is_null()), series.filter(codes.is_null())
        if self.out_of_bounds == "error":
            fits = ~np.logical_or.reduce([misfit.where for misfit in self.numbers.misfits(values)])
            where, values = where[fits], values.filter(pl.Series(fits))
        numbers = self.numbers.encode(values)
        return codes.scatter(where, np.where(numbers == self.numbers.values, self.values, numbers))

    def _series(self, codes: Codes, rng: np.random.Generator) -> pl.Series:
        return self._beside(codes, self.numbers.decode(np.minimum(codes, self.numbers.values - 1), rng=rng))


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLabels(Column):
    """An open set of string labels: which ones occur is confidential, and new ones get invented names.

    A draw from the base measure is a label nobody holds: ``prefix + "1"``, ``prefix + "2"``, ... The prefix is a public
    reserved namespace: no confidential label may start with it, so that naming never looks at the confidential labels.

    Parameters
    ----------
    prefix : str
        The namespace of new labels.
    out_of_bounds : {"error", "null", "other"}
        What a label of this namespace is: an error, a null, or the label ``other``.
    nulls, null_values, strip
        See :class:`Column`.

    Examples
    --------
    >>> from discreet._core.random import seeded
    >>> OpenLabels().draw(2, seeded(0)).tolist()
    ['new_category_1', 'new_category_2']
    """

    kind: ClassVar[str] = "open_labels"
    text_form: ClassVar[tuple[str, str]] = ("labels", "")
    values: ClassVar[None] = None
    prefix: str = "new_category_"
    out_of_bounds: str = "error"

    open: ClassVar[bool] = True
    code_type: ClassVar[type[Any]] = object

    def _check(self) -> None:
        if not isinstance(self.prefix, str) or not self.prefix or not encodable(self.prefix):
            self._refuse("prefix must be a text of at least one character")
        settle(self, prefix=str(self.prefix), textual=True)

    def _check_base(self) -> None:
        self._refuse("open labels have no base measure to declare. Leave base out")

    def draw(self, count: int, rng: np.random.Generator, *, first: int = 1) -> Codes:
        """Name ``count`` new labels, the first of them numbered ``first``."""
        labels = np.empty(count, dtype=object)
        labels[:] = [f"{self.prefix}{number}" for number in range(first, first + count)]
        return labels

    def log_base(self, codes: Codes) -> Floats:
        """Return zeros: names carry no mass."""
        return np.zeros(len(codes))

    def _alone(self, value: Any) -> int:
        self._refuse("open labels have no cells. Declare the labels as a category")

    def _accepts(self, dtype: pl.DataType) -> bool:
        return is_text(dtype)

    def _codes(self, series: pl.Series, name: str | None) -> Codes:
        texts = series.cast(pl.String)
        if texts.str.starts_with(self.prefix).any():
            raise DataError(name, *_RESERVED)
        return cast("Codes", texts.to_numpy().astype(object))

    def _misfits(self, series: pl.Series) -> Iterator[Misfit]:
        yield Misfit(*_RESERVED, series.cast(pl.String).str.starts_with(self.prefix).to_numpy())

    def _series(self, codes: Codes, rng: np.random.Generator) -> pl.Series:
        return pl.Series(list(codes), dtype=pl.String)
