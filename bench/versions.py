"""What it costs to look up what a key had at a time, when it has few versions and when it has many.

    python -m bench.versions [VERSIONS ...]

One key has all the versions, a millisecond apart and within the history retention; the times that are looked up are
drawn from all of its history. Only the look-ups are measured: with the versions in memory, and with them on disk.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from penstock.arrays import fixed_binary
from penstock.state.database import Database
from penstock.state.kinds.versioned import VersionedStore
from penstock.state.rows import Keys
from penstock.state.versioned_puts import VersionedPuts
from penstock.state.versioned_reads import Questions, versions_as_of

CHUNK = 32_768
ROUNDS = 8
HOUR = 3_600_000


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
    count = CHUNK // 8 if on_disk else CHUNK
    spent = 0.0
    for _ in range(ROUNDS):
        times = rng.integers(0, versions, count)
        asked = Questions(np.zeros_like(times), times, np.zeros_like(times))
        if on_disk:
            store.evict(everything=True)
        began = time.process_time()
        found = versions_as_of(store, _key(), asked)
        spent += time.process_time() - began
        assert found.equals(fixed_binary(times.astype(">i8")))
    return spent / (ROUNDS * count) * 1e6


def main(versions: int) -> None:
    with TemporaryDirectory() as folder:
        database = Database(Path(folder) / "db")
        store = filled(versions, database)
        here = micros(store, versions, on_disk=False)
        database.write({name: piece.dirty_rows() for name, piece in store.families().items()}, {})
        store.flushed(database)
        there = micros(store, versions, on_disk=True)
        database.close()
    print(f"{versions:>12,} versions: {here:.2f} µs a look-up in memory, {there:.2f} µs on disk", flush=True)


def _key() -> Keys:
    return Keys(pa.array([b"key"], pa.binary()))


if __name__ == "__main__":
    for count in [int(count) for count in sys.argv[1:]] or [1_000, 10_000, 100_000]:
        main(count)
