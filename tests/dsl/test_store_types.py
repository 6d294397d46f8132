"""Where stores of the DSL are that a program does not describe, and the stores of joins (KS-20)."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import (
    BuiltInDslStoreSuppliers,
    ConfigError,
    DslKeyValueParams,
    DslSessionParams,
    DslStoreSuppliers,
    DslWindowParams,
    JoinWindows,
    Materialized,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)
from penstock.testing import TopologyTestDriver

pytestmark = pytest.mark.kip("KS-20")

WINDOWS = JoinWindows.of_time_difference_and_grace(10, 5)
MINE = Stores.in_memory_window_store("mine", 25, 20, retain_duplicates=True)
YOURS = Stores.persistent_window_store("yours", 25, 20, retain_duplicates=True)


def every_kind() -> StreamsBuilder:
    """A topology with each kind of store of the DSL, and stores that say their type."""
    builder = StreamsBuilder()
    grouped = builder.stream("in", value=str).group_by_key()
    grouped.count("plain")
    grouped.windowed_by(TimeWindows.of_size_and_grace(10, 0)).count("windows")
    grouped.windowed_by(SlidingWindows.of_time_difference_and_grace(10, 0)).count("sliding")
    grouped.windowed_by(SessionWindows.of_inactivity_gap_and_grace(10, 5)).count("sessions")
    left, right = builder.stream("left"), builder.stream("right")
    left.left_join(right, lambda a, b: [a, b], WINDOWS, StreamJoined.as_("both")).to("out")
    builder.table("in-memory", store=Materialized.as_(Stores.in_memory_key_value_store("in-memory")))
    builder.table("on-disk", store=Materialized.as_(Stores.persistent_key_value_store("on-disk")))
    builder.table("versioned", store=Materialized.as_versioned("versioned", "1 day"))
    return builder


DSL = ["both-left-shared-join-store", "both-outer-other-join-store", "both-this-join-store"]
DSL += ["plain", "sessions", "sliding", "windows"]


def kinds(builder: StreamsBuilder, **settings: Any) -> dict[str, str]:
    driver = TopologyTestDriver(builder.build(), **settings)
    return {spec.name: spec.kind for spec in driver.topology.facts.stores.values()}


def test_by_default_the_stores_of_the_dsl_are_on_disk():
    said = {"in-memory": "in_memory", "on-disk": "persistent", "versioned": "versioned"}
    assert kinds(every_kind()) == dict.fromkeys(DSL, "persistent") | said
    assert kinds(every_kind(), default_dsl_store="rocksDB") == dict.fromkeys(DSL, "persistent") | said


def test_default_dsl_store_is_that_of_all_stores_that_say_nothing():
    said = {"in-memory": "in_memory", "on-disk": "persistent", "versioned": "versioned"}
    assert kinds(every_kind(), default_dsl_store="in_memory") == dict.fromkeys(DSL, "in_memory") | said


class Chosen(DslStoreSuppliers):
    """Notes what it is asked for, and keeps windows in memory."""

    asked: list[Any] = []

    def key_value_store(self, params):
        self.asked.append(params)
        return Stores.persistent_key_value_store(params.name)

    def window_store(self, params):
        self.asked.append(params)
        return Stores.in_memory_window_store(
            params.name, params.retention_period, params.window_size, params.retain_duplicates
        )

    def session_store(self, params):
        self.asked.append(params)
        return Stores.in_memory_session_store(params.name, 60_000)


def test_dsl_store_suppliers_are_told_what_is_needed_and_choose_each_store():
    Chosen.asked.clear()
    found = kinds(every_kind(), dsl_store_suppliers_class=Chosen)
    in_memory = ("windows", "sliding", "sessions", "both-this-join-store", "both-outer-other-join-store")
    assert {name for name, kind in found.items() if kind == "in_memory"} == {*in_memory, "in-memory"}
    assert set(Chosen.asked) >= {
        DslKeyValueParams("plain"),
        DslKeyValueParams("both-left-shared-join-store", is_timestamped=False),
        DslWindowParams("windows", 10, 10),
        DslWindowParams("sliding", 20, 10, is_sliding_window=True),
        DslWindowParams("both-this-join-store", 25, 20, retain_duplicates=True, is_timestamped=False),
        DslSessionParams("sessions", 15),
    }


def test_what_suppliers_say_of_retention_holds():
    driver = TopologyTestDriver(every_kind().build(), dsl_store_suppliers_class=Chosen())
    specs = {spec.name: spec for spec in driver.topology.facts.stores.values()}
    assert specs["sessions"].retention == 60_000


class Misnamed(Chosen):
    def key_value_store(self, params):
        return Stores.persistent_key_value_store("other")


class Forgetting(Chosen):
    def key_value_store(self, params):
        return Stores.lru_map(params.name, 10)


class Nothing(Chosen):
    def key_value_store(self, params):
        return None


@pytest.mark.parametrize(
    ("suppliers", "message"),
    [
        (Misnamed, r"must return a store under the name that it got; got 'other'"),
        (Forgetting, "returns a store that forgets rows"),
        (Nothing, "must return one of Stores, .*; got None"),
        (dict, "must be a class that extends DslStoreSuppliers"),
        ("nowhere:Chosen", "dsl_store_suppliers_class must be a class of DslStoreSuppliers, or a name"),
    ],
)
def test_suppliers_that_choose_no_fitting_store_are_refused(suppliers: Any, message: str):
    with pytest.raises(ConfigError, match=message):
        TopologyTestDriver(every_kind().build(), dsl_store_suppliers_class=suppliers)


def test_a_step_has_a_store_type_of_its_own():
    builder = StreamsBuilder()
    grouped = builder.stream("in", value=str).group_by_key()
    grouped.count(materialized=Materialized.as_("a").with_store_type(BuiltInDslStoreSuppliers.IN_MEMORY))
    grouped.count(materialized=Materialized.as_("b").with_store_type("persistent"))
    grouped.count("c")
    assert kinds(builder, default_dsl_store="in_memory") == {"a": "in_memory", "b": "persistent", "c": "in_memory"}
    joined = StreamJoined.with_dsl_store_suppliers(BuiltInDslStoreSuppliers.IN_MEMORY)
    builder = StreamsBuilder()
    builder.stream("l").join(builder.stream("r"), lambda a, b: [a, b], WINDOWS, joined).to("out")
    assert set(kinds(builder).values()) == {"in_memory"}


def test_a_store_that_is_described_takes_no_type():
    with pytest.raises(ConfigError, match="is described already"):
        Materialized.as_(Stores.in_memory_key_value_store("x")).with_store_type(BuiltInDslStoreSuppliers.ROCKS_DB)


def test_a_joins_stores_are_named_as_kafka_names_them():
    builder = StreamsBuilder()
    left, right = builder.stream("l", value=str), builder.stream("r", value=str)
    joined = StreamJoined.as_("st").with_this_store_supplier(MINE)
    left.outer_join(right, lambda a, b: f"{a}{b}", WINDOWS, joined).to("o")
    found = kinds(builder)
    assert found == {
        "mine": "in_memory",
        "st-outer-other-join-store": "persistent",
        "mine-outer-shared-join-store": "in_memory",
    }


def test_a_join_with_stores_of_its_own_gives_what_it_gives_without():
    def run(joined: StreamJoined | None) -> list[Any]:
        builder = StreamsBuilder()
        left, right = builder.stream("l", value=str), builder.stream("r", value=str)
        left.outer_join(right, lambda a, b: f"{a}+{b}", WINDOWS, joined).to("o")
        driver = TopologyTestDriver(builder.build())
        for topic, value, time in [("l", "a", 0), ("r", "x", 5), ("l", "b", 5), ("r", "y", 40), ("l", "c", 90)]:
            driver.pipe_input(topic, "k", value, time)
        return [tuple(record[:3]) for record in driver.read_output("o")]

    own = StreamJoined.with_this_store_supplier(MINE).with_other_store_supplier(YOURS)
    assert run(own) == run(None) == [("k", "a+x", 5), ("k", "b+x", 5), ("k", "None+y", 40)]


@pytest.mark.parametrize(
    ("joined", "message"),
    [
        (
            lambda: StreamJoined.with_this_store_supplier(Stores.in_memory_window_store("mine", 30, 20, True)),
            "has windows of 20 ms and a retention of 30 ms, but the join at .* needs 20 ms and 25 ms",
        ),
        (
            lambda: StreamJoined.with_this_store_supplier(Stores.in_memory_window_store("mine", 25, 20)),
            "retain_duplicates=True",
        ),
        (
            lambda: StreamJoined.with_this_store_supplier(MINE).with_other_store_supplier(MINE),
            "both stores of a join are called 'mine'",
        ),
        (
            lambda: StreamJoined.with_other_store_supplier(Stores.in_memory_key_value_store("mine")),
            "keeps its records in window stores",
        ),
    ],
)
def test_stores_that_do_not_fit_a_join_are_refused(joined: Any, message: str):
    builder = StreamsBuilder()
    with pytest.raises(ConfigError, match=message):
        builder.stream("l").join(builder.stream("r"), lambda a, b: [a, b], WINDOWS, joined())


# --- the names of tables' stores -------------------------------------------------------------------------------------


def test_tables_whose_stores_a_program_named_say_the_name_for_queries():
    """As in Kafka Streams, generated names are no names for queries, but those of global tables."""
    builder = StreamsBuilder()
    prices = builder.table("prices", str, int, store="prices")
    grouped = builder.stream("in", str, int).group_by_key()
    windows = grouped.windowed_by(TimeWindows.of_size_with_no_grace(10)).count("windows")
    tables: dict[str, Any] = {
        "prices": prices,
        "mapped": prices.map_values(lambda value: value, store="mapped"),
        "mine": grouped.count(materialized=Materialized.as_(Stores.in_memory_key_value_store("mine"))),
        "windows": windows,
        "latest": builder.stream("other", str, int).to_table("latest"),
        "everywhere": builder.global_table("global", str, int, store="everywhere"),
    }
    assert {name: table.queryable_store_name for name, table in tables.items()} == {name: name for name in tables}
    unnamed = [
        builder.table("unnamed", str, int),
        prices.filter(lambda key, value: value > 0),
        grouped.count(),
        windows.suppress(Suppressed.until_window_closes().with_name("held")),
    ]
    assert [table.queryable_store_name for table in unnamed] == [None] * 4
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_input("prices", "tea", 3)
        driver.pipe_input("global", "tea", 4)
        assert {name: driver.store(name).get("tea") for name in ("prices", "mapped", "everywhere")} == {
            "prices": 3,
            "mapped": 3,
            "everywhere": 4,
        }
