"""``penstock publish``: publishes a commit whose records are not in their topics yet, without refused records."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.cli.command import Command
from penstock.cli.options import log_of, log_option
from penstock.cli.state import APPLICATION_HELP, application_argument
from penstock.cli.stopped import stopped
from penstock.cli.terminal import count, print_table, say
from penstock.engine.commit.putting_aside import PuttingAside, Refused, Stuck
from penstock.messages import show
from penstock.query.application import checkpoint_of, open_stores
from penstock.storage.opening import open_storage

_SHOWN = 20
"""How many refused records are listed."""


@click.command(cls=Command, epilog=APPLICATION_HELP)
@application_argument
@click.option("--dead-letters", metavar="TOPIC", help="The topic for refused records. [default: ID-dead-letters]")
@click.option("--drop", is_flag=True, help="Drop and count refused records instead.")
@click.option("--execute", is_flag=True, help="Carry out the plan. Without this option, the command only shows it.")
@log_option
def publish(application: str, dead_letters: str | None, drop: bool, execute: bool, log_dir: Path | str | None) -> None:
    """Publish a commit without the records that Kafka refuses.

    Penstock makes a commit, and then publishes its records to Kafka. If a broker refuses one of these records, the
    application cannot continue. Stop it first. This command shows the refused records and the reasons. With --execute,
    it sends them to a dead-letter topic, and publishes all other records once. To ask the broker, the command uses a
    transaction that it aborts: consumers that read committed records see nothing of it.

    \b
    Examples:
      penstock publish app
      penstock publish app --execute
      penstock publish app --drop --execute
    """
    if drop and dead_letters is not None:
        raise click.UsageError("--drop and --dead-letters exclude each other: give one of them")
    checkpoint = checkpoint_of(application)
    with stopped(application, checkpoint):
        found = PuttingAside(open_storage(checkpoint), log_of(open_stores(checkpoint), log_dir))
        stuck = found.found
        if not stuck.records:
            say(f"Nothing waits: all records of commit {stuck.sequence:,} of {stuck.application_id} are published.")
            return
        goal = None if drop else dead_letters or f"{stuck.application_id}-dead-letters"
        found.check(dead_letters=goal)
        _show(stuck, goal)
        if execute:
            found.execute(goal)
            found.publish()
    say("Done; start the program again." if execute else "Nothing was changed; --execute does it.")


def _show(stuck: Stuck, goal: str | None) -> None:
    click.echo(f"Commit {stuck.sequence:,} of {stuck.application_id} is certain, and not in its topics yet:")
    refused = stuck.refused
    rows = (
        (topic, f"{records:,}", f"{sum(one.topic == topic for one in refused):,}")
        for topic, records in sorted(stuck.records.items())
    )
    print_table(("topic", "records", "refused"), rows, right=("records", "refused"))
    for one in refused[:_SHOWN]:
        _show_refused(one)
    if len(refused) > _SHOWN:
        click.echo(f"  and {count(len(refused) - _SHOWN, 'more record')}")
    if refused:
        way = "are dropped" if goal is None else f"go to topic {goal} as dead letters"
        click.echo(f"Refused records {way}, and are counted; all others are published.")
    else:
        click.echo("Its topics take all of it: a start publishes it, and so does this.")


def _show_refused(one: Refused) -> None:
    record = f"key {show(one.key)}, value {show(one.value)}, timestamp {one.timestamp}"
    click.echo(f"  {one.topic}, partition {one.partition}: {record}\n    {one.why}")
