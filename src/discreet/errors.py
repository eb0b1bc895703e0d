"""Every error the library raises on purpose: one root class, each with a remedy."""

from discreet._core import errors
from discreet._core.errors import *  # noqa: F403  # what its __all__ names, and nothing else

__all__ = errors.__all__
