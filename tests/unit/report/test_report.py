"""The picture and the demonstration."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import discreet
from discreet import Budget
from discreet.domain import Domain, Integer
from discreet.releases import Certificate, verify
from discreet.report import picture
from discreet.report.demonstration import demo

pytest.importorskip("matplotlib")


def test_the_picture_is_marked_when_it_shows_confidential_values(tmp_path: Path) -> None:
    frame = pl.DataFrame({"age": np.arange(3000) % 60})
    domain, asked = Domain(columns={"age": Integer(lower=0, upper=99)}), {"mechanism": "perturbed-histogram"}
    released = discreet.release(frame, domain, Budget(epsilon=1), size=500, **asked)
    public = picture(released.records, released.certificate, tmp_path / "public.svg").read_text()
    marked = picture(released.records, released.certificate, tmp_path / "own.svg", confidential=frame).read_text()
    assert "CONFIDENTIAL" in marked
    assert "CONFIDENTIAL" not in public
    assert "<title>500 synthetic records from 3,000" in public
    assert "<dc:description>Shares of the values of age" in public
    assert picture(released.records, released.certificate, tmp_path / "p.png").stat().st_size > 10_000


def test_the_demonstration_leaves_tables_a_certificate_an_estimate_and_reports(tmp_path: Path) -> None:
    randhie = pytest.importorskip("statsmodels.datasets").randhie
    said: list[str] = []
    paths = demo(tmp_path / "demo", say=said.append)
    assert {path.name for path in (tmp_path / "demo").iterdir()} == {Path(path).name for path in paths.values()} - {
        "certificate.json"
    }
    table = pl.read_parquet(Path(paths["synthetic"]) / "table-20.parquet")
    assert table.columns == list(randhie.load_pandas().data)
    assert table.filter(pl.col("hlthg") + pl.col("hlthf") + pl.col("hlthp") > 1).is_empty()
    certificate = Certificate.read(paths["certificate"])
    assert all(check.agrees for check in verify(paths["synthetic"]))
    assert certificate.epsilon == 1.0
    assert certificate.delta <= 1e-9
    assert any("claims agree" in line for line in said)
    (interval,) = (line for line in said if "95% from" in line)
    _, _, low, high, _ = map(float, next(one for one in interval.splitlines() if one.startswith("P(=0)")).split()[1:])
    assert 0.2 < low < high < 0.4
    assert "<title>CONFIDENTIAL" not in Path(paths["report"]).read_text()
    assert "<title>CONFIDENTIAL" in Path(paths["report_confidential"]).read_text()
