"""Pictures of PY26: releases from Pitman-Yor and Dirichlet processes."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from matplotlib.figure import Figure

from pictures import Row, column, ink, line, named, picture, plain, quiet, rows


@picture("py26_figure_1/figure_1.csv")
def figure_1() -> Figure:
    """Mean Wasserstein-1 distance between a release and the table, by number of records held."""
    table = rows("py26_figure_1/figure_1.csv")
    strengths, regimes = (list(dict.fromkeys(column(table, name))) for name in ("strength", "regime"))
    figure = Figure(figsize=(10.5, 4.2))
    panels = figure.subplots(1, len(strengths), sharey=True)
    for axes, strength in zip(panels, strengths, strict=True):
        for index, regime in enumerate(regimes):
            shown = [row for row in table if row["strength"] == strength and row["regime"] == regime]
            line(axes, shown, "n", "mean_w1", f"C{index}")
            last = shown[-1]
            rate = [row["rate_theorem_4"] * last["mean_w1"] / last["rate_theorem_4"] for row in shown]
            axes.plot(column(shown, "n"), rate, "--", color=f"C{index}", linewidth=0.9)
            if axes is panels[-1]:
                text = "$m = n/\\log n$" if "log" in str(regime) else f"$\\delta$ = {regime:g}"
                named(axes, last["n"], last["mean_w1"], text, f"C{index}")
        axes.set(xscale="log", yscale="log", xlabel="records held, $n$", title=f"strength {strength:g}")
    panels[0].set_ylabel("mean $W_1$ to the table (values)")
    return figure


@picture("py26_section_4_3/figure_2.csv")
def figure_2() -> Figure:
    """Densities of one release of 119 incomes per mechanism, all estimated with one bandwidth."""
    table = rows("py26_section_4_3/figure_2.csv")
    figure = Figure(figsize=(7.2, 4))
    axes = figure.subplots()
    axes.fill_between(
        column(table, "scaled_log_income"), column(table, "confidential"), color=quiet(), alpha=0.25, lw=0
    )
    axes.plot([], [], color=quiet(), alpha=0.5, linewidth=7, label="confidential")
    for index, name in enumerate(("dirichlet-process", "perturbed", "smoothed")):
        axes.plot(column(table, "scaled_log_income"), column(table, name), color=f"C{index}", label=name)
    axes.set(xlabel="logarithm of income, scaled to 0 to 1", ylabel="density", ylim=(0, None))
    axes.legend(loc="upper left")
    return figure


@picture("py26_section_4_3/figure_3.csv")
def figure_3() -> Figure:
    """Distances of 100 releases of 119 incomes per mechanism."""
    table = rows("py26_section_4_3/figure_3.csv", size=119.0)
    names = ("dirichlet-process", "perturbed", "smoothed", "bootstrap, no privacy")
    figure = Figure(figsize=(7.2, 3.4))
    axes = figure.subplots()
    apart(axes, [[row["w1"] for row in table if row["mechanism"] == name] for name in names], names)
    axes.set_xlabel("$W_1$ to the confidential records (scaled logarithm of income)")
    axes.set_xlim(0, None)
    return figure


def study_of(row: Row) -> tuple[str, str]:
    """Return which line of the study of convergence a row belongs to."""
    return row["study"], row["distance"]


def apart(axes: Any, values: list[list[float]], names: tuple[str, ...]) -> None:
    """Draw a row of boxes, the first one on top."""
    made = axes.boxplot(values[::-1], orientation="horizontal", widths=0.5, patch_artist=True)
    axes.set_yticks(range(1, len(names) + 1), names[::-1])
    for index, box in enumerate(made["boxes"]):
        box.set(facecolor=f"C{len(names) - 1 - index}", alpha=0.45)
    for part in ("boxes", "whiskers", "caps", "medians"):
        for drawn in made[part]:
            drawn.set(color=ink()) if part != "boxes" else drawn.set_edgecolor(ink())
    for drawn in made["fliers"]:
        drawn.set(marker="o", markersize=3, markeredgecolor=quiet())
    axes.grid(visible=False, axis="y")


@picture("py26_table2/table_2.csv")
def table_2() -> Figure:
    """Coverage of nominal 95 % intervals from a release, over 500 replicates."""
    table = [row for row in rows("py26_table2/table_2.csv") if row["replicates"] == 500]
    methods = list(dict.fromkeys(column(table, "method")))
    figure = Figure(figsize=(8.4, 0.46 * len(methods) + 1.3))
    axes = figure.subplots()
    functionals = list(dict.fromkeys(column(table, "functional")))
    for index, functional in enumerate(functionals):
        shown = {row["method"]: row["coverage"] for row in table if row["functional"] == functional}
        places = [len(methods) - 1 - i + 0.13 * (1.5 - index) for i, name in enumerate(methods) if name in shown]
        axes.plot(list(shown.values()), places, "o", color=f"C{index}", label=functional)
    axes.axvline(0.95, color=ink(), linewidth=1, linestyle="--")
    axes.set_yticks(range(len(methods)), methods[::-1])
    axes.set(xlabel="share of 500 intervals that hold the truth (dashed: the stated 95 %)")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=len(functionals))
    return figure


@picture("convergence/convergence.csv")
def convergence() -> Figure:
    """Distance between a release and the law of the records, against the rates of the theorems."""
    table = rows("convergence/convergence.csv")
    studies = [list(shown) for _, shown in groupby(sorted(table, key=study_of), key=study_of)]
    figure = Figure(figsize=(10.5, 4))
    axes = figure.subplots()
    for index, shown in enumerate(studies):
        axes.fill_between(
            column(shown, "n"), column(shown, "low"), column(shown, "high"), color=f"C{index}", alpha=0.2, lw=0
        )
        axes.plot(column(shown, "n"), column(shown, "mean"), "o-", color=f"C{index}",
                  label=f"{shown[0]['study']} ({shown[0]['distance']}; {shown[0]['theorem']})")  # fmt: skip
    axes.set(xscale="log", yscale="log", xlabel="records held, $n$", ylabel="mean distance to the law of the records")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    plain(axes.yaxis, (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1))
    return figure


@picture("coverage/coverage.csv")
def coverage() -> Figure:
    """Coverage of 95 % intervals of the mechanism-aware posteriors, over worlds from the prior."""
    table = rows("coverage/coverage.csv")
    methods = list(dict.fromkeys(column(table, "method")))
    figure = Figure(figsize=(8.4, 0.27 * len(methods) + 1.2))
    axes = figure.subplots()
    for index, functional in enumerate(dict.fromkeys(column(table, "functional"))):
        shown = {row["method"]: row["coverage"] for row in table if row["functional"] == functional}
        places = [len(methods) - 1 - i for i, name in enumerate(methods) if name in shown]
        axes.plot(list(shown.values()), places, "o", color=f"C{index}", label=functional)
    axes.axvline(0.95, color=ink(), linewidth=1, linestyle="--")
    axes.set_yticks(range(len(methods)), methods[::-1])
    axes.set(xlabel="share of intervals that hold the truth (dashed: the stated 95 %)", xlim=(0.85, 1))
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3)
    return figure
