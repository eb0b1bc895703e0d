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

from discreet._core.random import keyed, seeded
from discreet.domain import Category, Counts, Domain, Integer, OpenLabels, Records
from discreet.mechanisms import REGISTRY, HierarchicalHistogram, Mechanism, PerturbedHistogram, StabilityHistogram
from discreet.mechanisms._base import PrivateStep
from discreet.mechanisms._draws import BLOCK, draw_counts
from discreet.mechanisms._expansion import Expansion
from discreet.privacy import Budget
from discreet.testing import assert_law
from discreet.testing._statistics import sample_size_for_distance

BY_POSITION = sorted(name for name, kind in REGISTRY.items() if kind.expansion is not PrivateStep.expansion)
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


def whole(expansion: Expansion, parts: int = 1) -> Records:
    """Return all records, made in several parts."""
    order, ends = expansion.order(), [expansion.size * i // parts for i in range(parts + 1)]
    return Records.concatenate(
        expansion.records(a, b, order=order, rng=keyed(expansion.key, i + 1)) for i, (a, b) in enumerate(pairwise(ends))
    )


def test_who_has_records_by_position() -> None:
    """What is named in the documentation, and nobody who draws records in the private step."""
    assert set(BY_POSITION) == {
        "gaussian-smoothed-histogram",
        "hierarchical-histogram",
        "laplace-projection-sampler",
        "perturbed-histogram",
        "private-evolution",
        "signed-measure",
        "stability-histogram",
    }


@pytest.mark.parametrize("sampling", ["stratified", "iid"])
@pytest.mark.parametrize("name", BY_POSITION)
def test_records_by_position_are_those_one_after_the_other(name: str, sampling: str) -> None:
    """With the same generator: exactly, since both begin with the same draws. In seven parts, or in one."""
    domain = LINE if name == "signed-measure" else DOMAIN
    mechanism = calibrated(name, domain, **({"sampling": sampling} if "sampling" in REGISTRY[name].known() else {}))
    if isinstance(mechanism, HierarchicalHistogram):
        mechanism = replace(mechanism, levels=None)  # leaves are then cells
    output = released(mechanism, domain)
    drawn = Records.concatenate(mechanism.finish(output, size=1000, rng=seeded(5)))
    expansion = mechanism.expansion(output, size=1000, rng=seeded(5))
    assert mechanism.by_position
    assert expansion is not None
    made = whole(expansion, 7)
    assert Counter(made.rows()) == Counter(drawn.rows())
    assert made.rows() == whole(pickle.loads(pickle.dumps(expansion)), 7).rows()  # as a worker gets it
    restarted = Records.concatenate(  # a broken twin: each part draws its own counts
        whole(mechanism.expansion(output, size=size, rng=seeded(5)))  # type: ignore[arg-type]
        for size in (142, 143, 143, 143, 143, 143, 143)
    )
    assert Counter(restarted.rows()) != Counter(drawn.rows())


@pytest.mark.parametrize("name", sorted(set(REGISTRY) - set(BY_POSITION)))
def test_the_others_say_so(name: str) -> None:
    assert REGISTRY[name].expansion is PrivateStep.expansion


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
    expansion = mechanism.expansion(output, size=size, rng=seeded(1))
    parts = expansion.split(0, 21, rng=seeded(2))
    assert sum(one.size for one in parts) == size
    for code, one in enumerate(parts):
        if one.size:
            assert set(whole(one, 2).columns[0].tolist()) == {code}
    tree = mechanism.reading.tree
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
    expansion = mechanism.expansion(released(mechanism, DOMAIN), size=5000, rng=seeded(1))
    parts = expansion.split(1, 3, rng=seeded(2))
    assert Counter(row for one in parts for row in whole(one, 3).rows()) == Counter(whole(expansion).rows())


def test_new_labels_differ_between_parts() -> None:
    """Where no label is kept, each record has a new one, numbered by its position: also divided by another column."""
    domain = Domain(columns={"word": OpenLabels(), "b": Category(categories=["x", "y"], base={"weights": [1, 3]})})
    mechanism = StabilityHistogram(domain=domain, scale=1.0, threshold=50)
    nothing = Counts(records=domain.draw_base(0, seeded(0)), frequencies=np.zeros(0, dtype=np.int64))
    expansion = mechanism.expansion(nothing, size=4000, rng=seeded(1))
    words = whole(expansion, 7).columns[0].tolist()
    assert len(set(words)) == 4000
    parts = expansion.split(1, 2, rng=seeded(2))
    words = [word for one in parts for word in whole(one, 3).columns[0].tolist()]
    assert len(set(words)) == 4000
    assert_law([one.size for one in parts], [0.25, 0.75], distance=0.1)
