"""``penstock explain``: what suppressed tables hold back, and what it waits for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from penstock.cli.command import Command
from penstock.cli.options import json_option, load_settings, settings_options
from penstock.cli.program import PROGRAM_HELP, default_application_id, load_program, program_argument
from penstock.cli.terminal import count, moment, print_json, size
from penstock.plan.nodes import Suppress
from penstock.query.checkpoint import Checkpoint
from penstock.query.held import Held, held_by, suppressions
from penstock.storage import open_storage


@click.command(cls=Command, epilog=PROGRAM_HELP)
@program_argument
@click.argument("node", required=False)
@click.option("--application-id", help="The application. [default: the name of the program's file]")
@settings_options
@json_option
def explain(program: str, node: str | None, application_id: str | None, as_json: bool, **options: Any) -> None:
    """Say what suppressed tables hold back, and what it waits for.

    NODE is the name of a suppressed table, as `penstock topology`
    shows it; without it, all of them are explained. The application
    may be running or not: what it last committed counts.

    \b
    Examples:
      penstock explain app.py
      penstock explain app.py final-counts --json
    """
    settings = load_settings(**options)
    state_dir = settings.state_dir or Path(".penstock") / (application_id or default_application_id(program))
    topology = load_program(program)
    storage = open_storage(settings.checkpoint or str(state_dir / "checkpoint"))
    checkpoint = Checkpoint.read(topology, settings, storage)
    for suppression in _chosen(checkpoint, node):
        held = held_by(checkpoint, suppression)
        if as_json:
            for one in held:
                print_json(one.to_dict())
        else:
            _explain(suppression, held)


def _chosen(checkpoint: Checkpoint, name: str | None) -> list[Suppress]:
    known = suppressions(checkpoint)
    if name is not None and name not in known:
        there = f"the suppressed tables are {', '.join(known)}" if known else "this program suppresses nothing"
        raise click.BadParameter(f"no suppressed table is named {name!r}; {there}", param_hint="'NODE'")
    return list(known.values()) if name is None else [known[name]]


def _explain(node: Suppress, held: list[Held]) -> None:
    records, nbytes = sum(one.records for one in held), sum(one.bytes for one in held)
    thing = "window" if node.suppressed.time_ms is None else "update"
    click.echo(f"{node.name} holds {count(records, thing)} back ({size(nbytes)}).")
    if node.suppressed.time_ms is None:
        click.echo(f"  A window goes when stream time is {node.wait_ms:,} ms past its end.")
    else:
        click.echo(f"  An update goes {node.wait_ms:,} ms of stream time after the first of its key.")
    for one in held:
        click.echo(f"  task {one.task}: {_waits_for(one, thing)}")
    if records:
        click.echo(f"  {_what_moves_time(node)}")


def _waits_for(held: Held, thing: str) -> str:
    if held.first_goes_at is None or held.last_goes_at is None:
        return "nothing"
    left = held.first_goes_at - held.stream_time
    return (
        f"{count(held.records, thing)}; stream time is {moment(held.stream_time)}, the first goes {left:,} ms later "
        f"at {moment(held.first_goes_at)}, the last at {moment(held.last_goes_at)}"
    )


def _what_moves_time(node: Suppress) -> str:
    idle = node.suppressed.idle_advance_ms
    if idle is None:
        return "Stream time moves on with the records that come to the task, and only with them."
    return f"Stream time moves on with the records that come to the task, and by {idle:,} ms in as long without one."
