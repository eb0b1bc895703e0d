"""Mechanisms: one file each, named as in its theory page and its test; the registry of their names; calculators.

A file is loaded when its mechanism is asked for.
"""

from typing import TYPE_CHECKING

from discreet._core.lazy import door

if TYPE_CHECKING:
    from discreet.mechanisms.base import (
        MOST_LISTED,
        NEIGHBOURS,
        CellCounts,
        DrawnTable,
        Mechanism,
        PartsMechanism,
        SteppedMechanism,
        declared,
        parameter_names,
        public_inputs,
        require_known,
        require_made_for,
        require_relation,
        shown_cells,
        twin_of,
    )
    from discreet.mechanisms.bounded_lipschitz import transport_available
    from discreet.mechanisms.calibration import require_budget, scale_solution
    from discreet.mechanisms.data_specific_reveal_or_obscure import DataSpecificRevealOrObscure
    from discreet.mechanisms.dirichlet_multinomial import DirichletMultinomial
    from discreet.mechanisms.drawn import DrawnMechanism, HeldMechanism
    from discreet.mechanisms.exponential_histogram import ExponentialHistogram
    from discreet.mechanisms.forecast import Forecast, Traits
    from discreet.mechanisms.gaussian_smoothed_histogram import GaussianSmoothedHistogram
    from discreet.mechanisms.hierarchical_histogram import HierarchicalHistogram
    from discreet.mechanisms.laplace_projection_sampler import LaplaceProjectionSampler
    from discreet.mechanisms.likelihood import MOST_CELLS, compositions, known_likelihood, no_posterior
    from discreet.mechanisms.marginals import Marginals
    from discreet.mechanisms.noise import LAWS, NoiseLaw
    from discreet.mechanisms.noisy_counts import projection_error
    from discreet.mechanisms.perturbed_histogram import PerturbedHistogram
    from discreet.mechanisms.pitman_yor import PitmanYor, guarantee_named
    from discreet.mechanisms.populations import embedded, settled_api
    from discreet.mechanisms.private_evolution import PrivateEvolution
    from discreet.mechanisms.projections import PROJECTIONS
    from discreet.mechanisms.reading import (
        MOST_TABLES,
        READING_ONLY,
        SAMPLINGS,
        CellShares,
        Contents,
        Estimates,
        Outcome,
        Portion,
        Reading,
        nearest_probabilities,
    )
    from discreet.mechanisms.registry import (
        MODELS,
        REGISTRY,
        certified_type,
        first_names,
        known_parameters,
        named,
        require_kept,
        solved,
        stated,
    )
    from discreet.mechanisms.reveal_or_obscure import RevealOrObscure
    from discreet.mechanisms.signed_measure import SignedMeasure
    from discreet.mechanisms.smoothed_histogram import SmoothedHistogram
    from discreet.mechanisms.stabilised_pitman_yor import StabilisedPitmanYor
    from discreet.mechanisms.stability_histogram import StabilityHistogram
    from discreet.mechanisms.steps import StepsFile, checkpoint_state, steps_taken
    from discreet.mechanisms.subsampled_randomised_response import SubsampledRandomisedResponse
    from discreet.mechanisms.tree import Consistent, Tree
    from discreet.mechanisms.urn_histogram import UrnHistogram
    from discreet.mechanisms.wide_facts import check_columns

__all__ = [
    "REGISTRY", "CellCounts", "DataSpecificRevealOrObscure", "DirichletMultinomial", "ExponentialHistogram", "Forecast",
    "GaussianSmoothedHistogram", "HierarchicalHistogram", "LaplaceProjectionSampler", "Marginals", "Mechanism",
    "PerturbedHistogram", "PitmanYor", "PrivateEvolution", "Reading", "RevealOrObscure", "SignedMeasure",
    "SmoothedHistogram", "StabilisedPitmanYor", "StabilityHistogram", "SubsampledRandomisedResponse", "Traits",
    "UrnHistogram", "named",
]  # fmt: skip

__getattr__, __dir__ = door(__name__)
