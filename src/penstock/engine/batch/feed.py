"""The rows of one Spark partition as a task's input: Spark has sorted them, and they are read in that order.

So no topic waits for others, and only one chunk of rows is in memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import IntArray
from penstock.columns.batch import HEADERS
from penstock.engine.shared.exchange import EARLIEST
from penstock.engine.task.reader import Chunk, Reader
from penstock.errors import ConfigError
from penstock.log.records import Records, offsets_from
from penstock.log.tables import Chosen

BINARY, LONG = pa.binary(), pa.int64()


@dataclass(frozen=True)
class RowsOf:
    """The format in which rows of one topic reach a task.

    Attributes:
        number: distinguishes its rows from those of the task's other topics, in the column ``input``. At equal clocks
            the lower number goes first.
        is_global: whether every task gets all of them, before all others.
        chosen: which columns of a DataFrame are keys and values; None for rows that are records already.
        schema: the DataFrame's columns that are used, as Arrow types.
        timestamp: the DataFrame's column with the times, for messages.
        placed: whether each key is in the partition that Kafka's partitioner gives it.
        is_alone: whether the task reads no other rows. Then each column of the DataFrame is a column of the rows, which
            Spark passes on for less than a struct of them.
    """

    topic: str
    number: int
    is_global: bool = False
    chosen: Chosen | None = None
    schema: Any = None
    timestamp: str | None = None
    placed: bool = False
    is_alone: bool = False

    @property
    def column(self) -> str:
        """The column that has the rows of the DataFrame as structs."""
        return f"row{self.number}"

    @property
    def columns(self) -> list[str]:
        """The columns that have the rows of the DataFrame."""
        return [f"{self.column}_{place}" for place in range(len(self.schema))] if self.is_alone else [self.column]

    def records(self, batch: Any, offset: int) -> Records:
        """Return rows as records.

        Raises:
            ConfigError: a row has no time.
            SerdeError: a key or a value cannot be encoded.
        """
        if self.chosen is None:
            columns = {name: batch.column(name) for name in batch.schema.names}
            headers = columns["headers"].cast(HEADERS)
            return Records(
                offset,
                columns["key"].cast(BINARY),
                columns["value"].cast(BINARY),
                _longs(columns["timestamp"]),
                None if headers.null_count == len(headers) else headers,
                self.placed,
                old=columns["old"].cast(BINARY) if "old" in columns else None,
                cause=_causes(batch),
            )
        times = batch.column("timestamp")
        self._check(times)
        if self.is_alone:
            rows = pa.record_batch([batch.column(name) for name in self.columns], self.schema.names)
        else:
            rows = pa.RecordBatch.from_struct_array(batch.column(self.column))
        rows = rows.cast(self.schema)
        records, offsets = self.chosen.encode(rows), offsets_from(offset, len(rows))
        placed = self.placed and not records.key.null_count
        return records.with_columns(offsets=offsets, timestamp=_longs(times), cause=_causes(batch), placed=placed)

    def _check(self, times: Any) -> None:
        where = f"run_batch: topic {self.topic!r}: column {self.timestamp!r} holds"
        if times.null_count:
            raise ConfigError(f"{where} no time in some row (null). Fill it (coalesce), or leave such rows out")
        lowest = pc.min(times).as_py()
        if lowest < 0:
            raise ConfigError(f"{where} {lowest}; a timestamp is not before 1970. Correct it, or leave such rows out")


class Taken(NamedTuple):
    """Records of one topic, and their places among all records taken with them."""

    of: RowsOf
    records: Records
    places: IntArray
    partition: IntArray | None
    """The task's partition of each record, if rows of several tasks come together."""


class Feed:
    """Returns the rows of one Spark partition, in chunks.

    Args:
        batches: the rows, in processing order.
        inputs: the topics that they belong to.
        records: how many rows a chunk has at most.
        nbytes: approximate limit of a chunk's bytes.
        starts: the offset of the first row of each topic, where it is not 0.
    """

    def __init__(
        self,
        batches: Iterator[Any],
        inputs: Sequence[RowsOf],
        records: int,
        nbytes: int,
        starts: Mapping[str, int] = MappingProxyType({}),
    ):
        self._batches = batches
        self._inputs = {one.number: one for one in inputs}
        self._records, self._nbytes = records, nbytes
        self._waiting: deque[Any] = deque()
        self._offsets = {one.number: starts.get(one.topic, 0) if one.chosen is None else 0 for one in inputs}
        self._highest = EARLIEST
        self.taken = 0
        """How many records readers have taken so far, of these and of global tables."""

    @property
    def is_done(self) -> bool:
        """Whether all rows were returned."""
        while not self._waiting:
            batch = next(self._batches, None)
            if batch is None:
                return True
            if batch.num_rows:
                self._waiting.append(batch)
        return False

    @property
    def offsets(self) -> dict[str, int]:
        """The offset of the next row of each topic without a DataFrame."""
        return {one.topic: self._offsets[number] for number, one in self._inputs.items() if one.chosen is None}

    def take(self) -> tuple[list[Taken], IntArray]:
        """Return the next rows, topic by topic, and the clocks of all of them; empty after the last one."""
        batch = self._chunk()
        if batch is None:
            return [], np.zeros(0, np.int64)
        clock = _longs(batch.column("clock" if "clock" in batch.schema.names else "timestamp").fill_null(EARLIEST))
        if "partition" not in batch.schema.names:
            clock = np.maximum.accumulate(np.maximum(clock, self._highest))
            self._highest = int(clock[-1])
        return list(self._by_topic(batch, clock)), clock

    def _chunk(self) -> Any:
        some: list[Any] = []
        rows = nbytes = 0
        while rows < self._records and nbytes < self._nbytes and not self.is_done:
            batch = self._waiting.popleft()
            left = self._records - rows
            if batch.num_rows > left:
                self._waiting.appendleft(batch.slice(left))
                batch = batch.slice(0, left)
            some.append(batch)
            rows, nbytes = rows + batch.num_rows, nbytes + batch.nbytes
        if len(some) < 2:
            return some[0] if some else None
        return pa.concat_batches(some)

    def _by_topic(self, batch: Any, clock: IntArray) -> Iterator[Taken]:
        if len(self._inputs) == 1:
            yield self._taken(next(iter(self._inputs.values())), batch, clock, np.arange(len(clock)))
            return
        which = _longs(batch.column("input").cast(LONG))
        for number, one in self._inputs.items():
            places = np.flatnonzero(which == number)
            if len(places):
                yield self._taken(one, batch.take(pa.array(places)), clock[places], places)

    def _taken(self, one: RowsOf, batch: Any, clock: IntArray, places: IntArray) -> Taken:
        records = one.records(batch, self._offsets[one.number]).with_columns(clock=clock)
        self._offsets[one.number] += len(places)
        partition = _longs(batch.column("partition").cast(LONG)) if "partition" in batch.schema.names else None
        return Taken(one, records, places, partition)


class RowReader(Reader):
    """Reads a task's feed, after all global tables that the task reads from the log itself."""

    feed: Feed

    def __init__(self, *given: Any, **limits: Any):
        super().__init__(*given, **limits)
        self._position = self._first = self.feed.taken  # records held back between commits keep their positions

    def clocks(self, positions: IntArray) -> IntArray:
        """Return the clocks of the records at some positions. Earlier commits' records have the clock reached by
        then.
        """
        found = np.full(len(positions), self.clock)
        last = self._clocks[-1] if self._clocks else np.zeros(0, np.int64)
        before = self._position - len(last)
        if len(positions) and positions.min() < before:
            last, before = np.concatenate(self._clocks), self._first
        is_old, is_record = positions < before, positions < self._position
        found[is_record & ~is_old] = last[positions[is_record & ~is_old] - before]
        found[is_old] = self._begun_at
        clocks: IntArray = np.maximum(found, self._begun_at)
        return clocks

    def next_chunk(self) -> Chunk | None:
        self._active = [one for one in self.inputs if one.goes_first]
        chunk = super().next_chunk()
        return self._chunk_of_rows() if chunk is None else chunk

    def _chunk_of_rows(self) -> Chunk | None:
        taken, clock = self.feed.take()
        if not taken:
            return None
        self._mark(self._position)
        (positions,) = self._places(clock)
        chunk = Chunk()
        for of, records, places, _ in taken:
            one = next(one for one in self.inputs if (one.topic, one.goes_first) == (of.topic, of.is_global))
            one.taken += len(records)
            one.taken_bytes += records.nbytes
            self._add(chunk, one, [records], (positions[places],))
        self._position += len(clock)
        self.feed.taken = self._position
        return chunk

    @property
    def is_at_end(self) -> bool:
        """Whether all rows were taken."""
        return self.feed.is_done


def _causes(batch: Any) -> IntArray | None:
    """Return the causes of rows, if they have them: either all rows of a topic do, or none."""
    if "cause" not in batch.schema.names or (column := batch.column("cause")).null_count:
        return None
    return _longs(column)


def _longs(column: Any) -> IntArray:
    found: IntArray = column.to_numpy(zero_copy_only=False)
    return found
