"""Tables 1 to 6 and 9 to 12 of BNP24 (thesis, 2024): printed, recomputed, and what the releases really reveal.

Run ``python experiments/bnp24_tables.py``; it writes ``experiments/results/bnp24/`` in about a minute.

Each cell of the tables is the probability, estimated with N = 10,000 releases, that the **thesis criterion** fails: the
density ratio must stay within ``[e^-eps, e^eps]`` for all neighbours at once, among them ones chosen after the release
(Theorem 4.1; for the urn histogram, Proposition 4.2). The private data were drawn from the Pitman-Yor process itself.
The theorem needs every value to be held twice or more, which such data are not; the text does not say what was done, so
three readings are recomputed: values held once are counted twice (as in its section 7.2), left out, or all values held
fewer than ten times are left out. Beside them stand the exact deltas of theorem T11 for the same tables.
"""

import math
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from _harness import HERE, markdown, script, write, write_lines

from discreet._core.random import seeded
from discreet.audit.guesses import clopper_pearson
from discreet.papers.bnp24 import proposition_4_2, theorem_4_1
from discreet.privacy.instance import HeldTable, instance_readings

RESULTS = HERE / "results" / "bnp24"
N = 10_000
TABLES = 4  # private tables a setting; the releases are shared among them
SEED = 24
COLUMNS = {
    "least_possible": "least possible", "event": "event", "tight": "tight", "two_sided": "two-sided",
    "every_table": "every table",
}  # fmt: skip
READINGS = ("doubled", "without singletons", "held ten times")


class Setting(NamedTuple):
    """One printed table: rows of (epsilon, [(estimate, error) for each m])."""

    n: int
    theta: float
    sigma: float
    sizes: tuple[int, ...]
    rows: tuple[tuple[float, tuple[tuple[float, float], ...]], ...]
    filtered: bool = False


_SMALL, _LARGE = (50, 125, 250), (500, 750, 1250)
PRINTED = {
    1: Setting(500, 3, 0.5, _SMALL, (
        (1.0, ((0.6973, 0.0202), (0.9154, 0.0122), (0.9768, 0.0066))),
        (2.0, ((0.6529, 0.0210), (0.8714, 0.0147), (0.9577, 0.0088))),
        (4.0, ((0.0817, 0.0120), (0.3943, 0.0219), (0.4459, 0.0216))),
        (5.0, ((0.0, 0.0), (0.0, 0.0), (0.0, 0.0))))),
    2: Setting(500, 3, 0.2, _SMALL, (
        (1.0, ((0.5969, 0.0216), (0.6672, 0.0208), (0.8807, 0.01418))),
        (2.0, ((0.4009, 0.0276), (0.6967, 0.02032), (0.9133, 0.0124))),
        (4.0, ((0.00009, 0.00004), (0.0004, 0.0008), (0.0024, 0.0022))),
        (5.0, ((0.0, 0.0), (0.0, 0.0), (0.0, 0.0))))),
    3: Setting(500, 2, 0.0, _SMALL, (
        (1.0, ((0.1561, 0.0160), (0.23830, 0.01882), (0.7834, 0.0181))),
        (1.8, ((0.0, 0.0), (0.0038, 0.00271), (0.0558, 0.0101))),
        (2.2, ((0.0, 0.0), (0.00009, 0.0004), (0.0024, 0.0021))),
        (3.0, ((0.0, 0.0), (0.0, 0.0), (0.0, 0.0))))),
    4: Setting(500, 5, 0.0, _SMALL, (
        (1.0, ((0.3367, 0.02087), (0.6776, 0.02064), (0.9985, 0.001709))),
        (2.0, ((0.0004, 0.00088), (0.0759, 0.01171), (0.0017, 0.001819))),
        (2.8, ((0.0, 0.0), (0.0, 0.0), (0.0003, 0.00007))),
        (3.0, ((0.0, 0.0), (0.0, 0.0), (0.0, 0.0))))),
    5: Setting(500, 3, 0.0, _SMALL, (
        (0.5, ((0.0005, 0.0009), (0.0128, 0.0049), (0.0450, 0.0091))),
        (1.0, ((0.0, 0.0), (0.0, 0.0), (0.0, 0.0)))), filtered=True),
    6: Setting(500, 5, 0.5, _SMALL, (
        (0.5, ((0.8183, 0.0202), (0.9915, 0.0031), (0.999, 0.0040))),
        (0.9, ((0.00009, 0.00044), (0.01470, 0.0053), (0.1793, 0.0169))),
        (1.5, ((0.0, 0.0), (0.0, 0.0), (0.0, 0.0)))), filtered=True),
    9: Setting(5000, 3, 0.2, _LARGE, (
        (1.0, ((0.4399, 0.0340), (0.6903, 0.0216), (0.7733, 0.0184))),
        (2.0, ((0.4558, 0.0175), (0.7591, 0.0188), (0.5271, 0.0220))),
        (3.0, ((0.0817, 0.0120), (0.3943, 0.0219), (0.4459, 0.0216))),
        (4.0, ((0.0002, 0.0006), (0.0, 0.0), (0.0080, 0.00394))))),
    10: Setting(500, 10, 0.0, _SMALL, (
        (1.0, ((0.4499, 0.0220), (0.9133, 0.9999), (0.9999, 0.0004))),
        (2.0, ((0.00009, 0.00044), (0.0018, 0.0019), (0.0939, 0.0129))),
        (3.0, ((0.00009, 0.00044), (0.00009, 0.00044), (0.0006, 0.0011))),
        (3.2, ((0.0, 0.0), (0.0, 0.0), (0.0, 0.0))))),
    11: Setting(5000, 3, 0.0, _LARGE, (
        (1.0, ((0.5690, 0.0210), (0.8842, 0.01413), (0.9531, 0.0179))),
        (2.0, ((0.0, 0.0), (0.0005, 0.0009), (0.0022, 0.0020))),
        (4.0, ((0.0, 0.0), (0.0, 0.0), (0.0, 0.0))))),
    12: Setting(5000, 3, 0.5, _SMALL, (
        (0.8, ((0.0779, 0.0118), (0.1890, 0.0120), (0.1007, 0.0133))),
        (1.1, ((0.0, 0.0), (0.0, 0.0), (0.0, 0.0)))), filtered=True),
}  # fmt: skip
"""The captions and cells as printed; 0.00009 is less than one release in 10,000."""


INTRO = """# Tables 1 to 6 and 9 to 12 of BNP24

Written by `python experiments/bnp24_tables.py`; `tables.csv` has all digits, the Clopper-Pearson bounds, Proposition
4.2 computed exactly, and the exact deltas under every reading.

- **printed**: the thesis' estimate from 10,000 releases.
- **doubled, without singletons, held ten times**: the same criterion, 10,000 releases over four private tables drawn as
  the captions say; in brackets the smallest and largest of the four tables. The criterion needs every value to be held
  twice or more. *Doubled* counts values held once twice, *without singletons* leaves them out, *held ten times* leaves
  out all values held fewer than ten times.
- **least possible**: at sigma = 0, a bound below the criterion for every private table of as many records, estimated
  too. A new value released fewer than theta e^-eps times breaks the second condition of Theorem 4.1, and how new values
  come does not depend on the table.
- **event**: the largest probability, over neighbours one at a time, that the loss exceeds epsilon (PY26, Theorem 1);
  **tight**: the hockey-stick delta; both one-sided and exact (theorem T11), means over the four doubled tables.
- **two-sided**: the tight delta when the neighbour may be the true table. **every table**: T1, T2 or T12, the only
  number here that is not confidential.

## What differs, and why

1. **The criterion is not what differential privacy asks.** It bounds the loss for all neighbours at once, also for
   those that contain what was just released, and exceeds the event delta of the same tables, by up to forty orders
   of magnitude.
2. **It is also blind.** Where the thesis prints "0 +- 0" the two-sided delta is 0.5 to 33 %: a neighbour that holds
   a value nobody else holds is recognised whenever that value is drawn. Epsilon does not change that; m/n does.
3. **Zero events in 10,000 are not zero.** They leave 0.0015 possible, at the confidence of 1 - 10^-6 that the
   thesis uses. Printed values of 0.00009 are less than one event in 10,000.
4. **Most printed cells cannot be reproduced.** Data drawn as the captions say hold many values once or twice, and
   with them, doubled or left out, the criterion fails far more often than printed in most of Tables 1, 2, 4, 5, 6,
   9, 10 and 12; in Table 11 more often at epsilon 2 and less often at epsilon 1. Table 3 agrees, doubled, within
   the spread of four private tables but for one cell (m = 125, epsilon 1). Single cells agree with private tables
   of frequent values (Table 1 at epsilon 1 and 2 lies between the last two readings). Some are impossible: at
   epsilon 2 Table 10 prints 0.00009, 0.0018 and 0.0939, and no private table has less than about 0.59, 0.85 and
   0.96. Those cells are not the criterion as printed.
5. **The cells are not of one experiment.** At fixed data the criterion falls with epsilon, but Table 2 rises from
   0.6672 to 0.6967 (m = 125) and Table 9 from 0.4399 to 0.4558 (m = 500); it grows with m, but Table 4 falls from
   0.0759 to 0.0017. So each cell seems to have a private table of its own. The row 0.0817, 0.3943, 0.4459 appears
   twice, in Table 1 at epsilon 4 and in Table 9 at epsilon 3; Table 10 has an error of 0.9999.
"""


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
    """Return how often held and new values are drawn."""
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
    """Write a probability with three digits."""
    return "" if value == "" else f"{value:.3g}"


def page(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the tables as a Markdown page."""
    yield INTRO.rstrip()
    head = ["m", "epsilon", "printed", *READINGS, *COLUMNS.values()]
    for number, setting in PRINTED.items():
        what, body = "urn histogram" if setting.filtered else "whole release", []
        mine = [row for row in rows if row["table"] == number]
        for row in [r for r in mine if r["reading"] == READINGS[0]]:
            cells = [
                f"{shown(r['criterion'])} ({shown(r['least_table'])} to {shown(r['largest_table'])})"
                for r in mine
                if (r["m"], r["epsilon"]) == (row["m"], row["epsilon"])
            ]
            numbers = [shown(row[key]) for key in COLUMNS]
            body.append([str(row["m"]), f"{row['epsilon']:g}", shown(row["printed"]), *cells, *numbers])
        title = f"## Table {number}: {what}, n = {setting.n}, theta = {setting.theta:g}, sigma = {setting.sigma:g}"
        yield from ("", title, "", *markdown(head, body, left=len(head)))


def slices() -> Iterator[tuple[str, Any]]:
    """Yield the first rows of a table of whole releases and of one of the urn histogram."""
    for number in (3, 5):
        for row in islice(recompute(number, PRINTED[number]), 2):
            yield "tables.csv", row.values()


@script(tables=([*PRINTED], [3, 5]))
def main(tables: list[Any]) -> None:
    rows = [row for number in tables for row in recompute(number, PRINTED[number])]
    write(RESULTS / "tables.csv", rows[0], (map(str, row.values()) for row in rows))  # with all digits
    write_lines(RESULTS / "tables.md", page(rows))
