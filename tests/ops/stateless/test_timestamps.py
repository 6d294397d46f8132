"""Times that a function takes out of the records."""

import pytest

from penstock import StreamsBuilder, TimeWindows
from penstock.errors import ProcessingError
from support.flows import Run, source, windowed


def test_the_time_comes_from_the_value(run: Run):
    builder, stream = source(value=dict, timestamp=lambda value: value["at"])
    stream.to("out")
    assert run(builder, [("a", {"at": 7}, 100), ("b", {"at": 3}, 200)]).output() == [
        ("a", {"at": 7}, 7),
        ("b", {"at": 3}, 3),
    ]


def test_the_time_comes_from_key_and_value(run: Run):
    builder, stream = source(key=int, value=int, timestamp=lambda key, value: key * 100 + value)
    stream.to("out")
    assert run(builder, [(1, 5, 0), (2, 6, 0)]).output() == [(1, 5, 105), (2, 6, 206)]


def test_windows_and_stream_time_go_by_it(run: Run):
    builder, stream = source(value=int, timestamp=lambda value: value)
    windows = TimeWindows.of_size_with_no_grace(10)
    stream.group_by_key().windowed_by(windows).count().to_stream().to("out")
    ran = run(builder, [("a", 5, 100), ("a", 12, 50), ("a", 7, 0)])
    assert ran.output() == [(windowed("a", 0, 10), 1, 5), (windowed("a", 10, 20), 1, 12)]
    assert ran.dropped() == {("KSTREAM-AGGREGATE-0000000002", "expired-window"): 1}


def test_a_table_takes_it_too(run: Run):
    builder = StreamsBuilder()
    builder.table("in", value=int, store="newest", timestamp=lambda value: value * 10).to_stream().to("out")
    ran = run(builder, [("a", 2, 0), ("a", 1, 5)])
    assert ran.output() == [("a", 2, 20), ("a", 1, 10)]
    assert ran.store("newest") == [("a", 1, 10)]


@pytest.mark.parametrize("time", [None, 1.5, True, 2**63, "12", -(2**63) - 1])
def test_what_is_no_time_is_a_failure_of_the_record(run: Run, time):
    builder, stream = source(value=int, timestamp=lambda value: time)
    stream.to("out")
    expected = (
        "KSTREAM-SOURCE-0000000000 failed on the record at topic 'in', partition 0, offset 0: TypeError: the function "
        f"must return the record's time: a datetime, text in ISO 8601 or an int of milliseconds, such as "
        f"int(seconds * 1000), got {time!r}"
    )
    with pytest.raises(ProcessingError) as failure:
        run(builder, [("a", 1, 0)]).output()
    assert str(failure.value).removeprefix("task 0_0: ").splitlines()[0] == expected


@pytest.mark.kip("KS-07")
def test_a_negative_time_has_the_record_dropped_and_counted_as_from_an_extractor(run: Run):
    builder, stream = source(value=int, timestamp=lambda value: value)
    stream.to("out")
    ran = run(builder, [("a", 5, 0), ("b", -1, 0), ("c", -(2**63), 0), ("d", 9, 0)])
    assert ran.output() == [("a", 5, 5), ("d", 9, 9)]
    assert ran.dropped() == {("KSTREAM-SOURCE-0000000000", "invalid-timestamp"): 2}


def test_a_record_without_a_time_is_skipped_where_failing_records_are(run: Run):
    builder, stream = source(value=dict, timestamp=lambda value: value["at"])
    stream.to("out")
    ran = run(builder, [("a", {"at": 7}, 0), ("b", {}, 0), ("c", {"at": "3"}, 0), ("d", {"at": 9}, 0)], on_error="skip")
    assert ran.output() == [("a", {"at": 7}, 7), ("d", {"at": 9}, 9)]
    assert ran.counted("skipped-records-total") == {
        ("KSTREAM-SOURCE-0000000000", "KeyError"): 1,
        ("KSTREAM-SOURCE-0000000000", "TypeError"): 1,
    }
