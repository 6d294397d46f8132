"""Sources that read several topics, or all that match a pattern: topics that appear later are taken up (KS-06)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock import BufferConfig, Materialized, Record, StreamsBuilder, Suppressed, TimeWindows, Topology
from penstock.engine.commit.loop import CommitLoop
from penstock.engine.local import LocalApplication
from penstock.errors import TopologyError
from penstock.log.base import TopicInfo
from penstock.log.produce import produce
from penstock.testing import TopologyTestDriver
from support.own_stores import Supplier, TransactionalDictStore
from support.world import World

pytestmark = pytest.mark.kip("KS-06")


def by_pattern(pattern: str = "in-.*", **given) -> Topology:
    builder = StreamsBuilder()
    counted = builder.stream(re.compile(pattern), value=str, **given).group_by_key().count("counts")
    counted.to_stream().to("out")
    return builder.build()


def put(world: World, topic: str, *keys: str, partitions: int = 1) -> None:
    if not world.log.exists(topic):
        world.log.create_topic(TopicInfo(topic, partitions, "str", "str"))
    produce([(key, "x", 0) for key in keys], topic, value=str, log=world.log)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, by_pattern())


def run(world: World) -> LocalApplication:
    application = world.start()
    application.run_until()
    return application


def test_a_list_of_topics_is_one_stream_in_the_order_of_time():
    builder = StreamsBuilder()
    builder.stream(["one", "other"], value=int).to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("other", "a", 1, 5)
    driver.pipe_input("one", "b", 2, 6)
    assert driver.read_output("out") == [Record("a", 1, 5), Record("b", 2, 6)]


def test_all_topics_whose_whole_names_match_are_read(world: World):
    for topic, key in [("in-1", "a"), ("in-2", "a"), ("win-3", "b"), ("in", "c")]:
        put(world, topic, key)
    run(world)
    assert world.output() == [("a", 1), ("a", 2)]


def test_a_topic_that_appears_later_is_taken_up_from_its_first_record_with_the_state_that_there_is(world: World):
    put(world, "in-1", "a")
    application = run(world)
    put(world, "in-2", "a", "b")
    application.run_until()
    put(world, "in-1", "a")
    application.run_until()
    assert world.output() == [("a", 1), ("a", 2), ("b", 1), ("a", 3)]


def test_a_topic_with_more_partitions_brings_more_tasks(tmp_path: Path):
    builder = StreamsBuilder()
    stream = builder.stream(re.compile("in-.*"), value=str)
    stream.map_values(lambda value, context: f"{context.topic}/{context.partition}").to("out")
    world = World(tmp_path, builder.build())
    put(world, "in-1", "a")
    application = run(world)
    put(world, "in-2", *"bcdefghijklm", partitions=3)
    application.run_until()
    assert {value for _, value in world.output()} == {"in-1/0", "in-2/0", "in-2/1", "in-2/2"}
    assert application.coordinator.layout.tasks == {0: 3}


def test_a_start_before_any_topic_matches_waits_for_one(world: World):
    application = run(world)
    assert application.coordinator.offsets() == {}
    put(world, "in-9", "a")
    application.run_until()
    assert world.output() == [("a", 1)]


def test_a_restart_takes_up_what_has_appeared_in_between_and_goes_on_with_the_rest(world: World):
    put(world, "in-1", "a")
    run(world).close()
    put(world, "in-1", "a")
    put(world, "in-0", "a")
    run(world)
    assert world.output() == [("a", 1), ("a", 2), ("a", 3)]


def test_a_new_topic_is_begun_as_the_source_says(tmp_path: Path):
    world = World(tmp_path, by_pattern(offset_reset="latest"))
    put(world, "in-1", "a")
    application = run(world)
    put(world, "in-2", "b")
    application.run_until()
    put(world, "in-1", "a")
    put(world, "in-2", "c")
    application.run_until()
    assert world.output() == [("a", 1), ("c", 1)]


def test_the_loop_notices_topics_that_appear(world: World):
    application = run(world)
    loop = CommitLoop(application.coordinator, 0.0, False, lambda done, ends: None, takes_up=application.take_up_topics)
    loop._next_look = 0.0
    put(world, "in-1", "a")
    loop.start()
    loop.process_all_available()
    assert world.output() == [("a", 1)]
    put(world, "in-1", "b")
    loop.process_all_available()
    assert world.output() == [("a", 1), ("b", 1)]
    loop.stop()
    application.close()


def test_a_loop_that_takes_up_a_topic_goes_on_telling_of_its_commits(world: World):
    application = run(world)
    told: list[int] = []
    loop = CommitLoop(
        application.coordinator,
        0.0,
        False,
        lambda done, ends: told.append(done.records),
        takes_up=application.take_up_topics,
    )
    put(world, "in-1", "a")
    loop.start()
    loop.process_all_available()
    put(world, "in-1", "b", "c")
    loop.process_all_available()
    loop.stop()
    assert sum(told) == 3
    assert application.coordinator.publishing.on_done == loop._tell
    application.close()


def test_a_table_in_a_store_of_ones_own_goes_on_when_a_topic_appears(tmp_path: Path):
    supplier = Supplier(TransactionalDictStore)
    builder = StreamsBuilder()
    grouped = builder.stream(re.compile("in-.*"), value=str).group_by_key()
    grouped.count(materialized=Materialized.as_(supplier)).to_stream().to("out")
    world = World(tmp_path, builder.build())
    put(world, "in-1", "a", "b")
    application = run(world)
    put(world, "in-2", "a")
    application.run_until()
    put(world, "in-1", "c")
    application.run_until()
    assert world.output() == [("a", 1), ("b", 1), ("a", 2), ("c", 1)]
    assert sorted(key for key, _ in supplier.made[-1].range()) == [b"a", b"b", b"c"]


def test_a_suppression_that_waits_goes_on_waiting_when_a_topic_appears(tmp_path: Path):
    builder = StreamsBuilder()
    windows = TimeWindows.of_size_with_no_grace("10 seconds")
    final = Suppressed.until_window_closes(BufferConfig.unbounded()).with_idle_advance("10 seconds")
    counted = builder.stream(re.compile("in-.*"), value=str).group_by_key().windowed_by(windows).count()
    counted.suppress(final).to_stream().to("out")
    world = World(tmp_path, builder.build())
    put(world, "in-1", "a")
    application = run(world)
    now = [0.0]
    application.coordinator.idle._now = lambda: now[0]
    assert application.coordinator.advance_time() is None  # it waits from now on
    now[0] = 6.0
    world.log.create_topic(TopicInfo("in-2", 1, "str", "str"))
    application.run_until()
    now[0] = 10.0
    assert application.coordinator.advance_time() is not None
    assert [(key.start, value) for key, value in world.output()] == [(0, 1)]


def test_a_task_that_waits_for_a_topic_goes_on_waiting_when_another_one_appears(tmp_path: Path):
    builder = StreamsBuilder()
    builder.stream(re.compile("in-.*"), value=str).to("out")
    world = World(tmp_path, builder.build(), max_task_idle="5 s")
    put(world, "in-1", "a")
    world.log.create_topic(TopicInfo("in-2", 1, "str", "str"))
    application, now = world.start(), [0.0]
    application.coordinator.idling.now = lambda: now[0]
    application.run_until()  # it waits from now on
    now[0] = 3.0
    put(world, "in-3", "b")
    application.run_until()
    assert world.output() == []
    now[0] = 5.0
    application.run_until()
    assert world.output() == [("a", "x")], "and what comes now waits for in-1 in its turn"


def test_who_reads_a_store_sees_what_comes_of_a_topic_that_appears(world: World):
    put(world, "in-1", "a")
    application = run(world)
    counts = application.stores().view("counts")
    assert counts.get("a") == 1
    put(world, "in-2", "a")
    application.run_until()
    assert counts.get("a") == 2


def test_a_topic_that_appears_makes_a_new_coordinator_with_new_tasks_on_the_same_commits(world: World):
    put(world, "in-1", "a")
    application = run(world)
    before, host = application.coordinator, application.host
    put(world, "in-2", "a")
    application.run_until()
    after = application.coordinator
    assert after is not before
    assert application.host is not host
    assert before.topology.source_topics == ("in-1",), "what was there stays as it was"
    assert after.topology.source_topics == ("in-1", "in-2")
    assert after.manifest.commit == before.manifest.commit + 2
    before.give_up()
    assert after.given_up.is_set(), "who stops the program while they change places stops the one that goes on"


def test_the_test_driver_pipes_into_any_topic_that_matches():
    driver = TopologyTestDriver(by_pattern())
    driver.pipe_input("in-1", "a", "x")
    driver.create_input_topic("in-2").pipe_input("a", "y")
    assert driver.read_output("out") == [Record("a", 1, 0), Record("a", 2, 0)]
    with pytest.raises(Exception, match="does not read a topic 'on-1'"):
        driver.pipe_input("on-1", "a", "x")


def test_the_topology_shows_the_pattern():
    assert "Source: KSTREAM-SOURCE-0000000000 (topics: in-.*)" in by_pattern().describe()
    by_hand = Topology().add_source("source", re.compile("x+"), value=str).add_sink("sink", "out", "source")
    assert "Source: source (topics: x+)" in by_hand.describe()


def test_what_two_steps_would_read_is_refused(world: World):
    builder = StreamsBuilder()
    builder.stream(re.compile("in-.*"))
    builder.table("in-rows")
    with pytest.raises(TopologyError, match=r"the pattern 'in-.\*' at .* matches topic 'in-rows', which the step at"):
        builder.build()
    builder = StreamsBuilder()
    builder.stream(re.compile("in-.*"), value=str).to("out")
    builder.stream(re.compile(".*-1"), value=str).to("out")
    put(world, "in-1", "a")
    put(world, "in-2", "a")
    with pytest.raises(TopologyError, match="read topics that overlap but are not the same"):
        world.start(builder.build())


@pytest.mark.parametrize("pattern", [re.compile(b"in"), re.compile("in", re.IGNORECASE)])
def test_a_pattern_of_bytes_or_with_flags_is_refused(pattern):
    with pytest.raises(TopologyError, match="must be a text pattern without flags"):
        StreamsBuilder().stream(pattern)
