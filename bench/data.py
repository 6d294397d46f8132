"""The records of the benchmark: made from a seed, the same for every engine.

    python -m bench.data events 1000000 LOG TOPIC     fill a topic of a file log

Sets:
    events     key ``user-%06d`` (zipf 0.8 over 50,000 keys), a value of some 60 bytes of JSON; event time +1 ms a
               record, 5 % of the records up to 10 s early and 0.5 % up to 10 minutes; one in ten repeats the key and
               the value of a record up to 10 minutes before.
    distinct   as many keys as records, in random order, no disorder.
    accounts   updates of 50,000 keys (zipf): a region out of 100, which changes at every other update, and an amount.
    table      what is known of the users of ``events``: each of 50,000 once in the minute before them, then updates
               (zipf) spread over the time of ten times as many events.
    orders     orders of customers, twenty for each, spread over the time of ten times as many events.
    customers  what is known of the customers of five times as many orders: each once in the minute before them, then
               three updates for each, spread over their time.
    views      what users look at: 20,000 keys, uniform, +1 ms a record, 5 % of the records up to 10 s early.
    clicks     what they do then: the same keys and times, drawn anew.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import structs

from penstock.arrays import partitions
from penstock.log.base import TopicInfo
from penstock.log.contract.writer import Segment
from penstock.log.file.log import FileLog

BASE = 1_700_000_000_000
CHUNK = 65_536
PARTITIONS = 2

Columns = tuple[Any, Any, np.ndarray[Any, Any]]
"""Keys, values and timestamps."""


def events(count: int, keys: int = 50_000, seed: int = 1, distinct: bool = False, base: int = BASE) -> Columns:
    rng = np.random.default_rng(seed)
    key = rng.permutation(count) if distinct else _zipf(rng, count, keys)
    amount = rng.integers(1, 101, count)
    event = np.arange(count)
    if not distinct:
        source = _repeats(rng, count)
        key, amount, event = key[source], amount[source], event[source]
    timestamp = base + np.arange(count, dtype=np.int64)
    if not distinct:
        chance = rng.random(count)
        early = np.where(
            chance < 0.05,
            rng.integers(0, 10_000, count),
            np.where(chance < 0.055, rng.integers(10_000, 600_000, count), 0),
        )
        timestamp = np.maximum(timestamp - early, base - 600_000)
    value = _join(
        '{"id":"e', _digits(event, 10), '","amount":', _digits(amount), ',"cur":"EUR","src":"web-',
        _digits(event % 97, 2), '"}',
    )  # fmt: skip
    return _join("user-", _digits(key, 7 if distinct else 6)), value, timestamp


def distinct(count: int, base: int = BASE) -> Columns:
    return events(count, seed=6, distinct=True, base=base)


def accounts(count: int, keys: int = 50_000, seed: int = 5) -> Columns:
    rng = np.random.default_rng(seed)
    key = _zipf(rng, count, keys)
    amount = rng.integers(1, 101, count)
    moves = rng.random(count) < 0.5
    drawn = rng.integers(0, 100, count)
    region = _last_drawn(key, moves, drawn)
    value = _join('{"region":"r-', _digits(region, 3), '","amount":', _digits(amount), "}")
    return _join("acc-", _digits(key, 6)), value, BASE + np.arange(count, dtype=np.int64)


def table(count: int, keys: int = 50_000, seed: int = 2) -> Columns:
    rng = np.random.default_rng(seed)
    first = rng.permutation(keys)
    more = max(count - keys, 0)
    key = np.concatenate([first, _zipf(rng, more, keys)]) if more else first[:count]
    return _join("user-", _digits(key, 6)), _people(rng, key, 6), _known_since(count, keys, 10 * count)


def orders(count: int, seed: int = 3) -> Columns:
    rng = np.random.default_rng(seed)
    customer = rng.integers(0, count // 20, count)
    amount = rng.integers(1, 101, count)
    value = _join('{"cust":"c-', _digits(customer, 5), '","amount":', _digits(amount), "}")
    return _join("o-", _digits(np.arange(count), 7)), value, BASE + 10 * np.arange(count, dtype=np.int64)


def customers(count: int, seed: int = 4) -> Columns:
    rng = np.random.default_rng(seed)
    keys = count // 4
    key = np.concatenate([rng.permutation(keys), rng.integers(0, keys, count - keys)])
    return _join("c-", _digits(key, 5)), _people(rng, key, 5), _known_since(count, keys, 50 * count)


def views(count: int) -> Columns:
    rng = np.random.default_rng(7)
    page = rng.integers(0, 100, count)
    key, timestamp = _visits(rng, count)
    return key, _join('{"id":"v', _digits(np.arange(count), 8), '","page":"p-', _digits(page, 2), '"}'), timestamp


def clicks(count: int) -> Columns:
    rng = np.random.default_rng(8)
    amount = rng.integers(1, 101, count)
    key, timestamp = _visits(rng, count)
    return key, _join('{"id":"c', _digits(np.arange(count), 8), '","amount":', _digits(amount), "}"), timestamp


SETS: dict[str, Callable[[int], Columns]] = {
    "events": events,
    "distinct": distinct,
    "accounts": accounts,
    "table": table,
    "orders": orders,
    "customers": customers,
    "views": views,
    "clicks": clicks,
}


def fill(log: FileLog, topic: str, columns: Columns, count: int = PARTITIONS) -> None:
    """Write records into a new topic of so many partitions."""
    log.create_topic(TopicInfo(topic, count, "str", "json"))
    produce(log, topic, columns)


def produce(log: FileLog, topic: str, columns: Columns) -> None:
    """Write records into a topic, placed by Kafka's partitioner, in segments of some chunks."""
    key, value, timestamp = columns
    count = log.topic(topic).partitions
    placed = partitions(key, count, 0)
    with log.writer(topic, f"bench-{os.urandom(4).hex()}") as writer:
        for partition in range(count):
            rows = np.flatnonzero(placed == partition)
            for start in range(0, len(rows), CHUNK):
                some = rows[start : start + CHUNK]
                writer.write(partition, key.take(some), value.take(some), timestamp.take(some), placed=True)
    log.append(topic, writer.segments())


def fill_once(log: FileLog, name: str, count: int, over: int = PARTITIONS) -> str:
    """A topic with a set of so many records over so many partitions, made when it is not there; its name."""
    topic = f"{name}-{count}" if over == PARTITIONS else f"{name}-{count}-over-{over}"
    if log.exists(topic) and log.size(topic) != count:  # left unfinished
        log.delete_topic(topic)
    if not log.exists(topic):
        fill(log, topic, SETS[name](count), over)
    return topic


def copies(log: FileLog, source: str, target: str) -> list[Segment]:
    """The records of one topic as segments of another, a new one, for appending any number of times."""
    info = log.topic(source)
    log.create_topic(structs.replace(info, name=target))
    with log.writer(target, f"bench-{target}") as writer:
        for partition, end in enumerate(log.end_offsets(source)):
            for records in log.read(source, partition, 0, end):
                writer.write(partition, records.key, records.value, records.timestamp, placed=records.placed)
    return writer.segments()


def _zipf(rng: np.random.Generator, count: int, keys: int, s: float = 0.8) -> np.ndarray[Any, Any]:
    weight = 1.0 / np.arange(1, keys + 1) ** s
    cumulated = np.cumsum(weight / weight.sum())
    rank = np.searchsorted(cumulated, rng.random(count))
    return rng.permutation(keys)[np.minimum(rank, keys - 1)]


def _repeats(rng: np.random.Generator, count: int) -> np.ndarray[Any, Any]:
    """For each record the one it repeats, itself for most."""
    chosen = np.flatnonzero(rng.random(count) < 0.10)
    chosen = chosen[chosen > 0]
    back = np.exp(rng.random(chosen.size) * np.log(590_000)).astype(np.int64) + 1
    source = np.arange(count)
    source[chosen] = np.maximum(chosen - back, 0)
    for _ in range(40):
        further = source[source]
        if (further == source).all():
            break
        source = further
    far = np.arange(count) - source > 590_000
    source[far] = np.flatnonzero(far)
    return source


def _last_drawn(
    key: np.ndarray[Any, Any], moves: np.ndarray[Any, Any], drawn: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """The region of each update: drawn anew when the account moves or is new, else that of its last update."""
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    first = np.r_[True, ordered[1:] != ordered[:-1]]
    anew = moves[order] | first
    source = np.maximum.accumulate(np.where(anew, np.arange(len(key)), 0))
    region = np.empty(len(key), np.int64)
    region[order] = drawn[order][source]
    return region


def _visits(rng: np.random.Generator, count: int, keys: int = 20_000) -> tuple[Any, np.ndarray[Any, Any]]:
    """The keys and the times of views or clicks."""
    key = rng.integers(0, keys, count)
    early = np.where(rng.random(count) < 0.05, rng.integers(0, 10_000, count), 0)
    return _join("user-", _digits(key, 6)), BASE + np.arange(count, dtype=np.int64) - early


def _people(rng: np.random.Generator, key: np.ndarray[Any, Any], width: int) -> Any:
    """What is known of some people: a name, a tier that is drawn, and the number of the update."""
    tier = rng.integers(1, 6, len(key))
    name, number = _digits(key, width), _digits(np.arange(len(key)))
    return _join('{"name":"n-', name, '","tier":', _digits(tier), ',"v":', number, "}")


def _known_since(count: int, keys: int, span: int) -> np.ndarray[Any, Any]:
    """The times of so many rows: the first of each key in the minute before the events, the others over some time."""
    first = min(keys, count)
    before = BASE - 60_000 + np.arange(first, dtype=np.int64) * 60_000 // keys
    updates = count - first
    return np.concatenate([before, BASE + np.arange(updates, dtype=np.int64) * span // max(updates, 1)])


def _digits(numbers: np.ndarray[Any, Any], width: int = 0) -> Any:
    text = pc.cast(pa.array(numbers), pa.string())
    return pc.utf8_lpad(text, width, "0") if width else text


def _join(*parts: Any) -> Any:
    return pc.cast(pc.binary_join_element_wise(*parts, ""), pa.binary())


if __name__ == "__main__":
    name, count, folder, topic = sys.argv[1:]
    fill(FileLog(Path(folder)), topic, SETS[name](int(count)))
