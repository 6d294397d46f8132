"""Values that may be null, for stores in which null means that there is no row: a leading byte marks nulls."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import Binary, without_first
from penstock.serdes.base import Serde

_NULL, _VALUE = b"\x00", b"\x01"


class NullableSerde(Serde):
    """A serde that also decodes nulls; values to write are never None, so ``encode`` only adds the mark.

    >>> from penstock.serdes import STR
    >>> [NullableSerde(STR).decode(data) for data in mark_nulls(pa.array([b"a", None], pa.binary())).to_pylist()]
    ['a', None]
    """

    def __init__(self, inner: Serde):
        self.inner = inner
        self.name = f"nullable[{inner.name}]"

    def prepare(self, writes: bool) -> None:
        self.inner.prepare(writes)

    def encode(self, value: Any) -> bytes:
        return _VALUE + self.inner.encode_to_bytes(value)

    def decode(self, data: bytes) -> Any:
        return None if data == _NULL else self.inner.decode(data[1:])


def unmark_nulls(data: Binary) -> Binary:
    """The inverse of ``mark_nulls``.

    >>> unmark_nulls(mark_nulls(pa.array([b"a", None, b""], pa.binary()))).to_pylist()
    [b'a', None, b'']
    """
    values = pc.if_else(pc.equal(data, _NULL), pa.scalar(None, pa.binary()), data)
    return without_first(values, 1)


def mark_nulls(data: Binary) -> Binary:
    """The bytes of values with a leading mark; the mark alone for null."""
    marked = pc.binary_join_element_wise(pa.scalar(_VALUE), data, b"")
    return marked.fill_null(_NULL) if data.null_count else marked
