"""Privacy: profiles, their algebra, and guarantees."""

from discreet._core.boundary import seal
from discreet.privacy.algebra import BoundedRangeProfile, ChainProfile, ComposedProfile, compose
from discreet.privacy.group_urn import GroupUrn
from discreet.privacy.guarantee import Budget, Guarantee, Relation
from discreet.privacy.instance import HeldTable, InstanceDelta
from discreet.privacy.mixtures import MinimumPairs, SubsampledPair
from discreet.privacy.noise import DiscreteGaussianPair, DiscreteLaplacePair, ThresholdedLaplace
from discreet.privacy.profile import ConstantProfile, LargestProfile, Profile
from discreet.privacy.urn import MixturePair, UrnPair

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
    InstanceDelta,
    SubsampledPair,
    ThresholdedLaplace,
)
