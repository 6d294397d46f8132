"""How to read a topic: its types, its times, where to start, and a name for the step."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, overload

from penstock.dsl.graph import K2, V2, K, V
from penstock.errors import ConfigError, TopologyError
from penstock.plan.functions import caller
from penstock.plan.names import check_name, check_name_if_given
from penstock.plan.options import Options, in_place_of, option, said_once, types_given
from penstock.plan.timestamps import Timestamp, timestamp_of
from penstock.serdes import BYTES, Serde, of
from penstock.values.offset_reset import AutoOffsetReset
from penstock.values.timestamps import is_extractor

OffsetReset = str | AutoOffsetReset | datetime | timedelta
"""Where to start with a topic that has not been read yet."""


@dataclass(frozen=True)
class Consumed(Options, Generic[K, V]):
    """The options for reading a topic as a stream or a table.

    >>> from penstock import StreamsBuilder
    >>> from penstock.testing import TopologyTestDriver
    >>> builder = StreamsBuilder()
    >>> visits = builder.stream("visits", Consumed.with_(str, dict).with_timestamp_extractor("at").with_name("visits"))
    >>> visits.to("out")
    >>> driver = TopologyTestDriver(builder.build())
    >>> driver.pipe_input("visits", "ann", {"at": 500})
    >>> [(record.key, record.timestamp) for record in driver.read_output("out")]
    [('ann', 500)]
    """

    key: Serde | None = None
    value: Serde | None = None
    timestamp: Timestamp | None = None
    name: str | None = None
    offset_reset: AutoOffsetReset | None = None
    timestamp_unit: str | None = None

    def __post_init__(self) -> None:
        check_name_if_given(self.name)
        if not isinstance(self.timestamp, str):  # a field is looked up once the type of the values is known
            timestamp_of(self.timestamp, BYTES)

    @option
    def as_(self, name: str) -> Consumed[Any, Any]:
        """With a name for the step."""
        return self._but(name=check_name(name))

    if TYPE_CHECKING:  # the decorator's result has types, but not those of its arguments

        @overload
        @classmethod
        def with_(
            cls,
            key: type[K2],
            value: type[V2],
            timestamp: Timestamp | None = None,
            offset_reset: OffsetReset | None = None,
        ) -> Consumed[K2, V2]: ...

        @overload
        @classmethod
        def with_(
            cls,
            key: Any = None,
            value: Any = None,
            timestamp: Timestamp | None = None,
            offset_reset: OffsetReset | None = None,
        ) -> Consumed[Any, Any]: ...

        @classmethod
        def with_(cls, *given: Any, **said: Any) -> Consumed[Any, Any]: ...

    else:

        @option
        def with_(
            self,
            key: Any = None,
            value: Any = None,
            timestamp: Timestamp | None = None,
            offset_reset: OffsetReset | None = None,
        ) -> Consumed:
            """With these types of keys and values, an extractor, and where the topic is begun.

            As in Kafka Streams, an extractor or an ``AutoOffsetReset`` may stand alone.

            >>> Consumed.with_(AutoOffsetReset.latest()) == Consumed.with_offset_reset_policy("latest")
            True
            """
            if isinstance(key, AutoOffsetReset):
                key, offset_reset = None, key
            elif is_extractor(key):
                key, timestamp = None, key
            said = {"timestamp": timestamp, "offset_reset": offset_reset_of(offset_reset)}
            told = {name: value for name, value in said.items() if value is not None}
            return self._but(**types_given(key=key, value=value), **told)

    @option
    def with_key_serde(self, key: Any) -> Consumed[Any, Any]:
        """With this type of keys."""
        return self._but(key=of(key, "key"))

    @option
    def with_value_serde(self, value: Any) -> Consumed[Any, Any]:
        """With this type of values."""
        return self._but(value=of(value, "value"))

    @option
    def with_timestamp_extractor(self, timestamp: Timestamp) -> Consumed[Any, Any]:
        """With records' times from a ``TimestampExtractor``, or all else that ``timestamp=`` of ``stream`` takes."""
        return self._but(timestamp=timestamp)

    @option
    def with_offset_reset_policy(self, offset_reset: OffsetReset) -> Consumed[Any, Any]:
        """Begun here by an application that has not read the topic yet; see ``offset_reset=`` of ``stream``.

        Raises:
            TopologyError: it is none of its forms.
        """
        return self._but(offset_reset=offset_reset_of(offset_reset))

    @option
    def with_name(self, name: str) -> Consumed[Any, Any]:
        """With a name for the step."""
        return self._but(name=check_name(name))


def consumed_of(
    method: str,
    given: Consumed[Any, Any] | None,
    key: Any,
    value: Any,
    timestamp: Timestamp | None = None,
    name: str | None = None,
    offset_reset: OffsetReset | None = None,
    timestamp_unit: str | None = None,
) -> Consumed[Any, Any]:
    """Combine the arguments of a method that reads a topic: a ``Consumed``, which may take the position of ``key``, and
    keywords.

    Raises:
        TopologyError: an argument was given twice, or ``offset_reset`` is invalid.
    """
    given, key = in_place_of(Consumed, key, given, method, "consumed")
    types = types_given(key=key, value=value)
    said: Consumed[Any, Any] = Consumed(
        **types,
        timestamp=timestamp,
        name=name,
        offset_reset=offset_reset_of(offset_reset),
        timestamp_unit=timestamp_unit,
    )
    return said_once(method, "consumed", given, said)


def consumed_whole(method: str, given: Consumed[Any, Any] | None, *said: Any, **keywords: Any) -> Consumed[Any, Any]:
    """Like ``consumed_of``, for a topic that every task reads completely.

    Raises:
        TopologyError: also if an offset reset is given.
    """
    consumed = consumed_of(method, given, *said, **keywords)
    if consumed.offset_reset is not None:
        raise TopologyError(
            f"{method} at {caller()} reads its whole topic, from the beginning; remove the offset reset policy "
            f"{consumed.offset_reset!r} from the Consumed"
        )
    return consumed


def offset_reset_of(given: OffsetReset | None) -> AutoOffsetReset | None:
    """Accept all forms in which a start offset can be given; None if it is not given.

    Raises:
        TopologyError: it has none of these forms.
    """
    if given is None:
        return None
    try:
        return AutoOffsetReset.of(given, f"offset_reset at {caller()}")
    except ConfigError as error:
        raise TopologyError(str(error)) from None
