"""Chooses the record view of a store."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

from penstock.errors import StoreError
from penstock.serdes import Serde
from penstock.state.kinds.duplicates import DuplicateWindowStore
from penstock.state.kinds.key_value import KeyValueStore
from penstock.state.kinds.lru import LruStore
from penstock.state.kinds.own.direct import DirectStore
from penstock.state.kinds.session import SessionStore
from penstock.state.kinds.sliding import SlidingStore
from penstock.state.kinds.versioned.store import VersionedStore
from penstock.state.kinds.window import WindowStore
from penstock.state.records.direct import DirectView
from penstock.state.records.headers import held_aggregates, held_values
from penstock.state.records.held import TimestampedValues, plain_type
from penstock.state.records.key_value import KeyValueRecords, PlainKeyValueRecords, PlainTimestampedRecords
from penstock.state.records.lru import LruRecords
from penstock.state.records.session import SessionRecords
from penstock.state.records.transaction import ReadOnlyRecords, transaction_of
from penstock.state.records.versioned import VersionedRecords
from penstock.state.records.view import RecordView
from penstock.state.records.window import DuplicateWindowRecords, PlainWindowRecords, WindowRecords
from penstock.state.store import StateStore
from penstock.values.window_ends import WindowEnds

_VIEWED = KeyValueStore | DuplicateWindowStore | WindowStore | SlidingStore | SessionStore | VersionedStore
"""The kinds of stores that processors can use."""


def has_record_view(store: StateStore) -> bool:
    """True if processors can read and write a store: not the store of a stream join or a deduplication."""
    return isinstance(store, _VIEWED) and not isinstance(store, DirectStore)


def record_view(
    store: StateStore,
    key: Serde,
    value: Serde,
    timestamped: bool = True,
    window_size: int | WindowEnds = 0,
    headers: bool | None = None,
) -> RecordView[Any]:
    """Return a store as processors read and write it, closed until its first chunk begins.

    Args:
        store: the store.
        key: the type of the keys.
        value: the type of the values.
        timestamped: True if values have timestamps, like those of tables.
        window_size: the length of a window store's windows, in milliseconds, or the rule by which they end.
        headers: True if values have headers, False if they show none, as those of tables; None without headers.
    """
    if isinstance(store, DirectStore):
        return cast("RecordView[Any]", DirectView(store))
    view = _view(store, key, value, timestamped, window_size, headers)
    view.begin_transaction = partial(transaction_of, view)
    view.read_only = partial(ReadOnlyRecords, view)
    return view


def _view(
    store: StateStore,
    key: Serde,
    value: Serde,
    timestamped: bool,
    window_size: int | WindowEnds,
    headers: bool | None,
) -> RecordView[Any]:
    values = held_values(value, timestamped, headers)
    if isinstance(store, LruStore):
        return LruRecords(store, key, values)
    if isinstance(store, KeyValueStore):
        if plain_type(key) in (str, int, bytes) and plain_type(value) is not None:
            if isinstance(values, TimestampedValues):
                return PlainTimestampedRecords(store, key, values)
            if values.plain is None:
                return KeyValueRecords(store, key, values)
            return PlainKeyValueRecords(store, key, values)
        return KeyValueRecords(store, key, values)
    if isinstance(store, DuplicateWindowStore):
        return DuplicateWindowRecords(store, key, values, window_size)
    if isinstance(store, WindowStore | SlidingStore):
        if plain_type(key) in (str, int, bytes) and values.plain is not None:
            return PlainWindowRecords(store, key, values, window_size)
        return WindowRecords(store, key, values, window_size)
    if isinstance(store, SessionStore):
        return SessionRecords(store, key, held_aggregates(value, headers))
    if isinstance(store, VersionedStore):
        return VersionedRecords(store, key, held_values(value, timestamped=False, headers=None))
    raise StoreError(f"the store {store.name!r} cannot be read and written by processors")
