"""Records by position: of every mechanism that has them, they are the records that it draws one after the other."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from discreet._core.arrays import Integers
from discreet._core.random import keyed, seeded
from discreet.domain import Category, Counts, Domain, Integer, OpenLabels, Records
from discreet.mechanisms import (
    REGISTRY,
    HierarchicalHistogram,
    Mechanism,
    PerturbedHistogram,
    PrivateEvolution,
    StabilityHistogram,
)
from discreet.mechanisms.base import parameter_names
from discreet.mechanisms.latent_classes import FromStrata
from discreet.mechanisms.noisy_counts import NoisyReading
from discreet.mechanisms.reading import BLOCK, CellShares, Expansion, draw_counts
from discreet.privacy import Budget
from discreet.testing import assert_law
from discreet.testing.statistics import sample_size_for_distance

BY_POSITION = [
    "gaussian-smoothed-histogram",
    "hierarchical-histogram",
    "laplace-projection-sampler",
    "marginals",
    "perturbed-histogram",
    "private-evolution",
    "signed-measure",
    "stability-histogram",
]
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


def expansion_of(mechanism: Mechanism, output: Any, size: int, rng: np.random.Generator) -> Expansion:
    shares = mechanism.reading(output, n=HELD).cell_shares(rng=rng)
    assert shares is not None
    return Expansion.drawn(shares, size, rng=rng)


def whole(expansion: Expansion, parts: int = 1) -> Records:
    """Return all records, made in several parts."""
    order, ends = expansion.order(), [expansion.size * i // parts for i in range(parts + 1)]
    return Records.concatenate(
        expansion.records(a, b, order=order, rng=keyed(expansion.key, i + 1)) for i, (a, b) in enumerate(pairwise(ends))
    )


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_who_has_records_by_position(name: str) -> None:
    """What is named in the documentation, and nobody who draws records in the private step."""
    domain = LINE if name == "signed-measure" else DOMAIN
    mechanism = calibrated(name, domain, size=10)
    shares = mechanism.reading(released(mechanism, domain), n=HELD).cell_shares(rng=seeded(5))
    assert (shares is not None) == (name in BY_POSITION)
    assert mechanism.contents(HELD).folders == REGISTRY[name].traits.folders == (name in {*BY_POSITION} - {"marginals"})


@pytest.mark.parametrize("sampling", ["stratified", "iid"])
@pytest.mark.parametrize("name", sorted(set(BY_POSITION) - {"marginals"}))
def test_records_by_position_are_those_one_after_the_other(name: str, sampling: str) -> None:
    """With the same generator: exactly, since both begin with the same draws. In seven parts, or in one."""
    domain = LINE if name == "signed-measure" else DOMAIN
    mechanism = calibrated(
        name, domain, **({"sampling": sampling} if "sampling" in parameter_names(REGISTRY[name]) else {})
    )
    if isinstance(mechanism, HierarchicalHistogram):
        mechanism = replace(mechanism, levels=None)  # leaves are then cells
    output = released(mechanism, domain)
    drawn = Records.concatenate(mechanism.reading(output, n=HELD).draw(1000, rng=seeded(5)))
    expansion = expansion_of(mechanism, output, 1000, seeded(5))
    made = whole(expansion, 7)
    assert Counter(made.rows()) == Counter(drawn.rows())
    assert made.rows() == whole(pickle.loads(pickle.dumps(expansion)), 7).rows()  # as a worker gets it
    restarted = Records.concatenate(  # a broken twin: each part draws its own counts
        whole(expansion_of(mechanism, output, size, seeded(5))) for size in (142, 143, 143, 143, 143, 143, 143)
    )
    assert Counter(restarted.rows()) != Counter(drawn.rows())


class Unrelated(FromStrata):
    """A broken twin: each block of columns takes the classes of other records."""

    def chunk(self, strata: Integers, rng: np.random.Generator) -> Records:
        apart = [replace(self, blocks=(block,)) for block in self.blocks]
        drawn = {}
        for one in apart:
            drawn |= one.model.records(rng.permutation(strata), stratified=True, rng=rng, blocks=one.blocks)
        return Records(columns=tuple(drawn[i] for i in range(len(drawn))))


def test_records_of_a_model_have_its_pairs() -> None:
    """Of 60,000 records in seven parts, a pair of cells is seen as often as the model says of the strata drawn.

    By Hoeffding within 660 records, with error 1e-6 at most, had the records been independent given their classes;
    stratified ones scatter less. The twin, whose columns do not know each other, is off by thousands.
    """
    domain = Domain(columns={name: Integer(lower=0, upper=2) for name in "ab"})
    alike = Counts(records=domain.unflat(np.array([0, 4, 8])), frequencies=np.array([300, 300, 300]))
    mechanism = calibrated("marginals", domain)
    expansion = expansion_of(mechanism, mechanism.kernel(alike, rng=seeded(1)), 60_000, seeded(2))
    model, counts = expansion.made.model, np.diff(expansion.ends, prepend=0)
    classes = np.bincount(expansion.items % len(model.shares), weights=counts, minlength=len(model.shares))
    assert counts.sum() == 60_000
    assert np.abs(classes - 60_000 * model.shares).max() < 1.0 + 1e-6  # stratified in the whole

    def equal(made: Any) -> int:
        a, b = whole(replace(expansion, made=made), 7).columns
        return int((a == b).sum())

    def inside(column: int) -> Any:
        (block,) = (block for block in model.blocks if column in block.columns)
        found = np.zeros((3, len(model.shares)))
        np.add.at(found, block.codes[block.columns.index(column)], block.inside)
        return found

    expected = float((inside(0) * inside(1)).sum(axis=0) @ classes)
    assert len(model.blocks) == 2
    assert abs(equal(expansion.made) - expected) < 660
    assert expected > 40_000
    broken = Unrelated(model, (), model.blocks, True)
    assert abs(equal(broken) - expected) > 6600


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
    expansion = expansion_of(mechanism, mechanism.kernel(held, rng=seeded(1)), 5000, seeded(2))
    columns = whole(expansion, 7).columns
    assert abs(int((columns[0] == 0).sum()) - 1250) <= 1
    made = [word for word in columns[2].tolist() if word not in set(words)]
    assert len(made) > 100
    assert len(set(made)) == len(made)


def test_an_evolution_without_a_step_fills_no_folders() -> None:
    evolution = PrivateEvolution(domain=DOMAIN, records=HELD, scale=1.0, steps=0, population=20)
    assert not evolution.contents(HELD).folders
    assert evolution.reading([], n=HELD).cell_shares(rng=seeded(1)) is None


def test_who_draws_otherwise_has_no_inherited_shares() -> None:
    """A reading of somebody's own that overrides ``draw`` alone would else release other records in parts."""
    with pytest.raises(TypeError, match="drawn from their shares"):

        class Last(NoisyReading):
            def draw(self, size: int, *, rng: np.random.Generator) -> Any:
                return reversed([*super().draw(size, rng=rng)])

    class Own(NoisyReading):
        def cell_shares(self, *, rng: np.random.Generator) -> CellShares:
            return super().cell_shares(rng=rng)._replace(weights=np.eye(21)[20])

    mechanism = calibrated("perturbed-histogram", DOMAIN)
    reading = Own(mechanism, released(mechanism, DOMAIN))  # type: ignore[arg-type]
    whole_again = whole(Expansion.drawn(reading.cell_shares(rng=seeded(1)), 9, rng=seeded(1)))
    assert whole_again.rows() == Records.concatenate(reading.draw(9, rng=seeded(1))).rows() == [(6, 2)] * 9


def test_counts_of_systematic_draws_are_shares_to_within_a_record() -> None:
    weights = np.array([0.0, 3.0, 1.0, 0.0, 1e-9, 5.0])
    for size in (1, 10, BLOCK + 1, 10**9, 10**12):
        cells, counts = draw_counts(weights, size, sampling="stratified", rng=seeded(size % 97))
        assert counts.sum() == size
        assert (counts > 0).all()
        expected = size * weights / weights.sum()
        found = np.zeros(6)
        found[cells] = counts
        assert np.abs(np.cumsum(found) - np.cumsum(expected)).max() < 1.0 + 1e-3


def test_independent_draws_of_many_blocks_are_multinomial() -> None:
    """Over seeds, the count of one cell: 1e-6 to fail the law; 1e-6 to pass one at total variation 0.15."""
    size, share = 40, 0.1
    outcomes = [*range(2, 7)]  # the rest in one
    count = sample_size_for_distance(len(outcomes) + 1, 0.15)
    rng = seeded(3)

    def drawn_once(sampling: Any) -> int:
        cells, counts = draw_counts(np.array([share, 1 - share]), size, sampling=sampling, rng=rng)
        return int(counts[cells == 0].sum())

    drawn = [drawn_once("iid") for _ in range(count)]
    law = binom.pmf(outcomes, size, share)
    seen = [drawn.count(one) for one in outcomes]
    assert_law([*seen, count - sum(seen)], [*law, 1 - law.sum()], distance=0.15)
    systematic = drawn_once("stratified")
    with pytest.raises(AssertionError, match="total variation"):
        assert_law([count * (one == systematic) for one in outcomes] + [0], [*law, 1 - law.sum()], distance=0.15)


def uneven() -> HierarchicalHistogram:
    """A tree with leaves of several codes: 21 in blocks of 2 and 3."""
    return HierarchicalHistogram(domain=LINE, records=HELD, scale=1.0, levels=(1, 2, 3))


def test_leaves_are_divided_among_codes_by_the_law_of_their_records() -> None:
    """1e-6 to fail uniform codes; 1e-6 to pass a law at total variation 0.1, as where a leaf has one code."""
    mechanism, size = uneven(), 60_000
    output = released(mechanism, LINE)
    expansion = expansion_of(mechanism, output, size, seeded(1))
    parts = expansion.split(0, 21, rng=seeded(2))
    assert sum(one.size for one in parts) == size
    for code, one in enumerate(parts):
        if one.size:
            assert set(whole(one, 2).columns[0].tolist()) == {code}
    tree = mechanism.projector.tree
    edges = tree.edges(tree.depth)[0]
    block = int(np.argmax(np.diff(edges)))
    codes = range(int(edges[block]), int(edges[block + 1]))
    seen = np.array([parts[code].size for code in codes])
    law = np.full(len(codes), 1.0 / len(codes))
    assert seen.sum() >= sample_size_for_distance(len(codes), 0.1)
    assert_law(seen, law, distance=0.1)
    with pytest.raises(AssertionError, match="total variation"):
        assert_law([seen.sum(), *[0] * (len(codes) - 1)], law, distance=0.1)


def test_a_code_of_a_product_keeps_its_counts() -> None:
    mechanism = PerturbedHistogram(domain=DOMAIN, records=HELD, scale=1.0, noise="laplace")
    expansion = expansion_of(mechanism, released(mechanism, DOMAIN), 5000, seeded(1))
    parts = expansion.split(1, 3, rng=seeded(2))
    assert Counter(row for one in parts for row in whole(one, 3).rows()) == Counter(whole(expansion).rows())


def test_new_labels_differ_between_parts() -> None:
    """Where no label is kept, each record has a new one, numbered by its position: also divided by another column."""
    domain = Domain(columns={"word": OpenLabels(), "b": Category(categories=["x", "y"], base={"weights": [1, 3]})})
    mechanism = StabilityHistogram(domain=domain, scale=1.0, threshold=50)
    nothing = Counts(records=domain.draw_base(0, seeded(0)), frequencies=np.zeros(0, dtype=np.int64))
    expansion = expansion_of(mechanism, nothing, 4000, seeded(1))
    words = whole(expansion, 7).columns[0].tolist()
    assert len(set(words)) == 4000
    parts = expansion.split(1, 2, rng=seeded(2))
    words = [word for one in parts for word in whole(one, 3).columns[0].tolist()]
    assert len(set(words)) == 4000
    assert_law([one.size for one in parts], [0.25, 0.75], distance=0.1)
