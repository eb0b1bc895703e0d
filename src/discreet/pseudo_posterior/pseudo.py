"""The risk-weighted pseudo-posterior (PP22): a synthesiser that hardly learns from the records it would give away."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.random import Generator

from discreet._core.boundary import sealed
from discreet._core.errors import ParameterError, Refused, RelationNotSupported, real
from discreet._core.numeric import Arrays, Floats, least_real
from discreet._core.text import rounded_up
from discreet.domain import Domain
from discreet.privacy import Code, Guarantee, Relation
from discreet.pseudo_posterior.likelihood import Columns
from discreet.pseudo_posterior.mechanism import ModelMechanism, ModelPosterior, synthetic_tables
from discreet.pseudo_posterior.sampler import Convergence, PosteriorDraws, Progress, Sampler
from discreet.pseudo_posterior.weights import LinearWeights, Risks, Unweighted, Weighting

_REFITS = 6


@sealed
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PseudoFit:
    """A fitted pseudo-posterior. Confidential, but for tables drawn from it once and published.

    ``weights``, shape (n,), in [0, 1]: from a ``weighting``, the one asked for or what calibration found, of ``risks``
    under the ``unweighted`` posterior. ``draws``, ``bounds``: of the weighted posterior, and the risks under it,
    weights included.
    """

    risks: Risks
    weights: Floats = field(repr=False)
    draws: PosteriorDraws = field(repr=False)
    bounds: Risks
    unweighted: PosteriorDraws = field(repr=False)
    weighting: Weighting = field(repr=False)

    @property
    def lipschitz(self) -> float:
        """PP22's local Lipschitz bound of the weighted posterior."""
        return self.bounds.lipschitz

    @property
    def epsilon(self) -> float:
        """Local epsilon of one table. Confidential, since it is computed from the data."""
        return self.bounds.epsilon


def safety_factor(n: int) -> float:
    """Return the factor by which a local bound is raised before it is called global (PP22, section 4.5, upper ends)."""
    return 1.05 if n > 1000 else 1.10


@sealed
@dataclass(frozen=True, slots=True)
class PseudoPosterior(ModelPosterior):
    r"""The risk-weighted pseudo-posterior mechanism over any synthesiser.

    Draws :math:`\theta\sim\xi^\alpha(\theta\mid x)\propto\prod_ip(x_i\mid\theta)^{\alpha_i}\xi(\theta)` and then
    records from :math:`p(\cdot\mid\theta)`. Its guarantee is *asymptotic and local* (T19): the bound is a maximum over
    this table and these draws, and the weights of all records depend on all records. It is never formal differential
    privacy; :class:`CensoredPosterior` is.

    Parameters
    ----------
    synthesiser : Synthesiser or callable
        A synthesiser, or a NumPyro model whose observed sites are the columns given as ``sensitive``.
    sensitive : tuple of str
        The columns synthesised, where ``synthesiser`` is a model.
    given : tuple of str
        The columns they depend on, where ``synthesiser`` is a model.
    weighting : Weighting
        How risks become weights; linear with c = 1 and g = 0 by default.
    survey_weight : str, optional
        The column of survey weights, at least 0. A record's log-density is multiplied by its weight over
        ``survey_mean``, in the likelihood, in its risk and in the bound. No model sees the column. Under full synthesis
        it is as confidential as the others, and not released; under partial synthesis it is published exactly.
    survey_mean : float, optional
        Public: the survey weight that counts as one record, such as the size of the population over that of the sample.
        It must not be computed from weights that are confidential.
    unit : str, optional
        The column that names the privacy unit, such as a household. Risks, weights and the bound are then those of all
        records of a unit together. No model sees the column and it is not released, unless it is given.
    target_epsilon : float, optional
        Local epsilon of one table that is aimed at, a public choice; it has to be given for a release.
    tables : int
        Number of tables to release, each from its own draw. The privacy cost is multiplied by this number.
    draws, warm_up, chains : int
        Of the Markov chains.
    convergence : Convergence
        When the chains are relied on: by default where four of them are worth 400 draws, as the bound is a maximum
        over draws.
    chain_method : {"sequential", "parallel", "vectorized"}
        As in ``numpyro.infer.MCMC``.

    References
    ----------
    PP22, sections 2 to 4; docs/theory/pseudo-posterior.md (T19).

    Examples
    --------
    >>> from discreet._core.random import seeded
    >>> from discreet.pseudo_posterior import PoissonMean
    >>> mechanism = PseudoPosterior(PoissonMean(column="visits"), target_epsilon=8.0, tables=3)
    >>> fitted = mechanism.calibrated_fit({"visits": seeded(1).poisson(100, size=400)}, rng=seeded(2))
    >>> 6.0 < fitted.epsilon * safety_factor(400) <= 8.0
    True
    >>> round(mechanism.guarantee(n=400).epsilon(0.0), 9)
    24.0
    """

    sensitive: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    weighting: Weighting = field(default_factory=LinearWeights)
    convergence: Convergence = field(default_factory=lambda: Convergence(effective=100.0))
    target_epsilon: float | None = None

    def __post_init__(self) -> None:
        self._settle(self.sensitive, self.given)
        if self.target_epsilon is not None:
            remedy = "It is the local epsilon of one table."
            target = real("target_epsilon", self.target_epsilon, above=0, down=True, remedy=remedy)
            object.__setattr__(self, "target_epsilon", target)

    def fit(self, columns: Columns, *, rng: Generator, progress: Progress | None = None) -> PseudoFit:
        """Fit both posteriors and compute risks, weights and bounds.

        Parameters
        ----------
        columns : mapping of str to ndarray
            Confidential: the columns that the synthesiser reads, one entry per record.
        rng : numpy.random.Generator
            Source of everything.
        progress : callable, optional
            Called with how many draws each chain of the current fit has made, and how many it is to make.

        Raises
        ------
        Refused
            When the chains did not converge.
        ParameterError
            When model and data do not fit together.
        """
        sampler = self.sampler(columns, progress=progress)
        unweighted = self.unweighted_draws(sampler, rng=rng)
        return self.refit(sampler, unweighted, Risks.from_draws(sampler, unweighted), self.weighting, rng=rng)

    def calibrated_fit(self, columns: Columns, *, rng: Generator, progress: Progress | None = None) -> PseudoFit:
        """Fit with weights solved for, so that the local epsilon meets the target with its safety.

        One number is solved for: (c, g) along their ratio for linear weights, the bound M for truncated ones, a factor
        of all weights for others (:meth:`Weighting.tightened`). The posterior is refitted and measured up to six times,
        until the local epsilon times :func:`safety_factor` is at most the target. Where the unweighted posterior meets
        the target, nothing is weighted. The weighting is as confidential as the fit: it was chosen by looking at the
        data.

        Parameters
        ----------
        columns, rng, progress
            As for :meth:`fit`.

        Raises
        ------
        Refused
            When six refits do not reach the target, or chains did not converge.
        """
        if self.target_epsilon is None:
            raise ParameterError("the local epsilon of one table is needed. Write target_epsilon=...")
        sampler = self.sampler(columns, progress=progress)
        unweighted = self.unweighted_draws(sampler, rng=rng)
        risks = Risks.from_draws(sampler, unweighted)
        target = self.target_epsilon / self._factor(sampler.count)
        if risks.epsilon <= target:
            return self.refit(sampler, unweighted, risks, Unweighted(), rng=rng)
        aim = 0.95 * target

        def excess(tightening: float) -> float:
            weighting = self.weighting.tightened(1.0 / tightening)
            return risks.times(weighting.weights(risks.by_record, self._data(sampler))).epsilon - aim

        for _ in range(_REFITS):
            # The loosest weighting whose local epsilon is at most the aim under the unweighted posterior.
            solution = least_real(excess, 1.0, 1e9, relative=1e-3)
            if solution is None:
                raise Refused("no weights of this kind meet the target. Raise target_epsilon, or take other weights")
            weighting = self.weighting.tightened(1.0 / solution)
            fit = self.refit(sampler, unweighted, risks, weighting, rng=rng)
            if fit.epsilon <= target:
                return fit
            aim *= 0.97 * target / fit.epsilon
        raise Refused(
            f"the target local epsilon {rounded_up(self.target_epsilon, 6)} was not met in {_REFITS} refits. Raise "
            "it, or take another weighting"
        )

    def _factor(self, n: int) -> float:
        """Return the factor of safety; that of few records where there are units, whose number is not stated."""
        return safety_factor(n if self.unit is None else 0)

    def _data(self, sampler: Sampler) -> dict[str, Any]:
        """Return what weightings read beside risks: arrays of records, and nothing of units."""
        return sampler.data if self.unit is None else {}

    def synthesise(
        self, fitted: PseudoFit, columns: Columns, *, rng: Generator, size: int | None = None
    ) -> list[Arrays]:
        """Draw the synthetic tables, each from its own posterior draw: given columns as they are, sensitive ones anew.

        Parameters
        ----------
        fitted : PseudoFit
            What :meth:`fit` returned for the same columns.
        columns : mapping of str to ndarray
            The table: of its sensitive columns only names and types are used.
        rng : numpy.random.Generator
            Source of the choice of draws and of the records.
        size : int, optional
            Records a table; as many as held by default, and always so for partial synthesis.
        """
        return synthetic_tables(self.synthesiser, fitted.draws, columns, tables=self.tables, size=size, rng=rng)

    def on(self, domain: Domain, *, progress: Progress | None = None) -> PseudoPosteriorMechanism:
        """Return the mechanism on a domain, which :func:`~discreet.release` runs on a table of it.

        The domain names the synthesiser's columns, those of survey weights and units, and no others.
        """
        return PseudoPosteriorMechanism(domain=domain, posterior=self, progress=progress)

    def epsilon_each(self, relation: Relation) -> float:
        """Return the target, the local epsilon of one table. Raises ParameterError where there is none."""
        if self.target_epsilon is None:
            raise ParameterError(
                "a local epsilon that was computed from the data is as confidential as they are. Write "
                "target_epsilon=..."
            )
        return self.target_epsilon

    def guarantee(self, relation: Relation | None = None, *, n: int) -> Guarantee:
        """Return what is promised for the target: asymptotic and local, never formal differential privacy.

        Raises
        ------
        RelationNotSupported
            For add/remove, and for groups.
        ParameterError
            When there is no target.
        """
        relation = relation or Relation()
        if relation.name != "replacement" or relation.group != 1:
            what = f"{relation.name} of {relation.group}"
            raise RelationNotSupported("pseudo-posterior", what, "its local bound is that of one record replaced")
        caveats = [Code("local-and-asymptotic"), Code("weights-from-data"), Code("unit-of-measurement")]
        if not self.synthesiser.log_density_at_most_zero:
            caveats.append(Code("densities-above-one"))
        facts = {"factor": self._factor(n), "records": n}
        assumptions = Code("bound-for-every-table", facts), Code("weights-hardly-depend")
        return self._promise(relation, n, assumptions, "chains-converged", caveats, kind="asymptotic", theorem="T19")

    def sampler(self, columns: Columns, *, progress: Progress | None = None) -> Sampler:
        """Return the sampler of a table, for several fits of it."""
        data, (survey, units) = self.synthesiser.encoded(columns), self._beside(columns)
        return self._sampler(data, progress=progress, survey=survey, units=units)

    def unweighted_draws(self, sampler: Sampler, *, rng: Generator) -> PosteriorDraws:
        """Draw from the unweighted posterior."""
        return self._draw(sampler, np.ones(sampler.count), rng=rng)

    def refit(
        self, sampler: Sampler, unweighted: PosteriorDraws, risks: Risks, weighting: Weighting, *, rng: Generator
    ) -> PseudoFit:
        """Fit with another weighting, given the table's sampler, draws of its unweighted posterior and their risks.

        Raises
        ------
        Refused
            When every weight is 0, or chains did not converge.
        """
        weights = weighting.weights(risks.by_record, self._data(sampler))
        if not weights.any():
            raise Refused("every record would get weight 0. Raise c, g, the bound M or the target")
        draws = unweighted
        if not (weights == 1.0).all():
            draws = self._draw(sampler, weights, rng=rng, start=unweighted)
        bounds = Risks.from_draws(sampler, draws, weights)
        return PseudoFit(
            risks=risks, weights=weights, draws=draws, bounds=bounds, unweighted=unweighted, weighting=weighting
        )


@sealed
class PseudoPosteriorMechanism(ModelMechanism):
    """The pseudo-posterior on a domain."""

    name = "pseudo-posterior"
    facts = ("target_epsilon",)
    family = PseudoPosterior
    posterior: PseudoPosterior

    def posterior_draws(self, columns: Columns, *, rng: Generator) -> PosteriorDraws:
        """Fit with weights that meet the target."""
        return self.posterior.calibrated_fit(columns, rng=rng, progress=self.progress).draws
