"""Rows of CSV and lines that do not decode: each is a record in its place, which goes the ``on_error`` way."""

from __future__ import annotations

import gzip
import io
import json
import re
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from penstock import ProcessingError, SourceError, StreamsBuilder, consume
from penstock.serdes import JSON, STR
from penstock.sources import FileSource
from penstock.sources.files import csv_rows, rows, texts
from support.sourcing import TOPIC, OneBatch, brought_in, lines, put, running


@dataclass
class Order:
    customer: str
    amount: int


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    folder = tmp_path / "lake"
    folder.mkdir()
    return folder


def found(folder: Path) -> list[tuple[Any, Any]]:
    return [(one.key, one.value) for one in consume(TOPIC, key=str, value=dict, log=folder / "log")]


WRONG = 'id,text\n1,a\n2\n\n3,"c\nd",x\n4,"e\n\nf"\n5\n6\n7,g\n8,h,i\n\n'
WRONG_ROWS = [
    ("1", {"id": "1", "text": "a"}),
    (None, "file 'a.csv', row 3 has 1 cells in place of 2: 2"),
    (None, "file 'a.csv', row 4 has 3 cells in place of 2: 3,\"c\nd\",x"),
    ("4", {"id": "4", "text": "e\n\nf"}),
    (None, "file 'a.csv', row 6 has 1 cells in place of 2: 5"),
    (None, "file 'a.csv', row 7 has 1 cells in place of 2: 6"),
    ("7", {"id": "7", "text": "g"}),
    (None, "file 'a.csv', row 9 has 3 cells in place of 2: 8,h,i"),
]
"""The keys and values of these rows, wrong ones as text."""


@pytest.mark.parametrize("block", [8, 20, 1 << 20])
@pytest.mark.parametrize("names", [None, ("id", "text")])
def test_a_row_of_csv_with_a_wrong_number_of_cells_is_a_record_in_its_place_wherever_reading_begins(
    names: tuple[str, ...] | None, block: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(csv_rows, "BLOCK", max(block, 11))  # the longest row
    wanted = rows.Wanted("id", (STR, JSON), ",", names, "file 'a.csv'")
    expected = [*([] if names is None else [("id", {"id": "id", "text": "text"})]), *WRONG_ROWS]
    for begin in range(len(expected) + 1):
        for most in (1, 3, 100):
            assert records_of_csv(WRONG.encode(), begin, most, wanted) == expected[begin:]


def records_of_csv(data: bytes, begin: int, most: int, wanted: rows.Wanted) -> list[tuple[Any, Any]]:
    """The records of a file behind a place."""
    file = csv_rows.Csv(lambda: io.BytesIO(data), begin, wanted, None)
    records, place = [], begin
    while (some := file.read(most)) is not None:
        table, place = some
        records += table.select(["key", "value"]).to_pylist()
        assert place == begin + len(records)
    return [(_text(one["key"]), _value(one["value"])) for one in records]


def _text(key: bytes | None) -> str | None:
    return None if key is None else key.decode()


def _value(value: bytes) -> Any:
    """A JSON object, or text that is none."""
    try:
        return json.loads(value)
    except ValueError:
        return value.decode()


def test_empty_lines_of_csv_are_not_counted_so_that_no_row_comes_twice_after_a_crash(tmp_path: Path, lake: Path):
    put(lake / "a.csv", "id\n\n1\n\n2\n\n\n3\n4\n5\n6\n7\n")
    for batch in range(4):
        ends = pytest.raises(SourceError, match="enough") if batch < 3 else nullcontext()
        with running(tmp_path, OneBatch(lake, batch), value=dict, retry_for="1 ms") as sources, ends:
            sources.process_sources()
    assert [key for key, _ in found(tmp_path)] == ["1", "2", "3", "4", "5", "6", "7"]


@pytest.mark.parametrize("answer", ["fail", "skip", "dead_letter:dead"])
def test_a_row_of_csv_with_a_wrong_number_of_cells_goes_the_way_of_on_error(answer: str, tmp_path: Path, lake: Path):
    put(lake / "a.csv", "customer,amount\nann,5\nbob,6,7\neve,8\n")
    builder = StreamsBuilder()
    orders = builder.source(FileSource(lake, key="customer"), "orders", key=str, value=Order, partitions=1)
    orders.map_values(lambda order: order.amount, value=int).to("amounts")
    places = {"log": tmp_path / "log", "state_dir": tmp_path / "state"}
    streams = builder.build().start("shop", engine="local", slots=1, trigger="available-now", on_error=answer, **places)
    if answer == "fail":
        with pytest.raises(ProcessingError, match=r"file 'a\.csv', row 3 has 3 cells in place of 2: bob,6,7"):
            streams.await_termination()
        return
    streams.await_termination()
    amounts = [(one.key, one.value) for one in consume("amounts", str, int, log=tmp_path / "log")]
    assert amounts == [("ann", 5), ("eve", 8)]
    if answer != "skip":
        [dead] = consume("dead", value=bytes, log=tmp_path / "log")
        assert dead.value == b"file 'a.csv', row 3 has 3 cells in place of 2: bob,6,7"


# --- other encodings --------------------------------------------------------------------------------------------------


LATIN = b'id,text\n1,caf\xe9\n2,b\n\n3,"c\nd\xe9"\n4,caf\xe9,x\n5,caf\xc3\xa9\n\xe9,\n'
LATIN_ROWS = [
    (None, r"file 'a.csv', row 2 is not in the encoding utf-8: 1,caf\xe9"),
    ("2", {"id": "2", "text": "b"}),
    (None, "file 'a.csv', row 4 is not in the encoding utf-8: 3,\"c\nd\\xe9\""),
    (None, r"file 'a.csv', row 5 has 3 cells in place of 2: 4,caf\xe9,x"),
    ("5", {"id": "5", "text": "café"}),
    (None, r"file 'a.csv', row 7 is not in the encoding utf-8: \xe9,"),
]
"""The keys and values of these rows, of which only the fifth is UTF-8."""


@pytest.mark.parametrize("block", [20, 1 << 20])
@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
def test_a_row_of_csv_that_is_not_utf_8_is_a_record_in_its_place_wherever_reading_begins(
    piece: int, block: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(csv_rows, "BLOCK", block)
    monkeypatch.setattr(texts, "_PIECE", piece)
    wanted = rows.Wanted("id", (STR, JSON), ",", None, "file 'a.csv'")
    for begin in range(len(LATIN_ROWS) + 1):
        for most in (1, 3, 100):
            assert records_of_csv(LATIN, begin, most, wanted) == LATIN_ROWS[begin:]


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-8-sig", "gb18030"])
@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.csv.gz", "a.jsonl.gz"])
def test_files_may_have_another_encoding(name: str, encoding: str, tmp_path: Path, lake: Path):
    objects = [{"id": f"ü{n}", "tëxt": "é" * n} for n in range(1, 8)]
    if "jsonl" in name:
        text = "".join(json.dumps(one, ensure_ascii=False) + "\r\n" for one in objects)
    else:
        text = "id,tëxt\n" + "".join(f"{one['id']},{one['tëxt']}\n" for one in objects)
    data = text.encode(encoding)
    put(lake / name, gzip.compress(data) if name.endswith(".gz") else data)
    for batch in range(4):
        ends = pytest.raises(SourceError, match="enough") if batch < 3 else nullcontext()
        source = OneBatch(lake, batch, encoding=encoding)
        with running(tmp_path, source, value=dict, retry_for="1 ms") as sources, ends:
            sources.process_sources()
    assert found(tmp_path) == [(one["id"], one) for one in objects]


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252"])
@pytest.mark.parametrize("answer", ["fail", "skip", "dead_letter:dead"])
def test_text_that_does_not_decode_goes_the_way_of_on_error(
    answer: str, encoding: str, name: str, tmp_path: Path, lake: Path
):
    objects = [{"customer": name, "amount": n} for n, name in enumerate(["ann", "b#b", "eve"])]
    written = "customer,amount\n" + "".join(f"{one['customer']},{one['amount']}\n" for one in objects)
    text = lines(*objects) if name == "a.jsonl" else written
    wrong = {"utf-8": b"\xe9", "utf-16": b"\x00\xd8", "cp1252": b"\x81"}[encoding]
    put(lake / name, text.encode(encoding).replace("#".encode(encoding).removeprefix(b"\xff\xfe"), wrong))
    builder = StreamsBuilder()
    source = FileSource(lake, key="customer", encoding=encoding)
    orders = builder.source(source, "orders", key=str, value=Order, partitions=1)
    orders.map_values(lambda order: order.amount, value=int).to("amounts")
    at = {"log": tmp_path / "log", "state_dir": tmp_path / "state"}
    streams = builder.build().start("shop", engine="local", slots=1, trigger="available-now", on_error=answer, **at)
    shown = "".join(f"\\x{byte:02x}" for byte in wrong)
    if answer == "fail":
        why = f"row 3 is not in the encoding {encoding}: b" if name == "a.csv" else "'utf-8' codec can't decode byte"
        with pytest.raises(ProcessingError, match=re.escape(why)):
            streams.await_termination()
        return
    streams.await_termination()
    amounts = [(one.key, one.value) for one in consume("amounts", str, int, log=tmp_path / "log")]
    assert amounts == [("ann", 0), ("eve", 2)]
    if answer != "skip":
        [dead] = consume("dead", value=bytes, log=tmp_path / "log")
        line = b'{"customer": "b%sb", "amount": 1}' % (b"\xe9" if encoding == "utf-8" else b"\xff")
        row = f"file 'a.csv', row 3 is not in the encoding {encoding}: b{shown}b,1".encode()
        assert dead.value == (row if name == "a.csv" else line)


def test_each_row_below_names_that_do_not_decode_is_a_record_that_does_not(tmp_path: Path, lake: Path):
    put(lake / "a.csv", "prénom,age\nann,5\nbob,6,7\n".encode("latin-1"), at=10)
    put(lake / "b.csv", "prénom,age\neve,7\n", at=20)
    brought_in(tmp_path, FileSource(lake, key="prénom"), value=dict)
    values = [one.value for one in consume(TOPIC, value=bytes, log=tmp_path / "log")]
    assert values == [
        b"file 'a.csv', row 2 has no names, because row 1 is not in the encoding utf-8: ann,5",
        b"file 'a.csv', row 3 has 3 cells in place of 2: bob,6,7",
        '{"prénom":"eve","age":"7"}'.encode(),
    ]


def test_the_encoding_stays_until_a_file_is_read(tmp_path: Path, lake: Path):
    put(lake / "a.jsonl", lines(*({"id": f"{n}"} for n in range(5))))
    with (
        running(tmp_path, OneBatch(lake, 0, encoding="latin-1"), value=dict) as sources,
        pytest.raises(SourceError, match="enough"),
    ):
        sources.process_sources()
    with (
        running(tmp_path, FileSource(lake, key="id", encoding="utf-16"), value=dict) as sources,
        pytest.raises(SourceError, match=r"'a.jsonl' was read in part as iso8859-1.* Set encoding='iso8859-1' until"),
    ):
        sources.process_sources()
    brought_in(tmp_path, FileSource(lake, key="id", encoding="iso8859-1"), value=dict)
    assert [key for key, _ in found(tmp_path)] == ["0", "1", "2", "3", "4"]


def test_a_line_that_is_nested_without_end_fails_where_it_is_decoded(tmp_path: Path, lake: Path):
    put(lake / "a.jsonl", '{"x":' * 100_000 + "\n" + lines({"id": "1"}))
    brought_in(tmp_path, FileSource(lake, key="id"), value=dict)
    records = consume(TOPIC, key=bytes, value=bytes, log=tmp_path / "log")
    assert [one.key for one in records] == [None, b"1"]
