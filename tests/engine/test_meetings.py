"""Where what one record causes meets itself behind several repartition topics, no cut shows: late records and those of
equal times too keep their order, on the engine's own reader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import StreamsBuilder, Topology
from penstock.engine.shared.layout import layout_of
from penstock.log.base import TopicInfo
from penstock.log.memory import MemoryLog
from support.topologies import pair, stream
from support.topologies_of_cycles import by_value
from support.worlds import CUTS, Row, World, backlog, in_disorder, live


def by_key(key: Any, value: Any) -> Any:
    """Another key; none where there is none."""
    return key and "cab"["abcd".index(key) % 3]


def noted(mark: str) -> Callable[[Any, Any, str], str]:
    """An aggregator that shows the order of all that came."""
    return lambda key, value, text: f"{text}{mark}{value}"[-40:]


def cogroup_of_two_groups_of_a_stream(builder: StreamsBuilder) -> None:
    numbers = stream(builder)
    groups = (numbers.group_by(by_value, key=str, name="values"), numbers.group_by(by_key, key=str, name="keys"))
    groups[0].cogroup(noted("+")).cogroup(groups[1], noted("-")).aggregate(str, value=str).to_stream().to("out")


def merge_of_two_streams_of_new_keys(builder: StreamsBuilder) -> None:
    numbers = stream(builder)
    both = numbers.select_key(by_value, key=str).repartition().merge(numbers.select_key(by_key, key=str).repartition())
    both.group_by_key().aggregate(str, noted(","), value=str).to_stream().to("out")


def join_with_a_count_of_the_stream(builder: StreamsBuilder) -> None:
    numbers = stream(builder)
    counts = numbers.group_by(by_key, key=str).count()
    numbers.select_key(by_value, key=str).left_join(counts, pair, value=str).to("out")


def one_way_is_longer(builder: StreamsBuilder) -> None:
    numbers = stream(builder)
    counts = numbers.group_by(lambda key, value: key, key=str).count().to_stream()
    far = counts.select_key(by_key, key=str).repartition()
    near = numbers.select_key(by_value, key=str).repartition()
    near.merge(far).group_by_key().aggregate(str, noted(","), value=str).to_stream().to("out")


def join_with_a_table_that_is_farther(builder: StreamsBuilder) -> None:
    numbers = stream(builder)
    far = numbers.group_by(by_value, key=str).count().to_stream().select_key(by_key, key=str).to_table()
    numbers.select_key(by_key, key=str).left_join(far, pair, value=str).to("out")


MEETINGS = [
    cogroup_of_two_groups_of_a_stream,
    merge_of_two_streams_of_new_keys,
    join_with_a_count_of_the_stream,
    one_way_is_longer,
    join_with_a_table_that_is_farther,
]


def built(build: Callable[[StreamsBuilder], None]) -> Topology:
    builder = StreamsBuilder()
    build(builder)
    return builder.build()


FEW = settings(max_examples=max(4, settings.default.max_examples // 5))


@pytest.mark.parametrize("build", MEETINGS, ids=lambda build: build.__name__)
@FEW
@given(data=st.data())
def test_a_backlog_gives_record_for_record_what_live_reading_gives(
    build: Callable[[StreamsBuilder], None], data: st.DataObject
) -> None:
    topology = built(build)
    rows = data.draw(in_disorder(topology), "rows")
    uncut, cut = live(topology, rows), World(topology, **data.draw(CUTS, "cuts"))
    for row in rows:
        cut.append([row])
        if data.draw(st.integers(0, 5)) == 0:
            cut.run()
    cut.run()
    assert cut.outputs() == uncut.outputs()


@pytest.mark.parametrize("cuts", [{}, {"chunk_records": 1}, {"chunk_records": 1, "commit_max_bytes": 1}])
def test_records_of_one_time_reach_a_cogroup_one_after_the_other(cuts: dict[str, int]) -> None:
    rows: list[Row] = [("in", "b", value, 5) for value in (0, 3, 6)]
    assert backlog(built(cogroup_of_two_groups_of_a_stream), rows, **cuts).outputs()["out"] == [
        ("a", "+0", 5),
        ("a", "+0-0", 5),
        ("a", "+0-0+3", 5),
        ("a", "+0-0+3-3", 5),
        ("a", "+0-0+3-3+6", 5),
        ("a", "+0-0+3-3+6-6", 5),
    ]


def test_a_late_record_that_waited_for_a_commit_keeps_its_results_in_order() -> None:
    rows: list[Row] = [("in", "a", 0, timestamp) for timestamp in (0, 5, 0, 0, 0)]
    topology = built(one_way_is_longer)
    cut = World(topology, chunk_records=1, commit_max_bytes=1)
    for count, stretch in enumerate((rows[:1], rows[1:2], rows[2:4], rows[4:])):
        cut.append(stretch)
        cut.run()
        assert len(cut.outputs()["out"]) == 2 * (1, 2, 4, 5)[count]
    assert cut.outputs() == live(topology, rows).outputs()


def test_causes_go_along_where_records_meet_and_nowhere_else() -> None:
    def meeting(topology: Topology) -> list[str]:
        log = MemoryLog()
        for topic in topology.source_topics:
            log.create_topic(TopicInfo(topic, 1))
        return sorted(layout_of(topology, log).meetings.topics)

    builder = StreamsBuilder()
    counts = stream(builder).group_by(by_value, key=str).count().to_stream()
    counts.join(stream(builder, "other").select_key(by_value, key=str).to_table(), pair, value=str).to("out")
    assert meeting(builder.build()) == []
    assert meeting(built(cogroup_of_two_groups_of_a_stream)) == ["keys-repartition", "values-repartition"]
