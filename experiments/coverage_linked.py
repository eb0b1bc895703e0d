"""How often intervals from several draws of linked tables hold the population's value.

A population of households with a known law: own values, up to three persons, and up to two cars. 2,500 of them are a
confidential table, released as 20 draws of three linked tables at delta 1e-6, and at epsilon 1 or, since few pairs of
columns are measured there, at epsilon 4. Questions are about households, persons or cars; regressions take the
household as the cluster.

    python experiments/coverage_linked.py --worlds FIRST LAST   # worlds FIRST to LAST - 1, added to worlds.csv
    python experiments/coverage_linked.py                       # coverage.csv of all worlds so far
"""

from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import polars as pl
from _harness import HERE, add, script, texts, write
from coverage_wide_real import FALSE_OR_TRUE, Question, answer, truth

from discreet import Budget, release
from discreet.audit.instance import clopper_pearson
from discreet.domain import Category, Domain, Integer, UnitTable

RESULTS = HERE / "results" / "coverage_linked"
HOMES, TABLES, PERSONS, CARS, EPSILONS = 2500, 20, 3, 2, (1.0, 4.0)
LABELS = dict.fromkeys(("owned", "works", "electric"), FALSE_OR_TRUE)
LABEL = Category(categories=list(FALSE_OR_TRUE))
person = {"age": Integer(lower=0, upper=7), "works": LABEL}
DOMAIN = Domain(
    units="homes",
    columns={"owned": LABEL, "income": Integer(lower=0, upper=9)},
    tables={
        "persons": UnitTable(unit="home", max_records=PERSONS, columns=person, slots="ordered", order_by="as listed"),
        "cars": UnitTable(unit="home", max_records=CARS, columns={"electric": LABEL}),
    },
)
HEAD = ("epsilon", "world", "question", "warned", "estimate", "lower", "upper")
ABOUT: dict[str, tuple[str, tuple[Question, ...]]] = {
    "means and shares of units": ("homes", (
        Question("mean", "income", ""), Question("share", "income", "", (">=", 8)), Question("label", "owned", ""),
        Question("mean", "number of persons", ""), Question("share", "number of persons", "", ("<=", 0)),
        Question("mean", "number of cars", ""))),
    "means and shares of rows": ("persons", (
        Question("mean", "age", ""), Question("share", "age", "", (">=", 6)), Question("label", "works", ""))),
    "shares of the second table's rows": ("cars", (Question("label", "electric", ""),)),
    "group means of units": ("homes", (
        Question("group", "income", "owned", "true"), Question("group", "number of persons", "owned", "true"),
        Question("group", "number of cars", "owned", "false"))),
    "group means of rows": ("persons", (
        Question("group", "age", "works", "false"), Question("group", "age", "owned", "true"))),
    "regressions of units": ("homes", (
        Question("logistic", "owned", "income"), Question("slope", "income", "number of persons"),
        Question("slope", "number of cars", "income"))),
    "regressions of rows": ("persons", (
        Question("slope", "age", "income"), Question("logistic", "works", "age"),
        Question("logistic", "works", "income"))),
}  # fmt: skip


def population(homes: int, rng: np.random.Generator) -> dict[str, pl.DataFrame]:
    """Draw households, whose members share how wealthy the home is."""
    wealth = rng.normal(size=homes)
    owned = wealth + rng.normal(size=homes) > -0.3
    income = np.clip(np.floor(4.5 + 1.8 * wealth + rng.normal(size=homes)), 0, 9).astype(int)
    several = np.repeat(np.arange(homes), rng.binomial(PERSONS, 0.35 + 0.2 * owned))
    first = np.diff(several, prepend=-1) > 0
    age = np.where(first, rng.normal(4.5 + wealth[several], 1.5), rng.gamma(2, 1.5, len(several)))
    age = np.clip(age, 0, 7).astype(int)
    works = rng.random(len(several)) < np.where((age > 1) & (age < 6), 0.7, 0.1) + 0.1 * owned[several]
    driven = np.repeat(np.arange(homes), rng.binomial(CARS, 0.2 + 0.06 * income))
    electric = rng.random(len(driven)) < 0.1 + 0.06 * income[driven]

    def label(values: np.ndarray) -> np.ndarray:
        return np.where(values, "true", "false")

    persons = {"home": several, "age": age, "works": label(works)}
    return {
        "homes": pl.DataFrame({"home": np.arange(homes), "owned": label(owned), "income": income}),
        "persons": pl.DataFrame(persons),
        "cars": pl.DataFrame({"home": driven, "electric": label(electric)}),
    }


@cache
def true() -> dict[str, float]:
    """Return the population's values, from a million households."""
    tables = population(1_000_000, np.random.default_rng(0))
    homes = tables["homes"]
    for name in ("persons", "cars"):
        counted = tables[name].group_by("home").len(f"number of {name}")
        homes = homes.join(counted, on="home", how="left").fill_null(0)
    held = {name: homes if name == "homes" else frame.join(homes, on="home") for name, frame in tables.items()}
    return {named(one): truth(one, held[table]) for table, questions in ABOUT.values() for one in questions}


def named(question: Question) -> str:
    return " ".join(str(part) for part in question if part not in ("", None))


def world(epsilon: float, index: int, homes: int = HOMES, tables: int = TABLES) -> Iterator[list[Any]]:
    """Yield of each question what its answer warns of, and its interval."""
    held = population(homes, np.random.default_rng([index, EPSILONS.index(epsilon)]))
    asked = {"size": homes, "tables": tables, "seed": index, "accept": {"poor-utility"}}
    released = release(held, DOMAIN, Budget(epsilon=epsilon, delta=1e-6), **asked)
    for _, questions in ABOUT.values():
        for question in questions:
            row = answer(released, question, LABELS)
            codes = " ".join(sorted({code.name for code in row.codes}))
            yield [epsilon, index, named(question), codes, row.mean, row.lower, row.upper]


def coverage() -> Iterator[list[Any]]:
    """Yield, by kind of question and by question, how often intervals held, and those of answers that do not warn.

    Bounds are those of Clopper and Pearson for 95 %; those of a kind take its questions for independent.
    """
    value = true()
    for epsilon, (kind, (_, questions)) in product(EPSILONS, ABOUT.items()):
        rows = [row for row in texts(RESULTS / "worlds.csv") if float(row[0]) == epsilon]
        for names in ([named(one) for one in questions], *([named(one)] for one in questions)):
            kept = [(row[3], float(row[5]) <= value[row[2]] <= float(row[6])) for row in rows if row[2] in names]
            if not kept:
                continue
            plain, about = [right for codes, right in kept if not codes], names[0] if len(names) == 1 else "all"
            held = clopper_pearson(sum(right for _, right in kept), len(kept), confidence=0.95)
            unwarned = len(plain), sum(plain) / len(plain) if plain else ""
            yield [epsilon, kind, about, len(kept), held.estimate, held.lower, held.upper, *unwarned]


def slices() -> dict[str, Any]:
    return {"slice.csv": world(4.0, 0, 500, 2), "coverage.csv": coverage()}


WITHOUT_SLICE = {"worlds.csv": "a world takes some seconds; slice.csv is a small one"}


@script(worlds=([0, 0], [1000, 1001]))
def main(worlds: list[int]) -> None:
    for index, epsilon in product(range(*worlds), EPSILONS):
        add(RESULTS / "worlds.csv", HEAD, world(epsilon, index))
    if worlds[0] == worlds[1]:
        write(RESULTS / "slice.csv", HEAD, world(4.0, 0, 500, 2))
        answers = ("answers", "held", "at_least", "at_most", "without_warning", "held_of_these")
        head = ("epsilon", "kind", "question", *answers)
        write(RESULTS / "coverage.csv", head, coverage())
