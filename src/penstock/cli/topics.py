"""``penstock topics``: creates, lists and removes topics."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import click

from penstock.cli.command import Group
from penstock.cli.options import (
    TYPES,
    complete_topic,
    json_option,
    log_option,
    open_file_log,
    read_by,
)
from penstock.cli.terminal import count, moment, print_json, print_table, say, size, stderr
from penstock.errors import CorruptDataError, PenstockError
from penstock.log.base import Log, TopicInfo
from penstock.log.contract.topics import NO_LIMIT
from penstock.log.file.log import FileLog
from penstock.values.durations import to_ms
from penstock.values.sizes import to_bytes

COMMANDS = {
    "cat": ("cat", "Show the records that a topic has now, one a line."),
    "tail": ("cat", "Show the last records of a topic; -f shows new ones, too."),
    "produce": ("produce", "Write lines from a file or standard input into a topic."),
}
"""The commands of other files."""


@click.group(cls=Group, commands_in=COMMANDS)
def topics() -> None:
    """Create, read, write and remove topics.

    \b
    Examples:
      penstock topics create departures --partitions 4
      penstock topics ls
      penstock topics tail departures -f
    """


@dataclass(frozen=True)
class _Row:
    """The columns of a topic's line."""

    name: str
    partitions: int
    records: int
    bytes: int | None
    key: str
    value: str
    newest: int | None
    retention_ms: int
    retention_bytes: int


@topics.command("ls")
@log_option
@json_option
@click.pass_context
def list_topics(context: click.Context, log_dir: Path | None, as_json: bool) -> None:
    """List the topics of the log.

    \b
    Examples:
      penstock topics ls
      penstock topics ls --json | jq 'select(.records > 1000) | .name'
    """
    log = open_file_log(log_dir)
    rows, failures = _rows(log)
    if as_json:
        for row in rows:
            print_json(asdict(row))
    elif rows:
        columns = ("name", "partitions", "records", "bytes", "key", "value", "newest")
        print_table(columns, map(_cells, rows), right=("partitions", "records", "bytes"))
    elif not failures:
        where = log.root.absolute() if isinstance(log, FileLog) else f"{log.url}, or this user may describe none"
        say(f"There are no topics in {where}. Make one: penstock topics create NAME")
    for failure in failures:
        stderr().print(f"Error: {failure}", style="red", markup=False, soft_wrap=True)
    context.exit(1 if failures else 0)


@topics.command()
@click.argument("name", shell_complete=complete_topic)
@log_option
@json_option
def describe(name: str, log_dir: Path | None, as_json: bool) -> None:
    """Describe a topic, and the records in each of its partitions.

    \b
    Examples:
      penstock topics describe departures
      penstock topics describe departures --json | jq '.partitions[].records'
    """
    log = open_file_log(log_dir)
    info, stats = log.topic(name), log.stats(name)
    bounds = enumerate(zip(log.start_offsets(name), log.end_offsets(name), strict=True))
    partitions = [{"partition": p, "start": start, "end": end, "records": end - start} for p, (start, end) in bounds]
    found = {
        "name": name,
        "id": log.topic_id(name),
        "key": info.key,
        "value": info.value,
        "records": stats.records,
        "bytes": stats.nbytes,
        "newest": stats.newest,
        "retention_ms": info.retention_ms,
        "retention_bytes": info.retention_bytes,
    }
    if as_json:
        print_json({**found, "partitions": partitions})
        return
    newest = "" if stats.newest is None else f", the newest of {moment(stats.newest)}"
    much = "" if stats.nbytes is None else f", {size(stats.nbytes)}"
    holds = f"{count(stats.records, 'record')} of {info.key} -> {info.value}{much}"
    click.echo(f"{name} has {holds}{newest}.")
    click.echo(f"  {_kept(info)}")
    rows = ([f"{number:,}" for number in one.values()] for one in partitions)
    print_table(
        ("partition", "first offset", "next offset", "records"),
        rows,
        right=("partition", "first offset", "next offset", "records"),
    )


def _kept(info: TopicInfo) -> str:
    """Describe how long records are kept."""
    limits = [f"for {info.retention_ms / 1000:,.0f} s"] if info.retention_ms != NO_LIMIT else []
    limits += [f"up to {size(info.retention_bytes)} a partition"] if info.retention_bytes != NO_LIMIT else []
    return f"Records are kept {' and '.join(limits) or 'for ever'}."


def _rows(log: Log) -> tuple[list[_Row], list[str]]:
    """Return the lines of all readable topics, and the errors of the others."""
    rows: list[_Row] = []
    failures: list[str] = [
        f"{path.absolute()} is left out: this user may not look into it. Give the user the right to read the folder"
        for path in (log.closed_folders() if isinstance(log, FileLog) else ())
    ]
    for name in log.topics():
        try:
            info, stats = log.topic(name), log.stats(name)
            rows.append(
                _Row(
                    name,
                    info.partitions,
                    stats.records,
                    stats.nbytes,
                    key=info.key,
                    value=info.value,
                    newest=stats.newest,
                    retention_ms=info.retention_ms,
                    retention_bytes=info.retention_bytes,
                )
            )
        except PenstockError as error:
            failures.append(str(error))
        except OSError as error:
            failures.append(f"topic {name!r} is left out: {error}. Give this user the right to read it")
    return rows, failures


def _cells(row: _Row) -> tuple[str, ...]:
    newest = "" if row.newest is None else moment(row.newest)
    much = "" if row.bytes is None else size(row.bytes)
    return row.name, str(row.partitions), f"{row.records:,}", much, row.key, row.value, newest


@topics.command()
@click.argument("name")
@click.option(
    "--partitions", type=click.IntRange(min=1), default=1, show_default=True, help="The number of partitions."
)
@click.option("--key", type=TYPES, default="str", show_default=True, help="The type of the keys.")
@click.option("--value", type=TYPES, default="json", show_default=True, help="The type of the values.")
@click.option("--retention", callback=read_by(to_ms), metavar="DURATION", help="How long the topic keeps records.")
@click.option("--retention-bytes", callback=read_by(to_bytes), metavar="SIZE", help="How much data a partition keeps.")
@log_option
def create(
    name: str,
    partitions: int,
    key: str,
    value: str,
    retention: int | None,
    retention_bytes: int | None,
    log_dir: Path | None,
) -> None:
    """Create a topic.

    Penstock shows and writes the records of the topic in these types. It keeps records forever, unless you set a
    retention. `penstock topics retain` changes the retention later.

    \b
    Examples:
      penstock topics create departures --partitions 4
      penstock topics create counts --value int --retention "7 days" --retention-bytes "1 GB"
    """
    limits = [NO_LIMIT if limit is None else limit for limit in (retention, retention_bytes)]
    log = open_file_log(log_dir)
    log.create_topic(TopicInfo(name, partitions, key, value, limits[0], limits[1]))
    say(f"Made topic {name} with {count(partitions, 'partition')} in {log.url}.")


@topics.command()
@click.argument("name", shell_complete=complete_topic)
@click.option(
    "--partitions", type=click.IntRange(min=1), required=True, metavar="N", help="The new number of partitions."
)
@log_option
def repartition(name: str, partitions: int, log_dir: Path | str | None) -> None:
    """Give a topic more partitions.

    Stop the programs that write into the topic first, because they know only its previous partitions. As in Kafka,
    existing records stay in their partitions, and new records go to all partitions, by their keys. So a key's old and
    new records may be in two partitions. If an application keeps state by key, let it read all records before the
    change, and move its state with `penstock rescale` afterwards.

    \b
    Examples:
      penstock topics repartition departures --partitions 8
    """
    log = open_file_log(log_dir)
    before = log.topic(name).partitions
    log.add_partitions(name, partitions)
    say(f"Topic {name} has {count(partitions, 'partition')}, and had {before}.")
    if partitions != before and log.size(name):
        records = count(log.size(name), "record")
        say(
            f"Its {records} stay in the partitions in which they are: whoever reads it from its beginning finds what a "
            "key had before and what it gets now in two partitions. An application that has read all of it goes on "
            "with `penstock rescale`",
            style="yellow",
        )


@topics.command()
@click.argument("name", shell_complete=complete_topic)
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@log_option
def rm(name: str, yes: bool, log_dir: Path | None) -> None:
    """Remove a topic with all its records.

    \b
    Examples:
      penstock topics rm departures
      penstock topics rm departures --yes
    """
    log = open_file_log(log_dir)
    try:
        holds = f"with {count(log.size(name), 'record')}"
    except CorruptDataError as error:
        stderr().print(f"Warning: {error}", style="yellow", markup=False, soft_wrap=True)
        holds = "with all that is left of it"
    if not yes:
        click.confirm(f"Remove topic {name} {holds} for good?", abort=True, err=True)
    log.delete_topic(name)
    say(f"Removed topic {name} {holds}.")


@topics.command()
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=complete_topic)
@click.option(
    "--retention",
    callback=read_by(to_ms, no_limit="forever"),
    metavar="DURATION",
    help="How long topics keep records from now on, or forever.",
)
@click.option(
    "--retention-bytes",
    callback=read_by(to_bytes, no_limit="unlimited"),
    metavar="SIZE",
    help="How much data a partition keeps from now on, or unlimited.",
)
@log_option
def retain(names: tuple[str, ...], retention: int | None, retention_bytes: int | None, log_dir: Path | None) -> None:
    """Set how long topics keep records, and remove older ones.

    Programs that write into a topic remove such records from time to time. This command removes them at once, and also
    merges small files. Without a name, it goes through all topics.

    \b
    Examples:
      penstock topics retain departures --retention "7 days"
      penstock topics retain departures --retention forever --retention-bytes "1 GB"
      penstock topics retain
    """
    log = open_file_log(log_dir)
    if retention is not None or retention_bytes is not None:
        if not names:
            raise click.UsageError("say which topics: penstock topics retain NAME --retention ...")
        for name in names:
            log.set_retention(name, retention, retention_bytes)
    for name in names or log.topics():
        before = log.size(name)
        log.tidy(name)
        say(f"Removed {count(before - log.size(name), 'record')} of topic {name}.")
