"""A payment charges what is released: another guarantee, or another checkpoint, is refused before the kernel."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from discreet import AddRemove, Checkpoint, Ledger, Watch, publish, release
from discreet.confidential import confidential
from discreet.domain import Domain, Integer, Numeric, OpenLabels
from discreet.errors import Refused
from discreet.mechanisms import DirichletMultinomial, Marginals, PerturbedHistogram, PitmanYor, PrivateEvolution
from discreet.privacy import Budget

N = 2000
AGES = pl.DataFrame({"age": [i % 100 for i in range(N)]})
DOMAIN = Domain(columns={"age": Integer(lower=0, upper=99)})
BUDGET = Budget(epsilon=1.0, delta=1e-6)


def histogram(noise: str, domain: Domain = DOMAIN, budget: Budget = BUDGET) -> PerturbedHistogram:
    asked = budget if noise == "gaussian" else Budget(epsilon=budget.epsilon)
    return PerturbedHistogram.calibrated(asked, domain=domain, n=N, size=N, noise=noise)


def ledger_at(tmp_path: Path, epsilon: float = 10.0, delta: float = 1e-5, currency: str = "sums") -> Ledger:
    return Ledger.create(tmp_path / "x.ledger", dataset="d", epsilon=epsilon, delta=delta, currency=currency)


MADE = {
    "gaussian": lambda: histogram("gaussian"),
    "laplace": lambda: histogram("laplace"),
    "dirichlet": lambda: DirichletMultinomial.calibrated(BUDGET, domain=DOMAIN, n=N, size=50),
}


@pytest.mark.parametrize("currency", ["sums", "zcdp"])
@pytest.mark.parametrize("reserved", MADE)
@pytest.mark.parametrize("released", MADE)
def test_a_release_is_charged_its_own_cost_or_refused(tmp_path, currency, reserved, released) -> None:
    with ledger_at(tmp_path, currency=currency) as ledger:
        adds_up, whole = ledger._book.currency, ledger._book.whole
        costs = {
            name: adds_up.of_profile(MADE[name]().guarantee(n=N).profile, asked=BUDGET, whole=whole)
            for name in (reserved, released)
        }
        with ledger.reserve(epsilon=1.0, delta=1e-6, guarantee=MADE[reserved]().guarantee(n=N)) as payment:
            mechanism = MADE[released]()
            give = {"budget": BUDGET, "size": 50, "ledger": payment.open(), "accept_poor_utility": True}
            if costs[released].within(costs[reserved]):
                publish(confidential(AGES, DOMAIN), mechanism, **give)
            else:
                with pytest.raises(Refused, match="costs more than was reserved"):
                    publish(confidential(AGES, DOMAIN), mechanism, **give)
        charged = next(event for event in reversed(ledger.log()) if event["state"] in ("COMMITTED", "FORFEITED"))
        due = released if charged["state"] == "COMMITTED" else reserved
        assert charged["cost"] == costs[due].to_dict()
        assert ledger.verify() == []


def test_laplace_noise_is_not_paid_for_at_the_price_of_gaussian_noise(tmp_path) -> None:
    """Three such releases passed a zCDP ledger of (1, 1e-6), whose exact delta at epsilon 1 together was 0.0124."""
    few, budget = Domain(columns={"age": Integer(lower=0, upper=3)}), Budget(epsilon=0.5, delta=1e-7)
    table = pl.DataFrame({"age": [i % 4 for i in range(N)]})
    with ledger_at(tmp_path, 1.0, 1e-6, "zcdp") as ledger:
        guarantee = histogram("gaussian", few, budget).guarantee(n=N)
        with ledger.reserve(epsilon=0.5, delta=1e-7, guarantee=guarantee) as payment:
            payment.open()
            with pytest.raises(Refused, match="costs more than was reserved"):
                publish(confidential(table, few), histogram("laplace", few, budget), budget=budget, size=50,
                        ledger=payment, accept_poor_utility=True)  # fmt: skip


def test_a_release_with_a_delta_is_not_paid_for_as_a_pure_one(tmp_path) -> None:
    """Ten releases that each give a record away with probability 0.005 passed a ledger of delta 1e-9."""
    words, budget = Domain(columns={"w": OpenLabels()}), Budget(epsilon=0.1, delta=0.006)
    table = pl.DataFrame({"w": [f"p{i}" for i in range(N)]})
    urn = PitmanYor(domain=words, size=10, strength=1.0)
    assert urn.guarantee(n=N).delta(50.0) == pytest.approx(0.005, rel=0.1)
    pure = histogram("laplace", budget=budget).guarantee(n=N)
    with (
        ledger_at(tmp_path, 1.0, 1e-9) as ledger,
        ledger.reserve(epsilon=0.1, delta=0.006, guarantee=pure) as payment,
        pytest.raises(Refused, match="costs more than was reserved"),
    ):
        publish(confidential(table, words), urn, budget=budget, ledger=payment.open(), accept_poor_utility=True)


def test_a_bare_reservation_pays_for_whatever_meets_its_budget(tmp_path) -> None:
    for name, made in MADE.items():
        (tmp_path / name).mkdir()
        with (
            ledger_at(tmp_path / name, currency="zcdp") as ledger,
            ledger.reserve(epsilon=1.0, delta=1e-6) as payment,
        ):
            give = {"budget": BUDGET, "size": 50, "ledger": payment.open(), "accept_poor_utility": True}
            publish(confidential(AGES, DOMAIN), made(), **give)
            assert payment._last.state == "COMMITTED"


# -- checkpoints ------------------------------------------------------------------------------------------------------

SQUARE = Domain(columns={"x": Numeric(lower=0.0, upper=1.0), "y": Numeric(lower=0.0, upper=1.0)})


def points() -> pl.DataFrame:
    rng = np.random.default_rng(0)
    return pl.DataFrame({"x": rng.random(N), "y": rng.random(N)})


def evolve(ledger: Ledger | None, path: Path, *, watch: Watch | None = None, **how) -> object:
    return release(
        points(), SQUARE, epsilon=1.0, delta=1e-6, size=50, mechanism="private-evolution", steps=2, population=20,
        api="box", variant="practical", checkpoint=Checkpoint(path, **how), ledger=ledger, records=N,
        watch=watch or Watch(), accept_poor_utility=True,
    )  # fmt: skip


def test_steps_of_a_checkpoint_that_is_not_there_are_not_continued(tmp_path) -> None:
    mechanism = histogram("gaussian")
    asked = {"epsilon": 1.0, "delta": 1e-6, "guarantee": mechanism.guarantee(n=N), "checkpoint": tmp_path / "none"}
    with ledger_at(tmp_path, 1.0, 1e-6) as ledger:
        for steps in range(1, 4):
            with pytest.raises(Refused, match="there is no checkpoint"):
                ledger.reserve(**asked, steps=steps)
        assert ledger.status().spent["epsilon"] == 0.0


def test_what_keeps_no_checkpoint_is_not_paid_for_as_a_run_that_goes_on(tmp_path) -> None:
    mechanism, path = histogram("gaussian"), tmp_path / "any"
    path.write_bytes(b"whatever")
    asked = {"epsilon": 1.0, "delta": 1e-6, "guarantee": mechanism.guarantee(n=N), "checkpoint": path}
    with ledger_at(tmp_path, 1.0, 1e-6) as ledger:
        for steps in (0, 1, 2):
            with (
                ledger.reserve(**asked, steps=steps) as payment,
                pytest.raises(Refused, match="run with the checkpoint"),
            ):
                publish(confidential(AGES, DOMAIN), mechanism, budget=BUDGET, size=50, ledger=payment.open())


def _interrupt(done: int, of: int) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("exchange", ["deleted", "an older copy", "of another run"])
def test_a_checkpoint_that_is_not_the_one_paid_for_is_refused(tmp_path, exchange) -> None:
    """Deleting it once the release was paid for gave complete evolutions for nothing."""
    path, other = tmp_path / "steps", tmp_path / "other"
    with ledger_at(tmp_path, 1.0, 1e-6) as ledger:
        with pytest.raises(KeyboardInterrupt):
            evolve(ledger, path, watch=Watch(stepped=_interrupt))
        older = path.read_bytes()
        evolve(ledger, path)
        evolve(None, other)
        whole = path.read_bytes()

        def tampered(sentence: str) -> None:
            if "asked for" not in sentence:  # what is said once the table is open
                return
            path.unlink()
            if exchange != "deleted":
                path.write_bytes(older if exchange == "an older copy" else other.read_bytes())

        for _ in range(2):
            path.write_bytes(whole)
            with pytest.raises(Refused, match="not the file that was there when this run was paid for"):
                evolve(ledger, path, watch=Watch(announce=tampered), redraw=True)
        path.write_bytes(whole)
        evolve(ledger, path, redraw=True)
        assert ledger.status().spent["epsilon"] == 1.0
        assert [event["state"] for event in ledger.log()].count("COMMITTED") == 2
        assert ledger.verify() == []


def test_a_checkpoint_that_appears_after_the_payment_is_refused(tmp_path) -> None:
    path, other = tmp_path / "steps", tmp_path / "other"
    evolve(None, other)

    def planted(sentence: str) -> None:
        if "asked for" in sentence:
            path.write_bytes(other.read_bytes())

    with ledger_at(tmp_path, 1.0, 1e-6) as ledger, pytest.raises(Refused, match="not the file that was there"):
        evolve(ledger, path, watch=Watch(announce=planted), redraw=True)


def test_publishing_by_hand_goes_on_from_a_checkpoint_that_was_paid_for(tmp_path) -> None:
    path = tmp_path / "steps"
    mechanism = PrivateEvolution.calibrated(
        BUDGET, domain=SQUARE, n=N, size=50, steps=2, population=20, api="box", variant="practical"
    )
    closed, guarantee = confidential(points(), SQUARE), mechanism.guarantee(n=N)
    asked = {"epsilon": 1.0, "delta": 1e-6, "guarantee": guarantee, "domain": SQUARE, "checkpoint": path}
    with ledger_at(tmp_path, 1.0, 1e-6) as ledger:
        for steps, redraw in ((0, False), (2, True)):
            with ledger.reserve(**asked, steps=steps) as payment:
                kept = mechanism.observed(checkpoint=path, redraw=redraw)
                publish(closed, kept, budget=BUDGET, size=50, ledger=payment.open(), accept_poor_utility=True)
        assert math.isclose(ledger.status().spent["epsilon"], 1.0)
        assert ledger.verify() == []


def test_another_relation_is_still_paid_for_by_its_own_ledger(tmp_path) -> None:
    """Add/remove: the guarantee that is reserved and the one that is charged are of the same object."""
    place = tmp_path / "y.ledger"
    with Ledger.create(place, dataset="d", epsilon=3.0, delta=1e-5, relation="add-remove") as ledger:
        wide = Domain(columns={"a": Integer(lower=0, upper=3), "b": Integer(lower=0, upper=3)})
        table = pl.DataFrame({"a": [i % 4 for i in range(N)], "b": [i % 3 for i in range(N)]})
        made = release(table, wide, epsilon=1.0, delta=1e-6, size=100, mechanism=Marginals.name,
                       relation=AddRemove(records=N), ledger=ledger)  # fmt: skip
        assert made.certificate.epsilon == 1.0
        assert ledger.log()[-2]["cost"]["loss"] == "1"
