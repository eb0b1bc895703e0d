"""Wide tables: the plan answers at once, says what to do instead, and fits the terminal."""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import pytest

from discreet.domain import Category, Domain, Integer, Numeric
from discreet.errors import Infeasible
from discreet.mechanisms import REGISTRY, DirichletMultinomial, signed_measure
from discreet.mechanisms import private_evolution as evolution
from discreet.mechanisms.likelihood import NoLikelihood
from discreet.planner import plan
from discreet.planner.options import carried_cells
from discreet.planner.plans import Plan
from discreet.privacy import Budget
from discreet.releases.content import POOR_UTILITY

REQUEST: dict[str, Any] = {"records": 10_000, "budget": Budget(epsilon=1.0, delta=1e-6)}


def columns(count: int, cells: int) -> Domain:
    return Domain(columns={f"c{i}": Category(categories=[str(j) for j in range(cells)]) for i in range(count)})


@pytest.mark.parametrize("domain", [columns(10, 1000), columns(3000, 4)], ids=["10 of 1,000 cells", "3,000 columns"])
def test_what_cannot_be_released_is_answered_at_once(domain: Domain) -> None:
    started = time.process_time()
    made = plan(domain, **REQUEST)
    assert time.process_time() - started < 2.0
    assert all(o.poor or o.mechanism is None for o in made.options)
    assert len(made.options) == len(REGISTRY) - 1
    assert any("support about" in line for line in made.verdict)
    assert "Release fewer columns" in " ".join(str(made).split())
    if made.feasible:  # of too many cells a column: a release would be refused
        assert made.feasible[0].poor
        return
    with pytest.raises(Infeasible, match="Release fewer columns"):
        _ = made.best


def test_wide_tables_are_for_marginals() -> None:
    """From four columns on, unless all cells together are few enough to get noise each."""
    for domain in (columns(4, 20), columns(10, 10), columns(40, 5)):
        made = plan(domain, largest_sizes=False, **REQUEST)
        assert made.best.name == "marginals"
        assert not made.feasible[0].poor
    (refused,) = plan(columns(3, 5), largest_sizes=False, mechanisms=["marginals"], **REQUEST).options
    assert "four columns or more" in (refused.refused or "").replace("4", "four")


def test_what_to_do_instead_can_be_done() -> None:
    most = carried_cells(10_000, Budget(epsilon=1.0, delta=1e-6))
    for cells, good in ((most, True), (most + 60, False)):
        one = Domain(columns={"cell": Integer(lower=0, upper=cells - 1)})
        made = plan(one, mechanisms=["laplace-projection-sampler"], largest_sizes=False, **REQUEST)
        assert ((made.options[0].share_not_from_data or 0.0) <= POOR_UTILITY) is good
    made = plan(columns(10, 5), largest_sizes=False, mechanisms=["hierarchical-histogram"], **REQUEST)
    assert "'c0', 'c1', 'c2', 'c3' together have 625" in made.verdict[1]
    assert not plan(columns(4, 5), largest_sizes=False, **REQUEST).verdict
    assert carried_cells(10, Budget(epsilon=0.01)) < 2


def test_what_would_be_refused_comes_last() -> None:
    made = plan(columns(5, 5), largest_sizes=False, **{**REQUEST, "records": 50_000})
    poor = [o.poor for o in made.feasible]
    assert poor == sorted(poor)
    assert not poor[0]
    assert poor[-1]


def test_what_is_refused_for_one_reason_stands_in_one_sentence() -> None:
    five = columns(5, 3)
    declared = Domain(columns=dict(five.columns), impossible=[{"c0": "0", "c1": "0"}])
    made = plan(declared, **REQUEST)
    text = " ".join(str(made).split())
    assert text.count("does not keep what the domain declares") == 1
    reasons = {o.refused for o in made.options if o.refused}
    assert all(text.count(f": {' '.join(reason.split())}") == 1 for reason in reasons)
    assert all(o.name in text for o in made.options)


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_nothing_is_wider_than_the_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for domain in (columns(2, 5), columns(20, 5), Domain(columns={"x": Numeric(lower=0.0, upper=1.0)})):
        made = plan(domain, largest_sizes=False, **REQUEST)
        assert max(map(len, str(made).splitlines())) <= width
    assert "Chosen: " in str(made)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (signed_measure, evolution):
        monkeypatch.setattr(module, "transport_available", lambda: False)
    made: Plan = plan(columns(2, 5), largest_sizes=False, **REQUEST)
    assert (
        made.missing
        == "not compared: signed-measure, private-evolution. Install what they need: pip install 'discreet[transport]'"
    )
    assert made.missing in made.notes
    assert made.missing[1:] in made.why  # there it begins a sentence
    assert plan(Domain(columns={"x": Integer(lower=0, upper=9)}), largest_sizes=False, mechanisms=["signed-measure"],
                **REQUEST).missing is None  # fmt: skip


def test_a_plan_of_very_many_cells_makes_no_table_of_them() -> None:
    wide = Domain(columns={f"c{i}": Integer(lower=0, upper=63) for i in range(4)})  # 16,777,216 cells
    mechanism = DirichletMultinomial.calibrated(Budget(epsilon=20.0), domain=wide, n=10_000, size=10)
    tracemalloc.start()
    try:
        assert not isinstance(mechanism.likelihood(), NoLikelihood)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
