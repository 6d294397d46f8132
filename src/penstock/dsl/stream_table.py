"""Joins of streams with tables and with global tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.dsl.functions import KEY_VALUE
from penstock.dsl.graph import Handle, StreamHandle
from penstock.dsl.joined import TableOptions
from penstock.dsl.joins import GLOBAL_JOINER, JOINER, METHODS, check_sides
from penstock.dsl.results import joined_type, said_type
from penstock.errors import TopologyError
from penstock.plan import names, nodes
from penstock.plan.functions import caller, user_function
from penstock.plan.node import StoreSpec

_LOOKED_UP = "give key_selector=lambda key, value: ..., which returns a key of the global table"


def no_windows(kind: str, windows: object, stream_joined: object) -> None:
    """Raise ``TopologyError`` if options for streams are given; the other side is a table."""
    for name, given in (("windows", windows), ("stream_joined", stream_joined)):
        if callable(given):  # Java has the key selector second
            raise TopologyError(
                f"{METHODS[kind]} at {caller()}: got two functions, as in Java's order; a join with a global table is "
                f"{METHODS[kind]}(table, joiner, key_selector=...)"
            )
        if given is not None:
            raise TopologyError(
                f"{METHODS[kind]} at {caller()}: {name}= is for two streams, and the other side is a table; a table is "
                "looked up without windows"
            )


def join_table(
    kind: str,
    stream: StreamHandle,
    table: Handle,
    joiner: Callable[..., Any],
    value: Any,
    name: str | None,
    options: TableOptions,
) -> Handle:
    """Join each record of a stream with the table's value for its key."""
    graph, method = stream.graph, METHODS[kind]
    joined = options.as_joined(method, name)
    if options.key_selector is not None:
        raise TopologyError(
            f"{method} at {caller()}: a key selector is for global tables; before the join with a table use select_key"
        )
    key = joined.key or stream.key
    check_sides(method, graph, table.graph, key, table.key)
    if joined.other_value is not None and joined.other_value != table.value:
        raise TopologyError(
            f"{method} at {caller()}: the values of the table are of {table.value}, and Joined says "
            f"{joined.other_value}; leave the third type out"
        )
    function = user_function(joiner, method, *JOINER, context=True)
    values = joined.value or stream.value
    parent = stream.for_join(joined.name, key, values)
    own_name = graph.names.node(names.LEFT_JOIN if kind == nodes.LEFT else names.JOIN, joined.name)
    buffer = None
    if joined.grace_period_ms is not None:
        buffer = StoreSpec(name=f"{own_name}-Buffer", named_by_user=False, key=key, value=values)
    join = nodes.StreamTableJoin(
        name=own_name,
        parents=(parent,),
        where=caller(),
        table=table.node,
        joiner=function,
        is_left=kind == nodes.LEFT,
        value=joined_type(value, function, values, table.value),
        grace=joined.grace_period_ms,
        store=buffer,
    )
    return stream.next(join, key, join.value)


def join_global_table(
    kind: str,
    stream: StreamHandle,
    table: Handle,
    joiner: Callable[..., Any],
    value: Any,
    name: str | None,
    options: TableOptions,
) -> Handle:
    """Join each record of a stream with the global table's value for a key that a function computes."""
    graph, method = stream.graph, METHODS[kind]
    joined = options.as_joined(method, name)
    if joined.grace_period_ms is not None:
        raise TopologyError(
            f"{method} at {caller()}: a global table has no versions, so there is no grace period; leave it out"
        )
    if any(type_ is not None for type_ in (joined.key, joined.value, joined.other_value)):
        raise TopologyError(
            f"{method} at {caller()}: types in joined= are for a repartition topic in front of the join, and a join "
            "with a global table has no such topic; leave them out"
        )
    step = f"{method} with a global table: key_selector"
    selector = user_function(options.key_selector, step, KEY_VALUE, hint=_LOOKED_UP, context=True)
    selected = said_type(None, selector.returns(), table.key)
    if selected != table.key:
        raise TopologyError(
            f"{method} at {caller()}: the key selector gives {selected.name} keys, and the global table's are "
            f"{table.key.name}; it must return keys of that type"
        )
    function = user_function(joiner, method, *GLOBAL_JOINER, context=True)
    join = nodes.GlobalTableJoin(
        name=graph.names.node(names.LEFT_JOIN, joined.name),
        parents=(stream.node,),
        where=caller(),
        table=table.node,
        key_selector=selector,
        table_key=table.key,
        joiner=function,
        is_left=kind == nodes.LEFT,
        value=joined_type(value, function, stream.value, table.value),
    )
    return Handle(graph, graph.add(join), stream.key, join.value, stream.repartition_required)
