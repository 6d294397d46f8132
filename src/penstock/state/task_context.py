"""The StateStoreContext of one task: its ids and settings, plus its database and commit numbers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from penstock.state.database import Database
from penstock.state.interface import StateStoreContext, TopicPartition


class TaskContext(StateStoreContext):
    """The context of one task's stores.

    Args:
        reads_only: the task does not run: its stores are only read, and users' stores are left alone.
    """

    def __init__(
        self,
        application_id: str,
        task_id: str,
        app_configs: Mapping[str, Any] = MappingProxyType({}),
        reads_only: bool = False,
    ):
        super().__init__(application_id, task_id, Path(), app_configs)
        self.reads_only = reads_only
        self.application = ""
        """The identity of the checkpoint."""
        self.database: Database | None = None
        """The database on disk; None if everything is in memory."""
        self.had_database = False
        """True if there was a database that is damaged: then users' stores are known to be this application's."""
        self.at = -1
        """The commit of the database when it was opened."""
        self.newest = -1
        """The newest commit, to which the task is restored."""
        self.snapshot = -1
        """The commit of the newest snapshot; all delta files after it exist."""

    def changelog(self, store: str) -> TopicPartition:
        """The topic partition that identifies a store's changelog: named as in Kafka Streams, followed by the
        checkpoint's identity. So the offsets of an earlier life of the application are not mistaken for this one's."""
        return TopicPartition(f"{self.application_id}-{store}-changelog.{self.application}", self.partition)

    def committed(self) -> int | None:
        """The commit on disk, or None."""
        found = -1 if self.database is None else self.database.meta().get("commit", -1)
        return None if found < 0 else found
