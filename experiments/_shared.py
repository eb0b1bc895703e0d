"""What the experiments share: where shared data lie, and how data files are written.

Pictures are drawn from the data files by ``pictures``: see ``draw.py``.

Every experiment with results has a function ``slices``, which computes some rows of its data files anew in a few
seconds, in the same way and with the same seeds as the whole: pairs of a file's name and a row of it, ``ANY`` where a
cell differs from run to run. A test compares them with the files that are kept. Where a row of the whole takes too
long, the experiment keeps a small file of rows that are quick, ``slice.csv``. Files without a slice are named in
``WITHOUT_SLICE``, with the reason. Files that are to be made again, where that takes long, are named in ``STALE`` until
they are.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
BAND = 2.5758293035489004  # two-sided 99 % of the normal distribution
ANY = None
"""A cell of a slice that is not compared: a time."""


def shared(name: str) -> Path:
    """Return the path of a shared data file, or leave with a message where it is absent."""
    path = ROOT.parent / "shared" / "data" / name
    if not path.exists():
        raise SystemExit(f"skipped: ../shared/data/{name} is not there")
    return path


def write(path: Path, head: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    """Write a data file, numbers with six significant digits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(head)
        out.writerows([printed(cell) for cell in row] for row in rows)
    print(f"written: {path.relative_to(ROOT)}")


def printed(cell: Any) -> str:
    """Return a cell as it is written."""
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)


def mean_and_band(values: Any) -> tuple[float, float, float]:
    """Return the mean of independent runs and its 99 % confidence interval."""
    values = np.asarray(values, dtype=np.float64)
    mean, error = float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))
    return mean, mean - BAND * error, mean + BAND * error
