"""Run a command in this process, and return what it prints."""

import json
from typing import Any

import pytest

from discreet.cli.entry import run


def answer(capsys: pytest.CaptureFixture[str], *arguments: object, status: int = 0) -> str:
    """Return what a command that ends with a status prints on both streams."""
    capsys.readouterr()
    assert run([str(argument) for argument in arguments]) == status
    return "".join(capsys.readouterr())


def document(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    """Return what a command that succeeds prints as JSON."""
    capsys.readouterr()
    assert run([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)
