"""Change data in flat rows, as Maxwell writes it: ``type``, ``data`` and the names of database and table."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import msgspec
from msgspec import Raw

from penstock.errors import ConfigError
from penstock.messages import show
from penstock.serdes.formats.base import Format, Headers, Opened, Texts, field_of
from penstock.values.decoding import json_decoder

_ROWS = frozenset(("insert", "update", "bootstrap-insert"))
_DELETE = "delete"
_MARKS = frozenset(("bootstrap-start", "bootstrap-complete"))
"""Begin and end of a bootstrap; they are about no row."""
_NO_ROW = frozenset((b"", b"null", b"{}"))


def maxwell(row: Any, table: str | None = None, database: str | None = None, event_time: bool = False) -> Format:
    """The format of change data in flat rows, as Maxwell writes it, for ``format=`` of ``table`` and ``stream``.

    The value is the ``data`` of an insert, an update or a bootstrap; a deletion is null. Penstock leaves out
    ``bootstrap-start`` and ``bootstrap-complete``. For a change of a schema, or a value that is not such a row,
    ``on_error`` decides.

    From keys (``{"database": ..., "table": ..., "pk.id": 7}``), Penstock takes the primary key: with ``key=str``,
    ``int`` or ``float`` its only field, with a class or dict all fields. With ``key=bytes``, keys do not change.

    Args:
        row: the type of the rows: dict, a dataclass, a ``msgspec.Struct``, a schema.
        table: the table to read. Penstock leaves out changes of other tables. By default it reads all tables.
        database: the database, likewise.
        event_time: True takes the time of the change (``ts``, in seconds). By default, the record keeps its timestamp.

    Raises:
        ConfigError: an argument is wrong.

    >>> from penstock import StreamsBuilder
    >>> from penstock.testing import TopologyTestDriver
    >>> builder = StreamsBuilder()
    >>> builder.table("maxwell", key=int, format=maxwell(dict, table="orders")).to_stream().to("out")
    >>> driver = TopologyTestDriver(builder.build())
    >>> key = {"database": "shop", "table": "orders", "pk.id": 7}
    >>> change = {"database": "shop", "table": "orders", "type": "insert", "ts": 1, "data": {"id": 7, "cents": 250}}
    >>> driver.pipe_input("maxwell", key, change)
    >>> driver.pipe_input("maxwell", key, change | {"type": "delete"})
    >>> [(record.key, record.value) for record in driver.read_output("out")]
    [(7, {'id': 7, 'cents': 250}), (7, None)]
    """
    return Maxwell(row, _name("table", table), _name("database", database), event_time)


def _name(what: str, given: Any) -> str | None:
    if given is not None and (not isinstance(given, str) or not given):
        raise ConfigError(f"maxwell: {what}= is a name, such as {what}='orders'; got {show(given)}")
    return given


class _Row(msgspec.Struct):
    type: str | None = None
    table: str | None = None
    database: str | None = None
    data: Raw = Raw(b"")


_type, _table, _database, _data = map(attrgetter, ("type", "table", "database", "data"))


class Maxwell(Format):
    """See ``maxwell``."""

    has_keys = True
    hint = "format=maxwell reads flat rows with the fields type and data; leave it out for a topic of plain rows"

    def __init__(self, row: Any, table: str | None, database: str | None, event_time: Any):
        super().__init__("maxwell", row, event_time=event_time)
        self._table, self._database = table, database

    def all(self, texts: Texts) -> Opened | None:
        decode = json_decoder(_Row).decode
        found = list(map(decode, texts))  # type: ignore[arg-type]
        if not set(map(_type, found)) <= _ROWS | {_DELETE}:
            return None
        kept = None
        if not self._takes_all(found):
            kept = [number for number, one in enumerate(found) if self._takes(one)]
            found = [found[number] for number in kept]
        rows: Texts = [None if one.type == _DELETE else bytes(one.data) for one in found]
        return None if not _NO_ROW.isdisjoint(rows) else Opened(rows, kept)

    def _takes_all(self, found: list[_Row]) -> bool:
        tables, databases = {self._table}, {self._database}
        return (self._table is None or set(map(_table, found)) == tables) and (
            self._database is None or set(map(_database, found)) == databases
        )

    def _takes(self, row: _Row) -> bool:
        return self._table in (None, row.table) and self._database in (None, row.database)

    def one(self, text: bytes | None, headers: Headers) -> Texts:
        if text is None:
            return [None]
        row = self.opened(text, _Row)
        if row.type is None:
            raise self.wrong(f"the value has no field 'type', so it is no row; got {show(text, 80)}")
        if not self._takes(row) or row.type in _MARKS:
            return []
        if row.type == _DELETE:
            return [None]
        if row.type not in _ROWS:
            raise self.wrong(
                f"the row has type {row.type!r}, which is no change of a row: have Maxwell write changes of schemas "
                "into another topic (ddl_kafka_topic)"
            )
        if bytes(row.data) in _NO_ROW:
            raise self.wrong(f"the row has type {row.type!r}, but no 'data'; got {show(text, 80)}")
        return [bytes(row.data)]

    def key(self, text: bytes) -> bytes:
        fields = json_decoder(dict[str, Raw]).decode(text)
        found = {name.removeprefix(_PRIMARY): raw for name, raw in fields.items() if name.startswith(_PRIMARY)}
        return msgspec.json.encode(found) if found else text

    def row(self, value: Any, headers: Headers) -> Any:
        return field_of(value, "data")

    def time(self, value: Any, headers: Headers) -> Any:
        seconds = field_of(value, "ts")
        return seconds * 1000 if isinstance(seconds, int) else None


_PRIMARY = "pk."
