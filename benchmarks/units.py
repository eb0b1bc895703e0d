"""What a release of units with several rows keeps: households of Oregon, and a panel of German patients.

Ten facts of a household, which need several of its rows, were fixed before anything was tried; so were transitions
and lag-1 correlations of the panel. "coded": whether a race is that of the first person is held in its place, and of
ages the difference from that person's. This came after the facts were fixed, and states two of them. Beside them stands
a bootstrap sample of the units, which has no privacy.

    python benchmarks/units.py --seeds 3

Every release is under epsilon 1 and delta 1e-6, one unit replaced. "pairs" are mean total variations of all tables of
two columns: of the household, of a person, of both, and of two persons of one household.
"""

import time
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import polars as pl
from _bench import save
from _harness import data, script, show

from discreet import Budget, release
from discreet.domain import Boolean, Category, Domain, Integer, UnitTable

MOST = 5
INCOMES = [10_000, 20_000, 30_000, 40_000, 50_000, 60_000, 75_000, 100_000, 125_000, 150_000, 200_000]
HOUSE = {
    "tenure": Integer(lower=0, upper=3),
    "income": Integer(lower=0, upper=11),
    "building": Integer(lower=0, upper=4),
    "bedrooms": Integer(lower=0, upper=5),
}
PERSON = {
    "age": Integer(lower=0, upper=17),
    "sex": Category(categories=["1", "2"]),
    "race": Category(categories=[*"01234569"]),
    "school": Integer(lower=0, upper=6),
    "married": Category(categories=[*"12345"]),
    "work": Category(categories=[*"0123456"]),
    "disabled": Category(categories=["1", "2"]),
}


def households() -> pl.DataFrame:
    """Return persons with what is the same in their household; the first listed comes first, then by age."""
    house = data("acs2024_or_households").filter(TYPEHUGQ=1).select(
        "SERIALNO",
        tenure=pl.col("TEN").fill_null(1).cast(pl.Int64) - 1,
        income=sum((pl.col("HINCP").fill_null(0) >= end).cast(pl.Int64) for end in INCOMES),
        building=sum((pl.col("BLD").fill_null(2) >= end).cast(pl.Int64) for end in (2, 3, 4, 6)),
        bedrooms=pl.col("BDSP").fill_null(0).clip(0, 5).cast(pl.Int64),
    )  # fmt: skip
    code = pl.col("RAC1P").cast(pl.Int64)
    race = pl.when(pl.col("HISP").cast(pl.Int64) > 1).then(5).when(code.is_in([1, 2, 6, 9])).then(code)
    person = data("acs2024_or_persons").select(
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


def variation(first: pl.DataFrame, second: pl.DataFrame) -> float:
    """Return the total variation of two tables, each of two columns."""
    counts = [
        frame.group_by(frame.columns).len().with_columns(pl.col("len") / frame.height) for frame in (first, second)
    ]
    joined = counts[0].join(counts[1], on=first.columns, how="full", suffix="_b", coalesce=True).fill_null(0.0)
    return 0.5 * float((joined["len"] - joined["len_b"]).abs().sum())


def pairs(true: pl.DataFrame, found: pl.DataFrame) -> dict[str, float]:
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
        kind: float(np.mean([variation(*[frame.select(names) for frame in frames]) for names in columns]))
        for kind, (frames, columns) in kinds.items()
    }


def patients() -> pl.DataFrame:
    """Return the years 1984 to 1988 of patients: whether they work, and visits to a doctor up to 10."""
    panel = data("german_health_panel_rwm5yr")
    return panel.filter(pl.col("year").is_between(1984, 1988)).select(
        unit="id", year="year", works=pl.col("outwork") == 0, visits=pl.col("docvis").clip(0, 10),
        female=pl.col("female") == 1
    )  # fmt: skip


PANEL = {
    "year": Integer(lower=1984, upper=1988),
    "works": Boolean(),
    "visits": Integer(lower=0, upper=10),
}


def transitions(panel: pl.DataFrame) -> dict[str, float]:
    later = panel.with_columns(year=pl.col("year") - 1)
    both = panel.join(later, on=["unit", "year"], suffix="_next")
    return {
        "works, then works": float(both.filter("works")["works_next"].mean()),
        "does not, then works": float(both.filter(~pl.col("works"))["works_next"].mean()),
        "correlation of visits": float(both.select(pl.corr("visits", "visits_next")).item()),
        "correlation of work": float(both.select(pl.corr("works", "works_next")).item()),
        "women who work": float(panel.filter("female")["works"].mean()),
        "years of a patient, fifths": panel.height / panel["unit"].n_unique() / 5.0,
    }


def bootstrap(frame: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    names = frame["unit"].unique(maintain_order=True)
    drawn = pl.DataFrame({"unit": names[rng.integers(len(names), size=len(names))]}).with_row_index("drawn")
    return drawn.join(frame, on="unit", maintain_order="left_right").drop("unit").rename({"drawn": "unit"})


@script(seeds=(3, 1))
def main(seeds: int) -> None:
    most = UnitTable(unit="unit", max_records=MOST, columns=PERSON, slots="ordered", order_by="as listed")
    years = UnitTable(unit="unit", max_records=5, columns=PANEL, slots="year")
    coded = replace(most, relative_to={"race": "first", "age": {"row": "first", "lower": -17, "upper": 17}})
    cases = {
        "households": (households(), Domain(columns=HOUSE, tables={"persons": most}), facts, pairs),
        "coded": (households(), Domain(columns=HOUSE, tables={"persons": coded}), facts, pairs),
        "panel": (patients(), Domain(columns={"female": Boolean()}, tables={"years": years}), transitions, None),
    }
    rows = []
    for name, (frame, domain, numbers, tables) in cases.items():
        true, n = numbers(frame), frame["unit"].n_unique()
        print(f"\n{name}: {n:,} units, {frame.height:,} rows")
        for method in ("release", "bootstrap")[: 1 + (name != "coded")]:
            found, errors, seconds = [], [], []
            for seed in range(seeds):
                start = time.process_time()
                if method == "release":
                    table = release(frame, domain, Budget(epsilon=1.0, delta=1e-6), size=n, seed=seed).records
                else:
                    table = bootstrap(frame, np.random.default_rng(seed))
                seconds.append(time.process_time() - start)
                found.append(numbers(table))
                errors.append({} if tables is None else tables(frame, table))
            mean = {key: float(np.mean([each[key] for each in found])) for key in true}
            error = {key: float(np.mean([abs(each[key] - true[key]) for each in found])) for key in true}
            show(
                (f"{name}, {method}", "true", "mean", "error"),
                [(key, f"{true[key]:.3f}", f"{mean[key]:.3f}", f"{error[key]:.4f}") for key in true],
            )
            variations = {key: float(np.mean([each[key] for each in errors])) for key in errors[0]}
            whole = float(np.mean(list(error.values())))
            print(f"mean error {whole:.4f}; pairs: {variations}; {np.mean(seconds):.1f} s")
            rows.append({"units": name, "method": method, "error": whole, "pairs": variations, "errors": error})
    save("units", {"epsilon": 1.0, "delta": 1e-6, "seeds": seeds, "rows": rows})
