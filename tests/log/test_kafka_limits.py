"""Which records are too large for a topic, reckoned as a broker does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.columns.batch import HEADERS
from penstock.log.kafka import limits
from penstock.log.kafka.limits import Limits, batch_bytes, refused
from penstock.log.records import Records

Pairs = list[tuple[str, bytes | None]] | None


def records(values: list[bytes], headers: list[Pairs]) -> Records:
    count = len(values)
    found = pa.array([None if row is None else [{"key": k, "value": v} for k, v in row] for row in headers], HEADERS)
    keys = pa.array([b"k"] * count, pa.binary())
    return Records(-1, keys, pa.array(values, pa.binary()), np.zeros(count, np.int64), found)


pairs = st.none() | st.lists(st.tuples(st.text(max_size=40), st.none() | st.binary(max_size=300)), max_size=5)


@given(st.lists(st.tuples(st.binary(max_size=300), pairs), min_size=1, max_size=6), st.integers(60, 700), st.data())
def test_a_record_is_refused_just_when_it_is_too_large_with_its_own_headers(
    rows: list[tuple[bytes, Pairs]], most: int, data: st.DataObject
):
    start = data.draw(st.integers(0, len(rows)))
    found = records([value for value, _ in rows], [headers for _, headers in rows]).slice(start, len(rows))
    sizes = [
        batch_bytes(1, len(value), [(len(k.encode()), -1 if v is None else len(v)) for k, v in headers or ()])
        for value, headers in rows[start:]
    ]
    assert list(refused("t", found, Limits(most), 0)) == [row for row, size in enumerate(sizes) if size > most]


def test_headers_of_others_do_not_have_a_record_looked_at_by_itself(monkeypatch: pytest.MonkeyPatch):
    looked: list[Any] = []
    monkeypatch.setattr(limits, "batch_bytes", lambda *sizes: looked.append(sizes) or batch_bytes(*sizes))
    many = records([b"v"] * 1_000, [[("name", b"x" * 2_000)]] * 999 + [[("name", b"x" * 999_999)]])
    assert not refused("t", many, Limits(1_000_100), 0)
    assert len(looked) == 1
