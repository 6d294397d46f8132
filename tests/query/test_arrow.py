"""Stores as tables: their columns and types, what other libraries read of them, and batches of bounded size."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from penstock import Materialized, SessionWindows, Stores, StreamsBuilder, TimeWindows, Topology, UnlimitedWindows
from penstock.query import arrow
from penstock.query.rows import rows_of
from penstock.testing import TopologyTestDriver


def at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def store(topology: Topology, rows: list[tuple[str, Any, int]], name: str = "store") -> Any:
    driver = TopologyTestDriver(topology)
    driver.pipe_record_list("in", rows)
    return driver.store(name)


def windows(by: Any) -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=int).group_by_key().windowed_by(by).count("store")
    return builder.build()


def test_a_key_value_store_has_keys_values_and_timestamps():
    builder = StreamsBuilder()
    builder.table("in", key=str, value=float, store="store")
    table = pa.table(store(builder.build(), [("b", 2.5, 1000), ("a", 1.5, 2000), ("b", None, 3000)]))
    assert table.schema == pa.schema(
        [("key", pa.string()), ("value", pa.float64()), ("timestamp", pa.timestamp("ms", "UTC"))]
    )
    assert table.to_pylist() == [{"key": "a", "value": 1.5, "timestamp": at(2000)}]


def test_rows_of_a_store_that_keeps_no_timestamps_have_none():
    def kept(record, context):
        context.get_state_store("store").put(record.key, record.value)

    builder = StreamsBuilder()
    builder.add_state_store(
        Stores.key_value_store_builder(Stores.persistent_key_value_store("store"), key=str, value=int)
    )
    builder.stream("in", key=str, value=int).process(kept, "store")
    view = store(builder.build(), [("a", 1, 5)])
    assert pa.table(view).to_pylist() == [{"key": "a", "value": 1, "timestamp": None}]
    assert list(rows_of(view)) == [{"key": "a", "value": 1}]


def test_pandas_and_pyarrow_read_a_store_by_itself():
    view = store(windows(TimeWindows.of_size_and_grace(10, 1000)), [("a", 1, 5), ("a", 1, 7), ("b", 1, 12)])
    columns = ["key", "window_start", "window_end", "value", "timestamp"]
    expected = [["a", at(0), at(10), 2, at(7)], ["b", at(10), at(20), 1, at(12)]]
    assert pa.table(view).to_pylist() == [dict(zip(columns, row, strict=True)) for row in expected]
    frame = pa.RecordBatchReader.from_stream(view).read_pandas()
    pd.testing.assert_frame_equal(frame, pa.table(view).to_pandas())
    assert frame["value"].sum() == 3


def test_windows_and_versions_without_an_end_have_none():
    view = store(windows(UnlimitedWindows.of()), [("a", 1, 5)])
    assert pa.table(view).to_pylist() == [
        {"key": "a", "window_start": at(0), "window_end": None, "value": 1, "timestamp": at(5)}
    ]
    builder = StreamsBuilder()
    builder.table("in", key=str, value=int, materialized=Materialized.as_versioned("store", "1 minute"))
    assert pa.table(store(builder.build(), [("a", 1, 5), ("a", 2, 7)])).to_pylist() == [
        {"key": "a", "value": 1, "valid_from": at(5), "valid_to": at(7)},
        {"key": "a", "value": 2, "valid_from": at(7), "valid_to": None},
    ]


def test_sessions_have_their_first_and_their_last_time():
    view = store(windows(SessionWindows.of_inactivity_gap_with_no_grace(5)), [("a", 1, 5), ("a", 1, 9)])
    assert pa.table(view).to_pylist() == [{"key": "a", "window_start": at(5), "window_end": at(9), "value": 2}]


@dataclass
class Delay:
    minutes: int
    reason: str | None = None


def test_a_class_is_a_struct_json_of_any_form_is_text_and_windowed_keys_are_structs():
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=int).map_values(lambda value: Delay(value), Delay).to_table(store="store")
    assert pa.table(store(builder.build(), [("a", 7, 5)]))["value"].to_pylist() == [{"minutes": 7, "reason": None}]
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=int).map_values(lambda value: {"n": [value]}, dict).to_table(store="store")
    assert pa.table(store(builder.build(), [("a", 7, 5)]))["value"].to_pylist() == ['{"n":[7]}']
    builder = StreamsBuilder()
    counted = builder.stream("in", key=str, value=int).group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(10))
    counted.count().to_stream().to_table(store="store")
    assert pa.table(store(builder.build(), [("a", 7, 5)]))["key"].to_pylist() == [
        {"key": "a", "start": at(0), "end": at(10)}
    ]


def test_an_empty_store_has_its_columns():
    table = pa.table(store(windows(TimeWindows.of_size_with_no_grace(10)), []))
    assert (table.num_rows, table.column_names[:3]) == (0, ["key", "window_start", "window_end"])


def test_batches_are_bounded_by_rows_and_by_bytes_and_of_one_moment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(arrow, "_BATCH_ROWS", 512)
    builder = StreamsBuilder()
    builder.table("in", key=str, value=str, store="store")
    driver = TopologyTestDriver(builder.build())
    count = arrow._BATCH_ROWS + 10
    driver.pipe_record_list("in", [(f"{number:06d}", "x", number) for number in range(count)])
    with driver.store("store").snapshot() as snapshot:
        reader = snapshot.to_arrow()
        first = reader.read_next_batch()
        driver.pipe_input("in", "000001", "later", 0)
        assert (first.num_rows, reader.read_next_batch().num_rows) == (arrow._BATCH_ROWS, 10)
    large = "x" * (1 << 20)
    rows = iter([(b"key", 0, large.encode())] * 600)
    sizes = [batch.num_rows for batch in arrow.batches(snapshot._table_shape(), rows)]
    assert sizes == [arrow._ROWS_A_LOOK, arrow._ROWS_A_LOOK, 600 - 2 * arrow._ROWS_A_LOOK]
