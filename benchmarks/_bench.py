"""What benchmarks have beside the harness, which is with the experiments: timing, fresh processes, result files.

It is imported before the harness, since it puts that folder on the path.
"""

import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).resolve().parent / "results"
sys.path.append(str(RESULTS.parents[1] / "experiments"))
from _harness import cells_held, data, decoded, target, timed  # noqa: E402

from discreet._core.random import secure, seeded  # noqa: E402
from discreet.domain import Counts, Domain  # noqa: E402
from discreet.utility import wasserstein_1d  # noqa: E402


def save(name: str, result: dict[str, Any]) -> None:
    """Write a result, with what it was measured on, to ``benchmarks/results/NAME.json``."""
    packages = ("numpy", "scipy", "polars", "opendp")
    measured_on = {
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        **{package: importlib.metadata.version(package) for package in packages},
    }
    path = target(RESULTS / f"{name}.json")
    path.write_text(json.dumps({"benchmark": name, "measured_on": measured_on, **result}, indent=2) + "\n")
    print(f"\nmeasured on: {', '.join(f'{what} {value}' for what, value in measured_on.items())}\nwritten: {path}")


def verdict(met: bool) -> str:
    """Say whether a claim holds."""
    return "met" if met else "NOT met"


def in_turn(runs: int, *calls: Callable[[], Any]) -> list[tuple[float, Any]]:
    """Let calls take turns; return the least processor seconds of each, and what it returned first."""
    found = [[timed(call) for call in calls] for _ in range(runs)]
    return [(min(seconds for seconds, _ in each), each[0][1]) for each in zip(*found, strict=True)]


def median_seconds(act: Callable[[], Any], runs: int) -> float:
    """Return the median seconds of an act."""
    found = []
    for _ in range(runs):
        start = time.perf_counter()
        act()
        found.append(time.perf_counter() - start)
    return statistics.median(found)


def fresh(code: str, *arguments: Any, **environment: str) -> Any:
    """Run code, or a file of it, in a fresh process; return its last line as JSON, with the seconds of all."""
    start = time.perf_counter()
    program = [code] if code.endswith(".py") else ["-c", code]
    called = [sys.executable, *program, *map(str, arguments)]
    ended = subprocess.run(called, capture_output=True, text=True, check=False, env={**os.environ, **environment})
    if ended.returncode:
        raise SystemExit(ended.stderr)
    found = json.loads(ended.stdout.splitlines()[-1])
    return found | {"process": time.perf_counter() - start} if isinstance(found, dict) else found


class Incomes:
    """The positive incomes of the American Community Survey 2024 (48 states and DC): distinct values, frequencies."""

    def __init__(self) -> None:
        incomes = data("acs2024_persons_income_49", "PINCP")["PINCP"]
        values, self.frequencies = np.unique(incomes.filter(incomes > 0).to_numpy().astype(float), return_counts=True)
        self.values, self.n = values, int(self.frequencies.sum())

    def distance(self, sample: Any, weights: Any = None) -> float:
        """Return W1 of a sample to the table."""
        return wasserstein_1d(self.values, sample, x_weights=self.frequencies, y_weights=weights)

    def counts(self, domain: Domain) -> Counts:
        """Count the cells."""
        (column,) = domain.columns.values()
        return cells_held(np.bincount(column.encode(self.values), weights=self.frequencies, minlength=domain.size or 0))

    def resampled(self, size: int, seeds: int) -> list[float]:
        """Return W1 of bootstrap samples."""
        shares = self.frequencies / self.n
        return [self.distance(self.values, seeded(10_000 + s).multinomial(size, shares)) for s in range(seeds)]


class Distances:
    """Distances of releases from a confidential table, by the name of the release, and the seconds that each took."""

    def __init__(self, measure: Callable[[Any], dict[str, float]]) -> None:
        self.measure = measure
        self.rows: dict[str, dict[str, list[float]]] = {}

    def keep(self, name: str, released: Any, seconds: float = 0.0) -> None:
        """Keep the distances of one release."""
        for kind, value in {**self.measure(released), "seconds": seconds}.items():
            self.rows.setdefault(name, {}).setdefault(kind, []).append(value)

    def each(self, name: str, release: Callable[[int], Any], seeds: int) -> None:
        """Keep the distances of releases that are made by their seeds."""
        for seed in range(seeds):
            start = time.perf_counter()
            released = release(seed)
            self.keep(name, released, time.perf_counter() - start)
        print(f"  {name}: {', '.join(f'{kind} {np.mean(v):.4f}' for kind, v in self.rows[name].items())}", flush=True)

    def release(self, x: Counts, ways: dict[str, Any], size: int, seeds: int) -> None:
        """Keep the distances of releases; the output of the first mechanism is finished in every way."""
        for seed in range(seeds):
            start = time.perf_counter()
            output = next(iter(ways.values())).kernel(x, rng=secure())
            kernel = time.perf_counter() - start
            for name, way in ways.items():
                start = time.perf_counter()
                released = decoded(way, output, x.n, size, seeded(seed))
                self.keep(name, released, kernel + time.perf_counter() - start)
        print(f"  {', '.join(ways)}", flush=True)

    def mean(self, name: str, kind: str) -> float:
        """Return a mean over seeds."""
        return float(np.mean(self.rows[name][kind]))
