"""A null is what the deserializer gives: bytes that decode to None are null keys and values for every operator.

Each topology of ``support/topologies.py`` runs over records with nulls, and over the same records with bytes in their
places that decode to None. Neither outputs nor stores nor drops tell the one from the other.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import (
    Avro,
    JoinWindows,
    JsonSchema,
    Materialized,
    Processor,
    SessionWindows,
    Stores,
    StreamsBuilder,
    Topology,
)
from penstock.errors import ProcessingError
from penstock.plan.node import Node, StoreSpec
from penstock.plan.nodes import Deduplicate
from penstock.plan.rewriting import Rewriting
from penstock.serdes import INT, STR, JsonSerde, Serde, SessionWindowedSerde, TimeWindowedSerde
from penstock.serdes.nullable import NullableSerde
from penstock.serdes.pair import PairSerde
from penstock.testing import TopologyTestDriver
from penstock.testing.cuts import CutDriver
from support.flows import Driver, Row, Run, source
from support.topologies import EXAMPLES, topology_of

UNCACHED = {"statestore_cache_max_bytes": 0}
FEW = settings(max_examples=max(3, settings.default.max_examples // 16))


class Own(Serde):
    """A format of a user's, in which a question mark stands for nothing."""

    def __init__(self, type_: type):
        self.type = type_
        self.name = f"own[{type_.__name__}]"

    def encode(self, value: Any) -> bytes | None:
        return pickle.dumps(value)

    def decode(self, data: bytes) -> Any:
        return None if data == b"?" else pickle.loads(data)


def of_a_registry(kind: type[Avro | JsonSchema], nulls: list[bytes], **schemas: Any) -> Any:
    """Types of a schema registry in memory, and the bytes of a null: those behind an id that it knows."""
    texts = kind(f"{kind.__name__}-texts", "mock://texts", schemas["texts"])
    numbers = kind(f"{kind.__name__}-numbers", "mock://numbers", schemas["numbers"])
    heads = [serde.encode(sample)[:5] for serde, sample in ((texts, "a"), (numbers, 1))]
    assert heads[0] == heads[1], "both registries count alike"
    return {str: texts, int: numbers}, [heads[0] + null for null in nulls]


JSON_NULLS = [b"null", b" null", b"\tnull\r\n"]
FORMATS: dict[str, tuple[dict[type, Serde], list[bytes]]] = {
    "JSON": ({int: JsonSerde(int), str: JsonSerde(str)}, JSON_NULLS),
    "Avro": of_a_registry(Avro, [b"\0"], texts=["null", "string"], numbers=["null", "long"]),
    "JSON Schema": of_a_registry(
        JsonSchema, JSON_NULLS, texts={"type": ["null", "string"]}, numbers={"type": ["null", "integer"]}
    ),
    "of a user": ({int: Own(int), str: Own(str)}, [b"?"]),
}
"""For each format its types, and the bytes that decode to None."""


class Written(Rewriting):
    """Has texts and numbers written in another format."""

    def __init__(self, types: dict[type, Serde]):
        super().__init__()
        self._types = types

    def changes(self, step: Node | StoreSpec) -> dict[str, Any]:
        if isinstance(step, Deduplicate):  # its store has times for values
            return {"store": replace(step.store, key=self.serde(step.store.key))}
        return {}

    def serde(self, one: Serde) -> Serde:
        if one in (INT, STR):
            return self._types[int if one == INT else str]
        if isinstance(one, PairSerde):
            return PairSerde(self.serde(one.first), self.serde(one.second))
        if isinstance(one, TimeWindowedSerde):
            return TimeWindowedSerde(self.serde(one.inner), one.size)
        if isinstance(one, SessionWindowedSerde | NullableSerde):
            return type(one)(self.serde(one.inner))
        return one


def rows_of(topology: Topology) -> st.SearchStrategy[list[Row]]:
    topics = [topic for topic in topology.source_topics if topic not in topology.sink_topics]
    row = st.tuples(
        st.sampled_from(topics),
        st.sampled_from(["a", "b", None]),
        st.sampled_from([1, 2, 3, None, None]),
        st.integers(0, 30) | st.sampled_from([100, 1000]),
    )
    return st.lists(row, max_size=20)


def results(driver: Driver, rows: Sequence[Row]) -> list[Any]:
    """Outputs, stores and drops."""
    for row in rows:
        driver.pipe_input(*row)
    topics = [*driver.topology.sink_topics, *(["out", "aside"] if driver.topology.dynamic_sinks else [])]
    stores = {name: sorted(driver.store(name).all(), key=repr) for name in driver.topology.facts.named()}
    return [{topic: driver.read_output(topic) for topic in topics}, stores, driver.metrics()]


def _slow(format_: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.slow] if format_ in ("Avro", "JSON Schema") else []


@pytest.mark.kip("KS-22")
@pytest.mark.parametrize("name", [name for name in EXAMPLES if name != "unwrap_record"])  # its keys are JSON
@pytest.mark.parametrize("format_", [pytest.param(one, marks=_slow(one)) for one in FORMATS])
@FEW
@given(data=st.data())
def test_bytes_that_decode_to_none_are_nulls(name: str, format_: str, data: st.DataObject) -> None:
    types, nulls = FORMATS[format_]
    topology = topology_of(name)
    written = Written(types)
    topology = Topology(written.of(topology.declared), written.of(topology._stores.values()))
    with_nulls = data.draw(rows_of(topology), "rows")
    null = st.sampled_from(nulls)
    with_bytes = [tuple(data.draw(null) if field is None else field for field in row) for row in with_nulls]
    expected = results(TopologyTestDriver(topology, **UNCACHED), with_nulls)
    assert results(TopologyTestDriver(topology, **UNCACHED), with_bytes) == expected
    with CutDriver(topology, data.draw(st.randoms(use_true_random=False), "cuts"), **UNCACHED) as cut:
        assert results(cut, with_bytes) == expected


# --- JSON's null -----------------------------------------------------------------------------------------------------

A, NULL = b'{"a":1}', b" null\n"
ROWS = [("k", A, 0), ("k", NULL, 1), ("k", A, 2)]


@pytest.mark.kip("KS-22")
@pytest.mark.parametrize("value", [dict, Any, JsonSerde(dict[str, int])])
def test_a_value_of_the_text_null_is_not_counted(run: Run, value: Any) -> None:
    builder, stream = source(value=value)
    stream.group_by_key().count("counts").to_stream().to("out")
    ran = run(builder, ROWS)
    assert ran.output() == [("k", 1, 0), ("k", 2, 2)]
    assert ran.dropped() == {("KSTREAM-AGGREGATE-0000000001", "null-value"): 1}


@pytest.mark.kip("KS-22")
def test_a_function_sees_none_for_the_text_null_whatever_the_type(run: Run) -> None:
    builder, stream = source(value=dict)
    stream.map_values(repr, value=str).to("out")
    assert run(builder, ROWS[:2]).output() == [("k", "{'a': 1}", 0), ("k", "None", 1)]


@pytest.mark.kip("KS-22")
def test_a_key_of_the_text_null_is_dropped_and_counted(run: Run) -> None:
    builder, stream = source(key=dict, value=int)
    stream.group_by_key().count().to_stream().to("out")
    ran = run(builder, [(b"null", 1, 0), ({"id": 1}, 1, 1)])
    assert ran.output() == [({"id": 1}, 1, 1)]
    assert ran.dropped() == {("KSTREAM-AGGREGATE-0000000002", "null-key"): 1}


@pytest.mark.kip("KS-22")
def test_the_text_null_deletes_a_row_of_a_table_and_goes_on_as_a_null(run: Run) -> None:
    builder = StreamsBuilder()
    table = builder.table("in", value=dict, store="kept")
    table.to_stream().to("out", value=dict)
    table.map_values(lambda value: value["a"], value=int).to_stream().to("mapped")
    table.group_by(lambda key, value: ("all", 1), key=str, value=int).count().to_stream().to("counted")
    ran = run(builder, ROWS[:2])
    assert ran.output() == [("k", {"a": 1}, 0), ("k", None, 1)]
    assert ran.output("mapped") == [("k", 1, 0), ("k", None, 1)]
    assert ran.output("counted") == [("all", 1, 0), ("all", 0, 1)]
    assert ran.store("kept") == []


# --- encode gives None -----------------------------------------------------------------------------------------------


class Emptied(Serde):
    """Text, of which none is written as a null."""

    name = "emptied"

    def encode(self, value: Any) -> bytes | None:
        return value.encode() or None

    def decode(self, data: bytes) -> str:
        return data.decode()


@pytest.mark.kip("KS-22")
def test_an_encode_that_gives_none_writes_a_null(run: Run) -> None:
    builder, stream = source(key=str, value=str)
    stream.select_key(lambda key, value: value, key=Emptied()).map_values(lambda value: value, value=Emptied()).to(
        "out"
    )
    assert run(builder, [("a", "", 1), ("b", "x", 2)]).output() == [(None, None, 1), ("x", "x", 2)]


@pytest.mark.kip("KS-22")
def test_a_key_that_is_written_as_a_null_is_dropped_behind_the_repartition_topic(run: Run) -> None:
    builder, stream = source(key=str, value=str)
    stream.group_by(lambda key, value: value, key=Emptied()).count().to_stream().to("out")
    ran = run(builder, [("a", "", 1), ("b", "x", 2)])
    assert ran.output() == [("x", 1, 2)]
    assert sum(ran.dropped().values()) == 1


@pytest.mark.kip("KS-22")
@pytest.mark.parametrize("cache", [0, 10**6])
def test_a_row_of_a_table_that_is_written_as_a_null_is_deleted(run: Run, cache: int) -> None:
    builder = StreamsBuilder()
    kept = Materialized("kept", key=STR, value=Emptied())
    builder.table("in", value=str).map_values(lambda value: value.strip(), materialized=kept).to_stream().to("out")
    ran = run(builder, [("a", "x", 1), ("a", " ", 2), ("b", "y", 3)], statestore_cache_max_bytes=cache)
    assert ran.store("kept") == [("b", "y", 3)]
    if not cache:
        assert ran.output() == [("a", "x", 1), ("a", None, 2), ("b", "y", 3)]


@pytest.mark.kip("KS-22")
def test_an_aggregate_that_is_written_as_a_null_begins_anew(run: Run) -> None:
    builder, stream = source(value=str)
    kept = Materialized("kept", key=STR, value=Emptied())

    def append(key: str, value: str, aggregate: str) -> str:
        return "" if value == "clear" else aggregate + value

    grouped = stream.group_by_key()
    grouped.aggregate(lambda: ">", append, materialized=kept).to_stream().to("out")
    sessions = grouped.windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(10))
    sessions.aggregate(lambda: ">", append, lambda key, one, other: one + other, value=Emptied()).to_stream(
        lambda key, value: key.key
    ).to("sessions")
    rows = [("a", "1", 1), ("a", "2", 2), ("a", "clear", 3), ("a", "4", 4)]
    ran = run(builder, rows)
    assert ran.output() == [("a", ">1", 1), ("a", ">12", 2), ("a", None, 3), ("a", ">4", 4)]
    assert ran.store("kept") == [("a", ">4", 4)]
    assert [value for _, value, _ in ran.output("sessions")][-1] == ">4"


@pytest.mark.kip("KS-22")
def test_a_value_that_a_processor_puts_and_that_is_written_as_a_null_deletes_the_row(run: Run) -> None:
    class Puts(Processor):
        def init(self, context: Any) -> None:
            self.context, self.store = context, context.get_state_store("kept")

        def process(self, record: Any) -> None:
            self.store.put(record.key, record.value)
            self.context.forward(record.with_value(repr(self.store.get(record.key))))

    builder, stream = source(value=str)
    described = Stores.persistent_key_value_store("kept")
    builder.add_state_store(Stores.key_value_store_builder(described, key=str, value=Emptied()))
    stream.process(Puts, "kept", key=str, value=str).to("out")
    ran = run(builder, [("a", "x", 1), ("a", "", 2)])
    assert ran.output() == [("a", "'x'", 1), ("a", "None", 2)]
    assert ran.store("kept") == []


@pytest.mark.kip("KS-22")
def test_a_value_that_is_written_as_a_null_is_none_for_a_join_of_streams(run: Run) -> None:
    builder = StreamsBuilder()
    left = builder.stream("in", value=str).map_values(lambda value: value, value=Emptied())
    right = builder.stream("other", value=str)
    windows = JoinWindows.of_time_difference_with_no_grace(5)
    left.join(right, lambda one, other: f"{one}/{other}", windows, value=str).to("out")
    rows = [("in", "a", "x", 1), ("in", "a", "", 2), ("other", "a", "y", 3), ("in", "a", "", 4)]
    ran = run(builder, rows)
    assert ran.output() == [("a", "x/y", 3)]
    assert sum(ran.dropped().values()) == 2


def test_a_key_of_a_store_that_is_written_as_a_null_is_refused(run: Run) -> None:
    class Puts(Processor):
        def init(self, context: Any) -> None:
            self.store = context.get_state_store("kept")

        def process(self, record: Any) -> None:
            self.store.put(record.value, 1)

    builder, stream = source(value=str)
    described = Stores.persistent_key_value_store("kept")
    builder.add_state_store(Stores.key_value_store_builder(described, key=Emptied(), value=int))
    stream.process(Puts, "kept", key=str, value=str).to("out")
    expected = "encode of the serde 'emptied' must return bytes here; got None for ''"
    with pytest.raises(ProcessingError, match=expected):
        run(builder, [("a", "", 2)]).output()


# --- what is decoded -------------------------------------------------------------------------------------------------


class Counting(Serde):
    """Text that says how often it was decoded."""

    name = "counting"

    def __init__(self) -> None:
        self.decoded = 0

    def encode(self, value: Any) -> bytes:
        return value.encode()

    def decode(self, data: bytes) -> str:
        self.decoded += 1
        return data.decode()


class NeverNone(Counting):
    gives_none = False


@pytest.mark.parametrize(("serde", "times"), [(Counting(), 2), (NeverNone(), 0)])
def test_values_that_nobody_looks_into_are_decoded_only_if_that_may_give_none(serde: Counting, times: int) -> None:
    builder, stream = source(value=serde)
    stream.group_by_key().count().to_stream().to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_record_list("in", [("a", "x", 1), ("a", "y", 2)])
    assert (driver.read_output("out")[-1].value, serde.decoded) == (2, times)
