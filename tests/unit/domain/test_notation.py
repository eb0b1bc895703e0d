"""Texts are read and written as a column declares, wherever they come from; what is not declared is refused."""

import datetime as dt
import json
import re
import sys
from decimal import Decimal as Exact
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import discreet
from discreet import Budget, Output
from discreet._core.random import seeded
from discreet.confidential import check_table, confidential, reveal_to_custodian
from discreet.confidential.closed import reveal
from discreet.domain import (
    Boolean,
    Category,
    Column,
    Date,
    Datetime,
    Decimal,
    Domain,
    Integer,
    Numeric,
    OpenLabels,
    Time,
)
from discreet.errors import DataError, DomainError, ParameterError
from discreet.releases import verify

pytestmark = pytest.mark.filterwarnings("ignore")

YEAR: dict[str, Any] = {"lower": "2020-01-01", "upper": "2020-12-31"}
MINUTE: dict[str, Any] = {**YEAR, "step": "1m"}
CENTS: dict[str, Any] = {"lower": -5000, "upper": 5000, "step": 0.01}
OPTIONAL: dict[str, Any] = {"nulls": "category", "null_values": ["NA", "refused"]}

CASES: list[tuple[Column, list[Any], list[Any], list[Any] | None]] = [
    # a column, texts, the values that they are, and how these are written; None where they are written as they are
    (Date(**YEAR, format="%m/%d/%Y"), ["3/14/2020", " 12/31/2020"], [dt.date(2020, 3, 14), dt.date(2020, 12, 31)],
     ["03/14/2020", "12/31/2020"]),
    (Date(**YEAR, format="%-m/%-d/%Y"), ["3/14/2020"], [dt.date(2020, 3, 14)], ["3/14/2020"]),
    (Date(**YEAR, format="%d-%b-%Y"), ["14-Mar-2020"], [dt.date(2020, 3, 14)], ["14-Mar-2020"]),
    (Date(**YEAR), ["2020-02-11 00:00:00", "2020-02-12T00:00:00.000", "2020-02-13"],
     [dt.date(2020, 2, 11), dt.date(2020, 2, 12), dt.date(2020, 2, 13)], None),
    (Date(**YEAR, **OPTIONAL), ["2020-02-11", "NA", " refused", None], [dt.date(2020, 2, 11), None, None, None],
     ["2020-02-11", "NA", "NA", "NA"]),
    (Datetime(**MINUTE, format="%m/%d/%Y %I:%M %p"), ["3/14/2020 7:05 PM"], [dt.datetime(2020, 3, 14, 19, 5)],  # noqa: DTZ001
     ["03/14/2020 07:05 PM"]),
    (Datetime(**MINUTE, format="%d.%m.%Y %H:%M", time_zone="Europe/Paris"), ["14.3.2020 7:05"],
     [dt.datetime(2020, 3, 14, 6, 5, tzinfo=dt.UTC)], ["14.03.2020 07:05"]),
    (Datetime(**MINUTE, format="%d.%m.%Y %H:%M", time_zone="Europe/Paris"), ["25.10.2020 02:30"],  # which is twice
     [dt.datetime(2020, 10, 25, 0, 30, tzinfo=dt.UTC)], ["25.10.2020 02:30"]),
    (Datetime(**MINUTE, format="%Y-%m-%d %H:%M %z", time_zone="Europe/Paris"), ["2020-03-14 07:05 -0500"],
     [dt.datetime(2020, 3, 14, 12, 5, tzinfo=dt.UTC)], ["2020-03-14 13:05 +0100"]),
    (Time(step="5m"), ["07:35", "7:05", "13:13:00"], [dt.time(7, 35), dt.time(7, 5), dt.time(13, 15)],
     ["07:35:00", "07:05:00", "13:15:00"]),
    (Time(step="5m", lower="07:00", upper="19:00", format="%I:%M %p"), ["7:35 AM"], [dt.time(7, 35)], ["07:35 AM"]),
    (Integer(lower=0, upper=5000), ["2.0", "3", " 4.", "007"], [2, 3, 4, 7], None),
    (Integer(lower=0, upper=5000, thousands=",", prefix="$"), ["$1,234", "1,234.0", "12"], [1234, 1234, 12],
     ["$1,234", "$1,234", "$12"]),
    (Integer(lower=0, upper=99, nulls="category", null_values=["", "-9"]), ["5", "-9", "", "-9.0"],
     [5, None, None, None], None),
    (Numeric(**CENTS, thousands=",", prefix="$"), ["$1,234.50", "-$0.05", "$ -7", "1e3"], [1234.5, -0.05, -7.0, 1000.0],
     ["$1,234.5", "-$0.05", "-$7.0", "$1,000.0"]),
    (Numeric(**CENTS, thousands=".", decimal_mark=","), ["1.234,50", "-0,05"], [1234.5, -0.05], ["1.234,5", "-0,05"]),
    (Numeric(**CENTS, thousands=" ", decimal_mark=","), ["1\u202f234,5", "1\u00a0234"], [1234.5, 1234],
     ["1 234,5", "1 234,0"]),
    (Decimal(lower="0", upper="9999999", digits=2, thousands=",", prefix="USD"), ["USD 1,234,567.5"],
     [Exact("1234567.50")], ["USD1,234,567.50"]),
    (Decimal(lower="0", upper="9999999", digits=2, thousands=".", decimal_mark=",", suffix=" €"),
     ["1.234,50 €", "7,5€", "0,05", "-0,00\u00a0€"], [Exact("1234.50"), Exact("7.50"), Exact("0.05"), Exact("0.00")],
     ["1.234,50 €", "7,50 €", "0,05 €", "0,00 €"]),
    (Integer(lower=0, upper=9999, prefix="EUR "), ["EUR 12", "EUR12"], [12, 12], ["EUR 12", "EUR 12"]),
    (Numeric(**CENTS, suffix="%"), ["12.5 %", "3%"], [12.5, 3.0], ["12.5%", "3.0%"]),
    (Boolean(), ["true", "FALSE", "1", "0.0"], [True, False, True, False], None),
    (Boolean(true="Y", false="N", **OPTIONAL), ["Y", "N ", "NA"], [True, False, None], ["Y", "N", "NA"]),
    (Category(categories=["a", "b"], strip=True, **OPTIONAL), [" a", "b ", "refused"], ["a", "b", None],
     ["a", "b", "NA"]),
    (Category(categories=[1, 2]), ["1", "2.0"], [1, 2], None),
    (OpenLabels(strip=True, **OPTIONAL), [" a", "NA "], ["a", None], ["a", "NA"]),
]  # fmt: skip
TYPED = [
    (Boolean(), [1, 0], [1, 0]), (Boolean(nulls="category"), [1.0, 0.0, float("nan")], [1, 0, 2]),
    (Boolean(true="1", false="2"), [1, 2], [1, 0]), (Time(step="15m"), [dt.time(7, 35)], [30]),
    (Integer(lower=0, upper=99, **OPTIONAL | {"null_values": ["-9", "NA"]}), [5, -9], [5, 100]),
    (Integer(lower=0, upper=99, **OPTIONAL | {"null_values": ["-9"]}), [5.0, -9.0], [5, 100]),
    (Date(**YEAR, **OPTIONAL | {"null_values": ["1900-01-01"]}), [dt.date(1900, 1, 1)], [366]),
]  # fmt: skip
REFUSED = [
    (Date(**YEAR), "3/14/2020", 'format = "%m/%d/%Y"'),
    (Date(**YEAR), "2020-02-11 00:00:01", 'type = "datetime"'),
    (Date(**YEAR, format="%m/%d/%Y"), "2020-03-14", 'format = "%m/%d/%Y"'),
    (Datetime(**MINUTE), "3/14/2020 19:05", 'format = "'),
    (Time(step="1m"), "7:35 PM", 'format = "%I:%M %p"'),
    (Integer(lower=0, upper=9999), "1,234", 'thousands = ","'),
    (Integer(lower=0, upper=9999), "2.5", 'type = "numeric"'),
    (Integer(lower=0, upper=9999, thousands=","), "1,23", "whole numbers as declared"),
    (Numeric(**CENTS), "$5", 'prefix = "$"'),
    (Numeric(**CENTS), "refused", 'null_values = ["NA"]'),
    (Numeric(**CENTS, decimal_mark=","), "1.5", "numbers as declared"),
    (Boolean(), "Y", 'true = "Y" and false = "N"'),
    (Boolean(true="Y", false="N"), "yes", "true or false, or 1 or 0 as declared"),
    (Category(categories=[501, 2134]), "00501", 'categories = ["01", "02"]'),
]  # fmt: skip
WRONG = [
    (Date, {**YEAR, "format": "%m/%Y"}, "format"), (Date, {**YEAR, "format": "%Q"}, "format"),
    (Date, {"lower": "1950-01-01", "upper": "2020-01-01", "format": "%m/%d/%y"}, "format"),
    (Datetime, {**MINUTE, "step": "1s", "format": "%Y-%m-%d %H:%M"}, "format"),
    (Datetime, {**MINUTE, "format": "%Y-%m-%d %H:%M %z"}, "format"), (Time, {"step": "1h", "format": 3}, "format"),
    (Boolean, {"true": "Y"}, "true and false"), (Boolean, {"true": "Y", "false": "Y"}, "two texts"),
    (Numeric, {**CENTS, "thousands": "."}, "thousands"), (Numeric, {**CENTS, "thousands": "x"}, "thousands"),
    (Numeric, {**CENTS, "decimal_mark": ";"}, "decimal_mark"), (Numeric, {**CENTS, "prefix": "5"}, "prefix"),
    (Numeric, {**CENTS, "null_values": "NA"}, "null_values"), (Numeric, {**CENTS, "null_values": [-9]}, "null_values"),
    (Numeric, {**CENTS, "null_values": ["-9"]}, "no declared value"), (Numeric, {**CENTS, "strip": "yes"}, "strip"),
    (Category, {"categories": ["a", "NA"], "null_values": ["NA"]}, "no declared value"),
]  # fmt: skip


@pytest.mark.parametrize(("column", "texts", "values", "written"), CASES)
def test_texts_are_read_and_written_as_declared(
    column: Column, texts: list[Any], values: list[Any], written: list[Any] | None
) -> None:
    codes = column.encode(pl.Series(texts, dtype=pl.String))
    assert codes.tolist() == column.encode(pl.Series(values, strict=False)).tolist()
    decoded = column.decode(codes, rng=seeded(0))
    again = column.write(decoded)
    assert again.equals(decoded) if written is None else again.to_list() == written
    assert column.encode(again.cast(pl.String)).tolist() == codes.tolist()
    domain = Domain(columns={"x": column})
    assert Domain.from_toml(domain.to_toml()) == domain


@pytest.mark.parametrize(("column", "values", "codes"), TYPED)
def test_a_notation_is_of_typed_values_too(column: Column, values: list[Any], codes: list[int]) -> None:
    assert column.encode(values).tolist() == codes


@pytest.mark.parametrize(("column", "text", "remedy"), REFUSED)
def test_another_notation_is_refused_with_the_line_to_write(column: Column, text: str, remedy: str) -> None:
    with pytest.raises(DataError) as refusal:
        column.encode([text], name="x")
    assert remedy in str(refusal.value)
    assert text in remedy or text not in str(refusal.value)
    misfits = [misfit for misfit in column.misfits(pl.Series([text])) if misfit.where.any()]
    assert [misfit.problem for misfit in misfits] == [refusal.value.problem]
    example = refusal.value.remedy.partition("for example: ")[2].partition(". ")[0].partition(", or")[0]
    told = {key: json.loads(value) for key, value in re.findall(r'(\w+) = ("[^"]*")', example)}
    if told and remedy in example:  # and it is true when it is followed
        facts = Domain(columns={"x": column}).to_dict()["columns"]["x"] | told
        assert Domain.from_dict({"columns": {"x": facts}}).columns["x"].encode([text]).size == 1


@pytest.mark.parametrize(("kind", "facts", "problem"), WRONG)
def test_a_notation_that_cannot_be_read_back_is_refused(kind: Any, facts: dict[str, Any], problem: str) -> None:
    with pytest.raises(DomainError, match=problem):
        kind(**facts)


COLUMNS: dict[str, Column] = {
    "day": Date(**YEAR, format="%m/%d/%Y", cells=12),
    "born": Date(**YEAR, **OPTIONAL),
    "at": Time(step="15m", format="%I:%M %p"),
    "seen": Datetime(**YEAR, step="1d", format="%d.%m.%Y %H:%M", time_zone="Europe/Paris", cells=4),
    "paid": Numeric(**CENTS | {"step": 0.5}, cells=10, thousands=".", decimal_mark=",", prefix="€"),
    "cost": Decimal(lower="-10000", upper="90000", digits=2, cells=5, thousands=",", **OPTIONAL),
    "ill": Boolean(true="Y", false="N", **OPTIONAL),
    "word": Category(categories=["=a", "b"], **OPTIONAL),
    "ct": Numeric(lower=-5, upper=45, cells=5, decimal_mark=",", censored=[">45", "refused"]),
}
DOMAIN = Domain(columns=COLUMNS)
TABLE = DOMAIN.decode(DOMAIN.draw_base(300, seeded(1)), rng=seeded(2))
ASKED: dict[str, Any] = {"budget": Budget(epsilon=5.0, delta=1e-6), "size": 300, "accept": {"poor-utility"}, "seed": 3}


@pytest.mark.parametrize("counts", [False, True])
def test_a_release_in_csv_is_written_so_and_read_so_by_all_who_read_it(counts: bool, tmp_path: Path) -> None:
    names = ("day", "paid", "ct") if counts else tuple(COLUMNS)
    domain, out = Domain(columns={name: COLUMNS[name] for name in names}), tmp_path / "r.csv"
    asked = {**ASKED, "mechanism": "perturbed-histogram" if counts else "marginals"}
    if counts:
        asked = {**{key: value for key, value in asked.items() if key != "size"}, "counts": True}
    release = discreet.release(TABLE.select(names), domain, out=out, **asked)
    texts = pl.read_csv(out, infer_schema=False)
    forms = {"day": r"\d\d/\d\d/2020", "paid": r"-?€\d{1,3}(\.\d{3})*,\d+", "ct": r"-?\d+,\d+|>45|refused"}
    if not counts:
        forms |= {"born": "2020-.*|NA", "at": r"\d\d:\d\d [AP]M", "seen": r"\d\d\.\d\d\.2020 \d\d:\d\d",
                  "ill": "Y|N|NA", "cost": r"-?\d{1,3}(,\d{3})*\.\d\d|NA", "word": "'=a|b|NA"}  # fmt: skip
    for name, form in forms.items():
        for place in [name] if name in texts.columns else [f"{name}_from", f"{name}_to"]:
            assert all(re.fullmatch(form, text) for text in texts[place]), place
    certificate = tmp_path / "r.certificate.json"
    assert [check for check in verify(certificate, data=out) if not check.agrees] == []
    assert discreet.read(out).table().equals(release.table())
    if counts:
        return
    checked = reveal_to_custodian(check_table(out, domain))
    assert checked.fits, checked
    sys.path.insert(0, str(Path(__file__).parents[3] / "tools"))
    from verify_certificate.released import files

    document = json.loads(certificate.read_text(encoding="utf-8"))
    wrong = {check.detail for check in files(document, out) if check.status != "agrees"}
    assert all(detail.startswith("word: ") for detail in wrong)  # it does not know the apostrophe before a formula
    document["domain"]["columns"]["paid"]["upper"] = 100  # a value that is not declared is noticed
    assert any(check.detail.startswith("paid: ") for check in files(document, out) if check.status != "agrees")


def test_names_of_folders_are_written_so(tmp_path: Path) -> None:
    out = Output(tmp_path / "out", partitions=1, partition_by="ill")
    release = discreet.release(TABLE, DOMAIN, out=out, mechanism="marginals", **ASKED)
    assert {"ill=Y", "ill=N"} <= {path.name for path in (tmp_path / "out").iterdir()}
    assert discreet.read(tmp_path / "out").table().sort(DOMAIN.names).equals(release.table().sort(DOMAIN.names))


@pytest.mark.parametrize("form", ["csv", "texts", "categories", "parquet", "pandas"])
def test_texts_are_read_the_same_wherever_they_come_from(form: str, tmp_path: Path) -> None:
    here = reveal(confidential(TABLE, DOMAIN))
    texts = pl.DataFrame([column.write(TABLE[name]) for name, column in DOMAIN.columns.items()])
    data: Any = texts
    if form == "csv":
        texts.write_csv(data := tmp_path / "t.csv")
    elif form == "parquet":
        texts.write_parquet(data := tmp_path / "t.parquet")
    elif form == "pandas":
        pytest.importorskip("pandas", reason="pandas is not installed")
        data = texts.to_pandas()
    elif form == "categories":
        data = texts.cast(pl.Categorical)
    counts = reveal(confidential(data, DOMAIN))
    assert counts.frequencies.tolist() == here.frequencies.tolist()
    assert all((a == b).all() for a, b in zip(counts.records.columns, here.records.columns, strict=True))


CENSORED = Domain(
    columns={
        "ct": Numeric(lower=0, upper=45, cells=5, censored=[">45", "<1"], nulls="category", null_values=["NA"]),
        "n": Integer(lower=-2, upper=3, censored=["many"]),
    }
)


def test_a_censored_text_is_a_cell_of_its_own() -> None:
    ct, n = CENSORED.columns.values()
    codes = ct.encode(["12.5", " >45", "<1", "NA", None, "44.9"])
    assert codes.tolist() == [1, 5, 6, 7, 7, 4]
    assert ct.encode(ct.decode(codes, rng=seeded(0))).tolist() == codes.tolist()
    assert ct.encode([12.5, None]).tolist() == [1, 7]  # of a table that has typed numbers
    assert n.decode(n.encode(["3", "many", "-2"]), rng=seeded(0)).to_list() == ["3", "many", "-2"]
    assert (ct.size, n.size, ct.on_a_line) == (8, 7, False)
    assert Domain.from_toml(CENSORED.to_toml()) == CENSORED
    assert 'censored = [">45", "<1"]' in CENSORED.to_toml()
    for stray in ("45+", "99"):
        with pytest.raises(DataError, match="no declared number and no text under censored"):
            ct.encode([stray, ">45", "3"], name="ct")
        assert [misfit.where.tolist() for misfit in ct.misfits(pl.Series(["3", stray]))][-1] == [False, True]


@pytest.mark.parametrize("censored", [["99"], ["NA"], [">", "> "], [3], ">45"])
def test_what_cannot_be_a_cell_of_its_own_is_refused(censored: Any) -> None:
    with pytest.raises(DomainError, match="censored must be"):
        Numeric(lower=0, upper=45, cells=5, censored=censored, null_values=["NA"])
    with pytest.raises(DomainError, match="censored needs cells"):
        Numeric(lower=0, upper=45, censored=[">45"])


def test_shares_of_censored_texts_are_estimated_and_means_are_refused() -> None:
    table = pl.DataFrame({"ct": ["12.5", ">45", "<1", "NA"] * 500})
    domain = Domain(columns={"ct": CENSORED.columns["ct"]})
    release = discreet.release(table, domain, mechanism="dirichlet-multinomial", **ASKED)
    assert release.certificate.facts.domain["columns"]["ct"]["censored"] == [">45", "<1"]
    (row,) = release.estimate(["P(=>45)"]).rows
    assert row.lower <= 1 / 3 <= row.upper  # of the values that are not null
    with pytest.raises(ParameterError, match="'mean' needs values with an order"):
        release.estimate(["mean"], column="ct")
