"""Writes the batches of one partition as Parquet files."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import xxhash

from penstock.errors import SinkError
from penstock.faults import crash_point
from penstock.sinks.batch import SinkBatch
from penstock.sinks.parquet.dates import by_date
from penstock.sinks.parquet.manifests import Manifest, Manifests, ParquetFile, Plan
from penstock.sinks.protocol import SinkPartition, SinkWriter
from penstock.storage.base import Storage

_PIECE = 65_536
"""How many records are decoded at once."""

_LONGEST_NAME = 150
"""How much of a program's name is in a file's name: no file system takes more than 255 characters."""

_OTHER = "another process has written into the sink meanwhile"


class ParquetWriter(SinkWriter):
    """Plans each batch, writes its files, and makes it count by a manifest.

    Args:
        date: the column that rows are split by, or None.
        shown: the sink's name, for messages.
    """

    def __init__(self, storage: Storage, date: str | None, shown: str, partition: SinkPartition):
        self._storage = storage
        self._date = date
        self._shown = shown
        self._partition = partition
        self._manifests = Manifests(storage, partition)
        self._last, self._plan = self._manifests.found()

    def committed(self) -> int:
        for note in (self._last, self._plan):
            if note is not None:
                self._partition.check_topic(note.topic, f"Empty the folder of {self._shown}")
        return 0 if self._last is None else self._last.number

    def planned(self) -> int | None:
        return None if self._plan is None else self._plan.number

    def write(self, batch: SinkBatch, commit: int) -> None:
        table = pa.Table.from_batches([piece.arrow() for piece in batch.pieces(_PIECE)]).unify_dictionaries()
        tables = self._by_path(table, batch.before)
        self._begin(batch.before, commit, sorted(tables))
        files = [self._write_file(path, part) for path, part in tables.items()]
        crash_point("in-sink")
        manifest = Manifest(self._partition.topic_id, batch.before, commit, files)
        if not self._manifests.commit(manifest):
            raise OSError(_OTHER)
        self._plan = None
        self._manifests.settle(batch.before, manifest)
        self._manifests.merge()

    def _by_path(self, table: Any, before: int) -> dict[str, Any]:
        """Return the rows of each file of a batch; the files' names follow from the partition and the number before."""
        one, date = self._partition, self._date
        own = xxhash.xxh3_64_hexdigest(f"{one.id}/{one.topic_id}".encode())[:8]
        program = f"{one.application_id}-{one.name}"[:_LONGEST_NAME]
        name = f"{program}-{one.number}-{before:016d}-{own}.parquet"
        if date is None:
            return {name: table}
        return {f"date={day}/{name}": rows for day, rows in by_date(table, date)}

    def _begin(self, before: int, number: int, paths: list[str]) -> None:
        """Fix where the batch ends, unless that is fixed; raise an error if another process has fixed it otherwise."""
        if not self._manifests.begin(Plan(self._partition.topic_id, before, number, paths)):
            plan = self._manifests.plan_behind(before)
            if plan is not None and plan.number != number:
                self._refuse(plan)
        if self._manifests.has_passed(before):
            raise OSError(_OTHER)
        crash_point("in-sink")

    def _refuse(self, plan: Plan) -> None:
        if plan == self._plan:  # it was said to be planned, and its records did not come
            raise SinkError(
                f"a batch of {plan.number - plan.before:,} records was begun and not finished, and its records are "
                f"gone. Look at its files ({', '.join(plan.paths)}), remove {self._manifests.plan_name(plan.before)}, "
                "and start again"
            )
        raise OSError(_OTHER)

    def _write_file(self, path: str, table: Any) -> ParquetFile:
        import pyarrow.parquet as pq

        with pa.BufferOutputStream() as buffer:
            pq.write_table(table, buffer, compression="zstd")
            data = buffer.getvalue()
        self._storage.replace(path, data)
        return ParquetFile(path, len(table), len(data))
