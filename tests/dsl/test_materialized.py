"""How tables are kept: ``Materialized``, and the short form ``store=``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock import (
    Consumed,
    Materialized,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamsBuilder,
    TableJoined,
    TimeWindows,
)
from penstock.engine.shared.stores import stores_of
from penstock.errors import ConfigError, TopologyError
from penstock.plan.node import StoreSpec
from penstock.serdes import FLOAT, INT, STR, JsonSerde
from penstock.state.kinds.segments import SegmentedStore
from support.own_stores import DictStore


def stores(build: Any) -> list[StoreSpec]:
    builder = StreamsBuilder()
    build(builder.stream("in", value=str))
    return list(builder.build().facts.stores.values())


def test_everything_can_be_said_step_by_step_and_nothing_is_changed_in_place():
    plain = Materialized.as_("counts")
    full = plain.with_key(int).with_value(float).with_retention(50).with_caching_disabled().in_memory()
    assert full == Materialized(store="counts", kind="in_memory", key=INT, value=FLOAT, retention_ms=50, caching=False)
    assert full.with_caching_enabled().caching is True
    assert plain == Materialized(store="counts")


def test_types_alone():
    assert Materialized.with_(key=str, value=int) == Materialized(key=STR, value=INT)
    assert Materialized.with_() == Materialized()


TABLES = {
    "count": lambda stream, **kept: stream.group_by_key().count(**kept),
    "reduce": lambda stream, **kept: stream.group_by_key().reduce(max, **kept),
    "aggregate": lambda stream, **kept: stream.group_by_key().aggregate(int, lambda k, v, n: n, **kept),
    "windowed count": lambda s, **kept: (
        s.group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(5)).count(**kept)
    ),
    "to_table": lambda stream, **kept: stream.to_table(**kept),
    "filter": lambda stream, **kept: stream.to_table().filter(lambda k, v: True, **kept),
    "filter_not": lambda stream, **kept: stream.to_table().filter_not(lambda k, v: True, **kept),
    "map_values": lambda stream, **kept: stream.to_table().map_values(lambda v: v, **kept),
    "count of a table": lambda s, **kept: s.to_table().group_by(lambda k, v: (k, v)).count(**kept),
}


@pytest.mark.parametrize("name", TABLES)
def test_store_is_short_for_materialized_as(name):
    short = stores(lambda stream: TABLES[name](stream, store="mine"))[-1]
    long = stores(lambda stream: TABLES[name](stream, materialized=Materialized.as_("mine")))[-1]
    assert (short.name, short.named_by_user) == (long.name, long.named_by_user) == ("mine", True)
    assert (short.kind, short.retention, short.caching) == ("persistent", None, True)


@pytest.mark.parametrize("name", TABLES)
def test_what_materialized_says_reaches_the_store(name):
    kept = Materialized.as_("mine").with_retention("1 day").with_caching_disabled().in_memory()
    spec = stores(lambda stream: TABLES[name](stream, materialized=kept))[-1]
    assert (spec.name, spec.kind, spec.retention, spec.caching) == ("mine", "in_memory", 86_400_000, False)


def test_the_stores_types_are_those_of_the_table_unless_materialized_says_otherwise():
    plain = stores(lambda stream: stream.group_by_key().count("counts"))[0]
    assert (plain.key, plain.value) == (STR, INT)
    told = stores(lambda s: s.group_by_key().count(materialized=Materialized.as_("counts").with_value(dict | int)))[0]
    assert told.value.name != INT.name


def test_an_aggregates_type_is_told_or_annotated_or_that_of_its_initializer():
    def annotated(key, value, total) -> float:
        return total

    def plain(key, value, total):
        return total

    def kept(initializer, aggregator, **told):
        return stores(lambda stream: stream.group_by_key().aggregate(initializer, aggregator, **told))[0].value

    assert kept(list, plain, value=str) == STR
    assert kept(list, annotated) == FLOAT
    assert kept(int, plain) == INT
    assert kept(list, plain) == JsonSerde(list)


def test_a_store_and_a_materialized_together_are_refused():
    with pytest.raises(ConfigError, match="give either materialized= or store=, not both"):
        stores(lambda stream: stream.to_table("mine", Materialized.as_("mine")))


def test_another_kind_of_store_is_refused():
    kinds = "persistent, in_memory, versioned, versioned_in_memory"
    with pytest.raises(ConfigError, match=f"the kind of a store must be one of {kinds}; got 'rocks'"):
        Materialized(kind="rocks")


class Own:
    """A supplier of a user's own."""

    name = "own"

    def get(self) -> DictStore:
        return DictStore(self.name)


def test_a_table_is_kept_in_a_store_of_ones_own_until_another_one_is_named():
    own = Own()
    kept = Materialized.as_(own).with_value(int).with_caching_disabled()
    assert (kept.store, kept.supplier, kept.value, kept.caching) == ("own", own, INT, False)
    for other in ("counts", Stores.in_memory_key_value_store("counts")):
        assert (kept.as_(other).store, kept.as_(other).supplier) == ("counts", None)
    [spec] = stores(lambda stream: stream.group_by_key().count(materialized=kept))
    assert (spec.name, spec.supplier, spec.in_memory) == ("own", own, False)


def test_a_store_of_ones_own_is_refused_where_its_class_is_of_another_kind():
    for windows, needed in [
        (TimeWindows.of_size_with_no_grace("1 hour"), "a window store"),
        (SlidingWindows.of_time_difference_with_no_grace("1 hour"), "a window store"),
        (SessionWindows.of_inactivity_gap_with_no_grace("1 hour"), "a session store"),
    ]:

        def windowed(stream: Any, windows: Any = windows) -> None:
            stream.group_by_key().windowed_by(windows).count(materialized=Materialized.as_(Own()))

        says = rf"the store 'own' at .* is a key-value store, but this step needs {needed}: .* your own class extend"
        with pytest.raises(TopologyError, match=says):
            stores(windowed)
    with pytest.raises(ConfigError, match="'own' is one of your own, and cannot be made in memory"):
        Materialized.as_(Own()).in_memory()


@pytest.mark.parametrize("wrong", [7, object(), DictStore])
def test_what_is_neither_name_nor_supplier_is_refused(wrong):
    with pytest.raises(TopologyError, match="give its name, one that Stores describes, or a supplier of your own"):
        Materialized.as_(wrong)


WINDOWS = {
    "tumbling": TimeWindows.of_size_with_no_grace("1 minute"),
    "sliding": SlidingWindows.of_time_difference_with_no_grace("1 minute"),
    "session": SessionWindows.of_inactivity_gap_with_no_grace("1 minute"),
}


@pytest.mark.kip("94-06")
@pytest.mark.parametrize("windows", WINDOWS.values(), ids=WINDOWS)
@pytest.mark.parametrize(
    ("kept", "interval"),
    [
        (Materialized.as_("mine").with_retention("10 minutes"), 5 * 60_000),  # two segments and one that is filled
        (Materialized.as_("mine").with_retention("2 minutes"), 60_000),
        (Materialized.as_("mine").with_retention("3 minutes"), 90_000),
        (Materialized.as_("mine").with_retention("10 minutes").with_segment_interval("1 s"), 1000),
    ],
)
def test_the_segment_interval_of_a_store_of_windows_follows_from_the_retention_or_is_given(windows, kept, interval):
    builder = StreamsBuilder()
    builder.stream("in", value=str).group_by_key().windowed_by(windows).count(materialized=kept)
    topology = builder.build()
    (store,) = stores_of(topology.sub_topologies[0], topology.facts)
    assert isinstance(store, SegmentedStore)
    assert store.segment_interval == interval


@pytest.mark.kip("94-06")
def test_a_segment_interval_of_no_time_is_refused():
    with pytest.raises(ConfigError, match=r"the segment interval of store 'mine' must be positive, got '0 s'"):
        Materialized.as_("mine").with_segment_interval("0 s")


# --- where Kafka Streams has it --------------------------------------------------------------------------------------

NEAR = TimeWindows.of_size_with_no_grace(10)
SESSIONS = SessionWindows.of_inactivity_gap_with_no_grace(10)


def add(*values: Any) -> Any:
    return values[-1]


def cogrouped(builder: StreamsBuilder) -> Any:
    return builder.stream("in").group_by_key().cogroup(add)


KEPT: dict[str, Callable[..., Any]] = {
    "table": lambda b, *kept, **by: b.table("in", *kept, **by),
    "table behind Consumed": lambda b, *kept, **by: b.table("in", Consumed.with_(str, int), *kept, **by),
    "global_table": lambda b, *kept, **by: b.global_table("in", *kept, **by),
    "global_table behind Consumed": lambda b, *kept, **by: b.global_table("in", Consumed.with_(str, int), *kept, **by),
    "to_table": lambda b, *kept, **by: b.stream("in").to_table(*kept, **by),
    "count": lambda b, *kept, **by: b.stream("in").group_by_key().count(*kept, **by),
    "reduce": lambda b, *kept, **by: b.stream("in").group_by_key().reduce(add, *kept, **by),
    "aggregate": lambda b, *kept, **by: b.stream("in").group_by_key().aggregate(int, add, *kept, **by),
    "windowed count": lambda b, *kept, **by: b.stream("in").group_by_key().windowed_by(NEAR).count(*kept, **by),
    "windowed aggregate": lambda b, *kept, **by: (
        b.stream("in").group_by_key().windowed_by(NEAR).aggregate(int, add, *kept, **by)
    ),
    "session reduce": lambda b, *kept, **by: (
        b.stream("in").group_by_key().windowed_by(SESSIONS).reduce(add, *kept, **by)
    ),
    "session aggregate": lambda b, *kept, **by: (
        b.stream("in").group_by_key().windowed_by(SESSIONS).aggregate(int, add, add, *kept, **by)
    ),
    "cogrouped": lambda b, *kept, **by: cogrouped(b).aggregate(int, *kept, **by),
    "windowed cogrouped": lambda b, *kept, **by: cogrouped(b).windowed_by(NEAR).aggregate(int, *kept, **by),
    "session cogrouped": lambda b, *kept, **by: cogrouped(b).windowed_by(SESSIONS).aggregate(int, add, *kept, **by),
    "filter": lambda b, *kept, **by: b.table("in").filter(add, *kept, **by),
    "map_values": lambda b, *kept, **by: b.table("in").map_values(add, *kept, **by),
    "join": lambda b, *kept, **by: b.table("in").join(b.table("other"), add, *kept, **by),
    "outer_join": lambda b, *kept, **by: b.table("in").outer_join(b.table("other"), add, *kept, **by),
    "foreign-key join behind TableJoined": lambda b, *kept, **by: b.table("in").left_join(
        b.table("other"), add, TableJoined.as_("j"), *kept, foreign_key=add, **by
    ),
    "group_by count": lambda b, *kept, **by: b.table("in").group_by(add).count(*kept, **by),
    "group_by aggregate": lambda b, *kept, **by: b.table("in").group_by(add).aggregate(int, add, add, *kept, **by),
}


@pytest.mark.kip("KS-11")
@pytest.mark.parametrize("step", KEPT)
@pytest.mark.parametrize(
    "kept", [Materialized.as_("mine").in_memory(), Materialized.with_(str, int)], ids=["as_", "with_"]
)
def test_it_may_stand_where_kafka_streams_has_it(step: str, kept: Materialized):
    described, stores = [], []
    for given, by in [((kept,), {}), ((), {"materialized": kept})]:
        builder = StreamsBuilder()
        KEPT[step](builder, *given, **by)
        topology = builder.build()
        described.append(topology.describe())
        stores.append([(s.name, s.kind, s.types) for s in topology.facts.stores.values()])
    assert described[0] == described[1]
    assert stores[0] == stores[1]
    with pytest.raises(TopologyError, match=r"materialized= once|must be of type str; got Materialized"):
        KEPT[step](StreamsBuilder(), kept, materialized=kept)
