"""``discreet.audit.density_ratio``: its estimate beside exact deltas, and broken promises that it must reject."""

import json
import math
from dataclasses import dataclass

import pytest

from discreet.audit import density_ratio
from discreet.cli.entry import run
from discreet.domain import Category, Domain, Numeric
from discreet.errors import BudgetError, ParameterError
from discreet.mechanisms import DirichletMultinomial, PitmanYor
from discreet.privacy import Guarantee, Relation

LINE = Domain(columns={"x": Numeric(lower=0.0, upper=1.0)})


def cells(count: int) -> Domain:
    return Domain(columns={"x": Category(categories=[f"c{i}" for i in range(count)])})


@pytest.mark.parametrize(
    ("mechanism", "records", "epsilon"),
    [
        (PitmanYor(domain=LINE, size=2), 6, 1.0),
        (PitmanYor(domain=LINE, size=3, discount=0.5), 5, 6.0),
        (DirichletMultinomial(domain=cells(3), size=3, prior=0.5), 3, 1.0),
        (DirichletMultinomial(domain=cells(20), size=4, prior=0.1), 5, 0.5),
    ],
)
def test_the_estimate_is_the_exact_delta_where_the_worst_pair_was_drawn(mechanism, records, epsilon) -> None:
    """1,000 fresh releases: within five standard deviations of T1, T21 and T4; a wrong exponent or sign is not."""
    exact = mechanism.guarantee(n=records).delta(epsilon)
    check = density_ratio(mechanism, records=records, epsilon=epsilon)
    assert check.promised == exact
    assert abs(check.delta - exact) < 5.0 * math.sqrt(exact / 1000)
    assert 0.5 * exact < check.at_least < exact
    assert not check.rejected
    assert (check.infinite > 0.0) == (not mechanism.domain.finite)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fewer(DirichletMultinomial):
    """It promises what half as many records would cost."""

    def guarantee(self, relation: Relation | None = None, *, n: int) -> Guarantee:  # type: ignore[override]
        return DirichletMultinomial(domain=self.domain, size=self.size // 2, prior=self.prior).guarantee(n=n)


@dataclass(frozen=True, slots=True, kw_only=True)
class _AsTheThesisReads(PitmanYor):
    """It promises 5 % at epsilon 2, which ratios of densities never contradict: none is beyond."""

    def guarantee(self, relation: Relation | None = None, *, n: int) -> Guarantee:  # type: ignore[override]
        return PitmanYor(domain=self.domain, size=1, strength=self.strength + 20).guarantee(n=n)


def test_broken_promises_are_rejected() -> None:
    assert density_ratio(_Fewer(domain=cells(3), size=6, prior=0.5), records=3, epsilon=1.0).rejected
    check = density_ratio(_AsTheThesisReads(domain=LINE, size=4), records=6, epsilon=2.0)
    assert check.promised < 0.05
    assert check.largest < 2.0  # of the finite ratios
    assert check.rejected


def test_a_promise_that_holds_is_rejected_no_more_often_than_it_may_be() -> None:
    """T1 is attained by every pair that was looked at: 40 runs at an error of 10 % reject at most 14 (1e-5)."""
    exact = PitmanYor(domain=LINE, size=2)
    found = [
        density_ratio(exact, records=6, epsilon=1.0, tables=3, releases=30, error=0.1, seed=seed) for seed in range(40)
    ]
    assert sum(check.rejected for check in found) <= 14
    assert len({check.delta for check in found}) > 10


def test_what_cannot_be_looked_at_is_refused() -> None:
    mechanism = DirichletMultinomial(domain=cells(3), size=3, prior=0.5)
    with pytest.raises(BudgetError, match="epsilon"):
        density_ratio(mechanism, records=3, epsilon=-1.0)
    for wrong in ({"records": 0}, {"tables": 0}, {"error": 1.0}):
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            density_ratio(mechanism, **{"records": 3, "epsilon": 1.0, **wrong})


def test_the_command_says_what_the_function_does(capsys: pytest.CaptureFixture[str]) -> None:
    call = ["audit", "density-ratio", "dirichlet-process", "--delta", "0.3", "--records", "20", "--param", "strength=2"]
    assert run(call) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "not rejected"
    assert run([*call, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    check = density_ratio(PitmanYor(domain=LINE, size=2, strength=2.0), records=20, epsilon=1.0)
    assert document["promised"] == pytest.approx(check.promised)
    assert document["at_least"] <= document["promised"]
    assert run(["audit", "density-ratio", "perturbed-histogram", "--param", "cells=3", "--tables", "0"]) == 2
