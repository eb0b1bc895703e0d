"""The risk-weighted pseudo-posterior and the censored posterior over any NumPyro model."""

from typing import TYPE_CHECKING

from discreet._core.lazy import door

if TYPE_CHECKING:
    from discreet._core.page import violins, weight_picture
    from discreet.pseudo_posterior.censored import CensoredPosterior
    from discreet.pseudo_posterior.models import MixtureRegression, synthesiser_for
    from discreet.pseudo_posterior.pseudo import PseudoPosterior
    from discreet.pseudo_posterior.regressions import Design, PoissonMean, Predictor, Response
    from discreet.pseudo_posterior.risk_frontier import (
        LADDER,
        PAGE,
        across_tables,
        frontier,
        frontier_page,
        ladder,
        ladder_text,
    )
    from discreet.pseudo_posterior.sampler import Convergence
    from discreet.pseudo_posterior.synthesiser import Synthesiser
    from discreet.pseudo_posterior.weights import LinearWeights, MappedWeights, Truncated, Unweighted, reciprocal

__all__ = [
    "CensoredPosterior", "Convergence", "Design", "LinearWeights", "MappedWeights", "MixtureRegression", "PoissonMean",
    "Predictor", "PseudoPosterior", "Response", "Synthesiser", "Truncated", "Unweighted", "across_tables", "frontier",
    "frontier_page", "reciprocal", "synthesiser_for", "violins", "weight_picture",
]  # fmt: skip

__getattr__, __dir__ = door(__name__)
