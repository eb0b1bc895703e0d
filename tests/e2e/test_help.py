"""What the command answers where no command is given, and to parameters: the same with every version of click."""

import inspect
import shutil
from dataclasses import fields

import pytest
from commands import answer, document

from discreet import Budget, Output, Replacement, Unit, release
from discreet._core.text import as_written
from discreet.cli.entry import discreet as group
from discreet.cli.entry import run


@pytest.mark.parametrize(("arguments", "named"), [([], "synthesize"), (["domain"], "init")])
def test_without_a_command_there_is_help_and_status_2(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("Usage: discreet")
    assert named in captured.err
    assert run([*arguments, "--help"]) == 0
    assert capsys.readouterr().out.startswith("Usage: discreet")


@pytest.mark.parametrize("pair", ["prior", "=3", ""])
def test_a_parameter_without_key_or_value_is_refused(pair: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = "privacy dirichlet-multinomial --records 10 --size 1 --epsilon 1 --param"
    assert f"must be KEY=VALUE, got {pair!r}" in answer(capsys, *asked.split(), pair, status=2)


def test_numbers_in_parameters_are_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    asked = "privacy dirichlet-multinomial --records 100 --size 10 --epsilon 1 --param cells=4 --param"
    for prior in ("5", "5.0", " 5"):
        assert document(capsys, *asked.split(), f"prior={prior}")["theorem"] == "T4"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_command_gives_each_shell_its_completion(
    shell: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if shell == "bash" and shutil.which("bash") is None:
        pytest.skip("click asks bash for its version")
    monkeypatch.setenv("_DISCREET_COMPLETE", f"{shell}_source")
    assert run([]) == 0
    script, said = capsys.readouterr()
    assert "_DISCREET_COMPLETE" in script
    assert said == ""
    monkeypatch.setenv("_DISCREET_COMPLETE", f"{shell}_complete")
    monkeypatch.setenv("COMP_WORDS", "discreet cal")
    monkeypatch.setenv("COMP_CWORD", "cal" if shell == "fish" else "1")
    assert run([]) == 0
    assert "calibrate" in capsys.readouterr().out


def test_the_function_and_the_command_have_the_same_names() -> None:
    """Each argument of the function is an option of the same name, but for those that a command cannot have."""
    arguments = set(inspect.signature(release).parameters) - {"data", "parameters"}
    command = group.commands["release"]
    options = {option[2:].replace("-", "_") for one in command.params for option in one.opts if option[:2] == "--"}
    assert arguments - options == {"budget", "watch"}
    of_files = {"table", "query", "sheet", "separator", "encoding", "decimal_comma", "out_separator", "out_format"}
    of_keepers = {"dataset", "part", "redraw"}  # the ledger and the checkpoint
    of_values = {one.name for kind in (Budget, Unit, Replacement, Output) for one in fields(kind)} - {
        "column",
        "path",
        "format",
    }
    of_values |= {"risk", "advantage", "success", "prior"}  # in place of a Budget
    accepted = {"accept_poor_utility", "accept_weak_promise", "ignore_other_columns"}
    of_parameters = {"param", "sampling", "tables", "outcome"}
    assert options - arguments == {"json"} | of_files | of_keepers | of_values | accepted | of_parameters


@pytest.mark.parametrize("command", ["release", "synthesize"])
def test_other_columns_are_ignored_by_one_name_alone(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "No such option" in answer(capsys, command, "data.csv", "--columns", status=2)
    assert "--ignore-other-columns" in answer(capsys, command, "--help")


@pytest.mark.parametrize("command", ["privacy", "calibrate"])
def test_without_json_the_same_facts_are_a_line_each(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = [command, "dirichlet-multinomial", "--records", "10000", "--size", "10", "--param", "cells=4"]
    asked += ["--epsilon", "1", *(["--param", "prior=5"] if command == "privacy" else ["--delta", "1e-6"])]
    facts, lines = document(capsys, *asked), answer(capsys, *asked).splitlines()
    assert "mechanism: dirichlet-multinomial" in lines
    assert "records: 10,000" in lines
    assert f"delta: {as_written(facts['delta'])}" in lines  # no digit is lost
    assert "exact: yes" in lines
    assert f"caveats: {facts['caveats'][0]}" in lines
    assert not [line for line in lines if line[:1] in "{[" or "None" in line]
