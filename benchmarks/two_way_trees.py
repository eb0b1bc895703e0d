"""Whether strong pairs gain from two-dimensional trees: two levels of cells, the finer where counts are large.

For the ten strongest pairs of ordered columns of a table, those that a release measures. The *flat* table is what is in
use: all units on the pair's merged cells. The *tree* has its units divided between these and the declared cells: the
two counts of a merged cell are combined by their variances, and its cells are refined where its released count exceeds
three standard errors of their sum. Both are read as the nearest table without negative counts, with the exact tables of
one column, so that only the cells and the noise differ. *No noise* has exact merged cells: what finer cells could win
at most. Errors are total variations on declared cells, and of correlations of codes, means over pairs and draws.

    python benchmarks/two_way_trees.py
"""

from typing import Any

import numpy as np
from _bench import save
from _harness import each_once, script, show
from _wide_releases import domain_of
from relations import CASES, Judge

from discreet._core.random import ApproximateGenerator
from discreet.mechanisms import Marginals
from discreet.mechanisms.latent_classes import nearest_table
from discreet.privacy import Budget

SHARES = (0.0, 0.2, 0.5, 0.8)  # of the units, for declared cells


def tables_of(judge: Judge, relation: str) -> Any:
    """Return the measured tables of a release."""
    budget, n = Budget(epsilon=1.0, delta=judge.delta), len(judge.seen)
    domain = domain_of(judge.table.sizes, judge.table.ordered)
    made = Marginals.calibrated(budget, domain=domain, n=n, relation=relation)
    return made.reading(made.kernel(each_once(judge.seen.T), rng=ApproximateGenerator(1)), n=n).measured


def read(true: np.ndarray, cells: Any, error: float, share: float, rng: np.random.Generator) -> np.ndarray:
    """Return a table of declared cells, by noisy ones on one level or two."""
    a, b = true.sum(axis=1), true.sum(axis=0)
    at = np.ix_(*[merged.cell_of for merged in cells])
    within = [merged.within(side) for merged, side in zip(cells, (a, b), strict=True)]
    exact = np.zeros([merged.count for merged in cells])
    np.add.at(exact, at, true)
    sums = exact + error / np.sqrt(1.0 - share) * rng.normal(size=exact.shape)
    fine = sums[at] * np.outer(*within)
    if share and error:
        numbers, children = np.zeros_like(exact), true + error / np.sqrt(share) * rng.normal(size=true.shape)
        np.add.at(numbers, at, 1.0)
        totals = np.zeros_like(exact)
        np.add.at(totals, at, children)
        weight = (1.0 / (1.0 - share)) / (1.0 / (1.0 - share) + numbers / share)  # of the sum of the declared cells
        best = sums + weight * (totals - sums)
        large = best > 3.0 * error * np.sqrt(numbers / share)
        fine = np.where(large[at], children + ((best - totals) / numbers)[at], best[at] * np.outer(*within))
    return nearest_table(fine, a, b, np.empty((0, fine.size)))


@script(tables=["loans", "flights"], draws=(5, 2))
def main(tables: list[str], draws: int) -> None:
    rows = []
    for name in tables:
        judge = Judge(*CASES[name])
        ordered = {place for place, column in enumerate(judge.names) if column in judge.table.ordered}
        for relation in ("add-remove", "replacement"):
            measured = tables_of(judge, relation)
            units = dict(measured.choice.pairs)
            dependent = {
                pair: np.abs(cells - np.outer(cells.sum(axis=1), cells.sum(axis=0))).sum()
                for pair, cells in judge.pairs.items()
                if pair in units and ordered >= {*pair}
            }
            for share in (None, *SHARES):
                rng, errors = np.random.default_rng(3), []
                for pair in sorted(dependent, key=lambda pair: -dependent[pair])[:10] * draws:
                    true, error = judge.pairs[pair], measured.facts.scale / units[pair] / measured.total
                    found = read(true, measured.choice.cells(pair), error * (share is not None), share or 0.0, rng)
                    off = judge._correlation("codes", pair, true) - judge._correlation("codes", pair, found)
                    errors.append((0.5 * np.abs(found - true).sum(), abs(off)))
                kind = "no noise" if share is None else f"tree, {share:.0%} declared" if share else "flat"
                rows.append((name, relation, kind, len(errors) // draws, *np.mean(errors, axis=0)))
    show(("table", "relation", "cells", "pairs", "total variation", "correlation"), rows)
    save("two_way_trees", {"rows": [list(map(str, row[:4])) + [round(float(e), 4) for e in row[4:]] for row in rows]})
