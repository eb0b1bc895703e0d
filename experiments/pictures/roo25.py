"""Pictures of ROO25: Reveal-or-Obscure."""

from typing import Any

from pictures import Row, column, distinct, ink, named, picture, quiet, where


@picture("roo25/figure_1.csv", height=4.4)
def figure_1(table: list[Row], axes: Any) -> None:
    """The probability of obscuring by the smallest count of a letter: the least that keeps epsilon, and the paper's."""
    for index, epsilon in enumerate(distinct(table, "epsilon")):
        shown = where(table, epsilon=epsilon)
        axes.plot(column(shown, "smallest_count"), column(shown, "q_least"), color=f"C{index}")
        # Dots, not a line: where both schedules agree, a line would lie under the other one.
        dots = [row for row in shown if row["q_published"] > 0][:: max(1, round(0.6 / epsilon**0.5))]
        axes.plot(column(dots, "smallest_count"), column(dots, "q_published"), "o", color=f"C{index}", markersize=4.5,
                  markerfacecolor="none")  # fmt: skip
        if epsilon < 0.5:  # the others lie on top of each other at the origin
            named(axes, 0, shown[0]["q_least"], f"$\\varepsilon$ = {epsilon:g}", f"C{index}", dx=-6)
    named(axes, 0, 0.005, "$\\varepsilon$ = 0.5, 1", quiet(), dx=-6)
    axes.plot([], [], color=ink(), label="least $q$ that keeps $\\varepsilon$")
    axes.plot([], [], "o", color=ink(), markerfacecolor="none", markersize=4, label="as published")
    axes.set(xlabel="smallest count of a letter (records)", ylabel="probability of obscuring, $q$", xlim=(-24, None))
    axes.set_xticks(range(0, 120, 20))
    axes.legend(loc="upper right")


@picture("roo25/figure_2.csv", height=4)
def figure_2(table: list[Row], axes: Any) -> None:
    """The probability that each letter is the one released, at epsilon 0.1, beside its share of the population."""
    bars = (("population", "population", quiet()), ("data_specific", "data-specific Reveal-or-Obscure", "C0"),
            ("reveal_or_obscure", "Reveal-or-Obscure", "C1"))  # fmt: skip
    for place, (name, label, colour) in enumerate(bars):
        letters = [letter + 0.27 * (place - 1) for letter in column(table, "letter")]
        axes.bar(letters, column(table, name), 0.25, color=colour, label=label)
    axes.set(xlabel="letter", ylabel="probability")
    axes.set_xticks(range(1, 10))
    axes.grid(visible=False, axis="x")
    axes.legend()


@picture("roo25/figure_3.csv", height=4.6)
def figure_3(table: list[Row], axes: Any) -> None:
    """Distance of the law of one released letter from the population's, by epsilon; axes are logarithmic."""
    for name, text, style, colour in (
        ("laplace_formula", "Laplace projection,\nformula $2k/(n\\varepsilon)$", "--", "C2"),
        ("laplace_simulated", "Laplace projection,\nsimulated", "-", "C2"),
        ("reveal_or_obscure_worst", "Reveal-or-Obscure,\nworst population", "--", "C1"),
        ("reveal_or_obscure", "Reveal-or-Obscure,\nthis population", "-", "C1"),
        ("data_specific", "data-specific,\nleast $q$", "-", "C0"),
        ("data_specific_published", "data-specific,\nas published", "o", "C0"),
    ):
        epsilons, errors = column(table, "epsilon"), column(table, name)
        axes.plot(epsilons, errors, style, color=colour, label=text, markerfacecolor="none")
    axes.set(xscale="log", yscale="log", ylim=(1e-6, 1), xlabel="$\\varepsilon$ of one released letter",
             ylabel="total variation from the population, $\\alpha$")  # fmt: skip
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), labelspacing=0.9)


@picture("roo25/promised.csv", height=4.2)
def promised(table: list[Row], axes: Any) -> None:
    """The epsilon that the published schedule really has, over the one it is made for; right of the line it fails."""
    settings = list(dict.fromkeys((row["n"], row["k"]) for row in table))
    for index, epsilon in enumerate(distinct(table, "epsilon")):
        ratios = [row["published_epsilon"] / epsilon for row in where(table, epsilon=epsilon)]
        places = [len(settings) - 1 - i + 0.15 * (1.5 - index) for i in range(len(settings))]
        axes.plot(ratios, places, "o", color=f"C{index}", label=f"made for $\\varepsilon$ = {epsilon:g}")
    axes.axvline(1, color=ink(), linewidth=1, linestyle="--")
    axes.set_yticks(range(len(settings)), [f"{n:,.0f} records, {k:,.0f} letters" for n, k in settings[::-1]])
    axes.set_xlabel("$\\varepsilon$ that the schedule has, divided by the $\\varepsilon$ it is made for")
    axes.legend(loc="upper right")
