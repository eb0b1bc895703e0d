"""Testing: small universes, brute-force profiles, statistical assertions, and the contract of every mechanism.

For this library's own tests and for anybody who writes a mechanism: give its class to :func:`check_mechanism`; then
enumerate its law on every pair of neighbouring tables of a small universe, and compare with what it promises.
"""

from discreet.testing._behaviour import check_estimates, check_published_alike, check_share
from discreet.testing._contract import (
    CHECKS,
    brute_force_profile,
    check_guarantee,
    check_kernel_follows_law,
    check_law_sums_to_one,
    check_mechanism,
    check_profile,
    check_twin_is_caught,
)
from discreet.testing._enumeration import Law, enumerate_law, enumerate_profile, hockey_stick, outcome_of
from discreet.testing._facts import check_calibrated, check_frozen, check_parameters
from discreet.testing._statistics import (
    RATE,
    assert_law,
    assert_prefers,
    sample_size,
    sample_size_for_distance,
)
from discreet.testing._universes import count_vectors, neighbouring_pairs, table_of

__all__ = [
    "CHECKS",
    "RATE",
    "Law",
    "assert_law",
    "assert_prefers",
    "brute_force_profile",
    "check_calibrated",
    "check_estimates",
    "check_frozen",
    "check_guarantee",
    "check_kernel_follows_law",
    "check_law_sums_to_one",
    "check_mechanism",
    "check_parameters",
    "check_profile",
    "check_published_alike",
    "check_share",
    "check_twin_is_caught",
    "count_vectors",
    "enumerate_law",
    "enumerate_profile",
    "hockey_stick",
    "neighbouring_pairs",
    "outcome_of",
    "sample_size",
    "sample_size_for_distance",
    "table_of",
]
