"""``penstock why``: the windows or sessions of one key over time."""

from __future__ import annotations

from heapq import merge
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.command import Command
from penstock.cli.options import LocalPath, json_option, load_settings, program_settings_options
from penstock.cli.program import PROGRAM_HELP, load_program, program_argument
from penstock.cli.terminal import count, print_json, say
from penstock.errors import ConfigError
from penstock.log.base import Log
from penstock.log.consume import ranges_of, records_of
from penstock.log.open import open_log
from penstock.plan.topology import Topology
from penstock.query.rows import key_of
from penstock.serdes import BYTES

if TYPE_CHECKING:  # importing it takes a while
    from penstock.testing.driver import TopologyTestDriver
    from penstock.testing.timeline import Timeline

Ranges = dict[str, dict[int, tuple[int, int]]]
"""The offsets to read, by topic and partition."""


@click.command(cls=Command, epilog=PROGRAM_HELP)
@program_argument
@click.argument("node")
@click.argument("key")
@click.option(
    "--limit", type=click.IntRange(min=1), default=100_000, show_default=True, help="How many records to read."
)
@click.option("--newest", is_flag=True, help="Read the newest records of each topic, not the oldest.")
@click.option("--svg", type=LocalPath(dir_okay=False), help="Also draw the windows into this file.")
@program_settings_options
@json_option
def why(
    program: str, node: str, key: str, limit: int, newest: bool, svg: Path | None, as_json: bool, **options: Any
) -> None:
    """Show which records are in the windows of one key, and why.

    NODE is a step that aggregates in windows or sessions, as `penstock topology` shows it. KEY is text or a number;
    write JSON for keys that are JSON. The command runs the records of the program's topics through the program once
    more, the oldest first, in this process. It also shows which records were late. It writes nothing.

    \b
    Examples:
      penstock why app.py by-minute ann
      penstock why app.py sessions ann --svg ann.svg
      penstock why app.py by-minute ann --newest --limit 1000 --json
    """
    from penstock.testing.driver import TopologyTestDriver

    settings = load_settings(**options)
    topology, log = load_program(program), open_log(settings.topics_in)
    partitions = {topic: log.topic(topic).partitions for topic in topology.source_topics}
    ranges = {topic: ranges_of(log, topic) for topic in topology.source_topics}
    present = sum(end - start for of_topic in ranges.values() for start, end in of_topic.values())
    if newest:
        ranges = _newest(ranges, limit)
    with TopologyTestDriver(topology, partitions=partitions or 1, on_error="skip") as driver:
        places = _through(driver, topology, log, ranges, limit)
        as_at_step = _key(topology, node, key)
        lines = driver.timeline(as_at_step, node)
    if as_json:
        for line in lines or [_nothing(node, as_at_step)]:
            print_json(_plain(line, places, present))
    else:
        _show(lines, key, node, _what_was_read(len(places), present, limit, newest))
    if svg is not None:
        drawn = [line.to_svg() for line in lines if line.records]
        if not drawn:
            raise ConfigError(f"there is nothing to draw of the key {key!r}; leave --svg out to see why")
        svg.write_text("\n".join(drawn))
        say(f"Drawn into {svg}.")


def _newest(ranges: Ranges, limit: int) -> Ranges:
    """Return the last offsets of each partition, so many in all."""
    each = max(limit // max(sum(map(len, ranges.values())), 1), 1)
    return {
        topic: {partition: (max(start, end - each), end) for partition, (start, end) in of_topic.items()}
        for topic, of_topic in ranges.items()
    }


def _what_was_read(read: int, present: int, limit: int, newest: bool) -> str:
    if newest and read < present:
        return f"Only the newest {count(read, 'record')} were read, so the oldest windows may lack records."
    return f"Only the first {count(limit, 'record')} were read; --limit reads more." if read == limit else ""


def _show(lines: list[Timeline], key: str, node: str, note: str) -> None:
    if note:
        say(note)
    for line in lines:
        click.echo(str(line))
    if not any(line.records for line in lines):
        say(f"No record of the key {key} has reached {node}.")


def _nothing(node: str, key: Any) -> Timeline:
    """The timeline of a key that has no record in any partition."""
    from penstock.testing.timeline import Timeline

    return Timeline(node, key, 0, -1, ())


def _plain(line: Timeline, places: list[tuple[str, int, int]], present: int) -> dict[str, Any]:
    """Return a timeline for JSON, with the place of each record."""
    records = [
        {
            "timestamp": one.timestamp,
            "value": one.value,
            "stream_time": one.stream_time,
            "windows": one.windows,
            "closed": one.closed,
            "late": one.is_late,
            "told": line.told(one),
            **dict(zip(("topic", "partition", "offset"), places[one.cause - 1], strict=True)),
        }
        for one in line.records
    ]
    figures = {"grace_ms": line.grace_ms, "stream_time": line.stream_time, "windows": line.spans}
    return {"node": line.node, "key": line.key, **figures, "read": len(places), "present": present, "records": records}


def _through(
    driver: TopologyTestDriver, topology: Topology, log: Log, ranges: Ranges, limit: int
) -> list[tuple[str, int, int]]:
    """Run the records of all topics through, the earliest first. Return the place of each."""
    topics = [records_of(log, topic, ranges[topic], BYTES, BYTES) for topic in topology.source_topics]
    places = []
    for record in islice(merge(*topics, key=lambda record: record.timestamp), limit):
        place = record.topic, record.key, record.value, record.timestamp, record.headers, record.partition
        driver.pipe_input(*place)
        places.append((record.topic, record.partition, record.offset))
    return places


def _key(topology: Topology, node: str, key: str) -> Any:
    """Return the key in the type that it has at the step."""
    types = (part.node.partition_key for sub in topology.sub_topologies for part in sub.parts if part.name == node)
    serde = next(types, None)
    return key if serde is None else key_of(serde, key)
