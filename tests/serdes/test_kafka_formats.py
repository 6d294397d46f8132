"""The bytes of keys and values are those of Kafka's own serdes; the expected ones were printed by Kafka 4.3 itself."""

from __future__ import annotations

import math
import pickle
import uuid
from typing import Any

import pytest
from confluent_kafka.serialization import DoubleDeserializer, DoubleSerializer, StringDeserializer, StringSerializer

from penstock import SerdeError, Serdes, StreamsBuilder, Windowed
from penstock.serdes import BYTES, FLOAT, INT, STR, Serde, TimeWindowedSerde, from_name
from penstock.testing import TopologyTestDriver

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


UUID = uuid.UUID("12345678-1234-5678-1234-567812345678")
UUID_TEXT = "31323334353637382d313233342d353637382d313233342d353637383132333435363738"


@pytest.mark.kip("KS-20")
@pytest.mark.parametrize(
    ("serde", "value", "expected"),
    [
        (Serdes.string(), "JFK", "4a464b"),
        (Serdes.long(), -7, "fffffffffffffff9"),
        (Serdes.integer(), -7, "fffffff9"),
        (Serdes.short(), -7, "fff9"),
        (Serdes.double(), 1.5, "3ff8000000000000"),
        (Serdes.float(), 1.5, "3fc00000"),
        (Serdes.boolean(), True, "01"),
        (Serdes.boolean(), False, "00"),
        (Serdes.uuid(), UUID, UUID_TEXT),
        (Serdes.byte_array(), b"\x01\x02", "0102"),
        (Serdes.bytes(), b"\x01\x02", "0102"),
        (Serdes.byte_buffer(), b"\x01\x02", "0102"),
        (Serdes.list_serde(Serdes.integer()), [1, None, -1], "0000000001000000010000000300000001ffffffff"),
        (Serdes.list_serde(Serdes.string()), ["a", None, "bcd"], "01000000030000000161ffffffff00000003626364"),
        (Serdes.list_serde(Serdes.boolean()), [True, None], "01000000020000000101ffffffff"),
        (Serdes.list_serde(Serdes.uuid()), [UUID, None], f"00000000010000000100000002{UUID_TEXT}"),
        (
            Serdes.list_serde(Serdes.list_serde(Serdes.short())),
            [[1], None],
            "01000000020000000b0000000000000000010001ffffffff",
        ),
        (Serdes.list_serde(Serdes.double()), [], "000000000000000000"),
    ],
)
def test_serdes_by_kafkas_names_write_what_kafka_writes(serde: Serde, value: Any, expected: str):
    test_the_bytes_are_kafkas(serde, value, expected)
    assert (from_name(serde.name), pickle.loads(pickle.dumps(serde))) == (serde, serde)


@pytest.mark.kip("KS-20")
@pytest.mark.parametrize(
    ("serde", "value"),
    [
        (Serdes.integer(), 2**31),
        (Serdes.short(), -(2**15) - 1),
        (Serdes.short(), True),
        (Serdes.float(), 1e300),
        (Serdes.boolean(), 1),
        (Serdes.uuid(), str(UUID)),
        (Serdes.void(), 1),
        (Serdes.list_serde(Serdes.integer()), "ab"),
        (Serdes.list_serde(Serdes.integer()), [2**31]),
    ],
)
def test_what_does_not_fit_kafkas_format_is_refused(serde: Serde, value: Any):
    with pytest.raises(SerdeError):
        serde.encode(value)


@pytest.mark.kip("KS-20")
@pytest.mark.parametrize(
    ("serde", "data"),
    [
        (Serdes.integer(), "0000"),
        (Serdes.boolean(), "02"),
        (Serdes.uuid(), "ff"),
        (Serdes.void(), "02"),
        (Serdes.list_serde(Serdes.integer()), ""),
        (Serdes.list_serde(Serdes.integer()), "00000000000000000200000001"),
        (Serdes.list_serde(Serdes.integer()), "0000000000000000010000000100"),
        (Serdes.list_serde(Serdes.string()), "0100000001fffffffe"),
        (Serdes.list_serde(Serdes.string()), "0000000000"),
    ],
)
def test_bytes_of_another_format_are_refused(serde: Serde, data: str):
    with pytest.raises(SerdeError):
        serde.decode(bytes.fromhex(data))


@pytest.mark.kip("KS-20")
def test_a_program_reads_and_writes_kafkas_formats_and_counts_by_them():
    builder = StreamsBuilder()
    stream = builder.stream("in", key=Serdes.integer(), value=Serdes.list_serde(Serdes.short()))
    stream.map_values(lambda numbers: sum(numbers), value=Serdes.integer()).to("sums")
    stream.group_by_key().count("counts").to_stream().to("counts")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_record_list("in", [(7, [1, 2]), (7, []), (8, [300])])
    assert [record[:2] for record in driver.read_output("sums")] == [(7, 3), (7, 0), (8, 300)]
    assert [row[:2] for row in driver.store("counts").all()] == [(7, 2), (8, 1)]


@pytest.mark.kip("KS-20")
def test_void_keys_are_none():
    builder = StreamsBuilder()
    builder.stream("in", key=Serdes.void(), value=str).to("out")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("in", None, "a")
    assert [record[:2] for record in driver.read_output("out")] == [(None, "a")]


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
