"""Pictures of BNP24: the thesis on releases from Bayesian nonparametric processes."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from pictures import canvas, column, ink, line, named, picture, plain, quiet, rows

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


@picture("bnp24_section_7/figures_5_8.csv")
def figures_5_8() -> Figure:
    """Mean distance of 100 releases from the table, by number of released records; both axes are logarithmic."""
    table = rows("bnp24_section_7/figures_5_8.csv")
    figure, panels = canvas(4, 1, 2)
    for axes, study, title in zip(panels, ("7.1 scores", "7.2 incomes"), ("Figure 5: exam scores", "Figure 8: incomes"),
                                  strict=True):  # fmt: skip
        shown = [row for row in table if row["study"] == study]
        line(axes, shown, "m", "mean_w1", "C0", label="Dirichlet process")
        rest = [row for row in table if row["study"] == f"{study}, not doubled"]
        if rest:
            line(axes, rest, "m", "mean_w1", "C1", "s--", label="the same, values not doubled")
        axes.plot(column(shown, "m"), column(shown, "bootstrap_mean_w1"), "--", color=quiet(),
                  label="bootstrap sample, no privacy")  # fmt: skip
        axes.set(xscale="log", yscale="log", xlabel="records released, $m$", title=title)
        plain(axes.xaxis, (100, 300, 1000, 3000, 10000, 30000))
        plain(axes.yaxis, (0.001, 0.002, 0.005, 0.01, 0.02))
        axes.legend(loc="lower left")
    panels[0].set_ylabel("mean $W_1$ from the table (1: the whole scale)")
    return figure


@picture("bnp24_section_7/tables_7_8.csv")
def tables_7_8() -> Figure:
    """Distance of the density of a release from that of the private data, mean of 20 releases; lower is nearer."""
    table = rows("bnp24_section_7/tables_7_8.csv")
    figure, panels = canvas(3.2, 1, 2, sharey=True)
    for axes, study, title in zip(panels, ("7.1 scores", "7.2 incomes"), ("Table 7: exam scores", "Table 8: incomes"),
                                  strict=True):  # fmt: skip
        found = {row["mechanism"]: row["mean_l2_of_20"] for row in table if row["study"] == study}
        values = [found.get(name, np.nan) for name in BARS]
        axes.barh(range(len(BARS)), values, color=["C1", "C4", "C0", "C2", "C2", quiet()], height=0.6)
        for place, value in enumerate(values):
            named(axes, value, place, f"{value:.2g}", ink())
        axes.set(xlabel="$L_2$ distance of densities", title=title)
        axes.set_xlim(0, 1.2 * np.nanmax(values))
        axes.grid(visible=False, axis="y")
    panels[0].set_yticks(range(len(BARS)), [NAMES[name] for name in BARS])
    panels[0].invert_yaxis()
    return figure


SCALES = {"7.1 scores": "score / 100", "7.2 incomes": "log income / log 2,000,000"}
SHOWN = ("perturbed", "smoothed", "dirichlet-process", "dirichlet-multinomial, thesis")


@picture("bnp24_section_7/histograms_6_9.csv")
def figures_6_9() -> Figure:
    """Histograms of one release of each mechanism, over that of the private data."""
    table = rows("bnp24_section_7/histograms_6_9.csv")
    figure, panels = canvas(9.6, len(SHOWN), 2, sharex="col", sharey="col")
    for side, (study, title) in enumerate((("7.1 scores", "Figure 6: exam scores, a bin per score"),
                                           ("7.2 incomes", "Figure 9: incomes, 25 bins"))):  # fmt: skip
        of_study = [row for row in table if row["study"] == study]
        private = [row for row in of_study if row["mechanism"] == "private data"]
        edges = np.arange(len(private) + 1) / len(private)
        for axes, name, colour in zip(panels[:, side], SHOWN, ("C1", "C4", "C0", "C2"), strict=True):
            made = [row for row in of_study if row["mechanism"] == name]
            axes.stairs(
                100 * np.array(column(private, "share")),
                edges,
                fill=True,
                color=quiet(),
                alpha=0.45,
                label="private data",
            )
            axes.stairs(100 * np.array(column(made, "share")), edges, color=colour, linewidth=1.3, label=NAMES[name])
            axes.legend(loc="upper left")
            axes.set_xlabel(SCALES[study])
            axes.xaxis.label.set_visible(axes is panels[-1, side])
            if side == 0:
                axes.set_ylabel("records, %")
        panels[0, side].set_title(title)
    return figure


@picture("bnp24_section_7/boxes_7_10.csv")
def figures_7_10() -> Figure:
    """Box plots of the private data and of one release of each mechanism."""
    table = rows("bnp24_section_7/boxes_7_10.csv")
    figure, panels = canvas(3.4, 1, 2, sharey=True)
    for axes, study, title in zip(panels, ("7.1 scores", "7.2 incomes"),
                                  ("Figure 7: exam scores", "Figure 10: incomes"), strict=True):  # fmt: skip
        found = {row["mechanism"]: row for row in table if row["study"] == study}
        axes.axvspan(found["private data"]["q1"], found["private data"]["q3"], color=quiet(), alpha=0.2, linewidth=0)
        for place, (name, colour) in enumerate(
            zip(NAMES, (quiet(), "C1", "C4", "C0", "C2", "C2", quiet()), strict=True)
        ):
            one = found[name]
            axes.plot([one["low"], one["high"]], [place, place], color=colour, linewidth=1)
            axes.barh(place, one["q3"] - one["q1"], left=one["q1"], height=0.55, color=colour)
            axes.plot([one["median"]] * 2, [place - 0.27, place + 0.27], color=ink(), linewidth=1.6)
        axes.set(xlabel=SCALES[study], title=title, xlim=(0, 1.02))
        axes.grid(visible=False, axis="y")
    panels[0].set_yticks(range(len(NAMES)), list(NAMES.values()))
    panels[0].invert_yaxis()
    return figure


@picture("bnp24/tables.csv")
def tables_1_to_12() -> Figure:
    """The delta that the thesis prints, and two that we compute; both axes are logarithmic, with 0 at their ends."""
    table = [row for row in rows("bnp24/tables.csv") if row["reading"] == "doubled"]
    figure, panels = canvas(4, 1, 2, sharey=True)
    least = 1e-5
    for axes, name, title, colour in (
        (panels[0], "criterion", "the thesis' criterion, recomputed", "C0"),
        (panels[1], "two_sided", "exact $\\delta$ against all neighbours", "C1"),
    ):
        x = np.maximum([row["printed"] for row in table], least)
        y = np.maximum([row[name] for row in table], least)
        axes.plot([least, 1], [least, 1], color=quiet(), linewidth=1)
        axes.plot(x, y, "o", color=colour, alpha=0.7)
        axes.set(xscale="log", yscale="log", xlabel="$\\delta$ printed in the thesis", title=title)
        axes.minorticks_off()
        axes.set_xticks([1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1], ["0", "$10^{-4}$", "$10^{-3}$", "$10^{-2}$", "0.1", "1"])
    panels[0].set_yticks([1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1], ["0", "$10^{-4}$", "$10^{-3}$", "$10^{-2}$", "0.1", "1"])
    panels[0].set_ylabel("$\\delta$ that we compute")
    return figure


EPSILONS = {1: (1.9,), 2: (3.0, 4.0), 3: (6.0,), 4: (4.0, 6.0)}
SETTINGS = {1: "$\\theta$ = 1, $\\sigma$ = 0, $m$ = 500", 2: "$\\theta$ = 10, $\\sigma$ = 0, $m$ = 500",
            3: "$\\theta$ = 2, $\\sigma$ = 0.5, $m$ = 100", 4: "$\\theta$ = 3, $\\sigma$ = 0.2, $m$ = 100"}  # fmt: skip


@picture("bnp24_algorithm_2/figures_1_4.csv")
def figures_1_4() -> Figure:
    """The largest ratios of densities for each of 100 private tables; dashed are the epsilons that the thesis names."""
    table = rows("bnp24_algorithm_2/figures_1_4.csv")
    figure, panels = canvas(6.4, 2, 2)
    for axes, (number, epsilons) in zip(panels.flat, EPSILONS.items(), strict=True):
        mine = [row for row in table if row["figure"] == number]
        axes.plot(
            column(mine, "table"),
            column(mine, "largest_log_ratio"),
            "o",
            label="density under the table over that under a neighbour",
        )
        axes.plot(column(mine, "table"), column(mine, "largest_log_inverse"), "x", color="C1", label="the inverse")
        for epsilon in epsilons:
            axes.axhline(epsilon, color=quiet(), linestyle="--")
            named(axes, 105, epsilon, f"$\\varepsilon$ = {epsilon:g}", ink(), dx=3)
        axes.set(title=f"Figure {number}: {SETTINGS[number]}", xlim=(-5, 105))
        axes.set(xlabel="number of the private table", ylabel="largest log ratio (nats)")
        axes.set_ylim(
            0, 1.15 * max(*epsilons, *column(mine, "largest_log_ratio"), *column(mine, "largest_log_inverse"))
        )
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    return figure
