"""Where an application begins in a topic that it has not read yet (``AutoOffsetReset``, KIP-1106)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from penstock.errors import ConfigError
from penstock.values.durations import Duration, to_ms
from penstock.values.times import Time, to_timestamp

_PLAIN = ("earliest", "latest", "none")
_FORMS = f"{', '.join(_PLAIN)}, by_duration:<duration> or by_timestamp:<time>"
_ISO = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE)


@dataclass(frozen=True)
class AutoOffsetReset:
    """The place where an application begins in a topic that it has not read yet.

    You can also give it as text (``"by_duration:1 day"``), a ``timedelta`` or a ``datetime``.

    >>> AutoOffsetReset.by_duration("1 day")
    AutoOffsetReset(policy='by_duration', ms=86400000)
    """

    policy: str
    ms: int = 0
    """How long ago, or the time itself, in milliseconds."""

    @classmethod
    def earliest(cls) -> AutoOffsetReset:
        """Begin with the first record that is still there."""
        return cls("earliest")

    @classmethod
    def latest(cls) -> AutoOffsetReset:
        """Begin with records that arrive after the start."""
        return cls("latest")

    @classmethod
    def none(cls) -> AutoOffsetReset:
        """Begin nowhere: the start of the application fails."""
        return cls("none")

    @classmethod
    def by_duration(cls, duration: Duration) -> AutoOffsetReset:
        """Begin with the first record that is not older than this at the start, or else at the end of the topic.

        Raises:
            ConfigError: the duration is negative, or none.
        """
        return cls("by_duration", _duration(duration))

    @classmethod
    def by_timestamp(cls, time: Time | str) -> AutoOffsetReset:
        """Begin with the first record of this time or later, or else at the end of the topic.

        Raises:
            ConfigError: it is no time.
        """
        return cls("by_timestamp", to_timestamp(time, "by_timestamp"))

    @classmethod
    def of(cls, given: Any, what: str = "offset_reset") -> AutoOffsetReset:
        """One as people write it.

        Raises:
            ConfigError: it is none of the forms.

        >>> AutoOffsetReset.of("by_duration:PT1H") == AutoOffsetReset.of("by_duration:1 hour")
        True
        """
        if isinstance(given, AutoOffsetReset):
            return given
        if isinstance(given, timedelta):
            return cls.by_duration(given)
        if isinstance(given, datetime):
            return cls.by_timestamp(given)
        policy, _, text = given.partition(":") if isinstance(given, str) else ("", "", "")
        if policy in _PLAIN and not text:
            return cls(policy)
        if policy == "by_duration" and text:
            return cls.by_duration(text)
        if policy == "by_timestamp" and text:
            return cls.by_timestamp(int(text) if text.isdigit() else text)
        raise ConfigError(f"{what} must be one of {_FORMS}; got {given!r}")

    def begins_at(self, now: int) -> int:
        """Return the time of the first record to read, if the reset is by time."""
        return self.ms if self.policy == "by_timestamp" else max(now - self.ms, 0)


def _duration(given: Duration) -> int:
    """Return the milliseconds of a duration; text may be in ISO 8601, as in Kafka's own setting."""
    iso = _ISO.fullmatch(given.strip()) if isinstance(given, str) else None
    if iso is None or not any(iso.groups()):
        return to_ms(given, "by_duration")
    days, hours, minutes, seconds = (float(part or 0) for part in iso.groups())
    return to_ms(timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds), "by_duration")
