"""Which rows of two Arrow tables have the same key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa


def matching(old: Any, new: Any, keys: Sequence[str]) -> Any:
    """Return for each row of a table the row of another one that has the same key, or -1; null is like null.

    Args:
        new: the other table, which has each key once.

    >>> old = pa.table({"k": ["a", "b", None], "m": [1, 1, 2]})
    >>> matching(old, pa.table({"k": [None, "a", "a"], "m": [2, 1, 2]}), ["k", "m"]).tolist()
    [1, -1, 0]
    """
    same = np.zeros(len(old) + len(new), np.int64)
    for name in keys:
        column = pa.concat_arrays([*_chunks(old[name], new[name].type), *_chunks(new[name], new[name].type)])
        encoded = column.dictionary_encode("encode")
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        same = codes if name == keys[0] else _dense(same * len(encoded.dictionary) + codes)
    rows = np.full(int(same.max(initial=-1)) + 1, -1)
    rows[same[len(old) :]] = np.arange(len(new))
    return rows[same[: len(old)]]


def _dense(codes: Any) -> Any:
    """Return codes from 0 on, so that their products stay small."""
    return np.unique(codes, return_inverse=True)[1].reshape(-1)


def _chunks(column: Any, type_: Any) -> list[Any]:
    return column.cast(type_).chunks or [pa.array([], type_)]
