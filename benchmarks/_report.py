"""What the benchmarks share: where shared data lies, how results are shown and kept."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT.parent / "shared" / "data"
RESULTS = Path(__file__).resolve().parent / "results"


def shared(name: str) -> Path:
    """Return the path of a shared data file, or leave with a message where it is absent."""
    path = DATA / name
    if not path.exists():
        raise SystemExit(f"skipped: ../shared/data/{name} is not there")
    return path


def show(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    """Print a table, numbers to the right."""
    texts = [tuple(cell if isinstance(cell, str) else f"{cell:,.4g}" for cell in row) for row in rows]
    widths = [max(len(cell) for cell in cells) for cells in zip(head, *texts, strict=True)]
    for row in (head, *texts):
        print("  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]))


def save(name: str, result: dict[str, Any]) -> None:
    """Write a result, with what it was measured on, to ``benchmarks/results/NAME.json``."""
    packages = ("numpy", "scipy", "polars", "opendp")
    measured_on = {
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        **{package: importlib.metadata.version(package) for package in packages},
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"benchmark": name, "measured_on": measured_on, **result}, indent=2) + "\n")
    print(f"\nwritten: benchmarks/results/{name}.json")
