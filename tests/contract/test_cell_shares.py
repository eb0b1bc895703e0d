"""Records from cells' shares: parts that are drawn by themselves have the law of the records of one file."""

import pickle
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from scipy.stats import binom, multinomial

from discreet._core.numeric import Floats, Integers
from discreet._core.random import keyed, public_key, seeded
from discreet.domain import Category, Counts, Domain, Integer, OpenLabels, Records
from discreet.mechanisms import REGISTRY, HierarchicalHistogram, Mechanism, PrivateEvolution, StabilityHistogram
from discreet.mechanisms.base import parameter_names
from discreet.mechanisms.likelihood import compositions
from discreet.mechanisms.measured_tables import StratumShares
from discreet.mechanisms.noisy_counts import NoisyReading
from discreet.mechanisms.reading import WHOLE, CellShares, ListedShares, Portion, counts_by_chunk, draw_cells
from discreet.privacy import Budget
from discreet.releases.parts import PartMaker, PartWriter
from discreet.testing import assert_law
from discreet.testing.contract import sample_size_for_distance

WITH_SHARES = [name for name, kind in REGISTRY.items() if "sampling" in parameter_names(kind)]
"""Who draws records after the private step, and so can be asked how."""

DOMAIN = Domain(columns={"a": Integer(lower=0, upper=6), "b": Category(categories=["x", "y", "z"])})
LINE = Domain(columns={"a": Integer(lower=0, upper=20)})
BUDGET = Budget(epsilon=3.0, delta=1e-6)
ALIKE = {"private-evolution": {"steps": 1, "population": 20}}  # quick
HELD = 900


def calibrated(name: str, domain: Domain, **given: Any) -> Mechanism:
    return REGISTRY[name].calibrated(BUDGET, domain=domain, n=HELD, **ALIKE.get(name, {}), **given)


def released(mechanism: Mechanism, domain: Domain, seed: int = 0) -> Any:
    codes = np.random.default_rng(seed).integers(0, domain.size or 1, HELD) ** 2 % (domain.size or 1)
    cells, frequencies = np.unique(codes, return_counts=True)
    held = Counts(records=domain.unflat(cells), frequencies=frequencies)
    return mechanism.kernel(held, rng=seeded(seed))


def shares_of(mechanism: Mechanism, output: Any, rng: np.random.Generator) -> CellShares:
    shares = mechanism.reading(output, n=HELD).cell_shares(rng=rng)
    assert shares is not None
    return shares


def maker_of(shares: CellShares, size: int, count: int, rng: np.random.Generator) -> PartMaker:
    """Return what makes parts, as a worker gets it."""
    writer = PartWriter(Path(), None, {}, {}, {})
    maker = PartMaker(writer, DOMAIN, size, count, shares, rng.random(), public_key(rng))
    return cast(PartMaker, pickle.loads(pickle.dumps(maker)))


def in_parts(shares: CellShares, size: int, count: int, rng: np.random.Generator) -> list[Records]:
    """Return the records of each part."""
    maker = maker_of(shares, size, count, rng)
    return [Records.concatenate(maker.records(i, rng=keyed(maker.key, i))) for i in range(count)]


def whole(shares: CellShares, size: int, count: int, rng: np.random.Generator) -> Records:
    return Records.concatenate(in_parts(shares, size, count, rng))


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_who_has_cell_shares(name: str) -> None:
    """Who can be asked how to draw, which the documentation names, and nobody who draws in the private step."""
    domain = LINE if name == "signed-measure" else DOMAIN
    mechanism = calibrated(name, domain, size=10)
    shares = mechanism.reading(released(mechanism, domain), n=HELD).cell_shares(rng=seeded(5))
    assert (shares is not None) == (name in WITH_SHARES)


def test_the_documentation_names_them() -> None:
    page = Path(__file__).parents[2] / "docs" / "how-to" / "release-in-parts.md"
    (row,) = re.findall(r"^\| (.*) \| by any worker, in any order \|$", page.read_text("utf-8"), re.MULTILINE)
    assert set(re.findall("`([a-z-]+)`", row)) == set(WITH_SHARES)


# -- the law of the parts ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(set(WITH_SHARES) - {"marginals"}))
def test_stratified_parts_together_are_the_records_of_one_file(name: str) -> None:
    """With the same generator: exactly, since both begin with the same draw. In seven parts, or in one."""
    domain = LINE if name == "signed-measure" else DOMAIN
    mechanism = calibrated(name, domain)
    if isinstance(mechanism, HierarchicalHistogram):
        mechanism = replace(mechanism, levels=None)  # leaves are then cells
    shares = replace(shares_of(mechanism, released(mechanism, domain), seeded(5)), sampling="stratified")
    drawn = Records.concatenate(shares.draw(1000, rng=seeded(5)))
    parts = in_parts(shares, 1000, 7, seeded(5))
    assert sorted(map(len, parts)) == [142] + [143] * 6
    assert Counter(Records.concatenate(parts).rows()) == Counter(drawn.rows())
    assert Counter(whole(shares, 1000, 1, seeded(5)).rows()) == Counter(drawn.rows())
    strangers = [row for part in parts for row in whole(shares, len(part), 1, seeded(5)).rows()]
    assert Counter(strangers) != Counter(drawn.rows())  # a broken twin: each part has a sample of its own


@pytest.mark.parametrize("name", sorted(WITH_SHARES))
def test_an_independent_part_is_a_release_of_its_size(name: str) -> None:
    """Given its size a part is what one file of this size would be: it depends on no other part."""
    domain = LINE if name == "signed-measure" else DOMAIN
    mechanism = calibrated(name, domain, sampling="iid")
    shares = shares_of(mechanism, released(mechanism, domain), seeded(5))
    for number, size in ((0, 143), (6, 142)):
        part = Records.concatenate(shares.draw(1000, rng=keyed((1, 2), number), portion=Portion(number, 7)))
        file = Records.concatenate(shares.draw(size, rng=keyed((1, 2), number)))
        assert part.rows() == file.rows()


class Scripted:
    """A generator that draws what it is told, and knows how probable that was. The order within a chunk is kept."""

    def __init__(self, *, counts: Integers | None = None, uniform: float = 0.0) -> None:
        self.counts, self.uniform, self.probability = counts, uniform, 1.0

    def multinomial(self, size: int, shares: Floats) -> Integers:
        assert self.counts is not None
        self.probability *= float(multinomial.pmf(self.counts, size, shares))
        return self.counts

    def random(self) -> float:
        return self.uniform

    def permutation(self, count: int) -> Integers:
        return np.arange(count)

    def shuffle(self, cells: Integers) -> None:
        """Leave them as they are."""


FEW = Domain(columns={"a": Integer(lower=0, upper=2)})


def counts_once(weights: Floats, size: int, sampling: Any, rng: np.random.Generator) -> Integers:
    """Return how many records each cell gets of a whole release."""
    (counts,) = counts_by_chunk(weights, size, block=size, sampling=sampling, rng=rng)
    return counts


def few(sampling: Any) -> CellShares:
    return ListedShares(np.array([3.0, 1.0, 2.0]), sampling, FEW.unflat)


def counts_of(records: list[Records]) -> tuple[int, ...]:
    codes = np.concatenate([chunk.columns[0] for chunk in records])
    return tuple(np.bincount(codes, minlength=3).tolist())


def counts_in(sampling: Any, portion: Portion, **script: Any) -> tuple[tuple[int, ...], float]:
    """Return the counts of a part of four records, and their probability."""
    rng: Any = Scripted(**script)
    return counts_of(list(few(sampling).draw(4, rng=rng, portion=portion))), rng.probability


def test_independent_parts_have_the_law_of_one_draw() -> None:
    """Enumerated. A twin whose parts have one key, and so the same records, has another law."""
    law: Counter[tuple[int, ...]] = Counter()
    twin: Counter[tuple[int, ...]] = Counter()
    for one, other in product(compositions(2, 3), repeat=2):
        (first, p), (second, q) = (
            counts_in("iid", Portion(i, 2), counts=counts) for i, counts in enumerate((one, other))
        )
        law[tuple(np.add(first, second).tolist())] += p * q  # type: ignore[assignment]
        twin[tuple(np.add(first, first).tolist())] += p * q  # type: ignore[assignment]
    expected = {
        tuple(counts.tolist()): float(multinomial.pmf(counts, 4, [1 / 2, 1 / 6, 1 / 3]))
        for counts in compositions(4, 3)
    }
    assert law == pytest.approx(expected)
    assert dict(twin) != pytest.approx(expected)


def test_stratified_parts_are_one_stratified_sample() -> None:
    """Over all first points, midpoints of a grid on which every cell ends: together, on average, and by part."""
    total = np.zeros(3)
    for uniform in ((np.arange(30) + 0.5) / 30).tolist():
        sample = counts_in("stratified", WHOLE, uniform=uniform)[0]
        parts = [counts_in("stratified", Portion(number, 2, uniform))[0] for number in range(2)]
        assert np.add(*parts).tolist() == list(sample)
        for part in parts:
            assert np.abs(np.cumsum(part) - np.cumsum(sample) / 2).max() < 1.0
        total += sample
    assert total / 30 == pytest.approx([2.0, 2 / 3, 4 / 3])


def test_a_cell_has_its_share_of_a_part_rounded_at_random() -> None:
    """Of a cell with 9.1 of 91 records, part 2 of 7 has 1.3: 2 with probability 0.3.

    1e-6 to fail this law; 1e-6 to pass one at total variation 0.1. Two twins fail: one whose parts have the next
    records along the cells, and one whose points begin at the same place each time.
    """
    shares = ListedShares(np.array([0.5, 0.1, 0.4]), "stratified", FEW.unflat)
    count, rng = sample_size_for_distance(2, 0.1), seeded(8)

    def seen(drawn: Callable[[], Integers]) -> list[int]:
        codes = [int((drawn() == 1).sum()) for _ in range(count)]
        return [codes.count(number) for number in (1, 2)] if {*codes} <= {1, 2} else [0, count]

    def part(**changed: Any) -> Integers:
        (records,) = replace(maker_of(shares, 91, 7, rng), **changed).records(2, rng=rng)
        return np.asarray(records.columns[0])

    assert_law(seen(part), [0.7, 0.3], distance=0.1)
    for twin in (
        lambda: np.sort(next(draw_cells(shares.weights, 91, sampling="stratified", rng=rng)))[26:39],
        lambda: part(key=(0, 0)),
    ):
        with pytest.raises(AssertionError, match="total variation"):
            assert_law(seen(twin), [0.7, 0.3], distance=0.1)


# -- models, labels ---------------------------------------------------------------------------------------------------


class Unrelated(StratumShares):
    """A broken twin: each block of columns takes the classes of other records."""

    def records_in(self, items: Integers, *, rng: np.random.Generator) -> Records:
        drawn = {}
        for block in self.by_class:
            drawn |= self.model.records(rng.permutation(items), (block,), stratified=True, rng=rng)
        return Records(columns=tuple(drawn[i] for i in range(len(drawn))))


def test_records_of_a_model_have_its_pairs() -> None:
    """Of 60,000 records in seven parts, a pair of cells is seen as often as the model says of the strata drawn.

    By Hoeffding within 660 records, with error 1e-6 at most, had the records been independent given their classes;
    stratified ones scatter less. The twin, whose columns do not know each other, is off by thousands.
    """
    domain = Domain(columns={name: Integer(lower=0, upper=2) for name in "ab"})
    alike = Counts(records=domain.unflat(np.array([0, 4, 8])), frequencies=np.array([300, 300, 300]))
    mechanism = calibrated("marginals", domain)
    shares = shares_of(mechanism, mechanism.kernel(alike, rng=seeded(1)), seeded(2))
    assert isinstance(shares, StratumShares)
    model = shares.model
    counts = counts_once(shares.weights, 60_000, "stratified", seeded(3))
    classes = np.bincount(np.arange(len(counts)) % len(model.shares), weights=counts, minlength=len(model.shares))
    assert counts.sum() == 60_000
    assert np.abs(classes - 60_000 * model.shares).max() < 1.0 + 1e-6  # stratified in the whole

    def equal(made: CellShares) -> int:
        a, b = whole(made, 60_000, 7, seeded(3)).columns
        return int((a == b).sum())

    def inside(column: int) -> Any:
        (block,) = (block for block in model.blocks if column in block.columns)
        found = np.zeros((3, len(model.shares)))
        np.add.at(found, block.codes[block.columns.index(column)], block.inside)
        return found

    expected = float((inside(0) * inside(1)).sum(axis=0) @ classes)
    assert len(model.blocks) == 2
    assert abs(equal(shares) - expected) < 660
    assert expected > 40_000
    assert abs(equal(Unrelated(**vars(shares))) - expected) > 6600


def test_a_model_keeps_totals_and_new_labels_apart() -> None:
    """Published totals hold to within a record in the whole, however many parts; new labels differ between parts."""
    domain = Domain.from_toml(
        """
        [columns]
        a = {type = "category", categories = ["n", "s"]}
        b = {type = "category", categories = ["x", "y", "z"]}
        word = {type = "open_labels"}

        [[totals]]
        column = "a"
        source = "a census"
        counts = {n = 100, s = 300}
        """
    )
    rng = np.random.default_rng(4)
    words = np.array([f"w{i}" for i in np.where(rng.random(HELD) < 0.5, 1, rng.integers(0, 500, HELD))], dtype=object)
    held = Counts(
        records=Records(columns=(rng.integers(0, 2, HELD), rng.integers(0, 3, HELD), words)),
        frequencies=np.ones(HELD, dtype=np.int64),
    )
    mechanism = calibrated("marginals", domain)
    columns = whole(shares_of(mechanism, mechanism.kernel(held, rng=seeded(1)), seeded(2)), 5000, 7, seeded(3)).columns
    assert abs(int((columns[0] == 0).sum()) - 1250) <= 1
    made = [word for word in columns[2].tolist() if word not in set(words)]
    assert len(made) > 100
    assert len(set(made)) == len(made)


def test_an_evolution_without_a_step_has_no_cell_shares() -> None:
    evolution = PrivateEvolution(domain=DOMAIN, records=HELD, scale=1.0, steps=0, population=20)
    assert evolution.reading([], n=HELD).cell_shares(rng=seeded(1)) is None


def test_who_draws_otherwise_has_no_inherited_shares() -> None:
    """A reading of somebody's own that overrides ``draw`` alone would else release other records in parts."""
    with pytest.raises(TypeError, match="drawn from their shares"):

        class Last(NoisyReading):
            def draw(self, size: int, *, rng: np.random.Generator) -> Any:
                return reversed([*super().draw(size, rng=rng)])

    class Own(NoisyReading):
        def cell_shares(self, *, rng: np.random.Generator) -> CellShares:
            return replace(super().cell_shares(rng=rng), weights=np.eye(21)[20])

    mechanism = calibrated("perturbed-histogram", DOMAIN)
    reading = Own(mechanism, released(mechanism, DOMAIN))  # type: ignore[arg-type]
    parts = whole(reading.cell_shares(rng=seeded(1)), 9, 2, seeded(1))
    assert parts.rows() == Records.concatenate(reading.draw(9, rng=seeded(1))).rows() == [(6, 2)] * 9


def test_independent_draws_of_many_blocks_are_multinomial() -> None:
    """Over seeds, the count of one cell: 1e-6 to fail the law; 1e-6 to pass one at total variation 0.15."""
    size, share = 40, 0.1
    outcomes = [*range(2, 7)]  # the rest in one
    count = sample_size_for_distance(len(outcomes) + 1, 0.15)
    rng = seeded(3)

    def drawn_once(sampling: Any) -> int:
        return int(counts_once(np.array([share, 1 - share]), size, sampling, rng)[0])

    drawn = [drawn_once("iid") for _ in range(count)]
    law = binom.pmf(outcomes, size, share)
    seen = [drawn.count(one) for one in outcomes]
    assert_law([*seen, count - sum(seen)], [*law, 1 - law.sum()], distance=0.15)
    systematic = drawn_once("stratified")
    with pytest.raises(AssertionError, match="total variation"):
        assert_law([count * (one == systematic) for one in outcomes] + [0], [*law, 1 - law.sum()], distance=0.15)


def test_new_labels_differ_between_parts() -> None:
    """Where no label is kept, each record has a new one."""
    domain = Domain(columns={"word": OpenLabels(), "b": Category(categories=["x", "y"], base={"weights": [1, 3]})})
    mechanism = StabilityHistogram(domain=domain, scale=1.0, threshold=50)
    nothing = Counts(records=domain.draw_base(0, seeded(0)), frequencies=np.zeros(0, dtype=np.int64))
    words, codes = whole(shares_of(mechanism, nothing, seeded(1)), 4000, 7, seeded(2)).columns
    assert len(set(words.tolist())) == 4000
    assert_law(np.bincount(codes.astype(int)), [0.25, 0.75], distance=0.1)
