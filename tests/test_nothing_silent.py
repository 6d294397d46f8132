"""Nothing is silent: an argument that cannot be meant is refused at the call, by an error that names it.

Every public method of the DSL, its option objects and its windows is called with each of its arguments wrong in turn: a
coroutine for a function, NaN for a duration, a number for a name, and so on. What an argument takes is told by its name
(``KINDS``), so a method that comes later is called too; one that takes what no test knows fails here.
"""

from __future__ import annotations

import datetime
import functools
import inspect
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import (
    BufferConfig,
    EmitStrategy,
    JoinWindows,
    PenstockError,
    Record,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    UnlimitedWindows,
)
from penstock.log.memory import MemoryLog
from penstock.settings import Settings
from penstock.testing import TestInputTopic, TestOutputTopic, TopologyTestDriver, pipe

Wrong = dict[str, Any]


def _words(text: str) -> list[str]:
    return text.split()


async def a_coroutine(*arguments: Any) -> Any:
    return True


def a_generator(*arguments: Any) -> Iterator[Any]:
    yield True


async def an_async_generator(*arguments: Any) -> Any:
    yield True


class AsyncCall:
    async def __call__(self, *arguments: Any) -> Any:
        return True


class Yields:
    def method(self, *arguments: Any) -> Iterator[Any]:
        yield True


@functools.wraps(a_coroutine)
def a_wrapped_coroutine(*arguments: Any) -> Any:
    return a_coroutine(*arguments)


NO_FUNCTION: Wrong = {"a number": 5, "a list": [], "an object": object()}
ASYNCHRONOUS: Wrong = {
    "a coroutine function": a_coroutine,
    "an async generator function": an_async_generator,
    "a partial of a coroutine function": functools.partial(a_coroutine),
    "an object with an async __call__": AsyncCall(),
    "a wrapper of a coroutine function": a_wrapped_coroutine,
}
GENERATORS: Wrong = {
    "a generator function": a_generator,
    "a partial of a generator function": functools.partial(a_generator),
    "a method that yields": Yields().method,
}
AWAITED = NO_FUNCTION | {"text": "value", "a plain function": len} | GENERATORS
FUNCTION = NO_FUNCTION | {"text": "value"} | ASYNCHRONOUS | GENERATORS
ITERATED = NO_FUNCTION | {"text": "value"} | ASYNCHRONOUS
DURATION: Wrong = {
    "NaN": math.nan,
    "infinity": math.inf,
    "words": "soon",
    "a negative number": -1,
    "a negative timedelta": datetime.timedelta(seconds=-1),
    "beyond int64": 2**63,
    "a boolean": True,
    "a list": [],
    "an object": object(),
}
TYPE: Wrong = {"a number": 5, "a name that no type has": "no such type", "an object": object(), "a function": len}
NAME: Wrong = {"a number": 5, "empty": "", "a path": "a/b", "a URL": "kafka://host/x", "a list": [], "a function": len}
COUNT: Wrong = {
    "text": "many",
    "a negative number": -1,
    "a fraction": 1.5,
    "NaN": math.nan,
    "a boolean": True,
    "a list": [],
}
FLAG: Wrong = {"text": "yes", "a number": 5, "a list": []}
PLACE: Wrong = {
    "a number": 5,
    "a list": [],
    "empty": "",
    "a web page": "https://example.com/log",
    "a bucket": "s3://b/x",
}
OPTION: Wrong = {"a number": 5, "a list": [], "a function": len, "an object": object(), "a class": Record}

KINDS: dict[str, Wrong] = (
    dict.fromkeys(
        [
            "predicate",
            "action",
            "initializer",
            "aggregator",
            "merger",
            "reducer",
            "joiner",
            "adder",
            "subtractor",
            "key_selector",
            "foreign_key",
            "id_selector",
            "partitioner",
            "other_partitioner",
            "chain",
        ],
        FUNCTION,
    )
    | dict.fromkeys(
        [
            "interval",
            "grace",
            "size",
            "advance",
            "duration",
            "time_difference",
            "inactivity_gap",
            "retention",
            "retention_period",
            "history_retention",
            "segment_interval",
            "window_size",
            "time_to_wait",
            "grace_period",
            "timeout",
        ],
        DURATION,
    )
    | dict.fromkeys(["key", "value", "key_serde", "value_serde", "other_value"], TYPE)
    | dict.fromkeys(["name", "named", "store", "store_name", "topic", "dropped_to", "processor"], NAME)
    | dict.fromkeys(["partitions", "max_cache_size", "count", "capacity", "retries", "batch"], COUNT)
    | dict.fromkeys(["create", "retain_duplicates", "ordered"], FLAG)
    | dict.fromkeys(
        [
            "other",
            "windows",
            "materialized",
            "grouped",
            "joined",
            "stream_joined",
            "table_joined",
            "deduplicated",
            "produced",
            "consumed",
            "repartitioned",
            "branched",
            "printed",
            "suppressed",
            "buffer",
            "strategy",
            "timestamp",
            "offset_reset",
            "suppliers",
            "builder",
            "versioned_join",
            "config",
            "start",
            "format",
        ],
        OPTION,
    )
    | {"timestamp_unit": {"a number": 5, "a word": "minutes", "a list": []}}
    | {"order": {"a number": 5, "a list": [], "of a topic": "seq"}}
    | {"trigger": {"a number": 5, "a list": [], "of a topic": "10 seconds"}}
    | {"headers": {"a number": 5, "a list": [], "of a topic": "h"}}
    | {"path": PLACE | {"nothing": None}}
    | {"mapper": FUNCTION, "supplier": FUNCTION, "label": {"a number": 5, "a list": []}}
)
ITERATED_BY = {"KStream.flat_map.mapper", "KStream.flat_map_values.mapper", "KStream.process.supplier"}
"""Arguments whose functions may be generators, since their results are iterated over."""
AWAITED_BY = {"KStream.map_values_async.mapper", "KStream.filter_async.predicate"}
"""Arguments whose functions are coroutines."""

MEANT = {
    ("id_selector", "text"): "the name of a field",
    ("start", "a number"): "a time",
    ("timestamp", "a function"): "a function of the value",
    ("timestamp", "a class"): "a function of the value",
    (
        "time_difference",
        "a negative number",
    ): "of before and after, which may lie on the other side, as in Kafka Streams",
    ("time_difference", "a negative timedelta"): "the same",
}
"""What would be wrong of other arguments, and is not of these."""


class Upper(penstock.ValueTransformerWithKey[str, str]):
    def transform(self, key: str, value: str) -> str:
        return value.upper()


class World:
    """What a method is called on, and takes: streams and tables of a builder of its own."""

    def __init__(self) -> None:
        self.builder = StreamsBuilder()
        self.stream = self.builder.stream("in", key=str, value=str)
        self.other = self.builder.stream("other", key=str, value=str)
        self.table = self.builder.table("table", key=str, value=str)
        self.other_table = self.builder.table("other-table", key=str, value=str)
        self.grouped = self.stream.group_by_key()
        self.minutes = TimeWindows.of_size_with_no_grace("1 minute")
        self.sessions = SessionWindows.of_inactivity_gap_with_no_grace("1 minute")
        self.cogrouped = self.grouped.cogroup(lambda key, value, aggregate: value)

    def objects(self) -> dict[str, Any]:
        """What the methods of each class are called on."""
        return {
            "StreamsBuilder": self.builder,
            "KStream": self.stream,
            "KTable": self.table,
            "KGroupedStream": self.grouped,
            "KGroupedTable": self.table.group_by(lambda key, value: (key, value)),
            "TimeWindowedKStream": self.grouped.windowed_by(self.minutes),
            "SessionWindowedKStream": self.grouped.windowed_by(self.sessions),
            "CogroupedKStream": self.cogrouped,
            "TimeWindowedCogroupedKStream": self.cogrouped.windowed_by(self.minutes),
            "SessionWindowedCogroupedKStream": self.cogrouped.windowed_by(self.sessions),
            "BranchedKStream": self.stream.split(),
            "JoinWindows": JoinWindows.of_time_difference_with_no_grace("1 minute"),
            "TimeWindows": self.minutes,
            "SessionWindows": self.sessions,
            "SlidingWindows": SlidingWindows.of_time_difference_with_no_grace("1 minute"),
            "UnlimitedWindows": UnlimitedWindows.of(),
            "BufferConfig": BufferConfig.max_records(5),
            "Suppressed": Suppressed.until_window_closes(BufferConfig.unbounded()),
        } | {name: getattr(penstock, name) for name in OPTIONS}

    def valid(self, place: str, parameter: str) -> Any:
        """A value that an argument may have."""
        window = Stores.persistent_window_store("kept", "1 hour", "1 minute")
        timestamped_window = Stores.persistent_timestamped_window_store("kept", "1 hour", "1 minute")
        duplicates = Stores.persistent_window_store("kept", "1 hour", "1 minute", retain_duplicates=True)
        versioned = Stores.persistent_versioned_key_value_store("kept", "1 hour")
        every: dict[str, Any] = {
            "predicate": lambda key, value: True,
            "action": lambda key, value: None,
            "mapper": lambda key, value: (key, value),
            "KStream.map_values.mapper": lambda value: value,
            "KStream.map_values_async.mapper": a_coroutine,
            "KStream.filter_async.predicate": a_coroutine,
            "KTable.map_values.mapper": lambda value: value,
            "KStream.flat_map.mapper": lambda key, value: [(key, value)],
            "KStream.flat_map_values.mapper": lambda value: [value],
            "KStream.group_by.mapper": lambda key, value: value,
            "KStream.select_key.mapper": lambda key, value: value,
            "Printed.with_key_value_mapper.mapper": lambda key, value: "",
            "initializer": str,
            "aggregator": lambda key, value, aggregate: value,
            "adder": lambda key, value, aggregate: value,
            "subtractor": lambda key, value, aggregate: value,
            "KGroupedTable.reduce.adder": lambda one, other: one,
            "KGroupedTable.reduce.subtractor": lambda one, other: one,
            "merger": lambda key, one, other: one,
            "reducer": lambda one, other: one,
            "joiner": lambda one, other: one,
            "id_selector": lambda key, value: value,
            "partitioner": lambda topic, key, value, partitions: 0,
            "other_partitioner": lambda topic, key, value, partitions: 0,
            "chain": lambda stream: stream,
            "supplier": lambda record, context: None,
            "KTable.transform_values.supplier": Upper,
            "StreamsBuilder.add_global_store.supplier": lambda record, context: None,
            "Stores.key_value_store_builder.supplier": Stores.persistent_key_value_store("kept"),
            "Stores.timestamped_key_value_store_builder.supplier": Stores.persistent_timestamped_key_value_store(
                "kept"
            ),
            "Stores.window_store_builder.supplier": window,
            "StreamJoined.with_this_store_supplier.supplier": duplicates,
            "StreamJoined.with_other_store_supplier.supplier": duplicates,
            "Stores.timestamped_window_store_builder.supplier": timestamped_window,
            "Stores.session_store_builder.supplier": Stores.persistent_session_store("kept", "1 hour"),
            "Stores.timestamped_key_value_store_with_headers_builder.supplier": (
                Stores.persistent_timestamped_key_value_store_with_headers("kept")
            ),
            "Stores.timestamped_window_store_with_headers_builder.supplier": (
                Stores.persistent_timestamped_window_store_with_headers("kept", "1 hour", "1 minute")
            ),
            "Stores.session_store_with_headers_builder.supplier": (
                Stores.persistent_session_store_with_headers("kept", "1 hour")
            ),
            "Stores.versioned_key_value_store_builder.supplier": versioned,
            "suppliers": "in_memory",
            "buffer": BufferConfig.unbounded(),
            "duration": "1 hour",
            "windows": self.minutes,
            "KStream.join.windows": JoinWindows.of_time_difference_with_no_grace("1 minute"),
            "KStream.left_join.windows": JoinWindows.of_time_difference_with_no_grace("1 minute"),
            "KStream.outer_join.windows": JoinWindows.of_time_difference_with_no_grace("1 minute"),
            "other": self.other if place.startswith("KStream") else self.other_table,
            "grouped": self.grouped,
            "suppressed": Suppressed.until_time_limit("1 minute", BufferConfig.unbounded()),
            "strategy": EmitStrategy.on_window_update(),
            "builder": Stores.key_value_store_builder(Stores.persistent_key_value_store("kept"), str, str),
            "topic": "a-topic",
            "count": 5,
            "partitions": 5,
            "max_cache_size": 5,
            "retention_period": "1 hour",
            "offset_reset": "latest",
            "timestamp": lambda key, value: 0,
            "start": 0,
            "printed": penstock.Printed.to_sys_out(),
            "label": "label",
            "path": "seen.txt",
            "size": 60_000,
        }
        if parameter in every:
            return every.get(f"{place}.{parameter}", every[parameter])
        kind = KINDS[parameter]
        return every.get(f"{place}.{parameter}", "1 minute" if kind is DURATION else str if kind is TYPE else "a-name")


OPTIONS = [
    "AutoOffsetReset",
    "Branched",
    "Consumed",
    "Deduplicated",
    "Grouped",
    "Joined",
    "Materialized",
    "Printed",
    "Produced",
    "Repartitioned",
    "StreamJoined",
    "TableJoined",
    "Stores",
]
NOT_CALLED = {
    "AutoOffsetReset.begins_at": "the engine's",
    "AutoOffsetReset.of": "the engine's",
    "AutoOffsetReset.by_timestamp": "takes a time, see test_offset_reset",
    "Branched.result": "the engine's",
    "UnlimitedWindows.until": "always refused, see tests/dsl/test_windows.py",
    "Printed.printer": "the engine's",
    "KGroupedStream.parent_for": "the engine's",
    "KStream.to_spark_table": "takes tables of Spark, see tests/dsl/test_spark_tables.py",
    "KTable.to_spark_table": "takes tables of Spark, see tests/dsl/test_spark_tables.py",
    "StreamsBuilder.source": "takes sources, see tests/sources/test_threads.py",
    "KStream.to_sink": "takes sinks, see tests/sinks/test_sqlite.py",
    "KTable.to_sink": "takes sinks, see tests/sinks/test_sqlite.py",
    "KStream.to_dataframe": "takes a session of Spark, see tests/spark/test_tables_out.py",
    "Deduplicated.with_": "takes several forms, see tests/dsl/test_deduplicated.py",
    "Grouped.with_": "takes several forms, see tests/dsl/test_options.py",
}


def methods() -> dict[str, inspect.Signature]:
    """All public methods that take arguments."""
    found = {}
    for kind, instance in World().objects().items():
        for name, method in inspect.getmembers(instance, callable):
            if name.startswith("_") or f"{kind}.{name}" in NOT_CALLED:
                continue
            signature = inspect.signature(method)
            if signature.parameters:
                found[f"{kind}.{name}"] = signature
    return found


def cases() -> list[Any]:
    """Each argument of each method with each value that is wrong."""
    found = []
    for place, signature in methods().items():
        for parameter in signature.parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                continue
            kind = KINDS[parameter.name]
            argument = f"{place}.{parameter.name}"
            wrong = ITERATED if argument in ITERATED_BY else AWAITED if argument in AWAITED_BY else kind
            for told, value in wrong.items():
                if (parameter.name, told) not in MEANT or place.startswith("JoinWindows.of_"):
                    found.append(pytest.param(place, parameter.name, value, id=f"{place}-{parameter.name}-{told}"))
    return found


def called(place: str, **arguments: Any) -> Any:
    """Call a method with these arguments, and with what else it needs."""
    world = World()
    kind, _, name = place.partition(".")
    method = getattr(world.objects()[kind], name)
    variadic = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    parameters = inspect.signature(method).parameters.values()
    needed = [one.name for one in parameters if one.default is one.empty and one.kind not in variadic]
    needed += ["windows"] if place in ("KStream.join", "KStream.left_join") else []
    return method(**{one: world.valid(place, one) for one in needed} | arguments)


@pytest.mark.filterwarnings("ignore:until is deprecated")
@pytest.mark.parametrize("place", methods())
def test_a_method_works_with_arguments_that_are_meant(place: str):
    called(place)


@pytest.mark.filterwarnings("ignore:until is deprecated")
@pytest.mark.parametrize(("place", "parameter", "value"), cases())
def test_an_argument_that_cannot_be_meant_is_refused_by_its_name(place: str, parameter: str, value: Any):
    with pytest.raises(PenstockError) as error:
        called(place, **{parameter: value})
    kind, _, name = place.partition(".")
    words = parameter.replace("_", "[_ ]")
    assert re.search(rf"\b{words}|{name}|{kind}|{re.escape(repr(value))}", str(error.value)), str(error.value)


# --- functions beside the DSL --------------------------------------------------------------------------------------

TOPIC: Wrong = NAME
PARTITION: Wrong = COUNT | {"beyond those that there are": 9}
FORM: Wrong = {"a number": 5, "a form that there is not": "excel", "a list": []}
COLUMN: Wrong = {"a column that there is not": "other", "a number": 5}
APPLICATION: Wrong = {"a number": 5, "a list": [], "empty": "", "a function": len, "one that there is not": "nobody"}

COLUMN_NAME: Wrong = {"a number": 5, "a list": [], "a column of a topic that is not given": {"other": "a"}}
TIME: Wrong = {"a word": "soon", "a negative number": -1, "NaN": math.nan, "a list": [], "a function": len}
LISTED: Wrong = {"text": "rows", "a number": 5, "nothing": None, "a dict": {"a": "x"}, "a function": len}
ROWS: Wrong = LISTED | {"rows that are no pairs": [5], "rows that are text": ["ax"]}
PIPED: dict[str, Wrong] = {
    "value": {"a number": 5, "a list": []},
    "timestamp": TIME,
    "headers": {"a number": 5, "text": "id", "no pairs": [5]},
}
STORE_METHODS = [
    "store",
    "get_state_store",
    "get_key_value_store",
    "get_timestamped_key_value_store",
    "get_versioned_key_value_store",
    "get_window_store",
    "get_timestamped_window_store",
    "get_session_store",
    "get_timestamped_key_value_store_with_headers",
    "get_timestamped_window_store_with_headers",
    "get_session_store_with_headers",
]

FUNCTIONS: dict[str, dict[str, Wrong]] = {
    "consume": {"topic": TOPIC, "key": TYPE, "value": TYPE, "partition": PARTITION, "start": COUNT, "as_": FORM},
    "produce": {
        "rows": {"text": "rows", "a number": 5, "rows that are no pairs": [5]},
        "topic": TOPIC,
        "key": TYPE,
        "value": TYPE,
        "partitions": COUNT,
        "log": PLACE,
    },
    "produce_columns": {
        "columns": {"text": "rows", "a number": 5, "a list": [1]},
        "topic": TOPIC,
        "key": COLUMN,
        "value": COLUMN,
        "timestamp": COLUMN,
        "headers": COLUMN,
        "partitions": COUNT,
        "log": PLACE,
    },
    "open_store": {"application": APPLICATION, "name": {"one that there is not": "other"}, "max_age": DURATION},
    "Kafka": {"servers": {"a number": 5, "empty": "", "a list": []}, "timeout": {"text": "soon", "NaN": math.nan}},
    "col": {"name": {"a number": 5, "empty": "", "two dots": "a..b", "None": None}},
    "columnar": {"function": NO_FUNCTION | {"text": "value", "one of Python's own": len}},
    "pipe": {
        "steps": FUNCTION | {"a function that returns nothing": lambda stream: None},
        "records": ROWS,
        "key": TYPE,
        "value": TYPE,
    },
    "Topology.describe": {"format": FORM},
    "Topology.batches": {
        "application_id": NAME | {"nothing": None},
        "topic": TOPIC | {"one that the topology does not read": "other", "one that it writes": "out"},
        "key": COLUMN_NAME,
        "value": COLUMN_NAME,
        "timestamp": COLUMN_NAME,
        "order": COLUMN_NAME | {"three columns": ("a", "b", "c")},
        "timestamp_unit": {"a number": 5, "a word": "min", "a list": []},
        "log": PLACE | {"one that is in memory": MemoryLog()},
        "partitions": COUNT | {"none": 0},
        "name": {"a number": 5, "empty": "", "a list": []},
        "on_error": {"a word": "ignore"},
        "on_eror": {"a setting that there is not": "skip"},
    },
    "TopologyTestDriver": {"topology": OPTION, "application_id": NAME, "partitions": COUNT | {"none": 0}},
    "TopologyTestDriver.pipe_input": PIPED
    | {"topic": TOPIC, "key": {"a number": 5, "a list": []}, "partition": PARTITION},
    "TopologyTestDriver.pipe_record_list": {"topic": TOPIC, "records": ROWS},
    "TopologyTestDriver.advance_wall_clock_time": {"duration": DURATION},
    "TopologyTestDriver.create_input_topic": {
        "topic": TOPIC,
        "key": TYPE,
        "value": TYPE,
        "start": TIME,
        "auto_advance": DURATION,
    },
    "TopologyTestDriver.create_output_topic": {"topic": TOPIC, "key": TYPE, "value": TYPE},
    "TopologyTestDriver.read_output": {"topic": TOPIC},
    "TopologyTestDriver.stream_time": {"node": NAME | {"one that there is not": "other"}},
    "TopologyTestDriver.timeline": {"node": NAME | {"one that there is not": "other"}},
    "TestInputTopic.advance_time": {"duration": DURATION},
    "TestInputTopic.pipe_input": PIPED,
    "TestInputTopic.pipe_value_list": {"values": LISTED, "start": TIME, "advance": DURATION},
    "TestInputTopic.pipe_key_value_list": {"pairs": ROWS, "start": TIME, "advance": DURATION},
    "TestInputTopic.pipe_record_list": {"records": ROWS | {"pairs": [("a", "x")]}},
} | {f"TopologyTestDriver.{method}": {"name": NAME | {"one that there is not": "other"}} for method in STORE_METHODS}
"""The arguments of functions, each with what it cannot be."""

NOT_TRIED = {"TopologyTestDriver.types_of": "the driver's own", "TopologyTestDriver.unread": "the driver's own"}
GIVEN: dict[str, dict[str, Any]] = {
    "consume": {"topic": "t"},
    "produce": {"rows": [("a", "x", 0)], "topic": "t"},
    "produce_columns": {"columns": {"k": ["a"], "v": ["x"]}, "topic": "t", "key": "k", "value": "v"},
    "open_store": {"application": "app", "name": "counts"},
    "Kafka": {"servers": "localhost:9092"},
    "col": {"name": "amount"},
    "columnar": {"function": lambda keys, values: values},
    "pipe": {"steps": lambda stream: stream, "records": [("a", "x")]},
    "Topology.batches": {"application_id": "app", "topic": "in"},
    "TopologyTestDriver.pipe_input": {"topic": "in", "key": "a", "value": "x"},
    "TopologyTestDriver.pipe_record_list": {"topic": "in", "records": [("a", "x")]},
    "TopologyTestDriver.advance_wall_clock_time": {"duration": "1 s"},
    "TopologyTestDriver.create_input_topic": {"topic": "in"},
    "TopologyTestDriver.create_output_topic": {"topic": "out"},
    "TopologyTestDriver.read_output": {"topic": "out"},
    "TopologyTestDriver.stream_time": {"node": "KSTREAM-SOURCE-0000000000"},
    "TopologyTestDriver.timeline": {"key": "a"},
    "TestInputTopic.advance_time": {"duration": "1 s"},
    "TestInputTopic.pipe_input": {"key_or_value": "a", "value": "x"},
    "TestInputTopic.pipe_value_list": {"values": ["x"]},
    "TestInputTopic.pipe_key_value_list": {"pairs": [("a", "x")]},
    "TestInputTopic.pipe_record_list": {"records": [Record("a", "x", 0)]},
} | {f"TopologyTestDriver.{method}": {"name": "kept"} for method in ("store", "get_state_store", "get_key_value_store")}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a topic ``t`` of one partition in ``log``."""
    folder = tmp_path_factory.mktemp("world")
    penstock.produce([("a", "x", 0)], "t", str, str, log=folder / "log")
    return folder


def call(name: str, folder: Path, arguments: dict[str, Any]) -> Any:
    """Call a function with these arguments, and with what else it needs."""
    given = GIVEN.get(name, {})
    owner, _, method = name.rpartition(".")
    if owner or name in ("TopologyTestDriver", "pipe"):
        return _tried(owner, method, {**given, **arguments})
    if name in ("consume", "produce", "produce_columns"):
        given = {**given, "log": folder / "log"}
    result = getattr(penstock, name)(**{**given, **arguments})
    return list(result) if name == "consume" else result


@pytest.mark.parametrize(
    ("name", "parameter", "told"),
    [
        (name, parameter, told)
        for name, parameters in FUNCTIONS.items()
        for parameter, wrong in parameters.items()
        for told in wrong
    ],
)
def test_an_argument_of_a_function_that_cannot_be_meant_is_refused(
    name: str, parameter: str, told: str, world: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(world)
    before = sorted(world.iterdir())
    with pytest.raises(PenstockError):
        call(name, world, {parameter: FUNCTIONS[name][parameter][told]})
    assert sorted(world.iterdir()) == before, "nothing was made"


def _tried(owner: str, method: str, given: dict[str, Any]) -> Any:
    """Call a method of a topology or of its driver, or what makes these."""
    if method == "pipe":
        return pipe(**given)
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).to("out")
    builder.global_table("all", key=str, value=str, store="kept")
    topology = builder.build()
    if owner == "Topology":
        return getattr(topology, method)(**given)
    if not owner:
        return TopologyTestDriver(**{"topology": topology, **given})
    driver = TopologyTestDriver(topology)
    return getattr(driver if owner == "TopologyTestDriver" else driver.create_input_topic("in"), method)(**given)


@pytest.mark.parametrize("kind", [TopologyTestDriver, TestInputTopic, TestOutputTopic])
def test_all_methods_of_the_driver_and_its_topics_are_tried(kind: Any):
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        if not name.startswith("_") and len(inspect.signature(method).parameters) > 1:
            assert f"{kind.__name__}.{name}" in FUNCTIONS | NOT_TRIED


OF_OTHER_STORES = [f"TopologyTestDriver.{method}" for method in STORE_METHODS[3:]]


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in ("open_store", *OF_OTHER_STORES)])
def test_a_function_works_with_arguments_that_are_meant(name: str, world: Path):
    call(name, world, {})


SETTINGS: dict[str, Wrong] = {
    "log_dir": PLACE,
    "log": PLACE,
    "state_dir": PLACE,
    "checkpoint": {
        "a number": 5,
        "a list": [],
        "empty": "",
        "a web page": "https://example.com/x",
        "Kafka": "kafka://h",
    },
    "schema_registry": {"a path": "a/b", "Kafka": "kafka://host:9092", "a number": 5},
    "dead_letter_topic": NAME,
    "on_error": {"a word": "ignore", "a number": 5, "a topic that cannot be": "dead_letter:a/b"},
    "commit_interval": DURATION,
    "max_task_idle": DURATION,
    "slot_timeout": DURATION,
    "commit_max_bytes": COUNT,
    "chunk_records": COUNT,
    "chunk_bytes": COUNT,
    "statestore_cache_max_bytes": COUNT,
    "output_partitions": COUNT,
    "processing_guarantee": {"a word": "at_most_once", "a number": 5},
    "deserialization_exception_handler": NO_FUNCTION | ASYNCHRONOUS | GENERATORS | {"a word": "ignore"},
    "processing_exception_handler": NO_FUNCTION | ASYNCHRONOUS | GENERATORS | {"a word": "ignore"},
    "production_exception_handler": NO_FUNCTION | ASYNCHRONOUS | GENERATORS | {"a word": "ignore"},
    "auto_offset_reset": {"a word": "middle", "a number": 5, "an object": object()},
    "require_names": FLAG,
}


@pytest.mark.parametrize(("name", "told"), [(name, told) for name, wrong in SETTINGS.items() for told in wrong])
def test_a_setting_that_cannot_be_meant_is_refused_by_its_name(name: str, told: str):
    with pytest.raises(PenstockError) as error:
        Settings.load(environment={}, **{name: SETTINGS[name][told]})
    assert name in str(error.value) or repr(SETTINGS[name][told]) in str(error.value), str(error.value)
