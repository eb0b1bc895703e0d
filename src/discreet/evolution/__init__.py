"""Private Evolution's data generators (APIs), what they are measured to do, and what its theory predicts."""

from discreet.evolution._api import API, NamedAPI
from discreet.evolution._euclidean import Ball, Box
from discreet.evolution._registry import api_from
from discreet.evolution._table import Table

__all__ = ["API", "Ball", "Box", "NamedAPI", "Table", "api_from"]
