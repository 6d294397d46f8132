"""Batches as requests to a real server: each with its key, again after a lost answer, and what answers mean."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from penstock import SinkError, StreamsBuilder
from penstock.errors import ConfigError
from penstock.sinks import HttpSink
from support.handing import handed_on, put


class Service(ThreadingHTTPServer):
    """Keeps what is posted, and answers what it is told to."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[tuple[str, str, Any]] = []
        """The key, the authorization and the rows of each request."""
        self.answers: list[int | None] = []
        """Codes of the next answers; None has the connection cut. 204 behind them."""
        self.location = ""
        """The address of redirects."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/rows?token=swordfish"


class Handler(BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        rows = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.headers["Idempotency-Key"], self.headers["Authorization"], rows))
        code = self.server.answers.pop(0) if self.server.answers else 204
        if code is None:
            self.close_connection = True
            return
        self.send_response(code)
        if self.server.location:
            self.send_header("Location", self.server.location)
        self.end_headers()
        if code >= 400:
            self.wfile.write(b"no, Bearer hush")

    def do_GET(self) -> None:
        self.server.requests.append(("", "", self.path))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def service() -> Iterator[Service]:
    found = Service()
    threading.Thread(target=found.serve_forever, args=(0.01,), daemon=True).start()
    yield found
    found.shutdown()
    found.server_close()


def posted(service: Service) -> StreamsBuilder:
    builder = StreamsBuilder()
    sink = HttpSink(service.url, headers={"Authorization": "Bearer hush"})
    builder.stream("in", key=str, value=int).to_sink(sink, "rows", timestamp=None)
    return builder


FIRST, SECOND = {"key": "a", "value": 1}, {"key": "a", "value": 2}


def test_each_batch_is_a_request_with_a_key_of_its_own(service: Service, tmp_path: Path):
    put(tmp_path, "shop-rows-sink", ("a", 1), ("a", 2), key=str, value=int)
    handed_on(posted(service), tmp_path)
    put(tmp_path, "shop-rows-sink", ("a", 1), key=str, value=int)
    handed_on(posted(service), tmp_path)
    (one, _, rows), (other, authorization, more) = service.requests
    assert (rows, more, authorization) == ([FIRST, SECOND], [FIRST], "Bearer hush")
    assert one.startswith("shop/rows/0/")
    assert (one.rpartition("/")[2], other.rpartition("/")[2]) == ("2", "3")


@pytest.mark.parametrize("answer", [None, 500, 503, 429, 401])
def test_a_lost_or_passing_answer_brings_the_same_request_again(answer: int | None, service: Service, tmp_path: Path):
    put(tmp_path, "shop-rows-sink", ("a", 1), ("a", 2), key=str, value=int)
    service.answers = [answer]
    handed_on(posted(service), tmp_path)
    first, again = service.requests
    assert first == again
    assert first[2] == [FIRST, SECOND]


def test_an_answer_that_refuses_the_rows_ends_the_program_without_its_secrets(
    service: Service, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    put(tmp_path, "shop-rows-sink", ("a", 1), key=str, value=int)
    service.answers = [422]
    with pytest.raises(SinkError, match=r"the service answered 422: no, \*\*\*\*") as raised:
        handed_on(posted(service), tmp_path)
    assert len(service.requests) == 1
    kept = [path.read_text(errors="replace") for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()]
    texts = [str(raised.value), caplog.text, posted(service).build().describe(), *kept]
    assert not [text for text in texts if "swordfish" in text or "hush" in text]


def test_changes_of_a_table_are_the_newest_of_each_key_and_say_what_is_deleted(service: Service, tmp_path: Path):
    builder = StreamsBuilder()
    builder.table("in", key=str, value=int).to_sink(HttpSink(service.url), "rows", timestamp=None)
    put(tmp_path, "shop-rows-sink", ("a", 1), ("b", 1), ("a", 2), ("b", None), key=str, value=int)
    handed_on(builder, tmp_path)
    [(_, _, rows)] = service.requests
    assert rows == [SECOND | {"is_deleted": False}, {"key": "b", "value": None, "is_deleted": True}]


@pytest.mark.parametrize("answer", [301, 302, 303, 307, 308])
def test_a_redirect_ends_the_program_and_no_other_address_gets_the_rows(answer: int, service: Service, tmp_path: Path):
    put(tmp_path, "shop-rows-sink", ("a", 1), key=str, value=int)
    service.answers, service.location = [answer], "/moved?token=fish"
    with pytest.raises(SinkError, match=rf"answered {answer}: HttpSink follows no redirect. .*: /moved") as raised:
        handed_on(posted(service), tmp_path)
    assert "fish" not in str(raised.value)
    assert [rows for _, _, rows in service.requests] == [[FIRST]]


def test_no_field_of_a_value_is_lost_to_a_column_of_its_name(service: Service, tmp_path: Path):
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=dict).to_sink(HttpSink(service.url), "rows", key="machine", timestamp=None)
    put(tmp_path, "shop-rows-sink", ("a", {"machine": "a", "n": 1}), key=str, value=dict)
    handed_on(builder, tmp_path)
    put(tmp_path, "shop-rows-sink", ("a", {"machine": "b", "n": 1}), key=str, value=dict)
    with pytest.raises(SinkError, match=r"a field 'machine', .* The field is 'b', the column 'a'"):
        handed_on(builder, tmp_path)
    assert [rows for _, _, rows in service.requests] == [[{"machine": "a", "n": 1}]]


def test_a_field_is_deleted_of_a_table_is_refused(service: Service, tmp_path: Path):
    builder = StreamsBuilder()
    builder.table("in", key=str, value=dict).to_sink(HttpSink(service.url), "rows", timestamp=None)
    put(tmp_path, "shop-rows-sink", ("a", {"is_deleted": "yes"}), key=str, value=dict)
    with pytest.raises(SinkError, match="a row has a field 'is_deleted', and HttpSink adds"):
        handed_on(builder, tmp_path)


@dataclass
class Named:
    name: str


@dataclass
class Priced:
    price: Decimal
    more: Any


@pytest.mark.parametrize(
    ("kind", "value", "fields"),
    [
        (Named, Named("tea"), {"name": "tea"}),
        (Priced, Priced(Decimal("1.50"), {"n": [1]}), {"price": "1.50", "more": {"n": [1]}}),
    ],
)
def test_rows_have_the_fields_of_a_class(kind: Any, value: Any, fields: Any, service: Service, tmp_path: Path):
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=kind).to_sink(HttpSink(service.url), "rows", timestamp=None)
    put(tmp_path, "shop-rows-sink", ("a", value), key=str, value=kind)
    handed_on(builder, tmp_path)
    assert [rows for _, _, rows in service.requests] == [[{"key": "a", **fields}]]


REFUSED: dict[str, str] = {
    "HttpSink('ftp://pager')": "HttpSink: url is an address, such as .*; got 'ftp://pager'",
    "HttpSink(5)": "HttpSink: url is an address, such as .*; got 5",
    "HttpSink('http://pager', headers={'a': 5})": "HttpSink: headers is a dict of texts",
    "HttpSink('http://pager', timeout='soon')": "HttpSink: timeout",
}


@pytest.mark.parametrize("call", REFUSED)
def test_what_cannot_be_meant_is_refused_where_it_is_said(call: str):
    with pytest.raises(ConfigError, match=REFUSED[call]):
        eval(call, {"HttpSink": HttpSink})
