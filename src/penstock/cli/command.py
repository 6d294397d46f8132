"""The common part of all commands: error output, and ``--debug``, which shows tracebacks."""

from __future__ import annotations

import atexit
import gc
import json
import logging
import sys
from collections.abc import Mapping
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import click

from penstock.cli.logs import logs_are_json
from penstock.errors import ConfigError, PenstockError
from penstock.values.masking import masked

_DEBUG = "penstock.debug"
_AS_JSON = "penstock.json"
_MEANT = {
    **dict.fromkeys(("start", "exec", "execute"), "run"),
    **dict.fromkeys(("list", "show"), "ls"),
    **dict.fromkeys(("delete", "remove", "drop"), "rm"),
    **dict.fromkeys(("read", "consume", "print"), "cat"),
    **dict.fromkeys(("write", "send", "publish"), "produce"),
    **dict.fromkeys(("new", "add", "make"), "create"),
}
"""Commands of other tools, and their names here."""


def _remember(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        context.find_root().meta[_DEBUG] = True


class Command(click.Command):
    """A command with the option ``--debug``; with ``--json`` its errors are JSON, too."""

    def __init__(self, *arguments: Any, **keywords: Any):
        super().__init__(*arguments, **keywords)
        self.params.append(
            click.Option(
                ["--debug"],
                is_flag=True,
                expose_value=False,
                callback=_remember,
                envvar="PENSTOCK_DEBUG",
                help="Show the traceback of an error.",
            )
        )

    def invoke(self, context: click.Context) -> Any:
        context.find_root().meta[_AS_JSON] = bool(context.params.get("as_json"))
        return super().invoke(context)


class Group(click.Group):
    """Commands in the order in which they were added; those of other files are imported when they are called.

    Args:
        commands_in: the commands of other files, which come last: each one's file below ``penstock.cli``, and the first
            paragraph of its help.
    """

    command_class = Command

    def __init__(self, *arguments: Any, commands_in: Mapping[str, tuple[str, str]] | None = None, **keywords: Any):
        super().__init__(*arguments, **keywords)
        self.commands_in = commands_in or {}

    def list_commands(self, context: click.Context) -> list[str]:
        return [*(name for name in self.commands if name not in self.commands_in), *self.commands_in]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in self.commands and name in self.commands_in:
            self.commands[name] = getattr(import_module(f"penstock.cli.{self.commands_in[name][0]}"), name)
        return self.commands.get(name)

    def resolve_command(self, context: click.Context, arguments: list[str]) -> Any:
        names = self.list_commands(context)
        meant = _MEANT.get(arguments[0], "") if arguments else ""
        if meant in names and arguments[0] not in names:
            context.fail(f"No such command {arguments[0]!r}. Did you mean {meant!r}?")
        if arguments and arguments[0] not in names:  # click looks for similar names
            for name in self.commands_in:
                self.get_command(context, name)
        return super().resolve_command(context, arguments)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        names = self.list_commands(context)
        limit = formatter.width - 6 - max(map(len, names))
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._short_help(name, limit)) for name in names])

    def _short_help(self, name: str, limit: int) -> str:
        is_elsewhere = name in self.commands_in
        command = click.Command(name, help=self.commands_in[name][1]) if is_elsewhere else self.commands[name]
        return command.get_short_help_str(limit)


class RootGroup(Group):
    """The root of all commands. Errors end them with exit code 1 and one message; wrong usage with 2, as in click."""

    group_class = Group

    def invoke(self, context: click.Context) -> Any:
        atexit.unregister(_spare_scans)
        atexit.register(_spare_scans)
        if isinstance(sys.stdout, TextIOWrapper):  # characters outside its encoding are shown as \u...
            sys.stdout.reconfigure(errors="backslashreplace")
        try:
            return super().invoke(context)
        except BrokenPipeError:  # the reader has closed the pipe; click exits quietly
            raise
        except (PenstockError, OSError) as error:
            if context.meta.get(_DEBUG):
                raise
            tell(_without_a_folder() or error, context.meta.get(_AS_JSON, False))
            context.exit(1)


def _spare_scans() -> None:
    """Have Python not scan all modules several times at exit, for 0.2 s. DuckDB reports what stays as leaked."""
    if "duckdb" not in sys.modules:
        gc.freeze()


def _without_a_folder() -> PenstockError | None:
    """Return what is wrong if the current folder was removed; Python says nothing of it but "No such file"."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return ConfigError("the current folder was removed; change into one that exists")
    return None


def tell(error: Exception, as_json: bool) -> None:
    """Print an error; for programs, which requested JSON, with its type."""
    if as_json:
        told = {"error": masked(str(error)), "type": type(error).__name__}
        click.echo(json.dumps(told, ensure_ascii=False, separators=(",", ":")), err=True)
    elif logs_are_json():
        logging.getLogger("penstock.cli").error(str(error), extra={"type": type(error).__name__})
    else:
        from penstock.cli.terminal import stderr

        stderr().print(f"Error: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
