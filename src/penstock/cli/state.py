"""``penstock state``: reads an application's stores from its checkpoint, whether it runs or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import click
import msgspec

from penstock.cli.command import Command, Group
from penstock.cli.options import LocalPath, json_option, log_of, log_option, read_by
from penstock.cli.terminal import count, moment, print_json, print_table, readable, say
from penstock.engine.shared.children import Child
from penstock.errors import SerdeError
from penstock.query.application import ApplicationStores, open_stores
from penstock.query.health import HealthCheck, has_outside
from penstock.query.key_value import KeyValueView
from penstock.query.rows import FILES, key_of, key_range, rows_of, written
from penstock.query.stores import AnyView
from penstock.query.view import View
from penstock.values.durations import to_ms

APPLICATION_HELP = """\b
APPLICATION is the application's id, if you call the command in the folder where
the program runs. Otherwise it is the checkpoint: a folder, or the URL of an
object store."""

application_argument = click.argument("application")
_store_argument = click.argument("store")
_UNWELL = 3
_KINDS = {
    "KeyValueStore": "key-value",
    "WindowStore": "window",
    "SlidingStore": "sliding window",
    "SessionStore": "session",
    "VersionedStore": "versioned",
    "TimeOrderedBuffer": "buffer",
    "DeduplicationStore": "deduplication",
    "JoinWindowStore": "join",
    "WaitingStore": "join",
    "SubscriptionStore": "subscriptions",
}


@click.group(cls=Group)
def state() -> None:
    """Read an application's state stores, as of its newest commit.

    \b
    Examples:
      penstock state ls app
      penstock state get app counts JFK
      penstock state scan app counts --from J --limit 20
      penstock state export app counts counts.parquet
    """


@state.command("ls", cls=Command, epilog=APPLICATION_HELP)
@application_argument
@click.option("--count", "counts", is_flag=True, help="Count the rows of each store, which reads all of them.")
@json_option
def list_stores(application: str, counts: bool, as_json: bool) -> None:
    """List the stores of an application.

    \b
    Examples:
      penstock state ls app
      penstock state ls app --count --json
    """
    stores = open_stores(application)
    shapes = stores.shapes().values()
    rows: list[dict[str, Any]] = []
    for shape in shapes:
        kind = _KINDS.get(shape.format.kind, shape.format.kind)
        row = {"store": shape.name, "kind": kind, "key": shape.format.key, "value": shape.format.value}
        rows.append(row | ({"rows": stores.view(shape.name).approximate_num_entries()} if counts else {}))
    stores.close()
    if as_json:
        for one in rows:
            print_json(one)
    elif rows:
        cells = ([f"{cell:,}" if isinstance(cell, int) else cell for cell in row.values()] for row in rows)
        print_table(rows[0], cells, right=("rows",))
    else:
        say("The application has no stores, or nothing that this version of Penstock wrote down of them.")


@state.command(cls=Command, epilog=APPLICATION_HELP)
@application_argument
@_store_argument
@click.argument("key")
@json_option
@click.pass_context
def get(context: click.Context, application: str, store: str, key: str, as_json: bool) -> None:
    """Show the rows of a key: its value, windows, sessions or versions.

    KEY is text or a number, as the keys of the store are. Write JSON for keys that are JSON, and 0x... for bytes. If
    the store has no such key, the exit code is 1.

    \b
    Examples:
      penstock state get app counts JFK
      penstock state get app sessions ann --json
    """
    stores = open_stores(application)
    try:
        view = stores.view(store)
        found = list(rows_of(view, key=_parsed(view, key, "KEY")))
        _show(view, found, as_json)
    finally:
        stores.close()
    if not found:
        say(f"{store} has nothing for the key {key}.")
        context.exit(1)


@state.command(cls=Command, epilog=APPLICATION_HELP)
@application_argument
@_store_argument
@click.option("--from", "low", metavar="KEY", help="The first key of the range.")
@click.option("--to", "high", metavar="KEY", help="The last key of the range, which is included.")
@click.option("--prefix", help="Only keys that begin with this text; for key-value stores.")
@click.option("--reverse", is_flag=True, help="Show the last row first.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=100, show_default=True, help="How many rows to show at most."
)
@json_option
def scan(
    application: str,
    store: str,
    low: str | None,
    high: str | None,
    prefix: str | None,
    reverse: bool,
    limit: int,
    as_json: bool,
) -> None:
    """Show the rows of a store, all or those of a range of keys.

    \b
    Examples:
      penstock state scan app counts --limit 10
      penstock state scan app counts --from J --to L --reverse
      penstock state scan app counts --prefix JF --json
    """
    stores = open_stores(application)
    try:
        view = stores.view(store)
        if prefix is not None and (not isinstance(view, KeyValueView) or low or high):
            raise click.UsageError(
                "--prefix is for key-value stores, without --from and --to; leave out what does not fit"
            )
        found: Iterator[dict[str, Any]]
        if prefix is not None:
            found = rows_of(view, prefix=prefix.encode(), reverse=reverse)
        else:
            bounds = (None if key is None else _parsed(view, key, "--from/--to") for key in (low, high))
            found = rows_of(view, within=key_range(*bounds), reverse=reverse)
        rows = list(islice(found, limit + 1))
    finally:
        stores.close()
    _show(view, rows[:limit], as_json)
    if len(rows) > limit:
        say(f"There are more than {count(limit, 'row')}; --limit shows more, and penstock state export has all.")


@state.command(cls=Command, epilog=APPLICATION_HELP)
@application_argument
@_store_argument
@click.argument("file", type=LocalPath(dir_okay=False))
def export(application: str, store: str, file: Path) -> None:
    """Write a store into a file: .parquet, .arrow, .csv or .ndjson.

    \b
    Examples:
      penstock state export app counts counts.parquet
      penstock state export app windows windows.csv
    """
    if file.suffix not in FILES:
        raise click.BadParameter(f"the name of the file ends with {', '.join(FILES)}; got {file.name}")
    stores = open_stores(application)
    try:
        rows = written(stores.view(store), file)
    finally:
        stores.close()
    say(f"{count(rows, 'row')} written to {file}.")


@click.command(cls=Command, epilog=APPLICATION_HELP)
@application_argument
@click.option(
    "--stalled",
    callback=read_by(lambda text: to_ms(text, "--stalled")),
    default="1 minute",
    show_default=True,
    help="How long records may wait without progress.",
)
@log_option
@json_option
@click.pass_context
def status(context: click.Context, application: str, stalled: int, log_dir: Path | str | None, as_json: bool) -> None:
    """Show an application's newest commit, input position and tasks.

    The exit code is 3 if the application needs attention: it is stalled, or a Spark query that belongs to it has
    failed. Otherwise the code is 0. Stalled means that records have waited for the time of --stalled without progress,
    because the program has stopped or hangs. A long commit that makes progress is not stalled.

    \b
    Examples:
      penstock status app
      penstock status app --json
      penstock status app --stalled "5 minutes" || echo look
    """
    stores = open_stores(application)
    health = HealthCheck(stores, log_of(stores, log_dir)).look(stalled)
    found = _status(stores) | {"health": health.status, "behind": health.behind}
    found["stalled_seconds"] = health.stalled_seconds
    if as_json:
        print_json(found)
    else:
        _show_status(found)
    if not health.is_well:
        context.exit(_UNWELL)


def _show_status(found: dict[str, Any]) -> None:
    click.echo(f"{found['application_id']} is at commit {found['commit']:,}, made {moment(found['at'])}.")
    click.echo(f"  last started by {found['started_by']}")
    click.echo(f"  {found['health']}, {count(found['behind'] or 0, 'record')} to go")
    names = found["stores"]
    stores = f"{count(len(names), 'store')}: {', '.join(names)}" if names else "no stores"
    click.echo(f"  {count(found['tasks'], 'task')}, {stores}")
    _show_slots(found["slots"], found["tasks_moved"])
    for child in found["children"]:
        click.echo(f"  {Child(**child).says}")
    rows = (
        (topic, partition, f"{offset:,}")
        for topic, offsets in found["offsets"].items()
        for partition, offset in offsets.items()
    )
    print_table(("topic", "partition", "processed up to"), rows, right=("processed up to",))


def _show_slots(slots: list[dict[str, Any]], moved: int) -> None:
    """Print how many slots are missing, and the places of slots, if there are several machines."""
    come = sum("shared_by" not in slot for slot in slots)
    if come < len(slots):
        click.echo(f"  {come} of {len(slots)} slots have come, and do the work of all; the log of the program says why")
    if len({slot["host"] for slot in slots}) < 2:
        return
    click.echo(f"  {count(moved, 'task')} moved to another machine since the start")
    rows = (
        (str(number), slot["executor"], slot["host"], str(slot.get("tasks", 0)), slot.get("copy", ""))
        for number, slot in enumerate(slots)
    )
    print_table(("slot", "executor", "machine", "tasks", "copy on"), rows, right=("slot", "tasks"))


def _status(stores: ApplicationStores) -> dict[str, Any]:
    from penstock.engine.shared.places import Places
    from penstock.query.committed import position_of
    from penstock.query.position import Position

    newest = stores.commits.newest()
    start = stores.commits.start_of(newest)
    positions = (position_of(int(task.partition("_")[2]), entry) for task, entry in newest.tasks.items())
    offsets = Position.merged(positions).offsets
    places = newest.places or Places()
    return {
        "application_id": start.application_id if start else newest.application,
        "commit": newest.commit,
        "at": newest.at,
        "started_by": str(start) if start else "a version before this one",
        "tasks": start.picture.tasks if start and start.picture else len(newest.tasks),
        "slots": msgspec.to_builtins(places.slots),
        "tasks_moved": places.moved_total,
        "stores": list(stores.shapes()),
        "children": [msgspec.to_builtins(one) for one in stores.commits.children()] if has_outside(start) else [],
        "offsets": {topic: _ends(partitions) for topic, partitions in sorted(offsets.items())},
    }


def _ends(offsets: Mapping[int, int]) -> dict[str, int]:
    """Return the offsets of the next records."""
    return {str(partition): offset + 1 for partition, offset in sorted(offsets.items())}


def _parsed(view: View, key: str, what: str) -> Any:
    try:
        return key_of(view.shape.key, key)
    except SerdeError as error:
        raise click.BadParameter(str(error), param_hint=what) from None


def _show(view: AnyView, rows: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        for row in rows:
            print_json(row)
    elif rows:
        print_table(rows[0], ([_cell(name, value) for name, value in row.items()] for row in rows))


def _cell(name: str, value: Any) -> str:
    if name in ("key", "value", "headers"):
        return readable(value)
    return "" if value is None else moment(value)
