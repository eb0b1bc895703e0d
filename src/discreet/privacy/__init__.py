"""Privacy: profiles, their algebra, and guarantees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from discreet._core.boundary import seal, sealed
from discreet.privacy.guarantee import Budget, Code, Guarantee, Relation, Unit
from discreet.privacy.noise import DiscreteGaussianPair, DiscreteLaplacePair, ThresholdedLaplace
from discreet.privacy.profile import (
    BoundedRangeProfile,
    ChainProfile,
    ComposedProfile,
    ConstantProfile,
    LargestProfile,
    Profile,
    compose,
)

if TYPE_CHECKING:
    from discreet.privacy.urn import MixturePair, UrnPair

__all__ = [
    "Budget",
    "Code",
    "ConstantProfile",
    "DiscreteGaussianPair",
    "DiscreteLaplacePair",
    "Guarantee",
    "MixturePair",
    "Profile",
    "Relation",
    "Unit",
    "UrnPair",
    "compose",
]


def __getattr__(name: str) -> Any:
    """Load the profiles of urns and mixtures when they are first used."""
    if name not in ("MixturePair", "UrnPair"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from discreet.privacy import urn

    return sealed(getattr(urn, name))


def __dir__() -> list[str]:
    return __all__


seal(globals(), BoundedRangeProfile, ChainProfile, ComposedProfile, LargestProfile, ThresholdedLaplace)
