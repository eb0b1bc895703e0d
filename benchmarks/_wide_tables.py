"""The tables of the comparison in wide.py, each under one public coding that every mechanism is given.

A coded table has whole numbers only: column ``j`` holds codes from 0 to ``sizes[j] - 1``. Numbers are cut at fixed
round edges, never at quantiles; a null is code 0, below all others. Lists of areas and occupations are published with
the surveys; every one of them occurs, so that they are read from the files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from _harness import data

HELD_OUT = 0.2
SPLIT_SEED = 20_261_122
SMALL = 9_823  # of which 7,858 are not held out
INCOME = [-5_000, 0, 1, *range(2_500, 50_000, 2_500), *range(50_000, 100_000, 5_000)]
INCOME += [*range(100_000, 200_000, 10_000), *range(200_000, 500_001, 50_000)]
FEW_INCOMES = [1, 10_000, 20_000, 40_000, 60_000, 90_000, 150_000]
WEIGHT = [*range(10, 100, 10), *range(100, 300, 20), *range(300, 1_001, 100)]


@dataclass(frozen=True)
class Coded:
    """A coded table.

    ``ordered``: names of the columns whose codes have an order.
    ``outcomes``: columns predicted from the others, each with its least code that counts as a positive, and the columns
    that are left out of that prediction.
    ``regression``: a response and five regressors, codes as numbers.
    ``numbers``: the number that a code stands for, by columns: the middle of its band, and none for null.
    """

    codes: np.ndarray
    sizes: dict[str, int]
    ordered: tuple[str, ...]
    outcomes: dict[str, tuple[int, tuple[str, ...]]] = field(default_factory=dict)
    regression: tuple[str, ...] = ()
    numbers: dict[str, np.ndarray] = field(default_factory=dict)

    def split(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the records that mechanisms see, and those held out."""
        order = np.random.default_rng(SPLIT_SEED).permutation(len(self.codes))
        out = int(HELD_OUT * len(order))
        return self.codes[np.sort(order[out:])], self.codes[np.sort(order[:out])]

    def cut(self, columns: int | None) -> Coded:
        sizes = dict(list(self.sizes.items())[:columns])
        ordered = tuple(name for name in self.ordered if name in sizes)
        return replace(self, codes=self.codes[:, :columns], sizes=sizes, ordered=ordered)


def expression(name: str, rule: Any) -> tuple[pl.Expr, int]:
    """Return a column's codes and how many there are, by its rule.

    A number is the size of whole numbers from 0 on. All others have a code for null: a pair is the least and the
    largest of whole numbers, a series the labels of a published list, anything else the public edges between bands.
    """
    column = pl.col(name)
    if isinstance(rule, int):
        return column.clip(0, rule - 1), rule
    if isinstance(rule, tuple):
        low, high = rule
        return (column.clip(low, high) - low + 1).fill_null(0), high - low + 2
    if isinstance(rule, pl.Series):
        numbers = list(range(1, len(rule) + 1))
        return column.replace_strict(rule, numbers, default=0, return_dtype=pl.Int64).fill_null(0), len(rule) + 1
    band = sum(((column >= edge).cast(pl.Int64) for edge in rule), start=pl.lit(1, dtype=pl.Int64))
    return band.fill_null(0), len(rule) + 2


def values(rule: Any) -> np.ndarray:
    """Return the number that each code of a rule stands for."""
    if isinstance(rule, int):
        return np.arange(rule, dtype=float)
    if isinstance(rule, tuple):
        return np.r_[np.nan, rule[0] : rule[1] + 1.0]
    ends = np.asarray(rule, dtype=float)
    return np.r_[np.nan, ends[0], (ends[1:] + ends[:-1]) / 2, ends[-1]]


def coded(frame: pl.DataFrame, rules: dict[str, Any], ordered: tuple[str, ...], **facts: Any) -> Coded:
    coding = {name: expression(name, rule) for name, rule in rules.items()}
    codes = frame.select(codes.cast(pl.Int64).alias(name) for name, (codes, _) in coding.items()).to_numpy()
    sizes = {name: size for name, (_, size) in coding.items()}
    if codes.min() < 0 or (codes >= np.array(list(sizes.values()))).any():
        raise ValueError("a code is out of its column's range")
    numbers = {name: values(rules[name]) for name in ordered}
    return Coded(codes=codes.astype(np.uint16), sizes=sizes, ordered=ordered, numbers=numbers, **facts)


def adult() -> Coded:
    """Adult, 48,842 records, 14 columns, coded as in the repository of mbi."""
    sizes = {"age": 85, "workclass": 9, "fnlwgt": 100, "education-num": 16, "marital-status": 7, "occupation": 15}
    sizes |= {"relationship": 6, "race": 5, "sex": 2, "capital-gain": 100, "capital-loss": 100}
    sizes |= {"hours-per-week": 99, "native-country": 42, "income>50K": 2}
    return coded(
        data("adult_coded_14"),
        sizes,
        ordered=("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"),
        outcomes={"income>50K": (1, ())},
        regression=("income>50K", "age", "education-num", "sex", "hours-per-week", "capital-gain"),
    )


def nist(records: int | None = None, columns: int | None = None) -> Coded:
    """NIST's excerpts of the American Community Survey: 24 columns, or the first; 87,293 records, or fewer."""
    income = INCOME if records is None else FEW_INCOMES
    frame = data("nist_acs_excerpts")
    crowds = [*range(100, 1_000, 100), *range(1_000, 10_000, 500), *range(10_000, 60_000, 2_500)]
    rules: dict[str, Any] = {
        "SEX": (1, 2), "AGEP": 100, "EDU": (1, 12), "PINCP": income, "MSP": (1, 6), "RAC1P": (1, 9), "HISP": 5,
        "OWN_RENT": 3, "INDP_CAT": (0, 18), "PUMA": frame["PUMA"].unique().sort(), "HOUSING_TYPE": (1, 3),
        "DVET": (1, 6), "DREM": (1, 2), "DPHY": (1, 2), "DEYE": (1, 2), "DEAR": (1, 2), "NOC": (0, 19), "NPF": (2, 20),
        "POVPIP": range(10, 502, 10), "PINCP_DECILE": (0, 9), "DENSITY": crowds, "INDP": range(100, 10_000, 100),
        "PWGTP": WEIGHT, "WGTP": [1, *WEIGHT],
    }  # fmt: skip
    if records is not None:
        rules |= {"AGEP": range(10, 100, 10), "NOC": (0, 5), "NPF": (2, 8), "POVPIP": range(50, 502, 50)}
    return coded(
        frame.head(records or len(frame)),
        rules,
        ordered=("AGEP", "EDU", "PINCP", "NOC", "NPF", "POVPIP", "PINCP_DECILE", "DENSITY", "PWGTP", "WGTP"),
        outcomes={"PINCP": (2 + income.index(40_000), ("PINCP_DECILE", "POVPIP"))},
        regression=("PINCP", "AGEP", "EDU", "SEX", "MSP", "RAC1P"),
    ).cut(columns)


def acs() -> Coded:
    """Persons of the American Community Survey 2024, 2,331,839 records, 14 columns; areas within their state."""
    frame = data("acs2024_persons_income_49")
    frame = frame.with_columns(PUMA=pl.col("STATE").cast(pl.String).str.zfill(2) + "-" + pl.col("PUMA"))
    areas, occupations = (frame[name].drop_nulls().unique().sort() for name in ("PUMA", "OCCP"))
    rules: dict[str, Any] = {
        "STATE": (1, 56), "PUMA": areas, "PWGTP": WEIGHT, "AGEP": 100, "SEX": (1, 2), "RAC1P": (1, 9), "HISP": (1, 24),
        "SCHL": (1, 24), "MAR": (1, 5), "COW": (1, 9), "OCCP": occupations, "WKHP": (1, 99), "PINCP": INCOME,
        "WAGP": INCOME,
    }  # fmt: skip
    return coded(
        frame,
        rules,
        ordered=("PWGTP", "AGEP", "SCHL", "WKHP", "PINCP", "WAGP"),
        outcomes={"PINCP": (2 + INCOME.index(50_000), ("WAGP",))},
        regression=("PINCP", "AGEP", "SCHL", "SEX", "WKHP", "MAR"),
    )


def made(columns: int) -> Coded:
    """125,000 records of a made mixture of 12 classes, columns of 20 labels; 100,000 are not held out."""
    rng = np.random.default_rng(50)
    classes = rng.choice(12, size=125_000, p=rng.dirichlet(np.full(12, 2.0)))
    codes = np.empty((len(classes), columns), dtype=np.uint16)
    for j in range(columns):
        totals = np.cumsum(rng.dirichlet(np.full(20, 0.3), size=12), axis=1)[classes]
        codes[:, j] = np.minimum((totals < rng.random(len(classes))[:, None]).sum(axis=1), 19)
    names = [f"c{j}" for j in range(columns)]
    return Coded(codes, dict.fromkeys(names, 20), (), {"c0": (10, ())}, tuple(names[:6]))


TABLES: dict[str, Callable[[], Coded]] = {
    "adult": adult,
    "nist": nist,
    **{f"nist-{columns}": partial(nist, columns=columns) for columns in (6, 10, 20)},
    **{f"small-{columns}": partial(nist, SMALL, columns) for columns in (6, 10, 20)},
    "acs": acs,
    **{f"made-{columns}": partial(made, columns) for columns in (40, 50)},
}
