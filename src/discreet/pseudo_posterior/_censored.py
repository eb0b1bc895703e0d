r"""The censored posterior: each record's log-likelihood is clipped, which bounds its influence for every table.

:math:`\xi_M(\theta\mid x)\propto\xi(\theta)\prod_i\exp\bigl(w(x_i)\max\{-M,\min(0,\log p(x_i\mid\theta))\}\bigr)` with
:math:`0\le w\le1` a public function of the record alone. One draw is 2M-differentially private (T18).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._numeric import up
from discreet.errors import ParameterError, RelationNotSupported
from discreet.privacy import BoundedRangeProfile, Guarantee, Relation, power
from discreet.pseudo_posterior._fit import AS_LONG_AS_ASKED, Convergence, PosteriorDraws, Progress, Sampler
from discreet.pseudo_posterior._likelihood import by_record, quiet
from discreet.pseudo_posterior._synthesis import partial_caveats, synthetic_tables
from discreet.pseudo_posterior._synthesiser import Columns, Synthesiser, check_tables, records_of, rows, settled

__all__ = ["CensoredPosterior", "ChainDistance", "censored_law", "chain_distance"]

Floats = npt.NDArray[np.float64]


def censored_law(
    log_likelihoods: npt.ArrayLike, *, bound: float, log_prior: npt.ArrayLike, weights: npt.ArrayLike = 1.0
) -> Floats:
    r"""Return the exact censored posterior on finitely many parameters.

    Parameters
    ----------
    log_likelihoods : array_like of float, shape (parameters, n)
        Nats, minus infinity allowed.
    bound : float
        M, nats.
    log_prior : array_like of float, shape (parameters,)
        Up to a constant.
    weights : array_like of float, shape (n,) or ()
        In [0, 1].

    Returns
    -------
    ndarray of float64, shape (parameters,)
        Probabilities.

    Examples
    --------
    >>> censored_law([[-1.0], [-9.0]], bound=2.0, log_prior=[0.0, 0.0]).round(6).tolist()
    [0.731059, 0.268941]
    """
    clipped = np.clip(np.asarray(log_likelihoods, dtype=np.float64), -bound, 0.0)
    logs = (clipped * np.asarray(weights, dtype=np.float64)).sum(axis=1) + np.asarray(log_prior, dtype=np.float64)
    masses = np.exp(logs - logs.max())
    return np.asarray(masses / masses.sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainDistance:
    """How far Markov chains may be from the posterior that the theorem speaks of. Confidential.

    Parameters
    ----------
    between_chains : float
        The largest Kolmogorov-Smirnov distance between one chain and the others, over everything watched: chains that
        had forgotten where they began would differ by sampling error alone.
    expected : float
        That sampling error for chains of the same effective sizes that do agree (its 95 % point).
    r_hat, effective : float
        As of the draws.
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
    """Measure how far chains are from one another, as a sign of how far they are from the exact posterior.

    Independent exact draws are at distance 0. The number can show that chains are wrong; no number computed from
    chains can show that they are right.
    """
    if draws.exact:
        return ChainDistance(between_chains=0.0, expected=0.0, r_hat=1.0, effective=draws.effective)
    largest = 0.0
    for watched in draws.watched.values():
        for i, one in enumerate(watched):
            others = np.sort(np.delete(watched, i, axis=0).ravel())
            own, grid = np.sort(one), np.concatenate((one, others))
            gap = np.searchsorted(own, grid, side="right") / len(own)
            gap = gap - np.searchsorted(others, grid, side="right") / len(others)
            largest = max(largest, float(np.abs(gap).max()))
    chains = next(iter(draws.watched.values())).shape[0]
    each = draws.effective / chains
    comparisons = chains * len(draws.watched)
    # Bonferroni over the comparisons of Smirnov's two-sample limit, 2 exp(-2 s t^2) with s the harmonic size.
    size = each * (draws.effective - each) / draws.effective
    expected = math.sqrt(math.log(2.0 * comparisons / 0.05) / (2.0 * size))
    return ChainDistance(
        between_chains=largest, expected=min(1.0, expected), r_hat=draws.r_hat, effective=draws.effective
    )


@dataclass(frozen=True, slots=True)
class CensoredPosterior:
    r"""The censored posterior mechanism: ``2M`` a table for every pair of neighbours, given an exact posterior draw.

    Parameters
    ----------
    synthesiser : Synthesiser or callable
        A synthesiser, or a NumPyro model whose observed sites are the columns given as ``sensitive``.
    bound : float
        M in nats, above 0: at most this much can a record say against a parameter.
    sensitive, given : tuple of str
        As for :class:`PseudoPosterior`.
    record_weights : callable, optional
        A **public** function from encoded data to one weight in [0, 1] a record, each computed from its own record
        alone (checked by computing it on parts of the table); 1 by default.
    grid : mapping of str to array_like, optional
        A public list of parameters: values of every latent site, one row a parameter. The posterior is then a finite
        distribution and is drawn from exactly: no Markov chain, and no assumption about one.
    tables : int
        Tables to release, each from its own draw: the budget is so many times that of one.
    draws, warm_up, chains, convergence, chain_method
        As for :class:`PseudoPosterior`.

    References
    ----------
    Dimitrakakis, Nelson, Zhang, Mitrokotsa and Rubinstein (2017) for bounded log-likelihoods; docs/theory/
    censored-posterior.md (T18).

    Examples
    --------
    >>> from discreet.pseudo_posterior import PoissonMean
    >>> promise = CensoredPosterior(PoissonMean(column="visits"), bound=0.5, tables=2).guarantee(n=1000)
    >>> promise.kind, round(promise.epsilon(0.0), 9), round(promise.delta(0.0), 3) <= 0.462
    ('unconditional', 2.0, True)
    """

    synthesiser: Any
    bound: float
    sensitive: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    record_weights: Callable[[Mapping[str, Any]], npt.ArrayLike] | None = None
    grid: Mapping[str, npt.ArrayLike] | None = None
    tables: int = 1
    draws: int = 1000
    warm_up: int = 1000
    chains: int = 4
    convergence: Convergence = field(default_factory=Convergence)
    chain_method: str = "sequential"

    def __post_init__(self) -> None:
        object.__setattr__(self, "synthesiser", settled(self.synthesiser, self.sensitive, self.given))
        if not (math.isfinite(self.bound) and self.bound > 0):
            raise ParameterError("the bound M is a finite number above 0, in nats")
        check_tables(self.tables)

    def fit(
        self, columns: Columns, *, rng: np.random.Generator, check: bool = True, progress: Progress | None = None
    ) -> PosteriorDraws:
        """Draw from the censored posterior.

        Parameters
        ----------
        columns : mapping of str to ndarray
            Confidential.
        rng : numpy.random.Generator
            Source of everything.
        check : bool
            Refuse chains that did not converge.
        progress : callable, optional
            Called with how many draws each chain has made, and how many it is to make.

        Returns
        -------
        PosteriorDraws
            Each draw that is used is covered by the guarantee; the diagnostics are confidential.

        Raises
        ------
        Refused
            When the chains did not converge.
        ParameterError
            When a weight is outside [0, 1] or depends on other records.
        """
        data = self.synthesiser.encoded(columns)
        weights = self._weights(data, records_of(data))
        if self.grid is not None:
            return self._on_grid(data, weights, rng=rng)
        sampler = Sampler(
            self.synthesiser,
            data,
            draws=self.draws,
            warm_up=self.warm_up,
            chains=self.chains,
            bound=self.bound,
            chain_method=self.chain_method,
            progress=progress,
        )
        made = sampler.draw(weights, rng=rng, until=self.convergence if check else AS_LONG_AS_ASKED)
        if check:
            made.require(self.convergence)
        return made

    def synthesise(
        self, draws: PosteriorDraws, columns: Columns, *, rng: np.random.Generator, size: int | None = None
    ) -> list[dict[str, npt.NDArray[Any]]]:
        """Draw the synthetic tables, each from its own posterior draw, of any number of records."""
        return synthetic_tables(self.synthesiser, draws, columns, tables=self.tables, size=size, rng=rng)

    def guarantee(self, relation: Relation | None = None, *, n: int) -> Guarantee:
        """Return what is promised for tables of ``n`` records: T18.

        Parameters
        ----------
        relation : Relation, optional
            Replacement (the default), with a loss in an interval of length 2gM a table for g records; or add/remove,
            of length gM, for full synthesis with a size that was chosen in public.
        n : int
            Number of records.

        Raises
        ------
        RelationNotSupported
            For add/remove under partial synthesis, which publishes one row a record.
        """
        held = Relation() if relation is None else relation
        if held.name == "add-remove" and self.synthesiser.given:
            raise RelationNotSupported(
                "censored-posterior", held.name, "a partially synthetic table shows how many records there are"
            )
        sides = 2 if held.name == "replacement" else 1
        exact = (
            ()
            if self.grid is not None
            else (
                "exact posterior sampling: each table's parameters are an independent draw from the posterior itself, "
                "however long the run became and whether or not it is kept",
            )
        )
        return Guarantee(
            relation=held,
            n=n,
            profile=power(BoundedRangeProfile(spread=up(sides * held.group * self.bound)), self.tables),
            kind="unconditional",
            theorem="T18",
            assumptions=(
                "model, prior, bound and weights were chosen without looking at the data",
                *exact,
            ),
            caveats=(
                "the delta is an upper bound",
                *((f"{sides * held.group * self.bound:g} for each of {self.tables} tables",) * (self.tables > 1)),
                *(
                    ()
                    if self.grid is not None
                    else (
                        "Markov chains draw from the posterior approximately, in floating point; their diagnostics are "
                        "signs, not bounds",
                    )
                ),
                *partial_caveats(self.synthesiser),
            ),
        )

    def _weights(self, data: Mapping[str, Any], count: int) -> Floats:
        if self.record_weights is None:
            return np.ones(count)
        given = np.asarray(self.record_weights(data), dtype=np.float64)
        if given.shape != (count,) or not ((given >= 0) & (given <= 1)).all():
            raise ParameterError("record_weights gives one weight in [0, 1] a record")
        for part in (slice(None, None, 2), slice(None, 1)):
            alone = self.record_weights(rows(data, part))
            if not np.array_equal(np.asarray(alone, dtype=np.float64), given[part]):
                raise ParameterError(
                    "record_weights depends on other records than a weight's own: the bound does not hold for it; use "
                    "PseudoPosterior, whose guarantee is asymptotic"
                )
        return given

    def _on_grid(self, data: Mapping[str, Any], weights: Floats, *, rng: np.random.Generator) -> PosteriorDraws:
        assert self.grid is not None
        points = {name: np.asarray(value) for name, value in self.grid.items()}
        count = records_of(points)
        with quiet():
            logs, prior = _on_points(self.synthesiser, points, data, len(weights))
        law = censored_law(logs, bound=self.bound, log_prior=prior, weights=weights)
        picked = np.searchsorted(np.cumsum(law)[:-1], rng.random(self.tables), side="right")
        assert (picked < count).all()
        return PosteriorDraws(
            values={name: value[picked] for name, value in points.items()}, watched={}, divergent=0.0, exact=True
        )


def _on_points(
    synthesiser: Synthesiser, points: Mapping[str, npt.NDArray[Any]], data: Mapping[str, Any], count: int
) -> tuple[Floats, Floats]:
    """Return log-likelihoods (parameters, n) and log-prior densities (parameters,) on a list of parameters."""
    import jax
    import jax.numpy as jnp
    from numpyro import handlers

    def at(one: Mapping[str, Any]) -> tuple[Any, Any]:
        kept: list[Any] = []

        def run() -> None:
            kept.append(by_record(synthesiser.model, data, count))

        with handlers.substitute(data=one), handlers.seed(rng_seed=0), handlers.trace() as sites:
            run()
        missing = [s["name"] for s in sites.values() if s["type"] == "sample" and not s["is_observed"]
                   and s["name"] not in points]  # fmt: skip
        if missing:
            raise ParameterError(f"the grid gives no values of site {missing[0]!r}")
        logs = [site["fn"].log_prob(site["value"]).sum() for site in sites.values() if site["type"] == "sample"]
        return kept[0], sum(logs)

    logs, prior = jax.lax.map(at, {name: jnp.asarray(value) for name, value in points.items()})
    return np.nan_to_num(np.asarray(logs, dtype=np.float64), nan=-np.inf), np.asarray(prior, dtype=np.float64)
