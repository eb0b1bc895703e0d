"""The gate of utility: what share of a release is not from the data, and what would help."""

from __future__ import annotations

from discreet import wording
from discreet._core.errors import PoorUtility
from discreet.domain.records import Commonness
from discreet.mechanisms import Mechanism, first_names, named

POOR_UTILITY = 0.2
"""Above this share of records that carry nothing of the data, a release must be asked for explicitly."""


def require_utility(mechanism: Mechanism, n: int, *, size: int | None, like: Commonness | None = None) -> None:
    """Refuse a release most of which would not be from the data, from public facts alone.

    Raises PoorUtility when more than 20 % of the records are expected to carry nothing of the data, or when not one
    record is expected at all; it says what would help this mechanism.
    """
    forecast = mechanism.forecast(n, like)
    if forecast.lost > POOR_UTILITY:
        raise PoorUtility(poor_utility(mechanism, n, like))
    if size is not None and (expected := size * forecast.released_share) < 1.0:
        raise PoorUtility(wording.no_records(expected, size))


def poor_utility(mechanism: Mechanism, n: int, like: Commonness | None = None) -> str:
    """Return why a release that is mostly not from the data is refused, and what would help this mechanism."""
    least, width = mechanism.traits.least_columns, len(mechanism.domain.columns)
    wide = [name for name in first_names() if least == 1 < named(name).traits.least_columns <= width]
    return wording.poor_utility(mechanism.forecast(n, like), POOR_UTILITY, wide=wide)
