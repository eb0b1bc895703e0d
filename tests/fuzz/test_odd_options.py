"""Options that make no sense, alone and together."""

from __future__ import annotations

import random
from pathlib import Path

from _spoil import ODD_NUMBERS, ODD_TEXTS, Attempt

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
    if kind == 0:
        attempt(
            "release",
            data,
            "--domain",
            domain,
            "--epsilon",
            "5",
            "--delta",
            "0.01",
            "--size",
            "5",
            "--mechanism",
            mechanism,
            *options(rng, "epsilon", "delta", "size", "seed", "unit", "max-records", "records", "sampling"),
            "--out",
            folder / "new.csv",
            new=("new.csv", "new.certificate.json"),
        )
    elif kind == 1:
        attempt(
            "privacy",
            mechanism,
            "--records",
            rng.choice(VALUES),
            "--size",
            rng.choice(("5", "100", "1000000")),
            "--epsilon",
            rng.choice(("1", *VALUES)),
            *options(rng, "size", "delta"),
        )
    elif kind == 2:
        attempt(
            "calibrate",
            mechanism,
            "--records",
            rng.choice(("100", *VALUES)),
            "--epsilon",
            rng.choice(("1", *VALUES)),
            *options(rng, "size", "delta"),
            "--param",
            "cells=5",
        )
    elif kind == 3:
        attempt(
            "verify",
            rng.choice((*(folder / odd for odd in ("", "none.json", "data.parquet")), *ODD_TEXTS)),
            *options(rng, "data"),
        )
    elif kind == 4:
        attempt(
            "estimate",
            folder / "dirichlet-process.parquet",
            "--functional",
            rng.choice(("mean", *VALUES, "P(>", "q")),
            "--draws",
            "20",
            *options(rng, "column", "level", "strength", "certificate"),
        )
    elif kind == 5:
        attempt(
            "compare",
            data,
            rng.choice((data, *ODD_TEXTS)),
            "--domain",
            rng.choice((domain, *ODD_TEXTS)),
            "--resamples",
            "2",
            *options(rng, "measures", "holdout"),
        )
    elif kind == 6:
        attempt("unseen", rng.choice((data, domain, *ODD_TEXTS)), *options(rng, "level", "json"))
    else:
        attempt(
            *(
                rng.choice(("release", "plan", "domain", "init", "-h", "--version", str(data), *VALUES))
                for _ in range(3)
            )
        )
