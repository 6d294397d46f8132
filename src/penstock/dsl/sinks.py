"""``to_sink``: what is said of a sink, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.dsl.graph import Handle
from penstock.errors import TopologyError
from penstock.messages import show
from penstock.plan import names, nodes
from penstock.plan.dataframes import SinkTarget
from penstock.plan.functions import caller
from penstock.plan.names import check_name
from penstock.values.durations import Duration, to_ms

MAX_BEHIND = 1_000_000
RETRY_FOR: Duration = "5 minutes"
KEEP: Duration = "1 day"

_MISSING = ("stop", "skip")


@dataclass(frozen=True)
class Limits:
    """How far behind a sink may be, and for how long; see ``KStream.to_sink``."""

    max_behind: Any
    retry_for: Any
    keep: Any
    missing: Any


@dataclass(frozen=True)
class Wanted:
    """The arguments of ``to_sink``."""

    sink: Any
    name: Any
    columns: tuple[Any, Any, Any]
    """The names of the columns of keys, values and times."""
    limits: Limits
    is_table: bool = False


def add_sink(handle: Handle, wanted: Wanted) -> None:
    """Add the step whose records go into a sink.

    Raises:
        TopologyError: an argument is not valid.
    """
    at = f"to_sink at {caller()}"
    _check(at, wanted)
    limits = wanted.limits
    key, value, timestamp = wanted.columns
    target = SinkTarget(
        name=check_name(wanted.name),
        is_table=wanted.is_table,
        key=key,
        value=value,
        timestamp=timestamp,
        max_behind=limits.max_behind,
        retry_ms=to_ms(limits.retry_for, "to_sink: retry_for"),
        keep_ms=to_ms(limits.keep, "to_sink: keep"),
        skips_missing=limits.missing == "skip",
        where=caller(),
        shown=str(getattr(wanted.sink, "shown", type(wanted.sink).__name__)),
        sink=wanted.sink,
    )
    handle.graph.add(
        nodes.Sink(
            name=handle.graph.names.node(names.SINK),
            parents=(handle.node,),
            where=caller(),
            topic=f"{target.name}-sink",
            key=handle.key,
            value=handle.value,
            outside=target,
        )
    )


def _check(at: str, wanted: Wanted) -> None:
    sink, limits = wanted.sink, wanted.limits
    if isinstance(sink, type) or not callable(getattr(sink, "open", None)) or hasattr(sink, "read"):
        hint = f"; call it: {sink.__name__}(...)" if isinstance(sink, type) else ""
        raise TopologyError(
            f"{at}: a sink has a method open(partition), as penstock.sinks.Sink says; got {show(sink)}{hint}"
        )
    if wanted.is_table and getattr(sink, "streams_only", False):
        raise TopologyError(
            f"{at}: {sink.shown} takes streams alone: it adds rows, and replaces or deletes none. To add each change "
            "as a row, write table.to_stream().to_sink(...). To keep one row for each key, use PostgresSink, "
            "DuckDbSink, SqliteSink, DeltaSink or IcebergSink"
        )
    for what, text in zip(("key", "value", "timestamp"), wanted.columns, strict=True):
        may_lack = what == "timestamp" or (what == "key" and not wanted.is_table)
        if not (text is None and may_lack) and not (isinstance(text, str) and text.strip()):
            raise TopologyError(f"{at}: {what} is the name of a column; got {show(text)}")
    if type(limits.max_behind) is not int or limits.max_behind < 1:
        raise TopologyError(f"{at}: max_behind is a number of records from 1 on; got {show(limits.max_behind)}")
    if limits.missing not in _MISSING:
        raise TopologyError(f"{at}: missing is one of {', '.join(_MISSING)}; got {show(limits.missing)}")
