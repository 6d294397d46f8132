"""A log: topics with partitions of ordered records, written in atomic appends. ``contract`` defines its operations."""

from __future__ import annotations

from typing import Any

from penstock.log.contract.publishing import Publishing
from penstock.log.contract.reader import Reader
from penstock.log.contract.topics import TopicInfo, Topics
from penstock.log.contract.writer import Writer
from penstock.log.records import Records
from penstock.storage.base import Storage

__all__ = ["Log", "Records", "TopicInfo"]


class Log(Topics, Reader, Writer, Publishing):
    """Topics of records. A log that processes share may be used by several of them at once."""

    @property
    def place(self) -> Any:
        """The argument with which ``open_log`` opens the same log in another process; picklable. None if only this
        process has it.
        """
        return self.url

    def with_outbox(self, outbox: Storage, application_id: str, at_least_once: bool = False) -> Log:
        """Return the log as an application uses it.

        Args:
            outbox: where records wait to be appended, for a log without a place of its own for them.
        """
        return self

    def close(self) -> None:
        """Close connections."""
