"""The public facts of a certificate, of any form."""

import datetime
import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from verify_certificate.answers import CANNOT, WRONG, StoppedError
from verify_certificate.arithmetic import INFINITE, exact, whole
from verify_certificate.released import READ, span

ADD_REMOVE = {"private-evolution", "marginals", "censored-posterior"}
NOT_OF_ROWS = ("metric_weights", "totals", "difference", "outcome")


class Facts:
    """The public facts of a certificate, of any form."""

    def __init__(self, document: dict[str, Any]) -> None:
        if document.get("discreet_certificate") not in (1, 2) and document.get("discreet_tables_certificate") != 1:
            raise StoppedError(CANNOT, "it is not a certificate of version 1 or 2")
        self.mechanism: str = document["mechanism"]["name"]
        self.parameters: dict[str, Any] = document["mechanism"].get("parameters", document["mechanism"])
        self.columns: dict[str, Any] = document["domain"]["columns"]
        self.outcome, self.determines = [document["domain"].get(key, []) for key in ("outcome", "determines")]
        self.released, self.slots, self.of_rows = list(self.columns), [1], "tables" in document["domain"]
        self.asked, self.unit = document.get("size"), document.get("unit")
        if self.of_rows or "units" in document["domain"]:
            self._take_rows(document["domain"])
        self.n = whole(document["records"], "records")
        self.relation: str = document["relation"]["name"]
        self.group = whole(document["relation"]["group"], "group", 1)
        self.covered = 1 if self.of_rows else self.unit["max_records"] if self.unit else self.group
        self.cells = [cells_of(column) for column in self.columns.values()]
        self.all_cells = math.prod(self.cells)
        if self.of_rows and (self.mechanism != "marginals" or INFINITE in self.cells):
            raise StoppedError(WRONG, "rows of units are covered by marginals, where all columns have cells")
        if self.relation not in {"replacement", "add-remove"}:
            raise StoppedError(CANNOT, f"the relation {self.relation!r} is not known")
        if self.relation == "add-remove" and self.mechanism not in ADD_REMOVE:
            raise StoppedError(WRONG, f"no theorem covers {self.mechanism} where records are added or removed")
        if self.relation == "replacement":
            self.group = min(self.group, max(1, self.n))

    def _take_rows(self, domain: dict[str, Any]) -> None:
        """Make one record of all rows of a unit: its own columns, and of each table its used slots and their rows."""
        if not isinstance(self.unit, dict):
            raise StoppedError(WRONG, "rows of units have no unit")
        unit, most, tables, linked = self.unit["column"], 0, domain["tables"], "units" in domain
        names, self.released, self.slots = [unit, *self.columns], [unit, *self.columns], [1] * linked
        words = [x for x in (*tables, domain.get("units")) if isinstance(x, str) and re.fullmatch(r"\w[\w-]*", x)]
        named = self.columns and len(set(map(str.casefold, words))) > len(tables)  # a table of units is another
        fits = bool(tables and (named if linked else len(tables) == 1)) and not any(map(domain.get, NOT_OF_ROWS))
        rows_of = [{*table["columns"]} for table in tables.values()]
        fits = fits and all(sum(not rows.isdisjoint(pair) for rows in rows_of) <= 1 for pair in self.determines)
        for name, table in tables.items():
            rows, panel, order = table["columns"], table.get("slots", "interchangeable"), table.get("order_by")
            own = whole(table["max_records"], "max_records", 1)
            slots = range(1, 1 + (int(cells_of(rows[panel])) if panel in rows else own))
            fits = fits and panel in {*rows, "interchangeable", "ordered"} and order in {*rows, "as listed", None}
            fits = fits and (panel == "ordered") == (order is not None) and max(len(slots), own) <= 100
            fits = fits and not (panel in rows and any("relative_to" in column for column in rows.values()))
            used = [f"{name} ({slot})" for slot in slots] if panel in rows else [f"number of {name}"]
            flat = [(key, {"type": "boolean"}) for key in used]  # finite, which is all that counts
            flat += [(f"{key} ({slot})", rows[key]) for slot in slots for key in rows if key != panel]
            self.columns, self.released = self.columns | dict(flat), [*self.released, *rows]
            names += [*(key for key, _ in flat), *rows]
            self.determines = [[f"{key} ({slot})" if key in rows else key for key in pair] for pair in self.determines
                               for slot in (slots if {*pair} & {*rows} else [1])]  # fmt: skip
            self.slots, most, fits = [*self.slots, len(slots)], most + own, fits and table["unit"] == unit
        if not fits or self.unit["max_records"] != most or len({*names}) < len(names):
            raise StoppedError(WRONG, "rows of a unit are not as they can be declared, or the unit is another")

    @property
    def size(self) -> int:
        """How many records were asked for."""
        return whole(self.asked, "size", 1)

    def finite_cells(self) -> int:
        """Return how many cells the whole domain has."""
        if self.all_cells == INFINITE:
            raise StoppedError(WRONG, f"{self.mechanism} needs a finite domain")
        return int(self.all_cells)


def cells_of(column: dict[str, Any]) -> float:
    """Return how many cells a column has, infinitely many where it is continuous or open."""
    kind, found = column["type"], column.get("cells")
    if kind in {"boolean", "category"}:
        found = len(column["categories"]) if kind == "category" else 2
    elif found is None and kind in {"numeric", "open_labels"}:
        found = INFINITE if column.get("step") is None else _steps(column, exact(column["step"]), exact)
        found = len(set(column["grid"])) if "grid" in column else found
    elif found is None and kind in {"integer", "decimal"}:
        found = _steps(column, Fraction(1, 10 ** column.get("digits", 0)), lambda text: Fraction(str(text)))
    elif found is None and kind == "date":
        found = _steps(column, Fraction(1), lambda text: datetime.date.fromisoformat(text).toordinal())
    elif found is None or kind not in READ:
        raise StoppedError(CANNOT, f"how many cells a column of type {kind!r} has")
    elif column.get("atoms") or column.get("coin"):
        found = _with_atoms(column, READ[kind])
    return found + len(column.get("censored", ())) + (column.get("nulls") == "category")


def _with_atoms(column: dict[str, Any], read: Callable[[Any], Any]) -> int:
    """Return how many cells there are: one around an atom becomes three, and a coin makes two of all but points."""
    kind, cells, log, coin = column["type"], column["cells"], column.get("spacing") == "log", column.get("coin", False)
    low, high = read(column.get("lower", "00:00:00")), read(column.get("upper", "23:59:59.999999"))
    atoms = {read(atom) for atom in column.get("atoms", ())}
    if kind == "numeric":
        ends = [math.log(x) if log else x for x in (low, high, *atoms)]
        places = [cells * (end - ends[0]) / (ends[1] - ends[0]) for end in ends[2:]]
        return len(atoms) + (1 + coin) * (cells + sum(abs(place - round(place)) > 1e-9 for place in places))
    step = Fraction(1, 10 ** column.get("digits", 0)) if kind in "integer decimal" else span(column.get("step", "1d"))
    edges = {cell * ((high - low) // step + 1) // cells for cell in range(cells + 1)}
    if log:
        powers = [low * (high / low) ** (cell / cells) for cell in range(1, cells)]
        edges = {0, high - low + 1, *(math.ceil(power - 1e-9) - low for power in powers)}
    edges |= {(atom - low) // step + end for atom in atoms for end in (0, 1)}
    return len(edges) - 1 + coin * (sum(edge + 1 not in edges for edge in edges) - 1)


def _steps(column: dict[str, Any], step: Fraction, read: Callable[[Any], Any]) -> int:
    return math.floor((read(column["upper"]) - read(column["lower"])) / step) + 1
