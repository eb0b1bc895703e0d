"""What the command answers where no command is given, and to parameters: the same with every version of click."""

from __future__ import annotations

import shutil

import pytest

from discreet.cli._main import run


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
    asked = ["privacy", "dirichlet-multinomial", "--records", "10", "--size", "1", "--epsilon", "1", "--param", pair]
    assert run(asked) == 2
    assert f"must be KEY=VALUE, got {pair!r}" in capsys.readouterr().err


def test_numbers_in_parameters_are_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["privacy", "dirichlet-multinomial", "--records", "100", "--size", "10", "--epsilon", "1", "--json"]
    for prior in ("5", "5.0", " 5"):
        assert run([*asked, "--param", "cells=4", "--param", f"prior={prior}"]) == 0
    assert "T4" in capsys.readouterr().out


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
