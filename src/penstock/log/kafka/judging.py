"""Finds which records of a commit a broker refuses, and why, by asking the broker itself.

Records are tried in transactions that are aborted, so no ``read_committed`` consumer sees any of them. A broker refuses
whole batches, so a refused batch is halved until single records are left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from confluent_kafka import KafkaError

from penstock.arrays import IntArray
from penstock.errors import RefusedRecordError
from penstock.log.contract.publishing import Judged
from penstock.log.kafka.sink import Piece
from penstock.log.records import Records

_OF_TOPICS = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
)
"""Errors that concern every record of a topic."""

_Some = list[tuple[int, IntArray]]
"""Some rows of some pieces, by the numbers of the pieces."""


class Judging:
    """One examination of a commit's records.

    Args:
        gone: returns why a topic no longer accepts records for a partition; empty if it does.
        refused: returns the rows that a topic refuses because of its settings.
        tried: returns the broker's error for records, None if it accepts them; it drops them either way.
    """

    def __init__(
        self,
        pieces: Sequence[Piece],
        gone: Callable[[str, int], str],
        refused: Callable[[str, Records], Mapping[int, RefusedRecordError]],
        tried: Callable[[list[Piece]], KafkaError | None],
    ):
        self._pieces = pieces
        self._gone = gone
        self._refused = refused
        self._tried = tried
        self._found: list[dict[int, str]] = [{} for _ in pieces]

    def judged(self) -> list[Judged]:
        """Return the pieces, each with its refused rows and the reasons."""
        left: dict[str, _Some] = {}
        for number, (topic, partition, records) in enumerate(self._pieces):
            reason = self._gone(topic, partition)
            if reason:
                self._refuse([(number, np.arange(len(records)))], reason)
                continue
            refused = self._refused(topic, records)
            self._found[number] = {row: str(error) for row, error in refused.items()}
            rows = np.setdiff1d(np.arange(len(records)), list(refused))
            if len(rows):
                left.setdefault(topic, []).append((number, rows))
        if left and self._error_of([one for some in left.values() for one in some]) is not None:
            for some in left.values():
                self._search(some)
        return [Judged(*piece, found) for piece, found in zip(self._pieces, self._found, strict=True)]

    def _search(self, some: _Some) -> None:
        """Find the refused records among these."""
        error = self._error_of(some)
        if error is None:
            return
        if error.code() in _OF_TOPICS or _count(some) == 1:
            self._refuse(some, f"the broker refuses it: {error.str()} ({error.name()})")
            return
        for half in _halves(some):
            self._search(half)

    def _error_of(self, some: _Some) -> KafkaError | None:
        chosen = ((*self._pieces[number][:2], self._pieces[number][2].take(rows)) for number, rows in some)
        return self._tried(list(chosen))

    def _refuse(self, some: _Some, reason: str) -> None:
        for number, rows in some:
            self._found[number] |= dict.fromkeys(rows.tolist(), reason)


def _count(some: _Some) -> int:
    return sum(len(rows) for _, rows in some)


def _halves(some: _Some) -> tuple[_Some, _Some]:
    """Return the first and the second half.

    >>> [[(n, rows.tolist()) for n, rows in half] for half in _halves([(0, np.array([1])), (2, np.array([3, 4, 5]))])]
    [[(0, [1]), (2, [3])], [(2, [4, 5])]]
    """
    first: _Some = []
    second: _Some = []
    room = _count(some) // 2
    for number, rows in some:
        for part, into in ((rows[:room], first), (rows[room:], second)):
            if len(part):
                into.append((number, part))
        room -= min(room, len(rows))
    return first, second
