"""``penstock reset``: starts an application over."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.cli.command import Command
from penstock.cli.options import log_option, open_file_log
from penstock.cli.state import APPLICATION_HELP, application_argument
from penstock.cli.stopped import stopped
from penstock.cli.terminal import count, print_table, say
from penstock.engine.operate.reset import Plan, Reset, Target, Wanted
from penstock.engine.shared.children import children_of
from penstock.query.application import checkpoint_of
from penstock.storage.opening import open_storage
from penstock.values.durations import to_ms
from penstock.values.times import to_timestamp, wall_clock_ms


@click.command(cls=Command, epilog=APPLICATION_HELP)
@application_argument
@click.option("--to-earliest", is_flag=True, help="Read all records from the first one on. This is the default.")
@click.option("--to-latest", is_flag=True, help="Read only records that arrive from now on.")
@click.option(
    "--to-datetime", metavar="TIME", help="Read from the first record at this time or later: ISO 8601, or milliseconds."
)
@click.option("--by-duration", metavar="DURATION", help='Read records of this age and newer ones, such as "2 days".')
@click.option(
    "--to-offset", type=click.IntRange(min=0), metavar="N", help="Read from this offset on, in each partition."
)
@click.option("--shift-by", type=int, metavar="N", help="Skip N records, or go back if N is negative.")
@click.option(
    "--topic", "topics", multiple=True, help="Reset only this source topic; can be given several times. [default: all]"
)
@click.option("--keep-state", is_flag=True, help="Keep the stores and stream times.")
@click.option("--keep-waiting", is_flag=True, help="Keep the records that wait in repartition topics.")
@click.option("--empty-outputs", is_flag=True, help="Remove all records of the output topics.")
@click.option("--execute", is_flag=True, help="Carry out the plan. Without this option, the command only shows it.")
@log_option
def reset(
    application: str,
    to_earliest: bool,
    to_latest: bool,
    to_datetime: str | None,
    by_duration: str | None,
    to_offset: int | None,
    shift_by: int | None,
    topics: tuple[str, ...],
    keep_state: bool,
    keep_waiting: bool,
    empty_outputs: bool,
    execute: bool,
    log_dir: Path | str | None,
) -> None:
    """Reset a stopped application to other offsets and empty stores.

    \b
    Examples:
      penstock reset app
      penstock reset app --to-datetime 2026-11-01 --empty-outputs --execute
      penstock reset app --topic flights --shift-by -100 --keep-state --execute
    """
    given = {
        "earliest": 0 if to_earliest else None,
        "latest": 0 if to_latest else None,
        "time": _time(to_datetime, by_duration),
        "offset": to_offset,
        "shift": shift_by,
    }
    targets = [Target(to, value) for to, value in given.items() if value is not None]  # type: ignore[arg-type]
    if len(targets) > 1:
        raise click.UsageError("say one place to begin at, not several")
    wanted = Wanted(targets[0] if targets else Target(), topics, keep_state, keep_waiting, empty_outputs)
    checkpoint = checkpoint_of(application)
    with stopped(application, checkpoint):
        storage = open_storage(checkpoint)
        planned = Reset(storage, open_file_log(log_dir), wanted)
        _show(planned.plan, [f"{one.name} ({one.sink})" for one in children_of(storage) if one.sink])
        if execute:
            planned.execute()
    if execute:
        say(f"Done, as commit {planned.plan.commit:,}; the next start continues from there.")
    else:
        say("Nothing was changed; --execute does it.")


def _time(at: str | None, ago: str | None) -> int | None:
    if at is not None and ago is not None:
        raise click.UsageError("say one place to begin at, not several")
    if at is not None:
        return to_timestamp(int(at) if at.isdecimal() else at, "--to-datetime")
    return None if ago is None else max(wall_clock_ms() - to_ms(ago, "--by-duration"), 0)


def _show(plan: Plan, sinks: list[str]) -> None:
    click.echo(f"Reset of {plan.application_id}, as commit {plan.commit:,}:")
    rows = ((move.topic, str(move.partition), f"{move.before:,}", f"{move.now:,}") for move in plan.moves)
    print_table(("topic", "partition", "processed up to", "goes on at"), rows, right=("processed up to", "goes on at"))
    click.echo(f"  stores emptied: {', '.join(plan.stores) or 'none'}")
    waiting = (f"{topic} ({count(files, 'file')})" for topic, files in sorted(plan.waiting.items()))
    click.echo(f"  records dropped that wait in repartition topics: {', '.join(waiting) or 'none'}")
    if plan.refused:
        dropped = (f"{topic} ({count(records, 'record')})" for topic, records in sorted(plan.refused.items()))
        click.echo(f"  records dropped that their topics refuse, see `penstock publish`: {', '.join(dropped)}")
    click.echo(f"  outputs emptied: {', '.join(plan.outputs) or 'none'}")
    if sinks:
        click.echo(f"  sinks that are given their results again: {', '.join(sinks)}")
    for topic in plan.grown:
        say(
            f"Topic {topic} was given more partitions: what a key had before lies in another one than what it gets "
            "now, and steps that keep state by the key of the source have two results for it. `penstock rescale` in "
            "place of reset continues with one; or read a copy: penstock topics cat --json | penstock topics produce "
            "--json --partitions N",
            style="yellow",
        )
