"""Joins of tables and of streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.dsl.graph import DEFAULT_VALUE, Graph, result_type
from penstock.dsl.ktable import KTable
from penstock.dsl.materialized import Materialized
from penstock.errors import TopologyError
from penstock.plan import names, nodes
from penstock.plan.functions import caller, user_function
from penstock.serdes import Serde

METHODS = {nodes.INNER: "join", nodes.LEFT: "left_join", nodes.OUTER: "outer_join"}
JOINER = (("left", "right"), ("key", "left", "right"))


def join_tables(
    kind: str,
    left: KTable,
    right: KTable,
    joiner: Callable[..., Any],
    value: Any,
    materialized: Materialized | None,
    name: str | None,
) -> KTable:
    """Join two tables by their keys."""
    method = METHODS[kind]
    if not isinstance(right, KTable):
        raise TopologyError(f"{method} at {caller()} joins a table with a table; got {right!r}")
    check_sides(method, left._graph, right._graph, left._key, right._key)
    function = user_function(joiner, method, *JOINER)
    values = result_type(value, function.returns(), DEFAULT_VALUE)
    key, values, spec = _spec(left, materialized, values)
    graph = left._graph
    own_name = graph.names.node(names.TABLE_MERGE, name)
    node = nodes.TableJoin(
        name=own_name,
        parents=(left._node, right._node),
        where=caller(),
        kind=kind,
        joiner=function,
        this_name=graph.names.suffixed(name, "-join-this", names.TABLE_JOIN_THIS),
        other_name=graph.names.suffixed(name, "-join-other", names.TABLE_JOIN_OTHER),
        value=values,
        store=spec,
    )
    return KTable(graph, graph.add(node), key, values)


def _spec(left: KTable, materialized: Materialized | None, value: Serde) -> tuple[Serde, Serde, nodes.StoreSpec | None]:
    """The types of a joined table, and its store if it was given a ``Materialized``."""
    if materialized is None:
        return left._key, value, None
    spec = left._graph.store(materialized, names.TABLE_MERGE, key=left._key, value=value)
    assert spec.key is not None
    assert spec.value is not None
    return spec.key, spec.value, spec


def check_sides(method: str, left: Graph, right: Graph, left_key: Serde, right_key: Serde) -> None:
    """Raise ``TopologyError`` unless both sides belong to one topology and have keys of one type."""
    if left is not right:
        raise TopologyError(
            f"{method} at {caller()} joins what two builders have made; make both sides with the same StreamsBuilder"
        )
    if left_key != right_key:
        raise TopologyError(
            f"{method} at {caller()}: the left side has keys of type {left_key.name}, the right side of type "
            f"{right_key.name}, so equal keys are not equal bytes; bring one side to the other's type with select_key "
            "or map, or read its topic with another key="
        )
