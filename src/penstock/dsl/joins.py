"""Joins of tables and of streams."""

from __future__ import annotations

from collections.abc import Callable
from inspect import isfunction
from typing import Any

from penstock.dsl.functions import KEY_VALUE, VALUE
from penstock.dsl.graph import Graph, Handle
from penstock.dsl.materialized import Materialized, kept_with_context
from penstock.dsl.results import joined_type, said_type
from penstock.errors import TopologyError
from penstock.plan import names, nodes
from penstock.plan.functions import UserFunction, caller, user_function
from penstock.plan.node import Node, StoreSpec
from penstock.plan.sinks import partitioner_of
from penstock.serdes import BYTES, Serde

METHODS = {nodes.INNER: "join", nodes.LEFT: "left_join", nodes.OUTER: "outer_join"}
JOINER = (("left", "right"), ("key", "left", "right"))
GLOBAL_JOINER = (*JOINER, ("key", "mapped_key", "left", "right"))
"""With the key that was looked up in a global table, which need not be the record's (KIP-1340)."""
_OF_THE_PAST = "a complete join corrects past results, whose records are no longer known"
WHERE_IT_WAS = "it is asked again where a row was, when that changes, and then another record is at hand"


def join_tables(
    kind: str,
    left: Handle,
    right: Handle,
    joiner: Callable[..., Any],
    value: Any,
    materialized: Materialized | None,
    name: str | None,
    is_complete: bool = False,
) -> Handle:
    """Join two tables by their keys."""
    method = METHODS[kind]
    check_sides(method, left.graph, right.graph, left.key, right.key)
    hint = "" if kind == nodes.OUTER else f"a join by a foreign key is {method}(other, joiner, foreign_key=...)"
    if hint and isfunction(value):
        raise TopologyError(f"{method} at {caller()}: value is the type of the results; got a function; {hint}")
    function = user_function(joiner, method, *JOINER, hint=hint, context=not is_complete, why_not=_OF_THE_PAST)
    values = joined_type(value, function, left.value, right.value)
    key, values, spec = _spec(left, kept_with_context(materialized, function), values)
    graph = left.graph
    own_name = graph.names.node(names.TABLE_MERGE, name)
    node = nodes.TableJoin(
        name=own_name,
        parents=(left.node, right.node),
        where=caller(),
        kind=kind,
        joiner=function,
        this_name=graph.names.suffixed(name, "-join-this", names.TABLE_JOIN_THIS),
        other_name=graph.names.suffixed(name, "-join-other", names.TABLE_JOIN_OTHER),
        value=values,
        store=spec,
        is_complete=is_complete,
    )
    return left.next(node, key, values)


def _spec(left: Handle, materialized: Materialized | None, value: Serde) -> tuple[Serde, Serde, StoreSpec | None]:
    """The types of a joined table, and its store if it was given a ``Materialized``."""
    if materialized is None:
        return left.key, value, None
    spec = left.graph.store(materialized, names.TABLE_MERGE, key=left.key, value=value)
    assert spec.key is not None
    assert spec.value is not None
    return spec.key, spec.value, spec


def check_sides(method: str, left: Graph, right: Graph, left_key: Serde, right_key: Serde) -> None:
    """Raise ``TopologyError`` unless both sides belong to the same topology and have keys of the same type."""
    if left is not right:
        raise TopologyError(
            f"{method} at {caller()} joins streams or tables of two builders; make both sides with the same "
            "StreamsBuilder"
        )
    if left_key != right_key:
        raise TopologyError(
            f"{method} at {caller()}: the left side has keys of type {left_key.name}, the right side of type "
            f"{right_key.name}, so equal keys are not equal bytes. Bring one side to the other's type with select_key "
            "or map, or read its topic with another key="
        )


def join_tables_by_foreign_key(
    kind: str,
    left: Handle,
    right: Handle,
    foreign_key: Callable[..., Any],
    joiner: Callable[..., Any],
    value: Any,
    materialized: Materialized | None,
    name: str | None,
    partitioners: tuple[Any, Any] = (None, None),
) -> Handle:
    """Join two tables by the key that a function extracts from the left table's rows."""
    method, graph, made = METHODS[kind], left.graph, left.graph.names
    if kind == nodes.OUTER:
        raise TopologyError(f"outer_join at {caller()}: there is no outer join by a foreign key; use left_join")
    extractor = user_function(foreign_key, f"{method}: foreign_key", VALUE, KEY_VALUE, why_not=WHERE_IT_WAS)
    function = user_function(joiner, method, *JOINER, context=True)
    check_sides(method, graph, right.graph, said_type(None, extractor.returns(), right.key), right.key)
    is_left = kind == nodes.LEFT
    receive = _subscriptions(
        name, left, right.key, extractor, is_left, partitioner_of(partitioners[1], method, "other_partitioner")
    )
    returned = _responses(name, left.key, right, receive, partitioner_of(partitioners[0], method))
    result = joined_type(value, function, left.value, right.value)
    resolver = made.suffixed(name, "-subscription-response-resolver", names.FK_RESOLVER)
    numbers = StoreSpec(name=names.check_name(f"{resolver}-numbers"), named_by_user=False, key=left.key, value=BYTES)
    announced = _announced(resolver, left, receive.subscribe, returned.partitioner)
    respond = graph.add(
        nodes.ResponseJoin(
            announced=announced,
            name=resolver,
            store=numbers,
            parents=(returned,),
            where=caller(),
            table=left.node,
            joiner=function,
            is_left=is_left,
            left=left.value,
            right=right.value,
            value=result,
        )
    )
    own_name = made.suffixed(name, "-result", names.FK_OUTPUT)
    spec = graph.store(materialized, names.FK_OUTPUT, key=left.key, value=result)
    assert spec.key is not None
    assert spec.value is not None
    node = nodes.ToTable(name=own_name, parents=(respond,), where=caller(), store=spec)
    return left.next(node, spec.key, spec.value)


def _subscriptions(
    name: str | None,
    left: Handle,
    key: Serde,
    extractor: UserFunction,
    is_left: bool,
    partitioner: UserFunction | None,
) -> nodes.SubscriptionReceive:
    """Send the left table's changes to the right table's keys, and store them there."""
    graph = left.graph
    topic = graph.names.suffixed(name, "-subscription-registration", names.FK_REGISTRATION)
    subscribe = graph.add(
        nodes.SubscriptionSend(
            name=graph.names.suffixed(name, "-subscription-registration-processor", names.FK_REGISTRATION),
            parents=(left.node,),
            where=caller(),
            mapper=extractor,
            is_left=is_left,
            key=key,
            left_key=left.key,
        )
    )
    sent = _through_topic(graph, f"{topic}-topic", name and f"{topic}", key, partitioner, subscribe)
    store = StoreSpec(
        name=graph.names.suffixed(name, "-subscription-store", names.FK_STORE),
        named_by_user=False,
        key=BYTES,
        value=BYTES,
    )
    return graph.add(
        nodes.SubscriptionReceive(
            name=graph.names.suffixed(name, "-subscription-receive", names.FK_PROCESSOR),
            parents=(sent,),
            where=caller(),
            store=store,
        )
    )


def _responses(
    name: str | None,
    key: Serde,
    right: Handle,
    receive: nodes.SubscriptionReceive,
    partitioner: UserFunction | None,
) -> nodes.Repartition:
    """Send the right table's values, when subscriptions arrive and when they change, to the left table's keys."""
    graph = right.graph
    answered = graph.add(
        nodes.SubscriptionJoin(
            name=graph.names.suffixed(name, "-subscription-join-foreign", names.FK_PROCESSOR),
            parents=(receive,),
            where=caller(),
            table=right.node,
            key=key,
        )
    )
    told = graph.add(
        nodes.ForeignTableJoin(
            name=graph.names.suffixed(name, "-foreign-join-subscription", names.FK_PROCESSOR),
            parents=(right.node,),
            where=caller(),
            receive=receive,
            key=key,
        )
    )
    topic = graph.names.suffixed(name, "-subscription-response", names.FK_RESPONSE)
    return _through_topic(graph, f"{topic}-topic", name and f"{topic}", key, partitioner, answered, told)


def _announced(name: str, left: Handle, subscribe: Node, partitioner: UserFunction | None) -> nodes.Repartition:
    """Send the left table's changes straight to the step that makes results."""
    told = left.graph.add(
        nodes.Announce(
            name=f"{name}-announce", parents=(left.node,), where=caller(), subscribe=subscribe, value=left.value
        )
    )
    return left.graph.add(
        nodes.Repartition(
            name=f"{name}-announced-source",
            parents=(told,),
            where=caller(),
            topic=f"{name}-announced-topic",
            sink_name=f"{name}-announced-sink",
            source_name=f"{name}-announced-source",
            filter_name=None,
            key=left.key,
            value=left.value,
            partitioner=partitioner,
        )
    )


def _through_topic(
    graph: Graph, topic: str, name: str | None, key: Serde, partitioner: UserFunction | None, *parents: Node
) -> nodes.Repartition:
    """An internal topic of a foreign-key join."""
    sink = graph.names.suffixed(name, "-sink", names.TABLE_SINK)
    source = graph.names.suffixed(name, "-source", names.TABLE_SOURCE)
    return graph.add(
        nodes.Repartition(
            name=source,
            parents=parents,
            where=caller(),
            topic=topic,
            sink_name=sink,
            source_name=source,
            filter_name=None,
            key=key,
            value=BYTES,
            keeps_null_keys=True,
            carries_changes=True,
            partitioner=partitioner,
        )
    )
