"""``penstock topics produce``: writes records into a topic, from a file or a pipe."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import click

from penstock.cli.command import Command
from penstock.cli.json_lines import TypesOfLine, parse_line
from penstock.cli.lines import LineParser
from penstock.cli.options import TYPES, complete_topic, log_option, open_file_log
from penstock.cli.terminal import count, say
from penstock.errors import SerdeError
from penstock.log.base import Log, TopicInfo
from penstock.log.produce import append, topic_types
from penstock.serdes import JsonSerde, Serde, from_name
from penstock.values.times import UNITS

_SHOWN_BAD_LINES = 5


@click.command(cls=Command)
@click.argument("name", shell_complete=complete_topic)
@click.argument("file", type=click.File("rb"), default="-")
@click.option("--key", type=TYPES, help="The type of the keys. [default: the topic's, str for a new one]")
@click.option("--value", type=TYPES, help="The type of the values. [default: the topic's, json for a new one]")
@click.option("--partitions", type=click.IntRange(min=1), help="The number of partitions of a new topic. [default: 1]")
@click.option("--key-separator", metavar="TEXT", help="The text between key and value in a line.")
@click.option(
    "--json", "lines_are_json", is_flag=True, help="Each line is an object with key, value, timestamp and headers."
)
@click.option("--key-field", metavar="PATH", help="The field of a JSON value that is the key: id, or user.id.")
@click.option("--timestamp-field", metavar="PATH", help="The field of a JSON value that is the time.")
@click.option(
    "--timestamp-unit",
    type=click.Choice([*UNITS]),
    default="ms",
    show_default=True,
    help="The unit of times that are numbers.",
)
@click.option("--skip-bad-lines", is_flag=True, help="Leave out lines that cannot be read.")
@log_option
def produce(
    name: str,
    file: BinaryIO,
    key: str | None,
    value: str | None,
    partitions: int | None,
    skip_bad_lines: bool,
    log_dir: Path | None,
    **reading: Any,
) -> None:
    """Write lines from a file or standard input into a topic.

    A line is a value. With --key-separator, it is a key and a value. With --json, it is an object with key, value,
    timestamp and headers. Records get the current time, unless --timestamp-field or the object gives one: as
    milliseconds since 1970 (or --timestamp-unit), or as 2013-01-31T06:00:00Z. A record goes to the partition of its
    key. Records without a key go to all partitions in turn.

    To copy a topic, pipe `penstock topics cat --json` into this command with --json. The copy has the same bytes,
    headers and times. A new topic gets the same types and partitions. If both topics have the same number of
    partitions, each record stays in its partition.

    All records become visible together, when the input ends. If a line cannot be read, the command stops and writes
    nothing.

    \b
    Examples:
      penstock topics produce departures flights.ndjson --key-field origin --timestamp-field time
      penstock topics produce changes changes.ndjson --timestamp-field timestamp --timestamp-unit s
      echo 'JFK:{"delay": 5}' | penstock topics produce departures --key-separator :
      seq 10 | penstock topics produce numbers --value int --partitions 2
      penstock topics cat departures --json | penstock topics produce copy --json
    """
    how = _Reading(**reading)
    how.check()
    log = open_file_log(log_dir)
    _check_partitions(log, name, partitions)
    lines, of_lines = _first_types(file) if how.lines_are_json else (file, TypesOfLine())
    new = _new_topic(log, name, key, value, partitions, of_lines)
    parser = how.parser(name, *_types(log, new, key, value), _partitions(log, new))
    bad_lines = _BadLines(getattr(file, "name", "-"), skip_bad_lines)
    if file.isatty():
        say("One record a line; Ctrl-D ends.")
    written = append(log, new, parser.batches(lines, bad_lines), "--timestamp-unit {unit} says that they are in {name}")
    if parser.unread:
        names = ", ".join(parser.unread)
        say(f"Not read: {names}. With --json the fields of a line are key, value, timestamp and headers.")
    skipped = f", skipped {count(bad_lines.number, 'bad line')}" if bad_lines.number else ""
    say(f"Wrote {count(written, 'record')} to topic {name} in {log.url}{skipped}.")


class _Reading(NamedTuple):
    """The options of parsing lines."""

    key_separator: str | None
    lines_are_json: bool
    key_field: str | None
    timestamp_field: str | None
    timestamp_unit: str

    def check(self) -> None:
        """Refuse options that contradict each other."""
        if self.key_separator == "":
            raise click.BadParameter("it must not be empty", param_hint="'--key-separator'")
        if self.timestamp_unit != "ms" and not (self.timestamp_field or self.lines_are_json):
            raise click.UsageError(
                "--timestamp-unit is the unit of times in --timestamp-field or --json: give one of these options, too"
            )
        options = {"--key-separator": self.key_separator, "--key-field": self.key_field, "--json": self.lines_are_json}
        given = [name for name, value in options.items() if value]
        if len(given) > 1:
            raise click.UsageError(f"{given[0]} and {given[1]} both say where keys come from; give one of them")

    def parser(self, topic: str, keys: Serde, values: Serde, partitions: int) -> LineParser:
        """Return the parser of lines for a topic of these types."""
        for option, path in (("--key-field", self.key_field), ("--timestamp-field", self.timestamp_field)):
            if path is not None and not isinstance(values, JsonSerde):
                raise click.UsageError(f"{option} needs values of type json; those of topic {topic} are {values.name}")
        separator = None if self.key_separator is None else self.key_separator.encode()
        fields = self.lines_are_json, self.key_field, self.timestamp_field
        return LineParser(keys, values, separator, *fields, partitions, UNITS[self.timestamp_unit])


def _types(log: Log, new: TopicInfo, key: str | None, value: str | None) -> tuple[Serde, Serde]:
    """Return the types of keys and values: those given, else the topic's, else those of the new topic."""
    if log.keeps_types and log.exists(new.name):
        return topic_types(log, new.name, *(None if type_ is None else from_name(type_) for type_ in (key, value)))
    return from_name(new.key), from_name(new.value)


def _partitions(log: Log, new: TopicInfo) -> int:
    return log.topic(new.name).partitions if log.exists(new.name) else new.partitions


def _first_types(file: BinaryIO) -> tuple[Iterator[bytes], TypesOfLine]:
    """Return all lines, and the topic that the first one describes."""
    first = list(islice(file, 1))
    try:
        found = parse_line(first[0]).types if first else None
    except SerdeError:
        found = None
    return chain(first, file), found or TypesOfLine()


def _new_topic(
    log: Log, name: str, key: str | None, value: str | None, partitions: int | None, of_lines: TypesOfLine
) -> TopicInfo:
    """Return the topic to create: from the options, else from the lines' topic."""
    count_ = partitions or (of_lines.partitions if log.keeps_types else 1)
    schema = "" if key or value else of_lines.schema or ""
    return TopicInfo(name, count_, key or of_lines.key, value or of_lines.value, schema=schema)


def _check_partitions(log: Log, topic: str, wanted: int | None) -> None:
    if wanted is not None and log.exists(topic) and log.topic(topic).partitions != wanted:
        raise click.UsageError(
            f"topic {topic} exists with {count(log.topic(topic).partitions, 'partition')}; leave --partitions out, or "
            f"change it with `penstock topics repartition {topic} --partitions {wanted}`"
        )


class _BadLines:
    """Handles unreadable lines."""

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
