"""Lists in the format of Kafka's ListSerializer."""

from __future__ import annotations

import struct
from typing import Any

from penstock.errors import SerdeError
from penstock.messages import show
from penstock.serdes.base import Serde

_FIXED = {"int": 8, "float": 8, "int32": 4, "int16": 2, "float32": 4, "uuid": 36}
"""The serdes whose values Kafka's ListSerializer writes without their lengths."""

_INT = struct.Struct(">i")


class ListSerde(Serde):
    """Lists, in the format of Kafka's ListSerializer; an element may be None."""

    gives_none = False

    def __init__(self, inner: Serde):
        self.inner = inner
        self.name = f"list[{inner.name}]"
        self._width = _FIXED.get(inner.name)

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, list | tuple):
            raise self.refuse(value)
        items = [None if item is None else self.inner.encode_or_none(item) for item in value]
        size = _INT.pack(len(items))
        if self._width is None:
            return b"\x01" + size + b"".join(_INT.pack(-1) if x is None else _INT.pack(len(x)) + x for x in items)
        nulls = [i for i, item in enumerate(items) if item is None]
        marked = _INT.pack(len(nulls)) + b"".join(map(_INT.pack, nulls))
        return b"\x00" + marked + size + b"".join(item for item in items if item is not None)

    def decode(self, data: bytes) -> list[Any]:
        taking = _Taking(data, self.name)
        items: list[bytes | None]
        if taking.take(1) == b"\x01":
            lengths = range(taking.number())
            items = [taking.sized() for _ in lengths]
        else:
            if self._width is None:
                raise taking.refused()
            nulls = {taking.number() for _ in range(taking.number())}
            items = [None if i in nulls else taking.take(self._width) for i in range(taking.number())]
        if taking.at != len(data):
            raise taking.refused()
        return [None if item is None else self.inner.decode(item) for item in items]


class _Taking:
    """Takes bytes apart, from left to right."""

    def __init__(self, data: bytes, name: str):
        self._data, self._name, self.at = data, name, 0

    def take(self, size: int) -> bytes:
        taken = self._data[self.at : self.at + size]
        if size < 0 or len(taken) != size:
            raise self.refused()
        self.at += size
        return taken

    def number(self) -> int:
        return int(_INT.unpack(self.take(4))[0])

    def sized(self) -> bytes | None:
        size = self.number()
        return None if size == -1 else self.take(size)

    def refused(self) -> SerdeError:
        return SerdeError(
            f"the serde {self._name!r} reads what Kafka's ListSerializer writes; got {show(self._data, 80)}"
        )
