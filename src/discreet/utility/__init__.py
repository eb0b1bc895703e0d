"""Utility of a release against the confidential table; what is computed from confidential data stays confidential."""

from discreet._boundary import seal
from discreet.confidential import reveal_to_custodian
from discreet.utility._columns import ColumnComparison
from discreet.utility._compare import Comparison, compare
from discreet.utility._densities import bandwidth, hellinger, kde_l2
from discreet.utility._distances import ks_distance, summary, total_variation, wasserstein_1d
from discreet.utility._measures import Measured
from discreet.utility._propensity import pmse
from discreet.utility._transport import Sliced, sliced_wasserstein, transport_distance

__all__ = [
    "ColumnComparison",
    "Comparison",
    "Measured",
    "Sliced",
    "bandwidth",
    "compare",
    "hellinger",
    "kde_l2",
    "ks_distance",
    "pmse",
    "reveal_to_custodian",
    "sliced_wasserstein",
    "summary",
    "total_variation",
    "transport_distance",
    "wasserstein_1d",
]

seal(globals())
