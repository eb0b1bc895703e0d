"""What is measured of an evolution: the property, with bounds that cover, and each step, which is public alone."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from scipy.stats import binom

import discreet
from discreet import Budget
from discreet._core.random import seeded
from discreet.domain import Boolean, Category, Domain, Integer, Numeric, Records
from discreet.errors import ParameterError
from discreet.evolution import API, Ball, Box, Resampling, Table, measured_property
from discreet.evolution.measured import EvolvedStep, _lower_mean
from discreet.papers.pe25 import theorem_gamma


@dataclass(frozen=True, slots=True, kw_only=True)
class Stub(API):
    """A line on which variations move towards 0 by a given share with probability 1/2, or misbehave."""

    name: ClassVar[str] = "stub"
    domain: Domain
    share: float
    diameter: float = 1.0
    norm: float = 1.0
    itself_first: bool = True

    def variations_each(self) -> int:
        return 2

    def random(self, count: int, *, rng: np.random.Generator) -> Records:
        return Records(columns=(np.full(count, 0.99),))

    def variation(self, records: Records, *, rng: np.random.Generator, step: int = 0, steps: int = 1) -> Records:
        here = records.columns[0]
        moved = here * (1 - self.share * rng.integers(2, size=len(here)))
        pairs = (here, moved) if self.itself_first else (moved, here)
        return Records(columns=(np.stack(pairs, axis=1).reshape(-1),))

    def embed(self, records: Records) -> Any:
        return records.columns[0][:, None]

    def parameters(self) -> dict[str, Any]:
        return {}


LINE = Domain(columns={"x": Numeric(lower=0, upper=1)})
ORIGIN = Records(columns=(np.zeros(1),))


def test_the_expected_gain_is_found() -> None:
    found = measured_property(Stub(domain=LINE, share=0.6), ORIGIN, rng=seeded(0), pairs=4000, steps=12, alpha=0.01)
    assert found.v == 2
    assert found.alpha == 0.01
    assert [band.up_to for band in found.bands[:3]] == [1.0, 0.5, 0.25]
    assert found.bands[-1].beyond == 0.01
    for band in found.bands:
        assert band.lower < 0.3 < band.lower + 0.1
        assert abs(band.gamma - 0.3) < 5 * 0.3 / math.sqrt(band.pairs)  # a true law fails with probability 1e-6
    assert found.gamma == min(band.lower for band in found.bands)
    assert "Beyond a distance of 0.01 a step brings the nearest candidate at least" in str(found)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_boxes_and_balls_exceed_the_theorem(d: int) -> None:
    domain = Domain(columns={f"x{place}": Numeric(lower=-1, upper=1) for place in range(d)})
    for api in (Box(domain=domain, alpha=0.02), Ball(domain=domain, alpha=0.02)):
        targets = api.random(50, rng=seeded(1))
        found = measured_property(api, targets, rng=seeded(2), pairs=1500, steps=40, alpha=0.02)
        assert len(found.bands) >= 4
        assert found.gamma > theorem_gamma(d)
        assert found.farthest <= api.diameter


def test_without_alpha_the_least_error_is_chosen() -> None:
    domain = Domain(columns={"x": Integer(lower=0, upper=1000), "y": Integer(lower=0, upper=1000)})
    box = Box(domain=domain, alpha=0.05)
    found = measured_property(box, box.random(50, rng=seeded(3)), rng=seeded(4), pairs=1000, steps=60)
    assert 0.001 < found.alpha < 0.05  # between the cells and the finest noise
    assert found.gamma == min(band.lower for band in found.bands if band.beyond >= found.alpha) > 0
    for band in found.bands:
        gamma = min(other.lower for other in found.bands if other.beyond >= band.beyond)
        assert gamma == 0 or found.alpha / found.gamma <= band.beyond / gamma


def test_mixed_tables_and_public_records_have_the_property_too() -> None:
    domain = Domain(
        columns={
            "x": Numeric(lower=0, upper=1, nulls="category"),
            "kind": Category(categories=["a", "b", "c"]),
            "flag": Boolean(),
        }
    )
    table = Table(domain=domain)
    targets = table.random(200, rng=seeded(5))
    for api in (table, Resampling(domain=domain, table=targets)):
        found = measured_property(api, targets, rng=seeded(6), pairs=400)
        assert found.gamma > 0.01
        assert found.alpha < 0.3
        assert found.farthest <= api.diameter + 1e-9


def test_an_api_that_does_not_vary_has_no_property() -> None:
    found = measured_property(Stub(domain=LINE, share=0.0), ORIGIN, rng=seeded(7))
    assert found.gamma == 0
    assert found.alpha == 1.0
    assert "No distance was found" in str(found)


def test_a_misstated_diameter_is_reported() -> None:
    found = measured_property(Stub(domain=LINE, share=0.5, diameter=0.25), ORIGIN, rng=seeded(8))
    assert found.farthest == 0.99
    assert "The stated diameter 0.25 is too small: a distance of 0.99 was met." in str(found)


def test_a_variation_that_does_not_keep_the_record_first_is_refused() -> None:
    with pytest.raises(ParameterError, match="the record itself first"):
        measured_property(Stub(domain=LINE, share=0.5, itself_first=False), ORIGIN, rng=seeded(9))


def test_the_lower_bound_solves_its_equation_and_covers() -> None:
    assert _lower_mean(0.0, 100, 0.01) == 0.0
    assert _lower_mean(1.0, 100, 0.01) == pytest.approx(0.01 ** (1 / 100))
    low = _lower_mean(0.3, 50, 0.001)
    divergence = 0.3 * math.log(0.3 / low) + 0.7 * math.log(0.7 / (1 - low))
    assert 50 * divergence == pytest.approx(math.log(1000))
    # Coverage for the law whose bound is tightest, all or nothing: exactly, by the binomial distribution.
    for p in (0.01, 0.1, 0.5, 0.9):
        misses = sum(binom.pmf(k, 60, p) for k in range(61) if _lower_mean(k / 60, 60, 0.05) > p)
        assert misses <= 0.05
        half = sum(binom.pmf(k, 60, p) for k in range(61) if k / 60 > p)
        assert half > 0.05  # the mean itself, as a bound, would not cover


def test_wrong_numbers_are_refused() -> None:
    stub = Stub(domain=LINE, share=0.5)
    for wrong in ({"pairs": 5}, {"steps": 0}, {"alpha": 0.0}, {"confidence": 1.0}):
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            measured_property(stub, ORIGIN, rng=seeded(0), **wrong)
    with pytest.raises(ParameterError, match="at least one record"):
        measured_property(stub, ORIGIN.take(slice(0)), rng=seeded(0))


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
