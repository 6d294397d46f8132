"""Several entries in one value: taken apart and put together."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.state.columns.packed import Entries, pack, unpack, unpack_one
from support.rows import binary

NUMBERS = st.integers(-(2**63), 2**63 - 1)
ROWS = st.lists(st.lists(st.tuples(NUMBERS, NUMBERS, st.binary(max_size=12)), max_size=5), max_size=6)


def entries_of(rows) -> Entries:
    flat = [(row, *entry) for row, entries in enumerate(rows) for entry in sorted(entries)]
    row, first, second, data = zip(*flat, strict=True) if flat else ((), (), (), ())
    return Entries(*(np.array(column, np.int64) for column in (row, first, second)), binary(*data))


def as_lists(entries: Entries):
    columns = (entries.row.tolist(), entries.first.tolist(), entries.second.tolist(), entries.data.to_pylist())
    return list(zip(*columns, strict=True))


@given(rows=ROWS)
def test_what_is_packed_comes_out_again(rows):
    entries = entries_of(rows)
    packed = pack(entries, len(rows))
    assert packed.is_null().to_pylist() == [not entries for entries in rows]
    assert as_lists(unpack(packed)) == as_lists(entries)
    assert [[] if value is None else unpack_one(value) for value in packed.to_pylist()] == [sorted(r) for r in rows]


@given(rows=ROWS, data=st.data())
def test_values_are_unpacked_in_any_order_and_from_any_slice(rows, data):
    packed = pack(entries_of(rows), len(rows))
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=8)) if rows else []
    expected = as_lists(entries_of([rows[row] for row in chosen]))
    assert as_lists(unpack(packed.take(pa.array(chosen, pa.int64())))) == expected
    assert as_lists(unpack(packed.slice(len(rows) // 2))) == as_lists(entries_of(rows[len(rows) // 2 :]))


@given(one=ROWS, other=ROWS)
def test_joined_entries_are_sorted(one, other):
    joined = as_lists(entries_of(one).merge(entries_of(other)))
    assert [entry[:3] for entry in joined] == sorted(
        e[:3] for e in as_lists(entries_of(one)) + as_lists(entries_of(other))
    )
    assert sorted(joined) == sorted(as_lists(entries_of(one)) + as_lists(entries_of(other)))
