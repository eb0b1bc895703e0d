"""What several of these tests begin with."""

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from discreet.domain import Domain


@pytest.fixture
def command(tmp_path: Path) -> Callable[..., list[str]]:
    """Return what writes a table and its domain, and returns the arguments of ``discreet synthesize`` for them."""

    def arguments(table: pl.DataFrame, domain: Domain, *options: str, out: str = "out") -> list[str]:
        table.write_parquet(tmp_path / "data.parquet")
        (tmp_path / "d.toml").write_text(domain.to_toml())
        files = [str(tmp_path / "data.parquet"), "--domain", str(tmp_path / "d.toml"), "--out", str(tmp_path / out)]
        return ["synthesize", *files, *options]

    return arguments
