"""``max_task_idle``: a task waits for a topic that has nothing before it goes on with the others (KS-17)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from penstock import StreamsBuilder
from penstock.engine.commit.loop import CommitLoop
from penstock.engine.local import LocalApplication
from penstock.errors import ConfigError
from penstock.log.base import TopicInfo
from penstock.log.produce import produce
from penstock.settings import Settings
from support.world import World

pytestmark = pytest.mark.kip("KS-17")


class Merging(World):
    """The records of topics ``a`` and ``b``, in the order in which one task processes them."""

    def __init__(self, folder: Path, **settings):
        builder = StreamsBuilder()
        builder.stream("a", value=str).merge(builder.stream("b", value=str)).to("out")
        super().__init__(folder, builder.build(), **settings)
        self.seconds = 0.0
        for topic in "ab":
            self.log.create_topic(TopicInfo(topic, 1, "str", "str"))

    def begin(self) -> LocalApplication:
        self.application = self.start()
        self.application.coordinator.idling.now = lambda: self.seconds
        return self.application

    def put(self, topic: str, *times: int) -> None:
        produce([(f"{topic}{time}", "x", time) for time in times], topic, value=str, log=self.log)

    def processed(self) -> list[str]:
        """What has come out, after everything that may go on has gone on."""
        self.application.run_until()
        return [key for key, _ in self.output()]


@pytest.fixture
def world(tmp_path: Path) -> Merging:
    world = Merging(tmp_path, max_task_idle="5 s")
    world.begin()
    return world


def test_by_default_a_task_goes_on_with_what_there_is(tmp_path: Path):
    world = Merging(tmp_path)
    world.begin()
    world.put("a", 1, 5)
    assert world.processed() == ["a1", "a5"]
    world.put("b", 3)
    assert world.processed() == ["a1", "a5", "b3"]


def test_a_task_waits_for_a_topic_that_has_nothing_and_takes_both_in_the_order_of_time(world: Merging):
    world.put("a", 1, 5)
    assert world.processed() == []
    world.seconds = 4.9
    assert world.processed() == []
    world.put("b", 3, 9)
    assert world.processed() == ["a1", "b3", "a5"]  # behind a5 the task waits for a
    world.put("a", 7)
    assert world.processed() == ["a1", "b3", "a5", "a7"]


def test_it_goes_on_when_the_time_has_passed(world: Merging):
    world.put("a", 1, 5)
    assert world.processed() == []
    world.seconds = 5.0
    assert world.processed() == ["a1", "a5"]
    world.put("b", 3)
    assert world.processed() == ["a1", "a5"]  # a is empty now, since the commit that read it to its end was seen
    world.seconds = 10.0
    assert world.processed() == ["a1", "a5", "b3"]


def test_the_wait_begins_anew_when_a_topic_had_something_in_between(world: Merging):
    world.put("a", 1, 8)
    assert world.processed() == []
    world.seconds = 4.0
    world.put("b", 2)
    assert world.processed() == ["a1", "b2"]
    world.seconds = 8.9
    assert world.processed() == ["a1", "b2"]
    world.seconds = 9.0
    assert world.processed() == ["a1", "b2", "a8"]


def test_a_task_of_one_topic_never_waits(tmp_path: Path):
    builder = StreamsBuilder()
    builder.stream("in", value=str).to("out")
    world = World(tmp_path, builder.build(), max_task_idle="1 hour")
    world.run("a")
    assert world.output() == [("a", "x")]


@pytest.mark.parametrize("chunk_records", [1, 2, 1000])
def test_however_the_input_is_cut_a_task_stops_behind_the_last_record_of_a_topic(tmp_path: Path, chunk_records: int):
    world = Merging(tmp_path, max_task_idle="5 s", chunk_records=chunk_records, commit_max_bytes=40)
    world.begin()
    world.put("a", *range(1, 20, 2))
    world.put("b", *range(2, 9, 2))
    assert world.processed() == ["a1", "b2", "a3", "b4", "a5", "b6", "a7", "b8"]
    world.seconds = 5.0
    assert world.processed()[8:] == ["a9", "a11", "a13", "a15", "a17", "a19"]


def test_each_partition_waits_for_itself(tmp_path: Path):
    builder = StreamsBuilder()
    builder.stream(["a", "b"], value=str).to("out")
    world = Merging(tmp_path / "base")
    world.topology = builder.build()
    world.settings = replace(world.settings, max_task_idle=5000)
    for topic in "ab":
        world.log.delete_topic(topic)
        world.log.create_topic(TopicInfo(topic, 2, "str", "str"))
    world.begin()
    keys = [f"k{number}" for number in range(20)]
    produce([(key, "x", 1) for key in keys], "a", value=str, log=world.log)
    produce([("k0", "x", 2)], "b", value=str, log=world.log)
    [has_both] = [number for number, end in enumerate(world.log.end_offsets("b")) if end]
    assert len(world.processed()) == world.log.end_offsets("a")[has_both]  # and that of b waits for a


def test_the_loop_wakes_when_the_time_has_passed_and_who_asked_for_everything_waits_for_it(tmp_path: Path):
    world = Merging(tmp_path, max_task_idle="50 ms")
    application = world.start()
    loop = CommitLoop(application.coordinator, 0.0, False, lambda done, ends: None)
    loop.start()
    world.put("a", 1)
    loop.process_all_available()
    assert [key for key, _ in world.output()] == ["a1"]
    loop.stop()
    application.close()


def test_a_loop_that_ends_with_its_input_waits_for_nothing(tmp_path: Path):
    world = Merging(tmp_path, max_task_idle="1 hour")
    world.put("a", 1)
    application = world.start()
    loop = CommitLoop(application.coordinator, 0.0, True, lambda done, ends: None)
    loop.start()
    assert loop.wait(60)
    assert [key for key, _ in world.output()] == ["a1"]
    application.close()


def test_a_negative_time_is_refused():
    with pytest.raises(ConfigError, match="max_task_idle must not be negative"):
        Settings(max_task_idle=-1)
