"""Synthesisers of columns by means and regressions: Poisson, normal, robust, hierarchical, categorical, sequential."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Floats
from discreet._core.boundary import sealed
from discreet._core.checks import choice, integer
from discreet._core.errors import ParameterError
from discreet._core.lazy import dist, jnp, numpyro
from discreet.pseudo_posterior.design import OnDesign, Response, ResponseRegression
from discreet.pseudo_posterior.likelihood import Columns
from discreet.pseudo_posterior.synthesiser import Synthesiser


@dataclass(frozen=True, slots=True, kw_only=True)
class _OneColumn(Synthesiser):
    """A law of one column that has probabilities, not densities."""

    log_density_at_most_zero: ClassVar[bool] = True

    column: str

    @property
    def sensitive(self) -> tuple[str, ...]:
        """The column."""
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

    def model(self, data: Mapping[str, Any]) -> None:
        """Run the model."""
        mean = numpyro.sample("mean", dist.Gamma(self.shape, self.rate))
        numpyro.sample(self.column, dist.Poisson(mean).expand([len(data[self.column])]), obs=data[self.column])

    def start(self, data: Mapping[str, Any], *, chain: int) -> dict[str, npt.NDArray[Any]]:
        """Start at the mean of the records."""
        return {"mean": np.asarray(float(np.mean(data[self.column])) + 0.5)}

    def posterior(self, counts: Floats, weights: Floats) -> tuple[float, float]:
        """Return shape and rate of the weighted posterior."""
        return self.shape + float(weights @ counts), self.rate + float(weights.sum())

    def conjugate(
        self, data: Mapping[str, Any], weights: Floats, *, draws: int, rng: np.random.Generator
    ) -> dict[str, Floats]:
        """Draw the mean from its gamma distribution."""
        shape, rate = self.posterior(np.asarray(data[self.column], dtype=np.float64), weights)
        return {"mean": rng.gamma(shape, 1.0 / rate, size=draws)}


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class CategoricalShares(_OneColumn):
    r"""One categorical column: :math:`x_i\sim p`, :math:`p\sim\mathrm{Dirichlet}(a,\dots,a)`.

    The weighted posterior is :math:`\mathrm{Dirichlet}(a+\sum_i\alpha_i1\{x_i=k\})`, drawn from exactly. For a pure and
    exact guarantee take the Dirichlet-multinomial mechanism instead (T4).

    Parameters
    ----------
    column : str
        The column, as codes ``0 .. categories-1``.
    categories : int
        Their public number.
    prior : float
        ``a``, above 0.
    """

    categories: int
    prior: float = 1.0

    def model(self, data: Mapping[str, Any]) -> None:
        """Run the model."""
        shares = numpyro.sample("shares", dist.Dirichlet(jnp.full(self.categories, self.prior)))
        codes = data[self.column]
        numpyro.sample(self.column, dist.Categorical(shares).expand([len(codes)]), obs=codes)

    def conjugate(
        self, data: Mapping[str, Any], weights: Floats, *, draws: int, rng: np.random.Generator
    ) -> dict[str, Floats]:
        """Draw the shares from their Dirichlet distribution."""
        held = np.bincount(np.asarray(data[self.column]), weights=weights, minlength=self.categories)
        return {"shares": rng.dirichlet(self.prior + held, size=draws)}


_GROUP = "group of the record"


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class LinearRegression(ResponseRegression):
    r"""A numeric column given others: :math:`y_i=x_i^\top\beta+u_{g(i)}+\sigma e_i` with normal or Student errors.

    :math:`\beta_r\sim N(0,s^2)` and :math:`\sigma\sim\sigma_0+|t_3|` in the unit of the response. Where a column of
    groups is named, each of them has an intercept :math:`u_g\sim N(0,\tau^2)`, :math:`\tau\sim|t_3|`: groups of few
    records borrow from the others. Else :math:`u=0`.

    ``response``: the column, its public transformation and unit.
    ``design``: the columns it depends on, and their public coding; an intercept alone by default.
    ``degrees``: Degrees of freedom of Student errors, for robustness; normal errors by default.
    ``coefficient_scale``: ``s``, above 0, in units of the response.
    ``group``, ``groups``: the column of groups, as codes ``0 .. groups-1``, such as regions or strata, and their public
    number.
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
        named = self.design.columns
        return named if self.group is None or self.group in named else (*named, self.group)

    def public(self, columns: Columns, count: int) -> dict[str, npt.NDArray[Any]]:
        """Return the design matrix, and the group of each record."""
        made = {"design": self.design.matrix(columns, count)}
        return made if self.group is None else {**made, _GROUP: np.asarray(columns[self.group])}

    def model(self, data: Mapping[str, Any]) -> None:
        """Run the model."""
        count = data["design"].shape[1]
        normal = dist.Normal(0.0, self.coefficient_scale).expand([count]).to_event(1)
        mean = data["design"] @ numpyro.sample("coefficients", normal)
        if self.group is not None:
            spread = numpyro.sample("group_spread", dist.FoldedDistribution(dist.StudentT(3.0, 0.0, 1.0)))
            standard = numpyro.sample("group_intercepts", dist.Normal(0.0, 1.0).expand([self.groups]).to_event(1))
            mean = mean + spread * jnp.take(standard, data[_GROUP])
        scale = self.response.least_scale + numpyro.sample("excess_scale", dist.FoldedDistribution(
            dist.StudentT(3.0, 0.0, 1.0)))  # fmt: skip
        errors = dist.Normal(mean, scale) if self.degrees is None else dist.StudentT(self.degrees, mean, scale)
        numpyro.sample(self.response.column, errors, obs=data[self.response.column])


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One column of a sequential regression.

    ``column``: the column.
    ``kind``, {"numeric", "count", "category"}: Normal, Poisson (log link) or multinomial logistic regression.
    ``categories``: number of categories, for a category.
    ``response``: Transformation and unit, for a numeric column.
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

    @property
    def width(self) -> int:
        """Number of columns it adds to the design of those after it."""
        return self.categories - 1 if self.kind == "category" else 1


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class SequentialRegression(OnDesign):
    """Several columns of mixed type, each by a regression on the ones before it and on the given columns.

    ``steps``: the sensitive columns, in the order of synthesis.
    ``design``: the given columns; an intercept alone for full synthesis.
    ``coefficient_scale``: standard deviation of the normal prior on coefficients.
    """

    steps: Sequence[Step]
    coefficient_scale: float = 2.5

    @property
    def sensitive(self) -> tuple[str, ...]:
        """The columns of the steps."""
        return tuple(step.column for step in self.steps)

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """Those of the responses."""
        responses = (step.response for step in self.steps if step.response is not None)
        return {response.column: (response.lower, response.upper) for response in responses}

    @property
    def log_density_at_most_zero(self) -> bool:
        """True where no numeric step has a density above one."""
        return all(step.response is None or step.response.bounded for step in self.steps)

    def coded(self, name: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return a column on the scale of the model: numeric ones are transformed."""
        step = next(step for step in self.steps if step.column == name)
        return values if step.response is None else step.response.encode(values)

    def decoded(self, name: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return a column in the unit of the table."""
        step = next(step for step in self.steps if step.column == name)
        return values if step.response is None else step.response.decode(values)

    def model(self, data: Mapping[str, Any]) -> None:
        """Run the model."""
        design = data["design"]
        for step in self.steps:
            value = self._step(step, design, data[step.column])
            if step.kind == "category":
                predictor = value[:, None] == jnp.arange(1, step.categories)[None, :]
            else:
                predictor = (jnp.log1p(value) if step.kind == "count" else value / 10.0)[:, None]
            design = jnp.concatenate((design, predictor.astype(jnp.float32)), axis=1)

    def _step(self, step: Step, design: Any, value: Any) -> Any:
        shape = (design.shape[1], step.width) if step.kind == "category" else (design.shape[1],)
        prior = dist.Normal(0.0, self.coefficient_scale).expand(shape).to_event(len(shape))
        line = design @ numpyro.sample(f"{step.column}: coefficients", prior)
        if step.kind == "count":
            return numpyro.sample(step.column, dist.Poisson(jnp.exp(jnp.clip(line, -30.0, 30.0))), obs=value)
        if step.kind == "category":
            logits = jnp.concatenate((jnp.zeros((line.shape[0], 1)), line), axis=1)
            return numpyro.sample(step.column, dist.Categorical(logits=logits), obs=value)
        assert step.response is not None
        excess = numpyro.sample(f"{step.column}: excess scale", dist.FoldedDistribution(dist.StudentT(3.0, 0.0, 1.0)))
        return numpyro.sample(step.column, dist.Normal(line, step.response.least_scale + excess), obs=value)
