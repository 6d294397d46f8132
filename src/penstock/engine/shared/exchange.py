"""Exchange files: records on their way from one sub-topology to the next, within one commit.

A task writes the records it sends through a repartition topic into one file. A small file is an Arrow file with record
batches for all partitions. In a larger one each partition has its own parts, concatenated Arrow files, so that no task
reads records of others. The reading tasks merge their parts of all files by time: see ``engine/task/merged.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc

from penstock.arrays import IntArray, nulls
from penstock.columns.batch import HEADERS, Batch
from penstock.columns.column import Column
from penstock.errors import CorruptDataError
from penstock.files.untrusted import ArrowFile
from penstock.log.records import Records
from penstock.storage.base import FileRef, Storage, checksum, writing

LATEST = 2**63 - 1
"""A time after all others."""

EARLIEST = -(2**63)
"""A time before all others."""

_TOGETHER_BYTES = 256 << 10
"""Up to this size every reader reads the whole file, because reading parts costs more."""

_HELD_BYTES = 16 << 20
"""Most bytes that wait in memory to be written in parts."""

_ALIGNED = 64
"""Parts begin at multiples of it, like Arrow's own buffers."""

_SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("old", pa.binary()),
        ("timestamp", pa.int64()),
        ("clock", pa.int64()),
        ("headers", HEADERS),
    ]
)

_WITH_CAUSES = _SCHEMA.append(pa.field("cause", pa.int64()))
"""The same schema with causes."""


class ExchangeRef(msgspec.Struct, frozen=True, array_like=True):
    """Record batches of a file, all for one partition. The first ``skip`` records are processed already."""

    partition: int
    file: FileRef
    """The whole file, or its part that begins at ``at``."""
    batches: list[int]
    records: int
    skip: int = 0
    task: str = ""
    """The task that sent them."""
    clock: int = EARLIEST
    """The sending task's clock when it sent the first of the remaining records."""
    nbytes: int = 0
    """Size of all records."""
    at: int = -1
    """Where its part of the file begins; -1 for the whole file."""

    @property
    def left_bytes(self) -> int:
        """Approximate size of the remaining records."""
        return self.nbytes * (self.records - self.skip) // max(self.records, 1)

    def __post_init__(self) -> None:
        if not 0 <= self.skip <= self.records:
            raise ValueError(f"{self.skip} of {self.records} records are done")


class ExchangeWriter:
    """Writes the records that one task sends through one repartition topic. Leaving the context finishes the file."""

    def __init__(self, storage: Storage, name: str, task: str = ""):
        self._storage = storage
        self._name = name
        self._task = task
        self._stack = ExitStack()
        self._file: Any = None
        """The file, once parts are written."""
        self._position = 0
        self._held: dict[int, list[_Held]] = {}
        """Record batches that are not written yet, by partition."""
        self._held_bytes = 0
        self._refs: list[ExchangeRef] = []

    def __enter__(self) -> ExchangeWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._stack.__exit__(kind, error, trace)
            return
        with self._stack:
            if self._file is None and self._held_bytes <= _TOGETHER_BYTES:
                if self._held:
                    self._write_together()
            else:
                self._write_parts()

    def write(
        self, partition: int, batch: Batch, clock: IntArray, old: Column | None, cause: IntArray | None = None
    ) -> None:
        """Write records for one partition, in order.

        Args:
            clock: the task's clock at each record.
            old: the previous values, in topics that carry changes of a table.
            cause: the input record that caused each one, for all records of a topic or for none.
        """
        count = len(batch)
        columns = [
            batch.key.encoded(),
            batch.value.encoded(),
            nulls(count) if old is None else old.encoded(),
            pa.array(batch.timestamp),
            pa.array(clock),
            pa.nulls(count, HEADERS) if batch.headers is None else batch.headers,
        ]
        schema = _SCHEMA if cause is None else _WITH_CAUSES
        columns += [] if cause is None else [pa.array(cause)]
        records = pa.record_batch(columns, schema=schema)
        one = _Held(records, records.nbytes, int(clock[0]))
        self._held.setdefault(partition, []).append(one)
        self._held_bytes += one.nbytes
        if self._held_bytes > _HELD_BYTES:
            self._write_parts()

    def refs(self) -> list[ExchangeRef]:
        """Return the references to the finished file, by partition."""
        return self._refs

    def _write_together(self) -> None:
        held = sorted(self._held.items())
        file = self._storage.put(self._name, _arrow_file([one for _, some in held for one in some]))
        first = 0
        for partition, some in held:
            self._refs.append(self._ref(partition, file, some, first))
            first += len(some)

    def _write_parts(self) -> None:
        if self._file is None:
            self._file = self._stack.enter_context(self._storage.write(self._name, is_asked_for=False))
        for partition, some in sorted(self._held.items()):
            part = _arrow_file(some)
            padding = -self._position % _ALIGNED
            with writing(f"{self._storage.shown}/{self._name}"):
                self._file.write(bytes(padding))
                self._file.write(part)
            file = FileRef(self._name, len(part), checksum(part))
            self._refs.append(self._ref(partition, file, some, at=self._position + padding))
            self._position += padding + len(part)
        self._held, self._held_bytes = {}, 0

    def _ref(self, partition: int, file: FileRef, held: list[_Held], first: int = 0, at: int = -1) -> ExchangeRef:
        return ExchangeRef(
            partition,
            file,
            list(range(first, first + len(held))),
            sum(one.records.num_rows for one in held),
            skip=0,
            task=self._task,
            clock=held[0].clock,
            nbytes=sum(one.nbytes for one in held),
            at=at,
        )


class _Held(NamedTuple):
    """A record batch waiting to be written."""

    records: Any
    nbytes: int
    clock: int


def _arrow_file(held: list[_Held]) -> Any:
    """Return record batches as an Arrow file, in memory."""
    sink = pa.BufferOutputStream()
    with ipc.new_file(sink, held[0].records.schema) as writer:
        for one in held:
            writer.write_batch(one.records)
    return sink.getvalue()


def read_exchange(storage: Storage, refs: list[ExchangeRef]) -> Iterator[Records]:
    """Yield the records of some references, in order, without offsets."""
    for ref in refs:
        where = f"{storage.shown}/{ref.file.name}"
        file = ArrowFile(
            storage.read_verified(ref.file, ref.at), (_SCHEMA, _WITH_CAUSES), ("timestamp", "clock"), where
        )
        end = 0
        for number in ref.batches:
            batch = file.batch(number)
            begin, end = end, end + batch.num_rows
            skipped = max(ref.skip - begin, 0)
            if skipped < batch.num_rows:
                yield _records(batch).slice(skipped, batch.num_rows)
        if end != ref.records:
            raise CorruptDataError(
                f"{where} has {end} records for partition {ref.partition} and not {ref.records} as the "
                "manifest says; restore both from a backup"
            )


def left_over(refs: list[ExchangeRef], taken: int, clock: int) -> list[ExchangeRef]:
    """Return what remains of one task's references after so many records were taken.

    Args:
        clock: the clock of the first remaining record.
    """
    left: list[ExchangeRef] = []
    for ref in refs:
        here = ref.records - ref.skip
        if taken < here:
            clock = ref.clock if left else clock
            left.append(msgspec.structs.replace(ref, skip=ref.skip + taken, clock=clock))
        taken = max(taken - here, 0)
    return left


def _records(batch: Any) -> Records:
    key, value, old, timestamp, clock, headers, *cause = batch.columns
    return Records(
        0,
        key,
        value,
        np.asarray(timestamp.to_numpy()),
        None if headers.null_count == len(headers) else headers,
        True,
        clock=np.asarray(clock.to_numpy()),
        old=old,
        cause=np.asarray(cause[0].to_numpy()) if cause else None,
    )
