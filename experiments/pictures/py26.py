"""Pictures of PY26: releases from Pitman-Yor and Dirichlet processes."""

from typing import Any

from pictures import Row, column, distinct, ink, line, named, picture, plain, quiet, where

MECHANISMS = {"dirichlet-process": "Dirichlet process", "perturbed": "perturbed histogram",
              "smoothed": "smoothed histogram", "bootstrap, no privacy": "bootstrap, no privacy"}  # fmt: skip
QUANTITIES = {"q50": "median", "q25": "lower quartile", "q75": "upper quartile"}


def quantity(name: str) -> str:
    """Return in words what an interval is of."""
    words = name.replace("P(>", "share above ").replace("P(=", "share equal to ").rstrip(")")
    return QUANTITIES.get(name, words)


@picture("py26_figure_1/figure_1.csv", height=4, shape=(1, 3), sharey=True)
def figure_1(table: list[Row], panels: Any) -> None:
    """Mean distance of a release from the table, by number of records held; both axes are logarithmic."""
    strengths, regimes = distinct(table, "strength"), distinct(table, "regime")
    for axes, strength in zip(panels, strengths, strict=True):
        for index, regime in enumerate(regimes):
            shown = where(table, strength=strength, regime=regime)
            line(axes, shown, "n", "mean_w1", f"C{index}")
            last = shown[-1]
            rate = [row["rate_theorem_4"] * last["mean_w1"] / last["rate_theorem_4"] for row in shown]
            axes.plot(column(shown, "n"), rate, "--", color=f"C{index}", linewidth=0.9)
            if axes is panels[-1]:
                text = "$m = n/\\log n$" if "log" in str(regime) else f"$\\delta$ = {regime:g}"
                named(axes, last["n"], last["mean_w1"], text, f"C{index}", dx=7)
        axes.set(xscale="log", yscale="log", xlabel="records held, $n$", title=f"strength {strength:g}")
    panels[0].set_ylabel("mean $W_1$ from the table (range of values: 1)")


@picture("py26_section_4_3/figure_2.csv", height=4.2)
def figure_2(table: list[Row], axes: Any) -> None:
    """Density of one release of 119 incomes from each mechanism, over that of the confidential incomes."""
    incomes = column(table, "scaled_log_income")
    axes.fill_between(incomes, column(table, "confidential"), color=quiet(), alpha=0.25, lw=0)
    axes.plot([], [], color=quiet(), alpha=0.5, linewidth=7, label="confidential incomes")
    for index, name in enumerate(("dirichlet-process", "perturbed", "smoothed")):
        axes.plot(incomes, column(table, name), color=f"C{index}", label=MECHANISMS[name])
    axes.set(xlabel="logarithm of income (0: one dollar, 1: two million dollars)", ylabel="density", ylim=(0, None))
    axes.legend(loc="upper left")


@picture("py26_section_4_3/figure_3.csv", height=3.4)
def figure_3(table: list[Row], axes: Any) -> None:
    """Distance from the confidential incomes, of 100 releases of 119 incomes from each mechanism."""
    table = where(table, size=119.0)
    values = [column(where(table, mechanism=name), "w1") for name in MECHANISMS][::-1]
    made = axes.boxplot(values, orientation="horizontal", widths=0.5, patch_artist=True)
    axes.set_yticks(range(1, len(values) + 1), [*MECHANISMS.values()][::-1])
    for index, box in enumerate(made["boxes"][::-1]):
        box.set(facecolor=f"C{index}", alpha=0.45)
        box.set_edgecolor(ink())
    for drawn in (*made["whiskers"], *made["caps"], *made["medians"]):
        drawn.set(color=ink())
    for drawn in made["fliers"]:
        drawn.set(marker="o", markersize=3, markeredgecolor=quiet())
    axes.grid(visible=False, axis="y")
    axes.set(xlabel="$W_1$ from the confidential incomes (scaled logarithm of income)", xlim=(0, None))


DISTANCES = {"W1": "$W_1$", "KS": "Kolmogorov-Smirnov"}


def coverage_dots(axes: Any, table: list[Row], aside: Any, names: Any = str) -> None:
    """Draw the coverage of each method, the first on top, a colour for each number that an interval is of."""
    methods = distinct(table, "method")
    for index, functional in enumerate(distinct(table, "functional")):
        shown = where(table, functional=functional)
        places = [len(methods) - 1 - methods.index(row["method"]) + aside(index, functional) for row in shown]
        axes.plot(column(shown, "coverage"), places, "o", color=f"C{index}", label=quantity(functional))
    axes.axvline(0.95, color=ink(), linewidth=1, linestyle="--")
    axes.set_yticks(range(len(methods)), [names(method) for method in methods[::-1]])
    axes.set(xlabel="share of 500 intervals that hold the truth (dashed: 95 %)")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3)


@picture("py26_table2/table_2.csv", height=4)
def table_2(table: list[Row], axes: Any) -> None:
    """Coverage of 95 % intervals for five numbers of the population, by what is released and how it is analysed."""
    table = where(table, replicates=500)
    axes.figure.set_figheight(0.46 * len(distinct(table, "method")) + 1.3)
    coverage_dots(axes, table, lambda index, _: 0.13 * (1.5 - index))


@picture("convergence/convergence.csv", height=5, shape=(1, 2), sharey=True)
def convergence(table: list[Row], panels: Any) -> None:
    """Mean distance of a release from the law of the records, beside rates of theorems; axes are logarithmic."""
    for axes, dimension, title in zip(panels, (1, 2), ("on a line", "in the plane"), strict=True):
        lines = sorted({(row["study"], row["distance"]) for row in where(table, d=dimension)})
        for index, (study, distance) in enumerate(lines):
            shown = where(table, study=study, distance=distance)
            label = f"{DISTANCES[distance]}, {study.replace(' of a line', '').replace(' of the plane', '')}"
            n, last = column(shown, "n"), shown[-1]
            axes.fill_between(n, column(shown, "low"), column(shown, "high"), color=f"C{index}", alpha=0.2, lw=0)
            axes.plot(n, column(shown, "mean"), "o-", color=f"C{index}", label=label)
            rate = [row["rate"] * last["mean"] / last["rate"] for row in shown]
            axes.plot(n, rate, "--", color=f"C{index}", linewidth=0.9)
        axes.plot([], [], "--", color=ink(), linewidth=0.9, label="rate of the theorem")
        axes.set(xscale="log", yscale="log", xlabel="records held, $n$", title=title)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16))
    panels[0].set_ylabel("mean distance from the law of the records")
    plain(panels[0].yaxis, (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1))


@picture("coverage/coverage.csv", height=4)
def coverage(table: list[Row], axes: Any) -> None:
    """Coverage of 95 % intervals of the mechanism-aware posteriors, over tables drawn from the prior."""
    axes.figure.set_figheight(0.31 * len(distinct(table, "method")) + 1.2)
    aside = {"mean": 0.16, "P(=3)": -0.16}  # dots of one place would hide each other
    coverage_dots(
        axes, table, lambda _, functional: aside.get(functional, 0.0), lambda name: name.replace("W1", "$W_1$")
    )
    axes.set_xlim(0.9, 1)
