"""Privacy: profiles, their algebra, and guarantees."""

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
    "instance_readings",
    "keeps_shape",
    "power",
    "require_kind",
]

seal(globals())
