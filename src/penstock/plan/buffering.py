"""The options of ``KTable.suppress``: which updates to hold back, for how long, and in how much memory (KIP-328)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self, TypeVar, cast

from penstock.errors import ConfigError
from penstock.plan.names import check_name
from penstock.plan.options import Options, option, same_kind
from penstock.values.durations import MAX_MS, Duration, to_ms
from penstock.values.sizes import to_bytes

EMIT_EARLY = "emit_early"
SHUT_DOWN = "shut_down"
SPILL_TO_DISK = "spill_to_disk"


@dataclass(frozen=True)
class BufferConfig(Options):
    """The size of a suppression's buffer, and what happens when it is full.

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

    @classmethod
    def _nothing_said(cls) -> BufferConfig:
        return EagerBufferConfig()

    @option
    def max_records(self, count: int) -> EagerBufferConfig:
        """At most this many keys; further ones make the oldest leave early."""
        return cast(EagerBufferConfig, self._but(record_limit=_limit(count, "max_records")))

    @option
    def max_bytes(self, size: int | str) -> EagerBufferConfig:
        """At most this many bytes (an int, or text such as ``"5 MB"``); further ones make the oldest entries leave
        early."""
        return cast(EagerBufferConfig, self._but(byte_limit=_limit(to_bytes(size, "max_bytes"), "max_bytes")))

    @option
    def unbounded(self) -> StrictBufferConfig:
        """No limit."""
        return self.with_no_bound()

    @same_kind
    def with_max_records(self, count: int) -> Self:
        """With a limit of keys."""
        return self._but(record_limit=_limit(count, "max_records"))

    @same_kind
    def with_max_bytes(self, size: int | str) -> Self:
        """With a limit of bytes."""
        return self._but(byte_limit=_limit(to_bytes(size, "max_bytes"), "max_bytes"))

    @option
    def with_no_bound(self) -> StrictBufferConfig:
        """Without limits, so that the buffer is never full and no entry leaves early."""
        when_full = self.when_full if isinstance(self, StrictBufferConfig) else SHUT_DOWN
        return self._as(StrictBufferConfig, record_limit=None, byte_limit=None, when_full=when_full)

    @option
    def shut_down_when_full(self) -> StrictBufferConfig:
        """When the buffer is full, stop the application with an error rather than emit early; nothing is lost, and a
        restart with larger limits continues."""
        return self._as(StrictBufferConfig, when_full=SHUT_DOWN)

    @option
    def spill_to_disk_when_full(self) -> StrictBufferConfig:
        """When the buffer is full, continue in the task's database on disk: the results and their order stay the same,
        and memory stays within the limit."""
        return self._as(StrictBufferConfig, when_full=SPILL_TO_DISK)

    @option
    def emit_early_when_full(self) -> EagerBufferConfig:
        """When the buffer is full, emit the oldest entries early."""
        return self._as(EagerBufferConfig, when_full=EMIT_EARLY)

    @same_kind
    def with_logging_disabled(self) -> Self:
        """Accepted for programs written for Kafka Streams; what a commit holds is never left out."""
        return self

    @same_kind
    def with_logging_enabled(self, config: dict[str, str] | None = None) -> Self:
        """Accepted for programs written for Kafka Streams; buffers are always logged."""
        if not isinstance(config, dict | None):
            raise ConfigError(f"the config of with_logging_enabled is a dict of texts; got {config!r}")
        return self

    def _as(self, kind: type[_Kind], **changes: Any) -> _Kind:
        """A buffer configuration of another kind with the same limits, apart from the changed fields."""
        return kind(**vars(self) | changes)


_Kind = TypeVar("_Kind", bound=BufferConfig)


@dataclass(frozen=True)
class EagerBufferConfig(BufferConfig):
    """A buffer that keeps its limits and may emit results early."""


@dataclass(frozen=True)
class StrictBufferConfig(BufferConfig):
    """A buffer that never emits a result early."""

    when_full: str = SHUT_DOWN


def _limit(value: int, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_MS:
        raise ConfigError(f"{what} must be an int from 0 to {MAX_MS}, got {value!r}")
    return value


@dataclass(frozen=True)
class Suppressed(Options):
    """The updates of a table that :meth:`penstock.KTable.suppress` holds back.

    By default these are all updates of a window except the last one. With :meth:`until_time_limit`, they wait for a
    time.

    >>> Suppressed.until_window_closes(BufferConfig.unbounded()).with_name("final").name
    'final'

    Raises:
        ConfigError: the buffer is not a ``BufferConfig``, or may emit early although results must be final; or an idle
            advance is combined with a time limit.
    """

    buffer: BufferConfig = field(default_factory=StrictBufferConfig)
    time_ms: int | None = None
    """How long to wait for more updates of a key; None to wait until its window closes."""
    name: str | None = None
    idle_advance_ms: int | None = None

    def __post_init__(self) -> None:
        if self.time_ms is None:
            if not isinstance(self.buffer, StrictBufferConfig):
                raise ConfigError(
                    "until_window_closes sends one final result for each window and cannot send it early; got "
                    f"{self.buffer!r}. Use BufferConfig.unbounded(), or end the buffer's configuration with "
                    ".shut_down_when_full() or .spill_to_disk_when_full()"
                )
            return
        if not isinstance(self.buffer, BufferConfig):
            raise ConfigError(f"the buffer must be a BufferConfig, got {self.buffer!r}")
        if self.idle_advance_ms is not None:
            raise ConfigError(
                "with_idle_advance is for until_window_closes: other suppressions have no last result. Leave it out"
            )

    @option
    def until_window_closes(self, buffer: StrictBufferConfig | None = None) -> Suppressed:
        """Exactly one result per key and window: the final one, when the window closes.

        A window closes when stream time reaches its end plus the grace period. The table must be that of a windowed
        aggregation, and the buffer one that never emits early.

        Each stream of a windowed cogroup goes by its own stream time, as in Kafka Streams. A stream that lags behind
        the others may still change a window whose result is out, and the changed result comes out too.

        Raises:
            ConfigError: the buffer may emit early.
        """
        return self._but(time_ms=None, buffer=self.buffer if buffer is None else buffer)

    @option
    def until_time_limit(self, time_to_wait: Duration, buffer: BufferConfig | None = None) -> Suppressed:
        """At most one update of a key in this time: the last one. The time runs from the first update held back and
        is not restarted by later ones; it is event time.

        Raises:
            ConfigError: the time is negative, or the buffer is none.
        """
        time_ms = to_ms(time_to_wait, "time_to_wait")
        return self._but(time_ms=time_ms, buffer=self.buffer if buffer is None else buffer)

    @option
    def with_name(self, name: str) -> Suppressed:
        """With a name for the step; its store is named ``<name>-store``."""
        return self._but(name=check_name(name))

    @option
    def with_idle_advance(self, duration: Duration) -> Suppressed:
        """Let time advance without records, so that the last windows close too.

        When a task has read all of its input, and gets no more for so long by the wall clock, its stream time moves on
        by as much.

        Raises:
            ConfigError: the suppression is not one until windows close, or the duration is 0.
        """
        advance = to_ms(duration, "the idle advance")
        if advance <= 0:
            raise ConfigError(f"the idle advance must be longer than 0, got {duration!r}")
        return self._but(idle_advance_ms=advance)
