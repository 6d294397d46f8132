"""What a serde refuses is named with its type, alike in a column and alone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pytest

from penstock import StreamsBuilder, Windowed
from penstock.errors import ConfigError, SerdeError
from penstock.serdes import BYTES, FLOAT, INT, JSON, STR, Serde, SessionWindowedSerde, TimeWindowedSerde, from_name, of

WINDOWED = TimeWindowedSerde(STR, 10)


@dataclass
class Order:
    item: str
    amount: int = 1


class Flight(msgspec.Struct):
    carrier: str
    delay: float | None = None


@pytest.mark.parametrize(
    ("serde", "value", "message"),
    [
        (STR, 7, "the serde 'str' cannot encode 7 of type int"),
        (STR, b"JFK", "the serde 'str' cannot encode b'JFK' of type bytes"),
        (STR, bytearray(b"JFK"), r"the serde 'str' cannot encode bytearray\(b'JFK'\) of type bytearray"),
        (STR, {"a": 1}, "the serde 'str' cannot encode {'a': 1} of type dict"),
        (STR, "\ud800", r"the serde 'str' cannot encode '\\ud800': surrogates not allowed"),
        (BYTES, "JFK", "the serde 'bytes' cannot encode 'JFK' of type str"),
        (BYTES, bytearray(b"x"), r"the serde 'bytes' cannot encode bytearray\(b'x'\) of type bytearray"),
        (INT, "7", "the serde 'int' cannot encode '7' of type str"),
        (INT, 7.0, "the serde 'int' cannot encode 7.0 of type float"),
        (INT, True, "the serde 'int' cannot encode True of type bool"),
        (INT, np.int64(7), r"the serde 'int' cannot encode .*7.* of type int64"),
        (INT, 2**63, "9223372036854775808 does not fit into 8 bytes"),
        (INT, -(2**63) - 1, "-9223372036854775809 does not fit into 8 bytes"),
        (FLOAT, "0.5", "the serde 'float' cannot encode '0.5' of type str"),
        (FLOAT, True, "the serde 'float' cannot encode True of type bool"),
        (FLOAT, 2**53 + 1, "9007199254740993 has more digits than a float keeps; round it with float.*, or use int"),
        (FLOAT, 10**400, r"10{199}\.\.\. does not fit into 8 bytes"),
        (JSON, object, "cannot write <class 'object'> as JSON: Encoding objects of type type is unsupported"),
        (JSON, {"a": {1, object}}, "cannot write .* as JSON: Encoding objects of type type is unsupported"),
        (JSON, "\ud800", r"cannot write '\\ud800' as JSON: .*surrogates not allowed"),
        (WINDOWED, "JFK", "the serde 'windowed.str, 10.' cannot encode 'JFK' of type str"),
        (WINDOWED, ("JFK", 0, 10), r"the serde 'windowed.str, 10.' cannot encode \('JFK', 0, 10\) of type tuple"),
        (WINDOWED, Windowed(7, 0, 10), "the serde 'str' cannot encode 7 of type int"),
        (WINDOWED, Windowed("a", 2**63, 0), "the start of a window is an int of 8 bytes, got 9223372036854775808"),
        (WINDOWED, Windowed("a", "noon", 0), "the start of a window is an int of 8 bytes, got 'noon'"),
    ],
)
def test_a_value_that_does_not_fit_is_named(serde: Serde, value: Any, message: str):
    for encode in (
        serde.encode,
        lambda value: serde.encode_all([value]),
        lambda value: serde.encode_all([None, value]),
    ):
        with pytest.raises(SerdeError, match=message):
            encode(value)


def test_one_wrong_value_among_many_is_found():
    for serde, good, bad in (
        (STR, "a", b"a"),
        (BYTES, b"a", "a"),
        (INT, 1, 1.0),
        (FLOAT, 1.0, "1"),
        (JSON, {}, object),
    ):
        with pytest.raises(SerdeError, match=re.escape(repr(bad))):
            serde.encode_all([good, None, bad, good])


@pytest.mark.parametrize(
    ("serde", "data", "message"),
    [
        (STR, b"\xff\xfe", "not UTF-8: .*can't decode byte 0xff in position 0"),
        (INT, b"", "the serde 'int' needs 8 bytes, got 0: b''"),
        (INT, b"1234567", "the serde 'int' needs 8 bytes, got 7: b'1234567'"),
        (FLOAT, b"123456789", "the serde 'float' needs 8 bytes, got 9: b'123456789'"),
        (JSON, b"", "Input data was truncated; the bytes are b''"),
        (JSON, b'{"a": }', r"""JSON is malformed: .*; the bytes are b'\{"a": \}'"""),
        (JSON, b"\xff", r"JSON is malformed: .*; the bytes are b'\\xff'"),
        (JSON, b'["' + b"x" * 100, r"Input data was truncated; the bytes are b'\[\"x{78}\.\.\.'"),
        (of(dict), b"[1]", r"Expected `object`, got `array`; the bytes are b'\[1\]'"),
        (of(Order), b'{"amount": 2}', "Object missing required field `item`; the bytes are"),
        (of(Order), b'{"item": "x", "amount": "2"}', r"Expected `int`, got `str` - at `\$\.amount`; the bytes are"),
        (of(Flight), b'{"carrier": 5}', r"Expected `str`, got `int` - at `\$\.carrier`; the bytes are"),
        (of(list[int]), b'[1, "x"]', r"Expected `int`, got `str` - at `\$\[1\]`; the bytes are"),
        (WINDOWED, b"1234567", r"the serde 'windowed\[str, 10\]' reads at least 8 bytes, got 7: b'1234567'"),
        (WINDOWED, b"\xff12345678", "not UTF-8: "),
        (TimeWindowedSerde(INT, 10), b"12345678", "the serde 'int' needs 8 bytes, got 0: b''"),
    ],
)
def test_bytes_that_do_not_decode_are_shown(serde: Serde, data: bytes, message: str):
    column = BYTES.encode_all([None, data])
    for decode in (lambda: serde.decode(data), lambda: serde.decode_all(column)):
        with pytest.raises(SerdeError, match=message):
            decode()


@pytest.mark.parametrize("serde", [INT, FLOAT])
def test_numbers_of_wrong_lengths_are_found_also_where_their_bytes_add_up(serde: Serde):
    for data, wrong in [((b"1234567", b"123456789"), b"1234567"), ((b"12345678", b"", b"1234567812345678"), b"")]:
        with pytest.raises(SerdeError, match=f"needs 8 bytes, got {len(wrong)}: {wrong!r}"):
            serde.decode_all(BYTES.encode_all(list(data)))


@pytest.mark.parametrize("serde", [INT, FLOAT, WINDOWED])
def test_a_columnar_function_gets_no_garbage_for_bytes_that_are_too_short(serde: Serde):
    with pytest.raises(SerdeError, match="8 bytes, got 3: b'abc'"):
        serde.arrow(BYTES.encode_all([b"12345678", None, b"abc", b"123456789"]))


def test_windows_of_bytes_that_are_too_short_are_no_garbage_either():
    serde = SessionWindowedSerde(STR)
    data = BYTES.encode_all([serde.encode(Windowed("a", 5, 9)), None])
    assert [part[0] for part in serde.windows(data)] == [5, 9]
    with pytest.raises(SerdeError, match="at least 16 bytes, got 15"):
        serde.windows(BYTES.encode_all([b"x" * 16, b"123456789012345"]))


@pytest.mark.parametrize("type_", [5, bytes | str, JSON.encode])
def test_what_is_no_type_is_refused_with_the_ones_that_are(type_: Any):
    with pytest.raises(
        ConfigError, match=r"value: JSON cannot be read into .*; use str, int, float, bytes, dict, a da"
    ):
        of(type_, "value")


# --- by type and by name -------------------------------------------------------------------------------------------


def test_a_stores_name_in_the_place_of_a_type_is_refused_with_where_it_goes() -> None:
    grouped = StreamsBuilder().stream("in", key=str, value=int).group_by_key()
    said = "value: the text 'spent' is no type; use str, .*, without quotes. If it names a store: store='spent'"
    with pytest.raises(ConfigError, match=said):
        grouped.aggregate(int, lambda key, value, total: total + value, "spent")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("type_", "name", "by_name"),
    [
        (bytes, "bytes", BYTES),
        (str, "str", STR),
        (int, "int", INT),
        (float, "float", FLOAT),
        (Any, "json", JSON),
        (bool, "json[bool]", JSON),
        (dict, "json[dict]", JSON),
        (list, "json[list]", JSON),
        (dict[str, int], "json[dict]", JSON),
        (Order, "json[Order]", JSON),
        (Flight, "json[Flight]", JSON),
        (int | None, "json[int | None]", JSON),
        (INT, "int", INT),
        (TimeWindowedSerde(STR, 10), "windowed[str, 10]", TimeWindowedSerde(STR, 10)),
        (
            TimeWindowedSerde(TimeWindowedSerde(INT, 5), 10),
            "windowed[windowed[int, 5], 10]",
            TimeWindowedSerde(TimeWindowedSerde(INT, 5), 10),
        ),
    ],
)
def test_types_have_names_that_topics_carry(type_: Any, name: str, by_name: Serde):
    serde = of(type_)
    assert (serde.name, repr(serde), from_name(name)) == (name, f"<serde {name}>", by_name)


def test_a_name_that_only_another_program_knows_is_read_as_bytes():
    assert from_name("avro[Order]") == BYTES
