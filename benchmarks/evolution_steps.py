"""Are the steps that an evolution takes by default nearly as good as the best of a short list?

Points in the plane, their box declared; exact Wasserstein-1 distance (sum of the coordinates' shares of the box) of
1,000 released records. The ratio of the default to the best number of steps in the list, with the theory's population
as before, is asked to be at most 1.15.
"""

from typing import Any

import polars as pl
from _bench import errors, save
from _harness import data, mean_and_error, script, show, timed

from discreet.domain import Domain, Numeric
from discreet.mechanisms import PrivateEvolution
from discreet.papers.pe25 import theorem_population, usable_steps
from discreet.privacy import Budget
from discreet.utility import transport_distance

BUDGET = Budget(epsilon=1.0, delta=1e-4)
DOMAIN = Domain(columns={name: Numeric(lower=0.0, upper=1.0) for name in "xy"})
SIZE = 1000
TARGET = 1.15
VARIATIONS = 13  # of the default API, the record itself included


def compared(points: pl.DataFrame, steps: list[int], seeds: int) -> dict[str, Any]:
    """Return the default beside the steps of the list."""
    n, facts = len(points), {"domain": DOMAIN, "n": len(points)}
    seconds, default = timed(lambda: PrivateEvolution.calibrated(BUDGET, **facts, size=SIZE))
    tried = {}
    for count in sorted({*steps, usable_steps(n, BUDGET.epsilon)}):
        facts |= {"steps": count, "variant": "projection"}
        scale = PrivateEvolution.calibrated(BUDGET, **facts, population=1).scale
        population = theorem_population(scale / n, dimension=2, variations=VARIATIONS) if count else 1
        tried[str(count)] = PrivateEvolution.calibrated(BUDGET, **facts, population=population)
    rows, distance = [], lambda released: transport_distance(points.to_numpy(), released.select("x", "y").to_numpy())
    for name, made in {**tried, f"default ({default.steps}, {default.variant})": default}.items():
        w1, error = mean_and_error(errors(made, points, SIZE, seeds, distance))
        rows.append({"steps": name, "population": made.population, "w1": w1, "error": error})
    best = min(row["w1"] for row in rows[:-1])
    rows = [{**row, "ratio": row["w1"] / best} for row in rows]
    return {"records": n, "seconds": seconds, "ratio": rows[-1]["ratio"], "rows": rows}


@script(records=([1000], [300]), steps=([0, 1, 2, 3, 4, 6, 8], [0, 1, 2]), seeds=(5, 2))
def main(records: list[int], steps: list[int], seeds: int) -> None:
    points = data("mpls_stops_points", "long", "lat").drop_nulls().select(x="long", y="lat")
    bounds = [(n, points[n].quantile(0.001), points[n].quantile(0.999)) for n in "xy"]
    points = points.filter(pl.all_horizontal(pl.col(n).is_between(low, high) for n, low, high in bounds))
    points = points.with_columns((pl.col(n) - low) / (high - low) for n, low, high in bounds)
    found = [compared(points.sample(n, seed=1), steps, seeds) for n in records]
    for one in found:
        rows = [(str(r["steps"]), str(r["population"]), f"{r['w1']:.4f} ± {r['error']:.4f}", f"{r['ratio']:.2f}")
                for r in one["rows"]]  # fmt: skip
        print(f"\n{one['records']:,} points; {one['seconds']:.1f} s of processor time to choose")
        show(("steps", "population", "W1", "over the best"), rows)
        print(f"default over the best: {one['ratio']:.2f} (asked: at most {TARGET})")
    save("evolution_steps", {"target": TARGET, "seeds": seeds, "tables": found})
