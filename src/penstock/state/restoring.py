"""Progress of a restore: users' listeners, and the steps that a task reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from penstock.state.interface import TopicPartition

START, BATCH, END, SUSPENDED = "start", "batch", "end", "suspended"


class StateRestoreListener:
    """Hears about the restores of an application's stores, as in Kafka Streams. By default its methods do nothing.

    Offsets are numbers of commits. A restore reads a snapshot, and then the delta files of the later commits. Several
    tasks restore at the same time, but the program that started the application makes the calls one after the other. If
    a listener raises an error, Penstock logs the error, and the restore continues.

    >>> class Prints(StateRestoreListener):
    ...     def on_restore_end(self, topic_partition, store_name, total_restored):
    ...         print(store_name, topic_partition.partition, total_restored)
    >>> Prints().on_restore_end(TopicPartition("app-counts-changelog", 0), "counts", 7)
    counts 0 7
    """

    def on_restore_start(
        self, topic_partition: TopicPartition, store_name: str, starting_offset: int, ending_offset: int
    ) -> None:
        """A restore begins.

        Args:
            starting_offset: the commit of the store on disk, or -1.
            ending_offset: the commit to which it is restored.
        """

    def on_batch_restored(
        self, topic_partition: TopicPartition, store_name: str, batch_end_offset: int, num_restored: int
    ) -> None:
        """A snapshot or a delta file has been written into the store.

        Args:
            batch_end_offset: the commit of the store now.
            num_restored: the number of rows of this batch; an estimate for a snapshot.
        """

    def on_restore_end(self, topic_partition: TopicPartition, store_name: str, total_restored: int) -> None:
        """A restore is complete; ``total_restored`` rows were written."""

    def on_restore_suspended(self, topic_partition: TopicPartition, store_name: str, total_restored: int) -> None:
        """A restore ended early, after ``total_restored`` rows: its process died, or a file was damaged. It begins
        again, or the application stops."""


class RestoreStep(msgspec.Struct, frozen=True):
    """A step in the restore of one store of one task."""

    kind: str
    task: str
    store: str
    at: int
    """The commit that the store is at."""
    until: int
    """The commit to which it is restored."""
    rows: int = 0
    """The rows of this batch; at the end, of all batches."""


Tell = Callable[[RestoreStep], None]


class Restoring:
    """The restore of one task's stores, reported step by step."""

    def __init__(self, task: str, stores: Iterable[str], until: int, tell: Tell | None):
        self._task, self._until = task, until
        self._tell = tell if until >= 0 else None
        self._at = dict.fromkeys(stores, -1)
        self._rows = dict.fromkeys(self._at, 0)
        self._has_begun = False

    def start(self, at: int) -> None:
        """Note the commit of the stores before the restore; called once."""
        if not self._has_begun:
            self._has_begun = True
            for store in self._at:
                self._say(START, store, at)

    def goes_on(self, until: int) -> None:
        """Note that a copy, which was brought to a commit, follows to a later one."""
        self._until = until

    def batch(self, store: str, at: int, rows: int) -> None:
        if store in self._rows and rows:
            self._rows[store] += rows
            self._say(BATCH, store, at, rows)

    def end(self) -> None:
        for store, rows in self._rows.items():
            self._say(END, store, self._until, rows)

    def suspend(self) -> None:
        if self._has_begun:
            for store, rows in self._rows.items():
                self._say(SUSPENDED, store, self._at[store], rows)

    def _say(self, kind: str, store: str, at: int, rows: int = 0) -> None:
        self._at[store] = at
        if self._tell is not None:
            self._tell(RestoreStep(kind, self._task, store, at, self._until, rows))
