"""``penstock plan``: the slots, memory and disk that a program needs, from measured figures."""

from __future__ import annotations

import click

from penstock.cli import sizing
from penstock.cli.command import Command
from penstock.cli.options import json_option
from penstock.cli.terminal import print_json, print_table
from penstock.errors import ConfigError
from penstock.settings import Settings
from penstock.values.sizes import to_bytes

_KINDS = tuple(sizing.measured().cpu_seconds_per_million_records)


@click.command(cls=Command)
@click.option(
    "--records-per-second", type=float, required=True, help="How many records arrive in a second, at the busiest time."
)
@click.option("--keys", type=int, required=True, help="How many rows all stores have together.")
@click.option(
    "--row", "row", default="100 B", show_default=True, help="The average size of a row: a key and its value."
)
@click.option(
    "--kind", type=click.Choice(_KINDS), default="windows", show_default=True, help="What the program mostly does."
)
@click.option("--partitions", type=int, default=16, show_default=True, help="Partitions of the source topic.")
@click.option(
    "--read", default="100 MB", show_default=True, help="How much of the checkpoint a machine can read in a second."
)
@click.option(
    "--standby-replicas",
    "copies",
    type=click.IntRange(0, 1),
    default=0,
    show_default=True,
    help="How many copies of the state other machines keep.",
)
@click.option(
    "--executor-cores",
    type=click.IntRange(min=1),
    default=4,
    show_default=True,
    help="How many cores each executor gets, in the options of spark-submit.",
)
@json_option
def plan(
    records_per_second: float,
    keys: int,
    row: str,
    kind: str,
    partitions: int,
    read: str,
    copies: int,
    executor_cores: int,
    as_json: bool,
) -> None:
    """Estimate slots, memory, disk and restore time.

    The last line has the options of spark-submit. The numbers come from a benchmark. Your records and functions differ:
    take the result as a first estimate, and measure your own program. If a program does several of the kinds of work,
    run the command for each kind, and add up the cores.

    \b
    Examples:
      penstock plan --records-per-second 100000 --keys 10000000
      penstock plan --records-per-second 5000 --keys 1000000 --kind sessions --row "1 KB" --partitions 8
    """
    if records_per_second < 0 or keys < 0 or partitions < 1:
        raise ConfigError("--records-per-second and --keys must be at least 0, and --partitions at least 1")
    row_bytes, read_bytes = to_bytes(row, "--row"), to_bytes(read, "--read")
    if row_bytes < 0 or read_bytes < 1:
        raise ConfigError("--row must be at least 0, and --read at least 1 byte")
    wanted = sizing.Wanted(records_per_second, keys, row_bytes, kind, partitions, read_bytes, copies)
    figures, settings = sizing.measured(), Settings()
    found = sizing.needed(wanted, figures, settings)
    conf = sizing.spark_conf(found, figures, executor_cores)
    if as_json:
        print_json(sizing.as_json(found) | {"conf": conf})
        return
    print_table(("", "needed", "reckoned as"), sizing.arithmetic(wanted, figures, found, settings))
    click.echo(f"Measured on {figures.where}.")
    if found.cores > sizing.BUSY * found.slots:
        click.echo(
            f"{partitions} partitions are too few for so many records: no more than {found.slots} slots can work at "
            "once, and they would be busy all the time."
        )
    click.echo(f"\nspark-submit {' '.join(f'--conf {one}' for one in conf)}")
    click.echo(
        "The memory of slots is outside of the JVM, so it belongs to memoryOverhead. Leave "
        "spark.executor.pyspark.memory unset: it limits the addresses of a process, which are many times its memory."
    )
