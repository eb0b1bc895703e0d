"""Risk-utility frontiers: what their bounds rest on, interrupted, killed; and their pictures."""

import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet._core.random import seeded
from discreet.errors import FileProblem, ParameterError
from discreet.pseudo_posterior import (
    Convergence,
    LinearWeights,
    MappedWeights,
    PoissonMean,
    PseudoPosterior,
    Truncated,
    Unweighted,
    frontier,
    frontier_page,
    reciprocal,
    violins,
    weight_picture,
)
from discreet.pseudo_posterior.risk_frontier import FrontierPoint
from discreet.pseudo_posterior.sampler import PosteriorDraws, Sampler
from discreet.pseudo_posterior.weights import Risks, Weighting

pytestmark = pytest.mark.chains

VISITS = seeded(1).poisson(100.0, size=200)
GRID: dict[str, Weighting] = {
    "loose": LinearWeights(),
    "mapped": MappedWeights(function=reciprocal),
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


def test_the_bound_of_most_draws_stands_beside_the_largest(tmp_path: Path) -> None:
    """Two runs of one seed, 100 and 8,000 draws of each chain: the largest grows, the quantile stays in its limits."""
    few, many = (
        frontier(
            PseudoPosterior(PoissonMean(column="visits"), tables=3, draws=draws), {"visits": VISITS},
            {"unweighted": Unweighted()}, {}, column="visits", folder=tmp_path / str(draws), seed=7,
        )[0] for draws in (100, 8000)
    )  # fmt: skip
    assert many.effective == 32_000
    assert many.lipschitz > few.lipschitz
    for point in (few, many):
        quantile, low, high = point.quantile
        assert low <= quantile <= high <= point.lipschitz * (1.0 + 1e-6)
    low, high = few.quantile[1:]
    assert low < many.quantile[0] < high  # at 95 %, of this seed
    assert high - low > 4.0 * (many.quantile[2] - many.quantile[1])


def test_fewer_than_400_draws_are_refused_and_the_remedy_is_true(tmp_path: Path) -> None:
    options: dict[str, Any] = {"column": "visits", "seed": 7}
    table, grid = {"visits": VISITS}, {"loose": LinearWeights()}
    mechanism = PseudoPosterior(PoissonMean(column="visits"), draws=99)
    with pytest.raises(ParameterError, match="draws times chains must be .* at least 400"):
        frontier(mechanism, table, grid, STATISTICS, folder=tmp_path / "few", **options)
    (point,) = frontier(replace(mechanism, draws=100), table, grid, STATISTICS, folder=tmp_path / "f", **options)
    assert point.failed is None


def test_a_point_of_chains_that_mix_badly_has_no_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where the limits of the mechanism would take them: 1,000 draws that are worth about 100."""
    whole, noise = Sampler.draw, seeded(5).normal(size=(4, 250))
    for i in range(1, 250):
        noise[:, i] += 0.8 * noise[:, i - 1]

    def slow(sampler: Sampler, weights: Any, **options: Any) -> PosteriorDraws:
        draws = whole(sampler, weights, **options)
        return draws if (weights == 1.0).all() else replace(draws, exact=False, watched={"mean": noise})

    monkeypatch.setattr(Sampler, "draw", slow)
    loose = Convergence(r_hat=math.inf, effective=-math.inf, divergent=1.0, doublings=0)
    mechanism = PseudoPosterior(PoissonMean(column="visits"), tables=3, draws=250, convergence=loose)
    (point,) = frontier(mechanism, {"visits": VISITS}, {"loose": LinearWeights()}, STATISTICS, column="visits",
                        folder=tmp_path / "f", seed=7)  # fmt: skip
    assert "the effective sample size" in str(point.failed)
    assert (point.quantile, point.lipschitz) == ((), 0.0)


def test_limits_by_effective_draws_are_those_of_the_chain() -> None:
    """An autoregressive chain of correlation .9 is worth a nineteenth: limits are wider than of independent draws."""
    noise, chain = seeded(3).normal(size=(4, 2000)), np.zeros((4, 2000))
    for i in range(1, 2000):
        chain[:, i] = 0.9 * chain[:, i - 1] + math.sqrt(1 - 0.81) * noise[:, i]
    slow, fast = (Risks(least=np.zeros(1), largest=np.zeros(1), by_draw=x.ravel()).quantile(4) for x in (chain, noise))
    for quantile, low, high in (slow, fast):
        assert low < 1.645 < high
        assert low < quantile < high
    assert 2.0 < (slow[2] - slow[1]) / (fast[2] - fast[1]) < 5.0


def test_a_call_that_is_interrupted_leaves_what_is_done(tmp_path: Path, alone: list[FrontierPoint]) -> None:
    def stop(done: int) -> None:
        if done == 2:
            raise Stop

    with pytest.raises(Stop):
        run_frontier(tmp_path / "f", progress=stop)
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
