"""What generates synthetic records: a Bayesian model, and how a table is written for it from public facts alone.

What a model may do with its data is checked on made-up tables before anything is drawn: no refusal tells of a table.
Neither its prior nor the law that it draws may move with the sensitive columns, nor a record's density with others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from discreet._core.boundary import sealed
from discreet._core.errors import DiscreetError, ParameterError, Refused
from discreet._core.lazy import dist, handlers, jax, jnp, numpyro
from discreet._core.numeric import Arrays
from discreet._core.random import seeded
from discreet.pseudo_posterior import likelihood
from discreet.pseudo_posterior.likelihood import SHARED, Columns, Data, Model, program

Shapes = Mapping[str, tuple[int, ...]]
"""Those of the values of a model's latent sites."""

BLOCK = 25
"""Draws that a chain makes in one execution: XLA frees what its loops allocate only when they end."""


class Chain(NamedTuple):
    """A Markov chain in JAX. All randomness comes from the key: where the chain is includes it."""

    # begin: of a key, values of the latent sites (or None) and data with weights, where the chain starts. advance: of
    # where it is, and data with weights, where it is some draws later, with these draws and which are divergent.

    begin: Callable[[Any, Data | None, tuple[Any, Any]], Any]
    advance: Callable[[Any, tuple[Any, Any]], Any]
    double: bool = False  # whether it needs double precision


@sealed
class Synthesiser(ABC):
    """A Bayesian model of some columns of a table, given others or by themselves.

    Its fields are public facts. Its observed sites are named as the columns that it synthesises.
    """

    tree_depth: ClassVar[int] = 10
    """The longest trajectory of the sampler is two to this power steps."""

    @property
    @abstractmethod
    def sensitive(self) -> tuple[str, ...]:
        """The columns that are synthesised; every other column that it reads is published as it is."""

    @property
    def given(self) -> tuple[str, ...]:
        """The columns that the sensitive ones depend on, published exactly; none for full synthesis."""
        return ()

    @property
    def monitored(self) -> tuple[str, ...] | None:
        """Deterministic sites by which convergence is judged; None stands for every parameter and the log-likelihood.

        Where labels of clusters may be exchanged, only what does not depend on them.
        """
        return None

    @property
    def log_density_at_most_zero(self) -> bool:
        """Whether no density exceeds one, whatever the parameters: then no bound is doubled (PP22, lemma 2)."""
        return False

    @abstractmethod
    def model(self, data: Data) -> None:
        """Run the NumPyro model on encoded data."""

    def public(self, columns: Columns, count: int) -> Arrays:
        """Return the arrays that the model reads beside the sensitive columns: public, for so many records.

        It is handed the given columns and no other. Arrays have one row per record, but for those whose name begins
        with :data:`SHARED`, which belong to all records together.
        """
        return {name: np.asarray(columns[name]) for name in self.given}

    def coded(self, name: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return values of a sensitive column on the scale of the model, one for one; as they are by default.

        It is handed one value at a time, so that no record can enter the encoding of another. The type of the code of 0
        is that of all codes: it shows no value to the model. A code that has no equal in that type is refused.
        """
        return values

    def encoded(self, columns: Columns) -> Arrays:
        """Return the arrays that the model reads: those of :meth:`public`, and each sensitive column, :meth:`coded`.

        Raises
        ------
        ParameterError
            When a value is coded as anything but one value of the type of the code of 0.
        """
        public = self.public({name: columns[name] for name in self.given}, len(columns[self.sensitive[0]]))
        return public | {name: self._one_by_one(name, np.asarray(columns[name])) for name in self.sensitive}

    def encoded_alike(self, columns: Columns) -> Arrays:
        """Return the arrays of :meth:`encoded` for full synthesis, of which only the rows show how many there are.

        Public arrays are those of one record, repeated. A blank record stands for none: it has to count for nothing.
        """
        row, count = self.blank(columns, 1), max(len(columns[name]) for name in self.sensitive)
        if not count:
            return row
        public = {name: v if name.startswith(SHARED) else np.repeat(v, count, axis=0) for name, v in row.items()}
        return public | {name: self._one_by_one(name, np.asarray(columns[name])) for name in self.sensitive}

    def blank(self, columns: Columns, count: int) -> Arrays:
        """Return what records are drawn with: the given columns, and zeros of the sensitive ones' types."""
        data = self.public({name: columns[name] for name in self.given}, count)
        for name in self.sensitive:
            column = np.asarray(columns[name])
            zero = self._one_by_one(name, np.zeros((1, *column.shape[1:]), dtype=column.dtype))
            data[name] = np.zeros((count, *zero.shape[1:]), dtype=zero.dtype)
        return data

    def _one_by_one(self, name: str, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return a column of which each distinct value is coded by itself."""
        if not len(column):
            return column
        values, place = np.unique(column, return_inverse=True, axis=0)
        zero = np.zeros((1, *column.shape[1:]), dtype=column.dtype)
        singles = (zero, *(values[i : i + 1].copy() for i in range(len(values))))
        codes = [np.asarray(self.coded(name, single)) for single in singles]
        shape, dtype = codes[0].shape, codes[0].dtype
        if shape[:1] != (1,) or any(
            code.shape != shape
            or (code.dtype != dtype and not np.array_equal(code, code.astype(dtype), equal_nan=True))
            for code in codes
        ):
            raise ParameterError(
                f"column {name!r}: each value must be coded as one value, by itself, with the shape and type of the "
                "code of 0"
            )
        return np.concatenate([code.astype(dtype, copy=False) for code in codes[1:]])[place.reshape(-1)]

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """Public bounds of sensitive columns, in the unit of the table: a record outside of them is drawn again."""
        return {}

    def decoded(self, name: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return synthetic values of a column in the unit of the table."""
        return values

    def start(self, data: Data, *, chain: int) -> Arrays | None:
        """Return parameter values to start a chain from, or None for the best of some random ones.

        Chains are numbered from 0, so that they may start apart.
        """
        return None

    def conjugate(
        self, data: Data, weights: npt.NDArray[np.float64], *, draws: int, rng: np.random.Generator
    ) -> dict[str, npt.NDArray[np.float64]] | None:
        """Return independent draws from the exact weighted posterior, or None where there is no closed form."""
        return None

    def chain(self, data: Data, *, warm_up: int, bound: float | None) -> Chain | None:
        """Return a Markov chain made for this model, or None to leave it to NUTS.

        A synthesiser that has one also says where to :meth:`start` it. It is handed the data whole, and that it draws
        from the posterior of :meth:`model` is its author's word: nothing here can check it.

        Parameters
        ----------
        data : mapping
            Encoded data, for its shapes alone.
        warm_up : int
            How many of its draws will be left out.
        bound : float, optional
            Log-likelihoods of records are clipped to ``[-bound, 0]``, after they were multiplied by the array
            :data:`SURVEY` of the data that the chain runs on, where there is one.
        """
        return None


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class FromModel(Synthesiser):
    """Any NumPyro model as a synthesiser.

    ``function``: a NumPyro model ``function(data)`` with ``obs=data[column]`` at the sites of the sensitive columns,
    which are named as them. ``data`` maps each column to an array, one entry per record. Discrete latent variables have
    to be summed out. Where one sensitive column depends on another, use the value that ``numpyro.sample`` returns.
    ``sensitive``, ``given``, ``monitored``: as of any synthesiser.
    ``log_density_at_most_zero``: whether no density of the model exceeds one, whatever the parameters: true of
    probabilities.
    """

    function: Model
    sensitive: tuple[str, ...] = field()  # a field, although the base class has a property of that name
    given: tuple[str, ...] = ()
    monitored: tuple[str, ...] | None = None
    log_density_at_most_zero: bool = False

    def __post_init__(self) -> None:
        if not self.sensitive or set(self.sensitive) & set(self.given):
            raise ParameterError("name at least one sensitive column, and name no column twice")

    def model(self, data: Data) -> None:
        """Run the function."""
        self.function(data)


_ACCEPT = 0.9  # steps somewhat shorter than by default: fewer divergent transitions in mixtures
_TRIED = 20  # starts a chain, where none is given


def nuts(target: Callable[..., None], shapes: Shapes, *, warm_up: int, depth: int) -> Chain:
    """Return the chain of a model, by NumPyro's functional interface: all fits of a table share one compilation."""
    from numpyro.infer.hmc import hmc
    from numpyro.infer.util import constrain_fn, potential_energy, unconstrain_fn

    initial, step = hmc(potential_fn_gen=lambda *facts: lambda z: potential_energy(target, facts, {}, z), algo="NUTS")

    @jax.jit  # type: ignore[untyped-decorator]
    def best_point(key: Any, facts: Any) -> dict[str, Any]:
        """Return the best of some points that are uniform on [-2, 2]."""
        keys = jax.random.split(key, len(shapes))
        points = {
            name: jax.random.uniform(keys[i], (_TRIED, *shape), minval=-2.0, maxval=2.0)
            for i, (name, shape) in enumerate(shapes.items())
        }
        energies = jax.vmap(lambda z: potential_energy(target, facts, {}, z))(points)
        best = jnp.argmin(jnp.where(jnp.isnan(energies), jnp.inf, energies))
        return {name: value[best] for name, value in points.items()}

    unconstrained = jax.jit(lambda values, facts: unconstrain_fn(handlers.seed(target, rng_seed=0), facts, {}, values))
    settings = {"target_accept_prob": _ACCEPT, "max_tree_depth": depth, "model_kwargs": {}}
    initial_state = jax.jit(lambda key, z, facts: initial(z, warm_up, model_args=facts, rng_key=key, **settings))

    def begin(key: Any, values: Data | None, facts: Any) -> Any:
        start_key, chain_key = jax.random.split(key)
        z = best_point(start_key, facts) if values is None else unconstrained(values, facts)
        state = initial_state(chain_key, z, facts)
        if not np.isfinite(state.potential_energy):
            raise Refused("the posterior density is finite at no start. Give the synthesiser a start at which it is")
        return state

    def advance(state: Any, facts: Any) -> Any:
        def move(state: Any, _: None) -> Any:
            state = step(state, facts, {})
            return state, (state.z, state.diverging)

        state, (z, diverging) = jax.lax.scan(move, state, None, length=BLOCK)
        values = jax.lax.map(lambda z: constrain_fn(handlers.seed(target, rng_seed=0), facts, {}, z), z)
        return state, ({name: values[name] for name in shapes}, diverging)

    return Chain(begin=begin, advance=advance)


_CONFIDENTIAL_NUMBER = (
    "changes with the number of records, which is confidential under add/remove (a size was given). Write a public "
    "number in place of len(data[...]), or leave size out, for tables of as many records as are held"
)
_CHECKED = 3
_TOLERANCE = 1e-3  # of single precision sums, in another order; a posterior is made of the single-row form alone


def latent_sites(
    synthesiser: Synthesiser, data: Data, *, values: Data | None = None, blanks: Sequence[Data] = ()
) -> Shapes:
    """Check a model's sites, and return the latent ones and the shapes of their values; nothing is computed."""
    # Without values, sites must be continuous with a proper prior, and the shapes are of unconstrained coordinates.
    if blanks:
        shapes = _small_table_shapes(synthesiser, blanks[1], values, "two records")
    else:
        shapes = _site_shapes(synthesiser, data, values)
    record = likelihood.rows(blanks[0] if blanks else data, slice(0, 1))
    single = _small_table_shapes(synthesiser, record, values, "one record by itself")
    for name, shape in shapes.items():
        if single.get(name) != shape:
            raise ParameterError(
                f"site {name!r} is a latent variable of each record. Sum it out, or give one to each group of records"
            )
    return shapes


def _small_table_shapes(synthesiser: Synthesiser, data: Data, values: Data | None, table: str) -> Shapes:
    """Return the shapes on a table that is not the one that the model was written for."""
    try:
        return _site_shapes(synthesiser, data, values)
    except DiscreetError as error:
        raise ParameterError(f"on {table}: {error}") from None
    except Exception as error:
        raise ParameterError(
            f"the model cannot be run on {table}. Take the sizes of plates and observed sites from the data, as in "
            "len(data[...]), and give no record a latent variable of its own"
        ) from error


def _site_shapes(synthesiser: Synthesiser, data: Data, values: Data | None) -> Shapes:
    shapes: dict[str, tuple[int, ...]] = {}
    model, sensitive = synthesiser.model, synthesiser.sensitive
    start = {"substitute_fn": numpyro.infer.init_to_uniform} if values is None else {"data": values}

    def trace(traced: Data) -> None:
        with handlers.trace() as sites, handlers.substitute(**start), handlers.seed(rng_seed=0):
            model(traced)
        parameters = likelihood.latent(sites)
        with handlers.block(), handlers.substitute(data=parameters), handlers.seed(rng_seed=0):
            likelihood.by_record(model, traced, len(traced[sensitive[0]]))
        for name in sensitive:
            if name not in sites or not likelihood.is_likelihood(sites[name]):
                raise ParameterError(f"the model has no observed site {name!r}: name one as the column, obs=data[...]")
        for name, value in parameters.items():
            shapes[name] = _continuous(name, sites[name]) if values is None else value.shape
        records = likelihood.redrawn(model, parameters, traced, jax.random.PRNGKey(0))
        for name in sensitive:
            shape, expected = records[name].shape, traced[name].shape
            if shape != expected:
                raise ParameterError(
                    f"site {name!r} draws values of shape {shape}, and not one per record, {expected}. Put it in a "
                    "numpyro.plate of as many records as the data have"
                )

    program(trace, {name: np.asarray(value) for name, value in data.items()})
    if not shapes:
        raise ParameterError("the model has no latent variable, so there is nothing to learn")
    return shapes


def _continuous(name: str, site: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the shape of a site's unconstrained coordinates."""
    if getattr(site["fn"].support, "is_discrete", False):
        raise ParameterError(f"site {name!r} is discrete and latent. Sum it out, as numpyro.distributions.Mixture does")
    if isinstance(likelihood.unwrapped(site["fn"]), dist.ImproperUniform):
        raise ParameterError(f"site {name!r} has an improper prior. Give it a prior that is a probability")
    return tuple(dist.biject_to(site["fn"].support).inverse_shape(site["value"].shape))


def typical_values(synthesiser: Synthesiser, data: Data, shapes: Shapes) -> dict[str, Any]:
    """Return some parameters of a model, uniform on [-2, 2] in unconstrained coordinates of these shapes."""
    rng = seeded(0)
    points = {name: rng.uniform(-2.0, 2.0, (_CHECKED, *shape)).astype(np.float32) for name, shape in shapes.items()}

    def constrained(point: Data) -> dict[str, Any]:
        def value(site: Mapping[str, Any]) -> Any:
            return dist.biject_to(site["fn"].support)(point[site["name"]]) if site["name"] in point else None

        with handlers.trace() as sites, handlers.substitute(substitute_fn=value), handlers.seed(rng_seed=0):
            synthesiser.model(likelihood.visible(data, synthesiser.sensitive))
        return likelihood.latent(sites)

    values: dict[str, Any] = jax.jit(jax.vmap(constrained))(points)
    return values


def check_model(synthesiser: Synthesiser, data: Data, values: Data, *, blanks: Sequence[Data] = ()) -> None:
    """Refuse a model that does more with the sensitive columns than to give each record a log-density."""
    # It is run with zeros in the sensitive columns, and with ones and zeros in turn, at the same public parameters.
    if blanks:
        _check_any_number(synthesiser, blanks, values)
        check_model(synthesiser, blanks[1], values)
    model, sensitive = synthesiser.model, synthesiser.sensitive
    blank = {name: jnp.asarray(value) for name, value in likelihood.visible(data, sensitive).items()}
    turns = blank | {name: blank[name].at[::2].set(1) for name in sensitive}
    records = {name: turns[name] for name in sensitive}

    @jax.jit  # type: ignore[untyped-decorator]
    def run(values: Any, data: Any) -> Any:
        alone = likelihood.alone
        return jax.vmap(lambda point: (densities(model, point, data, records), alone(model, point, data)))(values)

    (prior, logs), _ = jax.tree.map(np.asarray, run(values, blank))
    (turned_prior, turned_logs), single = jax.tree.map(np.asarray, run(values, turns))
    if site := _changed_site(turned_prior, prior):
        raise ParameterError(
            f"site {site!r} changes with the sensitive columns. A prior or a factor must be fixed without looking at "
            "them, and what depends on a record belongs in an observed site, obs=data[...]"
        )
    total: Any = sum(turned_logs.values())
    finite = np.isfinite(total)
    close = np.isclose(single[finite], total[finite], rtol=_TOLERANCE, atol=_TOLERANCE)
    if not close.all() or not np.array_equal(finite, np.isfinite(single)):
        raise ParameterError(
            "the log-density of the table is not the sum of those of its records by themselves. A record's density "
            "may use that record, public numbers and parameters, but nothing computed from all records (a mean, a "
            "largest value, a total)"
        )
    if site := _changed_site(turned_logs, logs):
        raise ParameterError(
            f"site {site!r} has a law that changes with the sensitive columns. Where one of them depends on another, "
            "use what numpyro.sample returns for it"
        )


def _check_any_number(synthesiser: Synthesiser, blanks: Sequence[Data], values: Data) -> None:
    """Refuse a model whose prior, factors or public arrays depend on how many records there are."""
    priors = jax.jit(jax.vmap(lambda point, data: densities(synthesiser.model, point, data, {})[0], in_axes=(0, None)))
    prior = priors(values, blanks[0])
    for blank in blanks[1:]:
        count = len(blank[synthesiser.sensitive[0]])
        for name, array in blank.items():
            row = blanks[0][name]
            if not _close(array, row if name.startswith(SHARED) else np.repeat(row, count, axis=0)):
                raise ParameterError(f"array {name!r} of Synthesiser.public {_CONFIDENTIAL_NUMBER}")
        blank_prior = priors(values, blank)
        for name in sorted({*blank_prior, *prior}):
            if name not in blank_prior or name not in prior or not _close(blank_prior[name], prior[name]):
                raise ParameterError(f"site {name!r} {_CONFIDENTIAL_NUMBER}")


def _close(a: Any, b: Any) -> bool:
    return np.shape(a) == np.shape(b) and np.allclose(a, b, rtol=1e-5, atol=1e-6, equal_nan=True)


def densities(model: Any, values: Data, data: Data, records: Data) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the log-densities of priors and factors, and those of the records that observed sites return, by site."""
    conditioned = handlers.condition(data=records)
    with handlers.trace() as sites, conditioned, handlers.seed(rng_seed=0), handlers.substitute(data=values):
        model(data)
    prior: dict[str, Any] = {}
    observed: dict[str, Any] = {}
    for name, site in sites.items():
        if site["type"] == "sample":
            logs = site["fn"].log_prob(site["value"])
            if site["scale"] is not None:
                logs = site["scale"] * logs
            (observed if likelihood.is_likelihood(site) else prior)[name] = logs
    return prior, observed


def _changed_site(logs: Data, expected: Data) -> str | None:
    """Return the name of a site whose log-density is not as expected."""
    return next((name for name in logs if not np.array_equal(logs[name], expected[name], equal_nan=True)), None)
