"""Times and durations up to the ends of int64: what comes out is what comes of the same program on small numbers.

A program is written in units of time, with records some milliseconds beside them. One run has units of a million
milliseconds, the other one has units so long that the last record comes at the very end of time; so all sums and
differences keep their signs, and the results of the one are those of the other, unit for unit. Python's whole numbers
turn the one into the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import (
    BufferConfig,
    EmitStrategy,
    JoinWindows,
    Materialized,
    Processor,
    PunctuationType,
    Record,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    UnlimitedWindows,
    Windowed,
)
from penstock.errors import ConfigError
from penstock.state.clock import StreamTime
from penstock.testing import TopologyTestDriver
from penstock.testing.cuts import CutDriver
from support.flows import Driver, Row, Run, source

END = 2**63 - 1
LAST = 40
"""The unit at which time ends."""
UNCACHED = {"statestore_cache_max_bytes": 0}
FEW = settings(max_examples=max(4, settings.default.max_examples // 8))


class Scale(NamedTuple):
    """How long a unit is, and a time behind all others."""

    unit: int
    forever: int

    def at(self, units: int, beside: int = 0) -> int:
        return units * self.unit + beside


PARTS = 120
"""A unit has this many equal parts, so halves of durations (segments of stores) lie alike in both runs."""
SMALL, LARGE = Scale(10**7 * PARTS, 10**15), Scale(END // LAST // PARTS * PARTS, END)


def enlarged(time: int) -> int:
    """A time of the small run in the large one; there is none behind the end."""
    units = round(time / SMALL.unit)
    return min(units * LARGE.unit + time - units * SMALL.unit, END)


PROGRAMS: dict[str, Callable[[StreamsBuilder, Scale], None]] = {}
OVER_AT_THE_END = {
    *("windows_for_ever", "grace_for_ever", "join_with_a_table_kept_for_ever"),
    *("final_results", "results_on_close", "sliding_results_on_close"),
}
"""Programs in which what is for ever is over in the last instant, as is a window that would end behind it."""


def program(build: Callable[[StreamsBuilder, Scale], None]) -> Callable[[StreamsBuilder, Scale], None]:
    PROGRAMS[build.__name__] = build
    return build


def counted(builder: StreamsBuilder, windows: Any, final: bool = False) -> None:
    windowed = builder.stream("in", value=int).group_by_key().windowed_by(windows)
    if final:
        windowed = windowed.emit_strategy(EmitStrategy.on_window_close())
    windowed.count("kept").to_stream().to("out")


@program
def tumbling(builder: StreamsBuilder, scale: Scale) -> None:
    counted(builder, TimeWindows.of_size_and_grace(scale.at(7), scale.at(2)))


@program
def hopping(builder: StreamsBuilder, scale: Scale) -> None:
    counted(builder, TimeWindows.of_size_and_grace(scale.at(7), scale.at(3)).advance_by(scale.at(2)))


@program
def windows_for_ever(builder: StreamsBuilder, scale: Scale) -> None:
    counted(builder, TimeWindows.of_size_and_grace(scale.forever, 0))


@program
def unlimited_windows(builder: StreamsBuilder, scale: Scale) -> None:
    counted(builder, UnlimitedWindows.of().start_on(scale.at(3)))


@program
def grace_for_ever(builder: StreamsBuilder, scale: Scale) -> None:
    counted(builder, TimeWindows.of_size_and_grace(scale.at(2), scale.forever - scale.at(2)))


@program
def sliding(builder: StreamsBuilder, scale: Scale) -> None:
    counted(builder, SlidingWindows.of_time_difference_and_grace(scale.at(5), scale.at(3)))


@program
def sliding_for_half_of_ever(builder: StreamsBuilder, scale: Scale) -> None:
    counted(builder, SlidingWindows.of_time_difference_and_grace(scale.at(LAST // 2), 0))


@program
def sessions(builder: StreamsBuilder, scale: Scale) -> None:
    counted(builder, SessionWindows.of_inactivity_gap_and_grace(scale.at(3), scale.at(2)))


@program
def session_for_ever(builder: StreamsBuilder, scale: Scale) -> None:
    counted(builder, SessionWindows.of_inactivity_gap_with_no_grace(scale.forever))


@program
def sessions_of_kip_94(builder: StreamsBuilder, scale: Scale) -> None:
    counted(builder, SessionWindows.inactivity_gap(scale.at(3)).until(scale.at(20)))


@program
def results_on_close(builder: StreamsBuilder, scale: Scale) -> None:
    windows = TimeWindows.of_size_and_grace(scale.at(6), scale.at(1)).advance_by(scale.at(2))
    counted(builder, windows, final=True)


@program
def sliding_results_on_close(builder: StreamsBuilder, scale: Scale) -> None:
    counted(builder, SlidingWindows.of_time_difference_and_grace(scale.at(5), scale.at(1)), final=True)


@program
def session_results_on_close(builder: StreamsBuilder, scale: Scale) -> None:
    counted(builder, SessionWindows.of_inactivity_gap_and_grace(scale.at(3), scale.at(1)), final=True)


@program
def final_results(builder: StreamsBuilder, scale: Scale) -> None:
    stream = builder.stream("in", value=int).group_by_key()
    table = stream.windowed_by(TimeWindows.of_size_and_grace(scale.at(3), scale.at(1))).count()
    table.suppress(Suppressed.until_window_closes(BufferConfig.unbounded())).to_stream().to("out")


@program
def held_for_a_time(builder: StreamsBuilder, scale: Scale) -> None:
    limit = Suppressed.until_time_limit(scale.at(4), BufferConfig.unbounded())
    builder.table("in", value=int).suppress(limit).to_stream().to("out")


@program
def held_for_ever(builder: StreamsBuilder, scale: Scale) -> None:
    limit = Suppressed.until_time_limit(scale.forever, BufferConfig.unbounded())
    builder.table("in", value=int).suppress(limit).to_stream().to("out")


def joined(builder: StreamsBuilder, method: str, windows: JoinWindows) -> None:
    left, right = builder.stream("in", value=int), builder.stream("other", value=int)
    getattr(left, method)(right, lambda one, other: f"{one}/{other}", windows, value=str).to("out")


@program
def stream_join(builder: StreamsBuilder, scale: Scale) -> None:
    joined(builder, "join", JoinWindows.of_time_difference_and_grace(scale.at(4), scale.at(2)))


@program
def stream_join_for_half_of_ever(builder: StreamsBuilder, scale: Scale) -> None:
    joined(builder, "join", JoinWindows.of_time_difference_and_grace(scale.at(LAST // 2), 0))


@program
def stream_join_for_ever(builder: StreamsBuilder, scale: Scale) -> None:
    joined(builder, "left_join", JoinWindows.of_time_difference_and_grace(0, 0).before(scale.forever))


@program
def stream_left_join_ahead(builder: StreamsBuilder, scale: Scale) -> None:
    windows = JoinWindows.of_time_difference_and_grace(scale.at(9), scale.at(1)).before(-scale.at(2))
    joined(builder, "left_join", windows)


@program
def stream_outer_join(builder: StreamsBuilder, scale: Scale) -> None:
    joined(builder, "outer_join", JoinWindows.of_time_difference_and_grace(scale.at(3), scale.at(1)).after(scale.at(9)))


@program
def stream_join_with_itself(builder: StreamsBuilder, scale: Scale) -> None:
    stream = builder.stream("in", value=int)
    windows = JoinWindows.of_time_difference_with_no_grace(scale.at(3))
    stream.outer_join(stream, lambda one, other: f"{one}/{other}", windows, value=str).to("out")


@program
def join_with_a_table_as_of_a_time(builder: StreamsBuilder, scale: Scale) -> None:
    kept = Materialized.as_(Stores.persistent_versioned_key_value_store("kept", scale.at(10)))
    table = builder.table("other", value=int, materialized=kept)
    stream = builder.stream("in", value=int)
    stream.left_join(table, lambda one, other: f"{one}/{other}", value=str, grace=scale.at(4)).to("out")


@program
def join_with_a_table_kept_for_ever(builder: StreamsBuilder, scale: Scale) -> None:
    kept = Materialized.as_(Stores.persistent_versioned_key_value_store("kept", scale.forever))
    table = builder.table("other", value=int, materialized=kept)
    stream = builder.stream("in", value=int)
    stream.left_join(table, lambda one, other: f"{one}/{other}", value=str, grace=scale.forever).to("out")


@program
def first_of_each_key(builder: StreamsBuilder, scale: Scale) -> None:
    builder.stream("in", value=int).deduplicate_by_key(scale.at(5)).to("out")


@program
def first_of_each_key_for_ever(builder: StreamsBuilder, scale: Scale) -> None:
    builder.stream("in", value=int).deduplicate_by_key(scale.forever).to("out")


@program
def windows_kept_for_ever(builder: StreamsBuilder, scale: Scale) -> None:
    stream = builder.stream("in", value=int).group_by_key()
    windows = TimeWindows.of_size_and_grace(scale.at(2), scale.at(9))
    kept = Materialized.as_("kept").with_retention(scale.forever)
    stream.windowed_by(windows).count(materialized=kept).to_stream().to("out")


def moved(record: Record, move: Callable[[int], int]) -> Record:
    """A result in the other run."""
    key = record.key
    if isinstance(key, Windowed):
        key = Windowed(key.key, move(key.start), move(key.end))
    return record._replace(key=key, timestamp=move(record.timestamp))


def results(driver: Driver, scale: Scale, rows: list[Row]) -> tuple[list[Record], Any]:
    topics = driver.topology.source_topics
    for topic, key, value, units, beside in rows:
        if topic in topics:
            driver.pipe_input(topic, key, value, max(scale.at(units, beside), 0))
    dropped = {m: count for m, count in driver.metrics().items() if m.name == "dropped-records-total"}
    return driver.read_output("out"), dropped


ROWS = st.lists(
    st.tuples(
        st.sampled_from(["in", "other"]),
        st.sampled_from(["a", "b"]),
        st.integers(0, 9),
        st.integers(0, 3) | st.integers(0, LAST) | st.integers(LAST - 3, LAST),
        st.sampled_from([-2, -1, 0, 0, 0, 1, END - LAST * LARGE.unit]),
    ),
    max_size=14,
)


@pytest.mark.parametrize("name", PROGRAMS)
@FEW
@given(data=st.data())
def test_results_at_the_ends_of_time_are_those_of_small_numbers(name: str, data: st.DataObject) -> None:
    rows = data.draw(ROWS, "rows")
    if name in OVER_AT_THE_END:
        rows = [row for row in rows if row[3] < LAST]
    builders = {scale: StreamsBuilder() for scale in (SMALL, LARGE)}
    for scale, builder in builders.items():
        PROGRAMS[name](builder, scale)
    small, dropped = results(TopologyTestDriver(builders[SMALL].build(), **UNCACHED), SMALL, rows)
    expected = [moved(record, enlarged) for record in small], dropped
    assert results(TopologyTestDriver(builders[LARGE].build(), **UNCACHED), LARGE, rows) == expected
    with CutDriver(builders[LARGE].build(), data.draw(st.randoms(use_true_random=False), "cuts"), **UNCACHED) as cut:
        assert results(cut, LARGE, rows) == expected


# --- without windows -------------------------------------------------------------------------------------------------


def scheduled(interval: int, type_: PunctuationType) -> StreamsBuilder:
    """A program that sends the times of its punctuations."""

    class Clock(Processor):
        def init(self, context: Any) -> None:
            context.schedule(interval, type_, lambda time: context.forward(Record("at", str(time), 0)))

        def process(self, record: Any) -> None:
            pass

    builder = StreamsBuilder()
    builder.stream("in", value=int).process(Clock, key=str, value=str).to("out")
    return builder


@pytest.mark.parametrize(
    ("interval", "called"), [(END, ["5", str(END)]), (END - 1, ["5", str(END - 1)]), (2**62, ["5", str(END - 1)])]
)
def test_a_punctuation_by_stream_time_is_called_until_time_ends(run: Run, interval: int, called: list[str]) -> None:
    rows = [("a", 1, 5), ("a", 1, END - 1), ("a", 1, END), ("a", 1, END)]
    ran = run(scheduled(interval, PunctuationType.STREAM_TIME), rows)
    assert [value for _, value, _ in ran.output()] == called


def test_a_punctuation_by_the_wall_clock_behind_the_end_of_time_is_not_called(run: Run) -> None:
    driver = run(scheduled(END, PunctuationType.WALL_CLOCK_TIME), [("a", 1, 5)]).driver
    driver.advance_wall_clock_time(2**62)
    with pytest.raises(ConfigError, match=f"more than {END} ms, the largest time"):
        driver.advance_wall_clock_time(2**62 + 1)
    assert driver.read_output("out") == []


@pytest.mark.parametrize("keeps_duplicates", [False, True])
@pytest.mark.parametrize(
    ("earliest", "latest", "found"),
    [(0, END, 2), (-END - 1, END, 2), (-(10**30), 10**30, 2), (0, 2**63, 2), (END, 0, 0), (2**63, 2**64, 0)],
)
def test_a_range_of_times_goes_beyond_the_ends_of_time(
    run: Run, keeps_duplicates: bool, earliest: int, latest: int, found: int
) -> None:
    class Fetches(Processor):
        def init(self, context: Any) -> None:
            self.context = context
            self.windows, self.sessions = context.get_state_store("windows"), context.get_state_store("sessions")

        def process(self, record: Any) -> None:
            key, time = record.key, record.timestamp
            self.windows.put(key, record.value, time)
            self.sessions.put(Windowed(key, time, time), record.value)
            rows = self.windows.fetch(key, earliest, latest), self.windows.fetch_all(earliest, latest)
            sizes = [len(list(some)) for some in (*rows, self.sessions.find_sessions(key, earliest, latest))]
            self.context.forward(record.with_value(repr(sizes)))

    builder, stream = source(value=int)
    windows = Stores.persistent_window_store("windows", END, 10, keeps_duplicates)
    sessions = Stores.persistent_session_store("sessions", END)
    builder.add_state_store(Stores.window_store_builder(windows, key=str, value=int))
    builder.add_state_store(Stores.session_store_builder(sessions, key=str, value=int))
    stream.process(Fetches, "windows", "sessions", key=str, value=str).to("out")
    ran = run(builder, [("a", 1, 5), ("a", 2, 7)])
    assert [value for _, value, _ in ran.output()] == [repr([min(1, found)] * 3), repr([found] * 3)]


def test_idle_time_goes_no_further_than_the_end_of_time() -> None:
    time = StreamTime()
    time.restore(5)
    time.go_on(END)
    assert time.now == END


def test_sessions_for_ever_are_one_session(run: Run) -> None:
    builder, stream = source(value=int)
    windows = SessionWindows.of_inactivity_gap_with_no_grace(END)
    stream.group_by_key().windowed_by(windows).count().to_stream(lambda window, count: str(window)).to("out")
    assert [value for _, value, _ in run(builder, [("a", 1, 5), ("a", 2, 7)]).output()] == [1, None, 2]


def test_a_record_of_the_last_instant_goes_into_a_tumbling_window(run: Run) -> None:
    builder, stream = source(value=int)
    windows = TimeWindows.of_size_with_no_grace(10)
    stream.group_by_key().windowed_by(windows).count().to_stream(lambda window, count: str(window.start)).to("out")
    ran = run(builder, [("a", 1, END - 1), ("a", 1, END)])
    assert ran.output() == [(str(END - 7), 1, END - 1), (str(END - 7), 2, END)]
    assert ran.dropped() == {}


def test_a_final_result_of_the_last_instant_is_sent_once_and_the_buffer_is_empty(run: Run) -> None:
    builder, stream = source(value=int)
    counts = stream.group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(10)).count()
    counts.suppress(Suppressed.until_window_closes()).to_stream().to("out")
    assert run(builder, [("a", 1, END)], **UNCACHED).output() == [(Windowed("a", END // 10 * 10, END), 1, END)]


def test_what_lies_at_the_end_of_time_is_read(run: Run) -> None:
    builder, stream = source(value=int)
    grouped = stream.group_by_key()
    grouped.windowed_by(TimeWindows.of_size_with_no_grace(1)).count("windows")
    grouped.windowed_by(SlidingWindows.of_time_difference_with_no_grace(5)).count("sliding")
    grouped.windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(1)).count("sessions")
    driver = run(builder, [("a", 1, END)]).driver
    windows, sliding, sessions = (driver.store(name) for name in ("windows", "sliding", "sessions"))
    for latest in (END, 2**64):
        assert [row[0] for row in windows.fetch("a", 0, latest)] == [END]
        assert [row[0] for row in sliding.fetch("a", END - 5, latest)] == [END - 5]
        assert [row[0] for row in sessions.find_sessions("a", 0, latest)] == [("a", END, END)]
    assert [len(list(store.all())) for store in (windows, sliding, sessions)] == [1, 1, 1]
    assert list(sliding.fetch("a", 2**63, 2**64)) == list(sessions.find_sessions("a", 2**63, 2**64)) == []
