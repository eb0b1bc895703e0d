"""Algorithm 2 of BNP24 (density-ratio check): Figures 1 to 4, and what the check misses.

It takes about a minute. The check draws K private tables, L releases from each and J neighbours for each release. It
lists the ratios of the release's density under the table to that under the neighbour, and their inverses. An epsilon
passes if no ratio, or few, exceed e^epsilon. The thesis takes J = K = L = 100, n = 1,000, tables of the Pitman-Yor
process itself, and neighbours whose last record is replaced by another held value, a value of the release or a new one,
a third of the time each. It does not say how a held or released value is chosen: here, evenly among the distinct ones.

Beside each verdict stand the exact delta of the library's theorems, and what ``discreet.audit.density_ratio`` sees.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from _harness import HERE, line, script, write
from scipy.special import gammaln

from discreet._core.random import seeded
from discreet.audit import density_ratio
from discreet.domain import Category, Domain
from discreet.mechanisms import DirichletMultinomial, PitmanYor

RESULTS = HERE / "results" / "bnp24_algorithm_2"
TABLES = RELEASES = NEIGHBOURS = 100  # K, L, J
N, CELLS = 1000, 20
GRID = Domain(columns={"x": Category(categories=[f"c{c}" for c in range(CELLS)])})


class Figure(NamedTuple):
    """What a figure's caption says, and the epsilons that the text reads off it."""

    theta: float
    sigma: float
    size: int
    epsilons: tuple[float, ...]


FIGURES = {
    1: Figure(1.0, 0.0, 500, (1.9,)),
    2: Figure(10.0, 0.0, 500, (3.0, 4.0)),
    3: Figure(2.0, 0.5, 100, (6.0,)),
    4: Figure(3.0, 0.2, 100, (4.0, 6.0)),
}


def urn(held: Any, opened: Any, setting: Figure, draws: int, rng: np.random.Generator) -> Any:
    """Return the values of more draws of a Pitman-Yor urn, one row a run; ``opened`` marks the first of each value.

    A draw copies a uniform customer, or opens a new value: from the mass theta, or where the customer opened its value
    and the draw falls on the discount.
    """
    runs, start = held.shape
    values = np.concatenate([held, np.zeros((runs, draws), dtype=np.int64)], axis=1)
    first = np.concatenate([opened, np.zeros((runs, draws), dtype=bool)], axis=1)
    row, fresh = np.arange(runs), np.full(runs, held.max(initial=-1) + 1)
    for i in range(start, start + draws):
        mass = rng.random(runs) * (setting.theta + i) - setting.theta
        customer = np.clip(mass.astype(np.int64), 0, max(i - 1, 0))
        new = (
            (mass < 0) | (first[row, customer] & (mass - customer < setting.sigma)) if i else np.ones(runs, dtype=bool)
        )
        values[:, i] = np.where(new, fresh, values[row, customer])
        first[:, i] = new
        fresh += new
    return values[:, start:]


def log_ratio(setting: Figure, n_a: Any, s_a: Any, n_b: Any, s_b: Any, distinct: int, opened: Any) -> Any:
    """Return the log density ratio of releases, table to neighbour, where one record moves from value a to value b.

    ``n``: how often the table holds a value; ``s``: how often a release does. ``distinct``: values of the table;
    ``opened``: new values of the release. A value that is not held counts as new: the thesis compares its atom with the
    base measure's density, as here.
    """
    theta, sigma = setting.theta, setting.sigma

    def value(n: Any, s: Any) -> Any:
        kept = gammaln(np.maximum(n, 1) - sigma + s) - gammaln(np.maximum(n, 1) - sigma)
        new = gammaln(np.maximum(s, 1) - sigma) - gammaln(1.0 - sigma)
        return np.where(n > 0, kept, np.where(s > 0, new, 0.0))

    def openings(j: Any, k: Any) -> Any:
        if sigma == 0.0:
            return k * math.log(theta)
        return k * math.log(sigma) + gammaln(theta / sigma + j + k) - gammaln(theta / sigma + j)

    lost, won = n_a == 1, n_b == 0
    other_distinct = distinct - lost + won
    other_opened = opened + (lost & (s_a > 0)) - (won & (s_b > 0))
    return (
        value(n_a, s_a) + value(n_b, s_b) + openings(distinct, opened)
        - value(n_a - 1, s_a) - value(n_b + 1, s_b) - openings(other_distinct, other_opened)
    )  # fmt: skip


def checked(number: int, table: int) -> tuple[Any, Any]:
    """Return the log ratios of one private table, one row a release, and whether the truth is infinite there."""
    setting, rng = FIGURES[number], seeded(1000 * number + table)
    held = urn(np.zeros((1, 0), dtype=np.int64), np.zeros((1, 0), dtype=bool), setting, N, rng)
    _, places = np.unique(held[0], return_index=True)
    opened = np.zeros((1, N), dtype=bool)
    opened[0, places] = True
    distinct, last = len(places), int(held[0, -1])
    drawn = urn(np.repeat(held, RELEASES, axis=0), np.repeat(opened, RELEASES, axis=0), setting, setting.size, rng)
    top = int(drawn.max()) + 2  # the last value stands for a new one of the base measure
    of_table = np.bincount(held[0], minlength=top)
    ratios, singular = [], []
    for release in drawn:
        of_release = np.bincount(release, minlength=top)
        kind = rng.integers(3, size=NEIGHBOURS)
        others = [np.flatnonzero(counts) for counts in (of_table, of_release)]
        others = [found[found != last] for found in others]
        chosen = [rng.choice(found, NEIGHBOURS) if len(found) else np.full(NEIGHBOURS, top - 1) for found in others]
        b = np.where(kind == 0, chosen[0], np.where(kind == 1, chosen[1], top - 1))
        n_a, s_a, n_b, s_b = of_table[last], of_release[last], of_table[b], of_release[b]
        new = np.count_nonzero(of_release[distinct:])
        ratios.append(log_ratio(setting, n_a, s_a, n_b, s_b, distinct, new))
        singular.append(((n_a == 1) & (s_a > 0)) | ((n_b == 0) & (s_b > 0)))
    return np.array(ratios), np.array(singular)


def figure_row(number: int, table: int, ratios: Any, singular: Any) -> tuple[Any, ...]:
    setting = FIGURES[number]
    beyond = [float(np.mean(np.abs(ratios) > epsilon)) for epsilon in setting.epsilons]
    shares = ";".join(f"{share:.6g}" for share in beyond)
    return (number, table, float(ratios.max()), float(-ratios.min()), shares, float(singular.mean()))


def checked_by_law(mechanism: Any, epsilon: float, n: int) -> tuple[float, float, float]:
    """Return the exact delta, and the estimate of the library's own check with its lower bound."""
    found = density_ratio(mechanism, records=n, epsilon=epsilon, seed=99)
    return found.promised, found.delta, found.at_least


def on_cells(n: int, prior: float, size: int, seed: int) -> Any:
    """Return Algorithm 2's log ratios for a Dirichlet-multinomial and tables of a uniform population of the cells."""
    ratios = []
    for table in range(TABLES):
        rng = seeded(seed + table)
        records = rng.integers(CELLS, size=n)
        counts, a = np.bincount(records, minlength=CELLS), records[-1]
        drawn = np.array([rng.multinomial(size, rng.dirichlet(prior + counts)) for _ in range(RELEASES)])
        b = rng.choice(np.delete(np.arange(CELLS), a), (RELEASES, NEIGHBOURS))
        low, high = prior + counts[a] - 1, prior + counts[b]
        s_b = np.take_along_axis(drawn, b, axis=1)
        ratios.append(np.log((low + drawn[:, [a]]) / low) + np.log(high / (high + s_b)))
    return np.array(ratios)


def verdicts(rows: list[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Yield rows of ``verdicts.csv``: what the check says of a claim, and what is true."""
    for number, setting in FIGURES.items():
        mine = [row for row in rows if row[0] == number]
        largest = max(max(row[2:4]) for row in mine)
        mechanism = PitmanYor(domain=line(), size=setting.size, strength=setting.theta, discount=setting.sigma)
        for place, epsilon in enumerate(setting.epsilons):
            beyond = float(np.mean([float(row[4].split(";")[place]) for row in mine]))
            yield (f"Figure {number}", epsilon, 0.0, largest, beyond, *checked_by_law(mechanism, epsilon, N))
    yield from on_cells_verdicts()


def on_cells_verdicts() -> Iterator[tuple[Any, ...]]:
    """Yield the rows of two claims about a Dirichlet-multinomial: a wrong one, and one that is right and exact."""
    for what, n, prior, size, epsilon in (
        ("wrong claim, no table has a rare cell", N, 0.01, 50, 0.5),
        ("right claim, all cells are rare", 5, 2.0, 20, 1.0),
    ):
        ratios = np.abs(on_cells(n, prior, size, 7))
        mechanism = DirichletMultinomial(domain=GRID, size=size, prior=prior)
        true, *seen = checked_by_law(mechanism, epsilon, n)
        claimed = 0.0 if what.startswith("wrong") else true
        yield (what, epsilon, claimed, float(ratios.max()), float(np.mean(ratios > epsilon)), true, *seen)


def slices() -> dict[str, Any]:
    figures = [figure_row(number, 0, *checked(number, 0)) for number in FIGURES]
    return {"figures_1_4.csv": figures, "verdicts.csv": on_cells_verdicts()}


@script(tables=(TABLES, 3))
def main(tables: int) -> None:
    rows = [figure_row(number, table, *checked(number, table)) for number in FIGURES for table in range(tables)]
    head = ("figure", "table", "largest_log_ratio", "largest_log_inverse", "shares_beyond", "share_singular")
    write(RESULTS / "figures_1_4.csv", head, rows)
    known = ("largest_log_ratio", "share_beyond", "exact_delta", "seen", "seen_at_least")
    write(RESULTS / "verdicts.csv", ("what", "epsilon", "claimed_delta", *known), verdicts(rows))
