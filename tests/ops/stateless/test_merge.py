"""``merge`` of streams."""

from penstock import StreamsBuilder
from support.flows import Run, source


def test_merge_interleaves_the_records_of_two_topics_as_they_arrive(run: Run):
    builder = StreamsBuilder()
    left, right = builder.stream("left", value=int), builder.stream("right", value=int)
    left.merge(right).to("out")
    rows = [
        ("left", "a", 1, 10),
        ("right", "b", 2, 5),
        ("right", None, 3, 7),
        ("left", "b", None, 6),
    ]
    assert run(builder, rows).output() == [
        ("a", 1, 10),
        ("b", 2, 5),
        (None, 3, 7),
        ("b", None, 6),
    ]


def test_two_branches_of_one_stream_meet_again_record_by_record_in_the_order_of_declaration(run: Run):
    builder, stream = source(value=str)
    first = stream.map_values(lambda value: value + "1", value=str)
    second = stream.flat_map_values(lambda value: [value + "2", value + "3"], value=str)
    second.merge(first).to("out")
    assert run(builder, [("a", "x", 1), ("a", "y", 2)]).output() == [
        ("a", "x1", 1),
        ("a", "x2", 1),
        ("a", "x3", 1),
        ("a", "y1", 2),
        ("a", "y2", 2),
        ("a", "y3", 2),
    ]


def test_a_stream_merged_with_itself_gives_each_record_once(run: Run):
    builder, stream = source(value=str)
    stream.merge(stream).to("out")
    assert run(builder, [("a", "x", 1)]).output() == [("a", "x", 1)]


def test_one_stream_of_several_topics_is_as_good_as_a_merge(run: Run):
    builder = StreamsBuilder()
    builder.stream(["left", "right"], value=int).to("out")
    rows = [("left", "a", 1, 10), ("right", "b", 2, 5), ("left", "c", 3, 7)]
    assert run(builder, rows).output() == [("a", 1, 10), ("b", 2, 5), ("c", 3, 7)]
