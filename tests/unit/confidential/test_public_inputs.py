"""The gate of public inputs: the confidential table is refused in whatever form it comes, other tables are not."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from forms import in_form

import discreet
from discreet import AddRemove, Budget, Unit, Watch, release
from discreet._core.random import seeded
from discreet.cli.entry import run
from discreet.confidential import confidential, confidential_rows
from discreet.confidential.public import public_table, with_public
from discreet.domain import Category, Date, Domain, Integer, Numeric, OpenLabels, Records
from discreet.domain.column import Column
from discreet.errors import DataError, NotPublic, ParameterError
from discreet.evolution import API, Resampling
from discreet.mechanisms import REGISTRY, PerturbedHistogram, PrivateEvolution, SignedMeasure
from discreet.mechanisms.base import public_inputs
from discreet.releases import Certificate, verify
from discreet.testing.facts import small_domain

DOMAIN = Domain(
    columns={
        "age": Integer(lower=0, upper=99, nulls="category"),
        "income": Numeric(lower=0.0, upper=1000.0, out_of_bounds="clip"),
        "sex": Category(categories=["f", "m"]),
    }
)
SENTENCE = str(NotPublic())
LINES = SENTENCE.replace(". ", ".\n")


def table(rows: int = 200, seed: int = 0) -> pl.DataFrame:
    rng = seeded(seed)
    ages = pl.Series("age", rng.integers(0, 100, rows)).set(pl.Series(rng.random(rows) < 0.1), None)
    sexes = ["f" if draw < 0.5 else "m" for draw in rng.random(rows)]
    return pl.DataFrame({"age": ages, "income": rng.integers(0, 1000, rows).astype(float), "sex": sexes})


TABLE = table()
DISGUISES: dict[str, Callable[[], Any]] = {
    "the object itself": lambda: TABLE,
    "a copy": TABLE.clone,
    "lazy": TABLE.lazy,
    "another order": lambda: TABLE.sample(fraction=1, shuffle=True, seed=1),
    "columns in another order": lambda: TABLE.select("sex", "income", "age"),
    "more columns": lambda: TABLE.with_columns(more=pl.lit(1)),
    "whole numbers": lambda: TABLE.with_columns(pl.col("income").cast(pl.Int32)),
    "fractions": lambda: TABLE.with_columns(pl.col("age").cast(pl.Float32)),
    "categoricals": lambda: TABLE.with_columns(pl.col("sex").cast(pl.Categorical)),
    "values beyond the bounds": lambda: TABLE.with_columns(
        pl.when(pl.col("income") == 0).then(-5.0).otherwise("income").alias("income")
    ),
    "pandas": TABLE.to_pandas,
    "pandas with another index": lambda: TABLE.to_pandas().set_index(np.arange(1000, 1200)),
    "pandas with categories": lambda: TABLE.to_pandas().astype({"sex": "category"}),
    "pyarrow": TABLE.to_arrow,
}


def request(**changes: Any) -> dict[str, Any]:
    return {"budget": Budget(epsilon=1.0, delta=1e-6), "size": 20, "accept": {"poor-utility"}, **changes}


def quick() -> dict[str, Any]:
    """Return a request that compares no mechanisms; the cells of the incomes are chosen."""
    return request(mechanism="dirichlet-multinomial")


@pytest.mark.parametrize("units", [False, True])
@pytest.mark.parametrize("disguise", DISGUISES)
def test_the_table_as_its_own_reference(disguise: str, units: bool) -> None:
    """Of units, rows are cut and null records added, but it is the rows before that are compared."""
    said: list[str] = []
    data, domain, facts = TABLE, DOMAIN, request(watch=Watch(announce=said.append))
    if units:
        data = TABLE.with_columns(person=pl.Series(np.arange(200) // 5))
        domain = Domain(
            columns={"age": DOMAIN.columns["age"], "sex": Category(categories=["f", "m"], nulls="category")}
        )
        facts |= {"unit": Unit("person", max_records=3), "accept": {"poor-utility", "other-columns"}}
    with pytest.raises(NotPublic) as found:
        discreet.release(data, domain, reference=DISGUISES[disguise](), **facts)
    assert str(found.value) == SENTENCE
    assert found.value.__context__ is None
    assert found.value.exit_status == 2
    assert said == []  # nothing was predicted from it, nor announced


@pytest.mark.parametrize(
    ("name", "value"), [("nothing changed but one row", table().with_row_index()), ("another year", table(200, 1))]
)
def test_other_tables_pass_and_are_recorded(name: str, value: pl.DataFrame) -> None:
    if "index" in value.columns:
        value = value.with_columns(pl.when(pl.col("index") == 7).then(98).otherwise("age").alias("age"))
    made = discreet.release(TABLE, DOMAIN, reference=value, **quick())
    hashes = made.certificate.to_dict()["public_inputs"]
    assert set(hashes) == {"reference"}, name
    assert all(check.agrees for check in verify(made.certificate))
    again = discreet.release(TABLE, DOMAIN, reference=value.reverse().to_pandas(), **quick())
    assert again.certificate.to_dict()["public_inputs"] == hashes
    other = discreet.release(TABLE, DOMAIN, reference=table(200, 2), **quick())
    assert other.certificate.to_dict()["public_inputs"] != hashes
    assert discreet.release(TABLE, DOMAIN, **quick()).certificate.to_dict()["public_inputs"] == {}


PLACES = ["same path", "another spelling", "symbolic link", "hard link"]
CONTENTS = [(link, form) for link in ("copy", "this format") for form in ("csv", "parquet")]


@pytest.mark.parametrize(("option", "link", "form"), [
    *((option, *case) for option in ("--reference", "--param") for case in CONTENTS),  # a table is no domain
    *((option, link, form) for option, form in (("--reference", "csv"), ("--param", "parquet"), ("--domain", "csv"))
      for link in PLACES),
])  # fmt: skip
def test_the_file_in_the_command(
    option: str, link: str, form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "held"
    folder.mkdir()
    data, other = in_form(TABLE, form, folder), tmp_path / f"other.{form}"
    if link in ("same path", "another spelling"):
        other = data if link == "same path" else folder / ".." / "held" / data.name
    elif link == "symbolic link":
        other.symlink_to(data)
    elif link == "hard link":
        os.link(data, other)
    else:
        here = form if link == "copy" else {"csv": "parquet", "parquet": "csv"}[form]
        other = in_form(TABLE.reverse(), here, tmp_path)
    (tmp_path / "domain.toml").write_text(DOMAIN.to_toml(), encoding="utf-8")
    declared = str(tmp_path / "domain.toml")
    arguments = ["release", str(data), "--epsilon", "1", "--delta", "1e-6", "--size", "20", "--accept-poor-utility"]
    arguments += ["--out", str(tmp_path / "out.parquet"), "--domain", str(other) if option == "--domain" else declared]
    arguments += ["--reference", str(other)] if option == "--reference" else []
    arguments += ["--mechanism", "signed-measure", "--param", f"points={other}"] if option == "--param" else []
    assert run(arguments) == 2
    assert capsys.readouterr().err == f"discreet: {LINES}\n"
    assert not (tmp_path / "out.parquet").exists()


@pytest.mark.parametrize("command", ["compare", "privacy", "report", "synthesize"])
def test_a_domain_file_that_is_the_table_is_not_opened(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = in_form(TABLE, "csv", tmp_path)
    released = tmp_path / "released.csv"
    discreet.release(TABLE, DOMAIN, out=released, **quick())
    (tmp_path / "domain.toml").symlink_to(data)
    declared = ["--domain", str(tmp_path / "domain.toml")]
    privacy = ["dirichlet-multinomial", "--records", "200", "--size", "9", "--param", "prior=1", "--epsilon", "1"]
    synthesize = ["--sensitive", "income", "--bound", "1", "--accept-empirical", "--out", str(tmp_path / "tables")]
    arguments = {
        "compare": [str(data), str(released)],
        "privacy": [*privacy, "--data", str(data)],
        "report": [str(released), "--data", str(data), "--out", str(tmp_path / "r.html")],
        "synthesize": [str(data), *synthesize],
    }[command]
    assert run([command, *arguments, *declared]) == 2
    assert capsys.readouterr().err.endswith(f"discreet: {LINES}\n")


def test_nothing_is_opened_where_the_object_or_the_path_tells(tmp_path: Path) -> None:
    data = tmp_path / "no table.parquet"
    data.write_bytes(b"not opened")
    (tmp_path / "link.parquet").symlink_to(data)
    with pytest.raises(NotPublic):
        discreet.release(data, DOMAIN, reference=tmp_path / "link.parquet", **request())
    with pytest.raises(NotPublic):
        discreet.release(object, DOMAIN, mechanism="signed-measure", points=object, **request())


@pytest.mark.parametrize("form", ["frame", "codes", "records"])
def test_points_that_are_the_table(form: str) -> None:
    """Points are a set: given once or twice, in any order, those of the table are the table."""
    held = TABLE.drop_nulls()
    held = pl.concat([held, held[:5]])

    def points(frame: pl.DataFrame) -> Any:
        records = DOMAIN.encode(frame)
        return {"frame": frame, "codes": records.rows(), "records": records}[form]

    def mechanism(frame: pl.DataFrame) -> SignedMeasure:
        return SignedMeasure(domain=DOMAIN, records=held.height, scale=5.0, points=points(frame))

    assert mechanism(held).points.count < held.height
    for same in (held.reverse(), held[:-1], held.unique()):
        with pytest.raises(NotPublic, match=SENTENCE):
            release(confidential(held, DOMAIN), mechanism=mechanism(same), size=20, accept={"poor-utility"})
    without_one = held.filter(pl.Series(range(held.height)) != held.height - 6)  # one that occurs once
    made = release(confidential(held, DOMAIN), mechanism=mechanism(without_one), size=20, accept={"poor-utility"})
    assert set(made.certificate.to_dict()["public_inputs"]) == {"points"}
    assert all(check.agrees for check in verify(made.certificate))


def evolution(api: API, n: int, **changes: Any) -> PrivateEvolution:
    facts = {"records": n, "scale": 5.0, "steps": 1, "population": 4, "variant": "practical", **changes}
    return PrivateEvolution(domain=DOMAIN, api=api, **facts)


@pytest.mark.parametrize("parts", [False, True])
def test_a_generator_made_of_the_table(parts: bool, tmp_path: Path) -> None:
    closed: Any = (
        confidential_rows(in_form(TABLE, "parquet", tmp_path), DOMAIN) if parts else confidential(TABLE, DOMAIN)
    )
    same = evolution(Resampling(domain=DOMAIN, table=TABLE.reverse()), 200)
    with pytest.raises(NotPublic, match=SENTENCE):
        release(closed, mechanism=same, size=20, accept={"poor-utility"})
    with pytest.raises(NotPublic, match=SENTENCE):
        release(closed, mechanism=same, size=20, relation=AddRemove(records=200), accept={"poor-utility"})
    other = evolution(Resampling(domain=DOMAIN, table=table(200, 1)), 200)
    made = release(closed, mechanism=other, size=20, accept={"poor-utility"})
    assert set(made.certificate.to_dict()["public_inputs"]) == {"api.table"}
    assert all(check.agrees for check in verify(made.certificate))


def test_the_table_in_parts_is_compared_without_its_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("discreet.confidential.frames.BATCH", 16)
    closed = confidential_rows(in_form(TABLE, "csv", tmp_path), DOMAIN)
    with pytest.raises(NotPublic):
        with_public(closed, {"reference": TABLE.reverse()}, domain=DOMAIN)
    assert with_public(closed, {"reference": table(200, 1)}, domain=DOMAIN).provenance is not None


COLUMNS: dict[str, tuple[Column, list[Any]]] = {
    "open labels": (OpenLabels(nulls="category"), ["a", "b", None, "a", "ä"]),
    "floats": (Numeric(lower=-1.0, upper=1.0, nulls="category"), [-0.0, 0.0, None, 0.5, float("nan")]),
    "cells": (Numeric(lower=0.0, upper=1.0, cells=4), [0.1, 0.1, 0.3, 0.5, 0.9]),
    "dates": (Date(lower="2020-01-01", upper="2020-12-31"), []),
    "many cells": (Integer(lower=0, upper=10**12), [5, 5, 6, 10**12, 0]),
}


@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("kind", COLUMNS)
def test_every_kind_of_column_is_compared(kind: str, second: bool) -> None:
    column, values = COLUMNS[kind]
    columns: dict[str, Column] = {"x": column} | ({"y": OpenLabels()} if second else {})
    domain = Domain(columns=columns)
    held = pl.DataFrame({"x": values or pl.Series(["2020-02-01", "2020-03-01"] * 2).str.to_date(), "y": "a"})
    closed = confidential(held.select(domain.names), domain)
    with pytest.raises(NotPublic):
        with_public(closed, {"reference": held.reverse()}, domain=domain)
    for other in (held[:-1], held[:-1].extend(held[:1])):
        hashed = with_public(closed, {"reference": other}, domain=domain)
        again = with_public(closed, {"reference": other.reverse()}, domain=domain)
        assert hashed.provenance.public == again.provenance.public


def test_the_hash_is_of_the_public_table_alone() -> None:
    reference = {"reference": table(200, 1)}
    facts = [with_public(confidential(t, DOMAIN), reference, domain=DOMAIN).provenance for t in (TABLE, table(9, 2))]
    assert facts[0].public == facts[1].public


def test_a_closed_table_is_no_public_one() -> None:
    with pytest.raises(DataError, match="not a supported table"):
        discreet.release(TABLE, DOMAIN, reference=confidential(TABLE, DOMAIN), **request())


def test_every_mechanism_and_generator_shows_the_records_it_holds() -> None:
    """What a mechanism or an API holds of records in its fields is what it shows to the gate."""

    def held(thing: Any) -> int:
        fields = [getattr(thing, name, None) for name in getattr(thing, "__dataclass_fields__", {})]
        return sum(isinstance(value, Records) for value in fields)

    api = Resampling(domain=DOMAIN, table=table(5))
    assert held(api) == len(api.sources()) == 1
    assert set(public_inputs(evolution(api, 5))) == {"api.table"}
    points = table(9, 1).drop_nulls()
    assert set(public_inputs(SignedMeasure(domain=DOMAIN, records=9, scale=2.0, noise="laplace", points=points))) == {
        "points"
    }


@dataclass(frozen=True, kw_only=True)
class Learnt(PerturbedHistogram):
    """A mechanism whose author said nothing of the public table that it holds."""

    learnt: Records | None = None


def test_a_table_in_a_field_is_found_though_nobody_says_so() -> None:
    domain, learnt = small_domain(4), Records(columns=(np.array([0, 3]),))
    mechanism = Learnt(domain=domain, records=9, scale=2.0, learnt=learnt)
    assert public_inputs(mechanism) == {"learnt": learnt}


# -- certificates -----------------------------------------------------------------------------------------------------


def test_certificates_without_public_inputs_are_verified_and_wrong_ones_are_not(tmp_path: Path) -> None:
    points = table(9, 1).drop_nulls()
    made = discreet.release(TABLE, DOMAIN, mechanism="signed-measure", points=points, **request())
    facts = made.certificate.to_dict()
    assert made.certificate.to_dict()["public_inputs"].keys() == {"points"}
    with pytest.raises(ParameterError, match="public_inputs is missing"):
        Certificate.from_dict({key: value for key, value in facts.items() if key != "public_inputs"})
    older = Path(__file__).parents[2] / "golden" / "0.1.0" / "signed-measure-points.certificate.json"
    assert "public_inputs" not in Certificate.read(older).to_dict()
    assert [check.erratum for check in verify(older) if not check.agrees and check.erratum is None] == []
    for wrong in ({}, {"points": "0"}, {"points": None}, {"points": "g" * 64}, [], None, {"other": "0" * 64}):
        (tmp_path / "c.json").write_text(json.dumps({**facts, "public_inputs": wrong}))
        checks = verify(tmp_path / "c.json")
        assert not all(check.agrees for check in checks), wrong


# -- a seeded cut -----------------------------------------------------------------------------------------------------

SLOTTED = Domain(columns={"age": Integer(lower=0, upper=9, nulls="category")})


def slotted(rng: Any, unit: bool = True) -> Any:
    frame = pl.DataFrame({"age": np.arange(3000) % 10, "person": np.arange(3000) // 3})
    options: dict[str, Any] = {"unit": Unit("person", max_records=2)} if unit else {"accept": {"other-columns"}}
    return confidential(frame, SLOTTED, rng=rng, **options)


class Weak(np.random.Generator):
    """Another generator that is not the secure one."""


@pytest.mark.parametrize("rng", [seeded(1), Weak(seeded(1).bit_generator)])
def test_a_cut_by_a_weak_generator_marks_the_release_for_good(rng: Any, tmp_path: Path) -> None:
    mechanism = REGISTRY["smoothed-histogram"](domain=SLOTTED, size=10, mixing=0.5)
    made = release(slotted(rng), mechanism=mechanism, accept={"poor-utility"})
    assert made.certificate.seeded
    assert made.certificate.to_dict()["randomness"] == "seeded-cut"
    assert made.certificate.statement.startswith("Seeded run, not for publication")
    assert "seeded: not for publication" in made.certificate.summary
    assert all(check.agrees for check in verify(made.certificate))
    again = Certificate.read(made.write(tmp_path / "r.csv").certificate_path or "")
    assert again.seeded
    both = release(slotted(rng), mechanism=mechanism, seed=2, accept={"poor-utility"})
    assert both.certificate.to_dict()["randomness"] == "seeded"


def test_a_secure_cut_and_a_generator_that_cuts_nothing_do_not() -> None:
    mechanism = REGISTRY["smoothed-histogram"](domain=SLOTTED, size=10, mixing=0.5)
    for closed in (slotted(None), slotted(seeded(1), unit=False)):
        assert not release(closed, mechanism=mechanism, accept={"poor-utility"}).certificate.seeded


def test_a_text_that_cannot_be_read_in_a_public_table_is_no_null(tmp_path: Path) -> None:
    (tmp_path / "reference.csv").write_text("age\n31.0\n4x\n5\n7\n")
    domain = Domain(columns={"age": Integer(lower=0, upper=99, nulls="category")})
    with pytest.raises(DataError, match="values are not whole numbers"):
        public_table(tmp_path / "reference.csv", domain)
