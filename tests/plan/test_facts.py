"""What nodes say of themselves: every class answers every fact, in the type that ``Node`` declares for it."""

from __future__ import annotations

import dataclasses
import re
import textwrap
from collections.abc import Iterator
from types import UnionType
from typing import Any, ClassVar, Union, get_args, get_origin, get_type_hints

import pytest

from penstock import (
    Deduplicated,
    EmitStrategy,
    JoinWindows,
    Materialized,
    Processor,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    ValueTransformerWithKey,
    cloud_event,
    debezium,
)
from penstock.plan import nodes
from penstock.plan.aggregation import Aggregation
from penstock.plan.functions import Maker, UserFunction
from penstock.plan.kept import Kept
from penstock.plan.node import Hold, Node, StoreSpec, fact
from penstock.serdes import Serde

NOT_FACTS = {"name", "parents", "where", "parent", "types"}
"""What is of a node itself; ``types`` is there only where a node says both."""


class Keeps(Processor):
    def process(self, record: Any) -> None:
        self.context.forward(record)


class Doubles(ValueTransformerWithKey):
    def transform(self, key: Any, value: Any) -> Any:
        return value * 2


async def awaited(key: Any, value: int) -> int:
    return value


def add(key: Any, value: Any, total: int) -> int:
    return total + 1


def both(one: Any, other: Any) -> Any:
    return one


def streams(builder: StreamsBuilder) -> None:
    """Steps of streams, and processors."""
    numbers = builder.stream("numbers", key=str, value=int)
    numbers.filter(lambda key, value: True).map(lambda key, value: (key, value), key=str, value=int).peek(print)
    numbers.map_values(lambda value: value).flat_map_values(lambda value: [value]).select_key(lambda key, value: key)
    flat = numbers.flat_map(lambda key, value: [(key, value)], key=str, value=int)
    numbers.merge(flat).split().branch(lambda key, value: True)
    numbers.deduplicate(lambda key, value: str(value), 1000, Deduplicated.with_("ids", str, int))
    builder.add_state_store(Stores.key_value_store_builder(Stores.in_memory_key_value_store("rows"), str, int))
    numbers.process(Keeps, "rows", key=str, value=int).process_values(Keeps, value=int).to("fixed")
    numbers.to(lambda key, value: "chosen")
    numbers.filter_async(awaited).map_values_async(awaited)
    builder.stream("events", key=str, format=cloud_event(dict)).to("data")
    builder.stream("changes", key=int, format=debezium(dict)).to("rows")


def tables(builder: StreamsBuilder) -> None:
    """Steps of tables."""
    left, right = (builder.table(topic, key=str, value=int, store=topic) for topic in ("left", "right"))
    left.filter(lambda key, value: True).map_values(lambda value: value).transform_values(Doubles, value=int)
    left.left_join(right, both, value=int).to_stream().to_table(store="kept")
    renamed = builder.stream("in", key=str, value=int).select_key(lambda key, value: key)
    renamed.to_table(store="renamed").join(right, both, value=int, foreign_key=lambda value: "a")
    left.group_by(lambda key, value: (key, value), key=str, value=int).count("totals")


def aggregations(builder: StreamsBuilder) -> None:
    """Aggregations in windows and without."""
    grouped = builder.stream("in", key=str, value=int).group_by_key()
    grouped.count("counts")
    tumbling = grouped.windowed_by(TimeWindows.of_size_and_grace(10, 5))
    tumbling.reduce(both, materialized=Materialized.as_("windows")).suppress(Suppressed.until_window_closes())
    tumbling.distinct()
    grouped.windowed_by(SlidingWindows.of_time_difference_and_grace(10, 5)).count("sliding")
    sessions = grouped.windowed_by(SessionWindows.of_inactivity_gap_and_grace(10, 5))
    sessions.emit_strategy(EmitStrategy.on_window_close()).count("sessions")
    sessions.distinct()
    grouped.cogroup(add).cogroup(builder.stream("also", key=str, value=int).group_by_key(), add).aggregate(lambda: 0)


def joins(builder: StreamsBuilder) -> None:
    """Joins of streams with streams and tables, and what every task has."""
    left, right = (builder.stream(topic, key=str, value=int) for topic in ("l", "r"))
    left.left_join(right, both, JoinWindows.of_time_difference_and_grace(10, 5), value=int)
    left.left_join(builder.table("t", key=str, value=int, store="t"), both, value=int)
    everywhere = builder.global_table("g", key=str, value=int, store="g")
    left.join(everywhere, both, key_selector=lambda key, value: key, value=int)
    rows = Stores.key_value_store_builder(Stores.in_memory_key_value_store("rows"), str, int)
    builder.add_global_store(rows, "changes", Keeps, key=str, value=int)


EXAMPLES = (streams, tables, aggregations, joins)


def topology_of(example: Any) -> Topology:
    builder = StreamsBuilder()
    example(builder)
    return builder.build()


def nodes_by_class() -> dict[type[Node], Node]:
    """The first node of each class in the examples."""
    found: dict[type[Node], Node] = {}
    for example in EXAMPLES:
        for node in topology_of(example).nodes:
            found.setdefault(type(node), node)
    return found


NODES = nodes_by_class()


def classes(kind: type[Node] = Node) -> Iterator[type[Node]]:
    """All classes of nodes that steps are made of."""
    for below in kind.__subclasses__():
        if below is not nodes.WindowedAggregate:  # of which there are four
            yield below
        yield from classes(below)


def declared_facts() -> dict[str, Any]:
    """The facts of ``Node``, each with its type."""
    hints = {name: get_args(hint)[0] for name, hint in get_type_hints(Node).items() if get_origin(hint) is ClassVar}
    for name, member in vars(Node).items():
        answer = getattr(member, "fget", None) or getattr(member, "_answer", None)
        if answer is not None:
            hints[name] = get_type_hints(answer)["return"]
    return {name: hint for name, hint in hints.items() if name not in NOT_FACTS}


FACTS = declared_facts()


def is_a(value: Any, kind: Any) -> bool:
    """Whether a value is of a type, also inside of tuples and sets.

    >>> is_a(("a", "b"), tuple[str, ...]), is_a(("a", 1), tuple[str, ...]), is_a(None, str | None)
    (True, False, True)
    """
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return any(is_a(value, one) for one in inner)
    if origin is tuple and inner[-1] is not ...:
        return isinstance(value, tuple) and len(value) == len(inner) and all(map(is_a, value, inner))
    if origin is not None:
        return isinstance(value, origin) and all(is_a(one, inner[0]) for one in value)
    return isinstance(value, kind or type(None))


@pytest.mark.parametrize("kind", classes(), ids=lambda kind: kind.__name__)
def test_every_node_answers_every_fact_in_the_declared_type(kind: type[Node]):
    answers = {name: getattr(NODES[kind], name) for name in FACTS}
    assert not {name: answer for name, answer in answers.items() if not is_a(answer, FACTS[name])}


@pytest.mark.parametrize("kind", classes(), ids=lambda kind: kind.__name__)
def test_a_fact_of_the_same_name_is_no_default_of_a_field(kind: type[Node]):
    defaults = [field.default for field in dataclasses.fields(kind)]
    assert not [default for default in defaults if isinstance(default, property | fact)]


def test_a_step_says_the_types_of_both_or_none_is_asked_for():
    assert [told(one) for one in NODES[nodes.Map].types] == ["str", "int"]
    with pytest.raises(AssertionError):
        NODES[nodes.Filter].types  # noqa: B018 - it has none


# --- the table -------------------------------------------------------------------------------------------------------


def told(value: Any) -> str:
    """A fact for readers: functions by the methods that they were given to, steps and windows by their classes."""
    match value:
        case Serde() | StoreSpec():
            return without_number(value.name)
        case UserFunction():
            return value.method
        case Maker():
            return f"{told(value.function)} -> {told(value.type)}"
        case Aggregation():
            return value.kind
        case Hold():
            return ", ".join(f"{name} {answer}" for name, answer in value._asdict().items())
        case Kept():
            answers = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            usual = dataclasses.asdict(Kept())
            others = [f"{name} {answer}" for name, answer in answers.items() if usual.get(name) != answer]
            return ", ".join([type(value).__name__, *others])
        case Node() | TimeWindows() | SlidingWindows() | SessionWindows() | JoinWindows():
            return type(value).__name__
        case frozenset():
            return ", ".join(sorted(value)) or "nothing"
        case tuple() | list():
            return ", ".join(map(told, value))
        case _:
            return without_number(str(value))


def without_number(name: str) -> str:
    return re.sub(r"\d{10}", "#", name)


def line_of(node: Node) -> str:
    """What a node answers otherwise than most."""
    said = []
    for name in FACTS:
        answer, usual = getattr(node, name), getattr(PLAIN, name)
        if isinstance(answer, bool):
            said += [] if answer == usual else [name if answer else f"not {name}"]
        elif told(answer) != told(usual):
            said.append(f"{name}: {told(answer)}")
    return textwrap.fill(
        f"{type(node).__name__}: {'; '.join(said) or '-'}", 118, subsequent_indent="    ", break_on_hyphens=False
    )


PLAIN = Node(name="plain")

TABLE = """
CogroupInput: is_side; reads_columns: key, value; clocks: input 0 of COGROUPKSTREAM-AGGREGATE-STATE-STORE-#,
    COGROUPKSTREAM-AGGREGATE-#
SessionAggregate: is_table; keeps_input; keeps_columns: key; aggregation: count; windows: SessionWindows; windowed_by:
    SessionWindows; final; hold: wait_ms 16, is_of_windows True, idle_advance_ms None; store: sessions; keeps:
    KeptSessions, retention_ms 15, is_final True, gap_ms 10; partition_key: str
SessionDistinct: is_table; keeps_input; keeps_columns: key; aggregation: count; windows: SessionWindows; windowed_by:
    SessionWindows; store: KSTREAM-DISTINCT-STATE-STORE-#; keeps: KeptSessions, retention_ms 15, is_final False,
    gap_ms 10; partition_key: str
SlidingAggregate: is_table; keeps_input; keeps_columns: key; aggregation: count; windows: SlidingWindows; windowed_by:
    SlidingWindows; store: sliding; keeps: KeptSlidingWindows, window_size_ms 10, retention_ms 25, is_final False,
    slot_ms 20; partition_key: str
StreamAggregate: is_table; keeps_input; keeps_columns: key; caches_last_update; aggregation: count; store: counts;
    partition_key: str
TableAggregate: is_table; keeps_input; keeps_columns: key; aggregation: count; store: totals; partition_key: str
WindowAggregate: is_table; keeps_input; keeps_columns: key; caches_last_update; aggregation: reduce; makes_value:
    reduce -> int; reads_columns: value; windows: TimeWindows; windowed_by: TimeWindows; store: windows; keeps:
    KeptWindows, window_size_ms 10, retention_ms 15, is_final False; partition_key: str
WindowDistinct: is_table; keeps_input; keeps_columns: key; aggregation: count; windows: TimeWindows; windowed_by:
    TimeWindows; store: KSTREAM-DISTINCT-STATE-STORE-#; keeps: KeptWindows, window_size_ms 10, retention_ms 15,
    is_final False; partition_key: str
Deduplicate: store_advice: with_store_name("...") of Deduplicated; not caches_updates; key: str; store: ids; keeps:
    KeptIds, interval_ms 1000, are_pairs False; partition_key: str
KeyById: method: deduplicate; changes_key; keeps_columns: nothing; key: str; value: pair[str, int]; function:
    deduplicate; reads_columns: key, value
RestoreKey: method: deduplicate; changes_key; keeps_columns: nothing; unpacks; key: str; value: int
Announce: not is_in_kafka_streams; value: int
ForeignTableJoin: keeps_columns: nothing; key: str; reads_columns: value; asks_old_of: TableSource
ResponseJoin: keeps_columns: key; brings_values; store_advice: name="..." of the foreign-key join; value: int;
    makes_value: join -> int; joined: Repartition, Repartition, ToTable; also_behind: Repartition; joined_tables:
    ToTable, TableSource; looks_up: ToTable; store: KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR-#-numbers;
    partition_key: str
SubscriptionJoin: keeps_columns: nothing; key: str; joined: SubscriptionReceive, TableSource; looks_up: TableSource
SubscriptionReceive: store_advice: name="..." of the foreign-key join; store:
    KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-#; keeps: KeptSubscriptions; partition_key: bytes; clocks: subscribers in
    KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-#, KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-#
SubscriptionSend: keeps_columns: nothing; key: str; function: join: foreign_key; reads_columns: value; asks_old_of:
    ToTable
GlobalTableJoin: keeps_columns: key; value: int; makes_value: join -> int; reads_columns: key, value; looks_up:
    GlobalTable; looks_up_as_of: GlobalTable
JoinWindow: store_advice: stream_joined=StreamJoined.as_("..."); value: int; windows: JoinWindows; store:
    KSTREAM-JOINTHIS-#-store; keeps: KeptSide, window_size_ms 20, retention_ms 25; partition_key: str
StreamJoin: keeps_input; keeps_columns: key; store_advice: stream_joined=StreamJoined.as_("..."); key: str; value:
    int; makes_value: left_join -> int; reads_columns: value; joined: StreamSource, StreamSource; takes_null_keys;
    windows: JoinWindows; store: KSTREAM-OUTERSHARED-#-store; keeps: KeptWaiting; partition_key: bytes; clocks: join
    of KSTREAM-JOINTHIS-#-store and KSTREAM-OUTEROTHER-#-store, KSTREAM-MERGE-#
StreamTableJoin: keeps_input; keeps_columns: key; store_advice: joined=Joined.as_("..."); value: int; makes_value:
    left_join -> int; reads_columns: value; joined: StreamSource, TableSource; looks_up: TableSource; looks_up_as_of:
    TableSource; takes_null_keys
TableJoin: is_table; keeps_columns: key; value: int; makes_value: left_join -> int; reads_columns: value; joined:
    TableSource, TableSource; joined_tables: TableSource, TableSource; asks_old_of: TableSource; looks_up:
    TableSource, TableSource
Process: method: process; changes_key; hosts; keeps_columns: nothing; key: str; value: int; makes_key: process -> str;
    makes_value: process -> int; reads_columns: key, value; store_names: rows; clocks: processor of rows,
    KSTREAM-PROCESSOR-#
ProcessValues: method: process_values; hosts; keeps_columns: key; key: str; value: int; makes_value: process_values ->
    int; reads_columns: key, value
TableTransformValues: is_table; hosts; keeps_columns: key; inherits_versions; value: int; function: transform_values;
    makes_value: transform_values -> int; reads_columns: key, value
Branch: -
Filter: makes_one; function: filter; reads_columns: key, value
FilterAsync: not is_in_kafka_streams; makes_one; function: filter_async; reads_columns: key, value
FlatMap: method: flat_map; changes_key; keeps_columns: nothing; key: str; value: int; function: flat_map; makes_key:
    flat_map -> str; makes_value: flat_map -> int; reads_columns: key, value
FlatMapValues: keeps_columns: key; value: int; function: flat_map_values; makes_value: flat_map_values -> int;
    reads_columns: value
Map: method: map; changes_key; makes_one; keeps_columns: nothing; key: str; value: int; function: map; makes_key: map
    -> str; makes_value: map -> int; reads_columns: key, value
MapValues: makes_one; keeps_columns: key; value: int; function: map_values; makes_value: map_values -> int;
    reads_columns: value
MapValuesAsync: not is_in_kafka_streams; makes_one; keeps_columns: key; value: int; function: map_values_async;
    makes_value: map_values_async -> int; reads_columns: key, value
Merge: -
Peek: makes_one; function: peek; reads_columns: key, value
SelectKey: method: select_key; changes_key; makes_one; keeps_columns: value; key: str; function: select_key;
    makes_key: select_key -> str; reads_columns: key, value
Split: reads_columns: key, value
Unwrap: not is_in_kafka_streams; keeps_columns: key; unpacks; value: json[dict]
UnwrapRecord: method: format=; changes_key; not is_in_kafka_streams; keeps_columns: nothing; unpacks; key: int; value:
    json[dict]
Suppress: is_table; collapses_updates; store_advice: with_name("...") of Suppressed; not caches_updates; asks_old_of:
    WindowAggregate; hold: wait_ms 5, is_of_windows True, idle_advance_ms None; store: KTABLE-SUPPRESS-STATE-STORE-#;
    keeps: KeptUpdates, wait_ms 5, times_follow True; partition_key: windowed[str, 10]
TableFilter: is_table; makes_one; inherits_versions; asks_old_if_kept; function: filter; reads_columns: key, value;
    asks_old_of: TableSource
TableGroupBy: changes_key; is_table; keeps_columns: nothing; key: str; value: int; function: group_by; makes_key:
    group_by -> str; makes_value: group_by -> int; reads_columns: key, value; asks_old_of: TableSource
TableMapValues: is_table; makes_one; keeps_columns: key; inherits_versions; value: int; function: map_values;
    makes_value: map_values -> int; reads_columns: value
ToStream: makes_one
ToTable: is_table; store_when_asked; caches_last_update; store: kept; partition_key: str
DynamicSink: selector: to; key: str; value: int; reads_columns: key, value
GlobalStore: is_table; is_source; is_global; keeps_columns: nothing; store_when_asked; topics: changes; source_topics:
    changes; key: str; value: int; reads_columns: key, value; store: rows; keeps: KeptAsDescribed; partition_key: str
GlobalTable: is_table; is_source; is_global; store_when_asked; topics: g; source_topics: g; key: str; value: int;
    store: g; partition_key: str
Repartition: makes_one; source_topics: KSTREAM-DEDUPLICATE-#-repartition; key: str; value: pair[str, int]
Sink: key: str; value: int
StreamSource: is_source; makes_one; topics: numbers; source_topics: numbers; key: str; value: int
TableSource: is_table; is_source; store_when_asked; caches_last_update; topics: left; source_topics: left; key: str;
    value: int; store: left; partition_key: str
"""


def test_what_each_node_says_of_itself():
    in_order = (NODES[kind] for kind in vars(nodes).values() if isinstance(kind, type) and kind in NODES)
    assert "\n".join(map(line_of, in_order)) == TABLE.strip()


def test_every_class_of_nodes_is_in_the_table():
    named = re.findall(r"^(\w+): ", TABLE, re.MULTILINE)
    assert sorted(named) == sorted(kind.__name__ for kind in classes())
