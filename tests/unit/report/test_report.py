"""The picture and the demonstration."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import discreet
from discreet.domain import Domain, Integer
from discreet.releases import Certificate, verify
from discreet.report import picture
from discreet.report._demo import demo

pytest.importorskip("matplotlib")


def test_the_picture_is_marked_when_it_shows_confidential_values(tmp_path: Path) -> None:
    frame = pl.DataFrame({"age": np.arange(3000) % 60})
    released = discreet.release(
        frame, Domain(columns={"age": Integer(lower=0, upper=99)}), epsilon=1, delta=1e-6, size=500
    )
    public = picture(released.records, released.certificate, tmp_path / "public.svg").read_text()
    marked = picture(released.records, released.certificate, tmp_path / "own.svg", confidential=frame).read_text()
    assert "CONFIDENTIAL" in marked
    assert "CONFIDENTIAL" not in public
    assert picture(released.records, released.certificate, tmp_path / "p.png").stat().st_size > 10_000


def test_the_demonstration_leaves_a_table_a_certificate_and_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("statsmodels")
    said: list[str] = []
    paths = demo(tmp_path / "demo", say=said.append)
    assert pl.read_parquet(paths["synthetic"]).height == 20_000
    certificate = Certificate.read(paths["certificate"])
    assert all(check.agrees for check in verify(certificate, data=paths["synthetic"]))
    assert certificate.epsilon == 1.0
    assert certificate.delta <= 1e-9
    assert Path(paths["picture"]).stat().st_size > 10_000
    assert any("claims agree" in line for line in said)
