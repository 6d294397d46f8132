"""Steps that read topics or write them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.plan.dataframes import FrameSource, SinkTarget, SourceFeed, TableTarget
from penstock.plan.functions import UserFunction
from penstock.plan.kept import Kept, KeptAsDescribed
from penstock.plan.node import Node, Part, Stores, StoreSpec
from penstock.plan.processors import ProcessorFunction
from penstock.plan.timestamps import Extractor
from penstock.plan.used_columns import BOTH, NEITHER, Columns
from penstock.serdes import Serde
from penstock.values.offset_reset import AutoOffsetReset


@dataclass(frozen=True, eq=False, kw_only=True)
class StreamSource(Node):
    topics: tuple[str, ...]
    key: Serde
    value: Serde
    timestamp: UserFunction | Extractor | None = None
    offset_reset: AutoOffsetReset | None = None
    """Where to start if it has not been read yet; None for the setting ``auto_offset_reset``."""
    pattern: str | None = None
    """A regular expression for whole topic names. The topics that match at the start are in ``topics``; those that
    appear later are added while the application runs."""
    outside: FrameSource | SourceFeed | None = None

    is_source: ClassVar[bool] = True
    makes_one: ClassVar[bool] = True

    def parts(self, above: tuple[str, ...], facts: Stores) -> list[Part]:
        return [Part("source", self.name, self, topics=self.topics)]


@dataclass(frozen=True, eq=False, kw_only=True)
class TableSource(Node):
    topic: str
    source_name: str
    key: Serde
    value: Serde
    store: StoreSpec
    timestamp: UserFunction | Extractor | None = None
    offset_reset: AutoOffsetReset | None = None
    outside: FrameSource | None = None

    is_table: ClassVar[bool] = True
    is_source: ClassVar[bool] = True
    store_when_asked: ClassVar[bool] = True
    caches_last_update: ClassVar[bool] = True

    @property
    def topics(self) -> tuple[str, ...]:
        return (self.topic,)

    def parts(self, above: tuple[str, ...], facts: Stores) -> list[Part]:
        source = Part("source", self.source_name, self, "source", topics=self.topics)
        return [source, *super().parts((self.source_name,), facts)]


@dataclass(frozen=True, eq=False, kw_only=True)
class GlobalTable(TableSource):
    """A table of which every task has a complete copy."""

    is_global: ClassVar[bool] = True
    caches_last_update: ClassVar[bool] = False


@dataclass(frozen=True, eq=False, kw_only=True)
class GlobalStore(GlobalTable):
    """A store of which every task has a complete copy, filled by a user's processor."""

    supplier: ProcessorFunction

    keeps_columns: ClassVar[Columns] = NEITHER

    @property
    def reads_columns(self) -> Columns:
        return BOTH

    @property
    def keeps(self) -> Kept:
        return KeptAsDescribed()


@dataclass(frozen=True, eq=False, kw_only=True)
class Sink(Node):
    topic: str
    key: Serde
    value: Serde

    partitioner: UserFunction | None = None
    """Chooses each record's partition; None for Kafka's partitioner."""
    types_before: tuple[str, str] = ("", "")
    """The names of the key and value types in release 0.1.0 (0073); empty until the settings are known."""
    outside: TableTarget | SinkTarget | None = None

    @property
    def reads_columns(self) -> Columns:
        return NEITHER if self.partitioner is None else BOTH

    def may_write(self, topic: str) -> bool:
        return self.topic == topic

    def parts(self, above: tuple[str, ...], facts: Stores) -> list[Part]:
        return [Part("sink", self.name, self, predecessors=above, topics=(self.topic,) if self.topic else ())]


@dataclass(frozen=True, eq=False, kw_only=True)
class DynamicSink(Sink):
    """A sink that chooses a topic for each record."""

    topic: str = ""
    selector: UserFunction
    makes_topics: bool = True
    """Whether missing topics are created; otherwise records for them fail."""

    @property
    def reads_columns(self) -> Columns:
        return BOTH

    def may_write(self, topic: str) -> bool:
        return True


@dataclass(frozen=True, eq=False, kw_only=True)
class Repartition(Node):
    """Sends records through an internal topic, so that equal keys meet in one task.

    ``filter_name`` is None for tables, whose changes always have keys, and for repartitions that keep null keys.
    """

    topic: str
    sink_name: str
    source_name: str
    filter_name: str | None
    key: Serde
    value: Serde
    partitions: int | None = None
    keeps_null_keys: bool = False
    carries_changes: bool = False
    """Whether its records are changes of a table, with their old values."""
    partitioner: UserFunction | None = None
    types_before: tuple[str, str] = ("", "")
    """As in ``Sink``."""

    makes_one: ClassVar[bool] = True

    @property
    def source_topics(self) -> tuple[str, ...]:
        return (self.topic,)

    @property
    def reads_columns(self) -> Columns:
        return NEITHER if self.partitioner is None else BOTH

    def parts(self, above: tuple[str, ...], facts: Stores) -> list[Part]:
        filters = []
        if self.filter_name is not None:
            filters = [Part("processor", self.filter_name, self, "filter", above)]
            above = (self.filter_name,)
        sink = Part("sink", self.sink_name, self, "sink", above, topics=(self.topic,))
        return [*filters, sink, Part("source", self.source_name, self, "source", topics=(self.topic,))]
