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
    codes = np.zeros((len(old) + len(new), len(keys)), np.int64)
    for at, name in enumerate(keys):
        column = pa.concat_arrays([*_chunks(old[name], new[name].type), *_chunks(new[name], new[name].type)])
        codes[:, at] = column.dictionary_encode("encode").indices.to_numpy(zero_copy_only=False)
    _, same = np.unique(codes, axis=0, return_inverse=True)
    same = same.reshape(-1)
    rows = np.full(int(same.max(initial=-1)) + 1, -1)
    rows[same[len(old) :]] = np.arange(len(new))
    return rows[same[: len(old)]]


def _chunks(column: Any, type_: Any) -> list[Any]:
    return column.cast(type_).chunks or [pa.array([], type_)]
