"""Delta files: the changes of one task's stores in one commit. Together they are the changelog."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.ipc as ipc

from penstock.files.untrusted import ArrowFile
from penstock.state.columns.rows import Keys, Values
from penstock.state.transactional import ChangeSet

_AT_ONCE = 65_536  # rows: their compressed or decompressed form is in memory as well
_OPTIONS = ipc.IpcWriteOptions(compression="lz4", use_threads=False)
"""Arrow's threads cost a commit of few rows several times what they write, and slots share the cores anyway."""
_SCHEMA = pa.schema([("key", pa.binary()), ("time", pa.int64()), ("value", pa.binary()), ("timestamp", pa.int64())])


def write_delta(file: Any, changes: Iterable[tuple[str, ChangeSet]]) -> None:
    """Write the change sets of several stores; a null value deletes."""
    with ipc.new_file(file, _SCHEMA, options=_OPTIONS) as writer:
        for store, (keys, values) in changes:
            times = pa.nulls(len(keys), pa.int64()) if keys.times is None else pa.array(keys.times)
            columns = [keys.data, times, values.data, pa.array(values.timestamps)]
            rows = pa.record_batch(columns, schema=_SCHEMA)
            for first in range(0, len(keys), _AT_ONCE):
                writer.write_batch(rows.slice(first, _AT_ONCE), custom_metadata={"store": store})


def read_delta(data: Any, where: str) -> Iterator[tuple[str, ChangeSet]]:
    """Yield the change sets of a delta file, in pieces; ``where`` names the file in errors."""
    file = ArrowFile(data, (_SCHEMA,), ("key", "timestamp"), where)
    for i in range(len(file)):
        batch, metadata = file.batch_and_metadata(i)
        key, time, value, timestamp = batch.columns
        times = None if time.null_count else time.to_numpy()
        yield (
            (metadata or {}).get(b"store", b"").decode(),
            ChangeSet(Keys(key, times), Values(value, timestamp.to_numpy())),
        )
