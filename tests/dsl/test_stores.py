"""``Stores``: what suppliers and builders say, and what they refuse."""

from datetime import timedelta

import pytest

from penstock import (
    ConfigError,
    Materialized,
    SessionWindows,
    SlidingWindows,
    StateStore,
    Stores,
    StreamsBuilder,
    TimeWindows,
    TopologyError,
)
from penstock.engine.shared.stores import store_of
from penstock.serdes import INT, STR
from penstock.state.kinds.key_value import KeyValueStore
from penstock.state.kinds.segments import segment_interval_of
from penstock.state.kinds.session import SessionStore
from penstock.state.kinds.versioned.store import VersionedStore
from penstock.state.kinds.window import WindowStore
from support.own_stores import DictStore

MINUTE = 60_000
SUPPLIERS = {
    "persistent_key_value": Stores.persistent_key_value_store("s"),
    "persistent_timestamped_key_value": Stores.persistent_timestamped_key_value_store("s"),
    "in_memory_key_value": Stores.in_memory_key_value_store("s"),
    "persistent_versioned": Stores.persistent_versioned_key_value_store("s", "1 hour"),
    "in_memory_versioned": Stores.in_memory_versioned_key_value_store("s", "1 hour"),
    "persistent_window": Stores.persistent_window_store("s", "1 hour", "10 minutes"),
    "persistent_timestamped_window": Stores.persistent_timestamped_window_store("s", "1 hour", "10 minutes"),
    "in_memory_window": Stores.in_memory_window_store("s", "1 hour", "10 minutes"),
    "persistent_session": Stores.persistent_session_store("s", "1 hour"),
    "in_memory_session": Stores.in_memory_session_store("s", "1 hour"),
}
BUILDERS = {
    "key_value": Stores.key_value_store_builder,
    "timestamped_key_value": Stores.timestamped_key_value_store_builder,
    "versioned": Stores.versioned_key_value_store_builder,
    "window": Stores.window_store_builder,
    "timestamped_window": Stores.timestamped_window_store_builder,
    "session": Stores.session_store_builder,
}
KINDS = {"key_value": KeyValueStore, "versioned": VersionedStore, "window": WindowStore, "session": SessionStore}


@pytest.mark.kip("KS-03")
@pytest.mark.parametrize("shape", BUILDERS)
@pytest.mark.parametrize("supplier", SUPPLIERS)
def test_a_builder_takes_the_suppliers_of_its_kind_of_store_and_refuses_the_others(shape, supplier):
    kind = supplier.split("_")[-1].replace("value", "key_value")
    if kind != shape.removeprefix("timestamped_"):
        with pytest.raises(ConfigError, match=f"{shape}_store_builder takes a supplier, such as Stores.persistent_"):
            BUILDERS[shape](SUPPLIERS[supplier], str, int)
        return
    builder = BUILDERS[shape](SUPPLIERS[supplier], str, int)
    store = store_of(builder.spec)
    assert (type(store), store.name, store.in_memory) == (KINDS[kind], "s", supplier.startswith("in_memory"))
    assert (builder.name, builder.spec.types) == ("s", (STR, INT))
    assert builder.spec.is_timestamped == shape.startswith("timestamped")


@pytest.mark.kip("94-06", "KS-03")
def test_what_a_supplier_says_of_time_is_the_stores():
    window = Stores.persistent_window_store("s", timedelta(hours=1), "10 minutes", segment_interval="20 minutes")
    store = store_of(Stores.window_store_builder(window, str, int).spec)
    assert (store.retention, store.segment_interval) == (60 * MINUTE, 20 * MINUTE)
    session = Stores.persistent_session_store("s", "1 hour", segment_interval=1000)
    store = store_of(Stores.session_store_builder(session, str, int).spec)
    assert (store.retention, store.segment_interval) == (60 * MINUTE, 1000)
    session = Stores.persistent_session_store("s", "1 hour")
    assert store_of(Stores.session_store_builder(session, str, int).spec).segment_interval == 30 * MINUTE
    versioned = Stores.persistent_versioned_key_value_store("s", "1 hour", "2 minutes")
    store = store_of(Stores.versioned_key_value_store_builder(versioned, str, int).spec)
    assert (store.retention, store.segment_interval) == (60 * MINUTE, 2 * MINUTE)


@pytest.mark.kip("94-06")
def test_the_segment_interval_follows_from_retention_and_number_of_segments():
    assert [segment_interval_of(10 * MINUTE, segments) for segments in (2, 3, 6)] == [
        10 * MINUTE,
        5 * MINUTE,
        2 * MINUTE,
    ]
    assert segment_interval_of(MINUTE) == MINUTE


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Stores.persistent_key_value_store(None), "None"),
        (lambda: Stores.persistent_key_value_store("a b"), "'a b'"),
        (lambda: Stores.lru_map("s", -1), "max_cache_size of store 's' must be a number of entries, 0 or more; got -1"),
        (lambda: Stores.lru_map("s", "10"), "max_cache_size"),
        (lambda: Stores.persistent_window_store("s", -1, 0), "retention period"),
        (lambda: Stores.persistent_window_store("s", 10, -1), "window size"),
        (lambda: Stores.persistent_window_store("s", "1 minute", "2 minutes"), "size of 120000 ms .* of 60000 ms"),
        (lambda: Stores.in_memory_window_store("s", 9, 10), "must be no smaller than its window size"),
        (lambda: Stores.persistent_window_store("s", 9, 9, segment_interval=0), "segment interval of store 's'"),
        (lambda: Stores.persistent_session_store("s", -1), "retention period"),
        (lambda: Stores.in_memory_session_store("s", "soon"), "retention period"),
        (lambda: Stores.persistent_session_store("s", 1, segment_interval=0), "segment interval of store 's'"),
        (lambda: Stores.persistent_versioned_key_value_store("s", -1), "history retention"),
        (lambda: Stores.key_value_store_builder("s", str, int), "got 's' of type str"),
        (lambda: Stores.key_value_store_builder(Stores.persistent_key_value_store("s"), str, object()), "value"),
    ],
)
@pytest.mark.kip("KS-03")
def test_wrong_arguments_are_refused(make, message):
    with pytest.raises((ConfigError, TopologyError), match=message):
        make()


@pytest.mark.kip("KS-03")
def test_a_builder_is_a_value_and_keeps_its_flags():
    builder = Stores.key_value_store_builder(Stores.persistent_key_value_store("s"), str, int)
    assert (builder.spec.caching, builder.spec.logging) == (False, True)
    changed = builder.with_caching_enabled().with_logging_disabled()
    assert (changed.spec.caching, changed.spec.logging) == (True, False)
    again = changed.with_logging_enabled({"min.insync.replicas": "1"}).with_caching_disabled()
    assert (again.spec.caching, again.spec.logging, again.log_config) == (False, True, {"min.insync.replicas": "1"})
    assert (builder.spec.caching, builder.spec.logging) == (False, True)
    assert builder.spec is builder.spec


@pytest.mark.kip("KS-03")
def test_a_supplier_may_be_ones_own():
    class Own:
        name = "own"

        def get(self) -> StateStore:
            return DictStore()

    spec = Stores.key_value_store_builder(own := Own(), bytes, bytes).spec
    assert (spec.name, spec.supplier) == ("own", own)
    for make in (Stores.window_store_builder, Stores.session_store_builder, Stores.versioned_key_value_store_builder):
        with pytest.raises(ConfigError, match=r"_store_builder takes a supplier.*, or one of your own, .*; got .*Own"):
            make(own, str, str)


def table(materialized, windows=None):
    grouped = StreamsBuilder()
    stream = grouped.stream("in", str, str).group_by_key()
    (stream if windows is None else stream.windowed_by(windows)).count(materialized=materialized)
    return grouped.build()


WINDOWS = {
    "plain": None,
    "tumbling": TimeWindows.of_size_with_no_grace("10 minutes"),
    "sliding": SlidingWindows.of_time_difference_and_grace("10 minutes", 0),
    "sessions": SessionWindows.of_inactivity_gap_and_grace("10 minutes", 0),
}


@pytest.mark.kip("KS-03", "914-12")
@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("supplier", [name for name in SUPPLIERS if "versioned" not in name])
def test_a_table_is_kept_in_a_store_that_is_described_when_it_is_of_its_kind(supplier, windows):
    needed = {"plain": "value", "sessions": "session"}.get(windows, "window")
    materialized = Materialized.as_(SUPPLIERS[supplier])
    if not supplier.endswith(needed):
        with pytest.raises(TopologyError, match=r"the store 's' at .*test_stores.* is a .* store, but this step needs"):
            table(materialized, WINDOWS[windows])
        return
    specs = {spec.name: spec for spec in table(materialized, WINDOWS[windows]).facts.stores.values()}
    assert specs["s"].in_memory == supplier.startswith("in_memory")
    assert specs["s"].retention == (None if windows == "plain" else 60 * MINUTE)


@pytest.mark.kip("KS-03")
def test_a_described_stores_segments_are_taken_over_and_what_was_said_before_stays():
    supplier = Stores.persistent_window_store("s", "1 hour", "10 minutes", segment_interval="20 minutes")
    made = Materialized.with_(str, int).with_caching_disabled().as_(supplier)
    assert (made.segment_interval_ms, made.caching, made.key) == (20 * MINUTE, False, STR)
    plain = Stores.persistent_session_store("s", "1 hour")
    assert Materialized.with_segment_interval("1 minute").as_(plain).segment_interval_ms == MINUTE


@pytest.mark.parametrize(
    ("supplier", "message"),
    [
        (Stores.lru_map("s", 10), "forgets entries"),
        (Stores.persistent_window_store("s", 10, 10, retain_duplicates=True), "keeps duplicates"),
        (7, "a store"),
    ],
)
@pytest.mark.kip("KS-03")
def test_stores_that_only_processors_can_have_are_refused_for_tables(supplier, message):
    with pytest.raises((ConfigError, TopologyError), match=message):
        Materialized.as_(supplier)
