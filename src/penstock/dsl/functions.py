"""What functions of streams look like to editors: each may take the record's context as one more argument."""

from __future__ import annotations

from collections.abc import Callable

from penstock.dsl.graph import K, R, V
from penstock.processor import RecordContext

OfKeyValue = Callable[[K, V], R] | Callable[[K, V, RecordContext], R]
"""A function of (key, value), or of (key, value, context)."""
