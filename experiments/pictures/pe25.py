"""Pictures of PE25: how Private Evolution converges."""

import math
from typing import Any

from matplotlib.figure import Figure

from pictures import Row, distinct, ink, legend_below, level, line, named, picture, plain, quiet, where

RECORDS = (250.0, 500.0, 1000.0, 2000.0)
ERROR = "$W_1$ from the private records (radius: 1)"
SAMPLE = "as many private records"
VARIANTS = {
    "practical": "as in the paper",
    "practical, stratified": "stratified draws",
    "projection, iid": "projected votes",
    "projection, stratified": "projected votes, stratified",
}


def across(axes: Any, table: list[dict[str, Any]], series: str, colour: str, text: str) -> None:
    """Draw what does not change along the axis, with its name and value for the legend."""
    mean = where(table, series=series)[0]["mean_w1"]
    level(axes, mean, colour, label=f"{text}: {mean:.2g}")


def figure_2(kept: list[Row], panels: Any, panel: str, axis: str, label: str) -> None:
    """Draw the error by an axis: of several numbers of records on the left, of several variants on the right.

    Rings are at the paper's choice: ``T = 2 log(n epsilon)``, rounded up, and the ``n_s`` of that many steps.
    """
    table = [row for row in kept if row["panel"] in {panel, "both"}]
    for index, n in enumerate(RECORDS):
        shown = where(table, n=n, series="practical")
        if axis == "steps":
            shown = [{**where(table, n=n, series="no step")[0], "steps": 0.0}, *shown]
        line(panels[0], shown, axis, "mean_w1", f"C{index}")
        named(panels[0], shown[-1][axis], shown[-1]["mean_w1"], f"$n$ = {n:,.0f}", f"C{index}", dx=7)
        (chosen,) = where(kept, panel="steps", series="practical", n=n, steps=math.ceil(2 * math.log(n)))
        (ringed,) = where(shown, **{axis: chosen[axis]})
        panels[0].plot(ringed[axis], ringed["mean_w1"], "o", color=ink(), markersize=9, markerfacecolor="none")
    panels[0].lines[-1].set_label("the paper's choice")
    here = where(table, n=1000)
    for index, (series, text) in enumerate(VARIANTS.items()):
        line(panels[1], where(here, series=series), axis, "mean_w1", f"C{index}", label=text)
    across(panels[1], here, "no step", ink(), "before any step")
    if axis == "steps":
        across(panels[1], here, "floor", quiet(), SAMPLE)
    else:
        line(panels[1], where(here, series="floor by size"), axis, "mean_w1", quiet(), ":", label=SAMPLE)
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
    panels[0].figure.legend(loc="outside lower center", ncols=3)


@picture("pe25_figures/figure_2.csv", height=5, shape=(1, 2), sharey=True)
def figure_2_steps(table: list[Row], panels: Any) -> None:
    """Figure 2: error by number of steps, beside variants and baselines; axes are logarithmic, steps from 4 on."""
    figure_2(table, panels, "steps", "steps", "steps, $T$")


@picture("pe25_figures/figure_2.csv", height=5, shape=(1, 2), sharey=True)
def figure_2_population(table: list[Row], panels: Any) -> None:
    """Figure 2: error by number of synthetic records, beside variants and baselines; both axes are logarithmic."""
    figure_2(table, panels, "population", "population", "synthetic records, $n_s$")


@picture("pe25_figures/figure_5.csv", height=4.4)
def figure_5(table: list[Row], axes: Any) -> None:
    """Error by step, from starts nearer to the private records and farther from them; beta says where it starts."""
    words = {0.0: ": private records", 0.5: ": all in the centre", 1.0: ": mirrored"}
    shrunk = where(table, start="shrunk")
    for index, beta in enumerate(distinct(shrunk, "beta")):
        label = f"$\\beta$ = {beta:g}{words.get(beta, '')}"
        line(axes, where(shrunk, beta=beta), "step", "mean_w1", f"C{index}", label=label)
    line(axes, where(table, start="uniform"), "step", "mean_w1", ink(), "o--", label="uniform start")
    floor = where(table, start="floor")[0]["mean_w1"]
    axes.axhline(floor, color=quiet(), linestyle=":", label=f"{SAMPLE}: {floor:.2g}")
    axes.set(xlabel="step", ylabel=ERROR, ylim=(0, None))
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))


@picture("pe25_figures/figure_6.csv", height=4.6, shape=(1, 2), sharey=True)
def figure_6(table: list[Row], panels: Any) -> None:
    """Error by dimension at epsilon 1, and by epsilon in two dimensions."""
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
            line(axes, where(table, panel=panel, series=series), axis, "mean_w1", colour, style, label=text)
        axes.set(xlabel=label, title=title, ylim=(0, None))
    panels[0].set_ylabel(ERROR)
    legend_below(panels[0], 3)


@picture("pe25_figures/figure_7.csv", "pe25_figures/figure_7_budget.csv", height=5, shape=(1, 2), sharey=True)
def figure_7(table: list[Row], budgets: list[Row], panels: Any) -> None:
    """Error by step with Gaussian noise and with Laplace noise and a threshold; the error's axis is logarithmic."""
    table = where(table, n=1000.0)
    (spent,) = where(budgets, n=1000.0, series="laplace, as printed")
    printed = f"($\\delta$ up to {spent['delta_of_all_steps_at_epsilon_1']:.2g} at $\\varepsilon$ = 1)"
    titles = {0.02: "a cluster of radius 0.02", 0.5: "spread over radius 0.5"}
    for axes, (radius, title) in zip(panels, titles.items(), strict=True):
        here = where(table, radius=radius)
        for series, colour, style, text in (
            ("gaussian", "C0", "o-", "Gaussian, as in the paper"),
            ("gaussian, projection", "C3", "o-", "Gaussian, projected votes"),
            ("laplace, calibrated", "C2", "o-", "Laplace with threshold, calibrated"),
            ("laplace, as printed", "C1", "o--", f"Laplace as printed {printed}"),
        ):
            line(axes, where(here, series=series), "step", "mean_w1", colour, style, label=text)
        level(axes, where(here, series="floor")[0]["mean_w1"], quiet(), label=SAMPLE)
        tree = where(here, series="hierarchical histogram")[0]["mean_w1"]
        level(axes, tree, "C4", label="hierarchical histogram")
        axes.set(xlabel="step", yscale="log", title=title)
        plain(axes.yaxis, (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5))
    panels[0].set_ylabel(ERROR)
    legend_below(panels[0], 2)


SETS = {"digits": "digits, 4 runs", "fashion": "garments, 12 runs"}
SERIES = {
    "practical, T = log(n eps)": "as in the paper, $T=\\log(n\\varepsilon)$",
    "practical, T = 2 log(n eps)": "as in the paper, $T=2\\log(n\\varepsilon)$",
    "projection, T = log(n eps)": "projected votes, $T=\\log(n\\varepsilon)$",
    "practical": "as in the paper",
    "practical, ten times n_s": "as in the paper, ten times $n_s$",
    "projection": "projected votes",
}


def images(table: list[Row], panels: Any, number: int, axis: str, label: str) -> None:
    """Draw the Frechet distance by an axis, for both sets of images."""
    for axes, (name, title) in zip(panels, SETS.items(), strict=True):
        here = where(table, images=name, figure=number)
        for index, series in enumerate(one for one in distinct(here, "series") if one in SERIES):
            line(axes, where(here, series=series), axis, "mean_frechet", f"C{index}", label=SERIES[series])
        for series, style, text in (
            ("no step", "--", "the generator alone"),
            ("private images", ":", "other private images"),
        ):
            (one,) = where(table, images=name, figure=0, series=series)
            level(axes, one["mean_frechet"], quiet(), style, label=text)
        axes.set(xlabel=label, title=title, ylim=(0, None))
        if axis == "steps":
            axes.set_xticks([1, 4, 8, 12, 16, 20])
    panels[0].set_ylabel("Fréchet distance from private images")
    legend_below(panels[0], 2)


@picture("pe25_images/figures_3_4.csv", height=4.8, shape=(1, 2))
def figure_3(table: list[Row], panels: Any) -> None:
    """Figure 3: distance of evolved images from private ones, by the number of private images; lower is nearer."""
    images(table, panels, 3, "n", "private images, $n$")


@picture("pe25_images/figures_3_4.csv", height=4.8, shape=(1, 2))
def figure_4(table: list[Row], panels: Any) -> None:
    """Figure 4: distance of evolved images from private ones, by the number of steps, with 300 private images."""
    images(table, panels, 4, "steps", "steps, $T$")


@picture("digits_from_fonts/digits.csv", height=3.6, shape=None)
def digits(table: list[Row], figure: Figure) -> None:
    """Digits that the fonts propose, above, and digits that the votes of handwriting picked, below: two of each."""
    for half, kind in zip(figure.subfigures(2, 1), distinct(table, "kind"), strict=True):
        half.suptitle(kind, x=0.01, ha="left", fontsize=10, fontweight="bold")
        panels = half.subplots(2, 10)
        for axes in panels.flat:
            axes.set_axis_off()
        for row in where(table, kind=kind):
            pixels = [value for name, value in row.items() if name.startswith("pixel_")]
            image = [pixels[8 * i : 8 * i + 8] for i in range(8)]
            panels[int(row["place"]), int(row["digit"])].imshow(image, cmap="Greys", vmin=0, vmax=16)
