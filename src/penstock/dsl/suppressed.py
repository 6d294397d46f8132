"""What ``KTable.suppress`` holds back, for how long, and in how much memory (KIP-328)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from penstock.durations import Duration, to_ms
from penstock.errors import ConfigError
from penstock.sizes import to_bytes

EMIT_EARLY = "emit_early"
SHUT_DOWN = "shut_down"
SPILL_TO_DISK = "spill_to_disk"


@dataclass(frozen=True)
class BufferConfig:
    """How much a suppression may hold, and what it does when that is not enough.

    Begin with one of :meth:`max_records`, :meth:`max_bytes` and :meth:`unbounded`.

    >>> BufferConfig.max_records(1000).emit_early_when_full()
    EagerBufferConfig(record_limit=1000, byte_limit=None, when_full='emit_early')
    >>> BufferConfig.max_bytes("5 MB").with_max_records(1000).shut_down_when_full()
    StrictBufferConfig(record_limit=1000, byte_limit=5242880, when_full='shut_down')
    >>> BufferConfig.unbounded()
    StrictBufferConfig(record_limit=None, byte_limit=None, when_full='shut_down')
    """

    record_limit: int | None = None
    byte_limit: int | None = None
    when_full: str = EMIT_EARLY

    @staticmethod
    def max_records(count: int) -> EagerBufferConfig:
        """At most so many keys; when there are more, the oldest go on early."""
        return EagerBufferConfig(record_limit=_limit(count, "max_records"))

    @staticmethod
    def max_bytes(size: int | str) -> EagerBufferConfig:
        """At most so many bytes (an int, or text such as ``"5 MB"``); when there are more, the oldest go on early."""
        return EagerBufferConfig(byte_limit=_limit(to_bytes(size, "max_bytes"), "max_bytes"))

    @staticmethod
    def unbounded() -> StrictBufferConfig:
        """As much as comes."""
        return StrictBufferConfig()

    def with_max_records(self, count: int) -> Self:
        """With a limit of keys."""
        return replace(self, record_limit=_limit(count, "max_records"))

    def with_max_bytes(self, size: int | str) -> Self:
        """With a limit of bytes."""
        return replace(self, byte_limit=_limit(to_bytes(size, "max_bytes"), "max_bytes"))

    def with_no_bound(self) -> StrictBufferConfig:
        """Without limits."""
        return StrictBufferConfig()

    def shut_down_when_full(self) -> StrictBufferConfig:
        """Stop the application with an error rather than go on early; nothing is lost, and a restart with larger
        limits goes on."""
        return StrictBufferConfig(self.record_limit, self.byte_limit, SHUT_DOWN)

    def spill_to_disk_when_full(self) -> StrictBufferConfig:
        """Go on in the task's database on disk: the same results in the same order, and no more memory than this."""
        return StrictBufferConfig(self.record_limit, self.byte_limit, SPILL_TO_DISK)

    def emit_early_when_full(self) -> EagerBufferConfig:
        """Send the oldest on early."""
        return EagerBufferConfig(self.record_limit, self.byte_limit)

    def with_logging_disabled(self) -> Self:
        """Accepted for programs written for Kafka Streams; what a commit holds is never left out."""
        return self

    def with_logging_enabled(self, config: dict[str, str] | None = None) -> Self:
        """Accepted for programs written for Kafka Streams; buffers are always logged."""
        return self


@dataclass(frozen=True)
class EagerBufferConfig(BufferConfig):
    """A buffer that keeps its limits and may send results on before their time."""


@dataclass(frozen=True)
class StrictBufferConfig(BufferConfig):
    """A buffer that never sends a result on before its time."""

    when_full: str = SHUT_DOWN


def _limit(value: int, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ConfigError(f"{what} must be an int that is not negative, got {value!r}")
    return value


@dataclass(frozen=True)
class Suppressed:
    """Which updates of a table to hold back; give it to :meth:`penstock.KTable.suppress`.

    >>> Suppressed.until_window_closes(BufferConfig.unbounded()).with_name("final").name
    'final'
    """

    buffer: BufferConfig
    time_ms: int | None = None
    """How long to wait for more updates of a key; None for until its window closes."""
    name: str | None = None
    idle_advance_ms: int | None = None

    @classmethod
    def until_window_closes(cls, buffer: StrictBufferConfig | None = None) -> Self:
        """Exactly one result per key and window: the final one, when the window closes.

        A window closes when stream time reaches its end plus the grace period. The table must be that of a windowed
        aggregation, and the buffer one that never emits early.

        Each stream of a windowed cogroup goes by its own stream time, as in Kafka Streams: a stream that lags behind
        the others may still change a window whose result is out, and the changed result comes out too.

        Raises:
            ConfigError: the buffer may emit early.
        """
        buffer = BufferConfig.unbounded() if buffer is None else buffer
        if not isinstance(buffer, StrictBufferConfig):
            raise ConfigError(
                f"until_window_closes sends one final result for each window and cannot send it early; got {buffer!r}. "
                "Use BufferConfig.unbounded(), or end the buffer's configuration with .shut_down_when_full() or "
                ".spill_to_disk_when_full()"
            )
        return cls(buffer)

    @classmethod
    def until_time_limit(cls, time_to_wait: Duration, buffer: BufferConfig | None = None) -> Self:
        """At most one update of a key in this time: the last one. The time runs from the first update held back and
        is not restarted by later ones; it is event time."""
        buffer = BufferConfig.unbounded() if buffer is None else buffer
        if not isinstance(buffer, BufferConfig):
            raise ConfigError(f"the buffer must be a BufferConfig, got {buffer!r}")
        return cls(buffer, to_ms(time_to_wait, "time_to_wait"))

    def with_name(self, name: str) -> Self:
        """With a name for the step; its store is named ``<name>-store``."""
        return replace(self, name=name)

    def with_idle_advance(self, duration: Duration) -> Self:
        """Let time go on without records: when a task has read all of its input and gets no more for so long by the
        wall clock, its stream time moves on by as much, so that the last windows close too.

        Raises:
            ConfigError: the suppression is not one until windows close, or the duration is 0.
        """
        advance = to_ms(duration, "the idle advance")
        if self.time_ms is not None:
            raise ConfigError("with_idle_advance is for until_window_closes: other suppressions have no last result")
        if advance <= 0:
            raise ConfigError(f"the idle advance must be longer than 0, got {duration!r}")
        return replace(self, idle_advance_ms=advance)
