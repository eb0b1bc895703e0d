"""Private Evolution's data generators (APIs), and what they are measured to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from discreet._core.boundary import seal, sealed
from discreet.evolution._api import API
from discreet.evolution._euclidean import Ball, Box
from discreet.evolution._table import Table

if TYPE_CHECKING:
    from discreet.evolution._callables import Callables
    from discreet.evolution._images import DiffusionImages
    from discreet.evolution._measured import measured_property
    from discreet.evolution._resampling import Resampling
    from discreet.evolution._texts import ContinuedTexts, MaskedTexts

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
    "Callables": "_callables",
    "ContinuedTexts": "_texts",
    "DiffusionImages": "_images",
    "MaskedTexts": "_texts",
    "Resampling": "_resampling",
    "measured_property": "_measured",
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
