"""Names of Kafka Streams in Java, and misspelled ones: the message says what to write here."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import (
    AutoOffsetReset,
    BufferConfig,
    Consumed,
    JoinWindows,
    Materialized,
    Printed,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Windowed,
)
from penstock.cli.program import load_program
from penstock.errors import ConfigError, TopologyError
from penstock.testing import TopologyTestDriver
from penstock.usage.java_names import snake_case

BUILDER = StreamsBuilder()
STREAM = BUILDER.stream("in", value=str)
TABLE = STREAM.to_table("rows")
GROUPED = STREAM.group_by_key()
WINDOWS = TimeWindows.of_size_with_no_grace(10)


@pytest.mark.parametrize(
    ("owner", "name", "meant"),
    [
        (STREAM, "groupByKey", "group_by_key"),
        (STREAM, "mapValues", "map_values"),
        (STREAM, "leftJoin", "left_join"),
        (TABLE, "toStream", "to_stream"),
        (GROUPED, "windowedBy", "windowed_by"),
        (GROUPED.windowed_by(WINDOWS), "emitStrategy", "emit_strategy"),
        (StreamsBuilder().stream("in").split(), "defaultBranch", "default_branch"),
        (GROUPED.cogroup(lambda key, value, total: total), "windowedBy", "windowed_by"),
        (BUILDER, "globalTable", "global_table"),
        (BUILDER.build(), "addSource", "add_source"),
        (TopologyTestDriver(BUILDER.build()), "pipeInput", "pipe_input"),
        (TopologyTestDriver(BUILDER.build()).create_input_topic("in"), "pipeValueList", "pipe_value_list"),
        (TimeWindows, "ofSizeAndGrace", "of_size_and_grace"),
        (WINDOWS, "advanceBy", "advance_by"),
        (SessionWindows, "with", "with_"),
        (JoinWindows, "ofTimeDifferenceWithNoGrace", "of_time_difference_with_no_grace"),
        (SlidingWindows, "ofTimeDifferenceAndGrace", "of_time_difference_and_grace"),
        (Materialized, "as", "as_"),
        (Materialized.as_("x"), "withKeySerde", "with_key_serde"),
        (Consumed, "with", "with_"),
        (Printed, "toSysOut", "to_sys_out"),
        (Suppressed, "untilWindowCloses", "until_window_closes"),
        (BufferConfig, "maxRecords", "max_records"),
        (Stores, "persistentKeyValueStore", "persistent_key_value_store"),
        (STREAM, "map_value", "map_values"),
        (TABLE, "to_streams", "to_stream"),
    ],
)
def test_a_name_in_javas_spelling_or_misspelled_names_the_one_that_is_there(owner: Any, name: str, meant: str):
    with pytest.raises(AttributeError, match=rf"has no attribute {name!r}; did you mean {meant!r}\?"):
        getattr(owner, name)


@pytest.mark.parametrize(
    ("owner", "name", "said"),
    [
        (TABLE, "to", "say to_stream() first: to_stream().to(...)"),
        (TABLE, "foreach", "say to_stream() first: to_stream().foreach(...)"),
        (TABLE, "groupByKey", "say to_stream() first: to_stream().group_by_key(...)"),
        (TABLE, "count", "group the rows first: group_by(...).count(...)"),
        (STREAM, "count", "group the records first"),
        (STREAM, "windowedBy", "group the records first"),
        (STREAM, "branch", "split() begins it"),
        (STREAM, "through", "repartition() sends records through an internal topic"),
        (STREAM, "transform", "use process"),
        (STREAM, "transformValues", "use process"),
        (STREAM, "suppress", "suppress is for tables"),
        (GROUPED, "toStream", "aggregate first"),
        (GROUPED, "to", "aggregate first"),
        (TimeWindows, "ofSize", "of_size_and_grace(size, grace) or of_size_with_no_grace(size)"),
        (SessionWindows, "of", "of_inactivity_gap_and_grace(gap, grace)"),
        (BUILDER, "start", "build the topology first: builder.build().start(...)"),
    ],
)
def test_what_java_alone_has_says_what_to_write_here(owner: Any, name: str, said: str):
    with pytest.raises(AttributeError) as failure:
        getattr(owner, name)
    assert said in str(failure.value)


@pytest.mark.parametrize(
    "name",
    [
        "WindowedSerdes",
        "KafkaStreams",
        "KeyValue",
        "Named",
        "Duration",
        "ValueMapper",
        "Properties",
        "TopologyTestDriver",
        "Headers",
    ],
)
def test_so_do_classes_that_are_not_in_the_package(name: str):
    with pytest.raises(AttributeError, match=f"module 'penstock' has no attribute '{name}'; .{{20}}"):
        getattr(penstock, name)
    with pytest.raises(ImportError, match=f"cannot import name '{name}' from 'penstock': .{{20}}"):
        exec(f"from penstock import {name}")
    assert not hasattr(penstock, name)


def test_other_names_are_as_unknown_as_ever():
    with pytest.raises(AttributeError, match=r"^'KStream' object has no attribute 'zzz'$"):
        STREAM.zzz  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'zzz'"):
        exec("from penstock import zzz")
    assert not hasattr(STREAM, "_repr_svg_")
    assert pickle.loads(pickle.dumps((WINDOWS, Windowed("a", 0, 10)))) == (WINDOWS, ("a", 0, 10))
    assert AutoOffsetReset.latest() == AutoOffsetReset.latest()


def test_spellings():
    assert [snake_case(name) for name in ("groupByKey", "to", "KTable", "of_size")] == [
        "group_by_key",
        "to",
        "ktable",
        "of_size",
    ]


def loaded(folder: Path, text: str) -> str:
    (folder / "java_app.py").write_text(text)
    with pytest.raises((ConfigError, TopologyError)) as failure:
        load_program(str(folder / "java_app.py"))
    return str(failure.value)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("StreamsBuilder().stream('in').groupByKey()", "did you mean 'group_by_key'?"),
        ("topology = KafkaStreams(StreamsBuilder().build(), {})", "name 'KafkaStreams' is not defined"),
        ("topology = KafkaStreams(StreamsBuilder().build(), {})", 'builder.build().start("application-id") runs'),
        ("from penstock import WindowedSerdes", "windowed keys have their types"),
    ],
)
def test_the_command_line_says_it_too(tmp_path: Path, line: str, said: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(__import__("sys").modules, "java_app", raising=False)
    assert said in loaded(tmp_path, f"from penstock import StreamsBuilder\n{line}\n")


@pytest.mark.parametrize(
    "join",
    [
        lambda stream, table: stream.join(table, lambda key, value: key, lambda one, other: one),
        lambda stream, table: stream.left_join(table, lambda key, value: key, lambda one, other: one),
    ],
)
def test_a_join_with_a_global_table_in_javas_order_names_the_keyword(join: Callable[[Any, Any], Any]):
    builder = StreamsBuilder()
    with pytest.raises(TopologyError, match=r"as in Java's order; .*join\(table, joiner, key_selector=...\)"):
        join(builder.stream("in"), builder.global_table("table"))


def test_a_driver_of_a_builder_says_to_build_it():
    with pytest.raises(ConfigError, match=r"takes a Topology; .* StreamsBuilder; give builder.build\("):
        TopologyTestDriver(BUILDER)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("owner", "name", "said"),
    [
        (
            GROUPED,
            "mapValues",
            "aggregate first, with count(), reduce(...) or aggregate(...), which gives a table;",
        ),
        (GROUPED.windowed_by(WINDOWS), "toStream", "which gives a table; then to_stream(...)"),
        (GROUPED.windowed_by(WINDOWS), "suppress", "which gives a table; then suppress(...)"),
        (GROUPED.cogroup(lambda key, value, total: total), "to", "which gives a table; then to_stream().to(...)"),
        (TABLE.group_by(lambda key, value: (key, value)), "to_stream", "which gives a table; then to_stream(...)"),
        (BUILDER, "addSource", "add_source is of a Topology: penstock.Topology().add_source(...)"),
        (STREAM, "union", "merge(other) puts two streams together"),
        (STREAM, "key_by", "select_key(...) gives records another key"),
        (STREAM, "write", "to(topic) writes records"),
        (STREAM, "show", "print() prints each record"),
        (STREAM, "start", "end with to(topic), then builder.build().start(...)"),
        (TABLE, "for_each", "say to_stream() first: to_stream().foreach(...)"),
        (TimeWindows, "tumbling", "tumbling windows are TimeWindows.of_size_and_grace(size, grace)"),
        (SlidingWindows, "of_size_and_grace", "it is of_time_difference_and_grace(difference, grace)"),
        (TopologyTestDriver(BUILDER.build()), "produce", "pipe_input(topic, key, value, timestamp=...)"),
        (TopologyTestDriver(BUILDER.build()), "consume", "read_output(topic) returns the records"),
        (penstock, "StreamBuilder", "did you mean 'StreamsBuilder'?"),
        (penstock, "TumblingWindows", "tumbling windows are TimeWindows.of_size_and_grace(size, grace)"),
    ],
)
def test_steps_that_belong_elsewhere_are_told_where(owner: Any, name: str, said: str):
    with pytest.raises(AttributeError) as failure:
        getattr(owner, name)
    assert said in str(failure.value)
