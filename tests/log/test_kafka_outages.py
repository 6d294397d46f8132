"""What becomes of records that are tried while a cluster is in trouble, which no broker of the tests can be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("confluent_kafka")

from confluent_kafka import KafkaError

from penstock import Kafka
from penstock.errors import LogError
from penstock.log.kafka.client import Clients
from penstock.log.kafka.sink import Publisher
from penstock.log.records import Records


class Trouble(Clients):
    """Clients whose producers deliver nothing, and say why, error by error."""

    def __init__(self, *codes: int):
        super().__init__(Kafka("nowhere:1", timeout="1 ms"))
        self.codes = codes

    def make(self, kind: Callable[[dict[str, Any]], Any], own: Any = None, usual: Any = None) -> Any:
        return _Producer(self.codes, own["on_delivery"])


class _Producer:
    def __init__(self, codes: tuple[int, ...], told: Callable[[KafkaError | None, Any], None]):
        self._codes, self._told = codes, told

    def flush(self, _: float) -> int:
        for code in self._codes:
            self._told(KafkaError(code), None)
        return 0

    def produce(self, *_: Any, **__: Any) -> None: ...
    def init_transactions(self, _: float) -> None: ...
    def begin_transaction(self) -> None: ...
    def abort_transaction(self, _: float) -> None: ...
    def poll(self, _: float) -> None: ...
    def purge(self) -> None: ...
    def __len__(self) -> int:
        return 1


def tried(*codes: int) -> KafkaError | None:
    publisher = Publisher(Trouble(*codes), "group", "")
    records = Records(-1, pa.array([b"k"], pa.binary()), pa.array([b"v"], pa.binary()), np.array([1]))
    return publisher.tried([("topic", 0, records)], 1_000)


OUTAGES = (
    *("_MSG_TIMED_OUT", "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "_STATE", "_PURGE_QUEUE", "_FENCED"),
    *("INVALID_TXN_STATE", "SASL_AUTHENTICATION_FAILED", "_AUTHENTICATION", "GROUP_AUTHORIZATION_FAILED"),
)


@pytest.mark.parametrize("name", OUTAGES)
def test_an_outage_is_an_error_and_no_refusal_of_the_records_that_were_tried(name: str):
    with pytest.raises(LogError, match="cannot try which records Kafka takes"):
        tried(getattr(KafkaError, name))


@pytest.mark.parametrize(
    "name", ["INVALID_RECORD", "_INVALID_DIFFERENT_RECORD", "INVALID_TIMESTAMP", "MSG_SIZE_TOO_LARGE"]
)
def test_what_a_broker_refuses_is_told_by_the_first_error_and_not_by_those_that_follow_from_it(name: str):
    found = tried(getattr(KafkaError, name), KafkaError._PURGE_QUEUE)
    assert found is not None
    assert found.name() == name


def test_what_a_broker_takes_is_not_refused():
    assert tried() is None
