"""Fuzzing: each case is a seed; what it did, and how to repeat it, is printed where it fails.

``DISCREET_FUZZ_CASES`` multiplies the number of cases, a third of them by default (``nox -s fuzz`` runs ten times as
many as are listed), and ``DISCREET_FUZZ_FIRST`` is the first seed. A case is repeated by its name, such as
``pytest "tests/fuzz/test_odd_declarations.py::test_toml[seed17]"``.
"""

import faulthandler
import hashlib
import os
import random
import resource
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from _spoil import BUDGET, CANARIES, DOMAIN, EVOLUTION, NUMBER, RELEASED, Attempt

from discreet import Budget, release
from discreet.cli.entry import run
from discreet.domain import Domain, Integer
from discreet.pseudo_posterior import CensoredPosterior, PoissonMean

TIMES = float(os.environ.get("DISCREET_FUZZ_CASES", "0.33"))
FIRST = int(os.environ.get("DISCREET_FUZZ_FIRST", "0"))
CASES = {
    "test_parquet": 130,
    "test_released_parquet": 100,
    "test_csv": 140,
    "test_arrow": 60,
    "test_gzip": 40,
    "test_folder": 50,
    "test_toml": 180,
    "test_certificate": 200,
    "test_tables": 90,
    "test_checkpoint": 50,
    "test_options": 150,
    "test_arguments": 260,
    "test_plan": 60,
}
SECONDS = 60
"""Of processor time, for one case: how long it takes besides depends on what else the machine does."""

GROWTH = 2**30
"""Bytes that one case may add to the most memory the process ever held."""

SMOOTH = '[columns.x]\ntype = "numeric"\nlower = 0\nupper = 1\n'


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        count = max(1, int(CASES[metafunc.function.__name__] * TIMES))
        seeds = range(FIRST, FIRST + count)
        metafunc.parametrize("seed", seeds, ids=[f"seed{seed}" for seed in seeds])


@pytest.fixture
def rng(seed: int, request: pytest.FixtureRequest) -> random.Random:
    return random.Random(f"{request.function.__name__} {seed}")


@pytest.fixture(scope="session")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make everything that is then spoiled: tables, domains, releases and their certificates, a checkpoint."""
    folder = tmp_path_factory.mktemp("originals")
    values = np.random.default_rng(1).random(60)
    table = pl.DataFrame({"x": np.full(60, NUMBER), "s": ["a", "=b", "c"] * 20})
    table.write_parquet(folder / "data.parquet")
    table.write_csv(folder / "data.csv")
    pl.DataFrame({"x": values}).write_parquet(folder / "smooth.parquet")
    (folder / "domain.toml").write_text(DOMAIN)
    (folder / "smooth.toml").write_text(SMOOTH)
    budget, accept = Budget(epsilon=5.0, delta=0.1), {"poor-utility", "weak-promise"}
    for mechanism, asked in RELEASED.items():
        data, domain = ("smooth", "smooth") if mechanism == "dirichlet-process" else ("data", "domain")
        out = folder / f"{mechanism}.{'csv' if mechanism == 'dirichlet-multinomial' else 'parquet'}"
        files = folder / f"{data}.parquet", folder / f"{domain}.toml"
        release(*files, budget, mechanism=mechanism, out=out, accept=accept, **asked)
    evolution = ["--mechanism", "private-evolution", *EVOLUTION, "--checkpoint", str(folder / "steps.npz")]
    assert run(["release", str(folder / "data.parquet"), "--domain", str(folder / "domain.toml"), *BUDGET, *evolution,
                "--out", str(folder / "evolved.parquet")]) == 0  # fmt: skip
    grid = {"mean": np.linspace(1.0, 50.0, 8)}
    model = CensoredPosterior(PoissonMean(column="y"), bound=0.5, grid=grid)
    counts = Domain(columns={"y": Integer(lower=0, upper=9)})
    release(pl.DataFrame({"y": [1, 2, 3]}), counts, mechanism=model, out=folder / "tables")
    return folder


@pytest.fixture
def folder(originals: Path, tmp_path: Path) -> Path:
    """A copy of the originals to spoil."""
    return Path(shutil.copytree(originals, tmp_path / "work"))


def _hashes(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture
def bounded() -> Iterator[None]:
    """Refuse a case that takes too long or too much memory."""

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    faulthandler.dump_traceback_later(10 * SECONDS, exit=True, file=sys.__stderr__)  # it hangs: say where
    start = time.process_time()
    yield
    faulthandler.cancel_dump_traceback_later()
    assert time.process_time() - start < SECONDS
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    assert grown < GROWTH, f"the case took {grown:,} bytes"


@pytest.fixture
def attempt(folder: Path, capsys: pytest.CaptureFixture[str], bounded: None, seed: int) -> Attempt:
    """Run the command and hold it to what is promised of any input.

    Its exit status is 0 to 3; it prints no traceback, no confidential value and no control character; every file that
    was there is as it was; a new file is there only where the command succeeded.
    """

    def checked(*arguments: object, new: tuple[str, ...] = ()) -> int:
        given = [str(part) for part in arguments]
        before = _hashes(folder)
        status = run(given)
        said = capsys.readouterr()
        text, what = said.out + said.err, f"seed {seed}: {given}\n{said.out}\n{said.err}"
        after = _hashes(folder)
        assert status in (0, 1, 2, 3), what
        assert "Traceback" not in text, what
        assert "Warning" not in text, what
        shown = text
        for path in {str(folder), *(part for part in given if any(canary in part for canary in CANARIES))}:
            shown = shown.replace(path, "")
        assert not any(canary in shown for canary in CANARIES), what
        assert all(c.isprintable() or c in "\n\t" for c in text), what
        assert {name: after.get(name) for name in before} == before, what
        made = status == 0 or (status == 1 and given[0] == "report")  # a report says itself what disagrees
        assert set(after) - set(before) == (set(new) if made else set()), what
        return status

    return checked
