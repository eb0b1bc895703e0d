"""How long intervals of one column are, and how often they hold: 20,000 records, epsilon 1 and delta 1e-6.

Written down before anything was measured on the columns that were held back: 28 real columns of ``columns.csv`` were
looked at while intervals were made (sets ``first`` and ``further``), 21 were not (``held back``). A column is a
population; a confidential table is 20,000 records drawn from it with replacement. Where a column has cells, it has 128
and a coin, a number that was chosen on columns that were looked at: with fewer, quantiles and shares have longer
bounds, with more, means and standard deviations longer intervals. Atoms are values that a code book would name. The
mechanism is the plan's choice, and as many records are released as are held. Of each release come 95 % intervals of
the population's mean, standard deviation, five quantiles, a share up to a middle value, one above a value in the tail,
that below an edge of a cell, and the share at each atom.

Lengths are divided by that of the usual interval of the whole table without privacy; quantiles of whole numbers by how
many values lie in it, since it is often a single one. Where that interval is a single point, nothing is divided, and
it counts under ``points``. Means and shares also stand beside a direct answer, the number with Laplace or Gaussian
noise: for the whole budget, and for a seventh of it, since a release answers all questions at once.

Goals: coverage of 94 to 98 % for each kind; a median length of at most 1.5, and a 90th percentile of at most 4 times
that without privacy, of columns whose range is at most 23, and 81, standard deviations. At an atom, the median length
is at most that of Laplace with a seventh of the budget; of other shares at most twice that.

    python experiments/coverage_length.py               # each column, added to releases.csv, which is not kept
    python experiments/coverage_length.py --releases 0  # coverage.csv, columns.csv and cells.csv of these
"""

import math
import zlib
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import polars as pl
from _harness import HERE, add, script, texts, write
from coverage_real import COLUMNS, ROWS, Z, population
from coverage_real import truths as usual
from coverage_real import without_privacy as usual_lengths
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from discreet import Budget, plan, release
from discreet.domain import Domain, cell_span

RESULTS = HERE / "results" / "coverage_length"
RECORDS, CELLS, DRAWS, BUDGET, SHARED = 20_000, 128, 300, Budget(epsilon=1.0, delta=1e-6), 7
QUANTILES = {"q10": 0.1, "q25": 0.25, "q50": 0.5, "q75": 0.75, "q90": 0.9}
KINDS = ("mean", "sd", "quantile", "share", "edge", "atom")
DIRECT = ("laplace", "laplace, a seventh", "gaussian", "gaussian, a seventh")
SETS = {"looked at": ("first", "further"), "held back": ("held back",)}
NAMES = [row["column"] for row in ROWS if row["set"] != "unseen"]
ATOMS = {row["column"]: [float(part) for part in str(row["atoms"]).split()] for row in ROWS}
HEAD = ("column", "release", "question", "kind", "held", "length", "without_privacy")


@cache
def declared(name: str) -> Any:
    """Return a column as it is declared here: with 128 cells and a coin, where it has cells."""
    column, atoms = COLUMNS[name].declared, ATOMS[name]
    if column.kind == "integer":
        atoms = [int(atom) for atom in atoms]
    return replace(column, cells=CELLS, coin=True, atoms=atoms) if column.cells else column


def kind_of(question: str) -> str:
    if not question.startswith("P"):
        return "quantile" if question in QUANTILES else question
    return "atom" if question.startswith("P(=") else "share" if question.startswith(("P(<=", "P(>")) else "edge"


@cache
def edge(name: str) -> list[float]:
    """Return the least value of the cell of the middle value, where the column has cells."""
    column, middle = declared(name), COLUMNS[name].middle
    codes = column.encode([int(middle) if column.kind == "integer" else middle])
    edges = column.ends(cell_span(column, codes)[0])[0].tolist() if column.cells else []
    return [value for value in edges if value > column.lower]


def truths(name: str, values: np.ndarray) -> dict[str, float]:
    """Return the numbers of sorted values that are asked for."""
    atoms = {f"P(={atom:g})": (values == atom).mean() for atom in ATOMS[name]}
    edges = {f"P(<{value!r})": (values < value).mean() for value in edge(name)}
    return {**usual(name, values, QUANTILES), **edges, **atoms}


def without_privacy(name: str, values: np.ndarray) -> dict[str, float]:
    """Return the lengths of the usual intervals of a whole table; of whole numbers how many lie in a quantile's."""
    lengths = usual_lengths(values, truths(name, values), QUANTILES)
    return {key: length + whole(name, key) for key, length in lengths.items()}


def whole(name: str, question: str) -> float:
    return float(COLUMNS[name].declared.kind == "integer" and question in QUANTILES)


@cache
def gaussian(questions: int) -> float:
    """Return the noise of so many answers of sensitivity 1 each: Balle and Wang (2018), for the vector of all."""
    epsilon, reach = BUDGET.epsilon, math.sqrt(questions)

    def excess(sigma: float) -> float:
        a, b = reach / (2.0 * sigma), epsilon * sigma / reach
        return ndtr(a - b) - math.exp(epsilon) * ndtr(-a - b) - BUDGET.delta

    return float(brentq(excess, 0.1, 1e3))


def direct(name: str, kind: str, plain: float) -> list[float]:
    """Return the lengths of intervals about direct answers, from that without privacy."""
    column, sd, lengths = COLUMNS[name].declared, max(plain / (2.0 * Z), 1e-12), []
    if kind in ("sd", "quantile"):
        return [math.nan] * len(DIRECT)
    sensitivity = (column.upper - column.lower if kind == "mean" else 1.0) / RECORDS
    for questions in (1, SHARED):
        b, reach = sensitivity * questions / BUDGET.epsilon, sensitivity * gaussian(questions)

        def beyond(t: float, b: float = b) -> float:
            """Return how likely Laplace noise of scale b and sampling error together exceed t."""
            signs, lift = (1.0, -1.0), 0.5 * (sd / b) ** 2
            tails = [sign * 0.5 * math.exp(lift - sign * t / b + log_ndtr(sign * t / sd - sd / b)) for sign in signs]
            return ndtr(-t / sd) + sum(tails) - 0.025

        lengths += [2.0 * float(brentq(beyond, 0.0, 10.0 * (sd + b))), 2.0 * Z * math.hypot(sd, reach)]
    return [lengths[0], lengths[2], lengths[1], lengths[3]]


@cache
def chosen(name: str) -> Any:
    return plan(Domain(columns={"x": declared(name)}), BUDGET, records=RECORDS, largest_sizes=False).best


def one_release(name: str, number: int) -> Iterator[list[Any]]:
    """Yield a row for each question."""
    everybody, column = population(name), declared(name)
    rng = np.random.default_rng([zlib.crc32(name.encode()), number])
    table = np.sort(everybody[rng.integers(0, len(everybody), RECORDS)])
    values = pl.Series(table).cast(pl.Int64 if column.kind == "integer" else pl.Float64)
    mechanism = chosen(name)
    released = release(values.to_frame("x"), mechanism.domain, mechanism=mechanism, size=RECORDS, seed=number)
    true, length = truths(name, everybody), without_privacy(name, table)
    for row in released.posterior(draws=DRAWS).summary(list(true)).rows:
        slack = 1e-9 * (1.0 + abs(true[row.name]))
        held = row.lower - slack <= true[row.name] <= row.upper + slack
        long = row.upper - row.lower + whole(name, row.name)
        yield [name, number, row.name, kind_of(row.name), int(held), long, length[row.name]]


def summaries(by_column: bool) -> Iterator[list[Any]]:
    """Yield of each set, or column, and kind how often intervals hold, and how long they are."""
    rows = texts(RESULTS / "releases.csv")
    widths = {name: (COLUMNS[name].declared.upper - COLUMNS[name].declared.lower) / population(name).std()
              for name in dict.fromkeys(row[0] for row in rows)}  # fmt: skip
    set_of = {row["column"]: row["set"] for row in ROWS}
    parts = [(name, (name,), math.inf) for name in widths] if by_column else [
        (title, tuple(name for name in widths if set_of[name] in sets), most)
        for title, sets in {**SETS, "all": sum(SETS.values(), ())}.items() for most in (23.0, 81.0, math.inf)
    ]  # fmt: skip
    for title, names, most in parts:
        for kind in KINDS:
            found = [row for row in rows if row[0] in names and row[3] == kind and widths[row[0]] <= most]
            if not found:
                continue
            numbers = np.array([row[4:] for row in found], dtype=np.float64)
            held, length, plain = numbers.T
            some = plain > 0.0
            ratios = length[some] / plain[some] if some.any() else np.full(1, math.nan)
            others = np.array([direct(row[0], kind, one) for row, one in zip(found, plain, strict=True)])
            beside = np.median(length[:, None] / others, axis=0).tolist()
            asked = len({(row[0], row[1]) for row in found}), len(found), int((~some).sum())
            lengths = float(np.median(ratios)), float(np.quantile(ratios, 0.9))
            yield [title, widths[names[0]] if by_column else most, kind, *asked, held.mean(), *lengths, *beside]


def cut_cells() -> Iterator[list[Any]]:
    """Yield of each share up to, or above, a value what its cell holds, and how much of that an interval must hold."""
    # A cell of mass 1 and of mean m on [0, 1] may have any share from max(0, 1 - m/t) to min(1, (1 - m)/(1 - t)) up to
    # t: the last number, which even a coin without noise would leave.
    rows = texts(RESULTS / "releases.csv")
    for name in dict.fromkeys(row[0] for row in rows):
        column, values = declared(name), population(name)
        for kind, value in (("<=", COLUMNS[name].middle), (">", COLUMNS[name].tail)):
            question = f"P({kind}{value:g})"
            found = np.array([row[5:] for row in rows if row[0] == name and row[2] == question], dtype=np.float64)
            if not column.cells or not len(found):
                continue
            cell = cell_span(column, column.encode([int(value) if column.kind == "integer" else value]))
            low, high = float(column.ends(cell[0])[0][0]), float(column.ends(cell[1])[1][0])
            own = values[(values >= low) & ((values < high) | (column.kind == "integer") & (values == high))]
            length, plain = found.mean(axis=0)
            mass, left = len(own) / len(values), math.nan
            if low < value < high and len(own):
                t, m = (value - low) / (high - low), float((own.mean() - low) / (high - low))
                left = min(1.0, (1.0 - m) / (1.0 - t)) - max(0.0, 1.0 - m / t)
            yield [name, question, mass, length, length / plain, (length - mass) / plain, left]


def slices() -> dict[str, Any]:
    return {"slice.csv": [row for name in ("latitude", "home value") for row in one_release(name, 0)]}


CUT = ("column", "question", "cell", "length", "ratio", "ratio_less_cell", "of_the_cell_if_its_mean_were_known")
SUMMARY = ("kind", "releases", "questions", "points", "coverage", "median_length", "90th_percentile",
           *(f"beside_{name.replace(', ', '_').replace(' ', '_')}" for name in DIRECT))  # fmt: skip
WITHOUT_SLICE = dict.fromkeys(("coverage.csv", "columns.csv", "cells.csv"), "slice.csv has two releases")


@script(releases=(42, 2), first=0, only=dict.fromkeys(NAMES))
def main(releases: int, first: int, only: list[str]) -> None:
    for name in only if releases else []:
        made = [row for number in range(first, first + releases) for row in one_release(name, number)]
        add(RESULTS / "releases.csv", HEAD, made)
    if not releases:
        write(RESULTS / "coverage.csv", ("columns", "range_at_most", *SUMMARY), summaries(by_column=False))
        write(RESULTS / "columns.csv", ("column", "range", *SUMMARY), summaries(by_column=True))
        write(RESULTS / "cells.csv", CUT, cut_cells())
        write(RESULTS / "slice.csv", HEAD, slices()["slice.csv"])
