"""Private Evolution's data generators (APIs), what they are measured to do, and what its theory predicts."""

from discreet.evolution._api import API, NamedAPI
from discreet.evolution._registry import api_from

__all__ = ["API", "NamedAPI", "api_from"]
