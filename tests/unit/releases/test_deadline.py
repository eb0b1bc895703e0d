"""Verifying takes no longer than it is given, whatever a certificate claims."""

import json
import signal
import time
from pathlib import Path

import polars as pl
import pytest

from discreet._core.reading import within
from discreet.cli.entry import run
from discreet.errors import ParameterError, Refused

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no interval timers")


def test_a_block_is_stopped_and_the_timer_is_put_back() -> None:
    before = signal.getsignal(signal.SIGALRM)
    start = time.perf_counter()
    with pytest.raises(Refused, match=r"longer than 0\.05 s"), within(0.05):
        while True:
            time.sleep(0.01)
    assert time.perf_counter() - start < 2.0
    with within(5.0):
        pass
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0
    assert signal.getsignal(signal.SIGALRM) is before
    with pytest.raises(ParameterError), within(float("nan")):
        pass


def test_a_certificate_that_is_dear_to_check_is_given_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pl.DataFrame({"a": [True, False] * 500}).write_parquet(tmp_path / "d.parquet")
    (tmp_path / "d.toml").write_text('[columns.a]\ntype = "boolean"\n')
    made = ["release", str(tmp_path / "d.parquet"), "--domain", str(tmp_path / "d.toml"), "--epsilon", "5"]
    out = ["--size", "3", "--mechanism", "smoothed-histogram", "--out", str(tmp_path / "o.parquet")]
    assert run([*made, *out]) == 0
    path = tmp_path / "o.certificate.json"
    facts = json.loads(path.read_text())
    facts |= {"records": 60, "size": 10**9}
    facts["mechanism"]["parameters"]["mixing"] = 1e-12
    path.write_text(json.dumps(facts))
    capsys.readouterr()
    start = time.perf_counter()
    assert run(["verify", str(path), "--seconds", "0.5"]) == 3  # it would take a minute
    assert time.perf_counter() - start < 10.0
    assert "longer than 0.5 s" in capsys.readouterr().err
