"""The mistakes that somebody makes who knows Kafka Streams in Java: each message says where, what was
expected, what came and what to do."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import (
    BufferConfig,
    Consumed,
    JoinWindows,
    Materialized,
    Processor,
    Produced,
    PunctuationType,
    Record,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)
from penstock.errors import ConfigError, PenstockError
from penstock.testing import TopologyTestDriver

B = StreamsBuilder
Build = Callable[[StreamsBuilder, Any], Any]
SHARED: list[str] = []
HOUR = TimeWindows.of_size_with_no_grace("1 hour")
JOINED = JoinWindows.of_time_difference_with_no_grace("1 minute")
ORDER = "the initializer comes first: a function without arguments that gives the first aggregate, such as lambda: 0"


@dataclasses.dataclass
class Point:
    x: int


class Plain:
    """A class that forgot its base and its method."""


class Kept(Processor[Any, Any]):
    """A processor that keeps its context."""

    def init(self, context: Any) -> None:
        self.context = context

    def process(self, record: Any) -> None:
        pass


class ReadsAStore(Kept):
    def init(self, context: Any) -> None:
        context.get_state_store("counts")


class FailsInInit(Kept):
    def init(self, context: Any) -> None:
        context.schedule(1000, self.punctuated, "STREAM_TIME")  # type: ignore[attr-defined]


class ForwardsTwo(Kept):
    def process(self, record: Any) -> None:
        self.context.forward(record.key, record.value)


class ForwardsWithoutTime(Kept):
    def process(self, record: Any) -> None:
        self.context.forward(Record(record.key, record.value))  # type: ignore[call-arg]


class CallsTheKey(Kept):
    def process(self, record: Any) -> None:
        self.context.forward(Record(record.key(), record.value, 0))


AT_THE_CALL: dict[str, tuple[Build, str]] = {
    "a type as text": (
        lambda b, s: b.stream("other", value="str"),
        "value: the text 'str' is no type; use str, int, float, bytes, dict, a dataclass, a msgspec.Struct, a "
        "schema or a Serde, without quotes. If it names a store: store='str'",
    ),
    "types as text in an option object": (
        lambda b, s: b.stream("other", Consumed.with_("str", "int")),
        "key: the text 'str' is no type; use str, int, float, bytes, dict, a dataclass, a msgspec.Struct, a "
        "schema or a Serde, without quotes. If it names a store: store='str'",
    ),
    "the windows of a join before its joiner": (
        lambda b, s: s.join(b.stream("other"), JOINED, max),
        "the windows of join at HERE must be of type JoinWindows; got <built-in function max> of type "
        "builtin_function_or_method; the joiner comes first: join(other, joiner, windows)",
    ),
    "a join of streams without windows": (
        lambda b, s: s.join(b.stream("other"), lambda one, other: one),
        "the windows of join at HERE must be of type JoinWindows; got None of type NoneType; such as "
        "JoinWindows.of_time_difference_with_no_grace(...): join(other, joiner, windows)",
    ),
    "an aggregator before the initializer": (
        lambda b, s: s.group_by_key().aggregate(lambda key, value, total: total, lambda: 0),
        f"aggregate at HERE takes a function without arguments; got '<lambda>' of (key, value, total); {ORDER}",
    ),
    "a first aggregate in place of the initializer": (
        lambda b, s: s.group_by_key().aggregate([], lambda key, value, total: total),
        f"aggregate at HERE takes a function without arguments; got [] of type list; {ORDER}",
    ),
    "an initializer that gives one list to all": (
        lambda b, s: s.group_by_key().aggregate(lambda: SHARED, lambda key, value, seen: [*seen, value]),
        "aggregate at HERE: the initializer <lambda>.<locals>.<lambda> at HERE gives the same list each time, which "
        "the aggregates of all keys would share; have it make a new one, such as lambda: []",
    ),
    "the same of a cogroup": (
        lambda b, s: s.group_by_key().cogroup(lambda key, value, seen: [*seen, value]).aggregate(lambda: SHARED),
        "aggregate at HERE: the initializer <lambda>.<locals>.<lambda> at HERE gives the same list each time, which "
        "the aggregates of all keys would share; have it make a new one, such as lambda: []",
    ),
    "an aggregator that changes its list and returns nothing": (
        lambda b, s: s.group_by_key().aggregate(list, lambda key, value, seen: seen.append(value)),
        "aggregate at HERE: the aggregator <lambda>.<locals>.<lambda> at HERE always returns None, which deletes the "
        "aggregate; it must return the new aggregate",
    ),
    "a foreign key by position": (
        lambda b, s: b.table("a").join(b.table("c"), lambda value: value, lambda one, other: one),
        "join at HERE: value is the type of the results; got a function; a join by a foreign key is join(other, "
        "joiner, foreign_key=...)",
    ),
    "a predicate of the value": (
        lambda b, s: s.filter(lambda value: True),
        "filter at HERE takes a function of (key, value); got '<lambda>' of (value); write lambda key, value: ...",
    ),
    "a joiner of one": (
        lambda b, s: s.join(b.table("t"), lambda value: value),
        "join at HERE takes a function of (left, right) or (key, left, right); got '<lambda>' of (value); write lambda "
        "left, right: ...",
    ),
    "a mapper of too many": (
        lambda b, s: s.map_values(lambda one, two, three, four: 1),
        "map_values at HERE takes a function of (value) or (key, value); got '<lambda>' of (one, two, three, four); "
        "write lambda value: ...",
    ),
    "a group by the value alone": (
        lambda b, s: s.group_by(lambda value: value),
        "group_by at HERE takes a function of (key, value); got '<lambda>' of (value); write lambda key, value: ...",
    ),
    "a reducer with a key": (
        lambda b, s: s.group_by_key().reduce(lambda key, one, other: one),
        "reduce at HERE takes a function of (aggregate, value); got '<lambda>' of (key, one, other); a reducer gets no "
        "key; aggregate(...) does, and a third argument called context is that of the record",
    ),
    "a time of half a millisecond": (
        lambda b, s: TimeWindows.of_size_with_no_grace(60.5),
        "the size of windows must be an int of milliseconds, a timedelta or text such as '10 minutes'; got 60.5 of "
        "type float",
    ),
    "a unit that there is not": (
        lambda b, s: TimeWindows.of_size_with_no_grace("1 hr"),
        "the size of windows: 'hr' in '1 hr' is no unit of time; use ms, s, min, h, d or w",
    ),
    "final results that come early": (
        lambda b, s: Suppressed.until_window_closes(BufferConfig.max_records(10)),
        "until_window_closes sends one final result for each window and cannot send it early; got "
        "EagerBufferConfig(record_limit=10, byte_limit=None, when_full='emit_early'). Use BufferConfig.unbounded(), or "
        "end the buffer's configuration with .shut_down_when_full() or .spill_to_disk_when_full()",
    ),
    "a processor that is made already": (
        lambda b, s: s.process(Kept()),
        "process at HERE takes a Processor class, a supplier with get(), a function without arguments that returns a "
        "new Processor, or a function of (record, context); got one object of type Kept, but each task makes its own. "
        "Give the class Kept itself, or a function that makes one, such as lambda: Kept(...)",
    ),
    "a function of one for a processor": (
        lambda b, s: s.process(lambda record: record),
        "process at HERE takes a Processor class, a supplier with get(), a function without arguments that returns a "
        "new Processor, or a function of (record, context); got '<lambda>' of (record)",
    ),
    "a branch after the default one": (
        lambda b, s: [split := s.split(), split.default_branch(), split.branch(lambda key, value: True)],
        "branch at HERE comes after default_branch of the split at HERE, which takes all other records; put it before",
    ),
    "keys of two types in a join": (
        lambda b, s: s.join(b.table("t", key=int), lambda one, other: one),
        "join at HERE: the left side has keys of type str, the right side of type int, so equal keys are not equal "
        "bytes. Bring one side to the other's type with select_key or map, or read its topic with another key=",
    ),
    "a branch without its prefix": (
        lambda b, s: s.split("by-").branch(lambda key, value: True, "a").default_branch()["a"],
        "there is no branch 'a' at HERE; there are 'by-a', 'by-0'. split(...) puts its name in front: 'by-a'",
    ),
    "a branch that is misspelled": (
        lambda b, s: s.split().branch(lambda key, value: True, "large").default_branch("small")["lage"],
        "there is no branch 'lage' at HERE; there are 'large', 'small' (did you mean 'large'?)",
    ),
    "a duration without a unit": (
        lambda b, s: TimeWindows.of_size_with_no_grace("60"),
        "the size of windows: cannot read '60' as a duration; it has no unit: write '60 ms' or '60 s', or the "
        "number of "
        "milliseconds without quotes",
    ),
    "a negative duration as text": (
        lambda b, s: TimeWindows.of_size_with_no_grace("-5 minutes"),
        "the size of windows: cannot read '-5 minutes' as a duration; a duration is not negative; write it like "
        "'10 minutes' or '1 h 30 min'",
    ),
    "the class of windows in place of windows": (
        lambda b, s: s.group_by_key().windowed_by(TimeWindows),
        "windowed_by at HERE takes TimeWindows, SlidingWindows, SessionWindows or UnlimitedWindows, for example "
        "TimeWindows.of_size_and_grace(...); got the class TimeWindows itself, which has no size",
    ),
    "a field's name in place of a function": (
        lambda b, s: s.group_by("item"),
        "group_by at HERE takes a function of (key, value); got 'item' of type str; write lambda key, value: ...",
    ),
    "the result of a function in place of the function": (
        lambda b, s: s.filter(True),
        "filter at HERE takes a function of (key, value); got True of type bool; write lambda key, value: ...",
    ),
    "a method's name in place of a mapper": (
        lambda b, s: s.map_values("upper"),
        "map_values at HERE takes a function of (value) or (key, value); got 'upper' of type str; write lambda "
        "value: ...",
    ),
    "a topic's name in place of a table": (
        lambda b, s: s.join("prices", lambda left, right: left),
        "join at HERE joins a stream with a stream, a table or a global table; got 'prices' of type str; read the "
        "topic first, with builder.stream('prices') or builder.table('prices')",
    ),
    "a group in place of a table": (
        lambda b, s: s.join(s.group_by_key(), lambda left, right: left),
        "join at HERE joins a stream with a stream, a table or a global table; got <KGroupedStream str -> str of "
        "KSTREAM-SOURCE-0000000000 at HERE> of type KGroupedStream; aggregate first, with count(), reduce(...) or "
        "aggregate(...), which returns a table",
    ),
    "a global table without the key to look up": (
        lambda b, s: s.join(b.global_table("prices"), lambda left, right: left),
        "join with a global table: key_selector at HERE takes a function of (key, value); got None of type NoneType; "
        "give key_selector=lambda key, value: ..., which returns a key of the global table",
    ),
    "a class that is no processor": (
        lambda b, s: s.process(Plain),
        "process at HERE: the class Plain has no method process(record); define it, as in class Plain(Processor)",
    ),
    "a duration in place of a suppression": (
        lambda b, s: s.group_by_key().count().suppress("5 minutes"),
        "suppress at HERE takes a Suppressed, such as Suppressed.until_window_closes(BufferConfig.unbounded()); got "
        "'5 minutes'",
    ),
    "a number in place of a store's name": (
        lambda b, s: s.group_by_key().count(5),
        "store= at HERE must be of type str; got 5 of type int; it is the name of the store; give a Materialized as "
        "materialized=",
    ),
    "a driver of a builder": (
        lambda b, s: TopologyTestDriver(b),
        "TopologyTestDriver takes a Topology; got OBJECT of type StreamsBuilder; give builder.build()",
    ),
}

AT_THE_BUILD: dict[str, tuple[Build, str]] = {
    "final results without windows": (
        lambda b, s: s.group_by_key().count().suppress(Suppressed.until_window_closes()),
        "until_window_closes needs windows, and 'KSTREAM-AGGREGATE-0000000002' has none: KSTREAM-SOURCE-0000000000 -> "
        "KSTREAM-AGGREGATE-0000000002. Suppress the result of a windowed aggregation, or use "
        "Suppressed.until_time_limit(...)",
    ),
    "a store that was not added": (
        lambda b, s: s.process(Kept, "counts"),
        "the processor KSTREAM-PROCESSOR-0000000001 at HERE names a store 'counts' that does not exist; there are "
        "no stores. Add it with builder.add_state_store(...); if it belongs to a table, name it there: "
        "store='counts'",
    ),
    "one topic of two types": (
        lambda b, s: b.stream("in", value=int),
        "topic 'in' is read with different types or timestamps at HERE and HERE; read it once and use the stream twice",
    ),
}


def built(build: Build) -> TopologyTestDriver:
    builder = StreamsBuilder()
    build(builder, builder.stream("in", key=str, value=str))
    return TopologyTestDriver(builder.build())


def refusal(build: Build) -> str:
    with pytest.raises(PenstockError) as refused:
        built(build)
    text = re.sub(re.escape(__file__) + r":\d+", "HERE", str(refused.value))
    return re.sub(r"<[\w.]+ object at 0x\w+>", "OBJECT", text)


@pytest.mark.parametrize("name", AT_THE_CALL)
def test_a_mistake_is_told_at_the_call(name: str):
    build, said = AT_THE_CALL[name]
    assert refusal(build) == said


@pytest.mark.parametrize("name", AT_THE_BUILD)
def test_a_mistake_is_told_when_the_topology_is_built(name: str):
    build, said = AT_THE_BUILD[name]
    assert refusal(build) == said


def hourly(stream: Any) -> Any:
    return stream.group_by_key().windowed_by(HOUR).count()


AT_THE_RECORD: dict[str, tuple[Build, str]] = {
    "an int where text was": (
        lambda b, s: s.map_values(lambda value: len(value)).to("out"),
        "map_values at HERE returned 5 of type int where str is expected",
    ),
    "an int as a key": (
        lambda b, s: s.select_key(lambda key, value: len(value)).group_by_key().count(),
        "select_key at HERE returned the key 5 of type int where str is expected",
    ),
    "an object of a class of one's own": (
        lambda b, s: s.map_values(lambda value: Point(1)).to("out"),
        "map_values at HERE returned Point(x=1) of type Point where str is expected",
    ),
    "a value where a pair was expected": (
        lambda b, s: s.map(lambda key, value: value).to("out"),
        "TypeError: the function must return a pair (key, value), got 'bytes'; map_values changes values alone, and "
        "select_key keys alone",
    ),
    "a pair as in Java": (
        lambda b, s: s.map(lambda key, value: KeyValue.pair(key, value)).to("out"),  # type: ignore[name-defined] # noqa: F821
        "NameError: name 'KeyValue' is not defined; a pair is a tuple: (key, value)",
    ),
    "text where several values were expected": (
        lambda b, s: s.flat_map_values(lambda value: value.upper()).to("out"),
        "TypeError: the function must return values to iterate over, got 'BYTES'; for one result return [result], for "
        "none []; a text or a dict is not taken apart",
    ),
    "a dict where several values were expected": (
        lambda b, s: s.flat_map_values(lambda value: {"value": value}).to("out"),
        "TypeError: the function must return values to iterate over, got {'value': 'bytes'}; for one result return "
        "[result], for none []; a text or a dict is not taken apart",
    ),
    "a record where several values were expected": (
        lambda b, s: s.flat_map_values(lambda value: Record(value, value, 0)).to("out"),
        "TypeError: the function must return values to iterate over, got Record(key='bytes', value='bytes', "
        "timestamp=0, headers=()); for one result return [result], for none []; a text or a dict is not taken apart",
    ),
    "None where several values were expected": (
        lambda b, s: s.flat_map_values(lambda value: None).to("out"),
        "TypeError: the function must return values to iterate over, got None; for one result return [result], for "
        "none []; a text or a dict is not taken apart",
    ),
    "a sink of another type": (
        lambda b, s: s.to("out", Produced.with_(str, int)),
        "the serde 'int' cannot encode 'bytes' of type str",
    ),
    "a key that is called": (
        lambda b, s: hourly(s).to_stream(lambda windowed, count: windowed.key()).to("out"),
        "TypeError: 'str' object is not callable; it is no method here: .key without parentheses",
    ),
    "a windowed key whose window is called": (
        lambda b, s: hourly(s).to_stream(lambda windowed, count: windowed.window().start).to("out"),
        "TypeError: 'Window' object is not callable; it is no method here: .window without parentheses",
    ),
    "a processor that calls a record's key": (
        lambda b, s: s.process(CallsTheKey).to("out"),
        "TypeError: 'str' object is not callable; it is no method here: .key without parentheses",
    ),
    "a record without a timestamp": (
        lambda b, s: s.process(ForwardsWithoutTime).to("out"),
        "TypeError: Missing required argument 'timestamp'; a record is Record(key, value, timestamp); one like another "
        "is record.with_value(...)",
    ),
    "a misspelled attribute": (
        lambda b, s: s.map_values(lambda value: value.uper()).to("out"),
        "AttributeError: 'str' object has no attribute 'uper' (did you mean 'upper'?)",
    ),
    "a key and a value that are forwarded": (
        lambda b, s: s.process(ForwardsTwo).to("out"),
        "KSTREAM-PROCESSOR-0000000001: forward takes a Record; got 'a' of type str. Begin with the record that came "
        "in, such as record.with_value(...), or make one: Record(key, value, timestamp)",
    ),
}


@pytest.mark.parametrize("name", AT_THE_RECORD)
def test_a_mistake_is_told_at_the_record_with_the_function_and_the_way_out(name: str):
    build, said = AT_THE_RECORD[name]
    driver = built(build)
    with pytest.raises(PenstockError) as refused:
        driver.pipe_input("in", "a", "bytes", 0)
    first, *others = str(refused.value).splitlines()
    assert re.sub(re.escape(__file__) + r":\d+", "HERE", first.partition("offset 0: ")[2]) == said
    assert others[0] == "  the record: key 'a', value 'bytes', timestamp 0"
    assert "nothing of this batch was committed" in others[-1]


def test_a_processor_that_fails_before_its_first_record_says_where():
    with pytest.raises(PenstockError) as refused:
        built(lambda b, s: s.process(FailsInInit).to("out"))
    assert re.sub(re.escape(__file__) + r":\d+", "HERE", str(refused.value)).splitlines() == [
        "KSTREAM-PROCESSOR-0000000001 could not be made ready: AttributeError: 'FailsInInit' object has no attribute "
        "'punctuated'",
        '  the line: HERE: context.schedule(1000, self.punctuated, "STREAM_TIME")  # type: ignore[attr-defined]',
        "  nothing of this batch was committed; fix the processor's supplier or its init, and start again",
    ]


def test_a_processor_that_asks_for_a_store_that_it_is_not_connected_to():
    assert refusal(lambda b, s: s.process(ReadsAStore)) == (
        "the processor KSTREAM-PROCESSOR-0000000001 is not connected to a store 'counts'; its stores: none. Name the "
        "store after the processor in process(...), or return its builder from the supplier's stores()"
    )


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda driver: driver.pipe_input("inn", "a", "b"),
            "the topology does not read a topic 'inn'; it reads these topics: in",
        ),
        (
            lambda driver: driver.read_output("oo"),
            "the topology does not write a topic 'oo'; it writes these topics: out",
        ),
        (
            lambda driver: driver.pipe_input("in", 5, "b"),
            "pipe_input into 'in': the serde 'str' cannot encode 5 of type int. The source reads keys of type str; "
            "where another one is meant, say key=int where the topic is read",
        ),
    ],
)
def test_a_driver_says_what_its_topology_reads_and_writes(call: Callable[[TopologyTestDriver], Any], said: str):
    driver = built(lambda b, s: s.to("out"))
    with pytest.raises(PenstockError) as refused:
        call(driver)
    assert str(refused.value) == said


def test_topics_of_other_numbers_of_partitions_are_told_before_spark_starts(tmp_path: Path):
    for topic, partitions in (("in", 2), ("t", 3)):
        penstock.produce([("a", "x")], topic, value=str, partitions=partitions, log=tmp_path / "log")
    builder = StreamsBuilder()
    builder.stream("in", value=str).join(builder.table("t", value=str), lambda one, other: one).to("out")
    with pytest.raises(PenstockError, match=r"needs topics with the same number of partitions.*'in' has 2, 't' has 3"):
        builder.build().start("app", log=tmp_path / "log", state_dir=tmp_path / "state", trigger="available-now")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"commit_interval_ms": 100},
            "unknown setting 'commit_interval_ms' (keyword): here it is commit_interval, in ",
        ),
        (
            {"commit.interval.ms": 100},
            "unknown setting 'commit.interval.ms' (keyword): here it is commit_interval, in ",
        ),
        ({"num_stream_threads": 4}, "unknown setting 'num_stream_threads' (keyword): here it is slots of start(...)"),
    ],
)
def test_settings_by_their_names_in_java_say_what_they_are_here(settings: dict[str, Any], said: str):
    builder = StreamsBuilder()
    builder.stream("in").to("out")
    with pytest.raises(ConfigError) as refused:
        builder.build().start("app", **settings)
    assert str(refused.value).startswith(said)


class SchedulesInJavasOrder(Kept):
    def init(self, context: Any) -> None:
        super().init(context)
        context.schedule("1 s", PunctuationType.STREAM_TIME, lambda now: None)

    def process(self, record: Any) -> None:
        self.context.forward(record)


MEANT: dict[str, tuple[Build, list[tuple[Any, Any]]]] = {
    "a Materialized where Java has it": (
        lambda b, s: s.group_by_key().count(Materialized.as_("counts")).to_stream().to("out"),
        [("a", 1)],
    ),
    "a suppression without a buffer's size": (
        lambda b, s: s.group_by_key().count().suppress(Suppressed.until_time_limit(0)).to_stream().to("out"),
        [("a", 1)],
    ),
    "the key of a windowed key": (
        lambda b, s: hourly(s).to_stream(lambda windowed, count: windowed.key).to("out"),
        [("a", 1)],
    ),
    "the start of a windowed key's window": (
        lambda b, s: hourly(s).to_stream(lambda windowed, count: f"from {windowed.window.start}").to("out"),
        [("from 0", 1)],
    ),
    "a schedule in Java's order": (
        lambda b, s: s.process(SchedulesInJavasOrder, key=str, value=str).to("out"),
        [(None, "x"), ("a", "x")],
    ),
}


@pytest.mark.parametrize("name", MEANT)
def test_what_is_meant_works_though_it_looks_like_a_mistake(name: str):
    build, expected = MEANT[name]
    driver = built(build)
    driver.pipe_input("in", None, "x", 0)
    driver.pipe_input("in", "a", "x", 0)
    assert [tuple(record)[:2] for record in driver.read_output("out")] == expected
    assert driver.dropped_records_total() == (0 if name.startswith("a schedule") else 1)
