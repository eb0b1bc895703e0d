"""Libraries that are loaded when something of them is first used."""

import subprocess
import sys
from pathlib import Path

import polars
import pytest

from discreet._core import lazy


def test_a_name_is_the_librarys_own() -> None:
    assert lazy.pl.Series is polars.Series


def test_nothing_is_loaded_by_importing_or_inspecting_them_or_by_a_look_at_annotations() -> None:
    program = """
from __future__ import annotations
import inspect, sys
from discreet._core import lazy
for name in set(lazy.__all__) - {"Lazy"}:
    inspect.unwrap(getattr(lazy, name)), repr(getattr(lazy, name)), hasattr(getattr(lazy, name), "__wrapped__")
from discreet.cli.entry import run
assert run(["--version"]) == 0  # twice as fast as with NumPy
print(*sorted({"jax", "narwhals", "numpy", "numpyro", "polars", "torch"} & set(sys.modules)))

from discreet._core.boundary import _wrong_argument
from discreet._core.lazy import pl

def read(values: pl.Series, rows: int) -> None: ...

assert _wrong_argument(read, (3, "many"), {}) == "rows must be an integer, got str"
assert _wrong_argument(read, (3, 3), {}) is None  # with the library, the first would be wrong
assert "polars" not in sys.modules
assert lazy.pl.Series is not None and "polars" in sys.modules
"""
    made = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert made.stdout.splitlines()[1:] == [""]


def test_a_missing_library_is_told_by_the_first_use_of_it() -> None:
    missing = lazy.Lazy("no_library_has_this_name")
    with pytest.raises(ModuleNotFoundError, match="no_library_has_this_name"):
        _ = missing.anything


def test_a_release_loads_nothing_that_it_does_not_use(tmp_path: Path) -> None:
    """Start is a quarter of the time of a release of twelve million rows."""
    (tmp_path / "ages.csv").write_text("age\n31\n45\n")
    (tmp_path / "ages.toml").write_text('[columns.age]\ntype = "integer"\nlower = 0\nupper = 99\n')
    program = """
import sys
from pathlib import Path
from discreet.cli.entry import run
assert run(sys.argv[1:]) == 0
unused = {"discreet.audit", "discreet.inference", "discreet.report", "jax", "matplotlib", "multiprocessing", "pandas"}
print(*sorted((unused | {"rich", "scipy"}) & set(sys.modules)))
"""
    asked = ["release", "ages.csv", "--domain", "ages.toml", "--epsilon", "1", "--size", "5", "--out", "out.csv"]
    named = ["--mechanism", "perturbed-histogram", "--accept-poor-utility"]
    called = [sys.executable, "-c", program, *asked, *named]
    made = subprocess.run(called, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert made.stdout.splitlines()[-1].split() == []
