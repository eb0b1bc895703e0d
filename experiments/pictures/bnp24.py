"""Pictures of BNP24: the thesis on releases from Bayesian nonparametric processes."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from pictures import Row, column, ink, legend_below, line, named, picture, plain, quiet, where

NAMES = {
    "private data": "private data",
    "perturbed": "perturbed histogram",
    "smoothed": "smoothed histogram",
    "dirichlet-process": "Dirichlet process",
    "dirichlet-multinomial, thesis": "Dirichlet-multinomial,\nthesis' prior",
    "dirichlet-multinomial, public": "Dirichlet-multinomial,\npublic prior",
    "bootstrap, no privacy": "bootstrap, no privacy",
}
BARS = tuple(NAMES)[1:]
COLOURS = ("C1", "C4", "C0", "C2", "C2")
SCALES = {"7.1 scores": "score / 100", "7.2 incomes": "log income / log 2,000,000"}


def studies(table: list[Row], panels: Any, *titles: str) -> Iterator[tuple[Any, str, list[Row]]]:
    """Yield the axes, the name and the rows of each of the thesis' two studies."""
    for axes, study, title in zip(panels, SCALES, titles, strict=True):
        axes.set_title(title)
        yield axes, study, where(table, study=study)


def names_down(axes: Any, names: list[str]) -> None:
    """Write names at the rows of horizontal bars, the first on top."""
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()


@picture("bnp24_section_7/figures_5_8.csv", height=4, shape=(1, 2))
def figures_5_8(table: list[Row], panels: Any) -> None:
    """Mean distance of 100 releases from the table, by number of released records; both axes are logarithmic."""
    for axes, study, shown in studies(table, panels, "Figure 5: exam scores", "Figure 8: incomes"):
        line(axes, shown, "m", "mean_w1", "C0", label="Dirichlet process")
        rest = where(table, study=f"{study}, not doubled")
        if rest:
            line(axes, rest, "m", "mean_w1", "C1", "s--", label="the same, values not doubled")
        bootstrap = column(shown, "m"), column(shown, "bootstrap_mean_w1")
        axes.plot(*bootstrap, "--", color=quiet(), label="bootstrap sample, no privacy")
        axes.set(xscale="log", yscale="log", xlabel="records released, $m$")
        plain(axes.xaxis, (100, 300, 1000, 3000, 10000, 30000))
        plain(axes.yaxis, (0.001, 0.002, 0.005, 0.01, 0.02))
        axes.legend(loc="lower left")
    panels[0].set_ylabel("mean $W_1$ from the table (1: the whole scale)")


@picture("bnp24_section_7/tables_7_8.csv", height=3.2, shape=(1, 2), sharey=True)
def tables_7_8(table: list[Row], panels: Any) -> None:
    """Distance of the density of a release from that of the private data, mean of 20 releases; lower is nearer."""
    for axes, _, shown in studies(table, panels, "Table 7: exam scores", "Table 8: incomes"):
        found = {row["mechanism"]: row["mean_l2_of_20"] for row in shown}
        values = [found.get(name, np.nan) for name in BARS]
        axes.barh(range(len(BARS)), values, color=[*COLOURS, quiet()], height=0.6)
        for place, value in enumerate(values):
            named(axes, value, place, f"{value:.2g}", ink())
        axes.set(xlabel="$L_2$ distance of densities", xlim=(0, 1.2 * np.nanmax(values)))
        axes.grid(visible=False, axis="y")
    names_down(panels[0], [NAMES[name] for name in BARS])


@picture("bnp24_section_7/histograms_6_9.csv", height=9.6, shape=(4, 2), sharex="col", sharey="col")
def figures_6_9(table: list[Row], panels: Any) -> None:
    """Histograms of one release of each mechanism, over that of the private data."""
    titles = "Figure 6: exam scores, a bin per score", "Figure 9: incomes, 25 bins"
    for side, (_, study, shown) in enumerate(studies(table, panels[0], *titles)):
        private = 100 * np.array(column(where(shown, mechanism="private data"), "share"))
        edges = np.arange(len(private) + 1) / len(private)
        for axes, name, colour in zip(panels[:, side], BARS[:4], COLOURS[:4], strict=True):
            shares = 100 * np.array(column(where(shown, mechanism=name), "share"))
            axes.stairs(private, edges, fill=True, color=quiet(), alpha=0.45, label="private data")
            axes.stairs(shares, edges, color=colour, linewidth=1.3, label=NAMES[name])
            axes.set_xlabel(SCALES[study], visible=axes is panels[-1, side])
            axes.legend(loc="upper left")
    for axes in panels[:, 0]:
        axes.set_ylabel("records, %")


@picture("bnp24_section_7/boxes_7_10.csv", height=3.4, shape=(1, 2), sharey=True)
def figures_7_10(table: list[Row], panels: Any) -> None:
    """Box plots of the private data and of one release of each mechanism."""
    for axes, study, shown in studies(table, panels, "Figure 7: exam scores", "Figure 10: incomes"):
        found = {row["mechanism"]: row for row in shown}
        axes.axvspan(found["private data"]["q1"], found["private data"]["q3"], color=quiet(), alpha=0.2, linewidth=0)
        for place, (name, colour) in enumerate(zip(NAMES, (quiet(), *COLOURS, quiet()), strict=True)):
            one = found[name]
            axes.plot([one["low"], one["high"]], [place, place], color=colour, linewidth=1)
            axes.barh(place, one["q3"] - one["q1"], left=one["q1"], height=0.55, color=colour)
            axes.plot([one["median"]] * 2, [place - 0.27, place + 0.27], color=ink(), linewidth=1.6)
        axes.set(xlabel=SCALES[study], xlim=(0, 1.02))
        axes.grid(visible=False, axis="y")
    names_down(panels[0], list(NAMES.values()))


@picture("bnp24/tables.csv", height=4, shape=(1, 2), sharey=True)
def tables_1_to_12(table: list[Row], panels: Any) -> None:
    """The delta that the thesis prints, and two that we compute; both axes are logarithmic, with 0 at their ends."""
    table = where(table, reading="doubled")
    least = 1e-5
    ticks = {least: "0", 1e-4: "$10^{-4}$", 1e-3: "$10^{-3}$", 1e-2: "$10^{-2}$", 1e-1: "0.1", 1: "1"}
    for axes, name, title, colour in (
        (panels[0], "criterion", "the thesis' criterion, recomputed", "C0"),
        (panels[1], "two_sided", "exact $\\delta$ against all neighbours", "C1"),
    ):
        x, y = (np.maximum(column(table, which), least) for which in ("printed", name))
        axes.plot([least, 1], [least, 1], color=quiet(), linewidth=1)
        axes.plot(x, y, "o", color=colour, alpha=0.7)
        axes.set(xscale="log", yscale="log", xlabel="$\\delta$ printed in the thesis", title=title)
        axes.minorticks_off()
        axes.set_xticks([*ticks], [*ticks.values()])
    panels[0].set_yticks([*ticks], [*ticks.values()])
    panels[0].set_ylabel("$\\delta$ that we compute")


EPSILONS = {1: (1.9,), 2: (3.0, 4.0), 3: (6.0,), 4: (4.0, 6.0)}
SETTINGS = {1: "$\\theta$ = 1, $\\sigma$ = 0, $m$ = 500", 2: "$\\theta$ = 10, $\\sigma$ = 0, $m$ = 500",
            3: "$\\theta$ = 2, $\\sigma$ = 0.5, $m$ = 100", 4: "$\\theta$ = 3, $\\sigma$ = 0.2, $m$ = 100"}  # fmt: skip


@picture("bnp24_algorithm_2/figures_1_4.csv", height=6.4, shape=(2, 2))
def figures_1_4(table: list[Row], panels: Any) -> None:
    """The largest ratios of densities for each of 100 private tables; dashed are the epsilons that the thesis names."""
    for axes, (number, epsilons) in zip(panels.flat, EPSILONS.items(), strict=True):
        mine = where(table, figure=number)
        tables, ratios, inverses = (
            column(mine, name) for name in ("table", "largest_log_ratio", "largest_log_inverse")
        )
        axes.plot(tables, ratios, "o", label="density under the table over that under a neighbour")
        axes.plot(tables, inverses, "x", color="C1", label="the inverse")
        for epsilon in epsilons:
            axes.axhline(epsilon, color=quiet(), linestyle="--")
            named(axes, 105, epsilon, f"$\\varepsilon$ = {epsilon:g}", ink(), dx=3)
        axes.set(title=f"Figure {number}: {SETTINGS[number]}", xlim=(-5, 105))
        axes.set(xlabel="number of the private table", ylabel="largest log ratio (nats)")
        axes.set_ylim(0, 1.15 * max(*epsilons, *ratios, *inverses))
    legend_below(panels[0, 0], 2)
