"""Files that appear in a folder or a bucket: JSON lines, CSV and Parquet, each line or row once."""

from __future__ import annotations

import gzip
import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock import ConfigError, PenstockError, SourceError, StreamsBuilder, consume
from penstock.sources import FileSource
from penstock.sources.files import csv_rows, formats, journal, places
from penstock.storage.base import LocalStorage, seal
from support.sourcing import TOPIC, OneBatch, brought_in, lines, put, running, until


@dataclass
class Order:
    customer: str
    amount: int
    price: float | None = None
    paid: bool = False
    at: datetime | None = None


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    folder = tmp_path / "lake"
    folder.mkdir()
    return folder


def found(folder: Path, value: Any = dict, key: Any = str) -> list[tuple[Any, Any]]:
    return [(one.key, one.value) for one in consume(TOPIC, key=key, value=value, log=folder / "log")]


def test_each_line_of_json_is_a_record_as_it_stands_and_files_come_by_age(tmp_path: Path, lake: Path):
    put(lake / "b.jsonl", '{"customer":"ann", "n":1}\r\n\n{"customer":null,"n":2}\n{"n":3}', at=10)
    put(lake / "more/a.ndjson", '\ufeff{"customer":"bob","n":4}\n', at=20)
    put(lake / "notes.txt", "no record", at=5)
    put(lake / "_part.jsonl", "no record", at=5)
    brought_in(tmp_path, FileSource(lake, key="customer"), value=dict)
    bytes_ = consume(TOPIC, key=bytes, value=bytes, log=tmp_path / "log")
    assert [(one.key, one.value) for one in bytes_] == [
        (b"ann", b'{"customer":"ann", "n":1}'),
        (None, b'{"customer":null,"n":2}'),
        (None, b'{"n":3}'),
        (b"bob", b'{"customer":"bob","n":4}'),
    ]


def test_keys_that_no_line_has_are_told_with_the_fields_there_are(
    tmp_path: Path, lake: Path, caplog: pytest.LogCaptureFixture
):
    put(lake / "a.jsonl", lines({"customer": "ann", "n": 1}, {"customer": "bob", "n": 2}))
    put(lake / "b.jsonl", lines({"n": 3}, {"custmer": "cy", "n": 4}))
    brought_in(tmp_path, FileSource(lake, key="custmer"), value=dict)
    assert [key for key, _ in found(tmp_path)] == [None, None, None, "cy"]
    assert [one.partition("): ")[2] for one in caplog.messages if "key" in one] == [
        "file 'a.jsonl': none of its first 2 lines has a key in the field 'custmer', "
        "so these records have none. The first line has 'customer', 'n'"
    ]


def test_a_folder_in_which_no_file_has_a_known_ending_is_told_once(
    tmp_path: Path, lake: Path, caplog: pytest.LogCaptureFixture
):
    put(lake / "a.txt", lines({"n": 1}))
    with running(tmp_path, FileSource(lake, every="10 ms"), value=dict) as sources:
        sources.process_sources()
        put(lake / "b.txt", lines({"n": 2}))
        sources.process_sources()
    assert [one.partition("): ")[2] for one in caplog.messages if "ending" in one] == [
        "no file has a known ending; one of them is 'a.txt'. Give format=, one of jsonl, csv, parquet, to read them all"
    ]


def test_files_that_appear_later_are_read_and_none_is_read_again(tmp_path: Path, lake: Path):
    put(lake / "1.json", lines({"n": 1}))
    with running(tmp_path, FileSource(lake, every="10 ms"), value=dict) as sources:
        sources.process_sources()
        put(lake / "0.json", lines({"n": 2}, {"n": 3}))
        until(lambda: sources.now()[0].rows == 3)
    brought_in(tmp_path, FileSource(lake), value=dict)
    put(lake / "2.json", lines({"n": 4}))
    brought_in(tmp_path, FileSource(lake), value=dict)
    assert found(tmp_path) == [(None, {"n": n}) for n in (1, 2, 3, 4)]


def test_keys_are_of_the_type_of_keys_and_what_does_not_fit_fails_where_it_is_decoded(tmp_path: Path, lake: Path):
    put(lake / "a.jsonl", lines({"id": 7}, {"id": "x"}) + "no json\n")
    brought_in(tmp_path, FileSource(lake, key="id"), key=int, value=dict)
    records = consume(TOPIC, key=bytes, value=bytes, log=tmp_path / "log")
    assert [(one.key, one.value) for one in records] == [
        ((7).to_bytes(8, "big"), b'{"id": 7}'),
        (b'"x"', b'{"id": "x"}'),
        (None, b"no json"),
    ]


def test_columns_of_csv_have_the_types_of_the_fields_and_are_text_without(tmp_path: Path, lake: Path):
    text = 'customer,amount,price,paid,at\nann,5,1.5,true,2026-11-27T10:00:00\n"b,\nc",2,,false,\n'
    put(lake / "orders.csv", text)
    brought_in(tmp_path, FileSource(lake, key="customer"), value=Order)
    assert found(tmp_path, Order) == [
        ("ann", Order("ann", 5, 1.5, True, datetime(2026, 11, 27, 10))),
        ("b,\nc", Order("b,\nc", 2, None, False, None)),
    ]
    other = tmp_path / "other"
    brought_in(other, FileSource(lake), value=dict)
    assert found(other)[0] == (
        None,
        {"customer": "ann", "amount": "5", "price": "1.5", "paid": "true", "at": "2026-11-27T10:00:00"},
    )


def test_a_cell_that_does_not_fit_stays_text_so_that_its_record_fails_alone(tmp_path: Path, lake: Path):
    put(lake / "orders.csv", "customer;amount\nann;5\nbob;many\neve;7\n")
    brought_in(tmp_path, FileSource(lake, delimiter=";"), value=Order)
    assert found(tmp_path) == [
        (None, {"customer": "ann", "amount": 5}),
        (None, {"customer": "bob", "amount": "many"}),
        (None, {"customer": "eve", "amount": 7}),
    ]


def test_a_key_of_csv_that_does_not_fit_fails_where_it_is_decoded(tmp_path: Path, lake: Path):
    put(lake / "a.csv", "id,n\n7,1\nx,2\n,3\n")
    brought_in(tmp_path, FileSource(lake, key="id"), key=int, value=dict)
    keys = [one.key for one in consume(TOPIC, key=bytes, value=bytes, log=tmp_path / "log")]
    assert keys == [(7).to_bytes(8, "big"), b'"x"', None]


@pytest.mark.parametrize("key", [int, float])
def test_no_text_is_taken_for_a_number_because_it_has_as_many_bytes(key: type, tmp_path: Path, lake: Path):
    put(lake / "a.jsonl", lines({"id": "abcdef"}))
    brought_in(tmp_path, FileSource(lake, key="id"), key=key, value=dict)
    with pytest.raises(PenstockError, match="needs 8 bytes, got 9"):
        list(consume(TOPIC, key=key, value=dict, log=tmp_path / "log"))


def test_a_row_that_does_not_fit_changes_no_float_of_another_row(tmp_path: Path, lake: Path):
    put(lake / "a.csv", "customer,amount,price\nann,5,nan\nbob,6,-inf\n")
    put(lake / "b.csv", "customer,amount,price\nann,5,nan\nbob,6,-inf\neve,x,1\n")
    brought_in(tmp_path, FileSource(lake), value=Order)
    assert [row["price"] for _, row in found(tmp_path)] == 2 * ["NaN", "-Infinity"] + [1.0]


def test_csv_without_names_gets_them_and_numbers_may_be_keys(tmp_path: Path, lake: Path):
    put(lake / "a.csv", "5,x\n6,y\n")
    put(lake / "b.csv", "")
    brought_in(tmp_path, FileSource(lake, key="id", columns=["id", "what"]), key=int, value=dict)
    assert found(tmp_path, key=int) == [(5, {"id": "5", "what": "x"}), (6, {"id": "6", "what": "y"})]


def test_rows_of_parquet_keep_their_types(tmp_path: Path, lake: Path):
    table = pa.table({"id": [1, 2, 3], "tags": [["a"], [], None], "price": [0.5, None, 2.0]})
    with pa.BufferOutputStream() as out:
        pq.write_table(table, out, row_group_size=2)
        put(lake / "a.parquet", out.getvalue().to_pybytes())
    brought_in(tmp_path, FileSource(lake, key="id"), key=int, value=dict)
    assert found(tmp_path, key=int) == [(row["id"], row) for row in table.to_pylist()]


@pytest.mark.parametrize("format_", ["jsonl", "jsonl.gz", "csv", "csv.gz", "parquet"])
def test_a_file_continues_where_it_was_after_any_batch(format_: str, tmp_path: Path, lake: Path):
    rows = [{"id": str(n), "text": "two\nlines" if n % 3 else ""} for n in range(7)]
    if format_.startswith("jsonl"):
        data = lines(*rows).encode()
    elif format_.startswith("csv"):
        data = ("id,text\n" + "".join(f'{row["id"]},"{row["text"]}"\n' for row in rows)).encode()
    else:
        with pa.BufferOutputStream() as out:
            pq.write_table(pa.Table.from_pylist(rows), out, row_group_size=3)
            data = out.getvalue().to_pybytes()
    put(lake / f"a.{format_}", gzip.compress(data) if format_.endswith(".gz") else data)
    for batch in range(4):
        with running(tmp_path, OneBatch(lake, batch), value=dict, retry_for="1 ms") as sources:
            if batch < 3:
                with pytest.raises(SourceError, match="enough"):
                    sources.process_sources()
            else:
                sources.process_sources()
    assert found(tmp_path) == [(row["id"], row) for row in rows]


def test_long_files_come_in_batches(tmp_path: Path, lake: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(formats, "BLOCK", 100)
    monkeypatch.setattr(csv_rows, "BLOCK", 100)
    put(lake / "a.jsonl", lines(*({"n": n, "x": "y" * n} for n in range(150))))
    put(lake / "b.csv", "n,x\n" + "".join(f"{n},{'y' * n}\n" for n in range(40)))
    brought_in(tmp_path, FileSource(lake), value=dict)
    assert [row["n"] for _, row in found(tmp_path)] == [*range(150), *map(str, range(40))]


def test_a_file_that_changed_while_it_was_read_ends_the_program(tmp_path: Path, lake: Path):
    put(lake / "a.jsonl", lines({"id": "1"}, {"id": "2"}, {"id": "3"}), at=10)
    with running(tmp_path, OneBatch(lake, 0), value=dict) as sources, pytest.raises(SourceError, match="enough"):
        sources.process_sources()
    put(lake / "a.jsonl", lines({"id": "9"}), at=20)
    with (
        running(tmp_path, FileSource(lake), value=dict) as sources,
        pytest.raises(SourceError, match=r"file 'a.jsonl' was read in part and is another file"),
    ):
        sources.process_sources()
    assert [row["id"] for _, row in found(tmp_path)] == ["1", "2"]


def test_a_file_that_grew_while_it_was_read_is_told(tmp_path: Path, lake: Path, monkeypatch: pytest.MonkeyPatch):
    put(lake / "a.jsonl", lines({"id": "1"}, {"id": "2"}), at=10)
    ends = formats.JsonLines.read

    def grows(self: Any, most: int) -> Any:
        found = ends(self, most)
        if found is None:
            with (lake / "a.jsonl").open("a") as file:
                file.write(lines({"id": "3"}))
        return found

    monkeypatch.setattr(formats.JsonLines, "read", grows)
    with running(tmp_path, FileSource(lake), value=dict) as sources:
        sources.process_sources()
        [child] = sources.now()
    assert [row["id"] for _, row in found(tmp_path)] == ["1", "2"]
    assert [one for one in child.told if "file 'a.jsonl' was changed while it was read, and has 36 bytes now" in one]


def test_a_file_that_went_before_it_was_read_is_told(tmp_path: Path, lake: Path, caplog: pytest.LogCaptureFixture):
    put(lake / "a.jsonl", lines({"id": "1"}, {"id": "2"}), at=10)
    put(lake / "b.jsonl", lines({"id": "3"}), at=20)
    put(lake / "c.jsonl", lines({"id": "4"}), at=30)
    with running(tmp_path, OneBatch(lake, 0), value=dict) as sources, pytest.raises(SourceError, match="enough"):
        sources.process_sources()
    (lake / "b.jsonl").unlink()
    with running(tmp_path, FileSource(lake), value=dict) as sources:
        sources.process_sources()
        [child] = sources.now()
    assert [row["id"] for _, row in found(tmp_path)] == ["1", "2", "4"]
    assert f"source 'rows' (files in {lake}): file 'b.jsonl' was removed before it was read" in child.told
    assert "'b.jsonl' was removed before it was read" in caplog.text


def test_lists_of_files_are_put_together_and_no_name_is_read_twice(
    tmp_path: Path, lake: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(journal, "_MOST_LISTS", 3)
    monkeypatch.setattr(journal, "_MOST_FILES", 2)
    for n in range(17):
        put(lake / f"{n}.jsonl", lines({"n": n}), at=100 + n)
    brought_in(tmp_path, FileSource(lake), value=dict)
    brought_in(tmp_path, FileSource(lake), value=dict)
    put(lake / "last.jsonl", lines({"n": 17}))
    brought_in(tmp_path, FileSource(lake), value=dict)
    assert [row["n"] for _, row in found(tmp_path)] == list(range(18))
    own = LocalStorage(tmp_path / "checkpoint").list("sources/rows/own/lists")
    assert len(own) <= 5


def test_another_checkpoint_is_noticed(tmp_path: Path, lake: Path):
    put(lake / "a.jsonl", lines({"n": 1}))
    brought_in(tmp_path, FileSource(lake), value=dict)
    (tmp_path / "checkpoint").rename(tmp_path / "away")
    with (
        running(tmp_path, FileSource(lake), value=dict) as sources,
        pytest.raises(SourceError, match="list 1 of the source's files is not in the checkpoint"),
    ):
        sources.process_sources()


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("a.csv", "a,a\n1,2\n", "its first row has the names of columns, each once; it has a, a"),
        ("a.parquet", "no parquet", "file 'a.parquet': "),
        ("b.csv", "a,b\n1,2\n", "it has no column 'id' for the keys; its columns are a, b"),
    ],
)
def test_a_file_that_cannot_be_read_ends_the_program(name: str, data: str, why: str, tmp_path: Path, lake: Path):
    put(lake / name, data)
    source = FileSource(lake, key="id" if name == "b.csv" else None)
    with running(tmp_path, source, value=dict) as sources, pytest.raises(SourceError, match=why):
        sources.process_sources()


def test_a_folder_that_is_not_there_yet_is_waited_for(tmp_path: Path):
    with running(tmp_path, FileSource(tmp_path / "lake"), value=dict) as sources:
        until(lambda: "No such file" in sources.now()[0].error)
        put(tmp_path / "lake/a.jsonl", lines({"n": 1}))
        sources.process_sources()
    assert found(tmp_path) == [(None, {"n": 1})]


@pytest.mark.parametrize("name", [b"caf\xe9.jsonl", b"a\\b.jsonl"])
def test_a_name_that_no_list_can_have_is_told(name: bytes, tmp_path: Path, lake: Path):
    (lake / os.fsdecode(name)).write_text(lines({"n": 1}))
    with (
        running(tmp_path, FileSource(lake), value=dict) as sources,
        pytest.raises(SourceError, match="rename the file"),
    ):
        sources.process_sources()


def test_a_list_that_leads_out_of_the_folder_is_refused(tmp_path: Path, lake: Path):
    storage = LocalStorage(tmp_path / "checkpoint")
    listed = journal._List([places.Listed("../secret.jsonl", 1, "x", 1)])
    storage.create("sources/rows/own/lists/0000000000000001.json", seal(listed))
    (tmp_path / "secret.jsonl").write_text("{}\n")
    with running(tmp_path, FileSource(lake), value=dict) as sources, pytest.raises(SourceError, match="leads out of"):
        sources.process_sources()


def test_young_files_wait(tmp_path: Path, lake: Path):
    put(lake / "old.jsonl", lines({"n": 1}), at=10)
    put(lake / "young.jsonl", lines({"n": 2}))
    brought_in(tmp_path, FileSource(lake, min_age="1 hour"), value=dict)
    assert found(tmp_path) == [(None, {"n": 1})]


@pytest.mark.parametrize(
    ("place", "options", "why"),
    [
        ("", {}, "place is a folder or the URL of an object store; got ''"),
        ("kafka://host", {}, "FileSource: place: 'kafka://host' is neither a folder nor an object store"),
        ("x", {"format": "xml"}, "format is one of jsonl, csv, parquet; got 'xml'"),
        ("x", {"key": 5}, "key is the name of a field or a column; got 5"),
        ("x", {"delimiter": ";;"}, "delimiter is one character"),
        ("x", {"columns": "ab"}, "columns are names"),
        ("x", {"columns": []}, "columns are names, each once"),
        ("x", {"columns": ["a", "a"]}, "columns are names, each once"),
        ("x", {"encoding": "klingon"}, "encoding is an encoding that Python knows, such as 'cp1252' .* got 'klingon'"),
        ("x", {"encoding": "base64"}, "encoding is an encoding that Python knows"),
        ("x", {"encoding": None}, "encoding is an encoding that Python knows"),
    ],
)
def test_arguments_that_cannot_be_meant_are_refused(place: str, options: Any, why: str):
    with pytest.raises(ConfigError, match=why):
        FileSource(place, **options)


def test_values_of_files_are_json(tmp_path: Path, lake: Path):
    with pytest.raises(ConfigError, match=r"source at .*: the values of files in .* are JSON objects"):
        brought_in(tmp_path, FileSource(lake), value=int)


def test_a_driver_takes_the_records_of_a_source_by_its_name(lake: Path):
    from penstock.testing import TopologyTestDriver

    builder = StreamsBuilder()
    orders = builder.source(FileSource(lake, key="customer"), "orders", key=str, value=Order)
    orders.group_by_key().count("counts").to_stream().to("counts")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("orders", "ann", Order("ann", 5))
    assert [(one.key, one.value) for one in driver.read_output("counts")] == [("ann", 1)]
