"""Large libraries under the names that they go by: each is loaded when something of it is first used.

Where an optional one is missing, its first use raises the ImportError that importing it would have raised.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pkgutil import get_data
from typing import TYPE_CHECKING, Any

__all__ = [
    "Lazy", "dask", "dist", "handlers", "jax", "jnp", "np", "numpyro", "nw", "pd", "pl", "spatial", "special", "torch",
]  # fmt: skip


class Lazy:
    """A library that is loaded when one of its names is looked up."""

    problem: type[Exception] | None = None  # the class of the error, where it was used before a fork

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what inspection asks of any object loads nothing
            raise AttributeError(name)
        if self.problem is not None:
            raise self.problem(
                f"this process was forked while {self._module} had threads, for which it would wait forever. Start it "
                "by spawn: multiprocessing.get_context('spawn')"
            )
        value = vars(self)[name] = getattr(import_module(self._module), name)  # which is not looked up again
        return value


if TYPE_CHECKING:
    import dask
    import jax
    import jax.numpy as jnp
    import narwhals as nw
    import numpy as np
    import numpyro
    import numpyro.distributions as dist
    import pandas as pd
    import polars as pl
    import torch
    from numpyro import handlers
    from scipy import spatial, special
else:
    jax, jnp, torch, nw, np, pl = map(Lazy, ("jax", "jax.numpy", "torch", "narwhals", "numpy", "polars"))
    numpyro, dist, handlers = map(Lazy, ("numpyro", "numpyro.distributions", "numpyro.handlers"))
    dask, pd, spatial, special = map(Lazy, ("dask", "pandas", "scipy.spatial", "scipy.special"))


def door(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package whose names are loaded when they are first used."""
    # Which module has a name is read from the package's own imports under TYPE_CHECKING.
    module, source = sys.modules[package], get_data(package, "__init__.py") or b""
    imports = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    homes = {name.name: node.module for node in imports for name in node.names if node.module is not None}

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name]), name)
        setattr(module, name, value)
        return value

    return load, lambda: list(module.__all__)
