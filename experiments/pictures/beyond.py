"""Pictures of what the papers have no experiment for: intervals on real columns, and wide tables beside other packages.

The second is drawn from a benchmark's results, which are of one machine.
"""

from typing import Any

import numpy as np

from pictures import Row, column, ink, legend_below, named, picture, plain, quiet, where

WIDE = "../../benchmarks/results/wide.json"
OURS = "discreet marginals"
PEERS = {
    OURS: ("C0", "o", "marginals (this library)"),
    "dpmm AIM, cut to 28 rounds and 1 MB": ("C1", "s", "AIM, cut to 28 rounds"),
    "dpmm AIM, defaults": ("C1", "D", "AIM, defaults"),
    "dpmm MST": ("C2", "^", "MST"),
    "dpsynth SWIFT": ("C3", "v", "SWIFT"),
    "dpsynth SWIFT, rare values merged": ("C3", "<", "SWIFT, rare values merged"),
    "independent columns": ("C6", "x", "independent columns, private"),
}
# Points, to keep names apart where errors are nearly equal.
NUDGED = {
    ("adult", 1.0, "dpmm AIM, cut to 28 rounds and 1 MB"): -6,
    ("adult", 1.0, "dpsynth SWIFT, rare values merged"): 2,
}
WIDE_TABLES = {
    ("adult", 0.3, 1e-9): "Adult, 14 columns",
    ("adult", 1.0, 1e-9): "Adult, 14 columns",
    ("adult", 3.0, 1e-9): "Adult, 14 columns",
    ("nist", 1.0, 1e-9): "NIST excerpts, 24 columns",
    ("acs", 1.0, 1e-9): "ACS, 14 columns",
    ("small-10", 1.0, 1e-6): "a tenth of NIST, 10 columns",
}


@picture("coverage_real/coverage_real.csv", height=4, shape=(1, 2), sharey=True, sharex=True)
def coverage_real(table: list[Row], panels: Any) -> None:
    """Coverage of 95 % intervals, means over twelve real columns; the grey band is 93 to 97.5 %."""
    wrong = ", fitted to a quarter of the noise"
    kinds = list(dict.fromkeys((row["method"], row["epsilon"]) for row in table if not row["method"].endswith(wrong)))
    panels[0].figure.set_figheight(0.3 * len(kinds) + 1.4)
    titles = ("numbers of the table", "numbers of the population")
    for axes, about, title in zip(panels, ("table", "population"), titles, strict=True):
        axes.axvspan(0.93, 0.975, color=quiet(), alpha=0.25, linewidth=0)
        for place, (method, epsilon) in enumerate(kinds):
            found = {row["method"]: row for row in where(table, epsilon=epsilon, about=about)}
            one, narrow = found[method], found.get(method + wrong)
            axes.plot(one["mass_spread_evenly"], place, "|", color="C1", markersize=9)
            axes.plot(one["with_bounds"], place, "o", color="C0", fillstyle="none")
            axes.plot(one["without_bounds"], place, "o", color="C0")
            if narrow:
                axes.plot(narrow["with_bounds"], place, "x", color=ink())
        axes.set(xlabel="intervals that hold the truth", title=title)
    panels[0].set_yticks(range(len(kinds)), [f"{method}, $\\varepsilon={epsilon:g}$" for method, epsilon in kinds])
    panels[0].invert_yaxis()
    marks = (("C0", "o", "full", "defaults, without bounds"), ("C0", "o", "none", "defaults, with bounds"),
             ("C1", "|", "full", "mass spread evenly within cells"),
             (ink(), "x", "full", "fitted to a quarter of the noise"))  # fmt: skip
    for colour, mark, filled, words in marks:
        panels[0].plot([], [], mark, color=colour, label=words, fillstyle=filled)
    legend_below(panels[0], 2)


@picture(WIDE, height=9.6, shape=(3, 2), sharex=True)
def wide(table: list[Row], panels: Any) -> None:
    """Error of pairs of columns by processor time, which is on a logarithmic axis; lower and further left is better."""
    runs = [run for run in table if "failed" not in run]
    for axes, ((name, epsilon, delta), title) in zip(panels.flat, WIDE_TABLES.items(), strict=True):
        for method, (colour, mark, words) in PEERS.items():
            mine = where(runs, table=name, epsilon=epsilon, delta=delta, method=method)
            if mine:
                seconds, error = (np.mean(column(mine, key)) for key in ("processor_s", "two_way"))
                place, side = max(seconds, 0.05), -7 if seconds > 20 else 7
                axes.plot(place, error, mark, color=colour, markersize=8)
                named(axes, place, error, words, colour, dx=side, dy=NUDGED.get((name, epsilon, method), 0))
        small = f"10^{{{round(np.log10(delta))}}}"
        axes.set(xscale="log", xlim=(0.03, 900))
        axes.set_title(f"{title}, $\\varepsilon={epsilon:g}$, $\\delta={small}$")
        axes.set_ylim(0, 1.08 * axes.get_ylim()[1])
        plain(axes.xaxis, (0.1, 1, 10, 100))
        axes.tick_params(labelbottom=True)
        axes.set(xlabel="processor seconds", ylabel="mean total variation of pairs")
