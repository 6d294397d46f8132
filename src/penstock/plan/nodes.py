"""The topology as the user chained it: one frozen dataclass for each step; those of foreign-key joins have a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from penstock.plan.buffering import Suppressed
from penstock.plan.fields import Field
from penstock.plan.foreign_key_nodes import Announce as Announce
from penstock.plan.foreign_key_nodes import ForeignTableJoin as ForeignTableJoin
from penstock.plan.foreign_key_nodes import ResponseJoin as ResponseJoin
from penstock.plan.foreign_key_nodes import SubscriptionJoin as SubscriptionJoin
from penstock.plan.foreign_key_nodes import SubscriptionReceive as SubscriptionReceive
from penstock.plan.foreign_key_nodes import SubscriptionSend as SubscriptionSend
from penstock.plan.functions import UserFunction
from penstock.plan.node import Node, StoreSpec
from penstock.plan.processors import ProcessorFunction
from penstock.plan.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows, Windows
from penstock.serdes import Serde
from penstock.serdes.pair import PairSerde


@dataclass(frozen=True, eq=False, kw_only=True)
class StreamSource(Node):
    topics: tuple[str, ...]
    key: Serde
    value: Serde
    timestamp: UserFunction | None = None
    offset_reset: str | None = None
    """Where it begins that has not been read yet; None for the setting ``auto_offset_reset``."""


@dataclass(frozen=True, eq=False, kw_only=True)
class TableSource(Node):
    topic: str
    source_name: str
    key: Serde
    value: Serde
    store: StoreSpec
    timestamp: UserFunction | None = None
    offset_reset: str | None = None

    is_table: ClassVar[bool] = True


@dataclass(frozen=True, eq=False, kw_only=True)
class GlobalTable(TableSource):
    """A table that every task has as a whole."""


@dataclass(frozen=True, eq=False, kw_only=True)
class GlobalStore(GlobalTable):
    """A store that every task has as a whole, kept by a processor of the user's."""

    supplier: ProcessorFunction


@dataclass(frozen=True, eq=False, kw_only=True)
class Filter(Node):
    predicate: UserFunction
    negate: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class Map(Node):
    mapper: UserFunction
    key: Serde
    value: Serde

    changes_key: ClassVar[bool] = True


@dataclass(frozen=True, eq=False, kw_only=True)
class MapValues(Node):
    mapper: UserFunction
    value: Serde


@dataclass(frozen=True, eq=False, kw_only=True)
class FlatMap(Node):
    mapper: UserFunction
    key: Serde
    value: Serde

    changes_key: ClassVar[bool] = True


@dataclass(frozen=True, eq=False, kw_only=True)
class FlatMapValues(Node):
    mapper: UserFunction
    value: Serde


@dataclass(frozen=True, eq=False, kw_only=True)
class SelectKey(Node):
    mapper: UserFunction
    key: Serde

    changes_key: ClassVar[bool] = True


@dataclass(frozen=True, eq=False, kw_only=True)
class Peek(Node):
    """``peek`` and ``foreach``: call a function for its effect."""

    action: UserFunction


@dataclass(frozen=True, eq=False, kw_only=True)
class Process(Node):
    """Calls a processor of the user's with each record; what it forwards goes on (KIP-820)."""

    supplier: ProcessorFunction
    key: Serde
    value: Serde
    store_names: list[str] = field(default_factory=list)
    """The stores that it is connected to: those that were added, and tables'. It grows while the user connects more,
    and is complete when the topology is built."""

    changes_key: ClassVar[bool] = True


@dataclass(frozen=True, eq=False, kw_only=True)
class ProcessValues(Process):
    """Calls a processor that leaves keys as they are."""

    changes_key: ClassVar[bool] = False


@dataclass(frozen=True, eq=False, kw_only=True)
class Merge(Node):
    pass


@dataclass(frozen=True, eq=False, kw_only=True)
class Split(Node):
    """Sends each record to the first branch whose predicate holds; a branch without a predicate takes the rest.

    ``predicates`` grows while the user adds branches, and is complete when the topology is built.
    """

    predicates: list[UserFunction | None] = field(default_factory=list)


@dataclass(frozen=True, eq=False, kw_only=True)
class Branch(Node):
    index: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Sink(Node):
    topic: str
    key: Serde
    value: Serde


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


@dataclass(frozen=True, eq=False, kw_only=True)
class Deduplicate(Node):
    """Leaves out the records whose id was forwarded within the interval: the key, or the key with a selected id.

    With ``dropped_to``, a topic, the duplicates go down a second branch that leads there.
    """

    interval: int
    id_selector: UserFunction | Field | None
    key: Serde
    id: Serde | None
    store: StoreSpec
    dropped_to: str | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class KeyById(Node):
    """Puts records under their ids, for a repartition; keys and values travel together as values."""

    id_selector: UserFunction | Field
    key: Serde
    id: Serde
    value: PairSerde

    changes_key: ClassVar[bool] = True


@dataclass(frozen=True, eq=False, kw_only=True)
class RestoreKey(Node):
    """Takes keys and values out of the pairs that ``KeyById`` made."""

    key: Serde
    value: Serde

    changes_key: ClassVar[bool] = True


@dataclass(frozen=True, eq=False, kw_only=True)
class StreamTableJoin(Node):
    """Looks each record's key up in a table; with a ``grace`` period, which needs a ``store``, records wait first."""

    table: Node
    joiner: UserFunction
    is_left: bool
    value: Serde
    grace: int | None = None
    store: StoreSpec | None = None

    @property
    def joined(self) -> tuple[Node, ...]:
        return self.parent, self.table

    @property
    def takes_null_keys(self) -> bool:
        return self.is_left


@dataclass(frozen=True, eq=False, kw_only=True)
class GlobalTableJoin(Node):
    """Looks a key that a function gives up in a global table."""

    table: Node
    key_selector: UserFunction
    table_key: Serde
    joiner: UserFunction
    is_left: bool
    value: Serde

    @property
    def takes_null_keys(self) -> bool:
        return self.is_left


@dataclass(frozen=True, eq=False, kw_only=True)
class ToTable(Node):
    store: StoreSpec

    is_table: ClassVar[bool] = True


@dataclass(frozen=True, eq=False, kw_only=True)
class TableFilter(Node):
    predicate: UserFunction
    negate: bool = False
    store: StoreSpec | None = None
    materialized: bool = False
    """Whether it was given a ``Materialized``, even one that names no store."""

    is_table: ClassVar[bool] = True
    inherits_versions: ClassVar[bool] = True


@dataclass(frozen=True, eq=False, kw_only=True)
class TableMapValues(Node):
    mapper: UserFunction
    value: Serde
    store: StoreSpec | None = None
    materialized: bool = False
    """Whether it was given a ``Materialized``, even one that names no store."""

    is_table: ClassVar[bool] = True
    inherits_versions: ClassVar[bool] = True


@dataclass(frozen=True, eq=False, kw_only=True)
class TableTransformValues(TableMapValues):
    """New values from a transformer of the user's, which may have stores; deletions are transformed as well."""

    supplier: ProcessorFunction
    store_names: list[str] = field(default_factory=list)


HOSTING = Process | TableTransformValues
"""The steps in which a processor or a transformer of the user's works."""


def connected_stores(node: Node) -> list[str]:
    """The names of the stores that a processor is connected to."""
    return node.store_names if isinstance(node, HOSTING) else []


@dataclass(frozen=True, eq=False, kw_only=True)
class ToStream(Node):
    pass


@dataclass(frozen=True, eq=False, kw_only=True)
class TableGroupBy(Node):
    """Turns each change of a table into what leaves its old group and what joins its new one."""

    mapper: UserFunction
    key: Serde
    value: Serde

    changes_key: ClassVar[bool] = True
    is_table: ClassVar[bool] = True


@dataclass(frozen=True, eq=False, kw_only=True)
class Aggregation:
    """How values become one: ``count``, ``reduce`` (from the first value) or ``aggregate`` (from an initializer).

    ``subtract`` takes a value out again, for grouped tables; ``merge`` makes one aggregate of those of two sessions.
    """

    kind: str
    add: UserFunction | None = None
    initialize: Callable[[], Any] | None = None
    subtract: UserFunction | None = None
    merge: UserFunction | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class StreamAggregate(Node):
    aggregation: Aggregation
    store: StoreSpec

    is_table: ClassVar[bool] = True


@dataclass(frozen=True, eq=False, kw_only=True)
class WindowedAggregate(Node):
    """An aggregation in windows; ``final`` if it sends on one result for each window, when it has closed."""

    aggregation: Aggregation
    windows: Windows
    store: StoreSpec
    final: bool = False

    is_table: ClassVar[bool] = True


@dataclass(frozen=True, eq=False, kw_only=True)
class CogroupInput(Node):
    """One of several grouped streams that are aggregated together; the aggregation itself is the step below.

    ``shared`` is that step's store, which Kafka Streams connects with these.
    """

    side: int
    shared: StoreSpec


@dataclass(frozen=True, eq=False, kw_only=True)
class WindowAggregate(WindowedAggregate):
    windows: TimeWindows | UnlimitedWindows


@dataclass(frozen=True, eq=False, kw_only=True)
class WindowDistinct(WindowAggregate):
    """The first record of each window (KIP-655)."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SlidingAggregate(WindowedAggregate):
    windows: SlidingWindows


@dataclass(frozen=True, eq=False, kw_only=True)
class SessionAggregate(WindowedAggregate):
    windows: SessionWindows


@dataclass(frozen=True, eq=False, kw_only=True)
class SessionDistinct(SessionAggregate):
    """The first record of each session (KIP-655)."""


@dataclass(frozen=True, eq=False, kw_only=True)
class TableAggregate(Node):
    aggregation: Aggregation
    store: StoreSpec

    is_table: ClassVar[bool] = True


@dataclass(frozen=True, eq=False, kw_only=True)
class Suppress(Node):
    """Holds updates of a table back (KIP-328)."""

    suppressed: Suppressed
    """What to hold back."""
    wait_ms: int
    """How long entries stay behind their time: that of the time limit, or the grace period of the windows."""
    store: StoreSpec

    is_table: ClassVar[bool] = True
    collapses_updates: ClassVar[bool] = True


INNER = "inner"
LEFT = "left"
OUTER = "outer"


@dataclass(frozen=True, eq=False, kw_only=True)
class TableJoin(Node):
    """Joins two tables, its parents, by their keys: each change of one side with what the other side has."""

    kind: str
    joiner: UserFunction
    this_name: str
    other_name: str
    value: Serde
    store: StoreSpec | None = None
    is_complete: bool = False
    """Whether results of the past are corrected (KIP-914)."""

    @property
    def joined(self) -> tuple[Node, ...]:
        return self.parents

    @property
    def materialized(self) -> bool:
        return self.store is not None

    @property
    def inherits_versions(self) -> bool:  # type: ignore[override]
        return self.is_complete

    is_table: ClassVar[bool] = True


@dataclass(frozen=True, eq=False, kw_only=True)
class JoinWindow(Node):
    """Keeps one side of a stream-stream join in a store."""

    windows: JoinWindows
    value: Serde
    store: StoreSpec


@dataclass(frozen=True, eq=False, kw_only=True)
class StreamJoin(Node):
    """Joins two streams, its parents, in windows of time; ``store`` is where records without a partner wait."""

    kind: str
    joiner: UserFunction
    windows: JoinWindows
    left: JoinWindow
    right: JoinWindow
    this_name: str
    other_name: str
    key: Serde
    value: Serde
    store: StoreSpec | None = None

    @property
    def joined(self) -> tuple[Node, ...]:
        return self.parents

    @property
    def takes_null_keys(self) -> bool:
        return self.kind != INNER
