"""Differentially private synthetic data whose guarantee is exact, honest and checkable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discreet._core.version import __version__
    from discreet._release import release
    from discreet.ledger import AddRemove, Checkpoint, Ledger, Output, Replacement, Watch
    from discreet.planner import plan
    from discreet.privacy import Budget, Unit
    from discreet.releases import read, verify

__all__ = [
    "AddRemove",
    "Budget",
    "Checkpoint",
    "Ledger",
    "Output",
    "Replacement",
    "Unit",
    "Watch",
    "__version__",
    "plan",
    "read",
    "release",
    "verify",
]

_HOMES = {
    "AddRemove": "discreet.ledger.request",
    "Budget": "discreet.privacy",
    "Checkpoint": "discreet.ledger.request",
    "Ledger": "discreet.ledger",
    "Output": "discreet.ledger.request",
    "Replacement": "discreet.ledger.request",
    "Unit": "discreet.privacy",
    "Watch": "discreet.ledger.request",
    "__version__": "discreet._core.version",
    "plan": "discreet.planner",
    "read": "discreet.releases.release",
    "release": "discreet._release",
    "verify": "discreet.releases",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used, so that ``import discreet`` stays fast."""
    if name not in __all__:
        raise AttributeError(f"module 'discreet' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
