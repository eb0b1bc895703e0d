"""The risk-weighted pseudo-posterior and the censored posterior over any NumPyro model."""

from discreet._boundary import seal
from discreet.pseudo_posterior._across import across_tables, barycentre, resampled
from discreet.pseudo_posterior._censored import CensoredPosterior, ChainDistance, censored_law, chain_distance
from discreet.pseudo_posterior._design import Design, Predictor, Response
from discreet.pseudo_posterior._fit import Convergence, PosteriorDraws
from discreet.pseudo_posterior._from_domain import MODELS, synthesiser_for
from discreet.pseudo_posterior._frontier import FrontierPoint, frontier
from discreet.pseudo_posterior._mixture import MixtureRegression
from discreet.pseudo_posterior._pictures import frontier_page, frontier_picture, violins, weight_picture
from discreet.pseudo_posterior._pseudo_posterior import PseudoFit, PseudoPosterior, Risks, safety_factor
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
    threshold,
)

__all__ = [
    "MODELS",
    "CategoricalShares",
    "CensoredPosterior",
    "ChainDistance",
    "Convergence",
    "CountWeights",
    "Design",
    "ExponentialWeights",
    "FromModel",
    "FrontierPoint",
    "LinearRegression",
    "LinearWeights",
    "MappedWeights",
    "MixtureRegression",
    "PoissonMean",
    "PosteriorDraws",
    "Predictor",
    "PseudoFit",
    "PseudoPosterior",
    "Response",
    "Risks",
    "Scaled",
    "SequentialRegression",
    "Step",
    "Synthesiser",
    "Truncated",
    "Unweighted",
    "Weighting",
    "across_tables",
    "barycentre",
    "censored_law",
    "chain_distance",
    "frontier",
    "frontier_page",
    "frontier_picture",
    "reciprocal",
    "resampled",
    "safety_factor",
    "synthesiser_for",
    "threshold",
    "violins",
    "weight_picture",
]

seal(globals())
