"""Pictures of PE25: how Private Evolution converges."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from pictures import Row, column, ink, line, named, picture, plain, quiet, rows

RECORDS = (250.0, 500.0, 1000.0, 2000.0)
ERROR = "$W_1$ to the private records (radius of the disc)"
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
    """Return the error by an axis: of several numbers of records on the left, of several variants on the right."""
    table = [row for row in rows("pe25_figures/figure_2.csv") if row["panel"] in {panel, "both"}]
    figure = Figure(figsize=(11, 4.4))
    panels = figure.subplots(1, 2, sharey=True)
    for index, n in enumerate(RECORDS):
        here = [row for row in table if row["n"] == n]
        start = next(row for row in here if row["series"] == "no step")
        shown = [row for row in here if row["series"] == "practical"]
        if axis == "steps":
            shown = [{**start, "steps": 0.0}, *shown]
        line(panels[0], shown, axis, "mean_w1", f"C{index}")
        named(panels[0], shown[-1][axis], shown[-1]["mean_w1"], f"$n$ = {n:,.0f}", f"C{index}")
    here = [row for row in table if row["n"] == 1000]
    for index, (series, text) in enumerate(VARIANTS.items()):
        line(panels[1], [row for row in here if row["series"] == series], axis, "mean_w1", f"C{index}", label=text)
    across(panels[1], here, "no step", ink(), "no step")
    if axis == "steps":
        across(panels[1], here, "floor", quiet(), "as many private records")
    else:
        line(panels[1], [row for row in here if row["series"] == "floor by size"], axis, "mean_w1", quiet(), ":",
             label="as many private records")  # fmt: skip
    across(panels[1], here, "hierarchical histogram, tilted", "C4", "hierarchical histogram")
    for axes in panels:
        axes.set(xlabel=label, yscale="log")
        if axis == "steps":
            axes.set_xscale("symlog", linthresh=4)
            axes.set_xticks([0, 1, 2, 4, 8, 14, 20, 40], ["0", "1", "2", "4", "8", "14", "20", "40"])
        else:
            axes.set_xscale("log")
            plain(axes.xaxis, (1, 4, 16, 64, 256))
        plain(axes.yaxis, (0.04, 0.06, 0.1, 0.2, 0.4, 0.8))
    panels[0].set(ylabel=ERROR, title="as in the paper")
    panels[1].set(title="$n$ = 1,000: variants and baselines")
    panels[1].legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure


@picture("pe25_figures/figure_2.csv")
def figure_2_steps() -> Figure:
    """Error by number of steps."""
    return figure_2("steps", "steps", "steps, $T$")


@picture("pe25_figures/figure_2.csv")
def figure_2_population() -> Figure:
    """Error by number of synthetic records."""
    return figure_2("population", "population", "synthetic records, $n_s$")


@picture("pe25_figures/figure_5.csv")
def figure_5() -> Figure:
    """Error by step, from starts nearer to the private records and farther from them."""
    table = rows("pe25_figures/figure_5.csv")
    figure = Figure(figsize=(8.6, 4.4))
    axes = figure.subplots()
    for index, beta in enumerate(dict.fromkeys(row["beta"] for row in table if row["start"] == "shrunk")):
        shown = [row for row in table if row["start"] == "shrunk" and row["beta"] == beta]
        words = {0.0: "$\\beta$ = 0: the private records", 0.5: "$\\beta$ = 0.5: all in the centre"}
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
    axes.axhline(floor, color=quiet(), linestyle=":", label=f"as many private records: {floor:.2g}")
    axes.set(xlabel="step", ylabel=ERROR, ylim=(0, None))
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure


@picture("pe25_figures/figure_6.csv")
def figure_6() -> Figure:
    """Error by dimension, and by epsilon."""
    table = rows("pe25_figures/figure_6.csv")
    figure = Figure(figsize=(11, 4.2))
    panels = figure.subplots(1, 2, sharey=True)
    for axes, panel, axis, label, title in (
        (panels[0], "dimension", "d", "dimension, $d$", "$\\epsilon$ = 1"),
        (panels[1], "epsilon", "epsilon", "$\\epsilon$", "$d$ = 2"),
    ):
        for series, colour, style, text in (
            ("practical", "C0", "o-", "as in the paper"),
            ("projection, stratified", "C3", "o-", "projected votes, stratified"),
            ("no step", ink(), ":", "no step"),
            ("floor", quiet(), ":", "as many private records"),
            ("hierarchical histogram", "C4", "o-", "hierarchical histogram"),
        ):
            shown = [row for row in table if row["panel"] == panel and row["series"] == series]
            line(axes, shown, axis, "mean_w1", colour, style, label=text)
        axes.set(xlabel=label, title=title, ylim=(0, None))
    panels[0].set_ylabel("$W_1$ to the private records (radius of the ball)")
    panels[1].legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure


@picture("pe25_figures/figure_7.csv", "pe25_figures/figure_7_budget.csv")
def figure_7() -> Figure:
    """Gaussian noise against Laplace noise with a threshold, on clustered and on spread records."""
    table = rows("pe25_figures/figure_7.csv", n=1000.0)
    spent = {row["series"]: row for row in rows("pe25_figures/figure_7_budget.csv", n=1000.0)}
    printed = spent["laplace, as printed"]["delta_of_all_steps_at_epsilon_1"]
    figure = Figure(figsize=(9.6, 5))
    panels = figure.subplots(1, 2, sharey=True)
    for axes, radius, title in zip(
        panels, (0.02, 0.5), ("a cluster of radius 0.02", "spread over radius 0.5"), strict=True
    ):
        here = [row for row in table if row["radius"] == radius]
        for series, colour, style, text in (
            ("gaussian", "C0", "o-", "Gaussian, truncated (Private Evolution)"),
            ("gaussian, projection", "C3", "o-", "Gaussian, projected"),
            ("laplace, calibrated", "C2", "o-", "Laplace with threshold, calibrated to the budget"),
            (
                "laplace, as printed",
                "C1",
                "o--",
                f"Laplace as printed: $\\delta$ at $\\epsilon$ = 1 is up to {printed:.2g}",
            ),
        ):
            line(axes, [row for row in here if row["series"] == series], "step", "mean_w1", colour, style, label=text)
        for series, colour, text in (("floor", quiet(), "as many private records"),
                                     ("hierarchical histogram", "C4", "hierarchical histogram")):  # fmt: skip
            mean = next(row["mean_w1"] for row in here if row["series"] == series)
            axes.axhline(mean, color=colour, linestyle=":", linewidth=1.5, label=text)
        axes.set(xlabel="step", yscale="log", title=title)
        plain(axes.yaxis, (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5))
    panels[0].set_ylabel(ERROR)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    return figure


def images(number: int, axis: str, label: str) -> Figure:
    """Return the Frechet distance by an axis, for both sets of images."""
    table = rows("pe25_images/figures_3_4.csv")
    figure = Figure(figsize=(10.5, 4.8))
    panels = figure.subplots(1, 2)
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
                label=one.replace("eps)", "$\\epsilon$)").replace("n_s", "$n_s$"),
            )
        for one, style, text in (
            ("no step", "--", "the generator alone"),
            ("private images", ":", "other private images"),
        ):
            mean = next(row["mean_frechet"] for row in here if row["figure"] == 0 and row["series"] == one)
            axes.axhline(mean, color=quiet(), linestyle=style, linewidth=1.5, label=text)
        axes.set(xlabel=label, title={"fashion": "garments"}.get(name, name), ylim=(0, None))
    panels[0].set_ylabel("Fréchet distance of principal components")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure


@picture("pe25_images/figures_3_4.csv")
def figure_3() -> Figure:
    """Distance to private images by their number."""
    return images(3, "n", "private images, $n$")


@picture("pe25_images/figures_3_4.csv")
def figure_4() -> Figure:
    """Distance to private images by number of steps."""
    return images(4, "steps", "steps, $T$ ($n$ = 300)")


@picture("digits_from_fonts/digits.csv")
def digits() -> Figure:
    """Digits that the fonts propose, and digits that the votes of handwriting picked: two of each."""
    table = rows("digits_from_fonts/digits.csv")
    kinds = list(dict.fromkeys(column(table, "kind")))
    figure = Figure(figsize=(9, 4))
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
