"""Arrays by the type of their elements: the names that signatures use."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Indices = npt.NDArray[np.intp]
Booleans = npt.NDArray[np.bool_]
