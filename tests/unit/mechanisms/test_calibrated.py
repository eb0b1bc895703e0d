"""Calibration meets the budget, is nearly the best, and what an infeasible request names is then feasible."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.domain import Domain, Integer, Numeric
from discreet.errors import Infeasible, ParameterError, RelationNotSupported
from discreet.mechanisms import (
    REGISTRY,
    DirichletMultinomial,
    Mechanism,
    PerturbedHistogram,
    PitmanYor,
    SmoothedHistogram,
    named,
)
from discreet.privacy import Budget, Relation

UNIT = Domain(columns={"x": Numeric(lower=0.0, upper=1.0)})


def cells(k: int) -> Domain:
    return Domain(columns={"cell": Integer(lower=0, upper=k - 1)})


epsilons = st.floats(0.01, 8.0)
deltas = st.floats(-12, -2).map(lambda x: 10**x)


def meets(mechanism: Any, budget: Budget, n: int, group: int = 1) -> bool:
    return bool(mechanism.guarantee(Relation(group=group), n=n).meets(budget))


@settings(max_examples=25, deadline=None)
@given(epsilon=epsilons, delta=st.one_of(st.just(0.0), deltas), n=st.integers(1, 5000), m=st.integers(1, 3000))
def test_the_least_prior(epsilon: float, delta: float, n: int, m: int) -> None:
    budget = Budget(epsilon=epsilon, delta=delta)
    mechanism = DirichletMultinomial.calibrated(budget, domain=cells(20), n=n, size=m)
    assert meets(mechanism, budget, n)
    assert mechanism.prior <= 2**-20 or not meets(replace(mechanism, prior=mechanism.prior * 0.99), budget, n)


@settings(max_examples=10, deadline=None)
@given(epsilon=st.floats(0.01, 0.5), delta=deltas, n=st.integers(10, 5000), prior=st.floats(1.0, 8.0))
def test_the_largest_size_at_a_prior(epsilon: float, delta: float, n: int, prior: float) -> None:
    budget = Budget(epsilon=epsilon, delta=delta)
    try:
        mechanism = DirichletMultinomial.calibrated(budget, domain=cells(20), n=n, prior=prior)
    except Infeasible as refused:
        one = DirichletMultinomial(domain=cells(20), size=1, prior=prior)
        assert meets(one, widened(budget, refused, "delta >="), n)  # noqa: PT017
        return
    assert meets(mechanism, budget, n)
    assert mechanism.size == 10**10 or not meets(replace(mechanism, size=mechanism.size + 1), budget, n)


def widened(budget: Budget, refused: Infeasible, name: str) -> Budget:
    value = float(refused.nearest[name])
    if name == "delta >=":
        return Budget(epsilon=budget.epsilon, delta=value)
    return Budget(epsilon=value, delta=budget.delta)


@settings(max_examples=25, deadline=None)
@given(epsilon=epsilons, delta=st.one_of(st.just(0.0), deltas), n=st.integers(1, 5000), m=st.integers(1, 3000))
def test_the_least_mixing(epsilon: float, delta: float, n: int, m: int) -> None:
    budget = Budget(epsilon=epsilon, delta=delta)
    mechanism = SmoothedHistogram.calibrated(budget, domain=cells(20), n=n, size=m)
    assert meets(mechanism, budget, n)
    least = 100 / 2**32  # below, 0.99 of it is rounded up to the same multiple of 2^-32
    assert mechanism.mixing < least or not meets(replace(mechanism, mixing=mechanism.mixing * 0.99), budget, n)


@settings(max_examples=15, deadline=None)
@given(epsilon=epsilons, delta=st.one_of(st.just(0.0), deltas), n=st.integers(1, 10**6), group=st.integers(1, 3))
@pytest.mark.parametrize("noise", ["laplace", "gaussian", None])
def test_the_least_scale(noise: Any, epsilon: float, delta: float, n: int, group: int) -> None:
    budget = Budget(epsilon=epsilon, delta=delta)
    if noise == "gaussian" and delta == 0:
        with pytest.raises(Infeasible):
            PerturbedHistogram.calibrated(budget, domain=cells(20), n=n, noise=noise)
        return
    fixed = {} if noise is None else {"noise": noise}
    mechanism = PerturbedHistogram.calibrated(budget, domain=cells(20), n=n, group=group, **fixed)
    assert meets(mechanism, budget, n, group)
    if mechanism.scale * 0.99 >= 2**-10:
        assert not meets(replace(mechanism, scale=mechanism.scale * 0.99), budget, n, group)


@settings(max_examples=40, deadline=None)
@given(delta=deltas, n=st.integers(1, 10**7), group=st.integers(1, 3), discount=st.sampled_from([0.0, 0.5]))
def test_the_largest_urn_release(delta: float, n: int, group: int, discount: float) -> None:
    budget = Budget(epsilon=1.0, delta=delta)
    fixed = {"strength": 2.0, "discount": discount, "group": group}
    try:
        mechanism = PitmanYor.calibrated(budget, domain=UNIT, n=n, **fixed)  # type: ignore[arg-type]
    except Infeasible as refused:
        tiny = PitmanYor(domain=UNIT, size=1, strength=2.0, discount=discount)
        assert meets(tiny, widened(budget, refused, "delta >="), n, group)  # noqa: PT017
        return
    assert meets(mechanism, budget, n, group)
    assert not meets(replace(mechanism, size=mechanism.size + 1), budget, n, group)
    again = PitmanYor.calibrated(budget, domain=UNIT, n=n, size=mechanism.size, discount=discount, group=group)
    assert meets(again, budget, n, group)
    assert again.strength <= 2.0 * (1 + 1e-9) or again.strength == 1.0


REQUESTS: list[tuple[type[Mechanism], Domain, dict[str, Any], Budget, int, int | None]] = [
    (PitmanYor, UNIT, {"strength": 1.0}, Budget(epsilon=1.0, delta=1e-6), 1000, 100),
    (PitmanYor, UNIT, {"strength": 1.0, "discount": 0.5}, Budget(epsilon=1.0, delta=1e-6), 10**7, 100),
    (DirichletMultinomial, cells(300), {"prior": 1.0}, Budget(epsilon=0.5, delta=1e-9), 1000, 1000),
    (DirichletMultinomial, cells(300), {"prior": 1.0}, Budget(epsilon=0.5), 1000, 1000),
    (DirichletMultinomial, cells(2), {"prior": 0.5}, Budget(epsilon=0.5, delta=1e-6), 12, 10),
    (SmoothedHistogram, cells(300), {"mixing": 0.01}, Budget(epsilon=0.5, delta=1e-9), 1000, 1000),
    (SmoothedHistogram, cells(300), {"mixing": 0.01}, Budget(epsilon=0.5), 1000, 1000),
    (PerturbedHistogram, cells(10), {"scale": 1.0}, Budget(epsilon=0.5, delta=1e-9), 1000, None),
    (PerturbedHistogram, cells(10), {"scale": 1.0, "noise": "gaussian"}, Budget(epsilon=0.5, delta=1e-9), 1000, None),
    (PerturbedHistogram, cells(10), {"noise": "gaussian"}, Budget(epsilon=0.5), 1000, None),
    (PerturbedHistogram, cells(10), {}, Budget(epsilon=0.0, delta=1e-11), 1000, None),
    (PerturbedHistogram, cells(10), {}, Budget(epsilon=1e-10), 1000, None),
    (PitmanYor, UNIT, {}, Budget(epsilon=1.0), 1000, 10),
]


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize(("kind", "domain", "fixed", "budget", "n", "size"), REQUESTS)
def test_what_an_infeasible_request_names_is_feasible(
    kind: type[Mechanism], domain: Domain, fixed: dict[str, Any], budget: Budget, n: int, size: int | None, group: int
) -> None:
    with pytest.raises(Infeasible) as caught:
        kind.calibrated(budget, domain=domain, n=n, size=size, group=group, **fixed)
    nearest = caught.value.nearest
    assert nearest, str(caught.value)
    for name, value in nearest.items():
        parameter, sign = name.split()
        assert sign in (">=", "<=")
        if parameter in ("epsilon", "delta"):
            asked = widened(budget, caught.value, name)
            kind.calibrated(asked, domain=domain, n=n, size=size, group=group, **fixed)
        elif parameter == "size":
            kind.calibrated(budget, domain=domain, n=n, size=int(value), group=group, **fixed)
        else:
            kind.calibrated(budget, domain=domain, n=n, size=size, group=group, **{**fixed, parameter: value})
        assert parameter in str(caught.value)


def test_the_written_numbers_are_feasible_too() -> None:
    """Six digits, rounded outwards: what the message says can be typed back."""
    with pytest.raises(Infeasible) as caught:
        DirichletMultinomial.calibrated(
            Budget(epsilon=0.5, delta=1e-9), domain=cells(300), n=1000, size=1000, prior=1.0
        )
    for part in str(caught.value).split(": ", 1)[1].split(", or "):
        parameter, sign, text = part.split()
        value = float(text.replace(",", ""))
        budget, size, prior = Budget(epsilon=0.5, delta=1e-9), 1000, 1.0
        if parameter == "delta":
            budget = Budget(epsilon=0.5, delta=value)
        elif parameter == "epsilon":
            budget = Budget(epsilon=value, delta=1e-9)
        elif parameter == "size":
            size = int(value)
        else:
            prior = value
        assert meets(DirichletMultinomial(domain=cells(300), size=size, prior=prior), budget, 1000), part


# --- parameters --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(REGISTRY))
def test_add_remove_is_refused_without_a_theorem(name: str) -> None:
    kind = named(name)
    domain = UNIT if kind is PitmanYor else cells(5)
    mechanism = kind.calibrated(Budget(epsilon=1.0, delta=0.6), domain=domain, n=10, size=3)
    if "add-remove" in kind.traits.relations:
        promised = mechanism.guarantee(Relation(name="add-remove"), n=10)
        assert promised.delta(1.0) <= mechanism.guarantee(n=10).delta(1.0)
        assert promised.exact is (name == "private-evolution")
    else:
        assert kind.traits.relations == ("replacement",)
        with pytest.raises(RelationNotSupported, match="replacement"):
            mechanism.guarantee(Relation(name="add-remove"), n=10)
    assert 0 <= mechanism.forecast(10).lost <= 1
    assert set(mechanism.parameters())
    with pytest.raises(ParameterError, match="unknown parameter"):
        kind.calibrated(Budget(epsilon=1.0, delta=1e-3), domain=domain, n=10, size=3, nonsense=1)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ParameterError, match="The mechanisms are"):
        named("nonsense")


@pytest.mark.parametrize(
    ("kind", "facts"),
    [
        (PitmanYor, {"size": 0}),
        (PitmanYor, {"size": 1, "strength": 0.0}),
        (PitmanYor, {"size": 1, "discount": 1.0}),
        (PitmanYor, {"size": 1, "discount": -0.5}),
        (PitmanYor, {"size": 1, "strength": -0.5, "discount": 0.5}),
        (PitmanYor, {"size": 1, "strength": float("nan")}),
        (PitmanYor, {"size": 1, "sampler": "fast"}),
        (DirichletMultinomial, {"size": 1, "prior": 0.0}),
        (DirichletMultinomial, {"size": 1, "prior": float("inf")}),
        (DirichletMultinomial, {"size": 1.5, "prior": 1.0}),
        (DirichletMultinomial, {"size": True, "prior": 1.0}),
        (SmoothedHistogram, {"size": 1, "mixing": 0.0}),
        (SmoothedHistogram, {"size": 1, "mixing": 1.1}),
        (SmoothedHistogram, {"size": 10**11, "mixing": 0.5}),
        (PerturbedHistogram, {"records": 0, "scale": 1.0}),
        (PerturbedHistogram, {"records": 1, "scale": 0.0}),
        (PerturbedHistogram, {"records": 1, "scale": 1e7, "noise": "gaussian"}),
        (PerturbedHistogram, {"records": 1, "scale": 1.0, "noise": "cauchy"}),
        (PerturbedHistogram, {"records": 1, "scale": 1.0, "projection": "l7"}),
    ],
)
def test_parameters_out_of_range(kind: type[Mechanism], facts: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        kind(domain=cells(4), **facts)


def test_finite_domains_are_needed() -> None:
    for kind, facts in (
        (DirichletMultinomial, {"size": 1, "prior": 1.0}),
        (SmoothedHistogram, {"size": 1, "mixing": 0.5}),
        (PerturbedHistogram, {"records": 1, "scale": 1.0}),
    ):
        with pytest.raises(ParameterError, match="finite domain"):
            kind(domain=UNIT, **facts)  # type: ignore[arg-type]


def test_one_cell_reveals_nothing() -> None:
    domain = Domain(columns={"cell": Integer(lower=0, upper=1, cells=1)})
    assert domain.size == 1
    for mechanism in (
        DirichletMultinomial(domain=domain, size=5, prior=1.0),
        SmoothedHistogram(domain=domain, size=5, mixing=0.5),
        PerturbedHistogram(domain=domain, records=5, scale=1.0),
    ):
        assert mechanism.guarantee(n=5).delta(0.0) == 0.0
