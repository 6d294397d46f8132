"""``repartition`` of streams."""

from penstock import StreamsBuilder
from support.flows import Run, source


def test_a_repartition_hands_on_all_records_but_those_without_a_key(run: Run):
    builder, stream = source(value=int)
    stream.repartition("by-key").to("out")
    ran = run(builder, [("a", 1, 10), (None, 2, 5), ("b", None, 7), ("a", 3, 6)])
    assert ran.output() == [("a", 1, 10), ("b", None, 7), ("a", 3, 6)]
    assert ran.dropped() == {}  # they vanish, as in Kafka Streams


def test_a_repartition_may_write_keys_and_values_in_other_types(run: Run):
    builder, stream = source(value=int)
    stream.map(lambda key, value: (value, key), key=int, value=str).repartition("r", key=int, value=str).to("out")
    assert run(builder, [("a", 7, 1)]).output() == [(7, "a", 1)]


def test_what_follows_a_repartition_sees_the_records_of_several_topics_in_their_order(run: Run):
    builder = StreamsBuilder()
    left = builder.stream("left", value=int).repartition("one")
    right = builder.stream("right", value=int).repartition("two")
    left.merge(right).to("out")
    rows = [("left", "a", 1, 10), ("right", "b", 2, 5), ("left", "c", 3, 7)]
    assert run(builder, rows).output() == [("a", 1, 10), ("b", 2, 5), ("c", 3, 7)]


def test_no_second_repartition_comes_behind_a_repartition_by_hand():
    builder, stream = source(value=int)
    stream.select_key(lambda key, value: str(value)).repartition("by-value").group_by_key().count("counts")
    assert builder.build().internal_topics == {"by-value-repartition"}
