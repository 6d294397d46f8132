"""The operations with which an application publishes each commit once, despite crashes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

from penstock.log.contract.writer import LastAppend, Segment
from penstock.log.records import Records
from penstock.storage.base import Storage


class Judged(NamedTuple):
    """Records of a commit for a partition of a topic, with those that the topic will never accept."""

    topic: str
    partition: int
    records: Records
    refused: dict[int, str]
    """The rows that the topic refuses, and why."""


class Publishing(ABC):
    """Publishes commits to their topics. The defaults are for a log in which an append is the whole publishing."""

    def publishing(
        self, producer: str, sequence: int, offsets: Mapping[str, Sequence[int]], known: int | None = None
    ) -> AbstractContextManager[None]:
        """Return the context of one commit's appends. A log with transactions makes them visible together at its end.

        Args:
            offsets: the offsets up to which the application has read its sources; some logs publish them for others.
            known: the last commit that the log is known to have acknowledged; None to skip the check that the log still
                has it.

        Raises:
            CommitError: the log has lost it.
        """
        return nullcontext()

    @property
    def can_publish_beside(self) -> bool:
        """Whether one thread may publish a commit while another reads."""
        return False

    @abstractmethod
    def last_sequence(self, topic: str, producer: str) -> int:
        """Return the number of a producer's last append to a topic; -1 if it has made none."""

    @abstractmethod
    def last_append(self, topic: str, producer: str) -> LastAppend:
        """Return the number of a producer's last append to a topic, with its note."""

    @property
    def forgets_appends(self) -> bool:
        """Whether ``last_append`` may forget the append of a producer that was still for days."""
        return False

    def last_published(self, producer: str) -> int | None:
        """Return a producer's last numbered append to any topic; None if a commit is always in its topics."""
        return None

    def lacks(self, topic: str, producer: str, sequence: int) -> bool:
        """Return whether an append made to a topic is certainly missing; False if unknown."""
        return False

    def has_lost(self, topic: str, segments: Sequence[Segment]) -> bool:
        """Return whether segments written for a topic are certainly lost; False if unknown."""
        return False

    def judged(self, producer: str, sinks: Mapping[str, Sequence[Segment]]) -> list[Judged]:
        """Return a commit's records that are not in their topics yet, with those that the topics refuse."""
        return []

    @property
    def claims(self) -> Storage | None:
        """The storage in which the log records which checkpoint writes under each application id; None if only this
        process uses the log.
        """
        return None

    def sweep(self, topic: str, is_meant: Callable[[str], bool]) -> None:  # noqa: B027 - others leave nothing behind
        """Remove files with such names that writers left behind without appending them."""
