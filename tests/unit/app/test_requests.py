"""What forms ask for, written two ways: command and Python say the same, and nothing that is typed is an option."""

import ast
from typing import Any

import pytest

from discreet._core.errors import ParameterError
from discreet.app import requests
from discreet.cli.entry import discreet

FILES = {"data": "t.csv", "domain": "t.toml"}
FORM = {"epsilon": "1", "delta": "1e-6", "size": "500", "out": "s.parquet"}
WRONG = ["epsilon", "delta", "size", "tables", "seed"]


def options(arguments: list[str]) -> dict[str, Any]:
    """Return what the program itself reads."""
    command = discreet.commands[arguments[0]]
    context = command.make_context(arguments[0], list(arguments[1:]), resilient_parsing=True)
    return context.params


def keywords(program: str) -> dict[str, str]:
    (call,) = [node for node in ast.walk(ast.parse(program)) if isinstance(node, ast.Call)][:1]
    return {word.arg or "": ast.unparse(word.value) for word in call.keywords}


def test_a_release_says_the_same_twice() -> None:
    values = {**FORM, "tables": "20", "seed": "7", "poor-utility": "1"}
    covered = {"unit": "per son", "max_records": "3"}
    form = requests.ReleaseForm.parse(values, **FILES, **covered, ledger="t.ledger", dataset="-odd", out_format="csv")
    read, written = options(form.arguments()), keywords(form.python())
    assert (read["epsilon"], read["delta"], read["size"], read["tables"]) == (1.0, 1e-6, 500, 20)
    assert (read["unit"], read["max_records"], read["dataset"], read["seed"]) == ("per son", 3, "-odd", 7)
    assert (read["accept_poor_utility"], read["out_format"]) == (True, "csv")
    assert written["out"] == "discreet.Output('s.parquet', format='csv')"
    assert written["unit"] == "discreet.Unit('per son', max_records=3)"
    assert written["ledger"] == "discreet.Ledger('t.ledger', '-odd')"
    assert written["accept"] == "{'poor-utility'}"
    assert (written["size"], written["tables"], written["seed"]) == ("500", "20", "7")


def test_a_ledger_of_persons() -> None:
    values = {"dataset": "d", "epsilon": "3", "delta": "0", "unit": "id", "max_records": "5"}
    arguments, python = requests.ledger_request(values, "t.ledger")
    assert arguments[:3] == ["ledger", "init", "t.ledger"]
    assert arguments[-4:] == ["--unit", "id", "--max-records", "5"]
    assert keywords(python)["unit"] == "discreet.Unit('id', max_records=5)"


def test_one_table_and_no_unit_are_the_usual() -> None:
    """Who is protected is declared, or is what the ledger covers: a form cannot say otherwise."""
    form = requests.ReleaseForm.parse({**FORM, "tables": "1", "unit": "id", "max_records": "3"}, **FILES)
    assert options(form.arguments())["tables"] == 1
    assert (options(form.arguments())["unit"], options(form.arguments())["max_records"]) == (None, None)
    assert keywords(form.python()).keys() == {"size", "out"}


@pytest.mark.parametrize("key", WRONG)
def test_what_is_no_number_is_refused(key: str) -> None:
    with pytest.raises(ParameterError, match="must be a number"):
        requests.ReleaseForm.parse({**FORM, key: "1; import os"}, **FILES)


@pytest.mark.parametrize("text", ["01", "one", "inf", "1_0", "1,5", "１", "--help"])
def test_numbers_are_those_of_python_and_of_the_command(text: str) -> None:
    for key in ("epsilon", "delta", "size"):
        with pytest.raises(ParameterError, match="must be a number"):
            requests.plan_request({"records": "100", "epsilon": "1", key: text}, "d.toml", "p.html", "")
    for key in ("epsilon", "delta"):
        with pytest.raises(ParameterError, match="must be a number"):
            requests.ledger_request({"dataset": "d", "epsilon": "1", key: text}, "t.ledger")
    for number in ("1", "0.5", ".5", "5.", "1e-9", "-1"):
        requests.ledger_request({"dataset": "d", "epsilon": number}, "t.ledger")


@pytest.mark.parametrize("formula", ["y ~ x", "--help", "-1 + x"])
def test_a_formula_is_no_option(formula: str) -> None:
    arguments, python = requests.question({"formula": formula, "kind": "linear"}, "s.parquet")
    read = options(arguments)
    assert (read["released"], read["formula"], read["kind"]) == ("s.parquet", formula, "linear")
    assert repr(formula) in ast.unparse(ast.parse(python))


def test_a_question_says_the_same_twice() -> None:
    arguments, python = requests.question({"functional": "mean, q50", "column": "--x", "by": "g"}, "s")
    read = options(arguments)
    assert (read["functionals"], read["column"], read["by"]) == (("mean, q50",), "--x", "g")
    assert "estimate(['mean', 'q50'], column='--x', by='g')" in ast.unparse(ast.parse(python))


def test_all_python_is_python() -> None:
    _, plan = requests.plan_request({"records": "100", "epsilon": "1"}, "t.toml", "/x/p.html", "t.ledger")
    programs = [
        plan,
        requests.check_python("t.csv", "t.toml"),
        requests.ledger_request({"dataset": "d", "epsilon": "1"}, "l")[1],
    ]
    programs += [requests.report_python("s", "t.csv", "t.toml"), requests.verify_python("s.certificate.json", "s")]
    for program in programs:
        ast.parse(program)
    assert "discreet.plan('t.toml', discreet.Budget(epsilon=1, delta=0), records=100)" in ast.unparse(ast.parse(plan))
