"""Outcomes that two columns tell together: kept where the records allow it, whatever else is declared."""

import math
import subprocess
import sys
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import discreet
from discreet._core.random import seeded
from discreet.domain import Category, Counts, Domain, Integer, OpenLabels, Records
from discreet.mechanisms import Marginals, three_way_tables
from discreet.mechanisms.chosen_tables import ChosenTables
from discreet.mechanisms.measured_tables import MeasuredTables
from discreet.mechanisms.pair_losses import model_tables, pair_losses
from discreet.mechanisms.three_way_tables import ThreeWayTables
from discreet.privacy import Budget

COLUMNS = {name: Category(categories=["no", "yes"]) for name in ("a", "b", "y")}
COLUMNS |= {"c": Integer(lower=0, upper=39), "d": Category(categories=["p", "q", "r"], nulls="category")}

PROGRAM = Path(__file__).parents[3] / "tools" / "verify_certificate"


def held(n: int) -> Counts:
    """Records of which ``y`` is whether exactly one of ``a`` and ``b`` is true, but for a twentieth."""
    rng = seeded(3)
    a, b, c, d = (rng.integers(0, size, n) for size in (2, 2, 40, 4))
    y = (a + b + (rng.random(n) < 0.05)) % 2
    return Counts(records=Records(columns=(a, b, y, c, d)), frequencies=np.ones(n, dtype=np.int64))


def mechanism(n: int, domain: Domain | None = None, **facts: Any) -> Marginals:
    domain = domain or Domain(columns=COLUMNS, outcome="y")
    return Marginals.calibrated(Budget(epsilon=2.0, delta=1e-6), domain=domain, n=n, **facts)


def agreement(records: Records) -> float:
    a, b, y = (np.asarray(records.columns[i]).astype(np.int64) for i in range(3))
    return float(((a + b) % 2 == y).mean())


@pytest.mark.parametrize("sampling", ["stratified", "iid"])
def test_what_two_columns_tell_together_is_kept(sampling: str, monkeypatch: pytest.MonkeyPatch) -> None:
    n = 6000
    made, x = mechanism(n, sampling=sampling), held(n)
    y = made.kernel(x, rng=seeded(1))
    records = Records.concatenate(made.reading(y, n=n).draw(n, rng=seeded(2)))
    assert 0.9 < agreement(records) < 0.98
    for i, j in combinations(range(3), 2):  # no pair tells anything
        table = np.zeros((2, 2))
        np.add.at(table, (records.columns[i].astype(int), records.columns[j].astype(int)), 1.0 / n)
        assert np.abs(table - 0.25).max() < 0.03
    undeclared = mechanism(n, Domain(columns=COLUMNS))
    lost = Records.concatenate(undeclared.reading(undeclared.kernel(x, rng=seeded(1)), n=n).draw(n, rng=seeded(2)))
    assert agreement(lost) < 0.6
    monkeypatch.setattr(three_way_tables, "_CLEAR", math.inf)  # a reading that does not use them
    assert agreement(Records.concatenate(made.reading(y, n=n).draw(n, rng=seeded(2)))) < 0.6


def test_outcomes_of_different_sizes_are_both_kept() -> None:
    n, domain = 20_000, Domain(columns={**COLUMNS, "z": Integer(lower=0, upper=11)}, outcome=("y", "z"))
    x, made = held(n), mechanism(n, domain)
    columns = x.records.columns
    z = 6 * columns[0] + columns[3] // 7  # which a and c tell together
    y = made.kernel(replace(x, records=Records(columns=(*columns, z))), rng=seeded(1))
    measured = MeasuredTables(ChosenTables(made, np.asarray(y)), np.asarray(y))
    three_way = measured.choice.three_way
    assert three_way is not None
    assert {names[0] for (names, _), _, _ in three_way.noisy(measured)} == {2, 5}
    records = Records.concatenate(made.reading(y, n=n).draw(n, rng=seeded(2)))
    a, c, drawn = (np.asarray(records.columns[i]).astype(np.int64) for i in (0, 3, 5))
    assert 0.9 < agreement(records) < 0.98
    assert (drawn == 6 * a + c // 7).mean() > 0.9


def test_units_in_all_and_their_law_are_as_they_were() -> None:
    n = 6000
    made, x = mechanism(n), held(n)
    y = np.asarray(made.kernel(x, rng=seeded(1)))
    choice = ChosenTables(made, y)
    three_way = choice.three_way
    assert three_way is not None
    assert three_way.number == 6
    spent = sum(int(made.copies[i]) * q * q for i, q in choice.repeats) + sum(q * q for _, q in choice.pairs)
    assert made.allocation.remaining - 10 < spent + three_way.units <= made.allocation.remaining
    assert math.isfinite(made.log_prob(y, x))
    assert len(made.pairs) == 6  # scores, of pairs without the outcome
    few = mechanism(200)
    assert ChosenTables(few, np.asarray(few.kernel(held(200), rng=seeded(1)))).three_way is None


def test_the_counts_of_three_columns_have_the_errors_that_are_stated() -> None:
    n = 6000
    made, x = mechanism(n), held(n)
    z = []
    for seed in range(20):
        measured = MeasuredTables(ChosenTables(made, y := np.asarray(made.kernel(x, rng=seeded(seed)))), y)
        three_way = measured.choice.three_way
        assert three_way is not None
        tables = three_way.tables(measured)
        exact = ThreeWayTables.counts(tables, x.parts())
        assert all(counts.sum() == n for counts in exact)  # a record is in one cell
        z += [
            (noisy - counts) / error for (_, noisy, error), counts in zip(three_way.noisy(measured), exact, strict=True)
        ]
    assert 0.94 < np.concatenate(z).std() < 1.06  # of more than 1,500 counts
    estimates = made.reading(y, n=n).estimates()
    labels = estimates.labels or {}
    rows = [i for i, name in enumerate(labels["table"]) if name == "y, a, b"]
    assert {(labels["a"][i], labels["b"][i], labels["y"][i]) for i in rows} >= {
        ("no", "yes", "no"),
        ("no", "no", "yes"),
    }
    ends = {labels["c"][i] for i, name in enumerate(labels["table"]) if name == "y, a, c"}
    assert 2 <= len(ends) <= 4
    assert all(end.split(" or ")[0] for end in ends if end)


def test_the_losses_are_of_the_records_that_are_drawn() -> None:
    n = 6000
    made = mechanism(n)
    y = np.asarray(made.kernel(held(n), rng=seeded(1)))
    measured = MeasuredTables(ChosenTables(made, y), y)
    model = measured.model(seeded(4))
    assert {pair for _, _, pair in pair_losses(measured, model)} == measured.excess.keys()
    mixture = dict(zip(measured.excess, model_tables(measured, model, measured.excess), strict=True))
    for pair, table in model.last[2].tables.items():
        assert np.abs(table.sum(axis=0) - mixture[pair].sum(axis=0)).max() < 0.02
        assert table.sum() == pytest.approx(1.0)


def test_all_that_is_declared_besides_holds() -> None:
    n = 6000
    declared = {
        "impossible": [{"c": {"from": 0, "below": 10}, "d": "p"}],
        "totals": [{"column": "a", "source": "a census", "counts": {"no": 4000, "yes": 2000}}],
    }
    domain = Domain(columns={**COLUMNS, "word": OpenLabels()}, outcome=("y", "d"), **declared)  # type: ignore[arg-type]
    x = held(n)
    words = np.array(["left", "right"], dtype=object)[seeded(6).integers(0, 2, n)]
    x = replace(x, records=Records(columns=(*x.records.columns, words)))
    for facts in ({}, {"given": 'a = "yes"'}, {"given": 'y = "yes"'}, {"tables": 2}, {"workload": ("a*c",)}):
        made = mechanism(n, domain, **facts)
        y = made.kernel(x, rng=seeded(1))
        assert math.isfinite(made.log_prob(y, x))
        records = Records.concatenate(made.reading(y, n=n).draw(1000, rng=seeded(2)))
        assert domain.allowed(records).all()
        a, y_codes = records.columns[0], records.columns[2]
        if "given" in facts:
            assert (a if "a =" in facts["given"] else y_codes).min() == 1  # type: ignore[index]
        elif "tables" not in facts:
            assert abs(int((a == 1).sum()) - 333) <= 1
            assert agreement(records) > 0.85


def test_the_second_program_recomputes_the_guarantee(tmp_path: Path) -> None:
    """The tables of three columns are paid by units that it knows."""
    x, n = held(6000), 6000
    domain = Domain(columns={name: COLUMNS[name] for name in ("a", "b", "y", "c")}, outcome="y")
    frame = pl.DataFrame(
        {name: [str(COLUMNS[name].labels[code]) for code in x.records.columns[i]] for i, name in enumerate("aby")}  # type: ignore[index]
        | {"c": x.records.columns[3]}
    )
    out = tmp_path / "out.csv"
    budget = Budget(epsilon=2.0, delta=1e-6)
    discreet.release(frame, domain, budget, size=n, mechanism="marginals", seed=1, out=out)
    found = subprocess.run(
        [sys.executable, str(PROGRAM), str(out.with_suffix(".certificate.json"))],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout + found.stderr
    codes = [np.array([int(value == "yes") for value in pl.read_csv(out)[name]]) for name in "aby"]
    assert ((codes[0] + codes[1]) % 2 == codes[2]).mean() > 0.9
