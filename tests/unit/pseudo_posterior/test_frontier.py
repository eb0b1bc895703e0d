"""Risk-utility frontiers: in several processes, interrupted, killed; and their pictures."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet._core.random import seeded
from discreet.errors import FileProblem, ParameterError
from discreet.pseudo_posterior import (
    LinearWeights,
    MappedWeights,
    PoissonMean,
    PseudoPosterior,
    Truncated,
    frontier,
    frontier_page,
    reciprocal,
    violins,
    weight_picture,
)
from discreet.pseudo_posterior.risk_frontier import FrontierPoint
from discreet.pseudo_posterior.weights import Weighting

pytestmark = pytest.mark.chains

VISITS = seeded(1).poisson(100.0, size=200)
GRID: dict[str, Weighting] = {
    "loose": LinearWeights(),
    "mapped": MappedWeights(function=reciprocal),  # a function, which is sent to the processes
    "nothing": LinearWeights(c=0.0),
    "tight": LinearWeights(c=0.3),
}
STATISTICS = {"mean": np.mean, "median": np.median}


def run_frontier(
    folder: Path, grid: Mapping[str, Weighting] = GRID, statistics: Mapping[str, Any] = STATISTICS, **more: Any
) -> list[FrontierPoint]:
    mechanism = PseudoPosterior(PoissonMean(column="visits"), tables=3, draws=200)
    return frontier(mechanism, {"visits": VISITS}, grid, statistics, column="visits", folder=folder, seed=7,
                    resamples=20, **more)  # fmt: skip


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> list[FrontierPoint]:
    """What one process makes in one go."""
    return run_frontier(tmp_path_factory.mktemp("frontier") / "one")


def kept(folder: Path) -> list[dict[str, Any]]:
    """Return the points in a folder, as its only file has them."""
    (path,) = folder.iterdir()
    document = json.loads(path.read_text())
    assert document["confidential"] is True
    assert oct(path.stat().st_mode)[-3:] == "600"
    assert oct(folder.stat().st_mode)[-3:] == "700"
    return list(document["points"])


class Stop(Exception):
    """Raised by a callback."""


def test_two_workers_give_what_one_gives(tmp_path: Path, alone: list[FrontierPoint]) -> None:
    seen: list[int] = []
    points = run_frontier(tmp_path / "two", workers=2, progress=seen.append)
    assert seen == [1, 2, 3, 4]
    assert points == alone
    assert len({point.lipschitz for point in points}) == 4
    assert [point["label"] for point in kept(tmp_path / "two")] == list(GRID)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_call_that_is_interrupted_leaves_what_is_done(
    tmp_path: Path, alone: list[FrontierPoint], workers: int
) -> None:
    def stop(done: int) -> None:
        if done == 2:
            raise Stop

    with pytest.raises(Stop):
        run_frontier(tmp_path / "f", workers=workers, progress=stop)
    points = kept(tmp_path / "f")
    assert [(point["label"], point["epsilon"]) for point in points] == [(p.label, p.epsilon) for p in alone[:2]]
    with pytest.raises(FileProblem, match="other files"):
        run_frontier(tmp_path / "f")
    rest = {label: GRID[label] for label in list(GRID)[2:]}
    assert run_frontier(tmp_path / "rest", rest) == alone[2:]  # a point does not depend on the others


KILLED = """
import os, signal, sys
from pathlib import Path
import test_frontier
progress = lambda done: os.kill(os.getpid(), signal.SIGKILL) if done == 2 else None
test_frontier.run_frontier(Path(sys.argv[1]), progress=progress)
"""


def test_a_kill_leaves_what_is_done(tmp_path: Path, alone: list[FrontierPoint]) -> None:
    here = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "f")], check=False, env=here)
    assert killed.returncode == -signal.SIGKILL
    points = kept(tmp_path / "f")
    assert [(point["label"], point["epsilon"]) for point in points] == [(p.label, p.epsilon) for p in alone[:2]]


def test_what_workers_cannot_receive_is_refused_before_anything_is_fitted(tmp_path: Path) -> None:
    odd = {"odd": MappedWeights(function=lambda z: 1.0 / (2.0 + z))}
    with pytest.raises(ParameterError, match="picklable"):
        run_frontier(tmp_path / "f", odd, workers=2)
    assert not (tmp_path / "f").exists()
    (point,) = run_frontier(tmp_path / "f", odd)
    assert 0.0 < point.lipschitz < math.inf


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FileProblem, match="other files"):
        run_frontier(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_points_and_their_pictures(tmp_path) -> None:
    cut = Truncated(weighting=LinearWeights(), most=2.0)
    grid = {"loose": GRID["loose"], "tight": GRID["tight"], "M": cut, "nothing": GRID["nothing"]}
    points = run_frontier(tmp_path / "f", grid, {"mean": np.mean, "q90": lambda values: np.quantile(values, 0.9)})
    assert points[1].lipschitz < points[0].lipschitz
    assert points[0].error("mean") < 5.0
    assert points[3].failed is not None
    assert kept(tmp_path / "f")[3]["failed"] == points[3].failed
    page = frontier_page(points, tmp_path / "page.html").read_text()
    assert "CONFIDENTIAL" in page
    assert "</script" in page.replace('"loose"', "")
    assert page.count("http") == page.count("http://www.w3.org/2000/svg") + page.count("http-equiv")
    for path in (
        violins({"a": [1.0, 2.0, 3.0], "b": [2.0, 4.0, 8.0]}, tmp_path / "violins.svg", label="bound"),
        weight_picture([1.0, 2.0, 3.0], [1.0, 0.5, 0.0], tmp_path / "weights.svg"),
    ):
        assert path.stat().st_size > 1000


@pytest.mark.parametrize(("risks", "weights"), [([[1.0]], [[1.0]]), ([1.0, 2.0], [1.0]), (1.0, 1.0)])
def test_a_picture_of_weights_has_one_number_per_record(risks, weights, tmp_path) -> None:
    with pytest.raises(ParameterError, match="one number per record"):
        weight_picture(risks, weights, tmp_path / "weights.svg")
