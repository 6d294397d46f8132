"""The common part of all DSL steps: the graph to which they add nodes, and the types of their results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any, TypeVar

from penstock.dsl.materialized import Materialized
from penstock.plan.drawing import of_steps
from penstock.plan.names import Names
from penstock.plan.node import Node, StoreSpec
from penstock.serdes import Serde

N = TypeVar("N", bound=Node)
K = TypeVar("K")
"""The keys of a stream or table, as an editor sees them."""
V = TypeVar("V")
"""The values."""
K2 = TypeVar("K2")
"""The keys of another stream or table, or of a step's results."""
V2 = TypeVar("V2")
R = TypeVar("R")
"""The result of a user function."""


class Graph:
    """The nodes of an unfinished topology, in the order of their declaration.

    Each aggregation that shares a repartition declares it again, which moves it back in the order, as in Kafka Streams.
    """

    def __init__(self) -> None:
        self.names = Names()
        self.declared: list[Node] = []
        self.stores: dict[str, StoreSpec] = {}
        """The stores that were added for processors, by name."""
        self.builders: dict[str, Any] = {}
        """Their builders, by name."""

    def add(self, node: N) -> N:
        self.declared.append(node)
        return node

    def store(self, materialized: Materialized | None, prefix: str, **types: Serde | None) -> StoreSpec:
        """The store that a step asked for; a store without a name gets the next generated one."""
        given = materialized or Materialized()
        return StoreSpec(
            name=given.store if given.store is not None else self.names.store(prefix),
            named_by_user=given.store is not None,
            kind=given.kind,
            retention=given.retention_ms,
            caching=given.caching,
            history_retention=given.history_retention_ms,
            segment_interval=given.segment_interval_ms,
            shape=given.shape,
            supplier=given.supplier,
            headers=given.headers,
            is_chosen=given.shape is not None,
            suppliers=given.suppliers,
            key=given.key or types.get("key"),
            value=given.value or types.get("value"),
        )


@dataclass(frozen=True)
class Handle:
    """The place of a stream or a table in the graph, and its types: steps are built from it."""

    graph: Graph
    node: Node
    key: Serde
    value: Serde
    repartition_required: bool = False
    """Whether its keys have changed since it was last partitioned by them."""

    def next(self, node: Node, key: Serde | None = None, value: Serde | None = None) -> Handle:
        """Add a step after this one, and return its handle; the step counts as partitioned by its keys."""
        return Handle(self.graph, self.graph.add(node), key or self.key, value or self.value)


@dataclass(frozen=True, kw_only=True)
class StreamHandle(Handle):
    """The handle of a stream that is one side of a join."""

    for_join: Callable[[str | None, Serde, Serde], Node]
    """Given a name and types, returns the step that a join reads: the stream's own, or a repartition shared by its
    joins."""


def html_of(stream: Any) -> str:
    """HTML of a stream or a table for notebooks: its kind, and the steps that lead to it."""
    handle: Handle = stream._handle
    title = f"{type(stream).__name__} {handle.key.name} → {handle.value.name}"
    return f"<div><b>{escape(title)}</b></div>{of_steps(handle.node)}"


def shown(kind: str, key: Serde, value: Serde, node: Node) -> str:
    """The ``repr`` of a stream or table: its types, and the step that it comes from."""
    return f"<{kind} {key.name} -> {value.name} of {node.name} at {node.where}>"
