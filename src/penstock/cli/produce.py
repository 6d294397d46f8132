"""``penstock topics produce``: records into a topic, from a file or a pipe."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

import click

from penstock.cli.command import Command
from penstock.cli.json_lines import TypesOfLine, parse_line
from penstock.cli.lines import LineParser
from penstock.cli.options import TYPES, complete_topic, log_option, open_file_log
from penstock.cli.terminal import count, say
from penstock.errors import SerdeError
from penstock.log.base import Log, TopicInfo
from penstock.log.produce import append, topic_types
from penstock.serdes import JsonSerde, from_name

_SHOWN_BAD_LINES = 5


@click.command(cls=Command)
@click.argument("name", shell_complete=complete_topic)
@click.argument("file", type=click.File("rb"), default="-")
@click.option("--key", type=TYPES, help="The type of the keys. [default: the topic's, str for a new one]")
@click.option("--value", type=TYPES, help="The type of the values. [default: the topic's, json for a new one]")
@click.option("--partitions", type=click.IntRange(min=1), help="Of a new topic. [default: 1]")
@click.option("--key-separator", metavar="TEXT", help="What stands between key and value in a line.")
@click.option("--json", "lines_are_json", is_flag=True, help="Lines are objects with key, value, timestamp, headers.")
@click.option("--key-field", metavar="PATH", help="Where in a JSON value its key stands.")
@click.option("--timestamp-field", metavar="PATH", help="Where in a JSON value its time stands.")
@click.option("--skip-bad-lines", is_flag=True, help="Leave out lines that cannot be read.")
@log_option
def produce(
    name: str,
    file: BinaryIO,
    key: str | None,
    value: str | None,
    partitions: int | None,
    key_separator: str | None,
    lines_are_json: bool,
    key_field: str | None,
    timestamp_field: str | None,
    skip_bad_lines: bool,
    log_dir: Path | None,
) -> None:
    """Write lines of FILE, or of standard input, into a topic.

    A line is a value, or a key and a value with --key-separator between them, or with --json an object with key, value,
    timestamp and headers. Records get the current time unless --timestamp-field or the object says otherwise: in
    milliseconds since 1970 or as 2013-01-31T06:00:00Z. They go to the partition of their key, those without a key to
    all partitions in turn.

    All records become visible at once, when the input ends. A line that cannot be read stops it and nothing is written.

    \b
    Examples:
      penstock topics produce departures flights.ndjson --key-field origin --timestamp-field time
      echo 'JFK:{"delay": 5}' | penstock topics produce departures --key-separator :
      seq 10 | penstock topics produce numbers --value int --partitions 2
      penstock topics cat departures --json | penstock topics produce copy --json
    """
    _check_where_keys_are({"--key-separator": key_separator, "--key-field": key_field, "--json": lines_are_json})
    log = open_file_log(log_dir)
    _check_partitions(log, name, partitions)
    lines, of_lines = _first_types(file) if lines_are_json else (file, TypesOfLine())
    new = _new_topic(log, name, key, value, partitions, of_lines)
    types = [None if type_ is None else from_name(type_) for type_ in (key, value)]
    keys, values = from_name(new.key), from_name(new.value)
    if log.keeps_types and log.exists(name):
        keys, values = topic_types(log, name, *types)
    for option, path in (("--key-field", key_field), ("--timestamp-field", timestamp_field)):
        if path is not None and not isinstance(values, JsonSerde):
            raise click.UsageError(f"{option} needs values of type json; those of topic {name} are {values.name}")
    separator = None if key_separator is None else key_separator.encode()
    count_ = log.topic(name).partitions if log.exists(name) else new.partitions
    parser = LineParser(keys, values, separator, lines_are_json, key_field, timestamp_field, count_)
    bad_lines = _BadLines(getattr(file, "name", "-"), skip_bad_lines)
    if file.isatty():
        say("One record a line; Ctrl-D ends.")
    written = append(log, new, parser.batches(lines, bad_lines))
    skipped = f", skipped {count(bad_lines.number, 'bad line')}" if bad_lines.number else ""
    say(f"Wrote {count(written, 'record')} to topic {name} in {log.url}{skipped}.")


def _first_types(file: BinaryIO) -> tuple[Iterator[bytes], TypesOfLine]:
    """All lines, and what the first one says of the topic that it is of."""
    first = list(islice(file, 1))
    try:
        found = parse_line(first[0]).types if first else None
    except SerdeError:
        found = None
    return chain(first, file), found or TypesOfLine()


def _new_topic(
    log: Log, name: str, key: str | None, value: str | None, partitions: int | None, of_lines: TypesOfLine
) -> TopicInfo:
    """What the topic is made as: as the options say, and else as that which the lines are of."""
    count_ = partitions or (of_lines.partitions if log.keeps_types else 1)
    return TopicInfo(name, count_, key or of_lines.key, value or of_lines.value)


def _check_where_keys_are(options: dict[str, Any]) -> None:
    """Refuse options that say different things about the same."""
    if options["--key-separator"] == "":
        raise click.BadParameter("it must not be empty", param_hint="'--key-separator'")
    given = [name for name, value in options.items() if value]
    if len(given) > 1:
        raise click.UsageError(f"{given[0]} and {given[1]} both say where keys come from; give one of them")


def _check_partitions(log: Log, topic: str, wanted: int | None) -> None:
    if wanted is not None and log.exists(topic) and log.topic(topic).partitions != wanted:
        raise click.UsageError(f"topic {topic} exists with {count(log.topic(topic).partitions, 'partition')}")


class _BadLines:
    """What becomes of lines that cannot be read."""

    def __init__(self, file: str, skip: bool):
        self._file = "standard input" if file in ("-", "<stdin>") else file
        self._skip = skip
        self.number = 0

    def __call__(self, line: int, error: SerdeError) -> None:
        if not self._skip:
            raise SerdeError(f"{self._file}, line {line}: {error}. Nothing was written; --skip-bad-lines leaves it out")
        self.number += 1
        if self.number <= _SHOWN_BAD_LINES:
            say(f"skipped line {line}: {error}", style="yellow")
        elif self.number == _SHOWN_BAD_LINES + 1:
            say("skipped more lines", style="yellow")
