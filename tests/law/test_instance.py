"""T11 against every neighbour of every small table, by listing all releases of the mechanisms themselves."""

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest
from scipy.special import gammaln
from scipy.stats import betabinom

from discreet.domain import Category, Counts, Domain, Integer, Numeric, Records
from discreet.errors import BudgetError, ParameterError
from discreet.mechanisms import DirichletMultinomial, Mechanism, PitmanYor, UrnHistogram
from discreet.mechanisms.likelihood import compositions
from discreet.privacy.instance import HeldTable, instance_readings
from discreet.privacy.pitman_yor import OpeningPair, singular
from discreet.testing import enumerate_law, hockey_stick
from discreet.testing.enumeration import partitions

UNIT = Domain(columns={"x": Numeric(lower=0.0, upper=1.0)})
CELLS = Domain(columns={"cell": Integer(lower=0, upper=2)})
UNEVEN = Domain(columns={"c": Category(categories=["a", "b", "c"], base={"weights": [1, 2, 5]})})
LEVELS = (0.03, 0.4, 1.1)


def table(values: Records, row: npt.NDArray[np.int64]) -> Counts:
    return Counts(records=values.take(np.flatnonzero(row)), frequencies=row[row > 0].astype(np.int64))


def brute(mechanism: Mechanism, values: Records, row: npt.NDArray[np.int64], epsilon: float) -> dict[str, list[float]]:
    """Both deltas in both directions, over all tables that differ in one record."""
    x = table(values, row)
    found: dict[str, list[float]] = {"tight": [0.0, 0.0], "event": [0.0, 0.0]}
    for other in compositions(int(row.sum()), len(row)):
        if np.abs(other - row).sum() != 2:
            continue
        p, q = enumerate_law(mechanism, x, table(values, other)).log_mass
        for i, (a, b) in enumerate(((p, q), (q, p))):
            found["tight"][i] = max(found["tight"][i], float(hockey_stick(a, b, [epsilon])[0]))
            with np.errstate(invalid="ignore"):
                exceeds = np.exp(a)[(a > -np.inf) & (a - b > epsilon)].sum()
            found["event"][i] = max(found["event"][i], float(exceeds))
    return found


def check(mechanism: Mechanism, values: Records, row: npt.NDArray[np.int64], epsilon: float) -> None:
    readings = instance_readings(mechanism.held_table(table(values, row)), epsilon)
    for name, (this, other) in brute(mechanism, values, row, epsilon).items():
        for side, true in (("one-sided", this), ("two-sided", max(this, other))):
            reading = readings[side][name]
            assert true <= reading.delta * (1 + 1e-11) + 1e-13, (row, epsilon, side, name)
            assert reading.exact
            assert reading.delta == pytest.approx(true, rel=1e-9, abs=1e-13), (row, epsilon, side, name)


def universes(most: int) -> Iterator[tuple[Records, npt.NDArray[np.int64]]]:
    for n in range(1, most + 1):
        for parts in partitions(n):
            values = Records(columns=(np.linspace(0.1, 0.9, len(parts) + 1),))
            yield values, np.array((*parts, 0))


@pytest.mark.parametrize(("theta", "sigma"), [(1.0, 0.0), (0.375, 0.0), (2.0, 0.5), (-0.25, 0.5), (0.0, 0.875)])
def test_every_small_table_of_the_urns(theta: float, sigma: float) -> None:
    for kind in (PitmanYor, UrnHistogram):
        for values, row in universes(3):
            for m in (1, 3):
                mechanism = kind(domain=UNIT, size=m, strength=theta, discount=sigma)
                for epsilon in LEVELS:
                    check(mechanism, values, row, epsilon)


def test_a_larger_table_with_equal_and_unequal_frequencies() -> None:
    for row in ((1, 1, 3, 0), (2, 2, 0), (2, 3, 0), (1, 2, 4, 0), (5, 0), (1, 5, 0)):
        values = Records(columns=(np.linspace(0.1, 0.9, len(row)),))
        for kind in (PitmanYor, UrnHistogram):
            check(kind(domain=UNIT, size=5, strength=1.5, discount=0.25), values, np.array(row), 0.3)


def test_every_small_table_of_the_dirichlet_multinomial() -> None:
    for domain in (CELLS, UNEVEN):
        values = domain.unflat(np.arange(3))
        for n in (1, 2, 4):
            for row in compositions(n, 3):
                for prior in (0.25, 1.5):
                    mechanism = DirichletMultinomial(domain=domain, size=3, prior=prior)
                    check(mechanism, values, row, 0.3)
    two = Domain(columns={"cell": Integer(lower=0, upper=1)})
    for row in compositions(3, 2):
        check(DirichletMultinomial(domain=two, size=4, prior=0.5), two.unflat(np.arange(2)), row, 0.3)


def test_a_domain_whose_values_are_all_held() -> None:
    values = CELLS.unflat(np.arange(3))
    for row in ((1, 1, 2), (1, 1, 1), (2, 2, 0)):
        check(UrnHistogram(domain=CELLS, size=3, strength=1.0, discount=0.5), values, np.array(row), 0.3)
        check(PitmanYor(domain=CELLS, size=3, strength=1.0), values, np.array(row), 0.3)
        check(PitmanYor(domain=UNEVEN, size=3, strength=1.0), values, np.array(row), 0.3)


def test_broken_masses_are_caught() -> None:
    """A table whose rarest value is taken to be held once more than it is understates what is revealed."""
    values = Records(columns=(np.array([0.1, 0.5, 0.9]),))
    mechanism = PitmanYor(domain=UNIT, size=3, strength=1.0, discount=0.5)
    true = brute(mechanism, values, np.array([2, 3, 0]), 0.4)["tight"][0]
    wrong = HeldTable.pitman_yor(np.array([3, 3]), size=3, strength=0.0, discount=0.5)
    assert instance_readings(wrong, 0.4)["one-sided"]["tight"].delta < true * (1 - 1e-3)


def test_dropping_the_symmetric_reading_is_caught() -> None:
    """What the release has the law of is this table, or its neighbour: the first alone understates the second."""
    cells = DirichletMultinomial(domain=UNEVEN, size=3, prior=0.25)
    cases: list[tuple[Mechanism, Records, tuple[int, ...], str]] = [
        (cells, UNEVEN.unflat(np.arange(3)), (0, 1, 3), name) for name in ("tight", "event")
    ]
    for kind in (PitmanYor, UrnHistogram):
        urn = kind(domain=UNIT, size=3, strength=1.0, discount=0.5)
        for held, name in (((4, 0), "tight"), ((2, 2, 0), "event")):
            cases.append((urn, Records(columns=(np.linspace(0.1, 0.9, len(held)),)), held, name))
    for mechanism, where, held, name in cases:
        row = np.array(held)
        _, other = brute(mechanism, where, row, 0.4)[name]
        readings = instance_readings(mechanism.held_table(table(where, row)), 0.4)
        assert readings["one-sided"][name].delta < other * (1 - 1e-3), (mechanism.name, name)
        assert readings["two-sided"][name].delta >= other * (1 - 1e-11), (mechanism.name, name)


def test_without_a_discount_corollary_1_and_its_tight_form() -> None:
    """The largest tail over all frequencies, and the mean excess at the least one: 4,000 distinct frequencies."""
    frequencies = np.arange(2, 4002)
    n, theta, m = int(frequencies.sum()), 3.0, 40_000
    for epsilon in (0.5, 1.0):
        readings = instance_readings(HeldTable.pitman_yor(frequencies, size=m, strength=theta), epsilon)["one-sided"]
        tails = betabinom.sf(
            np.floor(math.expm1(epsilon) * (frequencies[:400] - 1)), m, frequencies[:400], theta + n - frequencies[:400]
        )
        assert readings["event"].delta == pytest.approx(tails.max(), rel=1e-6)
        s = np.arange(200)
        mean = betabinom.pmf(s, m, 2, theta + n - 2) @ np.maximum(0, 1 - math.exp(epsilon) / (1 + s))
        assert readings["tight"].delta == pytest.approx(mean, rel=1e-6)
        assert readings["tight"].exact
        assert readings["event"].exact


def test_the_tight_delta_is_ordered_and_below_the_event() -> None:
    frequencies = np.array([2, 2, 3, 7, 40, 300])
    before = 1.0
    for epsilon in (0.1, 0.5, 1.0, 2.0):
        readings = instance_readings(HeldTable.pitman_yor(frequencies, size=100, strength=2.0, discount=0.5), epsilon)
        for side in readings.values():
            assert side["tight"].delta <= side["event"].delta
        assert readings["one-sided"]["tight"].delta <= readings["two-sided"]["tight"].delta
        assert readings["one-sided"]["tight"].delta <= before
        before = readings["one-sided"]["tight"].delta
        bound = singular(100, 1.0, 2.0 + frequencies.sum())
        assert readings["two-sided"]["tight"].delta <= bound
        filtered = instance_readings(
            HeldTable.pitman_yor(frequencies, size=100, strength=2.0, discount=0.5, filtered=True), epsilon
        )
        for side, deltas in filtered.items():  # to drop new values reveals no more
            assert deltas["tight"].delta <= readings[side]["tight"].delta * (1 + 1e-9)


def test_openings_beyond_what_is_followed_are_bounded() -> None:
    long = OpeningPair(size=300_000, a=1.5, phi=20.0, others=9e5, discount=0.5)
    for divergence in (long.forward(0.5), long.backward(0.5)):
        assert not divergence.exact
        assert divergence.hockey_stick <= divergence.event
    short = OpeningPair(size=3_000, a=1.5, phi=20.0, others=9e3, discount=0.5)
    followed, scaled = short.forward(0.5), long.forward(0.5)
    assert followed.exact
    assert followed.hockey_stick <= scaled.hockey_stick * 1.02  # the same shares: 300 draws a thousand of mass


def test_the_openings_follow_their_law() -> None:
    """The chain of openings against the exact law of the number of new values of a Pitman-Yor urn, by its recursion."""
    pair = OpeningPair(size=30, a=0.5, phi=1.5, others=4.0, discount=0.5)
    rows = {count: (h, chance) for count, h, chance in pair._rows(1.5, 4.0, np.arange(31))}
    law = {0: 1.0}
    for i in range(30):
        after: dict[int, float] = {}
        for k, p in law.items():
            opens = (1.5 + 0.5 * k) / (5.5 + i)
            after[k + 1] = after.get(k + 1, 0.0) + p * opens
            after[k] = after.get(k, 0.0) + p * (1 - opens)
        law = after
        h, chance = rows[i + 1]
        np.testing.assert_allclose(chance, [law[k] for k in sorted(law)][: len(chance)], rtol=1e-12)
    total = OpeningPair(size=30, a=0.5, phi=1.5, others=4.0, discount=0.5, filtered=True)
    for _, h, chance in total._rows(1.5, 4.0, np.array([30])):
        assert chance.sum() == pytest.approx(1.0)
        assert h[3] == pytest.approx(math.exp(gammaln(5.0) - gammaln(2.0) - gammaln(4.5) + gammaln(1.5)))


def test_refusals() -> None:
    held = HeldTable.pitman_yor(np.array([1, 2]), size=2, strength=1.0)
    for epsilon in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(BudgetError):
            instance_readings(held, epsilon)
    with pytest.raises(ParameterError):
        HeldTable.pitman_yor(np.array([], dtype=np.int64), size=2, strength=1.0)
    alone = Domain(columns={"c": Category(categories=["a"])})
    one = UrnHistogram(domain=alone, size=3)
    held = one.held_table(Counts.of_cells([0, 0]))
    assert instance_readings(held, 1.0)["two-sided"]["tight"].delta == 0.0
