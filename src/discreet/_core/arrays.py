"""Arrays by the type of their elements: the names that signatures use; and the distinct rows of one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Indices = npt.NDArray[np.intp]
Booleans = npt.NDArray[np.bool_]


def row_numbers(rows: Integers) -> Integers:
    """Return the number of each row among the distinct rows, in ascending order of rows."""
    numbers = np.zeros(len(rows), dtype=np.int64)
    for column in rows.T:  # renumbered after each column, so that no product of many columns overflows
        own = np.unique(column, return_inverse=True)[1]
        numbers = np.unique(numbers * (int(own.max(initial=0)) + 1) + own, return_inverse=True)[1]
    return numbers
