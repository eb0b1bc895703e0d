"""Private Evolution's data generators (APIs), and what they are measured to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from discreet._boundary import seal, sealed
from discreet.evolution._api import API, NamedAPI
from discreet.evolution._euclidean import Ball, Box
from discreet.evolution._registry import api_from
from discreet.evolution._table import Table

if TYPE_CHECKING:
    from discreet.evolution._callables import Callables
    from discreet.evolution._images import DiffusionImages
    from discreet.evolution._measured import Contraction, MeasuredProperty, measured_property
    from discreet.evolution._neighbours import NearestCandidates, votes
    from discreet.evolution._resampling import Resampling
    from discreet.evolution._texts import ContinuedTexts, MaskedTexts

__all__ = [
    "API",
    "Ball",
    "Box",
    "Callables",
    "ContinuedTexts",
    "Contraction",
    "DiffusionImages",
    "MaskedTexts",
    "MeasuredProperty",
    "NamedAPI",
    "NearestCandidates",
    "Resampling",
    "Table",
    "api_from",
    "measured_property",
    "votes",
]


_HOMES = {
    "Callables": "_callables",
    "ContinuedTexts": "_texts",
    "Contraction": "_measured",
    "DiffusionImages": "_images",
    "MaskedTexts": "_texts",
    "MeasuredProperty": "_measured",
    "NearestCandidates": "_neighbours",
    "Resampling": "_resampling",
    "measured_property": "_measured",
    "votes": "_neighbours",
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
