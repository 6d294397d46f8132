"""What an output topic holds, in a few figures that another engine's output can be compared with."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.json
import xxhash

from penstock.log.file.log import FileLog

# by workload: what a result key is besides the record's key, and what is summed up
_LAST = {"W1": (["w"], "n"), "W9": (["w"], "n"), "W7": ([], "sum")}


class Digest(NamedTuple):
    """The number of records and, for workloads that put out a table's updates, of the last values of its keys.

    Attributes:
        records: output records.
        result_keys: how many keys the table has in the end: (key, window) pairs, or regions.
        result_sum: the sum of their last values: counts, or the sums of the regions.
    """

    records: int
    result_keys: int = 0
    result_sum: int = 0

    def final(self) -> Digest:
        """The part that does not depend on which updates were put out on the way."""
        return self._replace(records=0)


def digest(workload: str, partitions: Iterable[tuple[Any, Any]]) -> Digest:
    """The digest of an output.

    Args:
        workload: which workload put it out.
        partitions: for each partition the keys and the values of its records, as Arrow arrays.
    """
    records = result_keys = result_sum = 0
    for keys, values in partitions:
        records += len(keys)
        if workload in _LAST and len(keys):
            last = _last_values(workload, keys, values)
            result_keys += len(last)
            result_sum += sum(last.to_pylist())
    return Digest(records, result_keys, result_sum)


def _last_values(workload: str, keys: Any, values: Any) -> Any:
    """The last value of each result key of a partition."""
    by, value = _LAST[workload]
    lines = io.BytesIO(b"\n".join(values.to_pylist()))
    table = pyarrow.json.read_json(lines).select([*by, value]).append_column("key", pa.chunked_array([keys]))
    return table.group_by(["key", *by], use_threads=False).aggregate([(value, "last")])[f"{value}_last"]


def output(log: FileLog, topic: str) -> Iterator[tuple[Any, Any]]:
    """For each partition of a topic the keys and the values of its records."""
    for partition, end in enumerate(log.end_offsets(topic)):
        pieces = list(log.read(topic, partition, log.start_offsets(topic)[partition], end))
        yield _joined([piece.key for piece in pieces]), _joined([piece.value for piece in pieces])


def content(log: FileLog, topic: str) -> list[str]:
    """A hash for each partition over all its records in their order, however they lie in files."""
    hashes = []
    for partition, end in enumerate(log.end_offsets(topic)):
        columns = [xxhash.xxh3_128() for _ in range(5)]
        for records in log.read(topic, partition, 0, end):
            for at, array in ((0, records.key), (2, records.value)):
                columns[at].update(b"".join(array.to_pylist()))
                columns[at + 1].update(pa.compute.binary_length(array).to_numpy(zero_copy_only=False))
            columns[4].update(records.timestamp.astype("<i8"))
        hashes.append("-".join(column.hexdigest()[:8] for column in columns))
    return hashes


def _joined(arrays: list[Any]) -> Any:
    return pa.concat_arrays(arrays) if arrays else pa.array([], pa.binary())
