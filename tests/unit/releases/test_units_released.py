"""``unit=Unit(...)``: what a table of units releases, wherever the domain can be one; else rows by themselves."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import discreet
from discreet import AddRemove, Budget, Ledger, Output, Replacement, Unit, Watch, release, verify
from discreet.confidential import confidential
from discreet.domain import Category, Domain, Integer, Numeric, OpenLabels, UnitTable
from discreet.ledger import Request
from discreet.planner import plan_together
from discreet.releases import Release

BUDGET = Budget(epsilon=4.0, delta=1e-6)
COLUMNS: dict[str, Any] = {"ward": Category(categories=["a", "b", "c"]), "days": Integer(lower=0, upper=9)}
FLAT = Domain(columns=COLUMNS, impossible=[{"ward": "a", "days": {"from": 5}}])
PERSON = Unit("person", max_records=3)
BY_UNIT = Domain(
    tables={"records": UnitTable(unit="person", max_records=3, columns=COLUMNS)}, impossible=FLAT.impossible
)
PERSONS = 3000


def visits(numbers: tuple[int, ...] = (1, 2, 2, 3)) -> pl.DataFrame:
    """Rows of 3,000 persons, who have these numbers of rows in turn."""
    owners = np.repeat(np.arange(PERSONS), np.resize(numbers, PERSONS))
    ward = owners * 7 % 3
    return pl.DataFrame({"person": owners, "ward": np.array(["a", "b", "c"])[ward], "days": 2 * ward + owners % 2})


def asked(**changes: Any) -> dict[str, Any]:
    return {"data": visits(), "domain": FLAT, "budget": BUDGET, "unit": PERSON, "size": 2000, "seed": 5} | changes


def facts(made: Release) -> dict[str, Any]:
    return {**made.certificate.to_dict(), "created": None}


@pytest.mark.parametrize(("mechanism", "relation"), [
    (None, Replacement()), ("marginals", Replacement(records=PERSONS)), (None, AddRemove(records=PERSONS))
], ids=str)  # fmt: skip
def test_a_unit_is_a_table_of_units(mechanism: str | None, relation: Any) -> None:
    short, long = (
        release(**asked(relation=relation, mechanism=mechanism, **form))
        for form in ({}, {"domain": BY_UNIT, "unit": None})
    )
    assert short.records.equals(long.records)
    assert (facts(short), short.info) == (facts(long), long.info)
    assert facts(short)["records"] == PERSONS
    assert facts(short)["unit"] == {"column": "person", "max_records": 3}


def test_persons_come_out_with_their_rows(tmp_path: Path) -> None:
    made = release(**asked(out=tmp_path / "o.parquet", seed=None))
    records = pl.read_parquet(tmp_path / "o.parquet")
    assert records.columns == ["person", "ward", "days"]
    assert records.null_count().sum_horizontal().item() == 0
    assert records["person"].unique().to_list() == list(range(1, 2001))
    numbers = records.group_by("person").len()["len"]
    for rows, share in ((1, 0.25), (2, 0.5), (3, 0.25)):
        assert (numbers == rows).mean() == pytest.approx(share, abs=0.05)
    assert records.group_by("person").agg(pl.col("ward").n_unique() == 1)["ward"].mean() > 0.9
    assert records.filter(pl.col("ward") == "a")["days"].max() < 5
    assert all(check.agrees for check in verify(made.certificate, data=tmp_path / "o.parquet"))


def test_an_open_null_is_a_value_of_a_row() -> None:
    domain = Domain(columns={"ward": COLUMNS["ward"], "days": Integer(lower=0, upper=9, nulls="category")})
    data = visits().with_columns(days=pl.when(pl.col("days") == 2).then(None).otherwise("days"))
    records = release(**asked(data=data, domain=domain)).records
    share = data["days"].null_count() / data.height
    assert records["days"].null_count() / records.height == pytest.approx(share, abs=0.03)
    assert records["ward"].null_count() == 0


def test_continuous_columns_get_cells_and_it_is_said() -> None:
    domain, data = Domain(columns={**COLUMNS, "x": Numeric(lower=0, upper=1)}), visits().with_columns(x=0.25)
    made = release(**asked(data=data, domain=domain))
    assert "column 'x': 64 linear-spaced cells" in made.info["why"]
    assert made.records["x"].is_between(0.2, 0.3).mean() > 0.9
    notes = discreet.plan(domain, BUDGET, records=PERSONS, unit=PERSON).notes
    assert any("column 'x': 64 linear-spaced cells" in note for note in notes)


NULLABLE = Domain(
    columns={"ward": Category(categories=["a", "b", "c"], nulls="category"),
             "days": Integer(lower=0, upper=9, nulls="category")}
)  # fmt: skip
OUTCOME = Domain(columns=NULLABLE.columns, outcome="ward")
COIN = Domain(columns={"days": Integer(lower=0, upper=9, nulls="category", coin=True)})
OPEN = Domain(columns={"ward": OpenLabels(nulls="category"), "days": NULLABLE.columns["days"]})


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"domain": OUTCOME}, "outcome cannot be declared"),
        ({"domain": Domain(columns=NULLABLE.columns, metric_weights={"ward": 2.0})}, "metric_weights cannot"),
        ({"domain": COIN, "data": visits().drop("ward"), "mechanism": None}, "coin is for a table of one column"),
        ({"domain": OPEN, "mechanism": None}, "rows of a unit need finitely many cells"),
        ({"unit": Unit("person", max_records=64)}, "at most 128 columns"),
        ({"unit": Unit("person", max_records=101)}, "max_records must be an integer from 1 to 100"),
        ({"budget": Budget(epsilon=4.0), "mechanism": None}, "budgets of delta 0"),
        ({"counts": True, "size": None, "mechanism": None}, "counts, parts"),
        ({"reference": visits().drop("person")[:50]}, "references"),
        ({"workload": "ward*days"}, "workloads"),
        ({"mechanism": "perturbed-histogram"}, ""),
    ],
    ids=range(11),
)
def test_else_rows_are_released_by_themselves(changes: dict[str, Any], why: str) -> None:
    made = release(**asked(domain=NULLABLE, accept={"poor-utility"}, mechanism="marginals") | changes)
    most = changes.get("unit", PERSON).max_records
    assert facts(made)["records"] == PERSONS * most
    assert facts(made)["relation"]["group"] == most
    assert "person" not in made.records.columns
    assert ("rows are released by themselves" in made.info["why"]) == bool(why)
    assert why in made.info["why"]
    assert all(check.agrees for check in verify(made.certificate))


def test_a_table_that_is_closed_in_slots_stays_in_them() -> None:
    closed = confidential(visits(), NULLABLE, unit=PERSON)
    assert facts(release(closed, budget=BUDGET, size=50, mechanism="marginals"))["records"] == 3 * PERSONS


def test_a_ledger_and_a_folder_of_parts(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "l", dataset="d", epsilon=10.0, delta=1e-3, unit=PERSON)
    accept = {"data-dependent-refusal"}
    units = release(**asked(seed=None, ledger=ledger, accept=accept, out=tmp_path / "a.csv"))
    rows = {"domain": NULLABLE, "mechanism": "marginals", "out": Output(tmp_path / "b", partitions=2)}
    rows = release(**asked(seed=None, ledger=ledger, accept=accept | {"poor-utility"}, **rows))
    assert ledger.verify([units.certificate_path, rows.certificate_path]) == []
    assert ledger.status().spent["epsilon"] == pytest.approx(8.0)


@pytest.mark.parametrize(
    ("domain", "unit", "records"),
    [(NULLABLE, Unit("UNIT", max_records=3), 3 * PERSONS), (BY_UNIT, None, PERSONS)],
    ids=["rows", "units"],
)
def test_a_planned_release_has_the_form_of_its_plan(
    domain: Domain, unit: Unit | None, records: int, tmp_path: Path
) -> None:
    ledger = Ledger.create(tmp_path / "l", dataset="d", epsilon=10.0, delta=1e-3, unit=PERSON)
    how = {"domain": domain, "unit": unit, "size": 50, "mechanism": "marginals"}
    (part,) = (plan := plan_together([Request(part="a", relation=Replacement(records=records), **how)], BUDGET)).parts
    accept = {"data-dependent-refusal"}
    ledger.declare(plan, accept=accept)
    how |= {"unit": unit and PERSON, "seed": None, "accept": accept, "out": tmp_path / "o.csv"}
    made = release(**asked(**how, budget=part.budget, ledger=ledger.part("a")))
    assert facts(made)["records"] == records
    assert ledger.verify([made.certificate_path]) == []


def shown(data: pl.DataFrame) -> Any:
    """What a release shows of a table but for what is drawn."""
    said: list[str] = []
    made = release(**asked(data=data, watch=Watch(announce=said.append)))
    return facts(made) | {"released": made.records.schema}, made.info, said


def test_the_number_of_rows_is_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = visits((1, 2)), visits((3, 5, 9))
    assert shown(few) == shown(many)
    monkeypatch.setattr("discreet._release.public_size", lambda _: few.height)  # planted
    with pytest.raises(discreet.errors.DiscreetError):
        shown(few)
