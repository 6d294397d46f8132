"""Stores of processors that keep headers (KIP-1271): their rows, their errors, their transactions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock import (
    AggregationWithHeaders,
    ConfigError,
    JoinWindows,
    Materialized,
    ProcessingError,
    Processor,
    Record,
    SessionKey,
    SessionWindows,
    Stores,
    StreamJoined,
    StreamsBuilder,
    TimeWindows,
    ValueAndTimestamp,
    ValueTimestampHeaders,
)
from penstock.testing import TopologyTestDriver
from support.flows import Run, source

pytestmark = pytest.mark.kip("44-04")

ID = (("id", b"1"), ("none", None))
KEPT = {
    "disk": Stores.persistent_timestamped_key_value_store_with_headers("kept"),
    "memory": Stores.in_memory_key_value_store("kept"),
    "lru": Stores.lru_map("kept", 10),
    "plain": Stores.persistent_key_value_store("kept"),
}


def processing(work: Callable[[Any, Any, Record], Any], builder: Any, *stores: Any) -> Any:
    """A stream whose processor forwards what a function of (context, store, record) returns."""

    class Works(Processor):
        def init(self, context):
            self.context, self.store = context, context.get_state_store("kept")

        def process(self, record):
            self.context.forward(Record(record.key, str(work(self.context, self.store, record)), record.timestamp))

    for store in stores:
        builder.add_state_store(store)
    return Works


def driver_of(work: Callable[[Any, Any, Record], Any], store: Any, value: Any = str) -> TopologyTestDriver:
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=value).process(processing(work, builder, store), "kept", value=str).to("out")
    return TopologyTestDriver(builder.build())


def headed(record: Record) -> ValueTimestampHeaders:
    return ValueTimestampHeaders(record.value, record.timestamp, record.headers)


@pytest.mark.parametrize("kind", KEPT)
def test_a_key_value_store_keeps_value_time_and_headers_wherever_it_is(kind: str):
    def work(context, store, record):
        before = store.get(record.key)
        store.put(record.key, headed(record))
        return before, store.get(record.key), list(store.all())

    store = Stores.timestamped_key_value_store_with_headers_builder(KEPT[kind], str, dict)
    driver = driver_of(work, store, dict)
    driver.pipe_input("in", "a", {"n": 1}, 5, ID)
    driver.pipe_input("in", "a", {"n": 2}, 7)
    first, second = ValueTimestampHeaders({"n": 1}, 5, ID), ValueTimestampHeaders({"n": 2}, 7, ())
    assert [record.value for record in driver.read_output("out")] == [
        str((None, first, [("a", first)])),
        str((first, second, [("a", second)])),
    ]
    rows = driver.get_timestamped_key_value_store_with_headers("kept")
    assert list(rows.all()) == [("a", second)]
    rows.put("b", first)
    assert driver.get_timestamped_key_value_store("kept").get("b") == ValueAndTimestamp({"n": 1}, 5)
    assert driver.get_key_value_store("kept").get("b") == {"n": 1}


def test_rows_are_the_same_in_a_chunk_and_one_by_one(run: Run):
    def work(context, store, record):
        before = store.get(record.key)
        store.put(
            record.key, None if record.value == 3 else headed(record)._replace(headers=(("v", b"%d" % record.value),))
        )
        return before

    builder, stream = source(value=int)
    store = Stores.timestamped_key_value_store_with_headers_builder(KEPT["disk"], str, int)
    stream.process(processing(work, builder, store), "kept", value=str).to("out")
    rows = [("a", 1, 5), ("b", 2, 6), ("a", 3, 7), ("a", 4, 8), ("b", 5, 2)]
    one, two = (str(ValueTimestampHeaders(n, t, (("v", b"%d" % n),))) for n, t in ((1, 5), (2, 6)))
    assert run(builder, rows).output() == [
        ("a", "None", 5),
        ("b", "None", 6),
        ("a", one, 7),
        ("a", "None", 8),
        ("b", two, 2),
    ]


@pytest.mark.parametrize("keeps_all", [False, True])
def test_a_window_store_keeps_headers_of_each_value(keeps_all: bool):
    def work(context, store, record):
        store.put(record.key, headed(record), 0)
        return [value for _, value in store.fetch(record.key, 0, 10)]

    supplier = Stores.persistent_timestamped_window_store_with_headers("kept", 100, 10, retain_duplicates=keeps_all)
    driver = driver_of(work, Stores.timestamped_window_store_with_headers_builder(supplier, str, str))
    driver.pipe_input("in", "a", "x", 5, ID)
    driver.pipe_input("in", "a", "y", 7)
    x, y = ValueTimestampHeaders("x", 5, ID), ValueTimestampHeaders("y", 7, ())
    assert [r.value for r in driver.read_output("out")] == [str([x]), str([x, y] if keeps_all else [y])]
    assert list(driver.get_timestamped_window_store_with_headers("kept").fetch("a", 0, 10))[-1] == (0, y)
    assert list(driver.get_window_store("kept").fetch("a", 0, 10))[-1] == (0, "y")


@pytest.mark.parametrize("supplier", [Stores.persistent_session_store_with_headers, Stores.in_memory_session_store])
def test_a_session_store_keeps_headers_of_aggregates(supplier: Any):
    def work(context, store, record):
        session = SessionKey(record.key, 0, record.timestamp)
        store.put(session, AggregationWithHeaders(record.value, record.headers))
        return store.fetch_session(record.key, 0, record.timestamp), list(store.find_sessions(record.key))

    driver = driver_of(work, Stores.session_store_with_headers_builder(supplier("kept", 100), str, str))
    driver.pipe_input("in", "a", "x", 5, ID)
    found = AggregationWithHeaders("x", ID)
    assert [r.value for r in driver.read_output("out")] == [str((found, [(SessionKey("a", 0, 5), found)]))]
    assert driver.get_session_store_with_headers("kept").fetch_session("a", 0, 5) == found
    assert driver.get_session_store("kept").fetch_session("a", 0, 5) == "x"


def test_a_transaction_reads_its_headers_and_an_undone_one_leaves_none():
    def work(context, store, record):
        with store.new_transaction() as transaction:
            transaction.put(record.key, headed(record))
            inside = transaction.get(record.key)
            if record.value == "keep":
                transaction.commit({})
        return inside, store.get(record.key)

    driver = driver_of(work, Stores.timestamped_key_value_store_with_headers_builder(KEPT["disk"], str, str))
    for number, value in enumerate(("undo", "keep")):
        driver.pipe_input("in", "a", value, number, ID)
    undone, kept = (ValueTimestampHeaders(value, number, ID) for number, value in enumerate(("undo", "keep")))
    assert [r.value for r in driver.read_output("out")] == [str((undone, None)), str((kept, kept))]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (5, r"takes ValueTimestampHeaders\(value, timestamp, headers\) or None; got 5 of type int"),
        (ValueAndTimestamp(5, 1), "takes ValueTimestampHeaders.*of type ValueAndTimestamp"),
        (ValueTimestampHeaders(5, "1"), "a timestamp is an int of milliseconds"),
        (ValueTimestampHeaders(5, 1, (("id", 7),)), "headers are a tuple of pairs of a name and bytes"),
    ],
)
def test_what_is_no_value_with_headers_is_refused(value: Any, why: str):
    store = Stores.timestamped_key_value_store_with_headers_builder(KEPT["disk"], str, int)
    driver = driver_of(lambda context, store, record: store.put("a", value), store)
    with pytest.raises(ProcessingError, match=f"{why}.*Nothing was put"):
        driver.pipe_input("in", "a", "x", 5)


def test_the_store_of_a_table_shows_headers_and_takes_none():
    def work(context, store, record):
        found = store.get("a")
        store.put("b", ValueTimestampHeaders(7, 1, ID if record.value == "with" else ()))
        return found

    builder = StreamsBuilder()
    supplier = Stores.persistent_timestamped_key_value_store_with_headers("kept")
    builder.stream("in").group_by_key().count(materialized=Materialized.as_(supplier))
    builder.stream("ask").process(processing(work, builder), "kept", value=str).to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "a", "x", 5, ID)
    driver.pipe_input("ask", "a", "without", 6)
    assert [r.value for r in driver.read_output("out")] == [str(ValueTimestampHeaders(1, 5, ()))]
    assert driver.get_timestamped_key_value_store_with_headers("kept").get("b") == ValueTimestampHeaders(7, 1, ())
    with pytest.raises(ProcessingError, match=r"the store of a table keeps no headers.*Nothing was put"):
        driver.pipe_input("ask", "a", "with", 6)


def test_windows_and_sessions_may_be_kept_in_stores_that_are_described_with_headers():
    builder = StreamsBuilder()
    grouped = builder.stream("in").group_by_key()
    windows = Stores.persistent_timestamped_window_store_with_headers("windows", 1000, 10)
    sessions = Stores.persistent_session_store_with_headers("sessions", 1000)
    grouped.windowed_by(TimeWindows.of_size_with_no_grace(10)).count(materialized=Materialized.as_(windows))
    gap = SessionWindows.of_inactivity_gap_with_no_grace(5)
    grouped.windowed_by(gap).count(materialized=Materialized.as_(sessions))
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", "a", "x", 12, ID)
    found = driver.get_timestamped_window_store_with_headers("windows").fetch("a", 0, 20)
    assert list(found) == [(10, ValueTimestampHeaders(1, 12, ()))]
    assert driver.get_session_store_with_headers("sessions").fetch_session("a", 12, 12) == AggregationWithHeaders(1, ())


@pytest.mark.parametrize("format_", ["default", "headers"])
def test_each_side_of_a_join_keeps_headers_as_its_store_is_described(format_: str):
    stores = Stores.persistent_timestamped_window_store_with_headers, Stores.persistent_window_store
    left, right = (store(name, 40, 20, True) for name, store in zip(("left", "right"), stores, strict=True))
    joined = StreamJoined().with_this_store_supplier(left).with_other_store_supplier(right)
    builder = StreamsBuilder()
    one, other = builder.stream("one", value=int), builder.stream("other", value=int)
    windows = JoinWindows.of_time_difference_and_grace(10, 20)
    one.join(other, lambda a, b: a + b, windows, joined, value=int).to("out")
    driver = TopologyTestDriver(builder.build(), dsl_store_format=format_)
    driver.pipe_input("one", "a", 1, 5, ID)
    driver.pipe_input("other", "a", 2, 6, ID)
    assert [(record.value, record.headers) for record in driver.read_output("out")] == [(3, ID)]
    kept = [(window.start, *found) for window, found in driver.store("left").fetch_all_with_headers()]
    assert kept == [(5, 1, 5, ID)]
    assert (driver.store("right").has_headers, list(driver.store("right").fetch("a"))) == (False, [(6, 2, 6)])


def test_a_store_of_ones_own_or_of_another_kind_is_refused():
    class Own:
        name = "kept"

        def get(self):
            raise AssertionError

    for supplier in (Own(), Stores.persistent_session_store("kept", 100)):
        with pytest.raises(ConfigError, match="timestamped_key_value_store_with_headers_builder takes a supplier"):
            Stores.timestamped_key_value_store_with_headers_builder(supplier, str, int)


@pytest.mark.parametrize("format_", ["HEADERS", "headers", "default"])
def test_the_setting_gives_all_tables_headers_but_those_that_are_described(format_: str):
    builder = StreamsBuilder()
    grouped = builder.stream("in").group_by_key()
    grouped.count("counts")
    grouped.count(materialized=Materialized.as_(Stores.persistent_timestamped_key_value_store("described")))
    grouped.count(materialized=Materialized.as_versioned("versions", "1 day"))
    grouped.windowed_by(TimeWindows.of_size_with_no_grace(10)).count("windows")
    driver = TopologyTestDriver(builder.build(), dsl_store_format=format_)
    with_headers = {name for name in ("counts", "described", "versions", "windows") if driver.store(name).has_headers}
    assert with_headers == ({"counts", "windows"} if format_.lower() == "headers" else set())


def test_another_format_is_refused():
    builder = StreamsBuilder()
    builder.stream("in").to("out")
    with pytest.raises(ConfigError, match="dsl_store_format must be one of default, headers; got 'plain'"):
        TopologyTestDriver(builder.build(), dsl_store_format="PLAIN")
