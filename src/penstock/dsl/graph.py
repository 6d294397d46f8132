"""What all steps of the DSL share: the graph they add nodes to, the types of what they hand on."""

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
"""The keys of a stream or table, as an editor knows them."""
V = TypeVar("V")
"""The values."""
K2 = TypeVar("K2")
"""The keys of another one, or those that a step results in."""
V2 = TypeVar("V2")
R = TypeVar("R")
"""What a user's function results in."""


class Graph:
    """The nodes of a topology in the making, in the order in which they were declared.

    A repartition that several aggregations share is declared again by each, which moves it back, as in Kafka Streams.
    """

    def __init__(self) -> None:
        self.names = Names()
        self.declared: list[Node] = []
        self.stores: dict[str, StoreSpec] = {}
        """The stores that were added for processors, by name."""
        self.builders: dict[str, Any] = {}
        """What they were made by."""

    def add(self, node: N) -> N:
        self.declared.append(node)
        return node

    def store(self, materialized: Materialized | None, prefix: str, **types: Serde | None) -> StoreSpec:
        """The store a step asked for; a store without a name gets the next one."""
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
            key=given.key or types.get("key"),
            value=given.value or types.get("value"),
        )


@dataclass(frozen=True)
class Handle:
    """Where a stream or a table stands in the graph, and its types: what steps are made of, whoever asks for them."""

    graph: Graph
    node: Node
    key: Serde
    value: Serde
    repartition_required: bool = False
    """Whether its keys were changed since it was last partitioned by them."""

    def next(self, node: Node, key: Serde | None = None, value: Serde | None = None) -> Handle:
        """That of a step behind it, which is added, partitioned by its keys."""
        return Handle(self.graph, self.graph.add(node), key or self.key, value or self.value)


@dataclass(frozen=True, kw_only=True)
class StreamHandle(Handle):
    """That of a stream that is to be joined."""

    for_join: Callable[[str | None, Serde, Serde], Node]
    """Given a name and types, the step that a join reads: the stream's own, or a repartition that its joins share."""


def html_of(stream: Any) -> str:
    """A stream or a table for notebooks: what it is, and the steps that lead to it."""
    handle: Handle = stream._handle
    title = f"{type(stream).__name__} {handle.key.name} → {handle.value.name}"
    return f"<div><b>{escape(title)}</b></div>{of_steps(handle.node)}"


def shown(kind: str, key: Serde, value: Serde, node: Node) -> str:
    """What the ``repr`` of a stream or table says: its types, and the step it comes from."""
    return f"<{kind} {key.name} -> {value.name} of {node.name} at {node.where}>"
