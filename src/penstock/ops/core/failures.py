"""Error messages about a failed record: which one, where, why, and what to do about it."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.errors import SerdeError
from penstock.handlers import ERROR_HEADERS
from penstock.messages import describe, nearest, said, show
from penstock.plan.functions import Maker, UserFunction
from penstock.plan.passes.makers import Made, Place, SourceTypes
from penstock.record import Windowed
from penstock.serdes import UNSAID, Serde
from penstock.usage.callers import users_frames
from penstock.usage.calls import why_result_unusable
from penstock.usage.java_names import of_java, of_module

_SAFE = (
    "  nothing of this batch was committed; fix the function or the record, or set on_error to 'skip' or "
    "'dead_letter:<topic>', and start again"
)


class Origin(NamedTuple):
    """Where a record came from, and its bytes."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True)
class Known:
    """The facts of the topology about keys and values."""

    makers: Mapping[str, Made] = field(default_factory=dict)
    """By step: the functions that made the keys and values it receives."""
    types: Mapping[str, SourceTypes] = field(default_factory=dict)
    """By topic: the types that it is read with."""
    places: Mapping[str, Place] = field(default_factory=dict)
    """By step: the user's line, and the topic that it writes."""

    def maker(self, node: str, column: str) -> Maker | None:
        """The function that made the keys or the values that a step receives; None if they come straight from a
        topic."""
        made = self.makers.get(node, Made())
        return made.key if column == "key" else made.value


class Failure(NamedTuple):
    """A record that failed in a step, with the error."""

    node: str
    origin: Origin
    error: BaseException
    function: UserFunction | None
    way_out: str = ""

    def message(self, known: Known) -> str:
        at = self.origin
        function = None if self.function is None or self.function.is_ours else self.function
        types = known.types.get(at.topic)
        key, value = (None, None) if types is None else (types.key, types.value)
        lines = [
            f"{self.node} failed on the record at topic {at.topic!r}, partition {at.partition}, offset {at.offset}: "
            f"{describe(self.error)}{_way(self.error)}",
            f"  the record: key {_shown(at.key, key)}, value {_shown(at.value, value)}, timestamp {at.timestamp}",
        ]
        place = known.places.get(self.node)
        told = "" if function is None else function.where
        if place is not None and place.where not in (told + self.way_out):
            lines.append(f"  the step: {place.described}")
        if function is not None:
            called = f"{function.name} at {function.location()}"
            lines.append(f"  the function: {called}, given to the step at {function.where}")
            lines += [f"  the line: {line}" for line in users_lines(self.error)]
        if self.way_out:
            lines.append(f"  the way out: {self.way_out}")
        return "\n".join([*lines, _SAFE])

    def headers(self) -> tuple[tuple[str, bytes], ...]:
        """The headers of a dead letter: the record's own, those of Kafka Streams (KIP-1034), and Penstock's."""
        texts = self._kafkas() | self._own()
        return *self.origin.headers, *((name, text.encode(errors="backslashreplace")) for name, text in texts.items())

    def _kafkas(self) -> dict[str, str]:
        kind = type(self.error)
        module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
        return {
            f"{ERROR_HEADERS}.exception": module + kind.__qualname__,
            f"{ERROR_HEADERS}.message": said(self.error),
            f"{ERROR_HEADERS}.stacktrace": "".join(traceback.format_exception(self.error)),
            f"{ERROR_HEADERS}.topic": self.origin.topic,
            f"{ERROR_HEADERS}.partition": str(self.origin.partition),
            f"{ERROR_HEADERS}.offset": str(self.origin.offset),
        }

    def _own(self) -> dict[str, str]:
        reason = {
            "penstock.node": self.node,
            "penstock.topic": self.origin.topic,
            "penstock.partition": str(self.origin.partition),
            "penstock.offset": str(self.origin.offset),
            "penstock.error": describe(self.error),
        }
        if self.function is not None:
            reason["penstock.function"] = f"{self.function.name} at {self.function.location()}"
        return reason


def misfit(column: str, serde: Serde, error: BaseException, maker: Maker | None) -> tuple[BaseException, str]:
    """Return the error and the advice for a key or value that does not have the type its step expects.

    Args:
        maker: the function that made it; None if it came straight from a topic.
    """
    column = "key" if column == "key" else "value"
    got = error.got if isinstance(error, SerdeError) else None
    if not isinstance(error, SerdeError) or got is None:
        return error, f"the {column}s of this step are of type {serde.name}; have the function return such"
    say = f"say {column}={got.__name__}" if got.__name__.isidentifier() else f"say {column}="
    if maker is None or not maker.function.method:
        return error, (
            f"the {column}s of this step are of type {serde.name}; {say} at that step, or map them to {serde.name} "
            "before it"
        )
    by, method = f"{maker.function.method} at {maker.function.where}", maker.function.method
    did = "forwarded" if method in _FORWARDING else "returned"
    expected = (
        ", and nothing tells the type of its results" if serde == UNSAID else f" where {_plain(serde)} is expected"
    )
    told = f"{by} {did} {'the key ' * (column == 'key')}{error.shown} of type {got.__name__}{expected}"
    if why := why_result_unusable(got):
        return _as(error, told), why
    if got is Windowed:
        return _as(error, told), "map_values and process_values keep the windowed keys as they are"
    if method == "reduce":
        return _as(error, told), f"a reducer gives what it gets; for other results use aggregate(..., {say[4:]})"
    if maker.type != serde:
        return _as(error, told), f"have it return {_plain(serde)}, or {say} where {_plain(serde)} is said behind it"
    annotate = "" if method in _FORWARDING else "annotate its result or "
    return _as(error, told), f"{annotate}{say} at {method}; without that the {column}s keep the type they had"


def misfit_result(
    error: BaseException, serde: Serde | None, function: UserFunction | None
) -> tuple[BaseException, str]:
    """Return the error for a failed result of a step's function, and the advice if its type is to blame.

    Args:
        serde: the type of its results, if known.
        function: the user's function; None for one of the step's own.
    """
    if serde is None or not isinstance(error, SerdeError):
        return error, ""
    return misfit("value", serde, error, None if function is None else Maker(function, serde))


def _way(error: BaseException) -> str:
    """Advice for a function that is written as Kafka Streams has it in Java."""
    way = of_module(error.name or "") if isinstance(error, NameError) else ""
    if isinstance(error, AttributeError) and error.name and type(error.obj).__dir__ is object.__dir__:
        return nearest(error.name, dir(error.obj)) if "did you mean" not in said(error) else ""
    if isinstance(error, TypeError):
        way = of_java("".join(users_lines(error)), str(error))
    return way and f"; {way}"


_FORWARDING = ("process", "process_values", "add_processor")


def _as(error: SerdeError, text: str) -> SerdeError:
    """Return an error like this one with another text."""
    other = SerdeError(text)
    other.got, other.shown = error.got, error.shown
    return other


def _plain(serde: Serde) -> str:
    """A type as users write it."""
    return serde.name.removeprefix("json[").removesuffix("]") if serde.name.startswith("json[") else serde.name


def way_out_of_reading(column: str, serde: Serde, source: SourceTypes | None) -> str:
    """Return the advice for a key or value that does not have the type its source declares."""
    column = "key" if column == "key" else "value"
    where = f" at {source.where}" if source is not None and source.where else ""
    return (
        f"the source{where} reads {column}s of type {serde.name}; if the topic holds others, say so with {column}= "
        f"({column}=bytes takes them as they are)"
    )


_BLAMED = "penstock_function"


def blame(error: BaseException, function: UserFunction | None) -> None:
    """Note which of several functions raised an error."""
    vars(error)[_BLAMED] = function


def blamed(error: BaseException, otherwise: UserFunction | None) -> UserFunction | None:
    """The function that raised an error."""
    found: UserFunction | None = vars(error).get(_BLAMED, otherwise)
    return found


def _shown(data: bytes | None, serde: Serde | None) -> str:
    """A key or value as the user knows it; its bytes if they do not decode."""
    if data is None or serde is None:
        return show(data)
    try:
        return show(serde.decode(data))
    except KeyboardInterrupt:
        raise
    except BaseException:
        return show(data)


def users_lines(error: BaseException) -> list[str]:
    """The innermost line of the user's code in the traceback; none if there is no such line."""
    frames = users_frames(error)[-1:]
    return [f"{frame.filename}:{frame.lineno}: {frame.line}".removesuffix(": ") for frame in frames]
