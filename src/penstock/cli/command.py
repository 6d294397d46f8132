"""What all commands share: how failures are told, and that ``--debug`` shows all of them."""

from __future__ import annotations

from typing import Any

import click

from penstock.cli.terminal import stderr
from penstock.errors import PenstockError

_DEBUG = "penstock.debug"


def _remember(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        context.find_root().meta[_DEBUG] = True


class Command(click.Command):
    """A command with the option ``--debug``."""

    def __init__(self, *arguments: Any, **keywords: Any):
        super().__init__(*arguments, **keywords)
        self.params.append(
            click.Option(
                ["--debug"],
                is_flag=True,
                expose_value=False,
                callback=_remember,
                envvar="PENSTOCK_DEBUG",
                help="Show where in Penstock an error was raised.",
            )
        )


class Group(click.Group):
    """Commands in the order in which they were added."""

    command_class = Command

    def list_commands(self, context: click.Context) -> list[str]:
        return list(self.commands)


class RootGroup(Group):
    """All commands. What goes wrong ends them with exit code 1 and one message; wrong usage with 2, as click does."""

    group_class = Group

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except BrokenPipeError:  # whoever read the output has seen enough; click ends the command quietly
            raise
        except (PenstockError, OSError) as error:
            if context.meta.get(_DEBUG):
                raise
            stderr().print(f"Error: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
            context.exit(1)
