"""Topics whose values are envelopes (``format=``): the source, and the step that opens them."""

from __future__ import annotations

from typing import Any

from penstock.dsl.consumed import Consumed
from penstock.dsl.graph import Graph, Handle
from penstock.errors import TopologyError
from penstock.plan import names, nodes
from penstock.plan.dataframes import SourceFeed
from penstock.plan.defaults import DEFAULT_KEY
from penstock.plan.formats import row_time
from penstock.plan.functions import caller, check_type
from penstock.serdes import BYTES
from penstock.serdes.formats.base import Format
from penstock.serdes.formats.keys import is_possible


def opened(
    method: str,
    graph: Graph,
    topics: tuple[str, ...],
    pattern: str | None,
    read: Consumed[Any, Any],
    format: Format,
    outside: SourceFeed | None = None,
) -> Handle:
    """Add a source of envelopes and the step that opens them.

    Args:
        outside: the source of one's own that brings them in.

    Raises:
        TopologyError: an argument does not fit the format.
    """
    check_type(format, Format, f"format= of {method}", "such as debezium(Order), maxwell(Order) or cloud_event(Order)")
    if read.value is not None:
        raise TopologyError(
            f"{method} at {caller()}: format={format.name} says what values are, and value={read.value.name} does, "
            "too; leave value= out"
        )
    key = read.key or DEFAULT_KEY
    has_keys = format.has_keys and key != BYTES
    if has_keys and not is_possible(key):
        raise TopologyError(
            f"{method} at {caller()}: with format={format.name}, key= is str, int, float, a class or dict, or bytes "
            f"for keys as they are; got {key.name}"
        )
    time = row_time(read.timestamp, format, read.timestamp_unit, method)
    source = nodes.StreamSource(
        name=graph.names.suffixed(read.name, "-source", names.SOURCE),
        where=caller(),
        topics=topics,
        pattern=pattern,
        key=format.keys if has_keys else key,
        value=format.written,
        timestamp=time,
        offset_reset=read.offset_reset,
        outside=outside,
    )
    step: dict[str, Any] = {
        "name": graph.names.node(names.UNWRAP, read.name),
        "parents": (graph.add(source),),
        "where": caller(),
        "format": format,
        "value": format.value,
        "row_time": time if format.has_several and isinstance(read.timestamp, str) else None,
    }
    node = nodes.UnwrapRecord(key=key, **step) if has_keys else nodes.Unwrap(**step)
    return Handle(graph, graph.add(node), key, format.value, has_keys)


def refuse_frame(method: str, frame: Any, format: Any) -> None:
    """Raise ``TopologyError`` for a format of rows that come from a DataFrame."""
    if frame is not None and format is not None:
        raise TopologyError(
            f"{method} at {caller()}: format= is for topics; the rows of a DataFrame have columns. Leave it out"
        )


def check_rows(method: str, format: Format) -> None:
    """Raise ``TopologyError`` for a format whose values are no rows of a table."""
    check_type(format, Format, f"format= of {method}", "such as debezium(Order), maxwell(Order) or cloud_event(Order)")
    if format.only_streams:
        raise TopologyError(
            f"{method} at {caller()}: values of {format.name} are no rows of a table; read it with stream(...)"
        )
