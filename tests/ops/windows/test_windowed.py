"""Aggregations on windows of time: tumbling and hopping, with grace."""

import logging

import pytest

from penstock import Materialized, StreamsBuilder, TimeWindows
from support.flows import Run, source, windowed


def counts(windows, **given):
    builder, stream = source(value=str)
    stream.group_by_key().windowed_by(windows).count(**given).to_stream().to("out")
    return builder


@pytest.mark.kip("328-01")
@pytest.mark.parametrize(("time", "counted"), [(14, True), (15, False)])
def test_a_window_is_open_until_stream_time_comes_to_its_end_and_grace(run: Run, time: int, counted: bool):
    ran = run(counts(TimeWindows.of_size_and_grace(10, 5)), [("b", "x", time), ("a", "x", 9)])
    expected = [(windowed("b", 10, 20), 1, time), (windowed("a", 0, 10), 1, 9)]
    assert ran.output() == expected[: 1 + counted]


@pytest.mark.kip("328-10")
def test_late_records_are_logged_at_debug_and_not_above(run: Run, caplog: pytest.LogCaptureFixture):
    rows = [("b", "x", 15), ("a", "x", 9)]
    said = "KSTREAM-AGGREGATE-0000000002 drops topic in, partition 0, offset 1: expired-window"
    for level, expected in ((logging.INFO, set()), (logging.DEBUG, {("DEBUG", said)})):
        with caplog.at_level(level, "penstock"):
            run(counts(TimeWindows.of_size_and_grace(10, 5)), rows).output()
        told = {(record.levelname, record.getMessage()) for record in caplog.records}
        assert {one for one in told if " drops " in one[1]} == expected


def test_tumbling_windows_count_each_key_in_the_window_of_its_time(run: Run):
    rows = [
        ("a", "x", 0),
        ("a", "x", 9),
        ("b", "x", 5),  # another key
        ("a", "x", 10),  # the next window
        ("a", "x", 25),  # a window is left out
    ]
    ran = run(counts(TimeWindows.of_size_and_grace(10, 100), store="counts"), rows)
    assert ran.output() == [
        (windowed("a", 0, 10), 1, 0),
        (windowed("a", 0, 10), 2, 9),
        (windowed("b", 0, 10), 1, 5),
        (windowed("a", 10, 20), 1, 10),
        (windowed("a", 20, 30), 1, 25),
    ]
    assert ran.store("counts") == [
        (windowed("a", 0, 10), 2, 9),
        (windowed("a", 10, 20), 1, 10),
        (windowed("a", 20, 30), 1, 25),
        (windowed("b", 0, 10), 1, 5),
    ]
    assert ran.dropped() == {}


@pytest.mark.kip("328-10")
def test_a_late_record_is_taken_until_the_grace_period_has_passed_and_then_dropped_and_counted(run: Run):
    rows = [
        ("a", "x", 3),
        ("b", "x", 14),  # stream time 14 < end 10 + grace 5
        ("a", "x", 9),  # late, but taken
        ("b", "x", 15),  # closes the window 0-10, for all keys
        ("a", "x", 9),  # dropped
        ("b", "x", 11),  # late in an open window
    ]
    ran = run(counts(TimeWindows.of_size_and_grace(10, 5), store="counts"), rows)
    assert ran.output() == [
        (windowed("a", 0, 10), 1, 3),
        (windowed("b", 10, 20), 1, 14),
        (windowed("a", 0, 10), 2, 9),
        (windowed("b", 10, 20), 2, 15),
        (windowed("b", 10, 20), 3, 15),
    ]
    assert ran.dropped() == {("KSTREAM-AGGREGATE-0000000001", "expired-window"): 1}


def test_without_grace_a_window_closes_at_its_end(run: Run):
    rows = [("a", "x", 9), ("a", "x", 10), ("a", "x", 9)]
    ran = run(counts(TimeWindows.of_size_with_no_grace(10)), rows)
    assert ran.output() == [(windowed("a", 0, 10), 1, 9), (windowed("a", 10, 20), 1, 10)]
    assert ran.dropped() == {("KSTREAM-AGGREGATE-0000000002", "expired-window"): 1}


def test_stream_time_moves_inside_a_chunk_record_by_record(run: Run):
    rows = [("a", "x", 5), ("a", "x", 6), ("a", "x", 30), ("a", "x", 7), ("a", "x", 31), ("a", "x", 29)]
    ran = run(counts(TimeWindows.of_size_with_no_grace(10)), rows)
    assert ran.output() == [
        (windowed("a", 0, 10), 1, 5),
        (windowed("a", 0, 10), 2, 6),
        (windowed("a", 30, 40), 1, 30),
        (windowed("a", 30, 40), 2, 31),
    ]
    assert ran.dropped() == {("KSTREAM-AGGREGATE-0000000002", "expired-window"): 2}


def test_hopping_windows_count_a_record_in_every_window_that_covers_it(run: Run):
    rows = [
        ("a", "x", 3),  # 0-10 only: no window begins below 0
        ("a", "x", 12),  # 5-15 and 10-20
        ("a", "x", 15),  # 10-20 and 15-25
    ]
    ran = run(counts(TimeWindows.of_size_and_grace(10, 100).advance_by(5), store="counts"), rows)
    assert ran.output() == [
        (windowed("a", 0, 10), 1, 3),
        (windowed("a", 5, 15), 1, 12),
        (windowed("a", 10, 20), 1, 12),
        (windowed("a", 10, 20), 2, 15),
        (windowed("a", 15, 25), 1, 15),
    ]
    assert ran.store("counts") == [
        (windowed("a", 0, 10), 1, 3),
        (windowed("a", 10, 20), 2, 15),
        (windowed("a", 15, 25), 1, 15),
        (windowed("a", 5, 15), 1, 12),
    ]


def test_a_record_can_be_late_for_some_of_its_hopping_windows_and_each_counts_one_drop(run: Run):
    rows = [
        ("b", "x", 23),  # stream time 23, grace 4: windows that end at 19 or before are closed
        ("a", "x", 12),  # 5-15 is closed, 10-20 is open
        ("a", "x", 8),  # 0-10 and 5-15 are closed
    ]
    ran = run(counts(TimeWindows.of_size_and_grace(10, 4).advance_by(5)), rows)
    assert ran.output() == [
        (windowed("b", 15, 25), 1, 23),
        (windowed("b", 20, 30), 1, 23),
        (windowed("a", 10, 20), 1, 12),
    ]
    assert ran.dropped() == {("KSTREAM-AGGREGATE-0000000002", "expired-window"): 3}


def test_windows_that_advance_by_an_odd_amount(run: Run):
    rows = [("a", "x", 7), ("a", "x", 8)]
    ran = run(counts(TimeWindows.of_size_and_grace(5, 100).advance_by(3)), rows)
    assert ran.output() == [
        (windowed("a", 3, 8), 1, 7),
        (windowed("a", 6, 11), 1, 7),
        (windowed("a", 6, 11), 2, 8),
    ]


def test_a_null_value_is_counted_like_any_other_and_a_null_key_is_dropped(run: Run):
    ran = run(counts(TimeWindows.of_size_and_grace(10, 100)), [("a", None, 1), ("a", "x", 2), (None, "x", 3)])
    assert ran.output() == [(windowed("a", 0, 10), 1, 1), (windowed("a", 0, 10), 2, 2)]
    assert ran.dropped() == {("KSTREAM-AGGREGATE-0000000002", "null-key"): 1}


def test_a_record_without_a_key_does_not_move_stream_time(run: Run):
    rows = [("a", "x", 1), (None, "x", 1000), ("a", "x", 2)]
    ran = run(counts(TimeWindows.of_size_with_no_grace(10)), rows)
    assert ran.output() == [(windowed("a", 0, 10), 1, 1), (windowed("a", 0, 10), 2, 2)]


def test_reduce_in_windows_begins_with_the_first_value_and_keeps_the_largest_time(run: Run):
    builder, stream = source(value=int)
    windows = TimeWindows.of_size_and_grace(10, 100)
    sums = stream.group_by_key().windowed_by(windows).reduce(lambda total, value: total + value, "sums")
    sums.to_stream().to("out")
    ran = run(builder, [("a", 1, 7), ("a", 2, 3), ("a", 4, 12), ("a", 8, 5)])
    assert ran.output() == [
        (windowed("a", 0, 10), 1, 7),
        (windowed("a", 0, 10), 3, 7),
        (windowed("a", 10, 20), 4, 12),
        (windowed("a", 0, 10), 11, 7),
    ]
    assert ran.store("sums") == [(windowed("a", 0, 10), 11, 7), (windowed("a", 10, 20), 4, 12)]


def test_a_first_null_value_of_a_reduce_in_windows_sends_a_deletion(run: Run):
    builder, stream = source(value=int)
    windows = TimeWindows.of_size_and_grace(10, 100)
    sums = stream.group_by_key().windowed_by(windows).reduce(lambda total, value: total + (value or 0), "sums")
    sums.to_stream().to("out")
    ran = run(builder, [("a", None, 1), ("a", 2, 2), ("a", None, 3)])
    assert ran.output() == [
        (windowed("a", 0, 10), None, 1),
        (windowed("a", 0, 10), 2, 2),
        (windowed("a", 0, 10), 2, 3),
    ]


def test_aggregate_in_windows_begins_with_the_initial_value_and_null_deletes(run: Run):
    def until_stop(key, value, aggregate):
        return None if value == "stop" else [*aggregate, f"{key}{value}"]

    builder, stream = source(value=str)
    lists = stream.group_by_key().windowed_by(TimeWindows.of_size_and_grace(10, 100))
    lists.aggregate(list, until_stop, value=list, store="lists").to_stream().to("out")
    ran = run(builder, [("a", "x", 1), ("a", "y", 2), ("a", "z", 11), ("a", "stop", 3), ("a", "w", 2)])
    assert ran.output() == [
        (windowed("a", 0, 10), ["ax"], 1),
        (windowed("a", 0, 10), ["ax", "ay"], 2),
        (windowed("a", 10, 20), ["az"], 11),
        (windowed("a", 0, 10), None, 3),
        (windowed("a", 0, 10), ["aw"], 2),
    ]
    assert ran.store("lists") == [(windowed("a", 0, 10), ["aw"], 2), (windowed("a", 10, 20), ["az"], 11)]


def test_a_window_store_shows_what_its_retention_keeps(run: Run):
    kept = Materialized.as_("counts").with_retention(30)
    rows = [("a", "x", 5), ("a", "x", 15), ("a", "x", 35), ("a", "x", 41)]
    ran = run(counts(TimeWindows.of_size_and_grace(10, 20), materialized=kept), rows)
    assert ran.store("counts") == [  # windows that begin after 41 - 30
        (windowed("a", 30, 40), 1, 35),
        (windowed("a", 40, 50), 1, 41),
    ]


def test_a_window_store_in_memory_keeps_the_same(run: Run):
    kept = Materialized.as_("counts").in_memory()
    ran = run(counts(TimeWindows.of_size_and_grace(10, 20), materialized=kept), [("a", "x", 5), ("a", "x", 15)])
    assert ran.output() == [(windowed("a", 0, 10), 1, 5), (windowed("a", 10, 20), 1, 15)]
    assert ran.store("counts") == [(windowed("a", 0, 10), 1, 5), (windowed("a", 10, 20), 1, 15)]


def test_windows_of_a_key_can_be_fetched_by_their_starts(run: Run):
    ran = run(counts(TimeWindows.of_size_and_grace(10, 100), store="counts"), [("a", "x", t) for t in (5, 15, 17, 25)])
    store = ran.driver.store("counts")
    assert list(store.fetch("a", 10, 20)) == [(10, 2, 17), (20, 1, 25)]
    assert list(store.fetch("a", 11, 19)) == []
    assert list(store.fetch("b")) == []
    assert store.get("a", 10) == 2
    assert store.get("a", 11) is None


def test_windows_of_another_key_behind_a_repartition_close_by_the_time_of_all_records(run: Run):
    builder, stream = source(value=str)
    windows = TimeWindows.of_size_with_no_grace(10)
    stream.group_by(lambda key, value: value).windowed_by(windows).count("counts").to_stream().to("out")
    ran = run(builder, [("a", "x", 5), ("b", "y", 12), ("c", "x", 9), ("d", "x", 13)])
    assert ran.output() == [
        (windowed("x", 0, 10), 1, 5),
        (windowed("y", 10, 20), 1, 12),
        (windowed("x", 10, 20), 1, 13),
    ]
    assert ran.dropped() == {("KSTREAM-AGGREGATE-0000000002", "expired-window"): 1}


def test_windows_grouped_anew_as_a_table_subtract_the_count_before(run: Run):
    builder = StreamsBuilder()
    windows = TimeWindows.of_size_and_grace(10, 100)
    per_window = builder.stream("in", value=str).group_by_key().windowed_by(windows).count()
    by_count = per_window.group_by(lambda window, count: (window.key, count), value=int)
    by_count.reduce(lambda total, n: total + n, lambda total, n: total - n, "totals").to_stream().to("out")
    ran = run(builder, [("a", "x", 1), ("a", "x", 11), ("a", "x", 2), ("a", "x", 3)])
    assert ran.output() == [("a", 1, 1), ("a", 2, 11), ("a", 3, 11), ("a", 4, 11)]
