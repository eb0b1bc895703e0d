"""The risk-weighted pseudo-posterior and the censored posterior over any NumPyro model."""

from discreet._core.boundary import seal
from discreet.pseudo_posterior._across import across_tables
from discreet.pseudo_posterior._censored import CensoredPosterior, ChainDistance
from discreet.pseudo_posterior._design import Design, Predictor, Response
from discreet.pseudo_posterior._fit import Convergence, PosteriorDraws
from discreet.pseudo_posterior._from_domain import synthesiser_for
from discreet.pseudo_posterior._frontier import FrontierPoint, frontier
from discreet.pseudo_posterior._mixtures.regression import MixtureRegression
from discreet.pseudo_posterior._pictures import frontier_page, violins, weight_picture
from discreet.pseudo_posterior._pseudo_posterior import PseudoFit, PseudoPosterior, Risks
from discreet.pseudo_posterior._regressions import (
    CategoricalShares,
    LinearRegression,
    PoissonMean,
    SequentialRegression,
    Step,
)
from discreet.pseudo_posterior._synthesiser import FromModel, Synthesiser
from discreet.pseudo_posterior._weights import (
    CountWeights,
    ExponentialWeights,
    LinearWeights,
    MappedWeights,
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

seal(
    globals(),
    CategoricalShares,
    ChainDistance,
    CountWeights,
    ExponentialWeights,
    FromModel,
    FrontierPoint,
    LinearRegression,
    PosteriorDraws,
    PseudoFit,
    Risks,
    Scaled,
    SequentialRegression,
    Step,
    Weighting,
)
