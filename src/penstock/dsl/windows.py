"""Windows of time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from penstock.durations import Duration, to_ms
from penstock.errors import ConfigError


@dataclass(frozen=True)
class TimeWindows:
    """Windows of one size, each beginning ``advance`` after the one before: tumbling, or hopping when they overlap.

    A window takes records while stream time is before its end plus the grace period (KIP-328).

    >>> windows = TimeWindows.of_size_and_grace("1 hour", "10 minutes").advance_by("30 minutes")
    >>> windows.size_ms, windows.grace_period_ms, windows.advance_ms
    (3600000, 600000, 1800000)
    """

    size_ms: int
    advance_ms: int
    grace_period_ms: int

    @property
    def final_after_ms(self) -> int:
        """How long after its end a window takes no record any more."""
        return self.grace_period_ms

    @classmethod
    def of_size_with_no_grace(cls, size: Duration) -> Self:
        """Windows that take no record that comes after their end."""
        return cls.of_size_and_grace(size, 0)

    @classmethod
    def of_size_and_grace(cls, size: Duration, grace: Duration) -> Self:
        """Windows that take late records until the grace period after their end has passed.

        Raises:
            ConfigError: the size is not positive or the grace period negative.
        """
        size_ms = to_ms(size, "the size of windows")
        if size_ms <= 0:
            raise ConfigError(f"the size of windows must be positive, got {size!r} ({size_ms} ms)")
        return cls(size_ms, size_ms, to_ms(grace, "the grace period"))

    def advance_by(self, advance: Duration) -> Self:
        """Windows that begin every ``advance``.

        Raises:
            ConfigError: the advance is not positive, or larger than the size.
        """
        advance_ms = to_ms(advance, "the advance of windows")
        if not 0 < advance_ms <= self.size_ms:
            raise ConfigError(
                f"the advance of windows must be more than 0 and at most their size ({self.size_ms} ms), "
                f"got {advance!r} ({advance_ms} ms)"
            )
        return replace(self, advance_ms=advance_ms)
