"""How often intervals from several synthetic tables of a real wide table hold the population's value.

Two real tables of eight columns are populations. A confidential table is 5,000 records drawn from one with replacement,
delta 1e-6. Worlds, releases and what counts are those of ``coverage_wide.py``.

    python experiments/coverage_wide_real.py --blocks FIRST LAST   # each of ten worlds a setting, added to blocks.csv
    python experiments/coverage_wide_real.py                       # coverage.csv of all blocks so far
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import polars as pl
from _harness import HERE, data, script, texts, write
from coverage_wide import RECORDS, TABLES, Number, analysed, given, mean, slope

from discreet.domain import Category, Domain, Integer
from discreet.mechanisms.marginals import Marginals
from discreet.privacy import Budget

RESULTS = HERE / "results" / "coverage_wide_real"
EPSILONS, DELTA, BLOCK = (0.3, 1.0, 3.0), 1e-6, 10
HEAD = ("table", "epsilon", "block", "number", "worlds", "held", "sum_of_errors", "sum_of_lengths")


def adult() -> dict[str, Any]:
    """Return columns of Adult as codes: ages in fives from 17 on, hours in tens."""
    kept = data("adult")
    return {
        "age": (kept["age"].to_numpy().astype(int) - 15) // 5,
        "education": kept["education_num"].to_numpy().astype(int) - 1,
        "hours": kept["hours_per_week"].to_numpy().astype(int) // 10,
        **{name: coded(kept[name]) for name in ("marital_status", "relationship", "race", "sex", "income")},
    }


def persons() -> dict[str, Any]:
    """Return columns of the American Community Survey's excerpts as codes; nulls are a category of their own."""
    kept = data("nist_acs_excerpts")
    return {
        "age": kept["AGEP"].to_numpy().astype(int) // 5,
        "education": kept["EDU"].fill_null(0).to_numpy().astype(int),
        "income": kept["PINCP_DECILE"].fill_null(-1).to_numpy().astype(int) + 1,
        **{name: coded(kept[name]) for name in ("SEX", "MSP", "RAC1P", "OWN_RENT", "DPHY")},
    }


def coded(column: pl.Series) -> np.ndarray:
    """Return the number of each value among those that there are."""
    texts = column.cast(pl.String).fill_null("none").to_numpy()
    return np.unique(texts, return_inverse=True)[1]


TABLES_OF = {"adult": adult, "persons": persons}
ORDERED = ("age", "education", "hours", "income")


def of(column: int) -> Any:
    return mean(lambda x: x[:, column])


def share(column: int, least: int, most: int = 1000) -> Any:
    """Return the share of the values between two."""
    return mean(lambda x: (least <= x[:, column]) & (x[:, column] <= most))


NUMBERS = {
    # age, education, hours, marital status, relationship, race, sex, income
    "adult": (
        Number("mean of age", (), of(0)),
        Number("mean of education", (), of(1)),
        Number("mean of hours", (), of(2)),
        Number("P(age >= 60)", (), share(0, 9)),
        Number("P(hours >= 60)", (), share(2, 6)),
        Number("P(married)", (), share(3, 2, 2)),
        Number("P(income)", (), share(7, 1, 1)),
        Number("P(income | men)", ((6, 7),), mean(lambda x: given(x[:, 6] == 1, x[:, 7] == 1))),
        Number("P(income | married)", ((3, 7),), mean(lambda x: given(x[:, 3] == 2, x[:, 7] == 1))),
        Number("P(income | education >= 13)", ((1, 7),), mean(lambda x: given(x[:, 1] >= 12, x[:, 7] == 1))),
        Number("P(hours >= 50 | income)", ((2, 7),), mean(lambda x: given(x[:, 7] == 1, x[:, 2] >= 5))),
        Number("slope of income by education", ((1, 7),), slope(7, (1,))),
        Number("slope of income by education, with sex", ((1, 7), (6, 7), (1, 6)), slope(7, (1, 6))),
    ),
    # age, education, income, sex, marital status, race, owner, difficulty
    "persons": (
        Number("mean of age", (), of(0)),
        Number("mean of education", (), of(1)),
        Number("mean of income", (), of(2)),
        Number("P(age >= 65)", (), share(0, 13)),
        Number("P(women)", (), share(3, 1, 1)),
        Number("P(owner)", (), share(6, 1, 1)),
        Number("P(race 1)", (), share(5, 0, 0)),
        Number("P(difficulty | age >= 65)", ((0, 7),), mean(lambda x: given(x[:, 0] >= 13, x[:, 7] == 0))),
        Number("P(income >= 8 | women)", ((2, 3),), mean(lambda x: given(x[:, 3] == 1, x[:, 2] >= 8))),
        Number("P(owner | age >= 65)", ((0, 6),), mean(lambda x: given(x[:, 0] >= 13, x[:, 6] == 1))),
        Number("slope of income by education", ((1, 2),), slope(2, (1,))),
        Number("slope of income by education, with sex", ((1, 2), (2, 3), (1, 3)), slope(2, (1, 3))),
    ),
}


@cache
def population(table: str) -> tuple[Domain, np.ndarray, dict[str, float]]:
    """Return a table's domain, its records as codes, and its numbers."""
    columns = TABLES_OF[table]()
    kinds = {
        name: Integer(lower=0, upper=int(codes.max()))
        if name in ORDERED and codes.max() > 1
        else Category(categories=[str(code) for code in range(int(codes.max()) + 1)])
        for name, codes in columns.items()
    }
    records = np.stack([*columns.values()], axis=1)
    return Domain(columns=kinds), records, {number.name: number.of(records)[0] for number in NUMBERS[table]}


def world(table: str, epsilon: float, index: int) -> list[tuple[bool, bool, float, float]]:
    """Return of each number whether it was measured and held, the estimate's error, and the interval's length."""
    rng = np.random.default_rng([index, list(TABLES_OF).index(table), EPSILONS.index(epsilon)])
    domain, everybody, true = population(table)
    x, budget = everybody[rng.integers(len(everybody), size=RECORDS)], Budget(epsilon=epsilon, delta=DELTA)
    mechanism = Marginals.calibrated(budget, domain=domain, n=RECORDS, tables=TABLES, workload=None)
    return [
        (known, one.lower <= true[number.name] <= one.upper, one.estimate - true[number.name], one.upper - one.lower)
        for number, known, one in analysed(mechanism, x, NUMBERS[table], rng)
    ]


def block(table: str, epsilon: float, number: int) -> Iterator[list[Any]]:
    """Yield a row of sums over ten worlds for each number."""
    worlds = [world(table, epsilon, BLOCK * number + i) for i in range(BLOCK)]
    for one, each in zip(NUMBERS[table], zip(*worlds, strict=True), strict=True):
        kept = [row[1:] for row in each if row[0]]
        held, errors, lengths = (sum(part) for part in zip(*kept, strict=True)) if kept else (0, 0.0, 0.0)
        yield [table, epsilon, number, one.name, len(kept), int(held), errors, lengths]


def coverage() -> Iterator[list[Any]]:
    """Yield, for each number, in how many worlds it was measured, and how often its interval held."""
    rows = texts(RESULTS / "blocks.csv")
    for table, numbers in NUMBERS.items():
        for epsilon in EPSILONS:
            for number in numbers:
                kept = [r for r in rows if (r[0], r[1], r[3]) == (table, f"{epsilon:g}", number.name)]
                count, held, errors, lengths = (sum(float(r[place]) for r in kept) for place in range(4, 8))
                if count:
                    yield [table, epsilon, number.name, int(count), held / count, errors / count, lengths / count]


def slices() -> dict[str, Any]:
    return {"coverage.csv": coverage()}


WITHOUT_SLICE = {"blocks.csv": "needs data that are not part of the project"}


@script(blocks=([0, 0], [1000, 1001]))
def main(blocks: list[int]) -> None:
    first, last = blocks
    for number in range(first, last):
        for table in TABLES_OF:
            for epsilon in EPSILONS:
                write(RESULTS / "blocks.csv", HEAD, [*texts(RESULTS / "blocks.csv"), *block(table, epsilon, number)])
    if first == last:
        head = ("table", "epsilon", "number", "worlds", "coverage", "mean_error", "mean_length")
        write(RESULTS / "coverage.csv", head, coverage())
