"""Names as Kafka Streams generates them: a prefix and a counter that every step increments."""

from __future__ import annotations

import re
from typing import Any

from penstock.errors import TopologyError
from penstock.messages import show
from penstock.plan.functions import caller

SOURCE = "KSTREAM-SOURCE-"
SINK = "KSTREAM-SINK-"
STREAM_FILTER = "KSTREAM-FILTER-"
MAP = "KSTREAM-MAP-"
MAP_VALUES = "KSTREAM-MAPVALUES-"
MAP_VALUES_ASYNC = "KSTREAM-MAPVALUES-ASYNC-"
FILTER_ASYNC = "KSTREAM-FILTER-ASYNC-"
FLAT_MAP = "KSTREAM-FLATMAP-"
FLAT_MAP_VALUES = "KSTREAM-FLATMAPVALUES-"
SELECT_KEY = "KSTREAM-KEY-SELECT-"
PEEK = "KSTREAM-PEEK-"
UNWRAP = "KSTREAM-UNWRAP-"
PRINT = "KSTREAM-PRINTER-"
FOREACH = "KSTREAM-FOREACH-"
PROCESSOR = "KSTREAM-PROCESSOR-"
PROCESS_VALUES = "KSTREAM-PROCESSVALUES-"
JOIN = "KSTREAM-JOIN-"
LEFT_JOIN = "KSTREAM-LEFTJOIN-"
MERGE = "KSTREAM-MERGE-"
BRANCH = "KSTREAM-BRANCH-"
REPARTITION = "KSTREAM-REPARTITION-"
TO_TABLE = "KSTREAM-TOTABLE-"
STREAM_AGGREGATE = "KSTREAM-AGGREGATE-"
STREAM_REDUCE = "KSTREAM-REDUCE-"
DISTINCT = "KSTREAM-DISTINCT-"
COGROUP_AGGREGATE = "COGROUPKSTREAM-AGGREGATE-"
COGROUP_MERGE = "COGROUPKSTREAM-MERGE-"
DEDUPLICATE = "KSTREAM-DEDUPLICATE-"
RESTORE_KEY = "KSTREAM-KEY-RESTORE-"
TABLE_SOURCE = "KTABLE-SOURCE-"
TABLE_FILTER = "KTABLE-FILTER-"
TABLE_MAP_VALUES = "KTABLE-MAPVALUES-"
TABLE_TRANSFORM_VALUES = "KTABLE-TRANSFORMVALUES-"
TO_STREAM = "KTABLE-TOSTREAM-"
TABLE_SELECT = "KTABLE-SELECT-"
TABLE_AGGREGATE = "KTABLE-AGGREGATE-"
TABLE_REDUCE = "KTABLE-REDUCE-"
SUPPRESS = "KTABLE-SUPPRESS-"
STREAM_WINDOWED = "KSTREAM-WINDOWED-"
STREAM_JOIN_THIS = "KSTREAM-JOINTHIS-"
STREAM_JOIN_OTHER = "KSTREAM-JOINOTHER-"
STREAM_OUTER_THIS = "KSTREAM-OUTERTHIS-"
STREAM_OUTER_OTHER = "KSTREAM-OUTEROTHER-"
STREAM_OUTER_SHARED = "KSTREAM-OUTERSHARED-"
TABLE_SINK = "KTABLE-SINK-"
FK_REGISTRATION = "KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-"
FK_STORE = "KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-"
FK_PROCESSOR = "KTABLE-FK-JOIN-SUBSCRIPTION-PROCESSOR-"
FK_RESPONSE = "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-"
FK_RESOLVER = "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR-"
FK_OUTPUT = "KTABLE-FK-JOIN-OUTPUT-"
TABLE_MERGE = "KTABLE-MERGE-"
TABLE_JOIN_THIS = "KTABLE-JOINTHIS-"
TABLE_JOIN_OTHER = "KTABLE-JOINOTHER-"

REPARTITION_SUFFIX = "-repartition"

_GENERATED = re.compile(r"KSTREAM.*-[0-9]{10}")
_NUMBERED = re.compile(r"(^(KSTREAM|KTABLE|COGROUPKSTREAM)-|-STATE-STORE-)[A-Z-]*[0-9]{10}")
_LEGAL = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class Names:
    """Hands out the names of nodes and stores.

    >>> names = Names()
    >>> names.node(SOURCE), names.store(STREAM_AGGREGATE), names.node(SINK, "my-sink"), names.node(SINK)
    ('KSTREAM-SOURCE-0000000000', 'KSTREAM-AGGREGATE-STATE-STORE-0000000001', 'my-sink', 'KSTREAM-SINK-0000000003')
    """

    def __init__(self) -> None:
        self._index = 0

    def node(self, prefix: str, given: str | None = None) -> str:
        """Return the given name, or the next one with this prefix; either way a number is used up."""
        generated = self._next(prefix)
        return generated if given is None else check_name(given)

    def node_or_next(self, prefix: str, given: str | None) -> str:
        """Return the given name without using up a number, or the next one with this prefix."""
        return self._next(prefix) if given is None else check_name(given)

    def suffixed(self, given: str | None, suffix: str, prefix: str) -> str:
        """Return the given name with a suffix, or the next one with this prefix; either way a number is used up."""
        generated = self._next(prefix)
        return generated if given is None else check_name(check_name(given) + suffix)

    def store(self, prefix: str) -> str:
        """Return the next name for a store."""
        return self._next(f"{prefix}STATE-STORE-")

    def repartition(self, prefix: str) -> RepartitionNames:
        """Return the names around a repartition topic; three numbers are used up, needed or not."""
        topic = prefix if prefix.endswith(REPARTITION_SUFFIX) else prefix + REPARTITION_SUFFIX
        sink, filter_, source = self._next(SINK), self._next(STREAM_FILTER), self._next(SOURCE)
        if _GENERATED.fullmatch(prefix):
            return RepartitionNames(topic, sink, filter_, source)
        return RepartitionNames(topic, f"{topic}-sink", f"{topic}-filter", f"{topic}-source")

    def _next(self, prefix: str) -> str:
        name = f"{prefix}{self._index:010d}"
        self._index += 1
        return name


class RepartitionNames:
    """A repartition topic and the three nodes around it."""

    def __init__(self, topic: str, sink: str, filter_: str, source: str):
        self.topic = topic
        self.sink = sink
        self.filter = filter_
        self.source = source


def is_generated(name: str) -> bool:
    """True if the name of a store or a repartition topic contains a number that Kafka Streams generated.

    >>> is_generated("KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition"), is_generated("t-STATE-STORE-0000000001")
    (True, True)
    >>> is_generated("counts-repartition"), is_generated("since-2026010100")
    (False, False)
    """
    return _NUMBERED.search(name) is not None


def check_name_if_given(name: str | None) -> None:
    """Raise ``TopologyError`` if a name is invalid for nodes and stores; None is allowed."""
    if name is not None:
        check_name(name)


def check_name(name: str) -> str:
    """Return the name if it is valid for a node or a store; raise ``TopologyError`` otherwise."""
    if not isinstance(name, str) or not _LEGAL.fullmatch(name) or name in (".", ".."):
        raise TopologyError(
            f"{name!r} at {caller()} cannot be a name: use 1 to 249 letters, digits, dots, underscores and hyphens"
        )
    return name


def check_application_id(given: Any) -> None:
    """Raise ``TopologyError`` if an application cannot have this id, which is in the names of topics and folders."""
    if not isinstance(given, str) or not _LEGAL.fullmatch(given) or given in (".", ".."):
        raise TopologyError(
            f"{show(given)} cannot be an application's id: use 1 to 249 letters, digits, dots, underscores and "
            "hyphens, such as 'my-application'"
        )
