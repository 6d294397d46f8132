"""A log: topics made of partitions of ordered records, written in atomic appends. ``contract`` says what it can do."""

from __future__ import annotations

from typing import Any

from penstock.log.contract.publishing import Publishing
from penstock.log.contract.reader import Reader
from penstock.log.contract.topics import TopicInfo, Topics
from penstock.log.contract.writer import Writer
from penstock.log.records import Records
from penstock.storage import Storage

__all__ = ["Log", "Records", "TopicInfo"]


class Log(Topics, Reader, Writer, Publishing):
    """Topics. Safe to use from several processes at once where the log is shared between processes."""

    @property
    def place(self) -> Any:
        """What ``open_log`` opens the same log with in another process, which can be pickled; None where only this
        process has it."""
        return self.url

    def with_outbox(self, outbox: Storage, application_id: str, at_least_once: bool = False) -> Log:
        """The log as an application uses it.

        Args:
            outbox: where what is written waits to be appended, in a log that has no place for it itself.
        """
        return self

    def close(self) -> None:
        """Let go of connections."""
