"""The plan: calibrated options from public facts alone, and predictions that real releases bear out."""

import math
import re
import time
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest

from discreet import Budget, release
from discreet._core.random import seeded
from discreet.domain import Category, Counts, Domain, Integer, Numeric, OpenLabels, Records
from discreet.errors import BudgetError, DataError, Infeasible, ParameterError
from discreet.mechanisms import (
    REGISTRY,
    DataSpecificRevealOrObscure,
    DirichletMultinomial,
    ExponentialHistogram,
    PerturbedHistogram,
    SmoothedHistogram,
    first_names,
    named,
    solved,
    stated,
)
from discreet.mechanisms.base import Mechanism, SteppedMechanism
from discreet.mechanisms.pitman_yor import PitmanYor
from discreet.planner import plan
from discreet.planner.options import Option, private_step
from discreet.planner.plans import Plan
from discreet.planner.predicted import Reference, predicted_w1
from discreet.utility import wasserstein_1d

AGES = Domain(columns={"age": Integer(lower=0, upper=99)})
UNIT = Domain(columns={"x": Numeric(lower=0.0, upper=1.0)})


def planned(domain: Domain = AGES, *names: str, epsilon: float = 1.0, delta: float = 1e-6, **facts: Any) -> Plan:
    """Return a plan of some mechanisms, all by default, without largest sizes."""
    facts = {"records": 20_000, "largest_sizes": False, "mechanisms": list(names) or None, **facts}
    return plan(domain, Budget(epsilon=epsilon, delta=delta), **facts)


@cache
def usual() -> Plan:
    return planned()


def single(domain: Domain, name: str, **facts: Any) -> Option:
    return planned(domain, name, **facts).options[0]


def test_every_feasible_option_meets_the_budget_and_is_sorted() -> None:
    found = usual()
    whole = [o.w1 for o in found.feasible if o.mechanism is not None and not o.mechanism.traits.leaves_out]
    rounded = [float(f"{w or 0.0:.3g}") for w in whole]  # those that agree in three digits are ties
    assert rounded == sorted(rounded)
    for option in found.feasible:
        assert option.mechanism is not None
        assert option.mechanism.guarantee(n=20_000).delta(1.0) == option.delta <= 1e-6
    assert found.best is found.feasible[0].mechanism
    assert found.feasible[0].name in found.why
    assert "<table>" in found._repr_html_()
    assert "predicted error" in str(found)


def test_the_largest_size_is_the_largest_to_within_one_percent() -> None:
    name, n = "smoothed-histogram", 2000
    largest = single(AGES, name, records=n, size=100, largest_sizes=True).largest_size or 0
    assert 100 < largest < 200_000
    for size, share_is_fine in ((largest, True), (largest + largest // 99, False)):
        assert ((single(AGES, name, records=n, size=size).share_not_from_data or 0.0) <= 0.2) is share_is_fine


def test_what_leaves_out_rare_records_comes_last_unless_a_reference_says_how_many() -> None:
    request = {"records": 50_000, "delta": 1e-9}
    guessed = planned(AGES, **request)
    good = [o.name for o in guessed.feasible if not o.poor]
    assert sorted(good[-2:]) == ["stabilised-pitman-yor", "stability-histogram"]
    assert [o.name for o in guessed.feasible][: len(good)] == good
    worse = planned(AGES, "stability-histogram", "gaussian-smoothed-histogram", **request)
    assert worse.feasible[0].name == "gaussian-smoothed-histogram"
    assert "repeat none verbatim and meet" in worse.why
    common = pl.DataFrame({"age": [20, 21, 22, 23] * 500})
    assert planned(AGES, reference=common, **request).feasible[0].name == "stability-histogram"
    rare = pl.DataFrame({"age": [*range(100), *[20] * 9900]})
    assert planned(AGES, reference=rare, **{**request, "records": 2000}).feasible[0].name != "stability-histogram"
    words = Domain(columns={"word": OpenLabels()})
    assert planned(words, **request).best.name == "stability-histogram"
    assert planned(words, size=100, **request).best.name == "stability-histogram"  # not 100 invented labels


def test_infeasible_options_say_why() -> None:
    found = planned(Domain(columns={"job": OpenLabels()}), delta=0.0, records=1000, size=100)
    assert not found.feasible
    assert all(o.refused for o in found.options)
    with pytest.raises(Infeasible):
        _ = found.best


def test_ten_categorical_columns_take_no_memory_for_their_cells() -> None:
    wide = Domain(columns={f"c{i}": Category(categories=[str(j) for j in range(50)]) for i in range(10)})
    found = planned(wide, records=10_000, size=100)
    for option in found.feasible:  # without cells the share depends on the data
        assert option.mechanism is not None
        on_all_cells = option.mechanism.traits.needs_cells and option.mechanism.traits.least_columns == 1
        assert not on_all_cells or (option.share_not_from_data or 0.0) > 0.2
    assert found.best.name == "marginals"


def test_a_mechanism_for_wide_tables_that_is_named_is_compared_on_narrow_ones_and_chosen_where_it_is_better() -> None:
    narrow = Domain(columns={f"c{i}": Integer(lower=0, upper=19) for i in range(3)})
    unasked = planned(narrow)
    (refused,) = [option.refused for option in unasked.options if option.name == "marginals"]
    assert refused == "is for tables of 4 columns or more. Ask for it by name"
    first, second = planned(narrow, "private-evolution", "marginals").feasible
    assert (first.name, second.name) == ("marginals", "private-evolution")
    assert (first.w1 or 0.0) < 0.5 * (second.w1 or 0.0)


@pytest.mark.parametrize(
    ("facts", "error", "words"),
    [
        ({"budget": Budget(epsilon=1.0), "records": 0}, ParameterError, "records"),
        ({"budget": Budget(epsilon=1.0), "records": 10, "mechanisms": ["none-such"]}, ParameterError, "no mechanism"),
        ({"records": 500}, ParameterError, "Write Budget"),
        ({"records": 500, "epsilon": 1.0}, ParameterError, "Write .*Budget"),
        ({"records": 500, "delta": 0.1}, ParameterError, "Write .*Budget"),
        ({"records": 500, "group": 2}, ParameterError, "Write .*Unit"),
    ],
)
def test_bad_requests_and_arguments_of_earlier_versions(facts: dict[str, Any], error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        plan(AGES, **facts)
    with pytest.raises(BudgetError):
        planned(epsilon=-1.0)


@pytest.mark.parametrize("size", [500, 20_000])
def test_predictions_are_near_what_a_release_of_the_reference_measures(size: int) -> None:
    """With a public table like the confidential one the prediction is right within a factor of 1.25."""
    n = 20_000
    domain = Domain(columns={"x": Numeric(lower=0.0, upper=1.0, cells=100)})
    x = Counts(records=Records(columns=(np.arange(100),)), frequencies=np.full(100, n // 100))
    table = (np.arange(1000) + 0.5) / 1000
    reference = Reference.from_data(pl.DataFrame({"x": table}), domain)
    noisy = PerturbedHistogram(domain=domain, records=n, scale=20.0, projection="simplex")
    for mechanism in (
        DirichletMultinomial(domain=domain, size=size, prior=0.01),
        SmoothedHistogram(domain=domain, size=size, mixing=1e-4),
        noisy,
        replace(noisy, projection="clip", sampling="stratified"),
        replace(noisy, projection="w1", scale=1.0),
    ):
        measured = []
        for seed in range(20):
            rng = seeded(seed)
            stream = mechanism.reading(mechanism.kernel(x, rng=rng), n=x.n).draw(size, rng=rng)
            cells = Records.concatenate(stream).columns[0].astype(np.int64)
            measured.append(wasserstein_1d((cells + rng.random(size)) / 100, table))
        ratio = predicted_w1(mechanism, n=n, size=size, reference=reference) / float(np.mean(measured))
        assert 0.8 < ratio < 1.25, (mechanism, ratio)


def test_cells_are_chosen_from_public_facts_where_none_are_declared() -> None:
    declared = Domain(columns={"x": Numeric(lower=1.0, upper=3e6), "y": Category(categories=["a", "b"])})
    found = planned(declared, "dirichlet-multinomial", "dirichlet-process", records=1_000_000, size=1000)
    used = found.best.domain.columns["x"]
    assert isinstance(used, Numeric)
    assert (used.cells, used.spacing) == (128, "log")
    assert any("column 'x': 128 log-spaced cells" in note for note in found.notes)
    process = next(o for o in found.options if o.name == "dirichlet-process")
    assert process.mechanism is not None
    assert process.mechanism.domain == declared  # kept continuous


@pytest.mark.parametrize("coin", [True, False])
def test_a_plan_says_what_a_wider_range_does_to_a_mean_as_releases_do(coin: bool) -> None:
    values = np.linspace(0.25, 0.75, 20_000)
    table, lengths = pl.DataFrame({"x": values}), []
    domains = [Domain(columns={"x": Numeric(lower=low, upper=1.0 - low, cells=32, coin=coin)}) for low in (0.0, -0.5)]
    for domain in domains:
        rows = [
            release(table, domain, mechanism=planned(domain).best, size=20_000, seed=seed).estimate(["mean"]).rows[0]
            for seed in range(4)
        ]
        usual = 2 * 1.96 * values.std() / math.sqrt(20_000)
        lengths.append(float(np.mean([row.upper - row.lower for row in rows])) / usual)
    (note,) = (note for note in planned(domains[0]).notes if "twice as wide" in note)
    told = [float(part) for part in re.findall(r"([\d.]+) times", note)]
    assert told == pytest.approx(lengths, rel=0.2)
    assert lengths[1] > (1.0 if coin else 1.8) * lengths[0]
    of_table = planned(domains[0], reference=pl.DataFrame({"x": 0.5 + (values - 0.5) / 4})).notes  # a fourth as spread
    (note,) = (note for note in of_table if "twice as wide" in note)
    assert float(re.findall(r"([\d.]+) times", note)[0]) > 1.05 * told[0]


def test_no_wider_range_is_told_of_where_there_is_none() -> None:
    constant = planned(UNIT, reference=pl.DataFrame({"x": [0.3] * 9}), records=500)
    assert not any("twice as wide" in note for note in constant.notes)
    labels = Category(categories=["a", "b"])
    for columns in ({"x": labels}, {"x": Integer(lower=0, upper=3), "y": labels}):
        assert not any("twice as wide" in note for note in planned(Domain(columns=columns), records=500).notes)


def test_verbatim_records_and_lost_rare_ones_are_a_last_resort() -> None:
    names = ["urn-histogram", "dirichlet-process", "stability-histogram", "hierarchical-histogram"]
    facts = {"delta": 0.3, "records": 100_000, "size": 1000}
    assert planned(UNIT, *names, **facts).feasible[0].name == "hierarchical-histogram"
    assert planned(UNIT, *names[:2], **facts).feasible[0].name in names[:2]


def test_an_error_as_wide_as_the_column_is_said() -> None:
    assert "of the column's range" in planned(epsilon=0.001, records=200, size=200).why
    assert "of the column's range" not in usual().why


def test_each_private_step_has_one_row_with_its_best_reading() -> None:
    found = usual()
    shown = found.rows()
    alike = {"perturbed-histogram", "laplace-projection-sampler", "signed-measure"}
    (row,) = [row for row in shown if row[0] in alike]
    assert row[0] == next(o.name for o in found.feasible if o.name in alike)  # the best of them
    assert all(name in row[-1] for name in alike - {row[0]})
    assert len([row for row in shown if row[0] in ("smoothed-histogram", "reveal-or-obscure")]) == 1
    assert {o.name for o in found.options} == set(REGISTRY) - {"pitman-yor"}  # in JSON each has its own place
    steps = [private_step(o.mechanism) for o, _ in found.rows_of_steps if o.mechanism is not None]
    assert all(one != other for i, one in enumerate(steps) for other in steps[:i])


def test_what_can_be_analysed_is_preferred_among_near_ties(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exponential histogram of few cells has the least error; here, two mechanisms state no likelihood."""
    for kind in (ExponentialHistogram, DataSpecificRevealOrObscure):
        monkeypatch.setattr(kind, "likelihood", Mechanism.likelihood)
    found = planned(size=300)
    least = min(o.w1 for o in found.feasible if o.w1 is not None and not o.mechanism.traits.leaves_out)  # type: ignore[union-attr]
    best = found.feasible[0]
    assert best.analysed
    assert (best.w1 or 0.0) <= 1.05 * least + 0.05 * best.comparison.without_privacy
    assert found.to_dict()["options"][0]["posterior"] is True
    far = planned(AGES, "data-specific-reveal-or-obscure", "dirichlet-multinomial", size=100)
    assert [o.analysed for o in sorted(far.options, key=lambda o: o.name)] == [False, True]
    first, second = far.options
    near = 1.05 * (first.w1 or 0.0) + 0.05 * first.comparison.without_privacy
    assert first.analysed or (second.w1 or 0.0) > near
    few = planned(Domain(columns={"x": Integer(lower=0, upper=3)}), size=100)
    assert few.feasible[0].analysed
    assert min(o.w1 or 0.0 for o in few.feasible if not o.analysed) < (few.feasible[0].w1 or 0.0)
    assert "Its records can be analysed" in few.why


def test_errors_are_told_in_units_of_a_sample_without_privacy() -> None:
    facts = {"records": 1_000_000, "size": 1000, "delta": 0.0}
    independent = single(AGES, "perturbed-histogram", sampling="iid", **facts)
    assert independent.times_sampling == pytest.approx(1.0, rel=0.02)  # the noise is nothing beside it
    stratified = planned(AGES, "perturbed-histogram", **facts)
    assert (stratified.options[0].times_sampling or 1.0) < 0.3
    assert "times that of a sample of 1,000 records without privacy" in stratified.why
    assert "times a sample's" in str(stratified)  # 80 columns do not hold the table: each number has its name


@pytest.mark.parametrize("cells", [100, 1000])
def test_a_list_of_cells_is_planned_in_a_second_of_processor_time(cells: int) -> None:
    domain = Domain(columns={"cell": Integer(lower=0, upper=cells - 1)})
    planned(domain, delta=0.0, records=100, size=10)  # loads the libraries
    started = time.process_time()
    planned(domain, delta=1e-9, records=29_501)
    assert time.process_time() - started < 1.0


# -- the registry that is planned from --------------------------------------------------------------------------------


def test_a_mechanism_is_planned_once_under_its_first_name() -> None:
    names = first_names()
    assert len({named(name) for name in names}) == len(names) == len(set(REGISTRY.values()))
    assert [name for name in REGISTRY if name in names] == names
    assert "dirichlet-process" in names
    assert "pitman-yor" not in names
    alias = stated("dirichlet-process", records=9, size=2, strength=1.0)[0]
    assert (alias.name, alias.parameters()["discount"]) == ("pitman-yor", 0.0)


def test_numbers_stand_for_the_mechanism_that_they_are_in_the_range_of() -> None:
    assert PitmanYor.in_range({"strength": 2.0}) == ("pitman-yor", {"strength": 2.0, "discount": 0.0})
    below = PitmanYor.in_range({"strength": 5.0, "discount": -0.5})
    assert below == ("dirichlet-multinomial", {"prior": 0.5, "cells": 10})
    for discount, theorem in ((-0.5, "T4"), (0.0, "T1"), (0.5, "T21")):
        assert stated("pitman-yor", records=100, size=10, strength=5.0, discount=discount)[1].theorem == theorem
    same = stated("dirichlet-multinomial", records=100, size=10, prior=0.5, cells=10)[1]
    assert stated("pitman-yor", records=100, size=10, strength=5.0, discount=-0.5)[1].delta(1.0) == same.delta(1.0)


@pytest.mark.parametrize(
    ("mechanism", "parameters"),
    [
        ("smoothed-histogram", {"mixing": 0.1}),
        ("smoothed-histogram", {"cells": 10}),
        ("smoothed-histogram", {"mixing": 0.1, "cells": 1}),
        ("smoothed-histogram", {"mixing": 0.1, "cells": 10, "prior": 3}),
        ("smoothed-histogram", {"mixing": 0.1, "cells": 10, "group": 0}),
        ("dirichlet-process", {"strength": 1.0, "discount": 0.2}),
        ("pitman-yor", {"strength": 5.0, "discount": -0.3}),
        ("pitman-yor", {"discount": 0.3}),
        ("perturbed-histogram", {"noise": "laplace"}),
        ("perturbed-histogram", {"noise": "uniform", "scale": 1.0}),
    ],
)
def test_stated_refuses_what_does_not_fit(mechanism: str, parameters: dict[str, object]) -> None:
    with pytest.raises(ParameterError):
        stated(mechanism, records=100, size=10, **parameters)


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_groups_cost_more_for_every_mechanism(name: str) -> None:
    cells = {"cells": 10} if REGISTRY[name].traits.needs_cells else {}
    found, _, _ = solved(name, records=500, budget=Budget(epsilon=0.3, delta=1e-3), size=20, **cells)
    parameters = {**found.parameters(), **cells}
    deltas = [stated(name, records=500, size=20, group=g, **parameters)[1].delta(0.3) for g in (1, 2, 3)]
    assert deltas == sorted(deltas)
    assert deltas[0] < deltas[2]


def test_noisy_counts_promise_the_same_for_any_number_of_cells() -> None:
    _, unknown = stated("perturbed-histogram", records=100, size=None, scale=2.0)
    _, known = stated("perturbed-histogram", records=100, size=None, scale=2.0, cells=50)
    assert unknown.delta(0.3) == known.delta(0.3)
    assert unknown.caveats == known.caveats


def test_what_works_in_steps_is_compared_with_a_mechanism_of_one_step() -> None:
    stepped = [kind for kind in REGISTRY.values() if issubclass(kind, SteppedMechanism)]
    assert stepped
    assert not any(issubclass(named(kind.traits.one_step_instead), SteppedMechanism) for kind in stepped)


# -- predictions from a public table that the confidential one is expected to look like -------------------------------

DOMAIN = Domain(columns={"x": Numeric(lower=0.0, upper=1000.0, cells=50), "c": Category(categories=["a", "b"])})
TABLE = pl.DataFrame({"x": np.full(100, 3.0), "c": ["a"] * 100})


def test_a_concentrated_reference_predicts_less_sampling_error() -> None:
    one = Domain(columns={"x": DOMAIN.columns["x"]})
    narrow = pl.DataFrame({"x": np.linspace(400.5, 439.5, 40)})
    by_base, like = (single(one, "perturbed-histogram", records=10_000, reference=table) for table in (None, narrow))
    assert (like.w1 or 0.0) < 0.7 * (by_base.w1 or 0.0)


def test_a_reference_that_does_not_fit_is_refused() -> None:
    with pytest.raises(DataError, match="'c': is not in the public table"):
        planned(DOMAIN, records=1000, size=100, reference=TABLE.drop("c"))
    for table in (TABLE.with_columns(x=pl.lit(-1.0)), TABLE.clear()):
        with pytest.raises(DataError):
            planned(DOMAIN, records=1000, size=100, reference=table)


def test_open_labels_and_large_domains_are_predicted_from_the_labels_seen() -> None:
    jobs = pl.DataFrame({"job": ["nurse"] * 60 + ["baker"] * 30 + ["fool"] * 10})
    facts = {"records": 10**6, "delta": 1e-3, "size": 1000, "reference": jobs}
    assert 0 < (single(Domain(columns={"job": OpenLabels()}), "dirichlet-process", **facts).w1 or 0.0) < 0.05
    wide = Domain(columns={f"c{i}": Integer(lower=0, upper=99) for i in range(6)})
    row = Reference.from_data(pl.DataFrame({name: [5] * 10 for name in wide.names}), wide)
    prior = DirichletMultinomial(domain=wide, size=1000, prior=1e-3)  # 1e9 records' worth: nearly all from the prior
    assert 2.0 < predicted_w1(prior, n=10**6, size=1000, reference=row) < 3.0


def test_stratified_records_are_predicted_to_be_nearer() -> None:
    one, facts = Domain(columns={"x": Integer(lower=0, upper=49)}), {"records": 10**6, "size": 1000, "delta": 0.0}
    w1 = {s: single(one, "perturbed-histogram", sampling=s, **facts).w1 for s in (None, "iid", "stratified")}
    assert w1[None] == w1["stratified"]
    assert (w1["stratified"] or 0.0) < 0.2 * (w1["iid"] or 0.0)


def test_a_plan_says_what_its_numbers_mean() -> None:
    alone, wide = str(usual()), str(planned(Domain(columns=dict.fromkeys("ab", Integer(lower=0, upper=9))), delta=0.0))
    for text in (alone, wide):
        assert "no result is more than 2.72 times as likely" in text.splitlines()[1]
        assert "The promise is for each record." in text
        assert "The 1 % is our choice" in " ".join(text.split())
        assert "W1" not in text
    assert "\nDelta 1e-06: " in alone
    assert "Delta " not in wide  # which is 0
    assert "in the column's unit" in " ".join(alone.split())
    assert "as shares of each column's range" in " ".join(wide.split())
