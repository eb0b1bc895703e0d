"""A population for each label: T16 by enumeration, votes by loops, and what becomes of labels on the way."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from universes import Everything, Floats, Listed, table_on

from discreet._core.random import seeded
from discreet.cli.entry import run
from discreet.domain import Category, Counts, Domain, Integer, Numeric, Records
from discreet.errors import ParameterError
from discreet.mechanisms import PrivateEvolution
from discreet.mechanisms.populations import Embedded
from discreet.mechanisms.steps import steps_taken
from discreet.privacy import Budget, Relation
from discreet.releases import verify
from discreet.testing import brute_force_profile, check_law_sums_to_one, check_twin_is_caught

EPSILONS = (0.0, 0.5, 1.0, 2.0, 4.0, 6.0)
KINDS = ["a", "b", "c"]
SQUARE = Domain(columns={"kind": Category(categories=KINDS), "x": Numeric(lower=0.0, upper=1.0),
                         "y": Numeric(lower=0.0, upper=1.0)})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Every(Everything):
    """Every cell is a candidate; records lie where their second column says, whatever their label."""

    name: ClassVar[str] = "every"

    @property
    def norm(self) -> float:
        return 1.0

    @property
    def diameter(self) -> float:
        return 1.0

    def embed(self, records: Records) -> Floats:
        return np.asarray(records.columns[1], dtype=np.float64)[:, None]


class InEachLabel(Listed):
    """A broken twin: a record votes once in the population of every label."""

    __slots__ = ()

    def votes_anew(self, table: Any, candidates: Records, step: int) -> npt.NDArray[np.int64]:
        found = np.zeros(len(candidates), dtype=np.int64)
        for shift in range(2):
            moved = [replace_labels(voters, shift) for voters in table]
            found += super().votes_anew(moved, candidates, step)
        return found


def replace_labels(voters: Any, shift: int) -> Any:
    return voters._replace(labels=(voters.labels + shift) % 2)


def small(kind: type[PrivateEvolution] = Listed, **facts: Any) -> Any:
    domain = Domain(columns={"kind": Category(categories=["a", "b"]), "x": Integer(lower=0, upper=1)})
    given = {"records": 2, "scale": 0.22, "steps": 1, "population": 2, "variant": "practical", **facts}
    return kind(domain=domain, api=Every(domain=domain), by_label="kind", **given)


@pytest.mark.parametrize("facts", [{}, {"nearest": 2}, {"noise": "laplace", "threshold": 2}])
def test_enumeration_of_every_output(facts: dict[str, Any]) -> None:
    mechanism = small(**facts)
    guarantee = mechanism.guarantee(n=1)
    check_law_sums_to_one(mechanism, table_on(mechanism.domain, [1]))
    found, claimed = brute_force_profile(mechanism, n=1, epsilons=EPSILONS), [guarantee.delta(e) for e in EPSILONS]
    assert np.all(found <= np.array(claimed) * (1 + 1e-11) + 1e-14)
    if mechanism.noise == "gaussian":  # attained, by records of two labels
        np.testing.assert_allclose(found, claimed, rtol=1e-9, atol=1e-12)


def test_a_record_that_votes_in_every_label_is_caught() -> None:
    check_twin_is_caught(small(), small(InEachLabel), n=1, epsilons=EPSILONS)


@pytest.mark.parametrize("facts", [{}, {"nearest": 3}, {"noise": "laplace", "threshold": 2}])
@pytest.mark.parametrize("relation", ["replacement", "add-remove"])
def test_the_guarantee_is_that_of_one_population(facts: dict[str, Any], relation: Any) -> None:
    mechanism, held = small(**facts), Relation(name=relation)
    one = replace(mechanism, by_label=None)
    for epsilon in EPSILONS:
        assert mechanism.guarantee(held, n=50).delta(epsilon) == one.guarantee(held, n=50).delta(epsilon)


# -- votes and populations --------------------------------------------------------------------------------------------


def evolution(**facts: Any) -> Any:
    given = {"records": 500, "scale": 3.0, "steps": 3, "population": 30, "api": "table", **facts}
    return PrivateEvolution(domain=SQUARE, by_label="kind", **given)


def people(rows: int, seed: int) -> Records:
    rng = seeded(seed)
    return Records(columns=(rng.choice(3, rows, p=[0.7, 0.25, 0.05]), rng.beta(2, 8, rows), rng.beta(8, 2, rows)))


def counted(records: Records) -> Counts:
    return Counts(records=records, frequencies=np.ones(len(records), dtype=np.int64))


@pytest.mark.parametrize("nearest", [1, 2])
def test_a_record_votes_for_the_nearest_candidates_of_its_label(nearest: int) -> None:
    mechanism = evolution(nearest=nearest)
    table, candidates = people(200, 1), people(40, 2)
    votes = mechanism._votes(Embedded(mechanism, counted(table)), candidates, 0)
    expected = np.zeros(40, dtype=np.int64)
    at, there = mechanism._api.embed(table), mechanism._api.embed(candidates)
    for row, label in enumerate(table.columns[0]):
        own = np.flatnonzero(candidates.columns[0] == label)
        apart = np.abs(there[own] - at[row]).sum(axis=1)
        expected[own[np.argsort(apart, kind="stable")[:nearest]]] += 1
    assert votes.tolist() == expected.tolist()
    assert votes.sum() <= 200 * nearest


def steps_of(mechanism: Any) -> Iterator[Any]:
    shown: list[Any] = []
    steps_taken(mechanism, counted(people(500, 3)), rng=seeded(4), evolved=shown.append)
    return iter(shown)


@pytest.mark.parametrize("variant", ["projection", "practical"])
def test_each_label_keeps_a_population_of_its_own(variant: str) -> None:
    """Even one that nobody has: the API's variations change labels, and these are put back."""
    mechanism = evolution(variant=variant, label_shares=[0.5, 0.5, 0.0], population=9)
    first = mechanism._first(seeded(1))
    assert np.bincount(first.columns[0]).tolist() == [3, 3, 3]
    for step in steps_of(mechanism):
        assert set(step.candidates["kind"].unique()) == set(KINDS)
        assert step.candidates.filter(kind="c").height <= 3 * mechanism._api.variations_each()
        shares = [float(step.shares[(step.candidates["kind"] == kind).to_numpy()].sum()) for kind in KINDS]
        assert shares == pytest.approx([0.5, 0.5, 0.0])
    labels = np.repeat([0, 1, 2], mechanism._api.variations_each())
    parents = Records(columns=(np.array([0, 1, 2]), np.full(3, 0.5), np.full(3, 0.5)))
    varied = mechanism._api.variation(parents, rng=seeded(2))
    assert (varied.columns[0] != labels).any()
    assert (mechanism._labelled(varied, labels).columns[0] == labels).all()


def test_labels_that_the_api_hardly_draws_are_written_over() -> None:
    mechanism = small(population=7)  # its API draws one label alone
    assert np.bincount(mechanism._first(seeded(0)).columns[0]).tolist() == [4, 3]


def test_shares_are_those_of_the_noisy_votes() -> None:
    mechanism = evolution(scale=0.3)
    *_, last = steps_of(mechanism)
    kinds = last.candidates["kind"].to_numpy()
    votes = np.array([last.votes[kinds == kind].sum() for kind in KINDS], dtype=np.float64)
    assert [last.shares[kinds == kind].sum() for kind in KINDS] == pytest.approx(votes / votes.sum())
    held = np.bincount(people(500, 3).columns[0])
    # The noise of a label is that of its candidates: within 6 of its standard deviations.
    spread = 6.0 * 0.31 * np.sqrt([np.sum(kinds == kind) for kind in KINDS])
    assert (np.abs(votes - held) < spread).all()


# -- releases ---------------------------------------------------------------------------------------------------------


def frame(rows: int = 3000) -> pl.DataFrame:
    return SQUARE.decode(people(rows, 5), rng=seeded(0))


def test_a_release_and_its_certificate(tmp_path: Path) -> None:
    table, out = frame(), tmp_path / "r.parquet"
    table.write_parquet(tmp_path / "a.parquet")
    (tmp_path / "d.toml").write_text(SQUARE.to_toml())
    asked = ["release", str(tmp_path / "a.parquet"), "--domain", str(tmp_path / "d.toml"), "--epsilon", "2", "--delta",
             "1e-6", "--size", "2000", "--mechanism", "private-evolution", "--accept-poor-utility"]  # fmt: skip
    params = ["steps=2", "population=60", "by_label=kind", "label_shares=0.5,0.3,0.2"]
    assert run([*asked, *[part for one in params for part in ("--param", one)], "--out", str(out)]) == 0
    facts = json.loads((tmp_path / "r.certificate.json").read_text())
    stated = facts["mechanism"]["parameters"]
    assert (stated["by_label"], stated["label_shares"]) == ("kind", [0.5, 0.3, 0.2])
    released = dict(pl.read_parquet(out)["kind"].value_counts().rows())
    assert released == pytest.approx({"a": 1000, "b": 600, "c": 400}, abs=60)  # draws stratified over 60 families
    assert all(check.agrees for check in verify(tmp_path / "r.certificate.json"))


def test_the_scale_is_that_of_one_population() -> None:
    asked: dict[str, Any] = {"domain": SQUARE, "n": 3000, "steps": 2, "population": 60}
    budget = Budget(epsilon=1.0, delta=1e-6)
    one = PrivateEvolution.calibrated(budget, **asked)
    assert PrivateEvolution.calibrated(budget, by_label="kind", **asked).scale == one.scale
    free = PrivateEvolution.calibrated(budget, domain=SQUARE, n=300, by_label="kind", population=30)
    assert (free.by_label, free.nearest) == ("kind", 4)


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({"by_label": "x"}, "by_label must be a column with finitely many values"),
        ({"by_label": "moon"}, "by_label must be a column with finitely many values"),
        ({"unit_votes": 1}, "cannot be combined with votes of units"),
        ({"variant": "theoretical"}, "nor with the theoretical variant"),
        ({"label_shares": [0.5, 0.5]}, "must be 3 numbers"),
        ({"label_shares": [0.5, 0.6, 0.1]}, "must add up to 1"),
        ({"label_shares": [1.5, -0.5, 0.0]}, "label_shares must be"),
        ({"label_shares": "a,b,c"}, "label_shares must be numbers"),
        ({"by_label": None, "label_shares": [1.0]}, "needs the column of the labels"),
    ],
)
def test_what_is_refused(facts: dict[str, Any], told: str) -> None:
    given = {"domain": SQUARE, "records": 500, "scale": 3.0, "steps": 2, "population": 30, "by_label": "kind", **facts}
    with pytest.raises(ParameterError, match=told):
        PrivateEvolution(**given)
