"""Pictures of PP22: risk-weighted pseudo-posteriors."""

from typing import Any

from matplotlib.figure import Figure

from pictures import canvas, column, distinct, ink, named, picture, quiet, rows, where

SIZES = (100, 400, 1600, 6400)
FORMS = {"unweighted": "unweighted", "weighted": "weighted", "weighted-M": "weighted, cut at $M$ = 3.5"}
CONFIGURATIONS = ("0.7 0", "0.6 0", "0.6 -0.1", "0.5 0", "0.5 -0.1", "0.5 -0.3")
FOUR = {"Unweighted": "unweighted", "DP 0.7 0": "risk-weighted\n(0.7, 0)", "EM 0.7 0": "exponential\nmechanism",
        "Countweighted": "weighted\nby counts"}  # fmt: skip


def violins(axes: Any, values: list[list[float]], places: list[float], colour: str, width: float = 0.75) -> None:
    """Draw distributions of one colour side by side, the median marked."""
    made = axes.violinplot(values, positions=places, widths=width, showmedians=True)
    for body in made["bodies"]:
        body.set(facecolor=colour, edgecolor=colour, alpha=0.4)
    for part in ("cmedians", "cmins", "cmaxes", "cbars"):
        made[part].set(color=colour, linewidth=1)


def simulated(name: str, label: str, *, shared: bool) -> Figure:
    """Return the distributions over 400 samples of Poisson(100) records, a panel per form of weights."""
    table = rows("pp22_simulation/replicates.csv")
    figure, panels = canvas(3.6, 1, 3, sharey=shared)
    for axes, (form, title) in zip(panels, FORMS.items(), strict=True):
        values = [column(where(table, n=n, form=form), name) for n in SIZES]
        violins(axes, values, [1, 2, 3, 4], "C0")
        axes.set_xticks(range(1, 5), [f"{n:,}" for n in SIZES])
        axes.set(xlabel="records", title=title)
        axes.grid(visible=False, axis="x")
    panels[0].set_ylabel(label)
    return figure


@picture("pp22_simulation/replicates.csv")
def figure_1() -> Figure:
    """Figure 1: Lipschitz bounds of 400 samples by their size, each panel with its own axis; lower is more private."""
    figure = simulated("lipschitz", "Lipschitz bound of a sample (nats)", shared=False)
    figure.axes[2].axhline(3.5, color=ink(), linewidth=1, linestyle="--")
    named(figure.axes[2], 4.5, 3.5, "$M$", ink(), dx=0, dy=6)
    return figure


@picture("pp22_simulation/replicates.csv")
def figure_2() -> Figure:
    """Figure 2: posterior means in the same 400 samples, by their size; dashed is the truth, 100."""
    figure = simulated("mean", "posterior mean of the records' mean", shared=True)
    for axes in figure.axes:
        axes.axhline(100, color=quiet(), linewidth=1, linestyle="--")
    return figure


def four(file: str, name: str, scale: float = 1.0) -> dict[str, list[float]]:
    """Return the values of the four mechanisms that are compared, by label."""
    table = rows(f"pp22_application/{file}.csv")
    return {text: [row[name] / scale for row in table if row["form"] == form] for form, text in FOUR.items()}


def compared(values: dict[str, list[float]], label: str) -> Figure:
    """Return a violin per mechanism."""
    figure, axes = canvas(4)
    for place, (name, found) in enumerate(values.items(), start=1):
        violins(axes, [found], [place], quiet() if name == "data" else f"C{list(FOUR.values()).index(name)}")
    axes.set_xticks(range(1, len(values) + 1), list(values))
    axes.set_ylabel(label)
    axes.grid(visible=False, axis="x")
    return figure


@picture("pp22_application/figure_4.csv")
def figure_4() -> Figure:
    """Figure 4: Lipschitz bounds of all records under four forms of weights; the top is the bound of the table."""
    return compared(four("figure_4", "bound"), "Lipschitz bound of a record (nats)")


def of_tables(name: str, label: str) -> Figure:
    """Return the distributions of a statistic over synthetic tables, the data's first."""
    data = [row[name] / 1000 for row in rows("pp22_application/figures_5_to_7.csv", form="Data")]
    return compared({"data": data, **four("figures_5_to_7", name, 1000)}, label)


@picture("pp22_application/figures_5_to_7.csv")
def figure_5() -> Figure:
    """Figure 5: mean income over synthetic tables, beside that of the data with its sampling error."""
    return of_tables("mean", "mean income (thousand dollars)")


@picture("pp22_application/figures_5_to_7.csv")
def figure_6() -> Figure:
    """Figure 6: 90th percentile of income over synthetic tables, beside that of the data with its sampling error."""
    return of_tables("q90", "90th percentile of income (thousand dollars)")


@picture("pp22_application/figures_5_to_7.csv")
def figure_7() -> Figure:
    """The 90th percentile of income over synthetic tables, by the form of weights; dashed is the median of the data."""
    table = rows("pp22_application/figures_5_to_7.csv")
    values = {form: [row["q90"] / 1000 for row in table if row["form"] == form] for form in column(table, "form")}
    figure, axes = canvas(4.4)
    violins(axes, [values["Data"]], [0], quiet())
    violins(axes, [values["Unweighted"]], [1], "C0")
    for place, name in enumerate(CONFIGURATIONS):
        violins(axes, [values[f"DP {name}"]], [2 + place - 0.2], "C1", 0.38)
        violins(axes, [values[f"EM {name}"]], [2 + place + 0.2], "C2", 0.38)
    axes.axhline(sorted(values["Data"])[len(values["Data"]) // 2], color=quiet(), linewidth=1, linestyle="--")
    ticks = [f"({name.replace(' ', ', ')})" for name in CONFIGURATIONS]
    axes.set_xticks(range(8), ["data", "unweighted", *ticks])
    axes.set(xlabel="configuration $(c, g)$ of the weights", ylabel="90th percentile of income (thousand dollars)")
    for colour, label in (("C1", "risk-weighted"), ("C2", "one weight for all (exponential mechanism)")):
        axes.plot([], [], color=colour, linewidth=7, alpha=0.4, label=label)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    axes.grid(visible=False, axis="x")
    return figure


@picture("pp22_application/table_2_seeds.csv", "pp22_application/table_2.csv")
def table_2() -> Figure:
    """Table 2: the bound of 95 % of the draws of a configuration, by seeds, with its limits; the largest; printed."""
    ours, paper = rows("pp22_application/table_2_seeds.csv"), rows("pp22_application/table_2.csv")
    names, seeds = column(paper, "configuration"), distinct(ours, "seed")
    figure, axes = canvas(3.9)
    for number, seed in enumerate(seeds):
        at = [place + 0.15 * (number - (len(seeds) - 1) / 2) for place in range(len(names))]
        bound, low, high, largest = (
            column(where(ours, seed=seed, part=part), "lipschitz")
            for part in ("quantile", "quantile_low", "quantile_high", "all")
        )
        apart = [
            [q - end for q, end in zip(bound, low, strict=True)],
            [end - q for q, end in zip(bound, high, strict=True)],
        ]
        shown = ("bound of 95 % of the draws, with 95 % limits", "largest of all draws") if not number else (None, None)
        axes.errorbar(at, bound, yerr=apart, fmt="o", color="C0", label=shown[0])
        axes.plot(at, largest, "o", color=quiet(), mfc="none", label=shown[1])
    printed = column(paper, "paper_lipschitz")
    axes.plot(range(len(names)), printed, "s--", color="C1", label="printed in the paper (another unit)")
    axes.set_xticks(range(len(names)), names)
    axes.set(xlabel="configuration $(c, g)$ of the weights", ylabel="Lipschitz bound of the table (nats)")
    axes.set_ylim(0, None)
    axes.legend()
    return figure
