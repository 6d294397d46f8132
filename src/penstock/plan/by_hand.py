"""Topologies built step by step: sources, processors and sinks by name (``Topology.addSource`` and its like)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Self

from penstock.errors import TopologyError
from penstock.plan import nodes
from penstock.plan.defaults import DEFAULT_KEY, DEFAULT_VALUE, left_open
from penstock.plan.functions import caller, check_type
from penstock.plan.names import check_name
from penstock.plan.node import Node, StoreSpec
from penstock.plan.processors import checked_builder, own_stores, processor_function
from penstock.plan.sinks import sink_node
from penstock.plan.sources import pattern_of
from penstock.plan.timestamps import timestamp_of
from penstock.processor import FixedKeyProcessor
from penstock.serdes import Serde, of
from penstock.usage.java_names import KafkaNames
from penstock.values.offset_reset import AutoOffsetReset


class Declarations(KafkaNames):
    """The steps of a topology; more can be added until the topology is used."""

    def __init__(self, declared: Iterable[Node] = (), stores: Iterable[StoreSpec] = ()):
        self._declared = list(declared)
        self._stores = {spec.name: spec for spec in stores}
        self._builders: dict[str, Any] = {}
        self._told: set[str] = set()
        """The warnings that were given of these steps."""

    def add_source(
        self,
        name: str,
        *topics: Any,
        key: Any = None,
        value: Any = None,
        timestamp: Any = None,
        offset_reset: Any = None,
    ) -> Self:
        """Add a source, which reads the records of some topics.

        Args:
            name: the source's name, for the steps after it.
            topics: the names of the topics, or one ``re.compile(...)`` for all topics whose names match.
            key: the type of the keys; ``str`` by default.
            value: the type of the values; by default any JSON.
            timestamp: a function of (value) or (key, value) that returns the time of a record in milliseconds, or a
                ``TimestampExtractor``.
            offset_reset: where an application begins that has not read the topic yet: ``"earliest"``, ``"latest"``,
                ``"none"``, a ``timedelta``, a ``datetime`` or an ``AutoOffsetReset``.

        Raises:
            TopologyError: there is no topic, or another step has this name.
        """
        if not topics:
            raise TopologyError(f"add_source at {caller()}: the source {name!r} must have at least one topic")
        pattern = pattern_of(topics[0]) if len(topics) == 1 else None
        for topic in () if pattern else topics:
            check_type(topic, str, "a topic of add_source")
            self._check_unread(topic, topics)
        return self._add(
            nodes.StreamSource(
                name=self._new_name(name, "add_source"),
                where=caller(),
                topics=() if pattern else topics,
                pattern=pattern,
                key=DEFAULT_KEY if key is None else of(key, "key"),
                value=DEFAULT_VALUE if value is None else of(value, "value"),
                timestamp=timestamp_of(timestamp, DEFAULT_VALUE if value is None else of(value, "value")),
                offset_reset=None if offset_reset is None else AutoOffsetReset.of(offset_reset),
            )
        )

    def add_processor(self, name: str, supplier: Any, *parents: str, key: Any = None, value: Any = None) -> Self:
        """Add a processor after other steps.

        Args:
            name: the processor's name, which an earlier processor can use in ``forward(record, child=name)``.
            supplier: a ``Processor`` class, a ``ProcessorSupplier`` (its stores are added and connected), a function
                that returns a new processor, or a function of (record, context). A ``FixedKeyProcessor`` class keeps
                keys. All others may change keys, so a store after them causes a ``PartitioningWarning``.
            parents: the names of the steps whose records it gets.
            key: the type of the keys that it forwards; by default that of its first parent.
            value: the type of the values.

        Raises:
            TopologyError: a parent does not exist, another step has this name, or the supplier is none of these.
        """
        above = self._parents(name, parents, "add_processor")
        own = [self._add_store(builder) for builder in own_stores(supplier)]
        keeps_keys = key is None and isinstance(supplier, type) and issubclass(supplier, FixedKeyProcessor)
        return self._add(
            (nodes.ProcessValues if keeps_keys else nodes.Process)(
                name=self._new_name(name, "add_processor"),
                parents=above,
                where=caller(),
                supplier=processor_function(supplier, "add_processor"),
                key=_type_of(above[0], "key", key, name),
                value=_type_of(above[0], "value", value, name),
                store_names=own,
                is_by_hand=True,
            )
        )

    def add_sink(
        self, name: str, topic: Any, *parents: str, key: Any = None, value: Any = None, partitioner: Any = None
    ) -> Self:
        """Add a sink, which writes the records of other steps into a topic. Penstock creates the topic if it does not
        exist.

        Args:
            topic: the topic, or a function of (key, value) or (key, value, context) that returns the topic of each
                record.
            key: the type of the topic's keys; by default the type of the first parent's keys.
            value: the type of its values.
            partitioner: a function of (topic, key, value, partitions) that returns the partition of a record, as for
                ``KStream.to``.

        Raises:
            TopologyError: a parent does not exist, or another step has this name.
        """
        above = self._parents(name, parents, "add_sink")
        types = _type_of(above[0], "key", key, name), _type_of(above[0], "value", value, name)
        return self._add(sink_node(self._new_name(name, "add_sink"), above, topic, types, partitioner, create=True))

    def add_state_store(self, builder: Any, *processors: str) -> Self:
        """Add a store, and connect processors with it.

        Args:
            builder: the result of ``Stores.key_value_store_builder`` or a similar function.
            processors: the names of processors that you have added before.

        Raises:
            TopologyError: the builder is not valid, another store has its name, or there is no such processor.
        """
        store = self._add_store(builder)
        for processor in processors:
            self.connect_processor_and_state_stores(processor, store)
        return self

    def add_global_store(
        self,
        builder: Any,
        source_name: str,
        topic: str,
        processor_name: str,
        supplier: Any,
        key: Any = None,
        value: Any = None,
        timestamp: Any = None,
    ) -> Self:
        """Add a store that every task has completely, and the processor that fills it with a topic's records.

        All processors can read the store without a connection to it; only this processor writes it.

        Args:
            builder: the builder of the store.
            source_name: the name of the source.
            topic: the topic, which all tasks read completely.
            processor_name: the name of the processor.
            supplier: the processor's class or supplier; it gets the topic's records and puts into the store.
            key: the type of the topic's keys; ``str`` by default.
            value: the type of its values; by default any JSON.
            timestamp: the times of its records, as for ``add_source``.

        Raises:
            TopologyError: the builder or the supplier is not valid, or a step or another store has one of the names.
        """
        method = "add_global_store"
        check_type(topic, str, f"the topic of {method}")
        spec = checked_builder(builder, self._builders, method)
        values = DEFAULT_VALUE if value is None else of(value, "value")
        return self._add(
            nodes.GlobalStore(
                name=self._new_name(processor_name, method),
                where=caller(),
                topic=topic,
                source_name=self._new_name(source_name, method),
                key=DEFAULT_KEY if key is None else of(key, "key"),
                value=values,
                timestamp=timestamp_of(timestamp, values),
                store=replace(spec, caching=False),
                supplier=processor_function(supplier, method),
            )
        )

    def add_read_only_state_store(
        self,
        builder: Any,
        source_name: str,
        topic: str,
        processor_name: str,
        supplier: Any,
        key: Any = None,
        value: Any = None,
        timestamp: Any = None,
    ) -> Self:
        """Add a store that is kept from a topic, partition by partition (KIP-813).

        Its processor puts the topic's records into it, from the start of the topic. Connect other processors with
        ``connect_processor_and_state_stores``; they must only read the store.

        Args:
            builder: the builder of the store.
            source_name: the name of the source.
            topic: the topic.
            processor_name: the name of the processor.
            supplier: the processor's class or supplier, which puts the records into the store.
            key: the type of the topic's keys; ``str`` by default.
            value: the type of its values; by default any JSON.
            timestamp: the times of its records, as for ``add_source``.

        Raises:
            TopologyError: the builder or the supplier is not valid, or a step or another store has one of the names.
        """
        self.add_source(source_name, topic, key=key, value=value, timestamp=timestamp, offset_reset="earliest")
        self.add_processor(processor_name, supplier, source_name)
        return self.add_state_store(builder, processor_name)

    def connect_processor_and_state_stores(self, processor: str, *stores: str) -> Self:
        """Connect a processor with stores: added stores, and the stores of tables.

        Raises:
            TopologyError: there is no such processor, or no store was named.
        """
        node = self._named(processor)
        if not isinstance(node, nodes.Process):
            has = ", ".join(repr(one.name) for one in self._declared if isinstance(one, nodes.Process)) or "none"
            raise TopologyError(
                f"connect_processor_and_state_stores at {caller()}: there is no processor {processor!r}; the "
                f"processors are {has}"
            )
        if not stores:
            raise TopologyError(
                f"connect_processor_and_state_stores at {caller()} needs the name of at least one store"
            )
        node.store_names.extend(store for store in stores if store not in node.store_names)
        self._changed()
        return self

    # --- inside --------------------------------------------------------------------------------------------------

    def _add(self, node: Node) -> Self:
        self._declared.append(node)
        self._changed()
        return self

    def _add_store(self, builder: Any) -> str:
        spec = checked_builder(builder, self._builders, "add_state_store")
        self._stores.setdefault(spec.name, spec)
        self._changed()
        return spec.name

    def _check_unread(self, topic: str, topics: tuple[str, ...]) -> None:
        """Raise ``TopologyError`` for a topic that another source reads, or this one twice, as Kafka Streams does."""
        other = next((node for node in self._declared if topic in node.source_topics), None)
        if other is not None:
            raise TopologyError(
                f"add_source at {caller()}: the source {other.name!r} at {other.where} reads topic {topic!r} already; "
                f"name {other.name!r} as the parent of further steps"
            )
        if topics.count(topic) > 1:
            raise TopologyError(f"add_source at {caller()}: topic {topic!r} is named twice; name it once")

    def _changed(self) -> None:
        """Discard everything derived from the steps, to be derived again."""

    def _named(self, name: str) -> Node | None:
        return next((node for node in self._declared if node.name == name), None)

    def _new_name(self, name: str, method: str) -> str:
        check_name(name)
        other = self._named(name)
        if other is not None:
            raise TopologyError(f"{method} at {caller()}: a step {name!r} is there already, from {other.where}")
        return name

    def _parents(self, name: str, parents: Sequence[str], method: str) -> tuple[Node, ...]:
        found = [(parent, self._named(parent)) for parent in parents]
        has = ", ".join(repr(node.name) for node in self._declared) or "none"
        for parent, node in found:
            if node is None or isinstance(node, nodes.Sink):
                raise TopologyError(
                    f"{method} at {caller()}: there is no step {parent!r}, which is a parent of {name!r}; the steps "
                    f"are {has}"
                )
        if not found:
            raise TopologyError(
                f"{method} at {caller()}: {name!r} needs the name of a parent step; the steps are {has}"
            )
        return tuple(node for _, node in found if node is not None)


def _types_of(node: Node) -> dict[str, Serde | None]:
    """The types of a step's results, as far as the step declares them."""
    key, value = (None, None) if node.store is None else (node.store.key, node.store.value)
    return {"key": node.key or key, "value": node.value or value}


def _type_of(node: Node, side: str, given: Any, name: str) -> Serde:
    """The type of a step's keys or values: the given one, or that of the step before it."""
    if given is not None:
        return of(given, side)
    above: Node | None = node
    while above is not None:
        if above.windows is not None:
            break
        found = _types_of(above)[side]
        if found is not None:
            return left_open(DEFAULT_KEY if side == "key" else DEFAULT_VALUE, found, found)
        above = above.parents[0] if above.parents else None
    raise TopologyError(
        f"{name!r} at {caller()}: the type of the {side}s does not follow from {node.name!r}; give {side}="
    )
