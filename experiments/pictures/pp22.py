"""Pictures of PP22: risk-weighted pseudo-posteriors."""

from typing import Any

from pictures import Row, column, distinct, ink, named, picture, quiet, where

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


def simulated(table: list[Row], panels: Any, name: str, label: str) -> None:
    """Draw the distributions over 400 samples of Poisson(100) records, a panel per form of weights."""
    for axes, (form, title) in zip(panels, FORMS.items(), strict=True):
        values = [column(where(table, n=n, form=form), name) for n in SIZES]
        violins(axes, values, [1, 2, 3, 4], "C0")
        axes.set_xticks(range(1, 5), [f"{n:,}" for n in SIZES])
        axes.set(xlabel="records", title=title)
        axes.grid(visible=False, axis="x")
    panels[0].set_ylabel(label)


@picture("pp22_simulation/replicates.csv", height=3.6, shape=(1, 3))
def figure_1(table: list[Row], panels: Any) -> None:
    """Figure 1: Lipschitz bounds of 400 samples by their size, each panel with its own axis; lower is more private."""
    simulated(table, panels, "lipschitz", "Lipschitz bound of a sample (nats)")
    panels[2].axhline(3.5, color=ink(), linewidth=1, linestyle="--")
    named(panels[2], 4.5, 3.5, "$M$", ink(), dx=0, dy=6)


@picture("pp22_simulation/replicates.csv", height=3.6, shape=(1, 3), sharey=True)
def figure_2(table: list[Row], panels: Any) -> None:
    """Figure 2: posterior means in the same 400 samples, by their size; dashed is the truth, 100."""
    simulated(table, panels, "mean", "posterior mean of the records' mean")
    for axes in panels:
        axes.axhline(100, color=quiet(), linewidth=1, linestyle="--")


def compared(table: list[Row], axes: Any, name: str, label: str, scale: float = 1.0) -> None:
    """Draw a violin for each of the four mechanisms, and for the data where they are among the rows."""
    texts = {"Data": "data", **FOUR} if where(table, form="Data") else FOUR
    for place, form in enumerate(texts, start=1):
        colour = quiet() if form == "Data" else f"C{list(FOUR).index(form)}"
        violins(axes, [[row[name] / scale for row in where(table, form=form)]], [place], colour)
    axes.set_xticks(range(1, len(texts) + 1), list(texts.values()))
    axes.set_ylabel(label)
    axes.grid(visible=False, axis="x")


@picture("pp22_application/figure_4.csv", height=4)
def figure_4(table: list[Row], axes: Any) -> None:
    """Figure 4: Lipschitz bounds of all records under four forms of weights; the top is the bound of the table."""
    compared(table, axes, "bound", "Lipschitz bound of a record (nats)")


@picture("pp22_application/figures_5_to_7.csv", height=4)
def figure_5(table: list[Row], axes: Any) -> None:
    """Figure 5: mean income over synthetic tables, beside that of the data with its sampling error."""
    compared(table, axes, "mean", "mean income (thousand dollars)", 1000)


@picture("pp22_application/figures_5_to_7.csv", height=4)
def figure_6(table: list[Row], axes: Any) -> None:
    """Figure 6: 90th percentile of income over synthetic tables, beside that of the data with its sampling error."""
    compared(table, axes, "q90", "90th percentile of income (thousand dollars)", 1000)


@picture("pp22_application/figures_5_to_7.csv", height=4.4)
def figure_7(table: list[Row], axes: Any) -> None:
    """The 90th percentile of income over synthetic tables, by the form of weights; dashed is the median of the data."""
    values = {form: [row["q90"] / 1000 for row in table if row["form"] == form] for form in column(table, "form")}
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


@picture("pp22_application/table_2_seeds.csv", "pp22_application/table_2.csv", height=3.9)
def table_2(ours: list[Row], paper: list[Row], axes: Any) -> None:
    """Table 2: the bound of 95 % of the draws of a configuration, by seeds, with its limits; the largest; printed."""
    names, seeds = column(paper, "configuration"), distinct(ours, "seed")
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
