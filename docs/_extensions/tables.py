"""The lines of the reference's tables, as Markdown: of a namespace's names, and of the mechanisms."""

from __future__ import annotations

import inspect
import re
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from discreet import release
from discreet.domain import Boolean, Domain, Integer, Numeric, OpenLabels, UnitTable
from discreet.inference import Posterior, all_unseen
from discreet.mechanisms import REGISTRY, Mechanism
from discreet.mechanisms.base import parameter_names
from discreet.mechanisms.likelihood import no_posterior
from discreet.mechanisms.registry import ALIASES
from discreet.privacy import Budget
from discreet.testing.facts import small_domain

RECORDS, SIZE, FEW = 1_000, 20, 20
BUDGET = Budget(epsilon=1.0, delta=0.01)
WITH = {"pitman-yor": {"discount": 0.5}}  # without, it is the Dirichlet process
INTERVAL = Domain(columns={"x": Numeric(lower=0.0, upper=1.0)})
THEORY = Path(__file__).parents[1] / "theory"


def first_sentence(item: Any) -> str:
    """Return what a docstring begins with, as Markdown."""
    text = " ".join((inspect.getdoc(item) or "").partition("\n\n")[0].split())
    text = re.sub(r":math:`([^`]*)`", r"$\1$", text)
    return re.sub(r"(?::[\w:]+:)?`{1,2}~?([^`]+)`{1,2}", r"`\1`", text).replace("|", "\\|")


def names_table(namespace: str) -> list[str]:
    """Return the lines of a table of the public names of a namespace: each with the first sentence of its docstring."""
    module = import_module(namespace)
    lines = ["| name | what it is |", "|---|---|"]
    for name in module.__all__:
        item = getattr(module, name)
        if inspect.isclass(item) or inspect.isroutine(item):
            role = "class" if inspect.isclass(item) else "func"
            lines.append(f"| {{py:{role}}}`~{namespace}.{name}` | {first_sentence(item)} |")
    return lines


class Row(NamedTuple):
    """What the table of mechanisms says of one."""

    name: str
    private_step: str
    guarantee: str
    theorem: str
    relations: str
    gives: str
    intervals: str
    theory: str


def rows() -> list[Row]:
    """Return what the registry says of every mechanism, each calibrated on a few cells, or on an interval."""
    return [row(name, kind) for name, kind in REGISTRY.items()]


def row(name: str, kind: type[Mechanism]) -> Row:
    """Return what the table of mechanisms says of one, from the mechanism itself."""

    def calibrated(domain: Domain) -> Mechanism:
        return kind.calibrated(
            BUDGET, domain=domain, n=RECORDS, size=SIZE, **WITH.get(name, ALIASES.get(name, (name, {}))[1])
        )

    on_cells = calibrated(small_domain())
    made = on_cells if kind.traits.needs_cells else calibrated(INTERVAL)
    promised = made.guarantee(n=RECORDS)
    step = next(base for base in kind.__mro__ if "kernel" in vars(base))
    page = kind.__module__.rpartition(".")[2].replace("_", "-")
    if not (THEORY / f"{page}.md").exists():
        raise FileNotFoundError(f"{name} has no page {page}.md in docs/theory")
    return Row(
        name=name,
        private_step=first_sentence(step).partition(";")[0].rstrip("."),
        guarantee=f"{promised.kind}, {'exact' if promised.profile.exact else 'upper bound'}",
        theorem=promised.theorem,
        relations=", ".join(kind.traits.relations),
        gives="records or counts" if kind.traits.counts else "records",
        intervals=intervals(made, on_cells),
        theory=page,
    )


def intervals(made: Mechanism, on_cells: Mechanism) -> str:
    """Return whether an analyst gets intervals from a release."""
    if "tables" in parameter_names(type(made)):
        return "from several tables"  # of one column, from one
    if not no_posterior(made, RECORDS):
        return "yes"
    if not no_posterior(on_cells, RECORDS):
        return "on cells"
    return "no" if no_posterior(on_cells, FEW) else "of small tables"


def estimates_table() -> list[str]:
    """Return the lines of the table of estimates: what each kind of question assumes, as its own notes say."""
    lines = ["| question | of a release by | method and assumptions |", "|---|---|---|"]
    for (question, source), notes in estimate_notes().items():
        lines.append(f"| {question} | {source} | {'; '.join(notes).replace('|', '&#124;')} |")
    return lines


def estimate_notes() -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the notes that come with each kind of question, from releases that are made here."""
    table = pl.DataFrame({"x": [0, 1, 1, 2, 2, 2] * 50, "g": [True, False, True] * 100})
    domain = Domain(columns={"x": Integer(lower=0, upper=2), "g": Boolean()})
    line = Domain(columns={"x": Integer(lower=0, upper=2)})
    long = Domain(columns={"x": Integer(lower=0, upper=4095)})
    options: dict[str, Any] = {"accept": {"empirical", "poor-utility", "weak-promise"}, "seed": 1}
    budget, found = Budget(epsilon=1.0, delta=0.05), {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, kind in REGISTRY.items():
            made = kind.calibrated(budget, domain=line, n=300, size=8, **ALIASES.get(name, (name, {}))[1])
            if not no_posterior(made, 300):
                released = release(table.select("x"), line, mechanism=made, size=8, **options)
                found["mean, sd, quantile, share", name] = released.posterior(draws=20).notes
        tree = {"mechanism": "hierarchical-histogram", **options}
        coins = Domain(columns={"x": Numeric(lower=0.0, upper=4.0, cells=2, coin=True)})
        released = release(table.select(pl.col("x").cast(float)), coins, budget, size=8, **tree)
        found["mean, sd, quantile, share, of a column with a coin", "hierarchical-histogram"] = released.posterior(
            draws=20
        ).notes
        released = release(table.select("x"), long, budget, counts=True, **tree)
        found["mean, sd, quantile, share, of more than 2,048 cells", "hierarchical-histogram"] = (
            released.posterior().notes
        )
        released = release(table, domain, budget, size=300, **tree)
        for question, summary in (
            ("in groups (`by`)", released.estimate(["mean"], column="x", by="g")),
            ("a regression, linear", released.regress("x ~ C(g)")),
            ("a regression, logistic", released.regress("g ~ x")),
        ):
            own = tuple(note for note in summary.notes if note not in released.posterior().notes)
            found[question, "every mechanism with a posterior"] = own or (first_sentence(Posterior.given),)
        several = release(table, domain, budget, size=300, mechanism="marginals", tables=3, **options)
        found["all of these", "marginals, several tables"] = several.estimate(["mean"], column="x", by="g").notes
        visits = table.select(who=pl.int_range(pl.len()) // 2, x="x", g="g")
        units = Domain(tables={"visits": UnitTable(unit="who", max_records=2, columns=dict(domain.columns))})
        several = release(visits, units, budget, size=150, mechanism="marginals", tables=3, **options)
        for question, summary in (
            ("about rows", several.estimate(["mean"], column="x", by="g")),
            ("about units", several.estimate(["mean"], column="number of visits")),
        ):
            found[question, "marginals, several tables of units"] = summary.notes
        words = Domain(columns={"word": OpenLabels()})
        drawn = {"mechanism": "pitman-yor", "size": 50, "strength": 5.0, "discount": 0.5, **options}
        names = pl.DataFrame({"word": [f"w{i % 97}" for i in range(300)]})
        for name, answer in all_unseen(release(names, words, Budget(epsilon=8.0, delta=0.9), **drawn))[0].items():
            found[f"`unseen`, {name}", "urns"] = (answer.rests_on,)
    return found


def mechanisms_table() -> list[str]:
    """Return the lines of the table of mechanisms."""
    lines = [
        "| mechanism | private step | guarantee | theorem | relations | gives | intervals | theory |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in rows():
        kind = REGISTRY[one.name].__name__
        lines.append(
            f"| {{py:class}}`{one.name} <discreet.mechanisms.{kind}>` | {one.private_step} | {one.guarantee} "
            f"| [{one.theorem}](#{one.theorem.lower()}) | {one.relations} | {one.gives} | {one.intervals} "
            f"| [page](../theory/{one.theory}.md) |"
        )
    return lines
