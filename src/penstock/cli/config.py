"""``penstock config``: every setting, its value, and its origin."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from penstock.cli.command import Command
from penstock.cli.options import json_option, load_settings, settings_options
from penstock.cli.terminal import print_json, print_table
from penstock.settings import OF_COMMANDS, Settings
from penstock.values.masking import MASK, SECRET_NAME, masked


@click.command(cls=Command)
@settings_options
@json_option
def config(as_json: bool, **options: Any) -> None:
    """Show every setting and where it comes from.

    The first place that has a setting decides: the command line, the environment (PENSTOCK_ON_ERROR for on_error),
    penstock.toml, [tool.penstock] in pyproject.toml, the default. Secrets are masked. At the end, the command lists the
    options of run, serve and ui that come from the environment (PENSTOCK_SLOTS for --slots).

    \b
    Examples:
      penstock config
      penstock config --on-error skip --set chunk_records=10000
    """
    settings = load_settings(**options)
    rows = [_row(settings, item.name) for item in fields(Settings) if item.name != "origins"]
    rows += [_of_command(name) for name in OF_COMMANDS if os.environ.get(f"PENSTOCK_{name.upper()}")]
    if as_json:
        for row in rows:
            print_json(row)
    else:
        shown = [(row["name"], str(row["value"]), row["origin"]) for row in rows]
        print_table(("setting", "value", "from"), shown)


def _row(settings: Settings, name: str) -> dict[str, Any]:
    value = getattr(settings, name)
    origin = settings.origins.get(name, "default")
    if name == "state_dir" and value is None:
        value = Path(".penstock") / "<application id>"
    if isinstance(value, Path):
        value = str(value)
    if origin == "environment":
        origin = f"PENSTOCK_{name.upper()}"
    return {"name": name, "value": _shown(name, value), "origin": "command line" if origin == "keyword" else origin}


def _of_command(name: str) -> dict[str, Any]:
    """Return an option of a command that the environment sets."""
    variable = f"PENSTOCK_{name.upper()}"
    value = MASK if name == "token" else os.environ[variable]
    return {"name": name, "value": value, "origin": variable}


def _shown(name: str, value: Any) -> Any:
    """Return a setting's value without secrets."""
    if not isinstance(value, str):
        return value
    return MASK if SECRET_NAME.search(name) else masked(value)
