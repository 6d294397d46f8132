"""DataFrames and sources that come into a topology, and tables and sinks that its results go into: what the steps know
of them.

To the plan each is an ordinary topic. Its name in the log begins with the application's id, so that no two programs
share it. The DataFrame, the source, the sink, and the options of a table stay in the process that got them. They may
hold secrets, so they never travel to slots, and nothing writes them down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

APPEND, UPSERT = "append", "upsert"
MODES = (APPEND, UPSERT)

CHANGE = "_change_type"
"""The column with the kind of change of a row in a change feed."""

CHANGE_COLUMNS = (CHANGE, "_commit_version", "_commit_timestamp")
"""The columns that a change feed adds to the columns of the table."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FrameSource:
    """A streaming DataFrame in place of a topic.

    Attributes:
        name: names the step, its topic and its query.
        key: the column with the keys, or several that are a key together; None for no keys.
        value: the column with the values; None for the whole row.
        timestamp: the column with the times; None for the present time.
        headers: the column with the headers; None for none.
        order: the columns of the partition and of the offset by which the rows of a micro-batch are ordered.
        partitions: how many partitions its topic gets; None to choose it.
        trigger_ms: how often the query looks for rows; None for as soon as it can.
        frame: the DataFrame, in the process in which it was given.
    """

    name: str
    key: str | tuple[str, ...] | None
    value: str | None
    timestamp: str | None
    timestamp_unit: str | None = None
    headers: str | None = None
    order: tuple[str | None, str | None] = (None, None)
    partitions: int | None = None
    trigger_ms: int | None = None
    frame: Any = field(default=None, repr=False)

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that the keys are made of."""
        return self.key if isinstance(self.key, tuple) else () if self.key is None else (self.key,)

    @property
    def shown(self) -> str:
        """Its name for people."""
        return f"DataFrame {self.name}"

    def topic_of(self, application_id: str) -> str:
        """Its topic in the log."""
        return f"{application_id}-{self.name}-source"

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"frame": None}


@dataclass(frozen=True, eq=False, kw_only=True)
class TableTarget:
    """A table that the records of a sink go into.

    Attributes:
        name: names the topic and the query.
        table: the table by its name in a catalog, or in a database; None where ``path`` says it.
        path: the folder or URL of the table.
        format: Spark's name of what the table is; None for that of the table, or of its catalog.
        mode: ``"append"``, or ``"upsert"`` by key.
        key: how the column with the keys is called; None for none.
        value: how the column with the values is called that are no structs.
        timestamp: how the column with the times is called; None for none.
        trigger_ms: how often the query writes.
        options: Spark's options of the format, in the process in which they were given.
        where: the user's file and line.
    """

    name: str
    table: str | None
    path: str | None
    format: str | None
    mode: str
    key: str | None
    value: str
    timestamp: str | None
    trigger_ms: int
    where: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def shown(self) -> str:
        """The table's name in messages, without anything secret."""
        return self.table or str(self.path)

    def topic_of(self, application_id: str) -> str:
        """Its topic in the log."""
        return f"{application_id}-{self.name}-sink"

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"options": {}}


@dataclass(frozen=True, eq=False, kw_only=True)
class SinkTarget:
    """A sink that the records of a step go into.

    Attributes:
        name: names the topic and the sink's numbers.
        is_table: whether the records are changes of a table.
        key: how the column with the keys is called; None for none.
        value: how the column with the values is called that are no structs.
        timestamp: how the column with the times is called; None for none.
        max_behind: how many records the sink may lack before the program makes no more.
        retry_ms: how long a failing sink is tried again before the program ends.
        keep_ms: how long records stay in the topic that the sink has.
        skips_missing: whether the sink continues behind records that are gone.
        where: the user's file and line.
        shown: the sink's name in messages.
        sink: the sink, in the process in which it was given.
    """

    name: str
    is_table: bool
    key: str | None
    value: str
    timestamp: str | None
    max_behind: int
    retry_ms: int
    keep_ms: int
    skips_missing: bool
    where: str
    shown: str
    sink: Any = field(default=None, repr=False)

    def topic_of(self, application_id: str) -> str:
        """Its topic in the log."""
        return f"{application_id}-{self.name}-sink"

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"sink": None}


@dataclass(frozen=True, eq=False, kw_only=True)
class SourceFeed:
    """A source whose records come in, in place of a topic.

    Attributes:
        name: names the step, its topic and its progress.
        partitions: how many partitions its topic gets; None to choose it.
        max_ahead: how many records the program may lack before the source waits.
        retry_ms: how long Penstock retries a failing source before the program ends.
        keep_ms: how long records stay in the topic that the program has processed; None for good.
        where: the user's file and line.
        shown: the source's name in messages.
        source: the source, in the process in which it was given.
    """

    name: str
    partitions: int | None
    max_ahead: int
    retry_ms: int
    keep_ms: int | None
    where: str
    shown: str
    source: Any = field(default=None, repr=False)

    def topic_of(self, application_id: str) -> str:
        """Its topic in the log."""
        return f"{application_id}-{self.name}-source"

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"source": None}


Outside = FrameSource | SourceFeed | TableTarget | SinkTarget
"""The DataFrame, source, table or sink behind a topic."""
