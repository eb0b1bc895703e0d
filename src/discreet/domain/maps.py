"""Maps of encoded records that a domain declares: of those that contradict its rules, and of a difference."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet._core.errors import DomainError
from discreet._core.numeric import Booleans, Integers
from discreet.domain import declaration
from discreet.domain.column import Column
from discreet.domain.constraints import Constraint, Readers, compiled, listed_names, published, remaining
from discreet.domain.declaration import DECLARED, frozen
from discreet.domain.integers import Integer
from discreet.domain.texts import settle

if TYPE_CHECKING:
    from discreet.domain.domain import Domain
    from discreet.domain.unit_tables import UnitTable

# Records that contradict the rules: each is moved, by itself, to one that all rules allow.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Repair:
    """The map of some columns, linked by rules, whose records contradict them: public."""

    columns: tuple[int, ...]  # positions in the domain, in the order in which they are moved
    values: tuple[int, ...]  # of each, how many cells are ordered; 0 where none are
    allowed: Booleans  # which cells all rules allow together, one axis per column

    def replace(self, codes: list[Any]) -> None:
        """Move records to allowed ones, given the codes of all columns, as :meth:`Domain.repaired` says."""
        rows = np.flatnonzero(~self.allowed[tuple(codes[place] for place in self.columns)])
        settled = list[Integers]()
        for axis, place in enumerate(self.columns if rows.size else ()):
            settled.append(self._nearest(axis)[(*settled, codes[place][rows])])
            codes[place] = codes[place].copy()
            codes[place][rows] = settled[-1]

    def _nearest(self, axis: int) -> Integers:
        """Return to which cell of a column each of its cells is moved, given those of the columns before."""
        possible = np.asarray(self.allowed.any(axis=tuple(range(axis + 1, self.allowed.ndim))))
        cells, values = np.arange(possible.shape[-1]), self.values[axis]
        nearest, ordered = possible.argmax(axis=-1, keepdims=True), possible[..., :values]
        far = 2 * len(cells)
        below = np.maximum.accumulate(np.where(ordered, cells[:values], -far), axis=-1)
        above = np.minimum.accumulate(np.where(ordered, cells[:values], far)[..., ::-1], axis=-1)[..., ::-1]
        nearer = np.where(cells[:values] - below <= above - cells[:values], below, above)
        nearer = np.where(ordered.any(axis=-1, keepdims=True), nearer, nearest)
        others = np.broadcast_to(nearest, (*possible.shape[:-1], len(cells) - values))
        return np.where(possible, cells, np.concatenate((nearer, others), axis=-1))


def repairs(readers: Readers, constraints: Sequence[Constraint], rules: Mapping[str, Any]) -> tuple[Repair, ...]:
    """Return the map of each set of columns that constraints link. Raises DomainError where they leave no record."""
    linked: list[set[int]] = []
    for constraint in constraints:
        parts = [part for part in linked if part & set(constraint.columns)]
        linked = [part for part in linked if part not in parts] + [set(constraint.columns).union(*parts)]
    maps, order = [], list(dict.fromkeys(_columns_named(rules)))
    for part in linked:
        names = [name for name in order if readers.place[name] in part]
        places, sizes = [readers.place[name] for name in names], readers.sizes(names)
        allowed = np.ones(sizes, dtype=np.bool_)
        for constraint in constraints:
            if part.issuperset(constraint.columns):
                axes = [places.index(place) for place in constraint.columns]
                shape = [size if axis in axes else 1 for axis, size in enumerate(sizes)]
                allowed &= constraint.allowed.transpose(np.argsort(axes)).reshape(shape)
        if not allowed.any():
            shown = listed_names(names)
            raise DomainError(f"the rules leave no values of the columns {shown} together. Correct a rule")
        columns = [readers.columns[name] for name in names]
        values = tuple([int(column.values or 0) * column.on_a_line for column in columns])
        maps.append(Repair(columns=tuple(places), values=values, allowed=allowed))
    return tuple(maps)


def dependencies(readers: Readers, rules: Mapping[str, Any]) -> tuple[tuple[int, int], ...]:
    """Return the positions of the columns of ``determines``, sources before what follows from their targets."""
    # Raises DomainError where a column follows from anything but one other.
    source_of = {target: source for source, target in rules["determines"]}
    ruled = {*_columns_named(rules), *[entry.get("column") for entry in rules["totals"]]}
    pairs = []
    for source, target in rules["determines"]:
        if source not in readers.columns:
            raise DomainError(f"{source!r} is not a column of the domain")
        readers.sizes([target])
        chain = [source]
        while chain[-1] in source_of and len(chain) <= len(source_of):
            chain.append(source_of[chain[-1]])
        if target in ruled or target in chain or source_of[target] != source:
            problem = "is under another rule or totals. Leave one of them out"
            raise DomainError(f"determines: column {target!r} is determined twice or by itself, or {problem}")
        pairs.append((len(chain), readers.place[source], readers.place[target]))
    return tuple([(source, target) for _, source, target in sorted(pairs)])


def _columns_named(rules: Mapping[str, Any]) -> Iterator[str]:
    """Yield the columns of rules in the order in which they are moved: what is determined comes last."""
    for entry in rules["implies"]:
        yield from (*entry["columns"], entry["determine"])
    for names in chain(*[rules[name] for name in ("impossible", "possible", "nulls_together", "order")]):
        yield from names
    for name, limit in rules["at_most"].items():
        yield from (limit, name)


# Two numbers of one record, of which one is measured by its difference from the other: a map of codes and back.

_MOST_EVEN = 1 << 16  # cells of either
_SAME = 1e-6  # of a cell
_NUMBERS = dict.fromkeys(("numeric", "integer", "decimal"), "number")
_EVEN = "Declare cells of one width, such as single values, in both"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Difference:
    """The difference of two columns in whole cells, which are equally wide in both; null where either is. Public."""

    columns: tuple[int, ...]  # positions of the column that it replaces, and of the one that it is taken from
    nulls: tuple[int, ...]  # the code of a null in each, which a column without nulls does not have
    cells: Integer

    @classmethod
    def parse(cls, entry: Mapping[str, Any], columns: Mapping[str, Column]) -> Difference:
        """Return that of a plain entry. Raises DomainError naming a column that has no such difference."""
        names = entry["of"], entry["from"]
        column, source = pair = [columns[name] for name in names]
        kinds = {_NUMBERS.get(part.kind, part.kind) for part in pair}
        if len(kinds) > 1 or not (column.on_a_line and source.on_a_line) or column.labels or source.labels:
            form = "both be numbers, or dates or times of a type"
            raise DomainError(f"difference: columns {listed_names(names)} must {form}")
        starts, (width, source_width) = zip(*map(_start_and_width, names, pair), strict=True)
        if abs(width - source_width) > _SAME * width:
            raise DomainError(f"difference: the cells of columns {listed_names(names)} differ in width. {_EVEN}")
        if source.nullable and not column.nullable:
            raise DomainError(f'column {names[0]!r}: {names[1]!r} has nulls. Declare nulls = "category" for both')
        sizes = column.values or 0, source.values or 0
        low, high = [(entry[bound] - (starts[0] - starts[1])) / width for bound in ("lower", "upper")]
        low, high = max(math.ceil(low - _SAME), 1 - sizes[1]), min(math.floor(high + _SAME), sizes[0] - 1)
        if low >= high:
            raise DomainError("difference: fewer than two differences lie between lower and upper. Widen them")
        places = tuple([list(columns).index(name) for name in names])
        return cls(columns=places, nulls=sizes, cells=Integer(lower=low, upper=high, nulls=column.nulls))

    def cells_of(self, codes: Integers, source: Integers) -> Integers:
        """Return the difference of two columns' codes, clipped to its bounds."""
        cells = np.clip(codes - source, self.cells.lower, self.cells.upper) - self.cells.lower
        return np.where((codes == self.nulls[0]) | (source == self.nulls[1]), self.cells.values, cells)

    def codes_of(self, cells: Integers, source: Integers) -> Integers:
        """Return the column's codes from a difference and the other's codes, clipped to its bounds."""
        codes = np.clip(source + cells + self.cells.lower, 0, self.nulls[0] - 1)
        return np.where((cells == self.cells.values) | (source == self.nulls[1]), self.nulls[0], codes)

    def lost(self, codes: tuple[Integers, Integers]) -> Booleans:
        """Return where the column's code does not come back: it is clipped, or the other is null."""
        return np.asarray(self.codes_of(self.cells_of(*codes), codes[1]) != codes[0])

    def replace(self, columns: list[Any], code: Callable[[Integers, Integers], Integers]) -> None:
        """Put other codes in the column's place, made of its own and those of the other."""
        columns[self.columns[0]] = code(*[columns[place].astype(np.int64) for place in self.columns])


def _start_and_width(name: str, column: Column) -> tuple[float, float]:
    """Return where the first cell of a column lies, and how far they are apart."""
    if not 2 <= (column.values or 0) <= _MOST_EVEN:
        raise DomainError(f"difference: column {name!r} must have 2 to {_MOST_EVEN:,} cells. Declare cells")
    positions = column.positions(np.arange(column.values or 0))
    widths = np.diff(positions)
    if np.ptp(widths) > _SAME * widths[0]:
        raise DomainError(f"difference: the cells of column {name!r} differ in width. {_EVEN}")
    return float(positions[0]), float(widths[0])


def _named(entry: Any) -> set[str]:
    """Return the columns that an entry of a rule is about."""
    if isinstance(entry, Mapping) and "determine" in entry and "columns" in entry:  # implies
        return {*entry["columns"], entry["determine"]}
    return {entry} if isinstance(entry, str) else set(entry)


def without(rules: Mapping[str, Any], table: UnitTable) -> dict[str, Any]:
    """Return rules without those on columns of a table."""
    remaining: dict[str, Any] = {"at_most": {}}
    for kind, entries in rules.items():
        if kind == "at_most":
            remaining[kind] = {a: b for a, b in (entries or {}).items() if table.columns.keys().isdisjoint((a, b))}
        else:
            remaining[kind] = [entry for entry in entries if table.columns.keys().isdisjoint(_named(entry))]
    return remaining


def expanded(rules: Mapping[str, Any], tables: Sequence[UnitTable]) -> dict[str, Any]:
    """Return plain rules, with those on columns of a table once for each slot."""

    def renamed(entry: Any, names: Mapping[str, str]) -> Any:
        if isinstance(entry, str):
            return names.get(entry, entry)
        if isinstance(entry, Mapping):
            return {names.get(key, key): part for key, part in entry.items()}
        return [renamed(part, names) for part in entry]

    def implied(entry: Any, names: Mapping[str, str]) -> Any:
        return {**entry, "columns": renamed(entry["columns"], names), "determine": renamed(entry["determine"], names)}

    def versions(kind: str, entry: Any) -> list[Any]:
        concerned = [table for table in tables if not table.columns.keys().isdisjoint(_named(entry))]
        if len(concerned) > 1:
            columns = " and ".join([repr(min(table.columns.keys() & _named(entry))) for table in concerned[:2]])
            reason = "of two tables of rows, and no row has both. Leave the rule out"
            raise DomainError(f"{kind}: {columns} are {reason}")
        slots = [table.slot_names(slot) for table in concerned for slot in table._numbers()]
        rename = implied if kind == "implies" else renamed
        return [rename(entry, names) for names in slots] or [entry]

    texts = json.dumps(list(rules.values()))  # which are plain values
    if ruled := [name for table in tables for name in table.relative_to if json.dumps(name) in texts]:
        raise DomainError(f"rules name {ruled[0]!r}, which is held by another row (relative_to). Leave one of them out")
    lists = {**rules, "at_most": rules["at_most"].items()}
    result = {kind: [part for entry in lists[kind] for part in versions(kind, entry)] for kind in lists}
    return {**result, "at_most": dict(result["at_most"])}


def settle_rules(domain: Domain) -> None:
    """Set what a domain's rules, totals and difference come to. Raises DomainError where they contradict each other."""
    settle(domain, outcome=declaration.plain_outcome(domain.outcome, domain.columns))
    plain: dict[str, Any] = {name: declaration.plain_entries(name, getattr(domain, name)) for name in DECLARED}
    sets = ("order", "nulls_together", "determines")
    plain |= {name: declaration.plain_rules(name, getattr(domain, name)) for name in sets}
    plain["at_most"] = declaration.plain_limits(domain.at_most or {})
    settle(domain, **{name: frozen(entries) for name, entries in plain.items()})
    if domain.tables:
        plain = expanded(plain, [*domain.row_tables.values()])
    readers = Readers(domain.columns)
    constraints, intervals = compiled(readers, plain)
    if domain.units is not None:
        unit_names = set(domain.own_columns)
        if any(len(unit_names & set(pair)) == 1 for pair in intervals):
            raise DomainError("order across two tables needs cells of one value each. Declare these, or leave it out")
    totals = published(readers, plain["totals"], remaining(readers, constraints))
    settle(domain, constraints=constraints, published=totals, _sorted=intervals)
    settle(domain, repairs=repairs(readers, constraints, plain), dependencies=dependencies(readers, plain))
    if domain.difference is None:
        return
    settle(domain, difference=frozen(declaration.plain_difference(domain.difference, domain.columns)))
    difference = Difference.parse(domain.difference, domain.columns)
    name = domain.names[difference.columns[0]]
    ruled = [i for columns in (*domain.dependencies, *[rule.columns for rule in constraints]) for i in columns]
    if difference.columns[0] in ruled + [entry.column for entry in totals]:
        raise DomainError(
            f"difference: column {name!r} is also under a rule or totals. Leave one of them out, "
            "or exchange of and from"
        )
    settle(domain, differences=(difference,))
