"""Joins of streams with streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.dsl.graph import Handle, StreamHandle
from penstock.dsl.joins import JOINER, METHODS, check_sides
from penstock.dsl.results import joined_type
from penstock.dsl.store_builder import StoreSupplier, Supplier, facts_of
from penstock.dsl.stream_joined import StreamJoined
from penstock.dsl.windows import JoinWindows
from penstock.errors import ConfigError
from penstock.plan import names, nodes
from penstock.plan.functions import caller, check_type, user_function
from penstock.plan.names import check_name
from penstock.plan.node import ROWS, StoreSpec
from penstock.plan.options import said_once
from penstock.plan.own_windows import refuse_ignored
from penstock.serdes import BYTES, Serde


def join_streams(
    kind: str,
    left: StreamHandle,
    right: StreamHandle,
    joiner: Callable[..., Any],
    windows: JoinWindows | None,
    joined: StreamJoined | None,
    value: Any,
    name: str | None,
    retention_ms: int | None = None,
) -> Handle:
    """Join two streams in time windows."""
    method, graph = METHODS[kind], left.graph
    turned = isinstance(joiner, JoinWindows)
    hint = "the joiner comes first" if turned else "such as JoinWindows.of_time_difference_with_no_grace(...)"
    check_type(windows, JoinWindows, f"the windows of {method}", f"{hint}: {method}(other, joiner, windows)")
    assert windows is not None
    refuse_ignored(windows, method)
    windows = windows if retention_ms is None else windows._kept_for(retention_ms)
    given = said_once(method, "stream_joined", joined, StreamJoined(name=name))
    key = given.key or left.key
    check_sides(method, graph, right.graph, key, given.key or right.key)
    function = user_function(joiner, method, *JOINER, context=True)
    one = _Side(left, given.name and f"{given.name}-left", key, given.value or left.value)
    other = _Side(right, given.name and f"{given.name}-right", key, given.other_value or right.value)
    node = _node(
        kind,
        one,
        other,
        given,
        windows=windows,
        joiner=function,
        value=joined_type(value, function, one.value, other.value),
    )
    return left.next(node, key, node.value)


class _Side:
    """One side, repartitioned if necessary."""

    def __init__(self, stream: StreamHandle, repartition: str | None, key: Serde, value: Serde):
        self.graph = stream.graph
        self.key = key
        self.value = value
        self.node = stream.for_join(repartition, key, value)

    def window(
        self,
        name: str,
        store: str,
        given: StreamJoined,
        windows: JoinWindows,
        supplier: Supplier | StoreSupplier | None,
    ) -> nodes.JoinWindow:
        """The step that stores this side's records."""
        facts: dict[str, Any] = {"kind": given.kind, "suppliers": given.suppliers}
        if supplier is not None:
            store, facts = supplier.name, _facts(supplier, windows)
        spec = StoreSpec(
            name=store, named_by_user=supplier is not None, caching=False, key=self.key, value=self.value, **facts
        )
        node = nodes.JoinWindow(
            name=name, parents=(self.node,), where=caller(), windows=windows, value=self.value, store=spec
        )
        return self.graph.add(node)


def _node(
    kind: str, one: _Side, other: _Side, given: StreamJoined, windows: JoinWindows, joiner: Any, value: Serde
) -> nodes.StreamJoin:
    graph, name = one.graph, given.name
    is_left, is_outer = kind != nodes.INNER, kind == nodes.OUTER
    this_suffix = "-outer-this-join" if is_outer else "-this-join"
    other_suffix = "-outer-other-join" if is_left else "-other-join"
    windowed = [graph.names.suffixed(name, f"-{side}-windowed", names.STREAM_WINDOWED) for side in ("this", "other")]
    this_made = graph.names.node(names.STREAM_OUTER_THIS if is_outer else names.STREAM_JOIN_THIS)
    other_made = graph.names.node(names.STREAM_OUTER_OTHER if is_left else names.STREAM_JOIN_OTHER)
    merge = graph.names.suffixed(name, "-merge", names.MERGE)
    stores = this_made, other_made
    if given.store is not None:
        stores = check_name(given.store + this_suffix), check_name(given.store + other_suffix)
    this, that = given.this_supplier, given.other_supplier
    if this is not None and that is not None and this.name == that.name:
        raise ConfigError(f"both stores of a join are called {this.name!r}; give each its own name")
    left = one.window(windowed[0], f"{stores[0]}-store", given, windows, this)
    right = other.window(windowed[1], f"{stores[1]}-store", given, windows, that)
    return nodes.StreamJoin(
        name=merge,
        parents=(one.node, other.node),
        where=caller(),
        kind=kind,
        joiner=joiner,
        windows=windows,
        left=left,
        right=right,
        this_name=this_made if name is None else check_name(name + this_suffix),
        other_name=other_made if name is None else check_name(name + other_suffix),
        key=one.key,
        value=value,
        store=_waiting(kind, given, this_made),
    )


def _facts(supplier: Supplier | StoreSupplier, windows: JoinWindows) -> dict[str, Any]:
    """The facts of a side's store by its supplier; they must fit the join's windows, as in Kafka Streams."""
    told = facts_of(supplier)
    size, retention = windows.size_ms, windows.size_ms + windows.grace_period_ms
    if (told["window_size"], told["retention"]) != (size, retention):
        raise ConfigError(
            f"the store {supplier.name!r} has windows of {told['window_size']} ms and a retention of "
            f"{told['retention']} ms, but the join at {caller()} needs {size} ms and {retention} ms: give its supplier "
            "this window size and this retention period"
        )
    return {
        "kind": told.get("kind", "persistent"),
        "is_chosen": True,
        "supplier": None if isinstance(supplier, Supplier) else supplier,
        "headers": ROWS if getattr(supplier, "keeps_headers", False) else None,
    }


def _waiting(kind: str, given: StreamJoined, this_made: str) -> StoreSpec | None:
    """The store of records that wait for a partner."""
    if kind == nodes.INNER:
        return None
    supplier = given.this_supplier
    named = given.store if supplier is None else supplier.name
    if named is not None:
        name = named + ("-outer-shared-join" if kind == nodes.OUTER else "-left-shared-join")
    else:
        made = names.STREAM_OUTER_THIS if kind == nodes.OUTER else names.STREAM_JOIN_THIS
        name = names.STREAM_OUTER_SHARED + this_made.removeprefix(made)
    return StoreSpec(
        name=check_name(f"{name}-store"),
        named_by_user=False,
        kind=given.kind if supplier is None else facts_of(supplier).get("kind", "persistent"),
        is_chosen=supplier is not None,
        suppliers=given.suppliers,
        caching=False,
        key=BYTES,
        value=BYTES,
    )
