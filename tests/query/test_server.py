"""State over HTTP: JSON, Arrow, pages, and what is told of requests that cannot be answered."""

from __future__ import annotations

import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.ipc as ipc
import pytest

from penstock import Materialized, SessionWindows, StreamsBuilder, TimeWindows, produce
from penstock.engine.local import LocalApplication
from penstock.errors import ConfigError
from penstock.log.file.log import FileLog
from penstock.query import server
from penstock.query.application import open_stores
from penstock.query.server import ARROW, StateServer, app
from penstock.settings import Settings
from penstock.storage.base import LocalStorage
from support.folders import MEMORY

httpx = pytest.importorskip("httpx", reason="comes with penstock-streams[dev]")
TestClient: Any = pytest.importorskip("starlette.testclient", reason="comes with penstock-streams[serve]").TestClient

ROWS = [(f"k{number}", number, number) for number in range(25)]


class Program:
    def __init__(self, folder: Path):
        self.folder = folder
        self.log = FileLog(folder / "log")
        builder = StreamsBuilder()
        numbers = builder.stream("in", key=str, value=int).group_by_key()
        numbers.reduce(lambda one, other: one + other, store="sums")
        numbers.windowed_by(TimeWindows.of_size_and_grace(10, 1000)).count("windows")
        numbers.windowed_by(SessionWindows.of_inactivity_gap_and_grace(5, 1000)).count("sessions")
        prices = Materialized.as_versioned("prices", "1 minute")
        builder.table("prices", key=int, value=dict, materialized=prices)
        produce([(7, {"price": 1}, 5), (7, {"price": 2}, 9)], "prices", int, dict, self.log)
        produce([], "in", str, int, self.log, partitions=2)
        settings = Settings.load(environment={})
        storage = LocalStorage(folder / "checkpoint")
        self.running = LocalApplication(builder.build(), "app", settings, self.log, storage, folder / "state")
        self.process(*ROWS)

    def process(self, *rows: tuple[str, int, int]) -> None:
        produce(rows, "in", str, int, self.log)
        self.running.run_until()


@pytest.fixture(scope="module")
def program() -> Iterator[Program]:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        yield Program(Path(folder))


@pytest.fixture(scope="module")
def client(program: Program) -> Any:
    return TestClient(app(open_stores(program.folder)))


def test_all_stores_are_listed_with_their_types(client: Any):
    found = client.get("/stores").json()
    assert found["stores"] == [
        {"store": "sums", "kind": "KeyValueStore", "key": "str", "value": "int"},
        {"store": "windows", "kind": "WindowStore", "key": "str", "value": "int"},
        {"store": "sessions", "kind": "SessionStore", "key": "str", "value": "int"},
        {"store": "prices", "kind": "VersionedStore", "key": "int", "value": "json[dict]"},
    ]
    assert client.get("/").json() == found


def test_what_a_store_has_for_a_key_is_a_row_or_several(client: Any):
    assert client.get("/stores/sums/k7").json()["row"] == {"key": "k7", "value": 7, "timestamp": 7}
    window = {"key": "k7", "value": 1, "window_start": 0, "window_end": 10, "timestamp": 7}
    assert client.get("/stores/windows/k7").json()["rows"] == [window]
    assert client.get("/stores/sessions/k7").json()["rows"] == [
        {"key": "k7", "value": 1, "window_start": 7, "window_end": 7}
    ]
    assert client.get("/stores/prices/7").json()["rows"] == [
        {"key": 7, "value": {"price": 1}, "valid_from": 5, "valid_to": 9},
        {"key": 7, "value": {"price": 2}, "valid_from": 9, "valid_to": None},
    ]


@pytest.mark.parametrize("windows", [50, 51, 80])
def test_a_key_of_many_rows_has_all_of_them(tmp_path: Path, windows: int):
    program = Program(tmp_path)
    program.process(*[("many", 1, 10 * number) for number in range(windows)])
    client = TestClient(app(open_stores(tmp_path)))
    for _ in range(2):  # the first one makes the copy
        found = client.get("/stores/windows/many").json()["rows"]
        assert [row["window_start"] for row in found] == [10 * number for number in range(windows)]
    assert client.get("/stores/windows/nobody").status_code == 404


@pytest.mark.parametrize(
    ("address", "error"),
    [
        ("/stores?x=1", "unknown parameter 'x'"),
        ("/stores/sums/k7?as_of=5", "unknown parameter 'as_of'"),
        ("/stores/windows/k7?from=5&to=7", "unknown parameter 'from'"),
        ("/stores/sums?key=k7", "unknown parameter 'key'"),
        ("/stores/sums?limit=1&limit=2", "the parameter 'limit' is given 2 times"),
        ("/health?stale=5", "unknown parameter 'stale'"),
        ("/stores/sums/%ff", "'/stores/sums/%ff' is not the UTF-8 of a text"),
        ("/stores/sums?from=%ff", "'from=%ff' is not the UTF-8 of a text"),
    ],
)
def test_what_an_answer_would_ignore_or_alter_is_refused(client: Any, address: str, error: str):
    answer = client.get(address)
    assert (answer.status_code, answer.json()["error"]) == (400, error)


def keys(answer: Any) -> list[str]:
    return [row["key"] for row in answer.json()["rows"]]


def test_ranges_prefixes_and_directions(client: Any):
    assert keys(client.get("/stores/sums?from=k8&to=k9")) == ["k8", "k9"]
    assert keys(client.get("/stores/sums?from=k8&reverse=true")) == ["k9", "k8"]
    assert keys(client.get("/stores/sums?prefix=k2&limit=3")) == ["k2", "k20", "k21"]
    assert keys(client.get("/stores/windows?from=k8&to=k9")) == ["k8", "k9"]
    assert keys(client.get("/stores/sessions?to=k0")) == ["k0"]


def test_pages_are_of_one_commit_whatever_is_committed_meanwhile(program: Program):
    stores = open_stores(program.folder)
    client = TestClient(app(stores))
    first = client.get("/stores/sums?limit=10").json()
    program.process(("k00", 1, 0), ("zzz", 1, 0))
    stores.catch_up()
    second = client.get(f"/stores/sums?limit=10&cursor={first['cursor']}").json()
    third = client.get(f"/stores/sums?limit=10&cursor={second['cursor']}").json()
    found = [row["key"] for page in (first, second, third) for row in page["rows"]]
    assert found == sorted(key for key, _, _ in ROWS)
    assert (first["commit"] == second["commit"] == third["commit"], third["cursor"]) == (True, None)
    assert keys(client.get("/stores/sums?limit=30"))[-1] == "zzz"
    again = client.get(f"/stores/sums?cursor={first['cursor']}")
    assert (again.status_code, "Ask for the first page again" in again.json()["error"]) == (410, True)
    stores.close()


def test_a_whole_store_comes_as_arrow_when_that_is_accepted(client: Any):
    answer = client.get("/stores/sums", headers={"accept": ARROW})
    table = ipc.open_stream(answer.content).read_all()
    assert answer.headers["content-type"] == ARROW
    assert int(answer.headers["penstock-commit"]) >= 1
    assert table.schema.names == ["key", "value", "timestamp"]
    assert set(ROWS) <= set(zip(table["key"].to_pylist(), table["value"].to_pylist(), table["value"].to_pylist()))
    wrong = client.get("/stores/sums?limit=5", headers={"accept": ARROW})
    assert (wrong.status_code, wrong.json()["error"][:28]) == (400, "Arrow returns whole stores: ")


@pytest.mark.parametrize(
    ("address", "status", "said"),
    [
        ("/stores/sum", 404, "there is no store 'sum'"),
        ("/stores/sums/nobody", 404, "the store 'sums' has nothing for the key 'nobody'"),
        ("/stores/prices/seven", 400, "'seven' is no key of type int"),
        ("/stores/sums?limit=0", 400, "limit is a number from 1 to 10000, got '0'"),
        ("/stores/sums?reverse=maybe", 400, "reverse is true or false, got 'maybe'"),
        ("/stores/sums?first=a", 400, "unknown parameter 'first'"),
        ("/stores/sums?prefix=a&from=b", 400, "prefix cannot be combined with from and to"),
        ("/stores/windows?prefix=a", 400, "the store 'windows' is no key-value store"),
        ("/tables", 404, "there is nothing at /tables; there are /stores, /stores/STORE and /stores/STORE/KEY"),
    ],
)
def test_what_cannot_be_answered_is_told_as_json(client: Any, address: str, status: int, said: str):
    answer = client.get(address)
    assert (answer.status_code, said in answer.json()["error"]) == (status, True), answer.text


def test_a_wrong_store_is_answered_with_those_that_there_are_and_state_is_only_read(client: Any):
    assert client.get("/stores/sum").json()["stores"] == ["sums", "windows", "sessions", "prices"]
    answer = client.put("/stores/sums/k7", json=1)
    assert (answer.status_code, answer.json()) == (405, {"error": "state is only read: use GET, got PUT"})


@pytest.mark.kip("892-12")
def test_whoever_asks_as_soon_as_there_is_an_address_waits_and_is_not_refused(program: Program):
    with StateServer(open_stores(program.folder), port=0) as running:
        socket.create_connection(("127.0.0.1", running.port), timeout=10).close()


def test_a_real_server_follows_the_program_listens_here_alone_and_stops(program: Program):
    with StateServer(open_stores(program.folder), port=0) as running:
        assert running.url == f"http://127.0.0.1:{running.port}"
        with httpx.Client(base_url=running.url, timeout=30) as client:
            assert client.get("/stores/sums/k7").json()["row"]["value"] == 7
            program.process(("new", 1, 3))
            deadline = time.monotonic() + 30
            while client.get("/stores/sums/new").status_code == 404 and time.monotonic() < deadline:
                time.sleep(0.01)
            assert client.get("/stores/sums/new").json()["row"]["value"] == 1
        with pytest.raises(
            ConfigError, match=f"cannot listen at 127.0.0.1, port {running.port}: .*give another --port"
        ):
            StateServer(open_stores(program.folder), port=running.port)
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{running.url}/stores")


def test_answers_are_sent_at_once_and_do_not_wait_for_the_client(program: Program):
    """Without TCP_NODELAY, which accepted connections have of the listening one, each takes 40 ms."""
    with StateServer(open_stores(program.folder), port=0) as running:
        assert running._socket.proto == socket.IPPROTO_TCP
        assert running._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_cursors_that_nobody_comes_back_for_are_let_go_of(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(server, "_MOST_CURSORS", 2)
    cursors = server.Cursors()
    view: Any = type("View", (), {"name": "sums"})()
    names = [cursors.keep(iter([]), {"key": number}, view) for number in range(3)]
    with pytest.raises(server.WrongRequestError, match="there is no cursor"):
        cursors.take(names[0], "sums")
    assert [cursors.take(name, "sums").next for name in names[1:]] == [{"key": 1}, {"key": 2}]


def test_numbers_that_json_does_not_have_are_text_and_large_ones_are_whole(tmp_path: Path):
    builder, log = StreamsBuilder(), FileLog(tmp_path / "log")
    builder.table("floats", key=str, value=float, store="floats")
    builder.table("things", key=float, value=Any, store="things")
    floats = {"a": float("nan"), "b": float("inf"), "c": float("-inf"), "d": -0.0, "e": 2.0**53}
    produce([(name, x, 1) for name, x in floats.items()], "floats", str, float, log)
    produce([(float("nan"), {"id": 2**70, "n": 9007199254740993}, 1)], "things", float, Any, log)
    running = LocalApplication(builder.build(), "app", Settings(), log, LocalStorage(tmp_path / "checkpoint"))
    running.run_until()
    client = TestClient(app(open_stores(tmp_path)))
    rows = client.get("/stores/floats").json()["rows"]
    assert [row["value"] for row in rows] == ["NaN", "Infinity", "-Infinity", -0.0, 2.0**53]
    assert str(rows[3]["value"]) == "-0.0"
    assert client.get("/stores/things/NaN").json()["row"] == {
        "key": "NaN", "value": {"id": 2**70, "n": 9007199254740993}, "timestamp": 1
    }  # fmt: skip
    assert "nan" not in client.get("/stores/things").text
    running.close()
