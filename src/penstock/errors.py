"""Every error Penstock raises, as one tree; catch a family or a leaf.

PenstockError
├── ConfigError            a setting or an argument is wrong; nothing was started
│   └── ArgumentsError     the arguments of a call do not fit
├── NoSuchElementError     a test reads a record that is not there
├── TopologyError          the topology cannot be built (Kafka's name ``TopologyException`` is an alias)
├── SerdeError             a value does not fit its serde
├── RegistryError          a schema registry is out of reach, or refuses; what is committed is safe
├── ProcessingError        a record failed: it did not decode, or a user's function raised
│   └── BufferFullError    a suppression holds more than it may
├── LogError               a topic cannot be created, read or written
│   ├── RefusedRecordError a topic does not take a record: its size, its time, or that it has no key
│   ├── TopicNotFoundError
│   ├── TopicExistsError
│   ├── OffsetOutOfRangeError
│   └── CorruptDataError   a checksum does not match, or a file is torn or missing
├── QueryError             a query of Spark failed that brings rows into a program, or takes results out
├── SinkError              a sink failed, or what it has cannot be continued
├── SourceError            a source failed, or cannot be continued
├── StoreError             a state store cannot be opened, read or written
└── CommitError            a commit did not happen; what was committed before is safe
    ├── AlreadyRunningError   another program runs under this application id on this machine
    ├── FencedError           another program has taken over this application id
    └── SparkLostError        Spark's JVM is gone, or its session was stopped

Warnings are of ``PenstockWarning``, and are shown once where a topology is built:

PenstockWarning
├── PartitioningWarning    rows or records of one key may lie in several partitions
└── OldNameWarning         a name that Kafka Streams has deprecated; it is a DeprecationWarning, too
"""

from __future__ import annotations


class PenstockError(Exception):
    """The root of all errors of this library.

    >>> from penstock import PenstockError, produce
    >>> try:
    ...     produce([("a", 1)], "orders", partitions=0)
    ... except PenstockError as error:
    ...     print(type(error).__name__)
    ConfigError
    """


class ConfigError(PenstockError, ValueError):
    """A setting or an argument is wrong.

    >>> from penstock import ConfigError, TimeWindows
    >>> try:
    ...     TimeWindows.of_size_with_no_grace("ten minutes")
    ... except ConfigError as error:
    ...     print("refused")
    refused
    """


class ArgumentsError(ConfigError, TypeError):
    """The arguments of a call do not fit: one is missing, there are too many, or one has another name.

    >>> from penstock import ArgumentsError, TimeWindows
    >>> try:
    ...     TimeWindows.of_size_and_grace("1 hour")
    ... except ArgumentsError:
    ...     print("the grace period is missing")
    the grace period is missing
    """


class NoSuchElementError(PenstockError, LookupError):
    """The output topic of a test driver has no unread record.

    >>> from penstock import NoSuchElementError, StreamsBuilder
    >>> from penstock.testing import TopologyTestDriver
    >>> builder = StreamsBuilder()
    >>> builder.stream("in").to("out")
    >>> topic = TopologyTestDriver(builder.build()).create_output_topic("out")
    >>> try:
    ...     topic.read_record()
    ... except NoSuchElementError:
    ...     print("nothing was sent")
    nothing was sent
    """


class TopologyError(PenstockError):
    """The topology cannot be built as asked.

    >>> from penstock import StreamsBuilder, TopologyError
    >>> builder = StreamsBuilder()
    >>> words, numbers = builder.stream("words", value=str), builder.stream("numbers", value=int)
    >>> try:
    ...     words.merge(numbers)
    ... except TopologyError:
    ...     print("the types differ")
    the types differ
    """


TopologyException = TopologyError


class SerdeError(PenstockError):
    """A value does not fit its serde.

    >>> from penstock import SerdeError, serdes
    >>> try:
    ...     serdes.INT.encode("seven")
    ... except SerdeError as error:
    ...     print(error.got)
    <class 'str'>
    """

    got: type | None = None
    """The type of the value, where that is what is wrong with it."""
    shown: str = ""
    """That value, as messages show it."""


class RegistryError(PenstockError):
    """A schema registry is out of reach, or refuses this user. No record is at fault, so Penstock leaves none out.

    >>> from penstock import RegistryError
    >>> def deliver(topology):
    ...     try:
    ...         topology.start(application_id="orders").await_termination()
    ...     except RegistryError:
    ...         print("start it again once the registry answers; nothing is lost")
    """


class ProcessingError(PenstockError):
    """A record failed while Penstock processed it. Nothing of its commit was saved.

    >>> from penstock import ProcessingError
    >>> from penstock.testing import pipe
    >>> try:
    ...     pipe(lambda stream: stream.map_values(lambda value: 1 / value), [("a", 0)])
    ... except ProcessingError as error:
    ...     print(type(error.__cause__).__name__)
    ZeroDivisionError
    """


class BufferFullError(ProcessingError):
    """A suppression has reached the limit of its buffer (``shut_down_when_full``). Nothing is lost.

    >>> from penstock import BufferConfig, BufferFullError, Suppressed, TimeWindows
    >>> from penstock.testing import pipe
    >>> one = BufferConfig.max_records(1).shut_down_when_full()
    >>> held = Suppressed.until_window_closes(one)
    >>> def final(stream):
    ...     windows = TimeWindows.of_size_with_no_grace("1 hour")
    ...     return stream.group_by_key().windowed_by(windows).count().suppress(held)
    >>> try:
    ...     pipe(final, [("a", 1, 0), ("b", 1, 0)])
    ... except BufferFullError:
    ...     print("give the buffer more room")
    give the buffer more room
    """


class LogError(PenstockError):
    """A topic cannot be created, read or written.

    >>> from penstock import LogError, consume
    >>> try:
    ...     consume("no-such-topic", log="no-such-folder")
    ... except LogError as error:
    ...     print(type(error).__name__)
    TopicNotFoundError
    """


class RefusedRecordError(LogError):
    """A topic refuses a record because of the topic's settings.

    >>> from penstock import RefusedRecordError, produce
    >>> def send(order):
    ...     try:
    ...         produce([("o1", order)], "orders", log="kafka://broker:9092")
    ...     except RefusedRecordError as error:
    ...         print(error.way_out)
    """

    way_out: str = ""
    """The remedy."""


class TopicNotFoundError(LogError):
    """The topic does not exist.

    >>> from penstock import TopicNotFoundError, consume
    >>> try:
    ...     consume("no-such-topic", log="no-such-folder")
    ... except TopicNotFoundError:
    ...     print("no such topic")
    no such topic
    """


class TopicExistsError(LogError):
    """The topic exists already.

    >>> from penstock import TopicExistsError
    >>> from penstock.log.base import TopicInfo
    >>> from penstock.log.memory import MemoryLog
    >>> log = MemoryLog()
    >>> log.create_topic(TopicInfo("orders", partitions=1))
    >>> try:
    ...     log.create_topic(TopicInfo("orders", partitions=2))
    ... except TopicExistsError:
    ...     print("it is there")
    it is there
    """


class OffsetOutOfRangeError(LogError):
    """Retention has removed the requested offset, or the offset does not exist yet, or the topic was created again
    since.

    >>> from penstock import OffsetOutOfRangeError
    >>> def follow(topology):
    ...     try:
    ...         topology.start(application_id="orders").await_termination()
    ...     except OffsetOutOfRangeError:
    ...         print("retention removed unread records: see the setting on_lost_records")
    """


class CorruptDataError(LogError):
    """A file is missing, torn or does not match its checksum.

    >>> from penstock import CorruptDataError, consume
    >>> def read(topic):
    ...     try:
    ...         return consume(topic)
    ...     except CorruptDataError as error:
    ...         print("restore this file from a back-up:", error)
    """


class QueryError(PenstockError):
    """A Spark query failed that reads a DataFrame for the program, or writes its results into a table.

    Everything committed is safe. Fix the cause, and start the program again: it continues from there, with each row and
    result once.

    >>> from penstock import QueryError
    >>> def follow(streams):
    ...     try:
    ...         streams.await_termination()
    ...     except QueryError as error:
    ...         print("the lake is out of reach:", error)
    """


class SinkError(PenstockError):
    """A sink of the program failed, or does not fit the records in its topic.

    Everything committed is safe. Fix the cause, and start the program again: the sink gets the missing records, each
    once. Raise it in your own sink if a retry cannot help.

    >>> from penstock import SinkError
    >>> def follow(streams):
    ...     try:
    ...         streams.await_termination()
    ...     except SinkError as error:
    ...         print("the database is out of reach:", error)
    """


class SourceError(PenstockError):
    """A source of the program failed, or cannot be continued.

    All records that it has read are safe. Fix the cause, and start the program again: the source continues from there,
    with each record once. Raise it in your own source if a retry cannot help.

    >>> from penstock import SourceError
    >>> def follow(streams):
    ...     try:
    ...         streams.await_termination()
    ...     except SourceError as error:
    ...         print("the bucket is out of reach:", error)
    """


class StoreError(PenstockError):
    """A state store cannot be opened, read or written.

    >>> from penstock import StoreError, open_store
    >>> def price(item):
    ...     try:
    ...         return open_store("shop", "prices").get(item)
    ...     except StoreError as error:
    ...         print("the disk is full or broken:", error.unwritable)
    """

    unwritable: str = ""
    """The file for which its disk has no room, or whose disk cannot be written; empty for all else."""


class CommitError(PenstockError):
    """A commit did not happen; everything committed before is safe.

    >>> from penstock import CommitError
    >>> def run(topology):
    ...     try:
    ...         topology.start(application_id="orders").await_termination()
    ...     except CommitError as error:
    ...         print("start it again, it continues from the last commit:", error)
    """


class AlreadyRunningError(CommitError):
    """Another program runs under this application id on this machine.

    >>> from penstock import AlreadyRunningError
    >>> def run(topology):
    ...     try:
    ...         topology.start(application_id="orders").await_termination()
    ...     except AlreadyRunningError:
    ...         print("stop the other program first")
    """


class FencedError(CommitError):
    """Another program has taken over this application id.

    >>> from penstock import FencedError
    >>> def run(topology):
    ...     try:
    ...         topology.start(application_id="orders").await_termination()
    ...     except FencedError:
    ...         print("another program continues the work")
    """


class SparkLostError(CommitError):
    """Spark's JVM is gone, or its session was stopped; start again.

    >>> from penstock import SparkLostError
    >>> def run(topology):
    ...     while True:
    ...         try:
    ...             return topology.start(application_id="orders").await_termination()
    ...         except SparkLostError:
    ...             print("starting Spark again")
    """


class PenstockWarning(UserWarning):
    """The root of all warnings of this library: the program runs, but may not do what you mean.

    >>> import warnings
    >>> from penstock import PenstockWarning
    >>> warnings.simplefilter("default", PenstockWarning)
    """


class PartitioningWarning(PenstockWarning):
    """A step gets records that are not in the partitions of their keys.

    The step is a processor with a store after a change of keys, a join of streams that are partitioned in different
    ways, or a store after topics with different numbers of partitions. The last warning comes when an application
    starts.

    >>> import warnings
    >>> from penstock import PartitioningWarning, Stores, StreamsBuilder
    >>> builder = StreamsBuilder()
    >>> seen = Stores.key_value_store_builder(Stores.in_memory_key_value_store("seen"), str, int)
    >>> words = builder.add_state_store(seen).stream("words", str, str).select_key(lambda key, word: word, key=str)
    >>> words.process(lambda record, context: None, "seen").to("out")
    >>> with warnings.catch_warnings(record=True) as given:
    ...     warnings.simplefilter("always")
    ...     _ = builder.build()
    >>> given[0].category.__name__
    'PartitioningWarning'
    """


class OldNameWarning(PenstockWarning, DeprecationWarning):
    """A name that Kafka Streams has deprecated. It still works; the message gives the present name.

    Python shows a ``DeprecationWarning`` only in the program that was started. ``penstock`` shows this one for every
    file of a program, unless ``PYTHONWARNINGS`` or Python's option ``-W`` says what to show.

    >>> import warnings
    >>> from penstock import OldNameWarning, TimeWindows
    >>> with warnings.catch_warnings(record=True) as given:
    ...     warnings.simplefilter("always")
    ...     windows = TimeWindows.of("1 hour")
    >>> given[0].category is OldNameWarning, issubclass(OldNameWarning, DeprecationWarning)
    (True, True)
    """
