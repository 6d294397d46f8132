"""Topics read as columns: Arrow, pandas and polars, in batches."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from penstock import ConfigError, SerdeError, consume, produce
from penstock.log import consumed
from penstock.serdes.arrow_columns import TIME


@dataclass
class Order:
    item: str
    amount: float


ROWS = [
    ("ann", Order("tea", 5.0), 1_000, (("from", b"web"),)),
    ("gus", Order("rye", 7.5), 2_000),
    ("ann", None, 3_000),
]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    produce(ROWS, "orders", str, Order, tmp_path, partitions=2)
    return tmp_path


def test_arrow_batches_have_typed_columns_and_where_each_record_stands(log: Path):
    table = pa.Table.from_batches(consume("orders", value=Order, log=log, as_="arrow"))
    assert table.schema.field("timestamp").type == TIME
    assert table.schema.field("value").type == pa.struct([("item", pa.string()), ("amount", pa.float64())])
    rows = [[row[name] for name in ("key", "value", "partition", "offset")] for row in table.to_pylist()]
    assert rows == [
        ["ann", {"item": "tea", "amount": 5.0}, 0, 0],
        ["ann", None, 0, 1],
        ["gus", {"item": "rye", "amount": 7.5}, 1, 0],
    ]
    assert table.column("headers").to_pylist()[0] == [{"key": "from", "value": b"web"}]


def test_pandas_gets_frames(log: Path):
    [ann, gus] = consume("orders", value=Order, log=log, as_="pandas")
    assert list(ann["key"]) == ["ann", "ann"]
    assert [time.timestamp() for time in gus["timestamp"]] == [2.0]


def test_polars_gets_frames(log: Path):
    polars = pytest.importorskip("polars", reason="pip install polars")
    [ann, _] = consume("orders", value=Order, log=log, as_="polars")
    assert isinstance(ann, polars.DataFrame)
    assert ann["key"].to_list() == ["ann", "ann"]


def test_batches_are_bounded_and_small_appends_come_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(consumed, "BATCH_ROWS", 10)
    for number in range(7):
        produce([(f"k{number}", row) for row in range(5)], "numbers", str, int, tmp_path)
    batches = list(consume("numbers", log=tmp_path, as_="arrow"))
    assert [batch.num_rows for batch in batches] == [10, 10, 10, 5]
    assert [row for batch in batches for row in batch.column("offset").to_pylist()] == list(range(35))


def test_a_start_and_a_partition_hold_for_columns_too(log: Path):
    [batch] = consume("orders", value=Order, log=log, partition=0, start=1, as_="arrow")
    assert batch.column("offset").to_pylist() == [1]


def test_a_form_that_there_is_not_is_refused_before_anything_is_read(tmp_path: Path):
    with pytest.raises(ConfigError, match="as_ is one of arrow, pandas, polars, or left out for records; got 'panda'"):
        consume("orders", log=tmp_path, as_="panda")


def test_a_record_of_another_type_is_named(tmp_path: Path):
    produce([("a", b"\x00" * 8), ("b", b"short")], "numbers", str, bytes, tmp_path)
    with pytest.raises(SerdeError, match="topic 'numbers', partition 0, offset 1: "):
        list(consume("numbers", value=int, log=tmp_path, as_="arrow"))


def test_a_look_at_it_takes_nothing_out(log: Path):
    records = consume("orders", value=Order, log=log)
    assert repr(records) == "<3 records of topic 'orders'>"
    html = records._repr_html_()  # type: ignore[attr-defined]
    assert "orders: 3 records" in html
    assert "tea" in html
    assert next(records).value == Order("tea", 5.0)
