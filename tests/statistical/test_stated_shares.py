"""What guarantees say in words, measured: verbatim records (caveat T3), and the share that is not from the data.

Each is the mean of N independent shares in [0, 1]; by Hoeffding it is further than the allowance from its expectation
with probability at most 1e-6, so a right kernel fails, and one off by twice the allowance passes, that rarely.
"""

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from discreet._core.random import seeded
from discreet.domain import Counts, Domain, Integer, Numeric, Records
from discreet.domain.records import Commonness
from discreet.mechanisms import REGISTRY, DirichletMultinomial, PitmanYor, SmoothedHistogram
from discreet.mechanisms.noisy_counts import NoisyCounts
from discreet.privacy import Budget, Code
from discreet.testing.enumeration import enumerate_law, table_of
from discreet.wording import LOST_TO

UNIT = Domain(columns={"x": Numeric(lower=0.0, upper=1.0)})
FIVE = Domain(columns={"cell": Integer(lower=0, upper=4)})
RELEASES = 4000
ALLOWED = math.sqrt(math.log(2 / 1e-6) / (2 * RELEASES))


def drawn_from(mechanism: Any, x: Counts) -> dict[Any, float]:
    """Return the law of the first record, which is that of each."""
    law = enumerate_law(replace(mechanism, size=1), x)
    return dict(zip(law.outcomes, law.mass[0].tolist(), strict=True))


@pytest.mark.parametrize(("theta", "sigma"), [(1.0, 0.0), (10.0, 0.0), (2.0, 0.4), (-0.3, 0.6)])
def test_verbatim_records_come_as_often_as_caveat_t3_says(theta: float, sigma: float) -> None:
    x = Counts.of_cells([0.1, 0.1, 0.1, 0.2, 0.2, 0.3])  # type: ignore[list-item]
    n, j = 6, 3
    mechanism = PitmanYor(domain=UNIT, size=15, strength=theta, discount=sigma)
    expected = (n - j * sigma) / (theta + n)
    assert sum(p for (_, new), p in drawn_from(mechanism, x).items() if not new) == pytest.approx(expected, rel=1e-5)
    stated = (n - sigma) / (theta + n)
    assert expected <= stated + 1e-12
    (said,) = re.findall(
        r"Each is one with probability (?:at most )?([0-9.]*[0-9])",
        " ".join(map(str, mechanism.guarantee(n=n).caveats)),
    )
    assert float(said) == pytest.approx(stated, rel=1e-5)
    assert 1 - expected <= mechanism.forecast(n).lost_at_most + 1e-12


@pytest.mark.parametrize("kind", [DirichletMultinomial, SmoothedHistogram])
@pytest.mark.parametrize("size", [1, 40])
def test_the_prior_and_the_uniform_part_take_their_share(kind: Any, size: int) -> None:
    """Of what is not from the data, a fifth falls in the held cell all the same."""
    given = {"prior": 1.5} if kind is DirichletMultinomial else {"mixing": 0.3}
    mechanism = kind(domain=FIVE, size=size, **given)
    held = drawn_from(mechanism, Counts.of_cells([2] * 12))[0, 0, 1, 0, 0]
    assert 1 - held == pytest.approx(0.8 * mechanism.forecast(12).lost, rel=1e-5)
    assert kind is DirichletMultinomial or mechanism.forecast(12).lost == pytest.approx(0.3, abs=1e-9)


@pytest.mark.parametrize("sampler", ["ancestor", "mixing"])
def test_new_values_are_opened_as_often_as_the_urn_says(sampler: Any) -> None:
    """Expected number of new distinct values: the sum of opening probabilities, by its recursion in the mean."""
    theta, sigma, m = 3.0, 0.5, 30
    x = Counts.of_cells([0.1, 0.1, 0.2])  # type: ignore[list-item]
    expected_new = 0.0
    for i in range(m):
        expected_new += (theta + sigma * (2 + expected_new)) / (theta + 3 + i)
    mechanism = PitmanYor(domain=UNIT, size=m, strength=theta, discount=sigma, sampler=sampler)
    rng = seeded(24)
    new = [
        len(set(Records.concatenate(mechanism.kernel(x, rng=rng)).columns[0].tolist()) - {0.1, 0.2}) / m
        for _ in range(RELEASES)
    ]
    assert abs(float(np.mean(new)) - expected_new / m) < ALLOWED


# --- every mechanism: what is stated beforehand, beside what kernels do ---------------------------------------------

TABLES = {"one cell": [60, 0, 0, 0, 0], "uneven": [30, 20, 7, 2, 1]}
MADE: dict[str, Any] = {
    "dirichlet-process": {"size": 20, "strength": 6.0},
    "pitman-yor": {"size": 20, "strength": 2.0, "discount": 0.5},
    "dirichlet-multinomial": {"size": 20, "prior": 3.0},
    "smoothed-histogram": {"size": 20, "mixing": 0.3},
    "reveal-or-obscure": {"size": 20, "mixing": 0.2},
    "data-specific-reveal-or-obscure": {"size": 20, "draw_epsilon": 0.1},
    "subsampled-randomised-response": {"size": 20, "mixing": 0.3},
    "perturbed-histogram": {"records": 60, "scale": 4.0, "projection": "simplex"},
    "hierarchical-histogram": {"records": 60, "scale": 4.0, "noise": "laplace"},
    "signed-measure": {"records": 60, "scale": 4.0, "noise": "laplace"},
    "gaussian-smoothed-histogram": {"records": 60, "scale": 4.0, "mixing": 0.1},
    "laplace-projection-sampler": {"records": 60, "scale": 4.0},
    "exponential-histogram": {"size": 20, "pure_epsilon": 1.0},
    "stability-histogram": {"scale": 2.0, "threshold": 8},
    "stabilised-pitman-yor": {"records": 60, "scale": 2.0, "threshold": 8},
    "urn-histogram": {"size": 20, "strength": 6.0},
    "marginals": {"records": 60, "scale": 9.0, "units": 4},
    "private-evolution": {"records": 60, "scale": 4.0, "steps": 1, "population": 25},
}
"""Parameters at which shares are simulated; of a mechanism that is not named, those of a budget."""

RUNS = 400
NEAR = math.sqrt(math.log(2 / 1e-6) / (2 * RUNS))  # 0.135: Hoeffding, for means of shares in [0, 1]


def made(name: str) -> Any:
    if name in MADE:
        return REGISTRY[name](domain=FIVE, **MADE[name])
    return REGISTRY[name].calibrated(Budget(epsilon=0.5, delta=1e-3), domain=FIVE, n=60, size=20)


def laws(mechanism: Any, x: Counts, seed: int) -> Any:
    """Return the shares of the cells in one run: of the law that records are drawn with where the output gives it."""
    rng = seeded(seed)
    y = mechanism.kernel(x, rng=rng)
    if isinstance(mechanism, NoisyCounts) and mechanism.name != "hierarchical-histogram":
        return mechanism.probabilities(y)
    drawn = Records.concatenate(mechanism.reading(y, n=x.n).draw(getattr(mechanism, "size", 500), rng=rng)).columns[0]
    return np.bincount(drawn.astype(np.int64), minlength=5) / max(1, len(drawn))


@pytest.mark.parametrize("name", sorted(REGISTRY))
@pytest.mark.parametrize("kind", sorted(TABLES))
def test_what_is_stated_is_what_kernels_do(name: str, kind: str) -> None:
    """Shares are told by the cells a release puts records in: of those from elsewhere, a known part falls in each.

    Expectations and worst cases are held to the mean over runs; a prediction is held to its worst case on every table.
    A mean law is at total variation at most the share that is not from the data from the table's, and for mixtures and
    urns exactly that share times the distance of the uniform law.
    """
    counts = np.array(TABLES[kind])
    shares = counts / counts.sum()
    mechanism = made(name)
    n = int(counts.sum())
    runs = np.array([laws(mechanism, table_of(counts), seed) for seed in range(RUNS)])
    forecast = mechanism.forecast(n)
    most = forecast.lost_at_most
    assert 0.0 <= forecast.lost <= most + 1e-12 <= 1.0 + 1e-12
    apart = 0.5 * float(np.abs(runs.mean(axis=0) - shares).sum())
    assert apart <= most + NEAR
    if forecast.lost_is == "expectation" and name != "urn-histogram":
        stated = forecast.lost * 0.5 * float(np.abs(0.2 - shares).sum())
        assert abs(apart - stated) < NEAR / 2
    if forecast.lost_is == "bound":  # on each run's law, not on their mean
        assert 0.5 * float(np.abs(runs - shares).sum(axis=1).mean()) <= most + NEAR / 4


def test_every_mechanism_states_what_its_share_is() -> None:
    for name in REGISTRY:
        forecast = made(name).forecast(12)
        assert forecast.lost_is in {"expectation", "bound", "prediction"}
        assert forecast.lost_to in LOST_TO
        assert forecast.remedies


@pytest.mark.parametrize(("theta", "sigma"), [(1.0, 0.0), (1.0, 0.4), (-0.2, 0.5), (2.0**30, 0.5), (5.0, 0.9)])
def test_the_expected_share_of_an_urn_is_that_of_tables_of_its_own_process(theta: float, sigma: float) -> None:
    n = 40
    mechanism = PitmanYor(domain=UNIT, size=1, strength=theta, discount=sigma)
    probability = {1: 1.0}  # of each number of distinct values, by recursion over the records
    for i in range(1, n):
        after: dict[int, float] = {}
        for k, p in probability.items():
            new = (theta + sigma * k) / (theta + i)
            after[k + 1] = after.get(k + 1, 0.0) + p * new
            after[k] = after.get(k, 0.0) + p * (1.0 - new)
        probability = after
    expected = sum(p * (theta + sigma * k) / (theta + n) for k, p in probability.items())
    assert mechanism.forecast(n).lost == pytest.approx(expected, rel=1e-5)
    assert mechanism.forecast(n).lost_at_most == pytest.approx((theta + sigma * n) / (theta + n), rel=1e-5)


@pytest.mark.parametrize("name", ["stability-histogram", "stabilised-pitman-yor"])
@pytest.mark.parametrize("counts", [[400, 30, 20, 8, 2], [12, 11, 10, 9, 8], [3] * 20])
def test_what_is_left_out_is_predicted_for_tables_like_the_one_given(name: str, counts: list[int]) -> None:
    """The mean of what is kept of the records, over 400 runs: within 0.03, or the noise that counts near it have."""
    n, labels = sum(counts), len(counts)
    domain = Domain(columns={"cell": Integer(lower=0, upper=labels - 1)})
    parameters = {"records": n} if name.startswith("stabilised") else {}
    mechanism = REGISTRY[name](domain=domain, scale=2.0, threshold=10, **parameters)
    like = Commonness.of_counts(np.array(counts), cells=labels)
    x = Counts(records=Records(columns=(np.arange(labels),)), frequencies=np.array(counts))
    kept = []
    for seed in range(400):
        held = mechanism.kernel(x, rng=seeded(seed)).records.columns[0].astype(np.int64)
        kept.append(sum(counts[i] for i in held.tolist()) / n)
    noise = 0.5 * 2.0 / min(10, max(counts))
    lost = mechanism.forecast(n, like).lost
    assert 1.0 - float(np.mean(kept)) - 0.03 <= lost <= 1.0 - float(np.mean(kept)) + noise + 0.03


def test_the_outcome_says_what_came_out() -> None:
    nothing = REGISTRY["stability-histogram"](domain=FIVE, scale=2.0, threshold=500)
    outcome = nothing.reading(nothing.kernel(table_of(np.array([60, 0, 0, 0, 0])), rng=seeded(1)), n=60).outcome()
    assert outcome.share_from_data == 0.0
    assert outcome.codes == (Code("no-label-kept"),)
    most = REGISTRY["stability-histogram"](domain=FIVE, scale=2.0, threshold=30)
    outcome = most.reading(most.kernel(table_of(np.array([6000, 2, 2, 2, 2])), rng=seeded(1)), n=6008).outcome()
    assert outcome.share_from_data == pytest.approx(6000 / 6008, abs=0.01)
    assert str(outcome.codes[0]).startswith("1 label was kept")
    evolved = REGISTRY["private-evolution"](
        domain=FIVE, records=60, scale=2.0, noise="laplace", threshold=500, steps=1, population=50
    )
    outcome = evolved.reading(evolved.kernel(table_of(np.array([60, 0, 0, 0, 0])), rng=seeded(1)), n=60).outcome()
    assert outcome.share_from_data == 0.0
