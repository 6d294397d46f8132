"""Where the rows of a key are: its partition, and the machines that have it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.arrays import partitions
from penstock.columns.batch import why_no_headers
from penstock.engine.shared.formats import formats_of
from penstock.engine.shared.layout import Layout
from penstock.engine.shared.places import KeyQueryMetadata, Places, slot_of
from penstock.errors import ConfigError
from penstock.messages import nearest, show
from penstock.plan.sinks import Partitioner, partitioner_of
from penstock.plan.topology import Topology

Headers = Iterable[tuple[str, bytes]]
_METHOD = "query_metadata_for_key"


def key_metadata(
    topology: Topology,
    layout: Layout,
    places: Places | None,
    store: str,
    key: Any,
    partitioner: Partitioner | None,
    headers: Headers,
) -> KeyQueryMetadata:
    """Return where the rows of a key are in a store.

    Args:
        partitioner: the partitioner of the store's records, if it was not Kafka's. It gets None for the value.
        headers: for a partitioner that takes them (KIP-1321).

    Raises:
        ConfigError: there is no such store, the key is None, or the partitioner does not give one partition.
    """
    formats = formats_of(topology)
    if store not in formats:
        raise ConfigError(f"{_METHOD}: there is no store {store!r}{nearest(str(store), list(formats))}")
    if formats[store].is_everywhere:
        return KeyQueryMetadata(-1, None)
    if key is None:
        raise ConfigError(f"{_METHOD}: the store {store!r} has no row whose key is None; give a key")
    sub = formats[store].sub
    partition = None
    if partitioner is not None:
        topics = next(one.source_topics for one in topology.sub_topologies if one.id == sub)
        topic = max(topics, key=lambda one: layout.partitions.get(one, 0))
        partition = _chosen(partitioner, topic, key, headers, layout.tasks[sub])
    if partition is None:
        serde = topology.facts.named()[store].types[0]
        partition = int(partitions(serde.routing(serde.encode_all([key])), layout.tasks[sub], 0)[0])
    slots = [] if places is None else places.slots
    place = slots[slot_of(f"{sub}_{partition}", len(slots))] if slots else None
    return KeyQueryMetadata(partition, place, (place.copy,) if place is not None and place.copy else ())


def _chosen(partitioner: Partitioner, topic: str, key: Any, headers: Headers, count: int) -> int | None:
    """The partition that a partitioner gives; None for the choice of Kafka's."""
    function = partitioner_of(partitioner, _METHOD)
    assert function is not None
    given = tuple(headers)
    if problem := why_no_headers(given):
        raise ConfigError(f"{_METHOD}: {problem}")
    forms: dict[int, tuple[Any, ...]] = {
        3: (key, None, count),
        4: (topic, key, None, count),
        5: (topic, key, None, given, count),
    }
    found: Any = function.call(*forms[function.arity])
    if found is None or found == -1:
        return None
    one = found if isinstance(found, int) else next(iter(found), None) if len(found) == 1 else None
    if type(one) is not int or not 0 <= one < count:
        raise ConfigError(
            f"{_METHOD}: the partitioner {function.name} must give one partition from 0 to {count - 1}, or None for "
            f"Kafka's own choice; got {show(found)}"
        )
    return one
