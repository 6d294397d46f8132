"""The protocol of sources: read the records after an offset, and return the offset after them."""

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
    """Some records of a source, and the offset after them.

    Attributes:
        records: rows as ``penstock.produce`` takes them, such as ``(key, value)`` and ``(key, value, timestamp)``; or
            an Arrow table with the columns ``key``, ``value``, ``timestamp`` and ``headers``, of which only ``value``
            is needed. A column of Arrow's type ``binary`` has the bytes of the topic; others are encoded by the types
            that ``builder.source`` was given.
        offset: where the next read continues; any JSON value of less than 3,000 bytes.

    >>> SourceBatch([("ann", 5), ("bob", 2, 1_000)], offset=2)
    SourceBatch(records=[('ann', 5), ('bob', 2, 1000)], offset=2)
    """

    records: Any
    offset: Any


@dataclass(frozen=True)
class SourceContext:
    """The place of a source in its program.

    Attributes:
        application_id: the application id of the program.
        name: the source's name, as given to ``builder.source``.
        key: the type of the keys.
        value: the type of the values.
        warn: logs a warning, which the page and ``penstock status`` also show.

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
    """Returns the records that the topic received since a time in ms."""

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
        """Return the records after an offset, or None if there are no records now.

        A batch may have no records and a new offset. After any exception, Penstock closes the reader, and opens a new
        one at the offset of the last batch in the log. ``SourceError`` ends the program at once. After other
        exceptions, Penstock retries for ``retry_for``. The method may wait for records for up to a second.

        Args:
            offset: the offset of the last batch, decoded from JSON; None at the beginning.
            most: the number of records that Penstock asks for. It accepts more.
        """

    def committed(self, offset: Any) -> None:  # noqa: B027 - most need nothing
        """React to the fact that all records up to this offset are durable in the program's topic.

        Penstock calls this after each batch, and first for the offset of an earlier start. The source may then delete
        these records.
        """

    def close(self) -> None:  # noqa: B027 - most have nothing to release
        """Close connections and files."""


class Source(ABC):
    """A place from which a program reads records, each exactly once.

    Attributes:
        has_end: whether the records that exist now have an end. Programs that end with their input, and batches, refuse
            sources without one.
        poll_ms: how long Penstock waits after a read without records.

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
        """Raise ``ConfigError`` for types that the source cannot return; called before the program starts."""

    @property
    def shown(self) -> str:
        """The source's name in messages, pictures and on pages. It must not contain secrets."""
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
