"""What the study of convergence that is kept says of the theorems; that it belongs to the code is tested with all."""

from __future__ import annotations

import csv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
KEPT = ROOT / "experiments" / "results" / "convergence"


def test_distances_fall_at_least_as_fast_as_the_theorems_say() -> None:
    with (KEPT / "slopes.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["theorem"] for row in rows} == {"PY26 Theorem 3", "PY26 Theorem 4", "BNP24 Proposition 5.3"}
    for row in rows:
        assert float(row["measured"]) <= float(row["of the rate"]) + 0.01, row
        assert -0.52 <= float(row["measured"]) <= -0.45, row
        assert float(row["largest mean/rate"]) < 0.5, row
