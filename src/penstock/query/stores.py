"""Reading state stores with Python values instead of bytes; a view for each kind of store."""

from __future__ import annotations

from penstock.query.commits import StoreShape
from penstock.query.headers import source_of
from penstock.query.key_value import BufferView, KeyValueView
from penstock.query.session import SessionView
from penstock.query.versioned import VersionedView
from penstock.query.versions import Source
from penstock.query.window import WindowView
from penstock.record import ValueAndTimestamp
from penstock.state.shapes import VersionedRecord

AnyView = KeyValueView | WindowView | SessionView | VersionedView | BufferView

_VIEWS: dict[str, type[AnyView]] = {
    "TimeOrderedBuffer": BufferView,
    "SessionStore": SessionView,
    "WindowStore": WindowView,
    "SlidingStore": WindowView,
    "JoinWindowStore": WindowView,
    "DuplicateWindowStore": WindowView,
    "VersionedStore": VersionedView,
}


def view_of(source: Source, shape: StoreShape) -> AnyView:
    """The view of a store of this shape."""
    return view_class_of(shape)(source_of(source, shape.format.headers, shape.format.kind), shape)


def view_class_of(shape: StoreShape) -> type[AnyView]:
    """The class of the view of a store of this shape."""
    return _VIEWS.get(shape.format.kind, KeyValueView)


__all__ = [
    "AnyView",
    "BufferView",
    "KeyValueView",
    "SessionView",
    "ValueAndTimestamp",
    "VersionedRecord",
    "VersionedView",
    "WindowView",
    "view_of",
]
