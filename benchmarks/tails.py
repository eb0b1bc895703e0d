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
from _harness import data, drawn, each_once, script, show
from _wide_releases import domain_of

from discreet._core.random import ApproximateGenerator
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
        sizes = {"x": last + 1, **{f"c{i}": int(column.max()) + 1 for i, column in enumerate(codes[1:])}}
        domain, held = domain_of(sizes, [key for key, size in sizes.items() if size > 2]), each_once(codes)
        for relation in ("add-remove", "replacement"):
            budget = Budget(epsilon=1.0, delta=1e-6)
            mechanism = Marginals.calibrated(budget, domain=domain, n=N, relation=relation)
            found = []
            for seed in range(releases):
                noise = ApproximateGenerator(seed)
                found.append(facts(drawn(mechanism, held, N, noise).columns[0]))
            errors = np.array(found) / facts(codes[0]) - 1.0
            row: dict[str, Any] = {"column": name, "relation": relation}
            largest = np.quantile(np.abs(errors), 0.9, axis=0)
            for fact, mean, most in zip(("mean", "sd", "q99"), errors.mean(axis=0), largest, strict=True):
                row |= {fact: f"{mean:+.3f}", f"{fact}, nine of ten": f"{most:.3f}"}
            rows.append(row)
    show(rows[0], rows)
    save("tails", {"rows": rows})
