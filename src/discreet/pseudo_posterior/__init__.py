"""The risk-weighted pseudo-posterior and the censored posterior over any NumPyro model."""

from discreet.pseudo_posterior._censored import CensoredPosterior, ChainDistance, censored_law, chain_distance
from discreet.pseudo_posterior._design import Design, Predictor, Response
from discreet.pseudo_posterior._fit import Convergence, PosteriorDraws
from discreet.pseudo_posterior._pseudo_posterior import PseudoFit, PseudoPosterior, Risks, Scaled, safety_factor
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
    Truncated,
    Unweighted,
    Weighting,
    reciprocal,
    threshold,
)

__all__ = [
    "CategoricalShares",
    "CensoredPosterior",
    "ChainDistance",
    "Convergence",
    "CountWeights",
    "Design",
    "ExponentialWeights",
    "FromModel",
    "LinearRegression",
    "LinearWeights",
    "MappedWeights",
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
    "censored_law",
    "chain_distance",
    "reciprocal",
    "safety_factor",
    "threshold",
]
