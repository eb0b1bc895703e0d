"""Count what makes the source of discreet hard to live in.

    python tools/count_house.py [--json] [--write]

Prints a table: each number today, and the ceiling that ``tests/meta/house.json`` holds it to. ``--write`` lowers the
ceilings to what was counted, and never raises one. Rates have no ceiling: they rise when something else is cut.

Classes and functions are found by name, wherever they are, so that modules may be merged, moved and renamed. A door is
the ``__init__`` of a package directly under ``discreet``, or a module there. A line of code is not blank, no comment
and no docstring. Circles count imports within functions too, but not those for type checkers. What a release
executes is counted from the first import on, in a fresh process: every file of which something runs, and every
function, lambda, generator and body of a class.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar, cast

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "discreet"
CEILINGS = ROOT / "tests" / "meta" / "house.json"
SHORTEST, LONGEST = 60, 480
FEW = 5
LONG_TEXT = 60
FORMATTERS = """about aligned as_written counted counted_up harmless percent percent_as_written rounded_down rounded_up
sentence with_article"""
WORDING = frozenset({"wording", "report", "cli", "errors", "_core"})
CERTIFICATE = frozenset({"facts", "certificate", "certificate_v1"})
BARE = """made found held told said given known asked kept drawn seen wanted taken left chosen read sorted fitting own
mine those these each one other others some many whole rest all both about among beyond apart near far again first
second before after upto within so few like likely what which who it they them this that of by in on at to from with
without under over between"""
"""Participles, pronouns and the like, which name nothing when they stand alone."""

APART = frozenset({"app", "confidential.foreign", "domain.code_books"})
"""The page, and the readers of other programs' files, whose lines have limits of their own."""

RIDDLE = re.compile(r"(?:^|[.!?]\s+)(?:The same|What is)\b|\bone an? (?!half\b)\w+")
FACTS = re.compile(r'\bfacts\["')
Node = TypeVar("Node", bound=ast.AST)


@dataclass(frozen=True)
class Module:
    """A file of the source. ``name``: with dots, without ``discreet``; a package has that of its folder."""

    name: str
    door: bool
    lines: list[str]
    tree: ast.Module

    @property
    def package(self) -> str:
        """The folder, or file, directly under the source."""
        return self.name.partition(".")[0]

    @property
    def last(self) -> str:
        """The file's own name, without underscore."""
        return self.name.rpartition(".")[2].lstrip("_")

    @cached_property
    def nodes(self) -> dict[type[ast.AST], list[ast.AST]]:
        """All nodes, by their kind."""
        nodes: dict[type[ast.AST], list[ast.AST]] = defaultdict(list)
        for node in ast.walk(self.tree):
            nodes[type(node)].append(node)
        return nodes

    def of(self, kind: type[Node]) -> list[Node]:
        """Return the nodes of a kind."""
        return cast("list[Node]", self.nodes[kind])

    @cached_property
    def docstrings(self) -> list[ast.Constant]:
        """All string statements: docstrings, also of attributes."""
        values = [node.value for node in self.of(ast.Expr)]
        return [one for one in values if isinstance(one, ast.Constant) and isinstance(one.value, str)]

    @cached_property
    def exports(self) -> set[str]:
        """The names that it offers: in ``__all__``, or sealed where they are defined, as what is returned is."""
        names: set[str] = set()
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                names |= {one.value for one in ast.walk(node.value) if isinstance(one, ast.Constant)}
            elif isinstance(node, ast.ClassDef) and "sealed" in map(ast.unparse, node.decorator_list):
                names.add(node.name)
        return names


def modules_in(source: Path) -> list[Module]:
    """Read all files, in the order of their names."""
    modules = []
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        door, text = parts[-1] == "__init__", path.read_text(encoding="utf-8")
        modules.append(Module(".".join(parts[:-1] if door else parts), door, text.splitlines(), ast.parse(text)))
    return modules


def counted(modules: list[Module]) -> dict[str, float]:
    """Return every number that is read off the source and may only fall."""
    return {**files(modules), **classes(modules), **functions(modules), **expressions(modules), **words(modules)}


def rates(modules: list[Module]) -> dict[str, float]:
    """Return what is told besides."""
    lines, number = sum(len(module.lines) for module in modules), len(_defined(modules, ast.FunctionDef))
    return {
        "lines of code per function": round(sum(map(_code_lines, modules)) / number, 1),
        "conditional expressions per 1,000 lines": round(1000 * len(_defined(modules, ast.IfExp)) / lines, 1),
        "bare names among bindings, in %": round(100 * len(_bare(modules)) / len(_bound(modules)), 1),
    }


def _defined(modules: list[Module], kind: type[Node]) -> list[Node]:
    return [node for module in modules for node in module.of(kind)]


def files(modules: list[Module]) -> dict[str, float]:
    """Count lines, files and imports."""
    house = [module for module in modules if not {module.package, module.name} & APART]
    rooms = [module for module in modules if not module.door]
    return {
        "lines": sum(len(module.lines) for module in house),
        "modules": len(rooms),
        "package doors": len(modules) - len(rooms),
        f"modules outside {SHORTEST} to {LONGEST} lines": sum(not SHORTEST <= len(m.lines) <= LONGEST for m in rooms),
        "imports past a door of another package": sum(map(_past_a_door, modules)),
        "import circles": _circles(modules),
    }


def _imported(module: Module, but_for: Iterable[ast.AST] = ()) -> Iterator[tuple[str, list[str]]]:
    """Yield the modules of the library, without ``discreet``, that are imported from, and the names that are taken."""
    apart = set(but_for)
    for node in module.of(ast.ImportFrom):
        if node not in apart and not node.level and (node.module or "").split(".")[0] == "discreet":
            yield (node.module or "").partition(".")[2], [alias.name for alias in node.names]
    for name in [alias.name for node in module.of(ast.Import) if node not in apart for alias in node.names]:
        if name.startswith("discreet."):
            yield name.partition(".")[2], []


def _past_a_door(module: Module) -> int:
    """Count the import statements that reach into another package; ``_core`` is everybody's."""
    count = 0
    for target, names in _imported(module):
        package = target.partition(".")[0]
        inside = "." in target or (package and any(name.startswith("_") for name in names))
        count += bool(inside) and package not in {module.package, "_core"}
    return count


def _circles(modules: list[Module]) -> int:
    """Count the groups of modules that import one another, sooner or later."""
    names = {module.name for module in modules}
    edges: dict[str, set[str]] = defaultdict(set)
    for module in modules:
        for_types = [node for node in module.of(ast.If) if "TYPE_CHECKING" in ast.unparse(node.test)]
        for target, taken in _imported(module, (inner for node in for_types for inner in ast.walk(node))):
            parts = {f"{target}.{name}".lstrip(".") for name in taken} & names
            edges[module.name] |= (parts or {target} & names) - {module.name}
    reached = {name: _reached(name, edges) for name in names}
    groups = {frozenset(n for n in reached[name] if name in reached[n]) for name in names if name in reached[name]}
    return len(groups)


def _reached(start: str, edges: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = list(edges.get(start, ()))
    while waiting:
        if (name := waiting.pop()) not in found:
            found.add(name)
            waiting += edges.get(name, ())
    return found


def classes(modules: list[Module]) -> dict[str, float]:
    """Count the members of the seam, and classes that have no reason or no name of their own."""
    defined = _defined(modules, ast.ClassDef)
    bases = _bases(defined)
    below: dict[str, set[str]] = defaultdict(set)
    for name, above in bases.items():
        for base in above:
            below[base].add(name)
    seam = _seam(bases, below)
    members = {name for node in defined if node.name in seam for name in _members(node)}
    kinds = {node.name: _members(node) for node in defined if node.name not in seam}
    mechanisms = [name for name in kinds if not below[name] and _reached(name, bases) & seam]  # those that are made
    own = [set().union(*(kinds.get(at, set()) for at in {name, *_reached(name, bases)})) for name in mechanisms]
    overridden = Counter(name for names in own for name in names & members)
    abstract = [name for name in bases if {"ABC", "Protocol"} & bases[name]]
    return {
        "members of Mechanism and its mixins": len(members),
        "members that exactly one mechanism overrides": sum(count == 1 for count in overridden.values()),
        'getattr(self, "...") in a base class': sum(_asks_itself(node) for node in defined if below[node.name]),
        "abstract classes with fewer than two implementations": sum(len(_reached(a, below)) < 2 for a in abstract),
        "class names defined twice": sum(count > 1 for count in Counter(node.name for node in defined).values()),
    }


def _bases(defined: list[ast.ClassDef]) -> dict[str, set[str]]:
    bases: dict[str, set[str]] = {node.name: set() for node in defined}
    for node in defined:
        heads = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
        bases[node.name] |= {getattr(head, "attr", getattr(head, "id", "")) for head in heads}
    return bases


def _seam(bases: dict[str, set[str]], below: dict[str, set[str]]) -> set[str]:
    """Return Mechanism, what it derives from, and the mixins: what else derives from that, and not from it."""
    above = {name for name in _reached("Mechanism", bases) if name in bases} - {"ABC", "Protocol"}
    mixins = {name for base in above for name in below[base] if "Mechanism" not in _reached(name, bases)}
    return {"Mechanism"} | above | mixins


def _members(node: ast.ClassDef) -> set[str]:
    """Return the public methods, properties and flags that a class itself defines."""
    names = {child.name for child in node.body if isinstance(child, ast.FunctionDef)}
    for child in node.body:
        if isinstance(child, ast.AnnAssign) and "ClassVar" in ast.unparse(child.annotation):
            names.add(ast.unparse(child.target))
        elif isinstance(child, ast.Assign):
            names |= {ast.unparse(target) for target in child.targets}
    return {name for name in names if not name.startswith("_")}


def _asks_itself(node: ast.ClassDef) -> int:
    calls = [call for call in ast.walk(node) if isinstance(call, ast.Call) and ast.unparse(call.func) == "getattr"]
    return sum(ast.unparse(call.args[0]) == "self" and isinstance(call.args[1], ast.Constant) for call in calls)


def functions(modules: list[Module]) -> dict[str, float]:
    """Count functions, those that are hardly used, and parameters."""
    defined = _defined(modules, ast.FunctionDef)
    names = Counter(node.name for node in defined)
    used = Counter(node.id for node in _defined(modules, ast.Name))
    used.update(node.attr for node in _defined(modules, ast.Attribute))
    exported = set().union(*(module.exports for module in modules))
    single = [n for n in defined if names[n.name] == used[n.name] == 1 and n.name not in exported and _short(n)]
    return {
        "functions": len(defined),
        f"functions used once with a body of at most {FEW} lines": len(single),
        "most parameters of a public function": max(map(_parameters, _public_functions(modules, exported))),
    }


def _code_lines(module: Module) -> int:
    """Count the lines of code within functions."""
    spans = [range(node.lineno, (node.end_lineno or 0) + 1) for node in module.of(ast.FunctionDef)]
    texts = {line for node in module.docstrings for line in range(node.lineno, (node.end_lineno or 0) + 1)}
    return sum(module.lines[at - 1].strip()[:1] not in {"", "#"} for at in set().union(*spans) - texts)


def _short(node: ast.FunctionDef) -> bool:
    """Return whether the body has few lines, its docstring aside."""
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return bool(body) and not node.name.startswith("__") and (body[-1].end_lineno or 0) - body[0].lineno < FEW


def _public_functions(modules: list[Module], exported: set[str]) -> Iterator[ast.FunctionDef]:
    for node in (node for module in modules for node in module.tree.body if getattr(node, "name", "") in exported):
        if isinstance(node, ast.FunctionDef):
            yield node
        elif isinstance(node, ast.ClassDef):
            yield from (one for one in node.body if isinstance(one, ast.FunctionDef) and one.name[0] != "_")


def _parameters(node: ast.FunctionDef) -> int:
    each = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
    return sum(one is not None and one.arg not in {"self", "cls"} for one in each)


def expressions(modules: list[Module]) -> dict[str, float]:
    """Count expressions that ask what something is, or say it in place."""
    bases = _bases(_defined(modules, ast.ClassDef))
    columns = {name for name in bases if "Column" in {name, *_reached(name, bases)}}
    roots = {"Evidence", "Likelihood"}
    aliases = [node.value for node in _defined(modules, ast.Assign) if ast.unparse(node.targets[0]) in roots]
    roots |= {one.id for alias in aliases for one in ast.walk(alias) if isinstance(one, ast.Name)}
    evidence = {name for name in bases if roots & {name, *_reached(name, bases)}}
    nested = {id(n) for f in _defined(modules, ast.JoinedStr) for n in ast.walk(f) if isinstance(n, ast.IfExp)}
    rest = [module for module in modules if not {module.package, module.last} & WORDING]
    not_domain = [module for module in modules if module.package != "domain"]
    not_samplers = [module for module in modules if module.name != "inference.samplers"]
    return {
        "conditional expressions": len(_defined(modules, ast.IfExp)),
        "conditional expressions in f-strings": len(nested),
        "conditions in disguise": sum(map(_disguised, modules)),
        "isinstance of a column outside domain": sum(_asked_kind(module, columns) for module in not_domain),
        "isinstance of evidence outside inference.samplers": sum(_asked_kind(m, evidence) for m in not_samplers),
        'facts["..."] outside the certificate': sum(
            len(FACTS.findall(line)) for m in modules if m.last not in CERTIFICATE for line in m.lines
        ),
        "calls of text formatters outside wording, report, cli, errors": sum(map(_formatted, rest)),
        f"texts over {LONG_TEXT} characters outside raise and wording": sum(
            _long_texts(module) for module in modules if module.last != "wording"
        ),
    }


def _disguised(module: Module) -> int:
    """Count products, lookups and loops that do what an ``if`` does. Masks of arrays are among them."""
    products = [(node.left, node.right) for node in module.of(ast.BinOp) if isinstance(node.op, ast.Mult)]
    products += [(node.target, node.value) for node in module.of(ast.AugAssign) if isinstance(node.op, ast.Mult)]
    lookups = [node.func for node in module.of(ast.Call) if isinstance(node.func, ast.Attribute)]
    entries = [node.value for node in module.of(ast.Subscript) if not isinstance(node.slice, ast.Slice)]
    loops = [node.iter for node in [*module.of(ast.For), *module.of(ast.comprehension)]]
    lists = [node.elts for node in loops if isinstance(node, (ast.List, ast.Tuple))]
    return (
        sum(_is_condition(a) or _is_condition(b) or _is_repeated(a, b) or _is_repeated(b, a) for a, b in products)
        + sum(node.attr == "get" and isinstance(node.value, ast.Dict) for node in lookups)
        + sum(isinstance(node, (ast.List, ast.Tuple)) for node in entries)
        + sum(len(parts) == 1 and not isinstance(parts[0], ast.Starred) for parts in lists)
    )


def _is_condition(node: ast.AST) -> bool:
    """Return whether an expression is true or false by its form; ``x or 0`` is a number."""
    if isinstance(node, ast.BoolOp):
        last = node.values[-1]
        return not (isinstance(last, ast.Constant) and isinstance(last.value, (int, float)))
    if isinstance(node, ast.Call):
        return ast.unparse(node.func).rpartition(".")[2] in {
            "bool",
            "isinstance",
            "any",
            "all",
            "startswith",
            "endswith",
        }
    return isinstance(node, ast.Compare) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not))


def _is_repeated(text: ast.AST, times: ast.AST) -> bool:
    """Return whether a product is of a text in place and a name, which is true or false."""
    in_place = isinstance(text, ast.JoinedStr) or (isinstance(text, ast.Constant) and isinstance(text.value, str))
    return in_place and isinstance(times, (ast.Name, ast.Attribute))


def _asked_kind(module: Module, kinds: set[str]) -> int:
    asked = [call.args[1] for call in module.of(ast.Call) if getattr(call.func, "id", "") == "isinstance"]
    return sum(any(isinstance(one, ast.Name) and one.id in kinds for one in ast.walk(kind)) for kind in asked)


def _formatted(module: Module) -> int:
    taken = {name for _, names in _imported(module) for name in names} & {*FORMATTERS.split()}
    return sum(getattr(node.func, "id", "") in taken for node in module.of(ast.Call))


def _long_texts(module: Module) -> int:
    """Count long strings, also with fields, that are no docstrings and stand in no raise or assert."""
    apart = {id(one) for node in [*module.of(ast.Raise), *module.of(ast.Assert)] for one in ast.walk(node)}
    apart |= {id(node) for node in module.docstrings}
    apart |= {id(part) for node in module.of(ast.JoinedStr) for part in ast.walk(node) if part is not node}
    texts = [*module.of(ast.Constant), *module.of(ast.JoinedStr)]
    return sum(id(node) not in apart and _length(node) > LONG_TEXT for node in texts)


def _length(node: ast.AST) -> int:
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    return sum(len(str(part.value)) for part in parts if isinstance(part, ast.Constant))


def words(modules: list[Module]) -> dict[str, float]:
    """Count names that name nothing, and docstrings that nobody needs or understands."""
    exported = set().union(*(module.exports for module in modules))
    texts = [" ".join(str(text.value).split()) for module in modules for text in module.docstrings]
    makers = [node for node in _defined(modules, ast.FunctionDef) if node.name == "of"]
    return {
        "bindings that are bare participles, pronouns, prepositions": len(_bare(modules)),
        "constructors named of": sum("classmethod" in map(ast.unparse, node.decorator_list) for node in makers),
        "_x and x in one scope": sum(_twins(module) for module in modules),
        "docstring lines of internal definitions beyond two": sum(_beyond_two(m.tree, exported) for m in modules),
        'sentences that begin "The same", "What is", or hold "one a"': sum(len(RIDDLE.findall(one)) for one in texts),
    }


def _bound(modules: list[Module]) -> list[str]:
    names = [node.id for node in _defined(modules, ast.Name) if isinstance(node.ctx, ast.Store)]
    return [*names, *(node.arg for node in _defined(modules, ast.arg))]


def _bare(modules: list[Module]) -> list[str]:
    words_ = {*BARE.split()}
    return [name for name in _bound(modules) if name.removeprefix("_").removesuffix("_") in words_]


def _twins(module: Module) -> int:
    """Count the names that a scope has both with and without an underscore."""
    count = 0
    for scope in [module.tree, *module.of(ast.ClassDef), *module.of(ast.FunctionDef)]:
        names = {getattr(node, "name", "") for node in scope.body}
        if isinstance(scope, ast.FunctionDef):
            names |= {node.id for node in ast.walk(scope) if isinstance(node, ast.Name)}
        count += sum(f"_{name}" in names for name in names if name and not name.startswith("_"))
    return count


def _beyond_two(node: ast.AST, exported: set[str], *, inside: bool = False) -> int:
    """Count the lines beyond the second in docstrings of functions and classes that no user can import."""
    count = 0
    for child in ast.iter_child_nodes(node):
        public = inside
        if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
            public = not child.name.startswith("_") and (inside or child.name in exported)
            if not public:
                count += max(0, len((ast.get_docstring(child) or "").splitlines()) - 2)
        count += _beyond_two(child, exported, inside=public)
    return count


# -- what a release executes ------------------------------------------------------------------------------------------

PROGRAM = """
import importlib.util, json, sys, tempfile, threading
import polars as pl

source = importlib.util.find_spec("discreet").submodule_search_locations[0]
files, functions = set(), set()
def watch(frame, event, argument):
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(source):
        files.add(code.co_filename)
        if code.co_name not in ("<module>", "<listcomp>", "<setcomp>", "<dictcomp>"):  # which Python 3.12 inlines
            functions.add((code.co_filename, code.co_qualname, code.co_firstlineno))
rows = range(20_000)
number = "type = 'integer'\\nlower = 0\\nupper = 99\\ncells = 10\\nout_of_bounds = 'clip'\\n"
columns = {"u": [i * 7 % 100 for i in rows], "v": [i * 7 % 91 for i in rows], "w": [i * 11 % 100 for i in rows]}
mechanism, names = {"named": ("perturbed-histogram", "u"), "wide": ("marginals", "uvw")}[sys.argv[1]]
with tempfile.TemporaryDirectory() as folder:
    pl.DataFrame({name: columns[name] for name in names}).write_csv(f"{folder}/in.csv")
    with open(f"{folder}/domain.toml", "w") as file:
        file.write("".join(f"[columns.{name}]\\n{number}" for name in names))
    threading.setprofile(watch)
    sys.setprofile(watch)
    import discreet
    ledger = discreet.Ledger.create(f"{folder}/ledger.sqlite", dataset="x", epsilon=10, delta=1e-3)
    budget = discreet.Budget(epsilon=1.0, delta=1e-6)
    asked = {"size": 1000, "mechanism": mechanism, "ledger": ledger, "out": f"{folder}/out.csv"}
    discreet.release(f"{folder}/in.csv", f"{folder}/domain.toml", budget, **asked)
    sys.setprofile(None)
print(json.dumps([len(files), len(functions)]))
"""


def executed() -> dict[str, float]:
    """Count the files and functions that a named release and a wide one execute."""
    counts: dict[str, float] = {}
    env = {**os.environ, "PYTHONPATH": str(SOURCE.parent)}
    for what in ("named", "wide"):
        run = subprocess.run([sys.executable, "-c", PROGRAM, what], capture_output=True, check=True, env=env)  # noqa: S603
        for part, number in zip(("files", "functions"), json.loads(run.stdout), strict=True):
            counts[f"{part} executed by a {what} release"] = number
    return counts


def lowered(ceilings: dict[str, float], today: dict[str, float]) -> dict[str, float]:
    """Return the ceilings, lowered where less was counted."""
    return {name: min(value, ceilings.get(name, value)) for name, value in today.items()}


def main() -> None:
    """Print the numbers, or lower the ceilings to them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--write", action="store_true", help="lower the ceilings to what was counted")
    options = parser.parse_args()
    modules = modules_in(SOURCE)
    today = counted(modules) | executed()
    ceilings: dict[str, float] = json.loads(CEILINGS.read_text(encoding="utf-8")) if CEILINGS.exists() else {}
    if options.write:
        ceilings = lowered(ceilings, today)
        CEILINGS.write_text(json.dumps(ceilings, indent=2) + "\n", encoding="utf-8")
    today |= rates(modules)
    rows = [f"{name:60}  {value:>9,}  {ceilings.get(name, ''):>9}" for name, value in today.items()]
    print(json.dumps(today, indent=2) if options.json else "\n".join(rows))  # noqa: T201


if __name__ == "__main__":
    main()
