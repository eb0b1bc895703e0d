r"""The censored posterior: each record's log-likelihood is clipped, which bounds its influence for every table.

:math:`\xi_M(\theta\mid x)\propto\xi(\theta)\prod_i\exp\bigl(w(x_i)\max\{-M,\min(0,\log p(x_i\mid\theta))\}\bigr)` with
:math:`0\le w\le1` a public function of the record alone. One draw is 2M-differentially private (T18). On a public list
of parameters records say whole numbers of ``-2^36 .. 0`` units, so that their sums are exact; rounding costs at most
:func:`margin`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._core.boundary import sealed
from discreet._core.errors import ParameterError, RelationNotSupported, positive_size, real
from discreet._core.lazy import jax, jnp
from discreet._core.numeric import Arrays, Floats, Integers
from discreet._core.random import draw_weighted
from discreet._core.text import as_written
from discreet.domain import Domain
from discreet.privacy import Code, Guarantee, Relation
from discreet.pseudo_posterior import likelihood
from discreet.pseudo_posterior.likelihood import Columns, Data
from discreet.pseudo_posterior.mechanism import ModelMechanism, ModelPosterior, least_product, synthetic_tables
from discreet.pseudo_posterior.sampler import PosteriorDraws, Progress
from discreet.pseudo_posterior.synthesiser import Synthesiser, check_model, densities, latent_sites


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
    record_weights: Callable[[Data], npt.ArrayLike] | None = None
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

    def fit(self, columns: Columns, *, rng: np.random.Generator, progress: Progress | None = None) -> PosteriorDraws:
        """Draw from the censored posterior. Each draw that is used is covered by the guarantee.

        Parameters
        ----------
        columns, rng, progress
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
        blanks: tuple[Arrays, ...] = ()
        if self.size is None:
            data = self.synthesiser.encoded(columns)
        else:  # the number held is confidential: tables of one record, of two, and of what is to be drawn
            blanks = tuple(self.synthesiser.blank(columns, count) for count in (1, 2, self.size))
            data = self.synthesiser.encoded_alike(columns)
        weights, (survey, units) = self._weights(data, likelihood.records_of(data)), self._beside(columns)
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
            with likelihood.quiet():
                sites = drawn_on_grid(self.synthesiser, self.grid, data, weights, draws=self.tables, rng=rng, **options)
            return PosteriorDraws(values=sites, watched={}, divergent=0.0, exact=True)
        return self._draw(self._sampler(data, progress=progress, **options), weights, rng=rng)

    def synthesise(self, draws: PosteriorDraws, columns: Columns, *, rng: np.random.Generator) -> list[Arrays]:
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
        return self._promise(relation, n, assumptions, sampling, caveats, kind=kind, theorem="T18")

    def _weights(self, data: Data, count: int) -> Floats:
        """Return one weight per record, from that record alone; the whole table is used only to check this."""
        if self.record_weights is None:
            return np.ones(count)
        function, table = self.record_weights, likelihood.rows(data, np.arange(count))
        try:
            with likelihood.quiet(), jax.enable_x64(True):
                weights = list(np.asarray(likelihood.by_row(lambda _, row: jnp.asarray(function(row)), (), table)))
                together = likelihood.program(lambda records: jnp.asarray(function(records)), table)(table)
        except Exception:  # noqa: BLE001  # it cannot be traced: it is called with values
            weights = [np.asarray(function(likelihood.rows(data, slice(i, i + 1)))) for i in range(count)]
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
    family = CensoredPosterior
    posterior: CensoredPosterior

    def posterior_draws(self, columns: Columns, *, rng: np.random.Generator) -> PosteriorDraws:
        """Draw from the censored posterior."""
        return self.posterior.fit(columns, rng=rng, progress=self.progress)


_UNITS = 2**36
_RECORDS = 2**26
_POINTS = 2**23
LEAST_BOUND, LARGEST_BOUND = 2.0**-24, 2.0**10
"""Of a bound M that leaves room for rounding."""

_PRIOR_SPREAD = 2.0**14
_BLOCK = 512


def margin(bound: float) -> float:
    """Return four times how far a drawn log-weight may be from the exact one, in nats: what rounding costs."""
    # It holds for up to 2^26 records and 2^14 nats between the prior's log-densities, so that it depends on neither.
    return 4.0 * (2.0**-23 * bound + 2.0**-34)


def said(log_likelihoods: npt.ArrayLike, weights: npt.ArrayLike, bound: float) -> Integers:
    """Return what records say to parameters, (parameters, n): weighted, clipped, in ``-2^36 .. 0`` units."""
    logs = np.asarray(log_likelihoods, dtype=np.float64)
    clipped = np.where(np.isfinite(logs), np.clip(logs, -bound, 0.0), -bound)
    units = np.rint(clipped * np.asarray(weights, dtype=np.float64) * (_UNITS / bound))
    return np.clip(units.astype(np.int64), -_UNITS, 0)


def grid_log_weights(totals: Integers, log_prior: Floats, bound: float) -> Floats:
    """Return the log-weights that parameters are drawn with, from sums of :func:`said` over records."""
    return log_prior + totals.astype(np.float64) * ((bound - margin(bound)) / _UNITS)


def drawn_on_grid(
    synthesiser: Synthesiser,
    grid: Mapping[str, npt.ArrayLike],
    data: Data,
    weights: Floats,
    *,
    bound: float,
    draws: int,
    rng: np.random.Generator,
    blanks: Sequence[Data] = (),
    survey: Floats | None = None,
) -> Arrays:
    """Return independent draws from the censored posterior on a public grid of the latent sites, a row each."""
    points = {name: np.asarray(value) for name, value in grid.items()}
    if likelihood.records_of(points) > _POINTS or len(weights) > _RECORDS:
        raise ParameterError("a grid must have at most 2^23 parameters, and is for at most 2^26 records")
    sites = latent_sites(synthesiser, data, values={name: v[0] for name, v in points.items()}, blanks=blanks)
    if missing := sites.keys() - points.keys():
        raise ParameterError(f"the grid gives no values of site {min(missing)!r}")
    if unknown := points.keys() - sites.keys():
        raise ParameterError(f"the model has no latent site {min(unknown)!r}")
    sample = likelihood.rows(points, np.linspace(0, likelihood.records_of(points) - 1, 3).astype(np.int64))
    check_model(synthesiser, data, sample, blanks=blanks)
    blank = blanks[0] if blanks else likelihood.visible(data, synthesiser.sensitive)
    points, log_prior = _possible(synthesiser, points, blank)
    totals = np.zeros(len(log_prior), dtype=np.int64)
    surveyed = data if survey is None else {**data, likelihood.SURVEY: survey}
    alone = partial(likelihood.alone, synthesiser.model)
    likelihoods = jax.jit(lambda grid, block: jax.lax.map(lambda point: alone(point, block), grid))
    parameters = {name: jnp.asarray(value) for name, value in points.items()}
    for start in range(0, len(weights), _BLOCK):
        # All blocks have one shape, whatever the number of records: the last is filled up with its own first rows.
        count = min(_BLOCK, len(weights) - start)
        block = likelihood.rows(surveyed, start + np.arange(_BLOCK) % count)
        logs = likelihoods(parameters, {name: jnp.asarray(value) for name, value in block.items()})
        totals += said(np.asarray(logs)[:, :count], weights[start : start + count], bound).sum(axis=1)
    law = grid_log_weights(totals, log_prior, bound)
    return likelihood.rows(points, np.array([draw_weighted(law, rng=rng) for _ in range(draws)]))


def _possible(synthesiser: Synthesiser, points: Data, blank: Data) -> tuple[dict[str, Any], Floats]:
    """Return the parameters of positive prior density on a public table, and its logarithms, at most 0."""

    def density(point: Data) -> Any:
        return sum(logs.sum() for logs in densities(synthesiser.model, point, blank, {})[0].values())

    compiled = jax.jit(lambda points: jax.lax.map(density, points))
    log_prior = np.asarray(compiled({name: jnp.asarray(value) for name, value in points.items()}), dtype=np.float64)
    possible = np.isfinite(log_prior)
    if np.isposinf(log_prior).any() or not possible.any():
        raise ParameterError("the prior's densities on the grid must be finite, and some of them above 0")
    relative = log_prior[possible] - log_prior[possible].max()
    if relative.min() < -_PRIOR_SPREAD:
        raise ParameterError(
            f"the prior's log-densities on the grid are more than {as_written(_PRIOR_SPREAD)} nats apart. Leave out "
            "the parameters that it rules out"
        )
    return likelihood.rows(points, possible), relative
