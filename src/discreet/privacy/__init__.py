"""Privacy: profiles, their algebra, guarantees, and the papers' own bounds."""

from discreet._boundary import seal
from discreet.privacy._algebra import ComposedProfile, compose, power
from discreet.privacy._bounded_range import BoundedRangeProfile
from discreet.privacy._group import ChainProfile
from discreet.privacy._group_urn import GroupUrn
from discreet.privacy._guarantee import Budget, Guarantee, Kind, Relation, RelationName, require_kind
from discreet.privacy._held_table import HeldTable, Reading
from discreet.privacy._instance import instance_readings
from discreet.privacy._minimum_pairs import MinimumPairs
from discreet.privacy._noise_pairs import DiscreteGaussianPair, DiscreteLaplacePair
from discreet.privacy._papers import (
    dirichlet_multinomial_a2,
    dirichlet_multinomial_thesis,
    empirical_bayes_strength,
    laplace_histogram_scale,
    laplace_projection_5,
    largest_size_theorem_2,
    pitman_yor_theorem_2,
    signed_measure_algorithm_5,
    smoothed_histogram_a1,
    stability_histogram_proposition_4_1,
)
from discreet.privacy._profile import ConstantProfile, LargestProfile, Profile, keeps_shape
from discreet.privacy._sampling_pairs import MixturePair, UrnPair
from discreet.privacy._subsampled_pair import SubsampledPair
from discreet.privacy._thresholded_laplace import ThresholdedLaplace

__all__ = [
    "BoundedRangeProfile",
    "Budget",
    "ChainProfile",
    "ComposedProfile",
    "ConstantProfile",
    "DiscreteGaussianPair",
    "DiscreteLaplacePair",
    "GroupUrn",
    "Guarantee",
    "HeldTable",
    "Kind",
    "LargestProfile",
    "MinimumPairs",
    "MixturePair",
    "Profile",
    "Reading",
    "Relation",
    "RelationName",
    "SubsampledPair",
    "ThresholdedLaplace",
    "UrnPair",
    "compose",
    "dirichlet_multinomial_a2",
    "dirichlet_multinomial_thesis",
    "empirical_bayes_strength",
    "instance_readings",
    "keeps_shape",
    "laplace_histogram_scale",
    "laplace_projection_5",
    "largest_size_theorem_2",
    "pitman_yor_theorem_2",
    "power",
    "require_kind",
    "signed_measure_algorithm_5",
    "smoothed_histogram_a1",
    "stability_histogram_proposition_4_1",
]

seal(globals())
