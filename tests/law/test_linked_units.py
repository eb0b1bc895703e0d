"""Two tables of the same units: one unit's rows in both are one record, whatever they are."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import polars as pl
import pytest

from discreet import Budget, release
from discreet._core.random import seeded
from discreet.confidential import confidential, count
from discreet.confidential.closed import reveal
from discreet.domain import Boolean, Category, Counts, Domain, Integer, UnitTable
from discreet.mechanisms import Marginals
from discreet.mechanisms.chosen_tables import Merged
from discreet.mechanisms.marginals import one_way_tables, two_way_tables

AGES: dict[str, Any] = {"age": Integer(lower=0, upper=1), "sex": Category(categories=["f", "m"])}
ROWS = [(age, sex) for age in (0, 1) for sex in "fm"]
PEOPLE = UnitTable(unit="id", max_records=2, columns=AGES)
WAVES = UnitTable(unit="id", max_records=2, slots="age", columns=AGES)
KINDS = {
    "rows": Domain(units="households", columns={"owned": Boolean()}, tables={"persons": PEOPLE}),
    "panel": Domain(units="households", columns={"owned": Boolean()}, tables={"persons": WAVES}),
    "rule": Domain(
        units="households",
        columns={"owned": Boolean()},
        tables={"persons": PEOPLE},
        impossible=[{"owned": True, "age": 0}],
    ),
}
Unit = tuple[tuple[bool, ...], tuple[tuple[int, str], ...]]
"""A unit's own rows, and its rows in the other table."""

EVERY: list[Unit] = [
    (own, rows)
    for own in ((), (False,), (True,), (False, True))
    for some in [[rows for number in range(3) for rows in combinations_with_replacement(ROWS, number)]]
    for rows in [*some, (*ROWS[:3],), (*ROWS[1:],), (ROWS[0],) * 3]
]


def records(units: list[Unit], domain: Domain) -> Any:
    own = [(place, value) for place, (values, _) in enumerate(units) for value in values]
    rows = [(place, *row) for place, (_, unit_rows) in enumerate(units) for row in unit_rows]
    frames = {
        "households": pl.DataFrame(own, schema={"id": pl.Int64, "owned": pl.Boolean}, orient="row"),
        "persons": pl.DataFrame(rows, schema={"id": pl.Int64, "age": pl.Int64, "sex": pl.String}, orient="row"),
    }
    return reveal(confidential(frames, domain, rng=seeded(0), empty=True))


def multiset(counts: Any) -> Counter[Any]:
    return Counter(dict(zip(counts.records.rows(), counts.frequencies.tolist(), strict=True)))


def changes(domain: Domain) -> Iterator[int]:
    """Yield how many records each unit's rows add or take away among two others."""
    others: list[Unit] = [((True,), ()), ((False,), ((1, "f"),))]
    alone = multiset(records(others, domain))
    for unit in EVERY:
        both = multiset(records([*others, unit], domain))
        yield (change := (both - alone).total() + (alone - both).total())
        assert (both.total() == 3) == (len(unit[0]) > 0) or change > 1


def check_tables(mechanism: Marginals, every: Iterable[Counts]) -> None:
    """Assert that each count of a table changes by one at most, and two at most do, when one unit becomes any other."""
    fine = [Merged(np.arange(size), size) for size in mechanism.sizes]
    choice: Any = type("Choice", (), {"candidates": mechanism.pairs, "fine": fine})
    tables = []
    for counts in every:
        two = two_way_tables(choice, counts.parts())
        tables.append([*one_way_tables(mechanism, counts.parts()), *(table.ravel() for table in two.values())])
    for of_units in map(np.stack, zip(*tables, strict=True)):
        for first in of_units:
            change = np.abs(of_units - first)
            assert change.max() <= 1
            assert change.sum(axis=1).max() <= 2


@pytest.mark.parametrize("kind", KINDS)
def test_one_units_rows_in_both_tables_are_one_record(kind: str) -> None:
    assert max(changes(KINDS[kind])) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_are_given_to_another_unit_are_caught(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a row whose unit has no row of its own goes to the unit that is listed first."""
    matched = count._matched

    def neighbour(own: Any, units: pl.Series, rows: Any, owners: pl.Series, *rest: Any) -> Any:
        known = pl.when(owners.is_in(units.implode())).then(owners).otherwise(units.min())
        return matched(own, units, rows, pl.select(known).to_series(), *rest)

    monkeypatch.setattr(count, "_matched", neighbour)
    assert any(change > 1 for change in changes(KINDS[kind]))


@pytest.mark.parametrize("kind", KINDS)
def test_one_unit_changes_every_table_by_one_count(kind: str) -> None:
    domain = KINDS[kind]
    mechanism = Marginals(domain=domain, records=3, scale=9.0, units=60)
    check_tables(mechanism, (records([((True,), ((1, "f"),)), unit], domain) for unit in EVERY))


def test_relations_between_the_tables_come_through() -> None:
    """Within .05 at epsilon 8, units without rows among them."""
    rng, n = np.random.default_rng(0), 6000
    owned = rng.random(n) < 0.4
    number = rng.binomial(3, np.where(owned, 0.7, 0.3))
    who = np.repeat(np.arange(n), number)
    frames = {
        "households": pl.DataFrame({"id": np.arange(n) * 3 + 7, "owned": owned}),
        "persons": pl.DataFrame({"id": who * 3 + 7, "age": np.minimum(9, rng.poisson(2 + 3 * owned[who]))}),
    }
    table = UnitTable(unit="id", max_records=3, columns={"age": Integer(lower=0, upper=9)})
    domain = Domain(units="households", columns={"owned": Boolean()}, tables={"persons": table})
    released = release(frames, domain, Budget(epsilon=8.0, delta=1e-6), size=n, mechanism="marginals", seed=1)

    def numbers(tables: dict[str, pl.DataFrame]) -> np.ndarray[Any, Any]:
        units = tables["persons"].group_by("id").agg(pl.len().alias("rows"), pl.col("age").mean() / 10)
        rows = tables["households"].join(units, on="id", how="left").with_columns(pl.col("rows").fill_null(0) / 3)
        none = (pl.col("rows") == 0).mean().alias("none")
        means = rows.group_by("owned").agg(none, pl.col("rows").mean(), pl.col("age").mean())
        return means.sort("owned").drop("owned").to_numpy()

    assert np.abs(numbers(released.tables) - numbers(frames)).max() < 0.05
    assert released.tables["households"]["id"].to_list() == list(range(1, n + 1))
    assert released.tables["persons"].join(released.tables["households"], on="id", how="anti").height == 0


@pytest.mark.parametrize("epsilon", [0.3, 8.0])
def test_units_of_a_panel_beside_their_own_table_may_have_no_row(epsilon: float) -> None:
    """Of 2,000 units .36 have no row. At epsilon .3 no pair is measured, and years are used independently."""
    rng, n = np.random.default_rng(0), 2000
    who, year = np.repeat(np.arange(n), 2), np.tile([0, 1], n)
    waves = pl.DataFrame({"id": who, "age": year, "sex": rng.choice(["f", "m"], 2 * n)}).filter(rng.random(2 * n) < 0.4)
    frames = {"households": pl.DataFrame({"id": np.arange(n), "owned": rng.random(n) < 0.5}), "persons": waves}
    accept = {"poor-utility"}
    made = release(frames, KINDS["panel"], Budget(epsilon=epsilon, delta=1e-6), size=n, seed=1, accept=accept).tables
    shares = [1.0 - table["id"].n_unique() / n for table in (waves, made["persons"])]
    assert shares[0] == pytest.approx(0.36, abs=0.02)
    assert shares[1] == pytest.approx(shares[0], abs=0.06)


# -- two tables of rows ------------------------------------------------------------------------------------------------

CARS = UnitTable(unit="id", max_records=1, columns={"new": Boolean()})
TWO = {
    "rows": Domain(units="households", columns={"owned": Boolean()}, tables={"persons": PEOPLE, "cars": CARS}),
    "panel": Domain(units="households", columns={"owned": Boolean()}, tables={"cars": CARS, "persons": WAVES}),
    "rule": Domain(
        units="households",
        columns={"owned": Boolean()},
        tables={"persons": PEOPLE, "cars": CARS},
        impossible=[{"owned": True, "age": 0}, {"owned": False, "new": True}],
    ),
}
Three = tuple[tuple[bool, ...], tuple[tuple[int, str], ...], tuple[bool, ...]]
EVERY_OF_TWO: list[Three] = [
    (own, rows, cars)
    for own in ((), (False,), (True,), (False, True))
    for rows in ((), ((0, "f"),), ((0, "f"), (1, "m")), ((0, "f"), (0, "f"), (1, "m")))
    for cars in ((), (True,), (False, True))
]
"""A unit's own rows, and its rows in two other tables: none, some, and more than it keeps."""


def records_of_two(units: list[Three], domain: Domain) -> Any:
    frames: dict[str, pl.DataFrame] = {}
    schemas: dict[str, Any] = {"households": {"owned": pl.Boolean}, "cars": {"new": pl.Boolean}}
    schemas["persons"] = {"age": pl.Int64, "sex": pl.String}
    for place, name in enumerate(("households", "persons", "cars")):
        rows = [(unit, *np.atleast_1d(np.array(row, dtype=object))) for unit, parts in enumerate(units)
                for row in parts[place]]  # fmt: skip
        frames[name] = pl.DataFrame(rows, schema={"id": pl.Int64, **schemas[name]}, orient="row")
    return reveal(confidential(frames, domain, rng=seeded(0), empty=True))


def changes_of_two(domain: Domain) -> Iterator[int]:
    others: list[Three] = [((True,), (), (True,)), ((False,), ((1, "f"),), ())]
    alone = multiset(records_of_two(others, domain))
    for unit in EVERY_OF_TWO:
        both = multiset(records_of_two([*others, unit], domain))
        yield (both - alone).total() + (alone - both).total()


@pytest.mark.parametrize("kind", TWO)
def test_one_units_rows_in_all_tables_are_one_record(kind: str) -> None:
    assert max(changes_of_two(TWO[kind])) == 1


def test_rows_of_the_second_table_that_are_given_to_another_unit_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a car whose unit has no row of its own goes to the unit that is listed first."""
    matched = count._matched

    def neighbour(own: Any, units: pl.Series, rows: Any, owners: pl.Series, *rest: Any) -> Any:
        known = pl.when(owners.is_in(units.implode())).then(owners).otherwise(units.min())
        return matched(own, units, rows, pl.select(known).to_series() if len(rows.columns) == 1 else owners, *rest)

    monkeypatch.setattr(count, "_matched", neighbour)
    tables = {"persons": PEOPLE, "cars": replace(CARS, max_records=9)}
    domain = Domain(units="households", columns={"owned": Boolean()}, tables=tables)
    assert any(change > 1 for change in changes_of_two(domain))


@pytest.mark.parametrize("kind", TWO)
def test_one_unit_changes_every_table_across_two_tables_of_rows_by_one_count(kind: str) -> None:
    domain = TWO[kind]
    mechanism = Marginals(domain=domain, records=3, scale=9.0, units=60)
    slots = np.repeat([0, 1, 2], [1, len(domain.parts(domain.names)[next(iter(domain.row_tables))]), 99])
    assert {tuple(sorted((slots[i], slots[j]))) for i, j in mechanism.pairs} >= {(0, 1), (0, 2), (1, 1), (1, 2)}
    check_tables(mechanism, (records_of_two([((True,), ((1, "f"),), ()), unit], domain) for unit in EVERY_OF_TWO))


def cars_and_persons(n: int = 4000) -> tuple[dict[str, pl.DataFrame], Domain]:
    """Homes with 0 to 3 persons and 0 to 2 cars, of which there are more where there are more persons."""
    rng = np.random.default_rng(0)
    owned = rng.random(n) < 0.5
    persons = rng.binomial(3, np.where(owned, 0.8, 0.5))
    cars = rng.binomial(2, np.where(persons > 1, 0.8, 0.2))
    who, whose = np.repeat(np.arange(n), persons), np.repeat(np.arange(n), cars)
    frames = {
        "homes": pl.DataFrame({"id": np.arange(n) * 3 + 7, "owned": owned}),
        "persons": pl.DataFrame({"id": who * 3 + 7, "age": np.minimum(9, rng.poisson(2 + 3 * owned[who]))}),
        "cars": pl.DataFrame({"id": whose * 3 + 7, "new": rng.random(len(whose)) < 0.2 + 0.2 * persons[whose]}),
    }
    tables = {
        "persons": UnitTable(unit="id", max_records=3, columns={"age": Integer(lower=0, upper=9)}),
        "cars": UnitTable(unit="id", max_records=2, columns={"new": Boolean()}),
    }
    return frames, Domain(units="homes", columns={"owned": Boolean()}, tables=tables)


def test_relations_across_two_tables_of_rows_come_through() -> None:
    """Within .05 at epsilon 8: cars and their age by the number of persons, ages by the number of cars."""
    frames, domain = cars_and_persons()
    made = release(frames, domain, Budget(epsilon=8.0, delta=1e-6), size=4000, mechanism="marginals", seed=1)

    def numbers(tables: dict[str, pl.DataFrame]) -> list[float]:
        homes = tables["homes"]
        for name, column in (("persons", "age"), ("cars", "new")):
            rows = tables[name].group_by("id").agg(pl.len().alias(name), pl.col(column).cast(pl.Float64).mean())
            homes = homes.join(rows, on="id", how="left").with_columns(pl.col(name).fill_null(0))
        by_persons = homes.group_by("persons").agg(pl.col("cars").mean() / 2, pl.col("new").mean()).sort("persons")
        by_cars = homes.group_by("cars").agg(pl.col("age").mean() / 10).sort("cars")
        return [*by_persons["cars"], *by_persons["new"], *by_cars["age"]]

    assert max(abs(a - b) for a, b in zip(numbers(made.tables), numbers(frames), strict=True)) < 0.05
    assert made.tables["homes"]["id"].to_list() == list(range(1, 4001))
    for name, most in (("persons", 3), ("cars", 2)):
        assert made.tables[name].join(made.tables["homes"], on="id", how="anti").height == 0
        assert made.tables[name].group_by("id").len()["len"].max() == most
