"""Change data as Debezium writes it: ``before``, ``after`` and ``op``, with their schema or without."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from penstock.errors import ConfigError
from penstock.messages import show
from penstock.serdes.base import Serde
from penstock.serdes.formats.base import Format, Headers, Opened, Texts, field_of, flag
from penstock.serdes.json import JsonSerde
from penstock.values.decoding import json_decoder

T = TypeVar("T")

_ROWS = frozenset("cru")
"""The operations after which there is a row: create, read by a snapshot, update."""
_DELETE = "d"
_NOTHING = Raw(b"")
_MISSING = frozenset((b"", b"null"))
_UNKNOWN, _UNKNOWN_BYTES = b'"__debezium_unavailable_value"', b'"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="'
"""Stands for a large value of PostgreSQL or Oracle that an update did not change: as text, and as bytes."""
_OTHERS = {
    "t": "a truncate of the whole table, which says nothing of single keys: set skipped.operations=t in the connector, "
    "as it is by default, and begin with an empty table after a truncate",
    "m": "a message of the database's log, not a change of a row: write such messages into a topic of their own",
}


class Change(msgspec.Struct, Generic[T], frozen=True):
    """One change of a row in a database: a value of ``debezium(Order, changes=True)``.

    >>> Change(op="c", after={"id": 1})
    Change(op='c', before=None, after={'id': 1}, ts_ms=None)
    """

    op: str
    """``c`` for a new row, ``u`` for an update, ``d`` for a deletion, ``r`` for a row that a snapshot read."""
    before: T | None = None
    """The row before, as far as the database tells it."""
    after: T | None = None
    """The row after the change; None after a deletion."""
    ts_ms: int | None = None
    """When the connector saw the change, in milliseconds since 1970."""


def debezium(
    row: Any,
    envelope: Serde | None = None,
    keys: Serde | None = None,
    event_time: bool = False,
    changes: bool = False,
) -> Format:
    """The format of change data that Debezium writes, for ``format=`` of ``table`` and ``stream``.

    The value is the row after an insert, an update or a snapshot; a deletion and its tombstone are null. For a
    truncate, a row with Debezium's placeholder for an unknown value, or a value that is not such an envelope,
    ``on_error`` decides. Envelopes and keys may include their schemas (``schemas.enable``) or not.

    Penstock also takes keys out of their envelopes. With ``key=str``, ``int`` or ``float``, the key is the only field
    of the primary key; with a class or dict, it has all fields. With ``key=bytes``, keys do not change.

    Args:
        row: the type of the rows: dict, a dataclass, a ``msgspec.Struct``, a schema.
        envelope: the serde of the values if they are not JSON: ``Avro("shop.orders-value")``.
        keys: the serde of the keys if they are not JSON: ``Avro("shop.orders-key")``.
        event_time: True takes the time at which the database made the change (``source.ts_ms``). By default, the record
            keeps its timestamp.
        changes: with True, values are :class:`Change` objects with the operation and the row before and after it, for a
            stream. Penstock then leaves out tombstones.

    Raises:
        ConfigError: an argument is wrong.

    >>> from penstock import StreamsBuilder
    >>> from penstock.testing import TopologyTestDriver
    >>> builder = StreamsBuilder()
    >>> orders = builder.table("orders", key=int, format=debezium(dict))
    >>> orders.to_stream().to("out")
    >>> driver = TopologyTestDriver(builder.build())
    >>> driver.pipe_input("orders", {"id": 7}, {"op": "c", "before": None, "after": {"id": 7, "cents": 250}})
    >>> driver.pipe_input("orders", {"id": 7}, {"op": "d", "before": {"id": 7, "cents": 250}, "after": None})
    >>> [(record.key, record.value) for record in driver.read_output("out")]
    [(7, {'id': 7, 'cents': 250}), (7, None)]
    """
    made = _Changes if flag("debezium", "changes", changes) else Debezium
    return made(row, envelope, keys, event_time)


class _Payload(msgspec.Struct):
    op: str | None = None
    before: Raw = _NOTHING
    after: Raw = _NOTHING


class _Envelope(_Payload):
    payload: _Payload | UnsetType | None = UNSET


class _Wrapped(msgspec.Struct):
    """Any envelope with a schema."""

    schema: Raw | UnsetType = UNSET
    payload: Raw = _NOTHING


_op, _after, _payload = attrgetter("op"), attrgetter("after"), attrgetter("payload")


class Debezium(Format):
    """See ``debezium``."""

    has_keys = True
    hint = "format=debezium reads changes with the fields op, before and after; leave it out for a topic of plain rows"

    def __init__(self, row: Any, envelope: Any, keys: Any, event_time: Any):
        super().__init__("debezium", row, envelope, event_time, keys)

    def all(self, texts: Texts) -> Opened | None:
        decode = json_decoder(_Envelope).decode
        if None in texts:
            found: list[Any] = [_TOMBSTONE if text is None else decode(text) for text in texts]
        else:
            found = list(map(decode, texts))  # type: ignore[arg-type]
        with_schema = set(map(type, map(_payload, found))) - {UnsetType}
        if with_schema:
            found = [_payload_of(one) for one in found]
        ops = list(map(_op, found))
        rows: Texts = list(map(bytes, map(_after, found)))
        different = set(ops) - _ROWS
        if different:
            if not different <= {_DELETE}:
                return None
            rows = [None if op == _DELETE else row for op, row in zip(ops, rows, strict=True)]
        if not _MISSING.isdisjoint(rows) or any(map(_lacks_values, rows)):
            return None
        return Opened(rows)

    def one(self, text: bytes | None, headers: Headers) -> Texts:
        change = None if text is None else self.change(text)
        return [None if change is None or change.op == _DELETE else bytes(change.after)]

    def change(self, text: bytes) -> _Payload | None:
        """The change in one envelope, None for a tombstone; an error if it is none of a row."""
        opened: _Payload = _payload_of(self.opened(text, _Envelope))
        if opened is _TOMBSTONE:
            return None
        if opened.op is None:
            raise self.wrong(f"the value has no field 'op', so it is no change; got {show(text, 80)}")
        if opened.op in _OTHERS:
            raise self.wrong(f"the change has op {opened.op!r}, {_OTHERS[opened.op]}")
        if opened.op not in _ROWS | {_DELETE}:
            raise self.wrong(f"the change has the unknown op {opened.op!r}; expected c, u, d or r")
        if opened.op in _ROWS and bytes(opened.after) in _MISSING:
            raise self.wrong(f"the change has op {opened.op!r}, but no row in 'after'; got {show(text, 80)}")
        if opened.op in _ROWS and _lacks_values(bytes(opened.after)):
            raise self.wrong(
                "the row in 'after' has Debezium's placeholder for a large value that an update did not change, so "
                f"its value is not known: {_placeholders(bytes(opened.after))}. Have the database tell whole rows: "
                "ALTER TABLE ... REPLICA IDENTITY FULL"
            )
        return opened

    def key(self, text: bytes) -> bytes:
        wrapped = json_decoder(_Wrapped).decode(text)
        return text if wrapped.schema is UNSET or not bytes(wrapped.payload) else bytes(wrapped.payload)

    def row(self, value: Any, headers: Headers) -> Any:
        change = _plain(value)
        return field_of(change, "after") or field_of(change, "before")

    def time(self, value: Any, headers: Headers) -> Any:
        change = _plain(value)
        found = field_of(change, "source", "ts_ms")
        return field_of(change, "ts_ms") if found is None else found


def _lacks_values(text: bytes | None) -> bool:
    """Return whether JSON has a placeholder in place of a value that Debezium does not know."""
    return text is not None and (_UNKNOWN in text or _UNKNOWN_BYTES in text)


def _placeholders(row: bytes) -> str:
    """Return the names of the fields with placeholders, as users read them."""
    fields = json_decoder(dict[str, Raw]).decode(row)
    return ", ".join(repr(name) for name, value in fields.items() if _lacks_values(bytes(value)))


_TOMBSTONE = _Payload(_DELETE)
"""Stands for a null."""


def _payload_of(envelope: Any) -> Any:
    """The change in an envelope, without its schema."""
    found = getattr(envelope, "payload", UNSET)
    return envelope if found is UNSET else _TOMBSTONE if found is None else found


def _plain(value: Any) -> Any:
    """The change in a decoded envelope, without its schema."""
    return value["payload"] if isinstance(value, dict) and "payload" in value else value


class _Changes(Debezium):
    """Gives the changes themselves."""

    only_streams = True

    def __init__(self, row: Any, envelope: Any, keys: Any, event_time: Any):
        super().__init__(row, envelope, keys, event_time)
        if type(self.value) is not JsonSerde:
            raise ConfigError(f"debezium(..., changes=True) takes a class of rows, or dict; got {show(row)}")
        of_row: Any = self.value.type
        self.value = JsonSerde(Change[of_row], unknown_fields="ignore")

    def all(self, texts: Texts) -> Opened | None:
        kept = None if None not in texts else [row for row, text in enumerate(texts) if text is not None]
        present = texts if kept is None else [texts[row] for row in kept]
        decode = json_decoder(_Envelope).decode
        found: list[Any] = list(map(decode, present))  # type: ignore[arg-type]
        has_schema = set(map(type, map(_payload, found))) != {UnsetType}
        if has_schema or not set(map(_op, found)) <= _ROWS | {_DELETE} or any(map(_lacks_values, present)):
            return None
        return Opened(present, kept)

    def one(self, text: bytes | None, headers: Headers) -> Texts:
        if text is None or self.change(text) is None:
            return []
        payload = bytes(json_decoder(_Wrapped).decode(text).payload)
        return [payload or text]
