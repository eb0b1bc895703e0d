"""Dask and Spark make the parts of a release, by the lines of the how-to page: the same bytes as in one process."""

import hashlib
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import discreet
from discreet import Budget, Output
from discreet.domain import Category, Domain, Integer, Numeric

pytestmark = [pytest.mark.engines, pytest.mark.filterwarnings("ignore")]

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "release-in-parts.md"
DOMAIN = Domain(
    columns={
        "sex": Category(categories=["f", "m"]),
        "age": Integer(lower=0, upper=99, cells=10),
        "share": Numeric(lower=0.0, upper=1.0, cells=4),
    }
)


def made(out: Path, workers: Any) -> dict[str, str]:
    rng = np.random.default_rng(1)
    table = pl.DataFrame(
        {
            "sex": pl.Series(["f", "m"])[rng.integers(0, 2, 5000)],
            "age": rng.integers(0, 100, 5000),
            "share": rng.random(5000),
        }
    )
    how: dict[str, Any] = {"budget": Budget(epsilon=2.0), "size": 20_000, "mechanism": "perturbed-histogram", "seed": 3}
    discreet.release(table, DOMAIN, out=Output(out, partitions=3, partition_by="sex", workers=workers), **how)
    assert all(check.agrees for check in discreet.verify(out))
    return {
        str(file.relative_to(out)): hashlib.sha256(file.read_bytes()).hexdigest() for file in out.rglob("*.parquet")
    }


@pytest.mark.parametrize(("engine", "package"), [("on_dask", "dask"), ("on_spark", "pyspark")])
def test_an_engine_makes_the_same_parts(
    engine: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(package)
    if package == "pyspark":
        import shutil

        if shutil.which("java") is None:
            pytest.skip("Spark needs Java")
        monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (functions,) = (block for block in blocks if f"def {engine}" in block)
    namespace: dict[str, Any] = {}
    exec(compile(functions, PAGE.name, "exec"), namespace)
    assert made(tmp_path / "engine", namespace[engine]) == made(tmp_path / "own", 1)
