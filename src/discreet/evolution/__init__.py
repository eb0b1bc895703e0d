"""Private Evolution's data generators (APIs), and what they are measured to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from discreet._core.boundary import seal, sealed
from discreet.evolution.api import API
from discreet.evolution.euclidean import Ball, Box
from discreet.evolution.table import Table

if TYPE_CHECKING:
    from discreet.evolution.callables import Callables
    from discreet.evolution.images import DiffusionImages
    from discreet.evolution.measured import measured_property
    from discreet.evolution.table import Resampling
    from discreet.evolution.texts import ContinuedTexts, MaskedTexts

__all__ = [
    "API",
    "Ball",
    "Box",
    "Callables",
    "ContinuedTexts",
    "DiffusionImages",
    "MaskedTexts",
    "Resampling",
    "Table",
    "measured_property",
]


_HOMES = {
    "Callables": "callables",
    "ContinuedTexts": "texts",
    "DiffusionImages": "images",
    "MaskedTexts": "texts",
    "Resampling": "table",
    "measured_property": "measured",
}


def __getattr__(name: str) -> Any:
    """Load what the mechanism itself does not need when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return sealed(getattr(import_module(f"{__name__}.{_HOMES[name]}"), name))


def __dir__() -> list[str]:
    return __all__


seal(globals())
