"""``penstock explain``: which records are held back, remembered by deduplications or left out, and why."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from penstock.cli.command import Command
from penstock.cli.options import json_option, load_settings, settings_options
from penstock.cli.program import PROGRAM_HELP, default_application_id, load_program, program_argument
from penstock.cli.terminal import count, moment, print_json, size
from penstock.figures.losses import losses_of, together
from penstock.plan.node import Hold, Node
from penstock.plan.nodes import Deduplicate
from penstock.plan.topology import Topology
from penstock.query.checkpoint import Checkpoint
from penstock.query.held import Held, held_by
from penstock.query.remembered import Remembered, remembered_by
from penstock.storage.opening import open_storage

_T = TypeVar("_T", Held, Remembered)


@click.command(cls=Command, epilog=PROGRAM_HELP)
@program_argument
@click.argument("node", required=False)
@click.option(
    "--application-id",
    envvar="PENSTOCK_APPLICATION_ID",
    help="The application's id. [default: the name of the program's file]",
)
@click.option("--losses", is_flag=True, help="Show the records that were left out, where, and why.")
@settings_options
@json_option
def explain(
    program: str, node: str | None, application_id: str | None, losses: bool, as_json: bool, **options: Any
) -> None:
    """Show the results that steps hold back, and until when.

    The command lists the results that suppressions, and windows that emit on close, hold back. It also lists the ids
    that deduplications remember.

    NODE is the name of a step, as `penstock topology` shows it; without NODE, the command shows all steps. With
    --losses, the command shows the records that each step (or NODE) has left out since the application's first start:
    late, expired and keyless records, skipped records and dead letters. The application may be running or stopped. The
    command shows the state of its newest commit.

    \b
    Examples:
      penstock explain app.py
      penstock explain app.py final-counts --json
      penstock explain app.py --losses
    """
    settings = load_settings(**options)
    state_dir = settings.state_dir or Path(".penstock") / (application_id or default_application_id(program))
    topology = load_program(program)
    storage = open_storage(settings.checkpoint or str(state_dir / "checkpoint"))
    checkpoint = Checkpoint.read(topology, settings, storage)
    if losses:
        _explain_losses(checkpoint, node, as_json)
        return
    steps = _chosen(topology, node)
    if not steps and not as_json:
        click.echo("No step of this program holds records back or remembers them.")
    for chosen in steps:
        if isinstance(chosen, Deduplicate):
            remembered = remembered_by(checkpoint, chosen)
            _show(remembered, as_json, partial(_explain_deduplication, chosen))
        else:
            held = held_by(checkpoint, chosen)
            _show(held, as_json, partial(_explain_held, chosen))


def _explain_losses(checkpoint: Checkpoint, node: str | None, as_json: bool) -> None:
    """Print each kind of loss of each step, with its tasks."""
    by_task = [
        (label.partition("|")[0], loss)
        for label, loss in losses_of(checkpoint.manifest.metrics).items()
        if node in (None, loss.node)
    ]
    if as_json:
        for task, loss in by_task:
            print_json({"task": task, **loss.to_dict()})
        return
    if not by_task:
        click.echo("No record was left out.")
    for loss in together(loss for _, loss in by_task):
        click.echo(f"{loss.described}, counted by {loss.metric}: {loss.why}.")
        for task, one in by_task:
            if one[:3] == loss[:3]:
                click.echo(f"  task {task}: {one.records:,}")


def _chosen(topology: Topology, name: str | None) -> list[Node]:
    known = {node.name: node for node in topology.nodes if node.hold is not None or isinstance(node, Deduplicate)}
    if name is not None and name not in known:
        there = f"there are {', '.join(known)}" if known else "this program has neither"
        raise click.BadParameter(
            f"no suppressed table and no deduplication is named {name!r}; {there}", param_hint="'NODE'"
        )
    return list(known.values()) if name is None else [known[name]]


def _show(found: list[_T], as_json: bool, explain: Callable[[list[_T]], None]) -> None:
    if not as_json:
        explain(found)
        return
    for one in found:
        print_json(one.to_dict())


def _explain_deduplication(node: Deduplicate, remembered: list[Remembered]) -> None:
    click.echo(f"{node.name} remembers {count(sum(one.ids for one in remembered), 'id')}.")
    click.echo(f"  An id is remembered until stream time is more than {node.interval:,} ms past its record.")
    for one in remembered:
        click.echo(f"  task {one.task}: {_remembers(one)}")
        if one.dropped:
            every = ", ".join(f"{number:,} {reason}" for reason, number in one.dropped.items())
            click.echo(f"    did not go on: {every}")
    if node.dropped_to is not None:
        click.echo(f"  Duplicates can be looked at in the topic {node.dropped_to}.")


def _remembers(remembered: Remembered) -> str:
    if remembered.oldest is None or remembered.newest is None:
        return "nothing"
    return (
        f"{count(remembered.ids, 'id')}; stream time is {moment(remembered.stream_time)}, the oldest is of "
        f"{moment(remembered.oldest)}, the newest of {moment(remembered.newest)}"
    )


def _explain_held(node: Node, held: list[Held]) -> None:
    assert node.hold is not None
    records, nbytes = sum(one.records for one in held), sum(one.bytes or 0 for one in held)
    thing = "window" if node.hold.is_of_windows else "update"
    in_memory = f" ({size(nbytes)})" if node.collapses_updates else ""
    click.echo(f"{node.name} holds {count(records, thing)} back{in_memory}.")
    if node.hold.is_of_windows:
        click.echo(f"  A window is sent when stream time is {node.hold.wait_ms:,} ms past its end.")
    else:
        click.echo(f"  An update is sent {node.hold.wait_ms:,} ms of stream time after the first of its key.")
    for one in held:
        click.echo(f"  task {one.task}: {_waits_for(one, thing)}")
    if records:
        click.echo(f"  {_what_moves_time(node.hold)}")


def _waits_for(held: Held, thing: str) -> str:
    if held.first_goes_at is None or held.last_goes_at is None:
        return "nothing"
    left = held.first_goes_at - held.stream_time
    first = f"{left:,} ms later, at {moment(held.first_goes_at)}" if left > 0 else "with one of the next records"
    return (
        f"{count(held.records, thing)}; stream time is {moment(held.stream_time)}, the first is due {first}, "
        f"the last at {moment(held.last_goes_at)}"
    )


def _what_moves_time(hold: Hold) -> str:
    idle = hold.idle_advance_ms
    if idle is None:
        return "Only the records of a task move its stream time."
    return f"The records of a task move its stream time. After {idle:,} ms without a record, it moves by as much."
