"""Remedies in both languages: Python's users read arguments, the command's users read options."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import cast

import click
import polars as pl
import pytest

import discreet
from discreet import Budget
from discreet.cli.console import ARGUMENT, in_options
from discreet.cli.entry import discreet as group
from discreet.cli.entry import run
from discreet.errors import DiscreetError

SOURCE = Path(__file__).parents[2] / "src" / "discreet"
OPTION = re.compile(r"(?<![\w-])--[a-z]")
SHELL = re.compile(r"discreet [a-z]+ --[a-z-]+")
"""A whole command may be quoted to everybody: it says itself where it is to be written."""

PYTHON_ALONE = {"kind='urn'", "kind='logistic'", "by_unit=True", "watch=Watch(progress=...)"}
"""Arguments of functions that no command calls."""

EVERY = {name: group.commands[name] for name in ("release", "privacy", "synthesize", "report", "demo", "estimate")}
EVERY["domain init"] = cast("click.Group", group.commands["domain"]).commands["init"]


def filled(part: ast.expr) -> str:
    """Return a part of a text as it might read."""
    if isinstance(part, ast.FormattedValue):
        return "'empirical'" if part.conversion == ord("r") else "prior"
    return str(ast.literal_eval(part))


def texts(path: Path) -> Iterator[str]:
    """Yield every text that a module holds, but for its documentation; what is filled in reads as X."""
    tree = ast.parse(path.read_text())
    skipped = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):  # documentation
            skipped.add(node.value)
        if isinstance(node, ast.JoinedStr):
            skipped.update(part for part in node.values if isinstance(part, ast.Constant))
            skipped.update(inner for part in ast.walk(node) if isinstance(part, ast.FormattedValue)
                           for inner in ast.walk(part) if isinstance(inner, ast.Constant))  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(filled(part) for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in skipped:
            yield node.value


@cache
def library() -> dict[str, list[str]]:
    """Return the texts of every module but the command's, and the page's, whose every answer is a command."""
    return {
        where: list(texts(path))
        for path in sorted(SOURCE.rglob("*.py"))
        if not (where := path.relative_to(SOURCE).as_posix()).startswith(("cli/", "app/"))
    }


def test_no_message_of_the_library_speaks_of_options() -> None:
    """But for whole commands, which are written as such."""
    spoken = {
        where: text
        for where, said in library().items()
        for text in said
        if OPTION.search(SHELL.sub("", text)) and not text.lstrip("\n$ ").startswith("discreet ")
    }
    assert spoken == {}
    assert OPTION.search("leave it out (--data)")
    assert not OPTION.search("a pause -- and more, or a rule: -----")


def test_no_remedy_destroys_what_may_have_been_paid_for() -> None:
    """A table, a certificate, a ledger: who cannot use what is there gives another name, or moves it away."""
    removed = re.compile(r"(?i)\b(?:remove|delete|erase|overwrite) (?:it|this|what|one|that)\b")
    told = [text for said in library().values() for text in said if removed.search(text)]
    assert told == ["remove it if it is an earlier demonstration, or choose another folder (out=...)"]


def test_every_argument_in_a_message_is_an_option_somewhere() -> None:
    found = {one[0]: text for said in library().values() for text in said for one in ARGUMENT.finditer(text)}
    assert len(found) >= 10
    for argument, text in found.items():
        told = {name: in_options(text, command) for name, command in EVERY.items()}
        understood = [name for name in told if f"{argument} (in Python)" not in told[name]]
        assert bool(understood) is (argument not in PYTHON_ALONE), argument
        for name in understood:
            flags = re.findall(r"--[a-z][a-z-]*", told[name])
            assert flags, text
            assert set(flags) <= {flag for parameter in EVERY[name].params for flag in parameter.opts}


@pytest.mark.parametrize(
    ("text", "command", "told"),
    [
        ("write size=...", "release", "write --size ..."),
        ("write size=... (or not)", "privacy", "write --size ... (or not)"),
        ("x needs prior=..., a number", "privacy", "x needs --param prior=..., a number"),
        ("Use schedule='optimal'", "release", "Use --param schedule=optimal"),
        ("write accept={'empirical'}", "synthesize", "write --accept-empirical"),
        ("write accept={'empirical'}", "release", "write accept={'empirical'} (in Python)"),
        ("write relation=AddRemove(records=...)", "release", "write --relation add-remove --records ..."),
        ("convergence=Convergence(...)", "synthesize", "--max-r-hat, --min-effective or --max-divergent"),
        ("a column 'size=...' and lower=0", "release", "a column 'size=...' and lower=0"),
    ],
)
def test_arguments_become_options_of_the_command_that_is_run(text: str, command: str, told: str) -> None:
    assert in_options(text, group.commands[command]) == told
    assert in_options("write size=...", None) == "write size=... (in Python)"


TABLE = pl.DataFrame({"x": [True, False] * 30, "y": ["a", "b", "c"] * 20})
DECLARED = '[columns.x]\ntype = "boolean"\n'


@pytest.mark.parametrize(
    ("asked", "in_python", "in_command"),
    [
        ({}, "with accept={'other-columns'}", "with --ignore-other-columns"),
        ({"accept": {"other-columns"}, "mechanism": "dirichlet-multinomial", "size": 60, "prior": 900.0},
         "accept={'poor-utility'}", "--accept-poor-utility"),
        ({"size": None}, "Write size=...", "Write --size ..."),
        ({"prior": 3.0}, "write mechanism=... as well", "write --mechanism ... as well"),
        ({"accept": {"other-columns"}, "mechanism": "pitman-yor", "sampler": "mixing"},
         "write accept={'empirical'}", "write accept={'empirical'} (in Python)"),
    ],
)  # fmt: skip
def test_each_front_end_shows_its_own_remedy(
    asked: dict[str, object],
    in_python: str,
    in_command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    TABLE.write_parquet("t.parquet")
    Path("d.toml").write_text(DECLARED)
    request = {"size": 10, **asked}
    with pytest.raises(DiscreetError) as found:
        discreet.release("t.parquet", "d.toml", Budget(epsilon=3.0, delta=1e-3), **request)  # type: ignore[arg-type]
    assert in_python in str(found.value)
    assert not OPTION.search(str(found.value))
    options = ["--epsilon", "3", "--delta", "0.001"]
    for name, value in request.items():
        if name in ("prior", "strength", "sampler"):
            options += ["--param", f"{name}={value}"]
        elif name == "accept":
            options += ["--ignore-other-columns"]
        elif value is not None:
            options += [f"--{name}", str(value)]
    assert run(["release", "t.parquet", "--domain", "d.toml", "--out", "o.csv", *options]) == found.value.exit_status
    said = capsys.readouterr().err
    assert in_command in said
