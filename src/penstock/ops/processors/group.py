"""Processors that share stores: each record passes through all of them, depth first, before the next record.

Each of them is a step with results of its own. Records from outside wait until all members have received theirs. They
are then processed in order, and a record that one member forwards to another is processed at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from penstock.arrays import IntArray
from penstock.columns.batch import NO_RECORD, OF_CAUSE, Batch, Origins
from penstock.columns.column import Column, ValuesColumn
from penstock.columns.rows import joined_column
from penstock.errors import ProcessingError
from penstock.figures.metrics import PUNCTUATED
from penstock.figures.moving import moving
from penstock.messages import show
from penstock.ops.core.arrivals import NO_ARRIVALS, Arrivals
from penstock.ops.core.context import Context
from penstock.ops.core.operator import Collector
from penstock.ops.processors.context import TaskProcessorContext
from penstock.ops.processors.forwarded import Forwarded
from penstock.ops.processors.operator import Process, records_of
from penstock.ops.processors.punctuations import BEHIND, Punctuation
from penstock.ops.processors.views import Views
from penstock.plan.functions import UserFunction
from penstock.processor import STREAM_TIME, WALL_CLOCK_TIME, PunctuationType
from penstock.record import Record
from penstock.usage.calls import refuse_result


class MemberContext(TaskProcessorContext):
    """The context of a processor in a group: records that it forwards reach the other members at once."""

    member: Member

    def forward(self, record: Record, child: str | None = None) -> None:
        if record.__class__ is not Record:
            raise self._refused(record)
        self.member.send(record, None if child is None else self._number_of(child))

    def position(self) -> int | None:
        return self.member.group.position

    def place(self) -> tuple[Any, int, int]:
        return self.member.group.place()

    def has_no_place(self) -> bool:
        group = self.member.group
        return group.position is None or group.is_of_punctuation

    @property
    def current_stream_time_ms(self) -> int:
        group = self.member.group
        if group.position is not None:
            return group.arrivals.time_at(group.position)
        return self._task_time.now if group.stream_time is None else group.stream_time


class Member(Process):
    """A processor of a group."""

    group: Group

    def joins(self, group: Group, inner: dict[int, Member]) -> None:
        """Become a member of a group.

        Args:
            inner: the later steps that are also members, by number.
        """
        self.group = group
        self._inner = inner
        self._waiting: Batch | None = None
        self.clear()

    def new_context(self) -> TaskProcessorContext:
        own = super().new_context()
        assert isinstance(own, MemberContext)
        own.member = self
        return own

    def clear(self) -> None:
        """Forget the forwarded records."""
        self._outbox = _Sent([], {}, [], [], [])
        self._key: object = None

    # --- what the flow does --------------------------------------------------------------------------------------

    def step(self, batch: Batch, out: Collector) -> None:
        self._waiting = self._context.decoded(self.node, batch, "key", "value")

    def end_of_chunk(self, out: Collector) -> None:
        self.group.is_chunk = True

    def punctuate(self, out: Collector) -> None:
        self.group.is_wall_clock = True

    def take_waiting(self) -> Batch | None:
        waiting, self._waiting = self._waiting, None
        return waiting if waiting is not None and len(waiting) else None

    # --- what its processor does ---------------------------------------------------------------------------------

    def receive(self, record: Record) -> None:
        """Process a record."""
        before, self._key = self._key, record.key
        try:
            refuse_result(self._hosted.process(record))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self.group.failed(self, error, self._supplier.function)
        finally:
            self._key = before

    def call(self, punctuation: Punctuation, now: int) -> None:
        """Call a punctuation."""
        self._context.see(PUNCTUATED, scope="task")
        try:
            refuse_result(punctuation.callback(now), "the punctuation")
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            where = self._supplier.function.where
            self.group.failed(self, error, UserFunction(punctuation.callback, 1, False, where))

    def send(self, record: Record, child: int | None) -> None:
        """Send a record on: to later members at once, child by child, to other steps at the end of the chunk."""
        if type(record.timestamp) is not int or record.timestamp < 0:
            raise next(error for _, error in Forwarded([record], {}, ()).wrong_times())
        if record.headers and (wrong := dict(Forwarded([record], {}, ()).wrong_headers())):
            raise wrong[0]
        if self._keeps_keys and (self.group.position is None or record.key != self._key):
            raise ProcessingError(
                "a processor of process_values cannot change the key of a record, and cannot forward in punctuations; "
                f"got the key {show(record.key)}. Use record.with_value(...), or process(...)"
            )
        if child is None and not self._inner:
            self._put(record, None)
            return
        for number in range(self.own.children) if child is None else (child,):
            if number in self._inner:
                self._inner[number].receive(record)
            else:
                self._put(record, number)

    def _put(self, record: Record, to: int | None) -> None:
        sent = self._outbox
        if to is not None:
            sent.addressed[len(sent.records)] = to
        sent.records.append(record)
        sent.turns.append(self.group.turn)
        sent.numbers.append(self.group.next_number())
        sent.keys.append(self._key)

    def finish(self, turns: list[IntArray], out: Collector) -> None:
        """Emit the forwarded records.

        Args:
            turns: the place of each turn of the group in the processing order.
        """
        sent = self._outbox
        self.clear()
        if not sent.records:
            return
        rows = np.array(sent.turns)
        order = (*(column[rows] for column in turns), np.array(sent.numbers))
        given = ValuesColumn(sent.keys, self._types[0]) if self._keeps_keys else None
        held = self.group.held_at(rows)
        Forwarded(sent.records, sent.addressed, order, given, held).emit(*self._types, self.own.children, out)


class _Sent(NamedTuple):
    """The records that a member has forwarded to steps outside of the group."""

    records: list[Record]
    addressed: dict[int, int]
    turns: list[int]
    numbers: list[int]
    keys: list[object]


class _Entries(NamedTuple):
    """The records from outside, in processing order."""

    members: list[Member]
    records: list[Record]
    positions: IntArray
    order: list[IntArray]
    held: Origins | None = None
    """Their origins, as in ``Batch``."""

    def __len__(self) -> int:
        return len(self.records)


class Group:
    """The processors of a task that share stores."""

    def __init__(self, context: Context, members: list[Member], views: Views):
        self._context = context
        self.members = members
        self._views = views
        self.is_chunk = self.is_wall_clock = False
        self.turn = 0
        self.position: int | None = None
        """The position of the current record; None in a punctuation."""
        self.is_of_punctuation = False
        """True if the current record was forwarded by a punctuation of a step before the group."""
        self.stream_time: int | None = None
        """The stream time of a punctuation by stream time; None otherwise."""
        self.arrivals: Arrivals = NO_ARRIVALS
        self._number = 0
        self._held: Origins | None = None
        self._failure: BaseException | None = None
        self._punctuated: list[tuple[int, int, int, int]] = []

    def place(self) -> tuple[Any, int, int]:
        """The origin of the current record."""
        assert self.position is not None
        own = None if self._held is None else self._held.slice(self.turn, self.turn + 1)
        if own is None or own.offset[0] == OF_CAUSE:
            own = self._context.facts.origins(np.array([self.position]))
        return next(own.rows())

    def held_at(self, turns: IntArray) -> Origins | None:
        """The origins of the records of some turns, as in ``Batch``; the turns of punctuations come last."""
        if self._held is None:
            return None
        none = len(self._held.offset)
        return self._held.join(Origins.alike(1, OF_CAUSE)).take(np.minimum(turns, none))

    def next_number(self) -> int:
        """Return the next number in the order of forwarded records."""
        self._number += 1
        return self._number

    def finish(self, outs: Sequence[Collector]) -> None:
        """Let all members process their records, and call the punctuations that are due.

        Args:
            outs: for each member, the collector of its forwarded records.
        """
        for member in self.members:
            member.start()
        self._views.on_refused = self.members[0].own.refused
        waiting = [(member, batch) for member in self.members if (batch := member.take_waiting()) is not None]
        entries = _entries(waiting)
        self._held = entries.held
        self._punctuated, self._number = [], 0
        is_chunk, is_wall_clock = self.is_chunk, self.is_wall_clock
        self.is_chunk = self.is_wall_clock = False
        arrivals = self._context.chunk.arrivals
        self.arrivals = NO_ARRIVALS if arrivals is None else arrivals
        with self._open(max((batch.key for _, batch in waiting), key=len, default=None)):
            done, reached = 0, -1
            while done < len(entries) or is_chunk:
                at = self._next_at(STREAM_TIME)
                due = None if at is None else self.arrivals.first_at(max(at, 0))
                due = None if due is None else max(due, reached)
                stop = len(entries) if due is None else int(np.searchsorted(entries.positions, due, "right"))
                done = self._process(entries, done, stop)
                reached = int(entries.positions[done - 1]) if done else -1
                if done == stop and due is not None:
                    self._call_due(STREAM_TIME, due, self.arrivals.time_at(due), len(entries))
                elif done == len(entries):
                    break
            if is_wall_clock:
                self._call_due(WALL_CLOCK_TIME, NO_RECORD, self._context.facts.wall_clock_ms(), len(entries))
        turns = self._turns(entries)
        for member, out in zip(self.members, outs, strict=True):
            member.finish(turns, out)

    def failed(self, member: Member, error: BaseException, function: UserFunction) -> None:
        """Handle the failure of a member on a record or in a punctuation. Members that wait for its call to return
        continue."""
        if error is self._failure:
            raise error
        position = NO_RECORD if self.position is None else self.position
        try:
            self._context.failed(member.node, position, error, function)
        except ProcessingError as failure:
            self._failure = failure
            raise

    @contextmanager
    def _open(self, keys: Column | None) -> Iterator[None]:
        try:
            with self._views.open(keys):
                yield
        except BaseException:
            for member in self.members:
                member.clear()
            raise
        finally:
            self._failure = None
            self.position = self.stream_time = None

    def _process(self, entries: _Entries, first: int, stop: int) -> int:
        """Process records until one of them schedules a punctuation; return the index of the next record."""
        self._has_scheduled()
        for number in range(first, stop):
            moving.steps += 1
            self.turn, self.position = number, int(entries.positions[number])
            self.is_of_punctuation = len(entries.order) > 1 and int(entries.order[1][number]) == BEHIND
            entries.members[number].receive(entries.records[number])
            if self._failure is not None:  # a processor caught an error that must stop the program
                raise self._failure
            if self._has_scheduled():
                return number + 1
        return stop

    def _has_scheduled(self) -> bool:
        scheduled = False
        for member in self.members:
            scheduled |= member.own.has_scheduled
            member.own.has_scheduled = False
        return scheduled

    def _next_at(self, type_: PunctuationType) -> int | None:
        times = [at for member in self.members if (at := member.own.queues[type_].next_at()) is not None]
        return min(times, default=None)

    def _call_due(self, type_: PunctuationType, position: int, now: int, entries: int) -> None:
        """Call all punctuations that are due, the earliest first."""
        self.position = None
        while (at := self._next_at(type_)) is not None and at <= now:
            member = next(one for one in self.members if one.own.queues[type_].next_at() == at)
            queue = member.own.queues[type_]
            punctuation = queue.take(now)
            assert punctuation is not None
            self.turn = entries + len(self._punctuated)
            self._punctuated.append((position, BEHIND, at, member.number))
            self.stream_time = now if type_ is STREAM_TIME else None
            member.call(punctuation, now)
            if self._failure is not None:
                raise self._failure
            if not punctuation.is_cancelled:
                punctuation.called(now)
                queue.add(punctuation)
        self.stream_time = None
        self._has_scheduled()

    def _turns(self, entries: _Entries) -> list[IntArray]:
        """The place of each record and each punctuation in the processing order."""
        depth = max(len(entries.order), 4)
        called = np.array(self._punctuated, np.int64).reshape(-1, 4)
        none = np.zeros(len(entries), np.int64), np.zeros(len(called), np.int64)
        return [
            np.concatenate(
                [entries.order[i] if i < len(entries.order) else none[0], called[:, i] if i < 4 else none[1]]
            )
            for i in range(depth)
        ]


def _entries(batches: list[tuple[Member, Batch]]) -> _Entries:
    """Merge the records of several members."""
    if not batches:
        return _Entries([], [], np.zeros(0, np.int64), [np.zeros(0, np.int64)])
    every = [batch for _, batch in batches]
    columns, held = joined_column("order", every), joined_column("held", every)
    in_order = np.lexsort(columns[::-1])
    members = [member for member, batch in batches for _ in range(len(batch))]
    records = [record for _, batch in batches for record in records_of(batch)]
    rows = in_order.tolist()
    order = [column[in_order] for column in columns]
    held = None if held is None else held.take(in_order)
    return _Entries([members[row] for row in rows], [records[row] for row in rows], order[0], order, held)
