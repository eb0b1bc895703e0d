"""What both posteriors share: their columns and promise, tables from draws, and the mechanism on a domain."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from discreet._core.errors import DomainError, LawNotAvailable, ParameterError, integer, plain, real
from discreet._core.lazy import jnp
from discreet._core.numeric import Arrays, Floats, float_at_most
from discreet.domain import Commonness, Counts, Decimal, Domain, Integer, Numeric, Records
from discreet.mechanisms import NEIGHBOURS, Contents, DrawnTable, Forecast, Mechanism, Outcome, Reading, Traits
from discreet.privacy import BoundedRangeProfile, Code, Guarantee, Relation, power
from discreet.pseudo_posterior.likelihood import Columns, Data, quiet, redrawn
from discreet.pseudo_posterior.models import bounds_of, codes_of, numbers_of, sensitive_nulls
from discreet.pseudo_posterior.sampler import Convergence, PosteriorDraws, Progress, Sampler
from discreet.pseudo_posterior.synthesiser import FromModel, Synthesiser
from discreet.releases import MechanismFamily

_MOST_RECORDS = 2**14
_REDRAWS = 30


def least_product(count: int, value: float) -> float:
    """Return the least float that is not below ``count * value``."""
    if math.isinf(count * value):
        return math.inf
    return -float_at_most(-count * Fraction(value))


@dataclass(frozen=True, slots=True)
class ModelPosterior(MechanismFamily):
    """A posterior over a synthesiser: each of its draws gives a table."""

    synthesiser: Any
    _: KW_ONLY
    survey_weight: str | None = None
    survey_mean: float | None = None
    unit: str | None = None
    tables: int = 1
    draws: int = 1000
    warm_up: int = 1000
    chains: int = 4
    convergence: Convergence = field(default_factory=Convergence)
    chain_method: str = "sequential"

    @property
    def size(self) -> int | None:
        """The public number of records of a table, where it is not that of those held."""
        return None

    @property
    def grid(self) -> Mapping[str, npt.ArrayLike] | None:
        """A public list of parameters that posterior draws are taken from, where they are exact."""
        return None

    @abstractmethod
    def guarantee(self, relation: Relation | None = None, *, n: int) -> Guarantee:
        """Return what is promised."""

    @abstractmethod
    def epsilon_each(self, relation: Relation) -> float:
        """Return the epsilon of one table."""

    @property
    def published_exactly(self) -> tuple[str, ...]:
        """The columns that are published as they are: those given, and with them the survey weights."""
        given: tuple[str, ...] = self.synthesiser.given
        if not given or self.survey_weight is None or self.survey_weight in given:
            return given
        return (*given, self.survey_weight)

    def check_domain(self, domain: Domain) -> None:
        """Refuse a domain of other columns, or one that declares them unfit: by public facts alone."""
        sensitive = self.synthesiser.sensitive
        names = {*sensitive, *self.synthesiser.given, self.survey_weight, self.unit} - {None}
        if names != set(domain.names):
            odd = min(names ^ set(domain.names))
            raise ParameterError(f"column {odd!r}: the domain and the synthesiser must name the same columns")
        for name, column in domain.columns.items():
            if column.open:
                raise DomainError(
                    f"column {name!r}: a model cannot have open labels. Declare the column as a category, or leave it "
                    "out"
                )
            if column.nullable and name in sensitive:
                raise sensitive_nulls(name)
        if self.survey_weight is not None:
            declared = domain.columns[self.survey_weight]
            if not isinstance(declared, (Numeric, Integer, Decimal)) or declared.nullable:
                raise DomainError(
                    f"column {self.survey_weight!r}: survey weights must be a numeric, integer or decimal column "
                    "without nulls. Declare it so, or leave out survey_weight"
                )
            if float(declared.lower) < 0.0:
                raise DomainError(
                    f"column {self.survey_weight!r}: survey weights are at least 0. Declare lower = 0, and as upper "
                    "the largest that the design can give"
                )
        if self.unit is not None and domain.columns[self.unit].nullable:
            raise DomainError(
                f"column {self.unit!r}: every record needs a unit. Declare the column without nulls, and give every "
                "row its unit beforehand"
            )

    def _settle(self, sensitive: Sequence[str], given: Sequence[str]) -> None:
        """Make the fields plain values, and refuse columns that cannot have two roles."""
        model = self.synthesiser
        if not isinstance(model, Synthesiser):
            if not callable(model) or not sensitive:
                raise ParameterError("give a synthesiser, or a NumPyro model and the names of its sensitive columns")
            model = FromModel(function=model, sensitive=tuple(sensitive), given=tuple(given))
        object.__setattr__(self, "synthesiser", model)
        object.__setattr__(self, "tables", integer("tables", self.tables, least=1))
        for name in ("draws", "warm_up", "chains"):
            object.__setattr__(self, name, plain(getattr(self, name)))
        if (self.survey_weight is None) != (self.survey_mean is None):
            raise ParameterError(
                "survey weights need their column and the public number that they are divided by. Write "
                "survey_weight=... and survey_mean=... (the size of the population over that of the sample)"
            )
        if self.survey_mean is not None:
            object.__setattr__(self, "survey_mean", real("survey_mean", self.survey_mean, above=0))
        for column, role in ((self.survey_weight, "be the survey weight"), (self.unit, "name the unit")):
            if column in model.sensitive:
                raise ParameterError(f"column {column!r} cannot be synthesised and {role}. Leave it out of sensitive")

    def _beside(self, columns: Columns) -> tuple[Floats | None, npt.NDArray[np.int64] | None]:
        """Return survey weights over the public mean, and units from 0 on: what no model reads. Confidential."""
        for name, option in ((self.survey_weight, "survey_weight"), (self.unit, "unit")):
            if name is not None and name not in columns:
                raise ParameterError(f"the table has no column {name!r}. Name one of its columns: {option}=...")
        weights: Floats | None = None
        units: npt.NDArray[np.int64] | None = None
        if self.survey_weight is not None and self.survey_mean is not None:
            weights = np.asarray(columns[self.survey_weight], dtype=np.float64) / self.survey_mean
            if not (np.isfinite(weights) & (weights >= 0.0)).all():
                raise ParameterError(
                    f"column {self.survey_weight!r}: survey weights must be finite and at least 0. Correct them, or "
                    "leave out survey_weight"
                )
        if self.unit is not None:
            units = np.unique(np.asarray(columns[self.unit]), return_inverse=True)[1].reshape(-1).astype(np.int64)
            if np.bincount(units, minlength=1).max() > _MOST_RECORDS:
                raise ParameterError(
                    f"column {self.unit!r}: a unit may have at most {_MOST_RECORDS:,} records. Cut its records "
                    "beforehand"
                )
        return weights, units

    def _sampler(self, data: dict[str, Any], **options: Any) -> Sampler:
        chains = {name: getattr(self, name) for name in ("draws", "warm_up", "chains", "chain_method")}
        return Sampler(self.synthesiser, data, **chains, **options)

    def _draw(
        self, sampler: Sampler, weights: Floats, *, rng: np.random.Generator, start: PosteriorDraws | None = None
    ) -> PosteriorDraws:
        """Draw from the posterior, and refuse chains that did not converge."""
        draws = sampler.draw(weights, rng=rng, start=start, until=self.convergence)
        draws.require(self.convergence)
        return draws

    def _promise(
        self, relation: Relation, n: int, assumptions: Sequence[Code], sampling: str, caveats: list[Code], **facts: Any
    ) -> Guarantee:
        """Return the guarantee of all tables: of an interval of length epsilon for the loss of each."""
        epsilon = self.epsilon_each(relation)
        premises, remarks = [*assumptions, Code("model-reads-argument-alone")], [*caveats]
        if self.survey_weight is not None:
            premises.append(Code("public-survey-mean"))
        if self.tables > 1:
            remarks.insert(1, Code("epsilon-each", {"epsilon": epsilon, "tables": self.tables}))
        if self.unit is not None:
            remarks.append(Code("unit-together", {"column": self.unit}))
            if self.size is None:
                remarks.append(Code("unit-sizes"))
        if exact := self.published_exactly:
            protected = list(self.synthesiser.sensitive)
            remarks.append(Code("protected-alone", {"protected": protected, "exact": list(exact)}))
        return Guarantee(
            relation=relation,
            n=n,
            profile=power(BoundedRangeProfile(spread=epsilon), self.tables),
            **facts,
            assumptions=(*premises, Code(sampling)),
            caveats=tuple(remarks),
            stated=(least_product(self.tables, epsilon), epsilon),
            protected=self.synthesiser.sensitive if self.synthesiser.given else (),
        )


def synthetic_tables(
    synthesiser: Synthesiser,
    draws: PosteriorDraws,
    columns: Columns,
    *,
    tables: int,
    rng: np.random.Generator,
    size: int | None = None,
    within: Mapping[str, tuple[float, float]] | None = None,
) -> list[Arrays]:
    """Draw tables, each from one posterior draw; the draws used are spread evenly over all, from a random first one."""
    # A record with a value outside its bounds (of ``within``, else the synthesiser's) is drawn again, so that records
    # follow the model's law within them, and goes to the bounds after 30 times. The model is handed the given columns
    # of the confidential table, and types alone of the others.
    limits = {**synthesiser.bounds, **(within or {})}
    check_draws(tables, len(draws))
    n_held = len(columns[synthesiser.sensitive[0]])
    if synthesiser.given and size not in (None, n_held):
        raise ParameterError("a partially synthetic table must have as many records as the confidential one")
    exact = {name: np.asarray(columns[name]) for name in synthesiser.given}
    step = len(draws) // tables
    start = int(rng.integers(step))
    synthetic = []
    with quiet():
        data = synthesiser.blank(columns, n_held if size is None else size)
        for index in range(start, start + step * tables, step):
            parameters = draws.one(index)
            records = _drawn_records(synthesiser, parameters, data, rng)
            for _ in range(_REDRAWS):
                inside = np.ones(len(next(iter(records.values()))), dtype=np.bool_)
                for name, (low, high) in limits.items():
                    inside &= (records[name] >= low) & (records[name] <= high)
                if inside.all():
                    break
                for name, values in _drawn_records(synthesiser, parameters, data, rng).items():
                    records[name] = np.where(inside.reshape(-1, *(1,) * (values.ndim - 1)), records[name], values)
            for name, (low, high) in limits.items():
                records[name] = np.clip(np.nan_to_num(records[name]), low, high)
            synthetic.append(exact | records)
    return synthetic


def _drawn_records(synthesiser: Synthesiser, parameters: Data, data: Data, rng: np.random.Generator) -> Arrays:
    """Return records, one value of each sensitive column for each row of the data, in the unit of the table."""
    key = jnp.asarray(rng.integers(0, 2**32, size=2, dtype=np.uint32))
    try:
        sites = redrawn(synthesiser.model, parameters, data, key)
    except ValueError as error:  # NumPyro's, where a distribution's parameters are not in its domain
        raise ParameterError(
            "the model drew no records, since with some latent values a distribution has parameters outside its "
            "domain, or too large for single precision. Choose a prior or a grid that keeps them inside"
        ) from error
    for name in synthesiser.sensitive:
        if np.shape(sites[name])[:1] != data[name].shape[:1]:
            raise ParameterError(f"site {name!r} does not draw one value per record. Put it in a numpyro.plate")
    return {name: np.asarray(synthesiser.decoded(name, np.asarray(sites[name]))) for name in synthesiser.sensitive}


def check_draws(tables: int, draws: int) -> None:
    """Refuse fewer posterior draws than tables."""
    if tables > draws:
        raise ParameterError(f"{tables} tables need {tables} posterior draws, got {draws}. Raise draws")


@dataclass(frozen=True, kw_only=True)
class ModelMechanism(Mechanism):
    """A posterior on the domain of a confidential table: its kernel fits the model and draws the tables.

    The model reads codes of labels, and positions of all other columns, of which a null is NaN.
    """

    traits: ClassVar[Traits] = Traits(free=(), needs_cells=False, randomness="operating-system-and-jax")
    facts: ClassVar[tuple[str, ...]]
    """What the guarantee of this posterior depends on, and that of the other does not."""
    family: ClassVar[Callable[..., Any]]

    posterior: ModelPosterior
    certified: Mapping[str, Any] = field(default_factory=dict)  # what a certificate says of a model it cannot hold
    progress: Progress | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.posterior.grid is None:  # else a draw is made for each table
            check_draws(self.posterior.tables, self.posterior.chains * self.posterior.draws)
        self.posterior.check_domain(self.domain)

    def kernel(self, x: Counts, *, rng: np.random.Generator) -> list[DrawnTable]:
        """Fit the model, and draw the tables: numbers of what is synthesised, codes of what is published exactly."""
        order = rng.permutation(x.n)
        codes = {name: np.repeat(column, x.frequencies)[order]
                 for name, column in zip(self.domain.names, x.records.columns, strict=True)}  # fmt: skip
        columns = {name: numbers_of(self.domain.columns[name], column) for name, column in codes.items()}
        posterior, draws = self.posterior, self.posterior_draws(columns, rng=rng)
        bounds = {}
        for name in posterior.synthesiser.sensitive:
            column = self.domain.columns[name]
            if column.labels is None:
                lower, upper = bounds_of(name, column)
                half = 0.5 if isinstance(column, Integer) else 0.0  # an integer stands for all that are nearest to it
                bounds[name] = (lower - half, upper + half)
        tables = synthetic_tables(
            posterior.synthesiser, draws, columns, tables=posterior.tables, size=posterior.size, rng=rng, within=bounds
        )
        return [{**table, **{name: codes[name] for name in posterior.published_exactly}} for table in tables]

    @abstractmethod
    def posterior_draws(self, columns: Columns, *, rng: np.random.Generator) -> PosteriorDraws:
        """Fit to confidential columns."""

    def log_prob(self, y: Any, x: Counts) -> float:
        """Raise LawNotAvailable: what a fit gives has no closed form."""
        raise LawNotAvailable(f"the law of the tables of {self.name} is not known")

    def guarantee(self, relation: Relation = NEIGHBOURS, *, n: int) -> Guarantee:
        """Return the posterior's own guarantee."""
        return self.posterior.guarantee(relation, n=n)

    def forecast(self, n: int, like: Commonness | None = None) -> Forecast:
        """Return that no share is known, since a model gives its own values wherever it does not fit."""
        return Forecast(lost=math.nan, lost_is="prediction", lost_to="model")

    def contents(self, n: int, *, counts: bool = False) -> Contents:
        """Return its tables, of public or held size, without survey weights and units that are only read."""
        posterior, domain = self.posterior, self.domain
        released = {*posterior.synthesiser.sensitive, *posterior.published_exactly}
        if released != set(domain.names):
            domain = Domain(columns={name: column for name, column in domain.columns.items() if name in released})
        contents = super().contents(n, counts=counts)
        return replace(contents, domain=domain, size=posterior.size or n, tables=posterior.tables)

    def reading(self, y: Sequence[DrawnTable], *, n: int) -> Reading:
        """Return the tables as the kernel drew them, which are only decoded."""
        outcome = None
        if self.posterior.grid is None:
            limits = self.parameters()["chains"]["refused_beyond"]
            finite = {name: limit for name, limit in limits.items() if limit is not None}
            outcome = Outcome((Code("chains-met", finite) if finite else Code("chains-unchecked"),))
        return TablesOfModel(iter(y), self.contents(n).domain, self.posterior.published_exactly, outcome)

    def parameters(self) -> dict[str, Any]:
        """Return what its guarantee depends on, and what a reader may want to know of the model and its chains."""
        posterior, synthesiser = self.posterior, self.posterior.synthesiser
        limits = {name: float(getattr(posterior.convergence, name)) for name in ("r_hat", "effective", "divergent")}
        parameters = {
            "model": synthesiser.function.__name__ if isinstance(synthesiser, FromModel) else repr(synthesiser),
            "synthesised": list(synthesiser.sensitive),
            "published_exactly": list(posterior.published_exactly),
            "densities_at_most_one": synthesiser.log_density_at_most_zero,
            "tables": posterior.tables,
            "chains": {
                "chains": posterior.chains,
                "draws": posterior.draws,
                "warm_up": posterior.warm_up,
                "doublings": posterior.convergence.doublings,
                # Limits alone, null where they are infinite: what was measured of the chains is confidential.
                "refused_beyond": {name: value if math.isfinite(value) else None for name, value in limits.items()},
            },
            **{name: getattr(posterior, name) for name in self.facts},
        }
        if posterior.survey_weight is not None:
            parameters["survey"] = {"weight": posterior.survey_weight, "mean": posterior.survey_mean}
        if posterior.unit is not None:
            parameters["unit"] = posterior.unit
        return {**parameters, **self.certified}

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any], *, domain: Domain, records: int, size: int | None) -> Self:
        """Return a mechanism with the promise and reading of a certificate: the model and its chains are a stand-in."""
        stand_in = FromModel(
            function=lambda _: None,
            sensitive=tuple(parameters["synthesised"]),
            given=tuple(parameters["published_exactly"]),
            log_density_at_most_zero=parameters["densities_at_most_one"] is True,
        )
        survey, tables = parameters.get("survey", {}), parameters["tables"]
        options = {name: parameters[name] for name in cls.facts}
        if options.pop("on_a_grid", False):
            options["grid"] = {"parameter": [0.0]}
        options |= {"survey_weight": survey.get("weight"), "survey_mean": survey.get("mean")}
        model = cls.family(stand_in, **options, tables=tables, draws=tables, unit=parameters.get("unit"))
        return cls(domain=domain, posterior=model, certified={name: parameters[name] for name in ("model", "chains")})

    @classmethod
    def _solution(cls, search: Any) -> Any:
        """Refuse: a budget says nothing of the model."""
        raise ParameterError(f"{cls.name} is not calibrated from a budget. Make a posterior, and call its on(domain)")


@dataclass(frozen=True, eq=False)
class TablesOfModel(Reading):
    """The tables that a kernel drew from a model, one after the other."""

    tables: Iterator[DrawnTable]
    domain: Domain
    exact: tuple[str, ...]  # the columns whose codes are as held
    convergence: Outcome | None  # the limits that chains met, where there were any

    def draw(self, size: int, *, rng: np.random.Generator) -> Iterator[Records]:
        """Yield the next table, whole."""
        table = next(self.tables)
        for name, column in self.domain.columns.items():
            if name not in self.exact:
                table = {**table, name: codes_of(column, table[name], name, rng=rng)}
        yield Records(columns=tuple(table[name] for name in self.domain.names))

    def outcome(self) -> Outcome | None:
        """Return which limits of convergence the chains met."""
        return self.convergence
