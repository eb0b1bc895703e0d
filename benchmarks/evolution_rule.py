"""Is the evolution taken by default nearly as good as the best of a grid, on tables that set no constant of the rule?

Mean total variation between release and table over all pairs of columns, numbers of many values in their tenths; every
setting with the same seeds. The default's error is asked to be at most 1.2 times the best one's in nine of ten cases.
``marginals`` stands beside both, and what a plan of the two chooses.
"""

from dataclasses import replace
from functools import partial
from itertools import combinations, product
from typing import Any

import numpy as np
import polars as pl
from _bench import errors, save, variation, verdict
from _harness import data, script, show, timed

import discreet
from discreet.domain import Category, Domain, Integer, Numeric
from discreet.mechanisms import Marginals, PrivateEvolution
from discreet.privacy import Budget

NIST, ACS, HOMES = "nist_acs_excerpts", "acs2024_or_persons", "acs2024_or_households"
STATES, ALONE, SCORES = "acs2024_persons_income_49", "acs2024_ca_living_alone_income", "oulad_scores"
TABLES: dict[str, str] = {
    NIST: "AGEP SEX MSP RAC1P EDU PINCP_DECILE",
    f"{NIST} ": "AGEP SEX HISP OWN_RENT HOUSING_TYPE NOC DPHY DEYE POVPIP",
    ACS: "AGEP SEX SCHL MAR HICOV",
    f"{ACS} ": "AGEP PINCP WKHP SEX COW ESR MIL LANX",
    HOMES: "TEN BDSP RMSP BLD NP HINCP",
    STATES: "AGEP SEX PINCP",
    ALONE: "AGEP SCHL TEN PINCP_from_HINCP",
    "ce_hornby_hu_5571": "Age Urban Educ Marital Expenditure Income",
    SCORES: "score date_submitted gender region highest_education age_band final_result",
    "fair": "rate_marriage age yrs_married children religious educ occupation",
    "randhie": "mdvis lncoins lpi physlm disea hlthg hlthf",
}
SIZES = [(1_000, 8.0), (4_000, 1.0), (10_000, 0.5)]  # of every table; of some also:
LARGE = [(NIST, 20_000, 2.0), (HOMES, 20_000, 8.0), (ALONE, 30_000, 4.0)]
LARGE += [(STATES, 100_000, 0.5), (ACS, 40_000, 0.5), (STATES, 40_000, 8.0)]
PLACES = ("steps", "nearest", "population", "variant")
GRID = [*product((2, 4, 8), (1, 4), (50, 200), ("practical",)), (4, 4, 100, "projection"), (8, 1, 100, "projection")]


def table_named(name: str) -> pl.DataFrame:
    """Return the columns of a table that is shared, or that statsmodels ships."""
    if name in ("fair", "randhie"):
        from statsmodels import datasets

        return pl.from_pandas(getattr(datasets, name).load_pandas().data[TABLES[name].split()]).cast(pl.Int64)
    return data(name.strip(), *TABLES[name].split())


def declared(values: pl.Series) -> Any:
    """Declare a column by what is publicly known of it: here, its values."""
    nulls = {"nulls": "category"} if values.null_count() else {}
    if values.dtype == pl.String:
        return Category(categories=values.drop_nulls().unique().sort().to_list(), **nulls)
    bounds: dict[str, Any] = {"lower": values.min(), "upper": values.max(), **nulls}
    return Numeric(cells=40, **bounds) if values.n_unique() > 1000 else Integer(**bounds)


def tenths(frame: pl.DataFrame, table: pl.DataFrame) -> list[pl.Series]:
    """Return the values of columns, those of numbers with many values by their tenths in the table."""
    many = [v.name for v in table if v.dtype.is_numeric() and v.n_unique() > 16]
    cuts = {name: table[name].drop_nulls().quantile for name in many}
    at = {name: np.unique([cut(q / 10) for q in range(1, 10)]) for name, cut in cuts.items()}
    whole = {name: pl.Series(np.searchsorted(at[name], frame[name].fill_null(-1e12), side="right")) for name in many}
    return [whole.get(v.name, v).cast(pl.String).alias(v.name) for v in frame]


def apart(table: pl.DataFrame, frame: pl.DataFrame) -> float:
    """Return the mean total variation of two frames over all pairs of columns."""
    held, released = pl.DataFrame(tenths(table, table)), pl.DataFrame(tenths(frame, table))
    pairs = combinations(table.columns, 2)
    return float(np.mean([variation(held.select(pair), released.select(pair)) for pair in pairs]))


def compared(name: str, n: int, epsilon: float, seeds: int) -> dict[str, Any]:
    """Return the default beside the best setting of the grid, and beside marginals."""
    whole = table_named(name)
    table, budget = whole.sample(min(n, len(whole)), seed=1), Budget(epsilon=epsilon, delta=1e-6)
    facts: dict[str, Any] = {"domain": Domain(columns={v.name: declared(v) for v in whole}), "n": len(table)}

    def error(made: Any) -> float:
        return float(np.mean(errors(made, table, len(table), seeds, partial(apart, table))))

    tried = {}
    for setting in GRID:
        made = PrivateEvolution.calibrated(budget, **facts, **dict(zip(PLACES, setting, strict=True)))
        votes = round(made.scale) if made.variant == "practical" else 0
        tried[setting] = error(replace(made, threshold=votes))
    best = min(tried, key=tried.__getitem__)
    seconds, found = timed(lambda: error(PrivateEvolution.calibrated(budget, **facts)))
    both = ["private-evolution", "marginals"]
    plan = discreet.plan(facts["domain"], budget, records=len(table), mechanisms=both).best
    row = {"table": name.strip(), "columns": table.width, "records": len(table), "epsilon": epsilon}
    row |= {"best": best, "error_of_best": tried[best], "default": found, "ratio": found / tried[best]}
    marginals = error(Marginals.calibrated(budget, **facts))
    return {**row, "seconds": seconds, "marginals": marginals, "plan": plan.name}


@script(tables=(list(TABLES), ["fair"]), seeds=(1, 1))
def main(tables: list[str], seeds: int) -> None:
    rows = []
    cases = [(name, *size) for name, size in product(tables, SIZES)] + [case for case in LARGE if case[0] in tables]
    for name, n, epsilon in cases:
        rows.append(compared(name, n, epsilon, seeds))
        print(*rows[-1].values(), flush=True)
    near = sum(row["ratio"] <= 1.2 for row in rows)
    show(rows[0], rows)
    print(f"at most 1.2 times the best: {near} of {len(rows)}, {verdict(near >= 0.9 * len(rows))}")
    save("evolution_rule", {"seeds": seeds, "near": near, "rows": rows})
