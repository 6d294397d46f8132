"""``penstock topics cat`` and ``tail``: records of a topic, decoded."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import click
from msgspec import UNSET, structs

from penstock.cli.command import Command
from penstock.cli.json_lines import line_of, shown, types_of
from penstock.cli.options import TYPES, complete_topic, json_option, log_option, open_file_log
from penstock.cli.terminal import moment, print_json_line, readable
from penstock.errors import ConfigError, TopicNotFoundError
from penstock.log.base import Log
from penstock.log.consume import Decode, Range, ranges_of, records_of
from penstock.messages import partitions_to
from penstock.query.plain import decoded
from penstock.record import ConsumerRecord
from penstock.serdes import Serde, from_name
from penstock.serdes.registry import Avro, JsonSchema

_POLL_SECONDS = 0.2
_OF_REGISTRY: dict[str, Callable[[str], Serde]] = {"avro": Avro, "jsonschema": JsonSchema}
"""Types whose schemas are in the settings' registry, under the topic's name with ``-key`` or ``-value``."""
_READ = click.Choice([*TYPES.choices, *_OF_REGISTRY])
_SHORT = "{key}\t{value}"
_VALUE = "{value}"
_LONG = "{time}  {partition}:{offset}  {key}  {value}"
_FIELDS = ("key", "value", "timestamp", "time", "topic", "partition", "offset", "headers")

Formatter = Callable[[ConsumerRecord], str]


def _display_options(function: Any) -> Any:
    for option in (
        log_option,
        json_option,
        click.option(
            "--format",
            "format_",
            metavar="TEXT",
            help=f"A text for each record, with the fields {{{'}, {'.join(_FIELDS)}}}.",
        ),
        click.option("--long", "-l", is_flag=True, help="Also show time, partition, offset and headers."),
        click.option("--key", "key_type", type=_READ, help="The type of the keys. [default: the topic's]"),
        click.option("--value", "value_type", type=_READ, help="The type of the values. [default: the topic's]"),
        click.option("--keys/--no-keys", default=True, help="Show keys, or not.  [default: keys]"),
    ):
        function = option(function)
    return function


@click.command(cls=Command)
@click.argument("name", shell_complete=complete_topic)
@click.option("--partition", "-p", type=click.IntRange(min=0), help="Show only this partition.")
@click.option("--from", "start", type=click.IntRange(min=0), metavar="OFFSET", help="Show records from this offset on.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="Show at most N records.")
@_display_options
def cat(
    name: str,
    partition: int | None,
    start: int | None,
    limit: int | None,
    keys: bool,
    long: bool,
    format_: str | None,
    as_json: bool,
    log_dir: Path | None,
    key_type: str | None,
    value_type: str | None,
) -> None:
    """Show the records that a topic has now, one a line.

    The types of the topic decode the records. A record that does not fit its type is shown as bytes. Records of one
    partition keep their order. If a topic has several partitions, the oldest of their next records comes first.

    \b
    Examples:
      penstock topics cat departures --limit 10 --long
      penstock topics cat departures --partition 0 --from 1000
      penstock topics cat departures --format '{time} {key}: {value}'
      penstock topics cat departures --json | jq .value.delay
      penstock topics cat orders --value avro       (with the setting schema_registry, and subject orders-value)
    """
    log = open_file_log(log_dir)
    ranges = _chosen(log, name, partition)
    if start is not None:
        ranges = {p: (min(max(first, start), end), end) for p, (first, end) in ranges.items()}
    lines = _Lines(log, name, key_type, value_type, keys, long, format_, as_json)
    lines.print(islice(lines.records(ranges), limit))


@click.command(cls=Command)
@click.argument("name", shell_complete=complete_topic)
@click.option(
    "-n",
    "--lines",
    "count",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    metavar="N",
    help="How many of the last records to show.",
)
@click.option("--follow", "-f", is_flag=True, help="Show new records as they arrive, until Ctrl-C.")
@click.option("--partition", "-p", type=click.IntRange(min=0), help="Show only this partition.")
@_display_options
def tail(
    name: str,
    count: int,
    follow: bool,
    partition: int | None,
    keys: bool,
    long: bool,
    format_: str | None,
    as_json: bool,
    log_dir: Path | None,
    key_type: str | None,
    value_type: str | None,
) -> None:
    """Show the last records of a topic; -f shows new ones, too.

    \b
    Examples:
      penstock topics tail departures
      penstock topics tail departures -n 0 -f --long
    """
    log = open_file_log(log_dir)
    lines = _Lines(log, name, key_type, value_type, keys, long, format_, as_json)
    ranges = _chosen(log, name, partition)
    last = {p: (_begin_of_last(log, name, p, range_, count), range_[1]) for p, range_ in ranges.items()}
    lines.print(deque(lines.records(last), maxlen=count))
    id_ = log.topic_id(name)
    try:
        while follow:
            time.sleep(_POLL_SECONDS)
            before, ranges = ranges, _chosen(log, name, partition)
            if log.topic_id(name) != id_:
                raise TopicNotFoundError(
                    f"topic {name!r} was removed and created again; begin again to follow the new one"
                )
            new = {p: (before[p][1], end) for p, (_, end) in ranges.items()}
            lines.print(lines.records(new))
    except KeyboardInterrupt:  # Ctrl-C ends following
        pass


def _chosen(log: Log, topic: str, partition: int | None) -> dict[int, Range]:
    ranges = ranges_of(log, topic)
    if partition is None:
        return ranges
    if partition not in ranges:
        raise ConfigError(f"topic {topic!r} has no partition {partition}; {partitions_to(len(ranges))}")
    return {partition: ranges[partition]}


def _begin_of_last(log: Log, topic: str, partition: int, within: Range, count: int) -> int:
    """Return the offset of the first of the last so many records of a partition."""
    newest = log.newest(topic, partition, *within, count)
    return within[1] if newest is None else int(newest.offsets[0])


class _Lines:
    """Reads and prints the records of a topic."""

    def __init__(
        self,
        log: Log,
        topic: str,
        key: str | None,
        value: str | None,
        keys: bool,
        long: bool,
        format_: str | None,
        as_json: bool,
    ):
        self._log, self._topic = log, topic
        info = log.topic(topic)
        self._types = types_of(info, key, value)
        self._serdes = _serde(self._types.key, f"{topic}-key"), _serde(self._types.value, f"{topic}-value")
        self._decode: Decode = shown if as_json else decoded
        as_line = _formatter(keys, long, format_)
        self._print_one = self._print_json if as_json else (lambda record: sys.stdout.write(as_line(record)))

    def records(self, ranges: dict[int, Range]) -> Iterator[ConsumerRecord]:
        return records_of(self._log, self._topic, ranges, *self._serdes, self._decode)

    def _print_json(self, record: ConsumerRecord) -> None:
        print_json_line(line_of(record, self._types))
        if self._types.schema is not UNSET:  # the first line has it
            self._types = structs.replace(self._types, schema=UNSET)

    def print(self, records: Iterable[ConsumerRecord]) -> None:
        for record in records:
            self._print_one(record)
        sys.stdout.flush()


def _serde(name: str, subject: str) -> Serde:
    of_registry = _OF_REGISTRY.get(name)
    return from_name(name) if of_registry is None else of_registry(subject)


# --- lines of text -----------------------------------------------------------------------------------------------


def _formatter(keys: bool, long: bool, format_: str | None) -> Formatter:
    if long and format_ is None:
        return _long_line
    if format_ is None:
        format_ = _SHORT if keys else _VALUE
    template = format_.replace("\\t", "\t").replace("\\n", "\n") + "\n"
    try:
        template.format(**dict.fromkeys(_FIELDS, ""))
    except (KeyError, IndexError, ValueError, AttributeError):
        fields = ", ".join(f"{{{field}}}" for field in _FIELDS)
        raise click.BadParameter(f"cannot read {format_!r}; the fields are {fields}", param_hint="'--format'") from None
    return lambda record: template.format(**_as_fields(record))


def _long_line(record: ConsumerRecord) -> str:
    fields = _as_fields(record)
    line = _LONG.format(**fields)
    return f"{line}  {fields['headers']}\n" if record.headers else f"{line}\n"


def _as_fields(record: ConsumerRecord) -> dict[str, Any]:
    return {
        "key": readable(record.key),
        "value": readable(record.value),
        "timestamp": record.timestamp,
        "time": moment(record.timestamp),
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "headers": ", ".join(f"{key}={readable(value)}" for key, value in record.headers),
    }
