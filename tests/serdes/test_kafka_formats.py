"""The bytes of keys and values are those of Kafka's own serdes; the expected ones were printed by Kafka 4.3 itself."""

from __future__ import annotations

import math
from typing import Any

import pytest
from confluent_kafka.serialization import DoubleDeserializer, DoubleSerializer, StringDeserializer, StringSerializer

from penstock import Windowed
from penstock.serdes import BYTES, FLOAT, INT, STR, Serde, TimeWindowedSerde

HOUR = 3_600_000


@pytest.mark.parametrize(
    ("serde", "value", "expected"),
    [
        # LongSerializer
        (INT, 0, "0000000000000000"),
        (INT, 1, "0000000000000001"),
        (INT, -1, "ffffffffffffffff"),
        (INT, 258, "0000000000000102"),
        (INT, 2**63 - 1, "7fffffffffffffff"),
        (INT, -(2**63), "8000000000000000"),
        (INT, 1_357_020_000_000, "0000013bf4b1ef00"),
        # DoubleSerializer
        (FLOAT, 0.0, "0000000000000000"),
        (FLOAT, -0.0, "8000000000000000"),
        (FLOAT, 1.5, "3ff8000000000000"),
        (FLOAT, -2.25, "c002000000000000"),
        (FLOAT, 1.7976931348623157e308, "7fefffffffffffff"),
        (FLOAT, 5e-324, "0000000000000001"),
        (FLOAT, math.inf, "7ff0000000000000"),
        (FLOAT, -math.inf, "fff0000000000000"),
        (FLOAT, 0.1, "3fb999999999999a"),
        # StringSerializer
        (STR, "", ""),
        (STR, "JFK", "4a464b"),
        (STR, "ä€😀", "c3a4e282acf09f9880"),
        (STR, "a\x00b", "610062"),
        # ByteArraySerializer
        (BYTES, b"", ""),
        (BYTES, b"\x00\xff", "00ff"),
        # TimeWindowedSerializer of StringSerializer, of LongSerializer
        (TimeWindowedSerde(STR, HOUR), Windowed("JFK", 0, HOUR), "4a464b0000000000000000"),
        (
            TimeWindowedSerde(STR, HOUR),
            Windowed("JFK", 1_357_020_000_000, 1_357_023_600_000),
            "4a464b0000013bf4b1ef00",
        ),
        (TimeWindowedSerde(STR, 10), Windowed("JFK", 2**63 - 11, 2**63 - 1), "4a464b7ffffffffffffff5"),
        (TimeWindowedSerde(INT, 10), Windowed(7, 5, 15), "00000000000000070000000000000005"),
    ],
)
def test_the_bytes_are_kafkas(serde: Serde, value: Any, expected: str):
    data = bytes.fromhex(expected)
    column = serde.encode_all([value, None])
    assert (serde.encode(value), column.to_pylist()) == (data, [data, None])
    assert (repr(serde.decode(data)), repr(serde.decode_all(column))) == (repr(value), repr([value, None]))


def test_not_a_number_is_kafkas_too():
    assert FLOAT.encode(math.nan).hex() == "7ff8000000000000"
    assert math.isnan(FLOAT.decode(bytes.fromhex("7ff8000000000000")))


def test_a_window_that_reaches_the_end_of_time_ends_there():
    serde = TimeWindowedSerde(STR, HOUR)
    assert serde.decode(bytes.fromhex("4a464b7ffffffffffffff5")) == Windowed("JFK", 2**63 - 11, 2**63 - 1)


@pytest.mark.parametrize("value", [0.0, -1.25, 1e300, math.inf])
def test_floats_are_those_of_confluents_client(value: float):
    data = DoubleSerializer()(value)
    assert (FLOAT.encode(value), FLOAT.decode(data), DoubleDeserializer()(data)) == (data, value, value)


@pytest.mark.parametrize("value", ["", "JFK", "ä€😀", "\x00"])
def test_text_is_that_of_confluents_client(value: str):
    data = StringSerializer("utf_8")(value)
    assert (STR.encode(value), STR.decode(data), StringDeserializer("utf_8")(data)) == (data, value, value)
