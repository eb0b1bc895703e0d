"""Kept results of experiments belong to the code that is kept: some rows of each are computed anew and compared.

Each experiment says how, in ``slices``, with its own code and seeds. Cells are compared as they are written, six
significant digits of a number; where a file holds all sixteen, six are compared too, since the last ones differ with
the processor and the version of a numerical library. Slices of data that are not public are skipped where these are
absent.
"""

import csv
import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
FOLDERS = {path.name for path in (EXPERIMENTS / "results").iterdir() if path.is_dir()}
WRITES = re.compile(r'^RESULTS = .*"results" / "(\w+)"$', re.MULTILINE)
WRITERS = {
    path.stem: found[1] for path in sorted(EXPERIMENTS.glob("*.py")) if (found := WRITES.search(path.read_text()))
}
"""The experiments, and the folder that each writes."""


def experiment(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import an experiment; what it needs and is not there is told as a skip."""
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    for variable, default in (("OMP_NUM_THREADS", "1"), ("XLA_FLAGS", "")):  # which an experiment sets for good
        monkeypatch.setenv(variable, os.environ.get(variable, default))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as absent:
        pytest.skip(f"needs {absent.name}")


def kept(path: Path) -> list[list[str]]:
    """Return the rows of a data file."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))[1:]


def agrees(cell: Any, text: str) -> bool:
    """Whether a computed cell is what is written; None stands for anything."""
    if isinstance(cell, float):
        try:
            return f"{cell:.6g}" == f"{float(text):.6g}"
        except ValueError:
            return False
    return cell is None or str(cell) == text


def stale(computed: Iterable[Any], rows: list[list[str]]) -> list[list[Any]]:
    """Return the computed rows that no written row is equal to."""
    return [
        list(one)
        for one in computed
        if not any(all(map(agrees, one, row)) and len(list(one)) == len(row) for row in rows)
    ]


def test_every_folder_of_results_is_written_by_one_experiment() -> None:
    assert sorted(WRITERS.values()) == sorted(set(WRITERS.values()))
    assert set(WRITERS.values()) >= FOLDERS


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.exhaustive)], ids=["some", "all"])
@pytest.mark.parametrize("name", [name for name, folder in WRITERS.items() if folder in FOLDERS])
def test_kept_results_belong_to_the_code(name: str, every: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of rows that are computed as they are asked for, the first; all of the slice with the exhaustive tests."""
    module = experiment(name, monkeypatch)
    left_out, outdated = getattr(module, "WITHOUT_SLICE", {}), getattr(module, "STALE", {})
    try:
        slices = getattr(module, "slices", dict)()
        lazily = {file for file, rows in slices.items() if iter(rows) is rows and not every} - set(outdated)
        computed = {file: list(islice(rows, 1 if file in lazily else None)) for file, rows in slices.items()}
    except SystemExit as absent:
        pytest.skip(str(absent))
    assert {path.name for path in module.RESULTS.glob("*.csv")} == computed.keys() | left_out.keys()
    assert not computed.keys() & left_out.keys()
    for file, rows in computed.items():
        different = stale(rows, kept(module.RESULTS / file))
        if file in outdated:
            assert different, f"{file} is what {name}.py computes: it is no longer stale"
        else:
            assert not different, f"{file} is not what {name}.py computes: run it again. First of them: {different[0]}"


def test_a_quick_run_replaces_no_kept_result(tmp_path: Path) -> None:
    folder = EXPERIMENTS / "results" / "pp22_simulation"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    called = [sys.executable, str(EXPERIMENTS / "pp22_simulation.py"), "--quick", "--out", str(tmp_path)]
    subprocess.run(called, check=True, capture_output=True)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert {path.name for path in tmp_path.iterdir()} == before.keys()
    assert 0 < len(kept(tmp_path / "replicates.csv")) < len(kept(folder / "replicates.csv"))


def test_rows_that_ran_again_take_the_place_of_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    old = [["a", "1", "x"], ["b", "2", "x"], ["gone", "2", "x"]]
    merged = experiment("_harness", monkeypatch).merged
    assert merged(old, [["b", 2.0, "y"]], ["b, 2"], ["a, 1", "b, 2"], 2) == [["a", "1", "x"], ["b", 2.0, "y"]]
    assert merged(old, [["c", "y"]], ["c"], ["c", "b", "a"], 1) == [["c", "y"], ["b", "2", "x"], ["a", "1", "x"]]
    assert merged(old, [], ["a"], ["a", "b"], 1) == [["b", "2", "x"]]


@pytest.mark.parametrize(
    "computed", [("a", 20, 0.123457, None), ("a", 20, 0.1234567, 3.0), ("a", 20, 0.12345678901234567, "3")]
)
def test_a_row_that_is_written_is_found(computed: tuple[Any, ...]) -> None:
    assert not stale([computed], [["b", "1", "2", "3"], ["a", "20", "0.123457", "3"]])


@pytest.mark.parametrize(
    "computed",
    [
        ("a", 20, 0.123458, None),  # the last digit that is written
        ("a", 21, 0.123457, None),
        ("b", 20, 0.123457, None),
        ("a", 20, float("nan"), None),
        ("a", 20, 0.123457),  # a column more is written
        ("a", 0.5, 0.123457, None),
    ],
)
def test_another_row_is_stale(computed: tuple[Any, ...]) -> None:
    assert stale([computed], [["a", "20", "0.123457", "3"]]) == [list(computed)]
