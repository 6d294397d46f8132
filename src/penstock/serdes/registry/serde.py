"""The common part of registry formats: a zero, the schema's id in four bytes, then the value."""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from penstock.arrays import Binary, binary
from penstock.errors import ConfigError, RegistryError, SerdeError
from penstock.messages import describe, show
from penstock.serdes.base import Serde
from penstock.serdes.registry.client import RegistryClient, client_of
from penstock.serdes.registry.place import SchemaRegistry
from penstock.settings import Settings

_HEAD = struct.Struct(">bI")
HEAD_SIZE = _HEAD.size

Read = Callable[[bytes], Any]
Write = Callable[[Any], bytes]


class RegistrySerde(Serde):
    """Values whose schemas are in a registry.

    Args:
        kind: the name of the format.
        subject: the subject of the schemas.
        registry: the registry; None for that of the settings.
        register: True to register an unknown schema at the first write.
    """

    def __init__(self, kind: str, subject: str, registry: SchemaRegistry | str | None, register: bool):
        if not isinstance(subject, str) or not subject:
            raise ConfigError(f"{kind}(subject): name the registry's subject, such as 'orders-value'; got {subject!r}")
        self.subject = subject
        self.name = f"{kind.lower()}[{subject}]"
        self.registry = SchemaRegistry(registry) if isinstance(registry, str) else registry
        self._register = register
        self._readers = _Readers(self)
        self._write: Write | None = None

    # --- what a format says --------------------------------------------------------------------------------------

    @abstractmethod
    def reader(self, number: int) -> Read:
        """Return a function that reads values, from all of their bytes, that were written with a schema id.

        Raises:
            SerdeError: the registry has no such schema, or it is of another format.
        """

    @abstractmethod
    def writer(self) -> Write:
        """Return a function that writes values, including everything before them.

        Raises:
            ConfigError: the schema is missing, or the registry refuses it.
        """

    # --- the registry --------------------------------------------------------------------------------------------

    @property
    def client(self) -> RegistryClient:
        """The client of its registry.

        Raises:
            ConfigError: no registry is named.
        """
        if self.registry is not None:
            return client_of(self.registry)
        named = Settings.load().schema_registry
        if named is None:
            raise ConfigError(
                f"{self.name}: no schema registry is named; say registry='http://host:8081', set "
                "schema_registry in penstock.toml, or the variable PENSTOCK_SCHEMA_REGISTRY"
            )
        return client_of(SchemaRegistry(named))

    def within(self, registry: SchemaRegistry) -> RegistrySerde:
        """This serde with a registry, unless it names one itself."""
        if self.registry is not None:
            return self
        bound = type(self).__new__(type(self))
        bound.__setstate__(self.__getstate__() | {"registry": registry})
        return bound

    def prepare(self, writes: bool) -> None:
        if writes:
            self._writer()
        else:
            self.client  # noqa: B018 - finds out whether there is one

    # --- values --------------------------------------------------------------------------------------------------

    def _writer(self) -> Write:
        if self._write is None:
            self._write = self.writer()
        return self._write

    def encode(self, value: Any) -> bytes:
        write = self._writer()
        try:
            return write(value)
        except Exception as error:
            raise SerdeError(f"{show(value)} does not fit the schema of {self.name}: {describe(error)}") from None

    def decode(self, data: bytes) -> Any:
        read = self._readers[data[:HEAD_SIZE]]
        try:
            return read(data)
        except Exception as error:
            raise SerdeError(f"the serde {self.name!r} cannot read {show(data, 80)}: {describe(error)}") from None

    def encode_all(self, values: list[Any]) -> Binary:
        write = self._writer()
        try:
            return binary([None if value is None else write(value) for value in values])
        except Exception:  # encoding each value by itself finds the one that fails
            return super().encode_all(values)

    def decode_all(self, data: Binary) -> list[Any]:
        readers = self._readers
        try:
            return [None if item is None else readers[item[:HEAD_SIZE]](item) for item in data.to_pylist()]
        except RegistryError:
            raise
        except Exception:
            return super().decode_all(data)

    # --- itself --------------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_readers": None, "_write": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._readers = _Readers(self)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__getstate__() == other.__getstate__()

    def __hash__(self) -> int:
        return hash((type(self), self.name))


class _Readers(dict[bytes, Read]):
    """The readers of values, by the values' first bytes."""

    def __init__(self, serde: RegistrySerde):
        self._serde = serde

    def __missing__(self, head: bytes) -> Read:
        if len(head) < HEAD_SIZE or head[0]:
            raise SerdeError(
                f"the serde {self._serde.name!r} reads a zero, the id of a schema in 4 bytes, and then the value; got "
                f"{show(head, 80)}: it was not written with a schema registry"
            )
        self[head] = found = self._serde.reader(_HEAD.unpack(head)[1])
        return found


def head_of(number: int) -> bytes:
    """The bytes before a value that is written with a schema.

    >>> head_of(7)
    b'\\x00\\x00\\x00\\x00\\x07'
    """
    return _HEAD.pack(0, number)
