"""Avro, with its schemas in a registry."""

from __future__ import annotations

import datetime
import decimal
import uuid
from io import BytesIO
from typing import Any

import msgspec

from penstock.errors import PenstockError, SerdeError
from penstock.messages import describe
from penstock.serdes.registry.client import needed
from penstock.serdes.registry.place import SchemaRegistry
from penstock.serdes.registry.serde import HEAD_SIZE, Read, Write, head_of
from penstock.serdes.registry.text import TextSchemaSerde
from penstock.values.decoding import converted

_PLAIN = (dict, Any)
_BUILTIN = (bytes, datetime.datetime, datetime.date, datetime.time, decimal.Decimal, uuid.UUID)
"""The Python types of Avro's logical types."""


class Avro(TextSchemaSerde):
    """Avro records with their schemas in a schema registry, as Confluent's serdes write them.

    Penstock converts all records to one schema (Avro's schema resolution): ``schema``, or ``version`` of the subject,
    or the version that is the latest at the start of the program. Added fields get their defaults.

    Needs ``pip install 'penstock-streams[avro]'``.

    Args:
        subject: the subject of the schemas in the registry, usually ``"<topic>-value"``.
        registry: its URL, or a :class:`SchemaRegistry`; by default the setting ``schema_registry``.
        schema: the schema for writing and reading: text, a ``Path`` of a file, or a dict.
        version: the version of the subject to take instead.
        type: the type of values: dicts, or a dataclass or ``msgspec.Struct`` with the fields of the schema.
        register: whether the start of the program registers a new schema. With False, an unknown schema is an error.

    Raises:
        ConfigError: an argument is wrong, or a library is missing.

    >>> Avro("orders-value", registry="http://localhost:8081")
    <serde avro[orders-value]>
    """

    def __init__(
        self,
        subject: str,
        registry: SchemaRegistry | str | None = None,
        schema: object = None,
        version: int | None = None,
        type: Any = dict,
        register: bool = True,
    ):
        needed("Avro", "avro", "fastavro")
        super().__init__("Avro", "AVRO", subject, registry, register, schema, version)
        self.type = type

    @property
    def gives_none(self) -> bool:
        schema = self.own().meaning
        kinds = schema if isinstance(schema, list) else [schema]
        return any("null" in (kind, kind["type"] if isinstance(kind, dict) else kind) for kind in kinds)

    def reader(self, number: int) -> Read:
        from fastavro import schemaless_reader

        schema = self.written(number)
        written = self.understood(schema.schema_str, schema.references, SerdeError)
        own, kind = self.own().meaning, self.type
        if kind in _PLAIN:
            return lambda data: schemaless_reader(BytesIO(data[HEAD_SIZE:]), written, own)
        return lambda data: converted(
            schemaless_reader(BytesIO(data[HEAD_SIZE:]), written, own), kind, builtin_types=_BUILTIN
        )

    def writer(self) -> Write:
        from fastavro import schemaless_writer

        head, schema, is_plain = head_of(self.own_id()), self.own().meaning, self.type in _PLAIN

        def write(value: Any) -> bytes:
            stream = BytesIO()
            stream.write(head)
            plain = value if is_plain else msgspec.to_builtins(value, builtin_types=_BUILTIN)
            schemaless_writer(stream, schema, plain, strict_allow_default=True)
            return stream.getvalue()

        return write

    def understood(self, text: str, references: Any, kind: type[PenstockError]) -> Any:
        from fastavro import parse_schema

        named: dict[str, Any] = {}
        self._add(references, named)
        try:
            return parse_schema(_loaded(text), named_schemas=named)
        except Exception as error:  # an invalid schema fails in many ways
            raise kind(f"{self.name}: it is no Avro schema: {describe(error)}") from None

    def _add(self, references: Any, named: dict[str, Any]) -> None:
        """Add the schemas that a schema refers to."""
        from fastavro import parse_schema

        for one in references or ():
            schema = self.client.version(one.subject, one.version).schema
            self._add(schema.references, named)
            parse_schema(_loaded(schema.schema_str), named_schemas=named)


def _loaded(text: str) -> Any:
    """Parse a schema's text; it may be just the name of a type."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        if text.strip().isidentifier():
            return text.strip()
        raise
