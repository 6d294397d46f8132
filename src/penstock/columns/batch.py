"""Batches: a chunk of records in one task's processing order, as columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import BoolArray, IntArray
from penstock.columns.column import Column, is_routed_alike
from penstock.columns.rows import Kind, Rows, if_absent, joined, of_kind
from penstock.messages import show

Order = tuple[IntArray | int, ...]
"""The place of each record in the task's processing order: its position, then its branch, then its index among the
results of one input record, and so on. Columns compare from left to right; a plain int stands for a constant column.
"""

NO_RECORD = 2**62
"""The position of results that no input record caused, for example by advancing time: after those of all records."""


class Placement(NamedTuple):
    """By Kafka's partitioner, all keys of a batch belong to this partition of so many."""

    partition: int
    partitions: int


OF_CAUSE = -2
"""Marker in ``held.offset``: the record has no separate origin; use that of the input record at its position."""


@dataclass(frozen=True, slots=True)
class Origins(Rows):
    """The origins of records, as columns: topic, partition and offset; null and -1 for results without a cause."""

    topic: Any
    """An Arrow array of text."""
    partition: IntArray
    offset: IntArray

    @classmethod
    def alike(cls, count: int, offset: int = -1) -> Origins:
        """Return so many origins without a topic."""
        return cls(pa.nulls(count, pa.string()), np.full(count, -1), np.full(count, offset))

    def topic_bytes(self) -> IntArray:
        """Return the lengths of the topics' names, 0 for none."""
        lengths: IntArray = pc.binary_length(self.topic).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        return lengths

    def rows(self) -> Iterator[tuple[Any, int, int]]:
        """Return topic, partition and offset of each record."""
        return zip(self.topic.to_pylist(), self.partition.tolist(), self.offset.tolist(), strict=True)


def take_order(order: Order, rows: IntArray) -> Order:
    return tuple(column if isinstance(column, int) else column[rows] for column in order)


def order_columns(order: Order, count: int, depth: int) -> list[IntArray]:
    """Return an order of so many records as so many arrays."""
    columns = [np.full(count, c, np.int64) if isinstance(c, int) else c for c in order]
    return columns + [np.zeros(count, np.int64)] * (depth - len(columns))


def _join_orders(orders: list[Order], counts: list[int]) -> Order:
    depth = max(map(len, orders))
    columns = [order_columns(order, count, depth) for order, count in zip(orders, counts, strict=True)]
    return tuple(np.concatenate(parts) for parts in zip(*columns, strict=True))


_ORDER = Kind(
    take=take_order,
    slice=lambda order, start, stop: tuple(c if isinstance(c, int) else c[start:stop] for c in order),
    join=_join_orders,
)

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def no_headers(count: int) -> Any:
    """Return the column of headers of so many records without any."""
    return pa.nulls(count, HEADERS)


@dataclass(frozen=True, slots=True)
class Batch(Rows):
    """Some records of a stream.

    ``position`` (the first column of ``order``) is that of the input record that caused each one; it never decreases.
    ``headers`` is an Arrow array of lists of (key, value) structs, or None if no record has any. ``held`` has the
    origin of records that do not come from the record that caused them, as after a suppression, which sends earlier
    records (``ProcessorRecordContext``). Other records have the offset ``OF_CAUSE`` there; ``held`` is None if all are
    of that kind.
    """

    key: Column
    value: Column
    timestamp: IntArray
    order: Order = field(metadata=of_kind(_ORDER))
    headers: Any = field(default=None, metadata=if_absent(no_headers))
    placed: Placement | None = None
    held: Origins | None = field(
        default=None, kw_only=True, metadata=if_absent(lambda count: Origins.alike(count, OF_CAUSE))
    )
    to_topic: Any = field(default=None, kw_only=True)
    """At a sink: the topic chosen for each record, an array of text."""
    to_partition: IntArray | None = field(
        default=None, kw_only=True, metadata=if_absent(lambda count: np.full(count, -1))
    )
    """At a sink: the partition chosen for each record, -1 for the one that Kafka's partitioner chooses."""

    def __len__(self) -> int:
        return len(self.timestamp)

    @property
    def position(self) -> IntArray:
        first = self.order[0]
        assert isinstance(first, np.ndarray)
        return first

    def with_key(self, key: Column) -> Self:
        """Return these records with other keys, which may belong to other partitions unless they are routed alike."""
        return self.with_columns(key=key, placed=self.placed if is_routed_alike(key, self.key) else None)

    def with_value(self, value: Column) -> Self:
        return self.with_columns(value=value)

    def as_changes(self, value: Column, timestamp: IntArray, old: Column | None) -> Changes:
        """Return these records as changes of a table."""
        parts = (self.key, value, timestamp, self.order, self.headers, self.placed, old)
        return Changes(*parts, held=self.held)

    def on_branch(self, branch: int) -> Self:
        """Return these records as they go down one of several branches."""
        return self.with_columns(order=(*self.order, branch))


@dataclass(frozen=True, slots=True)
class Changes(Batch):
    """Some updates of a table: ``value`` is the new value of the key, null for a deletion.

    ``old`` is the previous value, None if no step below uses it. ``latest`` tells which updates are the newest of their
    keys, by timestamp; None if all are. Only versioned tables send others (KIP-914).
    """

    old: Column | None = None
    latest: BoolArray | None = field(default=None, metadata=if_absent(lambda count: np.ones(count, np.bool_)))

    def only_latest(self) -> Self:
        """Return the changes without out-of-order updates, which have older timestamps than others."""
        return self if self.latest is None else self.keep(self.latest).with_columns(latest=None)

    def as_stream(self) -> Batch:
        """Return the new values as records of a stream."""
        parts = (self.key, self.value, self.timestamp, self.order, self.headers, self.placed)
        return Batch(*parts, held=self.held)


AnyBatch = TypeVar("AnyBatch", bound=Batch)


def merge(batches: list[Batch]) -> Batch:
    """Merge the records of several branches into one batch, in the order of depth-first, record-by-record
    processing.
    """
    batches = [batch for batch in batches if len(batch)]
    if len(batches) == 1:
        return batches[0]
    every = join(batches)
    return every.take(np.lexsort(order_columns(every.order, len(every), len(every.order))[::-1]))


def join(batches: list[AnyBatch]) -> AnyBatch:
    """Concatenate batches."""
    return joined(type(batches[0]), batches)


def header_list(headers: Iterable[tuple[str, bytes | None]] | None) -> list[dict[str, Any]] | None:
    """Return a record's headers in Arrow's form."""
    return [{"key": key, "value": value} for key, value in headers or ()] or None


def why_no_headers(headers: Any) -> str:
    """Return what is wrong with a user's headers for a record; empty if they are valid.

    >>> why_no_headers((("id", b"1"), ("none", None))), why_no_headers((("id", 5),))
    ('', "headers are a tuple of pairs of a name and bytes, such as (('id', b'5'),); got (('id', 5),)")
    """
    if headers is None:
        return ""
    is_fine = isinstance(headers, tuple | list) and all(map(_is_header, headers))
    expected = "headers are a tuple of pairs of a name and bytes, such as (('id', b'5'),)"
    return "" if is_fine else f"{expected}; got {show(headers)}"


def _is_header(pair: Any) -> bool:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        return False
    name, value = pair
    return _is_text(name) and (value is None or isinstance(value, bytes | bytearray) or _is_text(value))


def _is_text(value: Any) -> bool:
    """Return whether a value is text that can be encoded: half a surrogate pair is no UTF-8."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def pairs_of(found: list[dict[str, Any]] | None) -> tuple[tuple[str, bytes], ...]:
    """Return a record's headers in the users' form."""
    return tuple((item["key"], item["value"]) for item in found or ())
