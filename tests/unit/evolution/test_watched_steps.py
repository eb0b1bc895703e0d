"""What is shown of each step of an evolution: its numbers against closed forms, and that it is public alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest

import discreet
from discreet import Budget
from discreet.domain import Domain, Numeric, Records
from discreet.errors import ParameterError
from discreet.evolution import Box
from discreet.evolution.measured import EvolvedStep

SQUARE = Domain(columns={"x": Numeric(lower=0.0, upper=1.0), "y": Numeric(lower=0.0, upper=1.0)})


def step(points: npt.NDArray[np.float64], shares: npt.ArrayLike) -> EvolvedStep:
    return EvolvedStep(
        number=2,
        of=4,
        candidates=pl.DataFrame(points, schema=["x", "y"]),
        votes=np.arange(len(points)),
        shares=np.asarray(shares),
        _encoded=Records(columns=tuple(points.T.copy())),
        _api=Box(domain=SQUARE),
    )


def test_precision_and_recall_by_hand() -> None:
    """A row of the table at 0, 0.1, 0.2, 0.3; half of the probability there, half far away."""
    near = np.array([[0.06, 0.0], [0.1, 0.0], [0.16, 0.0]])
    far = np.array([[1.0, 1.0], [0.9, 1.0], [0.8, 1.0]])
    made = step(np.concatenate((near, far, [[0.0, 1.0]])), [1 / 6] * 6 + [0.0])
    table = pl.DataFrame({"x": [0.0, 0.1, 0.2, 0.3], "y": [0.0] * 4})
    found = made.closeness(table, neighbours=1)
    assert found.precision == pytest.approx(0.5)
    # Candidates reach to their nearest other one, 0.04, 0.04 and 0.06 away: to 0.1 and 0.2, not to 0 and 0.3.
    assert found.recall == pytest.approx(0.5)
    assert found.frechet > 0.1
    with pytest.raises(ParameterError, match="more rows than neighbours=4"):
        made.closeness(table, neighbours=4)
    with pytest.raises(ParameterError, match="'y'"):
        made.closeness(table.drop("y"))


def test_records_follow_the_shares() -> None:
    made = step(np.array([[0.0, 0.0], [1.0, 1.0], [0.5, 0.5]]), [0.2, 0.8, 0.0])
    drawn = made.records(5000)["x"].to_numpy()
    assert set(drawn) == {0.0, 1.0}
    assert abs((drawn == 1.0).mean() - 0.8) < 0.04  # seven standard deviations
    assert str(made) == "step 2 of 4: 3 candidates, 3 noisy votes, half of the probability on 1"


def test_a_release_shows_its_steps_and_they_come_nearer() -> None:
    rng = np.random.default_rng(1)
    held, public = (pl.DataFrame(rng.beta(2, 8, (count, 2)), schema=["x", "y"]) for count in (8000, 500))
    shown: list[Any] = []
    facts: dict[str, Any] = {"mechanism": "private-evolution", "api": "box", "steps": 3, "population": 60, "seed": 2}
    watch = discreet.Watch(evolved=shown.append)
    discreet.release(
        held, SQUARE, Budget(epsilon=2.0, delta=1e-6), size=100, watch=watch, accept={"poor-utility"}, **facts
    )
    assert [one.number for one in shown] == [1, 2, 3]
    assert all(one.candidates.columns == ["x", "y"] for one in shown)
    assert all(len(one.votes) == one.candidates.height == len(one.shares) for one in shown)
    distances = [one.closeness(public).frechet for one in shown]
    assert distances[-1] < 0.5 * distances[0]
    assert shown[-1].closeness(public).precision > 0.8
