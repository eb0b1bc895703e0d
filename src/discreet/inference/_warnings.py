"""Warnings of an analysis: it goes on, but its numbers should not be read as they stand."""

from __future__ import annotations

from discreet._core.warnings import DiscreetWarning


class NotConverged(DiscreetWarning):
    """Markov chains gave up: their draws are worth less than was asked for, or they do not agree."""
