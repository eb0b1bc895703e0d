"""Several releases planned together: they meet the budget, use it up, are what a release makes, and are checked."""

import copy
import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from discreet import AddRemove, Replacement, release
from discreet.cli.entry import run
from discreet.domain import Domain, Integer, Numeric, OpenLabels
from discreet.errors import BudgetError, DiscreetError, DomainError, FileProblem, Infeasible, ParameterError
from discreet.ledger import Request
from discreet.ledger.filters import CURRENCIES
from discreet.planner import plan
from discreet.planner.study import Together, numbers_of, plan_together, read_study
from discreet.privacy import Advantage, Budget, Risk, Success, Unit, compose
from discreet.releases import Certificate

AGES = Domain(columns={"age": Integer(lower=0, upper=99)})
INCOMES = Domain(columns={"income": Numeric(lower=0.0, upper=1000.0)})
NAMES = Domain(columns={"name": OpenLabels()})
GAUSSIAN = {"noise": "gaussian"}


def ages(name: str, records: int = 20_000, **facts: Any) -> Request:
    return Request(part=name, relation=Replacement(records=records), **{"domain": AGES, "size": 1000, **facts})


def noisy(name: str, **facts: Any) -> Request:
    return ages(name, **{"mechanism": "perturbed-histogram", "parameters": GAUSSIAN, **facts})


FOUR = [noisy(name) for name in "abcd"]
WHOLE = Budget(epsilon=1.0, delta=1e-9)


@cache
def four() -> Together:
    return plan_together(FOUR, WHOLE)


PURE = [ages("a", mechanism="perturbed-histogram"), ages("b", mechanism="exponential-histogram")]
UNITS = [noisy("a", records=40_000, unit=Unit("person", max_records=2)), noisy("b", records=20_000)]
STUDIES: dict[str, tuple[list[Request], list[float], float, float]] = {
    "gaussian": (FOUR, [1.0] * 4, 1.0, 1e-9),
    "two kinds of noise": ([noisy("a"), ages("b", mechanism="hierarchical-histogram")], [1.0, 3.0], 2.0, 1e-6),
    "pure": (PURE, [1.0, 2.0], 1.0, 0.0),
    "one": ([noisy("a")], [1.0], 0.5, 1e-6),
    "units of several records": (UNITS, [1.0, 1.0], 1.0, 1e-7),
}


@pytest.mark.parametrize("study", STUDIES)
def test_the_composed_profile_meets_the_budget_and_uses_it_up(study: str) -> None:
    requests, shares, epsilon, delta = STUDIES[study]
    made = plan_together(requests, Budget(epsilon=epsilon, delta=delta), shares=shares)
    # Composed here, from the parts' own guarantees.
    profile = compose([part.guarantee.profile for part in made.parts])
    if delta:
        assert profile.delta(epsilon) <= delta
        assert profile.epsilon(delta) >= 0.99 * epsilon
    else:
        assert 0.99 * epsilon <= profile.pure <= epsilon
    for part in made.parts:
        assert part.guarantee.meets(part.budget)


def test_what_has_a_delta_at_every_epsilon_is_planned_with_the_rest() -> None:
    requests = [ages("names", domain=NAMES, size=100, mechanism="stability-histogram"), noisy("ages")]
    made = plan_together(requests, Budget(epsilon=1.0, delta=1e-6))
    assert made.profile.delta(1.0) <= 1e-6
    assert made.profile.epsilon(1e-6) >= 0.99
    verbatim = ages("a", mechanism="dirichlet-process", size=10, parameters={})
    made = plan_together([verbatim, noisy("b")], Budget(epsilon=1.0, delta=0.01))
    assert made.profile.delta(1.0) <= 0.01


def test_equal_releases_get_clearly_more_than_their_part_of_the_sum_and_shares_are_kept() -> None:
    (budget,) = {part.request.budget for part in four().parts}
    assert budget is not None
    assert budget.epsilon > 0.49  # twice 1/4, as the square root of four
    made = plan_together(FOUR[:2], WHOLE, shares=[1.0, 3.0])
    first, second = (numbers_of(part.budget)["epsilon"] for part in made.parts)
    assert second == pytest.approx(3 * first, rel=1e-5)
    assert first + second > 1.1


LIMITS = [Risk(detection=0.05, false_alarms=0.01), Advantage(0.1), Success(0.6, prior=0.55)]


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: type(limit).__name__)
def test_what_an_attacker_may_reach_from_all_releases_is_met_and_used_up(limit: Any, tmp_path: Path) -> None:
    made = plan_together(FOUR, limit)
    profile = compose([part.guarantee.profile for part in made.parts])
    gain = limit.limit[1] - limit.guessing
    assert 0.99 * gain <= limit.reached(profile) - limit.guessing <= gain
    # Four tables with noise of twice the scale are one with the noise of a single release at the limit.
    single = plan_together(FOUR[:1], limit)
    for part in made.parts:
        assert scale({"releases": [part.to_dict()]}) == pytest.approx(2.0 * scale(single.to_dict()), rel=0.01)
        assert limit.reached(part.guarantee.profile) < limit.limit[1]
    assert made.profile.delta(made.spent.epsilon) <= made.spent.delta
    (tmp_path / "plan.json").write_text(json.dumps(made.to_dict()))
    assert Together.read(tmp_path / "plan.json").to_dict() == made.to_dict()
    (tmp_path / "plan.json").write_text(json.dumps(single.to_dict() | {"attack": numbers_of(made.parts[0].budget)}))
    with pytest.raises(FileProblem, match="does not hold"):
        Together.read(tmp_path / "plan.json")


def test_releases_of_one_limit_without_a_mechanism_are_chosen_for_it() -> None:
    made = plan_together([ages("a"), ages("b", mechanism="perturbed-histogram")], LIMITS[1], shares=[1.0, 2.0])
    assert 0.099 <= LIMITS[1].reached(made.profile) <= 0.1
    first, second = (numbers_of(part.budget)["advantage"] for part in made.parts)
    assert second == pytest.approx(2.0 * first, rel=1e-5)
    assert made.parts[0].mechanism.name == plan(AGES, LIMITS[1], records=20_000, size=1000).best.name


def test_a_plan_comes_out_the_same() -> None:
    assert plan_together(FOUR, WHOLE).to_dict() == four().to_dict()


def test_a_planned_release_is_what_a_release_makes() -> None:
    """Mechanism and cells are chosen by the plan; a release by that name, with the part's budget, has the same ones."""
    requests = [
        ages("incomes", records=2000, domain=INCOMES, size=500, mechanism="perturbed-histogram"),
        ages("ages", records=2000),
    ]
    made = plan_together(requests, Budget(epsilon=2.0, delta=1e-6))
    tables = [pl.DataFrame({"income": [1.0, 20.0, 300.0, 700.0] * 500}), pl.DataFrame({"age": [20, 30, 40, 50] * 500})]
    for one, part, table in zip(requests, made.parts, tables, strict=True):
        asked: dict[str, Any] = {"size": one.size, "mechanism": part.mechanism.name, "accept": {"poor-utility"}}
        facts = release(table, one.domain, part.budget, **asked).certificate.to_dict()
        assert facts["mechanism"] == part.to_dict()["mechanism"]
        assert facts["domain"] == part.to_dict()["domain"]


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(four().to_dict()))
    again = Together.read(file)
    assert again.to_dict() == four().to_dict()
    assert again.profile.delta(1.0) == four().profile.delta(1.0)


def test_a_plan_is_one_entry_of_a_ledger() -> None:
    """By its composed profile. In zcdp the conversion takes its part, so that a plan of the whole does not fit."""
    fits = {}
    for name, currency in CURRENCIES.items():
        totals = (WHOLE, Budget(epsilon=1.15, delta=1e-9))
        costs = [currency.of_profile(four().profile, budget=WHOLE, total=total) for total in totals]
        assert costs[0].within(currency.of_budget(WHOLE))
        fits[name] = [c.within(currency.limit(t)) for c, t in zip(costs, totals, strict=True)]
    assert fits == {"sums": [True, True], "zcdp": [False, True]}


def changed(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Return what sets one field of a document, named by its place."""

    def change(document: dict[str, Any]) -> None:
        *way, last = path.split(".")
        place: Any = document
        for step in way:
            place = place[int(step)] if step.isdigit() else place[step]
        place[last] = value

    return change


def scale(document: dict[str, Any]) -> float:
    return float(document["releases"][0]["mechanism"]["parameters"]["scale"])


TAMPERED: dict[str, Callable[[dict[str, Any]], None]] = {
    "less noise": changed("releases.2.mechanism.parameters.scale", 10.0),
    "a little less noise": lambda d: d["releases"][0]["mechanism"]["parameters"].update(scale=0.98 * scale(d)),
    "a smaller budget": changed("epsilon", 0.98),
    "a smaller delta": changed("delta", 9e-10),
    "a smaller part": changed("releases.0.epsilon", 0.4),
    "persons with more records": changed("releases.0.max_records", 2),
    "another table": changed("releases.0.records", 19_999),
    "a name twice": changed("releases.0.name", "b"),
    "another relation": changed("relation", "add-remove"),
    "another version": changed("discreet_plan", 2),
    "no mechanism": changed("releases.0.mechanism.name", "none"),
    "no number": changed("releases.0.mechanism.parameters.scale", "27"),
    "no domain": changed("releases.0.domain", {"columns": {"age": {"type": "integer"}}}),
    "no releases": changed("releases", []),
    "truth for a number": changed("releases.0.size", True),
    "a release more": lambda d: d["releases"].append({**d["releases"][0], "name": "one more"}),
    "an unknown parameter": changed("releases.0.mechanism.parameters.extra", 1),
}


def read_again(where: Path, change: Callable[[dict[str, Any]], None]) -> Together:
    document = copy.deepcopy(four().to_dict())
    change(document)
    assert document != four().to_dict()
    (where / "plan.json").write_text(json.dumps(document))
    return Together.read(where / "plan.json")


@pytest.mark.parametrize("how", TAMPERED)
def test_tampering_is_refused(how: str, tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match="does not hold" if how == "a release more" else "plan"):
        read_again(tmp_path, TAMPERED[how])


def test_what_promises_more_than_is_stated_still_holds(tmp_path: Path) -> None:
    twice = 2.0 * scale(four().to_dict())
    read = read_again(tmp_path, changed("releases.0.mechanism.parameters.scale", twice))
    assert read.profile.delta(1.0) < four().profile.delta(1.0)


def test_parts_that_do_not_meet_the_budget_make_no_plan() -> None:
    with pytest.raises(Infeasible):
        Together(budget=Budget(epsilon=0.5, delta=1e-9), parts=four().parts)
    first = four().parts[0]
    small = replace(first, request=replace(first.request, budget=Budget(epsilon=0.1, delta=1e-10)))
    with pytest.raises(Infeasible, match="a: "):
        Together(budget=Budget(epsilon=5.0, delta=1e-6), parts=(small,))


@pytest.mark.parametrize(
    ("requests", "error", "words"),
    [
        ([], ParameterError, "at least one"),
        ([noisy("a"), noisy("a")], ParameterError, "same name"),
        ([noisy("a"), noisy("b", records=10_000)], ParameterError, "one table"),
        ([noisy("a", mechanism="none")], ParameterError, "no mechanism"),
        ([noisy("a", parameters={"wrong": 1})], ParameterError, "wrong"),
        ([noisy("a", size=None)], ParameterError, "size is missing"),
        ([noisy(" ")], ParameterError, "a name"),
        ([noisy("a", mechanism=None)], ParameterError, "parameters are of a mechanism"),
        ([replace(noisy("a"), relation=AddRemove(records=20_000))], ParameterError, "Replacement"),
    ],
)
def test_what_cannot_be_planned_is_refused(requests: list[Request], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        plan_together(requests, Budget(epsilon=1.0, delta=1e-6))


def test_numbers_out_of_range_are_refused() -> None:
    with pytest.raises(BudgetError):
        plan_together([noisy("a")], Budget(epsilon=0.0))
    with pytest.raises(ParameterError, match="share"):
        plan_together([noisy("a")], Budget(epsilon=1.0), shares=[0.0])
    with pytest.raises(DiscreetError):
        noisy("a", size=0)


# -- the files and the command ----------------------------------------------------------------------------------------

STUDY = """
[[release]]
name = "a"
domain = "ages.toml"
records = 20000
mechanism = "perturbed-histogram"
parameters = {noise = "gaussian"}

[[release]]
name = "b"
domain = "ages.toml"
records = 20000
size = 500
mechanism = "gaussian-smoothed-histogram"
share = 2
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    (tmp_path / "ages.toml").write_text(AGES.to_toml())
    file = tmp_path / "study.toml"
    file.write_text(STUDY)
    return file


def command(study: Path) -> list[str]:
    return ["plan", "--together", str(study), "--epsilon", "1", "--delta", "1e-9"]


def test_what_would_be_refused_is_said_first(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = STUDY.replace("records = 20000", "records = 20")
    study.write_text(text.replace("size = 500", "size = 5"))
    assert run(["plan", "--together", str(study), "--epsilon", "0.1", "--delta", "1e-9"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith("A release of a would be refused. ")
    assert "--accept-poor-utility" in said


def test_a_study_is_read_beside_its_domains(study: Path) -> None:
    (first, second), shares = read_study(study)
    assert (first.size, second.size, first.domain) == (20_000, 500, AGES)
    assert shares == [1.0, 2.0]


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ('name = "a"', "name = 3", ParameterError),
        ('name = "a"', "", ParameterError),
        ("records = 20000", "records = true", ParameterError),
        ("records = 20000", "records = 0", ParameterError),
        ("share = 2", "max_records = 0", ParameterError),
        ("share = 2", "colour = 2", ParameterError),
        ("share = 2", "share = -1", ParameterError),
        ("share = 2", 'share = "2"', ParameterError),
        ('"ages.toml"', '"none.toml"', FileProblem),
        ("[[release]]", "[[releases]]", FileProblem),
        ("[[release]]", "[[release]", DomainError),
    ],
)
def test_a_study_that_is_not_one_is_refused(study: Path, old: str, new: str, error: type[Exception]) -> None:
    study.write_text(STUDY.replace(old, new))
    with pytest.raises(error):
        read_study(study)


def test_the_command_plans_writes_and_says_what_is_together(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = study.with_name("plan.json")
    assert run([*command(study), "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "epsilon by sums" in said
    assert "0.333" in said
    assert "2 releases together satisfy epsilon 1, delta 1e-09" in " ".join(said.split())
    assert [part.name for part in Together.read(out).parts] == ["a", "b"]


def test_the_options_of_a_declared_limit_make_the_releases(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What ``ledger declare`` prints is followed; another limit, and the same release twice, are refused."""
    where = study.parent
    (where / "ages.toml").write_text(AGES.to_toml() + 'out_of_bounds = "clip"\n')
    pl.DataFrame({"age": [20, 30, 40, 50] * 5000}).write_parquet(where / "t.parquet")
    book, out, limit = str(where / "l.ledger"), str(where / "plan.json"), ["--risk", "5 % at 1 %"]
    assert run(["ledger", "init", book, "--dataset", "t", "--epsilon", "6", "--delta", "1e-6"]) == 0
    assert run(["plan", "--together", str(study), *limit, "--out", out]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "2 releases together satisfy detection 0.05 at false alarms 0.01" in said
    assert run(["ledger", "declare", book, out]) == 0
    options = [shlex.split(line) for line in capsys.readouterr().out.splitlines() if line.startswith("--part")]
    table = ["release", str(where / "t.parquet"), "--domain", str(where / "ages.toml"), "--ledger", book]
    other = ["0.05 at 0.01" if " at " in text else text for text in options[0]]
    assert run([*table, *other, "--out", str(where / "other.parquet")]) == 3
    assert "was declared with detection 0.0" in capsys.readouterr().err
    for given in options:
        released = [*table, *given, "--out", str(where / f"{given[1]}.parquet")]
        assert run(released) == 0
        assert run([*released[:-1], str(where / "again.parquet")]) == 3
    files = [str(where / f"{given[1]}.certificate.json") for given in options]
    capsys.readouterr()
    assert run(["ledger", "verify", book, *files]) == 0, capsys.readouterr().out
    read = Together.read(out)
    for part, file in zip(read.parts, files, strict=True):
        assert Certificate.read(file).facts.guarantee.attack == part.budget


def test_the_options_of_a_declared_workload_make_the_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names = ["a", "b, c"]
    domain = Domain(columns={name: Integer(lower=0, upper=3, out_of_bounds="clip") for name in names})
    domain_file, rng = tmp_path / "d.toml", np.random.default_rng(0)
    domain_file.write_text(domain.to_toml())
    pl.DataFrame({name: rng.integers(0, 4, 5000) for name in names}).write_parquet("t.parquet")
    facts = {"mechanism": "marginals", "parameters": {"workload": ["b, c*a", "a"]}}
    asked = Request(part="p", domain=domain, relation=Replacement(records=5000), size=100, **facts)
    Path("plan.json").write_text(json.dumps(plan_together([asked], Budget(epsilon=3.0, delta=1e-9)).to_dict()))
    assert run(["ledger", "init", "l.ledger", "--dataset", "t", "--epsilon", "6", "--delta", "1e-6"]) == 0
    capsys.readouterr()
    assert run(["ledger", "declare", "l.ledger", "plan.json"]) == 0
    (options,) = [shlex.split(line) for line in capsys.readouterr().out.splitlines() if line.startswith("--part")]
    assert 'workload="b, c*a",a' in options
    table = ["release", "t.parquet", "--domain", "d.toml", "--ledger", "l.ledger"]
    assert run([*table, *options, "--accept-poor-utility", "--out", "out.parquet"]) == 0, capsys.readouterr().err
    assert Certificate.read("out.certificate.json").facts.mechanism.parameters["workload"] == ["b, c*a", "a"]


def test_the_command_writes_json_and_replaces_nothing(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = study.with_name("plan.json")
    out.write_text("something else")
    study.write_text(STUDY[: STUDY.index('[[release]]\nname = "b"')])
    assert run([*command(study), "--json", "--out", str(out)]) == 2
    assert out.read_text() == "something else"
    capsys.readouterr()
    assert run([*command(study), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["releases"][0]["epsilon"] > 1.0
    assert shown["out"] is None
    assert shown["verdict"] == []


@pytest.mark.parametrize(
    "more", [["--records", "5"], ["--domain", "d.toml"], ["--max-records", "2"], ["--size", "3"], ["--sampling", "iid"]]
)
def test_what_stands_in_the_study_is_not_given_twice(
    study: Path, more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command(study), *more]) == 2
    assert more[0] in capsys.readouterr().err


def test_one_release_still_needs_its_domain_and_its_records(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "--epsilon", "1"]) == 2
    assert "--together" in capsys.readouterr().err
