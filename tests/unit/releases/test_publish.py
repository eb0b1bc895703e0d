"""The crossing: what comes out, in which form, under which guarantee, and what is refused."""

import datetime as dt
import json
from decimal import Decimal as Exact
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import discreet
from discreet import Output, Unit, release
from discreet.confidential import confidential
from discreet.domain import Boolean, Category, Date, Datetime, Decimal, Domain, Duration, Integer, Numeric
from discreet.errors import FileProblem, GuaranteeKindError, Infeasible, ParameterError, PoorUtility
from discreet.mechanisms import DirichletMultinomial, PerturbedHistogram, PitmanYor, SmoothedHistogram, UrnHistogram
from discreet.privacy import Budget, Relation
from discreet.releases import Certificate, verify

AGES = Domain(columns={"age": Integer(lower=0, upper=9)})
FRAME = pl.DataFrame({"age": np.arange(2000) % 10})


def closed(frame: object = FRAME, domain: Domain = AGES, **options: object) -> object:
    return confidential(frame, domain, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(("kind", "make"), [
    (pl.DataFrame, lambda f: f),
    (pl.LazyFrame, lambda f: f.lazy()),
    (pd.DataFrame, lambda f: f.to_pandas()),
    (pa.Table, lambda f: f.to_arrow()),
])  # fmt: skip
def test_records_come_back_as_the_kind_of_table_that_came_in(kind: type, make: object) -> None:
    released = discreet.release(make(FRAME), AGES, Budget(epsilon=1, delta=1e-6), size=300)  # type: ignore[operator]
    assert isinstance(released.records, kind)
    assert released.table().height == 300
    assert "released records" in str(released)
    assert "<li>" in released._repr_html_()


def test_every_kind_of_column_comes_back_as_declared() -> None:
    zone = dt.UTC
    domain = Domain(
        columns={
            "flag": Boolean(),
            "count": Integer(lower=-3, upper=3),
            "amount": Numeric(lower=0.0, upper=10.0, cells=5),
            "price": Decimal(lower="0.00", upper="2.00", digits=2),
            "day": Date(lower=dt.date(2020, 1, 1), upper=dt.date(2020, 1, 20)),
            "when": Datetime(
                lower=dt.datetime(2020, 1, 1, tzinfo=zone), upper=dt.datetime(2020, 1, 2, tzinfo=zone), step="1h",
                time_zone="UTC",
            ),
            "long": Duration(lower=dt.timedelta(0), upper=dt.timedelta(hours=5), step="1h"),
            "name": Category(categories=["a", "b"], nulls="category"),
            "rank": Category(categories=["low", "high"], ordered=True, dtype="category"),
        }
    )  # fmt: skip
    row = {
        "flag": True, "count": 2, "amount": 3.5, "price": Exact("1.25"), "day": dt.date(2020, 1, 5),
        "when": dt.datetime(2020, 1, 1, 7, tzinfo=zone), "long": dt.timedelta(hours=2), "name": None, "rank": "high",
    }  # fmt: skip
    schema = {
        "flag": pl.Boolean, "count": pl.Int64, "amount": pl.Float64, "price": pl.Decimal(38, 2), "day": pl.Date,
        "when": pl.Datetime("us", "UTC"), "long": pl.Duration("us"), "name": pl.String, "rank": pl.String,
    }  # fmt: skip
    frame = pl.DataFrame([row] * 500, schema=schema)
    mechanism = PitmanYor(domain=domain, size=40, strength=1e-6)  # nearly every record is verbatim
    released = release(confidential(frame, domain), mechanism=mechanism, accept={"poor-utility"})
    assert released.records.columns == list(domain.names)
    for name in ("flag", "count", "day", "when", "long", "name"):
        assert released.records.schema[name] == schema[name], name
        assert released.records[name].to_list() == [row[name]] * 40
    assert released.records["price"].to_list() == [row["price"]] * 40
    assert released.records["amount"].is_between(2.0, 4.0).all()
    assert released.records["rank"].cast(pl.String).to_list() == ["high"] * 40
    again = Certificate.from_dict(json.loads(released.certificate.to_json()))
    assert all(check.agrees for check in verify(again))


def test_the_certificate_states_the_exact_guarantee() -> None:
    mechanism = DirichletMultinomial(domain=AGES, size=200, prior=20.0)
    budget = Budget(epsilon=1.0, delta=1e-3)
    released = release(closed(), mechanism=mechanism, budget=budget, accept={"weak-promise"})  # type: ignore[arg-type]
    guarantee = mechanism.guarantee(n=2000)
    assert released.certificate.epsilon == 1.0
    assert released.certificate.delta == guarantee.delta(1.0)
    assert released.certificate.to_dict()["records"] == 2000
    assert not released.certificate.seeded
    assert release(closed(), mechanism=mechanism, seed=0).certificate.seeded  # type: ignore[arg-type]
    assert released.certificate.tables[0].sha256 is None


def test_a_privacy_unit_is_a_group() -> None:
    domain = Domain(columns={"age": Integer(lower=0, upper=9, nulls="category")})
    frame = pl.DataFrame({"age": np.arange(2000) % 10, "person": np.arange(2000) // 4})
    how = {"size": 100, "unit": Unit("person", max_records=3), "mechanism": "perturbed-histogram"}
    released = discreet.release(frame, domain, Budget(epsilon=1, delta=1e-6), **how)
    facts = released.certificate.to_dict()
    assert facts["records"] == 1500
    assert facts["relation"] == {"name": "replacement", "group": 3}
    assert facts["unit"] == {"column": "person", "max_records": 3}
    assert "unit of up to 3 records" in released.certificate.statement
    scale = facts["mechanism"]["parameters"]["scale"]
    single = PerturbedHistogram(domain=domain, records=1500, scale=scale)
    of_three, of_four = (single.guarantee(Relation(group=group), n=1500).delta(1.0) for group in (3, 4))
    assert of_three <= 1e-6 < of_four


def test_cells_are_chosen_and_recorded_where_none_are_declared() -> None:
    domain = Domain(columns={"age": Numeric(lower=0.0, upper=10.0)})
    frame = FRAME.cast(pl.Float64)
    released = discreet.release(frame, domain, Budget(epsilon=1, delta=1e-6), size=100)
    assert released.certificate.to_dict()["domain"]["columns"]["age"]["cells"] == 128
    assert "128 linear-spaced cells" in released.info["why"]
    for name in ("smoothed-histogram", "dirichlet-process"):
        budget, accept = Budget(epsilon=2, delta=0.01), {"weak-promise"}
        made = discreet.release(frame, domain, budget, size=10, mechanism=name, accept=accept)
        assert ("cells" in made.certificate.to_dict()["domain"]["columns"]["age"]) is (name == "smoothed-histogram")


@pytest.mark.parametrize("given", [None, "promise.json"])
def test_a_parquet_file_names_its_certificate_and_says_what_was_promised(tmp_path: Path, given: str | None) -> None:
    out, where = tmp_path / "r.parquet", None if given is None else tmp_path / given
    made = discreet.release(FRAME, AGES, Budget(epsilon=1, delta=1e-6), size=100, out=Output(out, certificate=where))
    carried = pl.read_parquet_metadata(out)
    certificate = Certificate.read(out.with_name(carried["discreet.certificate"]))
    assert carried["discreet.promise"] == certificate.statement
    assert made.certificate_path == where or given is None
    assert all(check.agrees for check in verify(certificate, data=out))
    assert str(tmp_path) not in "".join(carried.values())


@pytest.mark.parametrize("name", ["cells", "group", "n"])
@pytest.mark.parametrize("mechanism", ["perturbed-histogram", "urn-histogram", "private-evolution"])
def test_what_follows_from_the_table_is_no_parameter(mechanism: str, name: str) -> None:
    with pytest.raises(ParameterError, match=f"'{name}' is no parameter of {mechanism}"):
        discreet.release(FRAME, AGES, Budget(epsilon=1, delta=1e-6), size=100, mechanism=mechanism, **{name: 3})  # type: ignore[arg-type]


def test_durations_in_csv_can_be_read_back(tmp_path: Path) -> None:
    domain = Domain(columns={"long": Duration(lower=dt.timedelta(0), upper=dt.timedelta(hours=50), step="30m")})
    frame = pl.DataFrame({"long": [dt.timedelta(minutes=30 * (i % 90)) for i in range(3000)]})
    discreet.release(frame, domain, Budget(epsilon=2, delta=1e-6), size=2000, out=tmp_path / "r.csv")
    again = discreet.release(tmp_path / "r.csv", domain, Budget(epsilon=2, delta=1e-6), size=10)
    assert again.records["long"].dtype == pl.Duration("us")


def test_streaming_to_a_file_returns_no_records(tmp_path: Path) -> None:
    seen: list[int] = []
    watch, budget = discreet.Watch(progress=seen.append), Budget(epsilon=1, delta=1e-6)
    made = discreet.release(FRAME, AGES, budget, size=300_000, out=tmp_path / "r.csv", watch=watch)
    assert made.records is None
    assert seen[-1] == 300_000
    assert seen == sorted(seen)
    assert pl.read_csv(tmp_path / "r.csv").height == 300_000
    with pytest.raises(FileProblem, match="Copy that file"):
        made.write(tmp_path / "again.csv")


@pytest.mark.parametrize(
    ("mechanism", "options", "error"),
    [
        (PitmanYor(domain=AGES, size=5, sampler="mixing"), {}, GuaranteeKindError),
        (DirichletMultinomial(domain=AGES, size=5, prior=0.5), {"budget": Budget(epsilon=0.1)}, Infeasible),
        (DirichletMultinomial(domain=AGES, size=5, prior=500.0), {}, PoorUtility),
        (UrnHistogram(domain=AGES, size=5, strength=8001.0), {}, PoorUtility),
        (DirichletMultinomial(domain=AGES, size=5, prior=0.5), {"size": 6}, ParameterError),
    ],
)
def test_what_is_refused_draws_nothing(
    mechanism: object, options: dict[str, object], error: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Untouchable(np.random.Generator):
        def integers(self, *_: object, **__: object) -> object:
            raise AssertionError("something was drawn")

    monkeypatch.setattr("discreet._release.secure", lambda: Untouchable(np.random.PCG64(1)))
    with pytest.raises(error):
        release(closed(), mechanism=mechanism, **options)  # type: ignore[arg-type]


def test_what_an_urn_will_drop_is_said_before_and_refused_where_nothing_is_left() -> None:
    said: list[str] = []
    facts = {"domain": AGES, "mechanism": "urn-histogram", "watch": discreet.Watch(announce=said.append)}
    budget, accept = Budget(epsilon=1, delta=0.01), {"weak-promise"}
    made = discreet.release(FRAME, budget=budget, size=100, accept=accept, **facts)  # type: ignore[arg-type]
    assert "About 20.2 of 100 draws are expected to be released" in said
    assert 0 < len(made.records) < 100  # about 20 are expected; none, with probability below e^-19
    little = Budget(epsilon=1, delta=1e-4)
    with pytest.raises(PoorUtility, match=r"0\.2 of 100 draws would be released"):
        discreet.release(FRAME, budget=little, size=100, **facts)  # type: ignore[arg-type]
    few = discreet.release(FRAME, budget=little, size=100, accept={"poor-utility"}, **facts)  # type: ignore[arg-type]
    assert len(few.records) < 10


def test_sampling_that_has_no_effect_is_said() -> None:
    for name, has in (("reveal-or-obscure", False), ("stabilised-pitman-yor", False), ("exponential-histogram", True)):
        made = discreet.release(
            FRAME, AGES, Budget(epsilon=1, delta=1e-4), mechanism=name, sampling="stratified", size=20
        )
        assert ("stratified has no effect" in made.info["why"]) is not has
    with pytest.raises(ParameterError, match="sampling"):
        discreet.release(FRAME, AGES, Budget(epsilon=1), size=20, mechanism="reveal-or-obscure", sampling="sorted")


def test_a_kind_that_is_not_unconditional_needs_the_callers_word() -> None:
    mechanism = PitmanYor(domain=AGES, size=5, sampler="mixing")
    released = release(closed(), mechanism=mechanism, accept={"empirical"})  # type: ignore[arg-type]
    assert released.certificate.to_dict()["guarantee"]["kind"] == "empirical"
    assert "tested and not proved" in " ".join(map(str, released.certificate.facts.guarantee.assumptions))


def test_without_a_budget_the_headline_is_finite_and_honest() -> None:
    domain = Domain(columns={"age": Integer(lower=0, upper=9)})
    for mechanism, size in (
        (PerturbedHistogram(domain=domain, records=2000, scale=0.01, noise="gaussian"), 5),
        (SmoothedHistogram(domain=domain, size=2000, mixing=1e-9), None),
    ):
        certificate = release(closed(), mechanism=mechanism, size=size).certificate  # type: ignore[arg-type]
        assert 0 <= certificate.epsilon < 1e6
        assert all(check.agrees for check in verify(Certificate.from_dict(json.loads(certificate.to_json()))))
        promised_little = certificate.epsilon > 10 or certificate.delta * 2000 > 0.1
        assert promised_little
        assert any(
            word in " ".join(map(str, certificate.facts.guarantee.caveats))
            for word in ("next to", "published outright")
        )


@pytest.mark.parametrize("content", ["", "not json", "[]", "{}", '{"discreet_certificate": 99}'])
def test_what_is_not_a_certificate_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "c.json"
    path.write_text(content)
    with pytest.raises(FileProblem):
        Certificate.read(path)
    with pytest.raises(FileProblem):
        Certificate.read(tmp_path / "missing.json")


def test_steps_are_watched_kept_and_drawn_from_again(tmp_path: Path) -> None:
    said: list[str] = []
    steps: list[tuple[int, int]] = []
    watch = discreet.Watch(announce=said.append, stepped=lambda done, of: steps.append((done, of)))
    facts: dict[str, Any] = {"budget": Budget(epsilon=1, delta=1e-6), "size": 50, "mechanism": "private-evolution"}
    facts |= {"steps": 2, "population": 20, "watch": watch, "accept": {"poor-utility"}}
    discreet.release(FRAME, AGES, out=Output(checkpoint=tmp_path / "steps"), **facts)
    assert steps == [(1, 2), (2, 2)]
    with pytest.raises(FileProblem, match=r"write out=Output\(checkpoint=Checkpoint\(..., redraw=True\)\)"):
        discreet.release(FRAME, AGES, out=Output(checkpoint=str(tmp_path / "steps")), **facts)
    again = discreet.Checkpoint(tmp_path / "steps", redraw=True)
    assert len(discreet.release(FRAME, AGES, out=Output(checkpoint=again), **facts).records) == 50
    assert "holds 2 steps, taken as released" in " ".join(said)
    assert steps == [(1, 2), (2, 2)]  # none was taken again
