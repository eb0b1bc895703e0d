"""Reading a released table of counts: cell by cell of its domain."""

from __future__ import annotations

import numpy as np

from discreet._core.arrays import Floats
from discreet._core.errors import DataError
from discreet._core.lazy import pl
from discreet._core.random import seeded
from discreet.domain import Domain

_COUNT = "count"


def released_counts(table: pl.DataFrame, domain: Domain) -> Floats:
    """Return the released counts, cell by cell; nan where a cell is not in the table.

    ``domain``: finite.

    Raises DataError when the table does not fit the domain.
    """
    everything = domain.unflat(np.arange(domain.size or 0))
    cells = domain.describe(everything, rng=seeded(0)).with_row_index("\0cell")
    names = cells.columns[1:]
    for name in (*names, _COUNT):
        if name not in table.columns:
            raise DataError(name, "is not in the released table of counts", "check that the certificate is its own")
    try:
        typed = table.with_columns([pl.col(name).cast(cells.schema[name]) for name in names])
        found = typed[_COUNT].cast(pl.Float64).to_numpy()
    except pl.exceptions.PolarsError:
        raise DataError(None, "the released counts have columns of other types", "check the certificate") from None
    place = typed.join(cells, on=names, how="left", nulls_equal=True, maintain_order="left")["\0cell"]
    if place.null_count() or place.n_unique() != len(place):
        raise DataError(None, "the released counts are not of the declared cells", "check the certificate")
    counts = np.full(len(cells), np.nan)
    counts[place.to_numpy()] = found
    return counts
