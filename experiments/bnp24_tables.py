"""Tables 1 to 6 and 9 to 12 of BNP24 (thesis, 2024): printed, recomputed, and what the releases really reveal.

It takes about a minute. Each cell of the tables is the probability, estimated with N = 10,000 releases, that the
**thesis criterion** fails: the density ratio must stay within ``[e^-eps, e^eps]`` for all neighbours at once, among
them ones chosen after the release (Theorem 4.1; for the urn histogram, Proposition 4.2). Beside it, in three readings
of the private data, which the text leaves open, stand the exact deltas of theorem T11 for the same tables.
"""

import math
from collections.abc import Iterator
from itertools import groupby, islice
from typing import Any, NamedTuple

import numpy as np
from _harness import HERE, markdown, read, script, write, write_lines

from discreet._core.random import seeded
from discreet.audit.instance import clopper_pearson
from discreet.papers.bnp24 import proposition_4_2, theorem_4_1
from discreet.privacy.instance import HeldTable, instance_readings

RESULTS = HERE / "results" / "bnp24"
N = 10_000
TABLES = 4  # private tables a setting; the releases are shared among them
SEED = 24
COLUMNS = ("least_possible", "event", "tight", "two_sided", "every_table")
READINGS = ("doubled", "without singletons", "held ten times")


class Setting(NamedTuple):
    """One printed table: rows of (epsilon, [(estimate, error) for each m])."""

    n: int
    theta: float
    sigma: float
    sizes: tuple[int, ...]
    rows: tuple[tuple[float, tuple[tuple[float, float], ...]], ...]
    filtered: bool = False


def settings() -> dict[int, Setting]:
    """Return the captions and cells as printed; 0.00009 is less than one release in 10,000."""
    found = {}
    for number, group in groupby(read(HERE / "printed" / "bnp24_tables.csv"), key=lambda row: int(row["table"])):
        rows = list(group)
        cells = {(row["epsilon"], int(row["m"])): (row["estimate"], row["error"]) for row in rows}
        sizes = tuple(dict.fromkeys(size for _, size in cells))
        each = tuple((e, tuple(cells[e, size] for size in sizes)) for e in dict.fromkeys(e for e, _ in cells))
        facts = int(rows[0]["n"]), rows[0]["theta"], rows[0]["sigma"]
        found[number] = Setting(*facts, sizes, each, bool(rows[0]["filtered"]))
    return found


PRINTED = settings()


def private_table(setting: Setting, rng: np.random.Generator) -> Any:
    """Draw the frequencies of ``n`` records from the Pitman-Yor process."""
    counts: list[int] = []
    for i in range(setting.n):
        opening = setting.theta + len(counts) * setting.sigma
        point = rng.random() * (setting.theta + i)
        if point < opening or not counts:
            counts.append(1)
            continue
        edges = np.cumsum(np.array(counts) - setting.sigma)
        counts[int(np.searchsorted(edges, min(point - opening, edges[-1] * (1 - 1e-15)), side="right"))] += 1
    return np.array(counts)


def as_read(frequencies: Any, reading: str) -> Any:
    """Return the frequencies as one reading of the thesis takes them."""
    if reading == "doubled":
        return np.where(frequencies == 1, 2, frequencies)
    kept = frequencies[frequencies >= (2 if reading == "without singletons" else 10)]
    return kept if len(kept) else np.array([frequencies.max()])


def releases(frequencies: Any, setting: Setting, size: int, count: int, rng: np.random.Generator) -> tuple[Any, Any]:
    j, theta, sigma = len(frequencies), setting.theta, setting.sigma
    gammas = rng.standard_gamma(np.tile(np.append(frequencies - sigma, theta + j * sigma), (count, 1)))
    drawn = rng.multinomial(size, gammas / gammas.sum(axis=1, keepdims=True))
    held, fresh = drawn[:, :-1], drawn[:, -1]
    if setting.filtered:
        return held, None
    most = int(fresh.max(initial=0))
    sizes = np.zeros((count, 1), dtype=np.int64)
    opened = np.zeros(count, dtype=np.int64)
    for i in range(most):
        live = np.flatnonzero(fresh > i)
        weights = np.where(sizes[live] > 0, sizes[live] - sigma, 0.0)
        point = rng.random(len(live)) * (theta + j * sigma + i)
        target = (np.cumsum(weights, axis=1) <= point[:, None]).sum(axis=1)
        target = np.minimum(target, opened[live])  # beyond the opened values: a new one
        if int(target.max(initial=0)) >= sizes.shape[1] - 1:
            sizes = np.pad(sizes, ((0, 0), (0, 16)))
        sizes[live, target] += 1
        opened[live] += target == opened[live]
    return held, sizes


def criterion_fails(frequencies: Any, setting: Setting, drawn: tuple[Any, Any], epsilon: float) -> Any:
    """Return where the conditions of Theorem 4.1 (uniform base measure), or of Proposition 4.2, do not all hold."""
    held, new = drawn
    if setting.filtered:
        return (held > math.expm1(epsilon) * (frequencies - 1 - setting.sigma)).any(axis=1)
    return ~theorem_4_1(frequencies, held, new, epsilon, strength=setting.theta, discount=setting.sigma)


def least_possible(setting: Setting, drawn: list[tuple[Any, Any]], epsilon: float) -> Any:
    """Return a bound below the criterion for every private table: new values that come too seldom, at discount 0."""
    if setting.filtered or setting.sigma > 0:
        return ""
    seldom = [((new > 0) & (new < setting.theta * math.exp(-epsilon))).any(axis=1) for _, new in drawn]
    return float(np.mean(seldom))


def recompute(number: int, setting: Setting) -> Iterator[dict[str, Any]]:
    """Yield one row for each printed cell and reading."""
    rng = seeded(SEED + number)
    tables = [private_table(setting, rng) for _ in range(TABLES)]
    for reading in READINGS:
        read = [as_read(table, reading) for table in tables]
        for place, size in enumerate(setting.sizes):
            drawn = [releases(f, setting, size, N // TABLES, rng) for f in read]
            facts: dict[str, Any] = {"size": size, "strength": setting.theta, "discount": setting.sigma}
            for epsilon, printed in setting.rows:
                failed = [criterion_fails(f, setting, d, epsilon) for f, d in zip(read, drawn, strict=True)]
                found = clopper_pearson(int(sum(f.sum() for f in failed)), sum(map(len, failed)))
                held = [HeldTable.pitman_yor(f, **facts, filtered=setting.filtered) for f in read]
                ours = [instance_readings(table, epsilon) for table in held]
                exact = [proposition_4_2(f, epsilon, **facts) for f in read if setting.filtered]
                yield {
                    "table": number, "m": size, "epsilon": epsilon, "reading": reading,
                    "distinct": round(float(np.mean([len(f) for f in read])), 1),
                    "printed": printed[place][0], "printed_error": printed[place][1],
                    "criterion": found.estimate, "lower": found.lower, "upper": found.upper,
                    "criterion_exact": float(np.mean(exact)) if exact else "",
                    "least_possible": least_possible(setting, drawn, epsilon),
                    "least_table": min(float(f.mean()) for f in failed),
                    "largest_table": max(float(f.mean()) for f in failed),
                    "event": float(np.mean([o["one-sided"]["event"].delta for o in ours])),
                    "tight": float(np.mean([o["one-sided"]["tight"].delta for o in ours])),
                    "two_sided": float(np.mean([o["two-sided"]["tight"].delta for o in ours])),
                    "every_table": size / (setting.theta + setting.n + size - 1),
                }  # fmt: skip


def shown(value: Any) -> str:
    return "" if value == "" else f"{value:.3g}"


def page(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield (RESULTS / "intro.md").read_text(encoding="utf-8").rstrip()
    names = (name.replace("two_", "two-").replace("_", " ") for name in COLUMNS)
    head = ["m", "epsilon", "printed", *READINGS, *names]
    for number, setting in PRINTED.items():
        what, body = "urn histogram" if setting.filtered else "whole release", []
        mine = [row for row in rows if row["table"] == number]
        for row in [r for r in mine if r["reading"] == READINGS[0]]:
            alike = [r for r in mine if (r["m"], r["epsilon"]) == (row["m"], row["epsilon"])]
            spread = ([shown(r[k]) for k in ("criterion", "least_table", "largest_table")] for r in alike)
            cells = ["{} ({} to {})".format(*texts) for texts in spread]
            numbers = [shown(row[key]) for key in COLUMNS]
            body.append([str(row["m"]), f"{row['epsilon']:g}", shown(row["printed"]), *cells, *numbers])
        title = f"## Table {number}: {what}, n = {setting.n}, theta = {setting.theta:g}, sigma = {setting.sigma:g}"
        yield from ("", title, "", *markdown(head, body, left=len(head)))


def slices() -> dict[str, Any]:
    return {"tables.csv": [row.values() for number in (3, 5) for row in islice(recompute(number, PRINTED[number]), 2)]}


@script(tables=([*PRINTED], [3, 5]))
def main(tables: list[Any]) -> None:
    rows = [row for number in tables for row in recompute(number, PRINTED[number])]
    write(RESULTS / "tables.csv", rows[0], (map(str, row.values()) for row in rows))  # with all digits
    write_lines(RESULTS / "tables.md", page(rows))
