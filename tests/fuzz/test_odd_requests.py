"""Options and arguments that make no sense, alone and together."""

import importlib
import inspect
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from _spoil import ASKED, CANARIES, NUMBER, ODD_NUMBERS, ODD_TEXTS, TEXT, WRITTEN, Attempt, odd

from discreet.domain import Category, Domain, Integer, Numeric
from discreet.errors import DiscreetError, Fault
from discreet.mechanisms import REGISTRY

VALUES = (*map(str, ODD_NUMBERS), *ODD_TEXTS, "inf", "-inf", "NaN", "1e-9", "0x10", "--", "-5", "1,2", "x", "s", "mean")
PARAMETERS = ("cells", "scale", "group", "mixing", "strength", "discount", "prior", "threshold", "nonsense", "steps")


def options(rng: random.Random, *names: str) -> list[str]:
    """Return some of the options with odd values."""
    found = []
    for name in names:
        if rng.random() < 0.25:
            found += [f"--{name}", rng.choice(VALUES)]
    while rng.random() < 0.4:
        found += ["--param", f"{rng.choice(PARAMETERS)}={rng.choice(VALUES)}"]
    return found


def test_options(folder: Path, attempt: Attempt, rng: random.Random) -> None:
    data, domain = folder / "data.parquet", folder / "domain.toml"
    mechanism = rng.choice([name for name in REGISTRY if name != "private-evolution"])
    kind = rng.randrange(8)
    asked: Sequence[object]
    if kind == 0:
        names = ("epsilon", "delta", "size", "seed", "unit", "max-records", "records", "sampling")
        asked = ("--domain", domain, *ASKED, "--mechanism", mechanism, *options(rng, *names))
        attempt("release", data, *asked, "--out", folder / "new.csv", new=WRITTEN)
    elif kind == 1:
        asked = ("--records", rng.choice(VALUES), "--size", rng.choice(("5", "100", "1000000")))
        attempt("privacy", mechanism, *asked, "--epsilon", rng.choice(("1", *VALUES)), *options(rng, "size", "delta"))
    elif kind == 2:
        asked = ("--records", rng.choice(("100", *VALUES)), "--epsilon", rng.choice(("1", *VALUES)))
        attempt("calibrate", mechanism, *asked, *options(rng, "size", "delta"), "--param", "cells=5")
    elif kind == 3:
        places = [folder / name for name in ("", "none.json", "data.parquet")]
        attempt("verify", rng.choice((*places, *ODD_TEXTS)), *options(rng, "data"))
    elif kind == 4:
        released, functional = folder / "dirichlet-process.parquet", rng.choice(("mean", *VALUES, "P(>", "q"))
        asked = options(rng, "column", "level", "strength", "certificate")
        attempt("estimate", released, "--functional", functional, "--draws", 20, *asked)
    elif kind == 5:
        other, declared = rng.choice((data, *ODD_TEXTS)), rng.choice((domain, *ODD_TEXTS))
        asked = options(rng, "measures", "holdout")
        attempt("compare", data, other, "--domain", declared, "--resamples", 2, *asked)
    elif kind == 6:
        attempt("unseen", rng.choice((data, domain, *ODD_TEXTS)), *options(rng, "level", "json"))
    else:
        words = ("release", "plan", "domain", "init", "-h", "--version", str(data), *VALUES)
        attempt(*(rng.choice(words) for _ in range(3)))


# -- arguments of public functions and constructors: only errors of this library, and no faults -----------------------

PACKAGES = (
    "domain", "confidential", "mechanisms", "planner", "privacy", "releases", "utility", "inference", "audit", "report",
    "evolution", "pseudo_posterior", "papers.bnp24", "papers.pe25", "papers.py26", "papers.roo25",
)  # fmt: skip
# These run for minutes, or write to a folder of their own, on the right arguments.
ONLY_OF_MODELS = {"demo", "frontier", "fit"}


def public() -> dict[str, Callable[..., Any]]:
    """Return every public function, constructor and classmethod."""
    found: dict[str, Callable[..., Any]] = {}
    for package in PACKAGES:
        module = importlib.import_module(f"discreet.{package}")
        for name in module.__all__:
            item = getattr(module, name)
            ours = inspect.isfunction(item) or (inspect.isclass(item) and item.__module__.startswith("discreet."))
            base = inspect.isabstract(item) or getattr(item, "_is_protocol", False)  # Python itself refuses to make one
            if not ours or base or name in ONLY_OF_MODELS or (inspect.isclass(item) and issubclass(item, Exception)):
                continue
            found[f"{package}.{name}"] = item
            for key, member in inspect.getmembers(item, inspect.ismethod) if inspect.isclass(item) else ():
                if not key.startswith("_"):
                    found[f"{package}.{name}.{key}"] = member
    return found


PUBLIC = public()


def good(rng: random.Random) -> Any:
    """Return something that may well be what is wanted."""
    domain = Domain(columns={"x": Numeric(lower=0, upper=9, cells=3), "s": Category(categories=["a", "b"])})
    return rng.choice(
        [
            domain, 5, 100, 1.0, 0.5, 1e-6, "replacement", "mean", "x", pl.DataFrame({"x": [1.0], "s": ["a"]}),
            pl.DataFrame({"x": [NUMBER], "s": [TEXT]}), np.arange(4.0), np.arange(3), [1.0, 2.0], {"cells": 3}, None,
            True, Domain(columns={"x": Integer(lower=0, upper=9)}), Integer(lower=0, upper=3), lambda *_: 1.0,
            ["a", "b"], "1h", np.zeros((2, 2)), "perturbed-histogram", "2020-01-01", "no-such-file.parquet", 10**400,
            float("nan"), float("inf"),
        ]
    )  # fmt: skip


def arguments(rng: random.Random, function: Callable[..., Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return some arguments for a function, most of them of the wrong kind."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        value = good(rng) if rng.random() < 0.7 else odd(rng)
        if parameter.kind is parameter.VAR_POSITIONAL or rng.random() < 0.05:
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            kwargs |= {"cells": 3} if rng.random() < 0.3 else {}
        elif parameter.default is parameter.empty or rng.random() < 0.4:
            if parameter.kind is parameter.KEYWORD_ONLY or rng.random() < 0.5 or kwargs:
                kwargs[parameter.name] = value
            else:
                args.append(value)
    return args, kwargs


@pytest.mark.filterwarnings("ignore")
def test_arguments(rng: random.Random, bounded: None, seed: int) -> None:
    names = sorted(PUBLIC)
    for _ in range(8):
        name = rng.choice(names)
        args, kwargs = arguments(rng, PUBLIC[name])
        what = f"seed {seed}: {name} {args!r} {kwargs!r}"[:2000]
        raised: Exception | None = None
        try:
            PUBLIC[name](*args, **kwargs)
        except Exception as problem:  # noqa: BLE001  # what it may be is what is asserted
            raised = problem
        assert raised is None or (isinstance(raised, DiscreetError) and not isinstance(raised, Fault)), what
        given = repr((args, kwargs)).replace(repr(NUMBER), "")
        assert not [canary for canary in CANARIES if canary in str(raised) and canary not in given], what
