"""What steps keep in their stores; ``engine/shared/stores.py`` has the kind of store for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Kept:
    """The value of each key, or its versions where the store is to have a history.

    Attributes:
        needs: the kind of store that a user may describe for it; None for any.
        window_size_ms: how long the windows are that the rows belong to; 0 for rows that belong to none.
        is_numbered: whether a number of 8 bytes stands behind each key.
    """

    needs: ClassVar[str | None] = "a key-value store"
    window_size_ms: int = 0
    is_numbered: bool = False


@dataclass(frozen=True)
class KeptAsDescribed(Kept):
    """Whatever a processor of the user's puts there, in a store of the kind that the user described."""

    needs: ClassVar[str | None] = None


@dataclass(frozen=True, kw_only=True)
class KeptWindows(Kept):
    """An aggregate for each key and window."""

    needs: ClassVar[str | None] = "a window store"
    retention_ms: int
    """How long windows are kept, unless the store says otherwise."""
    is_final: bool
    """Whether windows are kept until their results are sent on, when they close."""


@dataclass(frozen=True, kw_only=True)
class KeptSlidingWindows(KeptWindows):
    """An aggregate for each key and sliding window."""

    slot_ms: int
    """How much time one row on disk covers."""


@dataclass(frozen=True, kw_only=True)
class KeptSessions(KeptWindows):
    """An aggregate for each session of a key."""

    needs: ClassVar[str | None] = "a session store"
    gap_ms: int


@dataclass(frozen=True, kw_only=True)
class KeptSide(Kept):
    """The records of one side of a stream-stream join."""

    retention_ms: int


@dataclass(frozen=True)
class KeptWaiting(Kept):
    """The records of a stream-stream join that wait for a partner."""


@dataclass(frozen=True)
class KeptSubscriptions(Kept):
    """Who is told of the changes of each row of the right table of a foreign-key join."""


@dataclass(frozen=True, kw_only=True)
class KeptIds(Kept):
    """When each id was forwarded."""

    interval_ms: int
    are_pairs: bool
    """Whether an id is the key and something else besides."""


@dataclass(frozen=True, kw_only=True)
class KeptUpdates(Kept):
    """Updates, or records, that are held back, by their times."""

    wait_ms: int
    times_follow: bool
    """Whether the time of an entry is that of its newest record."""
    record_limit: int | None = None
    """How many may be in memory; None for any number."""
    byte_limit: int | None = None
