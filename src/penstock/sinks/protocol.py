"""The protocol of sinks: open a writer for each partition, store a number with the rows, and return the number."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from penstock.errors import ConfigError, SinkError
from penstock.sinks.batch import SinkBatch


@dataclass(frozen=True)
class SinkPartition:
    """One partition of the records that go into a sink.

    Attributes:
        application_id: the application id of the program.
        name: the sink's name, as given to ``to_sink``.
        number: the partition, from 0 on.
        topic_id: the id of the internal topic, which distinguishes it from another one of the same name. Empty if the
            log has no ids.
        is_table: whether the records are changes of a table. Then the newest record of each key counts.
        schema: the columns, a ``pyarrow.Schema``.
        keys: the columns that belong to the key.

    >>> SinkPartition("shop", "totals", 0, "", True, None, ("customer",)).id
    'shop/totals/0'
    """

    application_id: str
    name: str
    number: int
    topic_id: str
    is_table: bool
    schema: Any
    keys: tuple[str, ...]

    @property
    def id(self) -> str:
        """A name that no other partition of any program has."""
        return f"{self.application_id}/{self.name}/{self.number}"

    def need_keys(self, shown: str) -> None:
        """Raise ``ConfigError`` if the rows of a table have no columns to find them by.

        Args:
            shown: the sink's name, for messages.
        """
        if self.is_table and not self.keys:
            raise ConfigError(f"{shown}: the rows of a table are found by their key; name its column: key=...")

    def check_topic(
        self, topic_id: str, remedy: str = "Empty the sink's table and remove its row in penstock_sinks"
    ) -> None:
        """Raise ``SinkError`` if a number was kept for the records of another topic.

        Args:
            topic_id: the id of the topic that was kept with the number.
            remedy: the advice to those who want to begin again.
        """
        if topic_id != self.topic_id:
            raise SinkError(
                f"the sink has rows of another topic under {self.id!r}: the log or the topic was removed and created "
                f"again, and its records would come twice. {remedy} to begin again, or start the program under "
                "another application id"
            )


class SinkWriter(ABC):
    """Writes the records of one partition. All methods are called by one thread of the program.

    >>> from penstock.sinks import SinkWriter
    >>> class Printer(SinkWriter):
    ...     def committed(self):
    ...         return None  # Penstock keeps the numbers
    ...     def write(self, batch, commit):
    ...         print(commit, batch.rows())
    """

    @abstractmethod
    def committed(self) -> int | None:
        """Return the number of the last batch that the sink has; 0 if it has none.

        Return None if the sink cannot store numbers. Then Penstock stores them in the checkpoint. After a crash, it
        repeats a batch that may have been written, with the same records and the same number.
        """

    def planned(self) -> int | None:
        """Return the number of a batch that was begun and may be unfinished, or None.

        Penstock passes exactly this batch next, even if more records have come. So a writer that stores the number
        before it writes gets the same records again after a crash. Penstock calls this once, after ``committed``.
        """
        return None

    @abstractmethod
    def write(self, batch: SinkBatch, commit: int) -> None:
        """Write a batch together with its number, both or neither.

        After any exception, Penstock closes the writer, opens a new one and asks for its number. ``SinkError`` ends the
        program at once. After other exceptions, Penstock retries for ``retry_for``.

        Args:
            commit: the number; it grows with each batch of the partition.
        """

    def close(self) -> None:  # noqa: B027 - most have nothing to release
        """Close connections and files. Nothing that is not committed may remain."""


class Sink(ABC):
    """A place that gets the records of a stream, or the changes of a table, each exactly once.

    Attributes:
        streams_only: whether the sink can only add rows, so that ``to_sink`` refuses tables.
        gather_rows: how many records of a partition Penstock gathers for a batch; None to pass records at once. The
            records wait in their topic, and take no memory.
        gather_ms: the longest time that a record waits for others.

    >>> from penstock.sinks import Sink, SinkWriter
    >>> class Lists(Sink):
    ...     def __init__(self):
    ...         self.rows, self.number = [], 0
    ...     def open(self, partition):
    ...         return ListWriter(self)
    >>> class ListWriter(SinkWriter):
    ...     def __init__(self, lists):
    ...         self.lists = lists
    ...     def committed(self):
    ...         return self.lists.number
    ...     def write(self, batch, commit):
    ...         self.lists.rows += batch.rows()
    ...         self.lists.number = commit
    """

    streams_only: bool = False
    gather_rows: int | None = None
    gather_ms: int = 0

    def check_columns(self, schema: Any) -> None:  # noqa: B027 - most keep any column
        """Raise ``ConfigError`` for columns that the sink cannot store; called before the program starts.

        Args:
            schema: the columns, a ``pyarrow.Schema``.
        """

    @abstractmethod
    def open(self, partition: SinkPartition) -> SinkWriter:
        """Return a writer for a partition. Called in the program's own process, again after each failure."""

    @property
    def shown(self) -> str:
        """The sink's name in messages, pictures and on pages. It must not contain secrets."""
        return type(self).__name__

    @property
    def secrets(self) -> Iterable[str]:
        """Texts that are masked in the messages of the sink's errors, such as a password."""
        return ()

    def __repr__(self) -> str:
        return f"<{self.shown}>"
