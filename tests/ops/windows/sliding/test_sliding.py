"""Sliding windows: one ends at each record, one begins behind it when a later record falls into that."""

import pytest

from penstock import Materialized, SlidingWindows
from penstock.errors import TopologyError
from penstock.testing import TopologyTestDriver
from support.flows import Run, source, windowed

TEN = SlidingWindows.of_time_difference_and_grace(10, 50)


def texts(windows, **given):
    builder, stream = source(value=str)
    stream.group_by_key().windowed_by(windows).aggregate(
        str, lambda key, value, seen: seen + value, value=str, **given
    ).to_stream().to("out")
    return builder


def test_each_record_ends_a_window_and_later_ones_fall_into_the_window_behind_it(run: Run):
    rows = [
        ("a", "1", 20),
        ("a", "2", 25),  # within 10 of the first: the window behind that one, and its own
        ("a", "3", 31),  # too far from 20, within 10 of 25
    ]
    ran = run(texts(TEN, store="store"), rows)
    assert ran.output() == [
        (windowed("a", 10, 20), "1", 20),
        (windowed("a", 21, 31), "2", 25),
        (windowed("a", 15, 25), "12", 25),
        (windowed("a", 21, 31), "23", 31),
        (windowed("a", 26, 36), "3", 31),
    ]
    assert ran.store("store") == [
        (windowed("a", 10, 20), "1", 20),
        (windowed("a", 15, 25), "12", 25),
        (windowed("a", 21, 31), "23", 31),
        (windowed("a", 26, 36), "3", 31),
    ]


def test_a_late_record_goes_into_the_windows_around_it_and_makes_its_own(run: Run):
    rows = [("a", "1", 20), ("a", "2", 30), ("a", "3", 24)]
    assert run(texts(TEN), rows).output() == [
        (windowed("a", 10, 20), "1", 20),
        (windowed("a", 21, 31), "2", 30),
        (windowed("a", 20, 30), "12", 30),
        (windowed("a", 21, 31), "23", 30),
        (windowed("a", 20, 30), "123", 30),
        (windowed("a", 14, 24), "13", 24),
        (windowed("a", 25, 35), "2", 30),
    ]


def test_records_earlier_than_the_difference_share_the_window_from_0_on(run: Run):
    rows = [("a", "1", 3), ("a", "2", 7), ("a", "3", 5)]
    assert run(texts(TEN), rows).output() == [
        (windowed("a", 0, 10), "1", 3),
        (windowed("a", 4, 14), "2", 7),
        (windowed("a", 0, 10), "12", 7),
        (windowed("a", 4, 14), "23", 7),
        (windowed("a", 6, 16), "2", 7),
        (windowed("a", 0, 10), "123", 7),
    ]


@pytest.mark.kip("328-01")
@pytest.mark.kip("328-10")
def test_a_record_is_dropped_with_its_windows_and_nulls_are_dropped(run: Run):
    windows = SlidingWindows.of_time_difference_and_grace(10, 5)
    rows = [
        ("a", "1", 100),
        ("a", "2", 84),  # its own window would end at 94, before 100 - grace 5
        ("a", "3", 85),  # its left window 75-85 has closed, but it makes the window behind itself
        (None, "x", 100),
        ("a", None, 100),
    ]
    ran = run(texts(windows), rows)
    assert ran.output() == [(windowed("a", 90, 100), "1", 100)]
    node = "KSTREAM-AGGREGATE-0000000002"
    assert ran.dropped() == {(node, "expired-window"): 2, (node, "null-key"): 1, (node, "null-value"): 1}


@pytest.mark.kip("328-01")
@pytest.mark.parametrize(("time", "counted"), [(25, True), (26, False)])
def test_a_window_is_open_as_long_as_stream_time_is_not_past_its_end_and_grace(run: Run, time: int, counted: bool):
    """Kafka Streams closes it a millisecond later than other windows: its end is part of it."""
    windows = SlidingWindows.of_time_difference_and_grace(10, 5)
    ran = run(texts(windows), [("b", "x", time), ("a", "y", 20)])
    expected = [(windowed("b", time - 10, time), "x", time), (windowed("a", 10, 20), "y", 20)]
    assert ran.output() == expected[: 1 + counted]


@pytest.mark.kip("328-02")
def test_a_retention_shorter_than_twice_the_difference_and_grace_is_refused_with_the_numbers():
    builder = texts(TEN, materialized=Materialized.as_("store").with_retention(69))
    with pytest.raises(TopologyError, match=r"69 ms.*twice 10 ms and 50 ms of grace need 70 ms"):
        builder.build()


def test_with_caching_a_window_that_begins_has_no_value_before():
    builder, stream = source(value=str)
    counts = stream.group_by_key().windowed_by(SlidingWindows.of_time_difference_and_grace(5, 100)).count()
    counts.group_by(lambda window, count: (window.key, count)).count().to_stream().to("out")
    driver = TopologyTestDriver(builder.build(), statestore_cache_max_bytes=1_000_000)  # each record is a commit
    for timestamp in (0, 20):
        driver.pipe_input("in", "a", "x", timestamp)
    assert [record[:3] for record in driver.read_output("out")] == [("a", 1, 0), ("a", 2, 20)]


def test_with_caching_a_window_that_an_aggregator_gives_nothing_for_is_not_deleted():
    builder, stream = source(value=str)
    windows = stream.group_by_key().windowed_by(SlidingWindows.of_time_difference_and_grace(5, 100))
    windows.aggregate(str, lambda key, value, seen: None if value == "x" else seen + value, value=str).to_stream().to(
        "out"
    )
    driver = TopologyTestDriver(builder.build(), statestore_cache_max_bytes=1_000_000)
    driver.pipe_input("in", "a", "x", 7)
    assert driver.read_output("out") == []
