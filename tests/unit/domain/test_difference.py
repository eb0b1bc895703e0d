"""Two numbers of one unit, of which one is measured by its difference from the other."""

import datetime as dt
import itertools
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from discreet import Budget, plan, read, release, verify
from discreet._core.random import seeded
from discreet.confidential import check_table, open_source, reveal_to_custodian
from discreet.confidential.count import counted
from discreet.domain import Category, Date, Datetime, Domain, Integer, Numeric, Records, Time
from discreet.domain.column import Column
from discreet.domain.maps import Difference
from discreet.errors import DomainError, ParameterError
from discreet.mechanisms.chosen_tables import coded_parts
from discreet.mechanisms.marginals import Marginals
from discreet.utility import compare

ROOT = Path(__file__).parents[3]
NULLS: dict[str, Any] = {"nulls": "category"}
LATE: dict[str, Any] = {"of": "arr", "from": "dep", "lower": -2, "upper": 3}


def delays(lower: float = -2, upper: float = 3, **columns: Column) -> Domain:
    usual = {"dep": Integer(lower=0, upper=5, **NULLS), "arr": Integer(lower=-1, upper=6, **NULLS)}
    return Domain(columns={**usual, **columns}, difference={**LATE, "lower": lower, "upper": upper})


def every_record(domain: Domain) -> Records:
    return domain.unflat(np.arange(domain.size or 0))


def replaced(difference: Difference, records: Records, code: Any) -> Records:
    columns = list(records.columns)
    difference.replace(columns, code)
    return Records(columns=tuple(columns))


def there_and_back(domain: Domain) -> list[tuple[Any, ...]]:
    (difference,) = domain.differences
    coded = replaced(difference, every_record(domain), difference.cells_of)
    assert set(coded.columns[difference.columns[0]].tolist()) <= set(range(difference.cells.size or 0))
    back = replaced(difference, coded, difference.codes_of)
    return domain.decode(back, rng=seeded(0)).rows()


# -- the map, record by record ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("lower", "upper"), [(-6, 6), (-2, 3), (0, 1), (-100, 100)])
def test_every_pair_of_values_comes_back_clipped_to_the_bounds(lower: int, upper: int) -> None:
    domain = delays(lower, upper)
    records = domain.decode(every_record(domain), rng=seeded(0)).rows()
    expected = [
        (dep, None if None in (dep, arr) else min(max(dep + min(max(arr - dep, lower), upper), -1), 6))
        for dep, arr in records
    ]
    assert there_and_back(domain) == expected
    if upper - lower > 10:
        assert all(back[1] == arr for back, (dep, arr) in zip(expected, records, strict=True) if dep is not None)


@pytest.mark.parametrize(
    ("dep", "arr", "bounds"),
    [
        (Numeric(lower=0, upper=0.4, step=0.1), Numeric(lower=-0.1, upper=0.5, step=0.1), (-0.5, 0.5)),
        (Integer(lower=0, upper=4), Numeric(lower=0.5, upper=5.5, step=1), (-4, 6)),
        (Numeric(lower=0, upper=10, cells=5), Numeric(lower=-4, upper=8, cells=6), (-20, 20)),
        (Integer(lower=0, upper=9, cells=5), Integer(lower=1, upper=12, cells=6), (-20, 20)),
        (Date(lower="2020-01-01", upper="2020-01-05"), Date(lower="2020-01-03", upper="2020-01-09"), (-9, 9)),
        (Time(step="6h"), Time(lower="06:00", step="6h"), (-86400, 86400)),
        (
            Datetime(lower="2020-01-01 00:00", upper="2020-01-01 03:00", step="1h"),
            Datetime(lower="2020-01-01 01:00", upper="2020-01-01 06:00", step="1h"),
            (-7 * 3600, 7 * 3600),
        ),
    ],
)
def test_columns_with_cells_of_one_width_come_back_by_cell(dep: Column, arr: Column, bounds: tuple[int, int]) -> None:
    domain = delays(*bounds, dep=dep, arr=arr)
    (difference,) = domain.differences
    records = every_record(domain)
    coded = replaced(difference, records, difference.cells_of)
    back = replaced(difference, coded, difference.codes_of)
    assert all(np.array_equal(a, b) for a, b in zip(back.columns, records.columns, strict=True))
    # as many differences as pairs of cells have
    assert difference.cells.size == (dep.size or 0) + (arr.size or 0) - 1


def test_the_difference_is_in_the_unit_of_the_columns() -> None:
    days = delays(
        -1, 2, dep=Date(lower="2020-01-01", upper="2020-01-09"), arr=Date(lower="2020-01-03", upper="2020-02-01")
    )
    frame = pl.DataFrame({"dep": [dt.date(2020, 1, 5)] * 3, "arr": [dt.date(2020, 1, day) for day in (3, 6, 20)]})
    (difference,) = days.differences
    coded = replaced(difference, days.encode(frame), difference.cells_of)
    back = days.decode(replaced(difference, coded, difference.codes_of), rng=seeded(0))
    assert back["arr"].dt.day().to_list() == [4, 6, 7]


# -- the private step -------------------------------------------------------------------------------------------------


def wide(**facts: Any) -> Domain:
    columns = {**delays().columns, "a": Integer(lower=0, upper=2), "b": Category(categories=["x", "y"])}
    return Domain(columns=columns, **facts)


def test_the_kernel_is_that_of_a_table_that_has_the_difference_for_the_column() -> None:
    """The same noisy tables, guarantee and log-probability as where the differences are the column."""
    domain, rng = wide(difference=LATE), seeded(3)
    plain = Domain(columns={**domain.columns, "arr": domain.measured_columns["arr"]})
    records = domain.draw_base(500, rng)
    x = counted(open_source(domain.decode(records, rng=rng)), domain, rng)
    (difference,) = domain.differences
    coded = plain.decode(replaced(difference, records, difference.cells_of), rng=rng)
    z = counted(open_source(coded), plain, rng)
    budget = Budget(epsilon=1.0, delta=1e-6)
    ours, theirs = (Marginals.calibrated(budget, domain=each, n=500) for each in (domain, plain))
    y = ours.kernel(x, rng=seeded(1))
    assert (y == theirs.kernel(z, rng=seeded(1))).all()
    assert ours.log_prob(y, x) == theirs.log_prob(y, z)
    assert ours.guarantee(n=500).delta(1.0) == theirs.guarantee(n=500).delta(1.0)


def test_neighbours_stay_neighbours() -> None:
    """Tables of which one record differs have coded tables of which at most one does."""
    domain = delays()
    frame = domain.decode(every_record(domain), rng=seeded(0))
    for row in range(frame.height):
        parts = []
        for part in (frame, pl.concat([frame[:row], frame[row + 1 :]])):
            (coded,) = coded_parts(counted(open_source(part), domain, seeded(0)).parts(), domain, ())
            parts.append(np.bincount(coded.records.columns[0] * 7 + coded.records.columns[1], coded.frequencies, 49))
        assert np.abs(parts[0] - parts[1]).sum() == 1


# -- a release --------------------------------------------------------------------------------------------------------


def flights(rows: int = 6000) -> tuple[pl.DataFrame, Domain]:
    rng = np.random.default_rng(5)
    dep = np.clip(np.rint(rng.exponential(40, rows) - 10), -20, 399).astype(np.int64)
    arr = np.clip(dep + np.rint(rng.normal(-5, 12, rows)), -60, 459).astype(np.int64)
    frame = pl.DataFrame({"dep": dep, "arr": arr, "a": rng.integers(0, 3, rows), "b": rng.choice(["x", "y"], rows)})
    frame = frame.with_columns(pl.when(pl.Series(rng.random(rows) > 0.03)).then(pl.col("dep", "arr")))
    columns = {
        "dep": Integer(lower=-20, upper=399, **NULLS),
        "arr": Integer(lower=-60, upper=459, **NULLS),
        "a": Integer(lower=0, upper=2),
        "b": Category(categories=["x", "y"]),
    }
    return frame, Domain(columns=columns, difference={**LATE, "lower": -60, "upper": 60})


BUDGET = Budget(epsilon=2.0, delta=1e-6)


def correlation(frame: pl.DataFrame) -> float:
    return float(frame.drop_nulls().select(pl.corr("dep", "arr")).item())


def test_the_correlation_is_kept_and_nulls_stay_together() -> None:
    frame, domain = flights()
    kept, lost = (
        release(frame, each, BUDGET, size=6000, mechanism="marginals", seed=1).records
        for each in (domain, replace(domain, difference=None))
    )
    assert abs(correlation(kept) - correlation(frame)) < 0.03
    assert correlation(lost) < correlation(frame) - 0.05
    apart = kept.drop_nulls()["arr"] - kept.drop_nulls()["dep"]
    assert apart.min() >= -60
    assert apart.max() <= 60
    assert kept.filter(pl.col("dep").is_null())["arr"].null_count() == kept["dep"].null_count()


def test_files_engines_certificates_and_answers(tmp_path: Path) -> None:
    frame, domain = flights(3000)
    frame.write_csv(tmp_path / "in.csv")
    (tmp_path / "in.toml").write_text(domain.to_toml())
    out = tmp_path / "out.parquet"
    parameters: dict[str, Any] = {"size": 3000, "mechanism": "marginals", "seed": 1}
    release(tmp_path / "in.csv", tmp_path / "in.toml", BUDGET, out=out, **parameters)
    inner = release(frame.lazy(), domain, BUDGET, **parameters).records
    assert pl.read_parquet(out).equals(inner.collect() if isinstance(inner, pl.LazyFrame) else inner)
    (file,) = tmp_path.glob("*certificate*")
    assert all(check.agrees for check in verify(file, data=out))
    assert read(out).certificate.facts.domain["difference"] == domain.to_dict()["difference"]
    program = [sys.executable, str(ROOT / "tools" / "verify_certificate"), str(file)]
    second = subprocess.run(program, capture_output=True, text=True, check=False)
    assert second.returncode == 0, second.stdout + second.stderr
    assert json.loads(file.read_text())["domain"]["difference"]["of"] == "arr"
    assert "arr" in str(reveal_to_custodian(compare(frame, out, domain)))


def test_several_tables_are_estimated_on_the_columns() -> None:
    frame, domain = flights(3000)
    tables = release(frame, domain, BUDGET, size=3000, tables=5, seed=1)
    alone = tables.estimate(["mean"], column="arr")
    (mean,) = alone.rows
    assert abs(mean.mean - frame["arr"].mean()) < 3.0
    assert any("arr and dep" in note or "dep and arr" in note or "merged cells" in note for note in alone.notes)
    notes = " ".join(tables.estimate(["mean"], column="arr", by="b").notes)
    assert "dep" in notes


def test_a_plan_has_the_mechanism_for_it() -> None:
    _, domain = flights()
    (option,) = plan(domain, BUDGET, records=6000, size=6000, mechanisms=["marginals"], largest_sizes=False).feasible
    assert option.name == "marginals"


def test_counts_and_conditions_on_the_column_are_refused() -> None:
    frame, domain = flights(500)
    with pytest.raises(ParameterError, match="Release records, or drop the difference"):
        release(frame, domain, BUDGET, counts=True, mechanism="marginals", seed=1)
    with pytest.raises(ParameterError, match="Name other columns"):
        release(frame, domain, BUDGET, size=9, mechanism="marginals", given="arr = {from = 3}", seed=1)
    release(frame, domain, BUDGET, size=9, mechanism="marginals", given="dep = {from = 3}", seed=1)


def test_the_custodian_learns_how_many_records_lose_their_difference() -> None:
    domain = delays()
    table = pl.DataFrame({"dep": [0, 0, None, None, 5], "arr": [1, 6, 2, None, 6]})
    (finding,) = reveal_to_custodian(check_table(table, domain)).findings
    assert (finding.columns, finding.rows, finding.refused) == (("arr", "dep"), 2, False)


# -- the declaration --------------------------------------------------------------------------------------------------


def test_it_is_written_and_read() -> None:
    domain = delays()
    assert Domain.from_toml(domain.to_toml()) == domain
    inline = "difference = {of = 'arr', from = 'dep', lower = -2, upper = 3}\n"
    assert Domain.from_toml(inline + replace(domain, difference=None).to_toml()) == domain
    assert domain != replace(domain, difference=None)


@pytest.mark.parametrize(
    ("entry", "columns", "problem"),
    [
        ({"of": "arr"}, {}, "a table {of"),
        ({**LATE, "of": "x"}, {}, "'x', which is not another column"),
        ({**LATE, "of": "dep"}, {}, "'dep', which is not another column"),
        ({**LATE, "lower": "x"}, {}, "lower of difference"),
        ({**LATE, "lower": 3}, {}, "Widen them"),
        (LATE, {"arr": Category(categories=["a", "b"])}, "must both be numbers"),
        (LATE, {"arr": Category(categories=[1, 2], ordered=True)}, "must both be numbers"),
        (LATE, {"arr": Date(lower="2020-01-01", upper="2020-02-01")}, "must both be numbers"),
        (LATE, {"arr": Integer(lower=0, upper=5)}, "for both"),
        (LATE, {"arr": Numeric(lower=0, upper=5, **NULLS)}, "Declare cells"),
        (LATE, {"arr": Integer(lower=0, upper=99, cells=50, **NULLS)}, "differ in width"),
        (LATE, {"arr": Integer(lower=0, upper=9, cells=7, **NULLS)}, "differ in width"),
    ],
)
def test_what_is_no_difference_is_refused(entry: Any, columns: dict[str, Column], problem: str) -> None:
    usual = dict(delays().columns)
    with pytest.raises(DomainError, match=problem):
        Domain(columns={**usual, **columns}, difference=entry)


@pytest.mark.parametrize("declared", ["impossible", "implies", "totals"])
def test_a_column_that_is_constrained_is_refused_and_may_be_what_is_taken_off(declared: str) -> None:
    columns = {**delays().columns, "a": Integer(lower=0, upper=1)}
    entries: dict[str, Any] = {
        "impossible": {"arr": {"below": 0}, "a": 1},
        "implies": {"columns": ["a"], "determine": "arr", "table": [[1, {"from": 1}]]},
        "totals": {"column": "arr", "source": "s", "counts": [[{"below": 2, "null": True}, 3], [{"from": 2}, 4]]},
    }
    with pytest.raises(DomainError, match="exchange of and from"):
        Domain(columns=columns, difference=LATE, **{declared: [entries[declared]]})
    exchanged = {"of": "dep", "from": "arr", "lower": -3, "upper": 2}
    Domain(columns=columns, difference=exchanged, **{declared: [entries[declared]]})


def test_pairs_of_all_small_bounds_are_as_python_has_them() -> None:
    for lower, upper in itertools.combinations(range(-8, 8), 2):
        try:
            (difference,) = delays(lower, upper).differences
        except DomainError:
            assert upper <= -6 or lower >= 6
            continue
        inside = [step for step in range(-6, 7) if lower <= step <= upper]
        assert (difference.cells.lower - 1, difference.cells.upper - 1) == (inside[0], inside[-1])
