"""The stabilised urn: T8 for its private step, Algorithm 1 for its public one, and what is never released."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from universes import WORDS, line, words

from discreet._core.random import seeded
from discreet.domain import Counts, Records
from discreet.domain.records import Commonness
from discreet.errors import Infeasible, ParameterError
from discreet.mechanisms import StabilisedPitmanYor, StabilityHistogram
from discreet.planner.predicted import released_shares
from discreet.privacy import Budget
from discreet.testing import assert_law, check_law_sums_to_one
from discreet.testing.statistics import RATE, sample_size_for_distance

SMALL = StabilisedPitmanYor(domain=line(2), records=5, scale=0.5, threshold=3)


def test_the_law_of_open_labels_sums_to_one() -> None:
    check_law_sums_to_one(replace(SMALL, domain=WORDS), words({"a": 1, "b": 4}))


# -- the public step -------------------------------------------------------------------------------------------------


def sequence_probability(word: tuple[str, ...], held: dict[str, float], opening: float, sigma: float) -> float:
    """Algorithm 1, draw by draw, from noisy counts and what opens a new value."""
    counts, total, probability = dict(held), opening + sum(held.values()), 1.0
    for i, value in enumerate(word):
        if value in counts:
            probability *= (counts[value] - sigma) / (total + i)
            counts[value] += 1
        else:
            probability *= (opening + sigma * len(counts)) / (total + i)
            counts[value] = 1
    return probability


@pytest.mark.parametrize(
    ("records", "strength", "discount"), [(9, 0.5, 0.25), (4, 2.0, 0.5), (9, 0.0, 0.0), (5, 1.5, 0.0)]
)
def test_records_follow_the_urn_on_noisy_counts_and_the_missing_mass(
    records: int, strength: float, discount: float
) -> None:
    """The law of three draws, by Algorithm 1 with ``n - sum D`` more units of strength: false-fail rate 1e-6 each."""
    held = {"a": 3, "b": 2}
    mechanism = StabilisedPitmanYor(
        domain=WORDS, records=records, scale=1.0, threshold=2, strength=strength, discount=discount
    )
    opening = strength + max(0, records - 5)
    new = ("new_category_1", "new_category_2", "new_category_3")
    law = {w: sequence_probability(w, held, opening, discount) for w in product(("a", "b", *new), repeat=3)}
    # new values come in the order of their names
    law = {w: p for w, p in law.items() if [v for v in dict.fromkeys(w) if v in new] == list(new)[: len({*w} & {*new})]}
    assert sum(law.values()) == pytest.approx(1.0)
    probability = np.array([p for p in law.values() if p > 0])
    place = {w: i for i, w in enumerate(w for w, p in law.items() if p > 0)}
    count = sample_size_for_distance(len(place), 0.1, rate=RATE)
    rng, kept, seen = seeded(8), words(held), np.zeros(len(place), dtype=np.int64)
    for _ in range(count):
        (chunk,) = mechanism.reading(kept, n=mechanism.records).draw(3, rng=rng)
        seen[place[tuple(chunk.columns[0].tolist())]] += 1
    assert_law(seen, probability, distance=0.1, rate=RATE)


def test_the_missing_mass_is_made_of_public_numbers() -> None:
    """The same noisy counts give the same records, whatever the table they came from."""
    mechanism = StabilisedPitmanYor(domain=WORDS, records=1000, scale=2.0, threshold=42)
    kept = words({"a": 300, "b": 100})
    drawn = [Records.concatenate(mechanism.reading(kept, n=1000).draw(5000, rng=seeded(1))) for _ in range(2)]
    assert drawn[0].columns[0].tolist() == drawn[1].columns[0].tolist()
    new = sum(value.startswith("new_category_") for value in drawn[0].columns[0])
    # The share of new values is Beta(601, 400): standard deviation 0.0155; of 5,000 draws 0.0069 more.
    assert abs(new / 5000 - 0.6) < 0.12


@pytest.mark.parametrize(("strength", "discount"), [(0.0, 0.0), (3.0, 0.0), (0.0, 0.75)])
def test_where_all_is_left_out_it_is_a_sample_from_the_prior(strength: float, discount: float) -> None:
    mechanism = StabilisedPitmanYor(
        domain=WORDS, records=10, scale=1.0, threshold=50, strength=strength, discount=discount
    )
    drawn = Records.concatenate(mechanism.reading(words({}), n=mechanism.records).draw(300_000, rng=seeded(4)))
    labels = set(drawn.columns[0].tolist())
    assert len(drawn) == 300_000
    assert labels == {f"new_category_{i}" for i in range(1, len(labels) + 1)}
    assert 10 < len(labels) < 300_000
    ((_, shares),) = mechanism.reading(words({}), n=mechanism.records).column_shares(rng=seeded(1)) or ()
    assert len(shares) == 0


def test_of_another_table_nothing_is_drawn() -> None:
    with pytest.raises(ParameterError, match="must have 5 records"):
        SMALL.kernel(Counts.of_cells([0, 1]), rng=seeded(1))


def test_guarantee_and_calibration_are_those_of_the_stability_histogram() -> None:
    budget = Budget(epsilon=0.5, delta=1e-7)
    made = StabilisedPitmanYor.calibrated(budget, domain=WORDS, n=10_000, group=2, strength=5.0, discount=0.5)
    other = StabilityHistogram.calibrated(budget, domain=WORDS, n=10_000, group=2)
    assert (made.scale, made.threshold) == (other.scale, other.threshold)
    assert made.guarantee(n=10_000) == other.guarantee(n=10_000)
    with pytest.raises(Infeasible):
        StabilisedPitmanYor.calibrated(Budget(epsilon=0.5), domain=WORDS, n=10_000)
    for wrong in ({"prior": 1.0}, {"strength": -0.1}, {"discount": 1.0}, {"strength": math.nan}):
        with pytest.raises(ParameterError):
            StabilisedPitmanYor.calibrated(budget, domain=WORDS, n=10_000, **wrong)


def test_forecast_weights_and_the_stated_share() -> None:
    mechanism = StabilisedPitmanYor(domain=WORDS, records=1000, scale=2.0, threshold=42, strength=10.0)
    support = Records(columns=(np.array(["a", "b", "c"], dtype=object),))
    drawn = [law for (law,) in released_shares(mechanism, support, np.array([0.6, 0.38, 0.02]), n=1000, runs=200)]
    assert {label for law in drawn for label in law[0].tolist()} == {"a", "b"}
    assert 1.0 - np.mean([law[1].sum() for law in drawn]) == pytest.approx(30 / 1010, abs=0.005)
    common = Commonness.of_counts(np.array([600, 380, 20]), cells=None)
    stated = mechanism.forecast(1000, common).lost
    assert stated == pytest.approx((10 + 20 + 2 * 0.5 / math.sinh(0.5)) / 1010, abs=1e-4)
    assert mechanism.forecast(10).lost > 0.999
