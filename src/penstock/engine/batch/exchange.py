"""The exchange in front of a stage: each row goes to the Spark partition with the number of its task.

Spark does that with ``repartitionById``, which Spark 4.0 does not have. Apache DataFusion Comet knows only exchanges by
hash. There, the rows are exchanged by the hash of a number that leads to the partition of their task.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from pyspark.sql import functions as f

from penstock.arrays import IntArray

_SEED = 42


def moved(frame: Any, tasks: int, column: str = "partition") -> Any:
    """Return rows with a column of whole numbers, each in the Spark partition of this number."""
    if hasattr(type(frame), "repartitionById") and not has_comet(frame.sparkSession):
        return frame.repartitionById(tasks, column)
    if tasks == 1:
        return frame.repartition(1)
    return frame.repartition(tasks, f.element_at(f.lit(numbers(tasks)), f.col(column) + 1))


def has_comet(session: Any) -> bool:
    """Return whether Comet runs the exchanges of a session."""
    conf = session.conf
    is_on = all(conf.get(name, "true") == "true" for name in ("spark.comet.enabled", "spark.comet.shuffle.enabled"))
    return is_on and str(conf.get("spark.shuffle.manager", "")).endswith(".CometShuffleManager")


@cache
def numbers(tasks: int, count: int | None = None) -> list[int]:
    """Return for each partition a number that Spark's hash partitioning sends there.

    Args:
        count: how many numbers to try first.
    """
    count = 8 * tasks if count is None else count
    places, first = np.unique(_hash(np.arange(count)).view(np.int32) % tasks, return_index=True)
    return [int(number) for number in first] if len(places) == tasks else numbers(tasks, 2 * count)


def _hash(numbers: IntArray) -> Any:
    """Return the hash of 32-bit integers that ``pyspark.sql.functions.hash`` computes (Murmur3)."""
    mixed = _rotated(numbers.astype(np.uint32) * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    found = _rotated(mixed ^ np.uint32(_SEED), 13) * np.uint32(5) + np.uint32(0xE6546B64)
    found ^= np.uint32(4)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        found = (found ^ (found >> np.uint32(shift))) * np.uint32(factor)
    return found ^ (found >> np.uint32(16))


def _rotated(words: Any, bits: int) -> Any:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))
