"""Record batches: a chunk of records in one task's processing order, as columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import BoolArray, IntArray, concat, is_all
from penstock.columns import Column, is_routed_alike
from penstock.messages import show

Order = tuple[IntArray | int, ...]
"""Where each record stands in the task's processing order: its position, then which branch and which of several
results it is. Columns compare from left to right; a plain int stands for a column of that one number."""

NO_RECORD = 2**62
"""The position of what no input record caused, such as time that went on without one: after those of all records."""


class Placement(NamedTuple):
    """All keys of a batch belong, by Kafka's partitioner, to this partition of so many."""

    partition: int
    partitions: int


OF_CAUSE = -2
"""The offset, in ``Batch.held``, of a record that comes from the very record that caused it."""


class Origins(NamedTuple):
    """Where some records came from, as columns: topic, partition and offset; null and -1 for what no record caused."""

    topic: Any
    """An Arrow array of text."""
    partition: IntArray
    offset: IntArray

    @classmethod
    def alike(cls, count: int, offset: int = -1) -> Origins:
        """So many places without a topic."""
        return cls(pa.nulls(count, pa.string()), np.full(count, -1), np.full(count, offset))

    def take(self, rows: IntArray) -> Origins:
        return Origins(self.topic.take(pa.array(rows)), self.partition[rows], self.offset[rows])

    def slice(self, start: int, stop: int) -> Origins:
        return Origins(self.topic[start:stop], self.partition[start:stop], self.offset[start:stop])

    def join(self, others: Iterable[Origins]) -> Origins:
        """These, then the others."""
        every = (self, *others)
        topic = concat([one.topic for one in every])
        return Origins(topic, *(np.concatenate(part) for part in zip(*(one[1:] for one in every), strict=True)))

    def where(self, mask: BoolArray, others: Origins) -> Origins:
        """These where the mask is true, the others elsewhere."""
        topic = pc.if_else(pa.array(mask), self.topic, others.topic)
        return Origins(topic, *(np.where(mask, *pair) for pair in zip(self[1:], others[1:], strict=True)))

    def topic_bytes(self) -> IntArray:
        """How long the topics' names are, 0 for none."""
        lengths: IntArray = pc.binary_length(self.topic).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        return lengths

    def rows(self) -> Iterator[tuple[Any, int, int]]:
        """Topic, partition and offset of each record."""
        return zip(self.topic.to_pylist(), self.partition.tolist(), self.offset.tolist(), strict=True)


@dataclass(frozen=True, slots=True)
class Batch:
    """Some records of a stream.

    ``position`` (the first column of ``order``) says which input record caused each one; it never decreases.
    ``headers`` is an Arrow array of lists of (key, value) structs, or None when no record has any. ``held`` says where
    each record came from where that is not the record that caused it, as behind a suppression, which sends on what came
    before (``ProcessorRecordContext``); others have the offset ``OF_CAUSE``, and it is None when there are only others.
    """

    key: Column
    value: Column
    timestamp: IntArray
    order: Order
    headers: Any = None
    placed: Placement | None = None
    held: Origins | None = field(default=None, kw_only=True)
    to_topic: Any = field(default=None, kw_only=True)
    """At a sink: the topic that was chosen for each record, an array of text."""
    to_partition: IntArray | None = field(default=None, kw_only=True)
    """At a sink: the partition that was chosen for each record, -1 where Kafka's partitioner is to choose."""

    def __len__(self) -> int:
        return len(self.timestamp)

    @property
    def position(self) -> IntArray:
        first = self.order[0]
        assert isinstance(first, np.ndarray)
        return first

    def take(self, rows: IntArray) -> Self:
        """The rows of these numbers, in their order."""
        if is_all(rows, len(self)):
            return self
        return replace(
            self,
            key=self.key.take(rows),
            value=self.value.take(rows),
            timestamp=self.timestamp[rows],
            order=take_order(self.order, rows),
            headers=None if self.headers is None else self.headers.take(pa.array(rows)),
            held=None if self.held is None else self.held.take(rows),
            to_topic=None if self.to_topic is None else self.to_topic[rows],
            to_partition=None if self.to_partition is None else self.to_partition[rows],
        )

    def keep(self, mask: BoolArray) -> Self:
        """The rows where the mask is true."""
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def drop_headers(self) -> Self:
        return replace(self, headers=None)

    def slice(self, start: int, stop: int) -> Self:
        """The rows from one on until before another, without a copy where that can be."""
        return replace(
            self,
            key=self.key.slice(start, stop),
            value=self.value.slice(start, stop),
            timestamp=self.timestamp[start:stop],
            order=tuple(column if isinstance(column, int) else column[start:stop] for column in self.order),
            headers=None if self.headers is None else self.headers[start:stop],
            held=None if self.held is None else self.held.slice(start, stop),
            to_topic=None if self.to_topic is None else self.to_topic[start:stop],
            to_partition=None if self.to_partition is None else self.to_partition[start:stop],
        )

    def with_key(self, key: Column) -> Self:
        """These records under other keys; they may belong to other partitions, unless the keys are those they had."""
        return replace(self, key=key, placed=self.placed if is_routed_alike(key, self.key) else None)

    def with_value(self, value: Column) -> Self:
        return replace(self, value=value)

    def as_changes(self, value: Column, timestamp: IntArray, old: Column | None) -> Changes:
        """These records as changes of a table."""
        parts = (self.key, value, timestamp, self.order, self.headers, self.placed, old)
        return Changes(*parts, held=self.held)

    def on_branch(self, branch: int) -> Self:
        """These records as they go down one of several branches."""
        return replace(self, order=(*self.order, branch))


@dataclass(frozen=True, slots=True)
class Changes(Batch):
    """Some updates of a table: ``value`` is the new value of the key, null when it was deleted.

    ``old`` is the value before, None when nobody downstream asks for it. ``latest`` says which updates are, by their
    timestamps, the latest of their keys; None when all are. Only versioned tables send others (KIP-914).
    """

    old: Column | None = None
    latest: BoolArray | None = None

    def take(self, rows: IntArray) -> Self:
        taken = super(Changes, self).take(rows)
        if taken is self or (self.old is None and self.latest is None):
            return taken
        old = None if self.old is None else self.old.take(rows)
        return replace(taken, old=old, latest=None if self.latest is None else self.latest[rows])

    def slice(self, start: int, stop: int) -> Self:
        part = super(Changes, self).slice(start, stop)
        old = None if self.old is None else self.old.slice(start, stop)
        return replace(part, old=old, latest=None if self.latest is None else self.latest[start:stop])

    def only_latest(self) -> Self:
        """Without the updates that came out of order: others are later by their timestamps."""
        return self if self.latest is None else replace(self.keep(self.latest), latest=None)

    def as_stream(self) -> Batch:
        """The new values as records of a stream."""
        parts = (self.key, self.value, self.timestamp, self.order, self.headers, self.placed)
        return Batch(*parts, held=self.held)


@dataclass(frozen=True, slots=True)
class Routed(Batch):
    """Records that go to all steps behind a processor, or to one of them alone."""

    to: IntArray = field(kw_only=True)
    """For each record the number of the step it goes to; -1 for all of them."""

    def take(self, rows: IntArray) -> Self:
        taken = super(Routed, self).take(rows)
        return taken if taken is self else replace(taken, to=self.to[rows])

    def slice(self, start: int, stop: int) -> Self:
        return replace(super(Routed, self).slice(start, stop), to=self.to[start:stop])

    def only_to(self, step: int) -> Batch:
        """What the step of a number gets."""
        mine = self.keep((self.to < 0) | (self.to == step))
        parts = (mine.key, mine.value, mine.timestamp, mine.order, mine.headers, mine.placed)
        return Batch(*parts, held=mine.held)


def take_order(order: Order, rows: IntArray) -> Order:
    return tuple(column if isinstance(column, int) else column[rows] for column in order)


AnyBatch = TypeVar("AnyBatch", bound=Batch)


def merge(batches: list[Batch]) -> Batch:
    """The records of several branches as one batch, in the order of depth-first, record-at-a-time processing."""
    batches = [batch for batch in batches if len(batch)]
    if len(batches) == 1:
        return batches[0]
    joined = join(batches)
    return joined.take(np.lexsort(order_columns(joined.order, len(joined), len(joined.order))[::-1]))


def order_columns(order: Order, count: int, depth: int) -> list[IntArray]:
    """An order of so many records as so many arrays."""
    columns = [np.full(count, c, np.int64) if isinstance(c, int) else c for c in order]
    return columns + [np.zeros(count, np.int64)] * (depth - len(columns))


def join(batches: list[AnyBatch]) -> AnyBatch:
    """The records of batches, one after the other."""
    first = next((batch for batch in batches if isinstance(batch, Routed)), batches[0])
    depth = max(len(batch.order) for batch in batches)
    columns = [order_columns(batch.order, len(batch), depth) for batch in batches]
    changes: dict[str, Any] = {
        "key": batches[0].key.join([batch.key for batch in batches[1:]]),
        "value": batches[0].value.join([batch.value for batch in batches[1:]]),
        "timestamp": np.concatenate([batch.timestamp for batch in batches]),
        "order": tuple(np.concatenate(parts) for parts in zip(*columns, strict=True)),
        "headers": merge_headers(batches),
        "placed": first.placed if all(batch.placed == first.placed for batch in batches) else None,
        "held": merge_held(batches),
    }
    if any(batch.to_topic is not None for batch in batches):
        changes["to_topic"] = np.concatenate([batch.to_topic for batch in batches])
    if any(batch.to_partition is not None for batch in batches):
        chosen = (np.full(len(b), -1) if b.to_partition is None else b.to_partition for b in batches)
        changes["to_partition"] = np.concatenate(list(chosen))
    if isinstance(first, Changes):
        if first.old is not None:
            changes["old"] = first.old.join([batch.old for batch in batches[1:]])  # type: ignore[attr-defined]
        changes["latest"] = _join_latest(batches)
    if isinstance(first, Routed):
        changes["to"] = np.concatenate([b.to if isinstance(b, Routed) else np.full(len(b), -1) for b in batches])
    return replace(first, **changes)


def _join_latest(batches: list[Any]) -> BoolArray | None:
    if all(batch.latest is None for batch in batches):
        return None
    return np.concatenate([np.ones(len(b), np.bool_) if b.latest is None else b.latest for b in batches])


HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def header_list(headers: Iterable[tuple[str, bytes | None]] | None) -> list[dict[str, Any]] | None:
    """A record's headers as Arrow takes them."""
    return [{"key": key, "value": value} for key, value in headers or ()] or None


def why_no_headers(headers: Any) -> str:
    """What is wrong with a record's headers as a user gave them; empty when nothing is.

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
    """Whether something is text that can be written: half a surrogate pair is no UTF-8."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def pairs_of(found: list[dict[str, Any]] | None) -> tuple[tuple[str, bytes], ...]:
    """A record's headers as users have them."""
    return tuple((item["key"], item["value"]) for item in found or ())


def merge_headers(batches: Sequence[Batch]) -> Any:
    """The headers of all records, one batch after the other; None when there are none."""
    if all(batch.headers is None for batch in batches):
        return None
    return concat([pa.nulls(len(b), HEADERS) if b.headers is None else b.headers for b in batches])


def merge_held(batches: Sequence[Batch]) -> Origins | None:
    """Where all records came from, one batch after the other, as in ``Batch``."""
    if all(batch.held is None for batch in batches):
        return None
    first, *others = [Origins.alike(len(one), OF_CAUSE) if one.held is None else one.held for one in batches]
    return first.join(others)
