"""Options that make no sense, alone and together."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from _spoil import ASKED, ODD_NUMBERS, ODD_TEXTS, WRITTEN, Attempt

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
