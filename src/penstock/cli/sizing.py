"""Calculates a program's needs for so many records and keys from measured figures, which are in ``measured.json``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec

from penstock.settings import Settings
from penstock.values.decoding import from_json

BUSY = 0.5
"""The share of a slot's core that records may use: the rest is for commits, peaks and catching up."""
SPACE = 2.0
"""How many times its rows a database may take on disk during a compaction and a snapshot."""
COPIED = 4
"""A copy keeps only this fraction of a task's rows in memory."""
SNAPSHOTS = 2
"""How many snapshots of each task the checkpoint keeps."""


class Measured(msgspec.Struct, frozen=True):
    """The figures of the benchmark."""

    where: str
    cpu_seconds_per_million_records: dict[str, float]
    """By kind of program, in one slot."""
    restored_rows_per_second: int
    """Per core."""
    row_overhead_bytes: int
    """The bytes of a row beyond its key and value, timestamp and the database's number, before compression: then
    1,000,000 counts of 20 bytes took 15 bytes each.
    """
    slot_bytes: int
    """A slot's memory without state."""
    driver_bytes: int
    """The driver and its JVM."""


class Wanted(msgspec.Struct, frozen=True):
    """The workload."""

    records_per_second: float
    keys: int
    row_bytes: int
    kind: str
    partitions: int
    read_bytes_per_second: int
    """How fast a machine reads the checkpoint."""
    copies: int = 0
    """How many other machines have a copy of each task's state."""


class Needed(msgspec.Struct, frozen=True):
    """The resources; bytes are those of all slots together, except ``slot_memory``."""

    cores: float
    slots: int
    slot_memory: int
    memory: int
    disk: int
    checkpoint: int
    restore_seconds: float
    """Until an empty machine has all of a slot's state."""


def measured() -> Measured:
    return from_json(Path(__file__).with_name("measured.json").read_bytes(), Measured)


def needed(wanted: Wanted, figures: Measured, settings: Settings) -> Needed:
    """Calculate the resources.

    >>> wanted = Wanted(100_000, 10_000_000, 100, "table", 8, 100 << 20)
    >>> found = needed(wanted, measured(), Settings())
    >>> found.cores, found.slots, found.disk
    (0.201, 1, 2320000000)
    """
    cores = wanted.records_per_second * figures.cpu_seconds_per_million_records[wanted.kind] / 1e6
    slots = min(max(math.ceil(cores / BUSY), 1), wanted.partitions)
    tasks = math.ceil(wanted.partitions / slots)
    rows = wanted.keys * (wanted.row_bytes + figures.row_overhead_bytes)
    uncommitted = max(settings.statestore_uncommitted_max_bytes, 0)
    task = settings.hot_max_bytes + uncommitted + settings.commit_max_bytes + settings.block_cache_bytes
    slot_memory = figures.slot_bytes + tasks * (task + wanted.copies * settings.hot_max_bytes // COPIED)
    read = rows / slots / wanted.read_bytes_per_second
    return Needed(
        cores=round(cores, 3),
        slots=slots,
        slot_memory=slot_memory,
        memory=figures.driver_bytes + slots * slot_memory,
        disk=int(rows * SPACE * (1 + wanted.copies)),
        checkpoint=rows * SNAPSHOTS + wanted.partitions * settings.snapshot_bytes,
        restore_seconds=round(read + wanted.keys / slots / figures.restored_rows_per_second, 1),
    )


def arithmetic(wanted: Wanted, figures: Measured, found: Needed, settings: Settings) -> list[tuple[str, str, str]]:
    """Return each resource, its amount, and the calculation."""
    cpu, row = figures.cpu_seconds_per_million_records[wanted.kind], wanted.row_bytes + figures.row_overhead_bytes
    tasks, rows = math.ceil(wanted.partitions / found.slots), wanted.keys * row
    copies = f" x {1 + wanted.copies} with a copy" if wanted.copies else ""
    per_task = (found.slot_memory - figures.slot_bytes) // tasks
    return [
        ("cores", f"{found.cores:g}", f"{wanted.records_per_second:,.0f} records/s x {cpu:g} CPU s a million"),
        ("slots", f"{found.slots:,}", f"cores / {BUSY:g}, at most one for each of {wanted.partitions:,} partitions"),
        (
            "memory of a slot, at most", shown(found.slot_memory),
            f"{shown(figures.slot_bytes)} + {tasks:,} tasks x {shown(per_task)} (hot_max_bytes, commit_max_bytes, ...)",
        ),
        ("memory in all, at most", shown(found.memory), f"slots x that + {shown(figures.driver_bytes)} of the driver"),
        ("disks of executors", shown(found.disk), f"{wanted.keys:,} keys x {row:,} bytes x {SPACE:g}{copies}"),
        (
            "checkpoint", shown(found.checkpoint),
            f"{SNAPSHOTS} snapshots of {shown(rows)} + {shown(settings.snapshot_bytes)} of deltas a task",
        ),
        (
            "restore on an empty machine", f"{found.restore_seconds:g} s",
            f"a slot's rows at {figures.restored_rows_per_second:,} a second, read at "
            f"{shown(wanted.read_bytes_per_second)}/s",
        ),
    ]  # fmt: skip


def spark_conf(found: Needed, figures: Measured, cores: int) -> list[str]:
    """Return the options of ``spark-submit`` for executors of so many cores, one slot for each core.

    >>> plan = needed(Wanted(4_000_000, 1_000_000, 100, "windows", 16, 100 << 20), measured(), Settings())
    >>> plan.slots, spark_conf(plan, measured(), 4)[:3]
    (5, ['spark.executor.instances=2', 'spark.executor.cores=4', 'spark.task.cpus=1'])
    """
    cores = min(cores, found.slots)
    outside = cores * found.slot_memory
    return [
        f"spark.executor.instances={math.ceil(found.slots / cores)}",
        f"spark.executor.cores={cores}",
        "spark.task.cpus=1",
        "spark.executor.memory=1g",
        f"spark.executor.memoryOverhead={_mebibytes(outside)}m",
        "spark.driver.memory=1g",
        f"spark.driver.memoryOverhead={_mebibytes(figures.driver_bytes)}m",
    ]


def _mebibytes(nbytes: int) -> int:
    return math.ceil(nbytes / (1 << 20))


def shown(nbytes: int) -> str:
    """Return a size in readable form.

    >>> shown(3_200_000_000), shown(130 << 20), shown(12)
    ('2.98 GiB', '130 MiB', '12 B')
    """
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if nbytes >= 1 << power:
            return f"{nbytes / (1 << power):.3g} {unit}"
    return f"{nbytes} B"


def as_json(found: Needed) -> dict[str, Any]:
    return dict(msgspec.structs.asdict(found))
