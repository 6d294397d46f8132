"""The engine's interface of all kinds of state stores."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from penstock.arrays import IntArray, concat
from penstock.state import interface
from penstock.state.columns.rows import Keys, Values
from penstock.state.database import Database
from penstock.state.interface import ChangelogOffsets, StateStoreContext, TopicPartition
from penstock.state.task_context import TaskContext
from penstock.state.transactional import ChangeSet, TransactionalRows

NO_OFFSETS: ChangelogOffsets = MappingProxyType({})


class Part(NamedTuple):
    """Some of the keys of a look-up, all in the same piece of a store."""

    piece: TransactionalRows
    rows: IntArray
    places: IntArray
    """The indexes of these keys among all keys of the look-up."""


class Located:
    """The places of a batch of keys in a store: looked up once, then read and written by row."""

    __slots__ = ("_count", "keys", "parts")

    def __init__(self, keys: Keys, parts: list[Part]):
        self.keys = keys
        self.parts = parts
        self._count = len(keys)

    def get(self) -> Values:
        """The values of all keys, in the order of the look-up."""
        if len(self.parts) == 1 and len(self.parts[0].rows) == self._count:
            return self.parts[0].piece.get(self.parts[0].rows)
        timestamps = np.full(self._count, -1, np.int64)
        entries = np.full(self._count, -1, np.int64)
        found, offset = [], 0
        for piece, rows, places in self.parts:
            values = piece.get(rows)
            timestamps[places] = values.timestamps
            entries[places] = np.arange(offset, offset + len(rows))
            found.append(values.data)
            offset += len(rows)
        data = concat(found) if found else pa.array([], pa.binary())
        return Values(data.take(pa.array(entries, mask=entries < 0)), timestamps)

    def put(self, values: Values) -> None:
        """Write the values of all keys; keys outside of every piece are left out."""
        if len(self.parts) == 1 and len(self.parts[0].rows) == self._count:
            self.parts[0].piece.put(self.parts[0].rows, values)
            return
        for piece, rows, places in self.parts:
            piece.put(rows, Values(values.data.take(pa.array(places)), values.timestamps[places]))


class StateStore(interface.StateStore):
    """A named store of one task. All its writes belong to the running transaction until ``commit``.

    It is the ``StateStore`` of KIP-892 in columns: it works on several keys at once, and ``commit`` begins the next
    transaction. The task's database keeps the offsets of the commit on disk, in a column family of its own.
    """

    name: str
    in_memory = False
    """True if all rows are in memory, in addition to those on disk."""
    content = ""
    """A description of its rows. Each start records it, and the next start requires the same."""
    needs_folder = False
    """True if it keeps files of its own, in the folder of its context."""
    restored_to = -1
    """The commit to which ``init`` has restored the rows; later commits are applied by ``apply``."""
    _context: TaskContext | None = None
    _is_closed = False

    def init(self, context: StateStoreContext, root: interface.StateStore) -> None:
        """Load the state on disk."""
        assert isinstance(context, TaskContext)
        self._context = context
        self.restored_to = context.at
        self.open(context.database)

    def close(self) -> None:
        """Release the store and the disk below it, at the end of the task."""
        self._is_closed = True

    @property
    def is_open(self) -> bool:
        return not self._is_closed

    @property
    def persistent(self) -> bool:
        return not self.in_memory and self._context is not None and self._context.database is not None

    def manages_offsets(self) -> bool:
        return self.persistent

    def get_committed_offset(self, topic_partition: TopicPartition) -> int | None:
        """The commit of the rows on disk; delta files have the newer ones."""
        if not self.persistent or self._context is None or topic_partition != self._context.changelog(self.name):
            return None
        return self._context.committed()

    @abstractmethod
    def pieces(self) -> list[TransactionalRows]:
        """The parts that hold the rows."""

    def approximate_rows(self) -> int:
        """The number of visible rows; approximate for rows that are only on disk."""
        return sum(piece.approximate_num_entries() for piece in self.pieces())

    @abstractmethod
    def open(self, database: Database | None) -> None:
        """Open the state on disk; None for a store that is only in memory."""

    @abstractmethod
    def locate(self, keys: Keys, all_are_put: bool = False) -> Located:
        """Look up distinct keys.

        Args:
            all_are_put: True if every key is put next, so that its row on disk is not needed.
        """

    @abstractmethod
    def put(self, located: Located, values: Values) -> None:
        """Write the values of located keys; null deletes."""

    @abstractmethod
    def families(self) -> dict[str, TransactionalRows]:
        """The parts that may have rows to write to disk, by the names of their column families."""

    @abstractmethod
    def rows(self) -> Iterator[tuple[Any, ...]]:
        """All live rows in the order of the store's iteration."""

    def changes(self) -> ChangeSet | None:
        """The changes of the transaction; None if there are none."""
        changed = [change for piece in self.pieces() if len((change := piece.changes()).keys)]
        if len(changed) <= 1:
            return changed[0] if changed else None
        times = None
        if changed[0].keys.times is not None:
            times = np.concatenate([change.keys.times for change in changed])
        keys = Keys(concat([change.keys.data for change in changed]), times)
        data = concat([change.values.data for change in changed])
        return ChangeSet(keys, Values(data, np.concatenate([change.values.timestamps for change in changed])))

    def apply(self, changes: ChangeSet) -> None:
        """Write changes, or some of them, of a committed transaction that are not here yet."""
        self.put(self.locate(changes.keys, all_are_put=True), changes.values)
        self.commit()

    def applied(self, changelog_offsets: ChangelogOffsets) -> None:
        """Note that all changes of a commit have been passed to ``apply``."""

    def prepare(self) -> None:
        """Do everything that can fail, before the transaction counts; ``commit`` is called when it already does."""

    def commit(self, changelog_offsets: ChangelogOffsets = NO_OFFSETS) -> None:
        """Keep the writes of the transaction, and begin the next one; offsets go to disk with the rows, in a flush."""
        for piece in self.pieces():
            piece.commit()

    def rollback(self) -> None:
        for piece in self.pieces():
            piece.rollback()

    def flushed(self, database: Database) -> None:
        """Note that the dirty rows of ``families`` are on disk."""
        for piece in self.pieces():
            piece.flushed()

    def evict(self, everything: bool = False) -> None:
        """Remove rows from memory that are on disk."""
        for piece in self.pieces():
            piece.evict(everything)

    def state(self) -> dict[str, int]:
        """Numbers that belong to the commit, such as the store's own stream time."""
        return {}

    def restore_state(self, numbers: dict[str, int]) -> None:
        """Restore the numbers of a commit."""

    def read_anywhere(self) -> AbstractContextManager[object]:
        """A context in which any thread may read it, while no other one works with it."""
        return nullcontext()

    def is_crowded(self) -> bool:
        """True if this store alone exceeds its memory limit."""
        return False

    def can_be_restored(self) -> bool:
        """True if the store has its committed rows again when it is opened again."""
        return True

    def is_crowded_by_uncommitted(self) -> bool:
        """True if there are so many uncommitted changes that only a commit can free memory."""
        return False

    @property
    def nbytes(self) -> int:
        return sum(piece.nbytes for piece in self.pieces())

    @property
    def recent_nbytes(self) -> int:
        """The approximate memory that ``evict`` would leave."""
        return sum(piece.recent_nbytes for piece in self.pieces())

    @property
    def changed_at(self) -> int:
        """A number that differs whenever the store was written, committed or rolled back in between."""
        return max((piece.changed_at for piece in self.pieces()), default=0)

    @property
    def approximate_num_uncommitted_entries(self) -> int:
        return sum(piece.approximate_num_uncommitted_entries for piece in self.pieces())

    @property
    def approximate_num_uncommitted_bytes(self) -> int:
        return sum(piece.approximate_num_uncommitted_bytes for piece in self.pieces())
