"""``TopologyTestDriver``: records piped in, records read out, stores, counters; without Spark."""

from __future__ import annotations

import pytest

from penstock import Record, StreamsBuilder, TimeWindows, Windowed
from penstock.errors import ConfigError, ProcessingError, SerdeError
from penstock.testing import TopologyTestDriver


def counting(**types) -> StreamsBuilder:
    builder = StreamsBuilder()
    builder.stream("in", **types).group_by_key().count("counts").to_stream().to("out")
    return builder


def driver_of(builder: StreamsBuilder, **settings) -> TopologyTestDriver:
    return TopologyTestDriver(builder.build(), **settings)


# --- piping and reading ----------------------------------------------------------------------------------------------


def test_a_record_is_finished_when_pipe_input_returns():
    driver = driver_of(counting())
    driver.pipe_input("in", "a", 1, 10)
    assert driver.read_output("out") == [Record("a", 1, 10)]
    driver.pipe_input("in", "a", 2, 5)
    assert driver.read_output("out") == [Record("a", 2, 10)]


def test_reading_gives_what_came_since_the_last_reading():
    driver = driver_of(counting())
    assert driver.read_output("out") == []
    driver.pipe_input("in", "a", 1, 1)
    driver.pipe_input("in", "b", 1, 2)
    assert driver.read_output("out") == [Record("a", 1, 1), Record("b", 1, 2)]
    assert driver.read_output("out") == []


def test_all_outputs_can_be_read_in_the_order_of_writing():
    builder = StreamsBuilder()
    stream = builder.stream("in")
    stream.to("copies")
    stream.group_by_key().count().to_stream().to("counts")
    driver = driver_of(builder)
    driver.pipe_input("in", "a", "x", 1)
    driver.pipe_input("in", "a", "y", 2)
    assert driver.read_all_output() == [
        ("copies", Record("a", "x", 1)),
        ("counts", Record("a", 1, 1)),
        ("copies", Record("a", "y", 2)),
        ("counts", Record("a", 2, 2)),
    ]
    assert driver.read_all_output() == []


def test_without_a_timestamp_records_have_time_0():
    driver = driver_of(counting())
    driver.pipe_input("in", "a", 1)
    assert driver.read_output("out") == [Record("a", 1, 0)]


def test_headers_go_along():
    builder = StreamsBuilder()
    builder.stream("in").map_values(lambda value: value + 1).to("out")
    driver = driver_of(builder)
    driver.pipe_input("in", "a", 1, 5, headers=[("trace", b"7"), ("trace", b"8")])
    driver.pipe_input("in", "a", 2, 6)
    assert driver.read_output("out") == [
        Record("a", 2, 5, (("trace", b"7"), ("trace", b"8"))),
        Record("a", 3, 6),
    ]


def test_what_passes_repartition_topics_is_finished_too():
    builder = StreamsBuilder()
    words = builder.stream("in", value=str).group_by(lambda key, word: word).count("words")
    words.group_by(lambda word, n: (len(word), n), key=int, value=int).reduce(
        lambda total, n: total + n, lambda total, n: total - n, "lengths"
    ).to_stream().to("out")
    driver = driver_of(builder)
    for word in ["ab", "c", "ab", "de"]:
        driver.pipe_input("in", None, word, 1)
    assert driver.read_output("out") == [Record(2, 1, 1), Record(1, 1, 1), Record(2, 2, 1), Record(2, 3, 1)]


def test_a_topic_that_the_topology_writes_and_reads_comes_out_and_goes_in_again():
    builder = StreamsBuilder()
    builder.stream("in", value=int).map_values(lambda value: value * 2, value=int).to("doubled")
    builder.stream("doubled", value=int).map_values(lambda value: value + 1, value=int).to("out")
    driver = driver_of(builder)
    driver.pipe_input("in", "a", 5, 1)
    driver.pipe_input("doubled", "a", 100, 2)
    assert driver.read_output("doubled") == [Record("a", 10, 1)]
    assert driver.read_output("out") == [Record("a", 11, 1), Record("a", 101, 2)]


def test_caching_holds_nothing_back_because_every_record_is_a_commit():
    cached, uncached = driver_of(counting()), driver_of(counting(), statestore_cache_max_bytes=0)
    for driver in (cached, uncached):
        for number in range(3):
            driver.pipe_input("in", "a", number, number)
    assert cached.read_output("out") == uncached.read_output("out") == [Record("a", n + 1, n) for n in range(3)]


# --- stores and counters ---------------------------------------------------------------------------------------------


def test_a_key_value_store_can_be_read():
    driver = driver_of(counting())
    for key, timestamp in [("b", 1), ("a", 2), ("b", 3), ("c", 4)]:
        driver.pipe_input("in", key, "x", timestamp)
    store = driver.store("counts")
    assert store.get("b") == 2
    assert store.get("z") is None
    assert store.get_with_timestamp("b") == (2, 3)
    assert list(store.all()) == [("a", 1, 2), ("b", 2, 3), ("c", 1, 4)]
    assert list(store.range("b")) == [("b", 2, 3), ("c", 1, 4)]
    assert list(store.range("a", "b", reverse=True)) == [("b", 2, 3), ("a", 1, 2)]
    assert store.approximate_num_entries() == 3


def test_a_window_store_can_be_read():
    builder = StreamsBuilder()
    windows = TimeWindows.of_size_and_grace(10, 100)
    builder.stream("in").group_by_key().windowed_by(windows).count("counts")
    driver = driver_of(builder)
    for timestamp in (3, 4, 12):
        driver.pipe_input("in", "a", "x", timestamp)
    store = driver.store("counts")
    assert store.get("a", 0) == 2
    assert store.get("a", 5) is None
    assert list(store.fetch("a")) == [(0, 2, 4), (10, 1, 12)]
    assert list(store.fetch("a", 10, 10)) == [(10, 1, 12)]
    assert sorted(store.all()) == [(Windowed("a", 0, 10), 2, 4), (Windowed("a", 10, 20), 1, 12)]


def test_dropped_records_are_counted():
    driver = driver_of(counting())
    driver.pipe_input("in", None, "x")
    driver.pipe_input("in", "a", None)
    driver.pipe_input("in", "a", "x")
    assert driver.dropped_records_total() == 2
    assert {(m.name, m.reason): n for m, n in driver.metrics().items() if m.name == "dropped-records-total"} == {
        ("dropped-records-total", "null-key"): 1,
        ("dropped-records-total", "null-value"): 1,
    }


def test_wall_clock_time_passes_when_told():
    driver = driver_of(counting())
    driver.advance_wall_clock_time("10 minutes")
    driver.advance_wall_clock_time(5)
    assert driver.wall_clock_ms == 600_005


def test_of_a_closed_driver_outputs_and_counters_can_be_read_but_no_stores():
    with driver_of(counting()) as driver:
        driver.pipe_input("in", "a", 1, 1)
        driver.pipe_input("in", None, 1, 2)
    assert driver.read_output("out") == [Record("a", 1, 1)]
    assert driver.dropped_records_total() == 1
    with pytest.raises(ConfigError, match="the driver is closed; make a new TopologyTestDriver"):
        driver.pipe_input("in", "a", 1, 2)
    with pytest.raises(ConfigError, match="the driver is closed; make a new TopologyTestDriver"):
        driver.store("counts")


# --- what goes wrong -------------------------------------------------------------------------------------------------


def test_topics_and_stores_that_the_topology_has_not_are_refused_with_those_it_has():
    builder = counting()
    builder.stream("more").group_by(lambda key, value: value).count("others").to_stream().to("elsewhere")
    driver = driver_of(builder)
    with pytest.raises(ConfigError, match="the topology does not read a topic 'out'; it reads these topics: in, more"):
        driver.pipe_input("out", "a", 1)
    with pytest.raises(
        ConfigError, match="the topology does not read a topic 'others-repartition'; it reads these topics: in, more"
    ):
        driver.pipe_input("others-repartition", "a", 1)
    with pytest.raises(
        ConfigError, match="the topology does not write a topic 'in'; it writes these topics: out, elsewhere"
    ):
        driver.read_output("in")
    with pytest.raises(ConfigError, match="there is no store 'count'; the stores are counts, others"):
        driver.store("count")


def test_a_value_of_the_wrong_type_is_refused_where_it_is_piped_in():
    driver = driver_of(counting(value=int))
    with pytest.raises(SerdeError, match="the serde 'int' cannot encode 'x' of type str"):
        driver.pipe_input("in", "a", "x")


def test_a_function_that_raises_stops_the_record_and_the_next_ones_can_go_on():
    builder = StreamsBuilder()
    builder.stream("in", value=int).map_values(lambda value: 10 // value, value=int).to("out")
    driver = driver_of(builder)
    with pytest.raises(ProcessingError, match="ZeroDivisionError"):
        driver.pipe_input("in", "a", 0, 1)
    driver.pipe_input("in", "a", 5, 2)
    assert driver.read_output("out") == [Record("a", 2, 2)]


def test_settings_are_checked():
    with pytest.raises(ConfigError, match="on_error must be 'fail', 'skip' or 'dead_letter:<topic>', got 'ignore'"):
        driver_of(counting(), on_error="ignore")
    with pytest.raises(
        ConfigError,
        match=r"unknown setting 'onerror' \(keyword\) \(did you mean 'on_error'\?\)",
    ):
        driver_of(counting(), onerror="skip")


# --- topologies that feed themselves ---------------------------------------------------------------------------------


def test_a_topology_that_writes_into_its_source_without_an_end_is_stopped():
    builder = StreamsBuilder()
    builder.stream("a", value=int).to("a")
    driver = TopologyTestDriver(builder.build())
    with pytest.raises(ProcessingError) as failure:
        driver.pipe_input("a", "k", 1)
    assert str(failure.value).startswith(
        "the topology reads the topic 'a' that it writes: one input record has made more than 1,000 records in 'a'"
    )
    assert len(driver.read_output("a")) == 1_000


def test_a_topology_that_feeds_itself_more_with_every_turn_is_stopped_as_soon():
    builder = StreamsBuilder()
    builder.stream("a", value=int).flat_map_values(lambda value: [value] * 1000, value=int).repartition().to("a")
    driver = TopologyTestDriver(builder.build())
    with pytest.raises(ProcessingError, match="and there is no end"):
        driver.pipe_input("a", "k", 1)


def test_a_topology_that_feeds_itself_until_a_filter_ends_it_comes_to_its_end():
    builder = StreamsBuilder()
    builder.stream("a", value=int).map_values(lambda value: value - 1, value=int).filter(lambda k, v: v >= 0).to("a")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("a", "k", 3)
    driver.pipe_input("a", "k", 1)
    assert [record.value for record in driver.read_output("a")] == [2, 1, 0, 0]


def test_a_stream_is_joined_with_a_table_of_its_own_records_under_other_keys():
    builder = StreamsBuilder()
    words = builder.stream("words", value=str)
    by_first = words.select_key(lambda key, word: word[0], key=str).to_table()
    words.join(by_first, lambda word, other: f"{word} {other}", value=str).to("out")
    driver = TopologyTestDriver(builder.build())
    for key, word in [("b", "apple"), ("a", "berry"), ("a", "cherry")]:
        driver.pipe_input("words", key, word)
    assert [record.value for record in driver.read_output("out")] == ["berry apple", "cherry apple"]
