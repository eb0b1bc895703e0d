"""Tables of the reference, made when the site is built."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from tables import estimates_table, mechanisms_table, names_table

import discreet


class NamesTable(SphinxDirective):
    """A table of the public names of a namespace."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes("\n".join(names_table(self.arguments[0])))


class MechanismsTable(SphinxDirective):
    """A table that compares the mechanisms of the registry."""

    def run(self) -> list[nodes.Node]:
        found = self.parse_text_to_nodes("\n".join(mechanisms_table()))
        for table in found:
            table["classes"] += ["mechanisms"]
        return found


class EstimatesTable(SphinxDirective):
    """A table of what estimates assume, by their own notes."""

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes("\n".join(estimates_table()))


def load_all_names(app: Sphinx) -> None:
    """Load what namespaces load when it is first used: autodoc shows what it finds in them."""
    for found in pkgutil.iter_modules(discreet.__path__):
        if not found.name.startswith("_"):
            module = import_module(f"discreet.{found.name}")
            vars(module).update({name: getattr(module, name) for name in getattr(module, "__all__", ())})


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_directive("names-table", NamesTable)
    app.add_directive("mechanisms-table", MechanismsTable)
    app.add_directive("estimates-table", EstimatesTable)
    app.connect("builder-inited", load_all_names)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
