"""What the outputs have to be: recorded figures for the sizes that are measured, a slow reference for all others."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable

from bench import data
from bench.digest import Digest
from bench.measure import RunError
from penstock.log.file.log import FileLog

Row = tuple[bytes, bytes, int]
"""Key, value and timestamp of a record."""

WINDOW, GRACE = 60_000, 10_000

RECORDED = {
    ("PASS", 1_000_000): Digest(1_000_000),
    ("PASS", 5_000_000): Digest(5_000_000),
    ("W0", 1_000_000): Digest(800_822),
    ("W0", 5_000_000): Digest(4_001_669),
    ("W1", 1_000_000): Digest(995_304, 359_069, 995_304),
    ("W1", 5_000_000): Digest(4_976_311, 1_793_363, 4_976_311),
    ("W7", 500_000): Digest(723_356, 100, 2_437_013),
    ("W7", 2_500_000): Digest(3_713_095, 100, 2_527_892),
}
"""What Kafka Streams puts out for the same records, every update; the reference below comes to the same."""


def check(workload: str, records: int, cache: bool, found: Digest, log: FileLog) -> None:
    """Compare the digest of an output with what it has to be.

    Args:
        cache: whether only the last update per key and commit was put out: then the updates on the way do not count.
        log: where the input topics are, for sizes that have no recorded figures.

    Raises:
        RunError: it is another one.
    """
    wanted = expected(workload, records, log)
    if (found.final() if cache else found) != (wanted.final() if cache else wanted):
        raise RunError(f"{workload} over {records:,} records put out {found}, but expected is {wanted}")


def expected(workload: str, records: int, log: FileLog) -> Digest:
    """The digest of a workload's output with every update put out."""
    if (workload, records) in RECORDED:
        return RECORDED[workload, records]
    return reference(workload, log, data.fill_once(log, data.set_of(workload), records))


def reference(workload: str, log: FileLog, topic: str) -> Digest:
    """What a workload has to put out for a topic, worked out record by record in plain Python."""
    return REFERENCES[workload](_rows(log, topic, partition) for partition in range(log.topic(topic).partitions))


def _rows(log: FileLog, topic: str, partition: int) -> Iterable[Row]:
    for piece in log.read(topic, partition, 0, log.end_offsets(topic)[partition]):
        yield from zip(piece.key.to_pylist(), piece.value.to_pylist(), piece.timestamp.tolist(), strict=True)


def _passthrough(partitions: Iterable[Iterable[Row]]) -> Digest:
    return Digest(sum(1 for rows in partitions for _ in rows))


def _filtered(partitions: Iterable[Iterable[Row]]) -> Digest:
    return Digest(sum(json.loads(value)["amount"] > 20 for rows in partitions for _, value, _ in rows))


def _window_counts(partitions: Iterable[Iterable[Row]]) -> Digest:
    """A record whose window had ended before stream time less the grace period does not count."""
    counts: Counter[tuple[bytes, int]] = Counter()
    for rows in partitions:
        stream_time = -1
        for key, _, timestamp in rows:
            stream_time = max(stream_time, timestamp)
            start = timestamp - timestamp % WINDOW
            if start + WINDOW > stream_time - GRACE:
                counts[key, start] += 1
    return Digest(counts.total(), len(counts), counts.total())


def _region_totals(partitions: Iterable[Iterable[Row]]) -> Digest:
    """An account that moves is put out twice: its old region without it, its new region with it."""
    records = 0
    accounts: dict[bytes, tuple[str, int]] = {}
    for rows in partitions:
        for key, value, _ in rows:
            account = json.loads(value)
            moved = key in accounts and accounts[key][0] != account["region"]
            accounts[key] = account["region"], account["amount"]
            records += 2 if moved else 1
    regions = {region for region, _ in accounts.values()}
    return Digest(records, len(regions), sum(amount for _, amount in accounts.values()))


REFERENCES: dict[str, Callable[[Iterable[Iterable[Row]]], Digest]] = {
    "PASS": _passthrough,
    "W0": _filtered,
    "W1": _window_counts,
    "W7": _region_totals,
    "W9": _window_counts,
}
