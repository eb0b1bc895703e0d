"""Privacy: profiles, their algebra, and guarantees."""

from discreet._core.boundary import seal
from discreet.privacy._algebra import ComposedProfile, compose
from discreet.privacy._bounded_range import BoundedRangeProfile
from discreet.privacy._group import ChainProfile
from discreet.privacy._group_urn import GroupUrn
from discreet.privacy._guarantee import Budget, Guarantee, Relation
from discreet.privacy._held_table import HeldTable, Reading
from discreet.privacy._minimum_pairs import MinimumPairs
from discreet.privacy._noise_pairs import DiscreteGaussianPair, DiscreteLaplacePair
from discreet.privacy._profile import ConstantProfile, LargestProfile, Profile
from discreet.privacy._sampling_pairs import MixturePair, UrnPair
from discreet.privacy._subsampled_pair import SubsampledPair
from discreet.privacy._thresholded_laplace import ThresholdedLaplace

__all__ = [
    "Budget",
    "ConstantProfile",
    "DiscreteGaussianPair",
    "DiscreteLaplacePair",
    "Guarantee",
    "MixturePair",
    "Profile",
    "Relation",
    "UrnPair",
    "compose",
]

seal(
    globals(),
    BoundedRangeProfile,
    ChainProfile,
    ComposedProfile,
    GroupUrn,
    HeldTable,
    LargestProfile,
    MinimumPairs,
    Reading,
    SubsampledPair,
    ThresholdedLaplace,
)
