"""T16 by enumeration, with candidates that depend on noisy votes; checkpoints; and an attack on the whole loop."""

import math
from dataclasses import dataclass, replace
from itertools import combinations, combinations_with_replacement, pairwise, permutations, product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest
from universes import Everything, Floats, Listed, line, table_on

import discreet
from discreet import Unit, release
from discreet._core.random import secure, seeded
from discreet.audit.instance import clopper_pearson
from discreet.confidential import confidential, confidential_rows
from discreet.domain import Counts, Domain, Integer, Numeric, OpenLabels, Records
from discreet.domain import records as records_module
from discreet.domain.records import Units
from discreet.errors import FileProblem, Infeasible, ParameterError, PoorUtility
from discreet.evolution import API, Callables
from discreet.ledger import Request
from discreet.mechanisms import PitmanYor, PrivateEvolution
from discreet.mechanisms.base import Votes
from discreet.mechanisms.noise import law_named
from discreet.mechanisms.populations import Embedded
from discreet.mechanisms.steps import StepsFile, steps_taken
from discreet.planner import plan
from discreet.planner.cells import said_before
from discreet.privacy import Budget, Relation
from discreet.privacy.noise import ThresholdedLaplace
from discreet.privacy.profile import power
from discreet.releases import Release, verify
from discreet.testing import (
    brute_force_profile,
    check_guarantee,
    check_kernel_follows_law,
    check_law_sums_to_one,
    check_twin_is_caught,
    enumerate_law,
    hockey_stick,
    neighbouring_pairs,
)

BUDGET = Budget(epsilon=1.0, delta=1e-6)
EPSILONS = (0.0, 1e-3, 0.3, 1.0, 2.5, 5.0)
LARGE = (0.0, 5.0, 15.0, 25.0, 35.0)  # of four counts with noise that is small enough to be listed


@dataclass(frozen=True, slots=True, kw_only=True)
class Next(Everything):
    """A cell and the one after it, around a circle: the candidates depend on who was drawn."""

    name: ClassVar[str] = "next"

    def variations_each(self) -> int:
        return 2

    def variation(self, records: Records, *, rng: np.random.Generator, step: int = 0, steps: int = 1) -> Records:
        codes = np.asarray(records.columns[0], dtype=np.int64)
        return self.domain.unflat(np.stack([codes, (codes + 1) % (self.domain.size or 1)], axis=1).ravel())


def evolution(cells: int, kind: type[PrivateEvolution] = Listed, api: type[API] = Everything, **facts: Any) -> Any:
    domain = line(cells)
    given = {"records": 2, "scale": 0.3, "steps": 1, "population": 1, "variant": "practical", **facts}
    return kind(domain=domain, api=api(domain=domain), **given)  # type: ignore[call-arg]


LAPLACE: dict[str, Any] = {"noise": "laplace", "threshold": 2}


@pytest.mark.parametrize(
    ("cells", "n", "facts"),
    [(2, 3, {}), (3, 2, {}), (2, 1, {"steps": 2, "scale": 0.22}), (2, 3, LAPLACE), (2, 6, LAPLACE)],
)
def test_enumeration_of_every_output(cells: int, n: int, facts: dict[str, Any]) -> None:
    mechanism = evolution(cells, **facts)
    guarantee = mechanism.guarantee(n=n)
    assert not guarantee.exact  # as another API may give records that always vote alike
    check_law_sums_to_one(mechanism, table_on(mechanism.domain, [0, n]))
    found, claimed = brute_force_profile(mechanism, n=n, epsilons=EPSILONS), [guarantee.delta(e) for e in EPSILONS]
    assert np.all(found <= np.array(claimed) * (1 + 1e-11) + 1e-14)
    if mechanism.noise == "gaussian":
        np.testing.assert_allclose(found, claimed, rtol=1e-9, atol=1e-12)
        if mechanism.steps == 1:
            check_guarantee(mechanism, n=n, group=2, epsilons=EPSILONS)


@pytest.mark.parametrize(("noise", "group", "steps", "most"),
                         [("gaussian", 1, 1, 3), ("gaussian", 2, 1, 3), ("laplace", 1, 1, 3), ("laplace", 2, 1, 3),
                          ("gaussian", 1, 2, 1)])  # fmt: skip
def test_records_added_or_removed(noise: str, group: int, steps: int, most: int) -> None:
    """Tables of n and of n + g records, in both orders; the records of a group may differ."""
    threshold = 0 if noise == "gaussian" else 2
    mechanism = evolution(2, steps=steps, noise=noise, scale=0.3 if steps == 1 else 0.2, threshold=threshold)
    guarantee = mechanism.guarantee(Relation(name="add-remove", group=group), n=2)
    pairs = []
    for held in product(range(most + 1), repeat=2):
        if any(held):
            pairs += [(held, (held[0] + split, held[1] + group - split)) for split in range(group + 1)]
    tables = sorted({held for pair in pairs for held in pair})
    law = enumerate_law(mechanism, *(table_on(mechanism.domain, held) for held in tables)).log_mass
    place = {held: i for i, held in enumerate(tables)}
    worst = np.zeros(len(EPSILONS))
    for one, other in pairs:
        for p, q in ((one, other), (other, one)):
            worst = np.maximum(worst, hockey_stick(law[place[p]], law[place[q]], EPSILONS))
    for epsilon, true in zip(EPSILONS, worst.tolist(), strict=True):
        claimed = guarantee.delta(epsilon)
        assert claimed * (1 - 1e-9) - 1e-12 <= true <= claimed * (1 + 1e-11) + 1e-13


def test_the_kernel_follows_the_law() -> None:
    table = Counts.of_cells([0, 0, 1])
    for mechanism, off in (
        (evolution(2, records=3, scale=0.6), (0.5, 0.75)),
        (evolution(2, records=3, noise="laplace", scale=0.5, threshold=2), (0.4, 0.62)),
    ):
        others = [replace(mechanism, scale=scale) for scale in off]
        check_kernel_follows_law(mechanism, table, alternatives=others, distance=0.3)


class TwoVotes(Listed):
    """A broken twin: every record votes twice."""

    __slots__ = ()

    def log_prob(self, y: Any, x: Any) -> float:
        return Listed.log_prob(self, y, Counts(records=x.records, frequencies=2 * x.frequencies))


@pytest.mark.parametrize(("noise", "threshold", "n"), [("gaussian", 0, 2), ("laplace", 3, 5)])
def test_broken_twins_are_caught(noise: str, threshold: int, n: int) -> None:
    facts: dict[str, Any] = {"noise": noise, "scale": 0.4, "threshold": threshold}
    mechanism = evolution(2, **facts)
    twins = [replace(mechanism, scale=0.2), evolution(2, TwoVotes, **facts)]
    if noise == "laplace":
        twins.append(replace(mechanism, threshold=2))
    for twin in twins:
        check_twin_is_caught(mechanism, twin, n=n, epsilons=EPSILONS)


def test_a_step_that_is_not_counted_is_caught() -> None:
    check_twin_is_caught(evolution(2, scale=0.2), evolution(2, scale=0.2, steps=2), n=1, epsilons=EPSILONS)


# -- several votes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "facts", "n", "group"),
    [
        (3, {"nearest": 2}, 1, 1),
        (3, {"nearest": 2}, 2, 2),
        (4, {"nearest": 2, "scale": 0.22}, 1, 1),  # two neighbours may have no candidate in common
        (3, {"nearest": 2, "lookahead": True}, 2, 1),
        (2, {"nearest": 3}, 2, 1),  # there are fewer candidates than votes
    ],
)
def test_the_nearest_candidates_by_enumeration(cells: int, facts: dict[str, Any], n: int, group: int) -> None:
    mechanism = evolution(cells, **{"scale": 0.3, **facts})
    check_law_sums_to_one(mechanism, table_on(mechanism.domain, [n]))
    guarantee, epsilons = mechanism.guarantee(Relation(group=group), n=n), (*EPSILONS, *LARGE)
    found = brute_force_profile(mechanism, n=n, group=group, epsilons=epsilons)
    claimed = np.array([guarantee.delta(e) for e in epsilons])
    assert np.all(found <= claimed * (1 + 1e-11) + 1e-14)
    if cells == 4:  # then the profile is attained
        np.testing.assert_allclose(found[-len(LARGE) :], claimed[-len(LARGE) :], rtol=1e-9, atol=1e-12)
        check_twin_is_caught(replace(mechanism, nearest=1), mechanism, n=n, epsilons=LARGE)


def test_a_shift_that_is_less_even_reveals_more() -> None:
    """The lemma behind several votes of groups: every pair of shifts of two counts that one unit apart changes."""
    scale, reach = 0.8, 16
    line = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * scale**2))
    line /= line.sum()

    def delta(a: int, b: int) -> Floats:
        shifted = [np.concatenate((np.zeros(c), line, np.zeros(8 - c))) for c in (0, a, b)]
        p = np.outer(shifted[0], shifted[0])
        q = np.outer(shifted[1], shifted[2])
        return np.array([np.maximum(0.0, p - math.exp(epsilon) * q).sum() for epsilon in (*EPSILONS, 12.0)])

    for a, b in [(1, 1), (2, 1), (2, 2), (3, 1), (3, 2), (3, 3), (4, 3), (4, 4)]:
        assert (delta(a, b) <= delta(a + 1, b - 1) * (1 + 1e-9) + 1e-15).all()
        assert (delta(a, b) <= delta(a + 1, b) * (1 + 1e-9) + 1e-15).all()
    assert (delta(2, 2) < delta(3, 1) - 1e-6).any()
    assert (delta(2, 2) > delta(3, 0) + 1e-6).any()  # a smaller total is no worse


def united(mechanism: PrivateEvolution, *units: tuple[int, ...]) -> Units:
    """Return the table of units that hold cells."""
    rows = [(owner, cell, cells.count(cell)) for owner, cells in enumerate(units) for cell in sorted(set(cells))]
    owners, cells, times = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    return Units(records=mechanism.domain.unflat(cells), frequencies=times, owners=owners, n=len(units))


def worst_of_units(mechanism: PrivateEvolution, most: int, *, added: bool) -> Floats:
    """Return the largest divergence between tables of one unit, or of one more, of up to so many records each."""
    cells = range(mechanism.domain.size or 0)
    held = [one for count in range(most + 1) for one in combinations_with_replacement(cells, count)]
    tables = [united(mechanism, one) for one in held]
    if added:
        tables = [united(mechanism), *tables]
    law = enumerate_law(mechanism, *tables).log_mass  # type: ignore[arg-type]
    pairs = [(0, j) for j in range(1, len(tables))] if added else permutations(range(len(tables)), 2)
    each = [hockey_stick(law[i], law[j], LARGE) for p in pairs for i, j in (p, p[::-1])]
    return np.max(each, axis=0)


@pytest.mark.parametrize(
    ("cells", "votes", "nearest", "added"), [(3, 1, 1, False), (4, 2, 1, False), (3, 2, 2, True), (2, 2, 1, True)]
)
def test_units_with_several_records_by_enumeration(cells: int, votes: int, nearest: int, added: bool) -> None:
    """The guarantee is attained, and knows nothing of how many records a unit has."""
    most = 2 if cells == 4 else 3
    mechanism = evolution(cells, unit_votes=votes, nearest=nearest, scale=0.22 if cells == 4 else 0.3, records=1)
    relation = Relation(name="add-remove" if added else "replacement", group=most)
    claimed = np.array([mechanism.guarantee(relation, n=1).delta(epsilon) for epsilon in LARGE])
    found = worst_of_units(mechanism, most, added=added)
    np.testing.assert_allclose(found, claimed, rtol=1e-9, atol=1e-12)
    twin = [replace(mechanism, unit_votes=max(1, votes - 1)).guarantee(relation, n=1).delta(e) for e in LARGE]
    assert votes == 1 or (found > np.array(twin) * 1.01).any()  # a vote that is not counted is caught
    if cells == 3 and votes == 1:  # and so are units whose records all vote
        assert (worst_of_units(replace(mechanism, unit_votes=3), most, added=added) > claimed * 1.01).any()


def test_units_vote_for_what_most_of_their_records_are_near_to() -> None:
    mechanism = evolution(4, PrivateEvolution, unit_votes=2)
    table = united(mechanism, (3, 3, 1, 0), (), (2,), (1, 1, 1))
    everything = mechanism.domain.unflat(np.arange(4))
    held = Embedded(mechanism, table)
    assert mechanism._votes(held, everything, 0).tolist() == [1, 1, 1, 1]
    assert replace(mechanism, unit_votes=1)._votes(held, everything, 0).tolist() == [0, 1, 1, 1]
    with pytest.raises(ParameterError, match="the number of its unit"):
        mechanism.kernel(Counts.of_cells([0, 1]), rng=seeded(0))


@pytest.mark.parametrize("kind", [pl.String, pl.Int16, pl.Categorical, pl.Date])
def test_a_release_by_units(kind: Any) -> None:
    rng = np.random.default_rng(0)
    places = np.repeat(rng.beta(2, 8, (4000, 2)), 5, axis=0) + rng.normal(0, 0.01, (20_000, 2))
    people = pl.Series(np.repeat(np.arange(4000), 5), dtype=pl.Int32)
    named = people.cast(pl.String).cast(kind) if kind is pl.Categorical else people.cast(kind)
    table = pl.DataFrame(places.clip(0, 1), schema=["x", "y"]).with_columns(person=named)
    unit = Unit("person", max_records=4)
    made = released(table, size=500, unit=unit, population=40, api="box", unit_votes=1)
    assert made.certificate.to_dict()["records"] == 4000
    assert made.certificate.to_dict()["unit"] == {"column": "person", "max_records": 4}
    assert all(check.agrees for check in verify(made.certificate))
    one = PrivateEvolution.calibrated(BUDGET, domain=square(), n=4000, steps=2, population=40, api="box")
    scale = made.certificate.to_dict()["mechanism"]["parameters"]["scale"]
    assert scale == pytest.approx(one.scale)  # as for one record
    assert abs(made.records["x"].mean() - 0.2) < 0.1


def test_a_table_by_units_is_for_votes_of_units_alone() -> None:
    table = pl.DataFrame({"cell": [0, 1, 1], "who": ["a", "a", "b"]})
    by_unit = confidential(table, line(2), unit=Unit("who", max_records=2), by_unit=True)
    records = confidential(table.drop("who"), line(2))
    two, three = (evolution(2, PrivateEvolution, records=records) for records in (2, 3))
    for closed, other in ((by_unit, two), (records, replace(three, unit_votes=1))):
        with pytest.raises(ParameterError, match="read by units"):
            release(closed, mechanism=other, size=3, accept={"poor-utility"})
    with pytest.raises(ParameterError, match="privacy unit"):
        released(table.drop("who"), line(2), size=5, unit_votes=1)


def test_units_are_kept_whole_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records_module, "_PART", 4)
    mechanism = evolution(4, PrivateEvolution, unit_votes=1)
    table = united(mechanism, (0, 1, 2), (3,), (0, 1, 2, 3), (1, 2, 3), (0,))
    parts = list(table.parts())
    assert [part.owners.tolist() for part in parts] == [[0, 0, 0, 1], [2, 2, 2, 2], [3, 3, 3, 4]]
    assert sum(part.n for part in parts) == table.n


def test_lookahead_is_the_mean_of_the_variations() -> None:
    mechanism = evolution(4, PrivateEvolution, Next, lookahead=True)
    everything = mechanism.domain.unflat(np.arange(4))
    assert mechanism._ahead(everything, 0).ravel().tolist() == [1.0, 2.0, 3.0, 0.0]
    table = Embedded(mechanism, Counts.of_cells([3]))
    assert mechanism._votes(table, everything, 0).tolist() == [0, 0, 1, 0]


def whole_loop(mechanism: PrivateEvolution, x: Counts) -> dict[tuple[Any, ...], float]:
    """Return the law of two steps with a population of one, who is drawn in between included."""
    domain, api = mechanism.domain, mechanism.api
    assert isinstance(api, API)
    reach = law_named("gaussian").reach(mechanism.scale)
    votes = [np.array(v) for v in product(range(-reach, x.n + reach + 1), repeat=2)]
    first = api.variation(api.random(1, rng=seeded(0)), rng=seeded(0))
    law: dict[tuple[Any, ...], float] = {}
    for one in votes:
        step = Votes(first, one)
        start = math.exp(mechanism.log_prob([step], x))
        for place, share in enumerate(mechanism.probabilities(step).tolist()):
            if share == 0.0 or start < 1e-15:
                continue
            second = api.variation(first.take(np.array([place])), rng=seeded(0))
            for two in votes:
                after = math.exp(mechanism.log_prob([Votes(second, two)], x))
                law[*one.tolist(), *domain.flat(second).tolist(), *two.tolist()] = start * share * after
    return law


def test_candidates_that_depend_on_noisy_votes_cost_nothing_more() -> None:
    """Every neighbouring pair of a circle of three cells: the whole transcript stays within the composed profile."""
    mechanism = evolution(3, PrivateEvolution, Next, records=1, steps=2, scale=0.25)
    tables, left, right = neighbouring_pairs(1, 3)
    laws = [whole_loop(mechanism, table_on(mechanism.domain, counts)) for counts in tables]
    assert all(math.isclose(sum(law.values()), 1.0, abs_tol=1e-9) for law in laws)
    guarantee, twin = mechanism.guarantee(n=1), replace(mechanism, steps=1).guarantee(n=1)
    epsilon, worst = 1.0, 0.0
    for i, j in zip(left.tolist(), right.tolist(), strict=True):
        worst = max(worst, sum(max(0.0, p - math.exp(epsilon) * laws[j].get(o, 0.0)) for o, p in laws[i].items()))
    assert twin.delta(epsilon) < worst <= guarantee.delta(epsilon) * (1 + 1e-9)  # one step would be too little


def attack(mechanism: PrivateEvolution, x: Counts, runs: int, rng: np.random.Generator) -> int:
    """Count how often the votes of the first candidate outweigh those of the last, over all steps."""
    count = 0
    for _ in range(runs):
        steps: Any = mechanism.kernel(x, rng=rng)
        count += sum(int(step.votes[0] - step.votes[-1]) for step in steps) >= 2 * mechanism.steps
    return count


def test_the_whole_loop_is_attacked() -> None:
    """A black-box attack stays within the guarantee, and refutes half the noise; both verdicts hold but 1e-6."""
    mechanism = evolution(2, PrivateEvolution, steps=3, scale=3.0)
    epsilon, runs, rng = 0.5, 400, seeded(11)
    claimed = mechanism.guarantee(n=2).delta(epsilon)
    tables = Counts.of_cells([0, 0]), Counts.of_cells([1, 0])

    def least(attacked: PrivateEvolution) -> float:
        hit, false = (clopper_pearson(attack(attacked, x, runs, rng), runs) for x in tables)
        return hit.lower - math.exp(epsilon) * false.upper

    assert least(mechanism) <= claimed
    assert least(replace(mechanism, scale=0.75)) > claimed


def test_a_threshold_composes() -> None:
    mechanism = evolution(2, PrivateEvolution, steps=4, noise="laplace", scale=8.0, threshold=60)
    one = ThresholdedLaplace(scale=8.0, threshold=60)
    for epsilon in (0.5, 1.0):
        assert mechanism.guarantee(n=1000).delta(epsilon) == pytest.approx(power(one, 4).delta(epsilon))
    added = mechanism.guarantee(Relation(name="add-remove"), n=1000)
    assert added.delta(0.3) < 0.5 * mechanism.guarantee(n=1000).delta(0.3)


# -- post-processing ----------------------------------------------------------------------------------------------


def test_a_population_is_drawn_from_the_votes() -> None:
    mechanism = evolution(4, PrivateEvolution, population=8, records=8)
    step = Votes(mechanism.domain.unflat(np.arange(4)), np.array([4, -3, 0, 12]))
    np.testing.assert_allclose(mechanism.probabilities(step), [0.25, 0, 0, 0.75])
    np.testing.assert_allclose(replace(mechanism, threshold=5).probabilities(step), [0, 0, 0, 1])
    np.testing.assert_allclose(replace(mechanism, threshold=50).probabilities(step), [0.25] * 4)
    lots = replace(mechanism, variant="theoretical", multiplicity=5)
    np.testing.assert_allclose(lots.probabilities(step), [1 / 3, 0, 0, 2 / 3])
    projected = replace(mechanism, variant="projection", records=13).probabilities(step)
    assert projected.sum() == pytest.approx(1.0)
    assert projected.min() >= 0.0
    assert projected[3] == pytest.approx(12 / 13)  # the deficit of one is filled from its neighbours


def test_equal_candidates_are_merged() -> None:
    mechanism = evolution(3, PrivateEvolution, population=50, steps=2)
    sizes: list[int] = []
    steps_taken(
        mechanism, Counts.of_cells([0, 1]), rng=seeded(0), evolved=lambda step: sizes.append(len(step.candidates))
    )
    assert sizes == [3, 3]


def test_no_step_spends_nothing() -> None:
    mechanism = evolution(3, PrivateEvolution, steps=0)
    assert mechanism.guarantee(n=2).delta(0.0) == 0.0
    assert mechanism.forecast(2).lost == 1.0
    output = mechanism.kernel(Counts.of_cells([2, 2]), rng=seeded(0))
    assert next(mechanism.reading(output, n=2).draw(5, rng=seeded(0))).rows() == [(0,)] * 5


def square() -> Domain:
    return Domain(columns={"x": Numeric(lower=0.0, upper=1.0), "y": Numeric(lower=0.0, upper=1.0)})


def released(table: Any, domain: Domain | None = None, **asked: Any) -> Release:
    usual = {"budget": BUDGET, "mechanism": "private-evolution", "steps": 2, "population": 20}
    return release(table, domain or square(), accept={"poor-utility"}, **{**usual, **asked})


def points(n: int, seed: int = 3) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return pl.DataFrame({"x": rng.beta(2, 8, n), "y": rng.beta(8, 2, n)})


@pytest.mark.parametrize(("variant", "sampling"), [("projection", "iid"), ("practical", "stratified")])
def test_it_moves_towards_the_table(variant: str, sampling: str) -> None:
    from scipy.stats import wasserstein_distance

    table = points(20_000)
    asked = {"api": "box", "variant": variant, "sampling": sampling, "population": 200, "size": 2_000, "seed": 5}
    budget = Budget(epsilon=2.0, delta=1e-6)
    far, near = (
        sum(wasserstein_distance(table[c], made.records[c]) for c in "xy")
        for made in (released(table, budget=budget, steps=steps, **asked) for steps in (0, 5))
    )
    assert near < 0.1 * far


# -- calibration and certificates ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("noise", "relation"), [("gaussian", "add-remove"), ("laplace", "replacement")])
def test_calibration_is_tight(noise: str, relation: str) -> None:
    made = PrivateEvolution.calibrated(
        BUDGET, domain=square(), n=10_000, api="box", noise=noise, relation=relation, steps=2
    )
    guarantee = made.guarantee(Relation(name=relation), n=10_000)  # type: ignore[arg-type]
    assert guarantee.meets(BUDGET)
    less = {"threshold": made.threshold - 1} if noise == "laplace" else {"scale": made.scale * 0.999}
    assert not replace(made, **less).guarantee(Relation(name=relation), n=10_000).meets(BUDGET)  # type: ignore[arg-type]
    assert made.steps == 2
    assert 1 <= made.population < 10_000


SIX = Domain(columns={f"c{place}": Integer(lower=0, upper=9) for place in range(6)})


@pytest.mark.parametrize("relation", ["replacement", "add-remove"])
@pytest.mark.parametrize(("n", "epsilon", "votes"), [(1000, 0.5, 4), (20_000, 1.0, 2), (100_000, 8.0, 1)])
def test_what_is_free_follows_from_public_numbers(n: int, epsilon: float, votes: int, relation: Any) -> None:
    budget = Budget(epsilon=epsilon, delta=1e-6)
    made = PrivateEvolution.calibrated(budget, domain=SIX, n=n, relation=relation)
    once = PrivateEvolution.calibrated(budget, domain=SIX, n=n, relation=relation, steps=1, population=1)
    told = n / once.scale
    assert (made.steps, made.nearest, made.variant) == (10, votes, "practical")
    assert made.population == round(min(64 * math.sqrt(told), 3 * told) / made.api.variations_each())  # type: ignore[union-attr]
    assert made.threshold == round(1.25 * made.scale)
    assert made.guarantee(Relation(name=relation), n=n).meets(budget)


def test_what_is_free_in_narrow_domains() -> None:
    budget = Budget(epsilon=1.0, delta=1e-4)
    made = PrivateEvolution.calibrated(budget, domain=square(), n=1000, api="box")
    assert (made.steps, made.nearest) == (3, 16)  # the theory's 14 steps are twice as far from tables of points
    api: Any = made.api
    assert api.alpha == pytest.approx(api.diameter * math.sqrt(made.scale / 1000 / 4))
    finite = Domain(columns={"x": Integer(lower=0, upper=9)})
    assert PrivateEvolution.calibrated(budget, domain=finite, n=1000).steps == 1
    with pytest.raises(Infeasible):
        PrivateEvolution.calibrated(Budget(epsilon=1.0), domain=square(), n=1000, api="box")


def test_an_api_that_takes_long_is_asked_for_fewer_candidates_and_records_vote_once() -> None:
    budget, domain = Budget(epsilon=1.0, delta=1e-6), Domain(columns={"text": OpenLabels()})
    api = Callables(
        domain=domain,
        label="words",
        diameter=10.0,
        generate=lambda count, seed: pl.DataFrame({"text": ["a"] * count}),
        vary=lambda frame, seed: frame,
        embedding=lambda frame: frame["text"].str.len_chars().to_numpy()[:, None],
        variations=4,
    )
    made = PrivateEvolution.calibrated(budget, domain=domain, n=5000, api=api)
    once = PrivateEvolution.calibrated(budget, domain=domain, n=5000, api=api, steps=1, population=1)
    assert (made.steps, made.nearest, made.variant) == (2, 1, "practical")
    assert made.population == round(10 * math.sqrt(5000 / once.scale) / 5)


def test_who_is_told_to_take_steps_can() -> None:
    rng = seeded(1)
    kind = rng.integers(0, 3, 4000)
    data = pl.DataFrame({name: np.clip(3 * kind + rng.integers(0, 4, 4000), 0, 9) for name in SIX.columns})
    asked = {"mechanism": "private-evolution", "budget": Budget(epsilon=1.0, delta=1e-5), "size": 4000, "seed": 3}
    with pytest.raises(PoorUtility, match="Take steps: leave out steps=0"):
        discreet.release(data, SIX, steps=0, **asked)
    made = discreet.release(data, SIX, **asked).records
    pairs = [data.group_by(a, b).len(name="n").join(made.group_by(a, b).len(name="m"), on=[a, b], how="full")
             for a, b in combinations(SIX.columns, 2)]  # fmt: skip
    apart = [float((pair["n"].fill_null(0) - pair["m"].fill_null(0)).abs().sum()) / 8000 for pair in pairs]
    assert float(np.mean(apart)) < 0.3  # by the former rule .5


def test_a_release_is_certified_and_recomputed(tmp_path: Path) -> None:
    out = tmp_path / "z.parquet"
    said: list[str] = []
    made = released(points(3000), size=500, out=out, watch=discreet.Watch(announce=said.append))
    assert all(check.agrees for check in verify(made.certificate, data=out))
    assert made.certificate.to_dict()["mechanism"]["parameters"]["api"]["name"] == "table"
    assert "2 steps of" in " ".join(said)
    assert "hierarchical-histogram is predicted" in " ".join(said)


def test_add_remove_keeps_the_number_of_records() -> None:
    made = released(points(3001), size=100, relation=discreet.AddRemove(records=3000))
    assert made.certificate.to_dict()["relation"]["name"] == "add-remove"
    assert made.certificate.to_dict()["records"] == 3000
    assert "3001" not in made.certificate.to_json()
    assert all(check.agrees for check in verify(made.certificate))
    for wrong in (0, 2.5, True):
        with pytest.raises(ParameterError, match="records must be an integer from 1"):
            discreet.AddRemove(records=wrong)  # type: ignore[arg-type]


def test_a_declared_number_far_off_does_no_harm() -> None:
    mechanism = evolution(4, PrivateEvolution, variant="projection", records=100_000, scale=2.0)
    step = Votes(mechanism.domain.unflat(np.arange(4)), np.array([400, -3, 2, 601]))
    np.testing.assert_allclose(mechanism.probabilities(step), [0.4, 0, 0, 0.6], atol=0.01)


@pytest.mark.parametrize("wrong", ["column", "code", "dtype", "rows", "nan"])
def test_what_an_api_gives_is_checked_before_noise_is_drawn(wrong: str) -> None:
    class Wrong(Everything):
        __slots__ = ()

        def variation(self, records: Records, **facts: Any) -> Records:
            codes = Everything.variation(self, records, **facts).columns[0]
            return {
                "column": Records(columns=(codes, codes)),
                "code": Records(columns=(codes + 1,)),
                "dtype": Records(columns=(codes.astype(float),)),
                "rows": Records(columns=(np.tile(codes, 50),)),
                "nan": Records(columns=(codes,)),
            }[wrong]

        def embed(self, records: Records) -> Floats:
            return Everything.embed(self, records) * (np.nan if wrong == "nan" else 1.0)

    mechanism, seen = evolution(3, PrivateEvolution, Wrong, steps=2), []
    with pytest.raises(ParameterError, match="of the API"):
        steps_taken(mechanism, Counts.of_cells([0, 1]), rng=secure(), evolved=seen.append)
    assert not seen


def test_one_record_moves_one_vote_whatever_the_embedding_rounds() -> None:
    """A product of matrices rounds rows differently in batches of 25 and of 26; records are embedded one by one."""
    width, count = 784, 2_000
    draws = np.random.default_rng(2)
    turn = (draws.integers(0, 2, (width, 50)) * 2 - 1) / math.sqrt(50)
    names = [f"b{i}" for i in range(width)]
    domain = Domain(columns={name: Integer(lower=0, upper=1) for name in names})

    def frame(bits: Any) -> pl.DataFrame:
        return pl.DataFrame(bits, schema=names)

    api = Callables(
        domain=domain,
        label="random projection",
        diameter=60.0,
        generate=lambda count, seed: frame(np.random.default_rng(seed).integers(0, 2, (count, width))),
        vary=lambda table, seed: table,
        embedding=lambda table: table.to_numpy().astype(float) @ turn,
    )
    mechanism = PrivateEvolution(domain=domain, records=count, scale=30.0, steps=1, population=2, api=api)
    x = draws.integers(0, 2, (40, width))
    flips = np.repeat(x[:1], 50, axis=0)
    flips[np.arange(50), np.arange(50) * 3] ^= 1
    candidates = domain.encode(frame(flips))
    for distinct in (24, 25, 26):
        one = np.concatenate([np.repeat(x[:1], count - distinct + 1, axis=0), x[1:distinct]])
        other = np.concatenate([x[distinct : distinct + 1], one[1:]])
        votes = []
        for bits in (one, other):
            _, rows, frequencies = np.unique(bits, axis=0, return_index=True, return_counts=True)
            order = np.argsort(rows)
            table = Counts(records=domain.encode(frame(bits[rows[order]])), frequencies=frequencies[order])
            votes.append(mechanism._votes(Embedded(mechanism, table), candidates, 0))
        assert np.abs(votes[0] - votes[1]).sum() <= 2


# -- larger than memory, checkpoints ------------------------------------------------------------------------------


def test_rows_and_counts_give_the_same_votes(tmp_path: Path) -> None:
    table = points(5000)
    table.write_parquet(tmp_path / "x.parquet")
    domain = square()
    mechanism = PrivateEvolution(
        domain=domain, records=5000, scale=3.0, steps=2, population=20, api="box", variant="practical"
    )
    rows = release(
        confidential_rows(tmp_path / "x.parquet", domain), mechanism=mechanism, size=50, seed=1, accept={"poor-utility"}
    )
    counts = release(confidential(table, domain), mechanism=mechanism, size=50, seed=1, accept={"poor-utility"})
    assert rows.records.equals(counts.records)
    with pytest.raises(ParameterError, match="parts"):
        release(confidential_rows(table, domain), mechanism=PitmanYor(domain=domain, size=2), size=2)


class Died(Exception):
    pass


def kept(mechanism: Any, table: Any, path: Path, *, rng: Any = None, **watch: Any) -> Any:
    return steps_taken(mechanism, table, rng=rng or secure(), file=StepsFile(path, mechanism), **watch)


def test_a_run_that_dies_goes_on_and_spends_nothing_twice(tmp_path: Path) -> None:
    path = tmp_path / "run.checkpoint"
    mechanism = evolution(3, PrivateEvolution, Next, steps=4, scale=2.0, population=3)
    table = Counts.of_cells([0, 2])
    seen: list[Any] = []

    def dies_in_the_third(step: Any) -> None:
        seen.append(step)
        if len(seen) == 3:
            raise Died

    with pytest.raises(Died):
        kept(mechanism, table, path, evolved=dies_in_the_third)
    more: list[Any] = []
    steps: Any = kept(mechanism, table, path, evolved=more.append)
    assert len(more) == 1  # the third step was written before it was shown
    for old, new in zip(seen, steps, strict=False):
        np.testing.assert_array_equal(old.votes, new.votes)
        assert old.candidates.rows() == new.candidates.rows()
    other = Counts.of_cells([1, 1])
    with pytest.raises(FileProblem, match="all its steps are done"):
        kept(mechanism, other, path)
    again: Any = kept(mechanism, other, path, redraw=True)
    for old, new in pairwise([steps, again]):
        assert [s.votes.tolist() for s in old] == [s.votes.tolist() for s in new]  # a finished run reads no table
    assert [p.name for p in tmp_path.iterdir()] == ["run.checkpoint"]


def test_a_checkpoint_belongs_to_one_run(tmp_path: Path) -> None:
    path = tmp_path / "run.checkpoint"
    mechanism = evolution(3, PrivateEvolution, steps=2, scale=2.0)
    table = Counts.of_cells([0, 2])
    kept(mechanism, table, path)
    with pytest.raises(FileProblem, match="stays spent"):
        kept(replace(mechanism, scale=2.5), table, path)
    with pytest.raises(ParameterError, match="Leave out the checkpoint or the seed"):
        kept(mechanism, table, path, rng=seeded(0))

    def at_once(step: Any) -> None:
        with pytest.raises(FileProblem, match="another run"):
            kept(replace(mechanism, scale=3.0), table, tmp_path / "b")

    kept(replace(mechanism, scale=3.0), table, tmp_path / "b", evolved=at_once)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["b", "run.checkpoint"]  # no lock is left


class AnySteps(PrivateEvolution):
    def could_release(self, step: Votes) -> bool:
        return bool(step.votes[1] == -2)


def test_labels_survive_a_checkpoint(tmp_path: Path) -> None:
    words = np.array(["a", None, 'ü, "b"\0'], dtype=object)
    step = Votes(Records(columns=(words, np.array([0.5, np.nan, -0.0]))), np.array([1, -2, 3]))
    file = StepsFile(tmp_path / "x", AnySteps(domain=square(), records=9, scale=2.0, steps=2, population=3))
    file.write([step])
    (back,) = file.steps()
    assert back.candidates.columns[0].tolist() == words.tolist()
    np.testing.assert_array_equal(back.candidates.columns[1], step.candidates.columns[1])
    np.testing.assert_array_equal(back.votes, step.votes)


# -- refusals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"steps": -1}, "steps"),
        ({"population": 0}, "population"),
        ({"noise": "laplace", "threshold": 1}, "threshold"),
        ({"noise": "uniform"}, "noise"),
        ({"variant": "best"}, "variant"),
        ({"scale": 0.0}, "scale"),
        ({"population": 1 << 22}, "candidates"),
        ({"multiplicity": 0}, "multiplicity"),
        ({"sampling": "other"}, "sampling"),
        ({"nearest": 0}, "nearest"),
        ({"unit_votes": -1}, "unit_votes"),
        ({"lookahead": 1}, "lookahead"),
        ({"nearest": 2, "noise": "laplace", "threshold": 2}, "gaussian"),
        ({"nearest": 64, "steps": 17}, "votes"),
    ],
)
def test_parameters_out_of_range(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        evolution(3, PrivateEvolution, **wrong)


def test_the_api_has_to_fit() -> None:
    with pytest.raises(ParameterError, match="domain"):
        PrivateEvolution(domain=line(4), records=2, scale=1.0, steps=1, population=1, api=Everything(domain=line(3)))
    with pytest.raises(ParameterError, match="API"):
        PrivateEvolution(domain=line(4), records=2, scale=1.0, steps=1, population=1, api=3)  # type: ignore[arg-type]


def test_what_an_embedding_says_of_confidential_records_is_not_passed_on() -> None:
    class Leaks(Everything):
        __slots__ = ()

        def embed(self, records: Records) -> Floats:
            if records.columns[0].tolist() == [2]:
                raise ValueError("secret 2")
            return Everything.embed(self, records)

    mechanism = evolution(3, PrivateEvolution, Leaks)
    with pytest.raises(ParameterError) as caught:
        mechanism.kernel(Counts.of_cells([2, 2]), rng=seeded(0))
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_prediction_that_would_take_minutes_is_not_made() -> None:
    columns = {f"c{i}": Integer(lower=0, upper=8) for i in range(6)}
    domain = Domain(columns=columns)
    budget = Budget(epsilon=1.0, delta=1e-6)
    facts: dict[str, Any] = {"domain": domain, "n": 90_000, "steps": 4}
    large = PrivateEvolution.calibrated(budget, population=400, **facts)
    assert large.forecast(90_000).slow
    assert "is not predicted" in said_before(large, Request(budget=budget, size=90_000), n=90_000)[-1]
    (option,) = plan(domain, budget, records=90_000, mechanisms=["private-evolution"]).options
    assert "by name" in str(option.refused)
    assert not PrivateEvolution.calibrated(budget, population=40, **facts).forecast(90_000).slow
