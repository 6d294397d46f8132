"""``penstock why``: the windows or sessions of one key over time."""

from __future__ import annotations

from heapq import merge
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.command import Command
from penstock.cli.options import LocalPath, load_settings, program_settings_options
from penstock.cli.program import PROGRAM_HELP, load_program, program_argument
from penstock.cli.terminal import count, say
from penstock.errors import ConfigError
from penstock.log.base import Log
from penstock.log.consume import ranges_of, records_of
from penstock.log.open import open_log
from penstock.plan.topology import Topology
from penstock.query.rows import key_of
from penstock.serdes import BYTES

if TYPE_CHECKING:  # importing it takes a while
    from penstock.testing.driver import TopologyTestDriver


@click.command(cls=Command, epilog=PROGRAM_HELP)
@program_argument
@click.argument("node")
@click.argument("key")
@click.option(
    "--limit", type=click.IntRange(min=1), default=100_000, show_default=True, help="How many records to read."
)
@click.option("--svg", type=LocalPath(dir_okay=False), help="Draw it into this file as well.")
@program_settings_options
def why(program: str, node: str, key: str, limit: int, svg: Path | None, **options: Any) -> None:
    """Say which records of a key went into which windows of a step, which were late, and why.

    NODE is a step that aggregates in windows or sessions, as `penstock
    topology` shows it. The records of the program's topics, the oldest first,
    go through the program once more, in this process; nothing is written.
    KEY is text or a number, as keys are; JSON for keys that are JSON.

    \b
    Examples:
      penstock why app.py by-minute ann
      penstock why app.py sessions ann --svg ann.svg
    """
    from penstock.testing.driver import TopologyTestDriver

    settings = load_settings(**options)
    topology, log = load_program(program), open_log(settings.topics_in)
    partitions = {topic: log.topic(topic).partitions for topic in topology.source_topics}
    with TopologyTestDriver(topology, partitions=partitions or 1, on_error="skip") as driver:
        records = _through(driver, topology, log, limit)
        lines = driver.timeline(_key(topology, node, key), node)
    if records == limit:
        say(f"Only the first {count(limit, 'record')} were read; --limit reads more.")
    for line in lines:
        click.echo(str(line))
    if not any(line.records for line in lines):
        say(f"No record of the key {key} has reached {node}.")
    if svg is not None:
        drawn = [line.to_svg() for line in lines if line.records]
        if not drawn:
            raise ConfigError(f"there is nothing to draw of the key {key!r}")
        svg.write_text("\n".join(drawn))
        say(f"Drawn into {svg}.")


def _through(driver: TopologyTestDriver, topology: Topology, log: Log, limit: int) -> int:
    """Run the records of all topics through, the earliest first. Return their number."""
    topics = [records_of(log, topic, ranges_of(log, topic), BYTES, BYTES) for topic in topology.source_topics]
    done = 0
    for record in islice(merge(*topics, key=lambda record: record.timestamp), limit):
        place = record.topic, record.key, record.value, record.timestamp, record.headers, record.partition
        driver.pipe_input(*place)
        done += 1
    return done


def _key(topology: Topology, node: str, key: str) -> Any:
    """Return the key in the type that it has at the step."""
    types = (part.node.partition_key for sub in topology.sub_topologies for part in sub.parts if part.name == node)
    serde = next(types, None)
    return key if serde is None else key_of(serde, key)
