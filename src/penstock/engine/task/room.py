"""How many records a task may take before its stores hold as many uncommitted writes as they may (KIP-892).

A limit may be far below a chunk, so chunks get smaller as it comes near, down to single records: what is uncommitted
stays within the limit and what one record makes. How much a record makes is known from the chunks before. Where the
limit has room for few records, each record is a chunk: a processor may write a hundred times as much for the next one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.engine.shared.first_writes import BYTES, WRITES
from penstock.ops.core.context import Context
from penstock.settings import Settings
from penstock.state.task_state import TaskState

_FEW = 1_000
"""A limit that has room for no more records is approached record by record."""
_LARGE = 10_000
"""A limit that has room for so many records is not approached record by record."""
_SMALL_SHARE, _LARGE_SHARE = 16, 4
"""A chunk may take one part in so many of the room, if its records make no more than earlier ones."""
_RESERVE = 32
"""A large limit counts as reached when one part in so many is left."""


class _Limit:
    """One limit.

    Args:
        most: the limit; -1 for none.
        unknown: what a record is taken to make, as long as nothing is known.
        held: returns what counts towards it now.
        waiting: returns how many updates caches hold, which they send at the commit.
    """

    def __init__(self, most: int, unknown: int, held: Callable[[], int], waiting: Callable[[], int]):
        self._most = most
        self._unknown = unknown
        self._held = held
        self._waiting = waiting
        self._before = 0.0
        self._of_a_record = 0.0
        """The most that a record has made, on average in a chunk."""
        self._of_a_byte = 0.0
        """The most that a byte of records has made, on average in a chunk."""
        self._of_a_sent = float(unknown)
        """The most that an update made which a cache sent at a commit, on average in the commit."""

    def begin(self) -> None:
        """Begin with a commit: what one unusual record has made counts less and less."""
        self._of_a_record /= 2
        self._of_a_byte /= 2
        self._before = self._counted()

    def is_reached(self) -> bool:
        """Return whether nothing more should be taken."""
        if self._most < 0:
            return False
        left = self._most - self._counted()
        return left <= 0 or (self._is_large() and left < self._most / _RESERVE)

    def records(self) -> float:
        """Return how many records may be taken at once."""
        if self._most < 0:
            return float("inf")
        if not self._of_a_record:
            return self._most / self._unknown
        return 1 if self._most <= _FEW * self._of_a_record else self._share() / self._of_a_record

    def nbytes(self) -> float:
        """Return how many bytes of records may be taken at once."""
        return self._share() / self._of_a_byte if self._most >= 0 and self._of_a_byte else float("inf")

    def _share(self) -> float:
        """Return how much the next chunk may make."""
        return (self._most - self._counted()) / (_LARGE_SHARE if self._is_large() else _SMALL_SHARE)

    def took(self, records: int, nbytes: int) -> None:
        """Note what a chunk has made; of 0 records, what was made by no new record."""
        counted = self._counted()
        if records:
            self._of_a_record = max(self._of_a_record, (counted - self._before) / records)
        if nbytes:
            self._of_a_byte = max(self._of_a_byte, (counted - self._before) / nbytes)
        self._before = counted

    def sent(self, updates: int, held: int) -> None:
        """Note what these updates of caches have made at the commit.

        Args:
            held: what counted towards the limit before.
        """
        made = (self._held() - held) / updates
        self._of_a_sent = made if self._of_a_sent == self._unknown else max(made, self._of_a_sent)

    def held(self) -> int:
        """What counts towards it now, without what caches will send."""
        return self._held()

    def _counted(self) -> float:
        """What counts towards it now, and what the updates in caches will make at the commit."""
        waiting = self._waiting()
        return self._held() + (waiting * self._of_a_sent if waiting else 0)

    def _is_large(self) -> bool:
        return self._most > _LARGE * self._of_a_record > 0


class Room:
    """The room for uncommitted writes in the stores of a task.

    Args:
        context: it counts what caches hold and send.
    """

    def __init__(self, state: TaskState, settings: Settings, context: Context):
        self._context = context

        def waiting() -> int:  # of one store nothing is written that a cache sends
            return context.held_records if len(state.stores) > 1 else 0

        self._limits = (
            _Limit(
                settings.statestore_uncommitted_max_records,
                WRITES,
                lambda: state.approximate_num_uncommitted_entries,
                waiting,
            ),
            _Limit(
                settings.statestore_uncommitted_max_bytes,
                BYTES,
                lambda: state.approximate_num_uncommitted_bytes,
                waiting,
            ),
        )
        self._chunk_records, self._chunk_bytes = settings.chunk_records, settings.chunk_bytes
        self._has_stores = bool(state.stores)

    def begin(self) -> None:
        """Begin with a commit."""
        for limit in self._limits:
            limit.begin()

    def is_taken(self) -> bool:
        """Return whether the stores hold as many uncommitted writes as they may."""
        return any(limit.is_reached() for limit in self._limits)

    def records(self) -> int:
        """Return how many records the next chunk may have."""
        return min(self._chunk_records, self.of_round())

    def nbytes(self) -> int:
        """Return how many bytes of records the next chunk may have."""
        return int(max(min(self._chunk_bytes, *(limit.nbytes() for limit in self._limits)), 1))

    def of_round(self) -> int:
        """Return how many records may enter a circle in the next round."""
        if not self._has_stores:
            return sys.maxsize
        return int(max(min(sys.maxsize, *(limit.records() for limit in self._limits)), 1))

    @contextmanager
    def sending(self) -> Iterator[None]:
        """The context in which caches send what they hold."""
        held = [limit.held() for limit in self._limits]
        self._context.caches_send, self._context.sent_records = True, 0
        try:
            yield
        finally:
            self._context.caches_send = False
        for limit, before in zip(self._limits, held, strict=True):
            if self._context.sent_records:
                limit.sent(self._context.sent_records, before)

    def took(self, records: int, nbytes: int = 0) -> None:
        """Note that so many records have been processed, with all that came of them.

        Args:
            nbytes: how many bytes they have, if that is known.
        """
        for limit in self._limits:
            limit.took(records, nbytes)
