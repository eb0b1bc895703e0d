"""Cells that nobody declared, chosen from public facts nearly as well as from the data; and wide tables."""

import re
import time
import tracemalloc
from typing import Any

import numpy as np
import polars as pl
import pytest

from discreet import release
from discreet._core.random import seeded
from discreet.domain import Category, Domain, Integer, Numeric, OpenLabels
from discreet.errors import DiscreetError, Infeasible, PoorUtility
from discreet.mechanisms import REGISTRY, DirichletMultinomial, named, signed_measure
from discreet.mechanisms import private_evolution as evolution
from discreet.mechanisms.likelihood import NoLikelihood
from discreet.planner import plan
from discreet.planner.cells import with_cells
from discreet.planner.options import carried_cells
from discreet.planner.plans import Plan
from discreet.planner.predicted import Reference, predicted_w1
from discreet.privacy import Budget
from discreet.releases.content import POOR_UTILITY

N = 29_501
LINE = Domain(columns={"x": Numeric(lower=0.0, upper=16.0)})
BUDGET = Budget(epsilon=1.0, delta=1e-9)


def incomes() -> pl.DataFrame:
    """Logarithms of invented incomes, half of them at round numbers."""
    rng = seeded(5)
    exact = np.exp(rng.normal(10.7, 1.2, N))
    rounding = 10.0 ** np.floor(np.log10(exact) - 0.5)
    values = np.where(rng.random(N) < 0.5, np.rint(exact / rounding) * rounding, exact)
    return pl.DataFrame({"x": np.clip(np.log(values), 0.0, 16.0)})


def chosen(name: str, **request: Any) -> int:
    given = {"n": N, "budget": BUDGET, "size": 1000, **request}
    return with_cells(LINE, named(name), **given).columns["x"].size or 0


@pytest.mark.parametrize(
    ("name", "size"),
    [("dirichlet-multinomial", 1000), ("dirichlet-multinomial", N), ("smoothed-histogram", N),
     ("subsampled-randomised-response", 1000), ("perturbed-histogram", N)],
)  # fmt: skip
def test_the_chosen_cells_are_within_thirty_percent_of_the_best(name: str, size: int) -> None:
    """Against every power of two, by the error that a public table of the same law foresees exactly."""
    reference = Reference.from_data(incomes(), LINE)

    def error(cells: int) -> float:
        domain = Domain(columns={"x": Numeric(lower=0.0, upper=16.0, cells=cells)})
        made = named(name).calibrated(BUDGET, domain=domain, n=N, size=size)
        return predicted_w1(made, n=N, size=size, reference=reference, draws=8)

    best = min(error(1 << power) for power in range(3, 11))
    assert error(chosen(name, size=size)) < 1.3 * best
    if name == "dirichlet-multinomial":  # and neither many nor few cells would pass
        assert min(error(1024), error(8)) > 1.3 * best


def test_what_the_choice_depends_on() -> None:
    prior = "dirichlet-multinomial"
    assert chosen(prior, size=N) < chosen(prior)
    assert chosen(prior, budget=Budget(epsilon=1.0)) < chosen(prior, budget=Budget(epsilon=1.0, delta=1e-3))
    fine = {"n": 2_000_000, "size": 2_000_000}
    assert chosen(prior) < chosen("perturbed-histogram") < chosen("hierarchical-histogram", **fine)
    assert chosen(prior) == chosen(prior)


def test_log_spaced_cells_do_not_depend_on_the_unit() -> None:
    def cells(unit: float) -> int | None:
        domain = Domain(columns={"x": Numeric(lower=unit, upper=3e6 * unit)})
        column = with_cells(domain, named("perturbed-histogram"), n=2000, budget=BUDGET, size=1000).columns["x"]
        assert isinstance(column, Numeric)
        assert column.spacing == "log"
        return column.cells

    assert cells(1.0) == cells(1e-3) == 64


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_noise_of_many_columns_is_not_the_reason_for_a_refusal(name: str) -> None:
    """Marginals alone would ask for so fine cells that a flat histogram of them were mostly noise."""
    kind = named(name)
    box = Domain(columns={c: Numeric(lower=0.0, upper=1.0) for c in "abcd"})
    cut = with_cells(box, kind, n=10_000, budget=Budget(epsilon=1.0, delta=1e-6), size=1000)
    if not kind.traits.needs_cells:
        assert cut == box
        return
    try:
        made = kind.calibrated(Budget(epsilon=1.0, delta=1e-6), domain=cut, n=10_000, size=1000)
    except DiscreetError:
        assert name == "exponential-histogram"  # too many terms to sum, at any number of cells
        return
    if name != "data-specific-reveal-or-obscure":
        assert made.forecast(10_000).lost <= 0.2


def test_wide_and_open_tables_are_cut_without_a_search() -> None:
    labels = {f"c{i}": Category(categories=[str(j) for j in range(50)]) for i in range(3)}
    for others in (labels, {"word": OpenLabels()}):
        domain = Domain(columns={"x": Numeric(lower=0.0, upper=1.0), **others})
        cut = with_cells(domain, named("dirichlet-multinomial"), n=1000, budget=BUDGET, size=100)
        assert cut.columns["x"].size == 64
        assert dict(cut.columns) == {**domain.columns, "x": cut.columns["x"]}


@pytest.mark.parametrize("name", ["marginals", "perturbed-histogram"])
def test_what_else_the_domain_declares_stays(name: str) -> None:
    """A released record is checked against the domain that was cut: what it lost would be violated in silence."""
    yes = Category(categories=["no", "yes"])
    declared = Domain(
        columns={"x": Numeric(lower=0.0, upper=1.0), "a": yes, "b": yes, "c": yes},
        metric_weights={"x": 2.0},
        impossible=[{"a": "yes", "b": "yes"}],
        implies=[{"columns": ["a"], "determine": "c", "table": {"yes": "no"}}],
        totals=[{"column": "b", "source": "a census", "counts": {"no": 600, "yes": 400}}],
    )
    cut = with_cells(declared, named(name), n=1000, budget=Budget(epsilon=1.0, delta=1e-6), size=100)
    assert {**cut.to_dict(), "columns": {}} == {**declared.to_dict(), "columns": {}}
    assert (cut.columns["x"].size is not None) == named(name).traits.needs_cells


# -- wide tables: the plan answers at once, says what to do instead, and fits the terminal ----------------------------

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
    told = " ".join(str(made).split())
    assert all(remedy in told for remedy in made.remedies or ["support about"])
    if made.feasible:  # of too many cells a column: a release would be refused
        assert made.feasible[0].poor
        return
    with pytest.raises(Infeasible, match=r"With the 2,872 columns of most cells left out, .* for the other 128"):
        _ = made.best


def test_remedies_of_a_plan_are_enough_when_followed() -> None:
    """Each was tried: a larger epsilon, columns to leave out, a delta above 0."""
    labels = {f"c{i}": Category(categories=list("abc")) for i in range(12)}
    costly = {name: OpenLabels(prefix=name) for name in ("zip", "clinic")}
    table, budget = Domain(columns={**labels, **costly}), Budget(epsilon=0.2, delta=1e-9)
    poor = plan(table, budget, records=3_000, largest_sizes=False)
    assert poor.feasible[0].poor
    larger, left_out = poor.remedies
    epsilon = float(re.fullmatch(r"With all columns, epsilon (\S+) is enough", larger)[1])  # type: ignore[index]
    assert not plan(table, Budget(epsilon=epsilon, delta=1e-9), records=3_000, largest_sizes=False).feasible[0].poor
    names = re.findall("'(.*?)'", left_out)
    assert {*names} & {*costly}
    fewer = Domain(columns={name: column for name, column in table.columns.items() if name not in names})
    assert not plan(fewer, budget, records=3_000, largest_sizes=False).feasible[0].poor
    with pytest.raises(PoorUtility, match=re.escape(f"{larger}. {left_out}. Or accept poor utility")):
        release(pl.DataFrame({name: ["a"] * 3_000 for name in table.columns}), table, budget, size=100)
    (delta,) = plan(table, Budget(epsilon=epsilon), records=3_000, largest_sizes=False).remedies
    assert delta == f"With delta 1e-09, epsilon {epsilon:g} is enough"


def test_wide_tables_are_for_marginals() -> None:
    """From four columns on, unless all cells together are few enough to get noise each."""
    for domain in (columns(4, 20), columns(10, 10), columns(40, 5)):
        made = plan(domain, largest_sizes=False, **REQUEST)
        assert made.best.name == "marginals"
        assert not made.feasible[0].poor
    refused = {each.name: each.refused for each in plan(columns(3, 5), largest_sizes=False, **REQUEST).options}
    assert "4 columns or more" in (refused["marginals"] or "")


def test_what_to_do_instead_can_be_done() -> None:
    most = carried_cells(10_000, Budget(epsilon=1.0, delta=1e-6))
    for cells, good in ((most, True), (most + 60, False)):
        one = Domain(columns={"cell": Integer(lower=0, upper=cells - 1)})
        made = plan(one, mechanisms=["laplace-projection-sampler"], largest_sizes=False, **REQUEST)
        assert ((made.options[0].share_not_from_data or 0.0) <= POOR_UTILITY) is good
    made = plan(columns(10, 5), largest_sizes=False, mechanisms=["hierarchical-histogram"], **REQUEST)
    assert "support about 2,018 cells, all columns counted together. Declare fewer" in made.verdict[1]
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


def test_nothing_is_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for domain in (columns(2, 5), columns(20, 5), Domain(columns={"x": Numeric(lower=0.0, upper=1.0)})):
        made = plan(domain, largest_sizes=False, **REQUEST)
        for width in (40, 60, 80, 120):
            monkeypatch.setenv("COLUMNS", str(width))
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
