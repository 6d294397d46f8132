"""Listeners of the copies of stores on other machines (Kafka's standby replicas)."""

from __future__ import annotations

from enum import StrEnum

from penstock.state.interface import TopicPartition


class SuspendReason(StrEnum):
    """Why a copy stops following its store.

    >>> SuspendReason.PROMOTED
    <SuspendReason.PROMOTED: 'promoted'>
    """

    MIGRATED = "migrated"
    """The copy ends: the application stops, its slot is gone or is on another machine, or the copy could not follow."""
    PROMOTED = "promoted"
    """The task has moved to the machine of the copy, and continues with it."""


class StandbyUpdateListener:
    """Hears about the copies of ``standby_replicas=1``, as in Kafka Streams. By default its methods do nothing.

    Offsets are numbers of commits, as for restores. The program that started the application makes the calls, one after
    the other. If a listener raises an error, Penstock logs the error, and the copies continue.

    >>> class Prints(StandbyUpdateListener):
    ...     def on_update_suspended(self, topic_partition, store_name, store_offset, current_end_offset, reason):
    ...         print(store_name, topic_partition.partition, reason)
    >>> counts = TopicPartition("app-counts-changelog", 0)
    >>> Prints().on_update_suspended(counts, "counts", 7, 9, SuspendReason.PROMOTED)
    counts 0 promoted
    """

    def on_update_start(self, topic_partition: TopicPartition, store_name: str, starting_offset: int) -> None:
        """A copy of a store begins to follow, before any row is loaded.

        Args:
            starting_offset: the commit of the copy on disk, or -1.
        """

    def on_batch_loaded(
        self,
        topic_partition: TopicPartition,
        store_name: str,
        task_id: str,
        batch_end_offset: int,
        batch_size: int,
        current_end_offset: int,
    ) -> None:
        """A snapshot or the rows of a commit have been loaded into a copy.

        Args:
            batch_end_offset: the commit of the copy now.
            batch_size: the number of rows of this batch; an estimate for a snapshot.
            current_end_offset: the newest commit of the task that the copy knows of.
        """

    def on_update_suspended(
        self,
        topic_partition: TopicPartition,
        store_name: str,
        store_offset: int,
        current_end_offset: int,
        reason: SuspendReason,
    ) -> None:
        """A copy stops following. After ``PROMOTED``, restore listeners hear what the task still has to restore.

        Args:
            store_offset: the commit of the copy.
            current_end_offset: the newest commit of the task that the copy knows of.
        """
