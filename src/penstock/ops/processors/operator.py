"""``process``: each record through a processor of the user's, and what it forwards (``ProcessorNode``).

A chunk goes through record by record; stream-time punctuations are called between the records where stream time reaches
them, whichever source of the task the record came from that moved it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice, repeat
from typing import Any, NamedTuple

import numpy as np

from penstock.batch import NO_RECORD, Batch, merge, order_columns, pairs_of
from penstock.calls import refuse_result
from penstock.errors import ProcessingError
from penstock.moving import moving
from penstock.ops.core.context import Context
from penstock.ops.core.functions import row_numbers
from penstock.ops.core.operator import Operator
from penstock.ops.processors.arrivals import NO_ARRIVALS
from penstock.ops.processors.context import TaskProcessorContext
from penstock.ops.processors.forwarded import Forwarded
from penstock.ops.processors.punctuations import BEHIND
from penstock.ops.processors.views import Views
from penstock.plan.functions import UserFunction
from penstock.plan.processors import ProcessorFunction
from penstock.processor import STREAM_TIME, WALL_CLOCK_TIME, Processor, PunctuationType
from penstock.record import Record
from penstock.serdes import Serde


class _Punctuated(NamedTuple):
    """What punctuations forwarded."""

    records: list[Record]
    addressed: dict[int, int]
    positions: list[int]
    """For each the position behind which it stands."""
    times: list[int]
    """And for when the punctuation was scheduled."""


class Process(Operator):
    """A processor in one task. It is made when the first chunk comes, for then its stores are there.

    Args:
        context_of: makes the context of a new processor.
        number: the step's number in the task, for the order in which punctuations of one time are called.
    """

    def __init__(
        self,
        node: str,
        context: Context,
        supplier: ProcessorFunction,
        types: tuple[Serde, Serde],
        views: Views,
        context_of: Callable[[], TaskProcessorContext],
        number: int,
        keeps_keys: bool = False,
    ):
        self.node = node
        self._context = context
        self._supplier = supplier
        self._types = types
        self.views = views
        self._context_of = context_of
        self.number = number
        self._keeps_keys = keeps_keys
        self._processor: Processor[Any, Any] | None = None
        self.own = self.new_context()
        self._reached = -1
        """The position of the last record of the chunk that came here."""

    @property
    def has_stream_time_punctuations(self) -> bool:
        """Whether it is called when stream time moves on."""
        self.start()
        return self.own.queues[STREAM_TIME].next_at() is not None

    def new_context(self) -> TaskProcessorContext:
        """The context of a new processor."""
        return self._context_of()

    # --- its life ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Make the processor, unless it is there."""
        if self._processor is not None:
            return
        self.own = self.new_context()
        self.views.on_refused = self.own.refused
        with self.views.open(None):
            processor = self._supplier.make()
            refuse_result(processor.init(self.own), f"{self.node}: init", ProcessingError)
        self.own.started()
        if self.own.take_forwarded()[0]:
            raise ProcessingError(f"{self.node}: init cannot forward records; forward in process, or in a punctuation")
        self._processor = processor

    def restart(self) -> None:
        """The transaction was rolled back: the processor may know what never happened, so a new one takes its place."""
        self.views.abandon()
        self.close()

    def close(self) -> None:
        """End the processor's life."""
        processor, self._processor = self._processor, None
        if processor is not None:
            processor.close()

    # --- records -------------------------------------------------------------------------------------------------

    def step(self, batch: Batch) -> Batch | None:
        batch = self._context.decoded(self.node, batch, "key", "value")
        if not len(batch):
            return None
        own = self._begin()
        own.has_scheduled = False
        records, count = records_of(batch), len(batch)
        done, punctuated = 0, _Punctuated([], {}, [], [])
        with self.views.open(batch.key):
            own.begin(batch)
            while done < count:
                position = own.next_punctuation(self._reached)
                stop = count if position is None else int(np.searchsorted(batch.position, position, "right"))
                done = self._process(islice(records, stop - done))
                self._reached = int(batch.position[done - 1]) if done else -1
                if own.has_scheduled:
                    own.has_scheduled = False
                elif position is not None and stop < count:
                    self._aside(punctuated, position)
            ends = own.ends
            own.end()
        forwarded = own.take_forwarded()
        sent = self._sent(batch, ends, *forwarded)
        return _both(sent, self._result(punctuated))

    def end_of_chunk(self) -> Batch | None:
        """The punctuations that are due behind the last record that came here."""
        own = self._begin()
        position, self._reached = own.next_punctuation(self._reached), -1
        if position is None:
            return None
        punctuated = _Punctuated([], {}, [], [])
        with self.views.open(None):
            while position is not None:
                self._punctuate(punctuated, position, own.arrivals.time_at(position), STREAM_TIME)
                position = own.next_punctuation(self._reached)
        return self._result(punctuated)

    def punctuate(self) -> Batch | None:
        """The punctuations that are due by the wall clock."""
        self._begin()
        now = self._context.facts.wall_clock_ms()
        at = self.own.queues[WALL_CLOCK_TIME].next_at()
        if at is None or at > now:
            return None
        punctuated = _Punctuated([], {}, [], [])
        with self.views.open(None):
            self._punctuate(punctuated, NO_RECORD, now, WALL_CLOCK_TIME)
        return self._result(punctuated)

    def _begin(self) -> TaskProcessorContext:
        self.start()
        arrivals = self._context.chunk.arrivals
        self.own.arrivals = NO_ARRIVALS if arrivals is None else arrivals
        return self.own

    def _process(self, records: Iterator[Record]) -> int:
        """Process records until one schedules a punctuation; the number of the next."""
        assert self._processor is not None
        own = self.own
        process: Callable[[Record], object] = self._processor.process
        forwarded, ends = own.forwarded, own.ends
        moving.through(ends)
        try:
            for record in records:
                result = process(record)
                if result is not None:
                    refuse_result(result)
                ends.append(len(forwarded))
                if own.has_scheduled:
                    break
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self._fail(own.position(), error, self._supplier.function)
            ends.append(len(forwarded))
        return len(ends)

    def _fail(self, position: int | None, error: BaseException, function: UserFunction) -> None:
        self._context.failed(self.node, NO_RECORD if position is None else position, error, function)

    # --- punctuations --------------------------------------------------------------------------------------------

    def _aside(self, punctuated: _Punctuated, position: int) -> None:
        """Call punctuations between two records of a chunk."""
        own = self.own
        before = own.take_forwarded()
        self._punctuate(punctuated, position, own.arrivals.time_at(position), STREAM_TIME)
        own.forwarded, own.addressed = before

    def _punctuate(self, to: _Punctuated, position: int, now: int, type_: PunctuationType) -> None:
        """Call all punctuations whose time has come."""

        def failed(callback: Callable[[int], object], error: BaseException) -> None:
            function = UserFunction(callback, 1, False, self._supplier.function.where)
            self._fail(None if position == NO_RECORD else position, error, function)

        for at in self.own.call_due(type_, now, failed):
            records, addressed = self.own.take_forwarded()
            to.addressed.update((len(to.records) + number, child) for number, child in addressed.items())
            to.records.extend(records)
            to.positions.extend(repeat(position, len(records)))
            to.times.extend(repeat(at, len(records)))

    # --- what goes on --------------------------------------------------------------------------------------------

    def _sent(self, batch: Batch, ends: list[int], records: list[Record], addressed: dict[int, int]) -> Batch | None:
        """What was forwarded for the records of a batch."""
        if not records:
            return None
        counts = np.diff(np.array(ends), prepend=0)
        rows, within = row_numbers(counts)
        depth = max(len(batch.order), 4)
        order = (*(column[rows] for column in order_columns(batch.order, len(batch), depth)), within)
        given = batch.key if bool((counts == 1).all()) else batch.key.take(rows)
        held = None if batch.held is None else batch.held.take(rows)
        return self._batch(Forwarded(records, addressed, order, given, held))

    def _result(self, punctuated: _Punctuated) -> Batch | None:
        """What punctuations forwarded."""
        records, count = punctuated.records, len(punctuated.records)
        if not records:
            return None
        order = (np.array(punctuated.positions), BEHIND, np.array(punctuated.times), self.number, np.arange(count))
        return self._batch(Forwarded(records, punctuated.addressed, order))

    def _batch(self, forwarded: Forwarded) -> Batch | None:
        """Forwarded records as columns, without those that cannot be."""
        wrong = dict(forwarded.wrong_times()) | dict(forwarded.wrong_headers())
        if self._keeps_keys:
            wrong |= dict(forwarded.wrong_keys())
        if wrong:
            positions = order_columns(forwarded.order, len(forwarded.records), 1)[0]
            for row, error in wrong.items():
                self._fail(int(positions[row]), error, self._supplier.function)
            forwarded = forwarded.take(np.setdiff1d(np.arange(len(forwarded.records)), list(wrong)))
        return forwarded.batch(*self._types) if forwarded.records else None


def records_of(batch: Batch) -> Iterator[Record]:
    """The records of a batch, as users have them."""
    headers = repeat(()) if batch.headers is None else map(pairs_of, batch.headers.to_pylist())
    return map(Record, batch.key.decoded(), batch.value.decoded(), batch.timestamp.tolist(), headers)


def _both(first: Batch | None, second: Batch | None) -> Batch | None:
    given = [batch for batch in (first, second) if batch is not None]
    return merge(given) if given else None
