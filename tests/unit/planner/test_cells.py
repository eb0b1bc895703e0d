"""Cells that nobody declared: chosen from public facts, and nearly as good as a search on the data would find."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from discreet._core.random import seeded
from discreet.domain import Category, Domain, Numeric, OpenLabels
from discreet.errors import DiscreetError
from discreet.mechanisms import REGISTRY, named
from discreet.planner.cells import with_cells
from discreet.planner.predicted import Reference, predicted_w1
from discreet.privacy import Budget

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


@pytest.mark.parametrize("size", [1000, N])
@pytest.mark.parametrize(
    "name", ["dirichlet-multinomial", "smoothed-histogram", "subsampled-randomised-response", "perturbed-histogram"]
)
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
