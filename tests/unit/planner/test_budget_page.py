"""The page of budgets: its numbers are the plan's, its powers those of exact tests, its commands make what it says."""

import html
import json
import math
import os
import re
import select
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from discreet import Ledger, Unit
from discreet._core.random import seeded
from discreet._core.text import about, percent, rounded_up
from discreet.cli.console import progress_bar
from discreet.cli.entry import run
from discreet.domain import Boolean, Category, Date, Domain, Duration, Integer, OpenLabels
from discreet.errors import FileProblem, ParameterError, Refused
from discreet.ledger.statement import power
from discreet.mechanisms import Marginals
from discreet.planner import plan
from discreet.planner.budget_page import (
    FALSE_ALARMS,
    budget_texts,
    budgets_around,
    error_texts,
    measured_in,
    page,
    plans_around,
)
from discreet.planner.plans import Plan
from discreet.planner.predicted import Rehearsal
from discreet.privacy import Advantage, Budget, Risk, Success

pytest.importorskip("jinja2")

DOMAIN = '[columns.age]\ntype = "integer"\nlower = 0\nupper = 7\nout_of_bounds = "clip"\n'
SCORES = Domain(columns={"score": Integer(lower=0, upper=9, out_of_bounds="clip")})
REQUEST: dict[str, Any] = {"records": 400, "size": 100, "delta": 1e-6}


def facts(path: Path) -> dict[str, Any]:
    """Return what the script of a page shows."""
    (found,) = re.findall(
        r'<script id="data" type="application/json">(.*?)</script>', path.read_text("utf-8"), re.DOTALL
    )
    read: dict[str, Any] = json.loads(found)
    return read


def small(domain: Domain | Path = SCORES, *names: str, **asked: Any) -> Plan:
    """Return a plan of a small table: of noise on its counts, if of no other mechanisms."""
    asked = {"records": 500, "budget": Budget(epsilon=1.0), "mechanisms": names or ["perturbed-histogram"], **asked}
    return plan(domain, largest_sizes=False, **asked)


def table_rows(text: str, mark: str) -> list[list[str]]:
    """Return the cells of the table that begins with a mark, as a browser shows them."""
    (table,) = re.findall(rf"{mark}.*?<tbody[^>]*>(.*?)</tbody>", text, re.DOTALL)
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr.*?</tr>", table, re.DOTALL)]
    return [[html.unescape(re.sub(r"<[^>]*>", "", cell)) for cell in row] for row in cells]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a domain, a ledger, and the page that the command makes of them."""
    where = tmp_path_factory.mktemp("budgets")
    (where / "a domain.toml").write_text(DOMAIN)
    Ledger.create(where / "l.ledger", dataset="ages", epsilon=3.0, delta=1e-5).close()
    options = [f"--{name}={value}" for name, value in REQUEST.items()]
    place = ["--domain", str(where / "a domain.toml"), "--ledger", str(where / "l.ledger"), "--dataset", "ages"]
    assert run(["plan", *place, *options, "--epsilon", "1", "--html", str(where / "plan.html")]) == 0
    return where


# -- its numbers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [0, 8, 13])
def test_every_number_is_the_one_that_the_plan_gives(
    written: Path, place: int, capsys: pytest.CaptureFixture[str]
) -> None:
    one = facts(written / "plan.html")["budgets"][place]
    domain, epsilon = written / "a domain.toml", float(one["epsilon"])
    if place:
        budget = Budget(epsilon=epsilon, delta=REQUEST["delta"])
        again = plan(domain, budget, records=REQUEST["records"], size=REQUEST["size"], largest_sizes=False)
        planned = again.to_dict()
        assert one["why"] == f"Chosen: {again.why}."
    else:
        options = [f"--{name}={value}" for name, value in {**REQUEST, "epsilon": epsilon}.items()]
        assert run(["plan", "--domain", str(domain), *options, "--json"]) == 0
        planned = json.loads(capsys.readouterr().out)
    best = planned["options"][0]
    assert (one["mechanism"], one["w1"], one["times"]) == (
        planned["chosen"],
        about(best["predicted_w1"], 4),
        about(best["times_sampling"], 2),
    )
    assert one["delta"] == rounded_up(best["delta"])
    assert one["fromData"].endswith(percent(best["share_not_from_data"]))
    assert [each[0] for each in one["errors"]] == [about(each) for each in best["predicted_errors"].values()]
    assert [text.lower() for text in one["verdict"]] == [f"{text.rstrip('.')}.".lower() for text in planned["verdict"]]
    told = " ".join(one["not"]).lower()
    assert all(caveat.lower() in told for caveat in best["caveats"])


def test_the_page_without_scripts_shows_the_same_numbers(written: Path) -> None:
    text = (written / "plan.html").read_text("utf-8")
    assert table_rows(text, '<table id="budgets">') == [
        [one["epsilon"], *(one["risks"][i][0] for i in (0, 2, 4)), one["w1"], one["times"], one["fromData"],
         one["mechanism"], one["left"]]
        for one in facts(written / "plan.html")["budgets"]
    ]  # fmt: skip
    assert "<script src" not in text
    assert "http" not in re.sub(r"http-equiv|http://www.w3.org/2000/svg", "", text)  # the name of a namespace


def test_budgets_are_geometric_and_hold_the_one_asked_for() -> None:
    for epsilon in (1e-6, 0.37, 1.0, 8.0, 50.0, 100.0):
        around: list[Any] = budgets_around(Budget(epsilon=epsilon, delta=1e-6))
        found = [budget.epsilon for budget in around]
        assert epsilon in found
        assert 9 <= len(found) <= 17
        assert found == sorted(set(found))
        assert found[-1] <= 100.0
        ratios = np.diff(np.log(found))
        assert ratios.min() > 0.25
        assert ratios.max() < 0.55
    with pytest.raises(ParameterError, match="epsilon above 0"):
        budgets_around(Budget(epsilon=0.0, delta=0.1))


@pytest.mark.parametrize("limit", [Risk(detection=0.05, false_alarms=0.01), Advantage(0.1), Success(0.6, prior=0.45)])
def test_limits_of_an_attacker_are_geometric_above_guessing(limit: Any) -> None:
    found: list[Any] = budgets_around(limit)
    assert limit in found
    assert 9 <= len(found) <= 17
    assert {replace(each, **{limit.limit[0]: 0.9}) for each in found} == {replace(limit, **{limit.limit[0]: 0.9})}
    gains = [each.limit[1] - limit.guessing for each in found]
    assert 0.0 < gains[0] < 0.1 * gains[found.index(limit)]
    assert found[-1].limit[1] <= 0.99
    assert 0.25 < np.diff(np.log(gains)).min() <= np.diff(np.log(gains)).max() < 0.55


@pytest.mark.parametrize(
    ("option", "shown"),
    [(("--risk", "5 % at 1 %"), "5"),
     pytest.param(("--success", "60 %", "--prior", "0.55"), "60", marks=pytest.mark.exhaustive),
     pytest.param(("--advantage", "0.1"), "10", marks=pytest.mark.exhaustive)],
)  # fmt: skip
def test_a_page_of_limits_says_what_each_costs(
    option: tuple[str, ...], shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a domain.toml").write_text(DOMAIN)
    place = ["--domain", str(tmp_path / "a domain.toml"), "--records", "400", "--size", "100"]
    assert run(["plan", *place, *option, "--html", str(tmp_path / "plan.html")]) == 0
    page_facts = facts(tmp_path / "plan.html")
    one = page_facts["budgets"][page_facts["own"]]
    assert (one["amount"], page_facts["named"], page_facts["unit"]) == (shown, "limit", " %")
    for budget in page_facts["budgets"]:
        if budget["mechanism"] != "none" and option[0] == "--risk":
            assert float(budget["risks"][0][0]) <= float(budget["amount"])  # at 1 % false alarms
    if option[0] == "--risk":
        assert float(one["risks"][0][0]) > 4.5
    pl.DataFrame({"age": [3, 4, 5, 7] * 100}).write_csv(tmp_path / "ages.csv")
    monkeypatch.chdir(tmp_path)
    program, *arguments = shlex.split(one["command"].replace("DATA", "ages.csv"))
    exec(compile(one["python"].replace("DATA", "ages.csv").replace("synthetic", "other"), "page", "exec"), {})
    assert run(arguments) == 0
    for name in ("synthetic", "other"):
        certificate = json.loads((tmp_path / f"{name}.certificate.json").read_text("utf-8"))
        assert certificate["mechanism"]["name"] == one["mechanism"]
        assert rounded_up(certificate["guarantee"]["epsilon"]) == one["epsilon"]
        assert rounded_up(certificate["guarantee"]["delta"]) == one["delta"]
    text = (tmp_path / "plan.html").read_text("utf-8")
    assert [row[:2] for row in table_rows(text, '<table id="budgets">')] == [
        [f"{budget['amount']} %", budget["epsilon"]] for budget in page_facts["budgets"]
    ]
    assert "what it costs, epsilon" in text


# -- its pairs of columns -----------------------------------------------------------------------------------------

WIDE = Domain(
    columns={"age": Integer(lower=0, upper=39), "a & b": Category(categories=["x", "y", "z"]), "c": Boolean(),
             "d": Integer(lower=0, upper=3), "e": Boolean()}
)  # fmt: skip


TWO = Domain(columns={"c": Boolean(), "e": Boolean()})


def reference(n: int = 300) -> pl.DataFrame:
    rng = seeded(0)
    age = rng.integers(0, 40, n)
    labels = np.array(["x", "y", "z"])[np.minimum(2, age // 15)]
    columns = {"age": age, "a & b": labels, "c": age > 20, "d": rng.integers(0, 4, n), "e": rng.random(n) < 0.5}
    return pl.DataFrame(columns)


def wide(**asked: Any) -> Plan:
    # few units, whose profile is quick to compute
    given = {"records": 1500, "budget": Budget(epsilon=1.0, delta=1e-6), "mechanisms": ["marginals"], "units": 100}
    given["reference"] = reference()
    return plan(WIDE, largest_sizes=False, **{**given, **asked})


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of a wide table with a public reference."""
    return wide().write_page(tmp_path_factory.mktemp("pairs") / "page.html")


@pytest.mark.parametrize("place", [3, 15])
def test_the_pairs_are_those_of_rehearsals_at_that_budget(pairs: Path, place: int) -> None:
    one = facts(pairs)["budgets"][place]
    made = wide(budget=Budget(epsilon=float(one["epsilon"]), delta=1e-6))
    rehearsal = Rehearsal(made.comparison)
    found = rehearsal.pair_errors(made.feasible[0])
    assert found is not None
    assert found.measured is not None

    def text(share: float) -> str:
        return f"{about(100.0 * share, 2)} %"

    assert one["pairs"]["texts"] == [text(found.errors.mean()), text(found.errors.max())]
    assert one["pairs"]["values"] == [float(each.split()[0]) for each in one["pairs"]["texts"]]
    number = found.measured.sum() / 3
    assert one["pairs"]["measured"] == ("" if number == round(number) else "about ") + f"{round(number)} of 10"
    often = {0: "no", 1: "in 1 of 3", 2: "in 2 of 3", 3: "yes"}
    order = sorted(range(10), key=lambda i: -found.errors[i])
    assert [row[:5] for row in one["pairs"]["rows"]] == [
        [*rehearsal.pairs[i], text(found.errors[i]), text(rehearsal.without_privacy[i]), often[int(found.measured[i])]]
        for i in order
    ]
    assert one["pairsUnknown"] == []


def test_pairs_have_smaller_errors_at_larger_budgets_and_the_bars_say_so(pairs: Path) -> None:
    known = [one["pairs"] for one in facts(pairs)["budgets"] if one["pairs"]]
    assert len(known) > 12
    means = [each["values"][0] for each in known]
    assert means[0] > 2 * means[len(means) // 2] > 4 * means[-1] / 2
    lengths = [row[5] for each in known for row in each["rows"]]
    assert max(lengths) == 100.0
    longest = max(each["values"][1] for each in known)
    for each in known:
        assert each["rows"][0][5] == pytest.approx(100 * each["values"][1] / longest, rel=0.06)
        assert [row[5] for row in each["rows"]] == sorted((row[5] for row in each["rows"]), reverse=True)


def test_the_page_without_scripts_shows_the_same_pairs(pairs: Path) -> None:
    text, made = pairs.read_text("utf-8"), facts(pairs)
    names = [name for name, _ in made["columns"]]

    own = made["budgets"][made["own"]]["pairs"]
    assert [row[:4] for row in table_rows(text, '<table class="errors pairs">')] == [
        [f"{names[i]} and {names[j]}", *shown] for i, j, *shown, _ in own["rows"]
    ]
    every = [
        [one["epsilon"], *each["texts"], each["measured"], "{} and {}".format(*(names[i] for i in each["rows"][0][:2]))]
        if (each := one["pairs"])
        else [one["epsilon"], "-", "-", "-", "-"]
        for one in made["budgets"]
    ]
    assert table_rows(text, '<table class="wide" id="pairs-all">') == every


def test_without_a_public_table_no_error_of_a_pair_is_shown_and_what_is_known_is_said() -> None:
    def unknown(made: Plan) -> tuple[str, str]:
        (one,) = budget_texts([(made, None)])
        return " ".join(one["pairsUnknown"]), page([(made, None)], 0)

    told, text = unknown(wide(reference=None))
    assert "not predicted, because the declared domain does not say how columns depend" in told
    assert "Any of the 10 pairs of columns may be measured." in told
    scale = Marginals.calibrated(Budget(epsilon=1.0, delta=1e-6), domain=WIDE, n=1500, units=100).scale
    assert f"a standard deviation of {scale:.0f} records, {about(100 * scale / 1500, 2)} % of the table" in told
    assert html.escape(told.split(". ")[0]) in text
    assert 'id="pairs-known"' not in text
    assert "1 of the 10 pairs of columns may be measured" in unknown(wide(reference=None, workload="c*d"))[0]
    predicted, text = unknown(wide(reference=None, outcome="c"))
    cost = "4 pairs with a declared outcome or dependency are always measured, with 40% of the units"
    assert cost in predicted
    assert "noise of other tables becomes up to 1.3 times as large. Any of the 6 other pairs of columns" in predicted
    assert cost in str(wide(reference=None, outcome=("c",)).notes)
    assert "--outcome c" in text
    assert 'outcome=["c"]' in html.unescape(text)
    assert unknown(wide(reference=None, outcome="c", workload="c*d"))[0].endswith("1.8 times as large.")
    assert unknown(small(TWO, "smoothed-histogram"))[0].endswith("so that no pair of columns is left out.")
    assert "because only records of some kind are released." in unknown(wide(given="c = true"))[0]
    _, text = unknown(wide(reference=None, workload=["c*d", "e"]))
    assert "--param workload='c*d,e'" in html.unescape(text)
    assert 'workload=["c*d", "e"]' in html.unescape(text)
    nothing, text = unknown(small(SCORES, "smoothed-histogram"))
    assert nothing == ""
    assert "How near pairs" not in text


def test_a_rehearsal_is_a_step_of_the_progress() -> None:
    told: list[tuple[int, int]] = []
    made = small(TWO, records=300, reference=reference())
    found, _ = plans_around(made, Rehearsal(made.comparison), lambda *each: told.append(each))
    assert told[-1] == (2 * len(found), 2 * len(found))
    assert told == sorted(told)
    one, *_ = budget_texts(found, rehearsal=Rehearsal(made.comparison))
    assert (one["pairs"]["measured"], [row[4] for row in one["pairs"]["rows"]]) == ("1 of 1", ["yes"])


# -- its powers ---------------------------------------------------------------------------------------------------


def strongest(law: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Return the power of the most powerful test of two neighbours: a record that moves from one count to another.

    Both counts get the noise ``law``, on consecutive integers: all pairs of outcomes are listed, and taken in the order
    of their likelihood ratio (Neyman and Pearson).
    """
    later = np.concatenate(([0.0], law[:-1]))
    p, q = np.outer(later, law).ravel(), np.outer(law, later).ravel()
    order = np.argsort(-np.log(np.maximum(p, 1e-320)) + np.log(np.maximum(q, 1e-320)), kind="stable")
    alpha, found = (np.concatenate(([0.0], np.cumsum(each[order]))) for each in (q, p))
    return np.interp(levels, alpha, found)


def noise(kind: str, scale: float) -> np.ndarray:
    reach = math.ceil(scale * (25 if kind == "laplace" else 9)) + 1
    z = np.arange(-reach, reach + 1, dtype=float)
    law = np.exp(-np.abs(z) / scale) if kind == "laplace" else np.exp(-(z**2) / (2 * scale**2))
    return np.asarray(law / law.sum())


@pytest.mark.parametrize(
    ("kind", "mechanism", "delta"),
    [("laplace", "perturbed-histogram", 0.0), ("gaussian", "gaussian-smoothed-histogram", 1e-6)],
)
def test_the_power_is_that_of_the_strongest_test_and_grows_with_epsilon(
    kind: str, mechanism: str, delta: float, tmp_path: Path
) -> None:
    page = small(SCORES, mechanism, budget=Budget(epsilon=1.0, delta=delta)).write_page(tmp_path / "page.html")
    levels = np.array(FALSE_ALARMS) / 100.0
    before = np.zeros(len(FALSE_ALARMS))
    missed = {"half the noise": 0, "epsilon and delta alone": 0}
    budgets = facts(page)["budgets"]
    for one in budgets[::4]:
        shown = np.array([float(text) for text, _ in one["risks"]])
        (option,) = small(SCORES, mechanism, budget=Budget(epsilon=float(one["epsilon"]), delta=delta)).options
        scale = option.mechanism.scale  # type: ignore[union-attr]
        exact = 100.0 * strongest(noise(kind, scale), levels)
        # Never below the truth; above it by three digits rounded up, and by the coarseness of 150 points.
        assert (shown >= exact - 1e-6).all()
        assert (shown <= 1.01 * exact + 0.31).all()
        assert (shown >= before).all()
        before = shown
        # A page that took another noise, or the pair instead of the profile, would be noticed.
        twins = {
            "half the noise": 100.0 * strongest(noise(kind, scale / 2), levels),
            "epsilon and delta alone": 100.0
            * np.array([power(a, epsilon=float(one["epsilon"]), delta=delta) for a in levels]),
        }  # fmt: skip
        for name, twin in twins.items():
            missed[name] += bool((shown >= twin - 1e-6).all() and (shown <= 1.01 * twin + 0.31).all())
    few = 1 if kind == "gaussian" else len(budgets)  # the pair is all there is to say of nearly Laplace noise
    assert missed["half the noise"] <= 1
    assert missed["epsilon and delta alone"] <= few


def test_where_another_mechanism_reveals_less_at_a_larger_epsilon_the_page_says_so() -> None:
    budgets = {"exponential-histogram": 1.0, "gaussian-smoothed-histogram": 1.2}
    plans = [small(SCORES, name, budget=Budget(epsilon=e, delta=1e-9)) for name, e in budgets.items()]
    usual = FALSE_ALARMS.index(5)
    (power, words), (less, more) = (one["risks"][usual] for one in budget_texts([(each, None) for each in plans]))
    assert float(less) < float(power)
    assert more.endswith(f"At epsilon 1, where exponential-histogram is chosen, it would be {power}.")
    assert "is chosen" not in words


# -- what it makes ------------------------------------------------------------------------------------------------


def test_its_command_and_its_python_make_the_release_it_describes(
    written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = facts(written / "plan.html")["budgets"][6]
    for place in ("command", "python"):
        where = tmp_path / place
        where.mkdir()
        (where / "a domain.toml").write_text(DOMAIN)
        pl.DataFrame({"age": [3, 4, 5, 7] * 100}).write_csv(where / "ages.csv")
        Ledger.create(where / "l.ledger", dataset="ages", epsilon=3.0, delta=1e-5).close()
        monkeypatch.chdir(where)
        text = one[place].replace("DATA", "ages.csv")
        if place == "python":
            exec(compile(text, "page", "exec"), {})
        else:
            program, *arguments = shlex.split(text)
            assert program == "discreet"
            assert run(arguments) == 0
        certificate = json.loads((where / "synthetic.certificate.json").read_text("utf-8"))
        assert certificate["mechanism"]["name"] == one["mechanism"]
        assert certificate["guarantee"]["epsilon"] == float(one["epsilon"])
        assert rounded_up(certificate["guarantee"]["delta"]) == one["delta"]
        assert certificate["size"] == 100
        with Ledger(where / "l.ledger") as ledger:
            left = ledger.status().left
        shown = re.fullmatch(r"epsilon (\S+), delta (\S+)", one["left"])
        assert shown is not None
        for number, text in zip((left["epsilon"], left["delta"]), shown.groups(), strict=True):
            assert float(text) == pytest.approx(number, rel=1e-5)
            assert float(text) <= number


def test_what_the_ledger_does_not_allow_is_said(written: Path) -> None:
    left = {one["epsilon"]: one["left"] for one in facts(written / "plan.html")["budgets"]}
    assert all((text == "not allowed") is (float(epsilon) > 3.0) for epsilon, text in left.items())
    assert 2 < sum(text == "not allowed" for text in left.values()) < 8


def test_a_ledger_of_the_domain_is_found_and_one_of_other_units_is_refused(tmp_path: Path) -> None:
    (tmp_path / "d.toml").write_text(f'{DOMAIN}\n[ledger]\nfile = "own.ledger"\n')
    Ledger.create(tmp_path / "own.ledger", dataset="its own", epsilon=2.0).close()
    path = small(tmp_path / "d.toml").write_page(tmp_path / "page.html")
    text = path.read_text("utf-8")
    assert "The ledger is that of <bdi>its own</bdi>. Of epsilon 2, epsilon 2 is left now." in text
    assert "--ledger" not in text  # the domain names it
    assert next(one for one in facts(path)["budgets"] if one["epsilon"] == "1.5")["left"] == "epsilon 0.5"
    with pytest.raises(Refused, match="the most records of a unit is 1, and here it is 2"):
        small(tmp_path / "d.toml", unit=Unit("unit", max_records=2)).write_page(tmp_path / "page.html")


def test_where_nothing_can_be_released_the_page_says_so(tmp_path: Path) -> None:
    words = Domain(columns={"word": OpenLabels()})
    budgets = facts(plan(words, Budget(epsilon=1.0), records=500).write_page(tmp_path / "none.html"))["budgets"]
    assert {one["mechanism"] for one in budgets} == {"none"}
    assert all(one["risks"] == [] and one["verdict"] and one["errors"] == [["-", "", None, 0.0]] for one in budgets)


def test_errors_are_told_in_the_unit_of_their_column() -> None:
    columns = {
        "day": Date(lower="2020-01-01", upper="2020-12-31"),
        "wait": Duration(lower="0s", upper="1h", step="1m"),
        "sex": Boolean(),
        "grade": Category(categories=["a", "b", "c"], ordered=True),
        "age": Integer(lower=0, upper=200),
    }
    domain = Domain(columns=columns)
    assert measured_in(columns["day"]) == "days"
    assert measured_in(columns["wait"]) == "seconds"
    assert error_texts(domain, "sex", 0.25)[0] == "25 %"
    assert error_texts(domain, "grade", 0.125)[0] == "12.5 %"
    assert error_texts(domain, "age", 5.0) == ["5", "2.5 % of its range", 5.0]


# -- how it is written --------------------------------------------------------------------------------------------


def test_nothing_but_a_page_of_this_package_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "d.toml").write_text(DOMAIN)
    other = tmp_path / "mine.html"
    other.write_text("<p>my own page</p>")
    one = small(tmp_path / "d.toml")
    (tmp_path / "linked.html").symlink_to(tmp_path / "d.toml")
    for name, words in (
        ("mine.html", "was not written by discreet"),
        ("d.toml", r"End the name in \.html"),
        ("linked.html", "also an input|another name"),
        ("nowhere/page.html", "does not exist"),
    ):
        with pytest.raises(FileProblem, match=words):
            one.write_page(tmp_path / name)
    assert other.read_text() == "<p>my own page</p>"
    with pytest.raises(FileProblem):
        one.write_page(tmp_path / "page.html", ledger=tmp_path / "none.ledger")
    assert not (tmp_path / "page.html").exists()
    first = one.write_page(tmp_path / "page.html").read_text("utf-8")
    assert one.write_page(tmp_path / "page.html").read_text("utf-8") == first


def test_options_of_the_page_are_refused_without_it(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = ["plan", "--domain", str(written / "a domain.toml"), "--records", "500", "--epsilon", "1"]
    assert run([*base, "--ledger", "l.ledger"]) == 2
    assert "--ledger and --dataset are for --html" in capsys.readouterr().err
    assert run(["plan", "--together", "s.toml", "--epsilon", "1", "--html", "p.html"]) == 2
    assert "the file gives --html" in capsys.readouterr().err


def test_the_bar_is_drawn_on_a_terminal_after_a_while_though_nothing_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    pty = pytest.importorskip("pty")
    reader, terminal = pty.openpty()
    with os.fdopen(terminal, "w") as screen:
        monkeypatch.setattr(sys, "stderr", screen)
        for after, drawn in ((60.0, False), (0.0, True)):
            with progress_bar(1, False, "plans", after=after) as progress:
                progress(1, 10)
                progress(2, 10)
            screen.flush()
            assert bool(select.select([reader], [], [], 0.2 if drawn else 0.0)[0]) is drawn
        os.read(reader, 10**6)
        with progress_bar(1, False, "steps", after=0.05):
            assert select.select([reader], [], [], 20.0)[0]
    os.close(reader)
