"""CSV cells that a spreadsheet would run: written so that it does not, and read back as they were."""

import csv
import re
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.cli.entry import run
from discreet.confidential.tables import open_source
from discreet.domain.texts import escaped, escaped_frame, unescaped, unescaped_frame, unescaped_series

FIRST = "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"
TEXTS = st.text(st.sampled_from([*FIRST, "'", "a", '"', ",", " ", "1", "."]), max_size=6)


@given(TEXTS)
def test_reading_undoes_writing_and_nothing_starts_a_formula(text: str) -> None:
    assert unescaped(escaped(text)) == text
    assert escaped(text)[:1] not in FIRST or not text or re.fullmatch(r"[+-]\d+([.,]\d+)?", text)


@given(st.lists(TEXTS, min_size=1, max_size=5))
def test_tables_follow_the_same_rule(texts: list[str]) -> None:
    written = escaped_frame(pl.DataFrame({"=a": texts}))
    assert written.columns == ["'=a"]
    assert written["'=a"].to_list() == [escaped(text) for text in texts]
    assert unescaped_series(written["'=a"]).to_list() == texts
    assert unescaped_frame(written.lazy()).collect()["=a"].to_list() == texts


def test_numbers_dates_and_other_types_stay() -> None:
    frame = pl.DataFrame({"n": [-1.5], "c": ["=x"]}, schema={"n": pl.Float64, "c": pl.Enum(["=x"])})
    assert escaped_frame(frame).rows() == [(-1.5, "'=x")]


DOMAIN = """
[columns."=formula"]
type = "category"
categories = ["=cmd|' /C calc'!A0", "@SUM(A1)", "-1", "'=quoted", "'tis", "plain"]

[columns.open]
type = "open_labels"
"""


@pytest.mark.parametrize("mechanism", ["perturbed-histogram", "stability-histogram"])
def test_a_release_says_the_same_as_csv_and_as_parquet(
    mechanism: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = ["=cmd|' /C calc'!A0", "@SUM(A1)", "-1", "'=quoted", "'tis", "plain"] * 200
    declared = DOMAIN if mechanism == "stability-histogram" else DOMAIN.partition("[columns.open]")[0]
    (tmp_path / "d.toml").write_text(declared)
    pl.DataFrame({"=formula": labels, "open": ["+x", "y"] * 600}).write_parquet(tmp_path / "data.parquet")
    for ending in ("csv", "parquet"):
        assert run(["release", str(tmp_path / "data.parquet"), "--domain", str(tmp_path / "d.toml"), "--epsilon", "5",
                    "--delta", "1e-4", "--size", "300", "--seed", "1", "--mechanism", mechanism,
                    "--ignore-other-columns", "--accept-poor-utility",
                    "--out", str(tmp_path / f"o.{ending}"),
                    "--certificate", str(tmp_path / f"{ending}.json")]) == 0  # fmt: skip
        if mechanism == "perturbed-histogram":
            assert ("get an apostrophe" in capsys.readouterr().err) is (ending == "csv")
        assert run(["verify", str(tmp_path / f"{ending}.json"), "--data", str(tmp_path / f"o.{ending}")]) == 0
    with (tmp_path / "o.csv").open(newline="") as file:
        assert not [cell for row in csv.reader(file) for cell in row if cell[:1] in FIRST and cell not in ("", "-1")]
    exact = pl.read_parquet(tmp_path / "o.parquet")
    raw = pl.read_csv(tmp_path / "o.csv", infer_schema=False)
    assert unescaped_frame(raw.lazy()).collect().equals(exact.cast(pl.String))
    assert list(open_source(tmp_path / "o.csv").names) == exact.columns
    if mechanism == "perturbed-histogram":  # its released CSV, read as a table, is the released table
        assert run(["compare", str(tmp_path / "o.csv"), str(tmp_path / "o.parquet"), "--domain",
                    str(tmp_path / "d.toml"), "--measures", "tv", "--resamples", "0", "--json"]) == 0  # fmt: skip
