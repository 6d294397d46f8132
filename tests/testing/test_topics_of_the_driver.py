"""``create_input_topic``, ``create_output_topic`` and stores that a test writes (KS-15)."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from datetime import UTC, datetime
from typing import Any

import pytest

import penstock
from penstock import (
    JoinWindows,
    Materialized,
    Record,
    SessionKey,
    SessionWindows,
    Stores,
    StreamsBuilder,
    TimeWindows,
    ValueAndTimestamp,
)
from penstock.errors import ConfigError, NoSuchElementError, SerdeError
from penstock.testing import TopologyTestDriver

pytestmark = pytest.mark.kip("KS-15")


def copying(**types) -> TopologyTestDriver:
    builder = StreamsBuilder()
    builder.stream("in", **types).to("out")
    return TopologyTestDriver(builder.build())


def test_records_without_a_time_follow_the_clock_of_their_topic():
    driver = copying(value=int)
    topic = driver.create_input_topic("in", start=datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), auto_advance="10 ms")
    topic.pipe_input(1)
    topic.pipe_input("a", 2)
    topic.pipe_input("a", 3, 5)
    topic.pipe_input("a", None, headers=[("h", b"1")])
    topic.advance_time("1 s")
    topic.pipe_input(Record("b", 4, None))
    topic.pipe_input(Record("b", 5, 7, (("h", b"2"),)))
    assert driver.create_output_topic("out").read_records_to_list() == [
        Record(None, 1, 1000),
        Record("a", 2, 1010),
        Record("a", 3, 5),
        Record("a", None, 1020, (("h", b"1"),)),
        Record("b", 4, 2030),
        Record("b", 5, 7, (("h", b"2"),)),
    ]


def test_lists_are_piped_by_the_clock_or_by_times_of_their_own():
    driver = copying(value=int)
    topic = driver.create_input_topic("in", start=100, auto_advance=1)
    topic.pipe_value_list([1, 2])
    topic.pipe_value_list([3, 4], start=10, advance="5 ms")
    topic.pipe_key_value_list([("a", 5), ("b", 6)])
    topic.pipe_key_value_list([("a", 7)], start=1)
    topic.pipe_record_list([Record("a", 8, None), Record("a", 9, 2)])
    records = driver.create_output_topic("out").read_records_to_list()
    assert [record.value for record in records] == list(range(1, 10))
    assert [record.timestamp for record in records] == [100, 101, 10, 15, 102, 103, 1, 104, 2]
    with pytest.raises(ConfigError, match="takes penstock"):
        topic.pipe_record_list([("a", 1)])


def test_records_are_read_one_by_one_or_all_that_are_there():
    driver = copying(value=int)
    driver.create_input_topic("in").pipe_key_value_list([("a", 1), ("b", 2), ("a", 3), ("c", 4), ("d", 5)])
    out = driver.create_output_topic("out")
    assert (out.get_queue_size(), len(out), out.is_empty()) == (5, 5, False)
    assert out.read_value() == 1
    assert out.read_key_value() == ("b", 2)
    assert out.read_record() == Record("a", 3, 0)
    assert out.read_key_values_to_list() == [("c", 4), ("d", 5)]
    assert (out.is_empty(), out.read_values_to_list(), len(out)) == (True, [], 0)
    with pytest.raises(NoSuchElementError, match="all records of topic 'out' have been read"):
        out.read_value()


def test_a_map_has_the_last_value_of_each_key_and_takes_no_null_keys():
    driver = copying(value=int)
    topic, out = driver.create_input_topic("in"), driver.create_output_topic("out")
    topic.pipe_key_value_list([("a", 1), ("b", 2), ("a", 3)])
    assert out.read_key_values_to_map() == {"a": 3, "b": 2}
    topic.pipe_input(7)
    with pytest.raises(ConfigError, match="None cannot be a key of a dict"):
        out.read_key_values_to_map()
    assert out.read_value() == 7


def test_topics_have_types_of_their_own_when_asked():
    driver = copying(key=bytes, value=bytes)
    driver.create_input_topic("in", key=str, value=int).pipe_input("a", 258)
    assert driver.create_output_topic("out", key=str, value=int).read_key_value() == ("a", 258)
    driver.create_input_topic("in", value=str).pipe_input("x")
    assert driver.create_output_topic("out").read_value() == b"x"
    with pytest.raises(SerdeError, match="pipe_input into 'in'"):
        driver.create_input_topic("in", value=int).pipe_input("no int")


def test_topics_that_the_topology_does_not_have_are_refused():
    driver = copying()
    with pytest.raises(ConfigError, match="does not read a topic 'inn'; it reads these topics: in"):
        driver.create_input_topic("inn")
    with pytest.raises(ConfigError, match="does not write a topic 'outt'; it writes these topics: out"):
        driver.create_output_topic("outt")
    with pytest.raises(ConfigError, match="auto_advance must not be negative"):
        driver.create_input_topic("in", auto_advance=-1)


def test_the_topics_that_records_were_written_to_are_known():
    driver = copying()
    assert driver.produced_topic_names() == set()
    driver.create_input_topic("in").pipe_input("x")
    driver.read_output("out")
    assert driver.produced_topic_names() == {"out"}


# --- writable stores -------------------------------------------------------------------------------------------------


def test_an_aggregation_begins_with_what_the_test_put_into_its_store():
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().count("counts").to_stream().to("out")
    driver = TopologyTestDriver(builder.build())
    store = driver.get_key_value_store("counts")
    store.put("a", 41)
    driver.get_timestamped_key_value_store("counts").put("b", ValueAndTimestamp(7, 9))
    store.put_all([("c", 1), ("d", 2)])
    assert store.delete("d") == 2
    assert store.put_if_absent("c", 5) == 1
    driver.pipe_input("in", "a", "x", 3)
    driver.pipe_input("in", "b", "x", 3)
    assert driver.read_output("out") == [Record("a", 42, 3), Record("b", 8, 9)]
    assert list(store.all()) == [("a", 42), ("b", 8), ("c", 1)]
    assert driver.get_timestamped_key_value_store("counts").get("c") == ValueAndTimestamp(1, -1)


def test_what_a_test_put_stays_when_the_next_record_fails():
    builder = StreamsBuilder()
    builder.stream("in").map_values(lambda value: 1 // value).group_by_key().count("counts")
    driver = TopologyTestDriver(builder.build())
    driver.get_key_value_store("counts").put("a", 5)
    with pytest.raises(penstock.ProcessingError):
        driver.pipe_record_list("in", [("a", 1), ("a", 0)])
    assert driver.store("counts").get("a") == 6


def test_a_view_of_a_store_can_be_written_too():
    builder = StreamsBuilder()
    builder.table("in", value=int, store="table").to_stream().to("out")
    driver = TopologyTestDriver(builder.build())
    driver.store("table").put("a", 1)
    assert driver.store("table").get("a") == 1
    assert driver.store("table").delete("a") == 1
    assert list(driver.store("table").all()) == []


def test_views_of_stores_that_keep_no_timestamps_are_written_too():
    builder = StreamsBuilder()
    own = Stores.key_value_store_builder(Stores.persistent_key_value_store("own"), str, int)
    builder.add_state_store(own)
    builder.stream("in").process(lambda record, context: None, "own").to("out")
    grouped = builder.stream("in").group_by_key()
    grouped.windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(10)).count("sessions")
    builder.table("rows", value=int, materialized=Materialized.as_versioned("versions", history_retention=1000))
    driver = TopologyTestDriver(builder.build())
    driver.store("own").put("a", 1)
    driver.get_key_value_store("own").put_all([("b", 2)])
    driver.store("sessions").put(SessionKey("a", 0, 5), 6)
    driver.store("versions").put("k", 8, 100)
    assert list(driver.get_key_value_store("own").all()) == [("a", 1), ("b", 2)]
    assert driver.get_session_store("sessions").fetch_session("a", 0, 5) == 6
    assert driver.get_versioned_key_value_store("versions").get("k").value == 8


def test_window_session_and_versioned_stores_are_written_as_processors_write_them():
    builder = StreamsBuilder()
    grouped = builder.stream("in").group_by_key()
    grouped.windowed_by(TimeWindows.of_size_with_no_grace(10)).count("windows")
    grouped.windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(10)).count("sessions")
    builder.table("rows", value=int, materialized=Materialized.as_versioned("versions", history_retention=1000))
    driver = TopologyTestDriver(builder.build())
    driver.get_window_store("windows").put("a", 4, 0)
    driver.get_session_store("sessions").put(SessionKey("a", 0, 5), 6)
    driver.get_versioned_key_value_store("versions").put("k", 8, 100)
    driver.pipe_input("in", "a", "x", 7)
    driver.pipe_input("rows", "k", 9, 200)
    assert driver.get_window_store("windows").get("a", 0) == 5
    assert driver.get_timestamped_window_store("windows").get("a", 0) == ValueAndTimestamp(5, 7)
    assert list(driver.get_session_store("sessions").fetch("a")) == [(SessionKey("a", 0, 7), 7)]
    assert driver.get_versioned_key_value_store("versions").get("k", 150).value == 8
    assert set(driver.get_all_state_stores()) == {"windows", "sessions", "versions"}


def test_a_store_of_another_kind_is_refused():
    builder = StreamsBuilder()
    builder.table("in", store="table")
    driver = TopologyTestDriver(builder.build())
    with pytest.raises(ConfigError, match="is a key_value store, no window store; get_key_value_store gives it"):
        driver.get_window_store("table")
    with pytest.raises(ConfigError, match="tabel"):
        driver.get_state_store("tabel")


# --- types for annotations -------------------------------------------------------------------------------------------


NOT_FOR_USERS = {
    "Topology": {
        "Sink",
        "Copartition",
        "DynamicSink",
        "Node",
        "Repartition",
        "SubTopology",
        "TableFacts",
    },  # for the engine
    "KGroupedStream": {"Node"},
    "ProcessorContext": {"Serde"},  # which is passed on as it is
    "Serdes": {"Serde"},
    "CalendarWindows": {"WindowEnds"},  # which TimeWindowedSerde takes as it is
    "col": {"Column"},  # which steps take as it is
    "BufferConfig": {"EagerBufferConfig", "StrictBufferConfig"},  # each is a BufferConfig
    "BufferedTransaction": {"Rows"},
    "StoreBuilder": {"StoreSpec"},
    "schema_of": {"TopicSchema"},  # a pair that is taken apart
    "ApplicationStores": {"CommittedStore", "StoreShape"},  # each view of a store is a CommittedStore
    **{name: {"Folding", "Reading"} for name in ("NamedAggregate", "TopN")},  # for the operators
    **{
        name: {"Folding"}
        for name in (
            "ApproxDistinct",
            "ApproxQuantile",
            "Collect",
            "Count",
            "First",
            "Last",
            "Max",
            "Mean",
            "Min",
            "Sum",
        )
    },
    **{name: {"Format"} for name in ("cloud_event", "debezium", "json_lines", "maxwell")},  # for format=
}
"""What is given by public classes and is public itself nowhere."""


def classes_of_the_library() -> set[str]:
    importlib.import_module("penstock.engine.spark.streams")  # with all that it stands on
    loaded = [module for name, module in list(sys.modules.items()) if name.split(".")[0] == "penstock"]
    found = {one for module in loaded for one in vars(module).values() if inspect.isclass(one)}
    return {one.__name__ for one in found if one.__module__.split(".")[0] == "penstock"}


def types_given(kind: Any) -> set[str]:
    """The names in what the public methods and properties of a class, or a function, say that they return."""
    members = [one for name, one in vars(kind).items() if name[0] != "_"] if inspect.isclass(kind) else [kind]
    plain = [
        getattr(one, "fget", None) or getattr(one, "func", None) or getattr(one, "__func__", one) for one in members
    ]
    said = [str(getattr(one, "__annotations__", {}).get("return", "")) for one in plain]
    return {name for text in said for name in re.findall(r"\b[A-Z]\w+", text)}


def test_all_types_that_public_methods_give_can_be_imported_from_the_package():
    public = set(penstock.__all__)
    kinds = {name: getattr(penstock, name) for name in public if not name.isupper()}
    own = classes_of_the_library()
    missing = {name: types_given(kind) & own - public - NOT_FOR_USERS.get(name, set()) for name, kind in kinds.items()}
    assert {name: types for name, types in missing.items() if types} == {}
    of_builders = set().union(*map(types_given, StreamsBuilder.__mro__))
    assert of_builders >= {"GlobalKTable", "KStream", "KTable", "StreamsBuilder", "Topology"}
    of_streams = set().union(*map(types_given, penstock.Streams.__mro__))
    assert of_streams & own >= {"RestoreProgress", "StateQueryResult", "SlotPlace"}


def test_the_stores_of_a_join_of_streams_are_read_and_not_written():
    builder = StreamsBuilder()
    left, right = (builder.stream(topic, value=int) for topic in ("left", "right"))
    left.join(right, lambda one, other: one + other, JoinWindows.of_time_difference_with_no_grace(5)).to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("left", "a", 1, 3)
    stores = [driver.store(name) for name in driver.topology.facts.named()]
    assert [[row[0].key for row in store.all()] for store in stores] == [["a"], []]
    assert not any(hasattr(store, "put") for store in stores)
    assert driver.get_all_state_stores() == {}
