"""The risk-weighted pseudo-posterior and the censored posterior over any NumPyro model."""

from typing import TYPE_CHECKING

from discreet._core.lazy import door

if TYPE_CHECKING:
    from discreet._core.page import violins, weight_picture
    from discreet.pseudo_posterior.censored import CensoredPosterior, CensoredPosteriorMechanism, ChainDistance
    from discreet.pseudo_posterior.models import MixtureRegression, synthesiser_for
    from discreet.pseudo_posterior.pseudo import PseudoFit, PseudoPosterior, PseudoPosteriorMechanism
    from discreet.pseudo_posterior.regressions import (
        CategoricalShares,
        Design,
        LinearRegression,
        PoissonMean,
        Predictor,
        Response,
        SequentialRegression,
        Step,
    )
    from discreet.pseudo_posterior.risk_frontier import (
        LADDER,
        PAGE,
        FrontierPoint,
        across_tables,
        frontier,
        frontier_page,
        ladder,
        ladder_text,
    )
    from discreet.pseudo_posterior.sampler import Convergence, PosteriorDraws
    from discreet.pseudo_posterior.synthesiser import FromModel, Synthesiser
    from discreet.pseudo_posterior.weights import (
        CountWeights,
        ExponentialWeights,
        LinearWeights,
        MappedWeights,
        Risks,
        Scaled,
        Truncated,
        Unweighted,
        Weighting,
        reciprocal,
    )

__all__ = [
    "CensoredPosterior",
    "Convergence",
    "Design",
    "LinearWeights",
    "MappedWeights",
    "MixtureRegression",
    "PoissonMean",
    "Predictor",
    "PseudoPosterior",
    "Response",
    "Synthesiser",
    "Truncated",
    "Unweighted",
    "across_tables",
    "frontier",
    "frontier_page",
    "reciprocal",
    "synthesiser_for",
    "violins",
    "weight_picture",
]

__getattr__, __dir__ = door(__name__)
