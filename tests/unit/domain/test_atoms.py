"""An atom is a cell of its own: no value of another cell is one, and all other cells stay as they are declared."""

import datetime as dt
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from discreet import Budget, release
from discreet._core.random import seeded
from discreet.confidential import check_table, reveal_to_custodian
from discreet.domain import Column, Date, Datetime, Decimal, Domain, Duration, Integer, Numeric, Time
from discreet.errors import DomainError
from discreet.inference import posterior

sys.path.append(str(Path(__file__).parents[3] / "tools"))

from verify_certificate.facts import cells_of

NUMBERS: list[dict[str, Any]] = [
    {"lower": 0, "upper": 100, "cells": 4, "atoms": [0, 10, 12.5, 25, 99.99, 100]},
    {"lower": 0.1, "upper": 1e6, "cells": 9, "spacing": "log", "atoms": [0.1, 1, 1000, 1e6]},
    {"lower": 0, "upper": 10, "cells": 3, "dtype": "float32", "atoms": [0, 2.5]},
    {"lower": 0, "upper": 10, "cells": 3, "step": 0.1, "atoms": [0, 0.3, 10]},
    {"lower": 0, "upper": 10, "cells": 3, "within": "midpoint", "atoms": [0, 5]},
]


def sides(column: Any, base: Any, values: Any) -> list[tuple[Any, ...]]:
    """Where each value lies: its cell without atoms, and on which side of each atom. The rule, in other words."""
    cells = base.encode(values)
    numbers, atoms = column.coordinates(pl.Series(values)), column.coordinates(pl.Series(column.atoms))
    return [(cell, *np.sign(x - atoms)) for cell, x in zip(cells.tolist(), numbers, strict=True)]


def check_cells(column: Any, base: Any, values: Any) -> None:
    """Codes rise with the values, two values share one exactly if they lie in the same place, and decoding agrees."""
    codes, places = column.encode(values), sides(column, base, values)
    assert np.all(np.diff(codes) >= 0)
    for one, other, place, next_place in zip(codes[:-1], codes[1:], places[:-1], places[1:], strict=True):
        assert (one == other) == (place == next_place)
    drawn = np.repeat(np.arange(column.values), 40)
    released = column.decode(drawn, rng=seeded(0))
    assert np.array_equal(column.encode(released), drawn)
    assert {*released.filter(np.isin(drawn, column.encode(pl.Series(column.atoms)))).to_list()} == {*column.atoms}
    assert np.all(np.diff(column.positions(np.arange(column.values))) > 0)
    low, high = column.ends(np.arange(column.values))
    assert np.all(low <= column.positions(np.arange(column.values)))
    assert np.all(high[:-1] <= low[1:])


@pytest.mark.parametrize("facts", NUMBERS)
def test_numbers_lie_where_the_rule_says(facts: dict[str, Any]) -> None:
    column, base = Numeric(**facts), Numeric(**{**facts, "atoms": ()})
    points = np.array([*base.edges, *column.atoms])
    points = np.concatenate((points, np.nextafter(points, -np.inf), np.nextafter(points, np.inf)))
    values = np.unique(points[(points >= column.lower) & (points <= column.upper)])
    check_cells(column, base, values)
    forgetful = SimpleNamespace(encode=base.encode, atoms=column.atoms, coordinates=column.coordinates)
    with pytest.raises(AssertionError):
        check_cells(forgetful, base, values)


@pytest.mark.parametrize(
    ("kind", "facts", "atoms"),
    [
        (Integer, {"lower": -5, "upper": 60, "cells": 7}, [-5, 0, 1, 60]),
        (Integer, {"lower": 1, "upper": 500, "cells": 9, "spacing": "log"}, [1, 2, 100]),
        (Decimal, {"lower": "0", "upper": "9.99", "digits": 2, "cells": 3}, ["0", "5.00"]),
        (Date, {"lower": "2020-01-01", "upper": "2020-12-31", "cells": 3}, ["2020-01-01", "2020-06-01"]),
        (Datetime, {"lower": "2020-01-01", "upper": "2020-01-09", "step": "1h", "cells": 3}, ["2020-01-02T12:00"]),
        (Duration, {"lower": "0s", "upper": "1h", "step": "1m", "cells": 2}, ["0s", "5m"]),
        (Time, {"step": "15m", "cells": 2}, ["07:30"]),
    ],
)
def test_points_lie_where_the_rule_says(kind: Any, facts: dict[str, Any], atoms: list[Any]) -> None:
    column, base, every = kind(**facts, atoms=atoms), kind(**facts), kind(**{**facts, "cells": None} | linear(facts))
    check_cells(column, base, every.decode(np.arange(every.values), rng=seeded(0)))
    assert len(column.atoms) == len(atoms)


def linear(facts: dict[str, Any]) -> dict[str, Any]:
    return {"spacing": "linear"} if "spacing" in facts else {}


def test_an_edge_that_is_an_atom_but_for_rounding_becomes_the_atom() -> None:
    column = Numeric(lower=0, upper=1, cells=10, atoms=[0.3, 0.7])
    assert np.linspace(0, 1, 11)[3] != 0.3
    assert column.size == 12
    assert column.encode([0.3, 0.2999, 0.3001]).tolist() == [3, 2, 4]


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (Numeric(lower=0, upper=9, cells=3, atoms=[9, 0, 0]), "atoms = [0.0, 9.0]"),
        (Date(lower="2020-01-01", upper="2020-12-31", cells=3, atoms=["2020-06-01"]), "atoms = [2020-06-01]"),
        (Date(lower="2020-01-01", upper="2020-12-31", atoms=[dt.date(2020, 6, 1)]), "atoms = [2020-06-01]"),
        (Decimal(lower="0", upper="9", digits=1, cells=3, atoms=[0]), 'atoms = ["0.0"]'),
        (Duration(lower="0s", upper="1h", step="1m", cells=2, atoms=["5m"]), 'atoms = ["5m"]'),
        (Time(step="1h", cells=2, atoms=["05:00"]), 'atoms = ["05:00:00"]'),
        (Numeric(lower=0, upper=1, step=0.1, atoms=[0.3]), "atoms = [0.3]"),
        (Numeric(lower=0, upper=1, atoms=[0]), "atoms = [0.0]"),
    ],
)
def test_they_are_written_and_read(column: Column, text: str) -> None:
    domain = Domain(columns={"x": column})
    assert text in domain.to_toml()
    assert Domain.from_toml(domain.to_toml()) == domain
    assert "atoms" not in Domain(columns={"x": Integer(lower=0, upper=9, cells=3)}).to_toml()


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        ({"atoms": [101]}, "an atom must be a value that the column can have, got 101"),
        ({"atoms": ["a"]}, "an atom must be a value that the column can have"),
        ({"atoms": [float("nan")]}, "an atom must be a value that the column can have"),
        ({"atoms": 0}, r"atoms must be a list of values, such as atoms = \[0\]"),
        ({"atoms": [0.1], "dtype": "float32"}, 'an atom must be a float32, unless dtype is "float64"'),
        ({"atoms": [0.15], "step": 0.1}, "an atom must be a value that the column can have"),
        ({"atoms": [2], "cells": None, "grid": [0, 1]}, "an atom must be a value that the column can have"),
    ],
)
def test_what_is_no_atom_is_refused(facts: dict[str, Any], problem: str) -> None:
    with pytest.raises(DomainError, match=problem):
        Numeric(**{"lower": 0, "upper": 100, "cells": 2} | facts)
    with pytest.raises(DomainError, match="an atom must be one that the column can have, got 101"):
        Integer(lower=0, upper=100, cells=2, atoms=[101])


def test_conditions_may_name_an_atom() -> None:
    columns = {"x": Numeric(lower=0, upper=9, cells=3, atoms=[0]), "y": Integer(lower=0, upper=1)}
    rules = [{"x": 0, "y": 1}, {"x": {"from": 3}, "y": 0}]
    (constraint,) = Domain(columns=columns, impossible=rules).constraints
    assert constraint.allowed.astype(int).tolist() == [[1, 0], [1, 1], [0, 1], [0, 1]]
    with pytest.raises(DomainError, match="lies within the cell from 0"):
        Domain(columns=columns, impossible=[{"x": 1, "y": 1}])


def test_the_second_program_counts_the_same_cells() -> None:
    rng = np.random.default_rng(0)
    for cells in range(1, 60):
        columns: list[Any] = [
            Numeric(lower=0, upper=1, cells=cells, atoms=rng.choice([0, 0.1, 0.25, 0.3, 1 / 3, 0.7, 1], 3).tolist()),
            Numeric(
                lower=1, upper=1000, cells=cells, spacing="log", atoms=rng.choice([1, 5, 10, 100, 1000], 3).tolist()
            ),
            Integer(lower=-5, upper=60, cells=cells, atoms=rng.integers(-5, 61, 2).tolist()),
            Integer(lower=1, upper=500, cells=cells, spacing="log", atoms=rng.integers(1, 500, 2).tolist()),
            Date(lower="2020-01-01", upper="2020-12-31", cells=cells, atoms=["2020-01-01", "2020-06-01"]),
            Time(step="15m", cells=cells, atoms=["00:00", "07:30"], nulls="category"),
        ]
        for column in columns:
            domain = Domain(columns={"x": column}).to_dict()["columns"]["x"]
            assert cells_of(json.loads(json.dumps(domain, default=lambda date: date.isoformat()))) == column.size


def test_a_share_at_an_atom_is_as_short_as_that_of_a_label() -> None:
    """Without the atom all that is known of a share at 0 is that of its cell."""
    rng, n = np.random.default_rng(0), 20_000
    x = np.where(rng.random(n) < 0.4, 0.0, np.minimum(rng.gamma(2, 10, n), 100))
    lengths = []
    for atoms in ([], [0]):
        domain = Domain(columns={"x": Numeric(lower=0, upper=100, cells=128, atoms=atoms)})
        options: dict[str, Any] = {"budget": Budget(epsilon=1, delta=1e-6), "size": n, "seed": 1}
        table = release(pl.DataFrame({"x": x}), domain, mechanism="hierarchical-histogram", **options)
        row = posterior(table).summary(["P(=0)"])["P(=0)"]
        assert row.lower <= (x == 0).mean() <= row.upper
        lengths.append(row.upper - row.lower)
    sampling, laplace = 2 * 1.96 * np.sqrt(0.24 / n), 2 * np.log(20) * 7 / n
    assert lengths[0] > 0.3
    assert lengths[1] < 1.15 * np.hypot(sampling, laplace)
    assert abs((table.records["x"] == 0).mean() - (x == 0).mean()) < 0.01


def test_marginals_keep_an_atom_and_a_plan_cuts_cells_around_it() -> None:
    rng, n = np.random.default_rng(0), 5000
    zero = rng.random(n) < 0.5
    table = pl.DataFrame({"x": np.where(zero, 0.0, 1 + 98 * rng.random(n)), "y": zero.astype(int)})
    columns = {"x": Numeric(lower=0, upper=100, cells=16, atoms=[0]), "y": Integer(lower=0, upper=1)}
    options: dict[str, Any] = {"budget": Budget(epsilon=2, delta=1e-6), "size": n, "seed": 1}
    records = release(table, Domain(columns=columns), mechanism="marginals", **options).records
    assert ((records["x"] == 0) == (records["y"] == 1)).mean() > 0.9
    continuous = Domain(columns={"x": Numeric(lower=0, upper=100, atoms=[0])})
    chosen = release(table.select("x"), continuous, mechanism="hierarchical-histogram", **options)
    assert chosen.certificate.to_dict()["domain"]["columns"]["x"]["atoms"] == [0.0]
    assert abs((chosen.records["x"] == 0).mean() - 0.5) < 0.05


def test_the_custodian_alone_learns_which_columns_have_heaps() -> None:
    """The remedy followed: no heap is left at what is declared. No heap is named that is not a public point."""
    table = pl.DataFrame(
        {
            "paid": [0.0] * 30 + [37.5] * 30 + [float(i) + 0.25 for i in range(40)],
            "day": [dt.date(2020, 1, 1)] * 50 + [None] * 50,
            "even": [float(i) + 0.5 for i in range(100)],
        }
    )
    columns: dict[str, Column] = {
        "paid": Numeric(lower=0, upper=100, cells=10),
        "day": Date(lower="2020-01-01", upper="2020-12-31", cells=4, nulls="category"),
        "even": Numeric(lower=0, upper=100, cells=10),
    }
    check = reveal_to_custodian(check_table(table, Domain(columns=columns)))
    assert check.fits
    assert check.hints.keys() == {"paid", "day"}
    assert check.hints["paid"].startswith("values in at least 5% of the rows each: 2, among them 0.0. ")
    assert "write: atoms = [2020-01-01]." in check.hints["day"]
    assert "37" not in str(check)
    declared = Domain(columns=columns).to_toml()
    for name, text in check.hints.items():
        line = text.partition("write: ")[2].partition("]")[0] + "]"
        declared = declared.replace(f"[columns.{name}]\n", f"[columns.{name}]\n{line}\n")
    after = reveal_to_custodian(check_table(table, Domain.from_toml(declared)))
    assert after.hints.keys() == {"paid"}
    assert after.hints["paid"].startswith("values in at least 5% of the rows each: 1. ")
