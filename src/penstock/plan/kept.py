"""The contents of the stores of steps; ``engine/shared/stores.py`` maps each kind to a store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.values.window_ends import Sized, WindowEnds


@dataclass(frozen=True)
class Kept:
    """The value of each key, or all versions of it if the store has a history.

    Attributes:
        needs: the kind of store that the user must choose; None for any kind.
        window_size_ms: the length of the windows that the rows belong to; 0 for rows without windows.
        is_numbered: whether each key ends with a number of 8 bytes.
    """

    needs: ClassVar[str | None] = "a key-value store"
    window_size_ms: int = 0
    is_numbered: bool = False

    @property
    def window_ends(self) -> WindowEnds:
        """Where the windows end that the rows belong to."""
        return Sized(self.window_size_ms)


@dataclass(frozen=True)
class KeptAsDescribed(Kept):
    """The rows that a user's processor puts into a store that the user described."""

    needs: ClassVar[str | None] = None


@dataclass(frozen=True, kw_only=True)
class KeptWindows(Kept):
    """An aggregate for each key and window."""

    needs: ClassVar[str | None] = "a window store"
    retention_ms: int
    """How long windows are kept, unless the store overrides it."""
    ends: WindowEnds | None = None
    """Where windows end that are not of one size; None for those of ``window_size_ms``."""
    is_final: bool
    """True if windows are kept until they have closed and their results are emitted."""

    @property
    def window_ends(self) -> WindowEnds:
        return self.ends or super().window_ends


@dataclass(frozen=True, kw_only=True)
class KeptSlidingWindows(KeptWindows):
    """An aggregate for each key and sliding window."""

    slot_ms: int
    """The length of time that one row on disk covers."""


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
    """The time when each id was forwarded."""

    interval_ms: int
    are_pairs: bool
    """True if an id is a pair of the key and a selected id."""


@dataclass(frozen=True, kw_only=True)
class KeptUpdates(Kept):
    """Held-back updates or records, by time."""

    wait_ms: int
    times_follow: bool
    """True if the time of an entry is that of its newest record."""
    record_limit: int | None = None
    """The most entries in memory; None for any number."""
    byte_limit: int | None = None
