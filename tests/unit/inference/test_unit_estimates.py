"""Estimates from several tables of units: rows vary with their unit, and slots that were not measured are told."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from discreet import Budget, read, release
from discreet.domain import Boolean, Category, Domain, Integer, UnitTable
from discreet.errors import ParameterError
from discreet.inference import combine, dependence, posterior
from discreet.inference.released import read_release
from discreet.releases import Release

UNITS, SEVERAL = 1500, 4
COLUMNS = {"ward": Category(categories=["a", "b"]), "days": Integer(lower=0, upper=9)}
VISITS = UnitTable(unit="patient", max_records=3, columns=COLUMNS)
DOMAIN = Domain(columns={"old": Boolean()}, tables={"visits": VISITS})


@pytest.fixture(scope="module")
def visits() -> pl.DataFrame:
    rng = np.random.default_rng(0)
    patient = np.repeat(np.arange(3000), rng.integers(1, 4, 3000))
    level = rng.integers(0, 8, 3000)[patient]  # rows of one patient are alike
    ward, days = (
        np.where(level + rng.integers(0, 3, len(patient)) > 4, "a", "b"),
        level + rng.integers(0, 3, len(patient)),
    )
    return pl.DataFrame({"patient": patient, "old": level > 3, "ward": ward, "days": days})


@pytest.fixture(scope="module")
def released(visits: pl.DataFrame) -> Release:
    asked = {"mechanism": "marginals", "tables": SEVERAL, "seed": 1}
    return release(visits, DOMAIN, Budget(epsilon=8.0, delta=1e-5), size=UNITS, **asked)


def clustered(table: pl.DataFrame, value: pl.Expr) -> tuple[float, float]:
    """Return a mean over rows, and its variance in samples of units: Cochran (1977), chapter 9A."""
    mean = table.select(value.cast(pl.Float64).mean()).item()
    sums = table.group_by("patient").agg((value.cast(pl.Float64) - mean).sum().alias("sum"))["sum"]
    return mean, float((sums**2).sum()) / table.height**2


def test_a_mean_of_rows_varies_with_its_units(released: Release) -> None:
    found = released.estimate(["mean", "P(>5)"], column="days")
    for row, value in zip(found.rows, (pl.col("days"), pl.col("days") > 5), strict=True):
        means, within = np.transpose([clustered(table, value) for table in released.records])
        wanted = combine(means, within, kind="fully", size=UNITS, n=3000)
        assert row.mean == pytest.approx(wanted.estimate)
        # 400 resamples in all: their variance is within 25 % of the formula; as if rows were units, it is half of it
        alone = float(
            np.mean([table.select(value.cast(pl.Float64).var()).item() / table.height for table in released.records])
        )
        assert alone < 0.6 * wanted.within
        assert row.sd**2 == pytest.approx(wanted.variance, abs=0.25 * wanted.within)
    assert "4 tables of 1,500 units" in found.notes[0]
    assert "each row counts once" in found.notes[1]


def test_units_count_once_where_no_row_is_asked_about(released: Release) -> None:
    firsts = [table.unique("patient") for table in released.records]
    share = released.estimate(["P(=true)"], column="old")
    assert share["P(=true)"].mean == pytest.approx(np.mean([first["old"].mean() for first in firsts]))
    assert "each 'patient' counts once" in share.notes[1]
    number = released.estimate(["mean"], column="number of visits")["mean"]
    assert number.mean == pytest.approx(np.mean([table.height / UNITS for table in released.records]))
    by = released.estimate(["mean"], column="number of visits", by="old")
    assert sum(row.share or 0.0 for row in by.rows) == pytest.approx(1.0)
    own = released.estimate([lambda values, weights: (values["old"] * weights).sum(axis=1)]).rows[0]
    assert own.mean == pytest.approx(share["P(=true)"].mean)
    rows = released.estimate(["mean"], column="days", by="old")
    assert rows["mean", "true"].share == pytest.approx(np.mean([table["old"].mean() for table in released.records]))


def test_quantiles_and_regressions_take_units_as_clusters(released: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("formulaic")
    found = released.regress("days ~ old")
    each, within = [], []
    for table in released.records:
        x, y = np.column_stack([np.ones(table.height), table["old"]]), table["days"].to_numpy()
        bread = np.linalg.inv(x.T @ x)
        pulls = pl.DataFrame(x * (y - x @ (bread @ x.T @ y))[:, None]).with_columns(table["patient"])
        meat = pulls.group_by("patient").sum().drop("patient").to_numpy()
        each.append(bread @ x.T @ y)
        within.append(np.diag(bread @ meat.T @ meat @ bread))
    for row, estimates, variances in zip(found.rows, np.transpose(each), np.transpose(within), strict=True):
        wanted = combine(estimates, variances, kind="fully", size=UNITS, n=3000)
        assert row.mean == pytest.approx(wanted.estimate)
        assert row.sd**2 == pytest.approx(wanted.variance, abs=0.6 * wanted.within)
    read = read_release(released.records[0], Domain(columns={"days": COLUMNS["days"]}), unit="patient")
    members, everybody = read.records.columns[0] <= 4, np.ones(len(read.counts), dtype=bool)
    assert read.share(members, everybody) == pytest.approx(clustered(released.records[0], pl.col("days") <= 4))
    assert replace(read, units=None).share(members, everybody)[1] < 0.6 * read.share(members, everybody)[1]
    assert read.drawn == UNITS


def without(made: Release, *pairs: tuple[str, str]) -> Release:
    """Return a release whose certificate does not say that some pairs were measured; the others were."""
    names = made.domain.names
    measured = [[a, b] for i, a in enumerate(names) for b in names[i + 1 :] if (a, b) not in pairs]
    return replace(made, certificate=made.certificate.releasing(pairs_measured=measured))


def test_a_pair_that_was_not_measured_in_one_slot_is_told(released: Release) -> None:
    table = released.records[0]
    third = int((table.group_by("patient").len()["len"] == 3).sum()) / table.height
    (faint,) = without(released).estimate(["mean"], column="days", by="ward").rows[0].codes
    assert (faint.name, faint.numbers["tables"]) == ("faint-tables", ["ward (3)*days (3)"])  # few have three rows
    lost = without(released, ("ward (3)", "days (3)")).estimate(["mean"], column="days", by="ward").rows[0]
    code, *_ = lost.codes
    assert (code.name, code.numbers["columns"]) == ("unmeasured-pair", ["days", "ward"])
    losses = 0.2
    assert third <= code.numbers["share"] < third + losses  # of the other slots, what was lost of their tables
    one, several = (without(released, *[("old", f"days ({s})") for s in slots]) for slots in ((3,), (1, 2, 3)))
    widths = [
        row.upper - row.lower
        for row in (made.estimate(["mean"], column="days", by="old").rows[0] for made in (released, one, several))
    ]
    assert widths[0] < widths[1] < widths[2]
    # of two columns of one unit, slots tell nothing
    asked = {"column": "number of visits", "by": "old"}
    assert without(released, ("old", "days (1)")).estimate(["mean"], **asked).rows[0].codes == ()
    assert without(released, ("old", "number of visits")).estimate(["mean"], **asked).rows[0].codes != ()


def test_a_question_is_about_the_table_of_rows_that_its_columns_are_in() -> None:
    """Persons or cars, the number of cars of each; what no row has together is refused, in every form."""
    rng, n = np.random.default_rng(0), 1000
    frames = {"homes": pl.DataFrame({"id": np.arange(n), "owned": rng.random(n) < 0.5})}
    tables = {}
    for name, column, most in (("persons", "age", 2), ("cars", "worth", 1)):
        who = np.repeat(np.arange(n), rng.binomial(most, 0.7, n))
        frames[name] = pl.DataFrame({"id": who, column: rng.integers(most, 5, len(who))})
        tables[name] = UnitTable(unit="id", max_records=most, columns={column: Integer(lower=0, upper=9)})
    domain = Domain(units="homes", columns={"owned": Boolean()}, tables=tables)
    made = release(frames, domain, Budget(epsilon=9.0, delta=1e-6), size=n, tables=3, seed=1)
    for column, source in (("age", "persons"), ("worth", "cars")):
        true = float(frames[source][column].mean())  # type: ignore[arg-type]
        mean = made.estimate([lambda c, w, of=column: (w * c[of]).sum(axis=1)])
        for asked in (made.estimate(["mean"], column=column), mean):
            assert asked.rows[0].mean == pytest.approx(true, abs=0.05)
    (several,) = made.estimate([lambda c, w: (w * (c["number of cars"] + c["number of persons"])).sum(axis=1)]).rows
    assert several.mean == pytest.approx(2.1, abs=0.1)
    groups = made.estimate(["mean"], column="age", by="number of cars")
    assert [row.group for row in groups.rows] == ["0", "1"]
    for ask in (
        lambda: made.estimate(["mean"], column="age", by="worth"),
        lambda: made.estimate([lambda c, w: (w * c["age"] * c["worth"]).sum(axis=1)]),
        lambda: made.regress("age ~ worth"),
    ):
        with pytest.raises(ParameterError, match="no row has columns of both persons and cars"):
            ask()


def test_which_columns_of_a_record_tell_those_of_a_row() -> None:
    relative = {"ward": "first", "days": {"row": "previous", "lower": -9, "upper": 9}}
    coded = UnitTable(
        unit="patient", max_records=3, columns=COLUMNS, slots="ordered", order_by="days", relative_to=relative
    )
    names = Domain(columns={"old": Boolean()}, tables={"visits": coded}).names
    assert coded.sources(["ward"], 1, names) == ["ward (1)"]
    assert coded.sources(["ward"], 3, names) == ["ward (1)", "ward (3)"]
    assert coded.sources(["days"], 3, names) == ["days (1)", "days (2)", "days (3)"]
    assert coded.sources(["old", "number of visits"], 2, names) == ["number of visits", "old"]
    panel = UnitTable(
        unit="patient", max_records=2, columns={"year": Integer(lower=1, upper=2), **COLUMNS}, slots="year"
    )
    domain = Domain(columns={"old": Boolean()}, tables={"years": panel})
    names = domain.parts(domain.names)["years"]
    assert panel.sources(["year", "old"], 2, names) == ["old", "years (2)"]
    assert panel.sources(["year", "days"], 2, names) == ["days (2)"]  # their table counts who has that year


@pytest.fixture(scope="module")
def homes() -> Release:
    """Several draws of households and persons, of which three in ten households have none."""
    rng = np.random.default_rng(0)
    old = rng.random(3000) < 0.5
    patient = np.repeat(np.arange(3000), rng.integers(0, 4, 3000) * (rng.random(3000) < 0.7 + 0.2 * old))
    days = np.clip(rng.integers(0, 8, 3000)[patient] + rng.integers(0, 3, len(patient)), 0, 9)
    tables = {"homes": pl.DataFrame({"patient": np.arange(3000), "old": old})}
    tables["visits"] = pl.DataFrame({"patient": patient, "ward": np.where(days > 4, "a", "b"), "days": days})
    domain = Domain(units="homes", columns={"old": Boolean()}, tables={"visits": VISITS})
    asked = {"mechanism": "marginals", "tables": SEVERAL, "seed": 1}
    return release(tables, domain, Budget(epsilon=8.0, delta=1e-5), size=UNITS, **asked)


def test_a_mean_of_linked_rows_varies_with_all_units(homes: Release) -> None:
    found = homes.estimate(["mean", "P(>5)"], column="days")
    for row, value in zip(found.rows, (pl.col("days"), pl.col("days") > 5), strict=True):
        means, within = np.transpose([clustered(draw["visits"], value) for draw in homes.records])
        wanted = combine(means, within, kind="fully", size=UNITS, n=3000)
        assert row.mean == pytest.approx(wanted.estimate)
        assert row.sd**2 == pytest.approx(wanted.variance, abs=0.3 * wanted.within)
    by = homes.estimate(["mean"], column="days", by="old")
    for group, label in ((True, "true"), (False, "false")):
        joined = [draw["visits"].join(draw["homes"].filter(old=group), on="patient") for draw in homes.records]
        assert by["mean", label].mean == pytest.approx(np.mean([rows["days"].mean() for rows in joined]))


def test_units_without_rows_count(homes: Release, tmp_path: Path) -> None:
    assert all(draw["visits"]["patient"].n_unique() < 0.8 * UNITS for draw in homes.records)
    number = homes.estimate(["mean", "P(=0)"], column="number of visits")
    none = [1.0 - draw["visits"]["patient"].n_unique() / UNITS for draw in homes.records]
    assert number["P(=0)"].mean == pytest.approx(np.mean(none))
    assert number["mean"].mean == pytest.approx(np.mean([draw["visits"].height / UNITS for draw in homes.records]))
    old = np.mean([draw["homes"]["old"].mean() for draw in homes.records])
    assert homes.estimate(["P(=true)"], column="old")["P(=true)"].mean == pytest.approx(old)
    by = homes.estimate(["mean"], column="number of visits", by="old")
    assert by["mean", "true"].share == pytest.approx(old)
    means = [draw["visits"].join(draw["homes"].filter("old"), on="patient").height for draw in homes.records]
    owners = [draw["homes"]["old"].sum() for draw in homes.records]
    assert by["mean", "true"].mean == pytest.approx(np.mean(np.divide(means, owners)))
    own = homes.estimate([lambda values, weights: (values["old"] * weights).sum(axis=1)]).rows[0]
    assert own.mean == pytest.approx(old)
    folder = homes.write(tmp_path / "out", format="csv").path or ""
    for column in ("days", "number of visits"):
        again = read(folder).estimate(["mean"], column=column, by="old")
        assert again.to_dict() == homes.estimate(["mean"], column=column, by="old").to_dict()


def test_regressions_of_linked_rows(homes: Release) -> None:
    pytest.importorskip("formulaic")
    joined = [draw["visits"].join(draw["homes"], on="patient") for draw in homes.records]
    slopes = [rows.filter("old")["days"].mean() - rows.filter(~pl.col("old"))["days"].mean() for rows in joined]  # type: ignore[operator]
    assert homes.regress("days ~ old").rows[1].mean == pytest.approx(np.mean(slopes))


def test_one_table_of_units_has_no_intervals(visits: pl.DataFrame) -> None:
    one = release(visits, DOMAIN, Budget(epsilon=8.0, delta=1e-5), size=100, mechanism="marginals", seed=1)
    for ask in (lambda: one.estimate(["mean"], column="days"), lambda: posterior(one)):
        with pytest.raises(ParameterError, match="to release several"):
            ask()
    with pytest.raises(ParameterError, match="rows of a unit depend on each other"):
        read_release(one.records, one.certificate)


def test_files_are_read_as_frames_are(released: Release, tmp_path: Any) -> None:
    written = released.write(tmp_path / "tables")
    found = read(written.path).estimate(["mean"], column="days", by="old")
    assert found == released.estimate(["mean"], column="days", by="old")


def test_log_odds_of_an_unmeasured_pair_reach_far(released: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("formulaic")
    made = without(released, *[("old", f"ward ({slot})") for slot in (1, 2, 3)])

    def width(case: Release) -> float:
        row = case.regress("ward ~ old").rows[1]
        return row.upper - row.lower

    assert width(made) > 3.0 * width(released)
    monkeypatch.setattr(dependence, "_UNSEPARATED", 1.0)  # all records in order have no coefficient
    assert width(made) < 3.0 * width(released)
