"""The common part of all streams: the place in the graph, and the types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

from penstock.dsl.graph import Graph, Handle, K, V, html_of, shown
from penstock.plan import nodes
from penstock.plan.functions import UserFunction, caller
from penstock.plan.node import Node
from penstock.serdes import Serde
from penstock.usage.java_names import KafkaNames

if TYPE_CHECKING:
    from penstock.dsl.kstream import KStream


class Stream(KafkaNames, Generic[K, V]):
    """A stream, as its steps see it; users have a ``KStream``."""

    def __init__(self, graph: Graph, node: Node, key: Serde, value: Serde, repartition_required: bool = False):
        self._graph = graph
        self._node = node
        self._key = key
        self._value = value
        self._repartition_required = repartition_required
        self._repartitioned: nodes.Repartition | None = None
        """The repartition that joins of this stream share."""

    def _repr_html_(self) -> str:
        return html_of(self)

    def __repr__(self) -> str:
        return shown(type(self).__name__, self._key, self._value, self._node)

    @property
    def _handle(self) -> Handle:
        return Handle(self._graph, self._node, self._key, self._value, self._repartition_required)

    @staticmethod
    def _of(made: Handle) -> KStream[Any, Any]:
        from penstock.dsl.kstream import KStream

        return KStream(made.graph, made.node, made.key, made.value, made.repartition_required)

    def _name(self, prefix: str, given: str | None) -> str:
        return self._graph.names.node(prefix, given)

    def _at(self) -> dict[str, Any]:
        return {"parents": (self._node,), "where": caller()}

    def _next(self, node: Node, key: Serde | None = None, value: Serde | None = None) -> KStream[Any, Any]:
        from penstock.dsl.kstream import KStream

        required = self._repartition_required or node.changes_key
        return KStream(self._graph, self._graph.add(node), key or self._key, value or self._value, required)


def repartition_node(
    graph: Graph,
    parent: Node,
    prefix: str,
    key: Serde,
    value: Serde,
    partitions: int | None = None,
    keeps_null_keys: bool = False,
    partitioner: UserFunction | None = None,
) -> nodes.Repartition:
    """Add a repartition topic after a stream, named from a prefix."""
    around = graph.names.repartition(prefix)
    return nodes.Repartition(
        name=around.source,
        parents=(parent,),
        where=caller(),
        topic=around.topic,
        sink_name=around.sink,
        source_name=around.source,
        filter_name=None if keeps_null_keys else around.filter,
        key=key,
        value=value,
        partitions=partitions,
        keeps_null_keys=keeps_null_keys,
        partitioner=partitioner,
    )
