"""``verify`` computes every entry again: what was written by hand, with a chain of hashes that is right, is found."""

import json
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pytest
from ledgers import AGES, BUDGET, DOMAIN, SQUARE, STEPS, N, evolve, histogram, interrupt, ledger_at, points

from discreet import Ledger, Replacement, Watch, release
from discreet.confidential import confidential
from discreet.domain import Domain, Integer, OpenLabels
from discreet.errors import MissingExtra
from discreet.evolution import Callables
from discreet.ledger import Request, verification
from discreet.ledger.filters import Cost
from discreet.mechanisms import DirichletMultinomial, PerturbedHistogram, PitmanYor
from discreet.planner.study import plan_together
from discreet.privacy import Budget
from discreet.pseudo_posterior import CensoredPosterior, PoissonMean

PURE = Budget(epsilon=1.0)


def reserved(budget: Budget, **more: Any) -> dict[str, Any]:
    return {"what": "release", "budget": {"epsilon": budget.epsilon, "delta": budget.delta}, "relation": "replacement",
            "unit": None, "group": 1, "domain": None, "out": [], "checkpoint": None, "lease": {}, **more}  # fmt: skip


def written_by_hand(ledger: Ledger, entry: str, facts: dict[str, Any], cost: Cost, *notes: Any, released: Any) -> None:
    """Append the events of a release, as anybody can who knows the format."""
    with ledger._book.appending() as page:
        page.append(entry, "RESERVED", facts=facts, cost=cost)
        page.append(entry, "OPENED", facts={})
        for note in notes:
            page.append(entry, "NOTED", facts=note)
        page.append(entry, "COMMITTED", facts={**released, "files": []}, cost=cost)


def assert_said(ledger: Ledger, said: str | None) -> None:
    """Assert that a ledger is right, or that something wrong is said of it: one of several, with a bar between."""
    found = ledger.verify()
    assert found == [] if said is None else any(part in line for part in said.split("|") for line in found)


def of(mechanism: Any, budget: Budget = BUDGET, size: int = 50) -> dict[str, Any]:
    return Request(budget=budget, size=size, relation=Replacement(records=N)).purpose(mechanism, n=N)


def kept(made: dict[str, Any]) -> dict[str, Any]:
    return {key: made[key] for key in ("mechanism", "records", "size")}


def cost(ledger: Ledger, mechanism: Any, asked: Budget = BUDGET) -> Cost:
    profile = mechanism.guarantee(n=N).profile
    return ledger._book.currency.of_profile(profile, budget=asked, total=ledger._book.budget)


@pytest.mark.parametrize("currency", ["sums", "zcdp"])
@pytest.mark.parametrize("said", ["what was released", "what costs less"])
def test_what_is_charged_for_another_mechanism_is_found(tmp_path, currency, said) -> None:
    """The first two attacks: reserved with one guarantee, released with another."""
    makes = {"laplace": histogram("laplace"), "gaussian": histogram("gaussian"),
             "dirichlet": DirichletMultinomial.calibrated(BUDGET, domain=DOMAIN, n=N, size=50)}  # fmt: skip
    with ledger_at(tmp_path, currency=currency) as ledger:
        costs = {name: cost(ledger, made) for name, made in makes.items()}
        cheap, dear = min(costs, key=lambda k: costs[k].loss), max(costs, key=lambda k: (costs[k].loss, costs[k].delta))
        if currency == "sums":
            cheap, dear = "laplace", "gaussian"
        assert not costs[dear].within(costs[cheap])
        made = of(makes[dear if said == "what was released" else cheap])
        written_by_hand(ledger, "a", reserved(BUDGET, made=made), costs[cheap], released=kept(of(makes[dear])))
        assert_said(ledger, "costs more than was charged|not what was paid for")


@pytest.mark.parametrize("currency", ["sums", "zcdp"])
def test_what_is_charged_what_it_costs_is_not_found(tmp_path, currency) -> None:
    with ledger_at(tmp_path, currency=currency) as ledger:
        for noise in ("laplace", "gaussian"):
            made, price = of(histogram(noise)), cost(ledger, histogram(noise))
            written_by_hand(ledger, noise, reserved(BUDGET, made=made), price, released=kept(made))
        assert ledger.verify() == []


def test_a_delta_that_nobody_paid_for_is_found(tmp_path) -> None:
    """The fifth attack: an urn whose delta is 0.005, at the price of a pure release."""
    words, budget = Domain(columns={"w": OpenLabels(out_of_bounds="other")}), Budget(epsilon=0.1, delta=0.006)
    urn = PitmanYor(domain=words, size=10, strength=1.0)
    with ledger_at(tmp_path, delta=1e-9) as ledger:
        made = of(urn, budget, 10)
        pure = ledger._book.currency.of_budget(Budget(epsilon=0.1))
        written_by_hand(ledger, "a", reserved(budget, made=made), pure, released=kept(made))
        assert_said(ledger, "costs more than was charged")


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_going_on_from_steps_that_were_never_taken_is_found(tmp_path, steps) -> None:
    """The third attack: five free releases of a mechanism that takes one step."""
    mechanism, path = histogram("gaussian"), str(tmp_path / "none")
    with ledger_at(tmp_path) as ledger:
        made = of(mechanism)
        first = reserved(BUDGET, made=made, checkpoint=path, held={"steps": 0, "sha256": None})
        written_by_hand(ledger, "a", first, cost(ledger, mechanism), released=kept(made))
        assert ledger.verify() == []
        facts = {**first, "held": {"steps": steps, "sha256": "0" * 64}, "continues": "a", "free": True}
        written_by_hand(ledger, "b", facts, Cost(), released=kept(made))
        assert_said(ledger, "its mechanism takes one step")


@pytest.mark.parametrize(
    ("held", "notes", "change", "said"),
    [
        (2, [], {}, None),
        (2, [{"step": 1, "of": 2}, {"step": 2, "of": 2}], {}, "took step 1 again"),
        (1, [{"step": 2, "of": 2}], {}, "took step 2 again"),
        (4, [], {}, "goes on from 4 steps, and 2 steps had been taken"),
        (0, [], {}, "goes on from 0 steps"),
        (2, [], {"continues": "x"}, "no run that was paid for"),
        (2, [], {"continues": None}, "neither a plan nor an earlier entry"),
        (2, [], {"budget": {"epsilon": 2.0, "delta": 1e-6}}, "no run that was paid for"),
        (2, [], {"made": of(histogram("laplace"))}, "another mechanism|takes one step"),
    ],
)
def test_steps_that_are_taken_again_for_nothing_are_found(tmp_path, held, notes, change, said) -> None:
    """The fourth attack: the checkpoint was deleted after the payment, and all steps were taken anew, or one twice."""
    with ledger_at(tmp_path) as ledger:
        evolve(ledger, tmp_path / "steps")
        first = next(event for event in ledger.log() if event["state"] == "RESERVED")
        released = next(event["facts"] for event in ledger.log() if event["state"] == "COMMITTED")
        facts = {**first["facts"], "held": {"steps": held, "sha256": "0" * 64}, "free": True}
        facts |= {"continues": first["entry"], **change}
        if "made" in change:
            released = {**released, "mechanism": change["made"]["mechanism"]}
        written_by_hand(ledger, "b", facts, Cost(), *notes, released={k: released[k] for k in ("mechanism", "records")})
        assert_said(ledger, said)


def test_an_entry_that_does_not_say_what_it_pays_for_is_found_once_others_do(tmp_path) -> None:
    mechanism = histogram("laplace")
    with ledger_at(tmp_path) as ledger:
        before = reserved(PURE)
        written_by_hand(ledger, "a", before, cost(ledger, mechanism, PURE), released=kept(of(mechanism)))
        assert ledger.verify() == []  # of an earlier version
        release(confidential(AGES, DOMAIN), mechanism=mechanism, budget=PURE, size=50, ledger=ledger)
        assert ledger.verify() == []
        written_by_hand(ledger, "c", before, Cost(), released=kept(of(mechanism)))
        written_by_hand(ledger, "d", before, Cost(), released={})
        for entry in "cd":
            assert_said(ledger, f"entry {entry}: it does not say what it pays for")


def test_a_model_that_states_more_than_was_charged_is_found(tmp_path) -> None:
    counts = Domain(columns={"visits": Integer(lower=0, upper=60, out_of_bounds="clip")})
    model = CensoredPosterior(PoissonMean(column="visits"), bound=1.0).on(counts)
    with Ledger.create(tmp_path / "x", dataset="d", epsilon=9.0, kinds=["empirical"]) as ledger:
        for entry, (epsilon, wrong) in {"a": (2.0, False), "b": (1.0, True)}.items():
            asked = Budget(epsilon=epsilon)
            made = of(model, asked)
            written_by_hand(ledger, entry, reserved(asked, made=made), ledger._book.currency.of_budget(asked),
                            released=kept(made))  # fmt: skip
            assert any("costs more" in line for line in ledger.verify()) == wrong


def test_a_model_whose_extra_is_missing_is_not_said_to_agree(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = Domain(columns={"visits": Integer(lower=0, upper=60, out_of_bounds="clip")})
    made, asked = of(CensoredPosterior(PoissonMean(column="visits"), bound=1.0).on(counts)), Budget(epsilon=2.0)
    with Ledger.create(tmp_path / "x", dataset="d", epsilon=9.0, kinds=["empirical"]) as ledger:
        written_by_hand(ledger, "a", reserved(asked, made=made), ledger._book.currency.of_budget(asked),
                        released=kept(made))  # fmt: skip
        assert ledger.verify() == []

        def missing(*_: object) -> None:
            raise MissingExtra("a model needs JAX", "bayes")

        monkeypatch.setattr(verification, "_cost_again", missing)
        assert_said(ledger, "entry a: its cost cannot be computed again here. a model needs JAX")


def test_an_evolution_with_functions_of_a_user_is_built_from_what_it_says(tmp_path) -> None:
    api = Callables(
        domain=SQUARE, label="uniform", diameter=2.0, variations=1,
        generate=lambda n, seed: pl.DataFrame(np.random.default_rng(seed).random((n, 2)), schema=["x", "y"]),
        vary=lambda frame, seed: frame, embedding=lambda frame: frame.to_numpy(),
    )  # fmt: skip
    with ledger_at(tmp_path) as ledger:
        how = {**STEPS, "api": api, "mechanism": "private-evolution", "accept": {"poor-utility"}}
        release(points(), SQUARE, BUDGET, size=50, ledger=ledger, **how)
        assert ledger.verify() == []


def test_a_certificate_of_another_domain_than_was_paid_for_is_found(tmp_path) -> None:
    """With fewer cells a mechanism that spends by cells costs less, and the entry holds the hash of those."""
    few, out = Domain(columns={"age": Integer(lower=0, upper=3, out_of_bounds="clip")}), tmp_path / "out.csv"
    mechanism = DirichletMultinomial.calibrated(BUDGET, domain=DOMAIN, n=N, size=50)
    with ledger_at(tmp_path) as ledger:
        closed = confidential(AGES, DOMAIN)
        path = release(closed, mechanism=mechanism, budget=BUDGET, out=out, ledger=ledger, accept={"poor-utility"})
        assert ledger.verify([path.certificate_path]) == []
        told = json.loads(path.certificate_path.read_text())
        made = {**of(replace(mechanism, domain=few)), "mechanism": told["mechanism"]}
        with ledger._book.appending() as page:
            page.append("b", "RESERVED", facts=reserved(BUDGET, made=made), cost=cost(ledger, mechanism))
            opened = page.append("b", "OPENED", facts={})
            page.append("b", "COMMITTED", facts={**kept(made), "files": []})
        told["ledger"] = {"dataset": "d", "entry": "b", "head": opened.hash}
        path.certificate_path.write_text(json.dumps(told))
        assert any("domain is not the one that was paid" in line for line in ledger.verify([path.certificate_path]))


LAPLACE, DIRICHLET = histogram("laplace"), DirichletMultinomial.calibrated(BUDGET, domain=DOMAIN, n=N, size=50)
BOGUS = {"name": LAPLACE.name, "parameters": {**LAPLACE.parameters(), "bogus": 1}}
FEW = Domain(columns={"age": Integer(lower=0, upper=3, out_of_bounds="clip")})


@pytest.mark.parametrize(
    ("mechanism", "made", "facts", "released", "said"),
    [
        (LAPLACE, {}, {}, {}, None),
        (LAPLACE, {"mechanism": BOGUS}, {}, {"mechanism": BOGUS}, "cannot be built from what it says"),
        # with fewer cells, or for fewer records, a mechanism that spends by these costs less
        (DIRICHLET, {"domain": FEW.to_toml()}, {}, {}, "does not have the hash that it states"),
        (DIRICHLET, {}, {}, {"size": 5000}, "not what was paid for"),
        (LAPLACE, {}, {"relation": "add-remove"}, {}, "another relation or unit"),
        (LAPLACE, {}, {"unit": "who"}, {}, "another relation or unit"),
        (LAPLACE, {}, {"group": 5}, {}, "another relation or unit"),
        (LAPLACE, {}, {"free": True, "part": {"name": "a"}}, {}, "not what a ledger writes"),
        (LAPLACE, {}, {"made": {"mechanism": 5}}, {}, "not what a ledger writes"),
    ],
    ids=range(9),
)
def test_what_an_entry_says_of_itself_is_looked_at(tmp_path, mechanism, made, facts, released, said) -> None:
    true = of(mechanism)
    with ledger_at(tmp_path) as ledger:
        entry = {**reserved(BUDGET, made={**true, **made}), **facts}
        written_by_hand(ledger, "a", entry, cost(ledger, mechanism), released={**kept(true), **released})
        assert_said(ledger, said)


def planned_request(name: str, **facts: Any) -> Request:
    """Return the request of a release of a plan."""
    noisy = {"domain": DOMAIN, "mechanism": "perturbed-histogram", "parameters": {"noise": "gaussian"}}
    return Request(part=name, relation=Replacement(records=N), size=50, **{**noisy, **facts})


def declared(ledger: Ledger) -> dict[str, Any]:
    """Declare a plan of one release; return what its entry says."""
    ledger.declare(plan_together([planned_request("a")], Budget(epsilon=1.0, delta=1e-6)))
    return dict(ledger.log()[1]["facts"])


PLANS = {
    "as declared": None,
    "twice": "paid for it once",
    "another mechanism": "not what its plan declares",
    "a plan for nothing": "costs more than was charged",
}


@pytest.mark.parametrize("way", PLANS)
def test_what_a_plan_did_not_pay_for_is_found(tmp_path, way) -> None:
    with ledger_at(tmp_path) as ledger:
        plan = declared(ledger)
        part = plan["parts"][0]
        if way == "a plan for nothing":
            part = {**part, "name": "b"}
            written_by_hand(ledger, "p", {**plan, "parts": [part]}, Cost(), released={})
        budget = Budget(**part["budget"])
        planned = PerturbedHistogram.from_parameters(part["mechanism"]["parameters"], domain=DOMAIN, records=N, size=50)
        made = of(histogram("laplace") if way == "another mechanism" else planned, budget)
        facts = reserved(budget, made=made, free=True, part=part)
        for entry in ("x", "y") if way == "twice" else ("x",):
            written_by_hand(ledger, entry, facts, Cost(), released=kept(made))
        assert_said(ledger, PLANS[way])


def test_a_release_of_a_plan_goes_on_from_its_checkpoint(tmp_path) -> None:
    request = planned_request("a", domain=SQUARE, mechanism="private-evolution", parameters=STEPS)
    plan = plan_together([request], Budget(epsilon=1.0, delta=1e-6))
    part, path = {"budget": plan.parts[0].budget}, tmp_path / "steps"
    with ledger_at(tmp_path) as ledger:
        ledger.declare(plan)
        with pytest.raises(KeyboardInterrupt):
            evolve(ledger.part("a"), path, watch=Watch(stepped=interrupt), **part)
        evolve(ledger.part("a"), path, **part)
        assert ledger.status().spent["epsilon"] == 1.0
        assert ledger.verify() == []


@pytest.mark.parametrize("share", [1, Fraction(9, 10)])
def test_a_plan_that_costs_more_than_was_charged_is_found(tmp_path, share) -> None:
    """Each of its releases costs less than that; together they do not."""
    with ledger_at(tmp_path) as ledger:
        ledger.declare(plan_together(list(map(planned_request, "ab")), Budget(epsilon=1.0, delta=1e-6)))
        (event,) = (event for event in ledger.log() if event["state"] == "RESERVED")
        facts = json.loads(
            json.dumps(event["facts"]).replace('"name": "a"', '"name": "c"').replace('"name": "b"', '"name": "d"')
        )
        whole = Cost.from_dict(event["cost"])
        written_by_hand(ledger, "x", facts, Cost(whole.loss * share, whole.delta * share), released={})
        assert any("costs more than was charged" in line for line in ledger.verify()) == (share != 1)
