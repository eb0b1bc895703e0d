"""The contract suite over every mechanism in the registry."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from discreet import Budget, Watch, release
from discreet._core.random import seeded
from discreet.domain import Counts, Domain, Integer, Numeric, Records
from discreet.mechanisms import (
    REGISTRY,
    DirichletMultinomial,
    GaussianSmoothedHistogram,
    LaplaceProjectionSampler,
    Mechanism,
    PerturbedHistogram,
    PitmanYor,
    RevealOrObscure,
    SignedMeasure,
    SmoothedHistogram,
    StabilisedPitmanYor,
    StabilityHistogram,
)
from discreet.mechanisms.reading import READING_ONLY
from discreet.planner.options import private_step
from discreet.testing import check_guarantee, check_kernel_follows_law, check_law_sums_to_one, check_twin_is_caught
from discreet.testing.behaviour import table_of
from discreet.testing.contract import CHECKS
from discreet.testing.facts import small_mechanism, variants

STEP = 2.0**-32
VALUES = np.array([0.125, 0.25, 0.5, 0.75])


def cells(k: int, weights: list[int] | None = None) -> Domain:
    base = None if weights is None else {"weights": weights}
    return Domain(columns={"cell": Integer(lower=0, upper=k - 1, base=base)})


UNIT = Domain(columns={"x": Numeric(lower=0.0, upper=1.0)})


class DoubleMass:
    """A broken twin: every confidential record weighs two."""

    def kernel(self, x: Counts, *, rng: np.random.Generator) -> Iterator[Records]:
        return super().kernel(doubled(x), rng=rng)  # type: ignore[misc,no-any-return]

    def log_prob(self, y: Records, x: Counts) -> float:
        return super().log_prob(y, doubled(x))  # type: ignore[misc,no-any-return]


class DoubleMassCells(DoubleMass, DirichletMultinomial):
    """The twin on cells."""


class DoubleMassUrn(DoubleMass, PitmanYor):
    """The twin on values."""


def doubled(x: Counts) -> Counts:
    return Counts(records=x.records, frequencies=2 * x.frequencies)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A mechanism on a small universe, the parameter that tilts its law, and broken twins of it."""

    mechanism: Mechanism
    tilted: str
    table: Counts  # for the sampling test, where 10 % of the parameter matter
    size: int  # for the sampling test
    n: int  # for the enumeration of neighbours
    twins: dict[str, Mechanism] = field(default_factory=dict)
    values: Records | None = None
    groups: tuple[int, ...] = (1, 2, 3)

    def sampled(self, factor: float = 1.0) -> Mechanism:
        mechanism: Any = self.mechanism
        facts: dict[str, Any] = {self.tilted: getattr(mechanism, self.tilted) * factor}
        return resized(replace(mechanism, **facts), self.size)

    def tilts(self) -> list[Mechanism]:
        return [self.sampled(factor) for factor in (0.9, 1.1)]


def resized(mechanism: Any, size: int) -> Mechanism:
    return replace(mechanism, size=size) if hasattr(mechanism, "size") else mechanism


def case(mechanism: Any, tilted: str, table: list[Any], size: int, n: int, twins: dict[str, Any], **rest: Any) -> Case:
    return Case(mechanism=mechanism, tilted=tilted, table=Counts.of_cells(table), size=size, n=n, twins=twins, **rest)


def urn(tilted: str, held: int, **parameters: Any) -> Case:
    mechanism = PitmanYor(domain=UNIT, **parameters)
    twins = {
        "one more draw": replace(mechanism, size=mechanism.size + 1),
        "double mass": DoubleMassUrn(domain=UNIT, **parameters),
    }
    return case(mechanism, tilted, [0.25] * held, 8, 2, twins, values=Records(columns=(VALUES,)), groups=(1, 2))


def dirichlet(domain: Domain, prior: float, held: int) -> Case:
    mechanism = DirichletMultinomial(domain=domain, size=4, prior=prior)
    twins = {
        "one more draw": replace(mechanism, size=5),
        "double mass": DoubleMassCells(domain=domain, size=4, prior=prior),
        "prior one step too small": replace(mechanism, prior=prior - 2.0**-20),
    }
    return case(mechanism, "prior", [0] * held, 16, 3, twins)


def smoothed(k: int, kind: Any = SmoothedHistogram) -> Case:
    mechanism = kind(domain=cells(k), size=6, mixing=0.75)
    twins = {
        "one more draw": replace(mechanism, size=7),
        "mixing one step too small": replace(mechanism, mixing=0.75 - STEP),
    }
    return case(mechanism, "mixing", [0], 16, 3, twins)


def noisy(kind: Any, scale: float, **facts: Any) -> Case:
    mechanism = kind(domain=cells(2), records=2, scale=scale, **facts)
    twins = {
        "half the noise": replace(mechanism, scale=scale / 2),
        "a little less noise": replace(mechanism, scale=scale * 0.999),
    }
    return case(mechanism, "scale", [0, 1], 0, 2, twins, groups=(1, 2))


def thresholded(kind: Any, **facts: Any) -> Case:
    mechanism = kind(domain=cells(2), scale=0.5, threshold=3, **facts)
    twins = {
        "threshold one too low": replace(mechanism, threshold=2),
        "half the noise": replace(mechanism, scale=0.25),
        "a little less noise": replace(mechanism, scale=0.4999),
    }
    return case(mechanism, "scale", [0, 0, 1, 1, 1], 0, 5, twins)


CASES: dict[str, list[Case]] = {
    "dirichlet-process": [
        urn("strength", 8, size=3, strength=8.0),
        urn("strength", 4, size=2, strength=4.0, sampler="mixing"),
    ],
    "pitman-yor": [
        urn("discount", 1, size=3, strength=1.0, discount=0.5),
        urn("discount", 1, size=3, strength=-0.25, discount=0.5),
        urn("discount", 2, size=3, strength=2.0, discount=0.75, sampler="mixing"),
    ],
    "dirichlet-multinomial": [
        dirichlet(cells(3), 16.0, 48),
        dirichlet(cells(4, [1, 2, 1, 2]), 4.0, 16),
        dirichlet(cells(2), 8.0, 16),
    ],
    "smoothed-histogram": [smoothed(3), smoothed(4)],
    "reveal-or-obscure": [smoothed(3, RevealOrObscure)],
    "perturbed-histogram": [noisy(PerturbedHistogram, 0.75), noisy(PerturbedHistogram, 1.25, noise="gaussian")],
    "laplace-projection-sampler": [noisy(LaplaceProjectionSampler, 0.75)],
    "signed-measure": [noisy(SignedMeasure, 0.75, noise="laplace"), noisy(SignedMeasure, 1.25)],
    "stability-histogram": [thresholded(StabilityHistogram)],
    "stabilised-pitman-yor": [thresholded(StabilisedPitmanYor, records=5)],
    "gaussian-smoothed-histogram": [noisy(GaussianSmoothedHistogram, 1.25)],
}
EACH = [pytest.param(item, id=f"{name}-{i}") for name, items in CASES.items() for i, item in enumerate(items)]
TWINS = [
    pytest.param(item, twin, id=f"{name}-{i}-{what}")
    for name, items in CASES.items()
    for i, item in enumerate(items)
    for what, twin in item.twins.items()
]


RECORDS = {"check_exposure"}  # records are released, not noisy counts
UNSEEN = {
    "dirichlet-process": {"check_likelihood", *RECORDS},
    "pitman-yor": {"check_likelihood", *RECORDS},
    "dirichlet-multinomial": RECORDS,
    "smoothed-histogram": RECORDS,
    "reveal-or-obscure": RECORDS,
    "data-specific-reveal-or-obscure": RECORDS,
    "subsampled-randomised-response": RECORDS,
    "hierarchical-histogram": {"check_likelihood"},
    "exponential-histogram": RECORDS,
    "urn-histogram": RECORDS,
    "marginals": {"check_likelihood", "check_law", "check_promise", *RECORDS},
    "private-evolution": {"check_likelihood", "check_law", "check_promise", *RECORDS},
}
"""Checks that have nothing to look at, by mechanism."""


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("kind", dict.fromkeys(REGISTRY.values()), ids=lambda kind: kind.name)
def test_every_registered_mechanism(kind: type[Mechanism], check: Callable[[type[Mechanism]], object]) -> None:
    """Facts, calibration, stated share, predictions, estimates and non-interference, from the class alone.

    Three of them are simulations: a right mechanism fails each with probability at most 1e-6, 5e-5 in all.
    """
    assert (check(kind) is False) == (check.__name__ in UNSEEN.get(kind.name, ()))


def test_every_registered_mechanism_has_a_case_here_or_a_contract_test_of_its_own() -> None:
    for name in set(REGISTRY) - set(CASES):
        text = (Path(__file__).parents[1] / "law" / f"test_{name.replace('-', '_')}.py").read_text(encoding="utf-8")
        for check in (check_guarantee, check_kernel_follows_law, check_law_sums_to_one, check_twin_is_caught):
            assert re.search(rf"^ +{check.__name__}\(", text, re.MULTILINE), f"{name}: {check.__name__}"
    for name, items in CASES.items():
        assert all(isinstance(item.mechanism, REGISTRY[name]) for item in items)


@pytest.mark.parametrize("item", EACH)
def test_law_sums_to_one(item: Case) -> None:
    check_law_sums_to_one(item.mechanism, item.table)


SAMPLED = [  # what check_law has not: values without atoms, uneven weights, more cells, the other noise
    *CASES["dirichlet-process"], *CASES["pitman-yor"], CASES["dirichlet-multinomial"][1],
    CASES["smoothed-histogram"][1], CASES["perturbed-histogram"][1], CASES["signed-measure"][0],
]  # fmt: skip


@pytest.mark.parametrize("item", SAMPLED)
def test_kernel_follows_its_law_and_neither_tilted_one(item: Case) -> None:
    # False-fail rate 3e-6 in all; 1e-6 to miss a parameter off by 10 %, or any law at total variation 0.25.
    check_kernel_follows_law(item.sampled(), item.table, alternatives=item.tilts(), distance=0.25, seed=11)


@pytest.mark.parametrize("name", ["pitman-yor", "smoothed-histogram", "perturbed-histogram", "stability-histogram"])
def test_a_tilted_kernel_is_rejected_on_both_sides(name: str) -> None:
    item = CASES[name][0]
    for kernel in item.tilts():
        with pytest.raises(AssertionError):
            check_kernel_follows_law(item.sampled(), item.table, alternatives=item.tilts(), kernel=kernel, seed=12)


@pytest.mark.parametrize(
    ("item", "group"),
    [
        pytest.param(item, group, id=f"{name}-{i}-{group}")
        for name, items in CASES.items()
        for i, item in enumerate(items)
        for group in item.groups
    ],
)
def test_no_neighbours_exceed_the_guarantee_and_some_attain_an_exact_one(item: Case, group: int) -> None:
    check_guarantee(item.mechanism, n=item.n, values=item.values, group=group)


@pytest.mark.parametrize(("item", "twin"), TWINS)
def test_a_broken_twin_is_caught(item: Case, twin: Mechanism) -> None:
    if item.mechanism.guarantee(n=item.n).exact:
        check_twin_is_caught(item.mechanism, twin, n=item.n, values=item.values)
    else:  # an upper bound leaves room: the kernel's law gives the twin away
        with pytest.raises(AssertionError):
            check_kernel_follows_law(item.mechanism, item.table, alternatives=[], kernel=twin, distance=0.15, seed=13)


@pytest.mark.parametrize("name", [None, *REGISTRY])
def test_the_main_job_says_the_same_of_every_table_of_one_size(name: str | None) -> None:
    """All that ``release`` announces, certifies and keeps about the run, but the drawn values and the time."""

    def public(values: list[int]) -> dict[str, Any]:
        said: list[str] = []
        asked = {"size": 6, "mechanism": name, "seed": 1, "accept": {"empirical", "poor-utility"}}
        table, watch = pl.DataFrame({"cell": values}), Watch(announce=said.append)
        made = release(table, cells(4), Budget(epsilon=0.5, delta=0.01), watch=watch, **asked)
        facts = {key: value for key, value in made.certificate.to_dict().items() if key != "created"}
        random = {"outcome", "share_from_data"} | ({"tables"} if name == "urn-histogram" else set())
        facts["released"] = {key: value for key, value in facts["released"].items() if key not in random}
        return {"said": said, "info": made.info, "facts": facts, "types": dict(made.records.schema)}

    first, *others = [public(values) for values in ([3] * 24, [0, 1, 2, 3] * 6, [1] * 23 + [2])]
    assert first["said"]
    assert all(other == first for other in others)


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_a_field_of_the_reading_alone_leaves_the_private_step_as_it_is(name: str) -> None:
    kind = REGISTRY[name]
    mechanism, x = small_mechanism(kind), table_of([12, 0, 9, 3])
    marked = {item.name for item in fields(kind) if item.metadata == READING_ONLY}
    y = mechanism.kernel(x, rng=seeded(1)) if marked else None
    for other in variants(mechanism):
        changed = {item.name for item in fields(kind) if getattr(other, item.name) != getattr(mechanism, item.name)}
        assert (private_step(other) == private_step(mechanism)) == (changed <= marked)
        if changed <= marked:
            assert other.log_prob(y, x) == mechanism.log_prob(y, x)
