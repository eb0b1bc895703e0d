"""Numeric columns: an interval that is continuous, cut into cells, or read on a public grid or rounding step."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal as Exact
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from discreet._core.boundary import sealed
from discreet._core.errors import DataError, as_float, integer, real, unfit
from discreet._core.lazy import pl
from discreet._core.numeric import Floats, Integers
from discreet._core.reading import MOST_CELLS
from discreet.domain.column import Column
from discreet.domain.texts import INTEGERS, NUMBERS, WIDEN, Codes, Misfit, PublicFact, holds, outside, settle

if TYPE_CHECKING:
    from discreet.domain.base_measure import Density

_FLOATS = ("float64", "float32")
_MOST_POINTS = 2**52
_SAME = 1e-9  # of a width, between a declared number and the edge or the point that it is
_LARGEST = 1.0 - 2.0**-53  # that a uniform draw from [0, 1) can be
_BLOCK = 1 << 15  # values whose cells are found together: what that takes stays near the processor


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Numeric(Column):
    r"""A number between public bounds.

    Without ``cells``, ``grid`` or ``step`` the column is continuous, and its base measure non-atomic: a release on such
    a domain may repeat confidential values exactly. With ``cells`` it has that many: cell c is
    :math:`[e_c, e_{c+1})` with :math:`e_c = l + c (u - l)/K` (linear) or :math:`e_c = l (u/l)^{c/K}` (log); the last
    cell holds ``upper`` too. With ``grid`` or with ``step`` alone, a value is rounded to the nearest public point.

    Parameters
    ----------
    lower, upper : float
        Public bounds, ``lower < upper``, in the column's unit.
    cells : int, optional
        Number of cells.
    spacing : {"linear", "log"}
        How the cells are spaced; "log" needs ``lower > 0``.
    grid : sequence of float, optional
        Public points between the bounds, increasing. A value is rounded to the nearest (the smaller one in a tie).
    step : float, optional
        Public rounding step. Alone: the points ``lower, lower + step, ...`` up to ``upper``, computed in decimal. With
        ``cells``: a value drawn within a cell is rounded to one of these points, staying in its cell where the cell
        holds one.
    within : {"uniform", "midpoint"}
        What a cell is decoded to.
    dtype : str
        Type of the released values: float64, float32, or an integer type where every released value is whole.
    out_of_bounds : {"error", "clip"}
        What a value outside the bounds is: an error, or moved to the nearest bound.
    atoms : sequence of float
        Public values between the bounds that many records share, such as 0. Each is a cell of its own among ``cells``:
        the cell that it lies in ends before it, and one more begins after it.
    coin : bool
        Whether each cell but an atom is two halves, between which a coin decides for each confidential record, such
        that the mean does not depend on where in their cells values lie.
    decimal_mark, thousands, prefix, suffix, censored : str, sequence of str
        How numbers are written; and texts such as ``">45"`` that are cells, which then are labels without an order.
    nulls, null_values, strip
        See :class:`Column`; a NaN is a null.
    base : mapping or frozen scipy.stats distribution, optional
        Base measure: ``{"weights": [...]}`` with cells; on a continuous column a frozen continuous distribution, or
        ``{"distribution": "lognorm", "s": 1.2}``, truncated to the bounds. Uniform by default.

    Raises MissingPublicFact if a bound is not declared, DomainError if the facts contradict each other.

    Examples
    --------
    >>> import numpy as np
    >>> income = Numeric(lower=1, upper=1000, cells=3, spacing="log")
    >>> income.encode([1.0, 99.0, 1000.0]).tolist()
    [0, 1, 2]
    >>> income.size
    3
    >>> Numeric(lower=0, upper=100, cells=2, atoms=[0]).encode([0.0, 0.01, 50.0, 100.0]).tolist()
    [0, 1, 2, 2]
    """

    kind: ClassVar[str] = "numeric"
    text_form: ClassVar[tuple[str, str]] = ("numbers written 1234.5", 'prefix = "$"')
    on_a_line: ClassVar[bool] = True
    public_facts: ClassVar[tuple[PublicFact, ...]] = NUMBERS
    _choices: ClassVar[dict[str, tuple[str, ...]]] = {
        **Column._choices,
        "spacing": ("linear", "log"),
        "within": ("uniform", "midpoint"),
        "dtype": _FLOATS + INTEGERS,
        "out_of_bounds": ("error", "null", "clip"),
    }
    lower: float = None  # type: ignore[assignment]  # None stands for "not declared", refused at construction
    upper: float = None  # type: ignore[assignment]
    cells: int | None = None
    spacing: str = "linear"
    grid: Sequence[float] | None = None
    step: float | None = None
    within: str = "uniform"
    dtype: str = "float64"
    out_of_bounds: str = "error"
    decimal_mark: str = "."
    thousands: str = ""
    prefix: str = ""
    suffix: str = ""
    censored: Sequence[str] = ()
    atoms: Sequence[float] = ()
    coin: bool = False
    _edges: Any = field(init=False, repr=False, compare=False, default=None)
    _ends: tuple[Floats, Floats] | None = field(init=False, repr=False, compare=False, default=None)
    _inside: Any = field(init=False, repr=False, compare=False, default=None)
    _guesses: bool = field(init=False, repr=False, compare=False, default=False)
    _overshoots: bool = field(init=False, repr=False, compare=False, default=True)
    _lattice: tuple[int, int, int, int] | None = field(init=False, repr=False, compare=False, default=None)
    _density: Density | None = field(init=False, repr=False, compare=False, default=None)

    @property
    def logarithmic(self) -> bool:
        """Whether the cells are spaced evenly in the logarithm."""
        return self.spacing == "log"

    def _check(self) -> None:
        settle(self, **{name: real(name, getattr(self, name), error=self._error) for name in ("lower", "upper")})
        if not self.lower < self.upper:
            self._refuse_bounds(self.lower, self.upper)
        if not np.isfinite(self.upper - self.lower):
            self._refuse("the distance from lower to upper must be a finite number")
        if self.step is not None:
            self._set_lattice(real("step", self.step, error=self._error))
        if self.grid is not None:
            self._set_grid(self.grid)
        if self.atoms:
            self._set_atoms()
        if self.coin and (self.step, self.grid, self.within) != (None, None, "uniform"):
            raise self._error("a coin is for cells of intervals. Leave it out, or grid, step and within")
        if self.cells is not None:
            self._set_cells(integer("cells", self.cells, least=1, most=MOST_CELLS, error=self._error))
        elif self.spacing == "log":
            self._refuse('spacing = "log" needs cells')
        if self.dtype not in _FLOATS:
            self._check_whole()

    def _check_base(self) -> None:
        if self.finite:
            Column._check_base(self)
            return
        from discreet.domain.base_measure import Density

        spec = Density.plain(self.base, refuse=self._refuse)
        density = Density.parse(spec, lower=self.lower, upper=self.upper, refuse=self._refuse)
        settle(self, base=spec, _density=density)

    def _set_lattice(self, step: float) -> None:
        lower, upper, width = Exact(repr(self.lower)), Exact(repr(self.upper)), Exact(repr(step))
        if step <= 0 or width > upper - lower:
            self._refuse("step must be positive and at most upper - lower")
        exponents = [part.as_tuple().exponent for part in (lower, width)]
        places = max(0, *(-power for power in exponents if isinstance(power, int)))
        points = int((upper - lower) / width) + 1
        start, stride = int(lower.scaleb(places)), int(width.scaleb(places))
        if points > _MOST_POINTS or places > 22 or max(abs(start), start + points * stride) > 2**62:
            self._refuse("step is too short for the bounds. Round the bounds or lengthen it")
        settle(self, step=step, _lattice=(start, stride, points, places))

    def _set_grid(self, grid: Any) -> None:
        if self.cells is not None or self.step is not None or self.spacing != "linear":
            self._refuse("a grid cannot be combined with cells, spacing or step. Leave them out")
        points: tuple[float, ...] = ()
        if hasattr(grid, "__len__") and not isinstance(grid, str):
            points = tuple(map(as_float, grid))
        if not points or not all(map(math.isfinite, points)):
            self._refuse("grid must be a list of numbers")
        if not self.lower <= points[0] <= points[-1] <= self.upper or any(a >= b for a, b in pairwise(points)):
            self._refuse("grid must be increasing and lie between lower and upper")
        settle(self, grid=points)

    def _set_atoms(self) -> None:
        """Settle atoms in order, those of a grid or a step as its points."""
        atoms = sorted({as_float(atom) + 0.0 for atom in self.atoms})
        for place, atom in enumerate(atoms):
            fits = self.lower <= atom <= self.upper
            if fits and (self.grid or self._lattice):
                code, point = self._nearest(atom)
                fits, atoms[place] = point == atom, float(self._points(np.array([code]))[0])
            if not fits:
                raise unfit("an atom", "a value that the column can have", atom, error=self._error)
            if self.dtype == "float32" and float(np.float32(atom)) != atom:
                raise unfit("an atom", 'a float32, unless dtype is "float64"', atom, error=self._error)
        settle(self, atoms=tuple(atoms))

    def _with_more(self, edges: Floats) -> Floats:
        """Return edges with those of atoms, at which the next number begins, and of halves."""
        atoms = np.array(self.atoms)
        for atom in atoms:  # an edge that is an atom but for rounding moves
            edges[1:-1][(np.abs(edges - atom) <= _SAME * np.gradient(edges))[1:-1]] = atom
        edges = np.unique(np.concatenate((edges, atoms, np.nextafter(atoms, np.inf))))
        edges = np.append(edges[edges <= self.upper], atoms[atoms == self.upper])
        if self.coin:
            wide = ~np.isin(edges[:-1], atoms)
            edges = np.sort(np.append(edges, (edges[:-1] + np.diff(edges) / 2.0)[wide]))
            self._set_halves(self.coin, wide)
        return edges

    def _set_cells(self, cells: int) -> None:
        if self.spacing == "log":
            if self.lower <= 0:
                self._refuse('spacing = "log" needs lower > 0')
            edges = np.exp(np.linspace(np.log(self.lower), np.log(self.upper), cells + 1))
        else:
            edges = np.linspace(self.lower, self.upper, cells + 1)
        edges[0], edges[-1] = self.lower, self.upper
        if not np.all(np.diff(edges) > 0):
            self._refuse("there are too many cells: some would be narrower than a float64. Declare fewer")
        if self.atoms or self.coin:
            edges = self._with_more(edges)
        # What a decoded value may be: at least low, at most high, both included, in the released type.
        low, high = edges[:-1].copy(), np.nextafter(edges[1:], -np.inf)
        high[-1] = self.upper
        if self.dtype == "float32":
            smallest, largest = low.astype(np.float32), high.astype(np.float32)
            smallest = np.where(smallest < low, np.nextafter(smallest, np.float32(np.inf)), smallest)
            largest = np.where(largest > high, np.nextafter(largest, np.float32(-np.inf)), largest)
            low, high = smallest.astype(np.float64), largest.astype(np.float64)
        if np.any(low > high):
            self._refuse("there are too many cells: some hold no float32. Declare fewer, or take dtype = 'float64'")
        last = np.where(np.isin(edges[:-1], self.atoms), edges[:-1], edges[1:])
        settle(self, cells=cells, _edges=edges, _ends=(edges[:-1], last), _inside=(low, high))
        # Subtraction, division and rounding down are monotone: what holds at both ends of a cell holds within it.
        ends = edges[:-1], np.append(np.nextafter(edges[1:-1], -np.inf), self.upper)
        exact = [np.array_equal(self._guess(values), np.arange(cells)) for values in ends]
        overshoots = self.within == "midpoint" or bool(np.any(low + _LARGEST * (high - low) > high))
        settle(self, _guesses=self.spacing == "linear" and all(exact), _overshoots=overshoots)
        if self._lattice is not None:
            low_point = np.maximum(self._index_near(low), 0)
            low_point += self._points(low_point) < low
            high_point = np.minimum(self._index_near(high), self._lattice[2] - 1)
            high_point -= self._points(high_point) > high
            settle(self, _inside=(low_point, high_point))

    def _check_whole(self) -> None:
        """Check that an integer type holds every released value."""
        if not holds(self.dtype, self.lower, self.upper):
            self._refuse(f"dtype {self.dtype} cannot hold the bounds")
        points: Sequence[float] = (0.5,)
        if self.grid is not None:
            points = self.grid
        elif self.step is not None:
            points = (self.lower, self.step)
        outside_lattice = self._inside is not None and np.any(self._inside[0] > self._inside[1])
        if outside_lattice or not all(float(point).is_integer() for point in points):
            self._refuse(f'dtype {self.dtype} needs whole points. Declare step = 1, or type = "integer"')

    @property
    def values(self) -> int | None:
        """Number of cells or points; None when continuous."""
        if self._edges is not None:
            return len(self._edges) - 1
        if self.grid is not None:
            return len(self.grid)
        return self._lattice and self._lattice[2]

    @property
    def scale(self) -> float:
        """``upper - lower``."""
        return self.upper - self.lower

    @property
    def edges(self) -> Floats:
        """The edges of the cells, ``cells + 1`` where there are no atoms."""
        if self._edges is None:
            self._refuse("a column without cells has no edges")
        return np.array(self._edges)

    def _first_and_last(self, cells: Any) -> tuple[Floats, Floats] | None:
        if self._ends is None or self.within == "midpoint":
            return None
        return self._ends[0][cells], self._ends[1][cells]

    def interval(self, codes: Codes) -> tuple[pl.Series, pl.Series] | None:
        """Return the edges of each cell, None where cells are points or midpoints."""
        if self._edges is None or self.within == "midpoint":
            return None
        low, high = self.ends(codes)
        atoms = np.nextafter(low, -np.inf)
        low = np.where(np.isin(atoms, self.atoms), atoms, low)
        return pl.Series(low).fill_nan(None), pl.Series(high).fill_nan(None)

    def _below(self, name: str, value: Any) -> int:
        x, cells = real(name, value, error=self._error), self.values or 0
        if x <= self.lower:
            return 0
        if x > self.upper:
            return cells
        if self._edges is None:
            code, point = self._nearest(x)
            return code + (point < x)
        cell = int(np.searchsorted(self._edges[1:-1], x, side="right"))
        low, high = self._edges[cell], self._edges[cell + 1]
        near_low, near_high = (abs(edge - x) <= _SAME * (high - low) for edge in (low, high))
        if not (near_low or (near_high and cell < cells - 1)):  # the last cell holds the upper bound too
            self._splits(name, value, cell)
        return cell + (not near_low)

    def _alone(self, value: Any) -> int:
        x = real("a value", value, error=self._error)
        if self._edges is not None:
            cell = int(np.searchsorted(self._edges[1:-1], x, side="right"))
            if x not in self.atoms:
                self._splits("a value", value, cell)
            return cell
        code, point = self._nearest(min(max(x, self.lower), self.upper))
        if point != x:
            raise unfit("a value", "one that the column can have", value, error=self._error)
        return code

    def _nearest(self, x: float) -> tuple[int, float]:
        """Return the code of the point that is nearest to a number between the bounds, and the point."""
        code = int(self._index_near(np.array([x]))[0])
        point = float(self._points(np.array([code]))[0])
        if abs(point - x) <= _SAME * (self.step or 0.0):
            return code, x
        return code, point

    def parse(self, texts: pl.Series) -> pl.Series:
        """Read decimal or scientific notation."""
        return texts.cast(pl.Float64, strict=False)

    def _accepts(self, dtype: pl.DataType) -> bool:
        return dtype.is_numeric()

    def _codes(self, series: pl.Series, name: str | None) -> Codes:
        x = series.cast(pl.Float64).to_numpy()
        if len(x) and not (x.min() >= self.lower and x.max() <= self.upper):
            if self.out_of_bounds != "clip":
                raise DataError(name, "a value lies outside the declared bounds, or is infinite", WIDEN)
            x = np.clip(x, self.lower, self.upper)
        if not self.finite:
            return x + 0.0  # a copy, and no negative zero
        return self._cells_of(x) if self._edges is not None else self._index_near(x)

    def _misfits(self, series: pl.Series) -> Iterator[Misfit]:
        x = series.cast(pl.Float64).to_numpy()
        infinite = np.isinf(x)
        yield Misfit("a value is infinite", "correct it, or recode it as a null", infinite)
        yield from outside((x < self.lower) & ~infinite, (x > self.upper) & ~infinite)

    def _cells_of(self, x: Floats) -> Integers:
        """Find the cell of each value: a guess by arithmetic, and an exact search where the guess fails its check."""
        low, high = self._edges[:-1], np.append(self._edges[1:-1], np.inf)
        if self.atoms or self.coin:
            return np.searchsorted(low[1:], x, side="right").astype(np.int64, copy=False)
        codes = np.empty(len(x), dtype=np.int64)
        for start in range(0, len(x), _BLOCK):
            part = slice(start, start + _BLOCK)
            values, cells = x[part], codes[part]
            cells[:] = self._guess(values)
            if self._guesses:
                continue
            wrong = (values < low[cells]) | (values >= high[cells])
            if wrong.any():
                cells[wrong] = np.searchsorted(low[1:], values[wrong], side="right")
        return codes

    def _guess(self, x: Floats) -> Integers:
        """Return what arithmetic takes for the cells of values between the bounds."""
        assert self.cells is not None
        if self.spacing == "log":
            guess = np.log(x)
            guess -= np.log(self.lower)
            guess *= self.cells / (np.log(self.upper) - np.log(self.lower))
        else:
            guess = (x - self.lower) / ((self.upper - self.lower) / self.cells)
        codes = guess.astype(np.int64)
        return np.clip(codes, 0, self.cells - 1, out=codes)

    def _series(self, codes: Codes, rng: np.random.Generator) -> pl.Series:
        if not self.finite:
            values: npt.NDArray[Any] = np.asarray(codes, dtype=np.float64)
        elif self._edges is None:
            values = self._middles(codes)
        else:
            values = self._in_cells(codes, rng)
        return pl.Series(values.astype(self.dtype, copy=False))

    def _in_cells(self, codes: Integers, rng: np.random.Generator) -> Floats:
        """Return a value of each cell: its middle, or drawn; a point of the lattice where one lies in the cell."""
        low, high = self._inside
        draw_low, draw_high = self._inside if self._lattice is None else (self._edges[:-1], self._edges[1:])
        if self.within == "midpoint":
            x = self._middles(codes)
        else:
            x = rng.random(len(codes))
            x *= (draw_high - draw_low)[codes]
            x += draw_low[codes]
        if self._lattice is not None:
            index = np.clip(self._index_near(x), low[codes], high[codes])
            return np.where(low[codes] > high[codes], x, self._points(index))
        if self._overshoots:
            np.clip(x, low[codes], high[codes], out=x)
        return x

    def _middles(self, codes: Integers) -> Floats:
        if self._ends is None:
            return self._points(codes)
        return self._ends[0][codes] + (self._ends[1][codes] - self._ends[0][codes]) / 2

    def _index_near(self, x: Floats) -> Integers:
        """Return the index of the nearest public point, on a grid the smaller one in a tie."""
        if self.grid is not None:
            points = np.array(self.grid)
            return np.searchsorted((points[:-1] + points[1:]) / 2, x, side="left").astype(np.int64, copy=False)
        assert self._lattice is not None
        assert self.step is not None
        return np.clip(np.rint((x - self.lower) / self.step).astype(np.int64), 0, self._lattice[2] - 1)

    def _points(self, index: Integers) -> Floats:
        """Return public points, those of a step each the float64 nearest to its decimal value."""
        if self.grid is not None:
            return np.array(self.grid)[index]
        assert self._lattice is not None
        start, stride, _, places = self._lattice
        return np.asarray((start + index * stride) / 10.0**places)

    def draw(self, count: int, rng: np.random.Generator, *, first: int = 1) -> Codes:
        """Draw codes from the base measure: exactly on cells, by inversion from a density."""
        if self.finite:
            return Column.draw(self, count, rng, first=first)
        if self._density is not None:
            return self._density.draw(count, rng)
        return np.clip(self.lower + self.scale * rng.random(count), self.lower, self.upper)

    def log_base(self, codes: Codes) -> Floats:
        """Return log masses of cells, or log densities; minus infinity for a null of a continuous column."""
        if self.finite:
            return Column.log_base(self, codes)
        if self._density is not None:
            return self._density.log_density(codes)
        inside = (codes >= self.lower) & (codes <= self.upper)
        return np.where(inside, -np.log(self.scale), -np.inf)
