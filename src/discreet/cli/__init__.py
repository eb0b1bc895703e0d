"""The command: parse, call, write. No logic lives here."""

from discreet.cli._main import main

__all__ = ["main"]
