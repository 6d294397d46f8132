"""Many records at once through the test driver: what comes out is what comes out of one record at a time."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import Any
from unittest.mock import patch

import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ops import test_any_cut as examples
from penstock import (
    BufferConfig,
    ConfigError,
    ProcessingError,
    Record,
    SessionWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    columnar,
)
from penstock.testing import TopologyTestDriver, driver
from penstock.testing.turns import OtherOrderError, Passed, in_turn

BATCHABLE = [name for name in examples.NAMES if driver.batchable_topics(examples.topology_of(name), True)]
NAMES = st.sampled_from(BATCHABLE) | st.sampled_from(examples.NAMES)


def one_at_a_time(topology: Topology, **given: Any) -> TopologyTestDriver:
    """A driver that takes no shortcut."""
    with (
        patch.object(driver, "updates_each_key_once", lambda *arguments: False),
        patch.object(driver, "batchable_topics", lambda *arguments: frozenset()),
    ):
        return TopologyTestDriver(topology, **given)


@settings(max_examples=60)
@given(name=NAMES, cache=st.sampled_from([0, 1000]), data=st.data())
def test_every_topology_gives_the_same_outputs_stores_and_figures(name: str, cache: int, data: st.DataObject):
    topology = examples.topology_of(name)
    rows = data.draw(examples.rows(topology), "rows")
    one, many = (kind(topology, statestore_cache_max_bytes=cache) for kind in (one_at_a_time, TopologyTestDriver))
    for topic, some in groupby(rows, itemgetter(0)):
        records = [Record(*row[1:], headers=(("at", str(row).encode()),)) for row in some]
        for record in records:
            one.pipe_input(topic, *record)
        many.pipe_record_list(topic, records)
        assert many.read_all_output() == one.read_all_output()
    assert examples.stores(many) == examples.stores(one)
    assert many.metrics() == one.metrics()


@settings(max_examples=30)
@given(name=NAMES, cache=st.sampled_from([0, 1000]), data=st.data())
def test_one_record_at_a_time_takes_no_wrong_shortcut_either(name: str, cache: int, data: st.DataObject):
    topology = examples.topology_of(name)
    one, short = (kind(topology, statestore_cache_max_bytes=cache) for kind in (one_at_a_time, TopologyTestDriver))
    for row in data.draw(examples.rows(topology), "rows"):
        one.pipe_input(*row)
        short.pipe_input(*row)
        assert short.read_all_output() == one.read_all_output()
    assert examples.stores(short) == examples.stores(one)


def counting(calls: list[int]) -> StreamsBuilder:
    """Counts by city in hours, behind a columnar function that tells how many records it was given."""

    @columnar
    def doubled(value):
        calls.append(len(value))
        return pc.multiply(value, 2)

    builder = StreamsBuilder()
    numbers = builder.stream("in", value=int).map_values(doubled, value=int)
    hours = TimeWindows.of_size_with_no_grace(10)
    numbers.group_by(lambda key, value: key).windowed_by(hours).count("counts").to_stream().to("out")
    return builder


def test_plain_chains_are_worked_on_many_at_a_time_also_with_a_cache():
    calls: list[int] = []
    rows = [(f"k{number % 7}", number, number // 10) for number in range(300)]
    many = TopologyTestDriver(counting(calls).build())
    with patch.object(driver, "_BATCH", 100):
        many.pipe_record_list("in", rows)
    assert calls == [100, 100, 100]
    one = one_at_a_time(counting([]).build())
    for row in rows:
        one.pipe_input("in", *row)
    assert many.read_output("out") == one.read_output("out")


def test_chains_whose_records_update_several_keys_are_worked_on_many_at_a_time_also_with_a_cache():
    calls: list[int] = []

    @columnar
    def noted(value):
        calls.append(len(value))
        return value

    def topology() -> Topology:
        builder = StreamsBuilder()
        visits = builder.stream("in", value=int).map_values(noted, value=int).group_by_key()
        sessions = visits.windowed_by(SessionWindows.of_inactivity_gap_and_grace(3, 2)).count("sessions")
        sessions.suppress(Suppressed.until_window_closes(BufferConfig.unbounded())).to_stream().to("out")
        return builder.build()

    rows = [(f"k{number % 3}", number, number + number // 20 * 10) for number in range(300)]
    many = TopologyTestDriver(topology())
    with patch.object(driver, "_BATCH", 100):
        many.pipe_record_list("in", rows)
    assert calls == [100, 100, 100]
    one = one_at_a_time(topology())
    for row in rows:
        one.pipe_input("in", *row)
    assert len(expected := one.read_output("out")) == 42
    assert many.read_output("out") == expected


def test_several_counts_of_one_stream_are_worked_on_many_at_a_time_and_their_results_take_turns():
    calls: list[int] = []

    @columnar
    def noted(value):
        calls.append(len(value))
        return value

    def topology() -> Topology:
        builder = StreamsBuilder()
        numbers = builder.stream("in", value=int).map_values(noted, value=int)
        for name, modulus in (("twos", 2), ("threes", 3)):
            grouped = numbers.group_by(lambda key, value, modulus=modulus: str(value % modulus))
            grouped.count(name).to_stream().to(name)
        return builder.build()

    many = TopologyTestDriver(topology())
    many.pipe_record_list("in", [("a", number, number) for number in range(4)])
    assert calls == [4]
    assert [(topic, record.key, record.value, record.timestamp) for topic, record in many.read_all_output()] == [
        ("twos", "0", 1, 0),
        ("threes", "0", 1, 0),
        ("twos", "1", 1, 1),
        ("threes", "1", 1, 1),
        ("twos", "0", 2, 2),
        ("threes", "2", 1, 2),
        ("twos", "1", 2, 3),
        ("threes", "0", 2, 3),
    ]
    one = one_at_a_time(topology())
    for number in range(4, 50):
        one.pipe_input("in", "a", number, number)
    many = TopologyTestDriver(topology())
    many.pipe_record_list("in", [("a", number, number) for number in range(4, 50)])
    assert many.read_all_output() == one.read_all_output()


def test_records_without_a_time_overtake_others_and_so_are_worked_on_one_by_one():
    with pytest.raises(OtherOrderError):
        in_turn("in", {"in": [[("inner", Passed(5)), ("inner", Passed(-1))]], "inner": [[], []]})


def test_an_aggregate_that_comes_to_nothing_at_once_is_no_update_with_a_cache():
    builder = StreamsBuilder()
    grouped = builder.stream("in", value=int).group_by_key()
    grouped.aggregate(int, lambda key, value, total: total + value or None, int, "sums").to_stream().to("out")
    for kind in (one_at_a_time, TopologyTestDriver):
        ran = kind(builder.build())
        ran.pipe_record_list("in", [("a", 0), ("a", 1), ("a", -1, 5), ("a", 0)])
        assert [record[:3] for record in ran.read_output("out")] == [("a", 1, 0), ("a", None, 5)]


def test_the_records_before_one_that_fails_are_processed():
    builder = StreamsBuilder()
    tenths = builder.stream("in", value=int).map_values(lambda value: 10 // value, value=int)
    tenths.group_by_key().reduce(lambda total, value: total + value, "sums").to_stream().to("out")
    stopped = TopologyTestDriver(builder.build())
    with pytest.raises(ProcessingError, match="topic 'in', partition 0, offset 2: ZeroDivisionError"):
        stopped.pipe_record_list("in", [("a", 5), ("a", 2), ("a", 0), ("a", 1)])
    assert stopped.read_output("out") == [Record("a", 2, 0), Record("a", 7, 0)]
    assert stopped.store("sums").get("a") == 7


def test_records_that_fail_are_skipped_or_dead_letters_as_ever():
    builder = StreamsBuilder()
    builder.stream("in", value=int).map_values(lambda value: 10 // value, value=int).to("out")
    letters = TopologyTestDriver(builder.build(), on_error="dead_letter:failed")
    letters.pipe_record_list("in", [("a", 5), ("b", 0, 7), ("c", 2)])
    assert [record.value for record in letters.read_output("out")] == [2, 5]
    [letter] = letters.read_output("failed")
    assert (letter.key, letter.timestamp, dict(letter.headers)["penstock.offset"]) == (b"b", 7, b"1")


@pytest.mark.parametrize("row", ["a", ("a",), ("a", 1, 2, (), 5), {"key": 1}])
def test_a_row_of_another_form_is_refused(row: Any):
    builder = StreamsBuilder()
    builder.stream("in", value=int).to("out")
    with pytest.raises(ConfigError, match=r"topic 'in': a row is \(key, value\), .* or a Record; got "):
        TopologyTestDriver(builder.build()).pipe_record_list("in", [row])
