"""The one door: few arguments, each where it belongs, and the same release whichever road leads to it."""

import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from discreet import AddRemove, Budget, Checkpoint, Ledger, Output, Replacement, Unit, Watch, release, verify
from discreet.confidential import confidential
from discreet.domain import Boolean, Domain, Integer
from discreet.errors import FileProblem, Infeasible, ParameterError, PoorUtility, Refused, RelationNotSupported
from discreet.mechanisms import PerturbedHistogram, SmoothedHistogram
from discreet.pseudo_posterior import CensoredPosterior, PoissonMean, PseudoPosterior
from discreet.releases import Release

N = 2000
BUDGET = Budget(epsilon=1.0, delta=1e-6)
AGE = Integer(lower=0, upper=9, nulls="category", out_of_bounds="clip")
DOMAIN = Domain(columns={"age": AGE, "member": Boolean(nulls="category", out_of_bounds="null")})
ROWS = pl.DataFrame({"age": np.arange(N) % 10, "member": np.arange(N) % 3 == 0})
PERSONS = ROWS.with_columns(person=pl.int_range(N) // 2)
PERSON = Unit("person", max_records=2)
WIDER = Domain(columns={**DOMAIN.columns, "age": Integer(lower=0, upper=10, nulls="category")})
MADE = PerturbedHistogram(domain=DOMAIN, records=N, scale=5.0)
VISITS = Domain(columns={"visits": Integer(lower=0, upper=60, out_of_bounds="clip")})
VISITED = pl.DataFrame({"visits": np.arange(30) % 10})
MODEL = CensoredPosterior(PoissonMean(column="visits"), bound=1.0, grid={"mean": np.linspace(1.0, 50.0, 50)})


def facts(made: Release) -> dict[str, Any]:
    return dict(made.certificate.to_dict())


def ledger_in(folder: Path) -> Ledger:
    return Ledger.create(folder / "x.ledger", dataset="d", epsilon=10.0, delta=1e-3)


def test_it_has_few_arguments() -> None:
    assert len(inspect.signature(release).parameters) <= 15


# -- arguments of earlier versions ------------------------------------------------------------------------------------


MOVED: dict[str, tuple[Any, str]] = {
    "epsilon": (1.0, "Budget(epsilon="),
    "delta": (1e-6, "Budget(epsilon=..., delta="),
    "max_records": (2, "unit=Unit("),
    "ignore_other_columns": (True, "accept={'other-columns'}"),
    "accept_poor_utility": (True, "accept={'poor-utility'}"),
    "records": (N, "relation=Replacement(records="),
    "part": ("a", "ledger=Ledger(...).part("),
    "checkpoint": ("c", "out=Output(checkpoint="),
    "certificate": ("c.json", "certificate="),
    "partitions": (2, "partitions="),
    "partition_by": ("member", "partition_by="),
    "workers": (2, "workers="),
}
"""Of each argument: a value, and what the error says to write."""


@pytest.mark.parametrize("name", MOVED)
def test_an_argument_of_earlier_versions_says_where_it_is_now(name: str, tmp_path: Path) -> None:
    value, written = MOVED[name]
    with pytest.raises(ParameterError) as found:
        release(ROWS, DOMAIN, BUDGET, size=50, out=tmp_path / "o.csv", **{name: value})
    assert name in str(found.value)
    assert written in str(found.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["form", "rng", "progress", "like", "info"])
def test_what_is_no_argument_is_refused(name: str) -> None:
    with pytest.raises(ParameterError, match=name):
        release(ROWS, DOMAIN, BUDGET, size=50, **{name: None})


@pytest.mark.parametrize(
    "wrong",
    [{"budget": 1.0}, {"budget": (1.0, 1e-6)}, {"unit": "person"}, {"relation": "replacement"}, {"relation": None},
     {"relation": "add-remove", "mechanism": "private-evolution", "size": None}, {"watch": print}, {"ledger": 3}],
    ids=str,
)  # fmt: skip
def test_what_stands_for_a_value_of_its_own_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=next(iter(wrong)) + "|place"):
        release(**{"data": ROWS, "domain": DOMAIN, "budget": BUDGET, "size": 50, **wrong})


# -- a table that is closed -------------------------------------------------------------------------------------------


def test_a_closed_table_has_its_own_domain_and_unit() -> None:
    rows, persons = confidential(ROWS, DOMAIN), confidential(PERSONS, DOMAIN, unit=PERSON)
    for closed, other in (
        (rows, {"domain": WIDER}),
        (rows, {"unit": PERSON}),
        (persons, {"unit": Unit("age", max_records=2)}),
    ):
        with pytest.raises(ParameterError, match="closed table"):
            release(closed, budget=BUDGET, size=50, **other)
    for closed, same in ((rows, {}), (rows, {"domain": DOMAIN}), (persons, {}), (persons, {"unit": PERSON})):
        made = facts(release(closed, budget=BUDGET, size=50, mechanism="perturbed-histogram", **same))
        assert made["records"] == N
        assert made["relation"]["group"] == (1 if closed is rows else 2)
        assert made.get("unit") == (None if closed is rows else {"column": "person", "max_records": 2})


def test_a_closed_table_gives_the_release_of_the_open_one() -> None:
    asked: dict[str, Any] = {"budget": BUDGET, "size": 50, "mechanism": "dirichlet-multinomial", "seed": 3}
    closed, opened = release(confidential(ROWS, DOMAIN), **asked), release(ROWS, DOMAIN, **asked)
    assert closed.records.equals(opened.records)
    assert facts(closed)["guarantee"] == facts(opened)["guarantee"]


def test_a_closed_table_without_a_domain_or_of_another_number_is_refused() -> None:
    with pytest.raises(ParameterError, match="domain"):
        release(ROWS, budget=BUDGET, size=50)
    with pytest.raises(ParameterError, match="1,999"):
        release(confidential(ROWS, DOMAIN), budget=BUDGET, size=50, relation=Replacement(records=N - 1))


# -- a mechanism that is given ----------------------------------------------------------------------------------------


def test_a_mechanism_that_is_given_has_its_parameters_and_its_domain() -> None:
    for wrong in ({"scale": 3.0}, {"sampling": "iid"}, {"tables": 3}):
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            release(ROWS, DOMAIN, mechanism=MADE, size=50, **wrong)
    with pytest.raises(ParameterError, match="another domain"):
        release(ROWS, WIDER, mechanism=MADE, size=50)
    with pytest.raises(ParameterError, match="size"):
        release(ROWS, DOMAIN, mechanism=MADE)
    with pytest.raises(RelationNotSupported):
        release(ROWS, DOMAIN, mechanism=MADE, size=50, relation=AddRemove(records=N))


@pytest.mark.parametrize("closed", [False, True])
def test_without_a_budget_the_certificate_states_what_an_object_costs(closed: bool) -> None:
    table: tuple[Any, ...] = (confidential(ROWS, DOMAIN),) if closed else (ROWS, DOMAIN)
    made, cost = release(*table, mechanism=MADE, size=50), MADE.guarantee(n=N)
    assert made.certificate.epsilon <= cost.profile.pure == pytest.approx(0.4)
    assert cost.delta(made.certificate.epsilon) == pytest.approx(made.certificate.delta)
    assert all(check.agrees for check in verify(made.certificate))
    asked = release(*table, budget=Budget(epsilon=2.0), mechanism=MADE, size=50).certificate
    assert (asked.epsilon, asked.delta) == (2.0, 0.0)
    with pytest.raises(Infeasible) as refused:
        release(*table, budget=Budget(epsilon=0.1), mechanism=MADE, size=50)
    assert refused.value.nearest["epsilon >="] == pytest.approx(0.4)


@pytest.mark.parametrize("mechanism", [None, "perturbed-histogram", "marginals"])
def test_without_a_budget_nothing_is_calibrated(mechanism: str | None) -> None:
    for table in ((ROWS, DOMAIN), (confidential(ROWS, DOMAIN),)):
        with pytest.raises(ParameterError, match="budget"):
            release(*table, size=50, mechanism=mechanism)


def test_a_ledger_pays_for_an_object(tmp_path: Path) -> None:
    with ledger_in(tmp_path) as ledger:
        with pytest.raises(ParameterError, match="budget"):  # what it costs follows from the number of records
            release(ROWS, DOMAIN, mechanism=SmoothedHistogram(domain=DOMAIN, size=50, mixing=0.9), ledger=ledger)
        assert ledger.status().spent == {"epsilon": 0.0, "delta": 0.0}
        made = release(ROWS, DOMAIN, mechanism=MADE, size=50, ledger=ledger, relation=Replacement(records=N))
        assert ledger.status().spent["epsilon"] == pytest.approx(made.certificate.epsilon)
        release(confidential(ROWS, DOMAIN), mechanism=MADE, size=50, ledger=ledger)
        assert ledger.status().spent["epsilon"] == pytest.approx(2 * made.certificate.epsilon)
        release(ROWS, DOMAIN, Budget(epsilon=0.5), mechanism=MADE, size=50, ledger=ledger)
        assert ledger.status().spent["epsilon"] == pytest.approx(2 * made.certificate.epsilon + 0.5)
        assert ledger.verify() == []


def test_a_model_goes_through_the_same_door(tmp_path: Path) -> None:
    opened, closed = (VISITED, VISITS), (confidential(VISITED, VISITS),)
    with ledger_in(tmp_path) as ledger:
        known: dict[str, Any] = {"relation": Replacement(records=30)}
        for number, (table, asked) in enumerate(((opened, known), (closed, {})), 1):
            out = tmp_path / str(number)
            paid = release(*table, mechanism=MODEL, ledger=ledger, out=out, **asked)  # type: ignore[arg-type]
            assert ledger.status().spent == {"epsilon": 2.0 * number, "delta": 0.0}
            assert ledger.verify([out / "certificate.json"]) == []
            assert facts(paid)["ledger"]["entry"] == ledger.log()[-1]["entry"]
            assert len(pl.read_parquet(out / "table-01.parquet")) == 30
            with pytest.raises(Refused):
                release(*table, mechanism=MODEL, ledger=ledger, seed=1)  # type: ignore[arg-type]
    free = release(*opened, budget=Budget(epsilon=2.0), mechanism=MODEL)
    assert [len(table) for table in free.records] == [30]
    assert (free.certificate.epsilon, free.certificate.delta) == (2.0, 0.0)
    for table in (opened, closed):
        with pytest.raises(Infeasible):
            release(*table, budget=Budget(epsilon=1.9), mechanism=MODEL)  # type: ignore[arg-type]
        for wrong in ({"size": 3}, {"counts": True}, {"bound": 2.0}, {"relation": AddRemove(records=30)}):
            with pytest.raises((ParameterError, RelationNotSupported)):
                release(*table, mechanism=MODEL, **wrong)


def test_a_budget_is_met_by_the_epsilon_that_a_theorem_states() -> None:
    """Whatever its profile rounds to."""
    model = PseudoPosterior(PoissonMean(column="visits"), target_epsilon=8.0, tables=2)
    guarantee = model.on(VISITS).guarantee(n=200)
    assert guarantee.meets(Budget(epsilon=16.0))
    assert not guarantee.meets(Budget(epsilon=15.999))
    assert not guarantee.meets(Budget(epsilon=15.999, delta=0.1))


# -- a mechanism that is chosen ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("closed", [False, True])
def test_under_add_remove_a_mechanism_is_chosen(closed: bool) -> None:
    table: tuple[Any, ...] = (confidential(ROWS, DOMAIN),) if closed else (ROWS, DOMAIN)
    made = release(*table, budget=BUDGET, size=50, relation=AddRemove(records=1900), accept={"poor-utility"})
    assert facts(made)["relation"] == {"name": "add-remove", "group": 1}
    assert facts(made)["records"] == 1900
    assert facts(made)["mechanism"]["name"] in {"marginals", "private-evolution"}
    assert all(check.agrees for check in verify(made.certificate))


def test_several_tables_choose_their_mechanism_and_one_does_not() -> None:
    asked: dict[str, Any] = {"size": 50, "accept": {"poor-utility"}, "seed": 1}
    several = release(ROWS, DOMAIN, BUDGET, tables=3, **asked)
    assert [len(table) for table in several.records] == [50] * 3
    assert facts(several)["mechanism"]["name"] == "marginals"
    one, plain = release(ROWS, DOMAIN, BUDGET, tables=1, **asked), release(ROWS, DOMAIN, BUDGET, **asked)
    assert one.records.equals(plain.records)
    assert facts(one)["mechanism"] == facts(plain)["mechanism"]
    named = release(ROWS, DOMAIN, BUDGET, tables=1, mechanism="perturbed-histogram", **asked)
    assert len(named.records) == 50
    with pytest.raises(ParameterError, match="tables"):
        release(ROWS, DOMAIN, BUDGET, tables=3, mechanism="perturbed-histogram", **asked)


# -- values of their own ----------------------------------------------------------------------------------------------


def test_what_is_accepted_is_a_code_or_several() -> None:
    asked: dict[str, Any] = {"size": 50, "mechanism": "dirichlet-multinomial", "prior": 900.0}
    for accept in ("poor-utility", ["poor-utility"], {"poor-utility", "empirical"}):
        assert len(release(ROWS, DOMAIN, BUDGET, accept=accept, **asked).records) == 50
    for unknown in ("poor", "poor_utility", {"instance"}, {"poor-utility", "all"}, [""]):
        with pytest.raises(ParameterError, match="accept"):
            release(ROWS, DOMAIN, BUDGET, accept=unknown, **asked)
    with pytest.raises(ParameterError, match="accept"):
        release(ROWS, DOMAIN, BUDGET, accept=3, **asked)  # type: ignore[arg-type]


def test_an_output_of_one_path_is_the_path(tmp_path: Path) -> None:
    for out in (tmp_path / "a.csv", Output(tmp_path / "b.csv")):
        release(ROWS, DOMAIN, BUDGET, size=50, mechanism="perturbed-histogram", seed=1, out=out)
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    assert Output(checkpoint="c").checkpoint == Checkpoint("c")
    with pytest.raises(ParameterError, match="stands beside that of its table"):
        Output(certificate="c.json")
    with pytest.raises(ParameterError, match="one step"):
        release(ROWS, DOMAIN, mechanism=MADE, size=50, out=Output(checkpoint=tmp_path / "c"))
    assert len(release(ROWS, DOMAIN, BUDGET, size=50, mechanism="perturbed-histogram", out=Output()).records) == 50


@pytest.mark.parametrize("wrong", [
    {"mechanism": "perturbed-histogram", "unknown": 3}, {"mechanism": "perturbed-histogram", "sampling": "both"},
    {"sampling": "both"}, {"tables": 0}, {"tables": 2.5},
    {"mechanism": "perturbed-histogram", "out": Output(checkpoint="steps")}, {"out": Output(checkpoint="steps")},
    {"counts": "no"}, {"watch": 3}, {"data": None}, {"data": 3}, {"data": "typo.parquet"},
    {"data": confidential(ROWS, DOMAIN), "relation": Replacement(records=N + 1)},
    {"mechanism": "private-evolution", "unit_votes": 2},
    {"mechanism": "perturbed-histogram", "budget": Budget(epsilon=1e-4), "relation": Replacement(records=N)},
], ids=str)  # fmt: skip
def test_what_public_facts_show_to_be_wrong_is_refused_before_it_is_paid(wrong: dict[str, Any], tmp_path: Path) -> None:
    with ledger_in(tmp_path) as ledger:
        asked = {"data": ROWS, "domain": DOMAIN, "budget": Budget(epsilon=0.5), "size": 50, **wrong}
        with pytest.raises((ParameterError, FileProblem, PoorUtility)):
            release(ledger=ledger, **asked)
        assert ledger.log()[1:] == []


def test_a_mechanism_that_is_changed_on_the_way_releases_nothing() -> None:
    def change(_: str) -> None:
        object.__setattr__(made, "scale", 0.01)

    made = replace(MADE)
    with pytest.raises(Refused, match="was changed"):
        release(ROWS, DOMAIN, mechanism=made, size=50, watch=Watch(announce=change))


def test_a_table_of_another_number_than_a_mechanism_is_made_for_is_told_so() -> None:
    with pytest.raises(ParameterError, match="for which the mechanism was made"):
        release(ROWS.head(N - 1), DOMAIN, mechanism=MADE, size=50)
