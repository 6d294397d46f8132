"""A circle of sub-topologies within a commit, round by round: nothing overtakes what is still on its way around.

What a record sends around the circle comes back to the tasks that read such records. Live it is there before the next
record comes; in a backlog it has to be before the next record is processed, or it would come late. So the tasks of a
circle read a stretch and then wait for each other: lap by lap what they sent is handed to those it is for, until
nothing is on its way; then they read the next stretch. All tasks read up to one place, so that none is ahead of what
comes of another one's records.

    task 0_0 reads  10  20        40     and sends to 0_1 what comes of 20
    task 0_1 reads     15     30         and joins that with what it had at 20: 15, not 30

A stretch is as long as what a task works on at once. How often they wait follows from that, not from the number of
records: within a chunk each step finds what it would have found record by record, as everywhere (``circles.py`` says
in which lap a step has its turn). Where that cannot be, a stretch is one record.

Rounds are within one attempt: nothing of them is durable, and what was written between laps goes when they are over.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Protocol

import msgspec

from penstock.engine.shared.circles import Circle
from penstock.engine.shared.exchange import ExchangeRef
from penstock.engine.shared.layout import TaskId
from penstock.engine.shared.stretch import FIRST_ROOT, Stretch, longest
from penstock.engine.shared.work import Lap, LapDone, TaskDone, TaskWork
from penstock.plan.physical import SubTopology
from penstock.settings import Settings

Refs = dict[str, list[ExchangeRef]]

Place = tuple[int, TaskId]
"""A clock, and of equals the order of tasks."""

_FIRST_RECORDS = 1024
"""How many records a task takes in the first round, at most: nobody knows yet what comes of them."""

_GROWTH = 4
"""How many times longer than the one before a stretch is at most."""

_MOST_ROOTS = 1 << 18
"""How many numbers there are for each clock, about."""


class CircleAttempt(Protocol):
    """What rounds are part of: a commit that is tried, live or in a batch."""

    @property
    def settings(self) -> Settings: ...

    def take_waiting(self, subs: Iterable[SubTopology], topics: frozenset[str]) -> dict[str, Refs]:
        """What waits for the tasks of some sub-topologies in some topics, by task; it does not wait any more."""

    def works(self, sub: SubTopology) -> list[TaskWork]:
        """What the tasks of a sub-topology are to do, those that have anything to do."""

    def work_of(self, task: str) -> TaskWork:
        """The work of a task that has nothing to read but what comes to it around its circle."""

    def may_come(self, circle: Circle, begun: Container[str]) -> list[Place]:
        """Before which places something may still come into a circle to tasks that have not begun to read it."""

    def order(self, works: list[TaskWork], label: str) -> dict[str, TaskDone]:
        """Have some tasks do their work; what each of them did."""

    def take(self, works: list[TaskWork], by_task: dict[str, TaskDone]) -> None:
        """Take up what tasks did."""

    def forget(self, files: Iterable[str]) -> None:
        """Remove files that nobody needs any more."""


class Rounds:
    """One circle in one attempt."""

    def __init__(self, attempt: CircleAttempt, circle: Circle, label: str):
        self._attempt = attempt
        self._circle = circle
        self._label = label
        self._readers = {topic: sub.id for sub in circle.subs for topic in sub.source_topics}
        self._works: dict[str, TaskWork] = {}
        """Of the tasks that take part."""
        self._at: dict[str, LapDone] = {}
        """How it goes on for those that have begun."""
        self._at_hand: dict[str, int] = {}
        """How many records each of them has at hand for the next round, at most."""
        self._limits: list[Place] = []
        """Before which places something may still come into the circle in later commits."""
        self._coming: dict[str, Refs] = {}
        """What is on its way, by the tasks that it is for."""
        self._next_root = FIRST_ROOT
        self._looks = 1 if circle.lap is None else _FIRST_RECORDS

    def run(self) -> None:
        """Go on until all is read that is to be read in this commit, or a task has taken as much as it may."""
        subs = self._circle.subs
        self._coming = self._attempt.take_waiting(subs, self._circle.topics)
        self._works = {work.task: work for sub in subs for work in self._attempt.works(sub)}
        if not self._works and not self._coming:
            return
        self._limits = self._attempt.may_come(self._circle, self._works)
        self._look_for(self._looks)
        waited = {ref.file.name for topics in self._coming.values() for refs in topics.values() for ref in refs}
        self._lap({task: Lap() for task in self._works})
        self._let_come_back(waited)
        while (stretch := self._stretch()) is not None:
            if self._circle.lap is None:
                first = min(self._heads())[1]
                self._lap({str(first): Lap(takes=True)})
                self._let_come_back()
            else:
                self._round(stretch)
        self._attempt.take(list(self._works.values()), self._order({task: Lap(ends=True) for task in self._at}))

    # --- rounds --------------------------------------------------------------------------------------------------

    def _heads(self) -> list[Place]:
        """Where the next records stand that tasks may take."""
        return [(at.head, TaskId.parse(task)) for task, at in self._at.items() if at.head is not None]

    def _stretch(self) -> Stretch | None:
        """What is read in the next round; None when the commit is to be made."""
        heads = self._heads()
        if not heads or any(at.is_full for at in self._at.values()):
            return None
        width = sum(self._at_hand[str(task)] for _, task in heads)
        first, last = min(heads)[0], longest(self._next_root, width)
        if last < 0:
            return None
        limits = [(at.until, TaskId.parse(task)) for task, at in self._at.items() if at.until is not None]
        until = min([*limits, *self._limits, (first + last, max(task for _, task in heads))])
        taking = sorted(task for head, task in heads if (head, task) <= until)
        if not taking:
            return None
        numbers = itertools.accumulate((self._at_hand[str(task)] for task in taking), initial=0)
        places = dict(zip(map(str, taking), numbers, strict=False))
        return Stretch(self._next_root, first, width, until[0], str(until[1]), places)

    def _round(self, stretch: Stretch) -> None:
        """Have a stretch read, and all that comes of it."""
        last = self._circle.last_lap
        room = float(_GROWTH)
        looked = max(self._at_hand[task] for task in stretch.places)
        files = self._lap({task: Lap(number=0, stretch=stretch, takes=True) for task in stretch.places})
        begun = dict.fromkeys(stretch.places)
        for number in range(1, last + 1):
            due = self._due(number)
            begun |= dict.fromkeys(due)
            room = min([room, *(self._room_for(topics.values()) for topics in due.values())])
            if number == last:
                self._look_for(int(looked * room))
            files |= self._lap({task: Lap(number, stretch, comes_back=due.get(task, {})) for task in begun})
        assert not self._coming, f"{', '.join(self._coming)} got something behind the last lap"
        self._next_root = stretch.end
        self._attempt.forget(files)

    def _room_for(self, topics: Iterable[list[ExchangeRef]]) -> float:
        """How many times as much a round could be for what comes back to a task to be as much as it may work on at
        once."""
        refs, settings = [ref for some in topics for ref in some], self._attempt.settings
        records, nbytes = sum(ref.records for ref in refs), sum(ref.nbytes for ref in refs)
        return min(settings.chunk_records / max(records, 1), settings.chunk_bytes / max(nbytes, 1))

    def _due(self, lap: int) -> dict[str, Refs]:
        """What is on its way to steps that have their turn in a lap."""
        due: dict[str, Refs] = {}
        for task, topics in list(self._coming.items()):
            mine = {topic: topics.pop(topic) for topic in list(topics) if self._circle.turn[topic] == lap}
            due |= {task: mine} if mine else {}
            if not topics:
                del self._coming[task]
        return due

    def _let_come_back(self, waited: Iterable[str] = ()) -> None:
        """Have all that is on its way come back, through all steps, until nothing is any more.

        Args:
            waited: files that the manifest before names.
        """
        while self._coming:
            coming, self._coming = self._coming, {}
            files = self._lap({task: Lap(comes_back=refs) for task, refs in coming.items()})
            self._attempt.forget(files.difference(waited))

    def _look_for(self, records: int) -> None:
        """Have tasks look for so many records for their next round."""
        most = max(_MOST_ROOTS // max(len(self._works), 1), 1)
        self._looks = max(min(records, self._attempt.settings.chunk_records, most), 1)

    # --- laps ----------------------------------------------------------------------------------------------------

    def _lap(self, laps: Mapping[str, Lap]) -> set[str]:
        """Have some tasks do a lap; the files that they read, which nobody needs any more."""
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
        return self._attempt.order(list(self._orders(laps)), self._label)

    def _orders(self, laps: Mapping[str, Lap]) -> Iterator[TaskWork]:
        """What the tasks are told, in the order in which what they send counts."""
        for task in sorted(laps, key=TaskId.parse):
            lap = msgspec.structs.replace(laps[task], looks=self._looks)
            if task in self._at:
                yield TaskWork(task, self._works[task].entry, lap=lap, begins=False)
            else:
                work = self._works.setdefault(task, self._attempt.work_of(task))
                yield msgspec.structs.replace(work, lap=lap)
