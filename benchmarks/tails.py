"""How well a release by marginals keeps the mean, spread and 99 % quantile of columns with long tails.

A table has 20,000 records and ten columns: one with a long tail, and nine of the RAND health insurance experiment, in
an order of their own. The first five columns were looked at when the levels were chosen, the others were not.

    python benchmarks/tails.py --releases 20

Reported are the mean relative error over the releases, and what nine releases of ten stay below, under epsilon 1 and
delta 1e-6. Noise is of rounded normal variables, so that nothing of this may be published.
"""

from typing import Any

import numpy as np
import polars as pl
from _bench import save
from _harness import script, show
from _wide_tables import data

from discreet._core.random import ApproximateGenerator
from discreet.domain import Category, Counts, Domain, Integer, Records
from discreet.mechanisms import Marginals
from discreet.privacy import Budget

N = 20_000
COLUMNS = {  # file, column, width of a cell, last cell
    "doctor visits": ("", "mdvis", 1, 100),
    "doctor visits, Germany": ("german_health_panel_rwm5yr", "docvis", 1, 150),
    "income": ("nist_acs_excerpts", "PINCP", 5_000, 200),
    "capital gain": ("adult", "capital_gain", 1_000, 100),
    "household income": ("acs2024_or_households", "HINCP", 5_000, 240),
    "capital loss": ("adult", "capital_loss", 50, 100),
    "income, alone": ("acs2024_ca_living_alone_income", "PINCP_from_HINCP", 5_000, 300),
    "expenditure": ("ce_hornby_hu_5571", "Expenditure", 1_000, 150),
    "value of a house": ("acs2024_or_households", "VALP", 20_000, 250),
    "weight of a household": ("acs2024_or_households", "WGTP", 10, 120),
    "density": ("nist_acs_excerpts", "DENSITY", 500, 110),
}


def others(frame: pl.DataFrame, rng: np.random.Generator) -> list[np.ndarray]:
    """Return codes of the nine other columns: of at most 40 classes of about equal numbers each."""
    rows, codes = rng.permutation(len(frame))[:N], []
    for column in frame.drop("mdvis").iter_columns():
        values = column.to_numpy()
        ends = np.unique(values)
        if len(ends) > 60:
            ends = np.unique(np.quantile(values, np.linspace(0, 1, 41)))[:-1]
        codes.append((np.searchsorted(ends, values, side="right") - 1)[rows].astype(np.int64))
    return codes


def facts(codes: np.ndarray) -> np.ndarray:
    return np.array([codes.mean(), codes.std(), np.quantile(codes, 0.99)])


@script(columns=dict.fromkeys(COLUMNS), releases=(20, 2))
def main(columns: list[str], releases: int) -> None:
    import statsmodels.api as sm

    visits, rows = pl.from_pandas(sm.datasets.randhie.load_pandas().data), []
    for name in columns:
        file, key, width, last = COLUMNS[name]
        rng = np.random.default_rng(5)
        values = (data(file) if file else visits)[key].drop_nulls().cast(pl.Float64).to_numpy()
        values = rng.choice(values, N, replace=len(values) < N)
        codes = [np.clip(values // width, 0, last).astype(np.int64), *others(visits, rng)]
        declared: dict[str, Any] = {"x": Integer(lower=0, upper=last)}
        for i, column in enumerate(codes[1:]):
            many = int(column.max()) > 1
            declared[f"c{i}"] = Integer(lower=0, upper=int(column.max())) if many else Category(categories=["a", "b"])
        held = Counts(records=Records(columns=tuple(codes)), frequencies=np.ones(N, dtype=np.int64))
        for relation in ("add-remove", "replacement"):
            budget = Budget(epsilon=1.0, delta=1e-6)
            mechanism = Marginals.calibrated(budget, domain=Domain(columns=declared), n=N, relation=relation)
            found = []
            for seed in range(releases):
                noise = ApproximateGenerator(seed)
                drawn = mechanism.reading(mechanism.kernel(held, rng=noise), n=N).draw(N, rng=noise)
                found.append(facts(np.asarray(Records.concatenate(drawn).columns[0])))
            errors = np.array(found) / facts(codes[0]) - 1.0
            row: dict[str, Any] = {"column": name, "relation": relation}
            for fact, mean, most in zip(
                ("mean", "sd", "q99"), errors.mean(axis=0), np.quantile(np.abs(errors), 0.9, axis=0), strict=True
            ):
                row |= {fact: f"{mean:+.3f}", f"{fact}, nine of ten": f"{most:.3f}"}
            rows.append(row)
    show(tuple(rows[0]), [tuple(map(str, row.values())) for row in rows])
    save("tails", {"rows": rows})
