"""Updates as a suppression holds them: what is packed is what is unpacked, headers included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.columns.batch import HEADERS, Origins
from penstock.state.kinds.held import Updates, no_updates, unpack

VALUES = st.none() | st.binary(max_size=5)
HEADER = st.fixed_dictionaries({"key": st.text(max_size=3), "value": VALUES})
TOPIC = st.none() | st.text(max_size=9)
ROW = st.tuples(VALUES, VALUES, VALUES, st.none() | st.lists(HEADER, max_size=4), TOPIC)
ROWS = st.lists(ROW, min_size=1, max_size=20)


@pytest.mark.kip("328-09")
@given(rows=ROWS, first=st.integers(0, 3))
def test_packed_updates_are_unpacked_as_they_were(rows: list[tuple[Any, ...]], first: int):
    new, old, prior = (pa.array([row[part] for row in rows], pa.binary())[first:] for part in range(3))
    headers = pa.array([row[3] for row in rows], HEADERS)[first:]
    sizes, seen = np.arange(len(new)), np.arange(len(new)) + 2**40
    origins = Origins(pa.array([row[4] for row in rows], pa.string())[first:], sizes - 1, seen + 7)
    if not len(new):
        return
    found = unpack(Updates(new, old, prior, headers, sizes, seen, origins).pack())
    assert [found.new.to_pylist(), found.old.to_pylist()] == [new.to_pylist(), old.to_pylist()]
    assert found.prior.to_pylist() == prior.to_pylist()
    assert [found.sizes.tolist(), found.seen.tolist()] == [sizes.tolist(), seen.tolist()]
    assert list(found.origins.rows()) == list(origins.rows())
    if headers.null_count == len(headers):
        assert found.headers is None
    else:
        assert found.headers.type == HEADERS
        assert found.headers.to_pylist() == headers.to_pylist()


def test_rows_from_before_origins_were_kept_have_none():
    new = pa.array([b"new", b"two"])
    none = pa.nulls(2, pa.binary())
    origins = Origins(pa.array(["orders", "o"]), np.array([1, 2]), np.array([5, 6]))
    packed = Updates(new, none, none, None, np.array([3, 4]), np.array([8, 9]), origins).pack()
    before = pa.array([packed[0].as_py()[: -len("orders") - 12], packed[1].as_py()])
    found = unpack(before)
    assert (found.new.to_pylist(), found.sizes.tolist(), found.seen.tolist()) == ([b"new", b"two"], [3, 4], [8, 9])
    assert list(found.origins.rows()) == [(None, -1, -1), ("o", 2, 6)]


def test_no_updates_take_no_bytes():
    assert len(no_updates().pack()) == 0
