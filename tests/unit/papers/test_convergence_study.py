"""The study of convergence that is kept: a slice of it made again, byte for byte, and what it says of the theorems."""

from __future__ import annotations

import csv
import importlib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
KEPT = ROOT / "experiments" / "results" / "convergence"


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))
    return importlib.import_module("convergence")


def test_a_slice_of_the_study_is_what_is_kept(study: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(study.write.__globals__, "ROOT", tmp_path)
    kept = (KEPT / "convergence.csv").read_text().splitlines()
    for one in (study.STUDIES[0], study.STUDIES[1], study.STUDIES[-1]):
        study.write(tmp_path / "slice.csv", study.HEAD, one.rows(one.records[:1]))
        head, *rows = (tmp_path / "slice.csv").read_text().splitlines()
        assert head == kept[0]
        assert set(rows) <= set(kept)
        assert len(rows) == len(one.measured)


def test_distances_fall_at_least_as_fast_as_the_theorems_say() -> None:
    with (KEPT / "slopes.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["theorem"] for row in rows} == {"PY26 Theorem 3", "PY26 Theorem 4", "BNP24 Proposition 5.3"}
    for row in rows:
        assert float(row["measured"]) <= float(row["of the rate"]) + 0.01, row
        assert -0.52 <= float(row["measured"]) <= -0.45, row
        assert float(row["largest mean/rate"]) < 0.5, row
