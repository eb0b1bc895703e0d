"""Two tables of the same units come in and go out: in memory, in files, and by the command."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from jsonschema import Draft202012Validator

from discreet import AddRemove, Budget, Ledger, Output, Unit, plan, read, release, verify
from discreet._core.reading import file_sha256
from discreet.confidential import check_table, reveal_to_custodian
from discreet.domain import Boolean, Category, Domain, Integer, UnitTable
from discreet.errors import DataError, DomainError, FileProblem, ParameterError, PoorUtility
from discreet.inference import ReleaseTakenForSample
from discreet.releases import Release, writing
from discreet.releases.certificate import Certificate
from discreet.releases.writing import IDENTITY_KEY
from discreet.utility import compare

COLUMNS: dict[str, Any] = {"age": Integer(lower=0, upper=9), "sex": Category(categories=["f", "m"])}
DOMAIN = Domain(
    units="households",
    columns={"owned": Boolean()},
    tables={"persons": UnitTable(unit="id", max_records=3, columns=COLUMNS)},
)
BUDGET = Budget(epsilon=2.0, delta=1e-6)


def tables(n: int = 600) -> dict[str, pl.DataFrame]:
    rng = np.random.default_rng(0)
    owned = rng.random(n) < 0.5
    who = np.repeat(np.arange(n), rng.binomial(3, 0.4 + 0.3 * owned))
    rows = {"id": who + 100, "age": rng.integers(0, 10, len(who)), "sex": rng.choice(["f", "m"], len(who))}
    return {"households": pl.DataFrame({"id": np.arange(n) + 100, "owned": owned}), "persons": pl.DataFrame(rows)}


def require_linked(released: dict[str, pl.DataFrame], n: int = 600) -> None:
    own, rows = released["households"], released["persons"]
    assert (own.columns, rows.columns) == (["id", "owned"], ["id", "age", "sex"])
    assert own["id"].to_list() == list(range(1, n + 1))
    assert rows.join(own, on="id", how="anti").is_empty()
    assert 1 <= rows.group_by("id").len()["len"].max() <= 3  # type: ignore[operator]


def test_tables_come_out_as_they_came_in() -> None:
    frames = tables()
    polars = release(frames, DOMAIN, BUDGET, size=600, seed=1)
    require_linked(polars.tables)
    assert polars.tables is polars.records
    pandas = release({name: frame.to_pandas() for name, frame in frames.items()}, DOMAIN, BUDGET, size=600, seed=1)
    assert {type(frame).__module__.split(".")[0] for frame in pandas.tables.values()} == {"pandas"}
    assert all(pl.DataFrame(pandas.tables[name]).equals(polars.tables[name]) for name in frames)
    assert polars.certificate.summary.startswith(f"600 households, {polars.tables['persons'].height} persons from 600")
    assert "one of the households with all its persons" in polars.promise
    shrunk = {**frames, "persons": frames["persons"].with_columns(pl.col("age").cast(pl.Int16))}
    assert release(shrunk, DOMAIN, BUDGET, size=600, seed=1).tables["persons"]["age"].dtype == pl.Int16
    added = release(frames, DOMAIN, BUDGET, size=50, seed=1, relation=AddRemove(records=600))
    require_linked(added.tables, 50)


def test_no_unit_makes_a_release_fail() -> None:
    frames = tables()
    strange = {
        "households": pl.concat([frames["households"], pl.DataFrame({"id": [100, 9999], "owned": [True, True]})]),
        "persons": pl.concat(
            [
                frames["persons"],
                pl.DataFrame({"id": [7] * 9 + [101] * 9, "age": 1, "sex": "f"}, schema=frames["persons"].schema),
            ]
        ),
    }
    require_linked(release(strange, DOMAIN, BUDGET, size=601, seed=1).tables, 601)
    found = reveal_to_custodian(check_table(strange, DOMAIN))
    assert {(one.columns, one.problem, one.rows, one.refused) for one in found.findings} == {
        (("id",), "names a unit that has no row of its own", 9, False),
        (("id",), "names a unit that has another row of its own", 1, False),
    }
    assert (found.units.units, found.units.over, found.refused) == (601, 1, False)
    assert "9999" not in str(found)


CARS: dict[str, Any] = {
    "fuel": Category(categories=["coal", "oil", "sun"]),
    "tank": Category(categories=["large", "small", "no"]),
    "built": Integer(lower=0, upper=9, nulls="category"),
    "bought": Integer(lower=0, upper=9, nulls="category"),
}
PERSONS_AND_CARS = replace(
    DOMAIN, tables={**DOMAIN.row_tables, "cars": UnitTable(unit="id", max_records=2, columns=CARS)}
)


@pytest.mark.parametrize(("kind", "rule"), [
    ("order", [["age", "built"]]), ("nulls_together", [["built", "age"]]), ("at_most", {"age": "built"}),
    ("determines", [["sex", "fuel"]]), ("impossible", [{"sex": "f", "fuel": "coal"}]),
    ("possible", [{"sex": "f", "fuel": "coal"}]),
    ("implies", [{"columns": ["sex"], "determine": "fuel", "table": {"f": "coal"}}]),
])  # fmt: skip
def test_a_rule_across_two_tables_of_rows_is_refused(kind: str, rule: Any) -> None:
    with pytest.raises(DomainError, match=rf"^{kind}: '(age|sex)' and '(built|fuel)' are of two tables of rows"):
        replace(PERSONS_AND_CARS, **{kind: rule})


def test_rules_hold_within_one_of_several_tables_of_rows() -> None:
    """The confidential cars break all of them. What one label determines is the same in all slots."""
    rules: dict[str, Any] = {
        "order": [["built", "bought"]],
        "nulls_together": [["built", "bought"]],
        "impossible": [{"fuel": "coal", "owned": True}],
        "determines": [["fuel", "tank"]],
    }
    rng, n = np.random.default_rng(2), 2000
    rows = {name: rng.choice(CARS[name].words, n) for name in ("fuel", "tank")}
    years = [pl.Series(rng.integers(0, 10, n)).set(pl.Series(rng.random(n) < 0.2), None) for _ in range(2)]
    cars = pl.DataFrame({"id": rng.integers(100, 1100, n), **rows, "built": years[0], "bought": years[1]})
    domain = replace(PERSONS_AND_CARS, **rules)
    made = release({**tables(1000), "cars": cars}, domain, BUDGET, size=1000, seed=1, accept={"poor-utility"}).tables
    built, bought = pl.col("built"), pl.col("bought")
    for broken, frame in ((True, cars.with_columns(pl.col("id") - 99)), (False, made["cars"])):
        whole = frame.join(made["households"], on="id")
        assert (whole.filter(pl.col("fuel") == "coal", "owned").height > 0) is broken
        assert (whole.filter(built > bought).height > 0) is broken
        assert (whole.filter(built.is_null() != bought.is_null()).height > 0) is broken
        assert (whole.group_by("fuel").agg(pl.col("tank").n_unique())["tank"].max() > 1) is broken  # type: ignore[operator]
    assert made["cars"].height > 500
    assert made["persons"]["age"].is_in(range(10)).all()


def test_persons_and_cars_come_in_and_go_out(tmp_path: Path) -> None:
    """With orphans, units without rows and with too many, in and out of files."""
    people, n = tables(), 600
    cars = pl.DataFrame({"id": [100] * 5 + [7] + list(range(200, 500)), "new": [True] * 6 + [False] * 300})
    two = UnitTable(unit="id", max_records=2, columns={"new": Boolean()})
    domain = Domain(units="households", columns={"owned": Boolean()}, tables={**DOMAIN.row_tables, "cars": two})
    assert Domain.from_toml(domain.to_toml()) == domain
    found = reveal_to_custodian(check_table({**people, "cars": cars}, domain))
    assert [(one.columns, one.rows, one.refused) for one in found.findings] == [(("id",), 1, False)]
    assert (found.units["persons"].over, found.units["cars"].over, found.units["cars"].cut) == (0, 1, 3)
    made = release({**people, "cars": cars}, domain, BUDGET, size=n, out=Output(tmp_path / "out", format="csv"))
    assert "one of the households with all its persons and cars" in made.promise
    assert (made.certificate.facts.unit.max_records, made.certificate.facts.relation.group) == (5, 1)
    assert all(check.agrees for check in verify(tmp_path / "out"))
    with pytest.warns(ReleaseTakenForSample):
        released = read(tmp_path / "out").tables
    require_linked(released)
    assert released["cars"].join(released["households"], on="id", how="anti").is_empty()
    assert released["cars"].columns == ["id", "new"]
    assert released["cars"].group_by("id").len()["len"].max() <= 2  # type: ignore[operator]
    assert released["cars"]["id"].n_unique() == pytest.approx(301, abs=60)
    compared = reveal_to_custodian(compare({**people, "cars": cars}, tmp_path / "out", domain))
    assert [*compared.tables][-2:] == ["households and persons", "households and cars"]
    orphan = (tmp_path / "out" / "cars.csv").read_text() + "601,true\n"
    (tmp_path / "out" / "cars.csv").write_text(orphan)
    assert not all(check.agrees for check in verify(tmp_path / "out"))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of a folder, which is not to be changed."""
    path = tmp_path_factory.mktemp("linked")
    (path / "in").mkdir()
    for name, frame in tables().items():
        frame.write_csv(path / "in" / f"{name}.csv")
    release(path / "in", DOMAIN, BUDGET, size=600, out=path / "out")
    return path


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "linked")) / "out"


@pytest.fixture(scope="module")
def in_memory() -> Release:
    return release(tables(), DOMAIN, BUDGET, size=600, seed=1)


def test_a_folder_with_two_files_of_one_name_is_refused(folder: Path) -> None:
    (folder.parent / "in" / "persons.parquet").touch()
    with pytest.raises(ParameterError, match="one of each name"):
        release(folder.parent / "in", DOMAIN, BUDGET, size=600)


def test_a_folder_is_read_written_and_verified(folder: Path, in_memory: Release, tmp_path: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == [
        "certificate.json",
        "households.parquet",
        "persons.parquet",
    ]
    released = read(folder)
    with pytest.warns(ReleaseTakenForSample):
        require_linked(released.tables)
    assert all(check.agrees for check in verify(folder))
    again = read(in_memory.write(tmp_path / "again").path or "")
    with pytest.warns(ReleaseTakenForSample):
        require_linked(again.tables)
    with pytest.raises(FileProblem, match="exists already"):
        release(tables(), DOMAIN, BUDGET, size=600, out=folder)


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "tsv", "arrow", "parquet"])
def test_tables_are_written_in_the_format_that_is_asked_for(ending: str, in_memory: Release, tmp_path: Path) -> None:
    release(tables(), DOMAIN, BUDGET, size=600, seed=1, out=Output(tmp_path / "out", format=ending))
    in_memory.write(tmp_path / "again", format=ending)
    for folder in (tmp_path / "out", tmp_path / "again"):
        names = {"certificate.json", f"households.{ending}", f"persons.{ending}"}
        assert {path.name for path in folder.iterdir()} == names
        assert all(check.agrees for check in verify(folder))
        with pytest.warns(ReleaseTakenForSample):
            found = read(folder).tables
        assert all(found[name].equals(table) for name, table in in_memory.tables.items())
    (tmp_path / "out" / f"cars.{ending}").touch()
    assert [check.what for check in verify(tmp_path / "out") if not check.agrees] == ["tables in the folder"]


def test_formats_that_are_not_written_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match="read, and not written"):
        release(tables(), DOMAIN, BUDGET, size=600, out=Output(tmp_path / "a", format="xlsx"))
    with pytest.raises(FileProblem, match="not known by this ending"):
        release(tables(), DOMAIN, BUDGET, size=600, out=Output(tmp_path / "a", format="doc"))
    alone = Domain(columns={"owned": Boolean()})
    with pytest.raises(ParameterError, match="end the name in"):
        release(tables()["households"], alone, BUDGET, size=600, out=Output(tmp_path / "a.csv", format="csv"))
    assert not list(tmp_path.iterdir())


def test_a_small_survey_says_that_it_is_of_no_use() -> None:
    """500 households of four columns and persons of seven, as many cells as those of Oregon in benchmarks/units.py."""
    own = {f"h{i}": Integer(lower=0, upper=most) for i, most in enumerate((3, 11, 4, 5))}
    rows = {f"p{i}": Integer(lower=0, upper=most) for i, most in enumerate((17, 1, 7, 6, 4, 6, 1))}
    persons = UnitTable(unit="id", max_records=5, columns=rows)
    domain = Domain(units="households", columns=own, tables={"persons": persons})
    rng, who = np.random.default_rng(0), np.repeat(np.arange(500), 2)
    frames = {
        "households": pl.DataFrame({"id": np.arange(500), **{name: rng.integers(0, 4, 500) for name in own}}),
        "persons": pl.DataFrame({"id": who, **{name: rng.integers(0, 2, 1000) for name in rows}}),
    }
    with pytest.raises(PoorUtility, match=r"about 2\d.\d % of the values in the worst column"):
        release(frames, domain, Budget(epsilon=1.0, delta=1e-6), size=500)
    accepted = release(
        frames, domain, Budget(epsilon=1.0, delta=1e-6), size=500, accept={"poor-utility"}, mechanism="marginals"
    )
    assert str(accepted.certificate).startswith("Poor utility: ")
    budget, asked = Budget(epsilon=4.0, delta=1e-6), {"mechanisms": ["marginals"], "largest_sizes": False}
    assert plan(domain, budget, records=500, **asked).feasible  # type: ignore[arg-type]
    frames["persons"] = frames["persons"].with_columns(p0=pl.col("id") % 18)  # the same for all persons of a household
    passes = release(frames, domain, budget, size=500, mechanism="marginals", seed=1)
    assert str(passes.certificate).startswith("No relation between columns was kept")


def test_several_draws_of_linked_tables(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"size": 600, "seed": 1, "tables": 3}
    made = release(tables(), DOMAIN, BUDGET, **asked)
    release(tables(), DOMAIN, BUDGET, **asked, out=Output(tmp_path / "out", format="csv"))
    names = [f"{name}-{number:02}.csv" for name in ("households", "persons") for number in (1, 2, 3)]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["certificate.json", *names]
    assert all(check.agrees for check in verify(tmp_path / "out"))
    found = read(tmp_path / "out")
    for number, (draw, again) in enumerate(zip(made.records, found.table(), strict=True)):
        assert all(again[name].equals(table) for name, table in draw.items())
        assert draw["households"]["id"].to_list() == list(range(600 * number + 1, 600 * number + 601))
        assert draw["persons"].join(draw["households"], on="id", how="anti").is_empty()
    assert [frame.height for frame in found.tables["households"]] == [600] * 3
    assert found.certificate.summary.startswith("3 draws of 600 households, ")
    assert sum(not check.agrees for check in verify(made.write(tmp_path / "w").path or "")) == 0
    assert found.to_pandas()[2]["persons"].shape == made.records[2]["persons"].shape
    files = list(found.certificate.tables)  # of two draws, each stated with the households of the other
    files[0], files[2] = files[2], files[0]
    (tmp_path / "out" / "certificate.json").write_text(found.certificate.releasing(tables=files).to_json())
    orphans = {f"persons-0{number}.csv.id without households (in the file)" for number in (1, 2)}
    assert orphans == {check.what for check in verify(tmp_path / "out") if not check.agrees}


def test_the_units_may_have_the_name_that_sorts_last(tmp_path: Path) -> None:
    domain = Domain(units="women", columns=DOMAIN.table_domains["households"].columns, tables=DOMAIN.tables)
    named = {"women": tables()["households"], "persons": tables()["persons"]}
    release(named, domain, BUDGET, size=600, out=tmp_path / "out")
    assert all(check.agrees for check in verify(tmp_path / "out"))


def test_a_write_that_dies_leaves_no_table_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = {"age": replace(COLUMNS["age"], out_of_bounds="clip")}
    owned = Boolean(nulls="category", out_of_bounds="null")
    persons = UnitTable(unit="id", max_records=3, columns=columns)
    domain = Domain(units="households", columns={"owned": owned}, tables={"persons": persons})
    ledger = Ledger.create(tmp_path / "x.sqlite", dataset="x", epsilon=3, delta=1e-3, unit=Unit("id", max_records=3))
    facts: dict[str, Any] = {"size": 600, "ledger": ledger, "out": tmp_path / "out", "accept": {"other-columns"}}
    write_table = writing.write_table

    def dies(frames: Any, schema: Any, file: Any, **options: Any) -> Any:
        if "persons" in str(options["named"]):
            raise OSError
        return write_table(frames, schema, file, **options)

    monkeypatch.setattr(writing, "write_table", dies)
    with pytest.raises(FileProblem):
        release(tables(), domain, BUDGET, **facts)
    assert not (tmp_path / "out").exists()
    monkeypatch.undo()
    again = release(tables(), domain, BUDGET, **facts)  # the ledger could not pay twice
    assert again.info["why"].startswith("drawn and paid for by a run that died")
    assert all(check.agrees for check in verify(tmp_path / "out"))


@pytest.mark.parametrize("ending", ["parquet", "csv"])
@pytest.mark.parametrize("defect", ["orphan", "too many", "twice", "value"])
def test_a_table_whose_keys_do_not_match_is_found(folder: Path, defect: str, ending: str) -> None:
    """Planted in the files and in the hashes and numbers that the certificate states of them."""
    own, rows = [pl.read_parquet(folder / f"{name}.parquet") for name in ("households", "persons")]
    first = int(rows["id"][0])
    if defect == "orphan":
        rows = rows.with_columns(pl.col("id").replace(first, 601))
    elif defect == "too many":
        rows = rows.with_columns(id=pl.when(pl.int_range(pl.len()) < 4).then(1).otherwise("id"))
    elif defect == "twice":
        own = own.with_columns(pl.col("id").replace(2, 1))
    else:
        rows = rows.with_columns(age=pl.lit(10, pl.Int64))
    document = Certificate.read(folder)
    facts = []
    for name, frame, table in zip(("households", "persons"), (own, rows), document.tables, strict=True):
        (folder / f"{name}.parquet").unlink()
        if ending == "csv":
            frame.write_csv(folder / f"{name}.csv")
        else:
            frame.write_parquet(folder / f"{name}.parquet", metadata={IDENTITY_KEY: str(document.identity)})
        file = folder / f"{name}.{ending}"
        facts.append(replace(table, file=file.name, sha256=file_sha256(file)))
    (folder / "certificate.json").write_text(document.releasing(tables=facts).to_json())
    wrong = {check.what for check in verify(folder) if not check.agrees}
    orphans = f"persons.{ending}.id without households (in the file)"
    expected = {
        "orphan": {orphans},
        "too many": {f"persons.{ending}.rows of id (in the file)"},
        "twice": {f"households.{ending}.id (in the file)"},
        "value": {f"persons.{ending}.values of age (in the file)"},
    }
    assert expected[defect] in (wrong, wrong - {orphans})


def test_a_changed_file_is_refused(folder: Path) -> None:
    document = json.loads((folder / "certificate.json").read_text())
    assert document["released"]["columns"] == ["id", "owned", "age", "sex"]
    schema = json.loads(Path(writing.__file__).with_name("certificate.schema.json").read_text())
    Draft202012Validator(schema).validate(document)
    Draft202012Validator(schema).validate({**document, "domain": {"tables": document["domain"]["tables"]}})
    pl.read_parquet(folder / "persons.parquet").head(5).write_parquet(folder / "persons.parquet")
    with pytest.raises(FileProblem, match="not the file that its certificate"):
        read(folder)


@pytest.mark.parametrize("data", [
    {"households": tables()["households"]}, tables()["persons"], {**tables(), "cars": tables()["persons"]},
])  # fmt: skip
def test_other_tables_are_refused(data: Any) -> None:
    with pytest.raises(ParameterError, match="has the tables 'households' and 'persons'"):
        release(data, DOMAIN, BUDGET, size=600)


def test_tables_that_no_unit_links_are_refused_and_names_are_matched_as_written(in_memory: Release) -> None:
    alone = Domain(columns={"owned": Boolean()})
    with pytest.raises(ParameterError, match="Declare units"):
        release(tables(), alone, BUDGET, size=600)
    names = tables()["persons"].with_columns(pl.col("id").cast(pl.String))
    texts = release({**tables(), "persons": names}, DOMAIN, BUDGET, size=600, seed=1)
    assert texts.tables["persons"].equals(in_memory.tables["persons"])
    with pytest.raises(DataError, match="'sex': is not in the table persons"):
        release({**tables(), "persons": names.drop("sex")}, DOMAIN, BUDGET, size=600)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"units": "Persons"}, "another name than"),
        ({"units": "a/b"}, "letters"),
        ({"units": 5}, "letters"),
        ({"tables": None}, "one table of units"),
        ({"columns": {}}, r"Declare one under \[columns.NAME\]"),
    ],
)
def test_units_that_are_declared_wrongly_are_refused(change: dict[str, Any], words: str) -> None:
    facts = {"units": "households", "columns": {"owned": Boolean()}, "tables": DOMAIN.tables, **change}
    with pytest.raises(DomainError, match=words):
        Domain(**facts)


def test_an_order_across_tables_needs_single_values() -> None:
    wide, single = (Integer(lower=0, upper=9, cells=cells) for cells in (2, None))
    for column in (wide, single):
        table = UnitTable(unit="id", max_records=2, columns={"left": column})
        facts = {"units": "homes", "columns": {"built": column}, "tables": {"stays": table}}
        if column is wide:
            with pytest.raises(DomainError, match="across two tables"):
                Domain(**facts, order=["built", "left"])
        else:
            assert Domain(**facts, order=["built", "left"]).constraints
