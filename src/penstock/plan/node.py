"""What all steps of a topology have, and the stores that some of them want.

A node states facts: what it needs, what it makes, whether it changes keys. ``Node`` has all of them, with what most
steps answer; a class that answers otherwise has a field or a property of that name. Decisions taken from the facts of
several nodes (where a table must have a store, who sends old values, what is a sub-topology) are taken in ``passes``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from penstock.offset_reset import AutoOffsetReset
from penstock.plan.aggregation import Aggregation
from penstock.plan.columns import BOTH, Columns, columns_of
from penstock.plan.fields import Field
from penstock.plan.functions import Maker, UserFunction
from penstock.plan.kept import Kept
from penstock.plan.timestamps import Extractor
from penstock.plan.windows import JoinWindows, Windows
from penstock.serdes import Serde


@dataclass(frozen=True, eq=False, kw_only=True)
class StoreSpec:
    """A state store that a step wants: its name and kind, and how its results are emitted."""

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
    """``key_value``, ``timestamped_key_value``, ``window``, ``timestamped_window``, ``session`` or ``versioned``; None
    of stores that a step made by itself, which decides."""
    max_entries: int | None = None
    """How many entries it may have before it forgets those that were not used for longest; None for any number."""
    window_size: int | None = None
    retain_duplicates: bool = False
    logging: bool = True
    supplier: Any = None
    """What makes stores of a user's own; None for Penstock's."""

    @property
    def is_timestamped(self) -> bool:
        """Whether processors see its values with timestamps, as they do those of tables."""
        return self.shape is None or self.shape.startswith("timestamped")

    @property
    def types(self) -> tuple[Serde, Serde]:
        """Of keys and values, which are known when the topology is built."""
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
    """The parts whose stores it looks values up in, where no records come from them."""


class Hold(NamedTuple):
    """How a step holds back what it sends on."""

    wait_ms: int
    """How far stream time must be past an entry's time, or a window's end, for it to go."""
    is_of_windows: bool
    """Whether what is held are windows that have not closed."""
    idle_advance_ms: int | None = None
    """By how much stream time moves on when no record has come for as long; None where it does not."""


class Stores(Protocol):
    """Which steps have stores: what ``passes/stores.py`` finds out, as far as steps ask for it."""

    @property
    def stores(self) -> Mapping[Node, StoreSpec]: ...

    def looked_up_tables(self, table: Node) -> tuple[Node, ...]:
        """The tables in whose stores the values of a table can be told."""
        ...

    def looked_up_stores(self, table: Node) -> tuple[str, ...]:
        """The names of these stores."""
        ...


UNTRACED = {"untraced": True}
"""The metadata of a field of a node that does not tell where its stores stand: one that came with a later release."""

if TYPE_CHECKING:
    from builtins import property as fact
else:

    class fact:  # noqa: N801 - it stands where ``property`` does
        """A property in whose place a class below may have a field.

        A dataclass would take a plain property for the field's default, and could not set the field.
        """

        def __init__(self, answer: Callable[[Node], Any]):
            self._answer = answer
            self.__doc__ = answer.__doc__

        def __get__(self, node: Node | None, owner: type[Node]) -> Any:
            if node is None:
                raise AttributeError(f"{owner.__name__} answers {self._answer.__name__!r} of a node, not of its class")
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
    """The method of the DSL that gives records other keys, for messages; nothing for steps that do not."""
    changes_key: ClassVar[bool] = False
    is_table: ClassVar[bool] = False
    is_source: ClassVar[bool] = False
    """Whether it reads topics of the log."""
    is_global: ClassVar[bool] = False
    """Whether every task has it as a whole."""
    is_side: ClassVar[bool] = False
    """Whether it is one of several streams that the step below aggregates together."""
    is_in_kafka_streams: ClassVar[bool] = True
    """Whether Kafka Streams has such a step."""
    hosts: ClassVar[bool] = False
    """Whether a processor or a transformer of the user's works in it, with a life of its own."""
    makes_one: ClassVar[bool] = False
    """Whether it makes one record, or none, of a record, and holds none back."""

    # --- topics ------------------------------------------------------------------------------------------------------

    @fact
    def topics(self) -> tuple[str, ...]:
        """The topics of the log that it reads."""
        return ()

    @fact
    def carries_changes(self) -> bool:
        """Whether its records are changes of a table, with the values before."""
        return False

    @fact
    def source_topics(self) -> tuple[str, ...]:
        """The topics that its records come from, the one that it repartitions through as well."""
        return self.topics

    @fact
    def pattern(self) -> str | None:
        """The regular expression for the names of its topics."""
        return None

    @fact
    def timestamp(self) -> UserFunction | Extractor | None:
        """What gives the times of the records that it reads; None for the times that they carry."""
        return None

    @fact
    def offset_reset(self) -> AutoOffsetReset | None:
        """Where a source begins that has not been read yet; None for the setting ``auto_offset_reset``."""
        return None

    @fact
    def selector(self) -> UserFunction | None:
        """What chooses a topic for each record of a sink; None where the topic is fixed."""
        return None

    @fact
    def makes_topics(self) -> bool:
        """Whether topics that a sink chooses, and that do not exist, are made; else records for them fail."""
        return True

    def may_write(self, topic: str) -> bool:
        """Whether it may write a topic of the log."""
        return False

    # --- types and functions -----------------------------------------------------------------------------------------

    @fact
    def key(self) -> Serde | None:
        """The type of the keys of its results, where it says one; None where they stay as they are."""
        return None

    @fact
    def value(self) -> Serde | None:
        """The type of the values of its results, where it says one."""
        return None

    @property
    def types(self) -> tuple[Serde, Serde]:
        """Those of keys and values, of a step that says both."""
        assert self.key is not None
        assert self.value is not None
        return self.key, self.value

    @fact
    def function(self) -> UserFunction | Field | None:
        """The function of the user's that gets each record, if there is one and no more."""
        return None

    @fact
    def aggregation(self) -> Aggregation | None:
        """How values become one."""
        return None

    @fact
    def makes_key(self) -> Maker | None:
        """The function that the keys of its results come out of; None where they stay as they are."""
        return None

    @fact
    def makes_value(self) -> Maker | None:
        """The function that the values of its results come out of."""
        return None

    keeps_input: ClassVar[bool] = False
    """Whether it keeps the records that it gets, so that their types matter to it and not only those of its results."""
    keeps_columns: ClassVar[Columns] = BOTH
    """The columns that it hands on as they are."""
    unpacks: ClassVar[bool] = False
    """Whether it takes keys and values out of others, as a source does out of a topic."""

    @fact
    def reads_columns(self) -> Columns:
        """The columns that its functions look into."""
        return columns_of(self.function)

    # --- tables and joins --------------------------------------------------------------------------------------------

    inherits_versions: ClassVar[bool] = False
    """Whether a table that is not materialized anew is versioned if the one in front of it is (KIP-914)."""
    collapses_updates: ClassVar[bool] = False
    """Whether it holds a table's updates back and sends on only some of them, which versioned tables do not allow. What
    its store has are these updates, and the table's values are those of the table in front of it."""
    asks_old_if_kept: ClassVar[bool] = False
    """Whether it does without old values where its table has no store to tell them."""
    brings_values: ClassVar[bool] = False
    """Whether its records bring along what Kafka Streams looks up for it."""

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
        """The steps whose equal keys must lie in the same partition; none for steps that do not join."""
        return ()

    @property
    def also_behind(self) -> tuple[Node, ...]:
        """Steps whose records it gets besides those of its parents, where they are not left out."""
        return ()

    @property
    def joined_tables(self) -> tuple[Node, ...]:
        """The tables that it is a join of; none for anything but a join of tables."""
        return ()

    @property
    def asks_old_of(self) -> tuple[Node, ...]:
        """The tables that have to send it a key's old value along with the new one."""
        return ()

    @property
    def looks_up(self) -> tuple[Node, ...]:
        """The tables in which it looks values up."""
        return ()

    @property
    def looks_up_as_of(self) -> tuple[Node, ...]:
        """Those in which it looks up what was valid at a time, if they are versioned."""
        return ()

    @property
    def takes_null_keys(self) -> bool:
        """Whether records without a key mean something to it, so that repartitions before it let them through."""
        return False

    # --- windows -----------------------------------------------------------------------------------------------------

    @fact
    def windows(self) -> Windows | JoinWindows | None:
        """Its windows of time: those of an aggregation, or of a join of streams."""
        return None

    @property
    def windowed_by(self) -> Windows | None:
        """The windows whose aggregates the table consists of."""
        return None

    @fact
    def final(self) -> bool:
        """Whether it sends on one result for each window, when it has closed."""
        return False

    @property
    def hold(self) -> Hold | None:
        """How it holds back what it sends on; None for steps that do not."""
        return None

    @property
    def sides(self) -> tuple[Node, ...]:
        """The streams that it aggregates together; none for an aggregation of one stream."""
        return tuple(parent for parent in self.parents if parent.is_side)

    # --- stores ------------------------------------------------------------------------------------------------------

    store_advice: ClassVar[str] = 'store="..."'
    """What to write so that its store has a name."""
    store_when_asked: ClassVar[bool] = False
    """Whether it has its store only if the user named it, or somebody downstream needs it."""
    caches_updates: ClassVar[bool] = True
    """Whether updates of its table may wait in a cache for the commit, where its store is to cache."""
    caches_last_update: ClassVar[bool] = False
    """Whether what goes on at the commit is the last update of each key, and nothing else."""

    @fact
    def store(self) -> StoreSpec | None:
        """The store of its own, if it has one or would have one when it is asked for it."""
        return None

    @property
    def keeps(self) -> Kept:
        """What it keeps in this store."""
        return Kept()

    @property
    def partition_key(self) -> Serde | None:
        """The type of the keys that say in which partition a row of its store belongs."""
        return None if self.store is None else self.store.key

    @fact
    def store_names(self) -> Sequence[str]:
        """The stores that its processor is connected to."""
        return ()

    @property
    def clocks(self) -> tuple[tuple[str, str], ...]:
        """Names of steps that have a stream time, each behind what tells which step it is when its number moves."""
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
        """The stores that its part is connected to. What aggregates several streams has its store from theirs."""
        own = facts.stores.get(self)
        return () if own is None or self.sides else (own.name,)

    def read_tables(self, facts: Stores) -> tuple[str, ...]:
        """The tables that it looks values up in, where no records come from them."""
        return ()
