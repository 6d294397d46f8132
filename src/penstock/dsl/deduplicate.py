"""The three deduplications of a stream (KIP-655): by key, by key and id, by id across all partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.dsl.deduplicated import Deduplicated
from penstock.dsl.functions import KEY_VALUE
from penstock.dsl.graph import Handle
from penstock.dsl.results import said_type
from penstock.dsl.stream import repartition_node
from penstock.errors import ConfigError
from penstock.plan import names, nodes
from penstock.plan.aggregates.reading import field_type
from penstock.plan.fields import Field, field
from penstock.plan.functions import UserFunction, caller, check_topic, user_function
from penstock.plan.node import Node, StoreSpec
from penstock.serdes import INT, JSON, Serde
from penstock.serdes.pair import PairSerde
from penstock.values.durations import Duration, to_ms

Selector = Callable[..., Any] | str


def deduplicate_by_key(
    stream: Handle, interval: Duration, deduplicated: Deduplicated | None, dropped_to: str | None
) -> Handle:
    """Add the steps of ``KStream.deduplicate_by_key``."""
    step = _Step(stream, "deduplicate_by_key", interval, deduplicated, dropped_to)
    key, value = step.given.key or stream.key, step.given.value or stream.value
    node = step.node(step.co_partitioned(key, value), key)
    return step.results(node, key, value, False)


def deduplicate_by_key_value(
    stream: Handle,
    id_selector: Selector,
    interval: Duration,
    deduplicated: Deduplicated | None,
    dropped_to: str | None,
) -> Handle:
    """Add the steps of ``KStream.deduplicate_by_key_value``."""
    step = _Step(stream, "deduplicate_by_key_value", interval, deduplicated, dropped_to)
    selector, id_type = step.selector(id_selector)
    key, value = stream.key, step.given.value or stream.value
    node = step.node(step.co_partitioned(key, value), key, selector, id_type)
    return step.results(node, key, value, False)


def deduplicate(
    stream: Handle,
    id_selector: Selector,
    interval: Duration,
    deduplicated: Deduplicated | None,
    dropped_to: str | None,
) -> Handle:
    """Add the steps of ``KStream.deduplicate``: use the ids as keys, repartition, and restore the keys."""
    step = _Step(stream, "deduplicate", interval, deduplicated, dropped_to)
    selector, id_type = step.selector(id_selector)
    key, value = stream.key, step.given.value or stream.value
    pairs = PairSerde(key, value)
    by_id = nodes.KeyById(
        name=step.graph.names.suffixed(step.given.name, "-by-id", names.SELECT_KEY),
        parents=(stream.node,),
        where=caller(),
        id_selector=selector,
        key=key,
        id=id_type,
        value=pairs,
    )
    repartition = repartition_node(step.graph, step.graph.add(by_id), step.name, id_type, pairs, keeps_null_keys=True)
    node = step.node(step.graph.add(repartition), id_type)
    return step.results(node, key, value, True)


class _Step:
    """A deduplication being built: its checked arguments, and its names."""

    def __init__(
        self,
        stream: Handle,
        method: str,
        interval: Duration,
        deduplicated: Deduplicated | None,
        dropped_to: str | None,
    ):
        if deduplicated is not None and not isinstance(deduplicated, Deduplicated):
            raise ConfigError(f"{method} at {caller()}: deduplicated must be a Deduplicated, got {deduplicated!r}")
        self.stream = stream
        self.graph = stream.graph
        self.method = method
        self.interval = to_ms(interval, f"the interval of {method} at {caller()}")
        self.given = deduplicated or Deduplicated()
        if dropped_to is not None:
            check_topic(dropped_to, f"the topic dropped_to= of {method}")
        self.dropped_to = dropped_to
        self.name = self.graph.names.node(names.DEDUPLICATE, self.given.name)

    def selector(self, given: Selector) -> tuple[UserFunction | Field, Serde]:
        """The selector, and the type of its ids: the given one, else the annotated one, else any JSON value."""
        if isinstance(given, str):
            named = field(given, self.method, self.stream.value)
            field_type(given, f"{self.method} at {named.where}", self.stream.value)
            return named, self.given.key or JSON
        hint = 'a field of the value is given as text: "id"'
        function = user_function(given, self.method, KEY_VALUE, hint=hint, context=True)
        return function, said_type(self.given.key, function.returns(), JSON)

    def co_partitioned(self, key: Serde, value: Serde) -> Node:
        """The stream, repartitioned by key if its keys were changed."""
        if not self.stream.repartition_required:
            return self.stream.node
        return self.graph.add(repartition_node(self.graph, self.stream.node, self.name, key, value))

    def node(
        self, parent: Node, key: Serde, selector: UserFunction | Field | None = None, id_: Serde | None = None
    ) -> nodes.Deduplicate:
        """The deduplication step, by key or by key and id."""
        store = StoreSpec(
            name=self.given.store_name or self.graph.names.store(names.DEDUPLICATE),
            named_by_user=self.given.store_name is not None,
            caching=False,
            key=key if id_ is None else PairSerde(key, id_),
            value=INT,
        )
        return self.graph.add(
            nodes.Deduplicate(
                name=self.name,
                parents=(parent,),
                where=caller(),
                interval=self.interval,
                id_selector=selector,
                key=key,
                id=id_,
                store=store,
                dropped_to=self.dropped_to,
            )
        )

    def results(self, node: nodes.Deduplicate, key: Serde, value: Serde, is_global: bool) -> Handle:
        """The stream of results; duplicates go to their topic, if one is given."""
        if self.dropped_to is None:
            return self._restored(node, key, value, is_global)
        kept, dropped = (
            self.graph.add(nodes.Branch(name=f"{node.name}-{result}", parents=(node,), where=caller(), index=index))
            for index, result in enumerate(("kept", "dropped"))
        )
        left_out = self._restored(dropped, key, value, is_global)
        sink = self.graph.names.node(names.SINK)
        self.graph.add(
            nodes.Sink(name=sink, parents=(left_out.node,), where=caller(), topic=self.dropped_to, key=key, value=value)
        )
        return self._restored(kept, key, value, is_global)

    def _restored(self, node: Node, key: Serde, value: Serde, is_global: bool) -> Handle:
        """A stream of the node's records under their own keys; a global deduplication is not partitioned by these."""
        if is_global:
            name = self.graph.names.node(names.RESTORE_KEY)
            node = self.graph.add(nodes.RestoreKey(name=name, parents=(node,), where=caller(), key=key, value=value))
        return Handle(self.graph, node, key, value, is_global)
