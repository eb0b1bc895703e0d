"""A dependency without a table: it is read from the noisy table, kept by all records, and listed in the outcome."""

import json
import subprocess
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

import discreet
from discreet import AddRemove, Budget, Replacement
from discreet._core.random import seeded
from discreet.domain import Boolean, Category, Counts, Domain, Integer, OpenLabels
from discreet.errors import DomainError, ParameterError
from discreet.mechanisms import Marginals
from discreet.mechanisms.latent_classes import Merged
from discreet.mechanisms.pair_losses import released_cells
from discreet.planner import plan
from discreet.privacy import Relation
from discreet.releases import read, verify

pytestmark = pytest.mark.filterwarnings("ignore:the release of")
BUDGET = Budget(epsilon=2.0, delta=1e-6)
ROOT = Path(__file__).parents[3]
COLUMNS: dict[str, Any] = {
    "country": Category(categories=["K", "L"]),
    "region": Category(categories=["r", "s", "t"], nulls="category"),
    "city": Category(categories=list("abcdefgh")),
    "size": Integer(lower=0, upper=49, cells=50),
    "flag": Boolean(),
}
CHAIN = [["city", "region"], ["region", "country"]]
DOMAIN = Domain(columns=COLUMNS, determines=CHAIN)


def table(n: int, wrong: float = 0.03) -> pl.DataFrame:
    """Cities of three regions, or of none, in two countries; a few records say otherwise."""
    rng = np.random.default_rng(5)
    city = rng.choice(8, n, p=[0.3, 0.2, 0.1, 0.1, 0.1, 0.1, 0.05, 0.05])
    region = np.where(rng.random(n) < wrong, rng.integers(0, 4, n), city // 2)
    country = np.array([0, 0, 1, 1])[region]
    return pl.DataFrame(
        {
            "country": np.array(["K", "L"])[country],
            "region": pl.Series(["r", "s", "t", None])[region],
            "city": np.array(list("abcdefgh"))[city],
            "size": np.clip(5 * city + rng.integers(0, 8, n), 0, 49),
            "flag": rng.random(n) < 0.2 + 0.1 * city,
        }
    )


FRAME = table(6000)


def followed(rows: pl.DataFrame, first: str, second: str) -> int:
    """How many values of one column go with more than one of another."""
    return rows.select(first, second).unique().height - rows[first].n_unique()


@pytest.mark.parametrize("relation", [Replacement(), AddRemove(records=6000)])
def test_every_record_follows_and_the_outcome_lists_the_map(relation: Any, tmp_path: Path) -> None:
    asked = {"budget": BUDGET, "mechanism": "marginals", "relation": relation, "size": 6000, "seed": 1}
    out = tmp_path / "out.csv"
    one = discreet.release(FRAME, DOMAIN, out=out, **asked)
    several = discreet.release(FRAME, DOMAIN, tables=3, **asked)
    maps = set()
    for release, tables in ((one, [one.table()]), (several, list(several.table()))):
        codes = [
            code.numbers for code in release.certificate.facts.released.outcome if code.name == "column-determined"
        ]
        listed = {code["column"]: dict(zip(code["cells"], code["values"], strict=True)) for code in codes}
        assert [(code["column"], code["determined"]) for code in codes] == list(map(tuple, CHAIN))
        for rows, (first, second) in [(rows, pair) for rows in tables for pair in CHAIN]:
            assert followed(rows, first, second) == 0
            pairs = rows.select(pl.col(first, second).fill_null("null")).unique().rows()
            assert dict(pairs).items() <= listed[first].items()
        maps.add(str(listed))
        assert listed["city"] == dict(zip("abcdefgh", ["r", "r", "s", "s", "t", "t", "null", "null"], strict=True))
    assert len(maps) == 1  # of one seed, whatever is drawn
    loose = discreet.release(FRAME, Domain(columns=COLUMNS), **asked).table()
    assert followed(loose, "city", "region") > 4
    assert all(check.agrees for check in verify(one.certificate, data=out))
    assert read(out).certificate.facts.domain["determines"] == CHAIN
    (file,) = tmp_path.glob("*certificate*")
    program = [sys.executable, str(ROOT / "tools" / "verify_certificate"), str(file)]
    assert subprocess.run(program, check=False, capture_output=True).returncode == 0
    without = json.loads(file.read_text())
    del without["domain"]["determines"]  # two more scores would have been paid for
    file.write_text(json.dumps(without))
    assert subprocess.run(program, check=False, capture_output=True).returncode != 0


def reading(domain: Domain, frame: pl.DataFrame, seed: int = 3, **facts: Any) -> Any:
    mechanism = Marginals.calibrated(BUDGET, domain=domain, n=frame.height, **facts)
    counts = Counts(records=domain.encode(frame), frequencies=np.ones(frame.height, dtype=np.int64))
    return mechanism.reading(mechanism.kernel(counts, rng=seeded(seed)), n=frame.height)


@pytest.mark.parametrize("order", [["city", "region", "flag"], ["region", "flag", "city"]])
def test_the_map_is_the_largest_cell_of_the_noisy_table(order: list[str]) -> None:
    domain = Domain(columns={name: COLUMNS[name] for name in order}, determines=["city", "region"])
    measured = reading(domain, table(400, wrong=0.4).select(order)).measured
    first, second = order.index("city"), order.index("region")
    pair = (min(first, second), max(first, second))
    assert pair in measured.noisy
    assert pair not in measured.facts.pairs  # it has no score
    assert [measured.choice.counts[i] for i in (first, second)] == [8, 4]  # no label is merged, as in a twin without it
    loose = reading(Domain(columns=domain.columns), table(400, wrong=0.4).select(order)).measured
    assert loose.choice.counts[first] < 8
    ((a, b, cell_of),) = measured.dependencies
    assert (a, b) == (first, second)
    counts = measured.noisy[pair] if first < second else measured.noisy[pair].T
    merged = [measured.choice.merged[i] for i in (first, second)]
    for cell, follows in enumerate(cell_of.tolist()):
        row = counts[merged[0].cell_of[cell]]
        assert row[merged[1].cell_of[follows]] == row.max()
    rows = measured.model(seeded(0))
    assert rows.dependencies == measured.dependencies


def test_labels_of_an_open_column_determine_and_new_ones_are_alike() -> None:
    domain = Domain(columns={**COLUMNS, "city": OpenLabels()}, determines=["city", "region"])
    rare = pl.Series([f"village {i}" for i in range(300)])
    frame = FRAME.with_columns(city=pl.concat([rare, FRAME["city"][300:]]))
    release = discreet.release(frame, domain, BUDGET, mechanism="marginals", size=3000, seed=2, accept={"poor-utility"})
    rows = release.table()
    assert followed(rows, "city", "region") == 0
    new = rows.filter(~pl.col("city").is_in(list("abcdefgh")))
    assert new.height > 50
    assert new["region"].n_unique() == 1
    with pytest.raises(DomainError, match="column 'city' has no cells. Declare its labels as a category"):
        Domain(columns={**COLUMNS, "city": OpenLabels()}, determines=["region", "city"])


def test_few_units_go_to_few_tables_and_none_that_has_no_score_is_paid_for() -> None:
    free = Marginals.calibrated(BUDGET, domain=Domain(columns=COLUMNS), n=6000)
    bound = Marginals.calibrated(BUDGET, domain=DOMAIN, n=6000)
    assert len(bound.pairs) == len(free.pairs) - 2
    both = [replace(mechanism, scale=100.0, units=400) for mechanism in (free, bound)]
    for name, epsilon in (("replacement", 1.0), ("add-remove", 1.0)):
        deltas = [mechanism.guarantee(Relation(name=name), n=6000).delta(epsilon) for mechanism in both]
        assert deltas[1] < deltas[0]
    units = [dict(reading(domain, FRAME).measured.choice.pairs) for domain in (DOMAIN, Domain(columns=COLUMNS))]
    assert set(units[0]) >= {(1, 2), (0, 1)}
    share = sum(units[0][pair] ** 2 for pair in ((1, 2), (0, 1))) / bound.allocation.remaining
    assert 0.15 < share <= 0.2  # of 40 %, half, as two of four tables
    text = str(plan(DOMAIN, BUDGET, records=6000, mechanisms=["marginals"], largest_sizes=False).notes)
    assert "2 pairs with a declared outcome or dependency are always measured, with 20% of the units" in text


@pytest.mark.parametrize(
    ("rules", "problem", "remedy"),
    [
        ({"determines": ["city", "nobody"]}, "'nobody' is not a column", {"determines": ["city", "flag"]}),
        ({"determines": ["nobody", "city"]}, "'nobody' is not a column", {"determines": ["flag", "city"]}),
        ({"determines": ["city", "region", "country"]}, "Write one pair for each", {"determines": CHAIN}),
        ({"determines": [["city", "flag"], ["flag", "city"]]}, "or by itself", {"determines": [["city", "flag"]]}),
        ({"determines": [["city", "flag"], ["region", "flag"]]}, "determined twice", {"determines": ["city", "flag"]}),
        ({"determines": ["city", "size"], "impossible": [{"size": 1, "flag": True}]}, "under another rule", {}),
        (
            {
                "determines": ["city", "flag"],
                "totals": [{"column": "flag", "source": "census", "counts": [[True, 1], [False, 2]]}],
            },
            "or is under another rule or totals. Leave one of them out",
            {"determines": ["city", "flag"]},
        ),
    ],
)
def test_what_could_not_be_kept_is_refused(rules: Any, problem: str, remedy: Any) -> None:
    columns = {name: column for name, column in COLUMNS.items() if "K" not in str(column)}
    with pytest.raises(DomainError, match=problem):
        Domain(columns=columns, **rules)
    Domain(columns=COLUMNS, **remedy)


def test_it_is_kept_with_rules_and_totals_on_what_determines() -> None:
    domain = Domain(
        columns=COLUMNS,
        determines=["city", "region"],
        impossible=[{"city": "a", "flag": True}],
        totals=[{"column": "country", "source": "census", "counts": {"K": 3000, "L": 3000}}],
    )
    rows = discreet.release(FRAME, domain, BUDGET, mechanism="marginals", size=2000, seed=1).table()
    assert followed(rows, "city", "region") == 0
    assert rows.filter(city="a", flag=True).height == 0
    with pytest.raises(ParameterError, match="given names 'region', which follows from another column"):
        Marginals.calibrated(BUDGET, domain=domain, n=6000, given='region = "r"')
    Marginals.calibrated(BUDGET, domain=domain, n=6000, given='city = "a"')  # as the remedy says


def test_other_mechanisms_refuse_it() -> None:
    small = Domain(columns={name: COLUMNS[name] for name in ("city", "region")}, determines=["city", "region"])
    with pytest.raises(
        ParameterError, match=r"does not keep what the domain declares under determines\. Use marginals"
    ):
        discreet.release(FRAME.select(small.names), small, Budget(epsilon=1.0), size=9, mechanism="smoothed-histogram")


def test_a_folder_by_what_is_determined_follows_too(tmp_path: Path) -> None:
    out = discreet.Output(tmp_path / "parts", partitions=3, partition_by="country")
    discreet.release(FRAME, DOMAIN, BUDGET, mechanism="marginals", size=4000, seed=1, out=out)
    rows = pl.read_parquet(tmp_path / "parts" / "**" / "*.parquet", hive_partitioning=True)
    assert rows.height == 4000
    for first, second in CHAIN:
        assert followed(rows, first, second) == 0


OUTCOMES: list[tuple[list[str], list[list[str]], int]] = [
    (["c0"], [["c1", "c2"]], 1),  # the pair is measured, and the outcome is drawn given what follows too
    (["c0"], [["c1", "c2"], ["c2", "c3"]], 1),
    (["c0"], [["c1", "c2"], ["c1", "c3"]], 1),
    (["c2"], [["c1", "c2"]], 0),  # the outcome follows
    (["c1"], [["c1", "c2"]], 0),  # something follows from the outcome
    (["c2"], [["c1", "c2"], ["c2", "c3"]], 0),
    (["c1", "c2"], [["c1", "c2"]], 0),
    (["c0", "c2"], [["c1", "c2"]], 1),
    (["c0", "c1"], [["c1", "c2"], ["c1", "c3"]], 1),
    (["c0", "c1", "c4"], [["c1", "c2"]], 2),
    (["c0", "c2", "c3"], [["c1", "c2"], ["c2", "c3"]], 1),
]


@pytest.mark.parametrize("case", range(len(OUTCOMES)))
def test_outcomes_and_what_follows_are_declared_together(case: int) -> None:
    outcome, determines, last = OUTCOMES[case]
    relation = (Replacement(), AddRemove(records=5000))[case % 2]
    columns = {f"c{i}": Integer(lower=0, upper=9) for i in range(5)}
    domain = Domain(columns=columns, outcome=outcome, determines=determines)
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 10, (5000, 5))
    codes[:, 0] = np.where(rng.random(5000) < 0.8, codes[:, 1], codes[:, 0])
    for first, second in [[int(name[1]) for name in pair] for pair in determines]:
        codes[:, second] = codes[:, first] // 2
    frame = pl.DataFrame(codes, schema=list(columns), orient="row")
    asked = {"budget": Budget(epsilon=3.0, delta=1e-6), "mechanism": "marginals", "seed": 1, "accept": {"poor-utility"}}
    for tables in ({}, {"tables": 2}):
        released = discreet.release(frame, domain, relation=relation, size=1500, **asked, **tables).table()
        for rows in released if tables else [released]:
            for first, second in determines:
                pairs = rows.select(first, second).unique()
                assert pairs.filter(pl.col(second) != pl.col(first) // 2).height == 0
            if "c0" in outcome:  # 0.82 in the confidential table
                assert float((rows["c0"] == rows["c1"]).mean()) > (0.5 if tables else 0.7)
    measured = reading(domain, frame).measured
    assert len(measured.last) == last  # of those, and no others, tables of three columns are measured
    assert (measured.choice.three_way is not None) == (last > 0)
    assert len(measured.model(seeded(0)).last) == last


def slots_read(*slots: tuple[list[int], list[float], list[list[float]]]) -> list[int]:
    """The map that is read from tables of two slots, each with groups and shares of what follows, and its table."""
    levels: dict[int, Merged] = {}
    one_way: dict[int, Any] = {}
    noisy = {}
    for slot, (groups, shares, counts) in enumerate(slots):
        pair = (2 * slot, 2 * slot + 1)
        levels |= {pair[0]: Merged(np.arange(2), 2), pair[1]: Merged(np.array(groups), max(groups) + 1)}
        for i, values in zip(pair, ([0.5, 0.5], shares), strict=True):
            one_way[i] = SimpleNamespace(shares=lambda _, values=values: np.array(values))
        noisy[pair] = np.array(counts)
    choice = SimpleNamespace(cells=lambda pair: [levels[i] for i in pair], expected=lambda *_: None)
    measured: Any = SimpleNamespace(choice=choice, noisy=noisy, one_way=one_way, total=1000.0)
    return released_cells(measured, sorted(noisy)).tolist()


def test_slots_that_share_a_merged_cell_do_not_divide_it() -> None:
    counts = [[100.0, 60.0, -5.0], [3.0, 50.0, 90.0]]
    first, second = ([0, 0, 1, 2], [0.32, 0.30, 0.2, 0.18], counts), ([0, 0, 1, 2], [0.30, 0.31, 0.2, 0.19], counts)
    assert slots_read(first) == [0, 3]
    assert slots_read(second) == [1, 3]
    assert slots_read(first, second) == [0, 3]  # 200 against 120, and of the two the one with the larger share in all
    # what the one slot merges, the other may tell apart
    parts = ([0, 1, 2, 3], [0.30, 0.31, 0.2, 0.19], [[5.0, 60.0, 70.0, 1.0], [3.0, 4.0, 5.0, 90.0]])
    assert slots_read(first, parts) == [1, 3]


def test_all_small_maps_are_the_largest_sums() -> None:
    """By enumeration: three cells, every way to merge them in either slot, and random counts."""
    shares = ([0.5, 0.3, 0.2], [0.1, 0.5, 0.4])
    merged = [[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0], [0, 1, 2]]
    rng = np.random.default_rng(2)
    for groups in product(merged, repeat=2):
        for _ in range(20):
            counts = [rng.integers(-3, 9, (2, max(group) + 1)).astype(np.float64).tolist() for group in groups]
            slots = list(zip(groups, shares, counts, strict=True))
            for some in (slots[:1], slots[1:], slots):
                mass = [sum(part[cell] for _, part, _ in some) for cell in range(3)]
                places = [[group[cell] for group, _, _ in some] for cell in range(3)]
                for row, cell in enumerate(slots_read(*some)):
                    sums = [sum(c[row][group[k]] for group, _, c in some) for k in range(3)]
                    assert sums[cell] == max(sums)
                    assert mass[cell] == max(mass[k] for k in range(3) if places[k] == places[cell])
