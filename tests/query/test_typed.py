"""Typed queries: what each kind of store answers, partition by partition, and why it does not."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import (
    KeyQuery,
    Materialized,
    MultiVersionedKeyQuery,
    Position,
    PositionBound,
    RangeQuery,
    SessionKey,
    SessionWindows,
    StateQueryRequest,
    StreamsBuilder,
    TimestampedKeyQuery,
    TimestampedRangeQuery,
    TimeWindows,
    VersionedKeyQuery,
    Windowed,
    WindowKeyQuery,
    WindowRangeQuery,
    produce,
)
from penstock.engine.local import LocalApplication
from penstock.errors import ConfigError
from penstock.log.file.log import FileLog
from penstock.query.answers import FailureReason, answered
from penstock.query.application import ApplicationStores, open_stores
from penstock.settings import Settings
from penstock.state.shapes import VersionedRecord
from penstock.storage.base import LocalStorage
from penstock.testing import TopologyTestDriver
from support.folders import MEMORY

pytestmark = pytest.mark.slow

ROWS = [("a", 1, 5), ("b", 2, 7), ("a", 3, 12), ("c", 4, 30)]


def stores_of_all_kinds() -> Any:
    builder = StreamsBuilder()
    grouped = builder.stream("in", key=str, value=int).group_by_key()
    grouped.count("counts")
    grouped.windowed_by(TimeWindows.of_size_and_grace(10, 1000)).count("windows")
    grouped.windowed_by(SessionWindows.of_inactivity_gap_and_grace(8, 1000)).count("sessions")
    builder.table("prices", key=str, value=int, materialized=Materialized.as_versioned("prices", "1 minute"))
    return builder.build()


@pytest.fixture(scope="module")
def driver() -> TopologyTestDriver:
    driver = TopologyTestDriver(stores_of_all_kinds())
    driver.pipe_record_list("in", ROWS)
    driver.pipe_record_list("prices", ROWS)
    return driver


@pytest.mark.kip("KS-14")
@pytest.mark.parametrize(
    ("store", "query", "expected"),
    [
        ("counts", KeyQuery.with_key("a"), 2),
        ("counts", KeyQuery.with_key("z"), None),
        ("counts", TimestampedKeyQuery.with_key("a"), (2, 12)),
        ("counts", RangeQuery.with_no_bounds(), [("a", 2), ("b", 1), ("c", 1)]),
        ("counts", RangeQuery.with_lower_bound("b").with_descending_keys(), [("c", 1), ("b", 1)]),
        ("counts", RangeQuery.with_upper_bound("a").with_ascending_keys(), [("a", 2)]),
        ("counts", TimestampedRangeQuery.with_range("b", "c"), [("b", (1, 7)), ("c", (1, 30))]),
        ("windows", WindowKeyQuery.with_key_and_window_start_range("a", 0, 10), [(0, 1, 5), (10, 1, 12)]),
        (
            "windows",
            WindowRangeQuery.with_window_start_range(10, 30),
            [(Windowed("a", 10, 20), 1, 12), (Windowed("c", 30, 40), 1, 30)],
        ),
        ("sessions", WindowRangeQuery.with_key("a"), [(SessionKey("a", 5, 12), 2)]),
    ],
)
def test_each_kind_of_store_answers_the_queries_for_it(
    driver: TopologyTestDriver, store: str, query: Any, expected: Any
):
    result = driver.store(store).query(query).partition_results[0].result
    assert (list(result) if isinstance(expected, list) else result) == expected


@pytest.mark.kip("914-14")
def test_versioned_stores_answer_the_latest_as_of_and_a_range_of_time_both_ways(driver: TopologyTestDriver):
    def ask(query: Any) -> Any:
        return driver.store("prices").query(query).partition_results[0].result

    old, new = VersionedRecord(1, 5, 12), VersionedRecord(3, 12, None)
    assert ask(VersionedKeyQuery.with_key("a")) == new
    assert [ask(VersionedKeyQuery.with_key("a").as_of(at)) for at in (4, 5, 11, 12)] == [None, old, old, new]
    history = MultiVersionedKeyQuery.with_key("a")
    assert list(ask(history)) == list(ask(history.with_descending_timestamps())) == [new, old]
    assert list(ask(history.with_ascending_timestamps())) == [old, new]
    assert list(ask(history.from_time(12))) == [new]
    assert list(ask(history.to_time(11))) == [old]


def test_a_store_that_does_not_know_a_query_says_which_and_why(driver: TopologyTestDriver):
    for store, query in [
        ("windows", KeyQuery.with_key("a")),
        ("counts", WindowKeyQuery.with_key_and_window_start_range("a", 0, 1)),
        ("windows", WindowRangeQuery.with_key("a")),
        ("sessions", WindowRangeQuery.with_window_start_range(0, 1)),
    ]:
        found = driver.store(store).query(query).partition_results[0]
        assert found.failure_reason is FailureReason.UNKNOWN_QUERY_TYPE
        with pytest.raises(ConfigError, match=f"UNKNOWN_QUERY_TYPE.*store such as '{store}' does not answer"):
            assert found.result
    wrong = driver.store("counts").query(KeyQuery.with_key(7)).partition_results[0]
    assert (wrong.failure_reason, "cannot encode 7" in wrong.failure_message) == (FailureReason.STORE_EXCEPTION, True)
    with pytest.raises(ConfigError, match="the key must not be None"):
        KeyQuery.with_key(None)
    with pytest.raises(ConfigError, match="has no query; add one by with_query"):
        answered(driver.store("counts"), StateQueryRequest.in_store("counts"))


# --- partitions and positions --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stores() -> Iterator[ApplicationStores]:
    """Three partitions: keys 0 to 8, of each one record."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        log, storage = FileLog(Path(folder) / "log"), LocalStorage(Path(folder) / "checkpoint")
        builder = StreamsBuilder()
        builder.stream("in", key=str, value=int).group_by_key().count("counts")
        produce([(str(number), 1, number) for number in range(9)], "in", str, int, log, partitions=3)
        LocalApplication(builder.build(), "app", Settings.load(environment={}), log, storage).run_until()
        yield open_stores(Path(folder))


@pytest.mark.kip("KS-14")
def test_partitions_answer_by_themselves_and_tell_up_to_where(stores: ApplicationStores):
    request = StateQueryRequest.in_store("counts").with_query(RangeQuery.with_no_bounds())
    every = stores.query(request.enable_execution_info())
    rows = {partition: dict(one.result) for partition, one in every.partition_results.items()}
    assert sorted(key for found in rows.values() for key in found) == [str(number) for number in range(9)]
    assert sorted(rows) == [0, 1, 2]
    assert every.position.partitions("in") == {one: len(found) - 1 for one, found in rows.items() if found}
    assert all("at commit" in one.execution_info[0] for one in every.partition_results.values())
    with pytest.raises(ConfigError, match="3 partitions gave results, and only_partition_result is for one"):
        assert every.only_partition_result
    some = stores.query(request.with_partitions({1, 7})).partition_results
    assert dict(some[1].result) == rows[1]
    assert some[7].failure_reason is FailureReason.DOES_NOT_EXIST
    of_key = stores.query(StateQueryRequest.in_store("counts").with_query(KeyQuery.with_key("4")))
    assert of_key.only_partition_result is not None
    assert of_key.only_partition_result.result == 1


@pytest.mark.kip("KS-14")
def test_partitions_that_are_not_as_far_as_asked_for_say_so(stores: ApplicationStores):
    view = stores.view("counts")
    query, at = RangeQuery.with_no_bounds(), view.position()
    partition, offset = max(at.partitions("in").items(), key=lambda one: one[1])
    assert all(one.is_success for one in view.query(query, PositionBound.at(at)).partition_results.values())
    further = at.with_component("in", partition, offset + 1)
    found = view.query(query, PositionBound.at(further)).partition_results
    assert {one for one, result in found.items() if result.is_failure} == {partition}
    assert found[partition].failure_reason is FailureReason.NOT_UP_TO_BOUND
    assert found[partition].position == Position.from_map({"in": {partition: offset}})
    assert f"in-{partition}: {offset}" in found[partition].failure_message


def test_a_position_is_a_dict_of_dicts():
    one = Position.from_map({"in": {0: 5, 1: 2}})
    assert one.merge(Position.from_map({"in": {0: 3, 2: 1}, "other": {0: 0}})).offsets == {
        "in": {0: 5, 1: 2, 2: 1},
        "other": {0: 0},
    }
    with pytest.raises(ConfigError, match="a position is a dict of offsets by topic and partition"):
        Position.from_map({"in": 5})  # type: ignore[dict-item]


@pytest.mark.kip("KS-20")
def test_a_request_may_ask_for_the_active_task_and_for_no_cache_as_in_kafka():
    builder = StreamsBuilder()
    builder.table("prices", key=str, value=float, store="prices")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("prices", "apple", 1.5)
    request = StateQueryRequest.in_store("prices").with_query(KeyQuery.with_key("apple").skip_cache()).require_active()
    assert request.is_require_active
    assert driver.store("prices").query(request.query).only_partition_result.result == 1.5
