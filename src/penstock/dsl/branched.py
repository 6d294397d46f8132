"""A stream that is being split into branches (KIP-418)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, overload

from penstock.dsl.functions import OfKeyValue
from penstock.dsl.graph import K, V
from penstock.dsl.stream import KEY_VALUE
from penstock.errors import TopologyError
from penstock.plan import names, nodes
from penstock.plan.functions import UserFunction, caller, user_function
from penstock.processor import RecordContext

if TYPE_CHECKING:
    from penstock.dsl.kstream import KStream


class BranchedKStream(Generic[K, V]):
    """A stream being split; call ``branch`` for each branch and end with a default branch or without one."""

    def __init__(self, stream: KStream[K, V], node: nodes.Split, prefix: str):
        self._stream = stream
        self._node = node
        self._prefix = prefix
        self._streams: dict[str, KStream[K, V]] = {}

    @overload
    def branch(self, predicate: Callable[[K, V], Any], name: str | None = None) -> BranchedKStream[K, V]: ...

    @overload
    def branch(
        self, predicate: Callable[[K, V, RecordContext], Any], name: str | None = None
    ) -> BranchedKStream[K, V]: ...

    def branch(self, predicate: OfKeyValue[K, V, Any], name: str | None = None) -> BranchedKStream[K, V]:
        """A branch for the records that no earlier branch took and for which a function of (key, value) is true."""
        self._add(user_function(predicate, "branch", KEY_VALUE, context=True), name, len(self._node.predicates) + 1)
        return self

    def default_branch(self, name: str | None = None) -> dict[str, KStream[K, V]]:
        """A branch for all other records; all branches by name (a branch without a name by its number, this one 0)."""
        if None in self._node.predicates:
            raise TopologyError(f"default_branch at {caller()}: the split at {self._node.where} has one already")
        self._add(None, name, 0)
        return self._streams

    def no_default_branch(self) -> dict[str, KStream[K, V]]:
        """Other records are dropped; all branches by name (a branch without a name by its number, from 1)."""
        return self._streams

    def _add(self, predicate: UserFunction | None, name: str | None, number: int) -> None:
        from penstock.dsl.kstream import KStream

        graph, own_name = self._stream._graph, name if name is not None else str(number)
        child = names.check_name(self._node.name + own_name)
        graph.names.node(child)  # uses up a number, as in Kafka Streams
        node = nodes.Branch(name=child, parents=(self._node,), where=caller(), index=len(self._node.predicates))
        self._node.predicates.append(predicate)
        stream = self._stream
        self._streams[self._prefix + own_name] = KStream(
            graph, graph.add(node), stream._key, stream._value, stream._repartition_required
        )
