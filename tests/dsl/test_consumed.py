"""``Consumed``: how a topic is read as a stream, a table, a global table, or into a global store (KS-11)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from penstock import (
    AutoOffsetReset,
    Consumed,
    Materialized,
    Produced,
    Record,
    Stores,
    StreamsBuilder,
    TimestampExtractor,
)
from penstock.errors import ConfigError, TopologyError
from penstock.serdes import FLOAT, INT
from penstock.testing import TopologyTestDriver
from support.world import World

pytestmark = pytest.mark.kip("KS-11")


class HalfAsLate(TimestampExtractor):
    def extract(self, record, partition_time):
        return record.timestamp // 2


class TestItsTypes:
    @pytest.mark.parametrize("topic", ["in", ["in", "more"], re.compile("in.*")])
    def test_are_those_of_a_stream(self, topic: Any):
        stream = StreamsBuilder().stream(topic, Consumed.with_(int, float))
        assert (stream._key, stream._value) == (INT, FLOAT)

    @pytest.mark.parametrize("read", ["stream", "table", "global_table"])
    def test_may_be_given_by_a_keyword(self, read: str):
        made = getattr(StreamsBuilder(), read)("in", consumed=Consumed.with_value_serde(float).with_key_serde(int))
        assert (made._key, made._value) == (INT, FLOAT)

    @pytest.mark.parametrize("read", ["table", "global_table"])
    def test_are_those_of_a_table_and_its_store(self, read: str):
        made = getattr(StreamsBuilder(), read)("in", Consumed.with_(int, float), materialized=Materialized.as_("kept"))
        assert (made._key, made._value) == (INT, FLOAT)
        assert made._node.store.types == (INT, FLOAT)

    def test_leave_to_keywords_what_they_do_not_say(self):
        stream = StreamsBuilder().stream("in", Consumed.with_(key=int), value=float)
        assert (stream._key, stream._value) == (INT, FLOAT)
        stream = StreamsBuilder().stream("in", key=int, consumed=Consumed.as_("reads"))
        assert (stream._key, stream._value.name) == (INT, "json")

    def test_must_be_those_that_a_table_is_kept_with(self):
        with pytest.raises(TopologyError, match="key= is str, but the Materialized says int"):
            StreamsBuilder().table("in", Consumed.with_(str), materialized=Materialized.with_(int))


class TestItsName:
    def test_names_a_source(self):
        builder = StreamsBuilder()
        builder.stream("in", Consumed.as_("reads")).to("out")
        assert builder.build().describe() == (
            "Topologies:\n"
            "   Sub-topology: 0\n"
            "    Source: reads (topics: [in])\n"
            "      --> KSTREAM-SINK-0000000001\n"
            "    Sink: KSTREAM-SINK-0000000001 (topic: out)\n"
            "      <-- reads\n\n"
        )

    def test_names_a_table_and_its_source(self):
        builder = StreamsBuilder()
        builder.table("in", Consumed.as_("words"), store="kept").to_stream().to("out")
        assert builder.build().describe() == (
            "Topologies:\n"
            "   Sub-topology: 0\n"
            "    Source: words-source (topics: [in])\n"
            "      --> words\n"
            "    Processor: words (stores: [kept])\n"
            "      --> KTABLE-TOSTREAM-0000000002\n"
            "      <-- words-source\n"
            "    Processor: KTABLE-TOSTREAM-0000000002 (stores: [])\n"
            "      --> KSTREAM-SINK-0000000003\n"
            "      <-- words\n"
            "    Sink: KSTREAM-SINK-0000000003 (topic: out)\n"
            "      <-- KTABLE-TOSTREAM-0000000002\n\n"
        )

    def test_names_a_global_table_and_its_source(self):
        builder = StreamsBuilder()
        builder.global_table("in", Consumed.as_("words"), store="kept")
        assert "Source: words-source (topics: [in])\n      --> words\n" in builder.build().describe()

    def test_is_the_last_one_that_was_said(self):
        assert Consumed.as_("one").with_name("other").name == "other"

    def test_uses_up_as_many_numbers_as_none_does(self):
        builder = StreamsBuilder()
        builder.table("in", Consumed.with_(str, str)).to_stream().to("out")
        plain = StreamsBuilder()
        plain.table("in", key=str, value=str).to_stream().to("out")
        assert builder.build().describe() == plain.build().describe()


class TestItsTimes:
    @pytest.mark.parametrize(
        "consumed",
        [
            Consumed.with_timestamp_extractor(HalfAsLate()),
            Consumed.with_(HalfAsLate),
            Consumed.with_(str, int, HalfAsLate()),
            Consumed.with_(timestamp=HalfAsLate()),
        ],
    )
    def test_are_the_extractors(self, consumed: Consumed):
        builder = StreamsBuilder()
        builder.stream("in", consumed).to("out")
        driver = TopologyTestDriver(builder.build())
        driver.pipe_input("in", "a", 1, 500)
        assert driver.read_output("out") == [Record("a", 1, 250)]

    def test_are_a_tables_too(self):
        builder = StreamsBuilder()
        builder.table("in", Consumed.with_(str, int, HalfAsLate())).to_stream().to("out")
        driver = TopologyTestDriver(builder.build())
        driver.pipe_input("in", "a", 1, 500)
        assert driver.read_output("out") == [Record("a", 1, 250)]

    def test_are_a_global_tables_too(self):
        builder = StreamsBuilder()
        builder.global_table("in", Consumed.with_(str, int, HalfAsLate()), store="kept")
        builder.stream("other").to("out")
        driver = TopologyTestDriver(builder.build())
        driver.pipe_input("in", "a", 1, 500)
        assert [row[:3] for row in driver.store("kept").all()] == [("a", 1, 250)]

    def test_may_be_a_field_of_the_values(self):
        builder = StreamsBuilder()
        builder.stream("in", Consumed.with_(str, dict, "at")).to("out")
        driver = TopologyTestDriver(builder.build())
        driver.pipe_input("in", "a", {"at": 7}, 500)
        assert driver.read_output("out") == [Record("a", {"at": 7}, 7)]


class TestWhereItBegins:
    @pytest.mark.parametrize(
        "consumed",
        [
            Consumed.with_offset_reset_policy("latest").with_value_serde(str),
            Consumed.with_(AutoOffsetReset.latest()).with_value_serde(str),
            Consumed.with_(str, str, offset_reset=AutoOffsetReset.latest()),
        ],
    )
    @pytest.mark.parametrize("read", ["stream", "table"])
    def test_is_as_the_policy_says(self, tmp_path: Path, consumed: Consumed, read: str):
        builder = StreamsBuilder()
        made = getattr(builder, read)("in", consumed)
        (made.to_stream() if read == "table" else made).to("out")
        world = World(tmp_path, builder.build())
        world.produce("a")
        application = world.start()
        world.produce("b")
        application.run_until()
        assert world.output() == [("b", "x")]

    def test_is_refused_when_it_is_nowhere(self):
        with pytest.raises(TopologyError, match=r"offset_reset at .*test_consumed.py:\d+ must be one of earliest, la"):
            Consumed.with_offset_reset_policy("newest")

    def test_cannot_be_said_of_what_is_read_as_a_whole(self):
        latest = Consumed.with_offset_reset_policy("latest")
        with pytest.raises(TopologyError, match=r"global_table at .* reads its whole topic, from the beginning"):
            StreamsBuilder().global_table("in", latest)
        with pytest.raises(TopologyError, match=r"add_global_store at .* reads its whole topic"):
            StreamsBuilder().add_global_store(airports(), "airports", latest, by_city)


def airports() -> Any:
    return Stores.key_value_store_builder(Stores.in_memory_key_value_store("airports"), str, str)


def by_city(record, context):
    context.get_state_store("airports").put(record.value, f"{record.key} {record.timestamp}")


@pytest.mark.parametrize("by_keyword", [False, True])
def test_a_global_store_is_read_with_its_types_name_and_times(by_keyword: bool):
    consumed = Consumed.with_(int, str, HalfAsLate()).with_name("codes")
    builder = StreamsBuilder()
    if by_keyword:
        builder.add_global_store(airports(), "airports", by_city, consumed=consumed)
    else:
        builder.add_global_store(airports(), "airports", consumed, by_city)
    builder.stream("other").to("out")
    topology = builder.build()
    assert "Source: codes-source (topics: [airports])\n      --> codes\n" in topology.describe()
    driver = TopologyTestDriver(topology)
    driver.pipe_input("airports", 7, "Bergen", 500)
    assert [row[:2] for row in driver.store("airports").all()] == [("Bergen", "7 250")]


TWICE: list[tuple[Any, str]] = [
    (
        lambda builder, consumed: builder.stream("in", consumed, value=int),
        "stream at HERE: give value= once, not in consumed= as well; got <serde int> and <serde str>",
    ),
    (
        lambda builder, consumed: builder.stream("in", key=int, consumed=consumed),
        "stream at HERE: give key= once, not in consumed= as well; got <serde int> and <serde str>",
    ),
    (
        lambda builder, consumed: builder.table("in", consumed, name="other"),
        "table at HERE: give name= once, not in consumed= as well; got 'other' and 'reads'",
    ),
    (
        lambda builder, consumed: builder.global_table("in", consumed, timestamp="time"),
        "global_table at HERE: give timestamp= once, not in consumed= as well; got 'time' and 'at'",
    ),
    (
        lambda builder, consumed: builder.stream("in", consumed, consumed=Consumed.as_("x")),
        "stream at HERE: give consumed= once; got Consumed(key=<serde str>, ",
    ),
]


@pytest.mark.parametrize(("read", "said"), TWICE)
def test_what_is_said_twice_is_refused_and_both_are_named(read: Any, said: str):
    consumed = Consumed.with_(str, str, "at").with_name("reads")
    with pytest.raises(TopologyError) as refused:
        read(StreamsBuilder(), consumed)
    assert re.sub(r"\S+test_consumed.py:\d+", "HERE", str(refused.value)).startswith(said)


def test_another_option_object_is_refused():
    with pytest.raises(TopologyError, match=r"consumed= of stream at .* must be of type Consumed; got Produced"):
        StreamsBuilder().stream("in", consumed=Produced.with_(str))  # type: ignore[call-overload]
    with pytest.raises(ConfigError):
        StreamsBuilder().stream("in", Produced.with_(str))


def test_the_field_of_a_time_may_be_in_another_unit_and_have_dots_in_its_name():
    def times(**options: Any) -> list[int]:
        builder = StreamsBuilder()
        builder.stream("in", value=dict, **options).to("out")
        driver = TopologyTestDriver(builder.build())
        for value in ({"log.at": 5}, {"log": {"at": 7.5}}, {"log": {"at": "1970-01-01T00:00:09Z"}}):
            driver.pipe_input("in", "k", value)
        return [record.timestamp for record in driver.read_output("out")]

    assert times(timestamp="log.at", timestamp_unit="s") == [5000, 7500, 9000]
    assert times(consumed=Consumed.with_timestamp_extractor("log.at"), timestamp_unit="s") == [5000, 7500, 9000]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"timestamp_unit": "s"}, "there is no timestamp=: name a field"),
        ({"timestamp": lambda value: 1, "timestamp_unit": "s"}, "timestamp= is none: name a field"),
        ({"timestamp": "at", "timestamp_unit": "h"}, "is one of s, ms, us, ns; got 'h'"),
    ],
)
def test_a_unit_without_a_field_is_refused(options: dict[str, Any], said: str):
    for method in ("stream", "table", "global_table"):
        with pytest.raises(TopologyError, match=said):
            getattr(StreamsBuilder(), method)("in", value=dict, **options)
