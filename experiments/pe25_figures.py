"""Figures 2, 5, 6 and 7 of PE25: Private Evolution on the unit disc, beside what the paper leaves out.

It takes about half an hour. ``README.md`` of the results says what is as printed (section 6, appendices B and F) and
what differs.

**Two things here are for experiments only.** Noise is rounded normal noise from a seeded generator in place of the
exact sampler, which is slow when seeded. And in Figure 5 the evolution starts at the private records themselves, as the
paper's does: that API returns confidential records, so no guarantee holds for those runs.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from typing import Any

import numpy as np
from _harness import HERE, decoded, each_once, mean_and_band, read, script, write
from scipy.stats import t as student

from discreet._core.random import seeded
from discreet.domain import Counts, Domain, Numeric, Records
from discreet.evolution import Ball
from discreet.mechanisms import HierarchicalHistogram
from discreet.mechanisms.noise import law_named
from discreet.mechanisms.private_evolution import PrivateEvolution
from discreet.papers.pe25 import predicted_error, theorem_gamma, theorem_population, usable_steps
from discreet.privacy import Budget
from discreet.utility import transport_distance

RESULTS = HERE / "results" / "pe25_figures"
DELTA, SEED = 1e-4, 25
RECORDS = (250, 500, 1000, 2000)
STEPS = (1, 2, 3, 4, 6, 8, 11, 14, 20, 28, 40)
POPULATIONS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
SHRINKING = (0.0, 0.1, 0.2, 0.3, 0.5, 1.0)
SHOWN = (0, 1, 2, 3, 4, 6, 8, 10, 12, 14)  # steps of a trajectory that are measured
SOME = 30  # runs of what the paper does not show
TILT = 0.5  # radians
OTHERS = (("practical", "stratified"), ("projection", "iid"), ("projection", "stratified"))


@dataclass(frozen=True, kw_only=True)
class Evolution(PrivateEvolution):
    """Private Evolution with fast noise of nearly the same law, and any first population: never for a release."""

    def _first(self, rng: np.random.Generator) -> Records:
        return table(self.api.start).records if isinstance(self.api, StartedAt) else super()._first(rng)

    def _noisy(self, counts: Any, rng: np.random.Generator) -> Any:
        if self.noise == "gaussian":
            return counts + law_named("gaussian").approximate(self.scale, len(counts), rng=rng)
        held = np.flatnonzero(counts)
        noisy = counts[held] + law_named("laplace").approximate(self.scale, len(held), rng=rng)
        released = np.zeros_like(counts)
        released[held] = np.where(noisy >= self.threshold, noisy, 0)
        return released


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedAt(Ball):
    """A ball whose first population is given. With confidential records in it, no guarantee holds: Figure 5 only."""

    start: Any = field(repr=False)


def table(points: Any) -> Counts:
    return each_once(map(np.ascontiguousarray, np.asarray(points).T))


def space(d: int, cells: int | None = None) -> Domain:
    return Domain(columns={f"x{i}": Numeric(lower=-1.0, upper=1.0, cells=cells) for i in range(d)})


def evolution(n: int, *, d: int = 2, epsilon: float = 1.0, **fixed: Any) -> Evolution:
    """Return the mechanism with the least noise for the budget, and the paper's T, alpha and n_s."""
    chosen = {"api": "ball", "steps": usable_steps(n, epsilon), **fixed}
    return as_printed(Budget(epsilon=epsilon, delta=DELTA), domain=space(d), n=n, **chosen)


def as_printed(budget: Budget, **fixed: Any) -> Evolution:
    """Return the mechanism with Theorem 4.1's n_s and independent draws; the library's defaults are others."""
    chosen = {"variant": "practical", "sampling": "iid", "population": 1, **fixed}
    made = Evolution.calibrated(budget, **chosen)
    if "population" in fixed:
        return made
    sigma, each = made.scale / made.records, made.api.variations_each()
    return replace(made, population=theorem_population(sigma, dimension=len(made.domain.columns), variations=each))


def uniform(count: int, rng: np.random.Generator, *, d: int = 2, radius: float = 1.0) -> Any:
    """Draw uniformly from a ball around the origin."""
    normal = rng.standard_normal((count, d))
    lengths = np.sqrt((normal**2).sum(axis=1) + rng.exponential(2.0, size=count))
    return radius * normal / lengths[:, None]


def positive(count: int, rng: np.random.Generator, *, d: int = 2) -> Any:
    """Draw uniformly from the part of the unit ball with positive coordinates."""
    return np.abs(uniform(count, rng, d=d))


def distance(x: Any, y: Any, weights: Any = None) -> float:
    """Return the exact Wasserstein-1 distance in the Euclidean norm."""
    return transport_distance(x, y, y_weights=weights, norm="euclidean")


def population(mechanism: Evolution, step: Any, rng: np.random.Generator) -> Any:
    """Return the population that a step's votes lead to: n_s records."""
    parts = mechanism.reading([step], n=mechanism.records).draw(mechanism.population, rng=rng)
    return np.stack(Records.concatenate(parts).columns, axis=1)


def last_errors(mechanism: Evolution, tables: list[Any], rng: np.random.Generator, laws: int = 0) -> Any:
    """Return the errors of the last populations, and of the probabilities in the first ``laws`` runs."""
    found, law = [], []
    for run, held in enumerate(tables):
        last = list(mechanism.kernel(table(held), rng=rng))[-1]
        found.append(distance(held, population(mechanism, last, rng)))
        if run < laws:  # the probabilities that records are drawn with: the error without the last sampling
            weights = mechanism.probabilities(last)
            some = np.flatnonzero(weights)
            law.append(distance(held, np.stack(last.candidates.columns, axis=1)[some], weights[some]))
    return np.array(found), float(np.mean(law)) if law else math.nan


def floor(tables: list[Any], size: int, rng: np.random.Generator) -> Any:
    """Return the errors of that many records drawn from the private ones, without privacy."""
    return np.array([distance(held, held[rng.integers(len(held), size=size)]) for held in tables])


def no_step(tables: list[Any], size: int, rng: np.random.Generator) -> Any:
    """Return the errors of as many uniform records: T = 0."""
    return np.array([distance(held, uniform(size, rng, d=held.shape[1])) for held in tables])


def tree_errors(tables: list[Any], rng: np.random.Generator, *, epsilon: float = 1.0, tilt: float = 0.0) -> Any:
    """Return the errors of the hierarchical histogram: n records of the cube's cells, stratified.

    Its first cuts are the coordinate planes, at which the records with positive coordinates end: a tilt of the records
    (in the plane) takes that advantage away.
    """
    n, d = tables[0].shape
    cells = 1 << round(math.log2(n * epsilon / 16.0) / d)  # as many as records that noise can tell apart
    found, turn, budget = [], np.eye(d), Budget(epsilon=epsilon, delta=DELTA)
    mechanism = HierarchicalHistogram.calibrated(budget, domain=space(d, cells), n=n, sampling="stratified")
    if tilt:
        turn[:2, :2] = [[math.cos(tilt), -math.sin(tilt)], [math.sin(tilt), math.cos(tilt)]]
    for held in tables:
        turned = held @ turn.T
        codes = np.clip(np.floor((turned + 1) / 2 * cells), 0, cells - 1).astype(np.int64)
        exact = mechanism._counts(table(codes))
        noisy = exact + law_named(mechanism.noise).approximate(mechanism.scale, len(exact), rng=rng)
        found.append(distance(turned, decoded(mechanism, noisy, mechanism.records, n, rng).to_numpy()))
    return np.array(found)


def student_band(values: Any) -> tuple[float, float, float]:
    """Return the mean of independent runs and its 99 % confidence interval by Student's t."""
    return mean_and_band(values, float(student.ppf(0.995, max(len(values) - 1, 1))))


HEAD_2 = ("panel", "series", "n", "steps", "population", "scale", "mean_w1", "low_99", "high_99", "mean_w1_of_law",
          "runs")  # fmt: skip


def figure_2(runs: int) -> Iterator[Any]:
    """Yield errors of the last population by the number of steps, and by its size."""

    def row(panel: str, series: str, n: int, steps: int, size: int, scale: float, found: Any, law: float) -> Any:
        return (panel, series, n, steps, size, scale, *student_band(found), law, len(found))

    def evolved(panel: str, series: str, made: Evolution, tables: list[Any]) -> Any:
        facts = made.records, made.steps, made.population, made.scale
        return row(panel, series, *facts, *last_errors(made, tables, rng, SOME))

    for n in RECORDS:
        rng = seeded(SEED + n)
        tables, predicted = [positive(n, rng) for _ in range(runs)], evolution(n)
        size, steps, few = predicted.population, predicted.steps, tables[:SOME]
        yield row("both", "no step", n, 0, size, 0.0, no_step(tables, size, rng), math.nan)
        yield row("both", "floor", n, 0, size, 0.0, floor(tables, size, rng), math.nan)
        yield row("both", "hierarchical histogram", n, 1, n, 0.0, tree_errors(few, rng), math.nan)
        yield row("both", "hierarchical histogram, tilted", n, 1, n, 0.0, tree_errors(few, rng, tilt=TILT), math.nan)
        for count in sorted({*STEPS, steps}):
            yield evolved("steps", "practical", evolution(n, steps=count), tables)
        for count in sorted({*POPULATIONS, size}):
            yield evolved("population", "practical", replace(predicted, population=count), tables)
            if n == 1000:
                yield row("population", "floor by size", n, 0, count, 0.0, floor(few, count, rng), math.nan)
        for variant, sampling in OTHERS if n == 1000 else ():
            for count in (1, 3, 8, 14, 28):
                made = evolution(n, steps=count, variant=variant, sampling=sampling)
                yield evolved("steps", f"{variant}, {sampling}", made, few)
            for count in (4, 16, size, 64, 256):
                made = replace(predicted, population=count, variant=variant, sampling=sampling)
                yield evolved("population", f"{variant}, {sampling}", made, few)
        print(f"figure 2: n = {n:,} done", flush=True)


def trajectory(mechanism: Evolution, held: Any, start: Any, rng: np.random.Generator) -> tuple[list[float], int]:
    """Return the errors of some of the populations, and how many steps released no vote."""
    made = replace(mechanism, api=StartedAt(domain=mechanism.domain, alpha=mechanism.api.alpha, start=start))
    steps = list(made.kernel(table(held), rng=rng))
    points = [start if t == 0 else population(made, steps[t - 1], rng) for t in SHOWN]
    return [distance(held, p) for p in points], sum(not step.votes.any() for step in steps)


HEAD_5 = ("start", "beta", "step", "mean_w1", "low_99", "high_99", "worst_case_bound", "runs")


def figure_5(runs: int) -> Iterator[Any]:
    """Yield errors step by step from three kinds of initial data; those made of S are confidential."""
    mechanism = evolution(1000)
    for shrink in (*SHRINKING, math.nan):
        uniformly = math.isnan(shrink)
        rng = seeded(SEED + (55 if uniformly else 5))
        tables = [positive(1000, rng) for _ in range(runs)]
        starts = (uniform(mechanism.population, rng) if uniformly else (1 - 2 * shrink) * held for held in tables)
        found = np.array([trajectory(mechanism, *pair, rng)[0] for pair in zip(tables, starts, strict=True)])
        worst = worst_case(mechanism, float(found[:, 0].mean()))
        for t, errors in zip(SHOWN, found.T, strict=True):
            yield ("uniform" if uniformly else "shrunk", shrink, t, *student_band(errors), worst[t], runs)
        print(f"figure 5: beta = {shrink:g} done", flush=True)
    sampled = floor(tables, mechanism.population, rng)
    yield ("floor", math.nan, 0, *student_band(sampled), math.nan, runs)


def worst_case(mechanism: Evolution, start: float) -> dict[int, float]:
    """Return the bound on the error of every step, of the projection variant from that start; the diameter at most."""
    api, facts = mechanism.api, {"population": mechanism.population, "sigma": mechanism.scale / mechanism.records}
    facts |= {"gamma": theorem_gamma(2), "alpha": api.alpha, "variations": api.variations_each()}
    facts |= {"dimension": 2, "diameter": 2.0}
    return {t: predicted_error(t, start=start, **facts) for t in SHOWN}


HEAD_6 = ("panel", "series", "d", "epsilon", "steps", "population", "scale", "mean_w1", "low_99", "high_99",
          "mean_w1_of_law", "runs")  # fmt: skip


def figure_6(runs: int) -> Iterator[Any]:
    """Yield errors by the dimension at epsilon 1, and by epsilon in the plane; n = 1000."""
    settings = [("dimension", d, 1.0) for d in range(1, 11)]
    settings += [("epsilon", 2, round(0.1 * k, 1)) for k in range(1, 11)]
    for place, (panel, d, epsilon) in enumerate(settings):
        rng = seeded(SEED + 600 + place)
        tables = [positive(1000, rng, d=d) for _ in range(runs)]
        few, fewer, made = tables[:SOME], tables[: SOME // 2], evolution(1000, d=d, epsilon=epsilon)
        found = {"practical": last_errors(made, tables, rng, SOME)}
        if d <= 5:
            projected = replace(made, variant="projection", sampling="stratified")
            found["projection, stratified"] = last_errors(projected, fewer, rng, SOME)
        found["no step"] = no_step(few, made.population, rng), math.nan
        found["floor"] = floor(few, made.population, rng), math.nan
        found["hierarchical histogram"] = tree_errors(fewer, rng, epsilon=epsilon), math.nan
        for series, (errors, law) in found.items():
            facts = (panel, series, d, epsilon, made.steps, made.population, made.scale)
            yield (*facts, *student_band(errors), law, len(errors))
        print(f"figure 6: d = {d}, epsilon = {epsilon:g} done", flush=True)


def budget_of(name: str, made: Evolution) -> tuple[Any, ...]:
    """Return what a mechanism of Figure 7 spends, in one step and in all."""
    promise, one = made.guarantee(n=made.records), replace(made, steps=1).guarantee(n=made.records)
    spent = (one.delta(1.0), promise.delta(1.0), promise.epsilon(DELTA))
    return (made.records, name, made.scale, made.threshold, made.steps, made.population, *spent)


def options_7(n: int) -> dict[str, Evolution]:
    gaussian = evolution(n)
    size = theorem_population(gaussian.scale / n, dimension=2, variations=gaussian.api.variations_each())
    same = {"steps": gaussian.steps, "api": gaussian.api, "population": size, "noise": "laplace"}
    least = evolution(n, **same)
    printed = Evolution(
        domain=gaussian.domain, records=n, variant="practical", sampling="iid", scale=2.0,
        threshold=math.ceil(2 * math.log(1 / DELTA) + 1), **same,
    )  # fmt: skip
    return {
        "gaussian": gaussian,
        "gaussian, projection": replace(gaussian, variant="projection"),
        "laplace, calibrated": evolution(n, **same, scale=1.05 * least.scale),
        "laplace, least scale": least,
        "laplace, as printed": printed,
    }


HEAD_7 = ("n", "radius", "series", "step", "mean_w1", "low_99", "high_99", "share_of_steps_that_release_nothing",
          "runs")  # fmt: skip


def figure_7(runs: int) -> Iterator[Any]:
    """Yield errors step by step with the two kinds of noise, records in a small and a large ball around the origin."""
    few = min(runs, SOME)
    for n, radius in ((1000, 0.02), (1000, 0.5), (5000, 0.02), (5000, 0.5)):
        made_by = options_7(n)
        steps, size = made_by["gaussian"].steps, made_by["laplace, as printed"].population
        for name, made in made_by.items():
            some = runs if n == 1000 and name in {"gaussian", "laplace, calibrated", "laplace, as printed"} else few
            rng = seeded(SEED + 7)
            tables = [uniform(n, rng, radius=radius) for _ in range(some)]
            if n == 1000:
                ran = [trajectory(made, held, uniform(size, rng), rng) for held in tables]
                empty = sum(count for _, count in ran) / (some * steps)
                for t, found in zip(SHOWN, np.array([errors for errors, _ in ran]).T, strict=True):
                    yield (n, radius, name, t, *student_band(found), empty, some)
            else:
                yield (n, radius, name, steps, *student_band(last_errors(made, tables, rng)[0]), math.nan, some)
        rng = seeded(SEED + 77)
        tables = [uniform(n, rng, radius=radius) for _ in range(few)]
        for name, found in (("floor", floor(tables, size, rng)), ("hierarchical histogram", tree_errors(tables, rng))):
            yield (n, radius, name, steps, *student_band(found), math.nan, few)
        print(f"figure 7: n = {n:,}, radius {radius:g} done", flush=True)


HEAD_BUDGET = ("n", "series", "scale", "threshold", "steps", "population", "delta_of_one_step_at_epsilon_1",
               "delta_of_all_steps_at_epsilon_1", "epsilon_of_all_steps_at_delta_1e-4")  # fmt: skip


def judgements() -> list[tuple[str, ...]]:
    """Return what becomes of each claim of the paper, by the rules stated in the rows."""
    return [*on_parameters(), *on_starts(), *on_dimension_and_epsilon(), *on_noise()]


def verdicts() -> None:
    rows = judgements()
    write(RESULTS / "verdicts.csv", ("figure", "claim", "rule", "verdict", "numbers"), rows)
    for figure, claim, _, verdict, numbers in rows:
        print(f"{figure:<4} {verdict:<9} {claim}\n     {numbers}")


def judged(holds: list[bool]) -> str:
    return "confirmed" if all(holds) else "partly" if any(holds) else "refuted"


def on_parameters() -> list[tuple[str, ...]]:
    rows, out = read(RESULTS / "figure_2.csv"), []
    none = {r["n"]: r for r in rows if r["series"] == "no step"}
    for panel, axis, claim in (
        ("steps", "steps", "T = 2 log(n eps) gives nearly the least error"),
        ("population", "population", "n_s of Theorem 4.1 gives nearly the least error"),
    ):
        for measure, what in (("mean_w1", "last population"), ("mean_w1_of_law", "probabilities it is drawn from")):
            near, told = [], []
            for n in RECORDS:
                line = [r for r in rows if r["panel"] == panel and r["series"] == "practical" and r["n"] == n]
                at = usable_steps(n, 1.0) if panel == "steps" else none[n]["population"]
                here, best = next(r for r in line if r[axis] == at), min(line, key=lambda r: r[measure])
                near.append(here[measure] <= 1.1 * best[measure])
                told.append(f"n = {n}: {here[measure]:.3f} at {at:g}, least {best[measure]:.3f} at {best[axis]:g}, "
                            f"ratio {here[measure] / best[measure]:.2f}")  # fmt: skip
            rule = "within 10 % of the least for every n (partly: some n)"
            out.append(("2", f"{claim}; {what}", rule, judged(near), "; ".join(told)))
    lines = [r for r in rows if r["panel"] == "steps" and r["series"] == "practical"]
    good = [r for r in lines if r["steps"] == usable_steps(r["n"], 1.0)]
    slope = float(np.polyfit(np.log([r["n"] for r in good]), np.log([r["mean_w1"] for r in good]), 1)[0])
    told = f"slope of log W1 in log n {slope:.2f}; the theorem's rate is -0.50 but for logarithms"
    falls = [later["mean_w1"] < earlier["mean_w1"] for earlier, later in pairwise(good)]
    out.append(("2", "error falls as n grows", "falls from each n to the next", judged(falls), told))
    tree = {r["n"]: r["mean_w1"] for r in rows if r["series"] == "hierarchical histogram, tilted"}
    text = "n = {n:g}: {mean_w1:.3f} and {mean_w1_of_law:.3f} (law) against {tree:.3f}"
    told = "; ".join(text.format(**r, tree=tree[r["n"]]) for r in good)
    beats = [min(r["mean_w1"], r["mean_w1_of_law"]) < tree[r["n"]] for r in good]
    rule = "less error than the hierarchical histogram (n records, tilted), same budget"
    out.append(("2", "not claimed: Private Evolution suits the plane", rule, judged(beats), told))
    return out


def on_starts() -> list[tuple[str, ...]]:
    rows = read(RESULTS / "figure_5.csv")

    def line(shrink: float) -> list[float]:
        return [r["mean_w1"] for r in rows if r["start"] == "shrunk" and r["beta"] == shrink]

    at_start, at_origin = line(0.0), line(0.5)
    best = SHOWN[int(np.argmin(at_origin))]
    soon = next(t for t, error in zip(SHOWN, at_origin, strict=True) if error <= 1.1 * min(at_origin))
    change = [(shrink, line(shrink)[0], line(shrink)[-1]) for shrink in SHRINKING]
    bounds = [r["worst_case_bound"] for r in rows if r["step"] == SHOWN[-1]]
    return [
        ("5", "from S_0 = S the best number of steps is 0", "least at step 0",
         judged([min(at_start[1:]) > at_start[0]]),
         f"0 at step 0, {at_start[1]:.3f} after one step, {at_start[-1]:.3f} after 14"),
        ("5", "from all at (0, 0) more steps are needed", "least after more than one step", judged([best > 1]),
         f"{at_origin[0]:.3f} at step 0, {at_origin[1]:.3f} after one, {at_origin[-1]:.3f} after 14; within 10 % of "
         f"the least from step {soon}, least at {best}"),
        ("5", "steps help or harm, depending on the start", "both occur over beta",
         judged([any(b > a for _, a, b in change) and any(b < a for _, a, b in change)]),
         "; ".join(f"beta = {s:g}: {a:.3f} to {b:.3f}" for s, a, b in change)),
        ("5", "the error never exceeds the worst-case bound", "holds, and the bound is below the diameter",
         judged([all(r["mean_w1"] <= r["worst_case_bound"] + 1e-9 for r in rows if r["start"] != "floor"),
                 max(bounds) < 2.0]), f"the bound after 14 steps is {min(bounds):.3g}; the diameter is 2"),
    ]  # fmt: skip


def on_dimension_and_epsilon() -> list[tuple[str, ...]]:
    rows, out = read(RESULTS / "figure_6.csv"), []
    for panel, axis, sign, claim in (("dimension", "d", 1, "error grows with the dimension"),
                                     ("epsilon", "epsilon", -1, "error falls as epsilon grows")):  # fmt: skip
        here = {s: [r for r in rows if r["panel"] == panel and r["series"] == s] for s in ("practical", "no step")}
        line, none = here["practical"], here["no step"]
        steps = [sign * (b["mean_w1"] - a["mean_w1"]) > 0 for a, b in pairwise(line)]
        ends = sign * (line[-1]["mean_w1"] - line[0]["mean_w1"]) > 0
        pairs = zip(line, none, strict=True)
        told = "; ".join(f"{r[axis]:g}: {r['mean_w1']:.3f} (T = 0: {z['mean_w1']:.3f})" for r, z in pairs)
        rule = "from each value to the next (partly: from the first to the last)"
        out.append(("6", claim, rule, judged([all(steps), ends]), told))
    return out


def on_noise() -> list[tuple[str, ...]]:
    rows, out = read(RESULTS / "figure_7.csv"), []
    spent = {(r["n"], r["series"]): r for r in read(RESULTS / "figure_7_budget.csv")}
    claims = (
        (0.02, True, "clustered records: Laplace with threshold does better than PE"),
        (0.5, False, "records not clustered: Laplace with threshold does worse"),
    )
    for radius, better, claim in claims:
        for name in ("laplace, as printed", "laplace, calibrated"):
            found, told, clear = [], [], []
            for n in (1000, 5000):
                here = (n, radius, usable_steps(n, 1))
                last = {r["series"]: r for r in rows if (r["n"], r["radius"], r["step"]) == here}
                one, other = last[name], last["gaussian"]
                apart = one["high_99"] < other["low_99"] or one["low_99"] > other["high_99"]
                clear.append(apart)
                found.append(apart and (one["mean_w1"] < other["mean_w1"]) == better)
                told.append(f"n = {n}: {one['mean_w1']:.3f} [{one['low_99']:.3f}, {one['high_99']:.3f}] against "
                            f"{other['mean_w1']:.3f} [{other['low_99']:.3f}, {other['high_99']:.3f}]")  # fmt: skip
            budget = f"delta at epsilon 1 at most {spent[(1000, name)]['delta_of_all_steps_at_epsilon_1']:.2g}"
            rule = "with 99 % bands apart, for both n (partly: one)"
            verdict = judged(found) if any(clear) else "not shown"
            out.append(("7", f"{claim} ({name}; {budget})", rule, verdict, "; ".join(told)))
    return out


LONG = ("figure_5.csv", "figure_6.csv", "figure_7.csv")
WITHOUT_SLICE = dict.fromkeys(LONG, "a row needs 100 runs of 14 steps, half a minute")
STALE = {"figure_2.csv": "the same seeds draw other records since, in the other figures too; half an hour in all"}


def slices() -> dict[str, Any]:
    spent = [budget_of("gaussian", evolution(1000))]
    return {"figure_7_budget.csv": spent, "figure_2.csv": islice(figure_2(100), 5), "verdicts.csv": judgements()}


PARTS: dict[str, Any] = {"2": (figure_2, HEAD_2), "5": (figure_5, HEAD_5), "6": (figure_6, HEAD_6)}
PARTS |= {"7": (figure_7, HEAD_7), "verdicts": None}


@script(parts=(PARTS, ["2", "verdicts"]), runs=(100, 2))
def main(parts: list[str], runs: int) -> None:
    for name in parts:
        if name == "verdicts":
            verdicts()
            continue
        figure, head = PARTS[name]
        write(RESULTS / f"figure_{name}.csv", head, figure(runs))
        if name == "7":
            spent = [budget_of(series, made) for n in (1000, 5000) for series, made in options_7(n).items()]
            write(RESULTS / "figure_7_budget.csv", HEAD_BUDGET, spent)
