"""The base of all serdes: values to bytes and back, one value or a whole column at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from penstock.arrays import EMPTY_INTS, Binary, IntArray, binary
from penstock.errors import SerdeError
from penstock.messages import show
from penstock.usage.calls import close


class Serde(ABC):
    """Turns values into bytes and back; None stays None and is never passed in.

    As in Kafka Streams, ``decode`` decides what is null: a record whose bytes decode to None has a null key or value.
    If ``encode`` returns None, it writes a null, which deletes the key's row in a table and in a compacted topic.

    Subclass it and define ``encode`` and ``decode`` to bring a format of your own:

    >>> class Rot13(Serde):
    ...     name = "rot13"
    ...     def encode(self, value):
    ...         import codecs
    ...         return codecs.encode(value, "rot13").encode()
    ...     def decode(self, data):
    ...         import codecs
    ...         return codecs.decode(data.decode(), "rot13")
    >>> Rot13().encode("abc"), Rot13().decode(b"nop")
    (b'nop', 'abc')
    """

    name: str
    """The name of the type in plans, topics and messages."""

    plain: type | None = None
    """The type of all decoded values, if these are immutable and come back from bytes unchanged."""

    @property
    def gives_none(self) -> bool:
        """Whether ``decode`` may return None. Penstock then decodes every record of a topic where it is read, even if
        no function uses it. Set ``gives_none = False`` in a class whose ``decode`` never returns None."""
        return self.plain is None

    @property
    def leaves_out(self) -> bool:
        """Whether ``decode`` may leave out a part of a value without a word; ``left_out`` tells which."""
        return False

    def left_out(self, data: bytes) -> list[str]:
        """Return the names of the fields that ``decode`` leaves out of one value."""
        return []

    @property
    def exact(self) -> type | None:
        """The type whose values, and no others, are immutable and come back from bytes unchanged."""
        return self.plain if self.plain in (str, bytes) else None

    @property
    def immutable(self) -> bool:
        """Whether decoded values are immutable, so that a value that comes back is the one that went in."""
        return self.plain is not None

    def prepare(self, writes: bool) -> None:  # noqa: B027 - most need nothing
        """Check before a program starts whether the serde can be used; for serdes that need something from outside.

        Args:
            writes: True if it writes values, False if it only reads them.

        Raises:
            ConfigError: it cannot be used.
            RegistryError: a schema registry cannot be reached.
        """

    @abstractmethod
    def encode(self, value: Any) -> bytes | None:
        """The bytes of one value, None for a null; raises ``SerdeError`` if the value does not fit."""

    @abstractmethod
    def decode(self, data: bytes) -> Any:
        """The value of some bytes, None for a null; raises ``SerdeError`` if they do not decode."""

    def null_rows(self, data: Binary) -> IntArray:
        """The rows of a column whose bytes are a null, as far as this is visible without decoding them."""
        return EMPTY_INTS

    @property
    def converters(self) -> tuple[Callable[[Any], bytes | None], Callable[[bytes], Any]]:
        """The functions that encode and decode one value, as directly as possible; their errors may be of any type."""
        return self.encode_or_none, self.decode

    def encode_or_none(self, value: Any) -> bytes | None:
        """Encode one value with an ``encode`` that may be a user's, and check that the result is bytes or None."""
        data: Any = self.encode(value)
        if data is not None and type(data) is not bytes:
            raise SerdeError(
                f"encode of the serde {self.name!r} must return bytes, or None for a null; got {show(data)}"
            )
        return data

    def encode_to_bytes(self, value: Any) -> bytes:
        """Encode one value that must not become null, such as the key of a store."""
        data = self.encode_or_none(value)
        if data is None:
            raise SerdeError(f"encode of the serde {self.name!r} must return bytes here; got None for {show(value)}")
        return data

    def encode_all(self, values: list[Any]) -> Binary:
        """The bytes of a column of values; null where the value is None or ``encode`` returns None."""
        encode = self.encode_or_none
        return binary([None if value is None else encode(value) for value in values])

    def decode_all(self, data: Binary) -> list[Any]:
        """The values of a column of bytes; None where it is null."""
        decode = self.decode
        return [None if item is None else decode(item) for item in data.to_pylist()]

    def arrow(self, data: Binary) -> Any:
        """The values of a column of bytes as an Arrow array, for a ``@columnar`` function."""
        return pa.array(self.decode_all(data))

    def from_arrow(self, values: Any) -> list[Any]:
        """The values in an Arrow array that a ``@columnar`` function returned."""
        return values.to_pylist()  # type: ignore[no-any-return]

    def routing(self, data: Binary) -> Binary:
        """The part of a column of keys' bytes that decides the partitions."""
        return data

    def refuse(self, value: Any) -> SerdeError:
        """The error for a value of the wrong type."""
        error = SerdeError(f"the serde {self.name!r} cannot encode {show(value)} of type {type(value).__name__}")
        close(value)
        error.got, error.shown = type(value), show(value)
        return error

    def __repr__(self) -> str:
        return f"<serde {self.name}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Serde) and type(self) is type(other) and self.name == other.name

    def __hash__(self) -> int:
        return hash((type(self), self.name))
