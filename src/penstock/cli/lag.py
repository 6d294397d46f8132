"""``penstock lag``: how far an application is behind its source topics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from penstock.cli.command import Command
from penstock.cli.options import json_option, log_option, open_file_log
from penstock.cli.state import APPLICATION_HELP, application_argument
from penstock.cli.terminal import count, print_json, print_table
from penstock.query.application import open_stores
from penstock.query.committed import position_of
from penstock.query.position import Position


@click.command(cls=Command, epilog=APPLICATION_HELP)
@application_argument
@log_option
@json_option
def lag(application: str, log_dir: Path | str | None, as_json: bool) -> None:
    """Show how many records an application has not read yet.

    The command lists each partition of the source topics. In a Kafka cluster, the markers that end transactions count
    as records, as in Kafka's own tools.

    \b
    Examples:
      penstock lag app
      penstock lag app --log kafka://localhost:9092
      penstock lag app --json | jq -s 'map(.lag) | add'
    """
    log = open_file_log(log_dir)
    newest = open_stores(application).commits.newest()
    positions = (position_of(int(task.partition("_")[2]), entry) for task, entry in newest.tasks.items())
    rows: list[dict[str, Any]] = []
    for topic, offsets in sorted(Position.merged(positions).offsets.items()):
        for partition, end in enumerate(log.end_offsets(topic) if log.exists(topic) else ()):
            at = offsets.get(partition, -1) + 1
            rows.append({"topic": topic, "partition": partition, "at": at, "end": end, "lag": max(end - at, 0)})
    if as_json:
        for row in rows:
            print_json(row)
        return
    cells = ([str(value) if isinstance(value, str) else f"{value:,}" for value in row.values()] for row in rows)
    columns = ("topic", "partition", "processed up to", "end", "lag")
    print_table(columns, cells, right=columns[1:])
    click.echo(f"{count(sum(row['lag'] for row in rows), 'record')} to go as of commit {newest.commit:,}.")
