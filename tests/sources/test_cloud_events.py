"""CloudEvents in requests: in headers, as JSON, and several together. Wrong ones go the ``on_error`` way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from penstock import StreamsBuilder, cloud_event, consume
from penstock.sources import HttpSource
from support.sourcing import TOPIC, running, until

httpx = pytest.importorskip("httpx", reason="comes with penstock-streams[dev]")

BINARY = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/shop", "ce-type": "order"}
EVENT = {name.removeprefix("ce-"): value for name, value in BINARY.items()}


@dataclass
class Order:
    customer: str
    cents: int


ANN, BOB = {"customer": "ann", "cents": 250}, {"customer": "bob", "cents": 300}


@contextmanager
def listening(folder: Path, **options: Any) -> Iterator[HttpSource]:
    """A source that brings requests into the log in a folder."""
    source = HttpSource(0, **options)
    with running(folder, source, value=dict):
        until(lambda: not source.url.startswith("http://127.0.0.1:0"))
        yield source


def post(source: HttpSource, content: Any, kind: str = "application/json", **headers: str) -> Any:
    given = content if isinstance(content, bytes) else json.dumps(content).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.post(source.url, content=given, headers={"Content-Type": kind, **named}, timeout=30)


def found(folder: Path) -> list[tuple[Any, Any, dict[str, bytes]]]:
    return [(one.key, one.value, dict(one.headers)) for one in consume(TOPIC, key=str, value=bytes, log=folder / "log")]


def test_an_event_in_headers_is_a_record_with_these_headers(tmp_path: Path):
    with listening(tmp_path, key="customer") as source:
        more = {"ce-subject": 'caf%C3%A9 "x"', "ce-note": '"a \\"b\\" %25"', "X-Other": "y"}
        post(source, ANN, "application/json; charset=utf-8", **BINARY, **more)
        post(source, b"", **BINARY)
    about = {"ce_specversion": b"1.0", "ce_id": b"1", "ce_source": b"/shop", "ce_type": b"order"}
    kind = {"content-type": b"application/json; charset=utf-8"}
    assert found(tmp_path) == [
        ("ann", json.dumps(ANN).encode(), about | {"ce_subject": 'café "x"'.encode(), "ce_note": b'a "b" %'} | kind),
        (None, None, about | {"content-type": b"application/json"}),
    ]


def test_events_in_json_come_alone_or_several_together(tmp_path: Path):
    with listening(tmp_path, key="customer") as source:
        whole, batch = "application/cloudevents+json; charset=UTF-8", "application/cloudevents-batch+json"
        events = [EVENT | {"data": ANN}, EVENT | {"data": BOB}, EVENT]
        answers = [
            post(source, events[0], whole),
            post(source, events, batch, Idempotency_Key="a"),
            post(source, events, batch, Idempotency_Key="a"),
            post(source, [], batch),
            post(source, {"no": "list"}, batch),
        ]
        assert [one.status_code for one in answers] == [200] * 5
        assert post(source, b"", batch).status_code == 400
    assert [(key, json.loads(value)) for key, value, _ in found(tmp_path)] == [
        ("ann", events[0]),
        *zip(["ann", "bob", None], events, strict=True),
        (None, {"no": "list"}),
    ]


@pytest.mark.parametrize("key", ["subject", "customer"])
def test_the_key_of_an_event_is_a_field_of_its_data_or_an_attribute(key: str, tmp_path: Path):
    with listening(tmp_path, key=key) as source:
        post(source, ANN, **BINARY, ce_subject="s1")
        post(source, EVENT | {"data": ANN, "subject": "s2"}, "application/cloudevents+json")
        post(source, {"subject": "s3", "customer": "eve"})
        for wrong in (b"[1]", b"\xe9", b"[" * 100_000):
            post(source, wrong, "application/cloudevents+json")
            post(source, wrong)
    expected = ["s1", "s2", "s3"] if key == "subject" else ["ann", "ann", "eve"]
    assert [key for key, _, _ in found(tmp_path)] == [*expected, *[None] * 6]


@pytest.mark.parametrize("answer", ["skip", "dead_letter:dead"])
def test_a_program_reads_events_of_every_mode_and_wrong_ones_go_the_way_of_on_error(answer: str, tmp_path: Path):
    builder = StreamsBuilder()
    source = HttpSource(0, key="customer", repeat_header="ce-id")
    format_ = cloud_event(Order, event_time=True)
    orders = builder.source(source, "orders", key=str, format=format_, partitions=1)
    orders.map_values(lambda order: None if order is None else order.cents, value=int).to("cents")
    places = {"log": tmp_path / "log", "state_dir": tmp_path / "state"}
    with builder.build().start("shop", engine="local", slots=1, on_error=answer, **places) as streams:
        until(lambda: not source.url.startswith("http://127.0.0.1:0"))
        about = BINARY | {"ce-time": "1970-01-01T00:00:05Z"}
        for _ in range(2):
            post(source, ANN, **about)
        post(source, EVENT | {"data": BOB, "time": "1970-01-01T00:00:06Z"}, "application/cloudevents+json")
        post(source, b"", **about | {"ce-id": "2"})
        without = {name: value for name, value in about.items() if name != "ce-specversion"}
        post(source, ANN, **without | {"ce-id": "3"})
        post(source, ANN, **about | {"ce-id": "4", "ce-type": ""})
        post(source, b"<xml/>", "text/xml", **about | {"ce-id": "5"})
        post(source, ANN, "application/cloudevents+json")
        streams.process_all_available()
    got = [(one.key, one.value, one.timestamp) for one in consume("cents", key=str, value=int, log=tmp_path / "log")]
    assert got == [("ann", 250, 5_000), ("bob", 300, 6_000), (None, None, 5_000)]
    if answer != "skip":
        dead = sorted(one.value for one in consume("dead", key=str, value=bytes, log=tmp_path / "log"))
        assert dead == [b"<xml/>"] + [json.dumps(ANN).encode()] * 3
