"""The wrapper does not print, compare, pickle, iterate or concatenate; a closed list of modules opens it."""

from __future__ import annotations

import ast
import copy
import io
import json
import logging
import pickle
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import discreet
from discreet.confidential import Confidential, Provenance
from discreet.confidential._open import CALLERS, open_confidential
from discreet.errors import ConfidentialAccessError

CANARY = 8_675_309_123
SOURCE = Path(discreet.__file__).parent


def closed() -> Any:
    return Confidential([CANARY], provenance=Provenance(frame_kind="polars", columns=("a",), unit="u", max_records=3))


def test_it_prints_its_type_only() -> None:
    value = closed()
    for text in (repr(value), str(value), f"{value}", f"{value!r}", f"{value!s}", repr([value]), f"{value}"):
        assert text.strip("[]") == "<confidential list>"
    log = io.StringIO()
    logging.getLogger("canary").addHandler(logging.StreamHandler(log))
    logging.getLogger("canary").warning("%s %r", value, value)
    assert str(CANARY) not in log.getvalue()


ATTEMPTS: dict[str, Callable[[Any], Any]] = {
    "==": lambda x: x == x,
    "!=": lambda x: x != 3,
    "<": lambda x: x < x,
    "sorted": lambda x: sorted([x, x]),
    "in": lambda x: 3 in x,
    "in list": lambda x: x in [3, 4],
    "hash": hash,
    "set": lambda x: {x},
    "iter": iter,
    "list": list,
    "unpack": lambda x: [*x],
    "next": next,
    "len": len,
    "bool": bool,
    "not": lambda x: not x,
    "int": int,
    "float": float,
    "complex": complex,
    "round": round,
    "index": lambda x: x[0],
    "call": lambda x: x(),
    "+": lambda x: x + x,
    "radd": lambda x: (1,) + x,  # noqa: RUF005
    "sum": lambda x: sum([x]),
    "*": lambda x: 2 * x,
    "-": lambda x: -x,
    "|": lambda x: x | x,
    "+=": lambda x: x.__iadd__(3),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": pickle.dumps,
    "format": lambda x: f"{x:>30}",
    "bytes": bytes,
    "numpy": np.asarray,
    "numpy list": lambda x: np.array([x]),
    "ufunc": lambda x: np.add(1, x),
    "numpy *": lambda x: np.ones(3) * x,
    "polars": pl.Series,
    "pandas": pd.Series,
}


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_it_refuses_to_be_used(attempt: str) -> None:
    with pytest.raises(ConfidentialAccessError) as problem:
        ATTEMPTS[attempt](closed())
    assert str(CANARY) not in "".join(traceback.format_exception(problem.value))


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


def test_public_facts_travel_with_it() -> None:
    value = closed()
    assert value.relation_group == 3
    assert value.provenance.unit == "u"
    assert Confidential(3).relation_group == 1


def test_it_is_opened_from_listed_modules_only() -> None:
    value = closed()
    with pytest.raises(ConfidentialAccessError):
        open_confidential(value, caller=__name__)
    with pytest.raises(ConfidentialAccessError):  # saying so is not being so
        open_confidential(value, caller=CALLERS[0])
    allowed = {"__name__": CALLERS[0], "open_confidential": open_confidential, "value": value}
    exec("opened = open_confidential(value, caller=__name__)", allowed)
    assert allowed["opened"] == [CANARY]
    lookalike = {**allowed, "__name__": f"{CALLERS[0]}_not"}
    with pytest.raises(ConfidentialAccessError):
        exec("open_confidential(value, caller=__name__)", lookalike)


def openers() -> set[str]:
    """Modules of the source that mention what opens a confidential value."""
    found = set()
    for path in SOURCE.rglob("*.py"):
        module = ".".join(["discreet", *path.relative_to(SOURCE).with_suffix("").parts]).removesuffix(".__init__")
        names = {
            name
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            for name in (
                getattr(node, "id", None),
                getattr(node, "attr", None),
                *(alias.name for alias in getattr(node, "names", []) if isinstance(alias, ast.alias)),
                node.value if isinstance(node, ast.Constant) else None,
            )
            if isinstance(name, str)
        }
        if names & {"open_confidential", "_Confidential__reveal", "_KEY", "reveal", "discreet.confidential._open"}:
            found.add(module)
    return found


def test_only_listed_modules_open_confidential_values() -> None:
    found = openers()
    assert {"discreet.confidential._open", "discreet.confidential._wrapper"} <= found
    strangers = {name for name in found if not any(name == c or name.startswith(f"{c}.") for c in CALLERS)}
    assert strangers == set()


def test_within_this_package_only_the_public_size_is_opened() -> None:
    inside = {name for name in openers() if name.startswith("discreet.confidential")}
    assert inside == {
        "discreet.confidential._open",
        "discreet.confidential._wrapper",
        "discreet.confidential._count",
    }
    tree = ast.parse((SOURCE / "confidential" / "_count.py").read_text(encoding="utf-8"))
    opening = [
        function.name
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        and any(isinstance(node, ast.Name) and node.id == "open_confidential" for node in ast.walk(function))
    ]
    assert opening == ["public_size"]
