"""A backlog gives what live reading gives: partitions advance evenly in time, and nothing comes late behind them.

Records of source topics of several partitions, in the order of time, meet behind repartition topics. Whatever a commit
takes of each partition, the tables end as with one partition, and no more is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import JoinWindows, SessionWindows, StreamsBuilder, TimeWindows, Topology, Windowed
from penstock.arrays import partitions
from penstock.engine.local import LocalApplication
from penstock.figures.metrics import DROPPED, readable
from penstock.log.base import TopicInfo
from penstock.log.memory import MemoryLog
from penstock.plan import nodes
from penstock.serdes import INT, STR
from penstock.settings import Settings
from penstock.storage.base import LocalStorage
from support.folders import MEMORY
from support.topologies import EXAMPLES, topology_of

Row = tuple[str, Any, Any, int]
"""Topic, key, value, timestamp."""

CUTS = st.fixed_dictionaries(
    {
        "chunk_records": st.sampled_from([1000, 7, 1]),
        "commit_max_bytes": st.sampled_from([1 << 28, 300, 40, 1]),
        "input_buffer_max_bytes": st.sampled_from([1 << 29, 100, 1]),
        "statestore_uncommitted_max_records": st.sampled_from([-1, 5]),
    }
)


class World:
    """An application over topics of so many partitions, that has its whole input as a backlog."""

    def __init__(self, topology: Topology, count: int, appends: Sequence[Sequence[Row]], **settings: int):
        self.topology = topology
        self.log = MemoryLog()
        for topic in topology.source_topics:
            self.log.create_topic(TopicInfo(topic, count))
        for number, rows in enumerate(appends):
            self._append(rows, number)
        loaded = Settings.load(environment={}, **{"statestore_cache_max_bytes": 0, "on_error": "skip"} | settings)
        self.waiting: list[int] = []
        """How many bytes waited in repartition topics, about, after each commit."""
        self.offsets: list[list[int]] = []
        """How far the partitions of the topic ``in`` were read after each commit."""
        self._folder = TemporaryDirectory(dir=MEMORY)
        storage = LocalStorage(Path(self._folder.name))
        self.application = LocalApplication(topology, "app", loaded, self.log, storage)
        self._run()

    def _run(self) -> None:
        coordinator = self.application.coordinator
        while coordinator.step(coordinator.end_offsets()):
            tasks = coordinator.manifest.waiting.values()
            refs = [ref for topics in tasks for some in topics.values() for ref in some]
            self.waiting.append(sum(ref.left_bytes for ref in refs))
            self.offsets.append(coordinator.offsets().get("in", []))

    def go_on(self, rows: Sequence[Row]) -> None:
        """Append more, and process it."""
        self._append(rows, len(self.waiting) + 1_000_000)
        self._run()

    def _append(self, rows: Sequence[Row], number: int) -> None:
        for topic in {row[0] for row in rows}:
            mine = [row for row in rows if row[0] == topic]
            with self.log.writer(topic, f"in-{number}") as writer:
                count = self.log.topic(topic).partitions
                keys = STR.encode_all([row[1] for row in mine])
                placed = partitions(keys, count, np.arange(number, number + len(mine)) % count)
                for partition in range(count):
                    here = [row for row, at in zip(mine, placed, strict=True) if at == partition]
                    columns = [STR.encode_all([row[1] for row in here]), INT.encode_all([row[2] for row in here])]
                    writer.write(partition, *columns, np.array([row[3] for row in here], np.int64))
            self.log.append(topic, writer.segments())

    def table(self, topic: str) -> dict[Any, Any]:
        """The last value of each key of an output topic."""
        found: dict[Any, Any] = {}
        for key, value in self.records(topic):
            found[key] = value
        return {key: value for key, value in found.items() if value is not None}

    def records(self, topic: str) -> Iterator[tuple[Any, Any]]:
        key, value = next(
            (node.key, node.value)
            for node in self.topology.nodes
            if isinstance(node, nodes.Sink) and node.topic == topic
        )
        for partition, end in enumerate(self.log.end_offsets(topic)):
            for records in self.log.read(topic, partition, 0, end):
                yield from zip(key.decode_all(records.key), value.decode_all(records.value), strict=True)

    def dropped(self) -> dict[str, int]:
        """How many records were dropped, by reason; but for responses of foreign-key joins that were overtaken: with
        other partitions there are others."""
        figures = readable(self.application.coordinator.manifest.metrics)
        found: dict[str, int] = {}
        for metric, count in figures.items():
            if metric.name == DROPPED and metric.reason != "late-response" and count:
                found[metric.reason] = found.get(metric.reason, 0) + int(count)
        return found


def results(world: World) -> dict[str, dict[Any, Any]]:
    """What every output topic ends as, by key: records without a key come from all tasks, in any order."""
    outputs = [topic for topic in world.topology.sink_topics if topic != "dropped"]
    return {topic: {key: value for key, value in world.table(topic).items() if key is not None} for topic in outputs}


# --- any topology ----------------------------------------------------------------------------------------------------


OWN_TIME = (
    "rate_limit",
    "table_join_by_foreign_key_of_windows",
    "table_join_by_foreign_key_of_sessions",
    "processors_behind_a_new_key",
    "punctuations_",
)
"""What a rate limit lets go of, which rows of windows have expired when the other side changes, and when a processor is
called and what it tells then, depends on how far the stream time of one task has come; with several partitions there
are several."""


def meets(name: str) -> bool:
    """Whether records of several partitions meet in it, and what comes of it does not depend on how many there are."""
    topology = topology_of(name)
    has_global_table = any(isinstance(node, nodes.GlobalTable) for node in topology.nodes)
    return bool(topology.internal_topics) and not has_global_table and not name.startswith(OWN_TIME)


WITH_REPARTITION = [name for name in EXAMPLES if meets(name)]


@st.composite
def backlogs(draw: st.DrawFn, topology: Topology) -> list[list[Row]]:
    """Appends in the order of time, and records much later that close all windows of all keys."""
    topics = [topic for topic in topology.source_topics if topic not in topology.sink_topics]
    key, value = st.sampled_from(["a", "c", "d", None]), st.sampled_from([1, 2, 3, 0, None])
    gap = st.integers(1, 30) | st.sampled_from([31, 100, 1000])
    drawn = draw(st.lists(st.lists(st.tuples(st.sampled_from(topics), key, value, gap), max_size=12), max_size=5))
    time, appends = 0, []
    for rows in drawn:
        appends.append([])
        for topic, key_, value_, gap_ in rows:
            time += gap_
            appends[-1].append((topic, key_, value_, time))
    for late in (100_000, 200_000):
        ends = [(topic, key_, value_) for topic in topics for key_ in ("a", "c", "d") for value_ in (1, 2, 3)]
        appends.append([(*row, time + late + number) for number, row in enumerate(ends)])
    return appends


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_REPARTITION)
@settings(max_examples=max(3, settings.default.max_examples // 8))
@given(data=st.data())
def test_the_tables_end_as_with_one_partition_and_nothing_is_late(name: str, data: st.DataObject) -> None:
    topology = topology_of(name)
    appends = data.draw(backlogs(topology))
    one = World(topology, 1, appends)
    count = data.draw(st.sampled_from([2, 4, 7]), "partitions")
    several = World(topology, count, appends, **data.draw(CUTS, "cuts"))
    assert results(several) == results(one)
    assert several.dropped() == one.dropped()


# --- by name ---------------------------------------------------------------------------------------------------------

MINUTE, HOUR = 60_000, 3_600_000
SMALL_COMMITS = [
    {},
    {"chunk_records": 100, "commit_max_bytes": 2_000},
    pytest.param({"chunk_records": 20, "commit_max_bytes": 1}, marks=pytest.mark.slow),
]


def hourly() -> Topology:
    builder = StreamsBuilder()
    hours = TimeWindows.of_size_and_grace("1 hour", "10 minutes")
    by_value = builder.stream("in", value=int).group_by(lambda key, value: value, key=int)
    by_value.windowed_by(hours).count("hours").to_stream().to("out")
    return builder.build()


@pytest.mark.parametrize("cuts", SMALL_COMMITS)
@pytest.mark.parametrize("count", [2, 4, 7])
def test_two_days_in_perfect_order_lose_nothing_whatever_a_commit_takes(count: int, cuts: dict[str, int]) -> None:
    rows = [("in", None, number % 3, number * MINUTE) for number in range(2880)]
    world = World(hourly(), count, [[row] for row in rows[:200]] + [rows[200:]], **cuts)
    assert world.dropped() == {}
    assert sum(world.table("out").values()) == 2880
    assert world.table("out")[Windowed(0, 0, HOUR)] == 20


@pytest.mark.parametrize("cuts", SMALL_COMMITS)
def test_a_partition_with_fifty_times_the_records_of_another_does_not_run_ahead(cuts: dict[str, int]) -> None:
    """The key "a" has a record a minute, "d" one every 50 minutes, in another partition."""
    rows = [("in", "a" if number % 50 else "d", number % 3, number * MINUTE) for number in range(1500)]
    world = World(hourly(), 2, [rows], **cuts)
    assert world.dropped() == {}
    assert sum(world.table("out").values()) == 1500


@pytest.mark.parametrize("cuts", SMALL_COMMITS)
def test_paid_orders_behind_new_keys_raise_no_alert(cuts: dict[str, int]) -> None:
    """Each order is paid after 5 minutes but for one in 13, which alone are left without a payment."""
    builder = StreamsBuilder()
    orders, payments = (
        builder.stream(topic, value=int).select_key(lambda key, value: value, key=int)
        for topic in ("orders", "payments")
    )
    windows = JoinWindows.of_time_difference_and_grace("15 minutes", "1 minute")
    orders.left_join(payments, lambda order, payment: (order, payment), windows).filter(
        lambda key, pair: pair[1] is None
    ).map_values(lambda pair: pair[0], value=int).to("alerts")
    rows = []
    for number in range(400):
        rows.append(("orders", f"o{number}", number, number * MINUTE))
        if number % 13:
            rows.append(("payments", f"p{number % 5}", number, (number + 5) * MINUTE))
    rows.sort(key=lambda row: row[3])
    end = [(topic, "end", -key, 10**9 + key) for topic in ("orders", "payments") for key in range(1, 40)]
    world = World(builder.build(), 4, [rows, end, [(*row[:3], 2 * 10**9) for row in end]], **cuts)
    alerts = sorted(value for _, value in world.records("alerts") if value >= 0)
    assert alerts == [number for number in range(400) if number % 13 == 0]


def test_a_task_of_a_cycle_with_nothing_to_read_in_a_commit_holds_up_no_other_task() -> None:
    """The first commits end at the time 66: at that time there is a record of "d", and none of the other partitions."""
    topology = topology_of("cycle_of_two_sub_topologies")
    appends: list[list[Row]] = [
        [("in", key, 3, time) for key, time in [("c", 31), (None, 59), ("d", 66), ("a", 92), ("a", 114)]],
        [("in", key, 2, time) for key, time in [("c", 145), ("d", 275), ("a", 306), ("d", 1306), ("a", 2433)]],
    ]
    several = World(topology, 4, appends, commit_max_bytes=40, chunk_records=7)
    assert results(several) == results(World(topology, 1, appends))


@pytest.mark.parametrize("cuts", SMALL_COMMITS)
def test_sessions_behind_new_keys_are_not_halved(cuts: dict[str, int]) -> None:
    """A record a minute, one session of 600 records for each value."""
    builder = StreamsBuilder()
    by_value = builder.stream("in", value=int).group_by(lambda key, value: value, key=int)
    sessions = by_value.windowed_by(SessionWindows.of_inactivity_gap_with_no_grace("5 minutes")).count()
    sessions.to_stream().to("out")
    rows = [("in", "abcdefg"[number % 7], number % 3, number * MINUTE) for number in range(1800)]
    world = World(builder.build(), 4, [rows], **cuts)
    first, last = 0, 1797 * MINUTE
    assert world.table("out") == {
        Windowed(value, first + value * MINUTE, last + value * MINUTE): 600 for value in range(3)
    }
    assert world.dropped() == {}


def test_records_of_one_time_all_count() -> None:
    """Such as a table that was written out at once: no order is right or wrong, and none of it waits for ever."""
    rows = [("in", f"k{number}", number % 3, 0) for number in range(500)]
    world = World(hourly(), 4, [rows], chunk_records=10, commit_max_bytes=100, input_buffer_max_bytes=1)
    assert world.table("out") == {Windowed(value, 0, HOUR): count for value, count in enumerate((167, 167, 166))}


def test_a_record_that_is_late_in_its_own_partition_is_late_as_in_kafka_streams() -> None:
    """The one of minute 0 comes behind those of minute 120; an hour takes late records for ten minutes."""
    rows = [("in", "a", 0, number * MINUTE) for number in range(60, 121)] + [("in", "a", 0, 0)]
    world = World(hourly(), 2, [rows])
    assert sum(world.dropped().values()) == 1


def test_what_comes_while_a_backlog_is_read_takes_its_place() -> None:
    """One partition has two hours more when the other is read to its end: these wait for nothing any more."""
    world = World(hourly(), 2, [[("in", "a", 0, number * MINUTE) for number in range(60)]], commit_max_bytes=100)
    assert sum(world.table("out").values()) == 60
    world.go_on([("in", "d", 0, number * MINUTE) for number in range(60, 180)])
    world.go_on([("in", "a", 0, number * MINUTE) for number in range(180, 240)])
    assert world.dropped() == {}
    assert sum(world.table("out").values()) == 240


def test_what_waits_between_stages_is_bounded() -> None:
    """While the partition of "a" is behind, that of "d", which has few records an hour, is not read any further."""
    rows = [("in", "a", 0, number * 1000) for number in range(1000)]
    rows += [("in", "d", 1, number * HOUR) for number in range(1, 300)]
    rows.append(("in", "a", 0, 300 * HOUR))  # the log tells no more than the highest time of an append
    limits = {"chunk_records": 10, "commit_max_bytes": 200, "input_buffer_max_bytes": 1000}
    world = World(hourly(), 2, [rows], **limits)
    assert 0 < max(world.waiting) < 1000 + 2 * 10 * 100
    assert world.dropped() == {}
    assert sum(world.table("out").values()) == 1300


def test_partitions_are_read_up_to_the_same_time_as_far_as_the_log_can_tell() -> None:
    """Appends of an hour each: what one commit reads of the denser partition says how far it goes in the other."""
    hours = [
        [("in", "a", 0, hour * HOUR + number) for number in range(100)] + [("in", "d", 0, hour * HOUR)]
        for hour in range(20)
    ]
    world = World(hourly(), 2, hours, commit_max_bytes=5_000, chunk_records=100)
    assert len(world.offsets) > 3
    assert {records // 100 - hours for records, hours in world.offsets} == {0}
