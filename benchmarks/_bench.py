"""What benchmarks have beside the harness of the experiments: timing, fresh processes, result files.

It is imported before the harness, since it puts that folder on the path.
"""

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

RESULTS = Path(__file__).resolve().parent / "results"
sys.path.append(str(RESULTS.parents[1] / "experiments"))
from _harness import counted, decoded, target, timed  # noqa: E402

from discreet._core.random import seeded  # noqa: E402


def save(name: str, result: dict[str, Any]) -> None:
    """Write a result, with what it was measured on, to ``benchmarks/results/NAME.json``, whole or not at all."""
    packages = ("numpy", "scipy", "polars", "opendp")
    measured_on = {
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        **{package: importlib.metadata.version(package) for package in packages},
    }
    path = target(RESULTS / f"{name}.json")
    whole = path.with_suffix(f".{os.getpid()}")
    whole.write_text(json.dumps({"benchmark": name, "measured_on": measured_on, **result}, indent=2) + "\n")
    whole.replace(path)
    print(f"\nmeasured on: {', '.join(f'{what} {value}' for what, value in measured_on.items())}\nwritten: {path}")


def verdict(met: bool) -> str:
    """Say whether a claim holds."""
    return "met" if met else "NOT met"


def errors(mechanism: Any, table: Any, size: int, seeds: int, distance: Callable[[Any], float]) -> list[float]:
    """Return the distances of seeded releases of a frame."""
    x, found = counted(table, mechanism.domain), []
    for seed in range(seeds):
        rng = seeded(seed)
        found.append(float(distance(decoded(mechanism, mechanism.kernel(x, rng=rng), x.n, size, rng))))
    return found


def variation(first: pl.DataFrame, second: pl.DataFrame) -> float:
    """Return the total variation of two frames of the same columns."""
    signs = ((first, 1.0 / first.height), (second, -1.0 / second.height))
    shares = [frame.group_by(frame.columns).len().with_columns(pl.col("len") * share) for frame, share in signs]
    return 0.5 * float(pl.concat(shares).group_by(first.columns).sum()["len"].abs().sum())


def in_turn(runs: int, *calls: Callable[[], Any]) -> list[tuple[float, Any]]:
    """Let calls take turns; return the least processor seconds of each, and what it returned first."""
    found = [[timed(call) for call in calls] for _ in range(runs)]
    return [(min(seconds for seconds, _ in each), each[0][1]) for each in zip(*found, strict=True)]


def fresh(code: str, *arguments: Any, **environment: str) -> dict[str, Any]:
    """Run code, or a file of it, in a fresh process; return its last line as JSON, with the seconds of all."""
    start = time.perf_counter()
    program = [code] if code.endswith(".py") else ["-c", code]
    called = [sys.executable, *program, *map(str, arguments)]
    ended = subprocess.run(called, capture_output=True, text=True, check=False, env={**os.environ, **environment})
    if ended.returncode:
        raise SystemExit(ended.stderr)
    return {**json.loads(ended.stdout.splitlines()[-1]), "process": time.perf_counter() - start}
