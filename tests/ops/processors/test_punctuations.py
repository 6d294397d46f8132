"""Punctuations: functions that are called because stream time or the wall clock has come so far."""

import pytest

from penstock import (
    STREAM_TIME,
    WALL_CLOCK_TIME,
    BufferConfig,
    ProcessingError,
    Processor,
    Record,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)
from penstock.testing import TopologyTestDriver
from support.flows import Run, source

pytestmark = pytest.mark.kip("KS-02")


def ticking(interval, type_=STREAM_TIME, name="tick"):
    """A processor that forwards what comes, and the time of each call."""

    class Ticking(Processor):
        def init(self, context):
            self.context = context
            context.schedule(interval, type_, lambda now: context.forward(Record(name, now, now)))

        def process(self, record):
            self.context.forward(record)

    return Ticking


def test_stream_time_calls_come_behind_the_record_that_moves_time_on(run: Run):
    # The first call is at the first record; calls tell stream time, not when they were due; time may jump over some.
    builder, stream = source(value=int)
    stream.process(ticking("10 ms")).to("out")
    rows = [("a", 1, 3), ("b", 2, 9), ("c", 3, 12), ("d", 4, 47), ("e", 5, 20), ("f", 6, 50)]
    assert run(builder, rows).output() == [
        ("a", 1, 3),
        ("tick", 3, 3),
        ("b", 2, 9),
        ("c", 3, 12),
        ("tick", 12, 12),
        ("d", 4, 47),
        ("tick", 47, 47),
        ("e", 5, 20),
        ("f", 6, 50),
        ("tick", 50, 50),
    ]


def test_records_that_do_not_reach_the_processor_move_its_time_on_too(run: Run):
    builder, stream = source(value=int)
    stream.filter(lambda key, value: key == "a").process(ticking("10 ms")).to("out")
    assert run(builder, [("a", 1, 3), ("b", 2, 15), ("b", 3, 16), ("a", 4, 17), ("b", 5, 31)]).output() == [
        ("a", 1, 3),
        ("tick", 3, 3),
        ("tick", 15, 15),
        ("a", 4, 17),
        ("tick", 31, 31),
    ]


def test_two_processors_are_called_in_the_order_in_which_their_times_come(run: Run):
    builder, stream = source(value=int)
    first = stream.process(ticking("10 ms", name="ten"))
    first.merge(stream.process(ticking("7 ms", name="seven"))).to("out")
    rows = [("a", 1, 0), ("b", 2, 8), ("c", 3, 30)]
    assert [row for row in run(builder, rows).output() if row[0] in ("ten", "seven")] == [
        ("ten", 0, 0),
        ("seven", 0, 0),
        ("seven", 8, 8),
        ("ten", 30, 30),
        ("seven", 30, 30),
    ]


def test_a_call_can_cancel_itself(run: Run):
    class Once(Processor):
        def init(self, context):
            self.context = context
            self.scheduled = context.schedule("10 ms", STREAM_TIME, self.call)

        def call(self, now):
            self.scheduled.cancel()
            self.context.forward(Record("once", now, now))

        def process(self, record):
            pass

    builder, stream = source(value=int)
    stream.process(Once).to("out")
    assert run(builder, [("a", 1, 3), ("b", 2, 90)]).output() == [("once", 3, 3)]


def test_a_record_can_schedule_a_call_which_comes_at_once_and_then_by_the_interval():
    class OnDemand(Processor):
        def init(self, context):
            self.context = context

        def process(self, record):
            self.context.forward(record)
            if record.key == "go":
                self.context.schedule("10 ms", STREAM_TIME, lambda now: self.context.forward(Record("tick", now, now)))

    builder, stream = source(value=int)
    stream.process(OnDemand).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        for row in [("a", 1, 33), ("go", 2, 35), ("b", 3, 39), ("c", 4, 41)]:
            driver.pipe_input("in", *row)
        assert [record[:3] for record in driver.read_output("out")] == [
            ("a", 1, 33),
            ("go", 2, 35),
            ("tick", 35, 35),
            ("b", 3, 39),
            ("c", 4, 41),
            ("tick", 41, 41),
        ]


def test_wall_clock_calls_come_an_interval_after_the_start_and_do_not_make_up_for_what_was_missed():
    builder, stream = source(value=int)
    stream.process(ticking("1 s", WALL_CLOCK_TIME)).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_input("in", "a", 1, 5)
        driver.advance_wall_clock_time("999 ms")
        driver.advance_wall_clock_time("1 ms")
        driver.advance_wall_clock_time("3500 ms")
        driver.advance_wall_clock_time("499 ms")
        driver.advance_wall_clock_time("1 ms")
        assert [record[:2] for record in driver.read_output("out")] == [
            ("a", 1),
            ("tick", 1000),
            ("tick", 4500),
            ("tick", 5000),
        ]


def test_what_a_punctuation_forwards_has_no_offset():
    seen = []

    class Looking(Processor):
        def init(self, context):
            self.context = context
            context.schedule("10 ms", STREAM_TIME, lambda now: seen.append((now, context.record_metadata)))
            context.schedule("1 s", WALL_CLOCK_TIME, lambda now: seen.append((now, context.record_metadata)))

        def process(self, record):
            seen.append(self.context.record_metadata.offset)

    builder, stream = source(value=int)
    stream.process(Looking)
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_input("in", "a", 1, 5)
        driver.advance_wall_clock_time("1 s")
    assert seen == [0, (5, None), (1000, None)]


def test_what_a_punctuation_forwards_goes_through_the_steps_behind_it(run: Run):
    builder, stream = source(value=int)
    stream.process(ticking("10 ms")).group_by_key().count("counts").to_stream().to("out")
    rows = [("a", 1, 3), ("b", 2, 15), ("a", 3, 16)]
    assert run(builder, rows, statestore_cache_max_bytes=0).output() == [
        ("a", 1, 3),
        ("tick", 1, 3),
        ("b", 1, 15),
        ("tick", 2, 15),
        ("a", 2, 16),
    ]


def test_a_punctuation_that_fails_is_counted_and_called_again(run: Run):
    class Failing(Processor):
        def init(self, context):
            context.schedule("10 ms", STREAM_TIME, lambda now: 1 / 0)

        def process(self, record):
            pass

    builder, stream = source(value=int)
    stream.process(Failing, name="failing").to("out")
    ran = run(builder, [("a", 1, 3), ("b", 2, 15)], on_error="skip")
    assert ran.counted("skipped-records-total") == {("failing", "ZeroDivisionError"): 2}


@pytest.mark.parametrize(
    ("interval", "type_", "message"),
    [
        (0, STREAM_TIME, "the minimum supported scheduling interval is 1 ms; got 0"),
        ("1 s", "stream", "schedule takes PunctuationType.STREAM_TIME or WALL_CLOCK_TIME; got 'stream'"),
    ],
)
def test_a_wrong_schedule_is_refused(interval, type_, message):
    builder = StreamsBuilder()
    builder.stream("in").process(ticking(interval, type_)).to("out")
    with pytest.raises(ProcessingError, match=message):
        TopologyTestDriver(builder.build())


def test_what_is_scheduled_must_be_a_function():
    class Wrong(Processor):
        def init(self, context):
            context.schedule("1 s", STREAM_TIME, 5)

        def process(self, record):
            pass

    builder = StreamsBuilder()
    builder.stream("in").process(Wrong).to("out")
    with pytest.raises(ProcessingError, match=r"schedule takes a function of \(time\); got 5"):
        TopologyTestDriver(builder.build())


def test_init_cannot_forward():
    class Eager(Processor):
        def init(self, context):
            context.forward(Record("a", 1, 1))

        def process(self, record):
            pass

    builder = StreamsBuilder()
    builder.stream("in").process(Eager).to("out")
    with pytest.raises(ProcessingError, match="init cannot forward records"):
        TopologyTestDriver(builder.build())


def test_final_results_that_many_records_let_go_of_come_before_the_calls_behind_them(run: Run):
    windows = TimeWindows.of_size_with_no_grace("10 ms")
    builder, stream = source(value=int)
    counts = stream.group_by_key().windowed_by(windows).count()
    final = counts.suppress(Suppressed.until_window_closes(BufferConfig.unbounded())).to_stream()
    flat = final.map(lambda key, count: (f"{key.key}@{key.start}", count), key=str, value=int)
    flat.process(ticking("20 ms")).to("out")
    rows = [("a", 1, 1), ("b", 2, 2), ("a", 3, 12), ("c", 4, 25), ("c", 5, 45)]
    assert run(builder, rows).output() == [
        ("tick", 1, 1),
        ("a@0", 1, 1),
        ("b@0", 1, 2),
        ("a@10", 1, 12),
        ("tick", 25, 25),
        ("c@20", 1, 25),
        ("tick", 45, 45),
    ]
