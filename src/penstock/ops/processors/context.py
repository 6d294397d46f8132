"""The context of a processor: what it may ask of its task, and where its results go (``ProcessorContextImpl``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from penstock.columns.batch import NO_RECORD, Batch, order_columns
from penstock.errors import ProcessingError
from penstock.figures.metrics import PUNCTUATED
from penstock.figures.sensors import StreamsMetrics
from penstock.messages import show
from penstock.ops.core.arrivals import NO_ARRIVALS
from penstock.ops.core.context import Context
from penstock.ops.core.record_context import origins_of
from penstock.ops.processors.punctuations import BEHIND, Punctuation, PunctuationQueue, clock_name, existing
from penstock.plan.defaults import default_serde
from penstock.plan.functions import called
from penstock.processor import PunctuationType, RecordMetadata
from penstock.record import Record
from penstock.serdes import Serde
from penstock.state.clock import StreamTime
from penstock.usage.calls import refuse_result, why_unusable
from penstock.usage.java_names import KafkaNames
from penstock.values.durations import Duration, to_ms

Failed = Callable[[Callable[[int], object], BaseException], None]
"""Called with the function of a punctuation that raised, and the error."""


@dataclass(frozen=True)
class Surroundings:
    """The application's settings and figures, for its processors."""

    app_configs: Mapping[str, Any] = field(default_factory=dict)
    """The settings, by name."""
    state_dir: Callable[[], Path] = Path
    """Makes the folder for files of the task's processors, and returns it."""


class TaskProcessorContext(KafkaNames, telling=False):
    """The context of one processor in one task.

    Args:
        stores: the record views of the processor's stores, by name.
        children: the names of the steps after it.
        clock: returns numbers that are committed with the task, by name; it creates missing ones.
        task_time: the task's stream time.
        surroundings: the settings and the folder; none by default.
    """

    def __init__(
        self,
        node: str,
        context: Context,
        stores: Mapping[str, Any],
        children: Sequence[str],
        clock: Callable[[str], StreamTime],
        task_time: StreamTime,
        surroundings: Surroundings | None = None,
    ):
        self._node = node
        self._context = context
        self._stores = stores
        self._children = {name: number for number, name in enumerate(children)}
        self.children = len(children)
        """The number of steps after it."""
        self._clock = clock
        self._task_time = task_time
        self._surroundings = surroundings or Surroundings()
        self.metrics = StreamsMetrics(context.add)
        self.queues = {type_: PunctuationQueue() for type_ in PunctuationType}
        self._scheduled = 0
        self._is_starting = True
        self.has_scheduled = False
        """True if something was scheduled since this was last set to False."""
        self.forwarded: list[Record] = []
        """The forwarded records, in order."""
        self.addressed: dict[int, int] = {}
        """For records that are forwarded to one step alone: from their index in ``forwarded`` to the step's number."""
        self.ends: list[int] = []
        """For each processed record of the chunk, the number of records forwarded up to its end."""
        self._batch: Batch | None = None
        self._places: list[tuple[Any, int, int]] | None = None
        """The places of the chunk's records, once they have been asked for."""
        self._punctuating: int | None = None
        self.arrivals = NO_ARRIVALS

    # --- what processors use -------------------------------------------------------------------------------------

    @property
    def application_id(self) -> str:
        return self._context.facts.application_id

    @property
    def task_id(self) -> str:
        return self._context.facts.task

    @property
    def state_dir(self) -> Path:
        return self._surroundings.state_dir()

    def app_configs(self) -> dict[str, Any]:
        return dict(self._surroundings.app_configs)

    def app_configs_with_prefix(self, prefix: str) -> dict[str, Any]:
        found = self._surroundings.app_configs.items()
        return {name.removeprefix(prefix): value for name, value in found if name.startswith(prefix)}

    @property
    def key_serde(self) -> Serde:
        return default_serde("default_key_serde", self._surroundings.app_configs)

    @property
    def value_serde(self) -> Serde:
        return default_serde("default_value_serde", self._surroundings.app_configs)

    @property
    def record_metadata(self) -> RecordMetadata | None:
        if self.position() is None or self.has_no_place():
            return None
        topic, partition, offset = self.place()
        return RecordMetadata(topic, partition, offset) if offset >= 0 else None

    @property
    def current_stream_time_ms(self) -> int:
        if self._punctuating is not None:
            return self._punctuating
        position = self.position()
        return self._task_time.now if position is None else self.arrivals.time_at(position)

    @property
    def current_system_time_ms(self) -> int:
        return self._context.facts.wall_clock_ms()

    def forward(self, record: Record, child: str | None = None) -> None:
        if type(record) is not Record:
            raise self._refused(record)
        if child is not None:
            self.addressed[len(self.forwarded)] = self._number_of(child)
        self.forwarded.append(record)

    def get_state_store(self, name: str) -> Any:
        try:
            return self._stores[name]
        except KeyError:
            has = ", ".join(map(repr, self._stores)) or "none"
            raise ProcessingError(
                f"the processor {self._node} is not connected to a store {name!r}; its stores: {has}. Name the store "
                "after the processor in process(...), or return its builder from the supplier's stores()"
            ) from None

    def schedule(self, interval: Duration, type: PunctuationType, callback: Callable[[int], object]) -> Punctuation:
        every = to_ms(interval)
        if every < 1:
            raise ProcessingError(f"{self._node}: the minimum supported scheduling interval is 1 ms; got {interval!r}")
        if not isinstance(type, PunctuationType):
            raise ProcessingError(
                f"{self._node}: schedule takes PunctuationType.STREAM_TIME or WALL_CLOCK_TIME; got {show(type)}"
            )
        if not callable(callback):
            raise ProcessingError(f"{self._node}: schedule takes a function of (time); got {show(callback)}")
        if why := why_unusable(callback):
            raise ProcessingError(f"{self._node}: schedule takes a function of (time); {called(callback)} is {why}")
        punctuation = Punctuation(every, callback, self._next_time(type, every), self._scheduled)
        self._scheduled += 1
        self.queues[type].add(punctuation)
        self.has_scheduled = True
        return punctuation

    def commit(self) -> None:
        self._context.commit.is_asked_for = True

    # --- what the operator uses ----------------------------------------------------------------------------------

    def started(self) -> None:
        """Note that ``init`` is over: punctuations scheduled from now on do not survive a restart."""
        self._is_starting = False

    def begin(self, batch: Batch) -> None:
        """Start on the records of a chunk."""
        self._batch, self._places = batch, None
        self.ends = []

    def next_punctuation(self, reached: int) -> int | None:
        """The position of the record after which the next punctuation of the chunk is due.

        Args:
            reached: the position of the processor's last record; no punctuation is due before it.
        """
        at = self.queues[PunctuationType.STREAM_TIME].next_at()
        position = None if at is None else self.arrivals.first_at(max(at, 0))
        return None if position is None else max(position, reached)

    @contextmanager
    def punctuating(self, stream_time: int | None) -> Iterator[None]:
        """Enter the state of a punctuation, in which no record is current.

        Args:
            stream_time: the stream time of the punctuation; None for the task's.
        """
        batch, self._batch, self._punctuating = self._batch, None, stream_time
        try:
            yield
        finally:
            self._batch, self._punctuating = batch, None

    def call_due(self, type_: PunctuationType, now: int, failed: Failed) -> Iterator[int]:
        """Call all punctuations that are due, the earliest first. Yield the scheduled time of each after its call.

        Args:
            failed: called with the function that raised, and the error.
        """
        queue = self.queues[type_]
        while (punctuation := queue.take(now)) is not None:
            self._context.see(PUNCTUATED, scope="task")
            at = punctuation.at
            with self.punctuating(now if type_ is PunctuationType.STREAM_TIME else None):
                try:
                    refuse_result(punctuation.callback(now), "the punctuation")
                except KeyboardInterrupt:
                    raise
                except BaseException as error:
                    failed(punctuation.callback, error)
            if not punctuation.is_cancelled:
                punctuation.called(now)
                queue.add(punctuation)
            yield at
        self.has_scheduled = False

    def take_forwarded(self) -> tuple[list[Record], dict[int, int]]:
        """Return what was forwarded since the last call."""
        taken = self.forwarded, self.addressed
        self.forwarded, self.addressed = [], {}
        return taken

    def end(self) -> None:
        """Note that no record is current."""
        self._batch, self._places = None, None
        self.ends = []

    def refused(self, store: str, kind: str) -> None:
        """Count records that a store left out because its retention has passed."""
        position = self.position()
        reason = "expired-put" if kind == "version" else "expired-window-of-store"
        self._context.drop(self._node, np.array([NO_RECORD if position is None else position]), reason)
        if kind != "version":
            self._context.expired(store, kind, 1)

    def position(self) -> int | None:
        """The position of the current record."""
        if self._batch is None or len(self.ends) >= len(self._batch):
            return None
        return int(self._batch.position[len(self.ends)])

    def place(self) -> tuple[Any, int, int]:
        """Topic, partition and offset of the current record."""
        if self._places is None:
            assert self._batch is not None
            self._places = list(origins_of(self._context.facts, self._batch).rows())
        return self._places[len(self.ends)]

    def has_no_place(self) -> bool:
        """True if a punctuation forwarded the current record, so that no input record caused it."""
        assert self._batch is not None
        branches = order_columns(self._batch.order, len(self._batch), 2)[1]
        return int(branches[len(self.ends)]) == BEHIND

    def _next_time(self, type_: PunctuationType, interval: int) -> StreamTime:
        """Return the time of a punctuation's first call, or the committed time of its next call."""
        is_kept = self._is_starting
        next_ = self._clock(clock_name(self._node, type_, self._scheduled)) if is_kept else StreamTime()
        if next_.now == -1:
            is_by_stream = type_ is PunctuationType.STREAM_TIME
            next_.now = 0 if is_by_stream else existing(self.current_system_time_ms + interval)
        return next_

    def _number_of(self, child: str) -> int:
        if child not in self._children:
            has = ", ".join(map(repr, self._children)) or "none"
            raise ProcessingError(
                f"the processor {self._node} forwards to {child!r}, but no such step follows it; the steps after it: "
                f"{has}. Give a step its name with name=..."
            )
        return self._children[child]

    def _refused(self, given: object) -> ProcessingError:
        return ProcessingError(
            f"{self._node}: forward takes a Record; got {show(given)} of type {type(given).__name__}. Begin with the "
            "record that came in, such as record.with_value(...), or make one: Record(key, value, timestamp)"
        )
