"""``penstock rescale``: moves an application's state to another number of partitions."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.cli.command import Command
from penstock.cli.options import log_option, log_settings
from penstock.cli.program import load_program
from penstock.cli.state import APPLICATION_HELP, application_argument
from penstock.cli.stopped import state_folders, stopped
from penstock.cli.terminal import count, print_table, say
from penstock.engine.rescaling.rescale import Rescale, RescalePlan
from penstock.engine.shared.manifest import Manifests
from penstock.engine.shared.starts import Starts
from penstock.errors import ConfigError
from penstock.log.open import open_log
from penstock.query.application import checkpoint_of
from penstock.settings import Settings
from penstock.storage.base import Storage
from penstock.storage.opening import open_storage


@click.command(cls=Command, epilog=APPLICATION_HELP)
@application_argument
@click.option(
    "--partitions",
    required=True,
    type=click.IntRange(min=1),
    metavar="N",
    help="The new number of partitions of the source topics.",
)
@click.option("--program", metavar="PROGRAM", help="The program of the application. [default: that of the last start]")
@click.option("--execute", is_flag=True, help="Carry out the plan. Without this option, the command only shows it.")
@log_option
def rescale(application: str, partitions: int, program: str | None, execute: bool, log_dir: Path | str | None) -> None:
    """Move a stopped application's state to new partitions.

    The command writes the state again: each row moves to the partition that Kafka's partitioner gives its key. Before
    you call it with --execute, let the application read all records. Then give its source topics the new partitions
    with `penstock topics repartition`, or in Kafka with `kafka-topics --alter`. Without --execute, the command also
    checks every row, so you can try it before you change a topic.

    \b
    Examples:
      penstock rescale app --partitions 8
      penstock topics repartition flights --partitions 8
      penstock rescale app --partitions 8 --execute
    """
    settings = Settings.load(**log_settings(log_dir))
    checkpoint = checkpoint_of(application)
    storage = open_storage(checkpoint)
    topology = load_program(program or _program_of(storage, application, checkpoint)).completed_by(settings)
    with stopped(application, checkpoint):
        planned = Rescale(topology, storage, open_log(settings.topics_in), partitions)
        _show(planned.plan)
        rows = planned.execute() if execute else 0
    if execute:
        say(f"Done, as commit {planned.plan.commit:,}, with {count(rows, 'row')}; the next start continues from there.")
    else:
        say("Nothing was changed; --execute does it.")


def _program_of(storage: Storage, application: str, checkpoint: str) -> str:
    """Return the program that was last started."""
    newest = Manifests(storage).newest()
    told = Starts(storage).read(newest.start, newest.application).program if newest is not None and newest.start else ""
    path, _, name = told.rpartition(":")
    files = [(folder / path).resolve() for folder in sorted(state_folders(application, checkpoint))] if path else []
    found = next((file for file in files if file.is_file()), None)
    if found is None:
        raise ConfigError(
            f"it is not known which program {application!r} is: say it with --program app.py:topology. "
            "Nothing was changed"
        )
    return f"{found}:{name}"


def _show(plan: RescalePlan) -> None:
    click.echo(f"Rescale of {plan.application_id}, as commit {plan.commit:,}:")
    rows = (
        (one.topic, str(one.before), str(one.now), "from its first record" if one.is_new else "where it was")
        for one in plan.sources
    )
    print_table(("topic", "partitions before", "now", "is read on"), rows, right=("partitions before", "now"))
    tasks = (f"{sub} ({before} to {now})" for sub, (before, now) in sorted(plan.tasks.items()))
    click.echo(f"  sub-topologies with other tasks: {', '.join(tasks)}")
    click.echo(f"  stores written again: {', '.join(plan.stores) or 'none'}")
    if plan.repeated:
        click.echo(
            f"  final results that may be written again, since partitions have reached different times: "
            f"{', '.join(plan.repeated)}"
        )
