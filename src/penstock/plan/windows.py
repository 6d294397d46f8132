"""Windows of time: tumbling and hopping, sliding, sessions, and the one that never ends."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import ClassVar, Self

from penstock.errors import ConfigError, OldNameWarning
from penstock.usage.callers import warn_caller
from penstock.usage.java_names import KafkaNames
from penstock.values.durations import MAX_MS, Duration, to_ms, to_signed_ms

DEFAULT_MAINTAIN_MS = 24 * 60 * 60 * 1000
"""How long windows are kept for which neither a grace period nor ``until`` was given, as before KIP-328."""
_SEGMENTS = 3
_MIN_SEGMENT_INTERVAL_MS = 60_000


class KeptAWhile(KafkaNames):
    """The options of windows for their stores before KIP-328: how long these keep a window, and in which segments."""

    retention_ms: int

    @property
    def maintain_ms(self) -> int:
        """Deprecated: how long a store keeps a window by default; ``Materialized.with_retention`` sets it (KIP-328)."""
        _old(f"{type(self).__name__}.maintain_ms", "retention_ms, or set Materialized.with_retention", "KIP-328")
        return self.retention_ms

    @property
    def segment_interval(self) -> int:
        """Deprecated: milliseconds that one segment of a store covers by default (KIP-328);
        ``Materialized.with_segment_interval`` sets it."""
        _old(f"{type(self).__name__}.segment_interval", "Materialized.with_segment_interval", "KIP-328")
        return max(self.retention_ms // (_SEGMENTS - 1), _MIN_SEGMENT_INTERVAL_MS)


@dataclass(frozen=True)
class TimeWindows(KeptAWhile):
    """Windows of one size, each of which begins ``advance`` after the previous one. They are tumbling, or hopping if
    they overlap.

    A window takes records while stream time is before its end plus the grace period (KIP-328).

    >>> windows = TimeWindows.of_size_and_grace("1 hour", "10 minutes").advance_by("30 minutes")
    >>> windows.size_ms, windows.grace_period_ms, windows.advance_ms
    (3600000, 600000, 1800000)
    """

    size_ms: int
    advance_ms: int
    grace_period_ms: int
    until_ms: int | None = None
    """The duration that the deprecated ``until`` has set."""
    has_grace: bool = field(default=True, repr=False)
    """False if no grace period was given, so that it follows from how long the windows are kept."""

    closes: ClassVar[bool] = True

    @property
    def final_after_ms(self) -> int:
        """How long after its end a window still takes records."""
        return self.grace_period_ms

    @classmethod
    def of_size_with_no_grace(cls, size: Duration) -> Self:
        """Windows without a grace period: they take no records after their end."""
        return cls.of_size_and_grace(size, 0)

    @classmethod
    def of_size_and_grace(cls, size: Duration, grace: Duration) -> Self:
        """Windows that take late records until the grace period after their end has passed.

        Raises:
            ConfigError: the size is not positive or the grace period negative.
        """
        size_ms = _positive(size, "the size of windows")
        return cls(size_ms, size_ms, to_ms(grace, "the grace period"))

    @classmethod
    def of(cls, size: Duration) -> Self:
        """Deprecated (KIP-633): windows that take late records until a day after their start, unless ``grace`` says
        otherwise.

        Raises:
            ConfigError: the size is not positive.
        """
        _old("TimeWindows.of(size)", "TimeWindows.of_size_and_grace(size, grace)", "KIP-633")
        size_ms = _positive(size, "the size of windows")
        return cls(size_ms, size_ms, _rest(DEFAULT_MAINTAIN_MS, size_ms), has_grace=False)

    def advance_by(self, advance: Duration) -> Self:
        """Let a new window begin after each ``advance``: windows that overlap are hopping windows.

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

    def grace(self, grace: Duration) -> Self:
        """Deprecated (KIP-633): these windows with another grace period; use ``of_size_and_grace``."""
        _old("TimeWindows.grace(grace)", "TimeWindows.of_size_and_grace(size, grace)", "KIP-633")
        return replace(self, grace_period_ms=to_ms(grace, "the grace period"), has_grace=True)

    def until(self, duration: Duration) -> Self:
        """Deprecated: how long stores keep windows; use ``Materialized.with_retention``.

        Raises:
            ConfigError: the duration is shorter than a window.
        """
        until_ms = _maintained(duration, self.size_ms, "the size of the windows")
        grace_ms = self.grace_period_ms if self.has_grace else _rest(until_ms, self.size_ms)
        return replace(self, until_ms=until_ms, grace_period_ms=grace_ms)

    @property
    def needed_retention_ms(self) -> int:
        """How long a store must keep a window, from its start on, for the window to be complete."""
        return self.size_ms + self.grace_period_ms

    @property
    def retention_ms(self) -> int:  # type: ignore[override]
        """How long a store keeps a window by default."""
        return self.needed_retention_ms if self.until_ms is None else self.until_ms


@dataclass(frozen=True)
class UnlimitedWindows(KeptAWhile):
    """One window for each key, which has a start and no end.

    >>> UnlimitedWindows.of().start_on(1000)
    UnlimitedWindows(start_ms=1000)
    """

    start_ms: int = 0

    size_ms = MAX_MS
    advance_ms = MAX_MS
    grace_period_ms = 0
    needed_retention_ms = MAX_MS
    retention_ms = MAX_MS
    final_after_ms = 0
    closes = True

    @classmethod
    def of(cls) -> Self:
        """The window that begins at time 0."""
        return cls()

    def start_on(self, start: int | datetime) -> Self:
        """The window that begins at a time, in milliseconds or as a ``datetime``; earlier records are left out.

        Raises:
            ConfigError: the start is before 1970, or beyond the largest timestamp.
        """
        if isinstance(start, bool) or not isinstance(start, int | datetime):
            raise ConfigError(f"the start of an unlimited window is milliseconds or a datetime; got {start!r}")
        start_ms = start if isinstance(start, int) else round(start.astimezone(UTC).timestamp() * 1000)
        if start_ms < 0:
            raise ConfigError(f"an unlimited window must not start before 1970, got {start!r} ({start_ms} ms)")
        if start_ms > MAX_MS:
            raise ConfigError(f"an unlimited window must not start after {MAX_MS} ms, got {start!r}")
        return replace(self, start_ms=start_ms)

    def grace(self, grace: Duration) -> Self:
        """This window as it is: no record comes after the end of a window that has none."""
        to_ms(grace, "the grace period")
        return self

    def until(self, duration: Duration) -> Self:
        """Refused: an unlimited window is kept forever."""
        raise ConfigError(f"until({duration!r}) cannot be set for unlimited windows: they are kept forever")


@dataclass(frozen=True)
class SlidingWindows(KeptAWhile):
    """Windows that have the records of a key at most ``time_difference`` apart, both ends included.

    >>> SlidingWindows.of_time_difference_and_grace("10 s", "1 s")
    SlidingWindows(time_difference_ms=10000, grace_period_ms=1000)
    """

    time_difference_ms: int
    grace_period_ms: int

    closes: ClassVar[bool] = True

    @classmethod
    def of_time_difference_with_no_grace(cls, time_difference: Duration) -> Self:
        """Windows without a grace period: they take no records after their end."""
        return cls.of_time_difference_and_grace(time_difference, 0)

    @classmethod
    def of_time_difference_and_grace(cls, time_difference: Duration, grace: Duration) -> Self:
        """Windows that take late records until the grace period after their end has passed.

        Raises:
            ConfigError: the time difference or the grace period is negative.
        """
        return cls(to_ms(time_difference, "the time difference"), to_ms(grace, "the grace period"))

    def grace(self, grace: Duration) -> Self:
        """These windows with another grace period."""
        return replace(self, grace_period_ms=to_ms(grace, "the grace period"))

    @property
    def size_ms(self) -> int:
        """From a window's start to its end."""
        return self.time_difference_ms

    @property
    def final_after_ms(self) -> int:
        """A window is final when stream time is this much past its end; records at its very end belong to it."""
        return self.grace_period_ms + 1

    @property
    def needed_retention_ms(self) -> int:
        """How long a store must keep a window: new windows are derived from those of the previous record."""
        return 2 * self.time_difference_ms + self.grace_period_ms

    @property
    def retention_ms(self) -> int:  # type: ignore[override]
        """How long a store keeps a window by default."""
        return self.needed_retention_ms


@dataclass(frozen=True)
class SessionWindows(KeptAWhile):
    """Sessions of a key: between two neighbouring records there is at most one gap of inactivity.

    With a grace period (KIP-328), a session closes when stream time is more than gap and grace after its end. The form
    of KIP-94, ``inactivity_gap(gap).until(retention)``, has no grace period and drops nothing. But if a record is later
    than the retention, its session is separate: Penstock sends it on and does not store it.

    >>> SessionWindows.of_inactivity_gap_and_grace("5 minutes", "1 minute").inactivity_gap_ms
    300000
    """

    inactivity_gap_ms: int
    grace_period_ms: int
    closes: bool = True
    """Whether late records are dropped; not so in KIP-94's own form."""
    until_ms: int | None = None
    """The duration that the deprecated ``until`` has set."""
    has_grace: bool = field(default=True, repr=False)
    """False if no grace period was given, so that it follows from how long the sessions are kept."""

    @classmethod
    def of_inactivity_gap_with_no_grace(cls, inactivity_gap: Duration) -> Self:
        """Sessions that take no record that comes more than the gap after their end."""
        return cls.of_inactivity_gap_and_grace(inactivity_gap, 0)

    @classmethod
    def of_inactivity_gap_and_grace(cls, inactivity_gap: Duration, grace: Duration) -> Self:
        """Sessions that take late records until gap and grace period after their end have passed.

        Raises:
            ConfigError: the gap or the grace period is negative.
        """
        return cls(to_ms(inactivity_gap, "the inactivity gap"), to_ms(grace, "the grace period"))

    @classmethod
    def inactivity_gap(cls, inactivity_gap: Duration) -> Self:
        """KIP-94's form: sessions that close only when the store no longer keeps them, see ``until``."""
        gap_ms = to_ms(inactivity_gap, "the inactivity gap")
        return cls(gap_ms, _rest(DEFAULT_MAINTAIN_MS, gap_ms), closes=False, has_grace=False)

    @classmethod
    def with_(cls, inactivity_gap: Duration) -> Self:
        """Deprecated (KIP-633): sessions that take late records until a day after their end, unless ``grace`` says
        otherwise.

        Raises:
            ConfigError: the gap is negative.
        """
        _old("SessionWindows.with_(gap)", "SessionWindows.of_inactivity_gap_and_grace(gap, grace)", "KIP-633")
        gap_ms = to_ms(inactivity_gap, "the inactivity gap")
        return cls(gap_ms, _rest(DEFAULT_MAINTAIN_MS, gap_ms), has_grace=False)

    def grace(self, grace: Duration) -> Self:
        """Deprecated (KIP-633): these sessions with another grace period; use ``of_inactivity_gap_and_grace``."""
        _old("SessionWindows.grace(grace)", "SessionWindows.of_inactivity_gap_and_grace(gap, grace)", "KIP-633")
        return replace(self, grace_period_ms=to_ms(grace, "the grace period"), closes=True, has_grace=True)

    def until(self, duration: Duration) -> Self:
        """Deprecated: keep sessions for so long; use ``Materialized.with_retention``.

        Raises:
            ConfigError: the duration is shorter than the gap.
        """
        until_ms = _maintained(duration, self.inactivity_gap_ms, "the inactivity gap")
        grace_ms = self.grace_period_ms if self.has_grace else _rest(until_ms, self.inactivity_gap_ms)
        return replace(self, until_ms=until_ms, grace_period_ms=grace_ms)

    @property
    def final_after_ms(self) -> int:
        """A session is final when stream time is this much past its end."""
        return self.inactivity_gap_ms + self.grace_period_ms

    @property
    def needed_retention_ms(self) -> int:
        """How long a store must keep a session, from its end on, for late records to find it."""
        return self.inactivity_gap_ms + (self.grace_period_ms if self.closes else 0)

    @property
    def retention_ms(self) -> int:  # type: ignore[override]
        """How long a store keeps a session by default."""
        return self.inactivity_gap_ms + self.grace_period_ms if self.until_ms is None else self.until_ms


@dataclass(frozen=True)
class JoinWindows(KeptAWhile):
    """The time difference that two joined records may have, both ends included, and the grace period of the join.

    A record of the right side matches a record of the left side if its timestamp is between ``before`` earlier and
    ``after`` later.

    >>> windows = JoinWindows.of_time_difference_and_grace("10 s", "1 minute").before(0)
    >>> windows.before_ms, windows.after_ms, windows.grace_period_ms
    (0, 10000, 60000)
    """

    before_ms: int
    after_ms: int
    grace_period_ms: int
    until_ms: int | None = None
    """The duration that the deprecated ``until`` has set."""
    has_grace: bool = field(default=True, repr=False)
    """False if no grace period was given, so that it follows from how long the records are kept."""

    @classmethod
    def of_time_difference_with_no_grace(cls, time_difference: Duration) -> Self:
        """Join records that are at most this time apart, without a grace period."""
        return cls.of_time_difference_and_grace(time_difference, 0)

    @classmethod
    def of_time_difference_and_grace(cls, time_difference: Duration, grace: Duration) -> Self:
        """Join records that are at most this time apart. Late records are joined until the grace period is over.

        Raises:
            ConfigError: one of them is negative.
        """
        reach = to_ms(time_difference, "the time difference of join windows")
        return cls(reach, reach, to_ms(grace, "the grace period"))

    @classmethod
    def of(cls, time_difference: Duration) -> Self:
        """Deprecated (KIP-633): records at most so far apart; late records find their partners for a day, unless
        ``grace`` says otherwise.

        A record of a left or outer join that finds no partner waits as long, as with today's windows.

        Raises:
            ConfigError: the time difference is negative.
        """
        now = "JoinWindows.of_time_difference_and_grace(difference, grace)"
        _old("JoinWindows.of(difference)", now, "KIP-633")
        reach = to_ms(time_difference, "the time difference of join windows")
        return cls(reach, reach, _rest(DEFAULT_MAINTAIN_MS, 2 * reach), has_grace=False)

    def before(self, time_difference: Duration) -> JoinWindows:
        """Limit how much earlier records of the right side may be. With a negative number, they must be later.

        Raises:
            ConfigError: no record could fit.
        """
        return self._reaching(replace(self, before_ms=to_signed_ms(time_difference, "the time before of join windows")))

    def after(self, time_difference: Duration) -> JoinWindows:
        """Limit how much later records of the right side may be. With a negative number, they must be earlier.

        Raises:
            ConfigError: no record could fit.
        """
        return self._reaching(replace(self, after_ms=to_signed_ms(time_difference, "the time after of join windows")))

    def grace(self, grace: Duration) -> JoinWindows:
        """Deprecated (KIP-633): these windows with another grace period, for which late records find their partners.
        Use ``of_time_difference_and_grace``.

        Raises:
            ConfigError: it is negative.
        """
        now = "JoinWindows.of_time_difference_and_grace(difference, grace)"
        _old("JoinWindows.grace(grace)", now, "KIP-633")
        return replace(self, grace_period_ms=to_ms(grace, "the grace period"), has_grace=True)

    def until(self, duration: Duration) -> JoinWindows:
        """Deprecated: records are kept for as long as size and grace period need (KIP-328), which must not be longer
        than this. Without a grace period, late records find their partners for as long as this.

        Raises:
            ConfigError: the duration is shorter than from the earliest to the latest record that fits.
        """
        _old("until", "Joined.retention, or a grace period", "KIP-328")
        return self._kept_for(_enough(duration, self.size_ms, "the size of the windows"))

    def _kept_for(self, until_ms: int) -> JoinWindows:
        """These windows with what ``until`` or ``Joined.retention`` says."""
        grace_ms = self.grace_period_ms if self.has_grace else _rest(until_ms, self.size_ms)
        return replace(self, until_ms=until_ms, grace_period_ms=grace_ms)

    @staticmethod
    def _reaching(windows: JoinWindows) -> JoinWindows:
        if windows.size_ms < 0:
            raise ConfigError(
                f"join windows from {windows.before_ms} ms before to {windows.after_ms} ms after a record are empty; "
                "before and after must not be negative together"
            )
        kept_ms = DEFAULT_MAINTAIN_MS if windows.until_ms is None else windows.until_ms
        return windows if windows.has_grace else replace(windows, grace_period_ms=_rest(kept_ms, windows.size_ms))

    @property
    def size_ms(self) -> int:
        """From the earliest to the latest record that fits."""
        return self.before_ms + self.after_ms

    @property
    def retention_ms(self) -> int:  # type: ignore[override]
        """How long records are kept, which limits how late a record may be and still be joined."""
        return self.size_ms + self.grace_period_ms


@dataclass(frozen=True)
class EmitStrategy(KafkaNames):
    """The results that a windowed aggregation sends: every update, or one final result when the window closes.

    >>> EmitStrategy.on_window_close()
    EmitStrategy(final=True)
    """

    final: bool

    @classmethod
    def on_window_update(cls) -> Self:
        """Send on every update (the default)."""
        return cls(False)

    @classmethod
    def on_window_close(cls) -> Self:
        """Send on one result for each key and window, when the window has closed."""
        return cls(True)


def _positive(duration: Duration, what: str) -> int:
    ms = to_ms(duration, what)
    if ms <= 0:
        raise ConfigError(f"{what} must be positive, got {duration!r} ({ms} ms)")
    return ms


def _maintained(duration: Duration, least: int, of_what: str) -> int:
    """Check and return the duration of an ``until``, and warn of it."""
    _old("until", "Materialized.with_retention", "KIP-328")
    return _enough(duration, least, of_what)


def _enough(duration: Duration, least: int, of_what: str) -> int:
    ms = to_ms(duration, "the retention")
    if ms < least:
        raise ConfigError(f"windows must be kept for at least {of_what} ({least} ms), got {duration!r} ({ms} ms)")
    return ms


def _rest(kept_ms: int, size_ms: int) -> int:
    """The grace period of windows that were not given any: what is left of the time for which they are kept."""
    return max(kept_ms - size_ms, 0)


def _old(name: str, now: str, by: str) -> None:
    """Warn of a deprecated name."""
    warn_caller(f"{name} is deprecated ({by}); use {now}", OldNameWarning)
