"""The types of user functions for editors: each may take the record's context as an extra argument."""

from __future__ import annotations

from collections.abc import Callable

from penstock.dsl.graph import K, R, V
from penstock.processor import RecordContext

KEY_VALUE = ("key", "value")
VALUE = ("value",)
"""The parameters of functions."""

OfKeyValue = Callable[[K, V], R] | Callable[[K, V, RecordContext], R]
"""A function of (key, value), or of (key, value, context)."""
Reducer = Callable[[V, V], V] | Callable[[V, V, RecordContext], V]
"""A function of (aggregate, value), or of (aggregate, value, context)."""
Aggregator = Callable[[K, V, R], R] | Callable[[K, V, R, RecordContext], R]
"""A function of (key, value, aggregate), or of (key, value, aggregate, context)."""
Merger = Callable[[K, R, R], R] | Callable[[K, R, R, RecordContext], R]
"""A function of (key, one aggregate, other aggregate), or of these and the context."""
