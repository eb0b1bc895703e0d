"""Utility of a release against the confidential table; what is computed from confidential data stays confidential."""

from typing import TYPE_CHECKING

from discreet._core.lazy import door

if TYPE_CHECKING:
    from discreet.utility.columns import (
        Bins,
        DistinctRows,
        Shares,
        bins_of,
        confidential_pairs,
        confidential_shares,
        shown,
        tables,
    )
    from discreet.utility.comparison import compare, disclosure_cells
    from discreet.utility.disclosure import Disclosure, disclosures, mean_attacks
    from discreet.utility.distances import hellinger, kde_l2, ks_distance, total_variation, wasserstein_1d
    from discreet.utility.measures import Measured, pmse
    from discreet.utility.transport import sliced_wasserstein, transport_distance

__all__ = [
    "compare", "hellinger", "kde_l2", "ks_distance", "pmse", "sliced_wasserstein", "total_variation",
    "transport_distance", "wasserstein_1d",
]  # fmt: skip

__getattr__, __dir__ = door(__name__)
