"""Large libraries under the names that they go by: each is loaded when something of it is first used.

Where an optional one is missing, its first use raises the ImportError that importing it would have raised.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["Lazy", "dist", "handlers", "jax", "jnp", "numpyro", "nw", "pl", "torch"]


class Lazy:
    """A library that is loaded when one of its names is looked up."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what inspection asks of any object loads nothing
            raise AttributeError(name)
        return getattr(import_module(self._module), name)


if TYPE_CHECKING:
    import jax
    import jax.numpy as jnp
    import narwhals as nw
    import numpyro
    import numpyro.distributions as dist
    import polars as pl
    import torch
    from numpyro import handlers
else:
    jax, jnp, torch, nw, pl = map(Lazy, ("jax", "jax.numpy", "torch", "narwhals", "polars"))
    numpyro, dist, handlers = map(Lazy, ("numpyro", "numpyro.distributions", "numpyro.handlers"))
