"""Rules on combinations: order, at_most, nulls_together and possible, compiled to what is allowed, and released."""

from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import numpy as np
import polars as pl
import pytest

import discreet
from discreet import AddRemove, Budget, Replacement
from discreet._core.random import seeded
from discreet.domain import Boolean, Category, Date, Datetime, Decimal, Domain, Duration, Integer, Numeric, Records
from discreet.errors import DomainError, ParameterError


def small(**columns: int) -> dict[str, Any]:
    return {name: Integer(lower=0, upper=size - 1, nulls="category") for name, size in columns.items()}


def kept(domain: Domain) -> set[tuple[Any, ...]]:
    """Every record that a domain allows, a null as None."""
    codes = domain.unflat(np.arange(domain.size or 0))
    frame = domain.decode(codes, rng=seeded(0)).filter(pl.Series(domain.allowed(codes)))
    return set(frame.rows())


def every(domain: Domain) -> list[tuple[Any, ...]]:
    return list(product(*([*range(column.upper + 1), None] for column in domain.columns.values())))  # type: ignore[attr-defined]


def in_order(*values: Any) -> bool:
    return all(a is None or b is None or a <= b for a, b in pairwise(values))


@pytest.mark.parametrize(
    ("rules", "fits"),
    [
        ({"order": ["a", "b", "c"]}, in_order),
        ({"order": [["c", "a"], ["c", "b"]]}, lambda a, b, c: in_order(c, a) and in_order(c, b)),
        ({"at_most": {"b": "a", "c": "a"}}, lambda a, b, c: in_order(b, a) and in_order(c, a)),
        ({"nulls_together": ["a", "c", "b"]}, lambda a, b, c: len({x is None for x in (a, b, c)}) == 1),
        (
            {"possible": [{"c": 0, "a": [0, 1]}, {"a": {"null": True}, "c": [1, 2]}]},
            lambda a, b, c: (c == 0 and a in (0, 1)) or (a is None and c in (1, 2)),
        ),
        ({"possible": [{"a": [0, 1, 2], "b": 0}], "order": ["a", "b"]}, lambda a, b, c: a == 0 == b),
    ],
)
def test_what_rules_allow_by_hand(rules: dict[str, Any], fits: Any) -> None:
    domain = Domain(columns=small(a=3, b=4, c=3), **rules)
    assert kept(domain) == {record for record in every(domain) if fits(*record)}
    assert Domain.from_toml(domain.to_toml()) == domain == Domain.from_dict(domain.to_dict())
    free = Domain(columns=domain.columns)
    assert kept(free) != kept(domain)
    assert free != domain


INTERVALS = {
    "low": Numeric(lower=0, upper=4, cells=4, nulls="category"),
    "middle": Numeric(lower=0, upper=8, cells=8, nulls="category"),
    "high": Numeric(lower=0, upper=8, cells=8, nulls="category"),
}


def test_values_of_one_cell_are_put_in_order() -> None:
    domain = Domain(columns=INTERVALS, order=["low", "middle", "high"])
    codes = domain.unflat(np.repeat(np.arange(domain.size or 0), 20))
    codes = Records(columns=tuple(column[domain.allowed(codes)] for column in codes.columns))
    frame = domain.decode(codes, rng=seeded(1))
    assert all(in_order(*row) for row in frame.rows())
    again = domain.encode(frame)
    assert all((a == b).all() for a, b in zip(again.columns, codes.columns, strict=True))
    loose = Domain(columns=INTERVALS).decode(codes, rng=seeded(1))
    assert not all(in_order(*row) for row in loose.rows())


def test_cells_that_overlap_in_part_are_refused() -> None:
    columns = {"low": Numeric(lower=0, upper=4, cells=4), "high": Numeric(lower=0, upper=5, cells=4)}
    with pytest.raises(DomainError, match=r"order: cells of the columns 'low', 'high' overlap in part"):
        Domain(columns=columns, order=["low", "high"])
    columns["high"] = Numeric(lower=0, upper=5, cells=5)  # as the remedy says
    Domain(columns=columns, order=["low", "high"])


MOMENTS = {"lower": "2020-01-01T00:00", "upper": "2020-01-01T06:00", "step": "1h"}
ZONED = Datetime(**MOMENTS, time_zone="Europe/Paris")


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (Decimal(lower="0", upper="0.20", digits=2), Decimal(lower="0", upper="0.4", digits=1)),
        (Decimal(lower="0", upper="0.4", digits=1), Integer(lower=0, upper=2)),
        (Integer(lower=0, upper=2), Numeric(lower=0, upper=2, step=0.5)),
        (Integer(lower=2**60, upper=2**60 + 3), Integer(lower=2**60 + 1, upper=2**60 + 4)),  # one float for all
        (ZONED, Datetime(**MOMENTS, time_zone="UTC")),
    ],
)
def test_values_of_unlike_columns_are_compared_exactly(low: Any, high: Any) -> None:
    domain = Domain(columns={"low": low, "high": high}, order=["low", "high"])
    everything = Domain(columns=domain.columns).decode(domain.unflat(np.arange(domain.size or 0)), rng=seeded(0))
    records = kept(domain)
    assert records == {record for record in everything.rows() if in_order(*record)}
    assert 0 < len(records) < everything.height


@pytest.mark.parametrize(
    ("low", "high", "problem"),
    [
        (Date(lower="2020-01-01", upper="2020-01-06"), Datetime(**MOMENTS), "hold Date and Datetime"),
        (ZONED, Datetime(**MOMENTS), "which have no common order"),
        (Duration(lower="0s", upper="2h", step="1h"), Integer(lower=0, upper=2), "hold Duration and number"),
        # values of one cell could not be exchanged: they are of different types, zones or steps
        (Integer(lower=0, upper=3, cells=1), Numeric(lower=0, upper=3, cells=1), "or hold other values"),
        (Numeric(lower=0, upper=4, cells=2), Numeric(lower=0, upper=4, cells=2, dtype="float32"), "other values"),
        (Numeric(lower=0, upper=4, cells=2, step=0.5), Numeric(lower=0, upper=4, cells=2, step=0.2), "other values"),
        (
            Datetime(**MOMENTS, cells=2, time_zone="UTC"),
            Datetime(lower="2020-01-01T01:00", upper="2020-01-01T07:00", step="1h", cells=2, time_zone="Europe/Paris"),
            "other values",
        ),
    ],
)
def test_columns_that_no_order_can_hold_for_are_refused(low: Any, high: Any, problem: str) -> None:
    with pytest.raises(DomainError, match=problem):
        Domain(columns={"low": low, "high": high}, order=["low", "high"])
    Domain(columns={"low": high, "high": replace(high)}, order=["low", "high"])  # of one type, as the remedy says


def test_columns_in_a_circle_are_refused_where_cells_hold_several_values() -> None:
    rules: dict[str, Any] = {"order": ["low", "middle", "high"], "at_most": {"high": "low"}}
    with pytest.raises(DomainError, match="'low', 'middle', 'high' in a circle"):
        Domain(columns=dict.fromkeys(INTERVALS, INTERVALS["low"]), **rules)
    assert kept(Domain(columns=small(low=3, middle=3, high=3), **rules)) >= {(1, 1, 1), (None, 2, 2)}  # as it says


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        ({"order": ["a"]}, "must be a list of different columns"),
        ({"order": ["a", "a"]}, "must be a list of different columns"),
        ({"order": [["a", "b"], "c"]}, "must be a list of different columns"),
        ({"order": ["a", "nobody"]}, "'nobody' is not a column"),
        ({"order": ["a", "label"]}, "column 'label' has no order. Leave it out"),
        ({"at_most": {"a": 3}}, "declare that number as its upper bound"),
        ({"at_most": ["a", "b"]}, "at_most must be a table of columns"),
        ({"nulls_together": ["a", "flag"]}, "column 'flag' has no nulls"),
        ({"possible": {"a": 1}}, "must be a list of tables"),
        ({"possible": [{"a": 9}]}, "possible: column 'a'"),
        ({"order": ["a", "b"], "impossible": [{"a": 0}, {"b": [2, 3, {"null": True}]}]}, None),
    ],
)
def test_rules_that_do_not_fit_are_refused(rules: dict[str, Any], problem: str | None) -> None:
    columns = small(a=3, b=4) | {"label": Category(categories=["x", "y"]), "flag": Boolean()}
    with pytest.raises(DomainError, match=problem):
        Domain(columns=columns, **rules)


WORLD = Domain(
    columns={
        "collected": Date(lower="2020-01-01", upper="2020-03-01"),
        "received": Date(lower="2020-01-01", upper="2020-03-10"),
        "price": Numeric(lower=0, upper=20, cells=20, nulls="category"),
        "discount": Numeric(lower=0, upper=10, cells=10, nulls="category"),
        "kind": Category(categories=["gift", "sale"]),
    },
    order=["collected", "received"],
    at_most={"discount": "price"},
    nulls_together=["price", "discount"],
    possible=[{"kind": "sale", "price": {"from": 0}}, {"kind": "gift", "price": {"null": True}}],
)


def world(n: int) -> pl.DataFrame:
    """Records of which one in twenty breaks a rule."""
    rng = np.random.default_rng(3)
    collected = rng.integers(0, 61, n)
    received = np.clip(collected + rng.integers(-1, 12, n), 0, 69)
    price, start = rng.uniform(0, 20, n), np.datetime64("2020-01-01")
    discount, gift = np.minimum(price * rng.random(n) * 1.05, 9.99), rng.random(n) < 0.2
    frame = pl.DataFrame({"collected": start + collected, "received": start + received})
    kinds = np.where(gift, "gift", "sale")
    frame = frame.with_columns(price=price, discount=discount, kind=pl.Series(kinds))
    return frame.with_columns(pl.when(pl.col("kind") == "sale").then(pl.col("price", "discount")))


def contradictions(rows: pl.DataFrame) -> int:
    col = pl.col
    wrong = [
        col("collected") > col("received"),
        col("discount") > col("price"),
        col("discount").is_null() != col("price").is_null(),
        (col("kind") == "gift") != col("price").is_null(),
    ]
    return rows.filter(pl.any_horizontal(rule.fill_null(value=False) for rule in wrong)).height


@pytest.mark.filterwarnings("ignore:the release of")
@pytest.mark.parametrize("relation", [Replacement(), AddRemove(records=3000)])
def test_every_released_record_keeps_all_rules(relation: Any) -> None:
    table = world(3000)
    assert contradictions(table) > 60
    asked = {"budget": Budget(epsilon=1.0, delta=1e-5), "mechanism": "marginals", "relation": relation}
    one = discreet.release(table, WORLD, size=4000, **asked)
    several = discreet.release(table, WORLD, size=500, tables=3, **asked)
    rows = one.table()
    for released in (rows, *several.table()):
        assert contradictions(released) == 0
    shuffled = pl.DataFrame([column.shuffle(seed=i) for i, column in enumerate(rows.iter_columns())])
    assert contradictions(shuffled) > 100


def test_other_mechanisms_refuse_rules_by_name() -> None:
    domain = Domain(columns=small(a=3, b=4), order=["a", "b"])
    table = pl.DataFrame({"a": [0, 1, 2] * 100, "b": [0, 1, 3] * 100})
    with pytest.raises(ParameterError, match=r"does not keep what the domain declares under order\. Use marginals"):
        discreet.release(table, domain, Budget(epsilon=1.0), size=10, mechanism="dirichlet-multinomial")
