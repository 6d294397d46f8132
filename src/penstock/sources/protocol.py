"""The protocol of sources: read what is behind an offset, and say the offset behind it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import SourceError
from penstock.log.records import Records
from penstock.serdes import Serde
from penstock.storage.base import Storage


@dataclass(frozen=True)
class SourceBatch:
    """Some records of a source, and the offset behind them.

    Attributes:
        records: rows as ``penstock.produce`` takes them, such as ``(key, value)`` and ``(key, value, timestamp)``; or
            an Arrow table with the columns ``key``, ``value``, ``timestamp`` and ``headers``, of which only ``value``
            is needed. A column of Arrow's type ``binary`` has the bytes of the topic; others are encoded by the types
            that ``builder.source`` was given.
        offset: where to read on; anything that JSON can say, in less than 3,000 bytes.

    >>> SourceBatch([("ann", 5), ("bob", 2, 1_000)], offset=2)
    SourceBatch(records=[('ann', 5), ('bob', 2, 1000)], offset=2)
    """

    records: Any
    offset: Any


@dataclass(frozen=True)
class SourceContext:
    """The place of a source in its program.

    Attributes:
        application_id: the program's.
        name: the source's, as ``builder.source`` was given it.
        key: the type of the keys.
        value: the type of the values.
        warn: logs a warning, which also the page and ``penstock status`` show.

    >>> from penstock.serdes import JSON, STR
    >>> SourceContext("shop", "orders", STR, JSON).id
    'shop/orders'
    """

    application_id: str
    name: str
    key: Serde
    value: Serde
    warn: Callable[[str], None] = field(default=lambda text: None, repr=False)
    storage: Storage | None = field(default=None, repr=False)
    """The checkpoint, where a ready source may keep files under ``folder``."""
    recent: Callable[[int], Iterator[Records]] = field(default=lambda since: iter(()), repr=False)
    """Gives the records that the topic has got since a time in ms."""

    @property
    def id(self) -> str:
        """A name that no other source of any program has."""
        return f"{self.application_id}/{self.name}"

    @property
    def folder(self) -> str:
        """The folder of the source's own files in the checkpoint."""
        return f"sources/{self.name}/own"


class SourceReader(ABC):
    """Reads the records of a source. All methods are called by one thread of the program.

    >>> from penstock.sources import SourceBatch, SourceReader
    >>> class Numbers(SourceReader):
    ...     def read(self, offset, most):
    ...         begin = offset or 0
    ...         end = min(begin + most, 1_000_000)
    ...         if begin == end:
    ...             return None  # there is no more for now
    ...         return SourceBatch([(None, n) for n in range(begin, end)], end)
    """

    @abstractmethod
    def read(self, offset: Any, most: int) -> SourceBatch | None:
        """Return the records behind an offset, or None if there are none for now.

        Records may be none although the offset moved on. Any exception has the reader closed, and a new one opened at
        the offset of the last batch that arrived. ``SourceError`` ends the program at once; others are tried again
        for a while. The method may wait for records for up to a second.

        Args:
            offset: that of the last batch, as JSON gives it back; None at the beginning.
            most: how many records are wanted at most. More are taken as well.
        """

    def committed(self, offset: Any) -> None:  # noqa: B027 - most need nothing
        """Hear that all records up to this offset are durable in the program's topic.

        Called behind each batch, and first for the offset that an earlier start left. The other side may forget
        these records.
        """

    def close(self) -> None:  # noqa: B027 - most have nothing to let go of
        """Close connections and files."""


class Source(ABC):
    """A place from where records come into a program, each exactly once.

    Attributes:
        has_end: whether the records that exist now have an end. Programs that end with their input, and batches, refuse
            sources without one.
        poll_ms: how long Penstock waits before it asks again when there was nothing.

    >>> from penstock.sources import Source
    >>> class AllNumbers(Source):
    ...     def open(self, context):
    ...         return Numbers()
    """

    has_end: bool = True
    poll_ms: int = 1_000

    @abstractmethod
    def open(self, context: SourceContext) -> SourceReader:
        """Return a reader. Called in the program's own process, again after each failure."""

    def check_types(self, key: Serde, value: Serde) -> None:  # noqa: B027 - most take any
        """Raise ``ConfigError`` for types that the source cannot give; called before the program starts."""

    @property
    def shown(self) -> str:
        """The source's name for people: in messages, pictures and on pages. It must have no secrets."""
        return type(self).__name__

    @property
    def secrets(self) -> Iterable[str]:
        """Texts that are masked in the messages of the source's errors, such as a password."""
        return ()

    def __repr__(self) -> str:
        return f"<{self.shown}>"


def storage_of(context: SourceContext) -> Storage:
    """Return the checkpoint of a source's program; raise ``SourceError`` if the source runs without one."""
    if context.storage is None:
        raise SourceError(f"source {context.name!r} needs the checkpoint of a program")
    return context.storage
