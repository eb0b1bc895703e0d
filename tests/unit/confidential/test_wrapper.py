"""The wrapper does not print, compare, pickle, iterate or concatenate; a closed list of modules opens it."""

import ast
import copy
import functools
import io
import json
import logging
import pickle
import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import discreet
from discreet import Unit
from discreet.confidential import Confidential, confidential, confidential_rows, reveal_to_custodian
from discreet.confidential.closed import Provenance
from discreet.confidential.opening import CALLERS, Purpose, open_confidential
from discreet.domain import Domain, Integer
from discreet.errors import ConfidentialAccessError

CANARY = 8_675_309_123
SOURCE = Path(discreet.__file__).parent


def closed() -> Any:
    return Confidential(
        [CANARY], provenance=Provenance(frame_kind="polars", columns=("a",), unit=Unit("u", max_records=3))
    )


def test_it_prints_its_type_only() -> None:
    value = closed()
    for text in (repr(value), str(value), f"{value}", f"{value!r}", f"{value!s}", repr([value]), f"{value}"):
        assert text.strip("[]") == "<confidential list>"
    log = io.StringIO()
    logging.getLogger("canary").addHandler(logging.StreamHandler(log))
    logging.getLogger("canary").warning("%s %r", value, value)
    assert str(CANARY) not in log.getvalue()


ATTEMPTS: dict[str, Callable[[Any], Any]] = {
    **{call.__name__: call for call in (hash, iter, list, next, len, bool, int, float, complex, round, bytes)},
    **{call.__name__: call for call in (copy.copy, copy.deepcopy, pickle.dumps, np.asarray, pl.Series)},
    "pandas": pd.Series,
    "==": lambda x: x == x,
    "!=": lambda x: x != 3,
    "<": lambda x: x < x,
    "sorted": lambda x: sorted([x, x]),
    "in": lambda x: 3 in x,
    "in list": lambda x: x in [3, 4],
    "set": lambda x: {x},
    "unpack": lambda x: [*x],
    "not": lambda x: not x,
    "index": lambda x: x[0],
    "call": lambda x: x(),
    "+": lambda x: x + x,
    "radd": lambda x: (1,) + x,  # noqa: RUF005
    "sum": lambda x: sum([x]),
    "*": lambda x: 2 * x,
    "-": lambda x: -x,
    "|": lambda x: x | x,
    "+=": lambda x: x.__iadd__(3),
    "format": lambda x: f"{x:>30}",
    "numpy list": lambda x: np.array([x]),
    "ufunc": lambda x: np.add(1, x),
    "numpy *": lambda x: np.ones(3) * x,
}


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_it_refuses_to_be_used(attempt: str) -> None:
    with pytest.raises(ConfidentialAccessError) as problem:
        ATTEMPTS[attempt](closed())
    assert str(CANARY) not in "".join(traceback.format_exception(problem.value))


def test_what_is_public_about_it_is_not_exchanged() -> None:
    """A table of five records a person passed for one of a record each, at a fifth of its cost."""
    with pytest.raises(AttributeError):
        closed().provenance = None  # type: ignore[misc]


@pytest.mark.parametrize("attempt", [json.dumps, pa.array, pl.DataFrame, pd.DataFrame, vars, "".join])
def test_other_libraries_cannot_use_it_either(attempt: Callable[[Any], Any]) -> None:
    with pytest.raises((ConfidentialAccessError, TypeError, ValueError, pa.ArrowInvalid)) as problem:
        attempt(closed())
    assert str(CANARY) not in str(problem.value)


def test_no_attribute_gives_the_value() -> None:
    value = closed()
    for name in dir(value):
        if name.startswith("__") and name != "__class__":
            continue
        found = getattr(value, name, None)
        assert str(CANARY) not in repr(found)
        if callable(found) and name != "__class__":
            with pytest.raises(ConfidentialAccessError):
                found(object())
    with pytest.raises(AttributeError):
        value.anything = 3


@pytest.mark.parametrize("caller", CALLERS)
def test_it_is_opened_from_listed_modules_only(caller: str) -> None:
    value = closed()
    with pytest.raises(ConfidentialAccessError):
        open_confidential(value, caller=__name__)
    with pytest.raises(ConfidentialAccessError):  # saying so is not being so
        open_confidential(value, caller=caller)
    allowed = {"__name__": caller, "open_confidential": open_confidential, "value": value}
    exec("opened = open_confidential(value, caller=__name__)", allowed)
    assert allowed["opened"] == [CANARY]
    package = caller.rpartition(".")[0]
    for lookalike in (f"{caller}_not", f"{caller}.inner", package, f"{package}._another"):
        with pytest.raises(ConfidentialAccessError):
            exec("open_confidential(value, caller=__name__)", {**allowed, "__name__": lookalike})


@pytest.mark.parametrize("table", [confidential, confidential_rows])
def test_only_results_are_revealed_to_the_custodian_and_no_table(table: Any) -> None:
    domain = Domain(columns={"age": Integer(lower=0, upper=99)})
    taken = table(pl.DataFrame({"age": [31, 45]}), domain)
    unmarked = {"__name__": "discreet.confidential.opening", "open_confidential": open_confidential, "value": taken}
    exec("opened = open_confidential(value, caller=__name__)", unmarked)
    for closed_table in (taken, Confidential(unmarked["opened"])):
        with pytest.raises(ConfidentialAccessError):
            reveal_to_custodian(closed_table)
    assert reveal_to_custodian(Confidential(3)) == 3


OPENS = {"open_confidential", "_Confidential__reveal", "_KEY", "reveal", "discreet.confidential.opening"}
FUNCTIONS = {
    "discreet.ledger.run": {"execute"},
    "discreet.confidential.count": {"public_size"},
    "discreet.confidential.public": {"with_public"},
    "discreet.confidential.opening": {"reveal_to_custodian"},
}
"""Which functions open, in the modules that give what they opened to somebody."""


@functools.cache
def modules() -> dict[str, ast.Module]:
    """The modules whose text has any of these words."""
    texts = {path: path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}
    return {
        ".".join(["discreet", *path.relative_to(SOURCE).with_suffix("").parts]).removesuffix(".__init__"): ast.parse(
            text
        )
        for path, text in texts.items()
        if any(word in text for word in OPENS)
    }


def mentions(tree: ast.AST) -> set[str]:
    """Names, attributes, imported names and texts of a piece of code."""
    return {
        name
        for node in ast.walk(tree)
        for name in (
            getattr(node, "id", None),
            getattr(node, "attr", None),
            getattr(node, "module", None),
            *(alias.name for alias in getattr(node, "names", []) if isinstance(alias, ast.alias)),
            node.value if isinstance(node, ast.Constant) else None,
        )
        if isinstance(name, str)
    }


def opening_calls(tree: ast.AST) -> list[ast.Call]:
    return [
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and "open_confidential" in mentions(node.func)
    ]


def test_the_list_of_callers_is_that_of_the_calls_in_the_source() -> None:
    source = modules()
    own = {
        "discreet.confidential",
        "discreet.confidential.opening",
        "discreet.confidential.closed",
    }  # the door names it
    assert {name for name, tree in source.items() if mentions(tree) & OPENS} == set(CALLERS) | own
    assert {name for name, tree in source.items() if opening_calls(tree)} == set(CALLERS)
    assert set(CALLERS.values()) == set(get_args(Purpose))


def test_every_call_names_its_own_module_and_stands_where_the_list_says() -> None:
    for name, tree in modules().items():
        for call in opening_calls(tree):
            assert [ast.unparse(item) for item in call.keywords] == ["caller=__name__"], name
        if name in FUNCTIONS:
            opening = {
                function.name
                for function in ast.walk(tree)
                if isinstance(function, ast.FunctionDef) and opening_calls(function)
            }
            assert opening == FUNCTIONS[name]
    assert set(FUNCTIONS) == {
        name for name, purpose in CALLERS.items() if purpose != "for the custodian" or name.endswith(".opening")
    }


@pytest.mark.parametrize("text", [
    "from discreet.confidential.opening import open_confidential as o\no(x, caller=__name__)",
    "from discreet.confidential import opening\nopening.open_confidential(x, caller=__name__)",
    "import discreet.confidential.opening as o\ngetattr(o, 'open_confidential')(x, caller=__name__)",
    "x._Confidential__reveal(None)",
    "from discreet.confidential.closed import reveal",
])  # fmt: skip
def test_a_module_that_opens_in_another_way_is_seen(text: str) -> None:
    assert mentions(ast.parse(text)) & OPENS


def test_there_is_one_crossing_and_what_is_said_of_the_boundary_names_it_and_no_other() -> None:
    assert [name for name, purpose in CALLERS.items() if purpose == "public under a guarantee"] == [
        "discreet.ledger.run"
    ]
    said, docs = str(ConfidentialAccessError("printed")), Path(__file__).resolve().parents[3] / "docs"
    pages = [(docs / name).read_text("utf-8") for name in ("architecture.md", "guarantee.md")]
    for where in (said, Confidential.__doc__, *pages):
        assert where is not None
        assert re.search(r"\brelease\b", where)
    for where in (said, Confidential.__doc__, *pages, *(path.read_text("utf-8") for path in SOURCE.rglob("*.py"))):
        assert "publish_tables" not in str(where)
    assert re.search(r"`ledger\.Run\.execute`, the only crossing", pages[0])
    listed = {name.rpartition(".")[0].removeprefix("discreet.") for name in CALLERS}
    table = pages[0].partition("| purpose |")[2].partition("\n\n")[0]
    assert {package for package in listed if f"`{package}" not in table} == set()
    assert set(re.findall(r"`(\w+)[.`]", table)) == listed


def test_what_was_opened_goes_into_the_private_step_and_nowhere_else() -> None:
    """In the crossing the opened table goes to one method, which gives it to kernels alone and keeps it nowhere."""
    tree = modules()["discreet.ledger.run"]
    (call,) = opening_calls(tree)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    (taken,) = [node for node in calls if any(ast.dump(call) == ast.dump(given) for given in node.args)]
    assert ast.unparse(taken.func) == "self._output"
    (method,) = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "_output"]
    uses = [node for node in ast.walk(method) if isinstance(node, ast.Name) and node.id == "x"]
    given = [
        (ast.unparse(node.func), argument)
        for node in ast.walk(method)
        if isinstance(node, ast.Call)
        for argument in node.args
        if argument in uses
    ]
    assert len(given) == len(uses)
    assert {name for name, _ in given} == {"mechanism.kernel", "mechanisms.steps_taken", "isinstance"}
