"""Steps of the Processor API: a user's processor after a stream, and the stores that it is connected to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.dsl.graph import Graph, Handle
from penstock.dsl.results import forwarded_type
from penstock.plan import names, nodes
from penstock.plan.defaults import DEFAULT_KEY, DEFAULT_VALUE
from penstock.plan.functions import caller, check_type
from penstock.plan.processors import checked_builder, own_stores, processor_function


def process(stream: Handle, supplier: Any, stores: Sequence[str], key: Any, value: Any, name: str | None) -> Handle:
    """A processor that may forward anything."""
    node = nodes.Process(
        name=stream.graph.names.node_or_next(names.PROCESSOR, name),
        parents=(stream.node,),
        where=caller(),
        supplier=processor_function(supplier, "process"),
        key=forwarded_type(key, stream.key, DEFAULT_KEY),
        value=forwarded_type(value, stream.value, DEFAULT_VALUE),
        store_names=store_names(stream.graph, supplier, stores, "process"),
    )
    return Handle(stream.graph, stream.graph.add(node), node.key, node.value, repartition_required=True)


def process_values(stream: Handle, supplier: Any, stores: Sequence[str], value: Any, name: str | None) -> Handle:
    """A processor that leaves keys as they are."""
    node = nodes.ProcessValues(
        name=stream.graph.names.node_or_next(names.PROCESS_VALUES, name),
        parents=(stream.node,),
        where=caller(),
        supplier=processor_function(supplier, "process_values"),
        key=stream.key,
        value=forwarded_type(value, stream.value, DEFAULT_VALUE),
        store_names=store_names(stream.graph, supplier, stores, "process_values"),
    )
    return Handle(stream.graph, stream.graph.add(node), node.key, node.value, stream.repartition_required)


def store_names(graph: Graph, supplier: Any, stores: Sequence[str], method: str) -> list[str]:
    """Return the stores of a step: the named ones, and the supplier's own, which are added."""
    for store in stores:
        check_type(store, str, f"a store of {method}", "name it here, and add it with builder.add_state_store(...)")
    own = [add_store(graph, builder, f"{method}: stores() of the supplier") for builder in own_stores(supplier)]
    return list(dict.fromkeys([*stores, *own]))


def add_store(graph: Graph, builder: Any, what: str = "add_state_store") -> str:
    """Add the store of a builder, and return its name. The same builder may be added again.

    Raises:
        TopologyError: it is not a builder of a store, or another store has its name.
    """
    spec = checked_builder(builder, graph.builders, what)
    graph.stores.setdefault(spec.name, spec)
    return spec.name
