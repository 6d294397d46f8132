"""The base of all steps of a topology, and the stores that some of them need.

A node states facts: its needs, its results, whether it changes keys. ``Node`` declares every fact with its default. A
class with another value has a field or a property of the same name. ``passes`` combines the facts of several nodes:
which tables must have a store, which nodes send old values, which parts form a sub-topology.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from penstock.plan.aggregation import Aggregation
from penstock.plan.dataframes import Outside
from penstock.plan.fields import Field
from penstock.plan.functions import Maker, UserFunction
from penstock.plan.kept import Kept
from penstock.plan.own_windows import AnyWindows
from penstock.plan.timestamps import Extractor
from penstock.plan.used_columns import BOTH, Columns, columns_of
from penstock.plan.windows import JoinWindows
from penstock.serdes import Serde
from penstock.values.offset_reset import AutoOffsetReset

ROWS, NONE_KEPT = "rows", "none kept"


@dataclass(frozen=True, eq=False, kw_only=True)
class StoreSpec:
    """A state store that a step needs: its name and kind, and how its results are emitted."""

    name: str
    named_by_user: bool
    kind: str = "persistent"
    retention: int | None = None
    caching: bool = True
    key: Serde | None = None
    value: Serde | None = None
    history_retention: int | None = None
    segment_interval: int | None = None
    shape: str | None = None
    """``key_value``, ``timestamped_key_value``, ``window``, ``timestamped_window``, ``session``, ``versioned``, or
    ``direct`` for a store of any class that processors get as it is; None if the step creates the store itself and so
    decides."""
    max_entries: int | None = None
    """The most entries that it keeps; it then evicts the least recently used ones. None for any number."""
    window_size: int | None = None
    retain_duplicates: bool = False
    logging: bool = True
    supplier: Any = None
    """Creates stores of a user's own kind; None for Penstock's."""
    headers: str | None = None
    """Whether rows have headers: ``ROWS`` if they keep the headers of a put, ``NONE_KEPT`` if they show none, as the
    stores of tables do; None without headers."""
    is_chosen: bool = False
    """Whether the user said whether it is in memory; otherwise ``suppliers`` and settings say it."""
    suppliers: Any = None
    """The ``DslStoreSuppliers`` of the step alone."""

    @property
    def is_timestamped(self) -> bool:
        """Whether processors see its values with timestamps, like those of tables."""
        return self.shape is None or self.shape.startswith("timestamped")

    @property
    def types(self) -> tuple[Serde, Serde]:
        """The types of keys and values, which are known once the topology is built."""
        assert self.key is not None
        assert self.value is not None
        return self.key, self.value

    @property
    def in_memory(self) -> bool:
        return self.kind in ("in_memory", "versioned_in_memory")

    @property
    def is_versioned(self) -> bool:
        return self.history_retention is not None


@dataclass(frozen=True)
class Part:
    """A source, processor or sink; ``role`` tells the parts of one step apart."""

    kind: str
    name: str
    node: Node
    role: str = ""
    predecessors: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    """The parts whose stores it reads without receiving their records."""


class Hold(NamedTuple):
    """How a step holds its results back."""

    wait_ms: int
    """How far stream time must be past an entry's time, or a window's end, to emit it."""
    is_of_windows: bool
    """Whether it holds windows that have not closed."""
    idle_advance_ms: int | None = None
    """How long without a record until stream time advances by that duration; None if it never does."""


class Stores(Protocol):
    """The stores of steps, found by ``passes/stores.py``, as far as nodes ask for them."""

    @property
    def stores(self) -> Mapping[Node, StoreSpec]: ...

    def looked_up_tables(self, table: Node) -> tuple[Node, ...]:
        """The tables from whose stores the values of a table can be read."""
        ...

    def looked_up_stores(self, table: Node) -> tuple[str, ...]:
        """The names of these stores."""
        ...


UNTRACED = {"untraced": True}
"""Metadata of a node's field that is not part of the place of its stores, because a later release added it."""

if TYPE_CHECKING:
    from builtins import property as fact
else:

    class fact:  # noqa: N801 - it stands where ``property`` does
        """A property that a subclass may replace with a field of the same name.

        A plain property does not allow that: the dataclass would take it as the field's default, and Python would
        refuse to set the field.
        """

        def __init__(self, answer: Callable[[Node], Any]):
            self._answer = answer
            self.__doc__ = answer.__doc__

        def __get__(self, node: Node | None, owner: type[Node]) -> Any:
            if node is None:
                raise AttributeError(f"{self._answer.__name__!r} is a fact of a node, not of its class")
            return self._answer(node)


@dataclass(frozen=True, eq=False, kw_only=True)
class Node:
    """One step. Parents come first, and nodes are compared by identity."""

    name: str
    parents: tuple[Node, ...] = ()
    where: str = ""
    """The user's file and line."""

    @property
    def parent(self) -> Node:
        return self.parents[0]

    # --- what it is --------------------------------------------------------------------------------------------------

    method: ClassVar[str] = ""
    """The method of the DSL that made it, for messages; empty for steps that leave keys as they are."""
    changes_key: ClassVar[bool] = False
    is_table: ClassVar[bool] = False
    is_source: ClassVar[bool] = False
    """Whether it reads topics of the log."""
    is_global: ClassVar[bool] = False
    """Whether every task has a complete copy of it."""
    is_side: ClassVar[bool] = False
    """Whether it is one of the streams of a cogroup; the step below aggregates them together."""
    is_in_kafka_streams: ClassVar[bool] = True
    """Whether Kafka Streams has such a step."""
    hosts: ClassVar[bool] = False
    """Whether it runs a user's processor or transformer."""
    makes_one: ClassVar[bool] = False
    """Whether it turns a record into at most one record, and at once."""

    # --- topics ------------------------------------------------------------------------------------------------------

    @fact
    def topics(self) -> tuple[str, ...]:
        """The topics of the log that it reads."""
        return ()

    @fact
    def carries_changes(self) -> bool:
        """Whether its records are changes of a table, with their old values."""
        return False

    @fact
    def source_topics(self) -> tuple[str, ...]:
        """The topics that its records come from, including the one that it repartitions through."""
        return self.topics

    @fact
    def pattern(self) -> str | None:
        """The regular expression for the names of its topics."""
        return None

    @fact
    def timestamp(self) -> UserFunction | Extractor | None:
        """The function or extractor for the times of its records; None for the times that records carry."""
        return None

    @fact
    def offset_reset(self) -> AutoOffsetReset | None:
        """Where to start with a source that has not been read yet; None for the setting ``auto_offset_reset``."""
        return None

    @fact
    def selector(self) -> UserFunction | None:
        """The function that chooses a topic for each record of a sink; None for a fixed topic."""
        return None

    @fact
    def makes_topics(self) -> bool:
        """Whether a sink creates the topics that it chooses; otherwise records for missing topics fail."""
        return True

    @fact
    def outside(self) -> Outside | None:
        """The DataFrame or source behind the topic it reads, or the table or sink behind the one it writes."""
        return None

    def may_write(self, topic: str) -> bool:
        """Whether it may write a topic of the log."""
        return False

    # --- types and functions -----------------------------------------------------------------------------------------

    @fact
    def key(self) -> Serde | None:
        """The type of its results' keys; None if it leaves keys as they are."""
        return None

    @fact
    def value(self) -> Serde | None:
        """The type of its results' values; None if it leaves values as they are, or its store has the type."""
        return None

    @property
    def types(self) -> tuple[Serde, Serde]:
        """The types of keys and values, of a step that declares both."""
        assert self.key is not None
        assert self.value is not None
        return self.key, self.value

    @fact
    def function(self) -> UserFunction | Field | None:
        """The only user function that gets each record, or None."""
        return None

    @fact
    def aggregation(self) -> Aggregation | None:
        """The functions that combine its values into one."""
        return None

    @fact
    def makes_key(self) -> Maker | None:
        """The user's function that makes its results' keys; None if it leaves keys as they are."""
        return None

    @fact
    def makes_value(self) -> Maker | None:
        """The user's function that makes its results' values."""
        return None

    keeps_input: ClassVar[bool] = False
    """Whether it stores or encodes its input records: an error of types may then be about these."""
    keeps_columns: ClassVar[Columns] = BOTH
    """The columns that it hands on unchanged."""
    unpacks: ClassVar[bool] = False
    """Whether it decodes keys and values again, like a source."""

    @fact
    def reads_columns(self) -> Columns:
        """The columns that its functions use."""
        return columns_of(self.function)

    # --- tables and joins --------------------------------------------------------------------------------------------

    inherits_versions: ClassVar[bool] = False
    """Whether a table without a new materialization is versioned if the table before it is (KIP-914)."""
    collapses_updates: ClassVar[bool] = False
    """Whether it holds a table's updates back and emits only some of them, which versioned tables do not allow. Its
    store has the held updates; the table's values are read from the table before it."""
    asks_old_if_kept: ClassVar[bool] = False
    """Whether it asks for old values only if its table has a store anyway."""
    brings_values: ClassVar[bool] = False
    """Whether its records carry the values that Kafka Streams looks up for it."""

    @fact
    def materialized(self) -> bool:
        """Whether it was given a ``Materialized``, even one that names no store."""
        return False

    @fact
    def is_complete(self) -> bool:
        """Whether it is a join that corrects results of the past (KIP-914)."""
        return False

    @property
    def joined(self) -> tuple[Node, ...]:
        """The steps whose equal keys must be in the same partition: the sides of a join, or of a cogroup."""
        return self.sides

    @property
    def also_behind(self) -> tuple[Node, ...]:
        """Steps other than its parents whose records it receives, unless the topology leaves them out."""
        return ()

    @property
    def joined_tables(self) -> tuple[Node, ...]:
        """The tables that it joins with each other; none for other steps."""
        return ()

    @property
    def asks_old_of(self) -> tuple[Node, ...]:
        """The tables that must send it a key's old value along with the new one."""
        return ()

    @property
    def looks_up(self) -> tuple[Node, ...]:
        """The tables in which it looks values up."""
        return ()

    @property
    def looks_up_as_of(self) -> tuple[Node, ...]:
        """The tables that it reads as of a time, if they are versioned."""
        return ()

    @property
    def takes_null_keys(self) -> bool:
        """Whether it processes records without a key, so that repartitions before it must let them through."""
        return False

    # --- windows -----------------------------------------------------------------------------------------------------

    @fact
    def windows(self) -> AnyWindows | JoinWindows | None:
        """The windows of an aggregation, or of a join of streams."""
        return None

    @property
    def windowed_by(self) -> AnyWindows | None:
        """The windows of an aggregation; None for joins and all other steps."""
        return None

    @fact
    def final(self) -> bool:
        """Whether it sends one result for each window, when the window has closed."""
        return False

    @property
    def hold(self) -> Hold | None:
        """How it holds results back; None if it sends them at once."""
        return None

    @property
    def sides(self) -> tuple[Node, ...]:
        """The streams of its cogroup; none for an aggregation of one stream."""
        return tuple(parent for parent in self.parents if parent.is_side)

    # --- stores ------------------------------------------------------------------------------------------------------

    store_advice: ClassVar[str] = 'store="..."'
    """The argument with which users name its store."""
    store_when_asked: ClassVar[bool] = False
    """Whether it has a store only if the user named it or a later step needs it."""
    caches_updates: ClassVar[bool] = True
    """Whether its updates may wait in a cache until the commit."""
    caches_last_update: ClassVar[bool] = False
    """Whether such a cache sends exactly the last update of each key."""

    @fact
    def store(self) -> StoreSpec | None:
        """Its own store, including one that it makes only when asked (``store_when_asked``)."""
        return None

    @property
    def keeps(self) -> Kept:
        """The contents of its store."""
        return Kept()

    @property
    def partition_key(self) -> Serde | None:
        """The type of the keys that decide the partition of a row in its store."""
        return None if self.store is None else self.store.key

    @fact
    def store_names(self) -> Sequence[str]:
        """The stores that its processor is connected to."""
        return ()

    @property
    def clocks(self) -> tuple[tuple[str, str], ...]:
        """Pairs of a description and the name of a step with a stream time. If the step's number has changed, a later
        start finds it by the description."""
        names = ", ".join(sorted(self.store_names))
        return ((f"processor of {names}", self.name),) if names else ()

    # --- parts -------------------------------------------------------------------------------------------------------

    def parts(self, above: tuple[str, ...], facts: Stores) -> list[Part]:
        """The sources, processors and sinks that it consists of, as in Kafka Streams.

        Args:
            above: the parts whose records it gets.
            facts: which steps have stores.
        """
        stores, reads = self.connected_stores(facts), self.read_tables(facts)
        return [Part("processor", self.name, self, predecessors=above, stores=stores, reads=reads)]

    def connected_stores(self, facts: Stores) -> tuple[str, ...]:
        """The stores that its part is connected to. In a cogroup these are connected to its streams instead."""
        own = facts.stores.get(self)
        return () if own is None or self.sides else (own.name,)

    def read_tables(self, facts: Stores) -> tuple[str, ...]:
        """The tables that it reads without receiving their records."""
        return ()
