"""``debezium`` with Avro: envelopes and keys whose schemas are in a registry."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

pytest.importorskip("fastavro", reason="needs the extra avro")

from penstock import Avro, StreamsBuilder, debezium
from penstock.errors import ProcessingError
from penstock.testing import TopologyTestDriver
from support.registry import running

ROW = {
    "type": "record",
    "name": "Value",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "cents", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "fields": [
        {"name": "before", "type": ["null", ROW], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "op", "type": "string"},
    ],
}
KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
AT = datetime(2026, 11, 27, tzinfo=UTC)


@dataclass
class Order:
    id: int
    cents: int
    at: datetime


@pytest.mark.parametrize("bound", [True, False], ids=["named", "by the setting"])
def test_a_table_follows_change_data_in_avro(bound: bool):
    with running() as registry:
        url = registry.url if bound else None
        values, keys = Avro("shop.orders-value", url, ENVELOPE), Avro("shop.orders-key", url, KEY)
        builder = StreamsBuilder()
        table = builder.table("orders", key=int, format=debezium(Order, values, keys), store="orders")
        table.to_stream().to("out")
        driver = TopologyTestDriver(builder.build(), schema_registry=registry.url, statestore_cache_max_bytes=0)
        row = {"id": 7, "cents": 250, "at": AT}
        driver.pipe_input("orders", {"id": 7}, {"op": "c", "before": None, "after": row})
        driver.pipe_input("orders", {"id": 7}, {"op": "d", "before": row, "after": None})
        driver.pipe_input("orders", {"id": 7}, None)
        wanted: list[Any] = [(7, Order(7, 250, AT)), (7, None), (7, None)]
        assert [(record.key, record.value) for record in driver.read_output("out")] == wanted


def test_what_is_no_avro_fails():
    with running() as registry:
        builder = StreamsBuilder()
        builder.stream("in", key=bytes, format=debezium(Order, Avro("v", registry.url, ENVELOPE))).to("out")
        driver = TopologyTestDriver(builder.build())
        with pytest.raises(ProcessingError, match="it was not written with a schema registry"):
            driver.create_input_topic("in", bytes, bytes).pipe_input(b"k", b'{"op": "c"}')
