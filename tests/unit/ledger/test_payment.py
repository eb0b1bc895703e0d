"""A payment charges what is released: another guarantee, or another checkpoint, is refused before the kernel."""

import os
import re
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import ClassVar

import polars as pl
import pytest
from ledgers import AGES, BUDGET, DOMAIN, SQUARE, STEPS, N, evolve, histogram, interrupt, ledger_at, points
from numpy.random import Generator

import discreet
from discreet import AddRemove, Checkpoint, Ledger, Output, Replacement, Unit, Watch, release
from discreet._core.random import ApproximateGenerator, secure, seeded
from discreet.confidential import Confidential, confidential
from discreet.confidential.count import public_size
from discreet.domain import Domain, Integer, OpenLabels
from discreet.errors import FileProblem, ParameterError, RandomnessError, Refused, RelationNotSupported
from discreet.ledger import Request, Run
from discreet.mechanisms import (
    DirichletMultinomial,
    Marginals,
    Mechanism,
    PerturbedHistogram,
    PitmanYor,
    PrivateEvolution,
    SmoothedHistogram,
)
from discreet.mechanisms.base import NEIGHBOURS
from discreet.privacy import Budget, Guarantee, Relation
from discreet.releases import Release
from discreet.releases.publication import carry_out, offer_of

MADE = {
    "gaussian": lambda: histogram("gaussian"),
    "laplace": lambda: histogram("laplace"),
    "dirichlet": lambda: DirichletMultinomial.calibrated(BUDGET, domain=DOMAIN, n=N, size=50),
}


def request(
    budget: Budget = BUDGET, *, records: int | None = N, checkpoint: Checkpoint | None = None, **more
) -> Request:
    relation, output = Replacement(records=records), Output(checkpoint=checkpoint)
    accept = frozenset({"poor-utility"})
    return Request(budget=budget, relation=relation, output=output, accept=accept, **{"size": 50, **more})


def made_by(run: Run, closed: Confidential, mechanism: Mechanism, rng: Generator | None = None) -> Release:
    """Release with a run that was paid for by hand; that it meets the budget is for the ledger to see."""
    promise = offer_of(mechanism, replace(run.request, budget=None), public_size(closed))
    return carry_out(run, closed, promise, rng=rng or secure())


@pytest.mark.parametrize(
    ("currency", "paid_for", "released"),
    [*product(["sums"], MADE, MADE), *(("zcdp", made, made) for made in MADE)],  # others are refused before any sum
)
def test_a_release_is_charged_its_own_cost_or_refused(tmp_path, currency, paid_for, released) -> None:
    with ledger_at(tmp_path, currency=currency) as ledger:
        adds_up, whole = ledger._book.currency, ledger._book.budget
        profile = MADE[paid_for]().guarantee(n=N).profile
        cost = adds_up.of_profile(profile, budget=BUDGET, total=whole).to_dict()
        with ledger.pay(request(), MADE[paid_for]()) as run:
            if released == paid_for:
                made_by(run, confidential(AGES, DOMAIN), MADE[released]())
            else:
                with pytest.raises(Refused, match="number of records was paid for"):
                    made_by(run, confidential(AGES, DOMAIN), MADE[released]())
        charged = next(event for event in reversed(ledger.log()) if event["state"] in ("COMMITTED", "FORFEITED"))
        assert charged["state"] == ("COMMITTED" if released == paid_for else "FORFEITED")
        assert charged["cost"] == cost
        assert ledger.log()[1]["facts"]["made"]["mechanism"]["parameters"] == MADE[paid_for]().parameters()
        assert ledger.verify() == []


@pytest.mark.parametrize("field", ["scale", "records", "sampling"])
def test_a_mechanism_that_changes_after_the_payment_is_refused_before_its_kernel(tmp_path, field) -> None:
    mechanism, closed = histogram("laplace"), confidential(AGES, DOMAIN)
    with ledger_at(tmp_path) as ledger, ledger.pay(request(), mechanism) as run:
        run.assign(mechanism, n=N)
        object.__setattr__(mechanism, field, {"scale": 0.1, "records": N + 1, "sampling": "iid"}[field])
        with pytest.raises(Refused, match="number of records was paid for"):
            run.execute(closed, rng=secure())


@dataclass(frozen=True, kw_only=True)
class Louder(PerturbedHistogram):
    """Promises less each time that it is asked, with the parameters that it had."""

    name: ClassVar[str] = "louder"
    asked: ClassVar[list[int]] = []

    def guarantee(self, relation: Relation = NEIGHBOURS, *, n: int) -> Guarantee:
        self.asked.append(n)
        return replace(self, scale=self.scale / len(self.asked)).quiet(relation, n=n)

    def quiet(self, relation: Relation, *, n: int) -> Guarantee:
        return PerturbedHistogram.guarantee(self, relation, n=n)


@dataclass(frozen=True, kw_only=True)
class Exchanged(SmoothedHistogram):
    """Draws its records while they are written."""

    name: ClassVar[str] = "exchanged"


def test_a_mechanism_that_changes_while_it_draws_is_refused(tmp_path) -> None:
    mechanism = Exchanged(domain=DOMAIN, size=50, mixing=0.9)
    budget = Budget(epsilon=mechanism.guarantee(n=N).profile.pure)
    with ledger_at(tmp_path) as ledger, ledger.pay(request(budget), mechanism) as run:
        chunks = run.execute(confidential(AGES, DOMAIN), rng=secure())
        object.__setattr__(mechanism, "mixing", 0.001)
        with pytest.raises(Refused, match="number of records was paid for"):
            next(chunks)


def test_the_generator_of_a_forecast_meets_no_confidential_table(tmp_path) -> None:
    mechanism = Louder(domain=DOMAIN, records=N, scale=3.0, noise="laplace")
    with Run.unpaid(request(Budget(epsilon=1.0))) as run:
        run.assign(mechanism, n=N)
        with pytest.raises(RandomnessError, match="draws noise in floating point"):
            run.execute(confidential(AGES, DOMAIN), rng=ApproximateGenerator(1))
    package = Path(discreet.__file__).parent
    makers = {
        path.name
        for path in package.rglob("*.py")
        if re.search(r"map\(ApproximateGenerator|= ApproximateGenerator\(", path.read_text(encoding="utf-8"))
    }
    assert makers == {"predicted.py"}  # of public and invented tables


def test_what_is_charged_is_the_promise_of_the_object_that_runs(tmp_path) -> None:
    mechanism = Louder(domain=DOMAIN, records=N, scale=3.0, noise="laplace")
    with (
        ledger_at(tmp_path) as ledger,
        ledger.pay(request(Budget(epsilon=1.0)), mechanism) as run,
        pytest.raises(Refused, match="does not meet"),
    ):
        run.assign(mechanism, n=N)
        run.execute(confidential(AGES, DOMAIN), rng=secure())


def test_a_payment_without_a_mechanism_is_for_its_budget_and_for_fresh_randomness(tmp_path) -> None:
    with ledger_at(tmp_path) as ledger:
        for budget, rng, said in (Budget(epsilon=0.01), secure(), "does not meet"), (BUDGET, seeded(1), "seeded"):
            with ledger.pay(request(budget, records=None)) as run, pytest.raises(Refused, match=said):
                made_by(run, confidential(AGES, DOMAIN), histogram("laplace"), rng)
        assert ledger.status().counts["FORFEITED"] == 2


def test_a_payment_without_a_mechanism_pays_for_whatever_meets_its_budget(tmp_path) -> None:
    with ledger_at(tmp_path, epsilon=30.0, delta=1e-3, currency="zcdp") as ledger:
        for made in MADE.values():
            with ledger.pay(request(records=None)) as run:
                made_by(run, confidential(AGES, DOMAIN), made())
            events = ledger.log()[-5:]
            assert [event["state"] for event in events] == ["RESERVED", "OPENED", "NOTED", "COMMITTED", "DELIVERED"]
            assert events[2]["facts"]["made"]["mechanism"]["name"] == made().name
        assert ledger.verify() == []


def test_what_costs_more_than_its_reservation_is_refused(tmp_path) -> None:
    """Three releases with Laplace noise passed a zCDP ledger at the price of Gaussian noise; ten at a delta of 1e-9
    gave a record away with probability 0.005 each, at the price of a pure release."""
    few = Domain(columns={"age": Integer(lower=0, upper=3, out_of_bounds="clip")})
    words = Domain(columns={"w": OpenLabels(out_of_bounds="other")})
    table, budget = pl.DataFrame({"age": [i % 4 for i in range(N)]}), Budget(epsilon=0.5, delta=1e-7)
    urn = PitmanYor(domain=words, size=10, strength=1.0)
    assert urn.guarantee(n=N).delta(50.0) == pytest.approx(0.005, rel=0.1)
    with ledger_at(tmp_path, 1.0, 1e-6, "zcdp") as ledger:
        with (
            ledger.pay(request(budget), histogram("gaussian", few, budget)) as run,
            pytest.raises(Refused, match="another mechanism, domain, parameter"),
        ):
            made_by(run, confidential(table, few), histogram("laplace", few, budget))
        with pytest.raises(Refused, match="does not allow this release"):
            ledger.pay(request(Budget(epsilon=0.1, delta=0.006), size=10), urn)


@pytest.mark.parametrize("what", ["relation", "unit", "twice", "outside", "by hand", "number", "domain", "request"])
def test_a_run_is_for_one_table_of_its_kind_and_for_one_release(tmp_path, what) -> None:
    mechanism, closed = histogram("laplace"), confidential(AGES, DOMAIN)
    with ledger_at(tmp_path) as ledger, ExitStack() as stack:
        run = ledger.pay(request(Budget(epsilon=1.0)), mechanism)
        if what == "by hand":
            with pytest.raises(ParameterError, match=r"made by Ledger\.pay"):
                Run()
            return
        if what == "outside":
            run.assign(mechanism, n=N)
            with pytest.raises(Refused, match="within its with block"):
                run.execute(closed, rng=secure())
            return
        if what == "request":
            with pytest.raises(AttributeError):
                run.request = request(Budget(epsilon=5.0))
            return
        with run:
            if what in ("number", "domain"):
                few = Domain(columns={"age": Integer(lower=0, upper=99, cells=50, out_of_bounds="clip")})
                other = confidential(AGES.head(N - 1), DOMAIN) if what == "number" else confidential(AGES, few)
                with pytest.raises(Refused, match="another domain or number of records"):
                    run.execute(other, rng=secure())
            elif what == "relation":
                with pytest.raises((Refused, RelationNotSupported)):
                    release(closed, mechanism=mechanism, relation=AddRemove(records=N), size=50, ledger=ledger)
            elif what == "unit":
                nullable = Domain(columns={"age": Integer(lower=0, upper=99, nulls="category", out_of_bounds="clip")})
                people = pl.DataFrame({"age": AGES["age"], "who": range(N)})
                others = confidential(people, nullable, unit=Unit("who", max_records=1))
                mechanism = histogram("laplace", nullable)
                run = stack.enter_context(ledger.pay(request(Budget(epsilon=1.0)), mechanism))
                with pytest.raises(Refused, match="another unit"):
                    made_by(run, others, mechanism)
            else:
                made_by(run, closed, mechanism)
                with pytest.raises((Refused, ParameterError), match="not open|one release"):
                    made_by(run, closed, mechanism)


@dataclass(frozen=True, kw_only=True)
class Nested(PerturbedHistogram):
    """Runs itself while it is asked for its promise."""

    name: ClassVar[str] = "nested"
    runs: ClassVar[list[Run]] = []

    def guarantee(self, relation: Relation = NEIGHBOURS, *, n: int) -> Guarantee:
        if self.runs:
            self.runs.pop().execute(confidential(AGES, DOMAIN), rng=secure())
        return super().guarantee(relation, n=n)


@pytest.mark.parametrize("way", ["a copy", "a child", "its own guarantee", "after the block"])
def test_one_payment_is_for_one_kernel(tmp_path, way, monkeypatch) -> None:
    """A copy of a run, or the run in a forked process, took a second step for nothing."""
    kind = Nested if way == "its own guarantee" else PerturbedHistogram
    mechanism, closed = kind(domain=DOMAIN, records=N, scale=3.0, noise="laplace"), confidential(AGES, DOMAIN)
    with ledger_at(tmp_path) as ledger, pytest.raises(Refused, match="for one release, within its with block"):
        with ledger.pay(request(), mechanism) as run:
            if way == "a copy":
                other = copy(run)
                other.execute(closed, rng=secure())
            elif way == "a child":
                monkeypatch.setattr(os, "getpid", lambda: -1)
            elif way == "its own guarantee":
                Nested.runs.append(run)
            if way != "after the block":
                run.execute(closed, rng=secure())
        run.execute(closed, rng=secure())


# -- checkpoints ------------------------------------------------------------------------------------------------------


def test_what_takes_one_step_does_not_go_on_from_a_checkpoint(tmp_path) -> None:
    """Six releases went for the price of one, each said to go on from a file that was not there."""
    mechanism, path = histogram("gaussian"), tmp_path / "steps"
    with ledger_at(tmp_path, 1.0, 1e-6) as ledger:
        with pytest.raises(ParameterError, match="takes one step"):
            ledger.pay(request(checkpoint=Checkpoint(path)), mechanism)
        assert ledger.status().spent["epsilon"] == 0.0
        evolve(ledger, path)
        # what goes on from a checkpoint is free, and what runs is not known yet
        asked = request(records=None, domain=SQUARE, checkpoint=Checkpoint(path))
        with ledger.pay(asked) as run, pytest.raises(ParameterError, match="takes one step"):
            assert ledger.log()[-2]["facts"]["free"]
            run.assign(mechanism, n=N)
        path.write_bytes(b"whatever")
        with pytest.raises(FileProblem, match="not a checkpoint"):
            ledger.pay(asked)


@pytest.mark.parametrize("exchange", ["deleted", "an older copy", "of another run", "appears"])
def test_a_checkpoint_that_is_not_the_one_paid_for_is_refused(tmp_path, exchange) -> None:
    """Deleting it once the release was paid for gave complete evolutions for nothing."""
    path, other = tmp_path / "steps", tmp_path / "other"
    evolve(None, other)
    with ledger_at(tmp_path, 1.0, 1e-6) as ledger:
        if exchange == "appears":
            content, whole, times = other.read_bytes(), None, 1
        else:
            older = stopped_after_one(ledger, path)
            evolve(ledger, path)
            content, whole, times = older if exchange == "an older copy" else other.read_bytes(), path.read_bytes(), 2

        def tampered(sentence: str) -> None:
            if "asked for" in sentence:  # what is said once the table is open
                path.unlink(missing_ok=True)
                if exchange != "deleted":
                    path.write_bytes(content)

        for _ in range(times):
            if whole is not None:
                path.write_bytes(whole)
            with pytest.raises(Refused, match="not the file that was there when this run was paid for"):
                evolve(ledger, path, watch=Watch(announce=tampered), redraw=True)
        if whole is not None:
            path.write_bytes(whole)
            evolve(ledger, path, redraw=True)
            assert [event["state"] for event in ledger.log()].count("COMMITTED") == 2
        assert ledger.status().spent["epsilon"] == 1.0
        assert ledger.verify() == []


def evolution(steps: int = 2) -> PrivateEvolution:
    return PrivateEvolution.calibrated(BUDGET, domain=SQUARE, n=N, size=50, **{**STEPS, "steps": steps})


def stopped_after_one(ledger: Ledger, path: Path) -> bytes:
    with pytest.raises(KeyboardInterrupt):
        evolve(ledger, path, watch=Watch(stepped=interrupt))
    return path.read_bytes()


def test_a_step_that_was_seen_is_noted(tmp_path) -> None:
    """A callback that stopped the run before the step was noted, and an older file, gave step 2 without end."""
    path, seen = tmp_path / "steps", []

    def stop(step: object) -> None:
        seen.append(step)
        raise KeyboardInterrupt

    with ledger_at(tmp_path, 1.0, 1e-6) as ledger:
        older = stopped_after_one(ledger, path)
        with pytest.raises(KeyboardInterrupt):
            evolve(ledger, path, watch=Watch(evolved=stop))
        path.write_bytes(older)
        with pytest.raises(Refused, match="does not allow this release"):
            evolve(ledger, path, watch=Watch(evolved=stop))
        assert len(seen) == 1
        assert ledger.verify() == []


def test_two_runs_that_go_on_from_the_same_steps_take_each_step_once(tmp_path) -> None:
    """Both were paid for while the file held step 1, which was put back between them."""
    path, closed, mechanism = tmp_path / "steps", confidential(points(), SQUARE), evolution()
    with ledger_at(tmp_path, 1.0, 1e-6) as ledger:
        older = stopped_after_one(ledger, path)
        asked = request(domain=SQUARE, checkpoint=Checkpoint(path))
        with ledger.pay(asked, mechanism) as one, ledger.pay(asked, mechanism) as two:
            one.execute(closed, rng=secure())
            path.write_bytes(older)
            with pytest.raises(Refused, match="step 2 was taken before"):
                two.execute(closed, rng=secure())
            assert path.read_bytes() == older
        assert ledger.verify() == []


@pytest.mark.parametrize("paid_for", ["two steps", "nothing said"])
def test_a_run_of_another_mechanism_does_not_go_on_for_nothing(tmp_path, paid_for) -> None:
    """Steps on a made-up table let each further mechanism of the same budget take its last step for nothing."""
    path, closed = tmp_path / "steps", confidential(points(), SQUARE)

    def stop(done: int, of: int) -> None:
        if done == of - 1:
            raise KeyboardInterrupt

    with ledger_at(tmp_path, 1.0, 1e-6) as ledger:
        mechanism = evolution() if paid_for == "two steps" else None
        first = request(domain=SQUARE, checkpoint=Checkpoint(path), records=N if mechanism else None)
        with ledger.pay(first, mechanism) as run:
            run.assign(evolution(), n=N)
            run.execute(closed, rng=secure())
        path.unlink()
        with Run.unpaid(request(domain=SQUARE, checkpoint=Checkpoint(path), watch=Watch(stepped=stop))) as run:
            run.assign(evolution(3), n=N)
            with pytest.raises(KeyboardInterrupt):
                run.execute(closed, rng=secure())
        asked = request(domain=SQUARE, checkpoint=Checkpoint(path))
        with ledger.pay(asked, evolution(3)) as run, pytest.raises(Refused, match="run with another mechanism"):
            run.execute(closed, rng=secure())
        assert ledger.verify() == []


def test_a_run_goes_on_after_one_that_was_asked_for_by_mistake(tmp_path) -> None:
    path = tmp_path / "steps"
    with ledger_at(tmp_path, 1.0, 1e-6) as ledger:
        stopped_after_one(ledger, path)
        asked = request(domain=SQUARE, checkpoint=Checkpoint(path))
        with ledger.pay(asked, evolution(3)) as run, pytest.raises(FileProblem, match="another mechanism or domain"):
            run.execute(confidential(points(), SQUARE), rng=secure())
        evolve(ledger, path)
        assert ledger.verify() == []


def test_another_relation_is_still_paid_for_by_its_own_ledger(tmp_path) -> None:
    """Add/remove: the guarantee that is reserved and the one that is charged are of the same object."""
    place = tmp_path / "y.ledger"
    with Ledger.create(place, dataset="d", epsilon=3.0, delta=1e-5, relation="add-remove") as ledger:
        wide = Domain(columns=dict.fromkeys("ab", Integer(lower=0, upper=3, out_of_bounds="clip")))
        table = pl.DataFrame({"a": [i % 4 for i in range(N)], "b": [i % 3 for i in range(N)]})
        between = AddRemove(records=N)
        made = release(table, wide, BUDGET, size=100, mechanism=Marginals.name, relation=between, ledger=ledger)
        assert made.certificate.epsilon == 1.0
        assert ledger.log()[-2]["cost"]["loss"] == "1"
