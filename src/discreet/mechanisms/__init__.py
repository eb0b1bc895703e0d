"""Mechanisms: one file each, named as in its theory page and its test; and the registry of their names."""

from __future__ import annotations

from discreet._boundary import seal
from discreet.errors import ParameterError
from discreet.mechanisms._base import CellCounts, Mechanism, Output
from discreet.mechanisms.data_specific_reveal_or_obscure import DataSpecificRevealOrObscure
from discreet.mechanisms.dirichlet_multinomial import DirichletMultinomial
from discreet.mechanisms.exponential_histogram import ExponentialHistogram
from discreet.mechanisms.gaussian_smoothed_histogram import GaussianSmoothedHistogram
from discreet.mechanisms.hierarchical_histogram import HierarchicalHistogram
from discreet.mechanisms.laplace_projection_sampler import LaplaceProjectionSampler
from discreet.mechanisms.perturbed_histogram import PerturbedHistogram
from discreet.mechanisms.pitman_yor import PitmanYor
from discreet.mechanisms.private_evolution import PrivateEvolution
from discreet.mechanisms.reveal_or_obscure import RevealOrObscure
from discreet.mechanisms.signed_measure import SignedMeasure
from discreet.mechanisms.smoothed_histogram import SmoothedHistogram
from discreet.mechanisms.stabilised_pitman_yor import StabilisedPitmanYor
from discreet.mechanisms.stability_histogram import StabilityHistogram
from discreet.mechanisms.subsampled_randomised_response import SubsampledRandomisedResponse
from discreet.mechanisms.urn_histogram import UrnHistogram

__all__ = [
    "REGISTRY",
    "CellCounts",
    "DataSpecificRevealOrObscure",
    "DirichletMultinomial",
    "ExponentialHistogram",
    "GaussianSmoothedHistogram",
    "HierarchicalHistogram",
    "LaplaceProjectionSampler",
    "Mechanism",
    "Output",
    "PerturbedHistogram",
    "PitmanYor",
    "PrivateEvolution",
    "RevealOrObscure",
    "SignedMeasure",
    "SmoothedHistogram",
    "StabilisedPitmanYor",
    "StabilityHistogram",
    "SubsampledRandomisedResponse",
    "UrnHistogram",
    "named",
]

REGISTRY: dict[str, type[Mechanism]] = {
    "dirichlet-process": PitmanYor,
    "pitman-yor": PitmanYor,
    "dirichlet-multinomial": DirichletMultinomial,
    "smoothed-histogram": SmoothedHistogram,
    "reveal-or-obscure": RevealOrObscure,
    "data-specific-reveal-or-obscure": DataSpecificRevealOrObscure,
    "subsampled-randomised-response": SubsampledRandomisedResponse,
    "perturbed-histogram": PerturbedHistogram,
    "hierarchical-histogram": HierarchicalHistogram,
    "signed-measure": SignedMeasure,
    "gaussian-smoothed-histogram": GaussianSmoothedHistogram,
    "laplace-projection-sampler": LaplaceProjectionSampler,
    "exponential-histogram": ExponentialHistogram,
    "stability-histogram": StabilityHistogram,
    "stabilised-pitman-yor": StabilisedPitmanYor,
    "urn-histogram": UrnHistogram,
    "private-evolution": PrivateEvolution,
}
"""Mechanisms by their registry and command names; ``dirichlet-process`` is ``pitman-yor`` at discount 0."""


def named(name: str) -> type[Mechanism]:
    """Return the mechanism of a registry name.

    Raises
    ------
    ParameterError
        When there is none of that name.
    """
    if name not in REGISTRY:
        raise ParameterError(f"there is no mechanism {name!r}; there are: {', '.join(REGISTRY)}")
    return REGISTRY[name]


seal(globals())
