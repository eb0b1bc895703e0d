"""The command: parse, call, write. No logic lives here."""

from discreet.cli.entry import main

__all__ = ["main"]
