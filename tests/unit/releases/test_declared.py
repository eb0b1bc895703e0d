"""A domain that declares more than its columns: released and verified by what keeps it alone."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest
from jsonschema import Draft202012Validator

import discreet
from discreet import Budget, release
from discreet.confidential import confidential
from discreet.domain import Category, Counts, Domain, Integer, Numeric, Records
from discreet.errors import Fault, Infeasible, ParameterError
from discreet.mechanisms import REGISTRY, PerturbedHistogram, SmoothedHistogram, Traits, first_names
from discreet.mechanisms.drawn import KernelRecords
from discreet.mechanisms.reading import Reading
from discreet.planner import plan
from discreet.releases import Certificate, verify

COLUMNS = {"age": Integer(lower=0, upper=9), "married": Category(categories=["no", "yes"])}
TABLES: dict[str, Any] = {
    "impossible": [{"age": {"below": 5}, "married": "yes"}],
    "implies": [{"columns": ["age"], "determine": "married", "table": [[{"below": 5}, "no"]]}],
    "totals": [{"column": "married", "source": "register", "counts": {"yes": 600, "no": 400}}],
}
DOMAIN = Domain(columns=COLUMNS, **TABLES)
FRAME = pl.DataFrame({"age": np.arange(1000) % 10, "married": ["yes"] * 600 + ["no"] * 400})
SCHEMA = json.loads((Path(discreet.__file__).parent / "releases" / "certificate.schema.json").read_text())
REFUSED = "does not keep what the domain declares under"


@dataclass(frozen=True, kw_only=True)
class Keeping(SmoothedHistogram):
    """A mechanism that keeps impossible records out: it draws from the prior, and moves what is not allowed."""

    name: ClassVar[str] = "keeping"
    traits: ClassVar[Traits] = replace(SmoothedHistogram.traits, keeps_declared=True)

    def reading(self, y: Any, *, n: int) -> Reading:
        return KernelRecords(map(self._moved, y), self.size)

    def _moved(self, chunk: Records) -> Records:
        ages, married = chunk.columns
        return Records(columns=(ages, np.where(self.domain.allowed(chunk), married, 0)))


@dataclass(frozen=True, kw_only=True)
class Pretending(SmoothedHistogram):
    """A mechanism that says so and does not."""

    traits: ClassVar[Traits] = replace(SmoothedHistogram.traits, keeps_declared=True)


@dataclass(frozen=True, kw_only=True)
class Seeing(Keeping):
    """Tells the test how many records its kernel was given, and how many of them contradict the domain."""

    def kernel(self, x: Counts, *, rng: np.random.Generator) -> Any:
        seen = (x.n, int(x.frequencies[~self.domain.allowed(x.records)].sum()))
        object.__setattr__(self, "seen", [*getattr(self, "seen", []), seen])
        return super().kernel(x, rng=rng)


@pytest.mark.parametrize("table", TABLES)
def test_no_registered_mechanism_is_offered_or_released_that_does_not_keep_it(table: str) -> None:
    domain = Domain(columns=COLUMNS, **{table: TABLES[table]})
    planned = plan(domain, Budget(epsilon=1.0, delta=1e-6), records=1000, largest_sizes=False)
    assert {option.name for option in planned.options} == set(first_names())
    for option in planned.options:
        if not REGISTRY[option.name].traits.keeps_declared:
            assert option.mechanism is None
            assert f"{REFUSED} [[{table}]]. " in f"{option.name} {option.refused}. "
    for name, kind in REGISTRY.items():
        if not kind.traits.keeps_declared:
            with pytest.raises(ParameterError, match=rf"{name} {REFUSED} \[\[{table}\]\]"):
                discreet.release(FRAME, domain, Budget(epsilon=1.0, delta=1e-6), size=10, mechanism=name)


def test_where_none_keeps_it_the_plan_says_so() -> None:
    names = [name for name in first_names() if not REGISTRY[name].traits.keeps_declared]
    planned = plan(DOMAIN, Budget(epsilon=1.0, delta=1e-6), records=1000, largest_sizes=False, mechanisms=names)
    assert planned.verdict[0].startswith("No mechanism can release this table")
    assert str(planned)
    with pytest.raises(Infeasible, match=REFUSED):
        _ = planned.best


def test_the_publisher_refuses_whoever_calls_it() -> None:
    closed = confidential(FRAME, DOMAIN)
    with pytest.raises(
        ParameterError, match=r"under \[\[impossible\]\], \[\[implies\]\], \[\[totals\]\]\. .*eave it out of the domain"
    ):
        release(closed, mechanism=SmoothedHistogram(domain=DOMAIN, size=10, mixing=0.5), accept={"poor-utility"})
    with pytest.raises(ParameterError, match=REFUSED):
        release(closed, mechanism=PerturbedHistogram(domain=DOMAIN, records=1000, scale=2.0), counts=True)


def test_what_keeps_it_is_released_and_its_certificate_holds_it(tmp_path: Path) -> None:
    mechanism, out = Keeping(domain=DOMAIN, size=500, mixing=0.25), tmp_path / "out.parquet"
    made = release(FRAME, DOMAIN, mechanism=mechanism, out=out, seed=1, accept={"poor-utility"})
    records = pl.read_parquet(tmp_path / "out.parquet")
    assert records.height == 500
    assert not ((records["age"] < 5) & (records["married"] == "yes")).any()
    assert ((records["age"] >= 5) & (records["married"] == "yes")).any()
    facts = json.loads((tmp_path / "out.certificate.json").read_text())
    assert Domain.from_dict(facts["domain"]) == DOMAIN
    assert facts["domain"] == {"columns": facts["domain"]["columns"], **TABLES}
    validator = Draft202012Validator(SCHEMA)
    assert [error.message for error in validator.iter_errors(facts)] == []
    for table in TABLES:
        for wrong in (3, {"a": 1}, [3], [{}]):
            assert [*validator.iter_errors({**facts, "domain": {**facts["domain"], table: wrong}})]
    assert made.certificate.to_dict() == facts


def test_a_mechanism_that_only_says_so_ends_as_a_fault_and_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(Fault, match="fault in the program .record declared impossible at smoothed-histogram."):
        mechanism = Pretending(domain=DOMAIN, size=500, mixing=0.25)
        release(FRAME, DOMAIN, mechanism=mechanism, out=tmp_path / "out.parquet", accept={"poor-utility"})
    assert [path.name for path in tmp_path.iterdir()] == [".out.parquet.output"]


def test_a_certificate_of_what_does_not_keep_it_does_not_verify(tmp_path: Path) -> None:
    plain = Domain(columns=COLUMNS)
    mechanism = SmoothedHistogram(domain=plain, size=9, mixing=0.5)
    made = release(FRAME, plain, mechanism=mechanism, accept={"poor-utility"})
    assert all(check.agrees for check in verify(made.certificate))
    for table, entries in TABLES.items():
        changed = {**made.certificate.to_dict(), "domain": {**made.certificate.to_dict()["domain"], table: entries}}
        last = verify(Certificate.from_dict(changed))[-1]
        assert (last.what, last.agrees) == ("certificate", False)
        assert REFUSED in last.found


def test_records_that_contradict_it_are_moved_and_nothing_is_said_of_them() -> None:
    """Three tenths of the table, or none of it, contradict the domain: what is public is the same."""
    certificates, seeing = [], Seeing(domain=DOMAIN, size=5, mixing=0.5)
    for frame in (FRAME, FRAME.with_columns(married=pl.lit("no"))):
        made = release(confidential(frame, DOMAIN), mechanism=seeing, seed=2, accept={"poor-utility"})
        certificates.append({**made.certificate.to_dict(), "created": None})
    assert vars(seeing)["seen"] == [(1000, 0), (1000, 0)]
    assert certificates[0] == certificates[1]


def test_cells_that_are_chosen_keep_what_is_declared() -> None:
    from discreet.planner.cells import with_cells
    from discreet.privacy import Budget

    domain = Domain(columns={**COLUMNS, "income": Numeric(lower=0, upper=1)}, **TABLES)
    cut = with_cells(domain, SmoothedHistogram, n=1000, budget=Budget(epsilon=3.0, delta=1e-3), size=10)
    assert cut.columns["income"].finite
    assert cut == replace(domain, columns=cut.columns)
    assert cut.constraints[0].columns == (0, 1)
