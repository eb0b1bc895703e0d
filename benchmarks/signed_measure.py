"""Utility of the signed measure on positions: beside the hierarchical and the flat histogram, ratios in one run.

The positions of 51,920 police stops (latitude and longitude in the public bounding box of Minneapolis), epsilon 1,
delta 1e-6, as many records released as held, means over seeds with standard errors. Distances are on the domain's
ground metric (each coordinate scaled to [0, 1]): the sliced Wasserstein-1 distance between all records, and the exact
one between the shares of 64 by 64 boxes. The last rows take the stops of January for published, as points around which
those of the other months are counted.

Claims, for the exact distance: on the square root of ``n epsilon / 16`` cells per side, the signed measure is at least
1.2 times nearer than the same noisy counts projected onto the simplex, and 1.6 times nearer than clipped ones; the
hierarchical histogram is nearer than the signed measure on a grid.
"""

import math
from typing import Any

import numpy as np
import polars as pl
from _bench import save, verdict
from _harness import counted, data, decoded, mean_and_error, script, show, timed

from discreet._core.random import secure, seeded
from discreet.domain import Domain, Numeric
from discreet.mechanisms import HierarchicalHistogram, PerturbedHistogram, SignedMeasure
from discreet.privacy import Budget
from discreet.utility import sliced_wasserstein, transport_distance

BUDGET = Budget(epsilon=1.0, delta=1e-6)
BOX = {"lat": (44.89, 45.06), "long": (-93.34, -93.19)}
BOXES = 64
TREE = "hierarchical, iid"


def domain(cells: int | None) -> Domain:
    return Domain(columns={name: Numeric(lower=low, upper=high, cells=cells) for name, (low, high) in BOX.items()})


def scaled(frame: pl.DataFrame) -> np.ndarray:
    """Return positions as shares of the box."""
    return np.column_stack([(frame[name].to_numpy() - low) / (high - low) for name, (low, high) in BOX.items()])


def boxes(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the middles of the boxes that hold points, and how many each holds."""
    cells, counts = np.unique(np.minimum((points * BOXES).astype(int), BOXES - 1), axis=0, return_counts=True)
    return (cells + 0.5) / BOXES, counts


class Table:
    """Confidential positions, and by the name of a release its distances from them and the seconds that it took."""

    def __init__(self, frame: pl.DataFrame, seeds: int) -> None:
        self.frame, self.n, self.seeds = frame, frame.height, seeds
        self.points = scaled(frame)
        self.rows: dict[str, dict[str, list[float]]] = {}
        self.facts: dict[str, Any] = {"n": self.n, "size": self.n}
        # cells of a side at which noise and cells displace records alike, in order
        self.side = int(math.sqrt(min(10_000.0, self.n * BUDGET.epsilon / 16.0)))
        self.tree = domain(1 << round(math.log2(self.side)))
        self.resample("bootstrap", frame, 10_000)

    def keep(self, name: str, released: pl.DataFrame, seconds: float = 0.0) -> None:
        points = scaled(released)
        (a, p), (b, q) = boxes(self.points), boxes(points)
        sliced = sliced_wasserstein(self.points, points, rng=seeded(1), directions=50).value
        exact = transport_distance(a, b, x_weights=p, y_weights=q)
        for kind, value in {"sliced": sliced, "boxes": exact, "seconds": seconds}.items():
            self.rows.setdefault(name, {}).setdefault(kind, []).append(value)

    def mean(self, name: str, kind: str) -> float:
        return float(np.mean(self.rows[name][kind]))

    def resample(self, name: str, frame: pl.DataFrame, first: int) -> None:
        """Keep the distances of as many records drawn from some."""
        for seed in range(self.seeds):
            self.keep(name, frame[seeded(first + seed).integers(frame.height, size=self.n)])

    def release(self, ways: dict[str, Any]) -> None:
        """Keep the distances of releases; the output of the first mechanism is finished in every way."""
        mechanism = next(iter(ways.values()))
        x = counted(self.frame, mechanism.domain)
        for seed in range(self.seeds):
            kernel, output = timed(lambda: mechanism.kernel(x, rng=secure()))
            for name, way in ways.items():
                seconds, released = timed(decoded, way, output, x.n, self.n, seeded(seed))
                self.keep(name, released, kernel + seconds)
        print(f"  {', '.join(ways)}", flush=True)

    def summary(self) -> list[dict[str, Any]]:
        rows, shown = [], []
        for name, found in self.rows.items():
            row: dict[str, Any] = {"release": name, "seeds": self.seeds, "seconds": self.mean(name, "seconds")}
            for kind in ("sliced", "boxes"):
                mean, error = mean_and_error(found[kind])
                row[kind] = {"mean": mean, "standard_error": error}
                row[kind]["ratio_to_hierarchical"] = mean / self.mean(TREE, kind)
            rows.append(row)
            shown.append((name, *row["sliced"].values(), *row["boxes"].values(), row["seconds"]))
        show(("", "sliced W1", "error", "ratio", "W1 of boxes", "error", "ratio", "seconds"), shown)
        return rows


def on_grids(table: Table) -> None:
    """Release on the domain's own cells."""
    for sampling in ("iid", "stratified"):
        mechanism = HierarchicalHistogram.calibrated(BUDGET, domain=table.tree, sampling=sampling, **table.facts)
        table.release({f"hierarchical, {sampling}": mechanism})
    for side in (16, 32, table.side, 72):
        ours = SignedMeasure.calibrated(BUDGET, domain=domain(side), **table.facts)
        like = {"domain": ours.domain, "records": table.n, "scale": ours.scale, "noise": ours.noise}
        ways: dict[str, Any] = {f"signed measure, {side} x {side}": ours}
        for projection in ("simplex", "clip"):
            ways[f"flat {projection}, {side} x {side}"] = PerturbedHistogram(**like, projection=projection)
        if side == table.side:
            ways[f"signed measure, {side} x {side}, stratified"] = SignedMeasure(**like, sampling="stratified")
        table.release(ways)


def around_points(table: Table, public: pl.DataFrame) -> None:
    """Release around public positions, and on trees and grids for comparison."""
    side = table.side
    table.release({TREE: HierarchicalHistogram.calibrated(BUDGET, domain=table.tree, **table.facts)})
    grid = SignedMeasure.calibrated(BUDGET, domain=domain(side), **table.facts)
    table.release({f"signed measure, {side} x {side}": grid})
    for count in (300, 1000, 3000):
        points = public.unique(maintain_order=True).head(count)
        mechanism = SignedMeasure.calibrated(BUDGET, domain=domain(None), points=points, **table.facts)
        table.release({f"signed measure, {count} public points": mechanism})
    table.resample("the public records alone, redrawn", public, 20_000)


@script(seeds=(5, 2))
def main(seeds: int) -> None:
    stops = data("mpls_stops_points", "date", "lat", "long")
    january = pl.col("date").cast(pl.String).str.starts_with("2017-01")
    public = stops.filter(january).select("lat", "long")
    table, later = (Table(frame.select("lat", "long"), seeds) for frame in (stops, stops.filter(~january)))
    print(f"{table.n:,} stops, {BUDGET}", flush=True)
    on_grids(table)
    print(f"{later.n:,} stops after January, {public.height:,} in January taken for published", flush=True)
    around_points(later, public)
    first, second = table.summary(), later.summary()
    mean = {name: table.mean(name, "boxes") for name in table.rows}
    at = f"{table.side} x {table.side}"
    ours = mean[f"signed measure, {at}"]
    claims = {
        "flat simplex over signed measure": (mean[f"flat simplex, {at}"] / ours, 1.2),
        "flat clipped over signed measure": (mean[f"flat clip, {at}"] / ours, 1.6),
        "signed measure over hierarchical": (ours / mean[TREE], 1.0),
    }
    for name, (value, least) in claims.items():
        print(f"{name}: {value:.2f}, at least {least}: {verdict(value >= least)}")
    after = {"records": later.n, "public_records": public.height, "rows": second}
    told = {name: {"value": v, "at_least": t, "met": v >= t} for name, (v, t) in claims.items()}
    facts = {"epsilon": BUDGET.epsilon, "delta": BUDGET.delta, "stops": {"records": table.n, "rows": first}}
    save("signed_measure", {**facts, "after_january": after, "claims": told})
