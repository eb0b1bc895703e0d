"""Every value of a released file lies in its declared domain: in every format, in folders, and in counts."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import discreet
from discreet import Budget
from discreet.cli.entry import run
from discreet.domain import Boolean, Category, Date, Datetime, Decimal, Domain, Duration, Integer, Numeric, OpenLabels
from discreet.releases import Certificate, verify

ENDINGS = (".parquet", ".csv", ".tsv.gz", ".arrow")
COLUMNS = {
    "x": Numeric(lower=0, upper=1, cells=3, nulls="category"),
    "w": Numeric(lower=1, upper=100, cells=3, spacing="log", within="midpoint"),
    "g": Numeric(lower=0, upper=9, grid=[1.0, 2.5, 7.0]),
    "i": Integer(lower=1, upper=40, cells=4, out_of_bounds="clip"),
    "s": Category(categories=["=1+1", "a\tb", 'é",'], nulls="category"),
    "b": Boolean(),
    "d": Date(lower="2024-01-01", upper="2024-12-31", cells=2),
    "t": Datetime(lower="2024-01-01", upper="2024-01-03", step="1h", cells=2, time_zone="UTC"),
    "u": Duration(lower="0s", upper="1h", step="5m", cells=2),
    "m": Decimal(lower="0.0", upper="9.9", digits=1, cells=2),
}
DOMAIN = Domain(columns=COLUMNS)
TABLE = DOMAIN.decode(DOMAIN.draw_base(300, np.random.default_rng(1)), rng=np.random.default_rng(2))
BUDGET = Budget(epsilon=5.0, delta=1e-6)
ASKED: dict[str, Any] = {"budget": BUDGET, "mechanism": "marginals", "accept": {"poor-utility"}}

CONTRADICTED = [
    ("x", {"upper": 0.5}), ("x", {"lower": 0.5}), ("x", {"nulls": "error"}), ("x", {"dtype": "float32"}),
    ("w", {"cells": 4}), ("w", {"spacing": "linear"}), ("g", {"grid": [1.0, 2.5, 8.0]}),
    ("i", {"upper": 30}), ("i", {"lower": 11}), ("i", {"dtype": "int32"}),
    ("s", {"categories": ["=1+1", "a\tb", "é"]}), ("s", {"nulls": "error"}),
    ("d", {"upper": "2024-05-31"}), ("d", {"lower": "2024-06-01"}),
    ("t", {"step": "2h"}), ("t", {"upper": "2024-01-02"}),
    ("t", {"time_zone": None, "lower": "2024-01-01T00:00:00", "upper": "2024-01-03T00:00:00"}),
    ("u", {"step": "10m"}), ("u", {"lower": "30m"}),
    ("m", {"digits": 2, "lower": "0.00", "upper": "9.90"}), ("m", {"upper": "4.0"}),
]  # fmt: skip
IN_TEXTS = {"dtype", "time_zone"}
"""Facts that texts do not contradict."""


def released(out: Path, **asked: Any) -> Path:
    discreet.release(TABLE, DOMAIN, size=400, out=out, **{**ASKED, **asked})
    return out


def wrong(certificate: Path, data: Path | None, column: str, facts: dict[str, Any]) -> dict[str, Any]:
    """Return what does not agree where a certificate declares other facts of a column."""
    document = json.loads(certificate.read_text(encoding="utf-8"))
    declared = document["domain"]["columns"][column] | facts
    document["domain"]["columns"][column] = {key: value for key, value in declared.items() if value is not None}
    checks = verify(Certificate.from_dict(document), data=data or certificate.parent)
    return {check.what: check.found for check in checks if not check.agrees}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_declaration_that_a_file_contradicts_is_refused_and_no_value_quoted(ending: str, tmp_path: Path) -> None:
    out = released(tmp_path / f"r{ending}")
    assert all(check.agrees for check in verify(tmp_path / "r.certificate.json", data=out))
    texts = ending.startswith((".csv", ".tsv"))
    for column, facts in CONTRADICTED if ending in (".parquet", ".csv") else CONTRADICTED[::3]:
        if texts and IN_TEXTS & facts.keys():
            continue
        found = wrong(tmp_path / "r.certificate.json", out, column, facts)
        told = found[f"released.values of {column} (in the file)"]
        assert told, (column, facts)
        assert not set("0123456789=é") & set(told)


@pytest.mark.parametrize(("options", "name", "names"), [
    ({"tables": 2}, "certificate.json", {"table-01.parquet", "table-02.parquet"}),
    ({}, "_certificate.json", {"released"}),
])  # fmt: skip
def test_folders_are_compared_table_by_table(
    options: dict[str, int], name: str, names: set[str], tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    out = folder if options else discreet.Output(folder, partitions=2, partition_by="s")
    discreet.release(TABLE, DOMAIN, size=400, out=out, **ASKED, **options)
    assert all(check.agrees for check in verify(folder))
    for column, facts in (("i", {"upper": 30}), ("s", {"nulls": "error"}), ("u", {"step": "10m"})):
        found = wrong(folder / name, None, column, facts)
        assert {f"{each}.values of {column} (in the file)" for each in names} <= found.keys()


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
@pytest.mark.parametrize("column", ["x", "i", "d", "u", "m"])
def test_counts_are_of_the_cells_of_the_domain(column: str, ending: str, tmp_path: Path) -> None:
    domain, out = Domain(columns={column: COLUMNS[column], "b": Boolean()}), tmp_path / f"c{ending}"
    asked = {"budget": Budget(epsilon=5.0), "mechanism": "perturbed-histogram", "counts": True}
    discreet.release(TABLE.select(column, "b"), domain, out=out, accept={"poor-utility"}, **asked)
    assert all(check.agrees for check in verify(tmp_path / "c.certificate.json", data=out))
    ends = {"x": 2, "i": 44, "d": "2025-02-01", "u": "2h", "m": "19.9"}
    found = wrong(tmp_path / "c.certificate.json", out, column, {"upper": ends[column]})
    assert found.keys() == {f"released.values of {column} (in the file)"}


def test_a_record_that_is_declared_impossible_is_refused(tmp_path: Path) -> None:
    out = released(tmp_path / "r.csv")
    document = json.loads((tmp_path / "r.certificate.json").read_text(encoding="utf-8"))
    document["domain"]["impossible"] = [{"b": True, "g": 2.5}]
    found = {check.what for check in verify(Certificate.from_dict(document), data=out) if not check.agrees}
    assert "released.values of the rules (in the file)" in found


def test_a_file_that_was_changed_is_compared_too(tmp_path: Path) -> None:
    out = released(tmp_path / "r.parquet")
    pl.read_parquet(out).with_columns(i=pl.lit(77, pl.Int64)).write_parquet(out)
    found = {check.what: check.found for check in verify(tmp_path / "r.certificate.json", data=out) if not check.agrees}
    assert found.keys() == {
        "released.sha256", "released.identity (in the file)", "released.values of i (in the file)"
    }  # fmt: skip
    assert "77" not in str(found["released.values of i (in the file)"])


@pytest.mark.parametrize("ending", ENDINGS)
def test_new_labels_are_no_strangers(ending: str, tmp_path: Path) -> None:
    """A release of few of many labels names most of its records anew."""
    out = tmp_path / f"r{ending}"
    table = pl.DataFrame({"town": [f"town {i % 50}" for i in range(400)] + ["big"] * 400})
    asked: dict[str, Any] = {"mechanism": "stabilised-pitman-yor", "accept": {"poor-utility"}, "size": 300}
    made = discreet.release(table, Domain(columns={"town": OpenLabels()}), Budget(epsilon=1.0, delta=1e-6), **asked)
    assert made.records["town"].str.starts_with("new_category_").any()
    assert all(check.agrees for check in verify(made.write(out).certificate, data=out))


def saved(path: Path, **options: Any) -> None:
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    with path.open("w", newline="", encoding=options.pop("encoding", "utf-8")) as file:
        csv.writer(file, **options).writerows(rows)


@pytest.mark.parametrize(
    ("change", "same"),
    [
        (lambda path: saved(path, lineterminator="\r\n"), True),  # as Excel does
        (lambda path: saved(path, lineterminator="\n", encoding="utf-8-sig"), True),
        (lambda path: path.write_bytes(path.read_bytes().rstrip(b"\n")), True),
        (lambda path: path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1])), False),
        (lambda path: path.write_bytes(path.read_bytes() + path.read_bytes().splitlines(keepends=True)[-1]), False),
        (lambda path: path.write_bytes(b"\n".join(sorted(path.read_bytes().splitlines(), reverse=True))), False),
    ],
)
def test_a_file_that_was_saved_again_is_told_from_another_one(
    change: Any, same: bool, tmp_path: Path, capsys: Any
) -> None:
    out, certificate = released(tmp_path / "r.csv"), tmp_path / "r.certificate.json"
    original = out.read_bytes()
    change(out)
    assert run(["verify", str(certificate), "--data", str(out)]) == 1
    told = capsys.readouterr().out
    assert ("The rows are those that were released" in told) == same
    assert ("Do not rely" in told) != same
    out.write_bytes(original)
    assert run(["verify", str(certificate), "--data", str(out)]) == 0
