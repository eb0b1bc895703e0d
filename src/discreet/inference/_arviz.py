"""The one place that speaks to ArviZ, whose container changed its type in version 1."""

from __future__ import annotations

import json
import warnings
from typing import Any

from discreet._core.arrays import Floats
from discreet._core.errors import ParameterError


def inference_data(posterior: dict[str, Floats], facts: dict[str, Any]) -> Any:
    """Return draws of shape ``(chains, draws, ...)`` as ``InferenceData`` (ArviZ 0) or ``xarray.DataTree`` (1)."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # version 0 announces version 1 once a day
            import arviz
            import xarray
    except ImportError:
        raise ParameterError("this needs ArviZ. Install it: pip install 'discreet[bayes]'") from None
    variables = {
        name: (("chain", "draw", *(f"{name}_{i}" for i in range(values.ndim - 2))), values)
        for name, values in posterior.items()
    }
    attributes = {
        key: value if isinstance(value, (str, int, float)) else json.dumps(value) for key, value in facts.items()
    }
    dataset = xarray.Dataset(variables, attrs={"inference_library": "discreet", **attributes})
    if int(arviz.__version__.partition(".")[0]) == 0:
        return arviz.InferenceData(posterior=dataset)
    return xarray.DataTree.from_dict({"posterior": dataset})
