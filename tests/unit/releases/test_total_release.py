"""No single value forfeits what a ledger pays for: every misfit is released, certified and verified."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import discreet
from discreet import AddRemove, Budget, Ledger, Unit
from discreet.confidential import reveal_to_custodian
from discreet.domain import Boolean, Category, Column, Date, Decimal, Domain, Integer, Numeric, OpenLabels
from discreet.errors import DomainError
from discreet.ledger import Request
from discreet.planner import plan_together
from discreet.utility import compare

STRICT: dict[str, Column] = {
    "age": Integer(lower=0, upper=9),
    "born": Date(lower="2000-01-01", upper="2000-01-09"),
    "price": Decimal(lower="0", upper="0.9", digits=1),
    "share": Numeric(lower=0, upper=1, cells=4),
    "member": Boolean(),
    "town": Category(categories=["a", "b"]),
    "grade": Category(categories=["low", "high"], ordered=True),
    "level": Category(categories=[1, 2]),
}
FITTING = "3,2000-01-02,0.5,0.5,true,a,low,1"
MISFITS = [
    "1e40,9999-99-99,1e9,inf,maybe,z,?,7",
    ",,,,,,,",
    "-7,1900-01-01,-1,nan,?,,,x",
    "3.7,2000-01-02T10,0.55,x,0,A,LOW,1.5",
]
BUDGET = Budget(epsilon=50.0, delta=1e-6)


def followed(message: str, columns: dict[str, Column]) -> Domain:
    """Return the domain with what an error says to write."""
    total = dict(columns)
    for form, names in re.findall(
        r"(out_of_bounds = \"\w+\"(?: and nulls = \"category\")?) for ((?:'\w+'(?:, )?)+)", message
    ):
        facts = dict(re.findall(r"(\w+) = \"(\w+)\"", form))
        total |= {name: replace(columns[name], **facts) for name in re.findall(r"'(\w+)'", names)}
    return Domain(columns=total)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "l.ledger", dataset="d", epsilon=100.0, delta=1e-3)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    path.write_text("\n".join([",".join(STRICT), *[FITTING] * 100, *MISFITS * 20, ""]))
    return path


def test_a_domain_that_refuses_is_refused_before_anything_and_the_remedy_is_true(
    ledger: Ledger, table: Path, tmp_path: Path
) -> None:
    asked: dict[str, Any] = {
        "size": 300,
        "mechanism": "marginals",
        "ledger": ledger,
        "out": tmp_path / "o.csv",
        "accept": {"weak-promise"},
    }
    with pytest.raises(DomainError, match="single value") as refused:
        discreet.release(table, Domain(columns=STRICT), BUDGET, **asked)
    assert ledger.log()[1:] == []
    domain = followed(str(refused.value), STRICT)
    assert {column.out_of_bounds for column in domain.columns.values()} == {"clip", "null", "other"}
    made = discreet.release(table, domain, BUDGET, **asked)
    assert ledger.log()[-1]["state"] == "DELIVERED"
    stated = json.loads((tmp_path / "o.certificate.json").read_text())["domain"]["columns"]
    assert {name: facts["out_of_bounds"] for name, facts in stated.items()} == {
        name: column.out_of_bounds for name, column in domain.columns.items()
    }
    assert all(check.agrees for check in discreet.verify(made.certificate_path, data=made.path))
    rows = pl.read_csv(tmp_path / "o.csv")
    assert rows["town"].value_counts().filter(pl.col("town") == "other")["count"][0] > 50  # 80 of 180
    assert set(rows["town"]) <= {"a", "b", "other"}


def test_a_label_of_misfits_is_estimated_and_compared(tmp_path: Path) -> None:
    town = Domain(columns={"town": Category(categories=["a", "b"], out_of_bounds="other")})
    data = pl.DataFrame({"town": ["a"] * 500 + ["?", None] * 250})
    made = discreet.release(data, town, Budget(epsilon=5.0), size=1000, mechanism="perturbed-histogram")
    share = made.estimate(["P(=other)"])["P(=other)"]
    assert share.lower < 0.5 < share.upper
    assert reveal_to_custodian(compare(data, made.records, town)).columns[0].wasserstein < 0.05


@pytest.mark.parametrize("accept", [frozenset(), frozenset({"data-dependent-refusal"})])
def test_a_plan_and_its_part_are_refused_alike(accept: frozenset[str], ledger: Ledger) -> None:
    domain = Domain(columns={"age": Integer(lower=0, upper=9)})
    asked: dict[str, Any] = {"mechanism": "perturbed-histogram", "parameters": {"noise": "gaussian"}, "size": 9}
    request = Request(part="a", domain=domain, relation=discreet.Replacement(records=90), **asked)
    plan = plan_together([request], Budget(epsilon=9.0, delta=1e-6))
    if not accept:
        with pytest.raises(DomainError, match="out_of_bounds = \"clip\" for 'age'"):
            ledger.declare(plan)
        assert ledger.log()[1:] == []
        return
    ledger.declare(plan, accept=accept)
    part, before = plan.parts[0], ledger.log()
    with pytest.raises(DomainError, match="single value"):
        discreet.release(pl.DataFrame({"age": [3] * 90}), domain, part.budget, size=9, ledger=ledger.part("a"))
    assert ledger.log() == before


@pytest.mark.parametrize("relation", [discreet.Replacement(), AddRemove(records=90)])
def test_units_with_too_many_rows_and_records_that_contradict_are_no_refusal(relation: Any, ledger: Ledger) -> None:
    columns = {
        "a": Integer(lower=0, upper=3, nulls="category", out_of_bounds="null"),
        "b": Integer(lower=0, upper=3, nulls="category", out_of_bounds="clip"),
    }
    domain = Domain(columns=columns, impossible=[{"a": 1, "b": 1}])
    data = pl.DataFrame({"a": [1, 1, 2] * 100, "b": [1, 9, 2] * 100, "p": [0] * 200 + [*range(100)]})
    with pytest.raises(DomainError, match="unused slots"):
        discreet.release(
            data,
            Domain(columns={"a": Integer(lower=0, upper=3)}),
            BUDGET,
            size=9,
            mechanism="perturbed-histogram",
            unit=Unit("p", max_records=2),
            accept={"weak-promise"},
        )
    ledger = Ledger.create(
        Path(ledger.place).with_name("u"), dataset="u", epsilon=100.0, delta=1e-3, unit=Unit("p", max_records=2),
        relation="add-remove" if isinstance(relation, AddRemove) else "replacement",
    )  # fmt: skip
    made = discreet.release(
        data, domain, BUDGET, size=200, mechanism="marginals", unit=Unit("p", max_records=2), relation=relation,
        ledger=ledger, accept={"poor-utility", "weak-promise"},
    )  # fmt: skip
    assert ledger.log()[-1]["state"] == "DELIVERED"
    assert made.records.filter((pl.col("a") == 1) & (pl.col("b") == 1)).height == 0


def test_open_labels_of_the_reserved_namespace_are_other(ledger: Ledger) -> None:
    domain = Domain(columns={"w": OpenLabels(out_of_bounds="other")})
    words = pl.DataFrame({"w": ["x"] * 300 + ["new_category_1", None] * 300})
    made = discreet.release(
        words,
        domain,
        Budget(epsilon=20.0, delta=1e-4),
        size=200,
        mechanism="stability-histogram",
        ledger=ledger,
        accept={"weak-promise"},
    )
    assert set(made.records["w"]) == {"x", "other"}
