"""``format=`` of sources: change data, CloudEvents and JSON lines become the rows in them; wrong envelopes go the
``on_error`` way."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from penstock import KStream, StreamsBuilder, TopologyError, cloud_event, consume, debezium, json_lines, maxwell
from penstock.sources import FileSource, PostgresOutbox, Source, SourceBatch, SourceContext, SourceReader
from penstock.testing import TopologyTestDriver
from support.postgres import PostgresServer


@dataclass
class Order:
    id: int
    cents: int


def insert(id: int, cents: int) -> dict[str, Any]:
    return {"op": "c", "before": None, "after": {"id": id, "cents": cents}}


def put(folder: Path, *lines: Any) -> FileSource:
    """A source of one file with these lines."""
    lake = folder / "lake"
    lake.mkdir()
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    (lake / "a.jsonl").write_text("\n".join(texts) + "\n")
    return FileSource(lake)


def run(folder: Path, builder: StreamsBuilder, **options: Any) -> None:
    """Process what is there."""
    places = {"log": folder / "log", "state_dir": folder / "state"}
    streams = builder.build().start("shop", engine="local", slots=1, trigger="available-now", **places, **options)
    streams.await_termination()


def out_of(folder: Path, key: Any = int, value: Any = dict, topic: str = "out") -> list[tuple[Any, ...]]:
    return [(one.key, one.value, one.timestamp) for one in consume(topic, key=key, value=value, log=folder / "log")]


def by_id(orders: KStream[Any, Any]) -> None:
    orders.select_key(lambda key, order: order.id, key=int).map_values(lambda order: order.cents, value=int).to("out")


@pytest.mark.parametrize("answer", ["skip", "dead_letter:dead"])
def test_change_data_in_files_becomes_rows_and_wrong_envelopes_go_the_way_of_on_error(answer: str, tmp_path: Path):
    wrong = {"op": "x", "after": {"id": 8}}
    source = put(tmp_path, insert(7, 250), wrong, "no json", insert(9, 300))
    builder = StreamsBuilder()
    by_id(builder.source(source, "orders", format=debezium(Order), partitions=1))
    run(tmp_path, builder, on_error=answer)
    assert [one[:2] for one in out_of(tmp_path, value=int)] == [(7, 250), (9, 300)]
    if answer != "skip":
        dead = [one[1] for one in out_of(tmp_path, key=bytes, value=bytes, topic="dead")]
        assert dead == [json.dumps(wrong).encode(), b"no json"]


def test_rows_of_maxwell_may_have_their_times_in_the_envelope(tmp_path: Path):
    row = {"type": "insert", "database": "shop", "table": "orders", "ts": 5, "data": {"id": 7, "cents": 250}}
    other = row | {"table": "other"}
    builder = StreamsBuilder()
    format_ = maxwell(Order, table="orders", event_time=True)
    by_id(builder.source(put(tmp_path, other, row), "orders", format=format_, partitions=1))
    run(tmp_path, builder)
    assert out_of(tmp_path, value=int) == [(7, 250, 5_000)]


def test_json_lines_have_their_times_in_a_field_and_a_record_may_have_several(tmp_path: Path):
    class Posts(Source):
        def open(self, context: SourceContext) -> SourceReader:
            class Reader(SourceReader):
                def read(self, offset: Any, most: int) -> SourceBatch | None:
                    lines = b'{"at": 5, "n": 1}\n{"at": 6, "n": 2}'
                    return None if offset else SourceBatch([("host", lines), ("other", b"{")], 1)

            return Reader()

    builder = StreamsBuilder()
    logged = builder.source(
        Posts(), "logged", key=str, timestamp="at", timestamp_unit="s", format=json_lines(dict), partitions=1
    )
    logged.to("out")
    run(tmp_path, builder, on_error="skip")
    assert out_of(tmp_path, str) == [("host", {"at": 5, "n": 1}, 5_000), ("host", {"at": 6, "n": 2}, 6_000)]


def test_events_in_an_outbox_are_a_table_by_key(tmp_path: Path, postgres: PostgresServer):
    url = postgres.database()
    postgres.ask(
        url,
        "CREATE TABLE outbox (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
        "transaction xid8 NOT NULL DEFAULT pg_current_xact_id(), key text, value jsonb)",
    )
    about = {"specversion": "1.0", "source": "/shop", "type": "order"}
    for key, id, data in (("ann", "1", {"n": 1}), ("bob", "2", {"n": 2}), ("ann", "3", None)):
        event = json.dumps(about | {"id": id, "data": data})
        postgres.ask(url, f"INSERT INTO outbox (key, value) VALUES ('{key}', '{event}')")
    postgres.ask(url, "INSERT INTO outbox (key, value) VALUES ('eve', '{\"no\": \"event\"}')")
    builder = StreamsBuilder()
    events = builder.source(PostgresOutbox(url), "events", key=str, format=cloud_event(dict), partitions=1)
    events.to_table("last").to_stream().to("out")
    run(tmp_path, builder, on_error="skip", statestore_cache_max_bytes=0)
    assert [one[:2] for one in out_of(tmp_path, str)] == [("ann", {"n": 1}), ("bob", {"n": 2}), ("ann", None)]
    assert postgres.ask(url, "SELECT count(*) FROM outbox") == [(0,)]


def test_keys_in_envelopes_lose_them_as_those_of_topics_do():
    builder = StreamsBuilder()
    orders = builder.source(FileSource("lake"), "orders", key=int, format=debezium(Order))
    orders.to_table("last").to_stream().map_values(lambda order: order.cents, value=int).to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("orders", {"id": 7}, insert(7, 250))
    assert [(one.key, one.value) for one in driver.read_output("out")] == [(7, 250)]


def test_the_format_says_what_values_are():
    builder = StreamsBuilder()
    with pytest.raises(TopologyError, match=r"format=debezium\[Order\] says what values are, and value=json"):
        builder.source(FileSource("lake"), "orders", value=dict, format=debezium(Order))
    with pytest.raises(TopologyError, match="format= of source"):
        builder.source(FileSource("lake"), "orders", format="debezium")  # type: ignore[call-overload]
