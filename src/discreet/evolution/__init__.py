"""Private Evolution's data generators (APIs), and what they are measured to do."""

from typing import TYPE_CHECKING

from discreet._core.lazy import door

if TYPE_CHECKING:
    from discreet.evolution.api import API, Callables, NamedAPI, settled_norm
    from discreet.evolution.measured import EvolvedStep, closeness, measured_property
    from discreet.evolution.models import ContinuedTexts, DiffusionImages, MaskedTexts
    from discreet.evolution.neighbours import NearestCandidates, Voters, votes
    from discreet.evolution.table import Ball, Box, Resampling, Table, api_from

__all__ = [
    "API", "Ball", "Box", "Callables", "ContinuedTexts", "DiffusionImages", "MaskedTexts", "Resampling", "Table",
    "measured_property",
]  # fmt: skip

__getattr__, __dir__ = door(__name__)
