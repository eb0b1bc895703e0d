"""Is the W1 that ``discreet plan`` predicts the W1 that is then measured? Twenty settings on three real tables.

Each table is split by a public attribute into a part that plays the confidential table and a part that plays a public
table like it (an earlier year, another state, other courses). The plan sees the public part, the declared domain and
public numbers only. Every mechanism that the plan calls feasible, with at most a fifth of its records from prior or
noise alone, is then run, and its W1 measured with the library's own ``compare``. Private evolution is counted by
itself: four of its steps are foreseen, with few candidates, whatever it will take.
"""

from typing import Any, NamedTuple

import numpy as np
import polars as pl
from _bench import save
from _harness import data, mean_and_error, script, show

from discreet import Budget, release
from discreet.confidential import confidential, reveal_to_custodian
from discreet.domain import Category, Domain, Integer, Numeric
from discreet.planner import plan
from discreet.releases.content import POOR_UTILITY
from discreet.utility import compare

TARGET = 1.5
EVOLUTION = "private-evolution"


class Setting(NamedTuple):
    """A table, its columns, a budget, and the size of a release as a share of the records."""

    table: str
    column: str
    epsilon: float
    delta: float
    share: float
    sampling: str = "iid"
    records: int | None = None  # a subsample plays the table


SETTINGS = [
    Setting("acs", "income", 1.0, 1e-9, 1.0),
    Setting("acs", "income", 1.0, 1e-9, 1.0, "stratified"),
    Setting("acs", "income", 1.0, 1e-9, 0.01),
    Setting("acs", "income", 0.1, 1e-9, 0.1),
    Setting("acs", "income", 1.0, 0.0, 0.1),
    Setting("acs", "income", 1.0, 1e-6, 1.0, records=20_000),
    Setting("acs", "income", 0.5, 1e-6, 0.5, "stratified", records=100_000),
    Setting("acs", "age", 1.0, 1e-9, 0.1),
    Setting("acs", "age, sex", 1.0, 1e-9, 0.1),
    Setting("acs", "age", 0.1, 1e-6, 1.0, records=10_000),
    Setting("oulad", "score", 1.0, 1e-9, 1.0),
    Setting("oulad", "score", 1.0, 1e-6, 0.1, "stratified"),
    Setting("oulad", "score", 0.2, 1e-6, 1.0, records=5000),
    Setting("oulad", "score, gender", 1.0, 1e-6, 0.5),
    Setting("oulad", "score", 2.0, 0.0, 0.2, records=20_000),
    Setting("adult", "age", 1.0, 1e-6, 1.0),
    Setting("adult", "hours_per_week", 1.0, 1e-6, 0.5),
    Setting("adult", "age, education", 1.0, 1e-6, 1.0),
    Setting("adult", "age", 0.2, 1e-5, 0.1, "stratified"),
    Setting("adult", "hours_per_week", 3.0, 0.0, 1.0, records=5000),
]


Table = tuple[pl.DataFrame, pl.DataFrame, dict[str, Any]]
"""The confidential part, the public one, and the columns."""


def predicted(setting: Setting, table: Table, seeds: int) -> list[dict[str, Any]]:
    """Return, for each mechanism that is feasible and not mostly noise, what is predicted and what is measured."""
    own, public, columns = table
    names = setting.column.split(", ")
    domain = Domain(columns={name: columns[name] for name in names})
    own = own.select(names).drop_nulls()
    if setting.records is not None:
        own = own.sample(setting.records, seed=1)
    size = max(1, int(setting.share * len(own)))
    request: dict[str, Any] = {"epsilon": setting.epsilon, "delta": setting.delta, "sampling": setting.sampling}
    reference = public.select(names).drop_nulls()
    budget, asked = Budget(epsilon=setting.epsilon, delta=setting.delta), {"size": size, "sampling": setting.sampling}
    made = plan(domain, budget, records=len(own), reference=reference, largest_sizes=False, **asked)
    facts = {"table": setting.table, "columns": setting.column, "records": len(own), "size": size, **request}
    rows = []
    for option in made.feasible:
        if (option.share_not_from_data or 0.0) > POOR_UTILITY or option.mechanism is None:
            continue
        mean, error = mean_and_error([measured(own, domain, option.mechanism, size, seed) for seed in range(seeds)])
        row = {**facts, "mechanism": option.name, "chosen": option.mechanism is made.best, "predicted": option.w1}
        rows.append({**row, "measured": mean, "standard_error": error, "ratio": (option.w1 or 0.0) / mean})
        print(*rows[-1].values(), flush=True)
    return rows


def measured(own: pl.DataFrame, domain: Domain, mechanism: Any, size: int, seed: int) -> float:
    """Return the W1 of one release by the library's own comparison."""
    closed = confidential(own, mechanism.domain)
    fixed = size if "size" not in mechanism.__dataclass_fields__ else None
    made = release(closed, mechanism=mechanism, size=fixed, seed=seed, accept={"poor-utility"})
    found = reveal_to_custodian(compare(own, made.records, domain))
    if len(found.columns) == 1:
        return float(found.columns[0].wasserstein or 0.0)
    return float(sum(column.wasserstein_scaled or 0.0 for column in found.columns))


def acs() -> Table:
    """ACS 2024 persons, 48 states; the public table is the excerpts of 2018 and 2019 that NIST published."""
    files = (data(name, "PINCP", "AGEP", "SEX") for name in ("acs2024_persons_income_49", "nist_acs_excerpts"))
    income, sex = pl.col("PINCP").cast(pl.Float64), pl.col("SEX").cast(pl.String)
    own, public = (table.filter(pl.col("PINCP") > 0).select(income=income, age="AGEP", sex=sex) for table in files)
    columns = {"income": Numeric(lower=1, upper=3e6), "age": Integer(lower=15, upper=99)}
    return own, public, {**columns, "sex": Category(categories=["1", "2"])}


def oulad() -> Table:
    """Scores of 2014; those of 2013 play the public table."""
    table = data("oulad_scores", "score", "gender", "code_presentation")
    table = table.with_columns(pl.col("score").cast(pl.Int64), pl.col("gender").cast(pl.String))
    year = pl.col("code_presentation").cast(pl.String).str.slice(0, 4)
    columns = {"score": Integer(lower=0, upper=100), "gender": Category(categories=["F", "M"])}
    return table.filter(year == "2014"), table.filter(year == "2013"), columns


def adult() -> Table:
    """The census extract's larger part; its published test part plays the public table."""
    table = data("adult")
    levels = ["Preschool", "1st-4th", "5th-6th", "7th-8th", "9th", "10th", "11th", "12th", "HS-grad", "Some-college",
              "Assoc-voc", "Assoc-acdm", "Bachelors", "Masters", "Prof-school", "Doctorate"]  # fmt: skip
    columns = {"age": Integer(lower=17, upper=90), "hours_per_week": Integer(lower=1, upper=99)}
    columns["education"] = Category(categories=levels, ordered=True)
    return table.filter(pl.col("split") == "train"), table.filter(pl.col("split") == "test"), columns


@script(seeds=(5, 2))
def main(seeds: int) -> None:
    tables = {"acs": acs(), "oulad": oulad(), "adult": adult()}
    result = [row for setting in SETTINGS for row in predicted(setting, tables[setting.table], seeds)]
    rows = []
    for name, some in {
        "chosen by the plan": [r for r in result if r["chosen"]],
        "all feasible, without evolution": [r for r in result if r["mechanism"] != EVOLUTION],
        EVOLUTION: [r for r in result if r["mechanism"] == EVOLUTION],
    }.items():
        off = np.array([max(r["ratio"], 1.0 / r["ratio"]) for r in some])
        rows.append((name, str(len(off)), f"{np.median(off):.2f}", f"{off.max():.2f}", f"{np.mean(off <= TARGET):.0%}"))
    show(("", "predictions", "median factor", "largest factor", f"within {TARGET}"), rows)
    save("predicted_w1", {"target": TARGET, "settings": len(SETTINGS), "rows": result})
