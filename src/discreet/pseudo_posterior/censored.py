r"""The censored posterior: each record's log-likelihood is clipped, which bounds its influence for every table.

:math:`\xi_M(\theta\mid x)\propto\xi(\theta)\prod_i\exp\bigl(w(x_i)\max\{-M,\min(0,\log p(x_i\mid\theta))\}\bigr)` with
:math:`0\le w\le1` a public function of the record alone. One draw is 2M-differentially private (T18).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Floats
from discreet._core.boundary import sealed
from discreet._core.checks import positive_size, real
from discreet._core.errors import ParameterError, RelationNotSupported
from discreet._core.lazy import jax, jnp
from discreet.domain import Domain
from discreet.privacy import Code, Guarantee, Relation
from discreet.pseudo_posterior.grid import LARGEST_BOUND, LEAST_BOUND, drawn_on_grid
from discreet.pseudo_posterior.likelihood import Columns, by_row, program, quiet, records_of, rows
from discreet.pseudo_posterior.mechanism import ModelMechanism, ModelPosterior, least_product, synthetic_tables
from discreet.pseudo_posterior.sampler import PosteriorDraws, Progress
from discreet.utility import ks_distance


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class ChainDistance:
    """How far Markov chains may be from the posterior that the theorem speaks of. Confidential.

    ``between_chains``: the largest Kolmogorov-Smirnov distance between one chain and the others, over everything
    watched. ``expected``: the sampling error of chains of the same effective sizes that do agree (its 95 % point).
    """

    between_chains: float
    expected: float
    r_hat: float
    effective: float

    @property
    def excess(self) -> float:
        """What sampling error does not explain of the distance."""
        return max(0.0, self.between_chains - self.expected)

    def delta(self, epsilon: float) -> float:
        r"""Return what such a distance adds to delta, :math:`(1+e^\varepsilon)\tau` with the excess as :math:`\tau`."""
        return min(1.0, (1.0 + math.exp(min(epsilon, 700.0))) * self.excess)


def chain_distance(draws: PosteriorDraws) -> ChainDistance:
    """Measure how far chains are from one another: that can show that they are wrong, and never that they are right."""
    if draws.exact:
        return ChainDistance(between_chains=0.0, expected=0.0, r_hat=1.0, effective=draws.effective)
    chains = len(next(iter(draws.watched.values())))
    distances = [
        ks_distance(watched[i], np.delete(watched, i, axis=0).ravel())
        for watched in draws.watched.values()
        for i in range(chains)
    ]
    # Bonferroni over the comparisons of Smirnov's two-sample limit, 2 exp(-2 s t^2) with s the harmonic size.
    size = draws.effective * (chains - 1) / chains**2
    expected = min(1.0, math.sqrt(math.log(2.0 * len(distances) / 0.05) / (2.0 * size)))
    return ChainDistance(between_chains=max(distances), expected=expected, r_hat=draws.r_hat, effective=draws.effective)


@sealed
@dataclass(frozen=True, slots=True)
class CensoredPosterior(ModelPosterior):
    r"""The censored posterior mechanism: ``2M`` per table for every pair of neighbours, given an exact posterior draw.

    Parameters
    ----------
    synthesiser : Synthesiser or callable
        A synthesiser, or a NumPyro model whose observed sites are the columns given as ``sensitive``.
    bound : float
        M in nats, above 0: at most this much can a record say against a parameter.
    sensitive, given : tuple of str
        As for :class:`PseudoPosterior`.
    record_weights : callable, optional
        A **public** function from encoded data to one weight in [0, 1] a record; 1 by default. If JAX can trace it, it
        is traced on an abstract record: no other record can enter a weight. If not, since it uses NumPy, it is called
        with one record at a time, and that it keeps nothing from one call to the next is assumed. It is refused where
        it would give other weights for the whole table.
    survey_weight, survey_mean
        As for :class:`PseudoPosterior`. The product of weight and log-density is clipped, so the bound is that of any
        weights.
    unit : str, optional
        The column that names the privacy unit, such as a household: the records of a unit can together say at most M
        nats against a parameter, and neighbours differ in one unit. No model sees the column and it is not released,
        unless it is given.
    grid : mapping of str to array_like, optional
        A public list of parameters: values of every latent site, one row per parameter. The posterior is then a finite
        distribution and is drawn from exactly, with integers: no Markov chain, and no assumption about one.
    tables : int
        Tables to release, each from its own draw. The privacy cost is multiplied by this number.
    size : int, optional
        Records of a synthetic table, a public number, where nothing is given; by default as many as are held, a number
        that is public under replacement and confidential under add/remove. With a size the prior comes from a blank
        table of one record, and a model whose prior depends on the number of records is refused; the table may have no
        records: the draw is then from the prior.
    draws, warm_up, chains, convergence, chain_method
        As for :class:`PseudoPosterior`.

    References
    ----------
    Dimitrakakis, Nelson, Zhang, Mitrokotsa and Rubinstein (2017) for bounded log-likelihoods; docs/theory/
    censored-posterior.md (T18).

    Examples
    --------
    >>> from dataclasses import replace
    >>> from discreet.pseudo_posterior import PoissonMean
    >>> chains = CensoredPosterior(PoissonMean(column="visits"), bound=0.5, tables=2)
    >>> promise = chains.guarantee(n=1000)
    >>> promise.kind, round(promise.epsilon(0.0), 9), round(promise.delta(0.0), 3) <= 0.462
    ('empirical', 2.0, True)
    >>> replace(chains, grid={"mean": np.linspace(1.0, 50.0, 200)}).guarantee(n=1000).kind
    'unconditional'
    """

    bound: float
    sensitive: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    record_weights: Callable[[Mapping[str, Any]], npt.ArrayLike] | None = None
    grid: Mapping[str, npt.ArrayLike] | None = None
    size: int | None = None

    def __post_init__(self) -> None:
        self._settle(self.sensitive, self.given)
        object.__setattr__(self, "bound", real("bound", self.bound, above=0))
        if self.size is not None:
            object.__setattr__(self, "size", positive_size("size", self.size))
            if self.synthesiser.given:
                raise ParameterError(
                    "size is for full synthesis, since a partially synthetic table has as many records as the "
                    "confidential one. Leave size out"
                )
        if self.grid is not None:
            real("on a grid the bound M", self.bound, least=LEAST_BOUND, most=LARGEST_BOUND)

    def fit(
        self, columns: Columns, *, rng: np.random.Generator, check: bool = True, progress: Progress | None = None
    ) -> PosteriorDraws:
        """Draw from the censored posterior. Each draw that is used is covered by the guarantee.

        Parameters
        ----------
        columns, rng, check, progress
            As for :meth:`PseudoPosterior.fit`.

        Raises
        ------
        Refused
            When the chains did not converge.
        ParameterError
            When a weight is outside [0, 1] or depends on other records, the model does more with the table than to give
            each record a log-density by itself, its prior depends on the number of records although a size was given,
            or there is no record and no size.
        """
        blanks: tuple[dict[str, npt.NDArray[Any]], ...] = ()
        if self.size is None:
            data = self.synthesiser.encoded(columns)
        else:  # the number held is confidential: tables of one record, of two, and of what is to be drawn
            blanks = tuple(self.synthesiser.blank(columns, count) for count in (1, 2, self.size))
            data = self.synthesiser.encoded_alike(columns)
        weights, (survey, units) = self._weights(data, records_of(data)), self._beside(columns)
        if units is not None and len(units):
            # Each of the k records of a unit is clipped to M/k, the product with k to M and then divided by k.
            sizes = np.bincount(units)[units].astype(np.float64)
            weights = weights / sizes
            survey = sizes if survey is None else survey * sizes
        if blanks:
            self._weights(blanks[1], 2)  # so that weights that are refused are for a table of no records, too
            if not len(columns[self.synthesiser.sensitive[0]]):
                weights, survey = np.zeros(1), None if survey is None else np.zeros(1)
        options: dict[str, Any] = {"bound": self.bound, "blanks": blanks, "survey": survey}
        if self.grid is not None:
            with quiet():
                sites = drawn_on_grid(self.synthesiser, self.grid, data, weights, draws=self.tables, rng=rng, **options)
            return PosteriorDraws(values=sites, watched={}, divergent=0.0, exact=True)
        return self._draw(self._sampler(data, progress=progress, **options), weights, rng=rng, check=check)

    def synthesise(
        self, draws: PosteriorDraws, columns: Columns, *, rng: np.random.Generator
    ) -> list[dict[str, npt.NDArray[Any]]]:
        """Draw the synthetic tables, each from its own posterior draw, of ``size`` records.

        What draws them is handed parameters, shapes and the given columns; never a sensitive one.
        """
        return synthetic_tables(self.synthesiser, draws, columns, tables=self.tables, size=self.size, rng=rng)

    def on(self, domain: Domain, *, progress: Progress | None = None) -> CensoredPosteriorMechanism:
        """Return the mechanism on a domain, as :meth:`PseudoPosterior.on`."""
        return CensoredPosteriorMechanism(domain=domain, posterior=self, progress=progress)

    @property
    def on_a_grid(self) -> bool:
        """Whether draws are exact, on a public grid of parameters."""
        return self.grid is not None

    def epsilon_each(self, relation: Relation) -> float:
        """Return the pure epsilon of one table: 2gM under replacement, gM under add/remove."""
        return least_product((1 + (relation.name == "replacement")) * relation.group, self.bound)

    def guarantee(self, relation: Relation | None = None, *, n: int) -> Guarantee:
        """Return what is promised for tables of ``n`` records: T18, of kind ``empirical`` but on a grid.

        Parameters
        ----------
        relation : Relation, optional
            Replacement (the default), with a loss in an interval of length 2gM a table for g records; or add/remove,
            of length gM, for full synthesis with a public ``size``.
        n : int
            Number of records.

        Raises
        ------
        RelationNotSupported
            For add/remove under partial synthesis, which publishes one row per record, and without a ``size``.
        """
        relation = relation or Relation()
        added = relation.name == "add-remove"
        if added and (self.synthesiser.given or self.size is None):
            why = "a partially synthetic table shows how many records there are"
            if not self.synthesiser.given:
                why = (
                    "without a size the tables have as many records as the confidential one. Write size=..., a public "
                    "number"
                )
            raise RelationNotSupported("censored-posterior", relation.name, why)
        kind, sampling, caveats = "unconditional", "density-row-by-row", [Code("delta-is-bound")]
        if not self.on_a_grid:
            kind, sampling = "empirical", "exact-sampling"
            caveats.append(Code("chains-approximate"))
        assumptions = [Code("model-chosen-without-data", {"grid": self.on_a_grid})]
        if added:
            assumptions.append(Code("public-size"))
        return self._promise(relation, n, kind, "T18", assumptions, Code(sampling), caveats)

    def _weights(self, data: Mapping[str, Any], count: int) -> Floats:
        """Return one weight per record, from that record alone; the whole table is used only to check this."""
        if self.record_weights is None:
            return np.ones(count)
        function, table = self.record_weights, rows(data, np.arange(count))
        try:
            with quiet(), jax.enable_x64(True):
                weights = list(np.asarray(by_row(lambda _, record: jnp.asarray(function(record)), (), table)))
                together = program(lambda records: jnp.asarray(function(records)), table)(table)
        except Exception:  # noqa: BLE001  # it cannot be traced: it is called with values
            weights = [np.asarray(function(rows(data, slice(i, i + 1)))) for i in range(count)]
            together = function(table)
        if not all(weight.shape == (1,) and 0 <= weight[0] <= 1 for weight in weights):
            raise ParameterError("record_weights must give one weight in [0, 1] per record, also for one by itself")
        single, together = np.concatenate(weights, dtype=np.float64), np.asarray(together, dtype=np.float64)
        if together.shape != (count,) or not np.allclose(together, single, rtol=1e-6, atol=1e-9):
            raise ParameterError(
                "record_weights must give one weight per record, each from its own record alone, or the bound does "
                "not hold. PseudoPosterior takes other weights, with an asymptotic guarantee"
            )
        return single


@sealed
class CensoredPosteriorMechanism(ModelMechanism):
    """The censored posterior on a domain."""

    name = "censored-posterior"
    facts = ("bound", "size", "on_a_grid")
    posterior: CensoredPosterior

    def posterior_draws(self, columns: Columns, *, rng: np.random.Generator) -> PosteriorDraws:
        """Draw from the censored posterior."""
        return self.posterior.fit(columns, rng=rng, progress=self.progress)

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any], *, domain: Domain, records: int, size: int | None) -> Self:
        """Return a mechanism with the same bound and size, on a stand-in of its grid."""
        options = {"bound": parameters["bound"], "size": parameters["size"]}
        if parameters["on_a_grid"]:
            options["grid"] = {"parameter": [0.0]}
        return cls.certified_by(parameters, CensoredPosterior, domain=domain, **options)
