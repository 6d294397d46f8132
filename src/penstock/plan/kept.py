"""What steps keep in their stores; ``engine/shared/stores.py`` has the kind of store for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Kept:
    """The value of each key, or its versions where the store is to have a history.

    Attributes:
        needs: the kind of store that the user may choose for it; None for any.
        window_size_ms: the length of the windows that the rows belong to; 0 for rows without windows.
        is_numbered: whether a number of 8 bytes stands behind each key.
    """

    needs: ClassVar[str | None] = "a key-value store"
    window_size_ms: int = 0
    is_numbered: bool = False


@dataclass(frozen=True)
class KeptAsDescribed(Kept):
    """What a processor of the user's puts into a store that the user described."""

    needs: ClassVar[str | None] = None


@dataclass(frozen=True, kw_only=True)
class KeptWindows(Kept):
    """An aggregate for each key and window."""

    needs: ClassVar[str | None] = "a window store"
    retention_ms: int
    """How long windows are kept, unless the store says otherwise."""
    is_final: bool
    """Whether windows are kept until they close and their results are sent."""


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
    """The subscriptions of a foreign-key join: left rows by the right row that they name."""


@dataclass(frozen=True, kw_only=True)
class KeptIds(Kept):
    """When each id was forwarded."""

    interval_ms: int
    are_pairs: bool
    """Whether an id is a pair of the key and a selected id."""


@dataclass(frozen=True, kw_only=True)
class KeptUpdates(Kept):
    """Updates, or records, that are held back, by their times."""

    wait_ms: int
    times_follow: bool
    """Whether the time of an entry is that of its newest record."""
    record_limit: int | None = None
    """The number of entries that may be in memory; None for any number."""
    byte_limit: int | None = None
