"""What ``discreet audit mechanism`` catches: broken twins of every mechanism, and right ones that it must leave alone.

For each mechanism, calibrated for epsilon 1 on tables of three records:

- the nearest twin (calibrated for 1.1, 1.3, 1.6, 2, 4 or 10 times the budget) that the black box says it catches with
  a power of 95 %, if any, and how many of 10 further examinations of that twin, each with runs of its own, do catch it;
- how many examinations of the right mechanism are false alarms, at an error of 5 %: 1,000 over all.

Twins are examined at an error of 0.1 %, as the command does by default.
"""

import zlib
from collections.abc import Iterable
from multiprocessing import Pool
from typing import Any

import numpy as np
from _harness import HERE, renew, script, write

from discreet._core.random import seeded
from discreet.audit.black_box import ERROR
from discreet.audit.mechanism import Case, examined
from discreet.domain import Domain, Integer
from discreet.mechanisms import REGISTRY

RESULTS = HERE / "results" / "audit_power"
HEAD = ["mechanism", "theorem", "delta", "runs", "exact_twin", "twin", "stated_power", "examinations", "caught",
        "right_examinations", "false_alarms"]  # fmt: skip
ALARM = 0.05
RUNS, TWINS, RIGHT = 600, 10, 60
SLOW = ("marginals", "private-evolution")
"""Mechanisms whose runs take a millisecond and more: of the right one, there are 20 examinations."""

LONG = ("stability-histogram", "stabilised-pitman-yor")
"""Mechanisms whose outputs take minutes to list."""

OTHER_RUNS = {"marginals": 200, "private-evolution": 200, "pitman-yor": 1500}

USUAL: dict[str, Any] = {"records": 3, "epsilon": 1.0, "delta": 0.0, "size": 1, "cells": 3}
BITS = Domain(columns={name: Integer(lower=0, upper=1) for name in "abc"})
OWN: dict[str, dict[str, Any]] = {
    "dirichlet-process": {"delta": 0.05, "cells": None},
    "pitman-yor": {"delta": 0.02, "cells": None, "discount": 0.5},
    "urn-histogram": {"delta": 0.05},
    "gaussian-smoothed-histogram": {"delta": 0.01},
    "stability-histogram": {"delta": 0.1, "cells": None},
    "stabilised-pitman-yor": {"delta": 0.1, "cells": None},
    "exponential-histogram": {"records": 1},
    "marginals": {"delta": 1e-6, "cells": None, "domain": BITS},
    "private-evolution": {"delta": 0.01},
}
WITHOUT_SLICE = {"power.csv": "a row needs hundreds of thousands of runs; slice.csv has rows of a few"}
QUICK = ("perturbed-histogram",)
SLICE = {"runs": 200, "twins": 2, "right": 3}


def asked(name: str) -> dict[str, Any]:
    return {key: value for key, value in {**USUAL, **OWN.get(name, {})}.items() if value is not None}


def measured(name: str, *, runs: int = RUNS, twins: int = TWINS, right: int = RIGHT) -> list[Any]:
    request = asked(name)
    found = examined(name, **request, runs=runs, seed=_seed(name, 0), listed=name not in LONG)
    case = Case.from_name(name, **request)

    def alarms(made: Any, numbers: Iterable[int], **how: Any) -> int:
        findings = (case.findings(made, rng=seeded(_seed(name, number)), **how) for number in numbers)
        return sum(any(one.caught for one in found) for found in findings)

    false = alarms(case.claimed, range(-1, -right - 1, -1), runs=100, error=ALARM)
    twin = ("none", "none", 0, 0)
    if found.power is not None:
        caught = alarms(case.calibrated(found.power[0]), range(1, twins + 1), runs=runs, error=ERROR)
        twin = (*found.power, twins, caught)
    exact = "not listed" if found.exact is None else (found.exact.twin_caught or "none")
    return [name, case.guarantee.theorem, request["delta"], runs, exact, *twin, right, false]


def _seed(name: str, number: int) -> int:
    return int(np.uint32(zlib.crc32(f"{name} {number}".encode())))


def row(name: str) -> list[Any]:
    return measured(name, runs=OTHER_RUNS.get(name, RUNS), right=20 if name in SLOW else RIGHT)


def slices() -> dict[str, Any]:
    return {"slice.csv": [measured(name, **SLICE) for name in QUICK]}


@script(only=("", QUICK[0]))
def main(only: str) -> None:
    names = sorted((name for name in REGISTRY if name.startswith(only)), key=lambda name: name not in SLOW)
    with Pool(2) as pool:
        for found in pool.imap_unordered(row, names):
            print(*found, flush=True)
            renew(RESULTS / "power.csv", HEAD, [found], REGISTRY)
    write(RESULTS / "slice.csv", HEAD, slices()["slice.csv"])
