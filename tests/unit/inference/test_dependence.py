"""What several tables leave open: cut cells, cells that noise hides, and dependence that was not measured."""

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from discreet import Budget, release
from discreet.domain import Boolean, Domain, Integer, Numeric, Records
from discreet.inference import dependence, several_tables
from discreet.inference.dependence import OpenDependence, hidden_cells
from discreet.inference.functionals import Functional
from discreet.inference.released import Released
from discreet.inference.several_tables import _columns_read
from discreet.privacy import Code
from discreet.releases import Release

DOMAIN = Domain(columns={"x": Integer(lower=0, upper=5), "y": Integer(lower=0, upper=5)})


def table(x: list[int], y: list[int]) -> Released:
    records = Records(columns=(np.array(x), np.array(y)))
    return Released(domain=DOMAIN, records=records, counts=np.ones(len(x)), urn=None, n_held=None)


def test_values_are_paired_in_order_within_strata() -> None:
    held, strata = table([0, 1, 2, 3, 4, 5], [5, 1, 3, 0, 4, 2]), np.array([0, 0, 0, 1, 1, 1])
    for sign, wanted in ((1, [1, 3, 5, 0, 2, 4]), (-1, [5, 3, 1, 4, 2, 0])):
        paired = dependence._paired(held, 1, 1.0, sign * held.records.columns[0], strata)
        assert paired.records.columns[1].tolist() == wanted
        assert paired.records.columns[0] is held.records.columns[0]
    assert dependence._paired(held, 1, 0.0, strata, strata).records.columns[1].tolist() == [5, 1, 3, 0, 4, 2]


def test_a_share_of_the_records_is_paired() -> None:
    rng = np.random.default_rng(0)
    held = table(*rng.integers(0, 6, size=(2, 40_000)).tolist())
    paired = dependence._paired(held, 1, 0.3, held.records.columns[0], np.zeros(40_000, dtype=int))
    x, y = paired.records.columns
    assert np.array_equal(np.bincount(y), np.bincount(held.records.columns[1]))
    # 30 % in the same order, all others independent; its standard error is .005
    assert np.corrcoef(x, y)[0, 1] == pytest.approx(0.3, abs=0.025)


@pytest.mark.parametrize(("true", "scale", "slots"), [
    (np.repeat([250.0, 0.0], 20), 30.0, 1), (np.repeat([50.0, 0.0], [30, 10]), 13.0, 5)
])  # fmt: skip
def test_cells_are_hidden_where_noise_alone_explains_their_counts(true: Any, scale: float, slots: int) -> None:
    """Slots of units: each table's negative counts are clipped by themselves, and together they look like records."""
    rng, domain = np.random.default_rng(1), Domain(columns={"x": Integer(lower=0, upper=39)})
    noisy = np.maximum(0.0, true + rng.normal(scale=scale, size=(20, slots, 40))).sum(axis=1)  # 20 tables
    tables = []
    for row in noisy / noisy.sum(axis=1, keepdims=True):
        counts = rng.multinomial(5000, rng.multinomial(5000, row) / 5000).astype(float)
        tables.append(
            Released(domain=domain, records=domain.unflat(np.arange(40)), counts=counts, urn=None, n_held=None)
        )
    assert np.array_equal(hidden_cells(tables, 0, 5000, slots), true == 0.0)
    assert slots == 1 or hidden_cells(tables, 0, 5000).sum() < 10


def test_functions_tell_which_columns_they_look_at() -> None:
    held = table([0, 1], [1, 0])
    one = Functional("one", function=lambda values, weights: (values["y"] * weights).sum(axis=1))
    both = Functional("all", function=lambda values, weights: sum(values.values()).sum(axis=1) * weights[:, 0])
    assert _columns_read([one], held.domain, held.records, held.counts / held.size) == ["y"]
    assert _columns_read([both], held.domain, held.records, held.counts / held.size) == ["x", "y"]


WIDE = Domain(
    columns={
        "money": Numeric(lower=-50.0, upper=150.0, cells=10), "more": Numeric(lower=-50.0, upper=150.0, cells=40),
        "rich": Boolean(), "age": Integer(lower=20, upper=59),
    }
)  # fmt: skip
ROWS = 3000


@pytest.fixture(scope="module")
def held() -> pl.DataFrame:
    rng = np.random.default_rng(0)
    money = np.where(rng.random(ROWS) < 0.4, 0.0, rng.uniform(0.0, 100.0, ROWS))
    more = np.clip(money + rng.normal(scale=10.0, size=ROWS), -50.0, 149.0)
    age = np.where(rng.random(ROWS) < 0.7, 30, rng.integers(20, 60, ROWS))
    return pl.DataFrame({"money": money, "more": more, "rich": more > 50.0, "age": age})


@pytest.fixture(scope="module")
def released(held: pl.DataFrame) -> Release:
    asked = {"mechanism": "marginals", "tables": 10, "workload": ["rich*age"], "size": ROWS, "seed": 1}
    return release(held, WIDE, Budget(epsilon=3.0, delta=1e-6), **asked)


def missed(released: Release, held: pl.DataFrame) -> list[str]:
    """Return which numbers of one column lie outside of their intervals."""
    money = held["money"]
    true = {"P(<=0)": (money <= 0.0).mean(), "q30": 0.0, "mean": money.mean(), "sd": money.std(ddof=0), "P(>=0)": 1.0}
    rows = released.estimate([*true], column="money").rows
    return [row.name for row in rows if not row.lower <= true[row.name] <= row.upper]


def test_a_cut_cell_is_bounded(released: Release, held: pl.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    assert missed(released, held) == []
    assert "bounds: the interval allows for" in str(released.estimate(["P(<=0)"], column="money"))
    original = several_tables.Posterior.of_arrays
    even: dict[str, Any] = {"bounds": False}
    monkeypatch.setattr(several_tables.Posterior, "of_arrays", lambda *a, **options: original(*a, **(options | even)))
    assert missed(released, held) == ["P(<=0)", "sd", "P(>=0)"]


def test_a_quantile_at_a_spike_is_an_interval_of_shares(released: Release) -> None:
    row = released.estimate(["q50"], column="age").rows[0]
    assert (row.lower, row.upper) == (30.0, 30.0)
    assert released.estimate(["q50"], column="age", by="rich").rows[0].lower == 30.0


def test_a_pair_that_was_not_measured_allows_for_its_dependence(
    released: Release, held: pl.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("formulaic")
    slope = float(np.polyfit(held["money"], held["more"], 1)[0])

    def outside() -> bool:
        row = released.regress("more ~ money").rows[1]
        assert [code.to_dict() for code in row.codes] == [
            {"code": "unmeasured-pair", "columns": ["money", "more"], "share": 1.0}
        ]
        return not row.lower <= slope <= row.upper

    assert not outside()
    monkeypatch.setattr(OpenDependence, "shifts", lambda _, numbers, **__: np.zeros((2, 2)))
    assert outside()


def test_a_column_that_was_measured_too_coarsely_is_named(released: Release) -> None:
    certificate = released.certificate.releasing(merged_cells={"money": 1})
    several = several_tables.SeveralTables(replace(released, certificate=certificate), 0.95)
    tables = several.read(["money", "rich"])
    hidden = {name: np.zeros(WIDE.columns[name].size, dtype=bool) for name in ("money", "rich")}
    codes = OpenDependence(several, tables, hidden, ["money", "rich"]).codes()
    assert [code.name for code in codes] == ["unmeasured-pair", "coarse-column"]
    assert (codes[1].numbers["column"], codes[1].numbers["cells"], codes[1].numbers["share"]) == ("money", 1, 1.0)
    assert "Declare a narrower range" in str(codes[1])


def test_a_number_of_two_columns_repeats_that_their_table_is_mostly_noise() -> None:
    pytest.importorskip("formulaic")
    rng, columns = np.random.default_rng(0), {name: Integer(lower=0, upper=9) for name in "abc"}
    a, c = rng.integers(0, 10, (2, ROWS))
    frame = pl.DataFrame({"a": a, "b": np.clip(a + rng.integers(-1, 2, ROWS), 0, 9), "c": c})
    asked = {"mechanism": "marginals", "tables": 3, "size": ROWS, "seed": 1, "workload": ["a*b", "b*c"]}
    made = release(frame, Domain(columns=columns), Budget(epsilon=1.0, delta=1e-6), **asked)
    assert Code("faint-tables", {"tables": ["a*b"]}) in made.certificate.facts.released.outcome
    for rows in (made.regress("b ~ a").rows, made.estimate(["mean"], column="a", by="b").rows):
        assert all({"code": "faint-tables", "tables": ["a*b"]} in [c.to_dict() for c in row.codes] for row in rows)
    assert made.estimate(["mean"], column="a").rows[0].codes == ()
    assert "faint-tables" not in [code.name for code in made.estimate(["mean"], column="c", by="b").rows[0].codes]
    assert "(!) Intercept, a: noise exceeds the counts of many cells of a*b" in str(made.regress("b ~ a"))


def test_a_narrower_range_is_fine_enough() -> None:
    pytest.importorskip("formulaic")
    rng = np.random.default_rng(0)
    paid = np.exp(1.5 * rng.normal(size=ROWS))
    frame, found = pl.DataFrame({"paid": paid, "hours": np.clip(np.rint(10 + 4 * np.log(paid)), 0, 20)}), []
    for upper in (2000.0, 10.0):
        column = Numeric(lower=0.0, upper=upper, cells=100, out_of_bounds="clip")
        domain = Domain(columns={"paid": column, "hours": Integer(lower=0, upper=20)})
        asked = {"mechanism": "marginals", "tables": 3, "size": ROWS, "seed": 1}
        released = release(frame, domain, Budget(epsilon=1.0, delta=1e-6), **asked)
        found.append([code.name for code in released.regress("hours ~ paid").rows[1].codes])
    assert found == [["coarse-column"], []]
