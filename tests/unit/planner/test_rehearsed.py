"""Errors of pairs of columns: exact where they can be, those of `compare`, and near what releases turn out to have."""

import math
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest

from discreet import Budget
from discreet._core.random import ApproximateGenerator, seeded
from discreet.confidential import reveal_to_custodian
from discreet.domain import Boolean, Category, Counts, Domain, Integer, Numeric, OpenLabels, Records
from discreet.errors import ParameterError
from discreet.mechanisms import Marginals
from discreet.planner import plan
from discreet.planner.plans import Plan
from discreet.planner.predicted import Rehearsal, _deviation
from discreet.utility import compare

SIZES = (12, 6, 2, 9, 4)
N = 4000
WIDE = Domain(columns={f"c{i}": Integer(lower=0, upper=size - 1) for i, size in enumerate(SIZES)})


def drawn(n: int, seed: int) -> pl.DataFrame:
    """Columns that depend on each other through a class that no column holds."""
    rng = seeded(seed)
    hidden = rng.integers(0, 3, n)
    columns = {f"c{i}": np.minimum(size - 1, rng.poisson(size * (0.5 + hidden) / 4.0)) for i, size in enumerate(SIZES)}
    return pl.DataFrame(columns)


def planned(reference: pl.DataFrame | None, domain: Domain = WIDE, **asked: Any) -> Plan:
    given = {"records": N, "budget": Budget(epsilon=1.0, delta=1e-6), "mechanisms": ["marginals"], **asked}
    return plan(domain, reference=reference, largest_sizes=False, **given)


def apart(one: pl.DataFrame, other: pl.DataFrame, names: list[str]) -> npt.NDArray[np.float64]:
    """Total variation of the tables of every two columns."""
    found = []
    for pair in combinations(names, 2):
        both = [table.group_by(pair).len() for table in (one, other)]
        joined = both[0].join(both[1], on=pair, how="full").fill_null(0)
        found.append(0.5 * float((joined["len"] / len(one) - joined["len_right"] / len(other)).abs().sum()))
    return np.array(found)


# -- exact --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 7, 40])
def test_the_error_of_a_sample_is_the_mean_over_all_samples(size: int) -> None:
    shares = np.array([0.0, 1e-9, 0.003, 0.2, 1 / 3, 0.5, 0.77, 1.0])
    k = np.arange(size + 1)
    ways = np.array([math.comb(size, int(each)) for each in k], dtype=float)
    exact = [float((ways * p**k * (1 - p) ** (size - k)) @ np.abs(k / size - p)) for p in shares]
    assert _deviation(shares, size) == pytest.approx(exact, rel=1e-12, abs=1e-300)


def test_the_error_of_a_large_sample_is_that_of_a_normal_variable() -> None:
    p, size = np.array([0.1, 0.5, 0.9]), 10**9
    assert _deviation(p, size) == pytest.approx(np.sqrt(2 * p * (1 - p) / (math.pi * size)), rel=1e-5)


@pytest.mark.parametrize(("held", "n"), [(40, 100), (40, 120), (100, 40), (7, 7)])
def test_the_table_that_is_rehearsed_has_the_records_of_the_reference_evenly(held: int, n: int) -> None:
    reference = drawn(held, 0)
    rehearsal = Rehearsal(planned(reference, records=n, size=n).comparison)
    assert int(rehearsal.frequencies.sum()) == n
    assert set(rehearsal.frequencies.tolist()) <= {n // held, n // held + 1} - {0}
    assert rehearsal.table.equals(reference) == (n >= held)
    counts = rehearsal.counts(WIDE)
    rows = [
        tuple(row)
        for row, often in zip(rehearsal.table.rows(), rehearsal.frequencies, strict=True)
        for _ in range(often)
    ]
    found = dict(zip(counts.records.rows(), counts.frequencies.tolist(), strict=True))
    assert found == {row: rows.count(row) for row in set(rows)}


# -- as compare ---------------------------------------------------------------------------------------------------


def test_an_error_is_what_compare_measures() -> None:
    columns = {
        "long": Integer(lower=0, upper=99),
        "line": Numeric(lower=0.0, upper=1.0, cells=50),
        "label": Category(categories=["a", "b", "c"]),
        "open": OpenLabels(),
    }
    domain, rng = Domain(columns=columns), seeded(1)

    def table(n: int, words: list[str]) -> pl.DataFrame:
        labels = {"label": rng.choice(["a", "b", "c"], n), "open": rng.choice(words, n)}
        return pl.DataFrame({"long": rng.integers(0, 100, n), "line": rng.random(n), **labels})

    one, other = table(300, ["x", "y", "z"]), table(200, ["y", "z", "\x1fnew"[1:]])
    rehearsal = Rehearsal(planned(one, domain, records=300, mechanisms=["marginals"]).comparison)
    found = rehearsal.variations(other)
    measured = reveal_to_custodian(compare(one, other, domain, measures="marginals-2", resamples=0)).measures
    assert [each.release for each in measured] == [pytest.approx(found.mean()), pytest.approx(found.max())]
    narrow = rehearsal.pairs.index((2, 3))
    assert found[narrow] == pytest.approx(apart(one, other, ["label", "open"])[0])


# -- rehearsals ---------------------------------------------------------------------------------------------------


def test_a_rehearsal_is_a_release_of_the_reference() -> None:
    reference = drawn(N, 2)
    made = planned(reference, size=1000)
    rehearsal, option = Rehearsal(made.comparison), made.feasible[0]
    found, mechanism = rehearsal.pair_errors(option), made.best
    assert found is not None
    assert rehearsal.runs == 3
    errors, measured = [], []
    for seed in range(3):
        rng = ApproximateGenerator(seed)
        distinct, often = np.unique(reference.to_numpy(), axis=0, return_counts=True)
        order = {tuple(row): i for i, row in reversed(list(enumerate(reference.rows())))}
        place = np.argsort([order[tuple(row)] for row in distinct.tolist()])
        x = Counts(records=Records(columns=tuple(distinct[place].T)), frequencies=often[place])
        y = mechanism.kernel(x, rng=rng)
        chunks = [WIDE.decode(chunk, rng=rng) for chunk in mechanism.reading(y, n=N).draw(1000, rng=rng)]
        errors.append(apart(reference, pl.concat(chunks), WIDE.names))
        measured.append(sum(pair in mechanism.reading(y, n=N).outcome().pairs for pair in rehearsal.pairs))  # type: ignore[operator]
        told = mechanism.reading(y, n=N).outcome()
        assert told is not None
        assert str(told.codes[0]) == f"{measured[-1]} of 10 two-way tables were measured"
    assert found.errors == pytest.approx(np.mean(errors, axis=0))
    assert found.measured is not None
    assert int(found.measured.sum()) == sum(measured)


def test_the_pairs_that_are_named_in_words_are_those_that_were_measured() -> None:
    made = Marginals.calibrated(planned(None).comparison.budget, domain=WIDE, n=N, tables=2, workload="c0, c1*c2")
    records = WIDE.encode(drawn(N, 3))
    y = made.kernel(Counts(records=records, frequencies=np.ones(N, dtype=np.int64)), rng=seeded(0))
    named = [f"c{i}*c{j}" for i, j in sorted(made.reading(y, n=N).outcome().pairs)]
    assert named
    told = made.reading(y, n=N).outcome()
    assert told is not None
    assert str(told.codes[0]) == f"{len(named)} of 5 two-way tables were measured: {', '.join(named)}"


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_the_predicted_error_is_near_what_is_measured(epsilon: float) -> None:
    """Within a fifth on average over pairs, given a reference of the same law; not at half or twice the budget."""
    table = drawn(N, 4)
    mechanism = planned(table, budget=Budget(epsilon=epsilon, delta=1e-6)).best
    x = Counts(records=WIDE.encode(table), frequencies=np.ones(N, dtype=np.int64))
    measured = []
    for seed in range(10, 14):
        rng = seeded(seed)
        chunks = mechanism.reading(mechanism.kernel(x, rng=rng), n=x.n).draw(N, rng=rng)
        measured.append(apart(table, pl.concat([WIDE.decode(chunk, rng=rng) for chunk in chunks]), WIDE.names).mean())
    ratios = []
    for factor in (2.0, 1.0, 0.5):
        made = planned(drawn(N, 5), budget=Budget(epsilon=factor * epsilon, delta=1e-6))
        found = Rehearsal(made.comparison).pair_errors(made.feasible[0])
        assert found is not None
        ratios.append(found.errors.mean() / float(np.mean(measured)))
    assert ratios[0] < 5 / 6 < ratios[1] < 6 / 5 < ratios[2]


def test_whole_records_and_open_labels_are_rehearsed_too() -> None:
    rng = seeded(7)
    words = rng.choice(["x", "y", "rare"], N, p=[0.6, 0.399, 0.001])
    columns = {"a": rng.integers(0, 4, N), "word": words, "b": rng.random(N) < 0.3, "c": rng.random(N) < 0.5}
    kinds = {"a": Integer(lower=0, upper=3), "word": OpenLabels(), "b": Boolean(), "c": Boolean()}
    for names, mechanism, error in (("ab", "perturbed-histogram", 0.1), (("a", "word", "b", "c"), "marginals", 0.2)):
        table, domain = pl.DataFrame(columns).select(*names), Domain(columns={name: kinds[name] for name in names})
        made = planned(table, domain, mechanisms=[mechanism])
        found = Rehearsal(made.comparison).pair_errors(made.feasible[0])
        assert found is not None
        assert (found.measured is None) == (mechanism == "perturbed-histogram")
        assert 0.0 < found.errors.mean() < error


def test_what_cannot_be_rehearsed() -> None:
    with pytest.raises(ParameterError, match="pairs of columns need a public table"):
        Rehearsal(planned(None).comparison)
    made = planned(drawn(N, 2), given="c2 = 1")
    assert Rehearsal(made.comparison).pair_errors(made.feasible[0]) is None
