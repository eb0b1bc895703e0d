"""Utility of a release against the confidential table; what is computed from confidential data stays confidential."""

from discreet._core.boundary import seal
from discreet.utility._columns import ColumnComparison
from discreet.utility._compare import Comparison, compare
from discreet.utility._densities import hellinger, kde_l2
from discreet.utility._distances import ks_distance, total_variation, wasserstein_1d
from discreet.utility._measures import Measured
from discreet.utility._propensity import pmse
from discreet.utility._transport import Sliced, sliced_wasserstein, transport_distance

__all__ = [
    "compare",
    "hellinger",
    "kde_l2",
    "ks_distance",
    "pmse",
    "sliced_wasserstein",
    "total_variation",
    "transport_distance",
    "wasserstein_1d",
]

seal(globals(), ColumnComparison, Comparison, Measured, Sliced)
