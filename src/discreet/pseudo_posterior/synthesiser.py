"""What generates synthetic records: a Bayesian model, and how a table is written for it from public facts alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from discreet._core.boundary import sealed
from discreet._core.errors import ParameterError, Refused
from discreet._core.lazy import handlers, jax, jnp
from discreet.pseudo_posterior.likelihood import SHARED, Columns, Model

BLOCK = 25
"""Draws that a chain makes in one execution: XLA frees what its loops allocate only when they end."""


class Chain(NamedTuple):
    """A Markov chain in JAX. All randomness comes from the key: where the chain is includes it."""

    # begin: of a key, values of the latent sites (or None) and data with weights, where the chain starts. advance: of
    # where it is, and data with weights, where it is some draws later, with these draws and which are divergent.

    begin: Callable[[Any, Mapping[str, Any] | None, tuple[Any, Any]], Any]
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
    def model(self, data: Mapping[str, Any]) -> None:
        """Run the NumPyro model on encoded data."""

    def public(self, columns: Columns, count: int) -> dict[str, npt.NDArray[Any]]:
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

    def encoded(self, columns: Columns) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays that the model reads: those of :meth:`public`, and each sensitive column, :meth:`coded`.

        Raises
        ------
        ParameterError
            When a value is coded as anything but one value of the type of the code of 0.
        """
        public = self.public({name: columns[name] for name in self.given}, len(columns[self.sensitive[0]]))
        return public | {name: self._one_by_one(name, np.asarray(columns[name])) for name in self.sensitive}

    def encoded_alike(self, columns: Columns) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays of :meth:`encoded` for full synthesis, of which only the rows show how many there are.

        Public arrays are those of one record, repeated. A blank record stands for none: it has to count for nothing.
        """
        row, count = self.blank(columns, 1), max(len(columns[name]) for name in self.sensitive)
        if not count:
            return row
        public = {name: v if name.startswith(SHARED) else np.repeat(v, count, axis=0) for name, v in row.items()}
        return public | {name: self._one_by_one(name, np.asarray(columns[name])) for name in self.sensitive}

    def blank(self, columns: Columns, count: int) -> dict[str, npt.NDArray[Any]]:
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

    def start(self, data: Mapping[str, Any], *, chain: int) -> dict[str, npt.NDArray[Any]] | None:
        """Return parameter values to start a chain from, or None for the best of some random ones.

        Chains are numbered from 0, so that they may start apart.
        """
        return None

    def conjugate(
        self, data: Mapping[str, Any], weights: npt.NDArray[np.float64], *, draws: int, rng: np.random.Generator
    ) -> dict[str, npt.NDArray[np.float64]] | None:
        """Return independent draws from the exact weighted posterior, or None where there is no closed form."""
        return None

    def chain(self, data: Mapping[str, Any], *, warm_up: int, bound: float | None) -> Chain | None:
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

    def model(self, data: Mapping[str, Any]) -> None:
        """Run the function."""
        self.function(data)


# The chain of models that bring none of their own: NumPyro's NUTS, a block of draws at a time.

_ACCEPT = 0.9  # steps somewhat shorter than by default: fewer divergent transitions in mixtures
_TRIED = 20  # starts a chain, where none is given


def nuts_chain(
    target: Callable[..., None], shapes: Mapping[str, tuple[int, ...]], *, warm_up: int, depth: int
) -> Chain:
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

    def begin(key: Any, values: Mapping[str, Any] | None, facts: Any) -> Any:
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
