"""What the audit says of a table stays confidential, agrees with simulation, and can never be published."""

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from discreet import Unit, release
from discreet._core.random import seeded
from discreet.audit import instance_guarantee
from discreet.audit.instance import BANNER, clopper_pearson, paper_choices, simulate
from discreet.cli.entry import run
from discreet.confidential import Confidential, confidential, reveal_to_custodian
from discreet.domain import Category, Counts, Domain, Integer, Numeric
from discreet.errors import BudgetError, ConfidentialAccessError, GuaranteeKindError, ParameterError
from discreet.mechanisms import DirichletMultinomial, PerturbedHistogram, PitmanYor, UrnHistogram
from discreet.papers.bnp24 import empirical_bayes_strength
from discreet.privacy import Guarantee, Relation
from discreet.privacy.guarantee import require_kind
from discreet.privacy.instance import HeldTable, InstanceDelta, instance_readings
from discreet.privacy.pitman_yor import OpeningPair

UNIT = Domain(columns={"x": Numeric(lower=0.0, upper=1.0)})
ROWS = [0.25, 0.25, 0.5, 0.5, 0.5, 0.625]


def table(rows: list[float] = ROWS) -> Confidential[Counts]:
    return confidential(pl.DataFrame({"x": rows}), UNIT)


def test_the_result_is_closed_and_says_what_it_is() -> None:
    closed = instance_guarantee(table(), PitmanYor(domain=UNIT, size=3), epsilon=0.5, rng=seeded(1))
    assert repr(closed) == "<confidential InstanceGuarantee>"
    with pytest.raises(ConfidentialAccessError):
        _ = closed == closed
    found = reveal_to_custodian(closed)
    assert str(found).startswith(BANNER)
    facts = found.to_dict()
    assert facts["confidential"] is True
    assert facts["kind"] == "instance"
    json.dumps(facts, allow_nan=False)
    assert facts["unconditional_delta"] == PitmanYor(domain=UNIT, size=3).guarantee(n=6).delta(0.5)
    assert facts["readings"]["two-sided"]["tight"]["delta"] == pytest.approx(facts["unconditional_delta"])
    with pytest.raises(ConfidentialAccessError):
        reveal_to_custodian(table())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Instance(PitmanYor):
    """A mechanism whose guarantee holds for one table only."""

    def guarantee(self, relation: Relation | None = None, *, n: int) -> Guarantee:  # type: ignore[override]
        return replace(PitmanYor.guarantee(self, n=n), kind="instance")


def test_an_instance_level_guarantee_can_never_be_published() -> None:
    mechanism = _Instance(domain=UNIT, size=3)
    for accept in ((), {"empirical", "asymptotic"}):
        with pytest.raises(GuaranteeKindError, match="confidential"):
            release(table(), mechanism=mechanism, accept={*accept, "poor-utility"}, seed=0)
    for accept in ((), {"instance"}, {"instance", "empirical", "asymptotic"}):
        with pytest.raises((GuaranteeKindError, ParameterError), match="confidential|accept must be among"):
            release(table(), mechanism=mechanism, accept={*accept, "poor-utility"}, seed=0)
        with pytest.raises(GuaranteeKindError):
            require_kind(mechanism.guarantee(n=6), frozenset(accept))


def test_the_two_readings_of_a_dirichlet_process() -> None:
    """Two-sided it is nearly free of the data: T1 whatever the table. One-sided, frequent values help."""
    mechanism = PitmanYor(domain=UNIT, size=3)
    rare = reveal_to_custodian(instance_guarantee(table(), mechanism, epsilon=1.0)).readings
    often = reveal_to_custodian(instance_guarantee(table([0.25] * 3 + [0.5] * 3), mechanism, epsilon=1.0)).readings
    for readings in (rare, often):
        assert readings["two-sided"]["tight"].delta == pytest.approx(3 / 9)
    assert rare["one-sided"]["tight"].delta == pytest.approx(3 / 9)
    assert often["one-sided"]["tight"].delta < 0.12


def test_clopper_pearson_bounds_are_exact() -> None:
    """Inverts the binomial tails; coverage is at least the confidence at every proportion."""
    from scipy.stats import binom

    for events in (0, 1, 7, 20):
        found = clopper_pearson(events, 20, confidence=0.9)
        assert found.lower <= found.estimate <= found.upper
        if events:
            assert binom.sf(events - 1, 20, found.lower) == pytest.approx(0.05)
        if events < 20:
            assert binom.cdf(events, 20, found.upper) == pytest.approx(0.05)
    assert 0 < clopper_pearson(0, 10_000).upper < 0.00146
    for events, iterations in ((-1, 5), (6, 5), (0, 0)):
        with pytest.raises(ParameterError):
            clopper_pearson(events, iterations)


@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize("frequencies", [(2, 3, 9), (1, 2, 9), (1, 1, 6), (3, 3, 3)])
def test_simulation_agrees_with_the_sum(frequencies: tuple[int, ...], *, filtered: bool) -> None:
    """Every opening and every move of a table; each interval misses with probability 1e-6 at most, 64 in all."""
    held = HeldTable.pitman_yor(np.array(frequencies), size=12, strength=1.0, discount=0.5, filtered=filtered)
    changes = [((o.change, o.pair, o.forward), (o.pair.forward if o.forward else o.pair.backward)(0.3).event) for o in
               held.openings(two_sided=True)]  # fmt: skip
    for named, event in changes:
        reading = InstanceDelta(event, True, *named)
        found = simulate(held, reading, 0.3, iterations=20_000, rng=seeded(5))
        assert found.lower <= event <= found.upper, reading
    best = instance_readings(held, 0.3)["one-sided"]["event"]
    found = simulate(held, best, 0.3, iterations=20_000, rng=seeded(6))
    assert found.lower <= best.delta <= found.upper
    wrong = simulate(held, best, 0.3, iterations=20_000, rng=seeded(7))
    assert not wrong.lower <= best.delta * 1.3 <= wrong.upper


def test_simulation_of_moves_and_exchanges() -> None:
    cells = Domain(columns={"cell": Integer(lower=0, upper=4)})
    held = DirichletMultinomial(domain=cells, size=20, prior=0.5).held_table(Counts.of_cells([0, 0, 1, 2]))
    best = instance_readings(held, 0.5)["one-sided"]["event"]
    found = simulate(held, best, 0.5, iterations=20_000, rng=seeded(8))
    assert found.lower <= best.delta <= found.upper
    alone = HeldTable.pitman_yor(np.array([1]), size=4, strength=1.0, discount=0.25)
    only = instance_readings(alone, 0.5)["one-sided"]["event"]
    assert only.pair is None
    found = simulate(alone, only, 0.5, iterations=20_000, rng=seeded(9))
    assert found.lower <= only.delta <= found.upper
    long = OpeningPair(size=10**6, a=1.5, phi=10.0, others=100.0, discount=0.5)
    fewer = simulate(held, InstanceDelta(0.5, True, "", long), 0.5, iterations=10**4, rng=seeded(1))
    assert fewer.iterations < 10**4


def test_refusals() -> None:
    cells = Domain(columns={"x": Integer(lower=0, upper=4)})
    counted = confidential(pl.DataFrame({"x": [0, 1, 1]}), cells)
    with pytest.raises(ParameterError, match="perturbed-histogram"):
        instance_guarantee(counted, PerturbedHistogram(domain=cells, records=3, scale=2.0), epsilon=1.0)
    with pytest.raises(ParameterError, match="discount"):
        instance_guarantee(counted, PitmanYor(domain=cells, size=2, discount=0.5), epsilon=1.0)
    with pytest.raises(ParameterError, match="domain"):
        instance_guarantee(counted, PitmanYor(domain=UNIT, size=2), epsilon=1.0)
    with pytest.raises(ParameterError, match="records"):
        instance_guarantee(counted, UrnHistogram(domain=cells, size=2), epsilon=1.0, n=4)
    with pytest.raises(ParameterError, match="iterations"):
        instance_guarantee(counted, UrnHistogram(domain=cells, size=2), epsilon=1.0, iterations=0)
    with pytest.raises(BudgetError):
        instance_guarantee(counted, UrnHistogram(domain=cells, size=2), epsilon=0.0)
    nulls = Domain(columns={"x": Integer(lower=0, upper=4, nulls="category")})
    persons = confidential(pl.DataFrame({"x": [0, 1, 1], "who": [1, 1, 2]}), nulls, unit=Unit("who", max_records=2))
    with pytest.raises(ParameterError, match="unit"):
        instance_guarantee(persons, UrnHistogram(domain=nulls, size=2), epsilon=1.0)
    labels = [f"l{i}" for i in range(2000)]
    uneven = Category(categories=labels, base={"weights": list(range(1, 2001))})
    large = Domain(columns={"a": uneven, "b": uneven})
    pairs = confidential(pl.DataFrame({"a": ["l0"], "b": ["l1"]}), large)
    with pytest.raises(ParameterError, match="weights"):
        instance_guarantee(pairs, DirichletMultinomial(domain=large, size=2, prior=1e-3), epsilon=1.0)


def test_the_choices_of_the_thesis() -> None:
    assert empirical_bayes_strength(39_374, 95) == pytest.approx(11.6257, abs=5e-5)
    assert round(empirical_bayes_strength(44_816, 3_263)) == 809  # section 7.2 prints 500
    assert round(empirical_bayes_strength(44_816 + 1_436, 3_263)) == 801  # values held once counted twice
    assert empirical_bayes_strength(10, 1) == 0.0
    assert empirical_bayes_strength(10, 10) == math.inf
    with pytest.raises(ParameterError):
        empirical_bayes_strength(10, 11)
    closed = paper_choices(table(), epsilon=1.0, size=20)
    assert repr(closed) == "<confidential PaperChoices>"
    found = reveal_to_custodian(closed)
    assert str(found).startswith(BANNER)
    assert found.singletons == 1
    assert found.doubled_records == 7
    need = 20 / math.expm1(1.0)
    assert found.largest_prior == pytest.approx(need - 1)
    assert found.least_prior == pytest.approx(need - 3)
    json.dumps(found.to_dict(), allow_nan=False)
    # The likelihood is largest there.
    theta = np.linspace(0.2, 30, 20_000)
    from scipy.special import gammaln

    log_likelihood = 2 * np.log(theta) - (gammaln(theta + 6) - gammaln(theta + 1))
    assert found.strength == pytest.approx(theta[log_likelihood.argmax()], abs=2e-3)


def test_the_command_marks_what_is_confidential(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, domain = tmp_path / "t.csv", tmp_path / "d.toml"
    data.write_text("x\n" + "\n".join(map(str, ROWS)) + "\n")
    domain.write_text('[columns.x]\ntype = "numeric"\nlower = 0\nupper = 1\n')
    common = ["privacy", "pitman-yor", "--records", "6", "--size", "3", "--param", "strength=1", "--epsilon", "0.5"]
    assert run([*common, "--json"]) == 0
    before = json.loads(capsys.readouterr().out)
    assert run([*common, "--json", "--data", str(data), "--domain", str(domain)]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["confidential"] is True
    assert answer["instance"]["notice"] == BANNER
    assert answer["instance"]["monte_carlo"]["iterations"] == 10_000
    assert {key: answer[key] for key in before} == before
    assert answer["paper_choices"]["confidential"] is True
    assert answer["paper_choices"]["strength"] == empirical_bayes_strength(6, 3)
    assert run([*common, "--data", str(data), "--domain", str(domain)]) == 0
    shown = capsys.readouterr().out
    assert shown.count(BANNER) == 2
    assert shown.index(BANNER) < shown.index("empirical-Bayes strength")
    assert run([*common, "--data", str(data)]) == 2
    assert (
        run(["privacy", "pitman-yor", "--records", "5", *common[4:], "--data", str(data), "--domain", str(domain)]) == 2
    )
    told = run([*common, "--param", "cells=5", "--data", str(data), "--domain", str(domain)])
    assert told == 2
