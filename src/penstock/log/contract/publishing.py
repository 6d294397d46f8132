"""What an application needs of a log to put out each commit once, whatever crashes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

from penstock.log.contract.writer import Segment
from penstock.log.records import Records
from penstock.storage import Storage


class Judged(NamedTuple):
    """Records that a commit has for a partition of a topic, with those that will never get there."""

    topic: str
    partition: int
    records: Records
    refused: dict[int, str]
    """The rows that the topic refuses, and why."""


class Publishing(ABC):
    """Brings commits to their topics; the defaults are those of a log in which an append is all there is to it."""

    def publishing(
        self, producer: str, sequence: int, offsets: Mapping[str, Sequence[int]], known: int | None = None
    ) -> AbstractContextManager[None]:
        """The appends of one commit, which a log that can makes visible together where the context ends well.

        Args:
            offsets: up to where the application has read its sources; a log that others look at tells them.
            known: the last commit that the log has acknowledged, as far as is known; None if it is not to be checked
                whether the log still has what it has acknowledged.

        Raises:
            CommitError: it has not.
        """
        return nullcontext()

    @property
    def can_publish_beside(self) -> bool:
        """Whether one thread may publish a commit while another reads."""
        return False

    @abstractmethod
    def last_sequence(self, topic: str, producer: str) -> int:
        """The number of a producer's last append to a topic; -1 when there is none."""

    def last_published(self, producer: str) -> int | None:
        """The last numbered append of a producer to any topic; None where nothing can be between a commit and its
        topics."""
        return None

    def lacks(self, topic: str, producer: str, sequence: int) -> bool:
        """Whether an append that was made to a topic is certainly not in it; False where nobody can tell."""
        return False

    def has_lost(self, topic: str, segments: Sequence[Segment]) -> bool:
        """Whether what was written to be appended to a topic is certainly gone; False where nobody can tell."""
        return False

    def judged(self, producer: str, sinks: Mapping[str, Sequence[Segment]]) -> list[Judged]:
        """The records of a commit that are not in their topics yet, with those that these refuse."""
        return []

    @property
    def claims(self) -> Storage | None:
        """Where the log keeps which checkpoint writes under which application id; None if only this process uses it."""
        return None

    def sweep(self, topic: str, is_meant: Callable[[str], bool]) -> None:  # noqa: B027 - others leave nothing behind
        """Remove files with such names that writers left behind without appending them."""
