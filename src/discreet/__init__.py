"""Differentially private synthetic data whose guarantee is exact, honest and checkable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from discreet._core.lazy import door

if TYPE_CHECKING:
    from discreet._release import release
    from discreet.ledger import AddRemove, Checkpoint, Ledger, Output, Replacement, Watch
    from discreet.planner import plan
    from discreet.privacy import Advantage, Budget, Risk, Success, Unit
    from discreet.releases import read, verify

    __version__: str

__all__ = [
    "AddRemove", "Advantage", "Budget", "Checkpoint", "Ledger", "Output", "Replacement", "Risk", "Success", "Unit",
    "Watch", "__version__", "plan", "read", "release", "verify",
]  # fmt: skip

_load, __dir__ = door(__name__)


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used, so that ``import discreet`` stays fast."""
    if name == "__version__":
        from importlib.metadata import version

        return version("discreet")
    return _load(name)
