"""Queries that give headers (KIP-1356): typed, in views, as tables, over HTTP, from other processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock import (
    AggregationWithHeaders,
    ConfigError,
    FailureReason,
    IsolationLevel,
    KeyQuery,
    Processor,
    Record,
    SessionKey,
    Stores,
    StreamsBuilder,
    TimestampedKeyQuery,
    TimestampedKeyWithHeadersQuery,
    TimestampedRangeWithHeadersQuery,
    TimestampedWindowKeyWithHeadersQuery,
    TimestampedWindowRangeWithHeadersQuery,
    Topology,
    ValueTimestampHeaders,
    Windowed,
    WindowKeyQuery,
    WindowRangeQuery,
    open_store,
    produce,
)
from penstock.testing import TopologyTestDriver
from support.world import World

pytestmark = pytest.mark.kip("44-04")

ID, TRACE = (("id", b"1"),), (("trace", b"\xff"), ("none", None))
ROWS = [Record("a", 1, 5, ID), Record("b", 2, 7, TRACE), Record("c", 3, 12)]


class Keep(Processor):
    def init(self, context):
        self.rows, self.windows, self.sessions = map(context.get_state_store, ("rows", "windows", "sessions"))

    def process(self, record):
        headed = ValueTimestampHeaders(record.value, record.timestamp, record.headers)
        self.rows.put(record.key, headed)
        self.windows.put(record.key, headed, record.timestamp // 10 * 10)
        session = SessionKey(record.key, record.timestamp, record.timestamp)
        self.sessions.put(session, AggregationWithHeaders(record.value, record.headers))


def topology() -> Topology:
    builder = StreamsBuilder()
    rows = Stores.persistent_timestamped_key_value_store_with_headers("rows")
    windows = Stores.persistent_timestamped_window_store_with_headers("windows", 1000, 10)
    sessions = Stores.persistent_session_store_with_headers("sessions", 1000)
    builder.add_state_store(Stores.timestamped_key_value_store_with_headers_builder(rows, str, int))
    builder.add_state_store(Stores.timestamped_window_store_with_headers_builder(windows, str, int))
    builder.add_state_store(Stores.session_store_with_headers_builder(sessions, str, int))
    builder.stream("in", key=str, value=int).process(Keep, "rows", "windows", "sessions")
    builder.table("plain", key=str, value=int, store="plain")
    return builder.build()


@pytest.fixture(scope="module")
def driver() -> TopologyTestDriver:
    driver = TopologyTestDriver(topology())
    for record in ROWS:
        driver.pipe_input("in", *record)
    return driver


@pytest.mark.parametrize(
    ("store", "query", "expected"),
    [
        ("rows", TimestampedKeyWithHeadersQuery.with_key("b"), ROWS[1]),
        ("rows", TimestampedKeyWithHeadersQuery.with_key("z"), None),
        ("rows", TimestampedRangeWithHeadersQuery.with_no_bounds(), ROWS),
        ("rows", TimestampedRangeWithHeadersQuery.with_range("a", "b").with_descending_keys(), ROWS[1::-1]),
        ("rows", KeyQuery.with_key("b"), 2),
        ("rows", TimestampedKeyQuery.with_key("b"), (2, 7)),
        (
            "windows",
            TimestampedWindowKeyWithHeadersQuery.with_key_and_window_start_range("b", 0, 10),
            [Record(Windowed("b", 0, 10), 2, 7, TRACE)],
        ),
        (
            "windows",
            TimestampedWindowRangeWithHeadersQuery.with_window_start_range(0, 0),
            [Record(Windowed("a", 0, 10), 1, 5, ID), Record(Windowed("b", 0, 10), 2, 7, TRACE)],
        ),
        ("windows", WindowKeyQuery.with_key_and_window_start_range("b", 0, 10), [(0, 2, 7)]),
        (
            "sessions",
            TimestampedWindowRangeWithHeadersQuery.with_key("a"),
            [Record(Windowed("a", 5, 5), 1, 5, ID)],
        ),
        ("sessions", WindowRangeQuery.with_key("a"), [(SessionKey("a", 5, 5), 1)]),
    ],
)
def test_typed_queries_give_records_with_their_headers(
    driver: TopologyTestDriver, store: str, query: Any, expected: Any
):
    (answer,) = driver.store(store).query(query).partition_results.values()
    assert (list(answer.result) if isinstance(expected, list) else answer.result) == expected


@pytest.mark.parametrize(
    ("store", "query"),
    [
        ("plain", TimestampedKeyWithHeadersQuery.with_key("a")),
        ("plain", TimestampedRangeWithHeadersQuery.with_no_bounds()),
        ("windows", TimestampedWindowRangeWithHeadersQuery.with_key("a")),
        ("windows", TimestampedKeyWithHeadersQuery.with_key("a")),
        ("sessions", TimestampedWindowRangeWithHeadersQuery.with_window_start_range(0, 10)),
    ],
)
def test_a_store_without_headers_or_of_another_kind_does_not_know_them(
    driver: TopologyTestDriver, store: str, query: Any
):
    (answer,) = driver.store(store).query(query).partition_results.values()
    assert answer.failure_reason is FailureReason.UNKNOWN_QUERY_TYPE


def test_a_row_without_a_time_is_no_record():
    driver = TopologyTestDriver(topology())
    driver.get_key_value_store("rows").put("a", 1)
    (answer,) = driver.store("rows").query(TimestampedKeyWithHeadersQuery.with_key("a")).partition_results.values()
    assert answer.failure_reason is FailureReason.STORE_EXCEPTION
    assert "has no timestamp (-1)" in answer.failure_message


def test_views_give_headers_where_they_are_asked_for(driver: TopologyTestDriver):
    rows, windows, sessions = map(driver.store, ("rows", "windows", "sessions"))
    second, third = ValueTimestampHeaders(2, 7, TRACE), ValueTimestampHeaders(3, 12, ())
    assert (rows.get("b"), rows.get_with_timestamp("b"), rows.get_with_headers("b")) == (2, (2, 7), second)
    assert rows.get_with_headers("z") is None
    assert list(rows.range_with_headers("b", None, reverse=True)) == [("c", third), ("b", second)]
    assert list(rows.all()) == [("a", 1, 5), ("b", 2, 7), ("c", 3, 12)]
    assert list(rows.prefix_scan("b")) == [("b", 2, 7)]
    assert rows.multi_get(["c", "b"]) == [3, 2]
    assert windows.get_with_headers("b", 0) == second
    assert list(windows.fetch_with_headers("c")) == [(10, third)]
    assert list(windows.fetch("b")) == [(0, 2, 7)]
    assert [found for _, found in windows.fetch_all_with_headers(10)] == [third]
    assert sessions.fetch_session_with_headers("b", 7, 7) == AggregationWithHeaders(2, TRACE)
    assert list(sessions.fetch_with_headers("a")) == [(SessionKey("a", 5, 5), AggregationWithHeaders(1, ID))]
    assert (sessions.fetch_session("b", 7, 7), list(sessions.fetch("a"))) == (2, [(SessionKey("a", 5, 5), 1)])
    assert next(found for _, found in sessions.all_with_headers()) == AggregationWithHeaders(1, ID)


def test_a_view_of_a_store_without_headers_says_how_to_get_some(driver: TopologyTestDriver):
    with pytest.raises(ConfigError, match="the store 'plain' has no headers: describe it with "):
        driver.store("plain").get_with_headers("a")
    with pytest.raises(ConfigError, match="the store 'plain' has no headers"):
        driver.get_timestamped_key_value_store_with_headers("plain")


@pytest.mark.parametrize("store", ["rows", "windows", "sessions"])
def test_a_table_of_a_store_has_a_column_of_headers(driver: TopologyTestDriver, store: str):
    table = driver.store(store).to_arrow().read_all()
    assert table.column_names[-1] == "headers"
    assert sorted(zip(table["value"].to_pylist(), map(str, table["headers"].to_pylist()), strict=True)) == [
        (1, str([{"key": "id", "value": b"1"}])),
        (2, str([{"key": "trace", "value": b"\xff"}, {"key": "none", "value": None}])),
        (3, "None"),
    ]
    assert "headers" not in driver.store("plain").to_arrow().schema.names


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path, topology())
    produce([], "plain", str, int, world.log)
    produce(ROWS[:2], "in", str, int, world.log)
    application = world.start()
    application.run_until()
    application.close()
    return world


def test_another_process_reads_headers_of_committed_rows(world: World):
    with open_store(str(world.storage.root), "rows") as rows:
        assert rows.get_with_headers("b") == ValueTimestampHeaders(2, 7, TRACE)
        assert [row["headers"] for row in rows._dicts()] == [[["id", b"1"]], [["trace", b"\xff"], ["none", None]]]
    with open_store(str(world.storage.root), "sessions") as sessions:
        assert sessions.fetch_session_with_headers("a", 5, 5) == AggregationWithHeaders(1, ID)


def test_running_tasks_give_headers_of_rows_that_no_commit_has(world: World):
    application = world.start()
    application.run_until()
    for name, read in (
        ("rows", lambda view: view.get_with_headers("b")),
        ("rows", lambda view: dict(view.range_with_headers())["b"]),
        ("windows", lambda view: view.get_with_headers("b", 0)),
    ):
        view = application.stores().view(name).read_only(IsolationLevel.READ_UNCOMMITTED)
        assert read(view) == ValueTimestampHeaders(2, 7, TRACE)
    view = application.stores().view("sessions").read_only(IsolationLevel.READ_UNCOMMITTED)
    assert view.fetch_session_with_headers("a", 5, 5) == AggregationWithHeaders(1, ID)
    application.close()


def test_http_tells_the_headers_of_rows(world: World):
    pytest.importorskip("httpx", reason="comes with penstock-streams[dev]")
    testclient = pytest.importorskip("starlette.testclient", reason="comes with penstock-streams[serve]")
    from penstock.query.application import open_stores
    from penstock.query.server import app

    client = testclient.TestClient(app(open_stores(world.folder)))
    assert client.get("/stores/rows/a").json()["row"] == {
        "key": "a",
        "value": 1,
        "timestamp": 5,
        "headers": [["id", "1"]],
    }
    (window,) = client.get("/stores/windows/b").json()["rows"]
    assert window["headers"] == [["trace", {"base64": "/w=="}], ["none", None]]
    assert client.get("/stores/sessions").json()["rows"][0]["headers"] == [["id", "1"]]
