"""The lines of the reference's tables, as Markdown: of a namespace's names, and of the mechanisms."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from discreet.domain import Domain, Numeric
from discreet.mechanisms import REGISTRY, Mechanism, alias_of
from discreet.mechanisms.base import parameter_names
from discreet.mechanisms.likelihood import no_posterior
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
        return kind.calibrated(BUDGET, domain=domain, n=RECORDS, size=SIZE, **WITH.get(name, alias_of(name)))

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
