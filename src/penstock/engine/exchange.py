"""Records on their way from one sub-topology to the next, within one commit.

A task writes what it sends through a repartition topic into a file of Arrow record batches, each for one partition.
The tasks behind it read theirs from all files, in the order of the writing tasks and, within one, of its processing.
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

from penstock.arrays import nulls
from penstock.batch import HEADERS, Batch
from penstock.columns import Column
from penstock.errors import CorruptDataError
from penstock.log.base import Records
from penstock.storage import FileRef, Storage, writing
from penstock.untrusted import ArrowFile

_SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("old", pa.binary()),
        ("timestamp", pa.int64()),
        ("position", pa.int64()),
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

    def __post_init__(self) -> None:
        if not 0 <= self.skip <= self.records:
            raise ValueError(f"{self.skip} of {self.records} records are done")


class ExchangeWriter:
    """Writes what one task sends through one repartition topic; the file is finished when the context ends well."""

    def __init__(self, storage: Storage, name: str):
        self._storage = storage
        self._name = name
        self._stack = ExitStack()
        self._writer: Any = None
        self._written: dict[int, list[tuple[int, int]]] = {}
        self._batches = 0

    def __enter__(self) -> ExchangeWriter:
        file = self._stack.enter_context(self._storage.write(self._name))
        self._writer = self._stack.enter_context(ipc.new_file(file, _SCHEMA))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def write(self, partition: int, batch: Batch, old: Column | None) -> None:
        """Write records for one partition, in order."""
        count = len(batch)
        columns = [
            batch.key.encoded(),
            batch.value.encoded(),
            nulls(count) if old is None else old.encoded(),
            pa.array(batch.timestamp),
            pa.array(batch.position),
            pa.nulls(count, HEADERS) if batch.headers is None else batch.headers,
        ]
        with writing(f"{self._storage.shown}/{self._name}"):
            self._writer.write_batch(pa.record_batch(columns, schema=_SCHEMA))
        self._written.setdefault(partition, []).append((self._batches, count))
        self._batches += 1

    def refs(self) -> list[ExchangeRef]:
        """What is in the finished file for each partition."""
        ref = self._storage.ref(self._name)
        return [
            ExchangeRef(partition, ref, [number for number, _ in batches], sum(count for _, count in batches))
            for partition, batches in sorted(self._written.items())
        ]


def read_exchange(storage: Storage, refs: list[ExchangeRef], start: int = 0) -> Iterator[Records]:
    """The records behind some references, in order, with offsets that go on from ``start``."""
    for ref in refs:
        where = f"{storage.shown}/{ref.file.name}"
        file = ArrowFile(storage.read_verified(ref.file), (_SCHEMA,), ("timestamp", "position"), where)
        start -= ref.skip
        end = start
        for number in ref.batches:
            batch = file.batch(number)
            begin, end = end, end + batch.num_rows
            skipped = max(start + ref.skip - begin, 0)
            if skipped < batch.num_rows:
                yield _records(batch, begin).slice(skipped, batch.num_rows)
        if end - start != ref.records:
            raise CorruptDataError(
                f"{where} has {end - start} records for partition {ref.partition} and not {ref.records} as the "
                "manifest says; restore both from a backup"
            )
        start = end


def left_over(refs: list[ExchangeRef], taken: int) -> list[ExchangeRef]:
    """What is left of some references when that many records were taken."""
    left = []
    for ref in refs:
        here = ref.records - ref.skip
        if taken < here:
            left.append(msgspec.structs.replace(ref, skip=ref.skip + taken))
        taken = max(taken - here, 0)
    return left


def _records(batch: Any, offset: int) -> Records:
    key, value, old, timestamp, position, headers = batch.columns
    return Records(
        offset,
        key,
        value,
        np.asarray(timestamp.to_numpy()),
        None if headers.null_count == len(headers) else headers,
        True,
        np.asarray(position.to_numpy()),
        old,
    )
