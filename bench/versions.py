"""What it costs to look up what a key had at a time, when it has few versions and when it has many.

One key has all the versions, a millisecond apart and within the history retention; the times that are looked up are
drawn from all of its history. Only the look-ups are measured: with the versions in memory, and with them on disk.
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from bench.plan import Plan
from bench.report import Row, Section, at_most, median, spread
from penstock.arrays import fixed_binary
from penstock.state.columns.rows import Keys
from penstock.state.database import Database
from penstock.state.kinds.versioned.puts import VersionedPuts
from penstock.state.kinds.versioned.reads import Questions, versions_as_of
from penstock.state.kinds.versioned.store import VersionedStore

CHUNK = 32_768
FEW = 512
"""Look-ups on disk at once: few enough that most of them are for another version."""
ROUNDS = 8
HOUR = 3_600_000
SIZES = (1_000, 10_000, 100_000)


def filled(versions: int, database: Database) -> VersionedStore:
    """A store in which one key has so many versions; each one's value is its time."""
    store = VersionedStore("versions", HOUR)
    store.open(database)
    for first in range(0, versions, CHUNK):
        times = np.arange(first, min(first + CHUNK, versions))
        VersionedPuts(store, _key(), np.zeros_like(times), times, fixed_binary(times.astype(">i8"))).apply()
        store.commit()
    return store


def micros(store: VersionedStore, versions: int, on_disk: bool) -> float:
    """CPU microseconds for a look-up."""
    rng = np.random.default_rng(1)
    count, rounds = (FEW, CHUNK // FEW) if on_disk else (CHUNK, ROUNDS)
    spent = 0.0
    for _ in range(rounds):
        times = rng.integers(0, versions, count)
        asked = Questions(np.zeros_like(times), times, np.zeros_like(times))
        if on_disk:
            store.evict(everything=True)
        began = time.process_time()
        found = versions_as_of(store, _key(), asked)
        spent += time.process_time() - began
        assert found.equals(fixed_binary(times.astype(">i8")))
    return spent / (rounds * count) * 1e6


def measure(plan: Plan) -> Section:
    """What a look-up costs with few versions and with many; it may grow with the logarithm of their number."""
    section = Section(
        "VERSIONS: look-ups as of a time in a key with many versions",
        f"CPU microseconds for a look-up, {CHUNK:,} at once in memory and {FEW} on disk, at random times. All versions "
        "are within the history retention. The bound is the ratio of the logarithms; a look-up on disk reads a block "
        "besides, of which few versions have few.",
    )
    sizes = [plan.size(count) for count in SIZES]
    costs = [[_cost(count) for count in sizes] for _ in range(plan.runs)]
    for place, where in enumerate(("in memory", "on disk")):
        found = [[cost[place] for cost in column] for column in zip(*costs, strict=True)]
        for count, some in zip(sizes, found, strict=True):
            section.rows.append(Row(f"{count:,} versions {where}", f"{median(some):.2f} µs", spread(some)))
        ratio = median(found[-1]) / median(found[0])
        most = round(math.log(sizes[-1], sizes[0]), 2)
        section.rows.append(at_most(f"{sizes[-1]:,} / {sizes[0]:,} {where}", ratio, most))
    return section


def _cost(versions: int) -> tuple[float, float]:
    """What a look-up costs in memory and on disk."""
    with TemporaryDirectory() as folder:
        database = Database(Path(folder) / "db")
        store = filled(versions, database)
        here = micros(store, versions, on_disk=False)
        database.write({name: piece.dirty_rows() for name, piece in store.families().items()}, {})
        store.flushed(database)
        there = micros(store, versions, on_disk=True)
        database.close()
    return here, there


def _key() -> Keys:
    return Keys(pa.array([b"key"], pa.binary()))
