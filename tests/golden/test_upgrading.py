"""What commit 981f41d left behind is opened, continued and verified: ``upgrading/README.md`` says how it was made."""

import fcntl
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import discreet
import discreet.errors
from discreet import Budget, Output
from discreet.cli import main

MADE = Path(__file__).parent / "upgrading" / "made"
PLACE = Path("/tmp/discreet-981f41d")
"""The ledger's entries name it."""

pytestmark = pytest.mark.skipif(
    PLACE.parent.resolve() != PLACE.parent, reason="the ledger was made where /tmp is no link"
)
HELD = {"people": PLACE / "people.csv", "domain": PLACE / "domain.toml"}


@pytest.fixture
def ledger() -> Iterator[discreet.Ledger]:
    """Open a copy of the ledger, in the folder of a copy of everything, which is one process's at a time."""
    with open(PLACE.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(PLACE, ignore_errors=True)
        shutil.copytree(MADE, PLACE)
        with discreet.Ledger(PLACE / "ledger.sqlite") as opened:
            yield opened
        shutil.rmtree(PLACE)


FORFEITS = {"data-dependent-refusal"}
"""Its domains say nothing of values that do not fit."""


def released(name: str, ledger: Any, checkpoint: Path | None = None, **asked: Any) -> Path:
    out = PLACE / f"{name}.csv"
    asked = {"size": 200, "mechanism": "perturbed-histogram", "accept": FORFEITS, **asked}
    discreet.release(HELD["people"], HELD["domain"], out=Output(out, checkpoint=checkpoint), ledger=ledger, **asked)
    return out


def shape(out: Path) -> tuple[int, int]:
    discreet.read(out)  # which refuses what its certificate was not written for
    return pl.read_csv(out).shape


def certificates() -> list[Path]:
    return sorted(PLACE.glob("*.certificate.json"))


def spent(ledger: discreet.Ledger) -> dict[str, float]:
    return dict(ledger.status().to_dict()["spent"])


def command(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> int | str | None:
    monkeypatch.setattr(sys, "argv", ["discreet", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def test_the_ledger_says_what_it_said_and_holds(ledger: discreet.Ledger) -> None:
    status = ledger.status().to_dict()
    assert status["spent"] == {"epsilon": 5.0, "delta": 1.2862540872272e-05}
    assert status["left"] == {"epsilon": 15.0, "delta": 0.000987137459127728}
    assert status["counts"] == {"COMMITTED": 4, "FORFEITED": 1, "OPENED": 1, "RESERVED": 1, "VOID": 1}
    assert status["head"] == "a7d404117daf90fcc3b70b2440f0fc7bff20cd650e856d8883162867cac33e86"
    assert status["attacker"]["power_now"] == pytest.approx(0.9935990370179875, rel=1e-6)
    assert len(ledger.log()) == 25
    assert ledger.verify(certificates()) == []


def test_what_its_processes_left_behind_is_settled(ledger: discreet.Ledger) -> None:
    assert not (PLACE / "committed.csv").exists()
    waiting = [one["entry"] for one in ledger.recover()]
    settled = {one["was"]: one["now"] for one in ledger.recover(waiting)}
    assert settled == {"RESERVED": "VOID", "OPENED": "FORFEITED", "COMMITTED": "DELIVERED"}
    assert len(waiting) == 3
    assert shape(PLACE / "committed.csv") == (200, 2)
    assert spent(ledger)["epsilon"] == 4.75
    assert ledger.verify(certificates()) == []


def test_its_checkpoint_is_continued_to_a_release_and_paid_for_once(ledger: discreet.Ledger) -> None:
    before, steps = spent(ledger), []
    watch = discreet.Watch(stepped=lambda done, of: steps.append((done, of)))
    asked = {"mechanism": "private-evolution", "budget": Budget(epsilon=2.0, delta=1e-6), "population": 20, "steps": 3}
    out = released("evolved", ledger, size=40, checkpoint=PLACE / "votes.checkpoint", watch=watch, **asked)
    assert steps == [(2, 3), (3, 3)]
    assert shape(out) == (40, 2)
    assert spent(ledger) == before
    assert all(check.agrees for check in discreet.verify(PLACE / "evolved.certificate.json", data=out))
    assert ledger.verify(certificates()) == []


def test_what_is_left_of_its_plan_is_released_at_no_further_cost(ledger: discreet.Ledger) -> None:
    before = spent(ledger)
    part = json.loads((PLACE / "plan.json").read_text())["releases"][1]
    budget = Budget(epsilon=part["epsilon"], delta=part["delta"])
    asked: dict[str, Any] = {"budget": budget, "noise": "gaussian", "accept": {"poor-utility", *FORFEITS}}
    out = released("second", ledger.part("second"), **asked)
    assert shape(out) == (200, 2)
    assert spent(ledger) == before
    assert ledger.verify(certificates()) == []
    with pytest.raises(discreet.errors.Refused, match="'second' has been used already"):
        released("again", ledger.part("second"), **asked)


def test_its_plan_is_read_and_declared_in_a_new_ledger(
    ledger: discreet.Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    new = discreet.Ledger.create(tmp_path / "new.sqlite", dataset="others", epsilon=2.0, delta=1e-4)
    declared = ("ledger", "declare", tmp_path / "new.sqlite", PLACE / "plan.json")
    assert command(monkeypatch, *declared) == 2  # a value that does not fit would forfeit what was paid
    assert command(monkeypatch, *declared, "--accept", *FORFEITS) in (0, None)
    assert spent(new) == {"epsilon": 1.0, "delta": 9.86256792953e-06}
    assert new.verify() == []


def test_its_release_is_read_verified_and_estimated_from(
    ledger: discreet.Ledger, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = PLACE / "delivered.csv"
    assert all(check.agrees for check in discreet.verify(PLACE / "delivered.certificate.json", data=out))
    assert command(monkeypatch, "verify", PLACE / "delivered.certificate.json", "--data", out) in (0, None)
    found = discreet.read(out).estimate(["mean", "P(>=65)"], column="age").to_dict()["estimates"]
    assert [[one[key] for key in ("mean", "sd", "lower", "upper")] for one in found] == [
        pytest.approx([44.68171800481567, 1.9078336816206445, 35.94232727715356, 53.427088495221554], rel=1e-6),
        pytest.approx([0.2276665544896469, 0.03340284586293878, 0.11190787097208706, 0.3497197533163474], rel=1e-6),
    ]


def test_a_ledger_of_another_history_is_told_by_its_certificates(ledger: discreet.Ledger, tmp_path: Path) -> None:
    other = discreet.Ledger.create(tmp_path / "other.sqlite", dataset="people", epsilon=20.0, delta=1e-3)
    assert other.verify([PLACE / "delivered.certificate.json"]) != []
