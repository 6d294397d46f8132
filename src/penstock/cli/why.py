"""``penstock why``: the windows or sessions of one key over time."""

from __future__ import annotations

from heapq import merge
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa

from penstock.arrays import partitions
from penstock.cli.command import Command
from penstock.cli.options import LocalPath, load_settings, program_settings_options
from penstock.cli.program import PROGRAM_HELP, load_program, program_argument
from penstock.cli.terminal import count, say
from penstock.engine.shared.layout import layout_of
from penstock.errors import ConfigError
from penstock.log.base import Log
from penstock.log.consume import ranges_of, records_of
from penstock.log.open import open_log
from penstock.plan.topology import Topology
from penstock.query.rows import key_of
from penstock.serdes import BYTES

if TYPE_CHECKING:  # takes a while, which other commands need not wait for
    from penstock.testing.driver import TopologyTestDriver
    from penstock.testing.timeline import Timeline


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
    with TopologyTestDriver(topology, on_error="skip") as driver:
        records = _through(driver, topology, log, limit)
        [line] = _lines(driver, topology, log, node, key)
    if records == limit:
        say(f"Only the first {count(limit, 'record')} were read; --limit reads more.")
    click.echo(str(line))
    if not line.records:
        say(f"No record of the key {key} has reached {node}.")
    if svg is not None:
        if not line.records:
            raise ConfigError(f"there is nothing to draw of the key {key!r}")
        svg.write_text(line.to_svg())
        say(f"Drawn into {svg}.")


def _through(driver: TopologyTestDriver, topology: Topology, log: Log, limit: int) -> int:
    """Have the records of all topics go through, the one that came first in time first; how many."""
    topics = [records_of(log, topic, ranges_of(log, topic), BYTES, BYTES) for topic in topology.source_topics]
    done = 0
    for record in islice(merge(*topics, key=lambda record: record.timestamp), limit):
        driver.pipe_input(record.topic, record.key, record.value, record.timestamp, record.headers)
        done += 1
    return done


def _lines(driver: TopologyTestDriver, topology: Topology, log: Log, node: str, key: str) -> list[Timeline]:
    """The key's records, among those of its task, which move stream time."""
    parts = ((sub, part) for sub in topology.sub_topologies for part in sub.parts if part.name == node and part.stores)
    sub, part = next(parts, (None, None))
    if sub is None or part is None:
        return driver.timeline(key, node)
    serde, tasks = topology.facts.named()[part.stores[0]].types[0], layout_of(topology, log).tasks[sub.id]
    wanted = key_of(serde, key)
    own = _partition(serde.encode_to_bytes(wanted), tasks)
    return driver.timeline(wanted, node, lambda other: _partition(serde.encode_to_bytes(other), tasks) == own)


def _partition(key: bytes, count: int) -> int:
    return int(partitions(pa.array([key], pa.binary()), count, 0)[0])
