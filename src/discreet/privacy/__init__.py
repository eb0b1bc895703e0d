"""Privacy: profiles, their algebra, and guarantees."""

from typing import TYPE_CHECKING

from discreet._core.lazy import door

if TYPE_CHECKING:
    from discreet.privacy.attacker import LEVELS, Advantage, Risk, Success, TradeOff, against_guessing, furthest
    from discreet.privacy.groups import ChainProfile, GroupUrn, LargestProfile
    from discreet.privacy.guarantee import (
        AnyBudget,
        AttackBudget,
        Budget,
        Code,
        Guarantee,
        Kind,
        Relation,
        RelationName,
        Unit,
        require_kind,
    )
    from discreet.privacy.instance import HeldTable, InstanceDelta, instance_readings
    from discreet.privacy.mixtures import MinimumPairs, SubsampledPair
    from discreet.privacy.noise import (
        DiscreteGaussianPair,
        DiscreteLaplacePair,
        ThresholdedGaussian,
        ThresholdedLaplace,
    )
    from discreet.privacy.pitman_yor import OpeningPair, PitmanYorPairs, singular
    from discreet.privacy.profile import BoundedRangeProfile, ConstantProfile, Profile, compose, keeps_shape, power
    from discreet.privacy.urn import MixturePair, UrnPair
    from discreet.privacy.zcdp import approximate_zcdp, pair_as_zcdp, zcdp_budget, zcdp_epsilon

__all__ = [
    "Budget", "Code", "ConstantProfile", "DiscreteGaussianPair", "DiscreteLaplacePair", "Guarantee", "MixturePair",
    "Profile", "Relation", "Unit", "UrnPair", "compose",
]  # fmt: skip

__getattr__, __dir__ = door(__name__)
