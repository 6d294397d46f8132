"""Formats whose schemas are text, given by the program or taken from the registry."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from penstock.errors import ConfigError, PenstockError, SerdeError
from penstock.messages import show
from penstock.serdes.registry.place import SchemaRegistry
from penstock.serdes.registry.serde import RegistrySerde


class Own(NamedTuple):
    """The schema that a program uses."""

    meaning: Any
    """The parsed form of its text."""
    id: int | None
    """None if the program gave the schema itself."""


class TextSchemaSerde(RegistrySerde):
    """Values with a schema that the program gives, or with a version of a subject.

    Args:
        kind: the name of the format.
        schema_type: the registry's name of the format.
        schema: the schema to write and read with; None for that of the registry.
        version: the version of the subject; None for the latest one at the first request, which stays in use.
    """

    def __init__(
        self,
        kind: str,
        schema_type: str,
        subject: str,
        registry: SchemaRegistry | str | None,
        register: bool,
        schema: object,
        version: int | None,
    ):
        super().__init__(kind, subject, registry, register)
        if schema is not None and version is not None:
            raise ConfigError(f"{kind}: give schema or version, not both")
        self._schema_type = schema_type
        self._version = version
        self._text = None if schema is None else _text_of(schema, f"{kind}(schema)")
        self._own: Own | None = None
        if self._text is not None:
            self.understood(self._text, [], ConfigError)

    @abstractmethod
    def understood(self, text: str, references: Any, kind: type[PenstockError]) -> Any:
        """Parse a schema's text.

        Args:
            references: the registry's schemas that it refers to.
            kind: the error to raise if it is no schema of this format.
        """

    def prepare(self, writes: bool) -> None:
        self.own()
        super().prepare(writes)

    def own(self) -> Own:
        """The schema to write and to read with."""
        if self._own is None:
            if self._text is not None:
                self._own = Own(self.understood(self._text, [], ConfigError), None)
            else:
                found = self.client.version(self.subject, self._version)
                self._check_type(found.schema, f"subject {self.subject!r}", ConfigError)
                meaning = self.understood(found.schema.schema_str, found.schema.references, ConfigError)
                self._own, self._version = Own(meaning, found.schema_id), found.version
        return self._own

    def own_id(self) -> int:
        """The id of that schema, which is registered if it is not yet."""
        own = self.own()
        if own.id is not None:
            return own.id
        from confluent_kafka.schema_registry import Schema

        schema = Schema(self._text, self._schema_type)
        return (self.client.registered if self._register else self.client.found)(self.subject, schema)

    def written(self, number: int) -> Any:
        """The registered schema with an id; raises ``SerdeError`` if it is of another format."""
        schema = self.client.by_id(number)
        self._check_type(schema, f"schema {number}", SerdeError)
        return schema

    def _check_type(self, schema: Any, what: str, kind: type[PenstockError]) -> None:
        found = schema.schema_type or "AVRO"  # registries leave out this type
        if found != self._schema_type:
            raise kind(f"{self.name}: {what} is of type {found}, not {self._schema_type}")

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_own": None}


def _text_of(schema: object, what: str) -> str:
    if isinstance(schema, Path):
        try:
            return schema.read_text()
        except OSError as error:
            raise ConfigError(
                f"{what}: cannot read {schema}: {error.strerror or error}; give a path, or the schema as text"
            ) from None
    if isinstance(schema, dict | list):
        return msgspec.json.encode(schema).decode()
    if isinstance(schema, str):
        return schema
    raise ConfigError(f"{what}: give the schema as text, a Path, or a dict; got {show(schema)}")
