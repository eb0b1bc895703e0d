"""Groups of commands: errors of the library are told in the language of the command that met them."""

from __future__ import annotations

from typing import Any

import click

from discreet._core.errors import DiscreetError
from discreet.cli._remedies import in_options


class Complaint(click.ClickException):
    """An error of the library, told in the language of the command that met it."""

    def __init__(self, message: str, exit_status: int) -> None:
        super().__init__(message)
        self.exit_status = exit_status


class Commands(click.Group):
    """A group of commands; errors of the library leave it with their arguments as options."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except DiscreetError as error:
            command = self.commands.get(ctx.invoked_subcommand or "")
            raise Complaint(in_options(str(error), command), error.exit_status) from None
