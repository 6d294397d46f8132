"""Suggests what to write instead of Kafka Streams' Java names, and instead of misspelled ones.

Public classes inherit ``KafkaNames``: a missing attribute raises an error with its Python spelling, its replacement
here, or the most similar name.
"""

from __future__ import annotations

import dis
import re
from collections.abc import Iterable
from types import FrameType
from typing import TYPE_CHECKING, Any

from penstock.messages import nearest
from penstock.usage.signatures import told_of

_AFTER_GROUPING = "group the records first: group_by_key() or group_by(...), and then {0}(...)"
_OF_STREAMS = "say to_stream() first: to_stream().{0}(...)"
_PROCESS = "process(...) and process_values(...) take processors, with stores, punctuations and contexts"
_A_FUNCTION = "a plain function does, such as a lambda"
_SETTING = 'settings are keywords of start: builder.build().start("application-id", commit_interval="1 s")'
_A_TYPE = "types stand for serdes: str, int, float, bytes, dict, a dataclass, or a Serde of penstock.serdes"

_KINDS_OF_TIME_WINDOWS = (
    "tumbling windows are TimeWindows.of_size_and_grace(size, grace); .advance_by(advance) makes them hopping"
)

_OF_MODULE = {
    **dict.fromkeys(("TumblingWindows", "HoppingWindows", "TumblingWindow", "HoppingWindow"), _KINDS_OF_TIME_WINDOWS),
    "SparkSession": "import it from pyspark.sql",
    "WindowedSerdes": "windowed keys have their types by themselves",
    "KafkaStreams": 'builder.build().start("application-id") runs a topology and gives its handle',
    "StreamsConfig": _SETTING,
    "ConsumerConfig": _SETTING,
    "ProducerConfig": _SETTING,
    "Properties": _SETTING,
    "KeyValue": "a pair is a tuple: (key, value)",
    "Named": 'a name is a keyword of each step: name="..."',
    "Duration": 'durations are text such as "5 minutes", a timedelta, or milliseconds',
    "Instant": "times are a datetime, text in ISO 8601, or milliseconds",
    "Transformer": _PROCESS,
    "TransformerSupplier": _PROCESS,
    "ValueTransformer": _PROCESS + "; KTable.transform_values takes a ValueTransformerWithKey",
    "ValueTransformerSupplier": _PROCESS,
    "ValueTransformerWithKeySupplier": "transform_values takes a function without arguments that returns a new one",
    "FixedKeyProcessorSupplier": "process_values takes a FixedKeyProcessor class, or a ProcessorSupplier",
    "FixedKeyRecord": "a FixedKeyProcessor gets a Record, and forwards it under the key that it has",
    "FixedKeyProcessorContext": "annotate it as ProcessorContext",
    "StreamPartitioner": "a partitioner is a function of (topic, key, value, partitions)",
    "TopicNameExtractor": "to(...) takes a function of (key, value) in place of the topic",
    "QueryableStoreTypes": "streams.store(name) knows what kind of store it is",
    "StoreQueryParameters": "streams.store(name) takes the rest as keywords",
    "Punctuator": "schedule(...) takes a function of (time)",
    **dict.fromkeys(("TopologyTestDriver", "TestInputTopic", "TestOutputTopic"), "it is in penstock.testing"),
    "TestRecord": "the driver takes a Record, or key, value and timestamp: topic.pipe_input(key, value, timestamp)",
    **dict.fromkeys(("Header", "Headers", "RecordHeader", "RecordHeaders"), "headers are pairs of a name and bytes"),
    **dict.fromkeys(
        ("KeyValueIterator", "WindowStoreIterator", "ReadOnlyKeyValueStore", "ReadOnlyWindowStore"),
        "streams.store(name) gives the store, and its reads are iterators of tuples",
    ),
    **dict.fromkeys(
        ("LogAndContinueExceptionHandler", "LogAndFailExceptionHandler"),
        "the settings deserialization_exception_handler and on_error say what becomes of records that fail",
    ),
    "TopologyDescription": "topology.describe() is the text",
    **dict.fromkeys(
        (
            "Aggregator",
            "ForeachAction",
            "Initializer",
            "KeyValueMapper",
            "Merger",
            "Predicate",
            "Reducer",
            "ValueJoiner",
            "ValueJoinerWithKey",
            "ValueMapper",
            "ValueMapperWithKey",
        ),
        _A_FUNCTION,
    ),
}

_AGGREGATIONS = dict.fromkeys(("count", "reduce", "aggregate", "windowed_by", "cogroup"), _AFTER_GROUPING)
_TO_TABLE = "aggregate first, with count(), reduce(...) or aggregate(...), which gives a table; then "
_UNGROUPED = _TO_TABLE + "{0}(...)"
_TABLES_FIRST = _TO_TABLE + "to_stream().{0}(...)"

_OF_RESULTS = ("to", "foreach", "print", "peek", "map", "process", "join")
"""Methods that users call on the result of an aggregation."""

_WAYS: dict[str, dict[str, str]] = {
    "KStream": {
        "branch": "split() begins it: split().branch(predicate, name=...).default_branch(name=...) gives them by name",
        "through": "repartition() sends records through an internal topic; for one of yours use to(topic) and read it "
        "with builder.stream(topic)",
        **dict.fromkeys(
            ("transform", "transform_values", "flat_transform", "flat_transform_values"), "use process: " + _PROCESS
        ),
        "suppress": "suppress is for tables: group_by_key().windowed_by(...).count().suppress(...)",
        "to_stream": "this is a stream already",
        "union": "merge(other) puts two streams together",
        "where": "filter(predicate) keeps some records",
        **dict.fromkeys(
            ("select", "with_column", "with_columns"),
            'map_values(...) makes new values; with a class: map_values(Slim, id=col("id"), cents=col("amount") * 100)',
        ),
        "key_by": "select_key(...) gives records another key; group_by(...) groups by it",
        "distinct": "deduplicate_by_key(...) leaves repeated records out",
        **dict.fromkeys(("sink", "write", "write_to", "produce", "send"), "to(topic) writes records"),
        **dict.fromkeys(("show", "display"), "print() prints each record; to(topic) writes them"),
        "start": "a topology starts, not a stream: end with to(topic), then builder.build().start(...)",
        "write_as_text": "print(Printed.to_file(path)) writes records as text",
        **_AGGREGATIONS,
    },
    "KTable": {
        **dict.fromkeys(
            (
                "to",
                "foreach",
                "peek",
                "print",
                "branch",
                "split",
                "process",
                "process_values",
                "merge",
                "map",
                "flat_map",
                "flat_map_values",
                "select_key",
                "group_by_key",
                "repartition",
                "deduplicate",
            ),
            _OF_STREAMS,
        ),
        "for_each": "say to_stream() first: to_stream().foreach(...)",
        **dict.fromkeys(("count", "reduce", "aggregate"), "group the rows first: group_by(...).{0}(...)"),
        "windowed_by": "tables have no windows; those of a stream are to_stream().group_by_key().windowed_by(...)",
        "through": "write it with to_stream().to(topic), and read that with builder.table(topic)",
        "to_table": "this is a table already",
    },
    "KGroupedStream": {
        **dict.fromkeys(_OF_RESULTS, _TABLES_FIRST),
        **dict.fromkeys(("to_stream", "suppress", "map_values", "filter"), _UNGROUPED),
        **dict.fromkeys(
            ("sum", "min", "max", "mean", "avg", "first", "last", "agg"),
            'aggregates have names: aggregate(total=Sum("amount"), n=Count())',
        ),
        **dict.fromkeys(("emit_strategy", "distinct"), "windows come first: windowed_by(...).{0}(...)"),
    },
    "GlobalKTable": dict.fromkeys(
        ("to_stream", "filter", "map_values", "group_by", "join"),
        "a global table is only looked up, in stream.join(table, joiner, key_selector=...); builder.table(topic) has "
        "{0}",
    ),
    "BranchedKStream": dict.fromkeys(
        ("to", "filter", "map_values", "merge"),
        "end the branches first: default_branch(name) or no_default_branch(), which returns the streams by name",
    ),
    "TimeWindows": {
        **dict.fromkeys(("tumbling", "hopping"), _KINDS_OF_TIME_WINDOWS),
        "of_size": "{0} says the grace period, too: of_size_and_grace(size, grace) or of_size_with_no_grace(size)",
    },
    "SessionWindows": {
        "of": "{0} says the grace period, too: of_inactivity_gap_and_grace(gap, grace) or "
        "of_inactivity_gap_with_no_grace(gap)",
    },
    "SlidingWindows": {
        **dict.fromkeys(
            (
                "of",
                "of_size_and_grace",
                "of_size_with_no_grace",
                "with_time_difference_and_grace",
                "with_time_difference_with_no_grace",
            ),
            "it is of_time_difference_and_grace(difference, grace) or of_time_difference_with_no_grace(difference)",
        ),
    },
    **{
        one: dict.fromkeys(_OF_RESULTS, _TABLES_FIRST)
        | dict.fromkeys(("to_stream", "suppress", "map_values", "filter", "join", "left_join"), _UNGROUPED)
        for one in (
            "KGroupedTable",
            "TimeWindowedKStream",
            "SessionWindowedKStream",
            "CogroupedKStream",
            "TimeWindowedCogroupedKStream",
            "SessionWindowedCogroupedKStream",
        )
    },
    "StreamsBuilder": {
        **dict.fromkeys(
            ("add_source", "add_processor", "add_sink"),
            "{0} is of a Topology: penstock.Topology().{0}(...), or builder.build().{0}(...)",
        ),
        **dict.fromkeys(("start", "describe", "pipe_input"), "build the topology first: builder.build().{0}(...)"),
    },
    "TopologyTestDriver": {
        **dict.fromkeys(("produce", "send", "write"), "pipe_input(topic, key, value, timestamp=...) writes a record"),
        **dict.fromkeys(("consume", "read"), "read_output(topic) returns the records of a topic"),
    },
    "Topology": {"build": "this is what build() gives already", "run": 'start("application-id") runs it'},
}


def of_module(name: str, known: Iterable[str] = ()) -> str:
    """Return what to write instead of a missing name of ``penstock``; empty without an idea.

    Args:
        known: the names that exist.

    >>> of_module("KeyValue"), of_module("StreamBuilder", ["StreamsBuilder"])
    ('a pair is a tuple: (key, value)', "did you mean 'StreamsBuilder'?")
    """
    if name in _OF_MODULE or name.startswith("_"):
        return _OF_MODULE.get(name, "")
    return nearest(name, known).strip(" ()")


_CALLED = re.compile(r"\.(key|value|timestamp|headers|start|end|window)\(\)")
_RECORD = "a record is Record(key, value, timestamp); one like another is record.with_value(...)"
_WINDOWED = "a windowed key is Windowed(key, start, end), with the times in milliseconds"


def of_java(line: str, problem: str) -> str:
    """Return what to write instead of a line with Java syntax that fails with a TypeError; empty for other lines.

    Args:
        line: the line of source.
        problem: the error message.

    >>> of_java("total += record.value()", "'int' object is not callable")
    'it is no method here: .value without parentheses'
    """
    found = _CALLED.search(line) if problem.endswith("object is not callable") else None
    if found:
        return f"it is no method here: .{found[1]} without parentheses"
    if problem.startswith("Missing required argument") and "Record(" in line:
        return _RECORD
    return _WINDOWED if problem.startswith("Windowed.__new__()") else ""


def is_imported(frame: FrameType) -> bool:
    """Return whether a frame is at a ``from ... import``, which does not show an AttributeError's message."""
    return dis.opname[frame.f_code.co_code[frame.f_lasti]] == "IMPORT_FROM"


def snake_case(name: str) -> str:
    """Return a Java name in Python's spelling.

    >>> snake_case("groupByKey"), snake_case("ofSizeAndGrace"), snake_case("toString")
    ('group_by_key', 'of_size_and_grace', 'to_string')
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def advice(classes: Iterable[str], name: str, known: Iterable[str]) -> str:
    """Return what to write instead of a missing attribute, with a separator in front; empty without an idea.

    Args:
        classes: the names of the object's classes, its own first.
        known: the existing attributes.

    >>> advice(["KTable"], "toStream", ["to_stream"]), advice(["KTable"], "to", [])
    ("; did you mean 'to_stream'?", '; say to_stream() first: to_stream().to(...)')
    """
    names, spelled = set(known), snake_case(name)
    for candidate in (spelled, spelled + "_"):  # ``as`` and ``with`` are keywords of Python
        if candidate != name and candidate in names:
            return f"; did you mean {candidate!r}?"
    for one in classes:
        way = _WAYS.get(one, {}).get(spelled)
        if way:
            return f"; {way.format(spelled)}"
    guess = nearest(spelled, [one for one in names if not one.startswith("_")])
    return f"; {guess.strip(' ()')}" if guess else ""


def missing(of: type, name: str, is_class: bool = False) -> AttributeError:
    """Return the error for an attribute that a class or its objects do not have."""
    what = f"type object {of.__name__!r}" if is_class else f"{of.__name__!r} object"
    text = f"{what} has no attribute {name!r}"
    if name.startswith("_"):  # Python or a notebook asks
        return AttributeError(text)
    return AttributeError(text + advice([one.__name__ for one in of.__mro__], name, dir(of)))


class _KafkaNames(type):
    if not TYPE_CHECKING:

        def __new__(mcs, name: str, bases: tuple[type, ...], members: dict[str, Any], telling: bool = True) -> Any:
            told = {one: told_of(one, member) for one, member in members.items()} if telling else members
            return super().__new__(mcs, name, bases, told)

        def __init__(cls, name: str, bases: tuple[type, ...], members: dict[str, Any], telling: bool = True) -> None:
            super().__init__(name, bases, members)

        def __setattr__(cls, name: str, value: Any) -> None:
            super().__setattr__(name, told_of(name, value) if name == "__init__" else value)  # dataclasses create one

        def __getattr__(cls, name: str) -> Any:
            raise missing(cls, name, is_class=True)


class KafkaNames(metaclass=_KafkaNames):
    """Base of classes whose errors suggest what to write instead of a missing name or a wrong call.

    ``class Fast(KafkaNames, telling=False)`` does not check calls, for methods that are called for each record.
    """

    __slots__ = ()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise missing(type(self), name)
