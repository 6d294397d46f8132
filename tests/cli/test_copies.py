"""What ``topics cat --json`` prints, ``topics produce --json`` makes the same records of (docs/decisions/0080)."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock import consume, produce, produce_columns, schema_of
from penstock.arrays import binary
from penstock.cli.main import main
from penstock.columns.batch import HEADERS
from penstock.log.base import TopicInfo
from penstock.log.file.log import FileLog

LOG = ".penstock/log"
RECORDS = ("partition", "key", "value", "timestamp", "headers")

Row = tuple[int, bytes | None, bytes | None, int, list[tuple[str, bytes | None]] | None]


def run(*arguments: str, stdin: bytes = b"") -> bytes:
    ran = CliRunner().invoke(main, arguments, input=stdin, catch_exceptions=False)
    assert ran.exit_code == 0, ran.stderr
    return ran.stdout_bytes


def write(info: TopicInfo, rows: list[Row]) -> None:
    """Records as they are, whatever the topic's types."""
    log = FileLog(LOG)
    log.create_topic(info)
    with log.writer(info.name, "test") as writer:
        for partition, key, value, time, headers in rows:
            pairs = None if headers is None else pa.array([[{"key": k, "value": v} for k, v in headers]], HEADERS)
            writer.write(partition, binary([key]), binary([value]), np.array([time]), pairs)
    log.append(info.name, writer.segments())


def held(topic: str) -> tuple[int, str, str, list[list[Row]]]:
    """All that a topic is: partitions, types, and the records of each partition."""
    log = FileLog(LOG)
    info = log.topic(topic)
    found: list[list[Row]] = []
    for partition, (start, end) in enumerate(zip(log.start_offsets(topic), log.end_offsets(topic), strict=True)):
        found.append([])
        for some in log.read(topic, partition, start, end):
            headers = [None] * len(some) if some.headers is None else some.headers.to_pylist()
            pairs = [[(one["key"], one["value"]) for one in each] if each else None for each in headers]
            columns = some.key.to_pylist(), some.value.to_pylist(), some.timestamp.tolist(), pairs
            found[-1] += [(partition, *row) for row in zip(*columns, strict=True)]
    return info.partitions, info.key, info.value, found


JSON_TEXTS = ["null", " 1 ", "[1,\n 2]", '{"a": 1e5, "a": 2}', "1180591620717411303424", "1e400", r'"\ud83d"', '"é"',
              "-0.0", '{"base64":"aGk="}', "NaN", '"NaN"', "", "{oops", '"\x7f"', "18446744073709551616.5"]  # fmt: skip
FLOATS = [float("nan"), float("inf"), float("-inf"), -0.0, 5e-324, 1e22, 0.1, 2.0**53, -1.7976931348623157e308]
INTS = [0, -1, 2**53, 2**53 + 1, -(2**63), 2**63 - 1]

any_bytes = st.one_of(
    st.binary(max_size=20), st.sampled_from([b"", b"null", b'"', b"\xff\xfe", b"\xef\xbb\xbfx", b"NaN"])
)
texts = st.text(max_size=10).map(lambda text: text.encode("utf-8", "replace"))
of_type: dict[str, st.SearchStrategy[bytes]] = {
    "str": texts,
    "bytes": any_bytes,
    "int": st.one_of(st.integers(-(2**63), 2**63 - 1), st.sampled_from(INTS)).map(lambda n: struct.pack(">q", n)),
    "float": st.one_of(
        st.binary(min_size=8, max_size=8),  # each NaN there is
        st.one_of(st.floats(), st.sampled_from(FLOATS)).map(lambda x: struct.pack(">d", x)),
    ),
    "json": st.one_of(
        st.sampled_from(JSON_TEXTS).map(str.encode),
        st.recursive(
            st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5)),
            lambda inner: st.one_of(
                st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
            ),
            max_leaves=5,
        ).map(lambda value: json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")),
    ),
}
times = st.integers(-(2**63), 2**63 - 1 - 10).map(lambda n: struct.pack(">q", n))
for inner in ("str", "int", "float", "json", "bytes"):
    of_type[f"windowed[{inner}, 10]"] = st.tuples(of_type[inner], times).map(b"".join)
    of_type[f"session[{inner}]"] = st.tuples(of_type[inner], times, times).map(b"".join)
headers = st.one_of(
    st.none(), st.lists(st.tuples(st.text(max_size=4), st.one_of(st.none(), any_bytes)), min_size=1, max_size=3)
)


def rows_of(key: str, value: str, partitions: int) -> st.SearchStrategy[list[Row]]:
    def data(type_: str) -> st.SearchStrategy[bytes | None]:
        return st.one_of(st.none(), of_type[type_], any_bytes)  # also what is not of the type

    one = st.tuples(st.integers(0, partitions - 1), data(key), data(value), st.integers(0, 2**63 - 1), headers)
    return st.lists(one, min_size=1, max_size=6)


@given(data=st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_copy_has_the_same_records_of_every_type(data: st.DataObject, tmp_path_factory: Any):
    key, value = (data.draw(st.sampled_from(sorted(of_type))) for _ in range(2))
    partitions = data.draw(st.integers(1, 3))
    rows = data.draw(rows_of(key, value, partitions))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("copy"))
        write(TopicInfo("first", partitions, key, value), rows)
        lines = run("topics", "cat", "first", "--json")
        assert all(json.loads(line, parse_constant=_no_json) for line in lines.decode().split("\n")[:-1])
        run("topics", "produce", "second", "--json", stdin=lines)
        assert held("second") == held("first")


def _no_json(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


def test_what_json_has_no_number_for_is_text_and_what_is_not_of_the_type_is_bytes():
    nan, payload = struct.pack(">d", float("nan")), bytes.fromhex("7ff8000000000001")
    values = [nan, struct.pack(">d", float("-inf")), struct.pack(">d", -0.0), payload, b"abc", None]
    write(TopicInfo("floats", 1, "str", "float"), [(0, b"k", value, n, None) for n, value in enumerate(values)])
    rest = '"topic":{"partitions":1,"key":"str","value":"float"}'
    assert run("topics", "cat", "floats", "--json").decode().splitlines() == [
        f'{{"key":"k","value":"NaN","timestamp":0,"partition":0,"offset":0,"headers":[],{rest}}}',
        f'{{"key":"k","value":"-Infinity","timestamp":1,"partition":0,"offset":1,"headers":[],{rest}}}',
        f'{{"key":"k","value":-0.0,"timestamp":2,"partition":0,"offset":2,"headers":[],{rest}}}',
        f'{{"key":"k","value":{{"base64":"f/gAAAAAAAE="}},"timestamp":3,"partition":0,"offset":3,"headers":[],{rest},'
        '"encoded":["value"]}',
        f'{{"key":"k","value":"abc","timestamp":4,"partition":0,"offset":4,"headers":[],{rest},"encoded":["value"]}}',
        f'{{"key":"k","value":null,"timestamp":5,"partition":0,"offset":5,"headers":[],{rest}}}',
    ]
    assert run("topics", "cat", "floats", "--no-keys").decode().splitlines() == [
        "NaN", "-Infinity", "-0.0", "NaN", "abc", "null"
    ]  # fmt: skip


def test_json_of_pythons_own_writer_is_read_where_floats_are_wanted(penstock: Callable[..., Any]):
    lines = "\n".join(json.dumps({"key": "k", "value": value}) for value in (float("nan"), float("-inf"), 1.5))
    assert penstock("topics", "produce", "floats", "--json", "--value", "float", stdin=lines).code == 0
    assert [row[2] for row in held("floats")[3][0]] == [
        struct.pack(">d", value) for value in (float("nan"), float("-inf"), 1.5)
    ]
    refused = penstock("topics", "produce", "things", "--json", stdin='{"value": {"a": NaN}}')
    assert refused.code == 1
    assert "JSON has no NaN and no Infinity: write null or text, or use the type float" in refused.err[0]
    half = penstock("topics", "produce", "things", "--json", stdin=r'{"value": "\ud83d"}')
    assert "half a surrogate pair, as of an emoji that was cut in two, is no text that can be kept" in half.err[0]


def test_a_copy_with_other_partitions_or_types_goes_by_the_keys_and_the_types_asked_for(penstock: Callable[..., Any]):
    produce([("a", 1, 1), ("b", 2, 2), ("c", 3, 3)], "first", value=int, partitions=2, log=LOG)
    lines = run("topics", "cat", "first", "--json")
    run("topics", "produce", "by-hand", "--json", stdin=lines.replace(b'"partition":0', b'"partition":1'))
    run("topics", "produce", "wider", "--json", "--partitions", "8", "--value", "json", stdin=lines)
    produce([("a", 1, 1), ("b", 2, 2), ("c", 3, 3)], "expected", partitions=8, log=LOG)
    assert [len(rows) for rows in held("by-hand")[3]] == [0, 3]
    assert held("wider") == held("expected")


def test_a_copy_keeps_the_schema_of_a_dataframe_which_stands_in_the_first_line_alone(penstock: Callable[..., Any]):
    days = pa.table({"id": [1, 2], "day": pa.array([20455, None], pa.date32()), "price": pa.array([1.5, float("nan")])})
    produce_columns(days, "first", key="id", log=LOG)
    lines = run("topics", "cat", "first", "--json")
    assert ['"schema"' in line for line in lines.decode().splitlines()] == [True, False]
    run("topics", "produce", "second", "--json", stdin=lines)
    assert held("second") == held("first")
    assert schema_of("second", log=LOG) == schema_of("first", log=LOG)
    [copied] = consume("second", log=LOG, as_="arrow")
    assert copied.column("value").flatten()[1].to_pylist() == [date(2026, 1, 2), None]
    run("topics", "produce", "plain", "--json", "--value", "json", stdin=lines)
    assert FileLog(LOG).topic("plain").schema == ""


def test_types_are_known_by_their_names_though_only_a_program_has_them(penstock: Callable[..., Any]):
    write(TopicInfo("first", 1, "mine", "session[avro]"), [(0, b"\xff", b"ok", 1, [("h", None), ("h", b"")])])
    run("topics", "produce", "second", "--json", stdin=run("topics", "cat", "first", "--json"))
    assert held("second") == held("first") == (
        1, "mine", "session[avro]", [[(0, b"\xff", b"ok", 1, [("h", None), ("h", b"")])]]
    )  # fmt: skip


def test_a_terminal_without_utf_8_shows_what_it_cannot_as_escapes_and_json_stays_utf_8(penstock: Callable[..., Any]):
    produce([("ä", "é😀", 1)], "words", value=str, log=LOG)

    def shown(*options: str) -> bytes:
        ran = CliRunner(charset="ascii").invoke(main, ["topics", "cat", "words", *options], catch_exceptions=False)
        return ran.stdout_bytes

    assert shown() == b"\\xe4\t\\xe9\\U0001f600\n"
    assert json.loads(shown("--json"))["value"] == "é😀"
