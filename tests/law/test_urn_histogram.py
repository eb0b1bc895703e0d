"""T12 against every pair of neighbours of small universes, on domains with and without cells."""

import math
from dataclasses import replace

import numpy as np
import pytest

from discreet._core.random import seeded
from discreet.domain import Category, Counts, Domain, Integer, Numeric, OpenLabels, Records
from discreet.errors import ParameterError
from discreet.mechanisms import PitmanYor, UrnHistogram
from discreet.privacy import Budget
from discreet.testing import (
    brute_force_profile,
    check_guarantee,
    check_kernel_follows_law,
    check_law_sums_to_one,
    check_twin_is_caught,
    enumerate_law,
    hockey_stick,
)

UNIT = Domain(columns={"x": Numeric(lower=0.0, upper=1.0)})
CELLS = Domain(columns={"cell": Integer(lower=0, upper=2)})
EPSILONS = (0.0, 0.05, 0.5, 1.0, 3.0, 30.0)


def values(count: int) -> Records:
    return Records(columns=(np.linspace(0.1, 0.9, count),))


@pytest.mark.parametrize(
    ("theta", "sigma"),
    [
        (0.5, 0.0),
        (2.0, 0.5),
        (-0.25, 0.5),
        *(pytest.param(*other, marks=pytest.mark.exhaustive) for other in ((3.0, 0.0), (0.0, 0.875))),
    ],
)
def test_no_neighbours_exceed_t12_and_discount_0_attains_it(theta: float, sigma: float) -> None:
    for n, m in ((1, 2), (2, 2), (3, 3), (4, 2)):
        mechanism = UrnHistogram(domain=UNIT, size=m, strength=theta, discount=sigma)
        guarantee = mechanism.guarantee(n=n)
        assert guarantee.exact == (sigma == 0)
        brute = brute_force_profile(mechanism, n=n, values=values(n + 1), epsilons=EPSILONS)
        claimed = np.array([guarantee.delta(epsilon) for epsilon in EPSILONS])
        assert np.all(brute <= claimed * (1 + 1e-11) + 1e-14)
        assert sigma or np.all(brute >= claimed * (1 - 1e-9) - 1e-13)
        lower = 1 - math.prod(1 - (1 - sigma) / (theta + n + i) for i in range(m))
        assert np.all(brute >= lower * (1 - 1e-10))


def test_groups_and_finite_domains() -> None:
    for sigma in (0.0, 0.5):
        mechanism = UrnHistogram(domain=CELLS, size=2, strength=1.5, discount=sigma)
        for n, group in ((1, 1), (2, 1), (3, 2), (3, 3), (2, 5)):
            check_guarantee(mechanism, n=n, group=group, epsilons=EPSILONS)
    alone = UrnHistogram(domain=Domain(columns={"c": Category(categories=["a"])}), size=5)
    assert alone.guarantee(n=3).delta(0.0) == 0.0


def test_no_pair_reveals_more_than_the_whole_release_does() -> None:
    """For one pair of neighbours the filter is post-processing, as T12 proves; strictly less where new values tell."""
    strictly = False
    for frequencies, other in (((2, 1), (1, 1, 1)), ((1, 2), (0, 3)), ((3, 0), (2, 1)), ((1, 1, 1), (1, 2, 0))):
        x, y = (Counts.of_cells(np.repeat(np.arange(len(f)) / 8, f)) for f in (frequencies, other))
        for theta, sigma in ((1.0, 0.0), (1.0, 0.5), (0.25, 0.75)):
            kept = UrnHistogram(domain=UNIT, size=3, strength=theta, discount=sigma)
            whole = PitmanYor(domain=UNIT, size=3, strength=theta, discount=sigma)
            for pair in ((x, y), (y, x)):
                laws = (enumerate_law(mechanism, *pair).log_mass for mechanism in (kept, whole))
                less, more = (hockey_stick(law[0], law[1], EPSILONS) for law in laws)
                assert np.all(less <= more * (1 + 1e-11) + 1e-15)
                strictly |= bool(np.any(less < more * 0.99))
    assert strictly


def test_the_law_sums_to_one_and_the_kernel_follows_it() -> None:
    tables = [Counts.of_cells([0.5]), Counts.of_cells([0.5, 0.5, 0.75]), Counts.of_cells([0.1, 0.2, 0.3])]
    for theta, sigma in ((1.0, 0.0), (2.0, 0.5), (-0.25, 0.5)):
        mechanism = UrnHistogram(domain=UNIT, size=3, strength=theta, discount=sigma)
        check_law_sums_to_one(mechanism, *tables)
        if theta > 0:
            off = [replace(mechanism, strength=theta * f) for f in (0.8, 1.25)]
            check_kernel_follows_law(mechanism, tables[1], alternatives=off)
    labels = Domain(columns={"l": OpenLabels()})
    held = Counts(records=Records(columns=(np.array(["a", "b"], dtype=object),)), frequencies=np.array([2, 1]))
    check_law_sums_to_one(UrnHistogram(domain=labels, size=2, strength=1.0, discount=0.25), held)


def test_broken_twins_are_caught() -> None:
    mechanism = UrnHistogram(domain=UNIT, size=3, strength=1.0)
    check_twin_is_caught(mechanism, replace(mechanism, size=4), n=3, values=values(4))
    check_twin_is_caught(mechanism, replace(mechanism, strength=0.9), n=3, values=values(4))


def test_the_number_released_has_its_expectation() -> None:
    """By the law's own enumeration, and, within six standard errors (one false alarm in 5e8), by the kernel."""
    x = Counts.of_cells([0.5, 0.5, 0.75])
    for theta, sigma in ((1.0, 0.0), (2.0, 0.5)):
        mechanism = UrnHistogram(domain=UNIT, size=4, strength=theta, discount=sigma)
        law = enumerate_law(mechanism, x)
        released = np.array([sum(counts) + sum(fresh) for counts, fresh in law.outcomes])  # type: ignore[misc]
        expected = mechanism.expected_size(3, distinct=2)
        assert released @ law.mass[0] == pytest.approx(expected, rel=1e-12)
        assert expected <= mechanism.expected_size(3)
        rng = seeded(3)
        drawn = [sum(map(len, mechanism.kernel(x, rng=rng))) for _ in range(4000)]
        assert abs(np.mean(drawn) - expected) < 6 * np.std(drawn) / math.sqrt(4000)


def test_many_draws_come_in_chunks_of_held_values() -> None:
    x = Counts.of_cells(np.repeat(np.arange(50) / 50, np.arange(1, 51)))
    mechanism = UrnHistogram(domain=UNIT, size=300_000, strength=500.0, discount=0.5)
    chunks = list(mechanism.reading(mechanism.kernel(x, rng=seeded(1)), n=x.n).draw(300_000, rng=seeded(2)))
    released = Records.concatenate(chunks).columns[0]
    assert len(chunks) == 3
    assert set(released.tolist()) <= set(x.records.columns[0].tolist())
    assert 0 < len(released) < 300_000


def test_calibration() -> None:
    budget = Budget(epsilon=1.0, delta=0.01)
    made = UrnHistogram.calibrated(budget, domain=UNIT, n=1000, strength=2.0)
    assert made.size == 10
    assert made.guarantee(n=1000).meets(budget)
    assert not replace(made, size=11).guarantee(n=1000).meets(budget)
    at_size = UrnHistogram.calibrated(budget, domain=UNIT, n=1000, size=50, discount=0.25)
    assert at_size.discount == 0.25
    assert 3948 < at_size.strength < 3952
    with pytest.raises(ParameterError, match="sampler"):
        UrnHistogram.calibrated(budget, domain=UNIT, n=10, sampler="mixing")
    assert made.forecast(10).lost == 0.0
