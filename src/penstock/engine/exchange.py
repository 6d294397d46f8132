"""Records on their way from one sub-topology to the next, within one commit.

A task writes what it sends through a repartition topic into a file of Arrow record batches, each for one partition.
The tasks behind it read theirs from all files, in the order of time: see ``engine/merged.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc

from penstock.arrays import IntArray, nulls
from penstock.batch import HEADERS, Batch
from penstock.columns import Column
from penstock.errors import CorruptDataError
from penstock.log.base import Records
from penstock.storage import FileRef, Storage, writing
from penstock.untrusted import ArrowFile

EARLIEST = -(2**63)
"""A time before all others."""

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


class ExchangeRef(msgspec.Struct, frozen=True, array_like=True):
    """Some record batches of a file, all for one partition; the first ``skip`` records are done already."""

    partition: int
    file: FileRef
    batches: list[int]
    records: int
    skip: int = 0
    task: str = ""
    """The task that sent them."""
    clock: int = EARLIEST
    """How far that task had come in time when it sent the first of those that are left."""
    nbytes: int = 0
    """Of all records."""

    @property
    def left_bytes(self) -> int:
        """About how many bytes are left."""
        return self.nbytes * (self.records - self.skip) // max(self.records, 1)

    def __post_init__(self) -> None:
        if not 0 <= self.skip <= self.records:
            raise ValueError(f"{self.skip} of {self.records} records are done")


class ExchangeWriter:
    """Writes what one task sends through one repartition topic; the file is finished when the context ends well."""

    def __init__(self, storage: Storage, name: str, task: str = ""):
        self._storage = storage
        self._name = name
        self._task = task
        self._stack = ExitStack()
        self._writer: Any = None
        self._written: dict[int, list[_Written]] = {}
        self._batches = 0

    def __enter__(self) -> ExchangeWriter:
        file = self._stack.enter_context(self._storage.write(self._name))
        self._writer = self._stack.enter_context(ipc.new_file(file, _SCHEMA))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def write(self, partition: int, batch: Batch, clock: IntArray, old: Column | None) -> None:
        """Write records for one partition, in order.

        Args:
            clock: how far the task has come in time, for each record.
            old: the values before, in topics that carry changes of a table.
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
        written = pa.record_batch(columns, schema=_SCHEMA)
        with writing(f"{self._storage.shown}/{self._name}"):
            self._writer.write_batch(written)
        one = _Written(self._batches, count, written.nbytes, int(clock[0]))
        self._written.setdefault(partition, []).append(one)
        self._batches += 1

    def refs(self) -> list[ExchangeRef]:
        """What is in the finished file for each partition."""
        ref = self._storage.ref(self._name)
        return [
            ExchangeRef(
                partition,
                ref,
                [one.batch for one in written],
                sum(one.records for one in written),
                skip=0,
                task=self._task,
                clock=written[0].clock,
                nbytes=sum(one.nbytes for one in written),
            )
            for partition, written in sorted(self._written.items())
        ]


class _Written(msgspec.Struct, frozen=True):
    """A record batch of the file."""

    batch: int
    records: int
    nbytes: int
    clock: int


def read_exchange(storage: Storage, refs: list[ExchangeRef]) -> Iterator[Records]:
    """The records behind some references, in order, without offsets."""
    for ref in refs:
        where = f"{storage.shown}/{ref.file.name}"
        file = ArrowFile(storage.read_verified(ref.file), (_SCHEMA,), ("timestamp", "clock"), where)
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
    """What is left of some references of one task when that many records were taken.

    Args:
        clock: that of the first record that is left.
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
    key, value, old, timestamp, clock, headers = batch.columns
    return Records(
        0,
        key,
        value,
        np.asarray(timestamp.to_numpy()),
        None if headers.null_count == len(headers) else headers,
        True,
        clock=np.asarray(clock.to_numpy()),
        old=old,
    )
