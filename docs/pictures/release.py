"""The picture on the first page: a table, a release of it, and what an analyst makes of the release.

Run ``python docs/pictures/release.py``; it writes release-light.svg and release-dark.svg beside this file. Every run
makes a release of its own, as randomness is the operating system's. It needs the extra ``demo``.
"""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from statsmodels.datasets import randhie

import discreet
from discreet import Budget
from discreet.domain import Category, Domain, Integer

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "experiments"))
from pictures import THEMES, look, quiet, save  # noqa: E402

HEALTH = ["excellent", "good", "fair", "poor"]
MOST = 12  # visits that are shown


def table() -> pl.DataFrame:
    """Return visits and health of the RAND health insurance experiment."""
    data = randhie.load_pandas().data
    health = np.select([data.hlthg == 1, data.hlthf == 1, data.hlthp == 1], HEALTH[1:], HEALTH[0])
    return pl.DataFrame({"visits": data.mdvis.to_numpy().astype("int64"), "health": health})


def share_of(visits: int, values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the share of a number of visits, one per posterior draw."""
    return (weights * (values == visits)).sum(axis=1)


def drawn(held: pl.DataFrame, shares: list, means: list) -> Figure:
    """Return the picture of a table, and of estimates from its release."""
    figure = Figure(figsize=(9.6, 3.5))
    left, right = figure.subplots(1, 2, width_ratios=(1.5, 1))
    true = [100 * (held["visits"] == visits).mean() for visits in range(MOST + 1)]
    left.bar(range(MOST + 1), true, color=quiet(), alpha=0.4, width=0.85, label="confidential table")
    between(left, range(MOST + 1), [[100 * x for x in (e.mean, e.lower, e.upper)] for e in shares])
    left.set(
        xlabel="visits to a doctor in a year", ylabel="person-years (%)", title="The release keeps the distribution"
    )
    left.grid(visible=False, axis="x")
    left.legend(loc="upper right")
    by_health = [held.filter(pl.col("health") == name)["visits"].mean() for name in HEALTH]
    right.plot(range(4), by_health, "_", color=quiet(), markersize=24, markeredgewidth=3, label="confidential table")
    between(right, range(4), [[e.mean, e.lower, e.upper] for e in means])
    right.set_xticks(range(4), HEALTH)
    right.set(xlabel="health", ylabel="mean visits in a year", xlim=(-0.5, 3.5), ylim=(0, None))
    right.set_title("and tells groups apart")
    right.legend(loc="upper left")
    return figure


def between(axes: object, places: range, found: list[list[float]]) -> None:
    """Draw estimates with their intervals."""
    mean, low, high = np.array(found).T
    axes.errorbar(
        places, mean, [mean - low, high - mean], fmt="o", color="C0", capsize=3, label="from the release, 95 %"
    )


def main() -> None:
    """Make a release and draw it."""
    held = table()
    domain = Domain(
        columns={"visits": Integer(lower=0, upper=100, out_of_bounds="clip"), "health": Category(categories=HEALTH)}
    )
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "visits.parquet"
        discreet.release(held, domain, Budget(epsilon=1, delta=1e-9), size=20_000, out=out)
        released = discreet.read(out)
        asked = [partial(share_of, visits) for visits in range(MOST + 1)]
        shares = [released.estimate([one], column="visits").rows[0] for one in asked]
        table_of_means = released.estimate(["mean"], column="visits", by="health")
        means = [table_of_means["mean", name] for name in HEALTH]
    for theme in THEMES:
        with look(theme):
            save(drawn(held, shares, means), HERE / f"release-{theme}.svg")


if __name__ == "__main__":
    main()
