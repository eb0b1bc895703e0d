"""A release whose budget is what an attacker may reach: promised, paid for, certified and verified."""

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import polars as pl
import pytest

from discreet import Advantage, Budget, Ledger, Replacement, Risk, Success, plan, release, verify
from discreet.cli.entry import run as run_command
from discreet.domain import Domain, Integer
from discreet.errors import Infeasible, ParameterError, Refused

AGES = Domain(columns={"age": Integer(lower=0, upper=19, out_of_bounds="clip")})
TABLE = pl.DataFrame({"age": [3, 4, 5, 17] * 250})
LIMITS = (Risk(detection=0.05, false_alarms=0.01), Advantage(0.1), Success(0.7, prior=0.4))
SCHEMA = json.loads((Path(__file__).parents[3] / "src/discreet/releases/certificate.schema.json").read_text())


def failed(document: dict[str, Any], folder: Path) -> list[str]:
    (folder / "certificate.json").write_text(json.dumps(document))
    return [check.what for check in verify(folder / "certificate.json") if not check.agrees]


@pytest.mark.parametrize("limit", LIMITS, ids=str)
def test_a_certificate_states_the_limit_and_a_lower_one_is_refused(limit: Risk, tmp_path: Path) -> None:
    made = release(TABLE, AGES, limit, size=100, mechanism="perturbed-histogram")
    document = made.certificate.to_dict()
    jsonschema.validate(document, SCHEMA)
    assert document["guarantee"]["attack"] == limit.to_dict()
    assert document["guarantee"]["delta"] <= 1e-9
    assert "best attacker" in made.certificate.text or "right in at most 70 %" in made.certificate.text
    assert failed(document, tmp_path) == []
    (name, value), *_ = limit.to_dict().items()
    for wrong in (0.999 * value, 2.0):
        lowered = copy.deepcopy(document)
        lowered["guarantee"]["attack"][name] = wrong
        assert failed(lowered, tmp_path) == (["guarantee.attack"] if wrong < 1 else ["certificate"])
    if "false_alarms" in limit.to_dict():
        changed = copy.deepcopy(document)
        changed["guarantee"]["attack"]["false_alarms"] = 0.013
        assert failed(changed, tmp_path) == ["guarantee.attack"]
    for more in ({"certainty": 0.5}, {}):
        with_more = copy.deepcopy(document)
        with_more["guarantee"]["attack"] = more and {**limit.to_dict(), **more}
        assert failed(with_more, tmp_path) == ["certificate"]


def test_what_reveals_records_needs_consent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    with pytest.raises(Refused, match="published outright") as refused:
        release(TABLE, AGES, Advantage(0.1), size=20, mechanism="urn-histogram")
    assert "weak-promise" in str(refused.value)
    made = release(TABLE, AGES, Advantage(0.1), size=20, mechanism="urn-histogram", accept="weak-promise")
    assert made.certificate.facts.guarantee.attack == Advantage(0.1)
    release(TABLE, AGES, Advantage(0.1), size=20, mechanism="perturbed-histogram")  # "Take another mechanism"
    table = plan(AGES, Advantage(0.1), records=1000, size=20, largest_sizes=False)
    assert {option.name for option in table.feasible}.isdisjoint({"urn-histogram", "dirichlet-process"})
    assert table.to_dict()["advantage"] == 0.1
    assert all(0.0 < option.epsilon <= 10.0 for option in table.feasible if option.epsilon is not None)
    assert table.text.splitlines()[1].split()[:2] == ["mechanism", "epsilon"]


def test_a_ledger_is_charged_what_the_mechanism_costs(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "ledger.sqlite", dataset="ages", epsilon=3.0, delta=1e-6)
    with pytest.raises(ParameterError, match="Replacement") as refused:
        release(TABLE, AGES, Advantage(0.1), size=100, mechanism="perturbed-histogram", ledger=ledger)
    assert "relation=Replacement(records=...)" in str(refused.value)
    known = {"relation": Replacement(records=1000), "ledger": ledger, "size": 100, "mechanism": "perturbed-histogram"}
    made = release(TABLE, AGES, Advantage(0.1), **known)
    spent = ledger.status().spent
    assert spent["epsilon"] == pytest.approx(made.certificate.epsilon, rel=1e-6)
    assert spent["delta"] == pytest.approx(made.certificate.delta, rel=1e-6)
    with pytest.raises(Refused):
        release(TABLE, AGES, Advantage(0.5), **known)


@pytest.mark.parametrize(("delta", "noise"), [(0.0, "laplace"), (1e-12, "laplace"), (1e-12, "gaussian")])
def test_a_ledger_of_less_delta_pays_at_its_own(delta: float, noise: str, tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "ledger.sqlite", dataset="ages", epsilon=3.0, delta=delta)
    known = {"relation": Replacement(records=1000), "size": 100, "mechanism": "perturbed-histogram", "noise": noise}
    made = release(TABLE, AGES, Advantage(0.1), ledger=ledger, **known)
    assert made.certificate.delta <= delta / 10
    assert ledger.status().spent["epsilon"] == pytest.approx(made.certificate.epsilon)


def test_a_mechanism_that_is_given_is_held_to_the_limit() -> None:
    from discreet.mechanisms import named

    weak = named("perturbed-histogram").calibrated(Budget(epsilon=3.0), domain=AGES, n=1000)
    with pytest.raises(Infeasible) as refused:
        release(TABLE, AGES, Advantage(0.1), size=10, mechanism=weak)
    enough = refused.value.nearest["advantage >="] * (1 + 1e-12)
    assert release(TABLE, AGES, Advantage(enough), size=10, mechanism=weak).certificate.facts.guarantee.attack


def test_the_command_takes_shares_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    TABLE.write_csv(tmp_path / "ages.csv")
    (tmp_path / "ages.toml").write_text(AGES.to_toml())
    usual = ["--domain", str(tmp_path / "ages.toml"), "--size", "50", "--mechanism", "perturbed-histogram"]

    def run(*words: str, status: int) -> Any:
        out = str(tmp_path / "out.csv")
        assert run_command(["release", str(tmp_path / "ages.csv"), *usual, "--out", out, "--json", *words]) == status
        return capsys.readouterr()

    for words, attack in (
        (["--risk", "5 % at 1 %"], {"detection": 0.05, "false_alarms": 0.01}),
        (["--risk", "0.05 at 1%"], {"detection": 0.05, "false_alarms": 0.01}),
        (["--advantage", "10 %"], {"advantage": 0.1}),
        (["--success", "0.6", "--prior", "50%"], {"success": 0.6, "prior": 0.5}),
    ):
        assert json.loads(run(*words, status=0).out)["guarantee"]["attack"] == attack
    for wrong in (
        [],
        ["--epsilon", "1", "--advantage", "0.1"],
        ["--risk", "5 %"],
        ["--risk", "five at one"],
        ["--advantage", "0.1", "--prior", "0.5"],
        ["--advantage", "0.1", "--delta", "1e-9"],
        ["--prior", "0.5"],
    ):
        assert "--risk '5 % at 1 %'" in run(*wrong, status=2).err
    assert "false alarms 0.05 is reached without a release" in run("--risk", "1 % at 5 %", status=2).err
