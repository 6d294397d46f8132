"""Rows in every kind of store, each of which follows from the input.

``readers.py`` runs the topology, and ``known.py`` knows the rows.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))  # where the tests' own stores are

import program

from penstock import (
    AggregationWithHeaders,
    BufferConfig,
    Deduplicated,
    FixedKeyProcessor,
    IsolationLevel,
    JoinWindows,
    Materialized,
    SessionKey,
    SessionWindows,
    Stores,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    ValueAndTimestamp,
    ValueTimestampHeaders,
)
from support.own_stores import OldStore, SqliteStore, Supplier
from support.own_timed_stores import TimedSupplier

PARTITIONS = 2
USERS = 7
RECENT = 8
"""The entries of the LRU map: fewer than are written."""
DAY = 86_400_000
RETENTION = 60
SETTINGS = {
    "commit_max_bytes": 500,
    "chunk_records": 5,
    "statestore_cache_max_bytes": 0,
    "default_interactive_query_isolation_level": "read_uncommitted",
}
COMMITTED, UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED

# --- what is written ------------------------------------------------------------------------------------------------


class Shape(NamedTuple):
    """How a store of some shape is written and read; ``n`` is the number of a record, or None to take the row away.

    Attributes:
        put: takes the store, the key, the time of the record, and ``n``.
        get: takes the store, the key and the time, and returns the number that is there.
        rows: all rows of a view.
        place: what tells the rows of a key apart, of the time.
        row: the row of a place with a number.
    """

    put: Callable[[Any, str, int, int | None], object]
    get: Callable[[Any, str, int], int | None]
    rows: Callable[[Any], Iterator[Any]]
    place: Callable[[str, int], tuple[Any, ...]]
    row: Callable[[tuple[Any, ...], int, int], Any]


def value_of(row: Any) -> Any:
    return getattr(row, "value", None)


def ten(time: int) -> int:
    return time // 10 * 10


def headers(n: int) -> tuple[tuple[str, bytes], ...]:
    return (("n", b"%d" % n), ("and", b"again"))


def session(key: str, time: int) -> SessionKey:
    return SessionKey(key, ten(time), ten(time) + 9)


def by_key(key: str, time: int) -> tuple[Any, ...]:
    return (key,)


def by_window(key: str, time: int) -> tuple[Any, ...]:
    return key, ten(time)


def with_time(n: int | None, time: int) -> ValueAndTimestamp | None:
    return None if n is None else ValueAndTimestamp(n, time)


def with_headers(n: int | None, time: int) -> ValueTimestampHeaders | None:
    return None if n is None else ValueTimestampHeaders(n, time, headers(n))


def aggregation(n: int | None) -> AggregationWithHeaders | None:
    return None if n is None else AggregationWithHeaders(n, headers(n))


SHAPES = {
    "plain": Shape(
        lambda store, key, time, n: store.delete(key) if n is None else store.put(key, n),
        lambda store, key, time: store.get(key),
        lambda view: ((key, value) for key, value, _ in view.all()),
        by_key,
        lambda place, n, time: (*place, n),
    ),
    "timed": Shape(
        lambda store, key, time, n: store.put(key, with_time(n, time)),
        lambda store, key, time: value_of(store.get(key)),
        lambda view: view.all(),
        by_key,
        lambda place, n, time: (*place, n, time),
    ),
    "headed": Shape(
        lambda store, key, time, n: store.put(key, with_headers(n, time)),
        lambda store, key, time: value_of(store.get(key)),
        lambda view: ((key, *row) for key, row in view.range_with_headers()),
        by_key,
        lambda place, n, time: (*place, n, time, headers(n)),
    ),
    "windows": Shape(
        lambda store, key, time, n: store.put(key, n, ten(time)),
        lambda store, key, time: store.get(key, ten(time)),
        lambda view: ((window.key, window.start, value) for window, value, _ in view.all()),
        by_window,
        lambda place, n, time: (*place, n),
    ),
    "timed-windows": Shape(
        lambda store, key, time, n: store.put(key, with_time(n, time), ten(time)),
        lambda store, key, time: value_of(store.get(key, ten(time))),
        lambda view: ((window.key, window.start, *row) for window, *row in view.all()),
        by_window,
        lambda place, n, time: (*place, n, time),
    ),
    "headed-windows": Shape(
        lambda store, key, time, n: store.put(key, with_headers(n, time), ten(time)),
        lambda store, key, time: value_of(store.get(key, ten(time))),
        lambda view: ((window.key, window.start, *row) for window, row in view.fetch_all_with_headers()),
        by_window,
        lambda place, n, time: (*place, n, time, headers(n)),
    ),
    "sessions": Shape(
        lambda store, key, time, n: store.put(session(key, time), n),
        lambda store, key, time: store.fetch_session(*session(key, time)),
        lambda view: ((window.key, window.start, window.end, value) for window, value in view.all()),
        by_window,
        lambda place, n, time: (*place, place[1] + 9, n),
    ),
    "headed-sessions": Shape(
        lambda store, key, time, n: store.put(session(key, time), aggregation(n)),
        lambda store, key, time: getattr(store.fetch_session(*session(key, time)), "aggregation", None),
        lambda view: ((window.key, window.start, window.end, *row) for window, row in view.all_with_headers()),
        by_window,
        lambda place, n, time: (*place, place[1] + 9, n, headers(n)),
    ),
    "versions": Shape(
        lambda store, key, time, n: store.put(key, n, time),
        lambda store, key, time: value_of(store.get(key)),
        lambda view: view.all(),
        by_key,
        lambda place, n, time: (*place, n, time),
    ),
}


class Kind(NamedTuple):
    shape: str
    build: Callable[[str], Any]


def kinds() -> dict[str, Kind]:
    """All stores of processors, by name."""
    of = Stores
    plain, timed = of.key_value_store_builder, of.timestamped_key_value_store_builder
    headed = of.timestamped_key_value_store_with_headers_builder
    windows, timed_windows = of.window_store_builder, of.timestamped_window_store_builder
    headed_windows, sessions = of.timestamped_window_store_with_headers_builder, of.session_store_builder
    headed_sessions, versions = of.session_store_with_headers_builder, of.versioned_key_value_store_builder
    made: dict[str, tuple[str, Any, Callable[[str], Any]]] = {
        "plain": ("plain", plain, of.persistent_key_value_store),
        "plain-memory": ("plain", plain, of.in_memory_key_value_store),
        "plain-sqlite": ("plain", plain, lambda name: Supplier(SqliteStore, name)),
        "plain-old": ("plain", plain, lambda name: Supplier(OldStore, name)),
        "recent": ("plain", plain, lambda name: of.lru_map(name, RECENT)),
        "timed": ("timed", timed, of.persistent_timestamped_key_value_store),
        "timed-memory": ("timed", timed, of.in_memory_key_value_store),
        "timed-sqlite": ("timed", timed, lambda name: Supplier(SqliteStore, name)),
        "headed": ("headed", headed, of.persistent_timestamped_key_value_store_with_headers),
        "headed-memory": ("headed", headed, of.in_memory_key_value_store),
        "windows": ("windows", windows, lambda name: of.persistent_window_store(name, RETENTION, 10)),
        "windows-memory": ("windows", windows, lambda name: of.in_memory_window_store(name, RETENTION, 10)),
        "timed-windows": (
            "timed-windows", timed_windows, lambda name: of.persistent_timestamped_window_store(name, RETENTION, 10),
        ),
        "timed-windows-memory": (
            "timed-windows", timed_windows, lambda name: of.in_memory_window_store(name, RETENTION, 10),
        ),
        "headed-windows": (
            "headed-windows", headed_windows,
            lambda name: of.persistent_timestamped_window_store_with_headers(name, RETENTION, 10),
        ),
        "sessions": ("sessions", sessions, lambda name: of.persistent_session_store(name, RETENTION)),
        "sessions-memory": ("sessions", sessions, lambda name: of.in_memory_session_store(name, RETENTION)),
        "headed-windows-memory": (
            "headed-windows", headed_windows, lambda name: of.in_memory_window_store(name, RETENTION, 10),
        ),
        "headed-sessions": (
            "headed-sessions", headed_sessions, lambda name: of.persistent_session_store_with_headers(name, RETENTION),
        ),
        "headed-sessions-memory": (
            "headed-sessions", headed_sessions, lambda name: of.in_memory_session_store(name, RETENTION),
        ),
        "versions": ("versions", versions, lambda name: of.persistent_versioned_key_value_store(name, DAY)),
        "versions-memory": ("versions", versions, lambda name: of.in_memory_versioned_key_value_store(name, DAY)),
    }  # fmt: skip
    for medium in ("memory", "flushed", "sqlite"):
        for shape, builder, own in (
            ("windows", windows, "window"), ("sessions", sessions, "session"), ("versions", versions, "versions"),
        ):  # fmt: skip
            made[f"{shape}-own-{medium}"] = (
                shape, builder, lambda name, medium=medium, own=own: TimedSupplier(
                    medium, own, name, DAY if own == "versions" else RETENTION
                ),
            )  # fmt: skip
    return {
        name: Kind(shape, lambda name, builder=builder, supplier=supplier: builder(supplier(name), str, int))
        for name, (shape, builder, supplier) in made.items()
    }


KINDS = kinds()


def processor_of(name: str) -> type[FixedKeyProcessor]:
    """A processor that writes two rows of its store for each record, and says what it reads then."""
    shape = SHAPES[KINDS[name].shape]

    class Writes(FixedKeyProcessor):
        def init(self, context: Any) -> None:
            self.context, self.store = context, context.get_state_store(name)

        def process(self, record: Any) -> None:
            n, key, time = record.value, record.key, record.timestamp
            shape.put(self.store, f"all {key}", time, n)
            shape.put(self.store, key, time, None if is_taken_away(n) else n)
            committed = shape.get(self.store.read_only(COMMITTED), f"all {key}", time)
            is_older = committed is None or (committed < n and key.endswith(f"-{number_of_key(committed)}"))
            told = shape.get(self.store, f"all {key}", time), shape.get(self.store, key, time), is_older
            self.context.forward(record.with_value(repr(told)))

    return Writes


def is_taken_away(n: int) -> bool:
    return n % 5 == 3


def told(n: int) -> str:
    """What a processor says of a record: it reads its own writes, and what is committed is older."""
    return repr((n, None if is_taken_away(n) else n, True))


def topology() -> Topology:
    builder = StreamsBuilder()
    records = builder.stream(program.INPUT, key=str, value=int)
    for name, kind in KINDS.items():
        builder.add_state_store(kind.build(name))
        records.process_values(processor_of(name), name, value=str).to(f"{name}-out")
    grouped = records.group_by_key()
    grouped.count("counts").to_stream().to("counts-out")
    grouped.count(materialized=Materialized.as_(Supplier(SqliteStore, "counts-own")))
    grouped.windowed_by(TimeWindows.of_size_and_grace(10, DAY)).count("counted-windows")
    grouped.windowed_by(SessionWindows.of_inactivity_gap_and_grace(USERS - 1, DAY)).count("counted-sessions")
    held = grouped.windowed_by(TimeWindows.of_size_and_grace(10, 20)).count()
    records.deduplicate_by_key(DAY, Deduplicated.as_("first").with_store_name("first"))
    within = JoinWindows.of_time_difference_and_grace(0, DAY)
    records.join(records, lambda one, other: one + other, within, StreamJoined.as_("met").with_store_name("met"))
    for name, kept in GLOBAL.items():
        builder.global_table(f"{name}-in", str, int, materialized=kept(name))
    held.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()).with_name("held")).to_stream().to("held-out")
    return builder.build()


GLOBAL: dict[str, Callable[[str], Materialized]] = {
    "everywhere": Materialized.as_,
    "everywhere-own": lambda name: Materialized.as_(Supplier(SqliteStore, name)),
}
"""Global tables, each with its topic of one partition."""
COUNTED = {
    "first": SHAPES["timed"],
    "met-this-join-store": SHAPES["windows"],
    "met-other-join-store": SHAPES["windows"],
    "counts": SHAPES["timed"],
    "counts-own": SHAPES["plain"],
    "counted-windows": SHAPES["timed-windows"],
    "counted-sessions": SHAPES["sessions"],
    "held-store": SHAPES["timed-windows"],
}
STORES = [*KINDS, *COUNTED]


def rows_of(name: str, view: Any) -> set[Any]:
    """All rows of a view, which has none twice."""
    rows = list((COUNTED.get(name) or SHAPES[KINDS[name].shape]).rows(view))
    found = set(rows)
    assert len(found) == len(rows), f"{name}: rows twice: {Counter(rows).most_common(3)}"
    return found


def records_of(partition: int, count: int) -> Iterator[tuple[str, int]]:
    """Key and number of the records of a partition; the number is the time and the offset, too."""
    return ((f"p{partition}-{number_of_key(n)}", n) for n in range(count))


def number_of_key(n: int) -> int:
    return n % USERS if n % 11 else 0
