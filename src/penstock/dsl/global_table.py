"""A global table: the newest value of every key of a topic, all of it in every task (GlobalKTable)."""

from __future__ import annotations

from typing import Generic

from penstock.dsl.graph import K, V, shown
from penstock.plan import nodes
from penstock.serdes import Serde
from penstock.usage.java_names import KafkaNames


class GlobalKTable(KafkaNames, Generic[K, V]):
    """A table that every task has completely, so that a stream can be joined with it by any key.

    New records of its topic count from the next batch on.

    >>> from penstock import StreamsBuilder
    >>> builder = StreamsBuilder()
    >>> airports = builder.global_table("airports", value=str)
    >>> builder.stream("flights").join(airports, lambda flight, city: {**flight, "to": city},
    ...                                key_selector=lambda key, flight: flight["to"]).to("out")
    """

    def __init__(self, node: nodes.GlobalTable, key: Serde, value: Serde):
        self._node = node
        self._key = key
        self._value = value

    @property
    def queryable_store_name(self) -> str | None:
        """The name of its store, for ``streams.store(...)``."""
        return self._node.store.name

    def __repr__(self) -> str:
        return shown(type(self).__name__, self._key, self._value, self._node)
