"""Cogroups: several grouped streams, each with an aggregator of its own, and one aggregate for each key."""

import pytest

from penstock import SessionWindows, SlidingWindows, StreamsBuilder, TimeWindows, UnlimitedWindows
from penstock.errors import TopologyError
from support.flows import Run, windowed


def marked(mark):
    return lambda key, value, seen: f"{seen}{mark}{value}"


def visits_and_orders():
    """Texts and numbers, of two topics."""
    builder = StreamsBuilder()
    visits, orders = builder.stream("visits", value=str), builder.stream("orders", value=int)
    return builder, visits.group_by_key().cogroup(marked("+")).cogroup(orders.group_by_key(), marked("$"))


ROWS = [("visits", "a", "x", 1), ("orders", "a", 7, 3), ("orders", "b", 8, 4), ("visits", "a", "y", 12)]


def test_each_stream_has_its_own_aggregator_and_type(run: Run):
    builder, both = visits_and_orders()
    both.aggregate(str, value=str, store="seen").to_stream().to("out")
    ran = run(builder, [*ROWS, ("visits", "a", None, 13), ("orders", None, 1, 14)])
    assert ran.output() == [("a", "+x", 1), ("a", "+x$7", 3), ("b", "$8", 4), ("a", "+x$7+y", 12)]
    assert ran.store("seen") == [("a", "+x$7+y", 12), ("b", "$8", 4)]
    merge = "COGROUPKSTREAM-MERGE-0000000004"
    assert ran.dropped() == {(merge, "null-value"): 1, (merge, "null-key"): 1}


def test_in_windows(run: Run):
    builder, both = visits_and_orders()
    both.windowed_by(TimeWindows.of_size_with_no_grace(10)).aggregate(str, value=str).to_stream().to("out")
    assert run(builder, ROWS).output() == [
        (windowed("a", 0, 10), "+x", 1),
        (windowed("a", 0, 10), "+x$7", 3),
        (windowed("b", 0, 10), "$8", 4),
        (windowed("a", 10, 20), "+y", 12),
    ]


def test_in_sliding_windows(run: Run):
    builder, both = visits_and_orders()
    windows = SlidingWindows.of_time_difference_with_no_grace(2)
    both.windowed_by(windows).aggregate(str, value=str).to_stream().to("out")
    assert run(builder, ROWS[:2]).output() == [
        (windowed("a", 0, 2), "+x", 1),
        (windowed("a", 2, 4), "$7", 3),
        (windowed("a", 1, 3), "+x$7", 3),
    ]


def test_in_sessions(run: Run):
    builder, both = visits_and_orders()
    windows = SessionWindows.of_inactivity_gap_with_no_grace(5)
    both.windowed_by(windows).aggregate(str, lambda key, one, other: one + other, value=str).to_stream().to("out")
    assert run(builder, ROWS).output() == [
        (windowed("a", 1, 1), "+x", 1),
        (windowed("a", 1, 1), None, 1),
        (windowed("a", 1, 3), "+x$7", 3),
        (windowed("b", 4, 4), "$8", 4),
        (windowed("a", 12, 12), "+y", 12),
    ]


def test_each_stream_goes_by_its_own_stream_time(run: Run):
    builder, both = visits_and_orders()
    both.windowed_by(TimeWindows.of_size_and_grace(10, 5)).aggregate(str, value=str).to_stream().to("out")
    rows = [("visits", "a", "x", 1), ("orders", "a", 7, 19), ("visits", "a", "y", 2), ("orders", "a", 8, 2)]
    ran = run(builder, rows)
    assert ran.output() == [
        (windowed("a", 0, 10), "+x", 1),
        (windowed("a", 10, 20), "$7", 19),
        (windowed("a", 0, 10), "+x+y", 2),  # no visit was later than 2; for orders the window has closed
    ]
    assert ran.dropped() == {("COGROUPKSTREAM-MERGE-0000000005", "expired-window"): 1}


@pytest.mark.kip("328-11")
def test_a_window_that_the_store_of_both_has_let_go_of_begins_anew_and_counts_as_expired(run: Run):
    builder, both = visits_and_orders()
    windows = TimeWindows.of_size_and_grace(10, 5)
    both.windowed_by(windows).aggregate(str, value=str, store="both").to_stream().to("out")
    rows = [
        ("visits", "a", "x", 1),
        ("orders", "a", 7, 200_000),  # minutes later: the store's first segment is gone
        ("visits", "a", "y", 2),  # in time for the visits
        ("visits", "a", "z", 3),
    ]
    ran = run(builder, rows)
    assert ran.output() == [
        (windowed("a", 0, 10), "+x", 1),
        (windowed("a", 200_000, 200_010), "$7", 200_000),
        (windowed("a", 0, 10), "+y", 2),
        (windowed("a", 0, 10), "+z", 3),
    ]
    assert ran.store("both") == [(windowed("a", 200_000, 200_010), "$7", 200_000)]
    assert ran.counted("expired-window-record-drop-total") == {("both", "window"): 2}
    assert ran.counted("late-record-drop-total") == {}


@pytest.mark.kip("328-11")
def test_a_sliding_window_that_the_store_of_both_has_let_go_of_counts_as_expired_too(run: Run):
    builder, both = visits_and_orders()
    windows = SlidingWindows.of_time_difference_and_grace(10, 5)
    both.windowed_by(windows).aggregate(str, value=str, store="both").to_stream().to("out")
    rows = [("visits", "a", "x", 1), ("orders", "a", 7, 200_000), ("visits", "a", "y", 2)]
    ran = run(builder, rows)
    assert ran.counted("late-record-drop-total") == {}
    assert ran.store("both") == [(windowed("a", 199_990, 200_000), "$7", 200_000)]
    assert ran.counted("expired-window-record-drop-total") == {("both", "window"): 1}


def test_in_unlimited_windows_nothing_is_too_old(run: Run):
    builder, both = visits_and_orders()
    both.windowed_by(UnlimitedWindows.of()).aggregate(str, value=str).to_stream().to("out")
    ran = run(builder, [("visits", "a", "x", 1177), ("orders", "a", 7, 3)])
    assert [record[1:] for record in ran.output()] == [("+x", 1177), ("+x$7", 1177)]
    assert ran.dropped() == {}


def test_two_groups_that_share_a_repartition_topic_by_accident_are_refused():
    builder = StreamsBuilder()
    one, other = (builder.stream(topic, value=str).group_by(lambda key, value: value) for topic in ("one", "other"))
    one.cogroup(marked("+")).cogroup(other, marked("-")).aggregate(str, value=str, store="seen")
    with pytest.raises(TopologyError, match=r"two groups at .* repartition through one topic, 'seen-repartition'"):
        builder.build()
