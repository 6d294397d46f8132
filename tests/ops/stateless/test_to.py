"""``to``: records into topics."""

import pytest

from penstock import ProcessingError
from penstock.testing import TopologyTestDriver
from support.flows import Run, source


def test_records_come_out_as_they_went_in_with_nulls_and_times(run: Run):
    builder, stream = source(value=int)
    stream.to("out")
    rows = [("a", 1, 10), (None, 2, 5), ("b", None, 7), (None, None, 0)]
    assert run(builder, rows).output() == rows


def test_two_streams_into_one_topic_interleave_as_they_are_processed(run: Run):
    builder, stream = source(value=str)
    stream.map_values(lambda value: value + "1", value=str).to("out")
    stream.map_values(lambda value: value + "2", value=str).to("out")
    assert run(builder, [("a", "x", 1), ("a", "y", 2)]).output() == [
        ("a", "x1", 1),
        ("a", "x2", 1),
        ("a", "y1", 2),
        ("a", "y2", 2),
    ]


def test_a_topic_that_is_written_may_be_read_by_the_same_topology(run: Run):
    builder, stream = source(value=int)
    stream.map_values(lambda value: value + 1, value=int).to("between")
    builder.stream("between", value=int).map_values(lambda value: value * 10, value=int).to("out")
    ran = run(builder, [("a", 1, 10), ("b", 2, 5)])
    assert ran.output("between") == [("a", 2, 10), ("b", 3, 5)]
    assert ran.output() == [("a", 20, 10), ("b", 30, 5)]


def test_a_stream_can_be_written_in_other_types(run: Run):
    builder, stream = source()  # values are JSON
    stream.to("json")
    stream.to("text", value=str)
    builder.stream("json", value=bytes).to("bytes-of-json")
    builder.stream("text", value=bytes).to("bytes-of-text")
    ran = run(builder, [("a", "x", 1)])
    assert ran.output("bytes-of-json") == [("a", b'"x"', 1)]
    assert ran.output("bytes-of-text") == [("a", b"x", 1)]


def test_headers_come_out_with_their_records(run: Run):
    builder, stream = source(value=int)
    stream.filter(lambda key, value: value != 2).map_values(lambda value: value + 1, value=int).to("out")
    stream.flat_map(lambda key, value: [(key, value)] * 2, value=int).repartition("r").to("twice")
    ran = run(builder, [])
    ran.driver.pipe_input("in", "a", 1, 10, [("trace", b"t1"), ("trace", b"t2")])
    ran.driver.pipe_input("in", "b", 2, 11, [("trace", b"t3")])
    ran.driver.pipe_input("in", "c", 3, 12)
    assert ran.driver.read_output("out") == [
        ("a", 2, 10, (("trace", b"t1"), ("trace", b"t2"))),
        ("c", 4, 12, ()),
    ]
    assert ran.driver.read_output("twice") == [
        ("a", 1, 10, (("trace", b"t1"), ("trace", b"t2"))),
        ("a", 1, 10, (("trace", b"t1"), ("trace", b"t2"))),
        ("b", 2, 11, (("trace", b"t3"),)),
        ("b", 2, 11, (("trace", b"t3"),)),
        ("c", 3, 12, ()),
        ("c", 3, 12, ()),
    ]


@pytest.mark.parametrize("chosen", [-1, [-1], [0, -1], 3])
def test_a_partition_that_does_not_exist_is_refused(chosen: int | list[int]):
    builder, stream = source(value=int)
    stream.to("out", partitioner=lambda key, value, partitions: chosen)
    driver = TopologyTestDriver(builder.build(), partitions=3)
    with pytest.raises(ProcessingError, match=r"must return a partition from 0 to 2.*, got \[?(0, )?-?\d\]?\n"):
        driver.pipe_input("in", "a", 1, 10)
