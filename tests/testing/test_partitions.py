"""The test driver with several partitions: what a cluster does, in a test."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import (
    ConfigError,
    Materialized,
    PartitioningWarning,
    Record,
    SessionKey,
    SessionWindows,
    Stores,
    StreamsBuilder,
    TimeWindows,
    TopologyError,
    Windowed,
)
from penstock.engine.local import LocalApplication
from penstock.errors import SerdeError, StoreError
from penstock.log.file.log import FileLog
from penstock.settings import Settings
from penstock.storage.base import LocalStorage
from penstock.testing import TopologyTestDriver

pytestmark = pytest.mark.kip("KS-01", "KIP-655")

ROWS = [("ann", {"id": i, "n": i}, i) for i in range(8)]


def counting(record: Record, context: Any) -> None:
    store = context.get_state_store("seen")
    store.put(record.key, (store.get(record.key) or 0) + 1)
    context.forward(record.with_value(store.get(record.key)))


def deduplicated(then: Any) -> penstock.Topology:
    """Events without duplicates, then something, then a count by a processor with a store."""
    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value_store_builder(Stores.persistent_key_value_store("seen"), str, int))
    events = builder.stream("in", key=str, value=dict).deduplicate("id", "1 h")
    then(events).process(counting, "seen", value=int).to("out")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PartitioningWarning)
        return builder.build()


def counts(topology: penstock.Topology, partitions: int) -> list[int]:
    driver = TopologyTestDriver(topology, partitions=partitions)
    driver.pipe_record_list("in", ROWS)
    return sorted(record.value for record in driver.read_output("out"))


def run(topology: penstock.Topology, folder: Path) -> list[int]:
    """What an application makes of topics of four partitions."""
    log = FileLog(folder / "log")
    penstock.produce(ROWS, "in", value=dict, partitions=4, log=log)
    storage, settings = LocalStorage(folder / "checkpoint"), Settings.load(environment={})
    application = LocalApplication(topology, "app", settings, log, storage)
    application.run_until()
    application.close()
    return sorted(record.value for record in penstock.consume("out", log=log))


def test_a_store_behind_a_deduplication_by_id_has_a_key_in_several_tasks_as_in_a_run(tmp_path: Path) -> None:
    topology = deduplicated(lambda events: events)
    assert counts(topology, 1) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert counts(topology, 4) == [1, 1, 1, 1, 2, 2, 2, 3]
    driver = TopologyTestDriver(topology, partitions=4)
    driver.pipe_record_list("in", ROWS)
    assert sum(value for _, value, _ in driver.store("seen").all()) == 8
    assert run(topology, tmp_path) == [1, 1, 1, 1, 2, 2, 2, 3]


def test_behind_a_repartition_all_partitions_together_have_what_one_has() -> None:
    assert counts(deduplicated(lambda events: events.repartition()), 4) == [1, 2, 3, 4, 5, 6, 7, 8]


def grouped() -> StreamsBuilder:
    builder = StreamsBuilder()
    names = builder.table("names", key=int, value=str, store="names")
    events = builder.stream("events", key=str, value=int)
    events.group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(10)).count("windows").to_stream().to("counted")
    totals = events.group_by(lambda key, value: value % 3, key=int).count("totals")
    joined = totals.join(names, lambda count, name: f"{name} {count}", value=str)
    joined.to_stream().to("named")
    orders = builder.table("orders", key=str, value=int)
    foreign = orders.join(names, foreign_key=lambda order: order % 3, joiner=lambda o, n: f"{n} {o}", value=str)
    foreign.to_stream().to("foreign")
    return builder


def outcome(partitions: int) -> tuple[Any, ...]:
    driver = TopologyTestDriver(grouped().build(), partitions=partitions)
    driver.pipe_record_list("names", [(number, f"name-{number}", 0) for number in range(3)])
    driver.pipe_record_list("events", [(f"k{i % 5}", i, 7 * i // 2) for i in range(40)])
    driver.pipe_record_list("orders", [(f"o{i}", i, i) for i in range(9)])
    driver.pipe_input("names", 1, "another", 5)
    outputs = [sorted(map(str, driver.read_output(topic))) for topic in ("counted", "named", "foreign")]
    stores = [sorted(map(str, driver.store(name).all())) for name in ("totals", "names")]
    return *outputs, *stores, driver.dropped_records_total()


def test_groups_windows_joins_and_foreign_keys_end_as_with_one_partition() -> None:
    assert outcome(4) == outcome(1)


def test_a_record_goes_into_the_partition_that_is_said_or_that_of_its_key_or_the_next() -> None:
    def places(record: Record, context: Any) -> None:
        context.forward(record.with_value(context.record_metadata.partition))

    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).process(places, value=int).to("out")
    driver = TopologyTestDriver(builder.build(), partitions=3)
    for partition in (2, 0, 1):
        driver.pipe_input("in", "a", "x", partition=partition)
    for _ in range(2):
        driver.pipe_input("in", "a", "x")
    assert [record.value for record in driver.read_output("out")] == [2, 0, 1, 1, 1]
    for _ in range(4):
        driver.pipe_input("in", None, "x")
    assert sorted({record.value for record in driver.read_output("out")}) == [0, 1, 2]
    with pytest.raises(ConfigError, match=r"pipe_input into 'in': it has the partitions 0 to 2; got 3"):
        driver.pipe_input("in", "a", "x", partition=3)


@pytest.mark.parametrize("wrong", [0, -1, 2.0, "4", True])
def test_a_number_of_partitions_that_is_none_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match=r"partitions=\.\.\.\) takes an int of 1 or more; got "):
        TopologyTestDriver(grouped().build(), partitions=wrong)


def test_joined_topics_that_would_have_different_numbers_are_refused_as_in_a_run() -> None:
    builder = StreamsBuilder()
    table = builder.table("rows", key=str, value=str)
    stream = builder.stream("in", key=str, value=str).repartition(partitions=3)
    stream.join(table, lambda left, right: left + right, value=str).to("out")
    with pytest.raises(TopologyError, match="needs topics with the same number of partitions"):
        TopologyTestDriver(builder.build(), partitions=4)


def test_every_task_has_all_of_a_global_table() -> None:
    builder = StreamsBuilder()
    rates = builder.global_table("rates", key=str, value=int, store="rates")
    paid = builder.stream("paid", key=str, value=int)
    paid.join(rates, lambda amount, rate: amount * rate, key_selector=lambda key, value: "eur", value=int).to("out")
    driver = TopologyTestDriver(builder.build(), partitions=4)
    driver.pipe_input("rates", "eur", 2)
    driver.pipe_record_list("paid", [(f"k{i}", i, 0) for i in range(8)])
    assert [record.value for record in driver.read_output("out")] == [2 * i for i in range(8)]
    assert list(driver.store("rates").all()) == [("eur", 2, 0)]


def test_stores_are_written_where_their_keys_belong_and_read_as_one() -> None:
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).group_by_key().count("counts").to_stream().to("out")
    driver = TopologyTestDriver(builder.build(), partitions=4)
    store = driver.get_key_value_store("counts")
    store.put_all([(f"k{i}", 10 * i) for i in range(6)])
    store.delete("k5")
    driver.pipe_record_list("in", [(f"k{i}", "x", 0) for i in range(6)])
    assert [record.value for record in driver.read_output("out")] == [1, 11, 21, 31, 41, 1]
    assert [store.get(f"k{i}") for i in range(7)] == [1, 11, 21, 31, 41, 1, None]
    assert sorted(store.all()) == [("k0", 1), ("k1", 11), ("k2", 21), ("k3", 31), ("k4", 41), ("k5", 1)]
    assert store.approximate_num_entries() == 6


def stores(partitions: int) -> TopologyTestDriver:
    """Stores of all kinds that are on disk and in memory, and one that each task has all of."""
    builder = StreamsBuilder()
    grouped = builder.stream("in", key=str, value=str).group_by_key()
    grouped.count("counts").to_stream().to("out")
    windows, sessions = TimeWindows.of_size_with_no_grace(1000), SessionWindows.of_inactivity_gap_with_no_grace(10)
    for kind, windowed in (("windows", grouped.windowed_by(windows)), ("sessions", grouped.windowed_by(sessions))):
        for where in ("disk", "memory"):
            kept = Materialized.as_(f"{kind}-{where}").with_retention("1 day")
            windowed.count(materialized=kept.in_memory() if where == "memory" else kept)
    builder.global_table("rates", key=str, value=int, store="rates")
    return TopologyTestDriver(builder.build(), partitions=partitions)


KEYS = ["b", "a", "", "ab", "ba", "a\0", "c", "é", "d", "abc"]
TIMES = [1000 * n for n in (0, 3, 50_000, 2, 70_000, 1)]


@pytest.mark.parametrize("partitions", [1, 4])
def test_rows_of_a_store_have_one_order_however_many_tasks_there_are(partitions: int) -> None:
    driver, one = stores(partitions), stores(1)
    for each in (driver, one):
        each.get_key_value_store("counts").put_all((key, number) for number, key in enumerate(KEYS))
        for where in ("disk", "memory"):
            windows, sessions = each.get_window_store(f"windows-{where}"), each.get_session_store(f"sessions-{where}")
            for number, key in enumerate(KEYS):
                windows.put(key, 0, max(TIMES))  # so all tasks have come as far in time
                for time in TIMES:
                    windows.put(key, number, time)
                    sessions.put(SessionKey(key, time, time + 10 * number), number)
    reads = {
        "counts": ["all", "reverse_all", ("range", "a", "b"), ("reverse_range", "a", None), ("prefix_scan", "a")],
        "windows": ["all", "backward_all", ("fetch", "ab"), ("backward_fetch", "ab"), ("fetch_range", "a", "b")],
        "sessions": [("fetch", "a"), ("backward_fetch", "a"), "fetch_range", ("backward_fetch_range", "a", "c")],
    }
    for kind, every in reads.items():
        for name in ("counts",) if kind == "counts" else (f"{kind}-disk", f"{kind}-memory"):
            for read, *bounds in (one if isinstance(one, tuple) else (one,) for one in every):
                mine, theirs = (list(getattr(each.get_state_store(name), read)(*bounds)) for each in (driver, one))
                assert mine == theirs, (name, read)
                assert len(mine) > 2


@pytest.mark.parametrize("partitions", [1, 4])
def test_a_store_is_written_by_name_and_refuses_as_with_one_partition(partitions: int) -> None:
    driver = stores(partitions)
    store = driver.get_key_value_store("counts")
    for number, key in enumerate(KEYS):
        store.put(value=number, key=key)
    assert [store.get(key=key) for key in KEYS] == list(range(len(KEYS)))
    assert store.put_if_absent(value=7, key="b") == 0
    assert store.put_if_absent(value=7, key="new") is None
    assert store.delete(key="new") == 7
    for refused in (
        lambda: store.put(None, 1),
        lambda: store.put_all([("b", 100), (None, 1)]),
        lambda: store.put_all([("b", 100), ("c", 100), ("a", "no number")]),
        lambda: store.get(None),
        lambda: store.delete(None),
        lambda: store.put(5, 1),
    ):
        with pytest.raises((StoreError, SerdeError)):
            refused()
    assert [store.get(key) for key in KEYS] == list(range(len(KEYS)))
    with pytest.raises(StoreError, match="the key must not be None: store 'counts' has no rows without a key"):
        store.put(None, 1)
    with pytest.raises(TypeError, match="value"):
        store.put("b")


def test_what_is_put_into_a_store_that_each_task_has_is_in_all_of_them() -> None:
    builder = StreamsBuilder()
    rates = builder.global_table("rates", key=str, value=int, store="rates")
    paid = builder.stream("paid", key=str, value=int)
    paid.join(rates, lambda amount, rate: amount * rate, key_selector=lambda key, value: "eur", value=int).to("out")
    driver = TopologyTestDriver(builder.build(), partitions=4)
    driver.get_key_value_store("rates").put_all(pair for pair in [("eur", 2)])
    driver.pipe_record_list("paid", [(f"k{i}", i, 0) for i in range(8)])
    assert [record.value for record in driver.read_output("out")] == [2 * i for i in range(8)]


def test_a_table_of_windowed_keys_is_written_where_the_key_belongs() -> None:
    builder = StreamsBuilder()
    counts = builder.stream("in", key=str, value=str).group_by_key()
    windows = counts.windowed_by(TimeWindows.of_size_with_no_grace(10)).count()
    windows.to_stream().to_table(store="latest").to_stream().to("out")
    driver = TopologyTestDriver(builder.build(), partitions=4)
    keys = [Windowed(f"k{i}", 10, 20) for i in range(8)]
    for key in keys:
        driver.get_key_value_store("latest").put(key, 5)
    assert [key for key, _ in driver.get_key_value_store("latest").all()] == keys
    driver.pipe_record_list("in", [(f"k{i}", "x", 12) for i in range(8)])
    assert [driver.get_key_value_store("latest").get(key) for key in keys] == [1] * 8
    assert driver.get_key_value_store("latest").approximate_num_entries() == 8


def test_stream_time_is_that_of_a_partition() -> None:
    builder = StreamsBuilder()
    windows = TimeWindows.of_size_with_no_grace(10)
    counts = builder.stream("in", key=str, value=str).group_by_key().windowed_by(windows).count(name="minutes")
    counts.to_stream().to("out")
    driver = TopologyTestDriver(builder.build(), partitions=2)
    driver.pipe_input("in", "a", "x", 5, partition=0)
    driver.pipe_input("in", "b", "x", 95, partition=1)
    driver.pipe_input("in", "a", "x", 6, partition=0)
    assert driver.dropped_records_total() == 0
    [line] = driver.timeline("a")
    assert [one.is_late for one in line.records] == [False, False]
