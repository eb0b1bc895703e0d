"""Kept results of benchmarks: each is of a benchmark that is kept, and has the keys that its script writes today."""

import ast
import json
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
RESULTS = sorted((BENCHMARKS / "results").glob("*.json"))
WRITTEN_FOR_ALL = {"benchmark", "measured_on"}

pytestmark = pytest.mark.skipif(not BENCHMARKS.exists(), reason="the source distribution has no benchmarks")


def saved(text: str) -> dict[str, tuple[set[str], bool]]:
    """Return the names that a script saves, the keys that it writes by name, and whether these are all of them."""
    tree = ast.parse(text)
    return {
        str(ast.literal_eval(call.args[0])): keys(call.args[1], tree)
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "save"
    }


def keys(result: ast.expr, tree: ast.AST) -> tuple[set[str], bool]:
    """Return the keys of a result: a dictionary, or a variable that is given one, and keys one by one."""
    if isinstance(result, ast.Dict):
        parts = [({str(ast.literal_eval(key))}, True) if key is not None else keys(value, tree)
                 for key, value in zip(result.keys, result.values, strict=True)]  # fmt: skip
        return set().union(*(found for found, _ in parts)), all(whole for _, whole in parts)
    given = [
        (target, node.value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Assign, ast.AnnAssign))
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    ]
    if not isinstance(result, ast.Name):
        return set(), False
    literal = [value for target, value in given if isinstance(target, ast.Name) and target.id == result.id]
    if len(literal) != 1 or not isinstance(literal[0], ast.Dict):
        return set(), False
    found, whole = keys(literal[0], tree)
    sometimes = {id(part) for node in ast.walk(tree) if isinstance(node, ast.If) for part in ast.walk(node)}
    for target, _ in given:
        if isinstance(target, ast.Subscript) and ast.unparse(target.value) == result.id:
            if isinstance(target.slice, ast.Constant) and id(target) not in sometimes:
                found.add(str(target.slice.value))
            else:
                whole = False
    return found, whole


def other(text: str, name: str, kept: set[str]) -> set[str]:
    """Return the keys that only one of script and result has."""
    written, whole = saved(text)[name]
    return written ^ kept if whole else written - kept


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_a_kept_result_is_what_its_benchmark_writes(path: Path) -> None:
    document = json.loads(path.read_text(encoding="utf-8"))
    script = BENCHMARKS / f"{path.stem}.py"
    assert script.exists()
    assert document["benchmark"] == path.stem
    assert set(document) >= WRITTEN_FOR_ALL
    assert other(script.read_text(encoding="utf-8"), path.stem, set(document) - WRITTEN_FOR_ALL) == set()


@pytest.mark.parametrize(
    ("text", "different"),
    [
        ('save("a", {"x": 1, "y": 2})', set()),
        ('save("a", {"x": 1})', {"y"}),
        ('save("a", {"x": 1, "z": 2, "y": 0})', {"z"}),
        ('save("a", {"x": 1, **more})', set()),
        ('save("a", {"z": 1, **more})', {"z"}),
        ('made = {"x": 1}\nmade["y"] = 2\nsave("a", made)', set()),
        ('made = {"x": 1}\nmade["z"] = 2\nsave("a", made)', {"y", "z"}),
        ('made = {"x": 1}\nmade[name] = 2\nsave("a", made)', set()),
        ('made = {"x": 1}\nif asked:\n    made["z"] = 2\nsave("a", made)', set()),
        ('facts = {"z": 1}\nsave("a", {**facts, "x": 2})', {"y", "z"}),
    ],
)
def test_a_key_too_many_or_too_few_is_seen(text: str, different: set[str]) -> None:
    assert other(text, "a", {"x", "y"}) == different
