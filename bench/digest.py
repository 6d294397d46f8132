"""What an output topic holds, in a few figures that another engine's output can be compared with."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from bench.measure import RunError
from penstock.log.file.log import FileLog

_EXPECTED = json.loads(Path(__file__).with_name("expected.json").read_text())

Pairs = tuple[Any, Any]
"""The keys and the values of a partition, as Arrow arrays."""


class Digest(NamedTuple):
    """The number of records and, where they are updates of a table, of what the table is in the end.

    Attributes:
        records: output records.
        result_keys: how many keys the table has: (key, window) pairs, or regions.
        result_sum: the sum of their last values: counts, or the sums of the regions.
    """

    records: int
    result_keys: int = 0
    result_sum: int = 0


def digest(result: tuple[str, ...], partitions: Iterable[Pairs]) -> Digest:
    """The digest of an output.

    Args:
        result: what is a result in it, as ``Workload.result`` says.
        partitions: its records.
    """
    found = Digest(0)
    for keys, values in partitions:
        last = _last_values(result, keys, values) if result and len(keys) else []
        found = Digest(found.records + len(keys), found.result_keys + len(last), found.result_sum + sum(last))
    return found


def check(name: str, records: int, found: Digest, is_every_update: bool) -> bool:
    """Compare the digest of a workload's output with what it has to be; whether that is known for so many records.

    Args:
        is_every_update: otherwise updates on the way may be left out.

    Raises:
        RunError: it is another one.
    """
    figures = _EXPECTED.get(name, {}).get(str(records))
    if figures is None:
        return False
    expected = Digest(**{"records": found.records, **figures})
    if found != (expected if is_every_update else expected._replace(records=found.records)):
        raise RunError(f"{name} over {records:,} records put out {found}, but expected is {expected}")
    return True


def content(log: FileLog, topic: str) -> Iterator[Pairs]:
    """The records of a topic, by partition."""
    for partition, end in enumerate(log.end_offsets(topic)):
        pieces = list(log.read(topic, partition, log.start_offsets(topic)[partition], end))
        yield _joined([piece.key for piece in pieces]), _joined([piece.value for piece in pieces])


def _last_values(result: tuple[str, ...], keys: Any, values: Any) -> list[int]:
    """The last value of each result key of a partition; none of those that were deleted."""
    *by, value = result
    lines = io.BytesIO(b"\n".join(values.to_pylist()))
    table = pyarrow.json.read_json(lines).select([*by, value]).append_column("key", pa.chunked_array([keys]))
    newest = pc.ScalarAggregateOptions(skip_nulls=False)
    last = table.group_by(["key", *by], use_threads=False).aggregate([(value, "last", newest)])
    numbers: list[int] = last[f"{value}_last"].drop_null().to_pylist()
    return numbers


def _joined(arrays: list[Any]) -> Any:
    return pa.concat_arrays(arrays) if arrays else pa.array([], pa.binary())
