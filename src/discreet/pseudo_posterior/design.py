"""How a table is written for a regression, from public facts alone: transformation and unit, coding of predictors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Floats
from discreet._core.boundary import sealed
from discreet._core.checks import choice, real
from discreet._core.errors import ParameterError
from discreet.pseudo_posterior.likelihood import Columns
from discreet.pseudo_posterior.synthesiser import Synthesiser

_PEAK = 1.0 / math.sqrt(2.0 * math.pi)


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    r"""A numeric column on the scale of its model: :math:`y=(t(v)-\text{centre})/\text{unit}`.

    A log-density depends on the unit of measurement, and so does every bound made from it. Here the unit is public and
    stated. With scales of at least :math:`\sigma_0=1/\sqrt{2\pi}` units, no normal density exceeds one, and repeated
    values (zeros, rounded numbers) cannot draw a scale to 0, where the posterior would not exist.

    Parameters
    ----------
    column : str
        The column.
    transform : {"identity", "log", "asinh"}
        ``t``: the value, its logarithm (values above 0), or ``asinh(v / scale)`` for any sign.
    scale : float
        For "asinh": where it turns from linear to logarithmic, in the column's unit.
    centre, unit : float
        On the transformed scale; the unit is above 0.
    lower, upper : float
        Public bounds of the column, to which values are clipped for the model. Records that it draws outside of them
        are drawn again.
    least_scale : float
        :math:`\sigma_0`, in units.

    Examples
    --------
    >>> income = Response(column="income", transform="asinh", scale=1000.0, lower=-1e6, upper=1e7)
    >>> [float(v) for v in income.decode(income.encode([-2000.0, 0.0, 55000.0])).round(6)]
    [-2000.0, 0.0, 55000.0]
    """

    column: str
    transform: str = "identity"
    scale: float = 1.0
    centre: float = 0.0
    unit: float = 1.0
    lower: float = -math.inf
    upper: float = math.inf
    least_scale: float = _PEAK

    def __post_init__(self) -> None:
        choice(f"the transform of column {self.column!r}", self.transform, ("identity", "log", "asinh"))
        for name in ("unit", "scale", "least_scale"):
            real(f"{name} of column {self.column!r}", getattr(self, name), above=0)
        if not self.lower < self.upper:
            raise ParameterError(f"column {self.column!r}: lower must be below upper")
        if self.transform == "log" and not self.lower > 0:
            raise ParameterError(f"column {self.column!r}: a logarithm needs a lower bound above 0. Take 'asinh'")

    @classmethod
    def between(cls, column: str, lower: float, upper: float, *, transform: str | None = None) -> Response:
        """Return a transformation, centre and unit for public bounds: the bounds are 32 units apart.

        The logarithm where ``lower`` is above 0 and ``upper`` 100 times as large, "asinh" with a thousandth of the
        larger bound as its scale where the bounds are as far apart as that, and else the value itself.
        """
        if transform is None and lower > 0 and upper >= 100 * lower:
            transform = "log"
        elif transform is None:
            transform = "asinh" if upper - lower >= 1e4 else "identity"
        scale = max(abs(lower), abs(upper)) / 1000.0 if transform == "asinh" else 1.0
        response = cls(column=column, transform=transform, scale=scale, lower=lower, upper=upper)
        low, high = (float(end) for end in response.encode(np.array([lower, upper])))
        return replace(response, centre=(low + high) / 2, unit=(high - low) / 32)

    @property
    def bounded(self) -> bool:
        """Whether no normal density on this scale exceeds one."""
        return self.least_scale >= _PEAK

    def encode(self, values: npt.ArrayLike) -> Floats:
        """Return values on the scale of the model."""
        v = np.clip(np.asarray(values, dtype=np.float64), self.lower, self.upper)
        if self.transform == "log":
            v = np.log(v)
        elif self.transform == "asinh":
            v = np.arcsinh(v / self.scale)
        return np.asarray((v - self.centre) / self.unit)

    def decode(self, y: npt.ArrayLike) -> Floats:
        """Return values in the column's own unit; those that a model draws outside its bounds as they are."""
        t = np.asarray(y, dtype=np.float64) * self.unit + self.centre
        if self.transform == "identity":
            return t
        t = np.clip(t, -700.0, 700.0)
        return np.exp(t) if self.transform == "log" else self.scale * np.sinh(t)


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Predictor:
    """One given column as columns of a design.

    Parameters
    ----------
    column : str
        The column.
    categories : int, optional
        Number of categories of codes ``0 .. categories-1``: an indicator of each but the first.
    edges : sequence of float, optional
        Public cut points of a numeric column: an indicator of each interval but the first.
    lower, upper : float, optional
        Public bounds of a numeric column that enters linearly, scaled to [-1, 1].
    nulls : bool
        Whether a NaN of a numeric column is a category of its own: one more indicator, beside the middle of the bounds
        or the first interval. (A null of a category has a code of its own already.)

    Examples
    --------
    >>> Predictor(column="age", lower=0.0, upper=100.0, nulls=True).coded(np.array([25.0, np.nan])).tolist()
    [[-0.5, 0.0], [0.0, 1.0]]
    """

    column: str
    categories: int | None = None
    edges: Sequence[float] | None = None
    lower: float | None = None
    upper: float | None = None
    nulls: bool = False

    def __post_init__(self) -> None:
        bounds = self.lower is not None and self.upper is not None
        if (self.categories is not None) + (self.edges is not None) + bounds != 1:
            raise ParameterError(f"column {self.column!r} needs its categories, its edges, or its two bounds")
        if self.nulls and self.categories is not None:
            raise ParameterError(
                f"column {self.column!r}: list the null among its categories instead of declaring nulls"
            )

    def coded(self, values: npt.NDArray[Any]) -> Floats:
        """Return its columns of the design, shape (n, width)."""
        if not self.nulls:
            return self._present(values)
        missing = np.isnan(values)[:, None]
        return np.concatenate([np.where(missing, 0.0, self._present(values)), missing], axis=1)

    def _present(self, values: npt.NDArray[Any]) -> Floats:
        if self.categories is None and self.edges is None:
            assert self.lower is not None
            assert self.upper is not None
            middle, half = (self.lower + self.upper) / 2, (self.upper - self.lower) / 2
            return ((np.asarray(values, dtype=np.float64) - middle) / half)[:, None]
        codes, count = np.asarray(values), self.categories
        if self.edges is not None:
            codes, count = np.digitize(codes, self.edges), len(self.edges) + 1
        return np.asarray(codes[:, None] == np.arange(1, count)[None, :], dtype=np.float64)


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """An intercept and the given columns.

    Parameters
    ----------
    predictors : sequence of Predictor
        None for an intercept alone.
    """

    predictors: Sequence[Predictor] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The given columns."""
        return tuple(predictor.column for predictor in self.predictors)

    def matrix(self, columns: Columns, count: int) -> Floats:
        """Return the design, shape (n, 1 + widths)."""
        parts = [predictor.coded(np.asarray(columns[predictor.column])) for predictor in self.predictors]
        return np.concatenate([np.ones((count, 1)), *parts], axis=1)


# What regressions share: a design of given columns, and a response on the scale of the model.


@dataclass(frozen=True, slots=True, kw_only=True)
class OnDesign(Synthesiser):
    """A model of some columns given the columns of a design."""

    design: Design

    @property
    def given(self) -> tuple[str, ...]:
        """The columns of the design."""
        return self.design.columns

    def public(self, columns: Columns, count: int) -> dict[str, npt.NDArray[Any]]:
        """Return the design matrix."""
        return {"design": self.design.matrix(columns, count)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseRegression(OnDesign):
    """A model of one numeric column, the response, given the columns of a design."""

    response: Response

    @property
    def sensitive(self) -> tuple[str, ...]:
        """The response."""
        return (self.response.column,)

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """Those of the response."""
        return {self.response.column: (self.response.lower, self.response.upper)}

    @property
    def log_density_at_most_zero(self) -> bool:
        """True where the least scale keeps every density below one."""
        return self.response.bounded

    def coded(self, name: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the response on the scale of the model."""
        return self.response.encode(values)

    def decoded(self, name: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the response in the unit of the table."""
        return self.response.decode(values)
