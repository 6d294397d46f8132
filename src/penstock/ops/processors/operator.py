"""``process``: passes each record through the user's processor and emits what it forwards (``ProcessorNode``).

A chunk is processed record by record. Stream-time punctuations are called between records, where stream time reaches
them; any source of the task may advance it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice, repeat
from typing import NamedTuple

import numpy as np

from penstock.columns.batch import NO_RECORD, Batch, order_columns, pairs_of
from penstock.errors import ProcessingError
from penstock.figures.moving import moving
from penstock.ops.core.context import Context
from penstock.ops.core.functions import row_numbers
from penstock.ops.core.operator import Collector
from penstock.ops.processors.context import TaskProcessorContext
from penstock.ops.processors.forwarded import Forwarded
from penstock.ops.processors.hosting import Hosting
from penstock.ops.processors.punctuations import BEHIND
from penstock.ops.processors.views import Views
from penstock.plan.functions import UserFunction
from penstock.plan.processors import ProcessorFunction
from penstock.processor import STREAM_TIME, PunctuationType
from penstock.record import Record
from penstock.serdes import Serde
from penstock.usage.calls import refuse_result

_LOOKS = 100
"""After so many records a processor looks whether it has made too many uncommitted writes."""


class _Punctuated(NamedTuple):
    """The records that punctuations forwarded."""

    records: list[Record]
    addressed: dict[int, int]
    positions: list[int]
    """For each record, the position after which it is placed."""
    times: list[int]
    """For each record, the time for which its punctuation was scheduled."""


class Process(Hosting):
    """A processor in one task.

    Args:
        types: the types of the keys and values that it forwards.
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
        super().__init__(node, context, supplier, views, context_of)
        self._types = types
        self.number = number
        self._keeps_keys = keeps_keys

    def _check_start(self) -> None:
        if self.own.take_forwarded()[0]:
            raise ProcessingError(f"{self.node}: init cannot forward records; forward in process, or in a punctuation")

    def _begin(self) -> TaskProcessorContext:
        self._punctuated = _Punctuated([], {}, [], [])
        return super()._begin()

    # --- records -------------------------------------------------------------------------------------------------

    def step(self, batch: Batch, out: Collector) -> None:
        batch = self._context.decoded(self.node, batch, "key", "value")
        if not len(batch):
            return
        own = self._begin()
        own.has_scheduled = False
        records, count = records_of(batch), len(batch)
        done = 0
        with self.views.open(batch.key):
            own.begin(batch)
            while done < count:
                position = own.next_punctuation(self._reached)
                stop = count if position is None else int(np.searchsorted(batch.position, position, "right"))
                done = self._process(records, stop)
                self._reached = int(batch.position[done - 1]) if done else -1
                if own.has_scheduled:
                    own.has_scheduled = False
                elif position is not None and stop < count:
                    self._aside(position)
            ends = own.ends
            own.end()
        self._send(batch, ends, *own.take_forwarded(), out)
        self._send_punctuated(out)

    def _process(self, records: Iterator[Record], stop: int) -> int:
        """Process records up to a number, or until one of them schedules a punctuation; return the number of the next
        record."""
        own = self.own
        while len(own.ends) < stop and not own.has_scheduled:
            self._call(islice(records, min(stop - len(own.ends), _LOOKS)))
            self._context.look(self.views.pending())
        return len(own.ends)

    def _call(self, records: Iterator[Record]) -> None:
        """Process records until one of them schedules a punctuation, or fails."""
        own = self.own
        process: Callable[[Record], object] = self._hosted.process
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

    def _fail(self, position: int | None, error: BaseException, function: UserFunction) -> None:
        self._context.failed(self.node, NO_RECORD if position is None else position, error, function)

    # --- punctuations --------------------------------------------------------------------------------------------

    def _aside(self, position: int) -> None:
        """Call punctuations that are due between two records of a chunk."""
        own = self.own
        before = own.take_forwarded()
        self._punctuate(position, own.arrivals.time_at(position), STREAM_TIME)
        own.forwarded, own.addressed = before

    def _punctuate(self, position: int, now: int, type_: PunctuationType) -> None:
        to = self._punctuated

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

    def _send(
        self, batch: Batch, ends: list[int], records: list[Record], addressed: dict[int, int], out: Collector
    ) -> None:
        """Emit the records that were forwarded for the records of a batch."""
        if not records:
            return
        counts = np.diff(np.array(ends), prepend=0)
        rows, within = row_numbers(counts)
        depth = max(len(batch.order), 4)
        order = (*(column[rows] for column in order_columns(batch.order, len(batch), depth)), within)
        given = batch.key if bool((counts == 1).all()) else batch.key.take(rows)
        held = None if batch.held is None else batch.held.take(rows)
        self._emit(Forwarded(records, addressed, order, given, held), out)

    def _send_punctuated(self, out: Collector) -> None:
        punctuated, count = self._punctuated, len(self._punctuated.records)
        records = punctuated.records
        if records:
            places = np.array(punctuated.positions), BEHIND, np.array(punctuated.times), self.number, np.arange(count)
            self._emit(Forwarded(records, punctuated.addressed, places), out)

    def _emit(self, forwarded: Forwarded, out: Collector) -> None:
        """Emit forwarded records, without the invalid ones."""
        wrong = dict(forwarded.wrong_times()) | dict(forwarded.wrong_headers())
        if self._keeps_keys:
            wrong |= dict(forwarded.wrong_keys())
        if wrong:
            positions = order_columns(forwarded.order, len(forwarded.records), 1)[0]
            for row, error in wrong.items():
                self._fail(int(positions[row]), error, self._supplier.function)
            forwarded = forwarded.take(np.setdiff1d(np.arange(len(forwarded.records)), list(wrong)))
        forwarded.emit(*self._types, self.own.children, out)


def records_of(batch: Batch) -> Iterator[Record]:
    """The records of a batch, as users have them."""
    headers = repeat(()) if batch.headers is None else map(pairs_of, batch.headers.to_pylist())
    return map(Record, batch.key.decoded(), batch.value.decoded(), batch.timestamp.tolist(), headers)
