"""A topic that a program writes has one type: for all that write it, and for those that read it again."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from penstock import Produced, StreamsBuilder, TimeWindows, Topology, TopologyError
from penstock.serdes import INT, STR, Serde, TimeWindowedSerde
from penstock.testing import TopologyTestDriver


@dataclass
class Flight:
    delay: int


class Own(Serde):
    """A format of the user's, which reads what others have written."""

    name = "own"

    def encode(self, value: Any) -> bytes:
        return str(value).encode()

    def decode(self, data: bytes) -> Any:
        return int.from_bytes(data)


def numbers(builder: StreamsBuilder) -> Any:
    return builder.stream("in", key=str, value=int)


def windows(builder: StreamsBuilder) -> Any:
    return numbers(builder).group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(10)).count().to_stream()


def read_again(**types: Any) -> Callable[[StreamsBuilder], None]:
    def build(builder: StreamsBuilder) -> None:
        numbers(builder).to("mid")
        builder.stream("mid", **types).to("out")

    return build


def of_windows(key: Any) -> Callable[[StreamsBuilder], None]:
    def build(builder: StreamsBuilder) -> None:
        windows(builder).to("mid")
        builder.stream("mid", key=key, value=int).to("out")

    return build


def as_table(builder: StreamsBuilder) -> None:
    numbers(builder).to("mid")
    builder.table("mid", key=str, value=float).to_stream().to("out")


def as_global_table(builder: StreamsBuilder) -> None:
    stream = numbers(builder)
    stream.to("mid")
    rows = builder.global_table("mid", key=str, value=str)
    stream.join(rows, lambda value, row: row, key_selector=lambda key, value: key, value=str).to("out")


def by_pattern(builder: StreamsBuilder) -> None:
    numbers(builder).to("mid")
    builder.stream(["other", "mid"], key=str, value=str).to("out")


def text_of_json(builder: StreamsBuilder) -> None:
    numbers(builder).map_values(Flight, value=Flight).to("mid")
    builder.stream("mid", key=str, value=str).to("out")


def declared_by_the_sink(builder: StreamsBuilder) -> None:
    numbers(builder).map_values(str, value=str).to("mid", Produced.with_(str, str))
    builder.stream("mid", key=str, value=int).to("out")


REFUSED: dict[str, tuple[Callable[[StreamsBuilder], None], str, str, str]] = {
    "numbers as text": (read_again(key=str, value=str), "value", "int", "str"),
    "numbers as floats": (read_again(key=str, value=float), "value", "int", "float"),
    "numbers as a class": (read_again(key=str, value=Flight), "value", "int", "json[Flight]"),
    "keys": (read_again(key=int, value=int), "key", "str", "int"),
    "a table": (as_table, "value", "int", "float"),
    "a global table": (as_global_table, "value", "int", "str"),
    "several topics": (by_pattern, "value", "int", "str"),
    "a class as text": (text_of_json, "value", "json[Flight]", "str"),
    "what Produced says": (declared_by_the_sink, "value", "str", "int"),
    "windows as text": (of_windows(str), "key", "windowed[str, 10]", "str"),
    "windows of another size": (
        of_windows(TimeWindowedSerde(STR, 20)),
        "key",
        "windowed[str, 10]",
        "windowed[str, 20]",
    ),
}


def refusal(build: Callable[[StreamsBuilder], Any]) -> str:
    builder = StreamsBuilder()
    build(builder)
    with pytest.raises(TopologyError) as refused:
        builder.build()
    return re.sub(re.escape(__file__) + r":\d+", "HERE", str(refused.value))


@pytest.mark.parametrize("name", REFUSED)
def test_a_topic_that_is_read_as_another_type_than_it_is_written_in_is_refused(name: str) -> None:
    build, what, written, read = REFUSED[name]
    assert refusal(build) == (
        f"topic 'mid' gets {what}s of type {written} from to() at HERE, but the source at HERE reads {what}s of type "
        f"{read}; give both the same type, {what}=..., or {what}=bytes to read them as they are. Nothing was started"
    )


def test_a_topic_that_is_written_in_two_types_is_refused() -> None:
    def build(builder: StreamsBuilder) -> None:
        numbers(builder).to("out")
        builder.stream("other", key=str, value=str).to("out")

    assert refusal(build) == (
        "topic 'out' gets values of type int from to() at HERE, but to() at HERE writes values of type str; give both "
        "the same type, value=..., or write into two topics. Nothing was started"
    )


def with_a_default(build: Callable[[StreamsBuilder], None], **settings: Any) -> Topology:
    builder = StreamsBuilder()
    build(builder)
    topology = builder.build()
    TopologyTestDriver(topology, **settings)
    return topology


def test_a_type_that_nobody_gives_counts_once_the_settings_are_known() -> None:
    build = read_again(key=str)
    with pytest.raises(TopologyError, match=r"topic 'mid' gets values of type int .* reads values of type json; give"):
        with_a_default(build)
    with_a_default(build, default_value_serde="int")
    with pytest.raises(TopologyError, match=r"topic 'mid' gets values of type int .* reads values of type float; give"):
        with_a_default(build, default_value_serde="float")


def test_a_topology_by_hand_is_refused_when_it_is_used() -> None:
    topology = Topology().add_source("in", "in", key=str, value=int).add_sink("to-mid", "mid", "in")
    topology.add_source("mid", "mid", key=str, value=str).add_sink("to-out", "out", "mid")
    with pytest.raises(TopologyError, match=r"topic 'mid' gets values of type int .* reads values of type str; give"):
        TopologyTestDriver(topology)


@pytest.mark.parametrize(
    "build",
    [
        read_again(key=str, value=int),
        read_again(key=bytes, value=bytes),
        read_again(key=str, value=Own()),
        of_windows(TimeWindowedSerde(STR, 10)),
        lambda builder: (
            numbers(builder).map_values(lambda v: {"delay": v}, value=dict).to("mid"),
            builder.stream("mid", key=str, value=Flight).to("out"),
        ),
        lambda builder: (
            numbers(builder).map_values(lambda v: v.to_bytes(8), value=bytes).to("mid"),
            builder.stream("mid", key=STR, value=INT).to("out"),
        ),
        lambda builder: (numbers(builder).to("out"), builder.stream("other", key=str, value=int).to("out")),
    ],
)
def test_types_that_read_each_other_are_taken(build: Callable[[StreamsBuilder], Any]) -> None:
    with_a_default(build)
