"""Where the stores of a task find themselves: what all stores are told, and what the engine's own ones stand on."""

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
        reads_only: the task is not at work: somebody only reads its stores, and leaves those of users alone.
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
        """Where rows are on disk; None when everything is in memory."""
        self.had_database = False
        """Whether there was a database, which is damaged: what users' stores have is this application's."""
        self.at = -1
        """The commit that the database was opened at."""
        self.newest = -1
        """The newest commit; the task is brought there."""
        self.snapshot = -1
        """The commit of the newest snapshot: from there on all delta files are there."""

    def changelog(self, store: str) -> TopicPartition:
        """What stands for the changelog of a store: named as in Kafka Streams, with the checkpoint's identity behind,
        so that what a store knows of another life of the application is not taken for this one's."""
        return TopicPartition(f"{self.application_id}-{store}-changelog.{self.application}", self.partition)

    def committed(self) -> int | None:
        """The commit that is on disk; None for none."""
        found = -1 if self.database is None else self.database.meta().get("commit", -1)
        return None if found < 0 else found
