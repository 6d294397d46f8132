"""``Serdes``: the formats of Kafka's own serdes, by their names."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from typing import Any

from penstock.errors import ConfigError, SerdeError
from penstock.messages import show
from penstock.serdes.base import Serde
from penstock.serdes.kafka_lists import ListSerde
from penstock.serdes.primitives import BYTES, FLOAT, INT, STR
from penstock.usage.java_names import KafkaNames


class _Packed(Serde):
    """A number of a fixed width."""

    gives_none = False
    immutable = True

    def __init__(self, name: str, kind: type, format: str):
        self.name = name
        self._kind, self._format = kind, struct.Struct(format)

    def encode(self, value: Any) -> bytes:
        if type(value) is not self._kind and not (self._kind is float and type(value) is int):
            raise self.refuse(value)
        try:
            return self._format.pack(value)
        except (OverflowError, struct.error):
            raise SerdeError(
                f"{show(value)} does not fit into {self._format.size} bytes; use a type for larger numbers, such as int"
            ) from None

    def decode(self, data: bytes) -> Any:
        if len(data) != self._format.size:
            size = self._format.size
            raise SerdeError(f"the serde {self.name!r} needs {size} bytes, got {len(data)}: {show(data, 80)}")
        return self._format.unpack(data)[0]

    def __reduce__(self) -> Any:
        return from_kafkas_name, (self.name,)


class _Boolean(Serde):
    name = "boolean"
    gives_none = False
    immutable = True

    def encode(self, value: Any) -> bytes:
        if type(value) is not bool:
            raise self.refuse(value)
        return b"\x01" if value else b"\x00"

    def decode(self, data: bytes) -> bool:
        if data not in (b"\x00", b"\x01"):
            raise SerdeError(f"the serde 'boolean' reads one byte, 0 or 1; got {show(data, 80)}")
        return data == b"\x01"


class _Uuid(Serde):
    name = "uuid"
    gives_none = False
    immutable = True

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, uuid.UUID):
            raise self.refuse(value)
        return str(value).encode()

    def decode(self, data: bytes) -> uuid.UUID:
        try:
            return uuid.UUID(data.decode())
        except ValueError:
            raise SerdeError(f"the serde 'uuid' reads a UUID as text; got {show(data, 80)}") from None


class _Void(Serde):
    name = "void"
    gives_none = False

    def encode(self, value: Any) -> bytes:
        raise SerdeError(f"the serde 'void' writes None alone; got {show(value)}")

    def decode(self, data: bytes) -> Any:
        raise SerdeError(f"the serde 'void' reads nulls alone; got {show(data, 80)}")


_INT32, _INT16, _FLOAT32 = _Packed("int32", int, ">i"), _Packed("int16", int, ">h"), _Packed("float32", float, ">f")
_BOOLEAN, _UUID, _VOID = _Boolean(), _Uuid(), _Void()
_BY_NAME: dict[str, Serde] = {one.name: one for one in (_INT32, _INT16, _FLOAT32, _BOOLEAN, _UUID, _VOID)}


def from_kafkas_name(name: str, other: Callable[[str], Serde] | None = None) -> Serde | None:
    """Return the serde of a name, None if it is none of these.

    Args:
        other: finds the serdes of a list's elements.

    >>> from_kafkas_name("int32"), from_kafkas_name("list[int16]", lambda name: _BY_NAME[name])
    (<serde int32>, <serde list[int16]>)
    """
    if other is not None and name.startswith("list[") and name.endswith("]"):
        return ListSerde(other(name[len("list[") : -1]))
    return _BY_NAME.get(name)


class Serdes(KafkaNames):
    """The formats of Kafka's own serdes, for topics that Java programs write or read.

    ``str``, ``int``, ``float`` and ``bytes`` are the formats of Kafka's String, Long, Double and ByteArray.

    >>> Serdes.integer().encode(7).hex(), Serdes.list_serde(Serdes.short()).encode([1, None]).hex()
    ('00000007', '000000000100000001000000020001')
    """

    @staticmethod
    def string() -> Serde:
        """Text, as ``str``."""
        return STR

    @staticmethod
    def long() -> Serde:
        """Whole numbers of 8 bytes, as ``int``."""
        return INT

    @staticmethod
    def integer() -> Serde:
        """Whole numbers of 4 bytes."""
        return _INT32

    @staticmethod
    def short() -> Serde:
        """Whole numbers of 2 bytes."""
        return _INT16

    @staticmethod
    def double() -> Serde:
        """Floats of 8 bytes, as ``float``."""
        return FLOAT

    @staticmethod
    def float() -> Serde:
        """Floats of 4 bytes: a value becomes the nearest of these, as in Java."""
        return _FLOAT32

    @staticmethod
    def boolean() -> Serde:
        """True and False, in one byte."""
        return _BOOLEAN

    @staticmethod
    def uuid() -> Serde:
        """``uuid.UUID``, as text."""
        return _UUID

    @staticmethod
    def void() -> Serde:
        """None alone, for topics without keys, or without values."""
        return _VOID

    @staticmethod
    def byte_array() -> Serde:
        """Bytes as they are, as ``bytes``."""
        return BYTES

    @staticmethod
    def bytes() -> Serde:
        """Bytes as they are; Kafka's ``Bytes`` and ``ByteBuffer`` are written like a ByteArray."""
        return BYTES

    byte_buffer = bytes

    @staticmethod
    def list_serde(inner: Any) -> Serde:
        """Lists of a type: ``Serdes.list_serde(Serdes.integer())``.

        Raises:
            ConfigError: the type of the elements is no serde of ``Serdes`` and no Serde of yours.
        """
        if not isinstance(inner, Serde):
            raise ConfigError(f"list_serde takes a serde, such as Serdes.integer(); got {show(inner)}")
        return ListSerde(inner)
