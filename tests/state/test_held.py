"""Updates as a suppression holds them: what is packed is what is unpacked, headers included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.batch import HEADERS
from penstock.state.kinds.held import Updates, no_updates, unpack

VALUES = st.none() | st.binary(max_size=5)
HEADER = st.fixed_dictionaries({"key": st.text(max_size=3), "value": VALUES})
ROWS = st.lists(st.tuples(VALUES, VALUES, VALUES, st.none() | st.lists(HEADER, max_size=4)), min_size=1, max_size=20)


@pytest.mark.kip("328-09")
@given(rows=ROWS, first=st.integers(0, 3))
def test_packed_updates_are_unpacked_as_they_were(rows: list[tuple[Any, ...]], first: int):
    new, old, prior = (pa.array([row[part] for row in rows], pa.binary())[first:] for part in range(3))
    headers = pa.array([row[3] for row in rows], HEADERS)[first:]
    sizes, seen, topics = np.arange(len(new)), np.arange(len(new)) + 2**40, np.arange(len(new)) + 7
    if not len(new):
        return
    found = unpack(Updates(new, old, prior, headers, sizes, seen, topics).pack())
    assert [found.new.to_pylist(), found.old.to_pylist()] == [new.to_pylist(), old.to_pylist()]
    assert found.prior.to_pylist() == prior.to_pylist()
    numbers = [part.tolist() for part in (found.sizes, found.seen, found.topic_bytes)]
    assert numbers == [sizes.tolist(), seen.tolist(), topics.tolist()]
    if headers.null_count == len(headers):
        assert found.headers is None
    else:
        assert found.headers.type == HEADERS
        assert found.headers.to_pylist() == headers.to_pylist()


def test_no_updates_take_no_bytes():
    assert len(no_updates().pack()) == 0
