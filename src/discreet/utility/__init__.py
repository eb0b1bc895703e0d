"""Utility of a release against the confidential table; what is computed from confidential data stays confidential."""

from discreet.utility._compare import ColumnComparison, Comparison, compare, reveal_to_custodian
from discreet.utility._distances import ks_distance, summary, total_variation, wasserstein_1d

__all__ = [
    "ColumnComparison",
    "Comparison",
    "compare",
    "ks_distance",
    "reveal_to_custodian",
    "summary",
    "total_variation",
    "wasserstein_1d",
]
