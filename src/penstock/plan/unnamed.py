"""Stores and repartition topics without a user's name: their generated names contain numbers that change with earlier
steps.

``require_names`` refuses them, as `ensure.explicit.internal.resource.naming` does in Kafka Streams (KIP-1111).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from penstock.errors import TopologyError
from penstock.plan import names, nodes
from penstock.plan.node import Node, StoreSpec

_FOREIGN = 'name="..." of the foreign-key join'
_TOPICS = (
    (names.REPARTITION, 'repartition(name="...")'),
    (names.TO_TABLE, 'to_table(name="...")'),
    (names.DEDUPLICATE, 'with_name("...") of Deduplicated'),
    ("KTABLE-FK-JOIN-", _FOREIGN),
)
"""By the prefix of the generated name: what to write to name a repartition topic."""
_GROUPED = 'group_by_key(name="...") or group_by(..., name="...")'
_JOINED = 'joined=Joined.as_("...") or with_name("...") of StreamJoined'


def check_named(declared: tuple[Node, ...], stores: Mapping[Node, StoreSpec]) -> None:
    """Refuse a topology in which a store or a repartition topic has a generated name.

    Raises:
        TopologyError: there are such names; the message lists each with its place and what to write.
    """
    if found := [*_stores(stores.items()), *_topics(declared)]:
        raise TopologyError(
            "require_names is set, but these have generated names. Their numbers change when earlier steps are added "
            "or removed (KIP-1111):\n  "
            + "\n  ".join(found)
            + "\nIf there is state already, the first start under the new "
            "names keeps it with rename={old: new}"
        )


def _stores(stores: Iterable[tuple[Node, StoreSpec]]) -> Iterator[str]:
    for node, spec in stores:
        if not spec.named_by_user and names.is_generated(spec.name):
            yield f"store {spec.name}, made at {node.where}: {node.store_advice}"


def _topics(declared: tuple[Node, ...]) -> Iterator[str]:
    for node in declared:
        if isinstance(node, nodes.Repartition) and names.is_generated(node.topic):
            usual = _GROUPED if "STATE-STORE-" in node.topic else _JOINED
            advice = next((said for prefix, said in _TOPICS if node.topic.startswith(prefix)), usual)
            yield f"repartition topic {node.topic}, made at {node.where}: {advice}"
