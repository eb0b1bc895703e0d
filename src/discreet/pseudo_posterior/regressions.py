"""Synthesisers by means and regressions, and how a table is written for them, from public facts alone."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from discreet._core.boundary import sealed
from discreet._core.errors import ParameterError, choice, integer, real
from discreet._core.lazy import dist, jnp, numpyro
from discreet._core.numeric import Arrays, Floats
from discreet.pseudo_posterior.likelihood import Columns, Data
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
            raise ParameterError(f"column {self.column!r}: list the null among its categories, not in nulls")

    def coded(self, values: npt.NDArray[Any]) -> Floats:
        """Return its columns of the design, shape (n, width)."""
        if self.lower is not None and self.upper is not None:
            middle, half = (self.lower + self.upper) / 2, (self.upper - self.lower) / 2
            columns = ((np.asarray(values, dtype=np.float64) - middle) / half)[:, None]
        else:
            codes, count = np.asarray(values), self.categories or 0
            if self.edges is not None:
                codes, count = np.digitize(codes, self.edges), len(self.edges) + 1
            columns = np.asarray(codes[:, None] == np.arange(1, count), dtype=np.float64)
        if not self.nulls:
            return columns
        missing = np.isnan(values)[:, None]
        return np.concatenate([np.where(missing, 0.0, columns), missing], axis=1)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class OnDesign(Synthesiser):
    """A model of some columns given the columns of a design; numeric ones are responses, on a scale of their own."""

    design: Design

    @property
    @abstractmethod
    def responses(self) -> tuple[Response, ...]:
        """The numeric columns among the sensitive ones."""

    @property
    def given(self) -> tuple[str, ...]:
        """The columns of the design."""
        return self.design.columns

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """Those of the responses."""
        return {response.column: (response.lower, response.upper) for response in self.responses}

    @property
    def log_density_at_most_zero(self) -> bool:
        """True where the least scale keeps the density of every response below one."""
        return all(response.bounded for response in self.responses)

    def public(self, columns: Columns, count: int) -> Arrays:
        """Return the design matrix."""
        return {"design": self.design.matrix(columns, count)}

    def coded(self, name: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return a column on the scale of the model: responses are transformed."""
        return next((response.encode(values) for response in self.responses if response.column == name), values)

    def decoded(self, name: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return a column in the unit of the table."""
        return next((response.decode(values) for response in self.responses if response.column == name), values)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseRegression(OnDesign):
    """A model of one numeric column, the response, given the columns of a design."""

    response: Response

    @property
    def responses(self) -> tuple[Response, ...]:
        """The response."""
        return (self.response,)

    @property
    def sensitive(self) -> tuple[str, ...]:
        """The response's column."""
        return (self.response.column,)


@dataclass(frozen=True, slots=True, kw_only=True)
class _OneColumn(Synthesiser):
    """A law of one column that has probabilities, not densities."""

    log_density_at_most_zero: ClassVar[bool] = True

    column: str

    @property
    def sensitive(self) -> tuple[str, ...]:
        return (self.column,)


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class PoissonMean(_OneColumn):
    r"""Counts with one mean: :math:`x_i\sim\mathrm{Poisson}(\mu)`, :math:`\mu\sim\mathrm{Gamma}(a,b)`.

    The weighted posterior is :math:`\mathrm{Gamma}(a+\sum\alpha_ix_i,\;b+\sum\alpha_i)`, drawn from exactly.

    Parameters
    ----------
    column : str
        The column of counts.
    shape, rate : float
        The prior's ``a`` and ``b``.

    Examples
    --------
    >>> import numpy as np
    >>> PoissonMean(column="x", shape=2.0, rate=1.0).posterior(np.array([3.0, 5.0]), np.array([1.0, 0.5]))
    (7.5, 2.5)
    """

    shape: float = 0.01
    rate: float = 0.0001

    def model(self, data: Data) -> None:
        """Run the model."""
        mean = numpyro.sample("mean", dist.Gamma(self.shape, self.rate))
        numpyro.sample(self.column, dist.Poisson(mean).expand([len(data[self.column])]), obs=data[self.column])

    def start(self, data: Data, *, chain: int) -> Arrays:
        """Start at the mean of the records."""
        return {"mean": np.asarray(float(np.mean(data[self.column])) + 0.5)}

    def posterior(self, counts: Floats, weights: Floats) -> tuple[float, float]:
        """Return shape and rate of the weighted posterior."""
        return self.shape + float(weights @ counts), self.rate + float(weights.sum())

    def conjugate(self, data: Data, weights: Floats, *, draws: int, rng: np.random.Generator) -> dict[str, Floats]:
        """Draw the mean from its gamma distribution."""
        shape, rate = self.posterior(np.asarray(data[self.column], dtype=np.float64), weights)
        return {"mean": rng.gamma(shape, 1.0 / rate, size=draws)}


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class CategoricalShares(_OneColumn):
    r"""One categorical column: :math:`x_i\sim p`, :math:`p\sim\mathrm{Dirichlet}(a,\dots,a)`.

    The weighted posterior is :math:`\mathrm{Dirichlet}(a+\sum_i\alpha_i1\{x_i=k\})`, drawn from exactly. For a pure and
    exact guarantee take the Dirichlet-multinomial mechanism instead (T4).

    ``column``: as codes ``0 .. categories-1``. ``prior``: ``a``, above 0.
    """

    categories: int
    prior: float = 1.0

    def model(self, data: Data) -> None:
        """Run the model."""
        shares = numpyro.sample("shares", dist.Dirichlet(jnp.full(self.categories, self.prior)))
        codes = data[self.column]
        numpyro.sample(self.column, dist.Categorical(shares).expand([len(codes)]), obs=codes)

    def conjugate(self, data: Data, weights: Floats, *, draws: int, rng: np.random.Generator) -> dict[str, Floats]:
        """Draw the shares from their Dirichlet distribution."""
        masses = np.bincount(np.asarray(data[self.column]), weights=weights, minlength=self.categories)
        return {"shares": rng.dirichlet(self.prior + masses, size=draws)}


_GROUP = "group of the record"


def half_t() -> Any:
    """Return the prior of scales, of a Student variable's size."""
    return dist.FoldedDistribution(dist.StudentT(3.0, 0.0, 1.0))


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class LinearRegression(ResponseRegression):
    r"""A numeric column given others: :math:`y_i=x_i^\top\beta+u_{g(i)}+\sigma e_i` with normal or Student errors.

    :math:`\beta_r\sim N(0,s^2)` and :math:`\sigma\sim\sigma_0+|t_3|` in the unit of the response. Where a column of
    groups is named, each of them has an intercept :math:`u_g\sim N(0,\tau^2)`, :math:`\tau\sim|t_3|`: groups of few
    records borrow from the others. Else :math:`u=0`.

    ``response``, ``design``: the column, its public transformation and unit, and the columns it depends on.
    ``degrees``: degrees of freedom of Student errors, for robustness; normal errors by default.
    ``coefficient_scale``: ``s``, above 0, in units of the response.
    ``group``, ``groups``: the column of groups, as codes ``0 .. groups-1``, and their public number.
    """

    degrees: float | None = None
    coefficient_scale: float = 10.0
    group: str | None = None
    groups: int = 0

    def __post_init__(self) -> None:
        if self.group is not None:
            integer(f"the number of groups of column {self.group!r}", self.groups, least=2)

    @property
    def given(self) -> tuple[str, ...]:
        """The columns of the design, and that of groups."""
        return tuple(dict.fromkeys([*self.design.columns, *filter(None, [self.group])]))

    def public(self, columns: Columns, count: int) -> Arrays:
        """Return the design matrix, and the group of each record."""
        arrays = {"design": self.design.matrix(columns, count)}
        if self.group is not None:
            arrays[_GROUP] = np.asarray(columns[self.group])
        return arrays

    def model(self, data: Data) -> None:
        """Run the model."""
        normal = dist.Normal(0.0, self.coefficient_scale).expand([data["design"].shape[1]]).to_event(1)
        mean = data["design"] @ numpyro.sample("coefficients", normal)
        if self.group is not None:
            spread = numpyro.sample("group_spread", half_t())
            standard = numpyro.sample("group_intercepts", dist.Normal(0.0, 1.0).expand([self.groups]).to_event(1))
            mean = mean + spread * jnp.take(standard, data[_GROUP])
        scale = self.response.least_scale + numpyro.sample("excess_scale", half_t())
        errors = dist.Normal(mean, scale) if self.degrees is None else dist.StudentT(self.degrees, mean, scale)
        numpyro.sample(self.response.column, errors, obs=data[self.response.column])


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One column of a sequential regression.

    ``kind``, {"numeric", "count", "category"}: normal, Poisson (log link) or multinomial logistic regression.
    ``categories``: their number, for a category. ``response``: transformation and unit, for a numeric column.
    """

    column: str
    kind: str
    categories: int = 0
    response: Response | None = None

    def __post_init__(self) -> None:
        choice(f"the kind of column {self.column!r}", self.kind, ("numeric", "count", "category"))
        if self.kind == "category":
            integer(f"the number of categories of column {self.column!r}", self.categories, least=2)
        if self.kind == "numeric" and (self.response is None or self.response.column != self.column):
            raise ParameterError(f"column {self.column!r}: a numeric column needs its own Response")


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class SequentialRegression(OnDesign):
    """Several columns of mixed type, each by a regression on the ones before it and on the given columns.

    ``steps``: the sensitive columns, in the order of synthesis. ``design``: the given columns; an intercept alone for
    full synthesis. ``coefficient_scale``: standard deviation of the normal prior on coefficients.
    """

    steps: Sequence[Step]
    coefficient_scale: float = 2.5

    @property
    def sensitive(self) -> tuple[str, ...]:
        """The columns of the steps."""
        return tuple(step.column for step in self.steps)

    @property
    def responses(self) -> tuple[Response, ...]:
        """Those of the numeric steps."""
        return tuple(step.response for step in self.steps if step.response is not None)

    def model(self, data: Data) -> None:
        """Run the model."""
        design = data["design"]
        for step in self.steps:
            design = jnp.concatenate((design, self._step(step, design, data[step.column]).astype(jnp.float32)), axis=1)

    def _step(self, step: Step, design: Any, values: Any) -> Any:
        """Sample the column of a step, and return it as predictors of those after it."""

        def linear(*widths: int) -> Any:
            shape = (design.shape[1], *widths)
            prior = dist.Normal(0.0, self.coefficient_scale).expand(shape).to_event(len(shape))
            return design @ numpyro.sample(f"{step.column}: coefficients", prior)

        if step.kind == "count":
            rate = jnp.exp(jnp.clip(linear(), -30.0, 30.0))
            return jnp.log1p(numpyro.sample(step.column, dist.Poisson(rate), obs=values))[:, None]
        if step.kind == "category":
            line = linear(step.categories - 1)
            logits = jnp.concatenate((jnp.zeros((line.shape[0], 1)), line), axis=1)
            codes = numpyro.sample(step.column, dist.Categorical(logits=logits), obs=values)
            return codes[:, None] == jnp.arange(1, step.categories)[None, :]
        assert step.response is not None
        mean = linear()
        scale = step.response.least_scale + numpyro.sample(f"{step.column}: excess scale", half_t())
        return (numpyro.sample(step.column, dist.Normal(mean, scale), obs=values) / 10.0)[:, None]
