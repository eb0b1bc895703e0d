"""The small universes of these tests: a line of cells, labels, and tables given by their counts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from discreet.domain import Counts, Domain, Integer, OpenLabels, Records

Floats = npt.NDArray[np.float64]
WORDS = Domain(columns={"word": OpenLabels()})


def line(cells: int) -> Domain:
    return Domain(columns={"cell": Integer(lower=0, upper=cells - 1)})


def words(held: Mapping[str, int]) -> Counts:
    column = np.array(list(held), dtype=object)
    return Counts(records=Records(columns=(column,)), frequencies=np.array(list(held.values()), dtype=np.int64))


def table_on(domain: Domain, counts: npt.ArrayLike) -> Counts:
    """Return the table that holds the first cells of a finite domain so many times."""
    held = np.asarray(counts, dtype=np.int64)
    return Counts(records=domain.unflat(np.flatnonzero(held)), frequencies=held[held > 0])
