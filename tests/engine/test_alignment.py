"""Who waits for whom in a commit, at one moment: two partitions, and two sub-topologies one behind the other.

    in       0_0 at 40 ---.                  the number is the clock of a task: what it reads from there on is not
             0_1 at 60 ---+-- by-value       earlier; what it sends has that clock at least
                          |
    rates    1_0 at 70 ---'                  waits for records of by-value, and has its partition of rates to read
             1_1 at 45

Sub-topology 1 joins what comes through by-value with the table of rates, so each of its tasks reads both.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock import StreamsBuilder
from penstock.engine.shared.exchange import LATEST, ExchangeRef
from penstock.engine.shared.layout import Layout, TaskId, TaskPlaces, layout_of
from penstock.engine.shared.manifest import TaskEntry
from penstock.engine.shared.work import TaskDone
from penstock.engine.timing.alignment import Alignment
from penstock.log.base import TopicInfo
from penstock.log.memory import MemoryLog
from penstock.plan.physical import SubTopology
from penstock.settings import Settings
from penstock.storage.base import FileRef

CLOCKS = {"0_0": 40, "0_1": 60, "1_0": 70, "1_1": 45}
READ = {"0_0": {"in": 2}, "0_1": {"in": 2}, "1_0": {"rates": 2}, "1_1": {"rates": 2}}
ALL = {"in": [9, 9], "rates": [9, 9]}
"""The ends of the topics: there is more to read for each task."""

BUFFER = 100
"""How many bytes may wait for a sub-topology."""


class Reaching(MemoryLog):
    """A log of which a commit can read up to some times, given for each topic and partition."""

    times: dict[tuple[str, int], int]

    def reach(self, topic: str, partition: int, start: int, end: int, nbytes: int) -> int | None:
        return self.times.get((topic, partition))


@pytest.fixture
def log() -> Reaching:
    log = Reaching()
    log.times = {}
    for topic in ALL:
        log.create_topic(TopicInfo(topic, 2, "str", "str"))
    return log


@pytest.fixture
def layout(log: Reaching) -> Layout:
    builder = StreamsBuilder()
    orders = builder.stream("in", value=str).select_key(lambda key, value: value, key=str).repartition("by-value")
    rates = builder.table("rates", value=str)
    orders.join(rates, lambda order, rate: order + rate).to("out")
    topology = builder.build()
    log.create_topic(TopicInfo("out", 2, "str", "str"))
    return layout_of(topology, log, "app")


class Moment:
    """The tasks as they are when a commit begins."""

    def __init__(self, log: Reaching, layout: Layout):
        self.log, self.layout = log, layout
        self.subs = {sub.id: sub for stage in layout.stages for sub in stage}
        [self.topic] = self.subs[0].sink_topics

    def alignment(
        self, waiting: dict[str, list[ExchangeRef]] | None = None, ends: dict[str, list[int]] | None = None
    ) -> Alignment:
        """What is said when this waits for tasks, and the topics are to be read up to these ends."""
        entries = {task: TaskEntry(READ[task], clock=clock) for task, clock in CLOCKS.items()}
        waits = {task: {self.topic: refs} for task, refs in (waiting or {}).items()}
        settings = replace(Settings.load(environment={}), input_buffer_max_bytes=BUFFER)
        return Alignment(self.layout, entries, ends or ALL, waits, self.log, settings)

    def task(self, name: str) -> tuple[SubTopology, TaskPlaces]:
        sub = self.subs[TaskId.parse(name).sub]
        [found] = [task for task in self.layout.tasks_of(sub) if task.name == name]
        return sub, found

    def bounds(self, alignment: Alignment, task: str, *done: TaskDone) -> dict[str, tuple[int, str]]:
        """What holds a task back that runs behind others; ``by-value`` is told under this name."""
        found = alignment.bounds(*self.task(task), {one.task: one for one in done})
        return {"by-value" if topic == self.topic else topic: bound for topic, bound in found.items()}

    def reading_on(self, alignment: Alignment) -> list[str]:
        return [task for task in CLOCKS if alignment.reads_on(TaskId.parse(task))]


@pytest.fixture
def moment(log: Reaching, layout: Layout) -> Moment:
    return Moment(log, layout)


def waits(clock: int, nbytes: int = BUFFER + 1) -> ExchangeRef:
    return ExchangeRef(0, FileRef("exchange/one", nbytes, 1), [0], 1, clock=clock, nbytes=nbytes)


def read(task: str, clock: int) -> TaskDone:
    """A task that has read all there is in this commit."""
    return TaskDone(task, {"in": 9}, clock)


# --- what may still be sent ------------------------------------------------------------------------------------------


def test_a_task_takes_nothing_behind_what_a_task_before_it_may_still_send(moment: Moment):
    assert moment.bounds(moment.alignment(), "1_0") == {"by-value": (40, "0_0")}
    assert moment.bounds(moment.alignment(), "1_1") == {"by-value": (40, "0_0")}


def test_a_task_that_has_read_all_there_is_sends_nothing_more(moment: Moment):
    assert moment.bounds(moment.alignment(), "1_0", read("0_0", 90)) == {"by-value": (60, "0_1")}
    assert moment.bounds(moment.alignment(), "1_0", read("0_0", 90), read("0_1", 80)) == {}


def test_a_task_that_has_not_read_all_counts_by_how_far_it_has_come(moment: Moment):
    some = TaskDone("0_0", {"in": 5}, 55)
    assert moment.bounds(moment.alignment(), "1_0", some) == {"by-value": (55, "0_0")}


def test_nothing_holds_tasks_back_where_nothing_is_to_be_read_before_them(moment: Moment):
    assert moment.bounds(moment.alignment(ends={"in": [2, 2], "rates": [9, 9]}), "1_0") == {}


# --- who is held -----------------------------------------------------------------------------------------------------


def test_while_too_much_waits_only_those_read_on_that_are_behind_it(moment: Moment):
    assert moment.reading_on(moment.alignment({"1_0": [waits(50)]})) == ["0_0", "1_1"]


def test_the_one_furthest_behind_reads_on_also_where_it_is_ahead_of_all_that_waits(moment: Moment):
    assert moment.reading_on(moment.alignment({"1_0": [waits(10)]})) == ["0_0"]


def test_what_waits_for_all_tasks_counts_together(moment: Moment):
    half = BUFFER // 2 + 1
    assert moment.reading_on(moment.alignment({"1_0": [waits(50, half)], "1_1": [waits(65, half)]})) == ["0_0", "1_1"]


def test_up_to_the_buffer_all_read_on(moment: Moment):
    assert moment.reading_on(moment.alignment({"1_0": [waits(50, BUFFER)]})) == list(CLOCKS)


def test_a_held_task_takes_nothing_of_other_topics_that_is_behind_where_it_stands_in_its_own(moment: Moment):
    """Of rates it reads nothing now, though there is more at 70: an order of 80 has to wait for that."""
    waiting = {"1_0": [waits(50)]}
    assert moment.bounds(moment.alignment(waiting), "1_0") == {"by-value": (40, "0_0"), "rates": (70, "")}
    assert moment.bounds(moment.alignment(waiting), "1_0", read("0_0", 90), read("0_1", 80)) == {"rates": (70, "")}


def test_a_task_that_reads_on_is_held_back_by_none_of_its_own_topics(moment: Moment):
    assert moment.bounds(moment.alignment({"1_0": [waits(50)]}), "1_1") == {"by-value": (40, "0_0")}


# --- up to which time ------------------------------------------------------------------------------------------------


def test_all_whose_records_meet_read_up_to_the_time_that_the_densest_partition_reaches(moment: Moment):
    moment.log.times = {("in", 0): 900, ("in", 1): 200, ("rates", 0): 700, ("rates", 1): 300}
    alignment = moment.alignment()
    assert [alignment.until(sub) for sub in moment.subs.values()] == [200, 200]


def test_a_held_partition_keeps_nobody_from_reading_further(moment: Moment):
    moment.log.times = {("in", 0): 900, ("in", 1): 200, ("rates", 0): 700, ("rates", 1): 300}
    alignment = moment.alignment({"1_0": [waits(50)]})
    assert alignment.until(moment.subs[0]) == 300


def test_partitions_that_can_be_read_to_their_ends_set_no_time(moment: Moment):
    assert moment.alignment().until(moment.subs[0]) == LATEST
