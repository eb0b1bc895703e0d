"""Testing: small universes, brute-force profiles, statistical assertions, and the contract of every mechanism.

For this library's own tests and for anybody who writes a mechanism: give its class to :func:`check_mechanism`; then
enumerate its law on every pair of neighbouring tables of a small universe, and compare with what it promises.
"""

from typing import TYPE_CHECKING

from discreet._core.lazy import door

if TYPE_CHECKING:
    from discreet.testing.contract import (
        assert_law,
        brute_force_profile,
        check_guarantee,
        check_kernel_follows_law,
        check_law_sums_to_one,
        check_mechanism,
        check_twin_is_caught,
    )
    from discreet.testing.enumeration import enumerate_law, hockey_stick, neighbouring_pairs, outcome_of

__all__ = [
    "assert_law", "brute_force_profile", "check_guarantee", "check_kernel_follows_law", "check_law_sums_to_one",
    "check_mechanism", "check_twin_is_caught", "enumerate_law", "hockey_stick", "neighbouring_pairs",
]  # fmt: skip

__getattr__, __dir__ = door(__name__)
