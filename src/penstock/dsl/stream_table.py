"""Joins of streams with tables and with global tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.dsl.graph import DEFAULT_VALUE, result_type
from penstock.dsl.joined import TableOptions
from penstock.dsl.joins import JOINER, METHODS, check_sides
from penstock.errors import TopologyError
from penstock.plan import names, nodes
from penstock.plan.functions import caller, user_function
from penstock.plan.node import StoreSpec

if TYPE_CHECKING:
    from penstock.dsl.global_table import GlobalKTable
    from penstock.dsl.kstream import KStream
    from penstock.dsl.ktable import KTable


def no_windows(kind: str, windows: object, stream_joined: object) -> None:
    """Raise ``TopologyError`` if something is given that is for streams; the other side is a table."""
    for name, given in (("windows", windows), ("stream_joined", stream_joined)):
        if given is not None:
            raise TopologyError(
                f"{METHODS[kind]} at {caller()}: {name}= is for two streams, and the other side is a table; a table is "
                "looked up without windows"
            )


def join_table(
    kind: str,
    stream: KStream[Any, Any],
    table: KTable[Any, Any],
    joiner: Callable[..., Any],
    value: Any,
    name: str | None,
    options: TableOptions,
) -> KStream[Any, Any]:
    """The records of a stream, each with the table's value of its key."""
    from penstock.dsl.kstream import KStream

    graph, method = stream._graph, METHODS[kind]
    joined = options.as_joined(method, name)
    if options.key_selector is not None:
        raise TopologyError(
            f"{method} at {caller()}: a key selector is for global tables; before the join with a table use select_key"
        )
    key = joined.key or stream._key
    check_sides(method, graph, table._graph, key, table._key)
    function = user_function(joiner, method, *JOINER)
    values = joined.value or stream._value
    parent = stream._repartitioned_for_join(joined.name, key, values)
    own_name = graph.names.node(names.LEFT_JOIN if kind == nodes.LEFT else names.JOIN, joined.name)
    buffer = None
    if joined.grace_period_ms is not None:
        buffer = StoreSpec(name=f"{own_name}-Buffer", named_by_user=False, key=key, value=values)
    join = nodes.StreamTableJoin(
        name=own_name,
        parents=(parent,),
        where=caller(),
        table=table._node,
        joiner=function,
        is_left=kind == nodes.LEFT,
        value=result_type(value, function.returns(), DEFAULT_VALUE),
        grace=joined.grace_period_ms,
        store=buffer,
    )
    return KStream(graph, graph.add(join), key, join.value)


def join_global_table(
    kind: str,
    stream: KStream[Any, Any],
    table: GlobalKTable[Any, Any],
    joiner: Callable[..., Any],
    value: Any,
    name: str | None,
    options: TableOptions,
) -> KStream[Any, Any]:
    """The records of a stream, each with the global table's value of a key that a function gives."""
    from penstock.dsl.stream import KEY_VALUE

    graph, method = stream._graph, METHODS[kind]
    joined = options.as_joined(method, name)
    if joined.grace_period_ms is not None:
        raise TopologyError(
            f"{method} at {caller()}: a global table has no versions, so there is no grace period; leave it out"
        )
    if joined.key is not None or joined.value is not None:
        raise TopologyError(
            f"{method} at {caller()}: types in joined= are for a repartition topic in front of the join, and with a "
            "global table there is none; leave them out"
        )
    selector = user_function(options.key_selector, f"{method} with a global table: key_selector", KEY_VALUE)
    selected = result_type(None, selector.returns(), table._key)
    if selected != table._key:
        raise TopologyError(
            f"{method} at {caller()}: the key selector gives {selected.name} keys, and the global table's are "
            f"{table._key.name}; have it give keys of that type"
        )
    function = user_function(joiner, method, *JOINER)
    join = nodes.GlobalTableJoin(
        name=graph.names.node(names.LEFT_JOIN, joined.name),
        parents=(stream._node,),
        where=caller(),
        table=table._node,
        key_selector=selector,
        table_key=table._key,
        joiner=function,
        is_left=kind == nodes.LEFT,
        value=result_type(value, function.returns(), DEFAULT_VALUE),
    )
    return stream._next(join, value=join.value)
