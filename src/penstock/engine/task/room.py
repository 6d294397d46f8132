"""How many records a task may take before its stores hold as many uncommitted writes as they may (KIP-892).

A limit may be far below a chunk, so chunks get smaller as it comes near, down to single records. How much a record
makes is known from the chunks before. Where the limit has room for few records, each record is a chunk.

A record may still make a thousand times as much as all before it. A chunk of several records that passes a limit counts
for nothing: the attempt is repeated, and ends before it. So what is uncommitted stays within the limit and what one
record makes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.engine.shared.first_writes import BYTES, WRITES
from penstock.engine.shared.runner import TooManyWritesError
from penstock.ops.core.context import Context
from penstock.settings import Settings
from penstock.state.task_state import TaskState
from penstock.state.transactional import BYTES_OF_A_ROW

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
        of_a_row: the least that a written row counts.
        unknown: the writes that a record is taken to make, as long as nothing is known.
        held: returns the writes that count towards it now.
        waiting: returns how many updates caches hold, which they send at the commit.
    """

    def __init__(self, most: int, of_a_row: int, unknown: int, held: Callable[[], int], waiting: Callable[[], int]):
        self._most = most
        self._of_a_row = of_a_row
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
        self._before = self.expected()

    def is_reached(self) -> bool:
        """Return whether nothing more should be taken."""
        if self._most < 0:
            return False
        left = self._most - self.expected()
        return left <= 0 or (self._is_large() and left < self._most / _RESERVE)

    def is_passed(self, pending: int = 0) -> bool:
        """Return whether the stores hold more, with so many rows that processors have not handed on."""
        return 0 <= self._most < self._held() + pending * self._of_a_row

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
        return (self._most - self.expected()) / (_LARGE_SHARE if self._is_large() else _SMALL_SHARE)

    def took(self, records: int, nbytes: int) -> None:
        """Note what a chunk has made; of 0 records, what was made by no new record."""
        counted = self.expected()
        if records:
            self._of_a_record = max(self._of_a_record, (counted - self._before) / records)
        if nbytes:
            self._of_a_byte = max(self._of_a_byte, (counted - self._before) / nbytes)
        self._before = counted

    def sent(self, updates: int, held: int) -> None:
        """Note how many writes these updates of caches have made at the commit.

        Args:
            held: the writes that counted towards the limit before.
        """
        made = (self._held() - held) / updates
        self._of_a_sent = made if self._of_a_sent == self._unknown else max(made, self._of_a_sent)

    def held(self) -> int:
        """The writes that count towards it now, without those of caches."""
        return self._held()

    def expected(self) -> float:
        """The writes that count towards it now, with those that the updates in caches will make at the commit."""
        waiting = self._waiting()
        return self._held() + (waiting * self._of_a_sent if waiting else 0)

    def _is_large(self) -> bool:
        return self._most > _LARGE * self._of_a_record > 0


class Room:
    """The room for uncommitted writes in the stores of a task.

    Args:
        context: it counts what caches hold and send.
        is_repeatable: whether an attempt can be repeated with fewer records.
    """

    def __init__(self, state: TaskState, settings: Settings, context: Context, is_repeatable: bool = True):
        self._context = context

        def waiting() -> int:  # of one store nothing is written that a cache sends
            return context.held_records if len(state.stores) > 1 else 0

        self._limits = (
            _Limit(
                settings.statestore_uncommitted_max_records,
                1,
                WRITES,
                lambda: state.approximate_num_uncommitted_entries,
                waiting,
            ),
            _Limit(
                settings.statestore_uncommitted_max_bytes,
                BYTES_OF_A_ROW,
                BYTES,
                lambda: state.approximate_num_uncommitted_bytes,
                waiting,
            ),
        )
        self._chunk_records, self._chunk_bytes = settings.chunk_records, settings.chunk_bytes
        self._has_stores = bool(state.stores)
        self._is_repeatable, self._stores = is_repeatable, state.stores
        self._most = sys.maxsize
        """How many records the task may take in this attempt."""
        self._may_pass = False
        """Whether it may pass limits, because it cannot take fewer records."""
        self._taken = 0
        """How many it has taken."""
        self._running = 0
        """How many records are processed together now."""

    def begin(self, most: int = sys.maxsize, goes_on: bool = False) -> None:
        """Begin with a commit, or with a part of it.

        Args:
            most: how many records the task may take in the attempt. 0: as few as possible, and these may pass limits.
            goes_on: whether it has taken some already.
        """
        self._most, self._may_pass, self._running = max(most, 1), most == 0, 0
        self._taken = self._taken if goes_on else 0
        for limit in self._limits:
            limit.begin()

    def is_taken(self) -> bool:
        """Return whether the task may take no more."""
        return self._taken >= self._most or any(limit.is_reached() for limit in self._limits)

    def records(self) -> int:
        """Return how many records the next chunk may have."""
        return max(min(self._chunk_records, self.of_round(), self._most - self._taken), 1)

    def nbytes(self) -> int:
        """Return how many bytes of records the next chunk may have."""
        return int(max(min(self._chunk_bytes, *(limit.nbytes() for limit in self._limits)), 1))

    def of_round(self) -> int:
        """Return how many records may enter a cycle in the next round."""
        if not self._has_stores:
            return sys.maxsize
        return int(max(min(sys.maxsize, *(limit.records() for limit in self._limits)), 1))

    @contextmanager
    def sending(self) -> Iterator[None]:
        """The context in which caches send what they hold."""
        before = [(limit.held(), limit.expected()) for limit in self._limits]
        self._context.caches_send, self._context.sent_records = True, 0
        try:
            yield
        finally:
            self._context.caches_send = False
        is_more = False
        for limit, (held, expected) in zip(self._limits, before, strict=True):
            if self._context.sent_records:
                limit.sent(self._context.sent_records, held)
                is_more |= limit.is_passed() and limit.held() > expected
        if is_more and self._taken > 1 and self._can_be_repeated():
            raise self._too_many(self._taken // 2)

    def enter(self, records: int) -> None:
        """Note how many records are processed together now."""
        self._running = records

    def look(self, pending: int = 0) -> None:
        """Raise ``TooManyWritesError`` if the records that are processed together made more than a limit allows.

        Args:
            pending: how many rows processors have not handed on to their stores.
        """
        if self._running > 1 and any(limit.is_passed(pending) for limit in self._limits) and self._can_be_repeated():
            raise self._too_many(self._taken or self._running // 2)

    def took(self, records: int, nbytes: int = 0) -> None:
        """Note that so many records have been processed, with all that came of them. Raises as ``look`` does.

        Args:
            nbytes: how many bytes they have, if that is known.
        """
        self.look()
        self._taken += records
        for limit in self._limits:
            limit.took(records, nbytes)

    def _can_be_repeated(self) -> bool:
        return (
            self._is_repeatable
            and not self._may_pass
            and all(store.can_be_restored() for store in self._stores.values())
        )

    def _too_many(self, most: int) -> TooManyWritesError:
        return TooManyWritesError({self._context.facts.task: most})
