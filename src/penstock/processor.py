"""The Processor API: processors and their contexts (KIP-478, KIP-820)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from penstock.figures.sensors import StreamsMetrics
from penstock.record import Record
from penstock.values.durations import Duration

if TYPE_CHECKING:
    from penstock.serdes import Serde

KIn = TypeVar("KIn")
VIn = TypeVar("VIn")


class PunctuationType(Enum):
    """Which time a punctuation follows.

    >>> PunctuationType.STREAM_TIME.value
    'stream time'
    """

    STREAM_TIME = "stream time"
    """The highest timestamp of the task's records so far: it moves on with records alone."""
    WALL_CLOCK_TIME = "wall-clock time"
    """The time of the machine's clock."""


STREAM_TIME = PunctuationType.STREAM_TIME
WALL_CLOCK_TIME = PunctuationType.WALL_CLOCK_TIME


class RecordMetadata(NamedTuple):
    """Where the record that is being processed comes from.

    >>> RecordMetadata("orders", 0, 12).offset
    12
    """

    topic: str
    partition: int
    offset: int


class RecordContext(NamedTuple):
    """Information about a record, for a function of the DSL whose last argument is called ``context`` (KS-08).

    Filters, mappers, actions, branches, joiners, reducers, aggregators, mergers, and functions that choose keys, ids
    and topics may take it: ``lambda value, context: ...``, ``lambda key, value, context: ...``,
    ``lambda key, value, aggregate, context: ...``. The argument may have another name if its annotation is
    ``RecordContext``, or if the function takes one argument more than without a context. A function of a table gets the
    context of the record that changed the row, and Penstock keeps its result in a store. The functions of
    ``KTable.group_by`` and foreign keys cannot take a context, because Penstock also calls them for the old row.

    >>> from penstock.testing import pipe
    >>> pipe(lambda stream: stream.map_values(lambda value, context: f"{value} at {context.offset}"), [("a", "x")])
    [('a', 'x at 0')]
    """

    topic: str | None
    """The topic that the record came from; for what is sent through repartition topics such a one, and None for what
    no record caused."""
    partition: int
    offset: int
    timestamp: int
    headers: tuple[tuple[str, bytes], ...]


class Cancellable(Protocol):
    """A punctuation that has been scheduled.

    >>> class First(Processor[str, int]):
    ...     def init(self, context):
    ...         self.scheduled = context.schedule("1 minute", STREAM_TIME, self.at_first)
    ...     def at_first(self, now):
    ...         self.scheduled.cancel()
    ...     def process(self, record):
    ...         pass
    """

    def cancel(self) -> None:
        """Stop the punctuation."""


class ProcessorContext(Protocol):
    """The interface through which a processor reads facts and sends results. The context given to ``init`` stays valid
    for the processor's life.

    >>> from penstock.testing import pipe
    >>> def with_its_place(record, context):
    ...     context.forward(record.with_value((context.task_id, context.record_metadata.offset)))
    >>> pipe(lambda stream: stream.process(with_its_place), [("a", 1), ("b", 2)])
    [('a', ['0_0', 0]), ('b', ['0_0', 1])]
    """

    @property
    def application_id(self) -> str:
        """The application's id."""

    @property
    def task_id(self) -> str:
        """The task: the number of the sub-topology and of the partition, such as ``0_2``."""

    @property
    def metrics(self) -> StreamsMetrics:
        """Your own metrics: ``context.metrics.add_sensor("cents").add("cents-sold-total")``."""

    @property
    def state_dir(self) -> Path:
        """A folder of the task on this machine, for files that a processor can create again. Penstock creates the
        folder at the first use. It is empty if the task has not run on this machine before."""

    def app_configs(self) -> dict[str, Any]:
        """The settings of the application, by name, without settings that may contain secrets.

        >>> from penstock.testing import pipe
        >>> def of_settings(record, context):
        ...     context.forward(record.with_value(context.app_configs()["processing_guarantee"]))
        >>> pipe(lambda stream: stream.process(of_settings), [("a", 1)])
        [('a', 'exactly_once')]
        """

    def app_configs_with_prefix(self, prefix: str) -> dict[str, Any]:
        """The settings whose names begin with a prefix, without it."""

    @property
    def key_serde(self) -> Serde:
        """The type of keys that the topology does not name: the setting ``default_key_serde``, or text."""

    @property
    def value_serde(self) -> Serde:
        """The type of values that the topology does not name: the setting ``default_value_serde``, or JSON."""

    @property
    def record_metadata(self) -> RecordMetadata | None:
        """Topic, partition and offset of the current record; None in a punctuation, and for a record that does not come
        from a topic's record."""

    @property
    def current_stream_time_ms(self) -> int:
        """The highest timestamp of the task's records up to this one, in milliseconds; -1 before the first."""

    @property
    def current_system_time_ms(self) -> int:
        """The wall clock, in milliseconds since 1970; in a test driver it is the driver's."""

    def forward(self, record: Record, child: str | None = None) -> None:
        """Send a record on.

        Args:
            record: the record to send; ``record.with_value(...)`` keeps key, timestamp and headers.
            child: the name of the only step to send it to; by default all next steps get the record.

        Raises:
            ProcessingError: no step of this name follows this one, or the argument is no ``Record``.
        """

    def get_state_store(self, name: str) -> Any:
        """Return a store that the processor is connected to, to read and to write.

        Raises:
            ProcessingError: the processor is not connected to a store of this name.
        """

    def schedule(self, interval: Duration, type: PunctuationType, callback: Callable[[int], object]) -> Cancellable:
        """Call a function at intervals (a punctuation).

        After a restart, punctuations that ``init`` has scheduled continue where they were. Punctuations that were
        scheduled later are lost, as in Kafka Streams, because functions are not stored. So schedule in ``init``, and
        keep in a store which work is due at which time.

        Args:
            interval: milliseconds, a ``timedelta``, or text such as ``"10 seconds"``; at least a millisecond.
            type: by stream time, the first call is at the first record; by the wall clock, after one interval.
            callback: a function of the stream time or the wall-clock time in milliseconds. If time jumps over several
                intervals, the function is called once.
        """

    def commit(self) -> None:
        """Ask for a commit soon. It comes at the end of the current chunk of records."""


class Processor(ABC, Generic[KIn, VIn]):
    """Processes a stream record by record; ``KStream.process`` makes one for each task.

    >>> from penstock import Record, StreamsBuilder
    >>> from penstock.testing import TopologyTestDriver
    >>> class Doubled(Processor[str, int]):
    ...     def init(self, context):
    ...         self.context = context
    ...     def process(self, record):
    ...         self.context.forward(record.with_value(2 * record.value))
    >>> builder = StreamsBuilder()
    >>> builder.stream("in", value=int).process(Doubled, value=int).to("out")
    >>> driver = TopologyTestDriver(builder.build())
    >>> driver.pipe_input("in", "a", 21)
    >>> [record.value for record in driver.read_output("out")]
    [42]
    """

    def init(self, context: ProcessorContext) -> None:
        """Called once, before the first record. Schedule punctuations here."""

    @abstractmethod
    def process(self, record: Record) -> None:
        """Process one record."""

    def close(self) -> None:
        """Called when the task ends; stores can no longer be read."""


class FixedKeyProcessor(Processor[KIn, VIn]):
    """A processor that keeps keys, for ``KStream.process_values``: each forwarded record has the key of the record that
    it came from, so no repartition is needed afterwards.

    >>> from penstock.testing import pipe
    >>> class Doubled(FixedKeyProcessor[str, int]):
    ...     def init(self, context):
    ...         self.context = context
    ...     def process(self, record):
    ...         self.context.forward(record.with_value(2 * record.value))
    >>> pipe(lambda stream: stream.process_values(Doubled), [("a", 1)])
    [('a', 2)]
    """


class ValueTransformerWithKey(ABC, Generic[KIn, VIn]):
    """Computes new values for the rows of a table, for ``KTable.transform_values`` (KIP-292).

    >>> from penstock import Materialized, StreamsBuilder
    >>> from penstock.testing import TopologyTestDriver
    >>> class Labelled(ValueTransformerWithKey[str, int]):
    ...     def transform(self, key, value):
    ...         return "none" if value is None else f"{key}: {value}"
    >>> builder = StreamsBuilder()
    >>> builder.table("in", value=int).transform_values(Labelled, value=str).to_stream().to("out")
    >>> driver = TopologyTestDriver(builder.build())
    >>> driver.pipe_record_list("in", [("a", 1), ("a", None)])
    >>> [record.value for record in driver.read_output("out")]
    ['a: 1', 'none']
    """

    def init(self, context: ProcessorContext) -> None:
        """Called once, before the first row."""

    @abstractmethod
    def transform(self, key: KIn, value: VIn | None) -> Any:
        """Return the new value of a row. For a deleted row, the value is None."""

    def close(self) -> None:
        """Called when the task ends."""


class ProcessorSupplier(ABC):
    """Makes the processors of a step, and names the stores that come with them (``ConnectedStoreProvider``).

    >>> from penstock.testing import pipe
    >>> class AtLeast(Processor[str, int]):
    ...     def __init__(self, least):
    ...         self.least = least
    ...     def init(self, context):
    ...         self.context = context
    ...     def process(self, record):
    ...         if record.value >= self.least:
    ...             self.context.forward(record)
    >>> class AtLeastSupplier(ProcessorSupplier):
    ...     def __init__(self, least):
    ...         self.least = least
    ...     def get(self):
    ...         return AtLeast(self.least)
    >>> pipe(lambda stream: stream.process(AtLeastSupplier(2)), [("a", 1), ("b", 2)])
    [('b', 2)]
    """

    @abstractmethod
    def get(self) -> Processor[Any, Any]:
        """A new processor; one is made for each task."""

    def stores(self) -> Sequence[Any]:
        """The builders of stores that are added to the topology and connected with this step."""
        return ()
