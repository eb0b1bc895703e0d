"""How often intervals from several synthetic tables of a wide one hold the population's value.

A population of eight columns with a known law (a Gaussian copula of two factors), 5,000 records of it, epsilon 1 and
delta 1e-6. Each world is a table, a release of 20 synthetic tables of as many records by ``marginals``, and the
combining rule for fully synthetic tables. A number counts in a world only if all tables of two columns that identify it
were measured: what was not, rests on conditional independence, and no interval is claimed.

    python experiments/coverage_wide.py --worlds FIRST LAST   # worlds FIRST to LAST - 1, added to worlds.csv
    python experiments/coverage_wide.py                       # coverage.csv of all worlds so far
"""

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from _harness import HERE, add, each_once, script, texts, write
from scipy.special import ndtr

from discreet.domain import Domain, Integer, Records
from discreet.inference import combine
from discreet.mechanisms.chosen_tables import ChosenTables
from discreet.mechanisms.marginals import Marginals
from discreet.privacy import Budget

RESULTS = HERE / "results" / "coverage_wide"
CELLS = (2, 2, 3, 4, 5, 6, 10, 20)
DOMAIN = Domain(columns={f"c{i}": Integer(lower=0, upper=cells - 1) for i, cells in enumerate(CELLS)})
RECORDS, TABLES = 5000, 20
LOADINGS = np.array([[9, -3], [-8, 4], [7, 6], [2, 9], [9, 5], [-4, 9], [8, -5], [9, 4]]) / 10
SETTINGS = {"all pairs": None, "workload": ("c0*c6", "c3*c6", "c0*c3", "c6*c7", "c1*c4", "c2*c7")}
HEAD = ("setting", "world", "number", "measured", "estimate", "lower", "upper", "adjusted")


class Number(NamedTuple):
    """A number of the population: its name, the pairs that identify it, and its estimate and variance in a table."""

    name: str
    pairs: tuple[tuple[int, int], ...]
    of: Any


def population(n: int, rng: np.random.Generator) -> np.ndarray:
    """Draw records: columns with falling probabilities, linked by two factors."""
    latent = rng.normal(size=(n, 2)) @ LOADINGS.T + rng.normal(size=(n, len(CELLS)))
    uniform = ndtr(latent / np.sqrt((LOADINGS**2).sum(axis=1) + 1.0))
    columns = []
    for column, cells in zip(uniform.T, CELLS, strict=True):
        shares = np.exp(-3.0 * np.arange(cells) / cells)
        columns.append(np.minimum(np.searchsorted(np.cumsum(shares / shares.sum()), column), cells - 1))
    return np.stack(columns, axis=1)


def mean(of: Any) -> Any:
    """The mean of a function of the records among those for which it is not NaN."""

    def estimated(x: np.ndarray) -> tuple[float, float]:
        values = of(x).astype(float)
        values = values[~np.isnan(values)]
        return float(values.mean()), float(values.var() / len(values))

    return estimated


def given(condition: np.ndarray, holds: np.ndarray) -> np.ndarray:
    """Return 1 where something holds and 0 where not, NaN where the condition is not met."""
    return np.where(condition, holds.astype(float), np.nan)


def slope(y: int, of: tuple[int, ...]) -> Any:
    """The first coefficient of a linear regression, with the variance that allows for any residuals."""

    def estimated(x: np.ndarray) -> tuple[float, float]:
        design = np.column_stack([np.ones(len(x)), *(x[:, i] for i in of)])
        bread = np.linalg.inv(design.T @ design)
        fitted = bread @ design.T @ x[:, y]
        pulls = design * (x[:, y] - design @ fitted)[:, None]
        return float(fitted[1]), float((bread @ (pulls.T @ pulls) @ bread)[1, 1])

    return estimated


NUMBERS = (
    Number("mean of c3", (), mean(lambda x: x[:, 3])),
    Number("mean of c6", (), mean(lambda x: x[:, 6])),
    Number("mean of c7", (), mean(lambda x: x[:, 7])),
    Number("P(c0 = 1)", (), mean(lambda x: x[:, 0] == 1)),
    Number("P(c5 = 0)", (), mean(lambda x: x[:, 5] == 0)),
    Number("P(c7 >= 10)", (), mean(lambda x: x[:, 7] >= 10)),
    Number("P(c4 >= 2 | c1 = 1)", ((1, 4),), mean(lambda x: given(x[:, 1] == 1, x[:, 4] >= 2))),
    Number("P(c6 = 0 | c3 = 0)", ((3, 6),), mean(lambda x: given(x[:, 3] == 0, x[:, 6] == 0))),
    Number("P(c2 = 2 | c7 >= 5)", ((2, 7),), mean(lambda x: given(x[:, 7] >= 5, x[:, 2] == 2))),
    Number("slope of c6 by c0, with c3", ((0, 6), (3, 6), (0, 3)), slope(6, (0, 3))),
    Number("slope of c6 by c3, with c0", ((0, 6), (3, 6), (0, 3)), slope(6, (3, 0))),
    Number("slope of c7 by c6", ((6, 7),), slope(7, (6,))),
)


def truth() -> dict[str, float]:
    """Return the population's values, from a million records."""
    x = population(1_000_000, np.random.default_rng(0))
    return {number.name: number.of(x)[0] for number in NUMBERS}


def world(setting: str, index: int, n: int = RECORDS, tables: int = TABLES) -> Iterator[list[Any]]:
    """Release records as several tables; yield of each number whether it was measured, and its combined estimate."""
    rng = np.random.default_rng([index, list(SETTINGS).index(setting)])
    x, budget = population(n, rng), Budget(epsilon=1.0, delta=1e-6)
    mechanism = Marginals.calibrated(budget, domain=DOMAIN, n=n, tables=tables, workload=SETTINGS[setting])
    released, found = mechanism.kernel(each_once(x.T), rng=rng), []
    measured = {pair for pair, _ in ChosenTables(mechanism, released).pairs}
    for _ in range(tables):
        made = Records.concatenate(mechanism.reading(released, n=n).draw(n, rng=rng))
        found.append([number.of(np.stack(made.columns, axis=1)) for number in NUMBERS])
    for number, each in zip(NUMBERS, np.array(found).transpose(1, 2, 0), strict=True):
        one, known = combine(*each, kind="fully", size=n, n=n), measured.issuperset(number.pairs)
        yield [setting, index, number.name, known, one.estimate, one.lower, one.upper, one.adjusted]


def coverage() -> Iterator[list[Any]]:
    """Yield, for each number, in how many worlds it was measured, and how often it was within its interval."""
    true, rows = truth(), texts(RESULTS / "worlds.csv")
    for setting in SETTINGS:
        for number in NUMBERS:
            kept = [r for r in rows if r[0] == setting and r[2] == number.name and r[3] == "True"]
            if not kept:
                continue
            estimate, lower, upper = np.array([[float(cell) for cell in r[4:7]] for r in kept]).T
            value = true[number.name]
            covered = float(((lower <= value) & (value <= upper)).mean())
            bias, sd = float(estimate.mean() - value), float(estimate.std(ddof=1)) if len(kept) > 1 else 0.0
            yield [setting, number.name, len(kept), value, bias, sd, float((upper - lower).mean()), covered]


def slices() -> dict[str, Any]:
    return {"slice.csv": [*world("workload", 0, 1000, 2)], "coverage.csv": coverage()}


WITHOUT_SLICE = {"worlds.csv": "a world takes some seconds; slice.csv is a small one"}


@script(worlds=([0, 0], [1000, 1001]))
def main(worlds: list[int]) -> None:
    for index, setting in product(range(*worlds), SETTINGS):
        add(RESULTS / "worlds.csv", HEAD, world(setting, index))
    if worlds[0] == worlds[1]:
        write(RESULTS / "slice.csv", HEAD, world("workload", 0, 1000, 2))
        head = ("setting", "number", "worlds", "value", "bias", "sd_of_estimates", "mean_length", "coverage")
        write(RESULTS / "coverage.csv", head, coverage())
