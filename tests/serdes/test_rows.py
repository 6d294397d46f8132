"""Rows of any schema as JSON: columns and Python values become the same bytes, and come back as they were."""

from __future__ import annotations

from typing import Any

from hypothesis import given

from penstock.serdes import json_columns
from penstock.serdes.row import RowSerde
from support.schemas import same, tables


@given(tables())
def test_columns_and_values_of_any_schema_have_the_same_bytes_and_come_back(drawn: tuple[Any, list[Any]]):
    table, rows = drawn
    column = table.to_struct_array()
    serde = RowSerde(table.schema)
    data = json_columns.encode(column, "value", "test")
    assert serde.encode_all(rows).to_pylist() == data.to_pylist()
    assert same(serde.decode_all(data), rows)
    back = serde.arrow(data)
    assert back.type == serde.kind == column.type
    assert json_columns.encode(back, "value", "test") == data


@given(tables(rows=6))
def test_a_slice_of_columns_is_written_as_its_rows_are(drawn: tuple[Any, list[Any]]):
    table, _ = drawn
    if table.num_rows < 3:
        return
    column = table.to_struct_array()
    every = json_columns.encode(column, "value", "test").to_pylist()
    assert json_columns.encode(column.slice(1, table.num_rows - 2), "value", "test").to_pylist() == every[1:-1]
