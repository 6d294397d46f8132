"""Where records come from topics and go into them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.offset_reset import AutoOffsetReset
from penstock.plan.functions import UserFunction
from penstock.plan.node import Node, StoreSpec
from penstock.plan.processors import ProcessorFunction
from penstock.plan.timestamps import Extractor
from penstock.serdes import Serde


@dataclass(frozen=True, eq=False, kw_only=True)
class StreamSource(Node):
    topics: tuple[str, ...]
    key: Serde
    value: Serde
    timestamp: UserFunction | Extractor | None = None
    offset_reset: AutoOffsetReset | None = None
    """Where it begins that has not been read yet; None for the setting ``auto_offset_reset``."""
    pattern: str | None = None
    """A regular expression for whole names of topics: those that match when the application starts are ``topics``, and
    those that appear later are taken up."""


@dataclass(frozen=True, eq=False, kw_only=True)
class TableSource(Node):
    topic: str
    source_name: str
    key: Serde
    value: Serde
    store: StoreSpec
    timestamp: UserFunction | Extractor | None = None
    offset_reset: AutoOffsetReset | None = None

    is_table: ClassVar[bool] = True


@dataclass(frozen=True, eq=False, kw_only=True)
class GlobalTable(TableSource):
    """A table that every task has as a whole."""


@dataclass(frozen=True, eq=False, kw_only=True)
class GlobalStore(GlobalTable):
    """A store that every task has as a whole, kept by a processor of the user's."""

    supplier: ProcessorFunction


@dataclass(frozen=True, eq=False, kw_only=True)
class Sink(Node):
    topic: str
    key: Serde
    value: Serde

    partitioner: UserFunction | None = None
    """Chooses each record's partition; None for Kafka's partitioner."""
    types_before: tuple[str, str] = ("", "")
    """The names of the types that keys and values had in release 0.1.0 (0073); empty until the settings are known."""


@dataclass(frozen=True, eq=False, kw_only=True)
class DynamicSink(Sink):
    """A sink that chooses a topic for each record; it has none of its own."""

    topic: str = ""
    selector: UserFunction
    makes_topics: bool = True
    """Whether topics that do not exist are made; else records for them fail."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Repartition(Node):
    """Sends records through an internal topic, so that equal keys meet in one task.

    ``filter_name`` is None for tables, whose changes always have keys, and where null keys are kept.
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
    """Whether what goes through it are changes of a table, with the values before."""
    partitioner: UserFunction | None = None
    types_before: tuple[str, str] = ("", "")
    """As those of a ``Sink``."""
