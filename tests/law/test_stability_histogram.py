"""T8 against every pair of neighbours of small universes, by a law written out here; twins; what is never released."""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import mpmath as mp
import numpy as np
import polars as pl
import pytest
from universes import WORDS, Floats, line, words

import discreet
from discreet._core.random import secure, seeded
from discreet.domain import Category, Counts, Domain, Numeric, OpenLabels, Records
from discreet.domain.records import Commonness
from discreet.errors import Infeasible, ParameterError, PoorUtility
from discreet.mechanisms import StabilisedPitmanYor, StabilityHistogram
from discreet.mechanisms.noise import LAPLACE
from discreet.papers.pe25 import stability_histogram_proposition_4_1
from discreet.planner.predicted import released_shares
from discreet.privacy import Budget, Relation
from discreet.privacy.noise import ThresholdedLaplace
from discreet.testing import assert_law, check_law_sums_to_one, hockey_stick
from discreet.testing.contract import sample_size_for_distance
from discreet.testing.enumeration import partitions
from discreet.testing.facts import RATE

EPSILONS = (0.0, 1e-3, 0.1, 0.4, 1.0, 1.7, 2.5, 4.0, 6.5, 12.0)


# -- the guarantee ---------------------------------------------------------------------------------------------------


def label_law(held: int, threshold: int, scale: float, top: int) -> Floats:
    """The law of one label: nothing, then every noisy count from the threshold to ``top``."""
    out = np.zeros(top - threshold + 2)
    if held == 0:
        out[0] = 1.0
        return out
    grid = np.arange(held - 800, held + 801)
    noise = np.exp(-np.abs(grid - held) / scale)
    noise /= noise.sum()
    out[0] = noise[grid < threshold].sum()
    out[1:] = noise[(grid >= threshold) & (grid <= top)]
    return out


def divergence(x: list[int], y: list[int], threshold: int, scale: float) -> Floats:
    top = max(*x, *y, threshold) + math.ceil(34 * scale) + 1
    p, q = np.ones(1), np.ones(1)
    for a, b in zip(x, y, strict=True):
        p = np.outer(p, label_law(a, threshold, scale, top)).ravel()
        q = np.outer(q, label_law(b, threshold, scale, top)).ravel()
    with np.errstate(divide="ignore"):
        return hockey_stick(np.log(p), np.log(q), EPSILONS)


def changes(n: int, group: int, most: int) -> Iterator[tuple[list[int], list[int]]]:
    """Counts of the labels that change, in x and in y; labels keep up to ``most`` records that do not."""
    seen = set()
    for moved in range(1, group + 1):
        for lose, gain in product(list(partitions(moved)), repeat=2):
            for rest in product(range(most + 1), repeat=len(lose) + len(gain)):
                if moved + sum(rest) > n:
                    continue
                stay, there = rest[: len(lose)], rest[len(lose) :]
                x = [a + b for a, b in zip(stay, lose, strict=True)] + list(there)
                y = list(stay) + [a + b for a, b in zip(there, gain, strict=True)]
                pair = tuple(sorted(zip(x, y, strict=True)))
                if pair not in seen:
                    seen.add(pair)
                    yield x, y


@pytest.mark.parametrize(
    ("group", "threshold", "scale"),
    [(1, 2, 0.3), (1, 2, 1.5), (1, 3, 0.7), (1, 5, 0.3), (1, 5, 1.5), (2, 2, 0.25), (2, 3, 0.5), (3, 2, 0.2)],
)
def test_all_neighbours(group: int, threshold: int, scale: float) -> None:
    n = 2 * threshold - 2 + group
    mechanism = StabilityHistogram(domain=WORDS, scale=scale, threshold=threshold)
    guarantee = mechanism.guarantee(Relation(group=group), n=n)
    assert guarantee.exact
    brute = np.zeros(len(EPSILONS))
    for x, y in changes(n, group, threshold):
        if len(x) <= 4 or scale <= 0.2:
            brute = np.maximum(brute, divergence(x, y, threshold, scale))
    claimed = np.array([guarantee.delta(e) for e in EPSILONS])
    assert np.all(brute <= claimed * (1 + 1e-11) + 1e-14)
    np.testing.assert_allclose(claimed, brute, rtol=1e-9, atol=1e-13)
    # With fewer records the same profile is a bound, and is not called exact.
    fewer = mechanism.guarantee(Relation(group=group), n=n - 1)
    assert not fewer.exact
    assert any("upper bound" in str(caveat) for caveat in fewer.caveats)


def test_few_cells_make_it_a_bound() -> None:
    mechanism = StabilityHistogram(domain=line(3), scale=0.5, threshold=2)
    assert mechanism.guarantee(Relation(group=1), n=50).exact
    assert not mechanism.guarantee(Relation(group=2), n=50).exact
    one = replace(mechanism, domain=Domain(columns={"c": Category(categories=["only"])})).guarantee(n=50)
    assert one.exact
    assert one.delta(0.0) == 0.0


def test_a_large_group_is_bounded_within_a_factor_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    profile = ThresholdedLaplace(scale=40.0, threshold=900, group=20)
    assert not profile.exact
    bound = np.array([profile.delta(e) for e in EPSILONS])
    monkeypatch.setattr(ThresholdedLaplace, "largest_exact", 20)
    true = np.array([profile.delta(e) for e in EPSILONS])
    assert np.all(true <= bound)
    assert np.all(bound <= 2 * true)


def test_the_floor_is_the_probability_that_a_singleton_appears() -> None:
    for scale, threshold in ((2.0, 42), (0.25, 2), (20.0, 1000), (2.0, 700)):
        with mp.workdps(40):
            r = mp.exp(-1 / mp.mpf(scale))
            floor = float(r ** (threshold - 1) / (1 + r))
        claimed = ThresholdedLaplace(scale=scale, threshold=threshold).delta(2.000001 / scale)
        assert floor <= claimed <= floor * (1 + 1e-11)


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 3.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-9])
def test_the_papers_threshold_is_about_twice_too_safe(epsilon: float, delta: float) -> None:
    scale, threshold = stability_histogram_proposition_4_1(epsilon, delta)
    mechanism = StabilityHistogram(domain=WORDS, scale=scale, threshold=math.ceil(threshold))
    true = mechanism.guarantee(n=10**6).delta(epsilon)
    assert true <= delta / (1 + math.exp(-epsilon / 2)) * (1 + 1e-12)
    assert true >= delta / (1 + math.exp(-epsilon / 2)) * math.exp(-epsilon / 2)  # the next integer


# -- the contract ----------------------------------------------------------------------------------------------------

SMALL = StabilityHistogram(domain=line(2), scale=0.5, threshold=2)


@pytest.mark.parametrize("mechanism", [
    StabilityHistogram(domain=WORDS, scale=0.5, threshold=2),
    StabilisedPitmanYor(domain=WORDS, records=5, scale=0.5, threshold=3),
])  # fmt: skip
def test_the_law_of_open_labels_sums_to_one(mechanism: StabilityHistogram) -> None:
    check_law_sums_to_one(mechanism, words({"a": 1, "b": 4}))


class InTheTablesOrder(StabilityHistogram):
    """A broken twin: labels come in the order of the table."""

    def kernel(self, x: Counts, *, rng: np.random.Generator) -> Counts:
        released = StabilityHistogram.kernel(self, x, rng=rng)
        order = np.argsort(released.records.columns[0])
        return Counts(records=released.records.take(order), frequencies=released.frequencies[order])


def first_label(mechanism: StabilityHistogram, table: Counts, times: int) -> int:
    rng = seeded(5)
    return sum(int(mechanism.kernel(table, rng=rng).records.columns[0][0]) == 0 for _ in range(times))


def test_labels_come_in_an_order_that_says_nothing() -> None:
    table = Counts.of_cells([0] * 60 + [1] * 60)
    mechanism = replace(SMALL, threshold=9)
    # 400 fair coins: further than 100 from 200 with probability 2 exp(-2 * 100^2 / 400) = 4e-22.
    assert abs(first_label(mechanism, table, 400) - 200) < 100
    twin = InTheTablesOrder(domain=line(2), scale=0.5, threshold=9)
    assert first_label(twin, table, 400) == 400


@pytest.mark.parametrize(("kind", "fixed"), [(StabilityHistogram, {}), (StabilisedPitmanYor, {"discount": 0.25})])
def test_a_label_of_one_person_never_appears(kind: Any, fixed: dict[str, float]) -> None:
    """Each of 20 planted labels appears with probability 7.8e-10: over 50 releases this fails at rate 7.8e-7."""
    mechanism = kind.calibrated(Budget(epsilon=1.0, delta=1e-9), domain=WORDS, n=720, **fixed)
    alone = {f"only person {i}": 1 for i in range(20)}
    table = words({"many": 500, "some": 200, **alone})
    rng = secure()
    released: Counter[str] = Counter()
    for _ in range(50):
        kept = mechanism.kernel(table, rng=rng)
        for chunk in mechanism.reading(kept, n=720).draw(720, rng=rng):
            released.update(set(chunk.columns[0].tolist()))
    assert released["many"] == released["some"] == 50
    assert (released["new_category_1"] > 40) == bool(fixed)  # the urn opens new values in their place
    assert not released.keys() & alone.keys()
    loose = replace(mechanism, threshold=2)  # without a threshold to speak of they do
    assert {*loose.kernel(table, rng=rng).records.columns[0].tolist()} & alone.keys()


# -- records, counts, parameters -------------------------------------------------------------------------------------


def test_records_follow_the_noisy_counts() -> None:
    kept = words({"a": 30, "b": 10})
    mechanism = StabilityHistogram(domain=WORDS, scale=1.0, threshold=5, sampling="stratified")
    (chunk,) = mechanism.reading(kept, n=720).draw(400, rng=seeded(1))
    assert Counter(chunk.columns[0].tolist()) == {"a": 300, "b": 100}
    drawn = Records.concatenate(replace(mechanism, sampling="iid").reading(kept, n=720).draw(400, rng=seeded(1)))
    assert abs(Counter(drawn.columns[0].tolist())["a"] - 300) < 60  # 2 exp(-2 * 60^2 / 400) = 3e-8
    estimates = mechanism.reading(kept, n=720).estimates()
    assert estimates.counts.tolist() == [30.0, 10.0]
    assert estimates.standard_errors[0] == pytest.approx(math.sqrt(0.5) / math.sinh(0.5))


@pytest.mark.parametrize(
    ("domain", "nothing"),
    [
        (WORDS, Records(columns=(np.empty(0, dtype=object),))),
        (Domain(columns={"x": Numeric(lower=0.0, upper=1.0)}), Records(columns=(np.empty(0),))),
        (line(4), Records(columns=(np.empty(0, dtype=np.int64),))),
    ],
)
def test_where_all_is_left_out_records_come_from_the_base_measure(domain: Domain, nothing: Records) -> None:
    mechanism = StabilityHistogram(domain=domain, scale=1.0, threshold=50)
    kept = Counts(records=nothing, frequencies=np.empty(0, dtype=np.int64))
    drawn = Records.concatenate(mechanism.reading(kept, n=720).draw(200_000, rng=seeded(1)))
    assert len(drawn) == 200_000
    if domain is WORDS:
        assert len(set(drawn.columns[0].tolist())) == 200_000
    ((codes, shares),) = mechanism.reading(kept, n=720).column_shares(rng=seeded(1)) or ()
    assert len(codes) == len(shares) == 0


def test_several_open_columns_are_one_label() -> None:
    both = Domain(columns={"job": OpenLabels(), "place": OpenLabels()})
    mechanism = StabilityHistogram(domain=both, scale=0.5, threshold=9)
    jobs, places = np.array(["a", "a"], dtype=object), np.array(["p", "q"], dtype=object)
    table = Counts(records=Records(columns=(jobs, places)), frequencies=np.array([100, 1]))
    kept = mechanism.kernel(table, rng=seeded(1))
    assert [column.tolist() for column in kept.records.columns] == [["a"], ["p"]]
    assert mechanism.log_prob(kept, table) > -math.inf
    elsewhere = Counts(records=table.records.take(np.array([1])), frequencies=np.array([100]))
    assert mechanism.log_prob(kept, elsewhere) == -math.inf


@pytest.mark.parametrize("group", [1, 3, 17, 500])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-9), (0.1, 1e-3), (4.0, 1e-6)])
def test_calibrated_is_on_the_safe_side_and_the_next_threshold_is_not(epsilon: float, delta: float, group: int) -> None:
    budget, relation = Budget(epsilon=epsilon, delta=delta), Relation(group=group)
    made = StabilityHistogram.calibrated(budget, domain=WORDS, n=10**6, group=group)
    assert made.guarantee(relation, n=10**6).meets(budget)
    assert not replace(made, threshold=made.threshold - 1).guarantee(relation, n=10**6).meets(budget)
    assert made.scale <= 2 * group / epsilon * (1 + 1e-9)


def test_calibrated_with_given_parameters() -> None:
    budget = Budget(epsilon=1.0, delta=1e-9)

    def calibrated(**fixed: object) -> StabilityHistogram:
        return StabilityHistogram.calibrated(budget, domain=WORDS, n=10**6, **fixed)

    assert (calibrated().threshold, round(calibrated().scale, 6)) == (42, 2.0)
    assert calibrated(scale=3.0).threshold == 62
    assert calibrated(threshold=60).scale == calibrated().scale
    assert calibrated(threshold=62, scale=3.0).parameters() == {"scale": 3.0, "threshold": 62, "sampling": "stratified"}
    with pytest.raises(Infeasible, match="threshold >= 42"):
        calibrated(threshold=41)
    with pytest.raises(Infeasible, match="scale >= 2"):
        calibrated(scale=1.5)
    with pytest.raises(Infeasible, match="give a delta above 0"):
        StabilityHistogram.calibrated(Budget(epsilon=1.0), domain=WORDS, n=10**6)
    for wrong in ({"noise": "laplace"}, {"threshold": 1}, {"threshold": 2.5}, {"scale": 0.0}, {"sampling": "sorted"}):
        with pytest.raises(ParameterError):
            calibrated(**wrong)


def test_the_stated_share_is_what_is_left_out_and_noise() -> None:
    mechanism = StabilityHistogram(domain=WORDS, scale=2.0, threshold=42)
    common = Commonness.of_counts(np.array([500, 400, 60, 40]), cells=None)
    noise = sum(0.5 / math.sinh(0.5) / held * held / 1000 for held in (500, 400, 60))
    kept_40 = -math.expm1(LAPLACE.log_below(2.0, 2)) * (1.0 - 0.5 / math.sinh(0.5) / 40)
    assert mechanism.forecast(1000, common).lost == pytest.approx(noise + 0.04 * (1.0 - kept_40), abs=1e-3)
    assert mechanism.forecast(20).lost > 0.999
    assert mechanism.forecast(10**9).lost_at_most == 1.0


def test_the_certificate_says_how_much_of_the_table_was_kept() -> None:
    frame = pl.DataFrame({"word": ["often"] * 900 + [f"rare {i}" for i in range(100)]})
    words = Domain(columns={"word": OpenLabels()})
    facts: dict[str, Any] = {"budget": Budget(epsilon=1, delta=1e-9), "size": 50, "mechanism": "stability-histogram"}
    with pytest.raises(PoorUtility, match="give a public table like this one as reference"):
        discreet.release(frame, words, **facts)
    last_year = pl.DataFrame({"word": ["often"] * 890 + [f"rare {i}" for i in range(110)]})
    made = discreet.release(frame, words, reference=last_year, **facts)
    outcome = made.certificate.outcome
    assert made.certificate.to_dict()["released"]["share_from_data"] == pytest.approx(0.9, abs=0.05)
    assert made.certificate.poor is None
    assert outcome.startswith("1 label was kept")  # a rare one would be with probability 1e-7 in all
    assert 0.85 < float(outcome.split("about ")[1].split("%")[0]) / 100 < 0.95  # noise of scale 2 on 900
    assert outcome in str(made.certificate)


# -- the stabilised urn: the same private step, and Algorithm 1 in public ---------------------------------------------


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
