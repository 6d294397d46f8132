"""A cycle of sub-topologies within a commit, round by round: no record overtakes one still going around.

A record that is sent around the cycle comes back to the tasks that read such records. Live, it is back before the next
record arrives. In a backlog it must be back before the next record is processed, or it would be late. So the tasks of a
cycle read a stretch of input and then wait for each other. In each lap the records they sent go to the tasks that read
them, until none is left; then they read the next stretch. All tasks read up to the same place, so no task is ahead of
the results of another task's records.

    task 0_0 reads  10  20        40     and sends the result of 20 to 0_1
    task 0_1 reads     15     30         and joins it with its value at 20: 15, not 30

A stretch is as long as the chunk a task processes at once. That determines how often the tasks wait, not the number of
records: within a chunk each step sees the same state as record by record (``cycles.py`` says in which lap a step has
its turn). Where that is impossible, a stretch is one record.

Rounds stay within one attempt: they store nothing durable, and files written between laps are removed at the end.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Protocol

import msgspec

from penstock.engine.shared.cycles import Cycle
from penstock.engine.shared.exchange import ExchangeRef
from penstock.engine.shared.first_writes import records_at_first
from penstock.engine.shared.layout import TaskId
from penstock.engine.shared.runner import TooManyWritesError
from penstock.engine.shared.stretch import FIRST_ROOT, Stretch, longest
from penstock.engine.shared.work import Lap, LapDone, TaskDone, TaskWork
from penstock.plan.physical import SubTopology
from penstock.settings import Settings

Refs = dict[str, list[ExchangeRef]]

Place = tuple[int, TaskId]
"""A clock and a task; equal clocks are ordered by task."""

_FIRST_RECORDS = 1024
"""Most records a task takes in the first round, when the number of results is still unknown."""

_GROWTH = 4
"""How many times longer a stretch may be than the previous one."""

_MOST_ROOTS = 1 << 18
"""Approximate number of roots available for each clock."""


class CycleAttempt(Protocol):
    """The attempt that rounds are part of, live or in a batch."""

    @property
    def settings(self) -> Settings: ...

    @property
    def most(self) -> Mapping[str, int]:
        """How many records may enter some cycles, by name, where stores have no room for the writes of more."""

    def take_waiting(self, subs: Iterable[SubTopology], topics: frozenset[str]) -> dict[str, Refs]:
        """Remove and return the records that wait for tasks of these sub-topologies in these topics, by task."""

    def works(self, sub: SubTopology) -> list[TaskWork]:
        """Return the work of a sub-topology's tasks, only of tasks that have something to do."""

    def work_of(self, task: str) -> TaskWork:
        """Return the work of a task that reads only records that come back around its cycle."""

    def may_come(self, cycle: Cycle, begun: Container[str]) -> list[Place]:
        """Return the places before which records may still enter a cycle, for tasks that have not begun to read it."""

    def order(self, works: list[TaskWork], label: str) -> dict[str, TaskDone]:
        """Run the work of some tasks. Return the results by task."""

    def take(self, works: list[TaskWork], by_task: dict[str, TaskDone]) -> None:
        """Merge the results of tasks into this attempt."""

    def forget(self, files: Iterable[str]) -> None:
        """Remove files that are no longer needed."""


def name_of(cycle: Cycle) -> str:
    """Return the name under which an attempt knows how many records may enter a cycle."""
    return f"cycle of {cycle.subs[0].id}"


class Rounds:
    """The rounds of one cycle in one attempt."""

    def __init__(self, attempt: CycleAttempt, cycle: Cycle, label: str):
        self._attempt = attempt
        self._cycle = cycle
        self._label = label
        self._readers = {topic: sub.id for sub in cycle.subs for topic in sub.source_topics}
        self._works: dict[str, TaskWork] = {}
        """The work of the tasks that take part."""
        self._at: dict[str, LapDone] = {}
        """The progress of the tasks that have begun."""
        self._at_hand: dict[str, int] = {}
        """Most records each task prepares for the next round."""
        self._limits: list[Place] = []
        """Places before which records may still enter the cycle in later commits."""
        self._coming: dict[str, Refs] = {}
        """Records on their way, by the task that reads them."""
        self._next_root = FIRST_ROOT
        self._looks = 1 if cycle.lap is None else _FIRST_RECORDS
        self._name = name_of(cycle)
        most = attempt.most.get(self._name, sys.maxsize)
        self._may_pass = most == 0
        """Whether tasks may pass limits, because fewer records cannot enter."""
        self._most = max(most, 1)
        """How many records may enter the cycle in this attempt."""
        self._entered = 0
        """How many have, in the rounds before."""
        self._entering = 0
        """How many do in this round, at most."""

    def run(self) -> None:
        """Run rounds until this commit's input is read, or a task has taken as much as it may."""
        subs = self._cycle.subs
        self._coming = self._attempt.take_waiting(subs, self._cycle.topics)
        self._works = {work.task: work for sub in subs for work in self._attempt.works(sub)}
        if not self._works and not self._coming:
            return
        self._limits = self._attempt.may_come(self._cycle, self._works)
        self._look_for(self._looks)
        waited = {ref.file.name for topics in self._coming.values() for refs in topics.values() for ref in refs}
        self._lap({task: Lap() for task in self._works})
        self._let_come_back(waited)
        self._fit()
        while (stretch := self._stretch()) is not None:
            if self._cycle.lap is None:
                first = min(self._heads())[1]
                self._lap({str(first): Lap(takes=True)})
                self._let_come_back()
                self._entered += 1
            else:
                self._round(stretch)
        self._attempt.take(list(self._works.values()), self._order({task: Lap(ends=True) for task in self._at}))

    # --- rounds --------------------------------------------------------------------------------------------------

    def _heads(self) -> list[Place]:
        """Return the places of the next records that tasks may take."""
        return [(at.head, TaskId.parse(task)) for task, at in self._at.items() if at.head is not None]

    def _stretch(self) -> Stretch | None:
        """Return the stretch to read in the next round; None when it is time to commit."""
        heads = self._heads()
        if not heads or self._entered >= self._most or any(at.is_full for at in self._at.values()):
            return None
        width = sum(self._at_hand[str(task)] for _, task in heads)
        first, last = min(heads)[0], longest(self._next_root, width)
        if last < 0:
            return None
        limits = [(at.until, TaskId.parse(task)) for task, at in self._at.items() if at.until is not None]
        until = min([*limits, *self._limits, (first + last, max(task for _, task in heads))])
        if self._room() < len(heads):
            until = min(until, *heads)
        taking = sorted(task for head, task in heads if (head, task) <= until)
        if not taking:
            return None
        numbers = itertools.accumulate((self._at_hand[str(task)] for task in taking), initial=0)
        places = dict(zip(map(str, taking), numbers, strict=False))
        return Stretch(self._next_root, first, width, until[0], str(until[1]), places)

    def _round(self, stretch: Stretch) -> None:
        """Read a stretch, and process all records that result from it."""
        last = self._cycle.last_lap
        room = float(_GROWTH)
        looked = max(self._at_hand[task] for task in stretch.places)
        self._entering = sum(self._at_hand[task] for task in stretch.places)
        files = self._lap({task: Lap(number=0, stretch=stretch, takes=True) for task in stretch.places})
        roots = self._entering = sum(self._at[task].taken for task in stretch.places)
        begun = dict.fromkeys(stretch.places)
        for number in range(1, last + 1):
            due = self._due(number)
            begun |= dict.fromkeys(due)
            room = min([room, *(self._room_for(topics.values()) for topics in due.values())])
            if number == last:
                self._look_for(int(looked * room))
            files |= self._lap({t: Lap(number, stretch, comes_back=due.get(t, {}), roots=roots) for t in begun})
        assert not self._coming, f"{', '.join(self._coming)} got something behind the last lap"
        self._next_root = stretch.end
        self._entered, self._entering = self._entered + roots, 0
        self._attempt.forget(files)
        self._fit()

    def _room_for(self, topics: Iterable[list[ExchangeRef]]) -> float:
        """Return by how much a round could grow until a task gets back as much as it may process at once."""
        refs, settings = [ref for some in topics for ref in some], self._attempt.settings
        records, nbytes = sum(ref.records for ref in refs), sum(ref.nbytes for ref in refs)
        return min(settings.chunk_records / max(records, 1), settings.chunk_bytes / max(nbytes, 1))

    def _room(self) -> int:
        """Return how many records may enter the cycle at once, by the limits of uncommitted writes."""
        room = min([self._most - self._entered, *(at.room for at in self._at.values())])
        # Nothing is known yet of what records make where none have come.
        if {TaskId.parse(task).sub for task in self._at} != {sub.id for sub in self._cycle.subs}:
            return min(room, records_at_first(self._attempt.settings))
        return room

    def _fit(self) -> None:
        """Have tasks prepare no more records for the next round than the stores of all tasks have room for."""
        takers = [str(task) for _, task in self._heads()]
        room = self._room() if takers else 0
        if self._cycle.lap is not None and sum(self._at_hand[task] for task in takers) > max(room, len(takers)):
            self._look_for(room // len(takers))
            self._lap({task: Lap() for task in takers})

    def _due(self, lap: int) -> dict[str, Refs]:
        """Return the records on their way to steps that have their turn in a lap."""
        due: dict[str, Refs] = {}
        for task, topics in list(self._coming.items()):
            mine = {topic: topics.pop(topic) for topic in list(topics) if self._cycle.turn[topic] == lap}
            due |= {task: mine} if mine else {}
            if not topics:
                del self._coming[task]
        return due

    def _let_come_back(self, waited: Iterable[str] = ()) -> None:
        """Run laps until no record is on its way.

        Args:
            waited: files that the previous manifest names.
        """
        while self._coming:
            coming, self._coming = self._coming, {}
            files = self._lap({task: Lap(comes_back=refs) for task, refs in coming.items()})
            self._attempt.forget(files.difference(waited))

    def _look_for(self, records: int) -> None:
        """Set how many records tasks prepare for their next round."""
        most = max(_MOST_ROOTS // max(len(self._works), 1), 1)
        self._looks = max(min(records, self._attempt.settings.chunk_records, most), 1)

    # --- laps ----------------------------------------------------------------------------------------------------

    def _lap(self, laps: Mapping[str, Lap]) -> set[str]:
        """Run one lap with some tasks. Return the files that they read, which are no longer needed."""
        for done in self._order(laps).values():
            assert done.lap is not None
            self._at[done.task] = done.lap
            self._at_hand[done.task] = self._looks
            for topic, refs in done.exchange.items():
                for ref in refs:
                    task = str(TaskId(self._readers[topic], ref.partition))
                    self._coming.setdefault(task, {}).setdefault(topic, []).append(ref)
        return {ref.file.name for lap in laps.values() for refs in lap.comes_back.values() for ref in refs}

    def _order(self, laps: Mapping[str, Lap]) -> dict[str, TaskDone]:
        try:
            return self._attempt.order(list(self._orders(laps)), self._label)
        except TooManyWritesError:
            well = self._entered if self._entering else self._entered // 2
            raise TooManyWritesError({self._name: max(well or self._entering // 2, 1)}) from None

    def _orders(self, laps: Mapping[str, Lap]) -> Iterator[TaskWork]:
        """Yield the work of the tasks, in the order in which the records they send count."""
        for task in sorted(laps, key=TaskId.parse):
            lap = msgspec.structs.replace(laps[task], looks=self._looks, may_pass=self._may_pass)
            if task in self._at:
                yield TaskWork(task, self._works[task].entry, lap=lap, begins=False)
            else:
                work = self._works.setdefault(task, self._attempt.work_of(task))
                yield msgspec.structs.replace(work, lap=lap)
