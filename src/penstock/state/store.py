"""What the engine asks of every kind of state store."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
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
    """Some of the keys that were looked up, all in one piece of a store."""

    piece: TransactionalRows
    rows: IntArray
    places: IntArray
    """Where these keys stand among all that were looked up."""


class Located:
    """Where a batch of keys lies in a store: looked up once, then read and written by row."""

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
        """Write the values of all keys; those outside of every piece are left out."""
        if len(self.parts) == 1 and len(self.parts[0].rows) == self._count:
            self.parts[0].piece.put(self.parts[0].rows, values)
            return
        for piece, rows, places in self.parts:
            piece.put(rows, Values(values.data.take(pa.array(places)), values.timestamps[places]))


class StateStore(interface.StateStore):
    """A named store of one task. All its writes belong to the running transaction until ``commit``.

    It is the ``StateStore`` of KIP-892 in columns: several keys at once, and ``commit`` begins the next transaction.
    What commits on disk stand for is kept by the task's database, in a column family of its own.
    """

    name: str
    in_memory = False
    """Whether all rows are in memory, besides what is on disk."""
    content = ""
    """What its rows are, in words: each start writes it down, and the next one goes on only with the same."""
    needs_folder = False
    """Whether it keeps files of its own, in the folder of its context."""
    restored_to = -1
    """The commit that ``init`` has brought the rows to; later ones come by ``apply``."""
    _context: TaskContext | None = None
    _is_closed = False

    def init(self, context: StateStoreContext, root: interface.StateStore) -> None:
        """Take up what is on disk."""
        assert isinstance(context, TaskContext)
        self._context = context
        self.restored_to = context.at
        self.open(context.database)

    def close(self) -> None:
        """The task lets go of the store, and of the disk below it."""
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
        """The commit that the rows on disk are of; delta files have what is newer."""
        if not self.persistent or self._context is None or topic_partition != self._context.changelog(self.name):
            return None
        return self._context.committed()

    @abstractmethod
    def pieces(self) -> list[TransactionalRows]:
        """The parts that hold the rows."""

    def approximate_rows(self) -> int:
        """How many rows whoever reads the store sees; of those that are on disk only, about."""
        return sum(piece.approximate_num_entries() for piece in self.pieces())

    @abstractmethod
    def open(self, database: Database | None) -> None:
        """Take up what is on disk; None for a store that lives in memory alone."""

    @abstractmethod
    def locate(self, keys: Keys, all_are_put: bool = False) -> Located:
        """Look up distinct keys.

        Args:
            all_are_put: whether every key is put next, so that nobody asks what the disk has for it.
        """

    @abstractmethod
    def put(self, located: Located, values: Values) -> None:
        """Write the values of keys that were looked up; null deletes."""

    @abstractmethod
    def families(self) -> dict[str, TransactionalRows]:
        """The parts that may have something to write to disk, by the names of their column families."""

    @abstractmethod
    def rows(self) -> Iterator[tuple[Any, ...]]:
        """All live rows in the order in which the store iterates."""

    def changes(self) -> ChangeSet | None:
        """What the transaction changed; None when it changed nothing."""
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
        """Write changes of a committed transaction that are not here yet, or some of them."""
        self.put(self.locate(changes.keys, all_are_put=True), changes.values)
        self.commit()

    def applied(self, changelog_offsets: ChangelogOffsets) -> None:
        """All changes of a commit have come by ``apply``."""

    def prepare(self) -> None:
        """Do what can fail before the transaction counts: ``commit`` comes when it does already."""

    def commit(self, changelog_offsets: ChangelogOffsets = NO_OFFSETS) -> None:
        """Keep what the transaction wrote, and begin the next one; offsets go to disk with the rows, in a flush."""
        for piece in self.pieces():
            piece.commit()

    def rollback(self) -> None:
        for piece in self.pieces():
            piece.rollback()

    def flushed(self, database: Database) -> None:
        """The dirty rows of ``families`` are on disk now."""
        for piece in self.pieces():
            piece.flushed()

    def evict(self, everything: bool = False) -> None:
        """Forget rows that are on disk."""
        for piece in self.pieces():
            piece.evict(everything)

    def state(self) -> dict[str, int]:
        """Numbers to keep with the commit, such as the store's own stream time."""
        return {}

    def restore_state(self, numbers: dict[str, int]) -> None:
        """Take up the numbers of a commit."""

    def is_crowded(self) -> bool:
        """Whether more is in memory than this store by itself may have there."""
        return False

    def is_crowded_by_uncommitted(self) -> bool:
        """Whether so much is uncommitted that a commit has to come before there is room again."""
        return False

    @property
    def nbytes(self) -> int:
        return sum(piece.nbytes for piece in self.pieces())

    @property
    def recent_nbytes(self) -> int:
        """Memory that ``evict`` would leave, about."""
        return sum(piece.recent_nbytes for piece in self.pieces())

    @property
    def approximate_num_uncommitted_entries(self) -> int:
        return sum(piece.approximate_num_uncommitted_entries for piece in self.pieces())

    @property
    def approximate_num_uncommitted_bytes(self) -> int:
        return sum(piece.approximate_num_uncommitted_bytes for piece in self.pieces())
