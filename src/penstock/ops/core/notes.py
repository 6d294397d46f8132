"""The facts of a task and the notes of its operators, by lifetime: the task, a commit, a chunk."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from penstock.arrays import Binary, IntArray
from penstock.columns.batch import Order, Origins
from penstock.figures.metrics import Metric
from penstock.handlers import Handlers
from penstock.ops.core.arrivals import Arrivals
from penstock.ops.core.failures import Known, Origin
from penstock.ops.core.left_changes import LeftChanges
from penstock.ops.core.seen import Seen
from penstock.ops.core.written import PriorValues, Written
from penstock.serdes import Serde
from penstock.state.columns.rows import Values
from penstock.state.kinds.versioned.puts import VersionedPuts


def _of_no_topic(positions: IntArray) -> IntArray:
    return np.full(len(positions), -1, np.int64)


def _from_nowhere(positions: IntArray) -> Origins:
    return Origins.alike(len(positions))


def _one_partition(topic: str, makes: bool, key: Serde, value: Serde) -> int:
    return 1


@dataclass(frozen=True, kw_only=True)
class TaskFacts:
    """Facts that do not change as long as a task runs."""

    task: str
    """Its name, such as ``0_1``."""
    application_id: str = ""
    handlers: Handlers = field(default_factory=Handlers)
    """Decides about records that fail."""
    origin: Callable[[int], Origin]
    """Finds the origin of the record at a position."""
    offsets: Callable[[IntArray], IntArray] = _of_no_topic
    """The offsets of the records at some positions; -1 for those that no record of a topic caused."""
    origins: Callable[[IntArray], Origins] = _from_nowhere
    """The origins of the records at some positions, ascending, with the names that topics have in Kafka."""
    partitions_of: Callable[[str, bool, Serde, Serde], int] = _one_partition
    """The number of partitions of a topic that records are sent to. The topic is created, if allowed, for the given key
    and value types."""
    internal_topics: frozenset[str] = frozenset()
    """The repartition topics, which no function may choose as an output."""
    roots: Callable[[IntArray], IntArray] | None = None
    """The numbers of the input records that caused, through internal topics, the records at some positions; None if
    unknown."""
    wall_clock_ms: Callable[[], int] = int
    emit_interval_ms: int = 0
    """Wall-clock milliseconds between two checks for windows that have closed."""
    commits_each_record: bool = False
    """True if each record is a commit of its own, and so updates a key at most once, even where many records arrive
    together."""
    flushes_each_record: bool = False
    """True if each record is a commit of its own, after which caches send its updates, even where many records arrive
    together."""
    replays: bool = False
    """True if a record may be processed a second time, on state that it has changed already."""
    known: Known = field(default_factory=Known)
    """The facts of the topology about keys and values, for error messages."""
    looked_up: frozenset[str] = frozenset()
    """The stores whose writes operators note in ``ChunkNotes.written`` or ``prior``."""
    looked_up_as_of: frozenset[str] = frozenset()
    """The versioned stores that other steps read as of a time."""
    joined_completely: frozenset[str] = frozenset()
    """Those of ``looked_up_as_of`` whose contents before a put are also read."""


class DeadLetter(NamedTuple):
    """A record that failed, and why."""

    origin: Origin
    headers: tuple[tuple[str, bytes], ...]
    """The record's own headers, followed by the reason."""


@dataclass
class CommitNotes:
    """Notes that last until the next commit begins."""

    metrics: dict[Metric, int] = field(default_factory=dict)
    dead_letters: list[DeadLetter] = field(default_factory=list)
    """Taken out and published at the end of each chunk."""
    failed: set[int] = field(default_factory=set)
    """The positions of the records that have failed: each is counted once, where it failed first."""
    is_asked_for: bool = False
    """True if a processor has asked for a commit soon."""
    more_is_waiting: bool = False
    """When a commit begins, and when it ends: True if a record that was read earlier has not arrived here yet."""
    overtaking: set[str] = field(default_factory=set)
    """Steps that send changes of a foreign-key join's left table, where any change may overtake an earlier one of its
    key."""
    subscribed_overtaking: defaultdict[str, list[Binary]] = field(default_factory=lambda: defaultdict(list))
    """The keys of the subscriptions that those steps have sent, by the store that holds them."""
    processed: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    """The number of records that reached each step. Not part of ``metrics``: how often a table sends an update depends
    on caches, and so on where commits are."""
    observed: dict[Metric, int] = field(default_factory=dict)
    """Figures that depend on the clock, or on where commits are."""
    watching: Callable[[Seen], None] | None = None
    """Called with what windowed steps do with each record, if somebody watches."""
    dropped_positions: list[IntArray] | None = None
    """For tests: collects the positions of dropped records, if it is a list."""

    def begin(self, more_is_waiting: bool) -> None:
        """Reset the notes for the next commit."""
        self.metrics.clear()
        self.processed.clear()
        self.observed.clear()
        self.failed.clear()
        self.overtaking.clear()
        self.subscribed_overtaking.clear()
        self.is_asked_for = False
        self.more_is_waiting = more_is_waiting


@dataclass
class ChunkNotes:
    """Notes that last until the next chunk begins."""

    written: dict[str, Written[Values]] = field(default_factory=dict)
    """The chunk's writes into stores that other steps look up, by store."""
    prior: dict[str, Written[PriorValues]] = field(default_factory=dict)
    """The updates that suppressions have held back or emitted in this chunk, by buffer."""
    sent: dict[str, Written[Values]] = field(default_factory=dict)
    """The updates that a commit sends on for tables that held them back, by store."""
    puts: dict[str, tuple[VersionedPuts, Order]] = field(default_factory=dict)
    """The chunk's puts into versioned stores that other steps read as of a time."""
    left_changes: dict[str, LeftChanges] = field(default_factory=dict)
    """The chunk's changes in the left tables of foreign-key joins, by the step that sends them."""
    is_depth_first: bool = False
    """True if the chunk is one record whose results are processed depth first: then each result finds the stores as
    they are at its turn."""
    arrivals: Arrivals | None = None
    """The chunk's input records, if a processor may ask for stream time."""

    def begin(self) -> None:
        """Forget the notes of the previous chunk."""
        self.written.clear()
        self.prior.clear()
        self.sent.clear()
        self.left_changes.clear()
        self.arrivals = None

    def note(self, store: str, written: Written[Values]) -> None:
        """Note a step's writes into a store. For a record whose results are processed depth first, this may happen
        repeatedly."""
        before = self.written.get(store) if self.is_depth_first else None
        self.written[store] = written if before is None else before.followed_by(written)

    def write_put_off(self, store: str) -> None:
        """Apply the postponed puts of a store that is about to be read."""
        puts, _ = self.puts.pop(store, (None, ()))
        if puts is not None:
            puts.apply()

    def end(self) -> None:
        """Apply all postponed puts."""
        for puts, _ in self.puts.values():
            puts.apply()
        self.puts.clear()
