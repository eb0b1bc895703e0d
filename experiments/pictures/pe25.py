"""Pictures of PE25: how Private Evolution converges."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.figure import Figure

from pictures import WIDTH, Row, canvas, column, ink, line, named, picture, plain, quiet, rows

RECORDS = (250.0, 500.0, 1000.0, 2000.0)
ERROR = "$W_1$ from the private records (radius: 1)"
SAMPLE = "as many private records"
VARIANTS = {
    "practical": "as in the paper",
    "practical, stratified": "stratified draws",
    "projection, iid": "projected votes",
    "projection, stratified": "projected votes, stratified",
}


def across(axes: Any, table: list[Row], series: str, colour: str, text: str) -> None:
    """Draw what does not change along the axis, with its name and value for the legend."""
    mean = next(row["mean_w1"] for row in table if row["series"] == series)
    axes.axhline(mean, color=colour, linestyle=":", linewidth=1.5, label=f"{text}: {mean:.2g}")


def figure_2(panel: str, axis: str, label: str) -> Figure:
    """Return the error by an axis: of several numbers of records on the left, of several variants on the right.

    Rings are at the paper's choice: ``T = 2 log(n epsilon)``, rounded up, and the ``n_s`` of that many steps.
    """
    kept = rows("pe25_figures/figure_2.csv")
    table = [row for row in kept if row["panel"] in {panel, "both"}]
    figure, panels = canvas(5, 1, 2, sharey=True)
    for index, n in enumerate(RECORDS):
        here = [row for row in table if row["n"] == n]
        start = next(row for row in here if row["series"] == "no step")
        shown = [row for row in here if row["series"] == "practical"]
        if axis == "steps":
            shown = [{**start, "steps": 0.0}, *shown]
        line(panels[0], shown, axis, "mean_w1", f"C{index}")
        named(panels[0], shown[-1][axis], shown[-1]["mean_w1"], f"$n$ = {n:,.0f}", f"C{index}", dx=7)
        (chosen,) = (row[axis] for row in kept if row["panel"] == "steps" and row["series"] == "practical"
                     and row["n"] == n and row["steps"] == math.ceil(2 * math.log(n)))  # fmt: skip
        ringed = [row for row in shown if row[axis] == chosen]
        panels[0].plot(column(ringed, axis), column(ringed, "mean_w1"), "o", color=ink(), markersize=9,
                       markerfacecolor="none", label=None if index else "the paper's choice")  # fmt: skip
    here = [row for row in table if row["n"] == 1000]
    for index, (series, text) in enumerate(VARIANTS.items()):
        line(panels[1], [row for row in here if row["series"] == series], axis, "mean_w1", f"C{index}", label=text)
    across(panels[1], here, "no step", ink(), "before any step")
    if axis == "steps":
        across(panels[1], here, "floor", quiet(), SAMPLE)
    else:
        line(panels[1], [row for row in here if row["series"] == "floor by size"], axis, "mean_w1", quiet(), ":",
             label=SAMPLE)  # fmt: skip
    across(panels[1], here, "hierarchical histogram, tilted", "C4", "hierarchical histogram")
    for axes in panels:
        axes.set(xlabel=label, yscale="log")
        if axis == "steps":
            axes.set_xscale("symlog", linthresh=4)
            axes.set_xlim(-0.3, 44)
            axes.set_xticks([0, 1, 2, 4, 8, 14, 20, 40], ["0", "1", "2", "4", "8", "14", "20", "40"])
        else:
            axes.set_xscale("log")
            plain(axes.xaxis, (1, 4, 16, 64, 256))
        plain(axes.yaxis, (0.04, 0.06, 0.1, 0.2, 0.4, 0.8))
    panels[0].set(ylabel=ERROR, title="as in the paper")
    panels[1].set(title="$n$ = 1,000: variants and baselines")
    figure.legend(loc="outside lower center", ncols=3)
    return figure


@picture("pe25_figures/figure_2.csv")
def figure_2_steps() -> Figure:
    """Figure 2: error by number of steps, beside variants and baselines; axes are logarithmic, steps from 4 on."""
    return figure_2("steps", "steps", "steps, $T$")


@picture("pe25_figures/figure_2.csv")
def figure_2_population() -> Figure:
    """Figure 2: error by number of synthetic records, beside variants and baselines; both axes are logarithmic."""
    return figure_2("population", "population", "synthetic records, $n_s$")


@picture("pe25_figures/figure_5.csv")
def figure_5() -> Figure:
    """Error by step, from starts nearer to the private records and farther from them; beta says where it starts."""
    table = rows("pe25_figures/figure_5.csv")
    figure, axes = canvas(4.4)
    for index, beta in enumerate(dict.fromkeys(row["beta"] for row in table if row["start"] == "shrunk")):
        shown = [row for row in table if row["start"] == "shrunk" and row["beta"] == beta]
        words = {
            0.0: "$\\beta$ = 0: private records",
            0.5: "$\\beta$ = 0.5: all in the centre",
            1.0: "$\\beta$ = 1: mirrored",
        }
        line(axes, shown, "step", "mean_w1", f"C{index}", label=words.get(beta, f"$\\beta$ = {beta:g}"))
    line(
        axes,
        [row for row in table if row["start"] == "uniform"],
        "step",
        "mean_w1",
        ink(),
        "o--",
        label="uniform start",
    )
    floor = next(row["mean_w1"] for row in table if row["start"] == "floor")
    axes.axhline(floor, color=quiet(), linestyle=":", label=f"{SAMPLE}: {floor:.2g}")
    axes.set(xlabel="step", ylabel=ERROR, ylim=(0, None))
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure


@picture("pe25_figures/figure_6.csv")
def figure_6() -> Figure:
    """Error by dimension at epsilon 1, and by epsilon in two dimensions."""
    table = rows("pe25_figures/figure_6.csv")
    figure, panels = canvas(4.6, 1, 2, sharey=True)
    for axes, panel, axis, label, title in (
        (panels[0], "dimension", "d", "dimension, $d$", "by dimension, at $\\varepsilon$ = 1"),
        (panels[1], "epsilon", "epsilon", "$\\varepsilon$ of all steps", "by $\\varepsilon$, at $d$ = 2"),
    ):
        for series, colour, style, text in (
            ("practical", "C0", "o-", "as in the paper"),
            ("projection, stratified", "C3", "o-", "projected votes, stratified"),
            ("no step", ink(), ":", "before any step"),
            ("floor", quiet(), ":", SAMPLE),
            ("hierarchical histogram", "C4", "o-", "hierarchical histogram"),
        ):
            shown = [row for row in table if row["panel"] == panel and row["series"] == series]
            line(axes, shown, axis, "mean_w1", colour, style, label=text)
        axes.set(xlabel=label, title=title, ylim=(0, None))
    panels[0].set_ylabel(ERROR)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


@picture("pe25_figures/figure_7.csv", "pe25_figures/figure_7_budget.csv")
def figure_7() -> Figure:
    """Error by step with Gaussian noise and with Laplace noise and a threshold; the error's axis is logarithmic."""
    table = rows("pe25_figures/figure_7.csv", n=1000.0)
    spent = {row["series"]: row for row in rows("pe25_figures/figure_7_budget.csv", n=1000.0)}
    printed = spent["laplace, as printed"]["delta_of_all_steps_at_epsilon_1"]
    figure, panels = canvas(5, 1, 2, sharey=True)
    for axes, radius, title in zip(
        panels, (0.02, 0.5), ("a cluster of radius 0.02", "spread over radius 0.5"), strict=True
    ):
        here = [row for row in table if row["radius"] == radius]
        for series, colour, style, text in (
            ("gaussian", "C0", "o-", "Gaussian, as in the paper"),
            ("gaussian, projection", "C3", "o-", "Gaussian, projected votes"),
            ("laplace, calibrated", "C2", "o-", "Laplace with threshold, calibrated"),
            (
                "laplace, as printed",
                "C1",
                "o--",
                f"Laplace as printed ($\\delta$ up to {printed:.2g} at $\\varepsilon$ = 1)",
            ),
        ):
            line(axes, [row for row in here if row["series"] == series], "step", "mean_w1", colour, style, label=text)
        for series, colour, text in (("floor", quiet(), SAMPLE),
                                     ("hierarchical histogram", "C4", "hierarchical histogram")):  # fmt: skip
            mean = next(row["mean_w1"] for row in here if row["series"] == series)
            axes.axhline(mean, color=colour, linestyle=":", linewidth=1.5, label=text)
        axes.set(xlabel="step", yscale="log", title=title)
        plain(axes.yaxis, (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5))
    panels[0].set_ylabel(ERROR)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    return figure


SETS = {"digits": "digits, 4 runs", "fashion": "garments, 12 runs"}
SERIES = {
    "practical, T = log(n eps)": "as in the paper, $T=\\log(n\\varepsilon)$",
    "practical, T = 2 log(n eps)": "as in the paper, $T=2\\log(n\\varepsilon)$",
    "projection, T = log(n eps)": "projected votes, $T=\\log(n\\varepsilon)$",
    "practical": "as in the paper",
    "practical, ten times n_s": "as in the paper, ten times $n_s$",
    "projection": "projected votes",
}


def images(number: int, axis: str, label: str) -> Figure:
    """Return the Frechet distance by an axis, for both sets of images."""
    table = rows("pe25_images/figures_3_4.csv")
    figure, panels = canvas(4.8, 1, 2)
    series = list(dict.fromkeys(row["series"] for row in table if row["figure"] == number))
    for axes, name in zip(panels, dict.fromkeys(column(table, "images")), strict=True):
        here = [row for row in table if row["images"] == name]
        for index, one in enumerate(found for found in series if found != "private images"):
            shown = [row for row in here if row["figure"] == number and row["series"] == one]
            line(
                axes,
                shown,
                axis,
                "mean_frechet",
                f"C{index}",
                label=SERIES[one],
            )
        for one, style, text in (
            ("no step", "--", "the generator alone"),
            ("private images", ":", "other private images"),
        ):
            mean = next(row["mean_frechet"] for row in here if row["figure"] == 0 and row["series"] == one)
            axes.axhline(mean, color=quiet(), linestyle=style, linewidth=1.5, label=text)
        axes.set(xlabel=label, title=SETS[name], ylim=(0, None))
        if axis == "steps":
            axes.set_xticks([1, 4, 8, 12, 16, 20])
    panels[0].set_ylabel("Fréchet distance from private images")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    return figure


@picture("pe25_images/figures_3_4.csv")
def figure_3() -> Figure:
    """Figure 3: distance of evolved images from private ones, by the number of private images; lower is nearer."""
    return images(3, "n", "private images, $n$")


@picture("pe25_images/figures_3_4.csv")
def figure_4() -> Figure:
    """Figure 4: distance of evolved images from private ones, by the number of steps, with 300 private images."""
    return images(4, "steps", "steps, $T$")


@picture("digits_from_fonts/digits.csv")
def digits() -> Figure:
    """Digits that the fonts propose, above, and digits that the votes of handwriting picked, below: two of each."""
    table = rows("digits_from_fonts/digits.csv")
    kinds = list(dict.fromkeys(column(table, "kind")))
    figure = Figure(figsize=(WIDTH, 3.6))
    for half, kind in zip(figure.subfigures(2, 1), kinds, strict=True):
        half.suptitle(kind, x=0.01, ha="left", fontsize=10, fontweight="bold")
        panels = half.subplots(2, 10)
        for axes in panels.flat:
            axes.set_axis_off()
        for row in table:
            if row["kind"] == kind:
                pixels = [value for name, value in row.items() if name.startswith("pixel_")]
                image = [pixels[8 * i : 8 * i + 8] for i in range(8)]
                panels[int(row["place"]), int(row["digit"])].imshow(image, cmap="Greys", vmin=0, vmax=16)
    return figure
