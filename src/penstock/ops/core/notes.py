"""What a task knows and what its operators note, each for its time: the task's, a commit's, a chunk's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from penstock.arrays import Binary, IntArray
from penstock.batch import Order, Origins
from penstock.handlers import Handlers
from penstock.metrics import Metric
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
    """What stays as it is as long as a task works."""

    task: str
    """Its name, such as ``0_1``."""
    application_id: str = ""
    handlers: Handlers = field(default_factory=Handlers)
    """What to do about records that fail."""
    origin: Callable[[int], Origin]
    """Finds where the record at a position came from."""
    offsets: Callable[[IntArray], IntArray] = _of_no_topic
    """The offsets of the records at some positions, -1 for those that no record of a topic caused."""
    origins: Callable[[IntArray], Origins] = _from_nowhere
    """Where the records at some positions, ascending, came from; with the names that topics have in Kafka."""
    partitions_of: Callable[[str, bool, Serde, Serde], int] = _one_partition
    """How many partitions a topic has that records go to; it is made, if it may be, for keys and values of types."""
    internal_topics: frozenset[str] = frozenset()
    """The repartition topics, which no function may choose."""
    roots: Callable[[IntArray], IntArray] | None = None
    """The numbers of the input records which caused, through internal topics, those at some positions; None where that
    is not known."""
    wall_clock_ms: Callable[[], int] = int
    emit_interval_ms: int = 0
    """Wall-clock time between two looks for windows that have closed."""
    commits_each_record: bool = False
    """Whether each record is a commit of its own and causes one update of a key at most, also where many records come
    at once."""
    replays: bool = False
    """Whether a record may come for a second time, on state that it has changed already."""
    known: Known = field(default_factory=Known)
    """What the topology tells about keys and values, for messages."""
    looked_up: frozenset[str] = frozenset()
    """The stores whose writes are to be noted in ``ChunkNotes.written`` or ``prior``."""
    looked_up_as_of: frozenset[str] = frozenset()
    """The versioned stores in which others look up what was valid at a time."""
    joined_completely: frozenset[str] = frozenset()
    """Those of them of which others also ask what they were before a put."""


class DeadLetter(NamedTuple):
    """A record that failed, and why."""

    origin: Origin
    headers: tuple[tuple[str, bytes], ...]
    """The record's own, and behind them the reason."""


@dataclass
class CommitNotes:
    """What is noted until the next commit begins."""

    metrics: dict[Metric, int] = field(default_factory=dict)
    dead_letters: list[DeadLetter] = field(default_factory=list)
    """Taken out, and put out, at the end of each chunk."""
    failed: set[int] = field(default_factory=set)
    """The positions of the records that have failed: each is counted once, where it failed first."""
    is_asked_for: bool = False
    """Whether a processor wants the commit soon."""
    more_is_waiting: bool = False
    """When a commit begins, and when it ends: whether something that was read before is still on its way here."""
    overtaking: set[str] = field(default_factory=set)
    """The steps that send changes of the left tables of foreign-key joins where any change may overtake one of its key
    before it."""
    subscribed_overtaking: defaultdict[str, list[Binary]] = field(default_factory=lambda: defaultdict(list))
    """The keys of the subscriptions that these have sent, by the stores that hold them."""
    processed: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    """How many records reached each step. How often an update of a table is sent on depends on caches and so on where
    commits are, which is why these are no ``metrics``."""
    observed: dict[Metric, int] = field(default_factory=dict)
    """Figures that depend on the clock, or on where commits are."""
    watching: Callable[[Seen], None] | None = None
    """Is told what steps with windows do with records, where somebody wants to see it."""
    dropped_positions: list[IntArray] | None = None
    """For tests: the positions of dropped records, when it is a list."""

    def begin(self, more_is_waiting: bool) -> None:
        """Count anew."""
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
    """What is noted until the next chunk begins."""

    written: dict[str, Written[Values]] = field(default_factory=dict)
    """What the chunk has written into the stores that others look things up in, by their names."""
    prior: dict[str, Written[PriorValues]] = field(default_factory=dict)
    """What suppressions have held back and let go of in it, by the names of their buffers."""
    sent: dict[str, Written[Values]] = field(default_factory=dict)
    """What a commit sends on of the tables that held it back, by the names of their stores."""
    puts: dict[str, tuple[VersionedPuts, Order]] = field(default_factory=dict)
    """What the chunk puts into the versioned stores in which others look up what was valid at a time."""
    left_changes: dict[str, LeftChanges] = field(default_factory=dict)
    """What the chunk changes in the left tables of foreign-key joins, by the steps that send it."""
    is_depth_first: bool = False
    """Whether it is one record, whose results go down one by one: then stores are what they are at each one's turn."""
    arrivals: Arrivals | None = None
    """The chunk's input records, where a processor may ask for stream time."""

    def begin(self) -> None:
        """Forget what the chunk before has written."""
        self.written.clear()
        self.prior.clear()
        self.sent.clear()
        self.left_changes.clear()
        self.arrivals = None

    def note(self, store: str, written: Written[Values]) -> None:
        """Note what a step writes into a store; of a record whose results go down one by one it may do so again."""
        before = self.written.get(store) if self.is_depth_first else None
        self.written[store] = written if before is None else before.followed_by(written)

    def write_put_off(self, store: str) -> None:
        """Write what was put off for a store, which somebody asks for."""
        puts, _ = self.puts.pop(store, (None, ()))
        if puts is not None:
            puts.apply()

    def end(self) -> None:
        """Write what was put off."""
        for puts, _ in self.puts.values():
            puts.apply()
        self.puts.clear()
