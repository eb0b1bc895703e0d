"""Utility of a release against the confidential table; what is computed from confidential data stays confidential."""

from discreet._core.boundary import seal
from discreet.utility.columns import ColumnComparison
from discreet.utility.comparison import Comparison, compare
from discreet.utility.densities import hellinger, kde_l2
from discreet.utility.distances import ks_distance, total_variation, wasserstein_1d
from discreet.utility.joint import pmse
from discreet.utility.measures import Measured
from discreet.utility.transport import Sliced, sliced_wasserstein, transport_distance

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
