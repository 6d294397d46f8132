"""Protobuf messages, with their schemas in a registry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.errors import ConfigError, SerdeError
from penstock.messages import show
from penstock.serdes.registry.client import needed
from penstock.serdes.registry.place import SchemaRegistry
from penstock.serdes.registry.serde import HEAD_SIZE, Read, RegistrySerde, Write


class Protobuf(RegistrySerde):
    """Messages of a Protobuf class with their schemas in a schema registry, as Confluent's serdes write them.

    Messages of another version of the schema are matched by the numbers of their fields, as in Protobuf.

    Needs ``pip install 'penstock-streams[protobuf]'``.

    Args:
        message: the class that ``protoc`` has generated, such as ``orders_pb2.Order``.
        subject: the subject of the schemas in the registry, usually ``"<topic>-value"``.
        registry: its URL, or a :class:`SchemaRegistry`; by default the setting ``schema_registry``.
        register: whether the start of the program registers a new schema. With False, an unknown schema is an error.

    Raises:
        ConfigError: an argument is wrong, or a library is missing.

    >>> from google.protobuf.wrappers_pb2 import StringValue
    >>> Protobuf(StringValue, "words-value", registry="http://localhost:8081")
    <serde protobuf[words-value]>
    """

    def __init__(
        self,
        message: Any,
        subject: str,
        registry: SchemaRegistry | str | None = None,
        register: bool = True,
    ):
        needed("Protobuf", "protobuf", "google.protobuf", "confluent_kafka.schema_registry.protobuf")
        super().__init__("Protobuf", subject, registry, register)
        if not hasattr(message, "DESCRIPTOR") or not hasattr(message, "FromString"):
            raise ConfigError(f"Protobuf(message): give the class that protoc generated; got {show(message)}")
        self.message = message

    @property
    def gives_none(self) -> bool:
        return False

    def reader(self, number: int) -> Read:
        schema = self.client.by_id(number)
        if schema.schema_type != "PROTOBUF":
            raise SerdeError(
                f"schema {number} is of type {schema.schema_type or 'AVRO'}, not PROTOBUF; use the serde of that type"
            )
        parse: Callable[[bytes], Any] = self.message.FromString
        return lambda data: parse(data[_begin(data) :])

    def writer(self) -> Write:
        """Learn from one message the bytes that Confluent's serializer writes before each message; this registers the
        schema."""
        from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
        from confluent_kafka.serialization import MessageField, SerializationContext

        kind, subject = self.message, self.subject
        options = {"auto.register.schemas": self._register, "subject.name.strategy": lambda context, name: subject}
        serializer = ProtobufSerializer(kind, self.client.confluent, options)
        empty = kind()
        context = SerializationContext(subject, MessageField.VALUE)
        whole = self.client.registering(lambda: serializer(empty, context), subject)
        head = whole[: len(whole) - len(empty.SerializeToString())]

        def write(value: Any) -> bytes:
            if type(value) is not kind:
                raise self.refuse(value)
            return head + value.SerializeToString()  # type: ignore[no-any-return]

        return write


def _begin(data: bytes) -> int:
    """The start of the message, after the numbers that identify it within its file.

    >>> _begin(bytes(5) + b"\\x00message"), _begin(bytes(5) + b"\\x04\\x02\\x06message")
    (6, 8)
    """
    count, at = _number(data, HEAD_SIZE)
    for _ in range(count):
        _, at = _number(data, at)
    return at


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number of variable length, and its end."""
    bits = shift = 0
    for place in range(at, min(at + 10, len(data))):
        bits |= (data[place] & 0x7F) << shift
        shift += 7
        if data[place] < 0x80:
            return (bits >> 1) ^ -(bits & 1), place + 1
    raise SerdeError("it ends within the numbers that say which message it is")
