"""Handlers of failed records: for deserialization, processing and production (KIP-161, KIP-1033)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import import_module
from typing import Any, NamedTuple

from penstock.errors import ConfigError
from penstock.usage.calls import close, why_unusable

DESERIALIZATION = "deserialization"
PROCESSING = "processing"
PRODUCTION = "production"
KINDS = (DESERIALIZATION, PROCESSING, PRODUCTION)


ERROR_HEADERS = "__streams.errors"
"""The prefix of the names of Kafka Streams' dead letter headers."""


class HandlerResponse(StrEnum):
    """The answer of a handler; the plain strings work too.

    >>> HandlerResponse("continue") is HandlerResponse.CONTINUE
    True
    """

    FAIL = "fail"
    """Stop the program; nothing of the commit counts."""
    CONTINUE = "continue"
    """Leave the record out, and count it."""
    DEAD_LETTER = "dead_letter"
    """Write the record as it came into the dead-letter topic, and count it."""


class ErrorHandlerContext(NamedTuple):
    """Information about a failed record, for its handler (``ErrorHandlerContext``).

    >>> from penstock import StreamsBuilder
    >>> from penstock.testing import TopologyTestDriver
    >>> def skip_zeros(context):
    ...     return "continue" if isinstance(context.error, ZeroDivisionError) else "fail"
    >>> builder = StreamsBuilder()
    >>> builder.stream("in", value=int).map_values(lambda value: 6 // value).to("out")
    >>> driver = TopologyTestDriver(builder.build(), processing_exception_handler=skip_zeros)
    >>> driver.pipe_record_list("in", [("a", 0), ("b", 2)])
    >>> [record.value for record in driver.read_output("out")]
    [3]
    """

    kind: str
    """``deserialization``, ``processing`` or ``production``."""
    topic: str
    """The topic that the record came from; with ``partition`` and ``offset`` its place."""
    partition: int
    offset: int
    timestamp: int
    source_raw_key: bytes | None
    """The key and the value, as received."""
    source_raw_value: bytes | None
    processor_node_id: str
    """The step that failed."""
    task_id: str
    error: BaseException
    """The error of the step."""
    headers: tuple[tuple[str, bytes], ...] = ()
    """The record's headers, as received."""


Handler = Callable[[ErrorHandlerContext], Any]
"""A function of (context), or an object with it as its method ``handle``."""

_CHOICES = {
    "fail": "fail",
    "continue": "continue",
    "skip": "continue",
    "LogAndFailExceptionHandler": "fail",
    "LogAndContinueExceptionHandler": "continue",
    "LogAndFailProcessingExceptionHandler": "fail",
    "LogAndContinueProcessingExceptionHandler": "continue",
    "DefaultProductionExceptionHandler": "fail",
}


@dataclass(frozen=True)
class Handlers:
    """The handler of each kind of error, and the topic of dead letters."""

    by_kind: dict[str, str | Handler] = field(default_factory=lambda: dict.fromkeys(KINDS, "fail"))
    dead_letter_topic: str = ""
    counts: bool = True
    """Whether this task writes dead letters; otherwise another task does."""

    def answer(self, context: Callable[[], ErrorHandlerContext], kind: str) -> str:
        """Return ``fail``, ``continue`` or ``dead_letter``.

        Raises:
            ConfigError: the handler returns something else, or ``dead_letter`` without such a topic.
        """
        handler = self.by_kind[kind]
        if isinstance(handler, str):
            return self._counted(handler)
        given = handler(context())
        answer = _CHOICES.get(given, given) if isinstance(given, str) else given
        if answer not in tuple(HandlerResponse):
            close(given)
            raise ConfigError(f"the {kind} handler must answer 'fail', 'continue' or 'dead_letter'; got {given!r}")
        if answer == HandlerResponse.DEAD_LETTER and not self.dead_letter_topic:
            raise ConfigError(
                f"the {kind} handler answers 'dead_letter', but nothing says where these go; set dead_letter_topic"
            )
        return self._counted(str(answer))

    def always_fail(self, kind: str) -> bool:
        """Return whether all errors of a kind stop the program."""
        return self.by_kind[kind] == HandlerResponse.FAIL

    def _counted(self, answer: str) -> str:
        return "continue" if answer == HandlerResponse.DEAD_LETTER and not self.counts else answer


def handler_of(given: Any, setting: str, dead_letter_topic: str) -> str | Handler:
    """Return the handler for a setting's value.

    Raises:
        ConfigError: the value is no handler.
    """
    if isinstance(given, str) and given in _CHOICES:
        return _CHOICES[given]
    if given == HandlerResponse.DEAD_LETTER:
        if not dead_letter_topic:
            raise ConfigError(f"{setting} is 'dead_letter', but nothing says where these go; set dead_letter_topic")
        return "dead_letter"
    found = _named(given, setting) if isinstance(given, str) else given
    found = found() if isinstance(found, type) else found
    handle = getattr(found, "handle", found)
    if not callable(handle):
        raise ConfigError(_expected(setting, given))
    if why := why_unusable(handle):
        raise ConfigError(f"{setting} must answer at once; {given!r} is {why}")
    return handle  # type: ignore[no-any-return]


def _named(name: str, setting: str) -> Any:
    """Import the object of a text such as ``package.module:name``."""
    module, colon, attribute = name.partition(":")
    if not colon:
        raise ConfigError(_expected(setting, name))
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{_expected(setting, name)} ({error})") from None


def _expected(setting: str, given: Any) -> str:
    return (
        f"{setting} must be 'fail', 'continue', 'dead_letter', a function of (context), or its name as "
        f"'package.module:name'; got {given!r}"
    )
