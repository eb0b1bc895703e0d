"""A run that dies while it writes goes on from its kernel's output: nothing is drawn or paid for twice."""

import os
import pickle
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from discreet import AddRemove, Budget, Ledger, Output, release
from discreet._core.files import locked
from discreet.cli.entry import run
from discreet.domain import Category, Counts, Domain, Integer, OpenLabels, Records
from discreet.errors import FileProblem
from discreet.ledger import Run
from discreet.mechanisms import REGISTRY
from discreet.releases import Certificate, verify, writing

DOMAIN = Domain(columns={"x": Integer(lower=0, upper=9), "y": Category(categories=("a", "b"))})
TABLE = pl.DataFrame({"x": [i % 7 for i in range(400)], "y": ["ab"[i % 2] for i in range(400)]})
BUDGET = Budget(epsilon=1.0, delta=1e-6)
ASKED: dict[str, Any] = {"size": 40, "accept": {"poor-utility", "other-columns", "data-dependent-refusal"}}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    TABLE.write_csv("data.csv")
    Path("d.toml").write_text(DOMAIN.to_toml())
    return tmp_path


class Death:
    """Lets the next table die while it is written, and remembers every output of a kernel."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.outputs: list[Any] = []
        self._monkeypatch, execute = monkeypatch, Run.execute

        def executed(run: Run, *arguments: Any, **named: Any) -> Any:
            self.outputs.append(plain(execute(run, *arguments, **named)))
            return self.outputs[-1] if not isinstance(self.outputs[-1], Chunks) else iter(self.outputs[-1])

        monkeypatch.setattr(Run, "execute", executed)

    def of(self, error: BaseException, **asked: Any) -> None:
        """Die of an error in a release, once the kernel has ended."""

        def dies(*_: Any, **__: Any) -> None:
            raise error

        with self._monkeypatch.context() as patch, pytest.raises(type(error)):
            for module in (writing, __import__("discreet.releases.parts", fromlist=["x"])):
                patch.setattr(module, "write_table" if module is writing else "write_part", dies)
            go(**asked)


class Chunks(list[Any]):
    """Records that a kernel drew in chunks."""


def plain(output: Any) -> Any:
    return Chunks(output) if isinstance(output, Iterator) else output


def go(**asked: Any) -> Any:
    data, domain = asked.pop("data", "data.csv"), asked.pop("domain", DOMAIN)
    return release(data, domain, BUDGET, **{**ASKED, "out": "r.csv", **asked})


def flat(value: Any) -> Any:
    """Return an output, of whatever kind of sequences, as values that can be compared."""
    if isinstance(value, (list, tuple, Iterator)):
        return [flat(part) for part in value]
    if isinstance(value, dict):
        return {name: flat(part) for name, part in value.items()}
    if isinstance(value, (Records, Counts)):
        return [flat(getattr(value, name)) for name in type(value).__dataclass_fields__]
    return (value.dtype.str, value.tolist()) if isinstance(value, np.ndarray) else value


@pytest.fixture
def death(monkeypatch: pytest.MonkeyPatch) -> Death:
    return Death(monkeypatch)


KINDS: dict[str, dict[str, Any]] = {
    "noisy counts": {"mechanism": "perturbed-histogram"},
    "counts": {"mechanism": "perturbed-histogram", "counts": True, "size": None},
    "tree": {"mechanism": "hierarchical-histogram"},
    "stability": {"mechanism": "stability-histogram"},
    "drawn records": {"mechanism": "dirichlet-multinomial"},
    "several tables": {"mechanism": "marginals", "tables": 3, "out": "r"},
    "parts": {"mechanism": "perturbed-histogram", "out": Output("r", partitions=3, partition_by="y")},
    "add-remove": {"mechanism": "marginals", "relation": AddRemove(records=400)},
    "steps": {"mechanism": "private-evolution", "steps": 2, "population": 20},
    "labels": {"mechanism": "marginals", "domain": Domain(columns={"x": DOMAIN.columns["x"], "y": OpenLabels()})},
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_after_a_death_is_what_was_drawn_before_it(
    here: Path, death: Death, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    asked = KINDS[kind]
    death.of(KeyboardInterrupt(), **asked)
    (waiting,) = here.glob(".*.output")
    assert stat.S_IMODE(waiting.stat().st_mode) == 0o600
    readings: list[Any] = []
    for mechanism in set(REGISTRY.values()):

        def read(self: Any, y: Any, *, n: int, reading: Any = mechanism.reading) -> Any:
            readings.append(plain(y))
            return reading(self, iter(readings[-1]) if isinstance(readings[-1], Chunks) else y, n=n)

        monkeypatch.setattr(mechanism, "reading", read)
    Path("data.csv").unlink()  # nobody opens it
    written = go(**asked)
    assert len(death.outputs) == 1, "it was drawn twice"
    assert flat(readings[0]) == flat(death.outputs[0])
    assert all(check.agrees for check in verify(written.certificate_path, data=written.path))
    assert list(here.glob(".*")) == []


@pytest.mark.parametrize("declared", [False, True])
@pytest.mark.parametrize("out", ["r.csv", Output("r", partitions=2)])
def test_a_ledger_pays_once(here: Path, death: Death, out: Any, declared: bool) -> None:
    from discreet import Replacement

    asked = {"mechanism": "perturbed-histogram", "out": out}
    asked |= {"relation": Replacement(records=400)} if declared else {}
    with Ledger.create(here / "l", dataset="d", epsilon=1.5, delta=1e-5) as ledger:
        death.of(KeyboardInterrupt(), ledger=ledger, **asked)
        spent = ledger.status().spent
        assert ledger.recover()[0]["why"] == "a process works on it"
        written = go(ledger=ledger, **asked)
        assert len(death.outputs) == 1
        assert ledger.status().spent["epsilon"] == spent["epsilon"] == 1.0
        assert ledger.status().counts["COMMITTED"] == 1
        assert ledger.verify([written.certificate_path]) == []
        assert ledger.recover() == []


def test_an_interrupt_says_how_to_go_on(here: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["release", "data.csv", "--domain", "d.toml", "--epsilon", "1", "--delta", "1e-6", "--size", "40"]
    command += ["--mechanism", "perturbed-histogram", "--accept-poor-utility", "--out", "r.csv"]

    def dies(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(writing, "write_table", dies)
        assert run(command) == 2
    assert "The noise was drawn and paid for; run the same command again to go on" in capsys.readouterr().err
    assert run(command) == 0
    assert "by a run that died" in capsys.readouterr().err
    with monkeypatch.context() as patch:  # before the kernel there is nothing to go on from
        patch.setattr(Run, "execute", dies)
        assert run([*command[:-1], "other.csv"]) == 2
    assert "go on" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "other",
    [
        {"mechanism": "stability-histogram"},
        {"size": 41},
        {"data": "more.csv"},
        {"noise": "gaussian"},
        {"domain": Domain(columns={"x": Integer(lower=0, upper=19), "y": DOMAIN.columns["y"]})},
    ],
)
def test_the_output_of_another_request_is_refused(here: Path, death: Death, other: dict[str, Any]) -> None:
    TABLE.write_csv("more.csv")
    first = {"mechanism": "perturbed-histogram"}
    death.of(KeyboardInterrupt(), **first)
    with pytest.raises(FileProblem, match="un that command again, which costs nothing, or move the file away"):
        go(**{**first, **other})
    assert go(**first).certificate.facts.records == 400  # the first remedy
    assert len(death.outputs) == 1
    death.of(KeyboardInterrupt(), **first)
    Path(".r.csv.output").unlink()  # the second one
    assert go(**{**first, **other}).path == Path("r.csv")


def test_a_file_that_was_changed_is_refused(here: Path, death: Death) -> None:
    asked: dict[str, Any] = {"mechanism": "perturbed-histogram"}
    file = Path(".r.csv.output")
    with Ledger.create(here / "l", dataset="d", epsilon=3.0, delta=1e-5) as ledger:
        death.of(KeyboardInterrupt(), ledger=ledger, **asked)
        honest = file.read_bytes()
        for place in range(0, len(honest), 211):
            changed = bytearray(honest)
            changed[place] ^= 1
            file.write_bytes(bytes(changed))
            with pytest.raises(FileProblem, match=r"ove it away"):
                go(ledger=ledger, **asked)
        for content in (b"", honest[:-9], b"PK\x05\x06" + bytes(18), pickle.dumps(os.getcwd)):
            file.write_bytes(content)
            with pytest.raises(FileProblem, match="holds no output of a kernel"):
                go(ledger=ledger, **asked)
        assert ledger.status().spent["epsilon"] == 1.0
        file.unlink()
        go(ledger=ledger, **asked)
        assert ledger.status().spent["epsilon"] == 2.0


def test_the_output_of_another_entry_is_refused(here: Path, death: Death) -> None:
    """A copy that was kept of an output pays for no second release."""
    asked: dict[str, Any] = {"mechanism": "perturbed-histogram"}
    with Ledger.create(here / "l", dataset="d", epsilon=3.0, delta=1e-5) as ledger:
        death.of(KeyboardInterrupt(), ledger=ledger, **asked)
        copy = Path(".r.csv.output").read_bytes()
        go(ledger=ledger, **asked)
        Path(".r.csv.output").write_bytes(copy)
        with pytest.raises(FileProblem, match="the ledger waits for no such output"):
            go(ledger=ledger, **asked)
        with pytest.raises(FileProblem, match="another request"):
            go(**asked)


def test_two_runs_of_one_name_pay_once(here: Path) -> None:
    with (
        Ledger.create(here / "l", dataset="d", epsilon=3.0, delta=1e-5) as ledger,
        locked(here / ".r.csv.output"),
        pytest.raises(FileProblem, match="another run is using it"),
    ):
        go(mechanism="perturbed-histogram", ledger=ledger)
    with Ledger(here / "l") as ledger:
        assert len(ledger.log()) == 1


def test_a_kernel_that_runs_again_is_caught(here: Path, death: Death, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted defect: a run that does not look for what waits."""
    monkeypatch.setattr("discreet.releases.read_output", lambda *_: None)
    death.of(KeyboardInterrupt(), mechanism="perturbed-histogram")
    go(mechanism="perturbed-histogram")
    assert len(death.outputs) == 2


def test_a_seeded_release_keeps_nothing(here: Path, death: Death) -> None:
    death.of(KeyboardInterrupt(), mechanism="perturbed-histogram", seed=1)
    assert list(here.glob(".*.output")) == []
    assert Certificate.read(go(mechanism="perturbed-histogram", seed=1).certificate_path).seeded
