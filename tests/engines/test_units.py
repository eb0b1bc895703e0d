"""Units are cut where the table is, by the law assumed: uniformly, each by itself, and the same when repeated."""

import math
from collections import Counter
from typing import Any

import numpy as np
import polars as pl
import pytest
from test_engine_cells import ENGINES, tally

from discreet import Unit
from discreet._core.random import seeded
from discreet.confidential import confidential
from discreet.confidential import units as units_module
from discreet.confidential.closed import reveal
from discreet.confidential.count import public_size
from discreet.domain import Category, Counts, Domain, Integer, Numeric, OpenLabels
from discreet.errors import DataError

pytestmark = pytest.mark.filterwarnings("ignore")

KEYED = [pytest.param(name, marks=pytest.mark.engines) for name in ("dask", "pyspark")]
VISITS = Domain(columns={"v": Integer(lower=0, upper=9, nulls="category")})
UNITS, LEVEL = 30_000, 4.9  # standard errors: false alarms are rarer than 1e-6


def cut(data: Any, slots: int, *, domain: Domain = VISITS, seed: int = 0) -> Counts:
    counts = reveal(confidential(data, domain, unit=Unit("who", max_records=slots), rng=seeded(seed)))
    assert isinstance(counts, Counts)
    return counts


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", [pl.Int64, pl.String, pl.Date, pl.Float64])
def test_slots_and_units(engine: str, kind: Any, put: Any) -> None:
    rng = np.random.default_rng(5)
    frame = pl.DataFrame({"who": rng.integers(0, 40, 300), "v": rng.integers(0, 10, 300)})
    held = frame.group_by("who").len()["len"]
    data = put(frame.with_columns(pl.col("who").cast(pl.Int32).cast(kind)), engine)
    for slots in (1, 5, 300):
        closed = confidential(data, VISITS, unit=Unit("who", max_records=slots))
        counts = reveal(closed)
        assert public_size(closed) == len(held) * slots
        assert counts.n - tally(counts)[10,] == held.clip(upper_bound=slots).sum()
        assert tally(reveal(closed.provenance.rows)) == tally(reveal(confidential(frame.select("v"), VISITS)))  # type: ignore[union-attr,arg-type]


@pytest.mark.parametrize("engine", ENGINES)
def test_which_rows_stay_is_uniform_however_often_a_row_occurs(engine: str, put: Any, raw: list[str]) -> None:
    """Rows 0, 0, 1: one that stays is a 0 in two cases of three; of two that stay, both are 0 in one of three.

    Each unit is an independent draw. A cut that orders distinct rows only, and so takes equal rows together, would
    leave a 0 in half of the cases: 5,000 units, or 61 standard errors, away.
    """
    units = 3000 if engine == "pyspark" else UNITS
    frame = pl.DataFrame({"who": np.repeat(np.arange(units), 3), "v": np.tile([0, 0, 1], units)})
    data = put(frame, engine)
    deviation = LEVEL * math.sqrt(units * 2 / 9)
    one = tally(cut(data, 1))
    assert one.total() == units
    assert abs(one[0,] - units * 2 / 3) < deviation
    two = tally(cut(data, 2, seed=1))
    assert two.total() == 2 * units
    assert abs(two[1,] - units * 2 / 3) < deviation
    assert not raw


@pytest.mark.parametrize("engine", KEYED)
def test_the_cut_is_the_same_when_it_is_repeated_and_unknown_before(engine: str, put: Any) -> None:
    rng = np.random.default_rng(2)
    frame = pl.DataFrame({"who": rng.integers(0, 50, 1000), "v": rng.integers(0, 10, 1000)})
    first = tally(cut(put(frame, engine), 3, seed=7))
    again = put(
        frame.sample(fraction=1, shuffle=True, seed=1), engine
    )  # a task that is run again has rows as they come
    assert tally(cut(again, 3, seed=7)) == first
    assert any(tally(cut(put(frame, engine), 3, seed=seed)) != first for seed in (8, 9))


@pytest.mark.parametrize("engine", KEYED)
def test_no_unit_has_a_part_in_the_cut_of_another(engine: str, put: Any) -> None:
    """Neighbouring tables, one key: all but one unit keep the same rows, so at most its slots differ."""
    rng = np.random.default_rng(3)
    frame = pl.DataFrame({"who": rng.integers(0, 20, 600), "v": rng.integers(0, 10, 600)})
    mine = frame["who"] == 0
    for other in (frame.filter(~mine), frame.with_columns(v=pl.when(mine).then(9 - pl.col("v")).otherwise("v"))):
        a, b = tally(cut(put(frame, engine), 4)), tally(cut(put(other, engine), 4))
        changed = sum(abs(a[cell] - b[cell]) for cell in {*a, *b})
        assert changed <= 8


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_without_a_unit_are_refused(engine: str, put: Any) -> None:
    frame = pl.DataFrame({"who": [1, None, 2], "v": [1, 2, 3]})
    with pytest.raises(DataError, match="holds a null, so a row has no privacy unit"):
        cut(put(frame, engine), 2)
    with pytest.raises(DataError, match="outside"):
        cut(put(pl.DataFrame({"who": [1, 2], "v": [1, 77]}), engine), 2)


@pytest.mark.parametrize("engine", ENGINES)
def test_columns_may_be_called_what_engines_call_their_own(engine: str, put: Any, raw: list[str]) -> None:
    """All rows of a unit are alike, and so are those that stay, whatever they are called on the way."""
    names = ["c1", "u", "f", "i", "place", "h", "held", "firsts", "unnamed", "c0", "a'`b"]
    names += ["x.y", "arrow.u", 'a"; --'] if engine in ("duckdb", "ibis") else []
    domain = Domain(columns={name: Integer(lower=0, upper=99, nulls="category") for name in names})
    units = {name: [20 + place, 20 + place, 20 + place, 50 + place] for place, name in enumerate(names)}
    frame = pl.DataFrame({"who": ["p", "p", "p", "q"], **units})
    found = tally(cut(put(frame, engine), 2, domain=domain))
    assert not raw
    null = tuple(100 for _ in names)
    assert found == {tuple(range(20, 20 + len(names))): 2, tuple(range(50, 50 + len(names))): 1, null: 1}


@pytest.mark.parametrize("engine", ENGINES)
def test_units_beside_labels_and_numbers(engine: str, put: Any) -> None:
    domain = Domain(
        columns={
            "town": OpenLabels(nulls="category"),
            "x": Numeric(lower=-1, upper=1, nulls="category"),
            "sex": Category(categories=["f", "m"], nulls="category"),
        }
    )
    frame = pl.DataFrame(
        {
            "town": ["a|b", "a", None, "é", "e\u0301", "é"] * 20,
            "x": [0.5, -0.0, 0.0, None, 0.25, 1.0] * 20,
            "sex": ["f", "m", None, "f", "f", "m"] * 20,
            "who": np.repeat(["p|", "q", "", "r"], 30),
        }
    )
    whole = cut(put(frame, engine), 30, domain=domain)
    assert tally(whole) == tally(reveal(confidential(frame, domain, accept={"other-columns"})))
    few = cut(put(frame, engine), 5, domain=domain)
    assert few.n == 20
    assert not tally(few) - tally(whole)


def test_what_is_held_of_a_stream_is_what_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory holds the slots of units, and what is not merged yet; never the rows of a table."""
    monkeypatch.setattr("discreet.confidential.source._MOST_PARTS", 100)
    monkeypatch.setattr("discreet.confidential.frames.BATCH", 64)
    held = []
    merged = units_module.Slots._merged

    def watched(self: Any, parts: list[pl.DataFrame]) -> Any:
        held.append(sum(part.height for part in parts))
        return merged(self, parts)

    monkeypatch.setattr(units_module.Slots, "_merged", watched)
    frame = pl.DataFrame({"who": np.arange(5000) % 10, "v": np.arange(5000) % 10})
    counts = cut(frame, 2)
    assert tally(counts) == Counter({(v,): 2 for v in range(10)})
    assert len(held) > 10
    assert max(held) <= 20 + 100 + 64


def test_a_view_that_draws_at_random_is_read_once() -> None:
    """Its units are new whenever it is read: a cut that joined two readings would lose nearly all of them."""
    connection = pytest.importorskip("duckdb", reason="DuckDB is not installed").connect()
    view = connection.sql("SELECT CAST(random() * 1e12 AS BIGINT) AS who, 3 AS v FROM range(1000)")
    assert tally(cut(view, 2))[3,] == 1000
