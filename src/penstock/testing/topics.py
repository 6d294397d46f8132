"""Topics of a test driver to pipe into and to read from (``TestInputTopic`` and ``TestOutputTopic``, KIP-470)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.errors import ConfigError, NoSuchElementError
from penstock.messages import show
from penstock.plan.physical import Part
from penstock.plan.topology import Topology
from penstock.record import Record
from penstock.serdes import BYTES, Serde, of
from penstock.settings import Settings
from penstock.testing.piped import piped
from penstock.testing.records import listed
from penstock.usage.java_names import KafkaNames
from penstock.values.durations import Duration, to_ms
from penstock.values.times import to_timestamp

Headers = Iterable[tuple[str, bytes]]

_MISSING: Any = object()


class TestInputTopic(KafkaNames):
    """A topic to pipe records into, with a clock of its own for those that bring no time.

    ``driver.create_input_topic`` makes it.

    >>> from penstock import StreamsBuilder
    >>> from penstock.testing import TopologyTestDriver
    >>> builder = StreamsBuilder()
    >>> builder.stream("words", value=str).to("out")
    >>> words = TopologyTestDriver(builder.build()).create_input_topic("words", start=1000, auto_advance="1 s")
    >>> words.pipe_value_list(["hello", "you"])
    >>> words
    <TestInputTopic of 'words': next record at 3000>
    """

    __test__ = False  # pytest would collect classes of this name

    def __init__(
        self,
        driver: TopicAccess,
        topic: str,
        key: Serde,
        value: Serde,
        start: int,
        auto_advance: int,
    ):
        self._driver = driver
        self._topic = topic
        self._key = key
        self._value = value
        self._now = start
        self._advance = auto_advance

    def advance_time(self, duration: Duration) -> None:
        """Let the topic's clock go on; records that are piped from here on are that much later.

        Raises:
            ConfigError: the duration is negative.
        """
        self._now += to_ms(duration, "advance")

    def pipe_input(
        self, key_or_value: Any, value: Any = _MISSING, timestamp: Any = None, headers: Headers = ()
    ) -> None:
        """Process one record to the end: ``pipe_input(value)``, ``pipe_input(key, value)`` or a ``Record``.

        Args:
            key_or_value: the value alone, or the key; or a ``penstock.Record``, whose time may be None.
            value: the value; None for a tombstone.
            timestamp: the record's time: milliseconds, a ``datetime`` or text in ISO 8601. Without it the record has
                the time of the topic's clock, which then goes on by ``auto_advance``.
            headers: pairs of a name and bytes.

        Raises:
            ProcessingError: the record failed.
        """
        if value is not _MISSING:
            key = key_or_value
        elif isinstance(key_or_value, Record):
            key, value, own_time, own_headers = key_or_value
            timestamp = own_time if timestamp is None else timestamp
            headers = headers or own_headers
        else:
            key, value = None, key_or_value
        time = self._next_time() if timestamp is None else to_timestamp(timestamp)
        key, value = self._bytes(key, self._key, "key"), self._bytes(value, self._value, "value")
        self._driver.pipe_input(self._topic, key, value, time, headers)

    def pipe_value_list(self, values: Iterable[Any], start: Any = None, advance: Duration = 0) -> None:
        """Process values without keys, one after the other.

        Args:
            values: the values.
            start: the time of the first, where the topic's clock is not to say it.
            advance: with ``start``: how much later each record is than the one before.
        """
        every = listed(values, f"pipe_value_list into {self._topic!r}")
        self.pipe_key_value_list(((None, value) for value in every), start, advance)

    def pipe_key_value_list(self, pairs: Iterable[tuple[Any, Any]], start: Any = None, advance: Duration = 0) -> None:
        """Process pairs of key and value, one after the other, as ``pipe_value_list`` does values.

        >>> from penstock import StreamsBuilder
        >>> from penstock.testing import TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> builder.stream("in", value=int).to("out")
        >>> driver = TopologyTestDriver(builder.build())
        >>> driver.create_input_topic("in").pipe_key_value_list([("a", 1), ("b", 2)], start=100, advance=10)
        >>> [record.timestamp for record in driver.read_output("out")]
        [100, 110]
        """
        time, step = None if start is None else to_timestamp(start), to_ms(advance, "advance")
        for pair in listed(pairs, f"pipe_key_value_list into {self._topic!r}"):
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                raise ConfigError(
                    f"pipe_key_value_list into {self._topic!r} takes pairs of key and value; got {show(pair)}. The "
                    "pairs before it are processed"
                )
            key, value = pair
            self.pipe_input(key, value, time)
            time = None if time is None else time + step

    def pipe_record_list(self, records: Iterable[Record]) -> None:
        """Process records, one after the other; those whose time is None get it from the topic's clock."""
        for record in listed(records, f"pipe_record_list into {self._topic!r}"):
            if not isinstance(record, Record):
                raise ConfigError(
                    f"pipe_record_list into {self._topic!r} takes penstock.Record(key, value, timestamp); got "
                    f"{record!r}; for pairs there is pipe_key_value_list. The records before it are processed"
                )
            self.pipe_input(record)

    def __repr__(self) -> str:
        return f"<TestInputTopic of {self._topic!r}: next record at {self._now}>"

    def _next_time(self) -> int:
        time = self._now
        self._now += self._advance
        return time

    def _bytes(self, given: Any, serde: Serde, what: str) -> bytes | None:
        return piped(given, serde, what, self._topic)[0].as_py()  # type: ignore[no-any-return]


class TestOutputTopic(KafkaNames):
    """An output topic to read, record by record or all present records.

    ``driver.create_output_topic`` makes it. Each record is read once, by whichever call comes first, the driver's
    ``read_output`` included.

    >>> from penstock import StreamsBuilder
    >>> from penstock.testing import TopologyTestDriver
    >>> builder = StreamsBuilder()
    >>> builder.stream("in", value=int).map_values(lambda value: value + 1).to("out")
    >>> driver = TopologyTestDriver(builder.build())
    >>> driver.create_input_topic("in").pipe_value_list([1, 2])
    >>> out = driver.create_output_topic("out")
    >>> out.read_value(), out.get_queue_size(), out.read_value(), out.is_empty()
    (2, 1, 3, True)
    """

    __test__ = False

    def __init__(self, driver: TopicAccess, topic: str, key: Any, value: Any):
        self._driver = driver
        self._topic = topic
        self._types = [None if one is None else of(one, name) for one, name in ((key, "key"), (value, "value"))]

    def read_record(self) -> Record:
        """The next record: key, value, timestamp and headers.

        Raises:
            NoSuchElementError: all records have been read.
        """
        waiting = self._waiting()
        if not waiting:
            raise NoSuchElementError(
                f"all records of topic {self._topic!r} have been read; before you read, ask is_empty()"
            )
        return self._decoded(waiting.pop(0))

    def read_value(self) -> Any:
        """The value of the next record; raises ``NoSuchElementError`` at the end."""
        return self.read_record().value

    def read_key_value(self) -> tuple[Any, Any]:
        """Key and value of the next record; raises ``NoSuchElementError`` at the end."""
        record = self.read_record()
        return record.key, record.value

    def read_records_to_list(self) -> list[Record]:
        """All records that are there."""
        waiting = self._waiting()
        found = [self._decoded(record) for record in waiting]
        waiting.clear()
        return found

    def read_values_to_list(self) -> list[Any]:
        """The values of all records that are there."""
        return [record.value for record in self.read_records_to_list()]

    def read_key_values_to_list(self) -> list[tuple[Any, Any]]:
        """Keys and values of all records that are there."""
        return [(record.key, record.value) for record in self.read_records_to_list()]

    def read_key_values_to_map(self) -> dict[Any, Any]:
        """The last value of each key, of all records that are there.

        Raises:
            ConfigError: a record has no key, or one that cannot be a key of a dictionary; nothing was read then.
        """
        found = {}
        for record in self._waiting():
            key, value = self._decoded(record)[:2]
            if key is None or not _is_hashable(key):
                raise ConfigError(
                    f"read_key_values_to_map of topic {self._topic!r}: the key {key!r} cannot be a key of a dict; "
                    "use read_key_values_to_list"
                )
            found[key] = value
        self._waiting().clear()
        return found

    def is_empty(self) -> bool:
        """Whether all records were read."""
        return not self._waiting()

    def get_queue_size(self) -> int:
        """How many records were not read yet; ``len`` of the topic says so, too."""
        return len(self._waiting())

    def __len__(self) -> int:
        return self.get_queue_size()

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<TestOutputTopic of {self._topic!r}: {len(self)} to read>"

    def _waiting(self) -> list[Record]:
        return self._driver.unread(self._topic)

    def _decoded(self, record: Record) -> Record:
        """Return a record in the requested types, if they differ from those it was written in."""
        if self._types == [None, None]:
            return record
        written = self._driver.types_of(self._topic)
        key, value = (
            given if serde is None or serde == own or given is None else _read_as(serde, own.encode(given))
            for given, serde, own in zip(record[:2], self._types, written, strict=True)
        )
        return Record(key, value, record.timestamp, record.headers)


def _read_as(serde: Serde, data: bytes | None) -> Any:
    return None if data is None else serde.decode(data)


def _is_hashable(key: Any) -> bool:
    try:
        hash(key)
    except TypeError:
        return False
    return True


class TopicAccess(KafkaNames):
    """The topics of a driver."""

    topology: Topology
    settings: Settings
    wall_clock_ms: int
    _outputs: dict[str, list[Record]]
    _order: list[tuple[str, Record]]
    _sinks: dict[str, Part]

    def _source_types(self, topic: str) -> tuple[Serde, Serde]:
        """Return the types of keys and values of a topic that is read from outside."""
        raise NotImplementedError

    def pipe_input(self, topic: str, key: Any, value: Any, timestamp: int = 0, headers: Headers = ()) -> None:
        """Process one record, to the end."""
        raise NotImplementedError

    def create_input_topic(
        self, topic: str, key: Any = None, value: Any = None, start: Any = None, auto_advance: Duration = 0
    ) -> TestInputTopic:
        """A topic to pipe records into, with a clock of its own (KIP-470).

        Args:
            topic: a topic that the topology reads.
            key: the type that keys are written in; by default that in which the source reads them.
            value: the type of values.
            start: the time of the first record without one; by default the driver's wall clock.
            auto_advance: how much later each next one is.

        Raises:
            ConfigError: the topology does not read this topic.
        """
        keys, values = self._source_types(topic)
        types = keys if key is None else of(key, "key"), values if value is None else of(value, "value")
        begin = self.wall_clock_ms if start is None else to_timestamp(start, "start")
        return TestInputTopic(self, topic, *types, begin, to_ms(auto_advance, "auto_advance"))

    def create_output_topic(self, topic: str, key: Any = None, value: Any = None) -> TestOutputTopic:
        """A topic to read what came out from, record by record (KIP-470).

        Args:
            topic: a topic that the topology writes.
            key: the type that keys are read as; by default that in which the sink writes them.
            value: the type of values.

        Raises:
            ConfigError: the topology does not write this topic.
        """
        self.unread(topic)
        return TestOutputTopic(self, topic, key, value)

    def produced_topic_names(self) -> set[str]:
        """The topics that records were written to so far."""
        return {topic for topic, _ in self._order} | {topic for topic, records in self._outputs.items() if records}

    def read_output(self, topic: str) -> list[Record]:
        """Return the records that were written to a topic since the last call, decoded."""
        records, self._outputs[topic] = self.unread(topic), []
        return records

    def unread(self, topic: str) -> list[Record]:
        """The records written to a topic that were not read yet; reading some removes them."""
        is_new = isinstance(topic, str) and topic not in self._outputs
        if is_new and (self.topology.dynamic_sinks or topic in self.settings.dead_letters):
            self._outputs[topic] = []
        if not isinstance(topic, str) or topic not in self._outputs:
            known = ", ".join(self._outputs)
            raise ConfigError(f"the topology does not write a topic {show(topic)}; it writes these topics: {known}")
        return self._outputs[topic]

    def types_of(self, topic: str) -> tuple[Serde, Serde]:
        """Return the types in which a topic is written."""
        part = next((part for part in self._sinks.values() if topic in part.topics or not part.topics), None)
        return (BYTES, BYTES) if part is None else part.node.types

    def read_all_output(self) -> list[tuple[str, Record]]:
        """The records written to all topics since the last call, with their topics, in the order of writing."""
        records, self._order = self._order, []
        return records
