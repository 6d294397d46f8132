"""Final results: one for each key and window, when the window has closed, however far stream time jumps."""

import pytest

from penstock import EmitStrategy, Materialized, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows, columnar
from penstock.errors import ConfigError, TopologyError
from penstock.testing import TopologyTestDriver
from support.flows import Run, source, windowed

ON_CLOSE = EmitStrategy.on_window_close()


def final_counts(windows, **given):
    builder, stream = source(value=str)
    stream.group_by_key().windowed_by(windows).emit_strategy(ON_CLOSE).count(**given).to_stream().to("out")
    return builder


def test_each_window_comes_out_once_by_the_record_that_closes_it_in_order_of_start_and_key(run: Run):
    rows = [
        ("b", "x", 1),
        ("a", "x", 2),
        ("a", "x", 11),  # stream time 11 < end 10 + grace 2
        ("b", "x", 3),  # late, but taken
        ("a", "x", 12),  # closes 0-10, of both keys
        ("b", "x", 4),  # dropped
        ("c", "x", 40),  # closes 10-20
        ("c", "x", 41),
    ]
    ran = run(final_counts(TimeWindows.of_size_and_grace(10, 2)), rows)
    assert ran.output() == [
        (windowed("a", 0, 10), 1, 2),
        (windowed("b", 0, 10), 2, 3),
        (windowed("a", 10, 20), 2, 12),
    ]
    node = "KSTREAM-AGGREGATE-0000000002"
    assert ran.counted("window-aggregate-final-emit-total") == {(node, ""): 3}
    assert ran.dropped() == {(node, "expired-window"): 1}


@pytest.mark.parametrize("retention", [None, "1 day"])
def test_no_final_result_is_lost_however_far_stream_time_jumps(run: Run, retention):
    given = {} if retention is None else {"materialized": Materialized().with_retention(retention)}
    rows = [("a", "x", 1), ("a", "x", 12), ("b", "x", 13), ("a", "x", 10_000_000)]
    windows = TimeWindows.of_size_and_grace(10, 100)
    expected = [(windowed("a", 0, 10), 1, 1), (windowed("a", 10, 20), 1, 12), (windowed("b", 10, 20), 1, 13)]
    assert run(final_counts(windows, **given), rows).output() == expected
    sessions = SessionWindows.of_inactivity_gap_and_grace(5, 100)
    expected = [(windowed("a", 1, 1), 1, 1), (windowed("a", 12, 12), 1, 12), (windowed("b", 13, 13), 1, 13)]
    assert run(final_counts(sessions, **given), rows).output() == expected


def test_sessions_come_out_when_stream_time_is_past_their_end_by_more_than_gap_and_grace(run: Run):
    rows = [
        ("a", "x", 10),
        ("a", "x", 14),
        ("b", "x", 21),  # 21 is 14 + gap 5 + grace 2: not yet
        ("b", "x", 22),
        ("b", "x", 40),
    ]
    ran = run(final_counts(SessionWindows.of_inactivity_gap_and_grace(5, 2)), rows)
    assert ran.output() == [(windowed("a", 10, 14), 2, 14), (windowed("b", 21, 22), 2, 22)]


def test_a_sliding_window_includes_its_end_and_so_closes_one_moment_later(run: Run):
    rows = [("a", "x", 10), ("b", "x", 13), ("b", "x", 14), ("b", "x", 30)]
    ran = run(final_counts(SlidingWindows.of_time_difference_and_grace(5, 3)), rows)
    assert ran.output() == [
        (windowed("a", 5, 10), 1, 10),
        (windowed("b", 8, 13), 1, 13),
        (windowed("b", 9, 14), 2, 14),
        (windowed("b", 14, 19), 1, 14),
    ]


def test_a_window_whose_aggregate_was_deleted_has_no_result(run: Run):
    builder, stream = source(value=str)
    windows = stream.group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(10)).emit_strategy(ON_CLOSE)
    windows.reduce(lambda one, other: None if other == "!" else one + other).to_stream().to("out")
    rows = [("a", "1", 1), ("a", "!", 2), ("b", "1", 3), ("b", "2", 4), ("b", "x", 10)]
    assert run(builder, rows).output() == [(windowed("b", 0, 10), "12", 4)]


def test_with_an_interval_closed_windows_are_looked_for_when_so_much_wall_clock_time_has_passed():
    builder = final_counts(TimeWindows.of_size_with_no_grace(10))
    driver = TopologyTestDriver(builder.build(), emit_interval_ms=1000)
    for timestamp in (1, 11, 21):  # the first record begins the interval
        driver.pipe_input("in", "a", "x", timestamp)
    assert driver.read_output("out") == []
    driver.advance_wall_clock_time("1 s")
    driver.pipe_input("in", "a", "x", 22)
    assert [record[:3] for record in driver.read_output("out")] == [
        (windowed("a", 0, 10), 1, 1),
        (windowed("a", 10, 20), 1, 11),
    ]


def test_a_record_too_late_for_all_sliding_windows_does_not_begin_the_interval():
    driver = TopologyTestDriver(
        final_counts(SlidingWindows.of_time_difference_and_grace(5, 3)).build(), emit_interval_ms=1000
    )
    driver.pipe_input("in", "a", "x", 22)
    driver.advance_wall_clock_time("1 s")
    for timestamp in (5, 40):  # the first one is too late, and the second one looks for what has closed
        driver.pipe_input("in", "b", "x", timestamp)
    assert [record[:3] for record in driver.read_output("out")] == [(windowed("a", 17, 22), 1, 22)]


def test_a_record_earlier_than_the_difference_of_sliding_windows_does_not_begin_the_interval():
    driver = TopologyTestDriver(
        final_counts(SlidingWindows.of_time_difference_and_grace(5, 3)).build(), emit_interval_ms=1000
    )
    for timestamp in (0, 22):
        driver.pipe_input("in", "a", "x", timestamp)
    assert [record[:3] for record in driver.read_output("out")] == [(windowed("a", 0, 5), 1, 0)]


def test_what_never_closes_has_no_final_results():
    _, stream = source(value=str)
    group = stream.group_by_key()
    with pytest.raises(TopologyError, match="an unlimited window never closes"):
        group.windowed_by(UnlimitedWindows.of()).emit_strategy(ON_CLOSE)
    with pytest.raises(TopologyError, match="have no grace period and never close"):
        group.windowed_by(SessionWindows.inactivity_gap(5)).emit_strategy(ON_CLOSE)
    with pytest.raises(ConfigError, match="emit_strategy takes EmitStrategy"):
        group.windowed_by(TimeWindows.of_size_with_no_grace(5)).emit_strategy("close")


@pytest.mark.parametrize(
    "windows",
    [
        TimeWindows.of_size_with_no_grace(10),
        SlidingWindows.of_time_difference_with_no_grace(10),
        SessionWindows.of_inactivity_gap_with_no_grace(10),
    ],
)
def test_windows_that_close_all_at_once_go_down_in_pieces(run: Run, windows, monkeypatch: pytest.MonkeyPatch):
    pieces: list[int] = []

    @columnar
    def note(key, value):
        pieces.append(len(value))
        return value

    def noted():
        builder, stream = source(value=str)
        counts = stream.group_by_key().windowed_by(windows).emit_strategy(ON_CLOSE).count()
        counts.to_stream().map_values(note, value=int).to("out")
        return builder

    rows = [*((f"{i % 50:02}", "x", i // 50) for i in range(100)), ("z", "x", 1000)]
    whole = run(noted(), rows).output()
    assert max(pieces) >= 50
    pieces.clear()
    monkeypatch.setattr("penstock.engine.task.chunks._BURST", 8)
    assert run(noted(), rows).output() == whole
    assert sum(pieces) >= len(whole) >= 50
    assert max(pieces) <= 8
