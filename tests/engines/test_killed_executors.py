"""Executors of Spark are killed while they count and while they make parts: the release is the same."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import killed_executors
import pytest

from discreet import verify


@pytest.mark.engines
@pytest.mark.filterwarnings("ignore")
def test_killed_executors_change_nothing(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="PySpark is not installed")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("PySpark needs Java, and there is none")
    if not Path("/proc/self/stat").exists():
        pytest.skip("executors are found by /proc")
    marks, own, there = tmp_path / "marks", tmp_path / "own", tmp_path / "there"
    marks.mkdir()
    script = str(Path(killed_executors.__file__))
    ran = subprocess.run(
        [sys.executable, script, str(there), str(marks)], capture_output=True, text=True, timeout=500, check=False
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    killed = {mark.name: mark.read_text() for mark in marks.iterdir()}
    assert sorted(killed) == sorted(killed_executors.MOMENTS)
    assert all("CoarseGrainedExecutorBackend" in command for command in killed.values())
    killed_executors.released(killed_executors.table(), own, 1)
    same = [f"part-{number:05}.parquet" for number in range(killed_executors.PARTS)]
    for name in [*same, "_manifest.json"]:
        assert (there / name).read_bytes() == (own / name).read_bytes(), name
    assert sorted(file.name for file in there.iterdir()) == sorted([*same, "_manifest.json", "_certificate.json"])
    assert all(check.agrees for check in verify(there))
