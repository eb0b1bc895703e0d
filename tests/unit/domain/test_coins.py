"""A coin splits each cell: the mean of what coins say is that of the values, and each record has a coin of its own."""

import datetime as dt
import functools
import itertools
import json
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import discreet
from discreet import Budget, Unit, release
from discreet._core.random import seeded
from discreet.confidential import confidential
from discreet.confidential.closed import reveal
from discreet.confidential.public import with_public
from discreet.domain import (
    Column,
    Counts,
    Date,
    Decimal,
    Domain,
    Integer,
    Numeric,
    Records,
    cell_span,
    coin_codes,
    coin_ends,
)
from discreet.errors import DomainError, NotPublic, ParameterError
from discreet.inference import Posterior
from discreet.mechanisms import HierarchicalHistogram
from discreet.privacy import Relation

sys.path.append(str(Path(__file__).parents[3] / "tools"))

from verify_certificate.facts import cells_of

BUDGET = Budget(epsilon=1, delta=1e-6)
COLUMNS: dict[str, tuple[Column, list[Any]]] = {
    "numbers": (Numeric(lower=0, upper=10, cells=2, coin=True), [0.0, 1.25, 4.999, 5.0, 9.0, 10.0]),
    "atoms": (Numeric(lower=0, upper=10, cells=2, coin=True, atoms=[0, 7]), [0.0, 0.5, 4.0, 6.9, 7.0, 7.1, 10.0]),
    "logarithm": (Numeric(lower=1, upper=1000, cells=3, spacing="log", coin=True), [1.0, 2.0, 500.0, 1000.0]),
    "clipped": (Numeric(lower=0, upper=10, cells=2, coin=True, out_of_bounds="clip"), [0.0, 3.0, 8.0]),
    "nulls": (Numeric(lower=0, upper=10, cells=2, coin=True, nulls="category"), [1.0, None, 3.0]),
    "integers": (Integer(lower=0, upper=9, cells=4, coin=True, atoms=[0]), [*range(10)]),
    "decimals": (Decimal(lower="0", upper="9.9", digits=1, cells=4, coin=True), ["0.3", "4.4", "9.9"]),
    "days": (Date(lower="2020-01-01", upper="2020-12-31", cells=5, coin=True), [dt.date(2020, 2, 3)]),
}  # fmt: skip


class Dial(np.random.Generator):
    """A generator of one number."""

    def __init__(self, number: float) -> None:
        super().__init__(np.random.PCG64(0))
        self.number = number

    def random(self, size: Any = None, **_: Any) -> Any:  # type: ignore[override]
        return np.full(size, self.number)


def mean_of_coins(column: Column, values: pl.Series, coin: Callable[..., Any] = coin_codes) -> Any:
    """The mean end over all coins, to a thousandth of a cell: the coin is the only thing that is drawn."""
    values = column.read(values)
    codes = column.encode(values)
    return np.mean(
        [coin_ends(column, coin(column, codes, values, Dial((i + 0.5) / 1000))) for i in range(1000)], axis=0
    )


@pytest.mark.parametrize("name", COLUMNS)
def test_the_mean_end_is_the_value(name: str) -> None:
    column, listed = COLUMNS[name]
    values = column.read(pl.Series(listed))
    truth = np.full(len(values), np.nan)
    truth[values.is_not_null().to_numpy()] = column.coordinates(values.drop_nulls())
    low, high = (column.ends(codes) for codes in cell_span(column, column.encode(values)))
    widths = high[1] - low[0]
    assert np.allclose(mean_of_coins(column, values), truth, atol=1.001e-3 * np.nanmax(widths), rtol=0, equal_nan=True)

    def halves(column: Column, codes: Any, *_: Any) -> Any:  # a deterministic coin: the half that holds the value
        return codes

    with pytest.raises(AssertionError):
        assert np.allclose(mean_of_coins(column, values, halves), truth, atol=1e-2 * np.nanmax(widths), equal_nan=True)


@pytest.mark.parametrize("name", COLUMNS)
def test_nothing_leaves_its_cell_and_released_values_have_their_codes(name: str) -> None:
    column: Any = COLUMNS[name][0]
    drawn = np.repeat(np.arange(column.size), 50)
    values = column.decode(drawn, rng=seeded(0))
    assert np.array_equal(column.encode(values), drawn)
    codes = coin_codes(column, drawn, values, seeded(1))
    for end, own in zip(cell_span(column, codes), cell_span(column, drawn), strict=True):
        assert np.array_equal(end, own)
    alone = column.halves[drawn] < 0
    assert np.array_equal(codes[alone], drawn[alone])
    assert {*np.unique(codes)} == {*range(column.size)}
    domain = Domain(columns={"x": column})
    assert Domain.from_toml(domain.to_toml()) == domain
    assert "coin = true" in domain.to_toml()
    plain = json.loads(json.dumps(domain.to_dict()["columns"]["x"], default=lambda date: date.isoformat()))
    assert cells_of(plain) == column.size


@pytest.mark.parametrize("form", ["frame", "lazy", "parquet", "csv", "integers", "units"])
def test_equal_values_have_a_coin_each(form: str, tmp_path: Path) -> None:
    """One coin for all equal values, or a hash of the value, would give 0 or 4,000; 6 standard deviations."""
    column: Any = Numeric(lower=0, upper=10, cells=2, coin=True, nulls="category")
    data: Any = pl.DataFrame({"x": [1.25] * 4000, "person": [*range(4000)]})
    options: dict[str, Any] = {"accept": {"other-columns"}}
    if form == "integers":
        column, data = Integer(lower=0, upper=9, cells=2, coin=True), data.with_columns(x=pl.lit(1))
    if form == "units":
        options = {"unit": Unit("person", max_records=1)}
    if form in ("parquet", "csv"):
        file = tmp_path / f"x.{form}"
        getattr(data, f"write_{form}")(file)
        data = file
    data = data.lazy() if form == "lazy" else data
    domain = Domain(columns={"x": column})
    closed = [confidential(data, domain, rng=seeded(seed), **options) for seed in (0, 0, 1)]
    pairs = [(reveal(part).records.columns[0].tolist(), reveal(part).frequencies.tolist()) for part in closed]
    counts = [dict(zip(*pair, strict=True)) for pair in pairs]
    assert counts[0] == counts[1] != counts[2]
    assert counts[0].keys() == {0, 1}
    assert sum(counts[0].values()) == 4000
    assert abs(counts[0][1] - 1000) < 6 * math.sqrt(4000 * 0.25 * 0.75)
    assert closed[0].provenance is not None
    assert closed[0].provenance.seeded
    assert not confidential(data, domain, **options).provenance.seeded  # type: ignore[union-attr]


# -- privacy, by enumeration -------------------------------------------------------------------------------------------

TOY = Domain(columns={"x": Numeric(lower=0, upper=1, cells=1, coin=True)})
VALUES = (0.0, 0.25, 0.5, 1.0)
MECHANISM = HierarchicalHistogram(domain=TOY, records=3, scale=2.0)


def own_coins(values: Sequence[float]) -> list[tuple[float, int]]:
    """The number of ones of every outcome of the coins, with its probability."""
    outcomes = itertools.product((0, 1), repeat=len(values))
    chances = [(v if bit else 1 - v for v, bit in zip(values, bits, strict=True)) for bits in outcomes]
    ones = map(sum, itertools.product((0, 1), repeat=len(values)))
    return list(zip(map(math.prod, chances), ones, strict=True))


def common_coin(values: Sequence[float]) -> list[tuple[float, int]]:
    """Planted: coins that look at the whole table, so that one record decides about the others'."""
    return [(1.0, len(values) * (sum(values) > len(values) / 2))]


@functools.cache
def kernel() -> Any:
    """The probabilities of all outputs, given that none, one, two or all three records are coded as ones."""
    outputs = [np.array(y) for y in itertools.product(range(-12, 16), repeat=2)]
    tables = [Counts(records=Records(columns=(np.arange(2),)), frequencies=np.array([3 - i, i])) for i in range(4)]
    return np.exp([[MECHANISM.log_prob(y, table) for y in outputs] for table in tables])


def worst(epsilon: float, changed: int, coins: Any, values: Sequence[float]) -> float:
    """The largest hockey-stick divergence over all tables of three records that differ in some of them.

    The law of a release is the mixture of the kernel's laws, which are given codes, over the coins.
    """
    listed, given = list(itertools.combinations_with_replacement(values, 3)), kernel()
    laws = {table: sum(weight * given[ones] for weight, ones in coins(table)) for table in listed}
    largest = 0.0
    for x, y in itertools.permutations(laws, 2):
        alike = max(sum(a == b for a, b in zip(x, other, strict=True)) for other in itertools.permutations(y))
        if 3 - alike <= changed:
            largest = max(largest, float(np.maximum(laws[x] - math.exp(epsilon) * laws[y], 0.0).sum()))
    return largest


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.5])
def test_no_neighbours_exceed_the_guarantee_and_edges_attain_it(epsilon: float, group: int) -> None:
    """Whatever values the others have; a coin that depends on another record is caught."""
    delta = MECHANISM.guarantee(Relation(group=group), n=3).profile.delta(epsilon)
    largest = worst(epsilon, group, own_coins, VALUES)
    assert largest == pytest.approx(delta, abs=1e-6)
    assert worst(epsilon, group, own_coins, (0.0, 1.0)) == pytest.approx(largest, abs=1e-6)
    assert worst(epsilon, group, own_coins, (0.25, 0.5)) < largest / 2
    assert worst(epsilon, group, common_coin, VALUES) > delta + 0.02


# -- releases ----------------------------------------------------------------------------------------------------------


def table(seed: int, n: int = 20_000) -> pl.DataFrame:
    """Values at the lower edges of their cells alone: nothing that an even spread says of cells is true."""
    return pl.DataFrame({"x": np.floor(128 * np.random.default_rng(seed).beta(2, 5, n)) / 128})


def test_the_interval_of_a_mean_needs_no_bounds_and_shares_at_edges_stay() -> None:
    truth = float(np.mean([table(seed)["x"].mean() for seed in range(100, 120)]))  # type: ignore[arg-type]
    lengths, of_sd = [], []
    for coin in (False, True):
        domain = Domain(columns={"x": Numeric(lower=0, upper=1, cells=128, coin=coin)})
        drawn = release(table(1), domain, BUDGET, mechanism="hierarchical-histogram", size=20_000, seed=1)
        rows = drawn.estimate(["mean", "sd", "P(<0.25)", "q50"])
        sampling = 2 * 1.96 * float(table(1)["x"].std()) / math.sqrt(20_000)  # type: ignore[arg-type]
        lengths.append((rows["mean"].upper - rows["mean"].lower) / sampling)
        of_sd.append(rows["sd"].upper - rows["sd"].lower)
        assert rows["mean"].lower <= truth <= rows["mean"].upper
        assert rows["sd"].lower <= float(table(2)["x"].std()) <= rows["sd"].upper  # type: ignore[arg-type]
        assert rows["P(<0.25)"].upper - rows["P(<0.25)"].lower < 0.02
        assert all(check.agrees for check in discreet.verify(drawn.certificate))
    assert lengths[0] > 2.5
    assert lengths[1] < 1.5
    assert of_sd[1] < 0.6 * of_sd[0]


def test_bounds_of_a_variance_by_hand() -> None:
    """Given its coins, a cell's mass has its mean: at the least all lies there, at the most at the two ends."""
    column = Numeric(lower=0, upper=30, cells=3, coin=True, atoms=[0], nulls="category")
    masses = np.array([0.1, 0.3, 0.1, 0.05, 0.15, 0.2, 0.0, 0.1])  # the atom, three times two halves, null
    domain = Domain(columns={"x": column})
    drawn = Posterior.of_arrays(domain, domain.unflat(np.arange(8)), [masses], bounds=True)
    rows = drawn.summary(["mean", "variance", "sd", "P(<=10)"])
    ends, shares = np.array([0, 0, 10, 10, 20, 20, 30]), masses[:-1] / 0.9
    middles = np.array([0, 2.5, 2.5, 17.5, 17.5, 20, 20])
    mean = float(shares @ ends)
    least, most = (float(shares @ (values - mean) ** 2) for values in (middles, ends))
    assert float(shares @ middles) == pytest.approx(mean)
    assert (rows["mean"].lower, rows["mean"].upper) == pytest.approx((mean, mean))
    assert (rows["variance"].lower, rows["variance"].upper) == pytest.approx((least, most))
    assert (rows["sd"].lower, rows["sd"].upper) == pytest.approx((math.sqrt(least), math.sqrt(most)))
    assert rows["variance"].lower < rows["variance"].mean < rows["variance"].upper
    assert (rows["P(<=10)"].lower, rows["P(<=10)"].upper) == pytest.approx((0.5 / 0.9, 0.7 / 0.9))


def test_cells_that_are_chosen_are_split_and_the_mechanism_is_the_one_that_can() -> None:
    domain = Domain(columns={"x": Numeric(lower=0, upper=1, coin=True)})
    drawn = release(table(0, 2000), domain, BUDGET, size=500, seed=1)
    column = drawn.domain.columns["x"]
    assert drawn.certificate.facts.mechanism.name == "hierarchical-histogram"
    assert column.size == 2 * column.cells  # type: ignore[attr-defined]


def test_other_releases_refuse_it_with_a_remedy_that_holds() -> None:
    column = Numeric(lower=0, upper=1, cells=8, coin=True)
    frame = table(0, 500).with_columns(y=pl.lit(0))
    two = Domain(columns={"x": column, "y": Integer(lower=0, upper=1)})
    one = Domain(columns={"x": column})
    options: dict[str, Any] = {"size": 500, "seed": 1}
    for domain, mechanism in ((two, "hierarchical-histogram"), (one, "perturbed-histogram"), (two, "marginals")):
        with pytest.raises(ParameterError, match="column 'x': coin is for a table of one column, released by hier"):
            release(frame.select(domain.names), domain, BUDGET, mechanism=mechanism, **options)
        without = Domain(columns=domain.columns | {"x": Numeric(lower=0, upper=1, cells=8)})
        assert release(frame.select(domain.names), without, BUDGET, mechanism=mechanism, **options)
    with pytest.raises(ParameterError, match="counts of coins are not counts of values"):
        release(frame.select("x"), one, BUDGET, mechanism="hierarchical-histogram", counts=True, seed=1)
    drawn = release(frame.select("x"), one, BUDGET, mechanism="hierarchical-histogram", **options)
    with pytest.raises(ParameterError, match="does not make groups"):
        drawn.estimate(["mean"], by="x")
    with pytest.raises(DomainError, match="a coin is for cells of intervals"):
        Numeric(lower=0, upper=1, grid=[0, 1], coin=True)
    with pytest.raises(DomainError, match="coin must be"):
        Integer(lower=0, upper=9, cells=2, coin="yes")


def test_a_public_input_that_is_the_table_is_found_whatever_the_coins_say() -> None:
    domain, frame = Domain(columns={"x": Numeric(lower=0, upper=1, cells=8, coin=True)}), table(0, 500)
    closed = confidential(frame, domain)
    with pytest.raises(NotPublic):
        with_public(closed, {"reference": frame.clone()}, domain=domain)
    with_public(closed, {"reference": table(1, 500)}, domain=domain)
