"""Risk-utility frontiers: in several processes, after an interruption, after a kill; and their pictures."""

from __future__ import annotations

import json
import math
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
    "mapped": MappedWeights(function=reciprocal),  # its description must not depend on the process
    "nothing": LinearWeights(c=0.0),
    "tight": LinearWeights(c=0.3),
}
STATISTICS = {"mean": np.mean, "median": np.median}


def run_frontier(folder: Path, grid: Mapping[str, Weighting] = GRID, **more: Any) -> list[FrontierPoint]:
    mechanism = PseudoPosterior(PoissonMean(column="visits"), tables=3, draws=200)
    return frontier(mechanism, {"visits": VISITS}, grid, STATISTICS, column="visits", folder=folder, seed=7,
                    resamples=20, **more)  # fmt: skip


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> list[FrontierPoint]:
    """What one process makes in one go."""
    return run_frontier(tmp_path_factory.mktemp("frontier") / "one")


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.glob("point-*.json")}


class Stop(Exception):
    """Raised by a callback."""


def test_two_workers_give_what_one_gives_even_when_interrupted(tmp_path: Path, alone: list[FrontierPoint]) -> None:
    folder = tmp_path / "two"
    seen: list[int] = []

    def stop(done: int) -> None:
        seen.append(done)
        if done == 3:
            raise Stop

    with pytest.raises(Stop):
        run_frontier(folder, workers=2, progress=stop)
    early = contents(folder)
    assert len(early) == 3
    points = run_frontier(folder, progress=seen.append)
    assert seen == [1, 2, 3, 4]
    assert points == alone
    assert contents(folder).items() >= early.items()  # kept as it was, not written again
    assert len({point.lipschitz for point in points}) == 4
    assert not list(folder.glob("*.part"))


KILLED = """
import os
import signal
import sys

import numpy as np

from discreet._core.random import seeded
from discreet.pseudo_posterior import LinearWeights, MappedWeights, PoissonMean, PseudoPosterior, frontier, reciprocal

frontier(
    PseudoPosterior(PoissonMean(column="visits"), tables=3, draws=200),
    {"visits": seeded(1).poisson(100.0, size=200)},
    {"loose": LinearWeights(), "mapped": MappedWeights(function=reciprocal), "nothing": LinearWeights(c=0.0),
     "tight": LinearWeights(c=0.3)},
    {"mean": np.mean, "median": np.median},
    column="visits", folder=sys.argv[1], seed=7, resamples=20,
    progress=lambda done: os.kill(os.getpid(), signal.SIGKILL) if done == 2 else None,
)
"""


def test_what_was_done_before_a_kill_is_not_done_again(
    tmp_path: Path, alone: list[FrontierPoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "killed"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(folder)], check=False)
    assert killed.returncode == -signal.SIGKILL
    early = contents(folder)
    assert len(early) == 2
    fitted: list[Weighting] = []
    plain = PseudoPosterior.refit

    def counted(self: Any, sampler: Any, first: Any, risks: Any, weighting: Weighting, **more: Any) -> Any:
        fitted.append(weighting)
        return plain(self, sampler, first, risks, weighting, **more)

    monkeypatch.setattr(PseudoPosterior, "refit", counted)
    assert run_frontier(folder) == alone
    assert fitted == [GRID["nothing"], GRID["tight"]]
    assert contents(folder).items() >= early.items()


def test_what_workers_cannot_receive_is_refused_before_anything_is_fitted(tmp_path: Path) -> None:
    odd = {"odd": MappedWeights(function=lambda z: 1.0 / (2.0 + z))}
    with pytest.raises(ParameterError, match="picklable"):
        run_frontier(tmp_path / "f", odd, workers=2)
    assert not (tmp_path / "f").exists()
    (point,) = run_frontier(tmp_path / "f", odd)
    assert 0.0 < point.lipschitz < math.inf


@pytest.mark.parametrize("text", ["mine", "{}", "[]", "[" * 10**5])
def test_a_folder_of_something_else_is_left_alone(tmp_path: Path, text: str) -> None:
    (tmp_path / "settings.json").write_text(text)
    with pytest.raises(FileProblem):
        run_frontier(tmp_path)
    (tmp_path / "settings.json").rename(tmp_path / "notes.txt")
    with pytest.raises(FileProblem, match="other files"):
        run_frontier(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def ninetieth(values) -> float:
    return float(np.quantile(values, 0.9))


def test_a_frontier_goes_on_where_it_stopped(tmp_path, monkeypatch) -> None:
    mechanism = PseudoPosterior(PoissonMean(column="visits"), tables=3, draws=200)
    columns = {"visits": VISITS}
    grid = {
        "loose": LinearWeights(),
        "tight": LinearWeights(c=0.3),
        "M": Truncated(weighting=LinearWeights(), most=2.0),
        "nothing": LinearWeights(c=0.0),
    }
    facts = {"column": "visits", "folder": tmp_path / "f", "seed": 7, "resamples": 20}
    first = frontier(mechanism, columns, {"loose": grid["loose"]}, {"mean": np.mean, "q90": ninetieth}, **facts)
    seen: list[int] = []
    points = frontier(mechanism, columns, grid, {"mean": np.mean, "q90": ninetieth}, progress=seen.append, **facts)
    assert seen == [2, 3, 4]
    assert points[0].lipschitz == first[0].lipschitz
    assert points[1].lipschitz < points[0].lipschitz
    assert points[0].error("mean") < 5.0
    assert points[3].failed is not None
    assert all(json.loads(p.read_text())["confidential"] for p in (tmp_path / "f").iterdir())
    assert {oct(p.stat().st_mode)[-3:] for p in (tmp_path / "f").iterdir()} == {"600"}
    assert oct((tmp_path / "f").stat().st_mode)[-3:] == "700"
    monkeypatch.setattr(type(mechanism), "refit", None)  # nothing is fitted again
    again = frontier(mechanism, columns, grid, {"mean": np.mean, "q90": ninetieth}, **facts)
    assert [p.lipschitz for p in again] == [p.lipschitz for p in points]
    with pytest.raises(FileProblem, match="another model"):
        frontier(mechanism, columns, grid, {"mean": np.mean}, **facts)
    with pytest.raises(FileProblem, match="'loose' is of another weighting"):
        frontier(mechanism, columns, {"loose": grid["tight"]}, {"mean": np.mean, "q90": ninetieth}, **facts)
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
