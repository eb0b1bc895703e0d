"""The integer urn: exact against its predictive rule, across blocks, with every sign of strength; and both samplers."""

import math
from collections import Counter
from collections.abc import Iterator
from itertools import permutations
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from discreet._core.random import seeded
from discreet.domain import Counts, Domain, Integer, Numeric, OpenLabels, Records
from discreet.mechanisms import DirichletMultinomial, PitmanYor, SmoothedHistogram
from discreet.mechanisms import drawn as urn_module
from discreet.mechanisms.drawn import draw_blocks
from discreet.testing import assert_law, check_kernel_follows_law
from discreet.testing.contract import sample_size_for_distance
from discreet.testing.enumeration import outcome_of

UNIT = Domain(columns={"x": Numeric(lower=0.0, upper=1.0)})
ONE = 1 << 20


def sequence_law(frequency: tuple[int, ...], theta: float, sigma: float, m: int) -> dict[tuple[int, ...], float]:
    """Probability of every sequence of value numbers, from the predictive rule alone."""
    law = {(): 1.0}
    n = sum(frequency)
    for i in range(m):
        longer = {}
        for prefix, p in law.items():
            counts = Counter(prefix)
            values = max([len(frequency) - 1, *prefix]) + 1
            held = [(frequency[v] if v < len(frequency) else 0) + counts[v] for v in range(values)]
            for v, c in enumerate(held):
                if c - sigma > 0:
                    longer[(*prefix, v)] = p * (c - sigma) / (theta + n + i)
            if theta + values * sigma > 0:
                longer[(*prefix, values)] = p * (theta + values * sigma) / (theta + n + i)
        law = longer
    assert math.isclose(sum(law.values()), 1.0, rel_tol=1e-9)
    return law


def draws(frequency: tuple[int, ...], theta: float, sigma: float, m: int, rng: Any) -> tuple[int, ...]:
    masses = np.array(frequency, dtype=np.int64) * ONE
    blocks = draw_blocks(masses, strength=round(theta * ONE), discount=round(sigma * ONE), size=m, rng=rng)
    return tuple(np.concatenate(list(blocks)).tolist())


CASES = [
    ((2, 1), 1.0, 0.0, 4), ((1,), 2.5, 0.0, 5), ((2, 1), 1.0, 0.5, 4), ((1, 1), -0.25, 0.5, 4), ((3,), -0.5, 0.75, 4),
    ((1, 2), 0.0, 0.25, 4), ((), 1.5, 0.0, 4), ((), 0.5, 0.5, 4), ((2, 1, 1), 0.0, 0.0, 4),
]  # fmt: skip


@pytest.mark.parametrize("block", [1, *(pytest.param(size, marks=pytest.mark.exhaustive) for size in (2, 3)), 1 << 17])
@pytest.mark.parametrize(("frequency", "theta", "sigma", "m"), CASES)
def test_the_urn_follows_its_predictive_rule_whatever_the_block(
    frequency: tuple[int, ...], theta: float, sigma: float, m: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sequences, order included; 1e-6 to fail a right urn, 1e-6 to pass one at total variation 0.25."""
    monkeypatch.setattr(urn_module, "BLOCK", block)
    law = sequence_law(frequency, theta, sigma, m)
    # Pool the rarest sequences into one of 48 outcomes.
    ranked = sorted(law, key=law.__getitem__, reverse=True)
    place = {outcome: min(i, 47) for i, outcome in enumerate(ranked)}
    pooled = np.bincount([place[o] for o in ranked], weights=[law[o] for o in ranked])
    rng = seeded(3)
    count = sample_size_for_distance(len(pooled), 0.25)
    seen = np.bincount([place[draws(frequency, theta, sigma, m, rng)] for _ in range(count)], minlength=len(pooled))
    assert_law(seen, pooled, distance=0.25)


@pytest.mark.parametrize(("frequency", "theta", "sigma", "m"), CASES[:6])
def test_the_law_of_the_mechanism_is_the_predictive_rule(
    frequency: tuple[int, ...], theta: float, sigma: float, m: int
) -> None:
    x = Counts(records=Records(columns=(np.linspace(0.1, 0.2, len(frequency)),)), frequencies=np.array(frequency))
    mechanism = PitmanYor(domain=UNIT, size=m, strength=theta, discount=sigma)
    values = np.concatenate((np.linspace(0.1, 0.2, len(frequency)), np.linspace(0.8, 0.9, m)))
    law = sequence_law(frequency, theta, sigma, m)
    for outcome, p in law.items():
        y = Records(columns=(values[list(outcome)],))
        assert mechanism.log_prob(y, x) == pytest.approx(math.log(p), abs=1e-9)
        # exchangeable: the order does not matter
        for order in list(permutations(outcome))[:3]:
            y = Records(columns=(values[list(order)],))
            assert mechanism.log_prob(y, x) == pytest.approx(math.log(p), abs=1e-9)


@pytest.mark.parametrize("sampler", ["ancestor", "mixing"])
@pytest.mark.parametrize(
    ("theta", "sigma"),
    [
        (1.0, 0.0),
        (-0.25, 0.5),
        *(pytest.param(*other, marks=pytest.mark.exhaustive) for other in ((1.0, 0.5), (4.0, 0.75))),
    ],
)
def test_both_samplers_follow_one_law(
    theta: float, sigma: float, sampler: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a tiny case, blocks of 3; 1e-6 to fail a right sampler, 1e-6 to pass one at total variation 0.25."""
    from discreet.mechanisms import pitman_yor

    monkeypatch.setattr(urn_module, "BLOCK", 3)
    monkeypatch.setattr(pitman_yor, "BLOCK", 3)
    mechanism = PitmanYor(domain=UNIT, size=5, strength=theta, discount=sigma, sampler=sampler)
    x = Counts.of_cells([0.25, 0.25, 0.5])
    check_kernel_follows_law(mechanism, x, alternatives=[], distance=0.25, seed=5)


def test_each_draw_of_a_long_release_has_the_same_law() -> None:
    """Exchangeable order: the share of a value at every place is its posterior mean; Hoeffding, 1e-6 each."""
    mechanism = DirichletMultinomial(domain=Domain(columns={"c": Integer(lower=0, upper=2)}), size=40, prior=1.0)
    x = Counts.of_cells([0, 0, 0, 1])
    rng, count = seeded(4), 3000
    drawn = np.stack([Records.concatenate(mechanism.kernel(x, rng=rng)).columns[0] for _ in range(count)])
    allowed = math.sqrt(math.log(2 * 3 * 40 / 1e-6) / (2 * count))
    for cell, share in enumerate((4 / 7, 2 / 7, 1 / 7)):
        assert np.abs((drawn == cell).mean(axis=0) - share).max() < allowed
    # and so are neighbouring draws: P(first two equal) = P(last two equal)
    first, last = (drawn[:, 0] == drawn[:, 1]).mean(), (drawn[:, -1] == drawn[:, -2]).mean()
    assert abs(first - last) < 2 * allowed


def test_a_release_in_blocks_is_its_concatenation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks have the block's length, and the whole has the size; new values keep their identity across chunks."""
    from discreet.mechanisms import pitman_yor

    monkeypatch.setattr(urn_module, "BLOCK", 7)
    monkeypatch.setattr(pitman_yor, "BLOCK", 7)
    x = Counts.of_cells([0.25, 0.5])
    for sampler in ("ancestor", "mixing"):
        mechanism = PitmanYor(domain=UNIT, size=100, strength=20.0, discount=0.3, sampler=sampler)  # type: ignore[arg-type]
        chunks = list(mechanism.kernel(x, rng=seeded(2)))
        assert [len(c) for c in chunks] == [7] * 14 + [2]
        (values,) = Records.concatenate(chunks).columns
        fresh = values[~np.isin(values, [0.25, 0.5])]
        assert 1 < len(np.unique(fresh)) < len(fresh)  # some repeat, across chunks too
        first_chunk = {v for c in chunks[:1] for v in c.columns[0].tolist()} - {0.25, 0.5}
        later = {v for c in chunks[1:] for v in c.columns[0].tolist()}
        assert first_chunk & later


def test_new_labels_are_numbered_in_the_reserved_namespace() -> None:
    domain = Domain(columns={"label": OpenLabels()})
    x = Counts(records=Records(columns=(np.array(["a", "b"], dtype=object),)), frequencies=np.array([2, 1]))
    mechanism = PitmanYor(domain=domain, size=300, strength=30.0, discount=0.5)
    (labels,) = Records.concatenate(mechanism.kernel(x, rng=seeded(1))).columns
    new = {str(label) for label in labels.tolist()} - {"a", "b"}
    assert new == {f"new_category_{i}" for i in range(1, len(new) + 1)}
    check_kernel_follows_law(
        PitmanYor(domain=domain, size=4, strength=1.0, discount=0.5), x, alternatives=[], distance=0.25
    )


def test_unequal_base_weights_and_wide_domains_use_the_same_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sparse form (openings drawn from the base measure) follows the law of the dense one."""
    from discreet.mechanisms import dirichlet_multinomial

    domain = Domain(columns={"a": Integer(lower=0, upper=1), "b": Integer(lower=0, upper=1)})
    x = Counts(records=Records(columns=(np.array([0, 1]), np.array([1, 1]))), frequencies=np.array([2, 1]))
    mechanism = DirichletMultinomial(domain=domain, size=4, prior=0.75)
    check_kernel_follows_law(mechanism, x, alternatives=[], distance=0.25, seed=1)
    monkeypatch.setattr(dirichlet_multinomial, "_DENSE", 1)
    check_kernel_follows_law(mechanism, x, alternatives=[], distance=0.25, seed=2)
    smoothed = SmoothedHistogram(domain=domain, size=4, mixing=0.375)
    check_kernel_follows_law(smoothed, x, alternatives=[], distance=0.25, seed=3)


def test_a_small_urn_is_spelled_out() -> None:
    """A generator that returns chosen integers: founder units, non-founder units, openings, negative strength."""

    class Chosen:
        def __init__(self, values: list[int]) -> None:
            self.values = values

        def integers(self, low: int, high: Any, size: int | None = None) -> npt.NDArray[np.int64]:
            if size is None:  # to be drawn again, below their own bound: none of those chosen
                assert len(high) == 0
                return np.empty(0, dtype=np.int64)
            assert len(self.values) == size
            assert all(low <= v < high for v in self.values)
            return np.array(self.values)

    def run(values: list[int], strength: int, discount: int) -> list[int]:
        masses = np.array([20, 10], dtype=np.int64)  # two records of value 0, one of value 1, ten units each
        blocks: Iterator[npt.NDArray[np.int64]] = draw_blocks(
            masses,
            unit=10,
            strength=strength,
            discount=discount,
            size=len(values),
            rng=Chosen(values),  # type: ignore[arg-type]
        )
        return np.concatenate(list(blocks)).tolist()  # type: ignore[no-any-return]

    # no discount: unit 0..19 -> value 0, 20..29 -> 1, 30.. -> this block's draws, then the openings
    assert run([0, 29, 30, 40, 70], strength=5, discount=0) == [0, 1, 0, 1, 2]
    # discount 4: units 0-3 (value 0's founder) and 20-23 (value 1's) open; 10-19 do not
    assert run([3, 4, 10, 20, 24], strength=5, discount=4) == [2, 0, 0, 3, 1]
    # a draw on the founder units of an opening opens; on the others it repeats; on a repeat's it repeats
    assert run([30, 33, 34, 41, 51], strength=5, discount=4) == [2, 3, 2, 4, 2]
    # strength -2: units 0 and 1 do not exist
    assert run([2, 4, 30, 40, 44], strength=-2, discount=4) == [2, 0, 3, 0, 0]
    assert outcome_of(PitmanYor(domain=UNIT, size=1), Records(columns=(np.array([0.5]),)), Counts.of_cells([0.5])) == (
        (1,),
        (),
    )
