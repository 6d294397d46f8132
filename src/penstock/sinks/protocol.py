"""The protocol of sinks: open a writer for each partition, keep a number with the rows, and say it again."""

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
        application_id: the program's.
        name: the sink's, as ``to_sink`` was given it.
        number: the partition, from 0 on.
        topic_id: tells the topic on the way apart from another one of the same name; empty where a log has none.
        is_table: whether the records are changes of a table, so that the newest of each key counts.
        schema: the columns, a ``pyarrow.Schema``.
        keys: which of them come of the key.

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
        """Return the number of the last batch that the sink has; 0 for none.

        Return None if the sink cannot keep numbers. Then Penstock keeps them in the checkpoint, and a batch that may
        have been written before a crash is given again, with the same records and the same number.
        """

    def planned(self) -> int | None:
        """Return the number of a batch that was begun and perhaps left unfinished, or None.

        Penstock gives exactly that batch next, although more records have come. So a writer that notes the number
        before it writes gets the same records again after a crash. It is asked once, after ``committed``.
        """
        return None

    @abstractmethod
    def write(self, batch: SinkBatch, commit: int) -> None:
        """Write a batch together with its number, both or neither.

        Any exception has the writer closed, opened again and asked for its number. ``SinkError`` ends the program at
        once; others are tried again for a while.

        Args:
            commit: the number; it grows with each batch of the partition.
        """

    def close(self) -> None:  # noqa: B027 - most have nothing to let go of
        """Close connections and files. Nothing that is not committed may remain."""


class Sink(ABC):
    """A place that gets the records of a stream, or the changes of a table, each exactly once.

    Attributes:
        streams_only: whether the sink can only add rows, so that ``to_sink`` refuses tables.
        gather_rows: how many records of a partition Penstock gathers for a batch; None not to wait. The records
            wait in their topic meanwhile, and take no memory.
        gather_ms: how long they wait at most.

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
        """Raise ``ConfigError`` for columns that the sink cannot keep; called before the program starts.

        Args:
            schema: the columns, a ``pyarrow.Schema``.
        """

    @abstractmethod
    def open(self, partition: SinkPartition) -> SinkWriter:
        """Return a writer for a partition. Called in the program's own process, again after each failure."""

    @property
    def shown(self) -> str:
        """The sink's name for people: in messages, pictures and on pages. It must have no secrets."""
        return type(self).__name__

    @property
    def secrets(self) -> Iterable[str]:
        """Texts that are masked in the messages of the sink's errors, such as a password."""
        return ()

    def __repr__(self) -> str:
        return f"<{self.shown}>"
