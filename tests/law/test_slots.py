"""T20 on records of units: one unit changes every table as one record does, and relations of rows come through."""

import math
from itertools import combinations, combinations_with_replacement, pairwise, product
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest

from discreet import AddRemove, read, release, verify
from discreet._core.random import seeded
from discreet.confidential import confidential
from discreet.confidential.closed import reveal
from discreet.domain import Boolean, Category, Domain, Integer, UnitTable
from discreet.errors import FileProblem, ParameterError
from discreet.inference import ReleaseTakenForSample
from discreet.mechanisms import Marginals
from discreet.mechanisms.chosen_tables import Merged
from discreet.mechanisms.latent_classes import PairTable
from discreet.mechanisms.marginals import one_way_tables, two_way_tables
from discreet.mechanisms.slots import SlotUse
from discreet.privacy import Budget, Relation

COLUMNS = {"ward": Category(categories=["a", "b"]), "days": Integer(lower=0, upper=2)}
KINDS = {
    "rows": Domain(tables={"visits": UnitTable(unit="who", max_records=2, columns=COLUMNS)}),
    "panel": Domain(
        tables={
            "years": UnitTable(
                unit="who", max_records=2, slots="year", columns={"year": Integer(lower=1, upper=2), **COLUMNS}
            )
        }
    ),
}


def every_unit(domain: Domain) -> list[pl.DataFrame]:
    """The rows of every unit that there can be."""
    rows = list(product("ab", range(3)))
    if "year" in domain.row_domain.names:
        units = [((1, *first), (2, *second)) for first in rows for second in rows]
        units += [((year, *row),) for year in (1, 2) for row in rows]
    else:
        units = [unit for number in (1, 2) for unit in combinations_with_replacement(rows, number)]
    return [pl.DataFrame(list(unit), schema=list(domain.row_domain.names), orient="row") for unit in units]


def counted(units: list[pl.DataFrame], domain: Domain) -> Any:
    frames = [frame.with_columns(who=pl.lit(place)) for place, frame in enumerate(units)]
    return reveal(confidential(pl.concat(frames), domain, rng=seeded(0)))


def tables_of(counts: Any, domain: Domain) -> list[npt.NDArray[np.int64]]:
    """All one-way tables, and all two-way tables on the cells of the domain."""
    mechanism = Marginals(domain=domain, records=3, scale=9.0, units=40)
    fine = [Merged(np.arange(size), size) for size in mechanism.sizes]
    two = two_way_tables(SimpleNamespace(candidates=mechanism.pairs, fine=fine), counts.parts())  # type: ignore[arg-type]
    return [*one_way_tables(mechanism, counts.parts()), *(table.ravel() for table in two.values())]


def pooled(counts: Any, domain: Domain) -> npt.NDArray[np.int64]:
    """A table of rows, whatever their slot: the sum over the slots of what is counted in each."""
    mechanism = Marginals(domain=domain, records=3, scale=9.0, units=40)
    tables = [table for table in one_way_tables(mechanism, counts.parts()) if len(table) == 3]
    return np.sum(tables, axis=0)


@pytest.mark.parametrize("kind", KINDS)
def test_one_unit_changes_every_table_as_one_record_does(kind: str) -> None:
    """All pairs of neighbours of three units, of which two are drawn from all and the third is any."""
    domain = KINDS[kind]
    units, worst, worst_added, worst_pooled = every_unit(domain), 0, 0, 0
    for others in ([units[0], units[-1]], [units[3], units[7]]):
        tables = [tables_of(counted([*others, unit], domain), domain) for unit in units]
        without = tables_of(counted(others, domain), domain)
        rows = [pooled(counted([*others, unit], domain), domain) for unit in units]
        for first, second in combinations(range(len(units)), 2):
            changes = [a - b for a, b in zip(tables[first], tables[second], strict=True)]
            worst = max([worst, *(int(max(change.max(), -change.min())) for change in changes)])
            assert all(np.abs(change).sum() <= 2 for change in changes)
            worst_pooled = max(worst_pooled, int(np.abs(rows[first] - rows[second]).max()))
        for table in tables:
            changes = [a - b for a, b in zip(table, without, strict=True)]
            assert all(change.min() >= 0 for change in changes)
            worst_added = max([worst_added, *(int(change.sum()) for change in changes)])
    assert (worst, worst_added) == (1, 1)
    assert worst_pooled == 2  # a pooled table with the bound of a slot's is caught


@pytest.mark.parametrize("kind", KINDS)
def test_the_map_looks_at_no_other_unit(kind: str) -> None:
    domain = KINDS[kind]
    units = every_unit(domain)
    together = counted(units, domain)
    alone = [counted([unit], domain).records.rows()[0] for unit in units]
    times = np.repeat(np.arange(together.distinct), together.frequencies)
    assert sorted(together.records.take(times).rows()) == sorted(alone)


@pytest.mark.parametrize("relation", ["replacement", "add-remove"])
def test_a_unit_costs_what_a_record_costs(relation: Any) -> None:
    """The guarantee is that of a flat table with as many columns, for one record, whatever ``max_records`` is."""
    domain = KINDS["rows"]
    flat = Domain(columns=dict(domain.columns))
    facts: dict[str, Any] = {"records": 50, "scale": 20.0, "units": 60, "score_units": 4}
    profiles = [
        Marginals(domain=each, **facts).guarantee(Relation(name=relation), n=50).profile.delta(0.5)
        for each in (domain, flat)
    ]
    assert profiles[0] == profiles[1]


# -- what is read ------------------------------------------------------------------------------------------------------


def visits(n: int = 6000, seed: int = 0) -> tuple[pl.DataFrame, Domain]:
    """Patients with one to three visits on one ward, more visits on ward b, and more days there."""
    rng = np.random.default_rng(seed)
    on_b = rng.random(n) < 0.4
    number = 1 + rng.binomial(2, np.where(on_b, 0.7, 0.2))
    who = np.repeat(np.arange(n), number)
    frame = pl.DataFrame(
        {
            "who": who * 17 + 5,
            "ward": np.where(on_b[who], "b", "a"),
            "days": np.minimum(9, rng.poisson(1 + 3 * on_b[who])),
        }
    )
    columns = {"ward": Category(categories=["a", "b"]), "days": Integer(lower=0, upper=9)}
    return frame, Domain(tables={"visits": UnitTable(unit="who", max_records=3, columns=columns)})


def facts_of(frame: pl.DataFrame) -> dict[str, float]:
    """Numbers of which none is one of rows alone."""
    units = frame.group_by("who").agg(
        pl.len().alias("rows"), (pl.col("ward") == "b").mean().alias("b"), pl.col("days").mean()
    )
    several = units.filter(pl.col("rows") > 1)
    return {
        "one row": float((units["rows"] == 1).mean()),
        "three rows": float((units["rows"] == 3).mean()),
        "one ward": float(several["b"].is_in([0.0, 1.0]).mean()),
        "b of one row": float(units.filter(pl.col("rows") == 1)["b"].mean()),
        "b of three rows": float(units.filter(pl.col("rows") == 3)["b"].mean()),
        "rows on b": float((frame["ward"] == "b").mean()),
        "days on b": float(frame.filter(ward="b")["days"].mean()) / 10.0,
    }


def largest_error(budget: Budget, **options: Any) -> float:
    frame, domain = visits()
    synthetic = release(frame, domain, budget, size=6000, mechanism="marginals", seed=3, **options).records
    assert synthetic["who"].unique().sort().to_list() == list(range(1, 6001))
    true, found = facts_of(frame), facts_of(synthetic)
    return max(abs(found[name] - true[name]) for name in true)


@pytest.mark.parametrize("relation", [{}, {"relation": AddRemove(records=6000)}])
def test_relations_between_rows_and_their_number_come_through(relation: dict[str, Any]) -> None:
    """Within .04 at epsilon 8, where noise of a share is about .005."""
    assert largest_error(Budget(epsilon=8.0, delta=1e-6), **relation) < 0.04


def test_tables_that_are_not_completed_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: units that do not use a slot are taken for units without it, as if every unit used all."""
    monkeypatch.setattr(SlotUse, "share", lambda self, pair: 1.0)
    assert largest_error(Budget(epsilon=8.0, delta=1e-6)) > 0.08


def test_transitions_of_a_panel_come_through() -> None:
    rng = np.random.default_rng(1)
    n, years = 5000, 4
    works = np.empty((n, years), dtype=bool)
    works[:, 0] = rng.random(n) < 0.6
    for year in range(1, years):
        works[:, year] = rng.random(n) < np.where(works[:, year - 1], 0.9, 0.2)
    there = rng.random((n, years)) < np.linspace(0.95, 0.6, years)
    who, year = np.nonzero(there)
    frame = pl.DataFrame({"who": who, "year": 2001 + year, "work": works[who, year]})
    panel = UnitTable(
        unit="who", max_records=4, slots="year", columns={"year": Integer(lower=2001, upper=2004), "work": Boolean()}
    )
    domain = Domain(tables={"years": panel})
    synthetic = release(frame, domain, Budget(epsilon=4.0, delta=1e-6), size=n, mechanism="marginals", seed=2).records

    def transitions(table: pl.DataFrame) -> list[float]:
        later = table.with_columns(year=pl.col("year") - 1)
        both = table.join(later, on=["who", "year"], suffix="_next")
        shares = both.group_by("work", "year").agg(pl.col("work_next").mean()).sort("work", "year")
        present = table.group_by("year").len().sort("year")["len"] / n
        return [*shares["work_next"].to_list(), *present.to_list()]

    assert max(abs(a - b) for a, b in zip(transitions(frame), transitions(synthetic), strict=True)) < 0.06
    assert not synthetic.select("who", "year").is_duplicated().any()


def test_every_unit_of_a_panel_has_a_row_where_no_pair_is_measured() -> None:
    """At random each of three years is used by half of the units, so independent years would lose an eighth of them."""
    rng = np.random.default_rng(3)
    who, year = np.repeat(np.arange(400), 3), np.tile(np.arange(3), 400)
    rows = pl.DataFrame({"who": who, "year": year, "sick": rng.random(1200) < 0.3}).filter(rng.random(1200) < 0.5)
    kept = rows["who"].n_unique()
    years = UnitTable(
        unit="who", max_records=3, columns={"year": Integer(lower=0, upper=2), "sick": Boolean()}, slots="year"
    )
    made = release(
        rows, Domain(tables={"years": years}), Budget(epsilon=0.3, delta=1e-5), size=kept, seed=1,
        accept={"poor-utility"},
    )  # fmt: skip
    assert next(code.name for code in made.certificate.facts.released.outcome) == "no-pair-measured"
    assert made.records["who"].n_unique() == kept


def test_a_release_is_written_verified_read_and_reported(tmp_path: Any) -> None:
    frame, domain = visits(2000)
    budget, path = Budget(epsilon=2.0, delta=1e-6), tmp_path / "visits.parquet"
    done = release(frame, domain, budget, size=1500, out=path)  # the plan takes the one mechanism that keeps units
    facts = done.certificate.facts
    assert (facts.mechanism.name, facts.size, facts.records) == ("marginals", 1500, 2000)
    assert (facts.unit.column, facts.unit.max_records, facts.relation.group) == ("who", 3, 1)
    assert "which of two sets of rows one unit of up to 3 rows has" in done.certificate.statement
    assert all(check.agrees for check in verify(path.with_suffix(".certificate.json"), data=path))
    with pytest.warns(ReleaseTakenForSample, match=r"1,500 records .* from 2,000"):
        table = read(path).table()
    assert table["who"].n_unique() == 1500
    assert table.group_by("who").len()["len"].max() <= 3
    table.head(5).write_parquet(path)
    with pytest.raises(FileProblem, match="not the file"):
        read(path)


@pytest.mark.parametrize("declared", ["tables", "rules"])
def test_under_add_remove_the_plan_takes_what_keeps_the_declaration(declared: str) -> None:
    frame, domain = visits(2000)
    if declared == "rules":
        domain = Domain(columns=dict(domain.row_domain.columns), impossible=[{"ward": "a", "days": 9}])
        frame = frame.drop("who")
    relation = AddRemove(records=2000)
    done = release(frame, domain, Budget(epsilon=2.0, delta=1e-6), size=100, relation=relation, accept={"poor-utility"})
    assert done.certificate.facts.mechanism.name == "marginals"


def test_several_tables_are_released() -> None:
    frame, domain = visits(1000)
    done = release(frame, domain, Budget(epsilon=2.0, delta=1e-6), size=1000, tables=2, seed=1)
    assert [table["who"].n_unique() for table in done.records] == [1000, 1000]
    assert [row.name for row in done.estimate(["mean"], column="days").rows] == ["mean"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mechanism": "perturbed-histogram"}, "tables.visits"),
        ({"counts": True, "size": None}, "Release records"),
        ({"reference": pl.DataFrame({"ward": ["a"], "days": [1]})}, "Leave it out"),
    ],
)
def test_what_units_cannot_have_is_refused(options: dict[str, Any], words: str) -> None:
    frame, domain = visits(1000)
    with pytest.raises(ParameterError, match=words):
        release(frame, domain, Budget(epsilon=2.0, delta=1e-6), **{"size": 100, **options})


def test_shares_of_slots_are_those_of_the_number_of_rows() -> None:
    frame, domain = visits(4000)
    mechanism = Marginals(domain=domain, records=4000, scale=9.0, units=4000)
    counts = reveal(confidential(frame, domain))
    reading: Any = mechanism.reading(mechanism.kernel(counts, rng=seeded(0)), n=4000)
    number = frame.group_by("who").len()["len"].to_numpy()
    exact = [(number >= slot).mean() for slot in (1, 2, 3)]
    assert reading.measured.use.used.tolist() == pytest.approx([1.0, *np.repeat(exact, 2).tolist()], abs=0.01)
    assert all(first >= second for first, second in pairwise(reading.measured.use.used[1::2]))
    assert math.isclose(reading.measured.total, 4000.0)


@pytest.mark.parametrize("mixed", [False, True])
def test_all_units_of_a_class_use_the_same_slots(mixed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a class has a number of rows, it has no values in later slots. Planted: classes that mix numbers."""
    frame, domain = visits(2000)
    mechanism = Marginals(domain=domain, records=2000, scale=20.0, units=4000)
    reading: Any = mechanism.reading(mechanism.kernel(reveal(confidential(frame, domain)), rng=seeded(0)), n=2000)
    if mixed:
        possible = SlotUse.possible
        monkeypatch.setattr(SlotUse, "possible", lambda *args, **rest: np.ones_like(possible(*args, **rest)))
    model = reading.measured.model(seeded(0))
    number, *columns = [block.inside for block in sorted(model.blocks, key=lambda block: block.columns)]
    assert all(column.sum(axis=0).max() > 0.5 for column in columns)
    used = number[1:].sum(axis=0), number[2:].sum(axis=0)  # of slots 2 and 3
    gaps = [np.abs((columns[2 * slot].sum(axis=0) > 1e-9) - used[slot - 1]).max() for slot in (1, 2)]
    assert (max(gaps) > 0.01) == mixed


def test_correlations_of_a_panel_are_shrunk_to_those_of_their_kind() -> None:
    """Two tables one slot apart with correlations of 0.3 and 0.7, the variance of whose noise is 0.04."""
    values, share, total = np.array([[-1.0, 0.0, 1.0]]), np.full(3, 1.0 / 3.0), 1000.0
    score = values[0] / math.sqrt(2.0 / 3.0)
    one = total * np.outer(share * score, share * score)  # of correlation 1
    error = np.full((3, 3), total * 0.2 / 3.0)
    pairs = {(3, 4): 0.3, (4, 5): 0.7, (3, 5): 0.1}
    excess = {pair: PairTable(correlation * one, error) for pair, correlation in pairs.items()}
    known = {pair: 0.5 * table.excess for pair, table in excess.items()}
    asked = known, excess, [values] * 6, dict.fromkeys(pairs, (share, share)), total
    slots = np.array([-1, -1, -1, 1, 2, 3])
    says = {i: np.array([0.5, 0.5]) for i in range(3)}
    found = SlotUse(slots, says, np.ones(6)).correlated(*asked)
    mean = 0.5 * (1.0 - 0.04 / 2.0 / 0.25)  # they differ by no more than noise
    for pair, wanted in {(3, 4): mean, (4, 5): mean, (3, 5): 0.0}.items():  # two slots apart, noise is all there is
        assert score @ found[pair] @ score / total == pytest.approx(wanted, abs=1e-6)
        assert np.allclose(found[pair], wanted * one, atol=1e-3)
    near = dict(excess) | {(4, 5): PairTable(1.7 * one, error)}  # these differ by more than noise: by 1.4 from 0.3
    found = SlotUse(slots, says, np.ones(6)).correlated(known, near, *asked[2:])
    spread = 0.7**2 - 0.04
    for pair, moved in {(3, 4): -0.7, (4, 5): 0.7}.items():
        wanted = 1.0 - 0.04 / 2.0 + moved * spread / (spread + 0.04)
        assert score @ found[pair] @ score / total == pytest.approx(wanted, abs=1e-6)
    rows = SlotUse(np.array([0, 0, -1, 1, 2, 3]), {2: np.array([0.5, 0.5])}, np.ones(6))
    assert rows.correlated(*asked) == known  # households and other rows in an order


def test_tables_of_a_kind_are_weighed_together() -> None:
    """Exact: rows of a kind are the sum of the shares that use their slots, of a panel and without units 1."""
    shares, slots = np.array([0.5, 0.3, 0.2]), np.array([0, -1, 1, 1, 2, 2, 3, 3])
    use = SlotUse(slots, {1: shares}, np.array([1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.2, 0.2]))
    pairs = [(0, 1), (0, 4), (2, 3), (6, 7), (2, 5), (4, 7), (3, 4)]
    assert use.alike(pairs) == pytest.approx([1.0, 0.5, 1.2, 1.2, 0.7, 0.7, 0.5])
    assert SlotUse(np.zeros(3, dtype=np.int64), {}, np.ones(3)).alike([(0, 1)]) == 1.0
