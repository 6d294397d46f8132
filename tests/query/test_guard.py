"""Who is answered over HTTP: under which names, with which token, over how many connections."""

from __future__ import annotations

import http.client
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import ConfigError
from penstock.query import bounded
from penstock.query.application import open_stores
from penstock.query.bounded import bounded_protocol
from penstock.query.guard import Guarded
from penstock.query.server import Served, StateServer, app
from penstock.watch.server import page_app
from support.watched import Shop, open_shop

TestClient: Any = pytest.importorskip("starlette.testclient", reason="comes with penstock-streams[serve]").TestClient

TOKEN = "0123456789abcdef-of-a-test"


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    with open_shop() as shop:
        yield shop


def both(shop: Shop, host: str = "127.0.0.1", token: str | None = None) -> list[Guarded]:
    """The applications of both servers."""
    stores = open_stores(shop.folder)
    servers = Served(app(stores)), page_app(stores, shop.log)
    return [Guarded(one.app, host, token, one.login) for one in servers]


def client(served: Any, base_url: str = "http://localhost:8093") -> Any:
    return TestClient(served, base_url=base_url, follow_redirects=False)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200), ("LOCALHOST:8093", 200), ("localhost.", 200), ("127.0.0.1:1", 200), ("[::1]:8093", 200),
        ("127.8.0.1", 200), ("evil.example", 421), ("localhost.evil.example", 421), ("127.0.0.1.evil.example", 421),
        ("10.0.0.1", 421), ("[::1", 400), ("[zz]", 400), ("localhost:80a", 400), ("local host", 400),
        ("a@localhost", 400), ("", 400), ("localhost:\u0663".encode().decode("latin-1"), 400),
        ("localhost:65536", 400), ("localhost:99999", 400), ("[::1]:65535", 200),
    ],
)  # fmt: skip
def test_both_servers_answer_under_this_machines_own_names_alone(shop: Shop, host: str, status: int):
    for served in both(shop):
        answer = client(served).get("/stores", headers=[(b"host", host.encode("latin-1"))])
        assert answer.status_code == status
        assert ("error" in answer.json()) == (status != 200)


def test_beyond_this_machine_every_name_is_answered(shop: Shop):
    for served in both(shop, "0.0.0.0"):
        assert client(served).get("/stores", headers={"host": "pod-1.example:8093"}).status_code == 200
        assert client(served).get("/stores", headers={"host": "[::1"}).status_code == 400


def test_no_answer_is_to_be_taken_for_another_type(shop: Shop):
    for served in both(shop):
        for address in ("/", "/stores", "/nothing", "/stores/nothing", "/health", "/stores/minutes?limit=x"):
            assert client(served).get(address).headers.get_list("x-content-type-options") == ["nosniff"]
        assert client(served).post("/stores").headers["x-content-type-options"] == "nosniff"
        evil = client(served).get("/stores", headers={"host": "evil.example"})
        assert evil.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("limit", ["%D9%A3", "3_0", "+3", "3.0", "%C2%B2", "0", "-1", "", "99999999999999999999"])
def test_a_limit_is_a_number_in_plain_digits(shop: Shop, limit: str):
    for served in both(shop):
        assert client(served).get(f"/stores/minutes?limit={limit}").status_code == 400
    page = both(shop)[1]
    assert client(page).get(f"/api/topics/orders?limit={limit}").status_code == 400


def test_with_a_token_all_but_health_needs_it(shop: Shop):
    for served in both(shop, "0.0.0.0", TOKEN):
        asking = client(served, "http://somewhere.example")
        for address in ("/stores", "/stores/minutes", "/metrics", "/api/events", "/nothing"):
            for headers in ({}, {"authorization": "Bearer wrong-wrong-wrong"}, {"authorization": f"Basic {TOKEN}"}):
                refused = asking.get(address, headers=headers)
                assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
                assert TOKEN not in refused.text
        assert asking.get("/stores", headers={"authorization": f"bearer {TOKEN}"}).status_code == 200
        assert asking.get(f"/stores?token={TOKEN}").status_code == 401
        assert [asking.get(f"/health{one}").status_code for one in ("", "/live", "/ready")] == [200, 200, 200]
    assert client(both(shop, token=TOKEN)[0]).get("/stores").status_code == 401  # on this machine as well


def test_a_browser_brings_the_token_once(shop: Shop):
    served = both(shop, "0.0.0.0", TOKEN)[1]
    asking = client(served)
    page = asking.get("/")
    assert (page.status_code, 'type="password"' in page.text, "script" in page.text) == (401, True, False)
    assert asking.get("/page.css").status_code == 200
    assert asking.get("/app.js").status_code == 401
    wrong = asking.post("/login", data={"token": "wrong"})
    assert (wrong.status_code, "That is not the token." in wrong.text, "set-cookie" in wrong.headers) == (
        401,
        True,
        False,
    )
    right = asking.post("/login", data={"token": TOKEN})
    assert (right.status_code, right.headers["location"]) == (303, "/")
    cookie = right.headers["set-cookie"]
    assert "HttpOnly; SameSite=Strict" in cookie
    assert TOKEN not in cookie
    assert asking.get("/").status_code == 200
    assert asking.get("/api/figures").status_code == 200
    assert client(both(shop, "0.0.0.0", TOKEN)[1]).get("/", headers={"cookie": cookie}).status_code == 401  # of before


@pytest.mark.parametrize("token", ["😀" * 20, "%F0%9F%98%80", "ü", "\udcff"])
def test_whatever_a_wrong_token_is_made_of_it_is_answered_and_waits(
    shop: Shop, token: str, monkeypatch: pytest.MonkeyPatch
):
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("penstock.query.guard.asyncio.sleep", sleep)
    form = f"token={token}".encode(errors="surrogateescape")
    wrong = client(both(shop, "0.0.0.0", TOKEN)[1]).post("/login", content=form)
    assert (wrong.status_code, "That is not the token." in wrong.text, waits) == (401, True, [0.5])


def test_an_address_beyond_this_machine_wants_a_token_or_the_word_that_it_has_none(shop: Shop):
    def refusal(*arguments: Any) -> str:
        with pytest.raises(ConfigError) as error:
            StateServer(open_stores(shop.folder), *arguments)
        return str(error.value)

    assert refusal("0.0.0.0", 0) == (
        "at 0.0.0.0, everybody who reaches this machine could read all stores and topics: set a token in a file "
        "(--token-file) or the variable PENSTOCK_TOKEN, or let everybody read with --no-token"
    )
    for token in ("short", "with blanks in the middle", "ümlauts-are-no-ascii"):
        assert token not in refusal("127.0.0.1", 0, None, token)
    with StateServer(open_stores(shop.folder), "0.0.0.0", 0, is_open=True) as server:
        assert ask(server.port) == 200
    with StateServer(open_stores(shop.folder), "0.0.0.0", 0, token=TOKEN) as server:
        assert ask(server.port) == 401


def test_the_page_beyond_this_machine_needs_the_token_of_its_server(shop: Shop):
    stores = open_stores(shop.folder)
    with StateServer(stores, "0.0.0.0", 0, page_app(stores, shop.log), TOKEN) as server:
        assert [ask(server.port, address) for address in ("/", "/stores", "/api/figures")] == [401, 401, 401]


def ask(port: int, address: str = "/stores") -> int:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
        connection.request("GET", address)
        return connection.getresponse().status


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


HALVES = [
    b"",
    b"G",
    b"GET /stores HTTP/1.1\r\nHost: localhost\r\nX-",
    b"POST /stores HTTP/1.1\r\nContent-Length: 9\r\n",
]


def is_closed(one: socket.socket, data: bytes, seconds: float) -> bool:
    """Whether the other end closes the connection within so many seconds, though something comes again and again."""
    deadline = time.monotonic() + seconds
    try:
        while time.monotonic() < deadline:
            one.sendall(data)
            time.sleep(0.02)
    except OSError:
        return True
    return False


@pytest.mark.parametrize("is_page", [False, True])
def test_connections_that_are_half_open_take_few_descriptors_and_keep_nobody_out(
    shop: Shop, is_page: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bounded, "most_connections", lambda: 20)
    stores = open_stores(shop.folder)
    with StateServer(stores, port=0, served=page_app(stores, shop.log) if is_page else None) as server:
        ask(server.port)
        before, most, held = descriptors(), 0, []
        for number in range(150):
            one = socket.create_connection(("127.0.0.1", server.port))
            one.sendall(HALVES[number % len(HALVES)])
            held.append(one)
            most = max(most, descriptors() - before - len(held))
        assert ask(server.port) == 200
        time.sleep(0.3)
        assert descriptors() - before - len(held) <= 20
        assert most <= 20 + 2 * bounded.BACKLOG
        for one in held:
            one.close()


CROWDED = """
import os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
from penstock.query.application import open_stores
from penstock.query.server import StateServer
from support.watched import open_shop

with open_shop() as shop, StateServer(open_stores(shop.folder), port=0) as server:
    print(server.port, flush=True)
    while input() == "sell":
        shop.sell(("ann", 1.0, 10**7))
        print(len(os.listdir("/proc/self/fd")), shop.running.coordinator.manifest.commit, flush=True)
"""
"""A program with few descriptors that answers questions, and sells when it is told to."""


def is_open(one: socket.socket) -> bool:
    """Whether the other end has not closed the connection, on which it says nothing."""
    one.setblocking(False)
    try:
        return one.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def test_a_crowd_of_idle_connections_leaves_descriptors_for_answers_and_for_the_applications_commits():
    path = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"PYTHONPATH": path}
    command = [sys.executable, "-c", CROWDED]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
    with subprocess.Popen(command, **pipes) as program, ExitStack() as held:

        def sell() -> tuple[int, int]:
            """How many descriptors the program has then, and how many commits."""
            print("sell", file=program.stdin, flush=True)
            used, commit = program.stdout.readline().split()
            return int(used), int(commit)

        held.callback(program.kill)
        port = int(program.stdout.readline())
        ask(port)
        alone, commit = sell()
        connections = []
        for number in range(1, 401):
            connections.append(held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10)))
            time.sleep(0.003)  # a connection for which the backlog has no room would come again a second later
            if number % 100 == 0:
                used, commits = sell()
                assert commits > commit
                assert used <= alone + 32 + bounded.BACKLOG + 5, "a server takes one in eight descriptors"
                assert ask(port) == 200
                commit = commits
        assert 0 < sum(map(is_open, connections)) <= 32


def test_a_connection_without_a_request_is_closed(shop: Shop, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bounded, "_HEADER_SECONDS", 0.3)
    monkeypatch.setattr(bounded, "_LOOK_SECONDS", 0.1)
    whole = b"GET /stores HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with StateServer(open_stores(shop.folder), port=0) as server:
        for first in (b"", b"GET /sto", whole):  # the last one is answered, and then drips
            with closing(socket.create_connection(("127.0.0.1", server.port), timeout=10)) as one:
                one.sendall(first)
                if first == whole:
                    assert one.recv(4096).startswith(b"HTTP/1.1 200")
                assert is_closed(one, b"G" if first == whole else b"x", 8)


def test_headers_without_an_end_are_refused(shop: Shop):
    with StateServer(open_stores(shop.folder), port=0) as server:
        one = socket.create_connection(("127.0.0.1", server.port), timeout=10)
        assert is_closed(one, b"GET / HTTP/1.1\r\nX: " + b"x" * 60_000, 5)
        one.close()
        assert ask(server.port) == 200


def test_a_connection_that_is_kept_may_bring_any_number_of_requests(shop: Shop):
    headers = {"x-filling": "x" * 300}
    with (
        StateServer(open_stores(shop.folder), port=0) as server,
        closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)) as connection,
    ):
        for _ in range(300):
            connection.request("GET", "/stores", headers=headers)
            answer = connection.getresponse()
            assert (answer.status, len(answer.read()) > 0) == (200, True)


def test_a_client_that_takes_nothing_of_its_answer_is_let_go(shop: Shop, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bounded, "_READ_SECONDS", 0.3)
    monkeypatch.setattr(bounded, "_LOOK_SECONDS", 0.1)

    async def endless(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while not lost.is_set():
            await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})

    lost = threading.Event()

    class Protocol(bounded_protocol(5)):  # type: ignore[misc]
        def connection_lost(self, error: Exception | None) -> None:
            lost.set()
            super().connection_lost(error)

    monkeypatch.setattr("penstock.query.server.bounded_protocol", lambda: Protocol)
    with StateServer(open_stores(shop.folder), port=0, served=Served(endless)) as server:
        one = socket.create_connection(("127.0.0.1", server.port), timeout=10)
        one.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert lost.wait(10)
        one.close()


def test_what_is_told_of_requests_has_no_token(shop: Shop, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    stores = open_stores(shop.folder)
    with StateServer(stores, "127.0.0.1", 0, page_app(stores, shop.log), TOKEN) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
        connection.request("POST", "/login", f"token={TOKEN}")
        assert connection.getresponse().status == 303
        connection.close()
    assert TOKEN not in caplog.text
