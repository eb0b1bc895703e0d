"""Coverage on real columns: do intervals hold the table's own numbers, and those of the population it is a sample of?

Twelve real columns, with heaps at round numbers, ties and long tails. A column is a population; a confidential table is
2,000 records drawn from it with replacement. Of each release, and with what the library takes by default, come 95 %
intervals of seven numbers, for the population's (``of="population"``) and for the table's (``of="table"``). The same
draws with mass spread evenly over cells (``within="even"``) stand beside them, and the length of the usual intervals
that the whole table would give without privacy. Fitted to a quarter of the noise, the same intervals must fail.

The default prior was chosen on these twelve columns, and what counts as hidden on sixteen further ones too
(``--columns further``). Eight more (``--columns unseen``) were named before anything was measured on them, and had no
part in any choice. Fifty releases of a setting and a column are a block with its own seed, and every setting is written
when it is finished.
"""

import math
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from _harness import HERE, cells_held, cells_shown, data, read, renew, renew_page, script, write

from discreet._core.random import seeded
from discreet.domain import Domain, Integer, Numeric
from discreet.inference.functionals import known_functionals
from discreet.inference.mechanism_aware import latent_counts, population_posterior
from discreet.inference.samplers import ReleasedCounts, ReleasedRecords
from discreet.mechanisms import named
from discreet.privacy import Budget

RESULTS = HERE / "results" / "coverage_real"
HELD, RELEASED, DRAWS, LEVEL = 2000, 500, 300, 0.95
EPSILONS = (0.3, 1.0, 3.0)
DELTA = 1e-6
Z = 1.959963984540054
QUANTILES = {"q25": 0.25, "q50": 0.5, "q75": 0.75}
ASKED = ("population", "table")


@dataclass(frozen=True)
class Column:
    """A real column: ``file`` and ``name``, how it is ``declared``, and a value in its middle and one in its tail."""

    file: str
    name: str
    declared: Any
    middle: float
    tail: float


def declared(row: dict[str, Any]) -> Any:
    cells = int(row["cells"]) if row["cells"] else None
    if row["kind"] == "integer":
        return Integer(lower=int(row["lower"]), upper=int(row["upper"]), cells=cells)
    return Numeric(lower=row["lower"], upper=row["upper"], cells=cells, spacing=row["spacing"])


ROWS = read(HERE / "columns.csv")
COLUMNS = {r["column"]: Column(r["file"], r["name"], declared(r), r["middle"], r["tail"]) for r in ROWS}
SETS = {
    "first": ("coverage_real.csv", "below_90.md"),
    "further": ("further.csv", "further_below_90.md"),
    "unseen": ("unseen.csv", "unseen_below_90.md"),
}
PURE = ("smoothed-histogram, records", "dirichlet-multinomial, records")
"""Calibrated at delta 0."""

METHODS = (
    *(f"{name}-histogram, {form}" for name in ("perturbed", "hierarchical") for form in ("counts", "records")),
    *("stability-histogram, counts", *PURE, "stabilised-pitman-yor, records"),
    *("marginals, counts", "marginals, records"),
)


@cache
def population(name: str) -> np.ndarray:
    """Return a column's values, clipped to what is declared."""
    column = COLUMNS[name]
    values = data(column.file, column.name)[column.name].drop_nulls().to_numpy()
    values = values[np.isfinite(values)].astype(np.float64)
    return np.sort(np.clip(values, column.declared.lower, column.declared.upper))


def truths(name: str, values: np.ndarray, quantiles: Mapping[str, float] = QUANTILES) -> dict[str, float]:
    """Return the numbers of sorted values that are asked for."""
    column, n = COLUMNS[name], len(values)
    middle, tail = (values <= column.middle).mean(), (values > column.tail).mean()
    ranked = {key: float(values[math.ceil(q * n - 1e-9) - 1]) for key, q in quantiles.items()}
    return {"mean": values.mean(), "sd": values.std(), **ranked,
            f"P(<={column.middle:g})": middle, f"P(>{column.tail:g})": tail}  # fmt: skip


@cache
def numbers(name: str) -> list[str]:
    return [*truths(name, population(name))]


@cache
def of_population(name: str) -> tuple[dict[str, float], np.ndarray]:
    """Return the numbers of a column, and the codes of its values."""
    values = population(name)
    return truths(name, values), COLUMNS[name].declared.encode(pl.Series(values))


def without_privacy(
    values: np.ndarray, true: dict[str, float], quantiles: Mapping[str, float] = QUANTILES
) -> dict[str, float]:
    """Return the lengths of the usual 95 % intervals of a whole table, of which these numbers are true."""
    n, sd, away = len(values), true["sd"], values - true["mean"]
    lengths = {"mean": sd, "sd": math.sqrt(max(0.0, (away**4).mean() - sd**4)) / (2.0 * sd)}
    lengths |= {key: math.sqrt(p * (1.0 - p)) for key, p in true.items() if key.startswith("P")}
    lengths = {key: 2.0 * Z * length / math.sqrt(n) for key, length in lengths.items()}
    for key, q in quantiles.items():
        ranks = np.rint(n * q + Z * math.sqrt(n * q * (1.0 - q)) * np.array([-1.0, 1.0])).astype(int)
        lengths[key] = float(np.diff(values[np.clip(ranks, 0, n - 1)])[0])
    return {key: lengths[key] for key in true}


def calibrated(method: str, name: str, epsilon: float) -> Any:
    budget = Budget(epsilon=epsilon, delta=0.0 if method in PURE else DELTA)
    domain, kind = Domain(columns={"x": COLUMNS[name].declared}), named(method.partition(",")[0])
    return kind.calibrated(budget, domain=domain, n=HELD, size=RELEASED if method.endswith("records") else None)


def narrower(mechanism: Any) -> Any:
    """Return the mechanism with a quarter of the noise: a wrong model of its releases."""
    part = {"scale": mechanism.scale / 4} if hasattr(mechanism, "scale") else {"prior": mechanism.prior / 4}
    return replace(mechanism, **part)


def one_release(method: str, name: str, mechanism: Any, model: Any, rng: np.random.Generator) -> np.ndarray:
    """Return what one release gives.

    Shape (2, numbers, 5): for population and table, whether intervals hold the number, whether those of mass that is
    spread evenly do, whether there are bounds, their length, and that of the whole table's.
    """
    true_of_all, all_codes = of_population(name)
    which = rng.choice(len(all_codes), HELD)
    table = np.sort(population(name)[which])
    output = mechanism.kernel(cells_held(np.bincount(all_codes[which]), mechanism.domain), rng=rng)
    outcome = mechanism.reading(output, n=HELD).outcome()
    kept = None if outcome is None or outcome.share_from_data is None else round(outcome.share_from_data * HELD)
    size = RELEASED if method.endswith("records") else 0
    shown = cells_shown(mechanism, output, HELD, size, rng)
    released = ReleasedRecords(HELD, shown, kept) if size else ReleasedCounts(HELD, shown)
    latent = latent_counts(model, released, strength=None, draws=DRAWS, rng=rng)
    rows, of_table = [], truths(name, table)
    lengths = [*without_privacy(table, of_table).values()]
    for of, numbers_of in zip(ASKED, (true_of_all, of_table), strict=True):
        true = np.array([*numbers_of.values()])
        posterior = population_posterior(latent, rng, of=of, within="bounds")
        draws = posterior._evaluate(known_functionals(numbers(name), posterior.domain), None)
        slack = 1e-9 * (1 + np.abs(true))
        lower, upper = np.quantile(draws, ((1 - LEVEL) / 2, (1 + LEVEL) / 2), axis=0)  # as `estimated` takes them
        bounds = ~np.isclose(draws[..., 1], draws[..., 2], rtol=1e-12, atol=1e-12).all(axis=0)
        ends = (np.where(bounds, lower[:, 1], lower[:, 0]), np.where(bounds, upper[:, 2], upper[:, 0]))
        held = [(low - slack <= true) & (true <= high + slack) for low, high in (ends, (lower[:, 0], upper[:, 0]))]
        rows.append(np.stack([*held, bounds, ends[1] - ends[0], lengths], axis=1))
    return np.array(rows, dtype=np.float64)


BLOCK = 50


class Setting(NamedTuple):
    """A method at an epsilon, and whether its posterior is fitted to a quarter of the noise."""

    method: str
    epsilon: float
    wrong: bool

    @property
    def label(self) -> str:
        return f"{self.method}, fitted to a quarter of the noise" if self.wrong else self.method

    @property
    def key(self) -> str:
        return f"{self.label}, {self.epsilon:g}"

    def measured(self, name: str, number: int, releases: int = BLOCK) -> np.ndarray:
        """Return what a block of releases of a column gives, shape (releases, 2, numbers, 5)."""
        mechanism = calibrated(self.method, name, self.epsilon)
        model = narrower(mechanism) if self.wrong else mechanism
        rng = seeded(zlib.crc32(f"{self.method}, {name}, {self.epsilon}".encode()) + number)
        return np.stack([one_release(self.method, name, mechanism, model, rng) for _ in range(releases)])

    def rows(self, found: dict[str, np.ndarray]) -> Iterator[list[Any]]:
        """Yield a row for the population and one for the table, of what blocks gave by column."""
        names, all_columns = list(found), np.stack(list(found.values()))
        for at, of in enumerate(ASKED):
            held, even, bounds, length, whole = np.moveaxis(all_columns[:, :, at], -1, 0)
            each, plain = held.mean(axis=1), bounds == 0
            place, number = np.unravel_index(int(each.argmin()), each.shape)
            least = float(each.min()), f"{names[place]}: {numbers(names[place])[number]}"
            ratio = float(np.median(length / np.maximum(whole, 1e-12)))
            means = [float(part.mean()) if part.size else math.nan for part in (held[plain], held[~plain], even)]
            yield [self.label, self.epsilon, of, held[..., 0].size, *means, *least, ratio]

    def low(self, found: dict[str, np.ndarray]) -> Iterator[list[str]]:
        """Yield a row for each number that is held too seldom."""
        for name, results in found.items():
            for of, each in zip(ASKED, results[..., 0].mean(axis=0), strict=True):
                for number, held in zip(numbers(name), each, strict=True):
                    if held < LOW and not self.wrong:
                        told = f"{name}: {number}", str(len(results)), f"{100 * held:.3g}"
                        yield [self.method, f"{self.epsilon:g}", of, *told]


WRONG = ("perturbed-histogram, counts", "hierarchical-histogram, counts")
SETTINGS = [
    Setting(method, epsilon, wrong)
    for method in METHODS
    for wrong in (True, False)
    for epsilon in (EPSILONS[: method in WRONG] if wrong else EPSILONS)
]
HEAD = ("method", "epsilon", "about", "releases", "without_bounds", "with_bounds", "mass_spread_evenly", "least",
        "least_of", "length_by_whole_tables")  # fmt: skip
LOW, LOW_HEAD = 0.9, ("method", "epsilon", "about", "number", "releases", "%")
LOW_TITLE, ORDER = "# Single numbers that fewer than 90 % of intervals hold", [setting.key for setting in SETTINGS]
WITHOUT_SLICE = {table: "a row needs all releases; slice.csv has rows of two" for table, _ in SETS.values()}


def slices() -> dict[str, Any]:
    name, settings = "sampling weight", [Setting(method, 1.0, False) for method in METHODS]
    return {"slice.csv": [row for one in settings for row in one.rows({name: one.measured(name, 0, 2)})]}


@script(releases=BLOCK, only=("", "marginals, counts"), processes=1, columns="first")
def main(releases: int, only: str, processes: int, columns: str) -> None:
    table, lowest = SETS[columns]
    names = [row["column"] for row in ROWS if row["set"] == columns]
    write(RESULTS / "slice.csv", HEAD, slices()["slice.csv"])
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        for setting in SETTINGS:
            if setting.method.startswith(only):
                blocks = [(name, k) for name in names for k in range(math.ceil(releases / BLOCK))]
                made = list(zip(blocks, pool.map(setting.measured, *zip(*blocks, strict=True)), strict=True))
                found = {name: np.concatenate([part for (of, _), part in made if of == name]) for name in names}
                renew(RESULTS / table, HEAD, [*setting.rows(found)], ORDER, by=2)
                ran = [] if setting.wrong else [setting.key]
                renew_page(RESULTS / lowest, LOW_TITLE, LOW_HEAD, [*setting.low(found)], ran, ORDER, by=2)
